//! The tables of a query, or of a list.

use super::Codebook;
use crate::lanes::{Lanes, Work, load_two};

/// The content of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Terms {
    /// Squared distances.
    Distances,
    /// -2 times the products with a query.
    Products,
    /// Squares, and twice the products with the centroid of a list.
    List,
}

/// Computes tables.
pub(super) struct Tables<'a> {
    pub(super) codebook: &'a Codebook,
    pub(super) query: &'a [f32],
    pub(super) out: &'a mut [f32],
    pub(super) terms: Terms,
}

/// Centroids that the inner loop processes together on the narrower paths: 16 is a number of two of their vectors, at most.
const CENTROIDS: usize = 16;

impl Work for Tables<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { codebook, query, out, terms } = self;
        let (width, count) = (codebook.width(), codebook.bits.centroids());
        let parts = codebook.turned.chunks_exact(width * count).zip(out.chunks_exact_mut(count));
        for (part, (turned, out)) in parts.enumerate() {
            let query = &query[(part * width).min(query.len())..((part + 1) * width).min(query.len())];
            let mut first = 0;
            while first < count {
                if first + 2 * L::COUNT <= count {
                    let sums = two(lanes, query, &turned[first..], count, terms);
                    lanes.store(sums[0], &mut out[first..]);
                    lanes.store(sums[1], &mut out[first + L::COUNT..]);
                    first += 2 * L::COUNT;
                } else {
                    const { assert!(CENTROIDS.is_multiple_of(L::COUNT)) };
                    let sum = one(lanes, query, &turned[first..], count, terms);
                    lanes.store(sum, &mut out[first..]);
                    first += L::COUNT;
                }
            }
        }
    }
}

#[inline(always)]
fn two<L: Lanes>(lanes: L, query: &[f32], turned: &[f32], count: usize, terms: Terms) -> [L::V; 2] {
    let mut sums = [lanes.splat(0.0); 2];
    for (x, centroids) in query.iter().zip(turned.chunks(count)) {
        let (x, centroids) = (lanes.splat(*x), load_two(lanes, centroids));
        for (sum, y) in sums.iter_mut().zip(centroids) {
            *sum = lanes.add(*sum, term(lanes, x, y, terms));
        }
    }
    sums
}

#[inline(always)]
fn one<L: Lanes>(lanes: L, query: &[f32], turned: &[f32], count: usize, terms: Terms) -> L::V {
    let mut sum = lanes.splat(0.0);
    for (x, centroids) in query.iter().zip(turned.chunks(count)) {
        sum = lanes.add(sum, term(lanes, lanes.splat(*x), lanes.load(centroids), terms));
    }
    sum
}

/// One number of the query and one of a centroid. Not fused, so that all paths have the same bits.
#[inline(always)]
fn term<L: Lanes>(lanes: L, x: L::V, y: L::V, terms: Terms) -> L::V {
    match terms {
        Terms::Distances => {
            let difference = lanes.sub(x, y);
            lanes.mul(difference, difference)
        }
        Terms::Products => lanes.mul(lanes.mul(x, lanes.splat(-2.0)), y),
        Terms::List => lanes.mul(lanes.add(y, lanes.add(x, x)), y),
    }
}
