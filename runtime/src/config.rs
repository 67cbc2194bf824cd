//! The settings of a runtime.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::feeding::LazyDevices;
use crate::operator::{CALLER, Memory};
use crate::statistics::ClassLimit;
use crate::topology::Topology;

/// Threads beyond the slots, for closures that block or wait for a permit.
const BACKUP_THREADS_MAX: usize = 256;

/// Boxes that may wait for their requests' callers at once: half of the threads that may block.
const CALLERS_MAX: usize = BACKUP_THREADS_MAX / 2;

/// The settings of a runtime.
#[derive(Clone, Debug)]
pub struct Config {
    /// The machine: one slot for each of its logical cores.
    pub topology: Topology,
    /// Whether threads are pinned to the cores of their slots.
    pub pin: bool,
    /// The limit of operations in flight, by blocking class; other classes have a limit of 8.
    pub blocking: BTreeMap<String, ClassLimit>,
    /// The most threads, at least one for each slot. Beyond it, a closure blocks while its thread holds the slot.
    pub threads_max: usize,
    /// Whether a request stays on the node that took it first. If not, its tasks go to all nodes in turn, for
    /// comparison.
    pub homes: bool,
    /// Whether firings are recorded for [`Runtime::take_trace`](crate::Runtime::take_trace).
    pub trace: bool,
    /// Whether a thread looks for boxes that block without declaring it
    /// ([`BoxStatistics::undeclared_blocking_ns`](crate::request::BoxStatistics::undeclared_blocking_ns)). On Linux
    /// only; elsewhere nothing is found.
    pub sampler: bool,
    /// The devices that its boxes may compute on, opened when a box asks for them. Two runtimes share devices only if
    /// both get one value.
    pub devices: Arc<LazyDevices>,
    /// The values that operators keep between requests. Two runtimes share them only if both get one value.
    pub memory: Memory,
    /// Whether files may be mapped. The process then has a handler of SIGBUS while a map exists. Otherwise files are
    /// read into memory.
    pub maps: bool,
}

impl Config {
    /// A runtime with a slot for each logical core of a topology.
    pub fn new(topology: Topology) -> Self {
        let threads_max = topology.slots_count() + BACKUP_THREADS_MAX;
        // Few enough for a spinning disk, enough for a solid-state disk. There can be as many callers as requests.
        let blocking = [("disk", ClassLimit::Fixed(4)), (CALLER, ClassLimit::Fixed(CALLERS_MAX))];
        let blocking = blocking.map(|(class, limit)| (class.to_owned(), limit)).into();
        let devices = Arc::default();
        Self {
            topology,
            pin: false,
            blocking,
            threads_max,
            homes: true,
            trace: false,
            sampler: false,
            devices,
            memory: Memory::default(),
            maps: false,
        }
    }

    /// A runtime of this many slots on one node, for tests and `--workers`.
    pub fn flat(slots: usize) -> Self {
        Self::new(Topology::flat(slots))
    }
}
