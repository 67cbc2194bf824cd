//! One pass over many objects: an upper bound of the score of each, from its sketch alone.
//!
//! For an object at the distances `d_j` of its sketch from those of the marks, `k_j` is the covariance of `d_j`, the mean is
//! `mu = sum_j weight_j k_j`, and `q = max_j k_j^2 / (1 + noise_j)`. The variance given all marks is at most the variance
//! given one, `1 - k_j^2 / (1 + noise_j)`. So `U = mu + explore sqrt(1 - q)` is at least the object's score, and remains so
//! when further marks are assumed.
//!
//! [`Pass::upper`] defines `U` in f64; a ranking uses these numbers. [`FastPass`] and `pass.cl` compute it in f32 within
//! [`Pass::error`], so they only decide which objects are worth the f64 number: if the largest `size` bounds are wanted, and
//! the `size`-th largest fast one is `T`, then all objects above `T - 2 error` include them ([`Shortlist`]).
//!
//! The *column* of a mark is its covariances with all objects, as multiples of 1 / [`COLUMN_ONE`] in 16 bits. A session that
//! keeps columns computes those of its new marks only, and reads the rest. Fixed point has a thirtieth of the error that
//! half-precision numbers of the same size would have.
//!
//! Modules in reading order: `fast` (layout), `loops`, `shortlist`, `device` (data for `pass.cl`), `peak`.

mod fast;
mod loops;
mod shortlist;
pub mod device;
mod peak;
#[cfg(test)]
mod tests;

pub use fast::{COLUMN_ONE, Column, FastPass};
pub use peak::multiply_adds;
pub use shortlist::{Shortlist, Upper};

use super::{Covariance, Form};
use crate::lanes::{EXP2_RELATIVE_ERROR, INVERSE_ROOT_RELATIVE_ERROR};
use crate::sketch::{COORDINATES, coordinate};

/// Objects of a tile: the first coordinates of all, then the second ones, and so on. A coordinate of a tile is a line of 64
/// bytes, and a tile is a page.
pub const TILE: usize = 32;
/// Numbers of a tile.
pub const TILE_NUMBERS: usize = TILE * COORDINATES;
const _: () = assert!(2 * TILE == 64 && 2 * TILE_NUMBERS == 4096);

/// Unit roundoff of f32.
const UNIT: f64 = f32::EPSILON as f64 / 2.0;
/// Roundings of an expanded square, each of at most its largest partial sum: 64 products added to it, 65 of the object's norm,
/// 64 of the mark's numbers together, and some more.
const ROUNDINGS_OF_EXPANSION: f64 = 150.0;
/// Roundings of a square of differences, relative to itself: two for each difference and its square, 64 of the sum, two more.
const ROUNDINGS_OF_DIFFERENCES: f64 = 70.0;
/// A scaled square beyond this is not computed in f32.
const SQUARE_MAX: f64 = 1e30;

/// A marked object, as the pass uses it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassMark {
    /// The object's sketch, by the bits of its half-precision numbers.
    pub sketch: [u16; COORDINATES],
    /// Its part of the mean ([`Model::weights`](super::Model::weights)).
    pub weight: f64,
    /// The variance of its score's noise.
    pub noise: f64,
}

/// The marks of a round.
#[derive(Clone, Debug)]
pub struct Pass {
    covariance: Covariance,
    explore: f64,
    marks: Vec<Prepared>,
}

#[derive(Clone, Debug)]
struct Prepared {
    coordinates: [f64; COORDINATES],
    norm: f64,
    weight: f64,
    /// `1 / (1 + noise)`.
    share: f64,
}

impl Pass {
    /// A pass over objects for these marks. `explore` is the factor of the deviation, at least 0.
    ///
    /// # Panics
    /// When a noise is not above 0, a number is not finite, or `explore` is negative.
    pub fn new(covariance: Covariance, explore: f64, marks: &[PassMark]) -> Self {
        assert!(explore >= 0.0 && explore.is_finite(), "explore is {explore}");
        let marks = marks.iter().map(|mark| {
            let coordinates = mark.sketch.map(|bits| f64::from(coordinate(bits)));
            let norm = coordinates.iter().fold(0.0, |sum, x| sum + x * x).sqrt();
            assert!(mark.noise > 0.0 && mark.weight.is_finite() && norm.is_finite(), "a mark of numbers");
            Prepared { coordinates, norm, weight: mark.weight, share: 1.0 / (1.0 + mark.noise) }
        });
        Self { covariance, explore, marks: marks.collect() }
    }

    /// Number of marks.
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Whether there is no mark.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// The mean and the upper bound of an object, in f64, with the same bits on every machine.
    pub fn upper(&self, sketch: &[u16; COORDINATES]) -> Upper {
        let object = sketch.map(|bits| f64::from(coordinate(bits)));
        let (mut mean, mut largest) = (0.0, 0.0);
        for mark in &self.marks {
            let differences = object.iter().zip(&mark.coordinates).map(|(a, b)| a - b);
            let covariance = self.covariance.of(differences.fold(0.0, |sum, x| sum + x * x).sqrt());
            mean += mark.weight * covariance;
            largest = f64::max(largest, covariance * covariance * mark.share);
        }
        Upper { mean, upper: mean + self.explore * (1.0 - largest).max(0.0).sqrt() }
    }

    /// The largest error of a fast bound, of any object whose sketch has at most this Euclidean norm; infinite if f32 cannot
    /// hold the distances in units of the covariance's length.
    pub fn error(&self, norm_max: f64) -> f64 {
        self.error_with(norm_max, 0.0)
    }

    /// As [`Pass::error`], for bounds made of columns.
    pub fn error_of_columns(&self, norm_max: f64) -> f64 {
        self.error_with(norm_max, 0.5 / f64::from(COLUMN_ONE) + 2.0 * UNIT)
    }

    fn error_with(&self, norm_max: f64, rounding: f64) -> f64 {
        let (mut of_mean, mut of_share, mut weights, mut least) = (0.0, 0.0, 0.0, 1.0);
        for mark in &self.marks {
            let error = self.covariance_error(norm_max + mark.norm) + rounding;
            of_mean += mark.weight.abs() * error;
            of_share = f64::max(of_share, mark.share * (2.0 * error + error * error));
            weights += mark.weight.abs();
            least = f64::min(least, 1.0 - mark.share);
        }
        // Sums of one term for each mark, in f32.
        let sums = (self.marks.len() as f64 + 4.0) * UNIT * weights;
        // The difference of two roots is that of their squares, divided by their sum.
        let of_deviation = (of_share + 6.0 * UNIT) / least.sqrt() + 2.0 * UNIT;
        1.01 * (of_mean + sums + self.explore * of_deviation + 4.0 * UNIT * (weights + self.explore))
    }

    /// The largest error of a fast covariance, if the norms of object and mark add up to `norms`.
    fn covariance_error(&self, norms: f64) -> f64 {
        let largest = self.base() + self.scale() * norms * norms;
        if largest > SQUARE_MAX {
            return f64::INFINITY;
        }
        let expansion = ROUNDINGS_OF_EXPANSION * UNIT * largest;
        match self.covariance.form() {
            // The slope of x^-1/2 is at most 1/2 from 1 on.
            Form::InverseMultiquadric => 0.5 * expansion + INVERSE_ROOT_RELATIVE_ERROR,
            Form::Gaussian => std::f64::consts::LN_2 * expansion + EXP2_RELATIVE_ERROR,
            // x e^-x is at most 0.37, and a root halves a relative error; the factor and the product are rounded too.
            Form::Exponential | Form::Laplacian => {
                0.37 * (ROUNDINGS_OF_DIFFERENCES / 2.0 + 4.0) * UNIT + EXP2_RELATIVE_ERROR
            }
        }
    }

    /// The fast path computes this plus [`Pass::scale`] times the squared distance.
    fn base(&self) -> f64 {
        if self.covariance.form() == Form::InverseMultiquadric { 1.0 } else { 0.0 }
    }

    fn scale(&self) -> f64 {
        let (log2_e, length) = (std::f64::consts::LOG2_E, self.covariance.length());
        match self.covariance.form() {
            Form::InverseMultiquadric => 1.0 / (length * length),
            Form::Gaussian => log2_e / (2.0 * length * length),
            Form::Exponential | Form::Laplacian => (log2_e / length) * (log2_e / length),
        }
    }
}

/// Puts the sketch of an object into its place in a list of tiles.
///
/// # Panics
/// When the list ends before that tile.
pub fn place(tiles: &mut [u16], object: usize, sketch: &[u16; COORDINATES]) {
    let tile = &mut tiles[object / TILE * TILE_NUMBERS..][..TILE_NUMBERS];
    for (line, bits) in tile.chunks_exact_mut(TILE).zip(sketch) {
        line[object % TILE] = *bits;
    }
}

/// The sketch of an object in a list of tiles.
///
/// # Panics
/// When the list ends before that tile.
pub fn at(tiles: &[u16], object: usize) -> [u16; COORDINATES] {
    let tile = &tiles[object / TILE * TILE_NUMBERS..][..TILE_NUMBERS];
    std::array::from_fn(|number| tile[number * TILE + object % TILE])
}
