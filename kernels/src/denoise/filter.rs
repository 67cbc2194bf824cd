//! The filtering of stacks: transform, threshold or Wiener's rule, inverse, and the sums of estimates.
//!
//! Invariant: each operation on coefficients is one IEEE operation in a fixed order, so every path has the same bits.

use crate::CodePath;
use crate::lanes::{self, Lanes, Work};

use super::aggregation::{ESTIMATE_UNITS, Sums, WEIGHT_UNITS};
use super::matching::Matches;
use super::parameters::{Phase, STACK_MAX, StackTransform, Transform};
use super::transform::{Matrix, forward, inverse, kaiser};

/// The tables of a phase in f32, for patches in rows of `R` numbers.
struct Tables<const P: usize, const R: usize> {
    forward: [[f32; P]; P],
    /// Columns of the forward matrix, padded.
    forward_columns: [[f32; R]; P],
    inverse: [[f32; P]; P],
    inverse_columns: [[f32; R]; P],
    window: [[f32; R]; P],
}

impl<const P: usize, const R: usize> Tables<P, R> {
    fn new(phase: &Phase) -> Self {
        let there = forward(phase.transform, P);
        let back = inverse(&there);
        let square = |matrix: &Matrix| std::array::from_fn(|i| std::array::from_fn(|j| matrix[i][j] as f32));
        let columns = |matrix: &Matrix| {
            std::array::from_fn(|k| std::array::from_fn(|j| if j < P { matrix[j][k] as f32 } else { 0.0 }))
        };
        let weights = kaiser(P, phase.beta);
        Self {
            forward: square(&there),
            forward_columns: columns(&there),
            inverse: square(&back),
            inverse_columns: columns(&back),
            window: std::array::from_fn(|i| {
                std::array::from_fn(|j| if j < P { weights[i][j] as f32 } else { 0.0 })
            }),
        }
    }
}

/// A patch, or its coefficients, in rows of `R` numbers of which the first `P` count.
type Patch<const P: usize, const R: usize> = [[f32; R]; P];

/// A rule by which coefficients shrink.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    /// Coefficients below this magnitude are zeroed.
    Threshold(f32),
    /// Coefficients shrink by Wiener's rule with this variance of the noise; the model is the second plane.
    Wiener(f32),
}

/// The tables of a phase.
enum Sized {
    Eight(Box<Tables<8, 8>>),
    Eleven(Box<Tables<11, 16>>),
}

/// The filter of a phase.
pub(crate) struct Filter {
    tables: Sized,
    along: Along,
}

/// A transform along stacks.
struct Along {
    kind: StackTransform,
    /// The cosine transforms of 2, 4 and so on patches, by rows.
    cosines: Vec<Vec<f32>>,
}

impl Filter {
    /// The filter of a phase with a transform along stacks.
    pub fn new(phase: &Phase, along: StackTransform) -> Self {
        let tables = match phase.patch {
            8 => Sized::Eight(Box::new(Tables::new(phase))),
            _ => Sized::Eleven(Box::new(Tables::new(phase))),
        };
        let sizes = (0..=STACK_MAX.ilog2()).map(|log| 1usize << log);
        let flat =
            |size: usize| forward(Transform::Dct, size).concat().into_iter().map(|x| x as f32).collect();
        Self { tables, along: Along { kind: along, cosines: sizes.map(flat).collect() } }
    }

    /// Filters the stacks of a plane, whose first row is `top`, and adds the estimates. `model` is the basic estimate for
    /// Wiener's rule; its rows are those of the plane.
    pub fn add(
        &self,
        path: CodePath,
        rule: Rule,
        planes: &PlanePair<'_>,
        stacks: &[Matches],
        sums: &mut Sums,
    ) {
        match &self.tables {
            Sized::Eight(tables) => {
                lanes::run(
                    path,
                    Stacks { tables: &**tables, along: &self.along, rule, planes, stacks, sums },
                );
            }
            Sized::Eleven(tables) => {
                lanes::run(
                    path,
                    Stacks { tables: &**tables, along: &self.along, rule, planes, stacks, sums },
                );
            }
        }
    }
}

/// The noisy plane and the basic estimate of the same rows; both are the noisy plane in the first phase.
pub(crate) struct PlanePair<'a> {
    pub noisy: &'a [f32],
    pub model: &'a [f32],
    pub width: usize,
    /// The row of the picture that the planes begin with.
    pub top: usize,
}

/// Stacks to filter.
struct Stacks<'a, const P: usize, const R: usize> {
    tables: &'a Tables<P, R>,
    along: &'a Along,
    rule: Rule,
    planes: &'a PlanePair<'a>,
    stacks: &'a [Matches],
    sums: &'a mut Sums,
}

impl<const P: usize, const R: usize> Work for Stacks<'_, P, R> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { tables, along, rule, planes, stacks, sums } = self;
        let mut stack = [[[0f32; R]; P]; STACK_MAX];
        let mut model = [[[0f32; R]; P]; STACK_MAX];
        for matches in stacks {
            let count = matches.places.len();
            let stack = &mut stack[..count];
            load(lanes, planes.noisy, planes, matches, tables, stack);
            along.forward(lanes, stack);
            let weight = match rule {
                Rule::Threshold(limit) => threshold(stack, limit),
                Rule::Wiener(variance) => {
                    let model = &mut model[..count];
                    load(lanes, planes.model, planes, matches, tables, model);
                    along.forward(lanes, model);
                    wiener(lanes, stack, model, variance)
                }
            };
            along.inverse(lanes, stack);
            let mut scales = [[0f32; R]; P];
            let mut weights = [[0i64; R]; P];
            for i in 0..P {
                for j in 0..R {
                    let part = weight * tables.window[i][j];
                    scales[i][j] = part * ESTIMATE_UNITS as f32;
                    weights[i][j] = rounded(part * WEIGHT_UNITS as f32);
                }
            }
            for (patch, (y, x)) in stack.iter().zip(&matches.places) {
                let estimate = two_dimensional(lanes, &tables.inverse, &tables.inverse_columns, patch);
                let from = (*y as usize - sums.top) * sums.width + *x as usize;
                for i in 0..P {
                    let at = from + i * sums.width;
                    let row: &mut [i64; P] =
                        sums.estimates[at..].first_chunk_mut().expect("the patch lies inside");
                    // Sums stay far below 2^63; a check for overflow would keep the loop from being vectorised.
                    for j in 0..P {
                        row[j] = row[j].wrapping_add(rounded(estimate[i][j] * scales[i][j]));
                    }
                    let row: &mut [i64; P] =
                        sums.weights[at..].first_chunk_mut().expect("the patch lies inside");
                    for j in 0..P {
                        row[j] = row[j].wrapping_add(weights[i][j]);
                    }
                }
            }
        }
    }
}

/// The whole number nearest to one below 2^51 in magnitude. A cast would not be vectorised.
#[inline(always)]
fn rounded(x: f32) -> i64 {
    const SHIFT: f64 = 1.5 * (1u64 << 52) as f64;
    ((f64::from(x) + SHIFT).to_bits().wrapping_sub(SHIFT.to_bits())) as i64
}

/// Loads the patches of a stack and transforms each.
#[inline(always)]
fn load<L: Lanes, const P: usize, const R: usize>(
    lanes: L,
    plane: &[f32],
    planes: &PlanePair<'_>,
    matches: &Matches,
    tables: &Tables<P, R>,
    stack: &mut [Patch<P, R>],
) {
    for ((y, x), into) in matches.places.iter().zip(stack) {
        let mut patch = [[0f32; R]; P];
        let from = (*y as usize - planes.top) * planes.width + *x as usize;
        for (i, row) in patch.iter_mut().enumerate() {
            let pixels: &[f32; P] =
                plane[from + i * planes.width..].first_chunk().expect("the patch lies inside");
            row[..P].copy_from_slice(pixels);
        }
        *into = two_dimensional(lanes, &tables.forward, &tables.forward_columns, &patch);
    }
}

/// A matrix times a patch times the matrix transposed.
#[inline(always)]
fn two_dimensional<L: Lanes, const P: usize, const R: usize>(
    lanes: L,
    matrix: &[[f32; P]; P],
    columns: &[[f32; R]; P],
    patch: &Patch<P, R>,
) -> Patch<P, R> {
    let mut down = [[0f32; R]; P];
    for i in 0..P {
        let mut sum = [0f32; R];
        for k in 0..P {
            for j in 0..R {
                sum[j] += matrix[i][k] * patch[k][j];
            }
        }
        down[i] = sum;
    }
    // Numbers that are spread over a vector from memory take no shuffle.
    let down = lanes.reload(down.as_flattened());
    let mut out = [[0f32; R]; P];
    for i in 0..P {
        let mut sum = [0f32; R];
        for k in 0..P {
            for j in 0..R {
                sum[j] += down[i * R + k] * columns[k][j];
            }
        }
        out[i] = sum;
    }
    out
}

/// Zeroes small coefficients except the mean; returns the weight of the estimate.
#[inline(always)]
fn threshold<const P: usize, const R: usize>(stack: &mut [Patch<P, R>], limit: f32) -> f32 {
    let mean = stack[0][0][0];
    let mut kept = 0i32;
    for coefficient in stack.as_flattened_mut().as_flattened_mut() {
        let keep = coefficient.abs() >= limit;
        kept = kept.wrapping_add(i32::from(keep));
        *coefficient = if keep { *coefficient } else { 0.0 };
    }
    // The mean counts, whatever it is.
    kept += i32::from(mean.abs() < limit);
    stack[0][0][0] = mean;
    1.0 / kept as f32
}

/// Partial sums of squares, so that a sum has one order on every path.
const PARTS: usize = 16;

/// Shrinks coefficients by Wiener's rule; returns the weight of the estimate, at most 1.
#[inline(always)]
fn wiener<L: Lanes, const P: usize, const R: usize>(
    lanes: L,
    stack: &mut [Patch<P, R>],
    model: &[Patch<P, R>],
    variance: f32,
) -> f32 {
    let noise = lanes.splat(variance);
    let mut squares = [lanes.splat(0.0); PARTS / 4];
    let (stack, model) = (stack.as_flattened_mut().as_flattened_mut(), model.as_flattened().as_flattened());
    for (some, model) in stack.chunks_exact_mut(PARTS).zip(model.chunks_exact(PARTS)) {
        let vectors = some.chunks_exact_mut(L::COUNT).zip(model.chunks_exact(L::COUNT));
        for ((coefficients, model), squares) in vectors.zip(&mut squares) {
            let model = lanes.load(model);
            let power = lanes.mul(model, model);
            let gain = lanes.div(power, lanes.add(power, noise));
            lanes.store(lanes.mul(lanes.load(coefficients), gain), coefficients);
            *squares = lanes.add(*squares, lanes.mul(gain, gain));
        }
    }
    let mut parts = [0f32; PARTS];
    for (parts, squares) in parts.chunks_exact_mut(L::COUNT).zip(squares) {
        lanes.store(squares, parts);
    }
    let mut sum = 0.0;
    for part in parts {
        sum += part;
    }
    // A black stack has no gain at all.
    1.0 / if sum > 1.0 { sum } else { 1.0 }
}

impl Along {
    /// Transforms a stack along its patches; the mean comes first.
    #[inline(always)]
    fn forward<L: Lanes, const P: usize, const R: usize>(&self, lanes: L, stack: &mut [Patch<P, R>]) {
        match self.kind {
            StackTransform::Dct => self.cosine(stack, false),
            StackTransform::Haar | StackTransform::Walsh => {
                let mut step = 1;
                while step < stack.len() {
                    self.butterflies(lanes, stack, step);
                    step *= 2;
                }
            }
        }
    }

    #[inline(always)]
    fn inverse<L: Lanes, const P: usize, const R: usize>(&self, lanes: L, stack: &mut [Patch<P, R>]) {
        match self.kind {
            StackTransform::Dct => self.cosine(stack, true),
            StackTransform::Haar | StackTransform::Walsh => {
                let mut step = stack.len() / 2;
                while step > 0 {
                    self.butterflies(lanes, stack, step);
                    step /= 2;
                }
            }
        }
    }

    /// Sums and differences of patches that are `step` apart: of the means only (Haar), or of all. They are their own inverse.
    #[inline(always)]
    fn butterflies<L: Lanes, const P: usize, const R: usize>(
        &self,
        lanes: L,
        stack: &mut [Patch<P, R>],
        step: usize,
    ) {
        let each = if self.kind == StackTransform::Haar { 1 } else { step };
        for base in (0..stack.len()).step_by(2 * step) {
            let (low, high) = stack[base..base + 2 * step].split_at_mut(step);
            let low = low[..each].as_flattened_mut().as_flattened_mut();
            let high = high[..each].as_flattened_mut().as_flattened_mut();
            let half = lanes.splat(std::f32::consts::FRAC_1_SQRT_2);
            for (low, high) in low.chunks_exact_mut(L::COUNT).zip(high.chunks_exact_mut(L::COUNT)) {
                let (a, b) = (lanes.load(low), lanes.load(high));
                lanes.store(lanes.mul(lanes.add(a, b), half), low);
                lanes.store(lanes.mul(lanes.sub(a, b), half), high);
            }
        }
    }

    #[inline(always)]
    fn cosine<const P: usize, const R: usize>(&self, stack: &mut [Patch<P, R>], transposed: bool) {
        let count = stack.len();
        let matrix = &self.cosines[count.ilog2() as usize];
        let mut out = [[[0f32; R]; P]; STACK_MAX];
        for (k, out) in out[..count].iter_mut().enumerate() {
            for (n, patch) in stack.iter().enumerate() {
                let factor = if transposed { matrix[n * count + k] } else { matrix[k * count + n] };
                for i in 0..P {
                    for j in 0..R {
                        out[i][j] += factor * patch[i][j];
                    }
                }
            }
        }
        stack.copy_from_slice(&out[..count]);
    }
}
