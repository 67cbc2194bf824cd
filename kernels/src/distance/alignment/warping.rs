//! Dynamic time warping: the least sum of differences of two series when each number may be held for several steps (H. Sakoe, S. Chiba,
//! "Dynamic programming algorithm optimization for spoken word recognition", IEEE Trans. ASSP 26(1), 1978).
//!
//! Sums are of f32, in an order that the table alone determines: a distance has the same bits on every path, and in either order of
//! the series.

use super::compare::{Compare, Compared, work};
use super::letters;
use super::stripes::Recurrence;
use crate::CodePath;
use crate::distance::{Distance, DistanceError, Properties, Slack};
use crate::interrupt::{Interrupt, Interrupted, never};
use crate::lanes::steps::Steps;

/// The unit of a rounding to f32, relative to the number.
const ROUNDING: f64 = 1.0 / (1 << 24) as f64;

/// The distance of series by dynamic time warping: the sum of |a - b| along the best path through the table of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dtw {
    band: Option<usize>,
}

impl Dtw {
    /// The distance. With a `band`, places that are compared are at most that far apart; series whose lengths differ by more have
    /// the distance infinity.
    pub const fn new(band: Option<usize>) -> Self {
        Self { band }
    }

    /// The distances of a series from each of some series.
    ///
    /// # Errors
    /// When the caller interrupts; `out` is then unspecified.
    ///
    /// # Panics
    /// When `series` and `out` differ in length.
    pub fn to_each(
        &self,
        path: CodePath,
        from: &[f32],
        series: &[&[f32]],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), Interrupted> {
        assert_eq!(series.len(), out.len(), "a distance a series");
        let lengths: Vec<usize> = series.iter().map(|series| series.len()).collect();
        let columns = series.concat();
        let compared =
            Compared { rows: from, columns: &columns, lengths: &lengths, padding: [0.0; 2], table: None };
        let give = &mut |place: usize, last: f32, _| out[place] = f64::from(last);
        match self.band {
            None => Compare { recurrence: Warping::<false>(usize::MAX), compared, give, interrupt }.run(path),
            Some(band) => Compare { recurrence: Warping::<true>(band), compared, give, interrupt }.run(path),
        }
    }
}

impl Distance for Dtw {
    type Object<'a> = &'a [f32];

    fn properties(&self) -> Properties {
        Properties::none("dtw")
    }

    fn slack(&self, dimensions: usize, _extent: f64) -> Slack {
        // A difference and a sum are rounded at each of at most two steps a number.
        Slack { relative: (2.0 * dimensions as f64 + 4.0) * ROUNDING, ..Slack::EXACT }
    }

    fn check(&self, object: &[f32]) -> Result<(), DistanceError> {
        // The largest sum, of series that are as long as this one, stays finite.
        let most = f32::MAX / (4 * object.len() + 4) as f32;
        for (place, value) in object.iter().enumerate() {
            if !value.is_finite() {
                return Err(DistanceError::NotFinite { place, value: *value });
            }
            if value.abs() > most {
                return Err(DistanceError::TooLarge { place, value: *value, most });
            }
        }
        Ok(())
    }

    fn distance(&self, a: &[f32], b: &[f32]) -> f64 {
        let mut out = [0.0];
        let compared = self.to_each(CodePath::detect(), a, &[b], &mut out, &never);
        compared.expect("never interrupted");
        out[0]
    }

    fn reference(&self, a: &[f32], b: &[f32]) -> f64 {
        let (band, columns, mut cells) = (self.band.unwrap_or(usize::MAX), b.len().max(1), 0);
        let edge = |place: usize| if place == 0 { 0.0 } else { f64::INFINITY };
        letters::reference([a, b], edge, edge, |a, b, [corner, up, left]| {
            let (row, column) = (cells / columns, cells % columns);
            cells += 1;
            match row.abs_diff(column) <= band {
                true => (f64::from(a) - f64::from(b)).abs() + corner.min(up).min(left),
                false => f64::INFINITY,
            }
        })
    }
}

/// The recurrence D(i, j) = |a - b| + min(D(i-1, j-1), D(i-1, j), D(i, j-1)), with the band.
#[derive(Clone, Copy)]
pub(super) struct Warping<const IS_BANDED: bool>(usize);

work!(f32, Warping<false>);
work!(f32, Warping<true>);

impl<S: Steps<f32>, const IS_BANDED: bool> Recurrence<f32, S> for Warping<IS_BANDED> {
    const IS_BANDED: bool = IS_BANDED;

    #[inline(always)]
    fn left(self, row: usize) -> f32 {
        if row == 0 { 0.0 } else { f32::INFINITY }
    }
    #[inline(always)]
    fn top(self, column: usize) -> f32 {
        if column == 0 { 0.0 } else { f32::INFINITY }
    }
    #[inline(always)]
    fn cost(self, s: S, row: S::T, column: S::T) -> S::T {
        s.greater(s.minus(row, column), s.minus(column, row))
    }
    #[inline(always)]
    fn cell(self, s: S, cost: S::T, corner: S::T, up: S::T, left: S::T) -> S::T {
        s.plus(cost, s.lesser(s.lesser(corner, left), up))
    }
    #[inline(always)]
    fn band(self) -> usize {
        self.0
    }
    #[inline(always)]
    fn in_band(self, s: S, cost: S::T, below: S::T) -> S::T {
        let zero = s.every(0.0);
        let far = s.greater(below, s.minus(zero, below));
        // Above 0 outside the band. Infinity as a cost leads no path through the cell.
        let beyond = s.greater(s.minus(far, s.every(self.0 as f32)), zero);
        s.plus(cost, s.unequal(beyond, zero, s.every(f32::INFINITY)))
    }
    #[inline(always)]
    fn outside(self) -> f32 {
        f32::INFINITY
    }
}
