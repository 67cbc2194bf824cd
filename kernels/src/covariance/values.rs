//! The values of all steps of an expression, for some hundred pairs of points at a time.
//!
//! All steps of these pairs stay in the nearest cache. A step whose values are all equal is one number, and a number times a row is that row
//! with a factor, so `2 * rbf() + white(0.1)` costs no more passes than `rbf()`.
//!
//! Invariant: a value has the same bits whichever pairs are computed beside it, and on all machines with AVX2: operations are fused there
//! (docs/decisions/180).

use std::f64::consts::PI;
use std::ops::Range;

use super::exponential::exp;
use super::expression::{Expression, Form, Part, Step};
use super::points::Points;
use crate::lanes::Lanes;

/// Pairs whose steps are computed at a time: all steps of them stay in the nearest cache, and the choices between forms cost little.
const CHUNK: usize = 512;
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
    /// The place of each step's values.
    pub(super) held: Vec<Held>,
    /// A row for each step: its values.
    pub(super) values: Vec<Vec<f64>>,
    /// A row for each step that is a part: r^2, x.x', or the exponent, of each point.
    pub(super) sums: Vec<Vec<f64>>,
    /// The weights, and a row for each step: the derivative of the weighted sum by its values.
    pub(super) adjoint: Vec<Vec<f64>>,
    /// The place of each step's adjoint: the row, and a factor of its numbers.
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

/// Points of a range, and the points with which their covariances are computed: at most [`CHUNK`] pairs, those of one other point after those
/// of the one before.
#[derive(Clone)]
pub(super) struct Pairs<'a> {
    pub(super) points: &'a Points,
    pub(super) rows: Range<usize>,
    /// The other points, one after the other.
    pub(super) with: &'a [f64],
    pub(super) others: usize,
    /// Whether the one row is the same sample as the one other point.
    pub(super) is_same: bool,
}

impl<'a> Pairs<'a> {
    /// The pairs of points with one.
    pub(super) fn of_one(points: &'a Points, rows: Range<usize>, with: &'a [f64]) -> Self {
        Self { points, rows, with, others: 1, is_same: false }
    }

    /// The number of pairs.
    pub(super) fn len(&self) -> usize {
        self.rows.len() * self.others
    }

    /// The numbers of other point `nth`.
    fn other(&self, nth: usize) -> &'a [f64] {
        let dimensions = self.points.dimensions();
        &self.with[nth * dimensions..][..dimensions]
    }

    pub(super) fn dimension(&self, d: usize) -> &'a [f64] {
        &self.points.dimension(d)[self.rows.clone()]
    }

    /// The other points of a group of pairs that a chunk has room for.
    pub(super) fn together(rows: usize) -> usize {
        (CHUNK / rows.max(1)).max(1)
    }

    /// The rows in chunks, with the place of each within the rows.
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

/// Computes all steps of a chunk.
#[inline(always)]
pub(super) fn values<L: Lanes>(lanes: L, expression: &Expression, pairs: &Pairs<'_>, scratch: &mut Scratch) {
    let n = pairs.len();
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
                        sum_up(lanes, expression, part, pairs, sums);
                        part_values(lanes, expression, part, sums, out);
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
fn sum_up<L: Lanes>(lanes: L, expression: &Expression, part: &Part, pairs: &Pairs<'_>, sums: &mut [f64]) {
    let (dimensions, count) = (pairs.points.dimensions(), pairs.rows.len());
    for nth in 0..pairs.others {
        let sums = &mut sums[nth * count..][..count];
        sum_up_with(lanes, expression, part, (pairs, pairs.other(nth)), dimensions, sums);
    }
}

/// The sums of the pairs with one of the other points.
#[inline(always)]
fn sum_up_with<L: Lanes>(
    lanes: L,
    expression: &Expression,
    part: &Part,
    (pairs, with): (&Pairs<'_>, &[f64]),
    dimensions: usize,
    sums: &mut [f64],
) {
    match part.form {
        Form::Linear | Form::Periodic => sums.fill(0.0),
        _ => {
            for first in (0..dimensions).step_by(GROUP) {
                match dimensions - first {
                    1 => add_squares::<1, L>(lanes, expression, part, (pairs, with), first, sums),
                    2 => add_squares::<2, L>(lanes, expression, part, (pairs, with), first, sums),
                    3 => add_squares::<3, L>(lanes, expression, part, (pairs, with), first, sums),
                    _ => add_squares::<GROUP, L>(lanes, expression, part, (pairs, with), first, sums),
                }
            }
            return;
        }
    }
    for (d, other) in with.iter().enumerate() {
        let (x, other) = (pairs.dimension(d), *other);
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
fn add_squares<const D: usize, L: Lanes>(
    lanes: L,
    expression: &Expression,
    part: &Part,
    (pairs, other): (&Pairs<'_>, &[f64]),
    first: usize,
    sums: &mut [f64],
) {
    let n = sums.len();
    let (mut x, mut with, mut inverse) = ([&[][..]; D], [0.0; D], [0.0; D]);
    for d in 0..D {
        x[d] = &pairs.dimension(first + d)[..n];
        with[d] = other[first + d];
        inverse[d] = 1.0 / at(expression, &part.lengths, first + d);
    }
    let apart = |d: usize, i: usize| (x[d][i] - with[d]) * inverse[d];
    for (i, sum) in sums.iter_mut().enumerate() {
        let mut all = if first == 0 { 0.0 } else { *sum };
        for d in 0..D {
            let apart = apart(d, i);
            all = lanes.fused(apart, apart, all);
        }
        *sum = all;
    }
}

/// The values of a part without its variance.
#[inline(always)]
fn part_values<L: Lanes>(lanes: L, expression: &Expression, part: &Part, sums: &[f64], out: &mut [f64]) {
    let n = out.len();
    let r2 = &sums[..n];
    match part.form {
        Form::Rbf => {
            for i in 0..n {
                out[i] = exp(lanes, -0.5 * r2[i]);
            }
        }
        Form::Matern12 => {
            for i in 0..n {
                out[i] = exp(lanes, -r2[i].sqrt());
            }
        }
        Form::Matern32 => {
            for i in 0..n {
                let a = (3.0 * r2[i]).sqrt();
                out[i] = (1.0 + a) * exp(lanes, -a);
            }
        }
        Form::Matern52 => {
            for i in 0..n {
                let a = (5.0 * r2[i]).sqrt();
                out[i] = (1.0 + a + a * a / 3.0) * exp(lanes, -a);
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
                out[i] = exp(lanes, -2.0 * r2[i]);
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
