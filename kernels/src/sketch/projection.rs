//! The projection of features to the directions of a basis, in f32.

use super::{Basis, COORDINATES, TOGETHER};
use crate::lanes::{Lanes, Work, load_two};

/// Vectors of directions that the inner loop processes together.
const VECTORS: usize = 2;

/// Features of some signatures, one after the other, to project.
pub(super) struct Projection<'a> {
    pub(super) basis: &'a Basis,
    pub(super) features: &'a [f32],
    /// [`COORDINATES`] numbers for each signature.
    pub(super) out: &'a mut [f32],
}

impl Work for Projection<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) {
        if self.out.len() == TOGETHER * COORDINATES {
            return tile::<L, TOGETHER>(lanes, self.basis, self.features, self.out);
        }
        let width = self.basis.features();
        for (features, out) in self.features.chunks_exact(width).zip(self.out.chunks_exact_mut(COORDINATES)) {
            tile::<L, 1>(lanes, self.basis, features, out);
        }
        self.out = &mut [];
    }
}

#[inline(always)]
fn tile<L: Lanes, const SIGNATURES: usize>(lanes: L, basis: &Basis, features: &[f32], out: &mut [f32]) {
    let width = basis.features();
    for first in (0..COORDINATES).step_by(VECTORS * L::COUNT) {
        let mut sums = [[lanes.splat(0.0); VECTORS]; SIGNATURES];
        for (number, row) in basis.vectors().chunks_exact(COORDINATES).enumerate() {
            let row: [L::V; VECTORS] = load_two(lanes, &row[first..]);
            for (signature, sums) in sums.iter_mut().enumerate() {
                let feature = lanes.splat(features[signature * width + number]);
                for v in 0..VECTORS {
                    sums[v] = lanes.add(sums[v], lanes.mul(feature, row[v]));
                }
            }
        }
        for (signature, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                let place = first + v * L::COUNT;
                let offset = lanes.load(&basis.offset()[place..]);
                lanes.store(lanes.sub(*sum, offset), &mut out[signature * COORDINATES + place..]);
            }
        }
    }
}
