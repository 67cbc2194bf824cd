//! Weighted sums of the derivatives of covariances, by the logarithms of all parameters.
//!
//! The steps are gone through from the last to the first: each hands its adjoint, the derivative of the sum by its values, to the steps that
//! it is made of. So a column costs little more for many parameters than for one. Sums are taken in lanes, in one order.

use std::f64::consts::PI;
use std::ops::Range;

use super::exponential::exp;
use super::expression::{Expression, Form, Step};
use super::points::Points;
use super::values::{Held, Pairs, Scratch, at, shape, values};
use crate::CodePath;
use crate::lanes::{Lanes, Work, run};

/// Partial sums of a sum.
const LANES: usize = 16;

impl Expression {
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
        let same = same.filter(|row| self.has_white() && rows.contains(row));
        scratch.fit(self.steps.len());
        let pairs = Pairs::of_one(points, rows, with);
        run(CodePath::detect(), Gradient { expression: self, pairs, same, weights, scratch, gradient });
    }
}

struct Gradient<'a> {
    expression: &'a Expression,
    pairs: Pairs<'a>,
    same: Option<usize>,
    weights: &'a [f64],
    scratch: &'a mut Scratch,
    gradient: &'a mut [f64],
}

impl Work for Gradient<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { expression, pairs, same, weights, scratch, gradient } = self;
        let start = pairs.rows.start;
        for (first, chunk) in pairs.chunks() {
            let n = chunk.rows.len();
            scratch.adjoint[0][..n].copy_from_slice(&weights[first..first + n]);
            // It is added alone.
            if let Some(row) = same.filter(|row| chunk.rows.contains(row)) {
                scratch.adjoint[0][row - start - first] = 0.0;
            }
            slopes(lanes, expression, &chunk, scratch, gradient);
        }
        if let Some(row) = same {
            scratch.adjoint[0][0] = weights[row - start];
            slopes(lanes, expression, &pairs.alone(row), scratch, gradient);
        }
    }
}

/// Adds the derivatives of a chunk, of which the weights are row 0 of the adjoints.
#[inline(always)]
fn slopes<L: Lanes>(
    lanes: L,
    expression: &Expression,
    pairs: &Pairs<'_>,
    scratch: &mut Scratch,
    gradient: &mut [f64],
) {
    values(lanes, expression, pairs, scratch);
    let (n, last) = (pairs.rows.len(), expression.steps.len() - 1);
    scratch.given[last] = (0, 1.0);
    // From the whole to its parts: each step is used once, so its adjoint is complete when its turn comes.
    for step in (0..=last).rev() {
        let given = scratch.given[step];
        match expression.steps[step] {
            Step::Part(part) => part_slopes(lanes, expression, part, step, pairs, scratch, gradient),
            Step::Sum(a, b) => (scratch.given[a], scratch.given[b]) = (given, given),
            Step::Product(a, b) => {
                for (child, other) in [(a, b), (b, a)] {
                    scratch.given[child] = match scratch.held[other] {
                        Held::One(one) => (given.0, given.1 * one),
                        Held::Row { row, times } => {
                            // Rows behind that of the given adjoint: children have a row each, after row 0.
                            let values = &scratch.values[row][..n];
                            let [own, out] = scratch
                                .adjoint
                                .get_disjoint_mut([given.0, child + 1])
                                .expect("a step and its child have rows of their own");
                            for i in 0..n {
                                out[i] = own[i] * values[i];
                            }
                            (child + 1, given.1 * times)
                        }
                    };
                }
            }
        }
    }
}

#[inline(always)]
fn total(a: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    let (whole, rest) = a.as_chunks::<LANES>();
    for a in whole {
        for lane in 0..LANES {
            sums[lane] += a[lane];
        }
    }
    added(sums, rest.len(), |i| rest[i])
}

#[inline(always)]
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    let ((a, of_a), (b, of_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    added(sums, of_a.len(), |i| of_a[i] * of_b[i])
}

/// The sum of the slopes times the squares of (x - other) / l.
#[inline(always)]
fn squares(slope: &[f64], x: &[f64], other: f64, inverse: f64) -> f64 {
    let mut sums = [0.0; LANES];
    let ((slope, of_slope), (x, of_x)) = (slope.as_chunks::<LANES>(), x.as_chunks::<LANES>());
    for (slope, x) in slope.iter().zip(x) {
        for lane in 0..LANES {
            let apart = (x[lane] - other) * inverse;
            sums[lane] += slope[lane] * (apart * apart);
        }
    }
    let square = |i: usize| {
        let apart = (of_x[i] - other) * inverse;
        of_slope[i] * (apart * apart)
    };
    added(sums, of_slope.len(), square)
}

/// The sum of the lanes and of some more terms.
#[inline(always)]
fn added(sums: [f64; LANES], more: usize, term: impl Fn(usize) -> f64) -> f64 {
    let mut sum = 0.0;
    for part in sums {
        sum += part;
    }
    for i in 0..more {
        sum += term(i);
    }
    sum
}

/// Adds the derivatives of a part.
#[inline(always)]
fn part_slopes<L: Lanes>(
    lanes: L,
    expression: &Expression,
    part: usize,
    step: usize,
    pairs: &Pairs<'_>,
    scratch: &mut Scratch,
    gradient: &mut [f64],
) {
    let (part, n) = (&expression.parts[part], pairs.rows.len());
    let (row, times) = scratch.given[step];
    let adjoint = &scratch.adjoint[row][..n];
    let Held::Row { row, times: variance } = scratch.held[step] else {
        let Held::One(value) = scratch.held[step] else { return };
        if let Some(v) = part.variance.filter(|_| value != 0.0) {
            gradient[v] += value * times * total(adjoint);
        }
        return;
    };
    let times = times * variance;
    let values = &scratch.values[row][..n];
    if let Some(v) = part.variance {
        gradient[v] += times * dot(adjoint, values);
    }
    if part.lengths.is_empty() {
        return;
    }
    let (r2, slope) = (&scratch.sums[step][..n], &mut scratch.slope[..n]);
    let c = shape(expression, part);
    slopes_of(lanes, part.form, c, adjoint, values, r2, slope);
    if let Some(place) = part.shape {
        let mut sum = 0.0;
        for i in 0..n {
            let half = r2[i] / (2.0 * c);
            sum += adjoint[i] * values[i] * (c * half / (1.0 + half) - c * half.ln_1p());
        }
        gradient[place] += times * sum;
    }
    for d in 0..pairs.with.len() {
        let (x, other) = (&pairs.dimension(d)[..n], pairs.with[d]);
        let length = at(expression, &part.lengths, d);
        let place = |places: &Range<usize>| places.start + if places.len() == 1 { 0 } else { d };
        if part.form != Form::Periodic {
            gradient[place(&part.lengths)] += times * squares(slope, x, other, 1.0 / length);
            continue;
        }
        let period = at(expression, &part.periods, d);
        let (mut by_length, mut by_period) = (0.0, 0.0);
        for i in 0..n {
            let turn = PI * (x[i] - other) / period;
            let sine = turn.sin() / length;
            by_length += slope[i] * (sine * sine);
            // 4 k is in the slope: k (2 turn / l^2) sin(2 turn).
            by_period += slope[i] * (0.5 * turn / (length * length)) * (2.0 * turn).sin();
        }
        gradient[place(&part.lengths)] += times * by_length;
        gradient[place(&part.periods)] += times * by_period;
    }
}

/// The adjoint times the derivative by ln l_d over what depends on d, without the variance.
#[inline(always)]
fn slopes_of<L: Lanes>(
    lanes: L,
    form: Form,
    c: f64,
    adjoint: &[f64],
    values: &[f64],
    r2: &[f64],
    slope: &mut [f64],
) {
    let n = slope.len();
    match form {
        Form::Rbf => {
            for i in 0..n {
                slope[i] = adjoint[i] * values[i];
            }
        }
        Form::Matern12 => {
            for i in 0..n {
                let by = if r2[i] > 0.0 { values[i] / r2[i].sqrt() } else { 0.0 };
                slope[i] = adjoint[i] * by;
            }
        }
        Form::Matern32 => {
            for i in 0..n {
                slope[i] = adjoint[i] * (3.0 * exp(lanes, -(3.0 * r2[i]).sqrt()));
            }
        }
        Form::Matern52 => {
            for i in 0..n {
                let a = (5.0 * r2[i]).sqrt();
                slope[i] = adjoint[i] * ((5.0 / 3.0) * (1.0 + a) * exp(lanes, -a));
            }
        }
        Form::RationalQuadratic => {
            for i in 0..n {
                slope[i] = adjoint[i] * (values[i] / (1.0 + r2[i] / (2.0 * c)));
            }
        }
        _ => {
            for i in 0..n {
                slope[i] = adjoint[i] * (4.0 * values[i]);
            }
        }
    }
}
