//! The term that one pair of centroids adds to sigma, for every measure: one step per dimension, and the end of a pair.
//!
//! Besides its coordinates, a query centroid has one number (`query_end`), and so has a candidate centroid
//! (`candidate_start`). For the Gaussian these are the two squared norms of the expanded square, and the logarithm of the
//! query centroid's weight is added to the first. For the other similarities `query_end` is the query centroid's weight,
//! and `candidate_start` is unused.

use crate::lanes::Lanes;

/// Computes the term of a pair of centroids, without the candidate's weight.
pub(super) trait Term: Copy {
    /// Before the first dimension.
    fn start<L: Lanes>(self, lanes: L, candidate_start: L::V) -> L::V;
    /// One dimension, with the coordinates of the query and of the candidate.
    fn step<L: Lanes>(self, lanes: L, sum: L::V, query: L::V, candidate: L::V) -> L::V;
    /// After the last dimension, for four vectors of pairs and their `query_end`s.
    fn end<L: Lanes>(self, lanes: L, sums: [L::V; 4], query_ends: [L::V; 4]) -> [L::V; 4];
}

/// `exp2(query . candidate + candidate_start + query_end)`: the Gaussian over L2, with its constants folded into the
/// coordinates. The query's norm is added last, which keeps that rounding proportional to the exponent.
#[derive(Clone, Copy)]
pub(super) struct Gaussian;

impl Term for Gaussian {
    #[inline(always)]
    fn start<L: Lanes>(self, _: L, candidate_start: L::V) -> L::V {
        candidate_start
    }
    #[inline(always)]
    fn step<L: Lanes>(self, lanes: L, sum: L::V, query: L::V, candidate: L::V) -> L::V {
        lanes.mul_add(query, candidate, sum)
    }
    #[inline(always)]
    fn end<L: Lanes>(self, lanes: L, mut sums: [L::V; 4], query_ends: [L::V; 4]) -> [L::V; 4] {
        for (sum, query_end) in sums.iter_mut().zip(query_ends) {
            *sum = lanes.add(*sum, query_end);
        }
        lanes.exp2(sums)
    }
}

/// Any other measure: the ground distance from differences, then its similarity, times the query centroid's weight.
#[derive(Clone, Copy)]
pub(super) struct Direct<G, S>(pub G, pub S);

impl<G: GroundTerm, S: SimilarityTerm> Term for Direct<G, S> {
    #[inline(always)]
    fn start<L: Lanes>(self, lanes: L, _: L::V) -> L::V {
        lanes.splat(0.0)
    }
    #[inline(always)]
    fn step<L: Lanes>(self, lanes: L, sum: L::V, query: L::V, candidate: L::V) -> L::V {
        self.0.step(lanes, sum, lanes.sub(query, candidate))
    }
    #[inline(always)]
    fn end<L: Lanes>(self, lanes: L, mut sums: [L::V; 4], query_ends: [L::V; 4]) -> [L::V; 4] {
        for (sum, query_end) in sums.iter_mut().zip(query_ends) {
            *sum = lanes.mul(query_end, self.1.of(lanes, self.0.end(lanes, *sum)));
        }
        sums
    }
}

/// A ground metric as a running sum over the dimensions.
pub(super) trait GroundTerm: Copy {
    fn step<L: Lanes>(self, lanes: L, sum: L::V, difference: L::V) -> L::V;
    #[inline(always)]
    fn end<L: Lanes>(self, _: L, sum: L::V) -> L::V {
        sum
    }
}

#[derive(Clone, Copy)]
pub(super) struct L1;

impl GroundTerm for L1 {
    #[inline(always)]
    fn step<L: Lanes>(self, lanes: L, sum: L::V, difference: L::V) -> L::V {
        lanes.add(sum, lanes.abs(difference))
    }
}

#[derive(Clone, Copy)]
pub(super) struct L2;

impl GroundTerm for L2 {
    #[inline(always)]
    fn step<L: Lanes>(self, lanes: L, sum: L::V, difference: L::V) -> L::V {
        lanes.mul_add(difference, difference, sum)
    }
    #[inline(always)]
    fn end<L: Lanes>(self, lanes: L, sum: L::V) -> L::V {
        lanes.sqrt(sum)
    }
}

#[derive(Clone, Copy)]
pub(super) struct SquaredL2;

impl GroundTerm for SquaredL2 {
    #[inline(always)]
    fn step<L: Lanes>(self, lanes: L, sum: L::V, difference: L::V) -> L::V {
        lanes.mul_add(difference, difference, sum)
    }
}

/// A similarity of a ground distance.
pub(super) trait SimilarityTerm: Copy {
    fn of<L: Lanes>(self, lanes: L, distance: L::V) -> L::V;
}

/// `1 / (alpha + d)`.
#[derive(Clone, Copy)]
pub(super) struct Heuristic {
    pub alpha: f32,
}

impl SimilarityTerm for Heuristic {
    #[inline(always)]
    fn of<L: Lanes>(self, lanes: L, distance: L::V) -> L::V {
        lanes.div(lanes.splat(1.0), lanes.add(lanes.splat(self.alpha), distance))
    }
}

/// `-d`.
#[derive(Clone, Copy)]
pub(super) struct Minus;

impl SimilarityTerm for Minus {
    #[inline(always)]
    fn of<L: Lanes>(self, lanes: L, distance: L::V) -> L::V {
        lanes.sub(lanes.splat(0.0), distance)
    }
}
