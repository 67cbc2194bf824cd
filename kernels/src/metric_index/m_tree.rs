//! The M-tree: a balanced tree of balls (P. Ciaccia, M. Patella, P. Zezula, "M-tree: an efficient access method for
//! similarity search in metric spaces", VLDB 1997; Algorithm 4.6 of the source, except that its recursion keeps separate
//! results and so never prunes: here one queue and one range serve the whole search).
//!
//! Objects are inserted one by one. A full node is split in two: the two new centres are the pair of its objects whose
//! larger ball is smallest (`mM_RAD`), and each entry goes to the nearer centre. After the last insertion, each radius is
//! reduced to what its objects need.

use std::collections::{BinaryHeap, HashMap};

use super::search::Ranked;
use super::{IndexedObjects, MetricIndex, MetricIndexError, Search, bytes_of};

const NONE: u32 = u32::MAX;
/// The least number of entries per node with which a tree can be made.
const ENTRIES_MIN: usize = 3;

/// The M-tree.
#[derive(Debug)]
pub struct MTree {
    pub(super) nodes: Vec<Node>,
    pub(super) root: u32,
    objects: usize,
    /// Whether an object is the centre of a ball. Then its distance may be known before the search reaches its leaf.
    pub(super) is_centre: Vec<bool>,
}

#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) entries: Vec<Entry>,
}

/// An object or a ball of objects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) object: u32,
    /// The node of the ball's entries; [`NONE`] for an object.
    pub(super) child: u32,
    /// The largest distance that an object of the ball has from its centre.
    pub(super) radius: f64,
    /// The distance to the centre of the ball that contains the entry; 0 in the root.
    pub(super) to_parent: f64,
}

/// Additional lower bounds of objects and nodes: none for an M-tree, rings for a PM-tree.
pub(super) trait Rings {
    /// A lower bound of the distances of all objects under a node.
    fn node(&self, _node: u32) -> f64 {
        0.0
    }

    /// A lower bound of the distance of an object.
    fn object(&self, _object: u32) -> f64 {
        0.0
    }
}

/// No additional bounds.
pub(super) struct NoRings;

impl Rings for NoRings {}

impl MTree {
    /// Makes a tree whose nodes have at most `capacity` entries. A smaller capacity than 3 counts as 3.
    ///
    /// # Errors
    /// If a computed number is no distance, or the caller interrupts.
    pub fn build(objects: &IndexedObjects<'_>, capacity: usize) -> Result<Self, MetricIndexError> {
        let mut building = Building {
            objects,
            capacity: capacity.max(ENTRIES_MIN),
            tree: Self {
                nodes: vec![Node::default()],
                root: 0,
                objects: objects.count(),
                is_centre: vec![false; objects.count()],
            },
        };
        for object in objects.all() {
            building.insert(object)?;
        }
        let root = building.tree.root;
        building.tighten(root, &mut Vec::new())?;
        Ok(building.tree)
    }

    /// Levels of nodes, at least 1.
    pub fn height(&self) -> usize {
        let first = |node: u32| self.nodes[node as usize].entries.first().map_or(NONE, |entry| entry.child);
        std::iter::successors(Some(self.root), |node| Some(first(*node)).filter(|child| *child != NONE))
            .count()
    }

    /// Answers a search with balls and additional bounds. `known` holds distances that are computed already.
    pub(super) fn answer_by(
        &self,
        search: &mut Search<'_>,
        rings: &impl Rings,
        mut known: HashMap<u32, f64>,
    ) -> Result<(), MetricIndexError> {
        let slack = search.slack();
        // Nodes by their bounds, the least first, with the bits of the query's distance to the node's centre.
        let mut queue = BinaryHeap::new();
        queue.push((std::cmp::Reverse(Ranked { distance: 0.0, object: self.root }), 0_u64));
        let mut is_root = true;
        while let Some((std::cmp::Reverse(next), centre_bits)) = queue.pop() {
            if search.rules_out(next.distance) {
                break;
            }
            let to_centre = f64::from_bits(centre_bits);
            for entry in &self.nodes[next.object as usize].entries {
                // The bound by the distance to the centre needs no further distance.
                let nearest = if is_root { 0.0 } else { slack.apart(to_centre, entry.to_parent).max(0.0) };
                if entry.child == NONE {
                    let is_known = self.is_centre[entry.object as usize] && known.contains_key(&entry.object);
                    if !is_known
                        && !search.rules_out(nearest)
                        && !search.rules_out(rings.object(entry.object))
                    {
                        search.compute(entry.object)?;
                    }
                    continue;
                }
                let lower = slack.outside(nearest, entry.radius).max(next.distance);
                if search.rules_out(lower) {
                    continue;
                }
                let lower = lower.max(rings.node(entry.child));
                if search.rules_out(lower) {
                    continue;
                }
                let distance = match known.get(&entry.object) {
                    Some(distance) => *distance,
                    None => {
                        let distance = search.compute(entry.object)?;
                        known.insert(entry.object, distance);
                        distance
                    }
                };
                let lower = lower.max(slack.outside(distance, entry.radius));
                if !search.rules_out(lower) {
                    let node = Ranked { distance: lower, object: entry.child };
                    queue.push((std::cmp::Reverse(node), distance.to_bits()));
                }
            }
            is_root = false;
        }
        Ok(())
    }
}

impl MetricIndex for MTree {
    fn objects(&self) -> usize {
        self.objects
    }

    fn bytes(&self) -> usize {
        let entries: usize = self.nodes.iter().map(|node| bytes_of(&node.entries)).sum();
        entries + bytes_of(&self.nodes) + bytes_of(&self.is_centre)
    }

    fn answer(&self, search: &mut Search<'_>) -> Result<(), MetricIndexError> {
        self.answer_by(search, &NoRings, HashMap::new())
    }
}

/// A tree in the making.
struct Building<'a> {
    objects: &'a IndexedObjects<'a>,
    capacity: usize,
    tree: MTree,
}

impl Building<'_> {
    fn insert(&mut self, object: u32) -> Result<(), MetricIndexError> {
        let root = self.tree.root;
        if let Some(halves) = self.insert_into(root, NONE, object, 0.0)? {
            self.tree.nodes.push(Node { entries: halves.to_vec() });
            self.tree.root = self.tree.nodes.len() as u32 - 1;
        }
        Ok(())
    }

    /// Inserts an object, at distance `to_centre` from the node's centre, under a node. Returns both halves if the node was
    /// split.
    fn insert_into(
        &mut self,
        node: u32,
        centre: u32,
        object: u32,
        to_centre: f64,
    ) -> Result<Option<[Entry; 2]>, MetricIndexError> {
        let entries = &self.tree.nodes[node as usize].entries;
        let is_leaf = entries.first().is_none_or(|entry| entry.child == NONE);
        if is_leaf {
            let entry = Entry { object, child: NONE, radius: 0.0, to_parent: to_centre };
            self.tree.nodes[node as usize].entries.push(entry);
        } else {
            // The nearest ball that contains it, or else the ball that has to grow least.
            let mut best: Option<(f64, f64, usize)> = None;
            for (place, entry) in entries.iter().enumerate() {
                let distance = self.objects.distance(object, entry.object)?;
                let grows = (distance - entry.radius).max(0.0);
                let better = best.is_none_or(|best| (grows, distance) < (best.0, best.1));
                if better {
                    best = Some((grows, distance, place));
                }
            }
            let Some((_, distance, place)) = best else { return Ok(None) };
            let entry = &mut self.tree.nodes[node as usize].entries[place];
            entry.radius = entry.radius.max(distance);
            let (child, child_centre) = (entry.child, entry.object);
            if let Some(mut halves) = self.insert_into(child, child_centre, object, distance)? {
                if centre != NONE {
                    for half in &mut halves {
                        half.to_parent = self.between(half.object, centre)?;
                    }
                }
                let entries = &mut self.tree.nodes[node as usize].entries;
                entries[place] = halves[0];
                entries.push(halves[1]);
            }
        }
        let full = self.tree.nodes[node as usize].entries.len() > self.capacity;
        if full { self.split(node).map(Some) } else { Ok(None) }
    }

    fn between(&self, a: u32, b: u32) -> Result<f64, MetricIndexError> {
        if a == b { Ok(0.0) } else { self.objects.distance(a, b) }
    }

    /// Divides the entries of a node between it and a new one.
    fn split(&mut self, node: u32) -> Result<[Entry; 2], MetricIndexError> {
        let entries = std::mem::take(&mut self.tree.nodes[node as usize].entries);
        let count = entries.len();
        let mut distances = vec![0.0; count * count];
        for a in 0..count {
            for b in 0..a {
                let distance = self.between(entries[a].object, entries[b].object)?;
                distances[a * count + b] = distance;
                distances[b * count + a] = distance;
            }
        }
        let reach = |centre: usize, other: usize| distances[centre * count + other] + entries[other].radius;
        let divide = |a: usize, b: usize| -> (Vec<bool>, [f64; 2]) {
            let (mut sizes, mut radii) = ([0, 0], [0.0_f64; 2]);
            let to_b = |other: usize, sizes: [usize; 2]| {
                let (from_a, from_b) = (distances[a * count + other], distances[b * count + other]);
                // An entry at equal distances goes to the smaller half, so that duplicates make no chains.
                other == b || (other != a && (from_b < from_a || (from_b == from_a && sizes[1] < sizes[0])))
            };
            let sides = (0..count).map(|other| {
                let side = to_b(other, sizes);
                let idx = usize::from(side);
                sizes[idx] += 1;
                radii[idx] = radii[idx].max(reach([a, b][idx], other));
                side
            });
            (sides.collect(), radii)
        };
        let mut best = None;
        for second in 0..count {
            // The inner loop makes up to `count` divisions, and each looks at all entries.
            self.objects.go_on()?;
            for first in 0..second {
                let [a, b] = divide(first, second).1;
                let cost = (a.max(b), a + b);
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, (first, second)));
                }
            }
        }
        let (a, b) = best.map_or((0, 1), |best| best.1);
        let (sides, radii) = divide(a, b);
        let mut halves = [Node::default(), Node::default()];
        for (place, (entry, side)) in entries.iter().zip(sides).enumerate() {
            let idx = usize::from(side);
            let to_parent = distances[[a, b][idx] * count + place];
            halves[idx].entries.push(Entry { to_parent, ..*entry });
        }
        let [first, second] = halves;
        self.tree.nodes[node as usize] = first;
        self.tree.nodes.push(second);
        let children = [node, self.tree.nodes.len() as u32 - 1];
        Ok([0, 1].map(|idx| Entry {
            object: entries[[a, b][idx]].object,
            child: children[idx],
            radius: radii[idx],
            to_parent: 0.0,
        }))
    }

    /// Reduces the radii under a node to what their objects need. Appends all objects under the node to `under`.
    fn tighten(&mut self, node: u32, under: &mut Vec<u32>) -> Result<(), MetricIndexError> {
        self.tree.nodes[node as usize].entries.shrink_to_fit();
        for place in 0..self.tree.nodes[node as usize].entries.len() {
            let entry = self.tree.nodes[node as usize].entries[place];
            if entry.child == NONE {
                under.push(entry.object);
                continue;
            }
            self.tree.is_centre[entry.object as usize] = true;
            let first = under.len();
            self.tighten(entry.child, under)?;
            let leaves = &self.tree.nodes[entry.child as usize].entries;
            let mut radius = 0.0_f64;
            match leaves.first() {
                // Leaf entries store their distances.
                Some(leaf) if leaf.child == NONE => {
                    radius = leaves.iter().fold(radius, |radius, leaf| radius.max(leaf.to_parent));
                }
                _ => {
                    for object in &under[first..] {
                        radius = radius.max(self.between(entry.object, *object)?);
                    }
                }
            }
            self.tree.nodes[node as usize].entries[place].radius = radius;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric_index::testing::{check, clustered};

    #[test]
    fn answers_are_those_of_a_scan() {
        for capacity in [0, 3, 4, 10, 1000] {
            check(|objects| MTree::build(objects, capacity));
        }
    }

    #[test]
    fn every_object_lies_in_all_balls_above_it_and_all_leaves_at_one_depth() {
        clustered(|objects| {
            let tree = MTree::build(objects, 5).unwrap();
            let (mut found, height) = (Vec::new(), tree.height());
            assert!(height > 2);
            let mut stack = vec![(tree.root, Vec::<(u32, f64)>::new())];
            while let Some((node, above)) = stack.pop() {
                let entries = &tree.nodes[node as usize].entries;
                assert!((1..=5).contains(&entries.len()));
                for entry in entries {
                    if let Some((centre, _)) = above.last() {
                        let to_parent = objects.distance(entry.object, *centre).unwrap();
                        assert_eq!(entry.to_parent, to_parent);
                    }
                    if entry.child == NONE {
                        assert_eq!(above.len() + 1, height);
                        found.push(entry.object);
                        for (centre, radius) in &above {
                            assert!(objects.distance(entry.object, *centre).unwrap() <= *radius);
                        }
                    } else {
                        let mut above = above.clone();
                        above.push((entry.object, entry.radius));
                        stack.push((entry.child, above));
                    }
                }
            }
            found.sort_unstable();
            assert!(found.into_iter().eq(objects.all()));
        });
    }
}
