//! The Jaccard distance of sets: the share of their union that is not in both.
//!
//! Sets are slices in ascending order. The fast path merges two sets without branches that depend on the elements. If one set
//! is much smaller, it looks up its elements in the other.

use std::collections::BTreeSet;

use super::{Distance, DistanceError, Properties, Slack};

/// From this ratio of sizes on, looking up is faster than merging.
const LOOK_UP_RATIO: usize = 16;

/// `1 - |a and b| / |a or b|`; 0 for two empty sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jaccard;

impl Distance for Jaccard {
    type Object<'a> = &'a [u32];

    fn properties(&self) -> Properties {
        // 1 minus the distance is a positive definite kernel, so the root of the distance is a Hilbert distance.
        Properties { negative_type: true, ..Properties::metric("jaccard") }
    }

    fn slack(&self, _dimensions: usize, _extent: f64) -> Slack {
        // A single division of whole numbers.
        Slack::roundings(1.0)
    }

    fn check(&self, object: &[u32]) -> Result<(), DistanceError> {
        match object.windows(2).position(|pair| pair[0] >= pair[1]) {
            Some(place) => Err(DistanceError::NotASet { place: place + 1 }),
            None => Ok(()),
        }
    }

    fn distance(&self, a: &[u32], b: &[u32]) -> f64 {
        let (small, large) = if a.len() <= b.len() { (a, b) } else { (b, a) };
        let both = match large.len() / LOOK_UP_RATIO > small.len() {
            true => looked_up(small, large),
            false => merged(small, large),
        };
        share(both, a.len() + b.len() - both)
    }

    fn reference(&self, a: &[u32], b: &[u32]) -> f64 {
        let (a, b): (BTreeSet<_>, BTreeSet<_>) = (a.iter().collect(), b.iter().collect());
        share(a.intersection(&b).count(), a.union(&b).count())
    }
}

fn share(both: usize, either: usize) -> f64 {
    if either == 0 { 0.0 } else { (either - both) as f64 / either as f64 }
}

fn merged(a: &[u32], b: &[u32]) -> usize {
    let (mut i, mut j, mut both) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        let (x, y) = (a[i], b[j]);
        both += usize::from(x == y);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    both
}

fn looked_up(small: &[u32], large: &[u32]) -> usize {
    let (mut rest, mut both) = (large, 0);
    for element in small {
        let place = rest.partition_point(|other| other < element);
        rest = &rest[place..];
        both += usize::from(rest.first() == Some(element));
    }
    both
}
