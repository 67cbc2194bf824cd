//! The Hausdorff distance of signatures: the largest distance of a centroid of one signature to the nearest centroid of the
//! other.
//!
//! Weights do not matter. The fast path compares one centroid of the first signature with all of the second, column by column,
//! and computes both directions in one pass. It computes the same numbers as the reference, to the bit.

use super::{Distance, DistanceError, Lp, Properties, Slack};
use crate::sqfd::SignatureRef;

/// The Hausdorff distance with a ground distance of centroids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hausdorff {
    ground: Lp,
}

impl Hausdorff {
    /// The Hausdorff distance with this distance of two centroids.
    pub fn new(ground: Lp) -> Self {
        Self { ground }
    }
}

impl Distance for Hausdorff {
    type Object<'a> = SignatureRef<'a>;

    fn properties(&self) -> Properties {
        Properties::metric("hausdorff")
    }

    fn slack(&self, dimensions: usize, extent: f64) -> Slack {
        // It is one of the ground distances, found by comparisons, so it has the error of a ground distance.
        self.ground.slack(dimensions, extent)
    }

    fn check(&self, object: SignatureRef<'_>) -> Result<(), DistanceError> {
        check_centroids(object)
    }

    fn distance(&self, a: SignatureRef<'_>, b: SignatureRef<'_>) -> f64 {
        assert_eq!(a.dimensions(), b.dimensions(), "signatures of one space");
        let mut row = vec![0.0; b.len()];
        let mut nearest_of_b = vec![f64::INFINITY; b.len()];
        let mut farthest = 0.0_f64;
        for i in 0..a.len() {
            powers(self.ground, a, i, b, &mut row);
            let mut nearest = f64::INFINITY;
            for (of_b, power) in nearest_of_b.iter_mut().zip(&row) {
                *of_b = lesser(*of_b, *power);
                nearest = lesser(nearest, *power);
            }
            farthest = farthest.max(nearest);
        }
        self.ground.of_power(nearest_of_b.into_iter().fold(farthest, f64::max))
    }

    fn reference(&self, a: SignatureRef<'_>, b: SignatureRef<'_>) -> f64 {
        let directed = |a: SignatureRef<'_>, b: SignatureRef<'_>| {
            let nearest = |i: usize| {
                let all = (0..b.len()).map(|j| ground(self.ground, a, i, b, j));
                all.fold(f64::INFINITY, f64::min)
            };
            (0..a.len()).map(nearest).fold(0.0, f64::max)
        };
        directed(a, b).max(directed(b, a))
    }
}

/// Checks that a signature has centroids, and that their numbers are finite.
pub(super) fn check_centroids(object: SignatureRef<'_>) -> Result<(), DistanceError> {
    if object.is_empty() {
        return Err(DistanceError::Empty);
    }
    (0..object.dimensions()).try_for_each(|d| Lp::L1.check(object.coordinate(d)))
}

/// The ground distance of two centroids, summed over the dimensions in order.
pub(super) fn ground(lp: Lp, a: SignatureRef<'_>, i: usize, b: SignatureRef<'_>, j: usize) -> f64 {
    let (a, b): (Vec<f32>, Vec<f32>) =
        (0..a.dimensions()).map(|d| (a.coordinate(d)[i], b.coordinate(d)[j])).unzip();
    lp.reference(&a, &b)
}

/// The ground distances of a centroid to all centroids of another signature, as `Lp::of_power` takes them.
pub(super) fn powers(lp: Lp, a: SignatureRef<'_>, i: usize, b: SignatureRef<'_>, out: &mut [f64]) {
    match lp.p() {
        1.0 => joined(a, i, b, out, |sum, difference| sum + difference.abs()),
        2.0 => joined(a, i, b, out, |sum, difference| sum + difference * difference),
        f64::INFINITY => joined(a, i, b, out, |most, difference| -lesser(-most, -difference.abs())),
        _ => out.iter_mut().enumerate().for_each(|(j, out)| *out = ground(lp, a, i, b, j)),
    }
}

/// Combines the differences of a centroid to each centroid of another signature, dimension by dimension.
#[inline(always)]
fn joined(
    a: SignatureRef<'_>,
    i: usize,
    b: SignatureRef<'_>,
    out: &mut [f64],
    join: impl Fn(f64, f64) -> f64,
) {
    out.fill(0.0);
    for d in 0..a.dimensions() {
        let x = f64::from(a.coordinate(d)[i]);
        for (out, y) in out.iter_mut().zip(b.coordinate(d)) {
            *out = join(*out, x - f64::from(*y));
        }
    }
}

/// One vector instruction, unlike `f64::min`, which handles NaNs. There are none.
#[inline(always)]
fn lesser(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}
