//! Sketches of signatures: 64 half-precision numbers each, whose Euclidean distances are about the signature quadratic form
//! distances with the Gaussian similarity over L2.
//!
//! That similarity is the characteristic function of normal frequencies `w ~ N(0, 2 alpha I)`, so a signature's *features*
//! `R^-1/2 (sum_i w_i cos(w_r.c_i), sum_i w_i sin(w_r.c_i))` for `R` random frequencies have about these distances (Rahimi
//! and Recht 2007). The weights enter as the distance defines them: as stored. The features are projected to the
//! [`COORDINATES`] principal directions of a sample, and rounded to half precision.
//!
//! Invariant: a sketch has the same bits on every machine, on every code path, and for any number of workers. The fast path
//! computes in f32 with no fused multiply-add, and each sum has one order; the directions are computed in f64 likewise.
//!
//! Sketches of any Hilbert distance are made of apexes instead ([`of_apex`]): their Euclidean distances are lower bounds.
//!
//! Modules in reading order: `frequencies`, `features` (a loop), `products` and `basis` (the principal directions),
//! `projection` (a loop), `apex`, `reference` (the formulas in f64).

mod frequencies;
mod features;
mod products;
mod basis;
mod projection;
mod apex;
pub mod reference;
#[cfg(test)]
mod tests;

pub use apex::{apex_error, apex_unit, of_apex};
pub use basis::{Basis, SideBySide};
pub use frequencies::Frequencies;

use half::f16;

use crate::CodePath;
use crate::lanes::run;
use crate::sqfd::SignatureRef;

/// Numbers of a sketch.
pub const COORDINATES: usize = 64;

/// The most objects of a sample. More change the directions by less than rounding to half precision does.
pub const SAMPLE_MAX: usize = 20_000;

/// The frequencies of a sketch are a multiple of this many: two vectors of the widest kind.
pub const FREQUENCIES_STEP: usize = 32;

/// The fewest and the most frequencies.
pub const FREQUENCIES_MIN: usize = 64;
/// See [`FREQUENCIES_MIN`]. The features of a full sample then take 328 MB while the directions are computed.
pub const FREQUENCIES_MAX: usize = 2048;
const _: () = assert!(
    FREQUENCIES_MIN.is_multiple_of(FREQUENCIES_STEP) && FREQUENCIES_MAX.is_multiple_of(FREQUENCIES_STEP)
);

/// Signatures whose features are projected together, so that each number of the basis is read once for all of them.
const TOGETHER: usize = 4;

/// Computes features and sketches. It holds working memory, so every thread needs its own.
#[derive(Clone, Debug)]
pub struct Sketcher {
    path: CodePath,
    /// Centroid by centroid: coordinates, then the weight.
    rows: Vec<f32>,
    features: Vec<f32>,
    projected: Vec<f32>,
}

impl Sketcher {
    /// A sketcher that uses the instructions of `path`.
    ///
    /// # Panics
    /// If this machine lacks them, see [`CodePath::is_available`].
    pub fn new(path: CodePath) -> Self {
        assert!(path.is_available(), "this machine has no {path} instructions");
        Self { path, rows: Vec::new(), features: Vec::new(), projected: vec![0.0; TOGETHER * COORDINATES] }
    }

    /// Writes the [`Frequencies::features`] features of a signature to `out`.
    ///
    /// # Panics
    /// If the signature has another number of dimensions, or `out` another length.
    pub fn features(&mut self, frequencies: &Frequencies, signature: SignatureRef<'_>, out: &mut [f32]) {
        assert_eq!(
            signature.dimensions(),
            frequencies.dimensions(),
            "a signature of the frequencies' dimensions"
        );
        assert_eq!(out.len(), frequencies.features(), "room for the features");
        let dimensions = signature.dimensions();
        self.rows.clear();
        self.rows.resize(signature.len() * (dimensions + 1), 0.0);
        for number in 0..=dimensions {
            let column = if number < dimensions { signature.coordinate(number) } else { signature.weights() };
            for (row, x) in self.rows.chunks_exact_mut(dimensions + 1).zip(column) {
                row[number] = *x;
            }
        }
        run(self.path, features::Features { frequencies, rows: &self.rows, out });
    }

    /// Writes the sketches of signatures to `out`, [`COORDINATES`] bit patterns of half-precision numbers each.
    ///
    /// # Panics
    /// If the basis is of other frequencies, a signature has another number of dimensions, or `out` another length.
    pub fn sketch(
        &mut self,
        frequencies: &Frequencies,
        basis: &Basis,
        signatures: &[SignatureRef<'_>],
        out: &mut [u16],
    ) {
        let width = frequencies.features();
        assert_eq!(basis.features(), width, "a basis of these frequencies");
        assert_eq!(out.len(), signatures.len() * COORDINATES, "room for the sketches");
        for (signatures, out) in signatures.chunks(TOGETHER).zip(out.chunks_mut(TOGETHER * COORDINATES)) {
            let mut features = std::mem::take(&mut self.features);
            features.resize(signatures.len() * width, 0.0);
            for (signature, features) in signatures.iter().zip(features.chunks_exact_mut(width)) {
                self.features(frequencies, *signature, features);
            }
            let projected = &mut self.projected[..out.len()];
            run(self.path, projection::Projection { basis, features: &features, out: projected });
            for (out, x) in out.iter_mut().zip(projected) {
                *out = f16::from_f32(*x).to_bits();
            }
            self.features = features;
        }
    }
}

/// A coordinate of a sketch as a number.
///
/// ```
/// assert_eq!(boxwork_kernels::sketch::coordinate(0x3c00), 1.0);
/// ```
#[inline]
pub fn coordinate(bits: u16) -> f32 {
    f16::from_bits(bits).to_f32()
}
