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

/// How a runtime is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// The machine: one slot for each of its logical cores.
    pub topology: Topology,
    /// Whether threads are pinned to the cores of their slots.
    pub pin: bool,
    /// Operations in flight by blocking class; others have a limit of 8.
    pub blocking: BTreeMap<String, ClassLimit>,
    /// The most threads; closures beyond it block holding their slot. At least one for each slot.
    pub threads_max: usize,
    /// Whether a request keeps to the node that took it first. Without, every slot is as good as another: for
    /// comparing.
    pub homes: bool,
    /// Whether firings are recorded for [`Runtime::take_trace`](crate::Runtime::take_trace).
    pub trace: bool,
    /// Whether a thread looks for boxes that block without saying so
    /// ([`BoxStatistics::undeclared_blocking_ns`](crate::request::BoxStatistics::undeclared_blocking_ns)). On Linux only; elsewhere
    /// nothing is found.
    pub sampler: bool,
    /// The devices that its boxes may compute on, opened when one asks for them. A runtime has devices of its own unless it is
    /// given those of another one.
    pub devices: Arc<LazyDevices>,
    /// What operators remember between requests. A runtime has a memory of its own unless it is given that of another one.
    pub memory: Memory,
    /// Whether files may be mapped, for which the process gets a handler of SIGBUS while a map is there. Otherwise files are
    /// read into memory.
    pub maps: bool,
}

impl Config {
    /// A runtime with a slot for each logical core of a topology.
    pub fn new(topology: Topology) -> Self {
        let threads_max = topology.slots_count() + BACKUP_THREADS_MAX;
        // Few enough for a spinning disk, enough for a solid-state one. Callers are as many as there are requests.
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

    /// A runtime of so many slots on one node, for tests and `--workers`.
    pub fn flat(slots: usize) -> Self {
        Self::new(Topology::flat(slots))
    }
}
