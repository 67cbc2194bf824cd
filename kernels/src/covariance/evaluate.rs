//! Covariances of many points with others, in loops that the compiler turns into vectors.
//!
//! All steps are computed once more for the sample itself, if `white` counts there.

use std::ops::Range;

use super::expression::{Expression, Form};
use super::points::Points;
use super::values::{Held, Pairs, Scratch, values};
use crate::CodePath;
use crate::lanes::{Lanes, Work, run};

impl Expression {
    /// Whether the covariance of a sample with itself is another than with a sample at its place.
    pub(super) fn has_white(&self) -> bool {
        self.parts.iter().any(|part| part.form == Form::White)
    }

    /// Whether covariances depend on differences of points alone, so that the diagonal is one number.
    fn is_stationary(&self) -> bool {
        self.parts.iter().all(|part| part.form != Form::Linear)
    }

    /// The covariances of the points of `rows` with one point. `same` is the row that is the same sample as this point, and not only
    /// at the same place: `white` counts there.
    ///
    /// # Panics
    /// When `out` has not a number for each row, or dimensions differ.
    pub fn column(
        &self,
        (points, rows): (&Points, Range<usize>),
        with: &[f64],
        same: Option<usize>,
        scratch: &mut Scratch,
        out: &mut [f64],
    ) {
        assert!(out.len() == rows.len() && with.len() == points.dimensions(), "a number for each row");
        let same = same.filter(|row| self.has_white() && rows.contains(row));
        scratch.fit(self.steps.len());
        let pairs = Pairs::of_one(points, rows, with);
        run(CodePath::detect(), Column { expression: self, pairs, same, scratch, out });
    }

    /// Writes tile (i, j), j <= i, of `size` rows and columns, of the lower half of the matrix of covariances of all points, by columns:
    /// entries below and on the diagonal, to which `added` is added. Places beyond the last point stay.
    ///
    /// # Panics
    /// When the tile has not size * size numbers.
    pub fn tile(&self, points: &Points, size: usize, (i, j): (usize, usize), added: f64, tile: &mut [f64]) {
        assert_eq!(tile.len(), size * size, "a tile of {size} rows");
        let mut scratch = Scratch::default();
        scratch.fit(self.steps.len());
        let work = Tile { expression: self, points, size, place: (i, j), added, scratch: &mut scratch, tile };
        run(CodePath::detect(), work);
    }

    /// The covariances of the points of `rows` with the samples of a range, no point of which is one of them: adds to `sums`, for each
    /// point, those covariances times the weights of the samples. `out` takes them by columns, if it is not empty.
    ///
    /// # Panics
    /// When `sums` has not a number for each row, `weights` not one for each sample, `out` not one for each pair, or dimensions differ.
    pub fn block(
        &self,
        (points, rows): (&Points, Range<usize>),
        (samples, columns): (&Points, Range<usize>),
        weights: &[f64],
        scratch: &mut Scratch,
        sums: &mut [f64],
        out: &mut [f64],
    ) {
        let count = rows.len();
        assert!(sums.len() == count && weights.len() == columns.len(), "a sum a row, a weight a sample");
        assert!(points.dimensions() == samples.dimensions(), "points of the same dimensions");
        assert!(out.is_empty() || out.len() == count * columns.len(), "a number for each pair");
        scratch.fit(self.steps.len());
        let rows = (points, rows);
        let columns = (samples, columns);
        run(CodePath::detect(), Block { expression: self, rows, columns, weights, scratch, sums, out });
    }

    /// The covariance of a point with itself; `same` says whether as the same sample, so that `white` counts.
    pub fn diagonal(&self, point: &[f64], same: bool) -> f64 {
        self.diagonals(&Points::of_rows(point.len(), point), same)[0]
    }

    /// The covariance of each point with itself, as [`Expression::diagonal`].
    pub fn diagonals(&self, points: &Points, same: bool) -> Vec<f64> {
        let (mut scratch, mut with) = (Scratch::default(), vec![0.0; points.dimensions()]);
        let mut diagonals = vec![0.0; if self.is_stationary() { points.len().min(1) } else { points.len() }];
        for (row, value) in diagonals.iter_mut().enumerate() {
            points.copy_point(row, &mut with);
            let of = (points, row..row + 1);
            self.column(of, &with, same.then_some(row), &mut scratch, std::slice::from_mut(value));
        }
        let last = diagonals.last().copied().unwrap_or_default();
        diagonals.resize(points.len(), last);
        diagonals
    }
}

struct Tile<'a> {
    expression: &'a Expression,
    points: &'a Points,
    size: usize,
    place: (usize, usize),
    added: f64,
    scratch: &'a mut Scratch,
    tile: &'a mut [f64],
}

impl Work for Tile<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { expression, points, size, place: (i, j), added, scratch, tile } = self;
        let n = points.len();
        let (rows, columns) = (i * size..((i + 1) * size).min(n), j * size..((j + 1) * size).min(n));
        let (mut with, together) = (Vec::new(), Pairs::together(rows.len()));
        for first in columns.clone().step_by(together) {
            let group = first..(first + together).min(columns.end);
            copy_points(points, group.clone(), &mut with);
            // The upper half of a diagonal tile is not read.
            let rows = rows.start.max(first)..rows.end;
            let pairs = Pairs { others: group.len(), ..Pairs::of_one(points, rows, &with) };
            for (_, chunk) in pairs.chunks() {
                values(lanes, expression, &chunk, scratch);
                let count = chunk.rows.len();
                for (nth, column) in group.clone().enumerate() {
                    let row = chunk.rows.start.max(column).min(chunk.rows.end);
                    let before = row - chunk.rows.start;
                    let to = &mut tile[(column - j * size) * size + (row - i * size)..];
                    copy(scratch, nth * count + before, &mut to[..count - before]);
                }
            }
        }
        if i == j {
            diagonal(lanes, expression, points, columns, added, scratch, tile);
        }
    }
}

/// Adds a number to the diagonal of a tile, where `white` counts.
#[inline(always)]
fn diagonal<L: Lanes>(
    lanes: L,
    expression: &Expression,
    points: &Points,
    samples: Range<usize>,
    added: f64,
    scratch: &mut Scratch,
    tile: &mut [f64],
) {
    let (size, has_white, first) = (tile.len().isqrt(), expression.has_white(), samples.start);
    let mut with = Vec::new();
    for sample in samples {
        let own = &mut tile[(sample - first) * (size + 1)..][..1];
        if has_white && (sample == first || !expression.is_stationary()) {
            copy_points(points, sample..sample + 1, &mut with);
            values(lanes, expression, &Pairs::of_one(points, 0..0, &with).alone(sample), scratch);
        }
        if has_white {
            copy(scratch, 0, own);
        }
        own[0] += added;
    }
}

/// Copies points, one after the other.
#[inline(always)]
fn copy_points(points: &Points, samples: Range<usize>, to: &mut Vec<f64>) {
    to.clear();
    for sample in samples {
        for d in 0..points.dimensions() {
            to.push(points.dimension(d)[sample]);
        }
    }
}

struct Block<'a> {
    expression: &'a Expression,
    rows: (&'a Points, Range<usize>),
    columns: (&'a Points, Range<usize>),
    weights: &'a [f64],
    scratch: &'a mut Scratch,
    sums: &'a mut [f64],
    out: &'a mut [f64],
}

impl Work for Block<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { expression, rows: (points, rows), columns, weights, scratch, sums, out } = self;
        let ((samples, columns), mut with) = (columns, Vec::new());
        let together = Pairs::together(rows.len());
        for first in columns.clone().step_by(together) {
            let group = first..(first + together).min(columns.end);
            copy_points(samples, group.clone(), &mut with);
            let pairs = Pairs { others: group.len(), ..Pairs::of_one(points, rows.clone(), &with) };
            for (first, chunk) in pairs.chunks() {
                let (count, place) = (chunk.rows.len(), first..first + chunk.rows.len());
                values(lanes, expression, &chunk, scratch);
                for (nth, sample) in group.clone().enumerate() {
                    let column = sample - columns.start;
                    add(lanes, scratch, nth * count, weights[column], &mut sums[place.clone()]);
                    if !out.is_empty() {
                        copy(scratch, nth * count, &mut out[column * sums.len()..][place.clone()]);
                    }
                }
            }
        }
    }
}

/// Adds values of the last step, times a weight.
#[inline(always)]
fn add<L: Lanes>(lanes: L, scratch: &Scratch, from: usize, weight: f64, sums: &mut [f64]) {
    match scratch.held[scratch.held.len() - 1] {
        Held::One(value) => {
            for sum in sums {
                *sum = lanes.fused(weight, value, *sum);
            }
        }
        Held::Row { row, times } => {
            let (values, by) = (&scratch.values[row][from..][..sums.len()], weight * times);
            for i in 0..values.len() {
                sums[i] = lanes.fused(by, values[i], sums[i]);
            }
        }
    }
}

struct Column<'a> {
    expression: &'a Expression,
    pairs: Pairs<'a>,
    /// The row whose `white` counts.
    same: Option<usize>,
    scratch: &'a mut Scratch,
    out: &'a mut [f64],
}

impl Work for Column<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { expression, pairs, same, scratch, out } = self;
        for (first, chunk) in pairs.chunks() {
            let out = &mut out[first..first + chunk.rows.len()];
            values(lanes, expression, &chunk, scratch);
            copy(scratch, 0, out);
        }
        if let Some(row) = same {
            values(lanes, expression, &pairs.alone(row), scratch);
            copy(scratch, 0, &mut out[row - pairs.rows.start..][..1]);
        }
    }
}

/// Copies values of the last step, from a place on.
#[inline(always)]
fn copy(scratch: &Scratch, from: usize, out: &mut [f64]) {
    match scratch.held[scratch.held.len() - 1] {
        Held::One(value) => out.fill(value),
        Held::Row { row, times } => {
            let values = &scratch.values[row][from..][..out.len()];
            for i in 0..values.len() {
                out[i] = times * values[i];
            }
        }
    }
}
