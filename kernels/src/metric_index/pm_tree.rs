//! The PM-tree: an M-tree whose balls are intersected with rings around a few pivots (T. Skopal, J. Pokorný, V. Snášel, "PM-tree:
//! pivoting metric tree for similarity search in multimedia databases", ADBIS 2004; section 4.2.4 of the source).
//!
//! Each node has the least and the largest distance of its objects to each pivot, and each object has its distances to the
//! pivots: a pivot table that is distributed over the tree. A search first computes the query's distances to the pivots.

use std::collections::HashMap;

use super::m_tree::{MTree, Rings};
use super::{IndexedObjects, MetricIndex, MetricIndexError, Search, Slack, bytes_of, kept, room_of_pivots};
use crate::interrupt::Interrupted;
use crate::memory::filled;

/// The PM-tree.
#[derive(Debug)]
pub struct PmTree {
    tree: MTree,
    pivots: Vec<u32>,
    /// One row of the pivots per object.
    distances: Vec<f32>,
    /// One row of the pivots per node: the least and the largest distance of the objects under it.
    rings: Vec<[f32; 2]>,
}

impl PmTree {
    /// Makes an M-tree and its rings around these pivots.
    ///
    /// # Errors
    /// If the system refuses memory, a computed number is no distance, or the caller interrupts.
    pub fn build(
        objects: &IndexedObjects<'_>,
        capacity: usize,
        pivots: &[u32],
    ) -> Result<Self, MetricIndexError> {
        let mut tree = MTree::build(objects, capacity)?;
        let mut distances = room_of_pivots("pm_tree", objects.count(), pivots.len())?;
        for object in objects.all() {
            for &pivot in pivots {
                distances.push(kept(if object == pivot { 0.0 } else { objects.distance(pivot, object)? })?);
            }
        }
        // A search computes the distances of the pivots before it enters the tree.
        pivots.iter().for_each(|pivot| tree.is_centre[*pivot as usize] = true);
        let rings = filled(
            tree.nodes.len() * pivots.len(),
            [f32::INFINITY, 0.0],
            || format!("the rings of a pm_tree of {} nodes and {} pivots", tree.nodes.len(), pivots.len()),
            "take fewer pivots, or free memory",
        )?;
        let mut made = Self { tree, pivots: pivots.to_vec(), distances, rings };
        made.ring(objects, made.tree.root)?;
        Ok(made)
    }

    /// Makes the rings of a node and of all nodes under it.
    fn ring(&mut self, objects: &IndexedObjects<'_>, node: u32) -> Result<(), Interrupted> {
        objects.go_on()?;
        let count = self.pivots.len();
        for place in 0..self.tree.nodes[node as usize].entries.len() {
            let entry = self.tree.nodes[node as usize].entries[place];
            let is_object = entry.child == u32::MAX;
            if !is_object {
                self.ring(objects, entry.child)?;
            }
            for pivot in 0..count {
                let [least, largest] = match is_object {
                    true => [self.distances[entry.object as usize * count + pivot]; 2],
                    false => self.rings[entry.child as usize * count + pivot],
                };
                let ring = &mut self.rings[node as usize * count + pivot];
                *ring = [ring[0].min(least), ring[1].max(largest)];
            }
        }
        Ok(())
    }
}

impl MetricIndex for PmTree {
    fn objects(&self) -> usize {
        self.tree.objects()
    }

    fn bytes(&self) -> usize {
        self.tree.bytes() + bytes_of(&self.distances) + bytes_of(&self.rings) + bytes_of(&self.pivots)
    }

    fn answer(&self, search: &mut Search<'_>) -> Result<(), MetricIndexError> {
        let slack = search.slack().stored();
        let mut known = HashMap::new();
        let mut query = Vec::with_capacity(self.pivots.len());
        for &pivot in &self.pivots {
            let distance = search.compute(pivot)?;
            known.insert(pivot, distance);
            query.push(distance);
        }
        let rings = QueryRings { of: self, query, slack };
        self.tree.answer_by(search, &rings, known)
    }
}

/// The rings with the distances of one query.
struct QueryRings<'a> {
    of: &'a PmTree,
    query: Vec<f64>,
    slack: Slack,
}

impl Rings for QueryRings<'_> {
    fn node(&self, node: u32) -> f64 {
        let rings = &self.of.rings[node as usize * self.query.len()..];
        let bounds = self.query.iter().zip(rings).map(|(query, [least, largest])| {
            let inside = self.slack.inside(*query, f64::from(*least));
            inside.max(self.slack.outside(*query, f64::from(*largest)))
        });
        bounds.fold(0.0, f64::max)
    }

    fn object(&self, object: u32) -> f64 {
        let row = &self.of.distances[object as usize * self.query.len()..];
        let bounds = self.query.iter().zip(row).map(|(query, own)| self.slack.apart(*query, f64::from(*own)));
        bounds.fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric_index::testing::check;

    #[test]
    fn answers_are_those_of_a_scan() {
        for (capacity, pivots) in [(3, 1), (4, 5), (10, 12), (1000, 1000)] {
            check(|objects| PmTree::build(objects, capacity, &objects.pivots(pivots, 3)?));
        }
        check(|objects| PmTree::build(objects, 6, &[]));
    }
}
