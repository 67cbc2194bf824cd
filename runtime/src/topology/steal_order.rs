//! The order in which a slot looks at the other slots for work: rings around it, nearest first.
//!
//! Every other slot is in exactly one ring, distances never decrease from ring to ring, and no ring is empty. The slots
//! of each other node are a ring of their own, so that the balancer may stop at a node boundary. Within a ring the list
//! starts behind the slot's own place, so that even without a random start no two neighbours begin with one victim.

use std::fmt;

use super::Topology;

/// The distance of two slots, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// Hardware threads of one core.
    Smt,
    /// Cores under one last-level cache.
    Cache,
    /// Cores of one NUMA node.
    Node,
    /// Cores of two NUMA nodes.
    Remote,
}

impl Distance {
    /// All of them, nearest first: the columns of a table of steals.
    pub const ALL: [Distance; 4] = [Distance::Smt, Distance::Cache, Distance::Node, Distance::Remote];
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Distance::Smt => "same core",
            Distance::Cache => "shared cache",
            Distance::Node => "same node",
            Distance::Remote => "other node",
        })
    }
}

/// The slots at one distance from a slot; for [`Distance::Remote`], those of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Their distance.
    pub distance: Distance,
    /// The slots; never empty.
    pub slots: Vec<usize>,
}

impl Topology {
    /// The distance of two slots; a slot is [`Distance::Smt`] from itself.
    pub fn distance(&self, a: usize, b: usize) -> Distance {
        if self.core(a) == self.core(b) {
            Distance::Smt
        } else if self.node(a) != self.node(b) {
            Distance::Remote
        } else if self.cache(a).is_some() && self.cache(a) == self.cache(b) {
            Distance::Cache
        } else {
            Distance::Node
        }
    }

    /// All other slots, in rings, nearest first.
    pub fn steal_rings(&self, slot: usize) -> Vec<Ring> {
        let home = &self.nodes()[self.node(slot)].slots;
        let mut rings: Vec<Ring> = Distance::ALL
            .into_iter()
            .map(|distance| {
                let others = (slot + 1..home.end).chain(home.start..slot);
                Ring {
                    distance,
                    slots: others.filter(|&other| self.distance(slot, other) == distance).collect(),
                }
            })
            .collect();
        for node in self.node_order(self.node(slot)) {
            let there = &self.nodes()[node].slots;
            let middle = there.start + (slot - home.start) % there.len();
            rings.push(Ring {
                distance: Distance::Remote,
                slots: (middle..there.end).chain(there.start..middle).collect(),
            });
        }
        rings.retain(|ring| !ring.slots.is_empty());
        debug_assert_eq!(
            rings.iter().map(|ring| ring.slots.len()).sum::<usize>() + 1,
            self.slots_count(),
            "the rings around a slot leave a slot out, or hold one twice: its tasks would never be stolen"
        );
        debug_assert!(
            rings.iter().all(|ring| !ring.slots.contains(&slot)),
            "a slot is in a ring around itself: it would steal from itself"
        );
        debug_assert!(rings.is_sorted_by_key(|ring| ring.distance), "a ring comes before one that is nearer");
        debug_assert!(
            rings
                .iter()
                .all(|ring| ring.slots.iter().all(|other| self.distance(*other, slot) == ring.distance)),
            "a slot is in a ring of another distance, or as far one way as it is not the other way"
        );
        rings
    }

    /// The other nodes, nearest first.
    ///
    /// The firmware's table decides. Without a table, or on a tie, the nodes of this node's package come first, then
    /// the nearest numbers counted around a ring, upwards first: so not all nodes steal from tied nodes in one order.
    pub fn node_order(&self, node: usize) -> Vec<usize> {
        let (nodes, count) = (self.nodes(), self.nodes().len());
        let here = &nodes[node];
        let mut order: Vec<usize> = (0..count).filter(|&other| other != node).collect();
        order.sort_by_key(|&other| {
            let firmware = here.distances.get(other).copied().unwrap_or(0);
            let same_package = here.package.is_some() && here.package == nodes[other].package;
            let upwards = (other + count - node) % count;
            (firmware, !same_package, upwards.min(count - upwards), upwards)
        });
        debug_assert_eq!(
            order.len() + 1,
            count,
            "a node is missing in the order of the others, or is its own other"
        );
        order
    }
}
