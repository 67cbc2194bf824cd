//! The machine as a plain value: nodes hold last-level caches, caches hold cores, cores hold slots.
//!
//! A slot is the right to compute on one logical CPU that this process may use. Slots are numbered by node, then cache,
//! then core, then CPU, so that each node, cache and core is one range of slots. Three providers make this value: hwloc
//! (feature `hwloc`), the files of `/sys`, and a string of our own for tests and planning.
//!
//! Invariants: there is at least one slot; every slot has one core, every core one node; the ranges of the nodes, of
//! the caches of a node and of the cores of a cache are disjoint, ascending and without holes. It knows no threads,
//! except that [`pin_current_thread`] pins its caller.

mod sysfs;
mod affinity;
mod steal_order;
mod display;
#[cfg(feature = "hwloc")]
mod hwloc;
mod memory;
mod synthetic;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

pub use affinity::pin_current_thread;
pub use memory::{NodeMemory, Placed};
pub use steal_order::{Distance, Ring};
pub use synthetic::{Problem, TopologyError};

/// The most slots that a synthetic topology, [`Topology::flat`] or the virtual slots of [`Topology::first`] may make.
pub const VIRTUAL_SLOTS_COUNT_MAX: usize = 4096;

/// The source of a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// The hwloc library; memory and node distances, which its Rust crate lacks, are read from `/sys`.
    Hwloc,
    /// The files of `/sys/devices/system`, or a guess if there are none.
    Sysfs,
    /// Made up: [`Topology::synthetic`] or [`Topology::flat`].
    Synthetic,
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Provider::Hwloc => "hwloc",
            Provider::Sysfs => "sysfs",
            Provider::Synthetic => "synthetic",
        })
    }
}

/// A NUMA node that holds at least one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The number that the operating system gives it; `None` when made up.
    pub os_idx: Option<usize>,
    /// The package (socket) of its first slot, if known.
    pub package: Option<usize>,
    /// All memory of the node, used or not, if known.
    pub memory_bytes: Option<u64>,
    /// Distance to each node of the topology, 10 being local (ACPI's scale); empty if unknown.
    pub distances: Vec<u32>,
    /// Its slots.
    pub slots: Range<usize>,
}

/// The last-level cache that some cores of one node share. A cache that spans nodes is listed once in each node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Index of its node.
    pub node: usize,
    /// 3 for an L3 cache.
    pub level: u8,
    /// Size of the whole cache, if known.
    pub bytes: Option<u64>,
    /// Its slots.
    pub slots: Range<usize>,
}

/// A physical core; its slots are hardware threads (SMT siblings).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Index of its node.
    pub node: usize,
    /// Index of its last-level cache, if known.
    pub cache: Option<usize>,
    /// Its slots.
    pub slots: Range<usize>,
}

/// The part of a machine that this process may use, or a made-up machine.
///
/// ```
/// # use boxwork_runtime::topology::Topology;
/// let topology = Topology::synthetic("numa:2 core:4 pu:2")?;
/// assert_eq!(topology.slots_count(), 16);
/// assert_eq!(topology.node(8), 1);
/// assert!(topology.is_virtual());
/// # Ok::<(), boxwork_runtime::topology::TopologyError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    provider: Provider,
    nodes: Vec<Node>,
    caches: Vec<Cache>,
    cores: Vec<Core>,
    slots: Vec<Place>,
    notes: Vec<String>,
}

/// The place of a slot.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    core: usize,
    os_idx: Option<usize>,
}

impl Topology {
    /// Reads this machine, restricted to the CPUs that the process was allowed at its first call. Later calls give the same
    /// answer, as hwloc takes milliseconds to load.
    ///
    /// Never fails: hwloc if the feature is on and its answer fits the allowed CPUs, else `/sys`, else one node with as
    /// many cores as the standard library counts. [`notes`](Self::notes) lists refused providers and missing facts.
    pub fn detect() -> Topology {
        static DETECTED: OnceLock<Topology> = OnceLock::new();
        let detected = DETECTED.get_or_init(|| {
            let allowed = affinity::allowed();
            let mut topology = detect_allowed(&allowed.cpus);
            topology.notes.extend(allowed.note.clone());
            topology
        });
        detected.clone()
    }

    /// Makes up a machine from levels, outermost first: `pack:2 numa:1 l3:2 core:4 pu:2`.
    ///
    /// Each count is per object of the level before; a level left out counts 1.
    ///
    /// # Errors
    /// The first token that is not a level with a count, is out of order, or makes more than
    /// [`VIRTUAL_SLOTS_COUNT_MAX`] slots.
    pub fn synthetic(text: &str) -> Result<Topology, TopologyError> {
        synthetic::parse(text)
    }

    /// Makes up one node with `slots_count` cores of one slot each, at least 1 and at most [`VIRTUAL_SLOTS_COUNT_MAX`].
    pub fn flat(slots_count: usize) -> Topology {
        let cpus = (0..slots_count.clamp(1, VIRTUAL_SLOTS_COUNT_MAX))
            .map(|core| Cpu { node: 0, cache: None, core, os_idx: None })
            .collect();
        assemble(Provider::Synthetic, cpus, &BTreeMap::new(), Vec::new())
    }

    /// This topology with `slots_count` slots: one node is filled before the next, and within a node every core gets
    /// one slot before any core gets its second.
    ///
    /// Beyond the machine, virtual slots (cores of their own, never pinned) are put on the last node and noted. 0 counts
    /// as 1, and virtual slots end at [`VIRTUAL_SLOTS_COUNT_MAX`].
    pub fn first(&self, slots_count: usize) -> Topology {
        let here = self.slots_count();
        let slots_count = slots_count.clamp(1, here.max(VIRTUAL_SLOTS_COUNT_MAX));
        let mut order: Vec<usize> = (0..here).collect();
        order.sort_by_key(|&slot| (self.node(slot), slot - self.cores[self.core(slot)].slots.start, slot));

        let mut cpus: Vec<Cpu> = order.into_iter().take(slots_count).map(|slot| self.cpu(slot)).collect();
        let mut notes = self.notes.clone();
        if slots_count > here {
            let last = self.cpu(here - 1);
            let extra = slots_count - here;
            let slots = if extra == 1 { "slot" } else { "slots" };
            notes.push(format!(
                "{extra} virtual {slots} added to node {} of a machine with {here}",
                last.node
            ));
            cpus.extend((0..extra).map(|i| Cpu { core: self.cores.len() + i, os_idx: None, ..last }));
        }
        let facts = self.nodes.iter().map(NodeFacts::from_node).enumerate().collect();
        let topology = assemble(self.provider, cpus, &facts, notes);
        debug_assert_eq!(topology.slots_count(), slots_count, "slots were lost, or made up, on the way");
        topology
    }

    /// The source of the topology.
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// Whether no slot is a CPU of this machine, so that nothing can be pinned.
    pub fn is_virtual(&self) -> bool {
        self.slots.iter().all(|place| place.os_idx.is_none())
    }

    /// The nodes, in the order of their slots.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The last-level caches, in the order of their slots; unknown caches are missing.
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// The cores, in the order of their slots.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// The number of slots; never 0.
    pub fn slots_count(&self) -> usize {
        self.slots.len()
    }

    /// Index in [`nodes`](Self::nodes) of the slot's node.
    ///
    /// # Panics
    /// When there is no such slot; also in the methods below that take a slot.
    pub fn node(&self, slot: usize) -> usize {
        self.cores[self.core(slot)].node
    }

    /// Index in [`caches`](Self::caches) of the slot's last-level cache, if known.
    pub fn cache(&self, slot: usize) -> Option<usize> {
        self.cores[self.core(slot)].cache
    }

    /// Index in [`cores`](Self::cores) of the slot's core.
    pub fn core(&self, slot: usize) -> usize {
        self.slots[slot].core
    }

    /// The slot's CPU as the operating system numbers it, for [`pin_current_thread`]; `None` when virtual.
    pub fn os_idx(&self, slot: usize) -> Option<usize> {
        self.slots[slot].os_idx
    }

    /// Notes for users on the detection: refused providers, missing facts.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The invariants of the module.
    fn check(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        debug_assert!(
            partition(self.nodes.iter().map(|node| &node.slots), self.slots.len()),
            "the nodes do not share out the slots: one is empty, overlaps another, or leaves slots out"
        );
        debug_assert!(
            partition(self.cores.iter().map(|core| &core.slots), self.slots.len()),
            "the cores do not share out the slots: one is empty, overlaps another, or leaves slots out"
        );
        debug_assert!(
            self.caches.windows(2).all(|pair| pair[0].slots.end <= pair[1].slots.start),
            "two caches hold one slot, or are not in the order of their slots"
        );
        let within = |inner: &Range<usize>, outer: &Range<usize>| {
            !inner.is_empty() && outer.start <= inner.start && inner.end <= outer.end
        };
        debug_assert!(
            self.caches.iter().all(|cache| within(&cache.slots, &self.nodes[cache.node].slots)),
            "a cache reaches beyond its node, or has no slot"
        );
        debug_assert!(
            self.cores.iter().all(|core| within(&core.slots, &self.nodes[core.node].slots)),
            "a core reaches beyond its node"
        );
        debug_assert!(
            self.cores.iter().all(|core| core.cache.is_none_or(|idx| {
                self.caches[idx].node == core.node && within(&core.slots, &self.caches[idx].slots)
            })),
            "a core reaches beyond its cache, or its cache is on another node"
        );
        debug_assert!(
            self.slots.iter().enumerate().all(|(slot, place)| self.cores[place.core].slots.contains(&slot)),
            "a slot is on a core that does not hold it"
        );
        debug_assert!(
            self.nodes.iter().all(|node| [0, self.nodes.len()].contains(&node.distances.len())),
            "a node knows its distance to some nodes only"
        );
        let mut cpus: Vec<usize> = self.slots.iter().filter_map(|place| place.os_idx).collect();
        cpus.sort_unstable();
        debug_assert!(
            cpus.windows(2).all(|pair| pair[0] < pair[1]),
            "two slots are one CPU: two tasks would compute there at once"
        );
    }
    fn cpu(&self, slot: usize) -> Cpu {
        let core = &self.cores[self.core(slot)];
        let cache = core.cache.map(|idx| CacheFacts {
            level: self.caches[idx].level,
            key: idx,
            bytes: self.caches[idx].bytes,
        });
        Cpu { node: core.node, cache, core: self.core(slot), os_idx: self.os_idx(slot) }
    }
}

#[cfg(feature = "hwloc")]
fn detect_allowed(allowed: &[usize]) -> Topology {
    hwloc::read(Path::new(sysfs::ROOT), allowed).unwrap_or_else(|refusal| {
        let mut topology = sysfs::read(Path::new(sysfs::ROOT), allowed);
        topology.notes.insert(0, format!("hwloc not used: {refusal}"));
        topology
    })
}

#[cfg(not(feature = "hwloc"))]
fn detect_allowed(allowed: &[usize]) -> Topology {
    sysfs::read(Path::new(sysfs::ROOT), allowed)
}

/// One logical CPU as a provider sees it. Keys identify and order objects; they need not be dense.
#[derive(Clone, Copy, Debug)]
struct Cpu {
    node: usize,
    cache: Option<CacheFacts>,
    core: usize,
    os_idx: Option<usize>,
}

impl Cpu {
    fn cache_id(&self) -> Option<(usize, u8)> {
        self.cache.map(|cache| (cache.key, cache.level))
    }
}

#[derive(Clone, Copy, Debug)]
struct CacheFacts {
    level: u8,
    key: usize,
    bytes: Option<u64>,
}

/// The data of a provider about a node, besides its CPUs.
#[derive(Clone, Debug, Default)]
struct NodeFacts {
    os_idx: Option<usize>,
    package: Option<usize>,
    memory_bytes: Option<u64>,
    /// By node key, for all nodes or for none.
    distances: BTreeMap<usize, u32>,
}

impl NodeFacts {
    fn from_node(node: &Node) -> NodeFacts {
        NodeFacts {
            os_idx: node.os_idx,
            package: node.package,
            memory_bytes: node.memory_bytes,
            distances: node.distances.iter().copied().enumerate().collect(),
        }
    }
}

/// Numbers the objects that a provider found: the only place that makes a `Topology`.
fn assemble(
    provider: Provider,
    mut cpus: Vec<Cpu>,
    facts: &BTreeMap<usize, NodeFacts>,
    notes: Vec<String>,
) -> Topology {
    assert!(!cpus.is_empty(), "a provider found no CPU");
    cpus.sort_by_key(|cpu| (cpu.node, cpu.cache_id(), cpu.core, cpu.os_idx));

    let (mut nodes, mut caches, mut cores) = (Vec::new(), Vec::<Cache>::new(), Vec::<Core>::new());
    let (mut keys, mut slots) = (Vec::new(), Vec::with_capacity(cpus.len()));
    let mut before: Option<Cpu> = None;
    for (slot, cpu) in cpus.iter().enumerate() {
        let range = slot..slot;
        let same_node = before.is_some_and(|b| b.node == cpu.node);
        let same_cache = same_node && before.is_some_and(|b| b.cache_id() == cpu.cache_id());
        let same_core = same_cache && before.is_some_and(|b| b.core == cpu.core);
        if !same_node {
            let NodeFacts { os_idx, package, memory_bytes, .. } =
                facts.get(&cpu.node).cloned().unwrap_or_default();
            nodes.push(Node { os_idx, package, memory_bytes, distances: Vec::new(), slots: range.clone() });
            keys.push(cpu.node);
        }
        let node = nodes.len() - 1;
        if !same_cache && let Some(CacheFacts { level, bytes, .. }) = cpu.cache {
            caches.push(Cache { node, level, bytes, slots: range.clone() });
        }
        let cache = cpu.cache.map(|_| caches.len() - 1);
        if !same_core {
            cores.push(Core { node, cache, slots: range });
        }
        let core = cores.len() - 1;
        slots.push(Place { core, os_idx: cpu.os_idx });
        nodes[node].slots.end = slot + 1;
        cores[core].slots.end = slot + 1;
        if let Some(idx) = cache {
            caches[idx].slots.end = slot + 1;
        }
        before = Some(*cpu);
    }

    let distances: Option<Vec<Vec<u32>>> = keys
        .iter()
        .map(|from| keys.iter().map(|to| facts.get(from)?.distances.get(to).copied()).collect())
        .collect();
    for (node, distances) in nodes.iter_mut().zip(distances.unwrap_or_default()) {
        node.distances = distances;
    }
    let topology = Topology { provider, nodes, caches, cores, slots, notes };
    topology.check();
    topology
}

/// Whether ranges follow each other from 0 to `end`, none of them empty.
fn partition<'a>(mut ranges: impl Iterator<Item = &'a Range<usize>>, end: usize) -> bool {
    let reached = ranges.try_fold(0, |at, range| (range.start == at && range.end > at).then_some(range.end));
    reached == Some(end)
}

#[cfg(test)]
mod tests;
