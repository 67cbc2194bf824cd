//! Covariances of many points with one, and the sums of their derivatives, in loops that the compiler turns into vectors.
//!
//! Invariant: an entry has the same bits whichever points are computed beside it.

use std::f64::consts::PI;
use std::ops::Range;

use super::expression::{Expression, Form, Part, Step};
use crate::CodePath;
use crate::elementary::exp;
use crate::lanes::{Lanes, Work, run};

/// Points of D numbers, dimension by dimension.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points {
    count: usize,
    columns: Vec<Vec<f64>>,
}

impl Points {
    /// No points, of `dimensions` numbers.
    pub fn new(dimensions: usize) -> Self {
        Self { count: 0, columns: vec![Vec::new(); dimensions] }
    }

    /// Points that are given one after the other, `dimensions` numbers each.
    ///
    /// # Panics
    /// When the numbers are no whole points.
    pub fn of_rows(dimensions: usize, rows: &[f64]) -> Self {
        let mut points = Self::new(dimensions);
        assert!(dimensions > 0 && rows.len().is_multiple_of(dimensions), "{} numbers", rows.len());
        rows.chunks_exact(dimensions).for_each(|row| points.push(row));
        points
    }

    /// Appends a point.
    ///
    /// # Panics
    /// When it has another number of dimensions.
    pub fn push(&mut self, point: &[f64]) {
        assert_eq!(point.len(), self.columns.len(), "a number for each dimension");
        self.columns.iter_mut().zip(point).for_each(|(column, x)| column.push(*x));
        self.count += 1;
    }

    /// The number of points.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no point.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The numbers of a point.
    pub fn dimensions(&self) -> usize {
        self.columns.len()
    }

    /// A point.
    ///
    /// # Panics
    /// When there is no such point.
    pub fn point(&self, idx: usize) -> Vec<f64> {
        self.columns.iter().map(|column| column[idx]).collect()
    }

    /// The numbers of a dimension.
    ///
    /// # Panics
    /// When there is no such dimension.
    pub fn dimension(&self, idx: usize) -> &[f64] {
        &self.columns[idx]
    }
}

/// Memory for the steps of an expression, used again from column to column.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    /// A row for each step: its values.
    values: Vec<Vec<f64>>,
    /// A row for each step: the derivative of the weighted sum by its values.
    adjoint: Vec<Vec<f64>>,
    /// r^2, or the exponent, of each point.
    sums: Vec<f64>,
    /// The derivative by ln l_d over what depends on d.
    slope: Vec<f64>,
}

impl Scratch {
    fn fit(&mut self, steps: usize, count: usize) {
        self.values.resize(steps, Vec::new());
        self.adjoint.resize(steps, Vec::new());
        for row in self.values.iter_mut().chain(&mut self.adjoint) {
            row.resize(count, 0.0);
        }
        self.sums.resize(count, 0.0);
        self.slope.resize(count, 0.0);
    }
}

/// Points of a range, and the point with which their covariances are computed.
struct Pairs<'a> {
    points: &'a Points,
    rows: Range<usize>,
    with: &'a [f64],
    /// The place within the rows of the sample that `with` is.
    same: Option<usize>,
}

impl Pairs<'_> {
    fn dimension(&self, d: usize) -> &[f64] {
        &self.points.columns[d][self.rows.clone()]
    }
}

impl Expression {
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
        let same = same.filter(|row| rows.contains(row)).map(|row| row - rows.start);
        scratch.fit(self.steps.len(), rows.len());
        let pairs = Pairs { points, rows, with, same };
        run(CodePath::detect(), Values { expression: self, pairs: &pairs, scratch });
        out.copy_from_slice(&scratch.values[self.steps.len() - 1]);
    }

    /// Adds to `gradient`, for each parameter, the sum over `rows` of a weight times the derivative of the covariance with one point by
    /// the logarithm of the parameter. Rows, point and `same` are as in [`Expression::column`].
    ///
    /// # Panics
    /// When there is not a weight for each row, or not a number for each parameter.
    pub fn add_gradient(
        &self,
        (points, rows): (&Points, Range<usize>),
        with: &[f64],
        same: Option<usize>,
        weights: &[f64],
        scratch: &mut Scratch,
        gradient: &mut [f64],
    ) {
        assert!(weights.len() == rows.len() && gradient.len() == self.parameters.len(), "a weight a row");
        let same = same.filter(|row| rows.contains(row)).map(|row| row - rows.start);
        scratch.fit(self.steps.len(), rows.len());
        let pairs = Pairs { points, rows, with, same };
        run(CodePath::detect(), Values { expression: self, pairs: &pairs, scratch });
        run(CodePath::detect(), Slopes { expression: self, pairs: &pairs, weights, scratch, gradient });
    }

    /// Writes tile (i, j), j <= i, of `size` rows and columns, of the lower half of the matrix of covariances of all points, by columns:
    /// entries below and on the diagonal, to which `added` is added. Places beyond the last point stay.
    ///
    /// # Panics
    /// When the tile has not size * size numbers.
    pub fn tile(&self, points: &Points, size: usize, (i, j): (usize, usize), added: f64, tile: &mut [f64]) {
        assert_eq!(tile.len(), size * size, "a tile of {size} rows");
        let (n, mut scratch) = (points.len(), Scratch::default());
        let (rows, columns) = (i * size..((i + 1) * size).min(n), j * size..((j + 1) * size).min(n));
        for column in columns {
            // The upper half of a diagonal tile is not read.
            let rows = rows.start.max(column)..rows.end;
            let first = (column - j * size) * size + (rows.start - i * size);
            let out = &mut tile[first..first + rows.len()];
            self.column((points, rows), &points.point(column), Some(column), &mut scratch, out);
            if i == j {
                out[0] += added;
            }
        }
    }

    /// The covariance of a point with itself; `same` says whether as the same sample, so that `white` counts.
    pub fn diagonal(&self, point: &[f64], same: bool) -> f64 {
        let points = Points::of_rows(point.len(), point);
        let mut value = [0.0];
        self.column((&points, 0..1), point, same.then_some(0), &mut Scratch::default(), &mut value);
        value[0]
    }
}

struct Values<'a> {
    expression: &'a Expression,
    pairs: &'a Pairs<'a>,
    scratch: &'a mut Scratch,
}

impl Work for Values<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let Self { expression, pairs, scratch } = self;
        for (at, step) in expression.steps.iter().enumerate() {
            let (before, rest) = scratch.values.split_at_mut(at);
            let out = &mut rest[0][..];
            match *step {
                Step::Part(part) => {
                    part_values(expression, &expression.parts[part], pairs, &mut scratch.sums, out);
                }
                Step::Sum(a, b) => {
                    for i in 0..out.len() {
                        out[i] = before[a][i] + before[b][i];
                    }
                }
                Step::Product(a, b) => {
                    for i in 0..out.len() {
                        out[i] = before[a][i] * before[b][i];
                    }
                }
            }
        }
    }
}

/// The value at one of the places of a list that has one number, or one for each dimension.
#[inline(always)]
fn at(expression: &Expression, places: &Range<usize>, d: usize) -> f64 {
    let place = if places.len() == 1 { places.start } else { places.start + d };
    expression.parameters[place].value
}

/// The sums over the dimensions: r^2, x.x' or the sum of sin^2 / l^2.
#[inline(always)]
fn sums(expression: &Expression, part: &Part, pairs: &Pairs<'_>, sums: &mut [f64]) {
    sums.fill(0.0);
    for d in 0..pairs.with.len() {
        let (x, other) = (pairs.dimension(d), pairs.with[d]);
        match part.form {
            Form::Constant | Form::White => {}
            Form::Linear => {
                for i in 0..sums.len() {
                    sums[i] += x[i] * other;
                }
            }
            Form::Periodic => {
                let period = at(expression, &part.periods, d);
                let length = at(expression, &part.lengths, d);
                for i in 0..sums.len() {
                    let sine = (PI * (x[i] - other) / period).sin() / length;
                    sums[i] += sine * sine;
                }
            }
            _ => {
                let length = at(expression, &part.lengths, d);
                for i in 0..sums.len() {
                    let apart = (x[i] - other) / length;
                    sums[i] += apart * apart;
                }
            }
        }
    }
}

#[inline(always)]
fn part_values(expression: &Expression, part: &Part, pairs: &Pairs<'_>, r2: &mut [f64], out: &mut [f64]) {
    sums(expression, part, pairs, r2);
    let variance = part.variance.map_or(1.0, |v| expression.parameters[v].value);
    let n = out.len();
    match part.form {
        Form::Rbf => {
            for i in 0..n {
                out[i] = variance * exp(-0.5 * r2[i]);
            }
        }
        Form::Matern12 => {
            for i in 0..n {
                out[i] = variance * exp(-r2[i].sqrt());
            }
        }
        Form::Matern32 => {
            for i in 0..n {
                let a = (3.0 * r2[i]).sqrt();
                out[i] = variance * ((1.0 + a) * exp(-a));
            }
        }
        Form::Matern52 => {
            for i in 0..n {
                let a = (5.0 * r2[i]).sqrt();
                out[i] = variance * ((1.0 + a + a * a / 3.0) * exp(-a));
            }
        }
        Form::RationalQuadratic => {
            let c = shape(expression, part);
            for i in 0..n {
                out[i] = variance * (-c * (r2[i] / (2.0 * c)).ln_1p()).exp();
            }
        }
        Form::Periodic => {
            for i in 0..n {
                out[i] = variance * exp(-2.0 * r2[i]);
            }
        }
        Form::Linear => {
            for i in 0..n {
                out[i] = variance * r2[i];
            }
        }
        Form::Constant => out.fill(variance),
        Form::White => {
            out.fill(0.0);
            if let Some(same) = pairs.same {
                out[same] = variance;
            }
        }
    }
}

#[inline(always)]
fn shape(expression: &Expression, part: &Part) -> f64 {
    part.shape.map_or(1.0, |c| expression.parameters[c].value)
}

struct Slopes<'a> {
    expression: &'a Expression,
    pairs: &'a Pairs<'a>,
    weights: &'a [f64],
    scratch: &'a mut Scratch,
    gradient: &'a mut [f64],
}

impl Work for Slopes<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let Self { expression, pairs, weights, scratch, gradient } = self;
        let last = expression.steps.len() - 1;
        scratch.adjoint[last].copy_from_slice(weights);
        // From the whole to its parts: each step is used once, so its adjoint is complete when its turn comes.
        for step in (0..=last).rev() {
            let (before, rest) = scratch.adjoint.split_at_mut(step);
            let own = &rest[0][..];
            match expression.steps[step] {
                Step::Part(part) => {
                    let part = &expression.parts[part];
                    let (values, sums) = (&scratch.values[step][..], &mut scratch.sums[..]);
                    part_slopes(expression, part, pairs, (own, values), (sums, &mut scratch.slope), gradient);
                }
                Step::Sum(a, b) => {
                    before[a].copy_from_slice(own);
                    before[b].copy_from_slice(own);
                }
                Step::Product(a, b) => {
                    let (left, right) = (&scratch.values[a], &scratch.values[b]);
                    for i in 0..own.len() {
                        before[a][i] = own[i] * right[i];
                        before[b][i] = own[i] * left[i];
                    }
                }
            }
        }
    }
}

/// Adds the derivatives of one part: `adjoint` has the weight of each of its values.
#[inline(always)]
fn part_slopes(
    expression: &Expression,
    part: &Part,
    pairs: &Pairs<'_>,
    (adjoint, values): (&[f64], &[f64]),
    (r2, slope): (&mut [f64], &mut [f64]),
    gradient: &mut [f64],
) {
    let n = values.len();
    if let Some(v) = part.variance {
        gradient[v] += dot(adjoint, values);
    }
    if part.lengths.is_empty() {
        return;
    }
    sums(expression, part, pairs, r2);
    let variance = part.variance.map_or(1.0, |v| expression.parameters[v].value);
    let c = shape(expression, part);
    for i in 0..n {
        slope[i] = adjoint[i]
            * match part.form {
                Form::Rbf => values[i],
                Form::Matern12 if r2[i] > 0.0 => values[i] / r2[i].sqrt(),
                Form::Matern12 => 0.0,
                Form::Matern32 => variance * 3.0 * exp(-(3.0 * r2[i]).sqrt()),
                Form::Matern52 => {
                    let a = (5.0 * r2[i]).sqrt();
                    variance * (5.0 / 3.0) * (1.0 + a) * exp(-a)
                }
                Form::RationalQuadratic => values[i] / (1.0 + r2[i] / (2.0 * c)),
                _ => 4.0 * values[i],
            };
    }
    if let Some(place) = part.shape {
        for i in 0..n {
            let half = r2[i] / (2.0 * c);
            gradient[place] += adjoint[i] * values[i] * (c * half / (1.0 + half) - c * half.ln_1p());
        }
    }
    for d in 0..pairs.with.len() {
        let (x, other) = (pairs.dimension(d), pairs.with[d]);
        let length = at(expression, &part.lengths, d);
        let place = |places: &Range<usize>| places.start + if places.len() == 1 { 0 } else { d };
        let mut sum = 0.0;
        if part.form == Form::Periodic {
            let period = at(expression, &part.periods, d);
            let mut by_period = 0.0;
            for i in 0..n {
                let turn = PI * (x[i] - other) / period;
                let sine = turn.sin() / length;
                sum += slope[i] * (sine * sine);
                // 4 k is in the slope: k (2 turn / l^2) sin(2 turn).
                by_period += slope[i] * (0.5 * turn / (length * length)) * (2.0 * turn).sin();
            }
            gradient[place(&part.periods)] += by_period;
        } else {
            for i in 0..n {
                let apart = (x[i] - other) / length;
                sum += slope[i] * (apart * apart);
            }
        }
        gradient[place(&part.lengths)] += sum;
    }
}

#[inline(always)]
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sum = 0.0;
    for i in 0..a.len() {
        sum += a[i] * b[i];
    }
    sum
}
