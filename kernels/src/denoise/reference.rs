//! The definition of both phases in f64: one reference patch after the other, every patch of its window.

use super::extents::grid;
use super::matching::{difference_max, displacements, pixel};
use super::parameters::{Colour, Parameters, Phase, StackTransform, Transform};
use super::picture::Picture;
use super::prediction::{FOLLOWED, HALF};
use super::transform::{Matrix, forward, inverse, kaiser};
use super::variance::VARIANCE_MIN;
use crate::pieces::one_by_one;

/// A plane of all frames in f64, row by row, one frame below the other.
struct Plane {
    width: usize,
    values: Vec<f64>,
}

impl Plane {
    fn patch(&self, (y, x): (usize, usize), size: usize) -> Matrix {
        (0..size).map(|i| self.values[(y + i) * self.width + x..][..size].to_vec()).collect()
    }
}

/// The frames of a video; a picture is one frame.
struct Clip {
    count: usize,
    /// Rows of a frame.
    height: usize,
    /// Frames on each side whose patches stacks may have.
    frames: usize,
}

/// A picture without its noise, as [`super::Denoiser`] computes it, in f64 and slowly.
///
/// # Panics
/// If the parameters do not pass their check.
pub fn reference(picture: &Picture, parameters: &Parameters, sigma: f64) -> Picture {
    reference_video(std::slice::from_ref(picture), parameters, sigma, 0).remove(0)
}

/// The frames of a video without their noise, as [`super::Video`] computes them, in f64 and slowly.
///
/// # Panics
/// If the parameters do not pass their check, there are no frames, or their sizes differ.
pub fn reference_video(
    pictures: &[Picture],
    parameters: &Parameters,
    sigma: f64,
    frames: usize,
) -> Vec<Picture> {
    parameters.check().expect("settings that fit");
    let patch = parameters.first.patch.max(parameters.second.map_or(0, |second| second.patch));
    let (width, height) = (pictures[0].width().max(patch), pictures[0].height().max(patch));
    let clip = Clip { count: pictures.len(), height, frames };
    let mut noisy: Vec<Plane> =
        (0..pictures[0].colours()).map(|_| Plane { width, values: Vec::new() }).collect();
    for picture in pictures {
        for (noisy, plane) in noisy.iter_mut().zip(picture.planes(0..height, patch, parameters.colour)) {
            noisy.values.extend(plane.into_iter().map(f64::from));
        }
    }
    assert_eq!(noisy[0].values.len(), clip.count * height * width, "frames have one size");
    let deviations: Vec<f64> =
        pictures[0].deviations(parameters.colour).iter().map(|factor| factor * sigma).collect();
    let mut done = phase(&parameters.first, parameters, &clip, &noisy, None, &deviations);
    if let Some(second) = &parameters.second {
        done = phase(second, parameters, &clip, &noisy, Some(&done), &deviations);
    }
    let result = |(frame, picture): (usize, &Picture)| {
        let mut result = picture.clone();
        let narrow = |plane: &Plane| {
            let values = &plane.values[frame * height * width..][..height * width];
            values.iter().map(|x| *x as f32).collect()
        };
        let planes: Vec<Vec<f32>> = done.iter().map(narrow).collect();
        result.put(0..height, &planes, width, parameters.colour, &mut one_by_one());
        result
    };
    pictures.iter().enumerate().map(result).collect()
}

/// One phase of all frames; with a model, Wiener's rule.
fn phase(
    phase: &Phase,
    parameters: &Parameters,
    clip: &Clip,
    noisy: &[Plane],
    model: Option<&[Plane]>,
    deviations: &[f64],
) -> Vec<Plane> {
    let width = noisy[0].width;
    let (there, window) = (forward(phase.transform, phase.patch), kaiser(phase.patch, phase.beta));
    let back = inverse(&there);
    let result = |plane: usize| {
        let guide = &model.unwrap_or(noisy)[if parameters.colour == Colour::Together { 0 } else { plane }];
        let pixels: Vec<i64> = guide.values.iter().map(|x| pixel(*x as f32) as i64).collect();
        let (mut estimates, mut weights) = (vec![0.0; pixels.len()], vec![0.0; pixels.len()]);
        for (frame, place) in clip.references(width, phase) {
            let places = clip.similar(&pixels, width, frame, place, phase);
            let spectrum = |plane: &Plane| {
                let patches = places.iter().map(|place| sandwich(&there, &plane.patch(*place, phase.patch)));
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
        let values = estimates.iter().zip(&weights).map(|(estimate, weight)| estimate / weight).collect();
        Plane { width, values }
    };
    (0..noisy.len()).map(result).collect()
}

/// A patch that is similar to a reference patch.
#[derive(Clone, Copy)]
struct Candidate {
    difference: i64,
    /// Frames away, and whether to an earlier one.
    away: usize,
    is_earlier: bool,
    /// Its row and column within its frame, and those of the reference patch.
    place: (usize, usize),
    from: (usize, usize),
}

impl Candidate {
    /// The order of candidates.
    fn rank(&self) -> (i64, usize, usize, usize, usize, usize, bool) {
        let ((y, x), from) = (self.place, self.from);
        (self.difference, self.away, y.abs_diff(from.0), x.abs_diff(from.1), y, x, self.is_earlier)
    }
}

impl Clip {
    /// The frames and corners of all reference patches.
    fn references(&self, width: usize, phase: &Phase) -> Vec<(usize, (usize, usize))> {
        let mut all = Vec::new();
        for frame in 0..self.count {
            for y in grid(self.height, phase) {
                all.extend(grid(width, phase).into_iter().map(|x| (frame, (y, x))));
            }
        }
        all
    }

    /// The patches of all frames that are similar to one, itself first: a power of two of them, by their places in planes.
    fn similar(
        &self,
        pixels: &[i64],
        width: usize,
        frame: usize,
        from: (usize, usize),
        phase: &Phase,
    ) -> Vec<(usize, usize)> {
        let size = self.height * width;
        let of_frame = |frame: usize| &pixels[frame * size..][..size];
        let own = of_frame(frame);
        let mut found: Vec<Candidate> = (nearest(own, width, from, phase).into_iter())
            .map(|(difference, place)| Candidate { difference, away: 0, is_earlier: false, place, from })
            .collect();
        let first: Vec<_> = found.iter().take(FOLLOWED).map(|candidate| candidate.place).collect();
        for is_earlier in [false, true] {
            let mut followed = first.clone();
            for away in 1..=self.frames {
                let other = if is_earlier { frame.checked_sub(away) } else { Some(frame + away) };
                let Some(other) = other.filter(|other| *other < self.count) else { break };
                let mut candidates = Vec::new();
                for (y, x) in all_places(self.height, width, phase) {
                    let is_near =
                        |(top, left): &(usize, usize)| y.abs_diff(*top) <= HALF && x.abs_diff(*left) <= HALF;
                    if !followed.iter().any(is_near) {
                        continue;
                    }
                    let difference = difference((own, from), (of_frame(other), (y, x)), width, phase.patch);
                    if difference <= i64::from(difference_max(phase)) {
                        candidates.push(Candidate { difference, away, is_earlier, place: (y, x), from });
                    }
                }
                candidates.sort_by_key(Candidate::rank);
                followed = candidates.iter().take(FOLLOWED).map(|candidate| candidate.place).collect();
                found.extend(candidates);
            }
        }
        found.sort_by_key(Candidate::rank);
        found.truncate(phase.stack);
        found.truncate(1 << found.len().ilog2());
        let top = |candidate: &Candidate| {
            let other = if candidate.is_earlier { frame - candidate.away } else { frame + candidate.away };
            (other * self.height + candidate.place.0, candidate.place.1)
        };
        found.iter().map(top).collect()
    }
}

/// The corners of all patches of a frame.
fn all_places(height: usize, width: usize, phase: &Phase) -> impl Iterator<Item = (usize, usize)> {
    let (bottom, right) = (height - phase.patch, width - phase.patch);
    (0..=bottom).flat_map(move |y| (0..=right).map(move |x| (y, x)))
}

/// The sum of squared differences of two patches.
fn difference(a: (&[i64], (usize, usize)), b: (&[i64], (usize, usize)), width: usize, size: usize) -> i64 {
    let at = |(pixels, (y, x)): (&[i64], (usize, usize)), i: usize, j: usize| pixels[(y + i) * width + x + j];
    let places = (0..size).flat_map(|i| (0..size).map(move |j| (i, j)));
    places.map(|(i, j)| (at(a, i, j) - at(b, i, j)).pow(2)).sum()
}

/// The differences and places of the patches of a window that are nearest to one, itself first.
fn nearest(
    pixels: &[i64],
    width: usize,
    (y, x): (usize, usize),
    phase: &Phase,
) -> Vec<(i64, (usize, usize))> {
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
        let difference = difference((pixels, (y, x)), (pixels, (top, left)), width, size);
        if difference <= i64::from(difference_max(phase)) {
            found.push((difference, rank, (top, left)));
        }
    }
    found.sort_unstable();
    found.truncate(phase.stack);
    found.into_iter().map(|(difference, _, place)| (difference, place)).collect()
}

/// The patches of a picture that are similar to one, itself first: a power of two of them.
#[cfg(test)]
pub(crate) fn similar(
    pixels: &[i64],
    width: usize,
    place: (usize, usize),
    phase: &Phase,
) -> Vec<(usize, usize)> {
    let clip = Clip { count: 1, height: pixels.len() / width, frames: 0 };
    clip.similar(pixels, width, 0, place, phase)
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
