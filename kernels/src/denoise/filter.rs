//! The filtering of stacks: transform, threshold or Wiener's rule, inverse, and the sums of estimates.
//!
//! Invariant: each operation on coefficients is one IEEE operation in a fixed order, so every path has the same bits.

use crate::CodePath;
use crate::lanes::{self, Lanes, Work};

use super::aggregation::{ESTIMATE_UNITS, Sums, WEIGHT_UNITS};
use super::matching::Matches;
use super::parameters::{Phase, STACK_MAX, StackTransform, Transform};
use super::transform::{Matrix, Patch, forward, inverse, kaiser};
use super::variance::{Correlations, variances};

/// The tables of a phase in f32, for patches in rows of `R` numbers.
struct Tables<const P: usize, const R: usize> {
    forward: [[f32; P]; P],
    /// Columns of the forward matrix, padded.
    forward_columns: [[f32; R]; P],
    inverse: [[f32; P]; P],
    inverse_columns: [[f32; R]; P],
    window: [[f32; R]; P],
    correlations: Correlations,
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
            correlations: Correlations::new(&there, R),
        }
    }
}

/// A rule by which coefficients shrink.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    /// Coefficients whose square is below this many variances of their noise are zeroed.
    Threshold(f32),
    /// Coefficients shrink by Wiener's rule with this many variances of their noise; the model is the second plane.
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

    /// Filters stacks of each plane, and adds the estimates to sums of a layout.
    pub fn add(
        &self,
        path: CodePath,
        rows: Rows,
        planes: &mut [Plane<'_>],
        stacks: &[Matches],
        layout: &impl Layout,
    ) {
        let along = &self.along;
        match &self.tables {
            Sized::Eight(tables) => {
                lanes::run(path, Stacks { tables: &**tables, along, rows, planes, stacks, layout });
            }
            Sized::Eleven(tables) => {
                lanes::run(path, Stacks { tables: &**tables, along, rows, planes, stacks, layout });
            }
        }
    }
}

/// The rows of planes.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    /// The row of the picture that they begin with.
    pub top: usize,
    pub width: usize,
}

/// The places of pixels in sums.
pub(crate) trait Layout {
    /// The number of the sums for the pixel in a row and a column of the planes.
    fn number(&self, y: usize, x: usize) -> usize;
}

impl Layout for Rows {
    #[inline(always)]
    fn number(&self, y: usize, x: usize) -> usize {
        (y - self.top) * self.width + x
    }
}

/// A plane whose stacks are filtered.
pub(crate) struct Plane<'a> {
    pub rule: Rule,
    pub noisy: &'a [f32],
    /// The basic estimate of the same rows for Wiener's rule; the noisy plane in the first phase.
    pub model: &'a [f32],
    pub sums: &'a mut Sums,
}

/// Stacks to filter.
struct Stacks<'a, 'p, T, const P: usize, const R: usize> {
    tables: &'a Tables<P, R>,
    along: &'a Along,
    rows: Rows,
    planes: &'a mut [Plane<'p>],
    stacks: &'a [Matches],
    layout: &'a T,
}

impl<T: Layout, const P: usize, const R: usize> Work for Stacks<'_, '_, T, P, R> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { tables, along, rows, planes, stacks, layout } = self;
        let mut stack = [[[0f32; R]; P]; STACK_MAX];
        let mut model = [[[0f32; R]; P]; STACK_MAX];
        // Other transforms along stacks are treated as if patches did not overlap.
        let mut noise = [[[1f32; R]; P]; STACK_MAX];
        for matches in stacks {
            let count = matches.places.len();
            let (stack, noise) = (&mut stack[..count], &mut noise[..count]);
            if along.kind == StackTransform::Haar {
                variances(lanes, &tables.correlations, &matches.places, noise);
            }
            for plane in &mut *planes {
                load(lanes, plane.noisy, rows, matches, tables, stack);
                along.forward(lanes, stack);
                let weight = match plane.rule {
                    Rule::Threshold(limit) => threshold(stack, noise, limit),
                    Rule::Wiener(variance) => {
                        let model = &mut model[..count];
                        load(lanes, plane.model, rows, matches, tables, model);
                        along.forward(lanes, model);
                        wiener(lanes, stack, model, noise, variance)
                    }
                };
                along.inverse(lanes, stack);
                add_estimates(lanes, tables, stack, matches, weight, (&mut *plane.sums, layout));
            }
        }
    }
}

/// Adds the estimates of a stack and their weights to the sums of their pixels.
#[inline(always)]
fn add_estimates<L: Lanes, const P: usize, const R: usize>(
    lanes: L,
    tables: &Tables<P, R>,
    stack: &[Patch<P, R>],
    matches: &Matches,
    weight: f32,
    (sums, layout): (&mut Sums, &impl Layout),
) {
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
        let from = layout.number(*y as usize, *x as usize);
        for i in 0..P {
            let at = from + i * sums.width;
            let row: &mut [i64; P] = sums.estimates[at..].first_chunk_mut().expect("the patch lies inside");
            // Sums stay far below 2^63; a check for overflow would keep the loop from being vectorised.
            let mut new = *row;
            for j in 0..P {
                new[j] = new[j].wrapping_add(rounded(estimate[i][j] * scales[i][j]));
            }
            *row = new;
            let row: &mut [i64; P] = sums.weights[at..].first_chunk_mut().expect("the patch lies inside");
            let mut new = *row;
            for j in 0..P {
                new[j] = new[j].wrapping_add(weights[i][j]);
            }
            *row = new;
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
    rows: Rows,
    matches: &Matches,
    tables: &Tables<P, R>,
    stack: &mut [Patch<P, R>],
) {
    for ((y, x), into) in matches.places.iter().zip(stack) {
        let mut patch = [[0f32; R]; P];
        let from = (*y as usize - rows.top) * rows.width + *x as usize;
        for (i, row) in patch.iter_mut().enumerate() {
            let pixels: &[f32; P] =
                plane[from + i * rows.width..].first_chunk().expect("the patch lies inside");
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

/// Partial sums of the noise that is left, so that a sum has one order on every path.
const PARTS: usize = 16;

/// The weight of an estimate: the inverse of the noise's variance that is left in it, at most 1.
#[inline(always)]
fn weight(parts: [f32; PARTS]) -> f32 {
    let mut sum = 0.0;
    for part in parts {
        sum += part;
    }
    // A black stack has no gain at all.
    1.0 / if sum > 1.0 { sum } else { 1.0 }
}

/// Zeroes small coefficients except the mean; returns the weight of the estimate.
#[inline(always)]
fn threshold<const P: usize, const R: usize>(
    stack: &mut [Patch<P, R>],
    noise: &[Patch<P, R>],
    limit: f32,
) -> f32 {
    // The mean is kept, whatever it is.
    let mean = std::mem::replace(&mut stack[0][0][0], f32::INFINITY);
    let mut parts = [0f32; PARTS];
    let (coefficients, noise) = (stack.as_flattened_mut().as_flattened_mut(), noise.as_flattened());
    let noise = noise.as_flattened().as_chunks::<PARTS>().0;
    for (some, noise) in coefficients.as_chunks_mut::<PARTS>().0.iter_mut().zip(noise) {
        // Masks in place of branches, which the compiler would not vectorise.
        let (mut kept, mut left) = ([0f32; PARTS], [0f32; PARTS]);
        for j in 0..PARTS {
            let mask = u32::from(some[j] * some[j] >= limit * noise[j]).wrapping_neg();
            kept[j] = f32::from_bits(some[j].to_bits() & mask);
            left[j] = f32::from_bits(noise[j].to_bits() & mask);
        }
        *some = kept;
        for j in 0..PARTS {
            parts[j] += left[j];
        }
    }
    stack[0][0][0] = mean;
    weight(parts)
}

/// Shrinks coefficients by Wiener's rule; returns the weight of the estimate.
#[inline(always)]
fn wiener<L: Lanes, const P: usize, const R: usize>(
    lanes: L,
    stack: &mut [Patch<P, R>],
    model: &[Patch<P, R>],
    noise: &[Patch<P, R>],
    variance: f32,
) -> f32 {
    let unit = lanes.splat(variance);
    let mut left = [lanes.splat(0.0); PARTS / 4];
    let stack = stack.as_flattened_mut().as_flattened_mut().chunks_exact_mut(PARTS);
    let models = model.as_flattened().as_flattened().chunks_exact(PARTS);
    let noises = noise.as_flattened().as_flattened().chunks_exact(PARTS);
    for ((some, model), noise) in stack.zip(models).zip(noises) {
        let coefficients = some.chunks_exact_mut(L::COUNT).zip(&mut left);
        let vectors = model.chunks_exact(L::COUNT).zip(noise.chunks_exact(L::COUNT));
        for ((coefficients, left), (model, noise)) in coefficients.zip(vectors) {
            let (model, noise) = (lanes.load(model), lanes.load(noise));
            let power = lanes.mul(model, model);
            let gain = lanes.div(power, lanes.add(power, lanes.mul(unit, noise)));
            lanes.store(lanes.mul(lanes.load(coefficients), gain), coefficients);
            *left = lanes.add(*left, lanes.mul(lanes.mul(gain, gain), noise));
        }
    }
    let mut parts = [0f32; PARTS];
    for (parts, left) in parts.chunks_exact_mut(L::COUNT).zip(left) {
        lanes.store(left, parts);
    }
    weight(parts)
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
