//! The features of one signature in f32: an angle, its sine and its cosine for each frequency and centroid.

use super::{FREQUENCIES_STEP, Frequencies};
use crate::lanes::{Lanes, ROUND, Work};

/// `sin(pi f) / f` and `cos(pi f)` as polynomials of `f^2`, lowest power first, for f from -1/2 to 1/2: off by 4e-8 and 1.1e-7
/// at most, before rounding.
const SINE: [f32; 5] = [std::f32::consts::PI, -5.167_710_3, 2.550_077_4, -0.598_291_3, 0.077_657_66];
const COSINE: [f32; 5] = [0.999_999_94, -4.934_793, 4.058_411, -1.331_876_5, 0.219_689_61];

/// Vectors of frequencies that the inner loop processes together: the operations of one hide the latency of the other.
const VECTORS: usize = 2;

/// The features of a signature, to compute.
pub(super) struct Features<'a> {
    pub(super) frequencies: &'a Frequencies,
    /// Centroid by centroid: coordinates, then the weight.
    pub(super) rows: &'a [f32],
    pub(super) out: &'a mut [f32],
}

impl Work for Features<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        match self.frequencies.dimensions() {
            // Signatures of images.
            7 => self.run_dimensions::<L, 7>(lanes),
            _ => self.run_dimensions::<L, 0>(lanes),
        }
    }
}

impl Features<'_> {
    /// Computes all features; `DIMENSIONS` is 0 if the compiler does not know their number.
    #[inline(always)]
    fn run_dimensions<L: Lanes, const DIMENSIONS: usize>(self, lanes: L) {
        let Self { frequencies, rows, out } = self;
        let dimensions = if DIMENSIONS > 0 { DIMENSIONS } else { frequencies.dimensions() };
        let count = frequencies.count();
        let scale = lanes.splat((1.0 / (count as f64).sqrt()) as f32);
        let (cosines, sines) = out.split_at_mut(count);
        for first in (0..count).step_by(VECTORS * L::COUNT) {
            let turns = &frequencies.group(first / FREQUENCIES_STEP)[first % FREQUENCIES_STEP..];
            let (mut cosine, mut sine) = ([lanes.splat(0.0); VECTORS], [lanes.splat(0.0); VECTORS]);
            for row in rows.chunks_exact(dimensions + 1) {
                let mut angle = [lanes.splat(0.0); VECTORS];
                for (d, x) in row[..dimensions].iter().enumerate() {
                    let x = lanes.splat(*x);
                    for (v, angle) in angle.iter_mut().enumerate() {
                        let turns = lanes.load(&turns[d * FREQUENCIES_STEP + v * L::COUNT..]);
                        *angle = lanes.add(*angle, lanes.mul(x, turns));
                    }
                }
                let weight = lanes.splat(row[dimensions]);
                let (c, s) = cosine_and_sine(lanes, angle);
                for v in 0..VECTORS {
                    cosine[v] = lanes.add(cosine[v], lanes.mul(weight, c[v]));
                    sine[v] = lanes.add(sine[v], lanes.mul(weight, s[v]));
                }
            }
            for v in 0..VECTORS {
                lanes.store(lanes.mul(cosine[v], scale), &mut cosines[first + v * L::COUNT..]);
                lanes.store(lanes.mul(sine[v], scale), &mut sines[first + v * L::COUNT..]);
            }
        }
    }
}

/// Cosines and sines of angles in turns. An angle beyond 2^22 turns, infinite or NaN gives some number from -1 to 1.
#[inline(always)]
fn cosine_and_sine<L: Lanes>(lanes: L, angle: [L::V; VECTORS]) -> ([L::V; VECTORS], [L::V; VECTORS]) {
    let (round, half) = (lanes.splat(ROUND), lanes.splat(0.5));
    let (mut fraction, mut square) = (angle, angle);
    for v in 0..VECTORS {
        let whole = lanes.sub(lanes.add(angle[v], round), round);
        fraction[v] = lanes.min(lanes.max(lanes.sub(angle[v], whole), lanes.splat(-0.5)), half);
        square[v] = lanes.mul(fraction[v], fraction[v]);
    }
    // Sine and cosine of half the angle, then those of the whole.
    let (mut sine, mut cosine) = ([lanes.splat(SINE[4]); VECTORS], [lanes.splat(COSINE[4]); VECTORS]);
    for power in (0..4).rev() {
        for v in 0..VECTORS {
            sine[v] = lanes.add(lanes.mul(sine[v], square[v]), lanes.splat(SINE[power]));
            cosine[v] = lanes.add(lanes.mul(cosine[v], square[v]), lanes.splat(COSINE[power]));
        }
    }
    for v in 0..VECTORS {
        let half_sine = lanes.mul(sine[v], fraction[v]);
        let twice = lanes.add(half_sine, half_sine);
        sine[v] = lanes.mul(twice, cosine[v]);
        cosine[v] = lanes.sub(lanes.splat(1.0), lanes.mul(twice, half_sine));
    }
    (cosine, sine)
}
