//! LAESA in one phase: keeps the distances to a few pivots, and computes the query's distances to the pivots one by one, as
//! long as that pays (M. L. Micó, J. Oncina, E. Vidal, "A new version of the nearest-neighbour approximating
//! and eliminating search algorithm (AESA) with linear preprocessing time and memory requirements", Pattern Recognition
//! Letters 15(1), 1994; section 4.2.2 of the source).
//!
//! The two-phase form, which computes the query's distances to all pivots first, is the pivot table
//! ([`lower_bound`](crate::lower_bound)).

use super::search::Ranked;
use super::{IndexedObjects, MetricIndex, MetricIndexError, Search, bytes_of, kept, room_of_pivots};

/// The LAESA index: the distances of all objects to the pivots.
#[derive(Debug)]
pub struct Laesa {
    objects: usize,
    pivots: Vec<u32>,
    eager: usize,
    /// One row of all objects per pivot.
    distances: Vec<f32>,
}

impl Laesa {
    /// Computes the distances to these pivots, which must be different. A search always computes its distances to the first
    /// `eager` pivots, and to a later pivot only if the pivot may be part of the answer.
    ///
    /// # Errors
    /// If the system refuses memory, a computed number is no distance, or the caller interrupts.
    pub fn build(
        objects: &IndexedObjects<'_>,
        pivots: &[u32],
        eager: usize,
    ) -> Result<Self, MetricIndexError> {
        let mut distances = room_of_pivots("laesa", objects.count(), pivots.len())?;
        for &pivot in pivots {
            for object in objects.all() {
                distances.push(kept(if object == pivot { 0.0 } else { objects.distance(pivot, object)? })?);
            }
        }
        Ok(Self { objects: objects.count(), pivots: pivots.to_vec(), eager, distances })
    }
}

impl MetricIndex for Laesa {
    fn objects(&self) -> usize {
        self.objects
    }

    fn bytes(&self) -> usize {
        bytes_of(&self.distances) + bytes_of(&self.pivots)
    }

    fn answer(&self, search: &mut Search<'_>) -> Result<(), MetricIndexError> {
        let slack = search.slack().stored();
        let mut lower = vec![0.0; self.objects];
        let mut pivots_left: Vec<usize> = (0..self.pivots.len()).collect();
        let mut computed = 0;
        loop {
            // First the eager pivots in their order, the best first; then the most promising pivot.
            let bound = |idx: usize| lower[self.pivots[idx] as usize];
            let next = match computed < self.eager {
                true => (!pivots_left.is_empty()).then_some(0),
                false => {
                    pivots_left.retain(|idx| !search.rules_out(bound(*idx)));
                    (0..pivots_left.len())
                        .reduce(|a, b| if bound(pivots_left[b]) < bound(pivots_left[a]) { b } else { a })
                }
            };
            let Some(place) = next else { break };
            let idx = pivots_left.remove(place);
            let distance = search.compute(self.pivots[idx])?;
            computed += 1;
            let row = &self.distances[idx * self.objects..][..self.objects];
            for (lower, between) in lower.iter_mut().zip(row) {
                let apart = slack.apart(distance, f64::from(*between));
                *lower = if apart > *lower { apart } else { *lower };
            }
            // An infinite bound keeps the pivot from being computed again.
            lower[self.pivots[idx] as usize] = f64::INFINITY;
        }
        let range = search.range();
        let mut left: Vec<Ranked> = (0..self.objects as u32)
            .map(|object| Ranked { distance: lower[object as usize], object })
            .filter(|left| left.distance <= range && left.distance.is_finite())
            .collect();
        left.sort_unstable();
        for left in left {
            if search.rules_out(left.distance) {
                break;
            }
            search.compute(left.object)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric_index::testing::check;

    #[test]
    fn answers_are_those_of_a_scan() {
        for (pivots, eager) in [(1, 0), (5, 0), (5, 2), (12, 100), (1000, 8)] {
            check(|objects| Laesa::build(objects, &objects.pivots(pivots, 7)?, eager));
        }
        check(|objects| Laesa::build(objects, &[], 0));
    }
}
