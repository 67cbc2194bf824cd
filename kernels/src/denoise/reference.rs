//! The definition of both phases in f64: one reference patch after the other, every patch of its window.

use super::extents::grid;
use super::matching::{difference_max, displacements, pixel};
use super::parameters::{Colour, Parameters, Phase, StackTransform, Transform};
use super::picture::Picture;
use super::transform::{Matrix, forward, inverse, kaiser};
use super::variance::VARIANCE_MIN;

/// A plane in f64, row by row.
struct Plane {
    width: usize,
    values: Vec<f64>,
}

impl Plane {
    fn patch(&self, (y, x): (usize, usize), size: usize) -> Matrix {
        (0..size).map(|i| self.values[(y + i) * self.width + x..][..size].to_vec()).collect()
    }
}

/// A picture without its noise, as [`super::Denoiser`] computes it, in f64 and slowly.
///
/// # Panics
/// If the parameters do not pass their check.
pub fn reference(picture: &Picture, parameters: &Parameters, sigma: f64) -> Picture {
    parameters.check().expect("settings that fit");
    let patch = parameters.first.patch.max(parameters.second.map_or(0, |second| second.patch));
    let (width, height) = (picture.width().max(patch), picture.height().max(patch));
    let planes = picture.planes(0..height, patch, parameters.colour);
    let wide = |plane: &Vec<f32>| Plane { width, values: plane.iter().map(|x| f64::from(*x)).collect() };
    let noisy: Vec<Plane> = planes.iter().map(wide).collect();
    let deviations: Vec<f64> =
        picture.deviations(parameters.colour).iter().map(|factor| factor * sigma).collect();
    let mut done = phase(&parameters.first, parameters, &noisy, None, &deviations);
    if let Some(second) = &parameters.second {
        done = phase(second, parameters, &noisy, Some(&done), &deviations);
    }
    let mut result = picture.clone();
    let narrow = |plane: &Plane| plane.values.iter().map(|x| *x as f32).collect();
    let planes: Vec<Vec<f32>> = done.iter().map(narrow).collect();
    result.put(0..height, &planes, width, parameters.colour);
    result
}

/// One phase; with a model, Wiener's rule.
fn phase(
    phase: &Phase,
    parameters: &Parameters,
    noisy: &[Plane],
    model: Option<&[Plane]>,
    deviations: &[f64],
) -> Vec<Plane> {
    let width = noisy[0].width;
    let height = noisy[0].values.len() / width;
    let (there, window) = (forward(phase.transform, phase.patch), kaiser(phase.patch, phase.beta));
    let back = inverse(&there);
    let result = |plane: usize| {
        let guide = &model.unwrap_or(noisy)[if parameters.colour == Colour::Together { 0 } else { plane }];
        let pixels: Vec<i64> = guide.values.iter().map(|x| pixel(*x as f32) as i64).collect();
        let (mut estimates, mut weights) = (vec![0.0; width * height], vec![0.0; width * height]);
        for y in grid(height, phase) {
            for x in grid(width, phase) {
                let places = similar(&pixels, width, (y, x), phase);
                let spectrum = |plane: &Plane| {
                    let patches =
                        places.iter().map(|place| sandwich(&there, &plane.patch(*place, phase.patch)));
                    along(parameters.along, patches.collect(), false)
                };
                let noise = match parameters.along {
                    StackTransform::Haar => stack_variances(&there, &places),
                    _ => vec![vec![vec![1.0; phase.patch]; phase.patch]; places.len()],
                };
                let mut stack = spectrum(&noisy[plane]);
                let weight = match model {
                    None => threshold(&mut stack, &noise, parameters.lambda * deviations[plane]),
                    Some(model) => {
                        let variance = parameters.mu * deviations[plane] * deviations[plane];
                        wiener(&mut stack, &spectrum(&model[plane]), &noise, variance)
                    }
                };
                for ((top, left), patch) in places.iter().zip(along(parameters.along, stack, true)) {
                    let estimate = sandwich(&back, &patch);
                    for (i, row) in estimate.iter().enumerate() {
                        for (j, value) in row.iter().enumerate() {
                            let at = (top + i) * width + left + j;
                            estimates[at] += weight * window[i][j] * value;
                            weights[at] += weight * window[i][j];
                        }
                    }
                }
            }
        }
        let values = estimates.iter().zip(&weights).map(|(estimate, weight)| estimate / weight).collect();
        Plane { width, values }
    };
    (0..noisy.len()).map(result).collect()
}

/// The patches that are similar to one, itself first: a power of two of them.
pub(crate) fn similar(
    pixels: &[i64],
    width: usize,
    (y, x): (usize, usize),
    phase: &Phase,
) -> Vec<(usize, usize)> {
    let (height, size) = (pixels.len() / width, phase.patch);
    let mut found = Vec::new();
    for (rank, (dy, dx)) in displacements(phase.half_window).into_iter().enumerate() {
        let (Some(top), Some(left)) = (y.checked_add_signed(dy as isize), x.checked_add_signed(dx as isize))
        else {
            continue;
        };
        if top + size > height || left + size > width {
            continue;
        }
        let square = |i: usize, j: usize| {
            let difference = pixels[(y + i) * width + x + j] - pixels[(top + i) * width + left + j];
            difference * difference
        };
        let difference: i64 =
            (0..size).flat_map(|i| (0..size).map(move |j| (i, j))).map(|(i, j)| square(i, j)).sum();
        if difference <= i64::from(difference_max(phase)) {
            found.push((difference, rank, (top, left)));
        }
    }
    found.sort_unstable();
    found.truncate(phase.stack);
    found.truncate(1 << found.len().ilog2());
    found.into_iter().map(|(_, _, place)| place).collect()
}

/// A matrix times a patch times the matrix transposed.
fn sandwich(matrix: &Matrix, patch: &Matrix) -> Matrix {
    let size = patch.len();
    let cell = |a: &dyn Fn(usize) -> f64, b: &dyn Fn(usize) -> f64| (0..size).map(|k| a(k) * b(k)).sum();
    let down: Matrix =
        (0..size).map(|i| (0..size).map(|j| cell(&|k| matrix[i][k], &|k| patch[k][j])).collect()).collect();
    (0..size).map(|i| (0..size).map(|j| cell(&|k| down[i][k], &|k| matrix[j][k])).collect()).collect()
}

/// The matrix of a transform along a stack.
fn stack_matrix(kind: StackTransform, size: usize) -> Matrix {
    match kind {
        StackTransform::Haar => forward(Transform::Haar, size),
        StackTransform::Dct => forward(Transform::Dct, size),
        StackTransform::Walsh => forward(Transform::Walsh, size),
    }
}

fn along(kind: StackTransform, stack: Vec<Matrix>, inverted: bool) -> Vec<Matrix> {
    let (count, size) = (stack.len(), stack[0].len());
    let matrix = stack_matrix(kind, count);
    // The matrices are orthogonal.
    let factor = |k: usize, n: usize| if inverted { matrix[n][k] } else { matrix[k][n] };
    let cell = |k: usize, i: usize, j: usize| (0..count).map(|n| factor(k, n) * stack[n][i][j]).sum();
    (0..count).map(|k| (0..size).map(|i| (0..size).map(|j| cell(k, i, j)).collect()).collect()).collect()
}

/// The variances of noise in the coefficients of a stack after Haar's transform along it: for each pair of its patches the
/// product of both factors, and of the noise that they share.
pub(crate) fn stack_variances(matrix: &Matrix, places: &[(usize, usize)]) -> Vec<Matrix> {
    let (count, size) = (places.len(), matrix.len());
    let factors = stack_matrix(StackTransform::Haar, count);
    // A pixel of both patches has a weight in each.
    let shared = |row: &[f64], away: usize| -> f64 { row.iter().zip(&row[away..]).map(|(a, b)| a * b).sum() };
    let mut sums = vec![vec![vec![0.0; size]; size]; count];
    for (k, a) in places.iter().enumerate() {
        for (l, b) in places.iter().enumerate() {
            let (rows, columns) = (a.0.abs_diff(b.0), a.1.abs_diff(b.1));
            if rows >= size || columns >= size {
                continue;
            }
            let of_rows: Vec<f64> = matrix.iter().map(|row| shared(row, rows)).collect();
            let of_columns: Vec<f64> = matrix.iter().map(|row| shared(row, columns)).collect();
            for (sums, factors) in sums.iter_mut().zip(&factors).filter(|(_, f)| f[k] * f[l] != 0.0) {
                for (sums, of_rows) in sums.iter_mut().zip(&of_rows) {
                    let terms =
                        of_columns.iter().map(|of_columns| factors[k] * factors[l] * of_rows * of_columns);
                    sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
                }
            }
        }
    }
    sums.iter_mut().flatten().flatten().for_each(|sum| *sum = sum.max(f64::from(VARIANCE_MIN)));
    sums
}

fn threshold(stack: &mut [Matrix], noise: &[Matrix], deviations: f64) -> f64 {
    let mean = std::mem::replace(&mut stack[0][0][0], f64::INFINITY);
    let mut left = 0.0;
    for (value, noise) in stack.iter_mut().flatten().flatten().zip(noise.iter().flatten().flatten()) {
        if *value * *value < deviations * deviations * noise {
            *value = 0.0;
        } else {
            left += noise;
        }
    }
    stack[0][0][0] = mean;
    1.0 / f64::max(left, 1.0)
}

fn wiener(stack: &mut [Matrix], model: &[Matrix], noise: &[Matrix], variance: f64) -> f64 {
    let mut left = 0.0;
    let others = model.iter().flatten().flatten().zip(noise.iter().flatten().flatten());
    for (value, (model, noise)) in stack.iter_mut().flatten().flatten().zip(others) {
        let gain = model * model / (model * model + variance * noise);
        *value *= gain;
        left += gain * gain * noise;
    }
    1.0 / f64::max(left, 1.0)
}
