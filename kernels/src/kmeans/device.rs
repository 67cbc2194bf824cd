//! The assignment of k-means on devices: constants and sizes for `device.cl`, and centroids as it takes them.
//!
//! The device finds the nearest centroid of a row by values in f32, and says whether it is certain. On matrix units values are
//! those of vectors rounded to halves; rows that these do not decide get values in f32, and rows that these do not decide either
//! are left to the host, which compares in f64.
//!
//! Invariant: a cluster without the mark is the one that [`Assigner`](super::Assigner) finds, ties included. Proof: let `D` be
//! squared distances, and `R` those of the rounded vectors, of which values `v` differ by `|x|^2` and an error of at most `e`. If
//! `b` is at most as far as `a` in f64, then `D(b) <= D(a) + 2r`, where `r` bounds the rounding of a distance in f64. By the
//! triangle inequality `sqrt R` and `sqrt D` differ by at most `l`, the norms of what rounding has taken from the row and from a
//! centroid. So `R(b) <= R(a) + 4 l sqrt R(a) + 5 l^2 + 4r`, and `v(b) - v(a)` is at most this less `R(a)`, and `2e`. A cluster is
//! certain if the second least value is further from the least one. The tests hold the inequality against random numbers.

use half::f16;
use half::slice::{HalfBitsSliceExt as _, HalfFloatSliceExt as _};

use crate::numbers::NumberType;
use crate::pieces::{Pieces, collect};
use crate::vector::device::{self, GROUP, Held, ITEMS, Products, padded};
use crate::vector::halves;

/// The source of the kernels.
pub const TEXT: &str =
    concat!(include_str!("../vector/tile.cl"), include_str!("../vector/held.cl"), include_str!("device.cl"));

/// Marks a cluster that is not certain.
pub const UNDECIDED: u32 = 1 << 31;
/// The most centroids: numbers of clusters have a bit for the mark.
pub const CENTROIDS_MAX: usize = 1 << 30;

/// Centroids that one piece of work takes.
const CENTROIDS_PER_PIECE: usize = 64;

/// The unit roundoff of f32.
const UNIT: f64 = 1.0 / (1 << 24) as f64;
/// From this square of norms on, products and squares may leave f32.
const SQUARE_MAX: f64 = 1e37;

/// The constants to compile the source with, for vectors of so many numbers.
pub fn constants(on_units: bool, dimensions: usize) -> Vec<(&'static str, String)> {
    let products = if on_units { Products::Halves } else { Products::Single(NumberType::F32) };
    device::constants(products, dimensions)
}

/// Work groups of `assign` for some rows, and the items of each.
pub fn groups(on_units: bool, dimensions: usize, rows: usize) -> (usize, usize) {
    let held = Held::of(dimensions).filter(|_| on_units);
    let (of_group, items) = held.map_or((GROUP, ITEMS), |held| (held.vectors(), held.items()));
    (rows.div_ceil(of_group), items)
}

/// By row: its norm, and the norm of what rounding to halves takes from it, both rounded up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowTerms {
    /// Row after row.
    pub terms: Vec<[f32; 2]>,
    /// The largest norm.
    pub norm_max: f64,
    /// Whether halves keep enough of each row.
    pub is_worth_halves: bool,
}

impl RowTerms {
    /// The terms of some rows.
    pub fn new(rows: &[f32], dimensions: usize) -> Self {
        let (mut norm_max, mut is_worth_halves) = (0.0f64, true);
        let terms = rows.chunks_exact(dimensions).map(|row| {
            let (norm, lost) = halves::halved_norms(row);
            norm_max = if norm <= norm_max { norm_max } else { norm };
            is_worth_halves &= lost <= device::HALVES_WORTH * norm;
            [up(norm), up(lost)]
        });
        Self { terms: terms.collect(), norm_max, is_worth_halves }
    }

    /// Adds the terms of the next rows.
    pub fn extend(&mut self, next: Self) {
        self.norm_max = if next.norm_max <= self.norm_max { self.norm_max } else { next.norm_max };
        self.is_worth_halves &= next.is_worth_halves;
        self.terms.extend(next.terms);
    }
}

/// An f32 that is not smaller.
fn up(number: f64) -> f32 {
    let near = number as f32;
    if f64::from(near) < number { near.next_up() } else { near }
}

/// The errors of values: of a row of norm `n` it is at most `e[0] + n (e[1] + n e[2])`; `e[3]` is the largest norm of what
/// rounding has taken from a centroid.
pub type Errors = [f32; 4];

/// The centroids of a round as a device takes them.
#[derive(Clone, Debug)]
pub struct DeviceCentroids {
    dimensions: usize,
    /// Centroid after centroid.
    pub numbers: Vec<f32>,
    /// The squared norm of each.
    pub squares: Vec<f32>,
    /// The errors of values in f32.
    pub errors: Errors,
    /// The centroids rounded to halves, if these keep enough.
    pub halved: Option<Halved>,
}

/// Centroids rounded to halves.
#[derive(Clone, Debug)]
pub struct Halved {
    /// Centroid after centroid, each filled up with zeros.
    pub numbers: Vec<u16>,
    /// The squared norm of each.
    pub squares: Vec<f32>,
    /// The errors of values on matrix units.
    pub errors: Errors,
}

/// Some centroids, on their way to [`DeviceCentroids`].
#[derive(Default)]
struct Part {
    squares: Vec<f32>,
    halves: Vec<u16>,
    halved_squares: Vec<f32>,
    norm_max: f64,
    lost_max: f64,
    is_worth: bool,
}

impl Part {
    fn new(centroids: &[f32], dimensions: usize, wants_halves: bool) -> Self {
        let mut part = Self { is_worth: wants_halves, ..Self::default() };
        for centroid in centroids.chunks_exact(dimensions) {
            let square: f64 = centroid.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
            part.squares.push(square as f32);
            part.norm_max = if square.sqrt() <= part.norm_max { part.norm_max } else { square.sqrt() };
        }
        if wants_halves {
            part.halves.resize(part.squares.len() * padded(dimensions), 0);
            halves::halves(dimensions, centroids, &mut part.halves);
            let each = centroids.chunks_exact(dimensions).zip(part.halves.chunks_exact(padded(dimensions)));
            for (centroid, halves) in each {
                let (mut square, mut rounded, mut lost) = (0.0, 0.0, 0.0);
                let parts = centroid.chunks(halves::AT_ONCE).zip(halves.chunks(halves::AT_ONCE));
                for (numbers, halves) in parts {
                    let mut as_numbers = [0.0; halves::AT_ONCE];
                    let halves: &[f16] = halves[..numbers.len()].reinterpret_cast();
                    halves.convert_to_f32_slice(&mut as_numbers[..numbers.len()]);
                    for (number, half) in numbers.iter().zip(as_numbers) {
                        let (number, half) = (f64::from(*number), f64::from(half));
                        square += number * number;
                        rounded += half * half;
                        lost += (number - half) * (number - half);
                    }
                }
                part.halved_squares.push(rounded as f32);
                part.is_worth &= lost.sqrt() <= device::HALVES_WORTH * square.sqrt();
                part.lost_max = part.lost_max.max(lost.sqrt());
            }
        }
        part
    }

    fn extend(&mut self, next: Self) {
        self.squares.extend(next.squares);
        self.halves.extend(next.halves);
        self.halved_squares.extend(next.halved_squares);
        self.norm_max = if next.norm_max <= self.norm_max { self.norm_max } else { next.norm_max };
        self.lost_max = self.lost_max.max(next.lost_max);
        self.is_worth &= next.is_worth;
    }
}

impl DeviceCentroids {
    /// Takes centroids for rows of these terms; nothing if values might leave f32, or the caller cancelled it.
    pub fn new(
        centroids: &[f32],
        dimensions: usize,
        rows: &RowTerms,
        on_units: bool,
        pieces: &mut Pieces<'_>,
    ) -> Option<Self> {
        let wants_halves = on_units && rows.is_worth_halves;
        let of_piece = CENTROIDS_PER_PIECE * dimensions;
        let parts = collect(pieces, centroids.len().div_ceil(of_piece), |piece| {
            let numbers = &centroids[piece * of_piece..centroids.len().min((piece + 1) * of_piece)];
            Part::new(numbers, dimensions, wants_halves)
        })?;
        let mut all = Part { is_worth: wants_halves, ..Part::default() };
        parts.into_iter().for_each(|part| all.extend(part));
        let steps = dimensions as f64 + 8.0;
        let is_small = (rows.norm_max + all.norm_max).powi(2) < SQUARE_MAX && steps * UNIT < 0.01;
        if !is_small || all.squares.len() > CENTROIDS_MAX {
            return None;
        }
        // Ids decide among distances that differ less than f64 tells.
        let ranked = 4.0 * steps * f64::EPSILON;
        let errors = |of_product: f64, tiny: f64, norm_max: f64, lost: f64| {
            let fixed = (4.0 * UNIT + ranked) * norm_max * norm_max + tiny;
            [fixed, 2.0 * of_product * norm_max, ranked, lost].map(|number| up(number * (1.0 + 1e-6)))
        };
        let Part { squares, halves, halved_squares, norm_max, lost_max, is_worth } = all;
        let halved = is_worth.then(|| {
            let of_sum = 1.01 * device::sum_error_of_units(dimensions);
            let tiny = dimensions as f64 * 2.0f64.powi(-23);
            let errors = errors(of_sum, tiny, norm_max + lost_max, lost_max);
            Halved { numbers: halves, squares: halved_squares, errors }
        });
        let tiny = dimensions as f64 * 2.0f64.powi(-148);
        let of_product = 1.01 * steps * UNIT / (1.0 - steps * UNIT);
        let errors = errors(of_product, tiny, norm_max, 0.0);
        Some(Self { dimensions, numbers: centroids.to_vec(), squares, errors, halved })
    }

    /// Number of centroids.
    pub fn len(&self) -> usize {
        self.squares.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.squares.is_empty()
    }

    /// Numbers of a centroid as halves, with zeros that fill it up.
    pub fn padded(&self) -> usize {
        padded(self.dimensions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Random;
    use crate::pieces::one_by_one;

    /// As `is_decided` in the text, whose `term.y` is 0 without matrix units.
    fn is_decided(least: f32, second: f32, [norm, lost]: [f32; 2], errors: Errors) -> bool {
        let error = errors[0] + norm * (errors[1] + norm * errors[2]);
        let (lost, reach) = (lost + errors[3], norm + lost);
        let distance = (least + error + reach * reach).max(0.0).sqrt();
        let slack = lost * (4.0 * distance + 5.0 * lost) + 2.0 * error;
        second - least > slack * 1.00001 + 1e-37
    }

    /// The least two values, each as far off as it may be, and the centroid of the least.
    fn least_two(
        row: &[f32],
        centroids: &[f32],
        random: &mut Random,
        (norm, errors): (f32, Errors),
    ) -> (f32, f32, usize) {
        let error = errors[0] + norm * (errors[1] + norm * errors[2]);
        let values = centroids.chunks_exact(row.len()).enumerate().map(|(number, centroid)| {
            let product: f64 = row.iter().zip(centroid).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
            let square: f64 = centroid.iter().map(|x| f64::from(*x).powi(2)).sum();
            let off = [-1.0, 0.0, 1.0][random.idx(3)] * 0.9 * f64::from(error);
            ((square - 2.0 * product + off) as f32, number)
        });
        let mut values: Vec<(f32, usize)> = values.collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        (values[0].0, values.get(1).map_or(f32::INFINITY, |value| value.0), values[0].1)
    }

    #[test]
    fn decided_clusters_are_the_nearest_whatever_the_errors() {
        let mut random = Random::new(5);
        let (mut decided, mut halved) = (0, 0);
        for case in 0..4000 {
            let dimensions = [1, 2, 7, 40][random.idx(4)];
            let scale = [1.0, 1e-3, 1e6, 3e-18][random.idx(4)];
            let shift = [0.0, 1.0, 30.0][random.idx(3)];
            let mut number = || (random.normal_f32() + shift) * scale;
            let mut centroids: Vec<f32> = (0..5 * dimensions).map(|_| number()).collect();
            let mut row: Vec<f32> = (0..dimensions).map(|_| number()).collect();
            match case % 4 {
                // The row lies about between two centroids, which are close to each other.
                0 => {
                    for j in 0..dimensions {
                        centroids[dimensions + j] = centroids[j] * (1.0 + 1e-4 * random.normal_f32());
                        row[j] = centroids[j] * (1.0 + 1e-4 * random.normal_f32());
                    }
                }
                1 => row.copy_from_slice(&centroids[..dimensions]),
                _ => {}
            }
            let terms = RowTerms::new(&row, dimensions);
            let Some(taken) = DeviceCentroids::new(&centroids, dimensions, &terms, true, &mut one_by_one())
            else {
                panic!("norms are small")
            };
            let (nearest, _) = super::super::nearest(&centroids, &row);
            let [norm, lost] = terms.terms[0];
            let (least, second, which) = least_two(&row, &centroids, &mut random, (norm, taken.errors));
            if is_decided(least, second, [norm, 0.0], taken.errors) {
                assert_eq!(which as u32, nearest);
                decided += 1;
            }
            if let Some(Halved { squares, errors, .. }) = &taken.halved {
                let round = |numbers: &[f32]| {
                    numbers
                        .chunks(halves::AT_ONCE)
                        .flat_map(|part| halves::halved(part)[..part.len()].to_vec())
                        .collect::<Vec<_>>()
                };
                let (row, centroids) = (round(&row), round(&centroids));
                assert_eq!(squares.len(), 5);
                let (least, second, which) = least_two(&row, &centroids, &mut random, (norm, *errors));
                if is_decided(least, second, [norm, lost], *errors) {
                    assert_eq!(which as u32, nearest);
                    halved += 1;
                }
            }
        }
        assert!(decided > 2000 && halved > 500, "{decided} and {halved} are decided");
    }

    #[test]
    fn values_that_leave_f32_and_numbers_that_leave_halves_are_not_given_to_them() {
        let of = |rows: &[f32], centroids: &[f32]| {
            DeviceCentroids::new(centroids, 2, &RowTerms::new(rows, 2), true, &mut one_by_one())
        };
        assert!(of(&[1e19, 0.0], &[1.0, 1.0]).is_none() && of(&[1.0, 0.0], &[f32::NAN, 1.0]).is_none());
        assert!(of(&[1.0, 0.0], &[1.0, 1.0]).is_some_and(|taken| taken.halved.is_some()));
        for large in [[1e5, 1.0], [1e-9, 0.0]] {
            assert!(of(&[1.0, 0.0], &large).is_some_and(|taken| taken.halved.is_none()));
            assert!(of(&large, &[1.0, 0.0]).is_some_and(|taken| taken.halved.is_none()));
        }
        let taken = of(&[1.0, 0.0], &[1.0, 0.5, 2.0, 0.0]).unwrap();
        assert_eq!((taken.len(), taken.padded(), taken.squares), (2, 32, vec![1.25, 4.0]));
        assert_eq!(taken.halved.unwrap().numbers[32..34], [0x4000, 0]);
    }
}
