//! Covariances of many points with one, in loops that the compiler turns into vectors.
//!
//! The steps of an expression are computed for some hundred points at a time, so that all of them stay in the nearest cache. A step whose
//! values are all equal is one number, and a number times a row is that row with a factor, so `2 * rbf() + white(0.1)` costs one pass more than
//! `rbf()`. Where `white` counts, at the sample itself, all steps are computed once more for that point alone.
//!
//! Invariant: an entry has the same bits whichever points are computed beside it, and on every machine.

use std::f64::consts::PI;
use std::ops::Range;

use super::expression::{Expression, Form, Part, Step};
use super::points::Points;
use crate::CodePath;
use crate::elementary::exp;
use crate::lanes::{Lanes, Work, run};

/// Points whose steps are computed at a time.
const CHUNK: usize = 256;
/// Dimensions whose differences are added up in registers.
const GROUP: usize = 4;

/// The values of a step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Held {
    /// All of them are this number.
    One(f64),
    /// A row of the scratch memory, each number times a factor.
    Row { row: usize, times: f64 },
}

/// Memory for the steps of an expression, used again from column to column.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    /// Where the values of each step are.
    pub(super) held: Vec<Held>,
    /// A row for each step: its values.
    pub(super) values: Vec<Vec<f64>>,
    /// A row for each step that is a part: r^2, x.x', or the exponent, of each point.
    pub(super) sums: Vec<Vec<f64>>,
    /// The weights, and a row for each step: the derivative of the weighted sum by its values.
    pub(super) adjoint: Vec<Vec<f64>>,
    /// Where the adjoint of each step is: the row, and a factor of its numbers.
    pub(super) given: Vec<(usize, f64)>,
    /// The derivative by ln l_d over what depends on d.
    pub(super) slope: Vec<f64>,
}

impl Scratch {
    pub(super) fn fit(&mut self, steps: usize) {
        self.held.resize(steps, Held::One(0.0));
        self.given.resize(steps, (0, 1.0));
        self.slope.resize(CHUNK, 0.0);
        for rows in [&mut self.values, &mut self.sums, &mut self.adjoint] {
            rows.resize_with(steps + 1, || vec![0.0; CHUNK]);
        }
    }
}

/// At most [`CHUNK`] points of a range, and the point with which their covariances are computed.
#[derive(Clone)]
pub(super) struct Pairs<'a> {
    pub(super) points: &'a Points,
    pub(super) rows: Range<usize>,
    pub(super) with: &'a [f64],
    /// Whether the one row is the same sample as the point.
    pub(super) is_same: bool,
}

impl<'a> Pairs<'a> {
    pub(super) fn dimension(&self, d: usize) -> &'a [f64] {
        &self.points.dimension(d)[self.rows.clone()]
    }

    /// The pairs in chunks, with the place of each within the rows.
    pub(super) fn chunks(&self) -> impl Iterator<Item = (usize, Self)> + use<'a> {
        let whole = self.clone();
        (0..self.rows.len()).step_by(CHUNK).map(move |first| {
            let start = whole.rows.start + first;
            let rows = start..(start + CHUNK).min(whole.rows.end);
            (first, Self { rows, ..whole.clone() })
        })
    }

    /// The row that is the same sample, alone.
    pub(super) fn alone(&self, row: usize) -> Self {
        Self { rows: row..row + 1, is_same: true, ..self.clone() }
    }
}

impl Expression {
    /// Whether the covariance of a sample with itself is another than with a sample at its place.
    pub(super) fn has_white(&self) -> bool {
        self.parts.iter().any(|part| part.form == Form::White)
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
        let pairs = Pairs { points, rows, with, is_same: false };
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
    /// point, those covariances times the weights of the samples. `out` has a column for each sample, or one that is used
    /// again.
    ///
    /// # Panics
    /// When `sums` has not a number for each row, `weights` not one for each sample, or dimensions differ.
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
        let stride = if out.len() == count { 0 } else { count };
        scratch.fit(self.steps.len());
        let rows = (points, rows);
        let columns = (samples, columns);
        run(
            CodePath::detect(),
            Block { expression: self, rows, columns, weights, scratch, sums, stride, out },
        );
    }

    /// The covariance of a point with itself; `same` says whether as the same sample, so that `white` counts.
    pub fn diagonal(&self, point: &[f64], same: bool) -> f64 {
        self.diagonals(&Points::of_rows(point.len(), point), same)[0]
    }

    /// The covariance of each point with itself, as [`Expression::diagonal`].
    pub fn diagonals(&self, points: &Points, same: bool) -> Vec<f64> {
        let (mut scratch, mut with) = (Scratch::default(), vec![0.0; points.dimensions()]);
        let mut diagonals = vec![0.0; points.len()];
        for (row, value) in diagonals.iter_mut().enumerate() {
            points.copy_point(row, &mut with);
            let of = (points, row..row + 1);
            self.column(of, &with, same.then_some(row), &mut scratch, std::slice::from_mut(value));
        }
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
        let (has_white, mut with) = (expression.has_white(), vec![0.0; points.dimensions()]);
        for column in columns {
            points.copy_point(column, &mut with);
            // The upper half of a diagonal tile is not read.
            let rows = rows.start.max(column)..rows.end;
            let first = (column - j * size) * size + (rows.start - i * size);
            let out = &mut tile[first..first + rows.len()];
            let same = Some(column).filter(|_| has_white && i == j);
            let pairs = Pairs { points, rows, with: &with, is_same: false };
            Column { expression, pairs, same, scratch, out }.run(lanes);
            if i == j {
                out[0] += added;
            }
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
    stride: usize,
    out: &'a mut [f64],
}

impl Work for Block<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { expression, rows: (points, rows), columns, weights, scratch, sums, stride, out } = self;
        let mut with = vec![0.0; points.dimensions()];
        for (nth, sample) in columns.1.enumerate() {
            columns.0.copy_point(sample, &mut with);
            let out = &mut out[nth * stride..][..sums.len()];
            let pairs = Pairs { points, rows: rows.clone(), with: &with, is_same: false };
            Column { expression, pairs, same: None, scratch, out }.run(lanes);
            let weight = weights[nth];
            for i in 0..out.len() {
                sums[i] += weight * out[i];
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
    fn run<L: Lanes>(self, _: L) {
        let Self { expression, pairs, same, scratch, out } = self;
        for (first, chunk) in pairs.chunks() {
            let out = &mut out[first..first + chunk.rows.len()];
            values(expression, &chunk, scratch);
            copy(scratch, out);
        }
        if let Some(row) = same {
            values(expression, &pairs.alone(row), scratch);
            copy(scratch, &mut out[row - pairs.rows.start..][..1]);
        }
    }
}

/// Copies the values of the last step.
#[inline(always)]
fn copy(scratch: &Scratch, out: &mut [f64]) {
    match scratch.held[scratch.held.len() - 1] {
        Held::One(value) => out.fill(value),
        Held::Row { row, times } => {
            let values = &scratch.values[row][..out.len()];
            for i in 0..values.len() {
                out[i] = times * values[i];
            }
        }
    }
}

/// Computes all steps of a chunk.
#[inline(always)]
pub(super) fn values(expression: &Expression, pairs: &Pairs<'_>, scratch: &mut Scratch) {
    let n = pairs.rows.len();
    for (at, step) in expression.steps.iter().enumerate() {
        let (before, rest) = scratch.values.split_at_mut(at);
        let out = &mut rest[0][..n];
        let own = Held::Row { row: at, times: 1.0 };
        scratch.held[at] = match *step {
            Step::Part(part) => {
                let part = &expression.parts[part];
                let variance = part.variance.map_or(1.0, |v| expression.parameters[v].value);
                match part.form {
                    Form::Constant => Held::One(variance),
                    Form::White => Held::One(if pairs.is_same { variance } else { 0.0 }),
                    _ => {
                        let sums = &mut scratch.sums[at][..n];
                        sum_up(expression, part, pairs, sums);
                        part_values(expression, part, sums, out);
                        Held::Row { row: at, times: variance }
                    }
                }
            }
            Step::Sum(a, b) => match (scratch.held[a], scratch.held[b]) {
                (Held::One(a), Held::One(b)) => Held::One(a + b),
                (Held::One(0.0), row) | (row, Held::One(0.0)) => row,
                (Held::One(one), Held::Row { row, times }) | (Held::Row { row, times }, Held::One(one)) => {
                    let a = &before[row][..n];
                    for i in 0..n {
                        out[i] = times * a[i] + one;
                    }
                    own
                }
                (Held::Row { row: a, times: of_a }, Held::Row { row: b, times: of_b }) => {
                    let (a, b) = (&before[a][..n], &before[b][..n]);
                    for i in 0..n {
                        out[i] = of_a * a[i] + of_b * b[i];
                    }
                    own
                }
            },
            Step::Product(a, b) => match (scratch.held[a], scratch.held[b]) {
                (Held::One(a), Held::One(b)) => Held::One(a * b),
                (Held::One(one), Held::Row { row, times }) | (Held::Row { row, times }, Held::One(one)) => {
                    Held::Row { row, times: one * times }
                }
                (Held::Row { row: a, times: of_a }, Held::Row { row: b, times: of_b }) => {
                    let (a, b) = (&before[a][..n], &before[b][..n]);
                    for i in 0..n {
                        out[i] = a[i] * b[i];
                    }
                    Held::Row { row: at, times: of_a * of_b }
                }
            },
        };
    }
}

/// The value at one of the places of a list that has one number, or one for each dimension.
#[inline(always)]
pub(super) fn at(expression: &Expression, places: &Range<usize>, d: usize) -> f64 {
    let place = if places.len() == 1 { places.start } else { places.start + d };
    expression.parameters[place].value
}

/// The sums over the dimensions: r^2, x.x' or the sum of sin^2 / l^2.
#[inline(always)]
fn sum_up(expression: &Expression, part: &Part, pairs: &Pairs<'_>, sums: &mut [f64]) {
    let dimensions = pairs.with.len();
    match part.form {
        Form::Linear | Form::Periodic => sums.fill(0.0),
        _ => {
            for first in (0..dimensions).step_by(GROUP) {
                match dimensions - first {
                    1 => add_squares::<1>(expression, part, pairs, first, sums),
                    2 => add_squares::<2>(expression, part, pairs, first, sums),
                    3 => add_squares::<3>(expression, part, pairs, first, sums),
                    _ => add_squares::<GROUP>(expression, part, pairs, first, sums),
                }
            }
            return;
        }
    }
    for d in 0..dimensions {
        let (x, other) = (pairs.dimension(d), pairs.with[d]);
        if part.form == Form::Linear {
            for i in 0..sums.len() {
                sums[i] += x[i] * other;
            }
            continue;
        }
        let (period, length) = (at(expression, &part.periods, d), at(expression, &part.lengths, d));
        for i in 0..sums.len() {
            let sine = (PI * (x[i] - other) / period).sin() / length;
            sums[i] += sine * sine;
        }
    }
}

/// Adds the squares of the differences of D dimensions, or begins with them.
#[inline(always)]
fn add_squares<const D: usize>(
    expression: &Expression,
    part: &Part,
    pairs: &Pairs<'_>,
    first: usize,
    sums: &mut [f64],
) {
    let n = sums.len();
    let (mut x, mut with, mut inverse) = ([&[][..]; D], [0.0; D], [0.0; D]);
    for d in 0..D {
        x[d] = &pairs.dimension(first + d)[..n];
        with[d] = pairs.with[first + d];
        inverse[d] = 1.0 / at(expression, &part.lengths, first + d);
    }
    let square = |d: usize, i: usize| {
        let apart = (x[d][i] - with[d]) * inverse[d];
        apart * apart
    };
    if first == 0 {
        for (i, sum) in sums.iter_mut().enumerate() {
            let mut all = square(0, i);
            for d in 1..D {
                all += square(d, i);
            }
            *sum = all;
        }
    } else {
        for (i, sum) in sums.iter_mut().enumerate() {
            for d in 0..D {
                *sum += square(d, i);
            }
        }
    }
}

/// The values of a part without its variance.
#[inline(always)]
fn part_values(expression: &Expression, part: &Part, sums: &[f64], out: &mut [f64]) {
    let n = out.len();
    let r2 = &sums[..n];
    match part.form {
        Form::Rbf => {
            for i in 0..n {
                out[i] = exp(-0.5 * r2[i]);
            }
        }
        Form::Matern12 => {
            for i in 0..n {
                out[i] = exp(-r2[i].sqrt());
            }
        }
        Form::Matern32 => {
            for i in 0..n {
                let a = (3.0 * r2[i]).sqrt();
                out[i] = (1.0 + a) * exp(-a);
            }
        }
        Form::Matern52 => {
            for i in 0..n {
                let a = (5.0 * r2[i]).sqrt();
                out[i] = (1.0 + a + a * a / 3.0) * exp(-a);
            }
        }
        Form::RationalQuadratic => {
            let c = shape(expression, part);
            for i in 0..n {
                out[i] = (-c * (r2[i] / (2.0 * c)).ln_1p()).exp();
            }
        }
        Form::Periodic => {
            for i in 0..n {
                out[i] = exp(-2.0 * r2[i]);
            }
        }
        Form::Linear => out.copy_from_slice(r2),
        Form::Constant | Form::White => unreachable!("its values are one number"),
    }
}

#[inline(always)]
pub(super) fn shape(expression: &Expression, part: &Part) -> f64 {
    part.shape.map_or(1.0, |c| expression.parameters[c].value)
}
