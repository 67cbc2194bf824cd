//! The counters of the scheduler, and the events of a trace.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::topology::Distance;

/// The counters of one slot, for all threads that held it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotStatistics {
    /// Tasks run.
    pub tasks: u64,
    /// Tasks stolen from other slots, by [`Distance`] in the order of [`Distance::ALL`].
    pub steals: [u64; Distance::ALL.len()],
    /// Tasks taken from request queues of its own node.
    pub from_node: u64,
    /// Tasks taken from request queues of other nodes.
    pub from_other_nodes: u64,
    /// Requests that it moved here from another node.
    pub requests_moved: u64,
    /// Times that it came to rest.
    pub parks: u64,
    /// Times that it was woken.
    pub wakes: u64,
    /// Times that a thread gave it away to block, or got it back.
    pub hand_overs: u64,
    /// Time at rest, in nanoseconds; otherwise it computed or looked for work.
    pub rested_ns: u64,
}

/// The number of operations of a blocking class that may be under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassLimit {
    /// A fixed number; 0 counts as 1.
    Fixed(usize),
    /// The number with the best throughput: the runtime finds it by trial, and follows a device that changes. At most
    /// [`CLASS_LIMIT_AUTO_MAX`], and at most the number of threads beside the slots.
    Auto,
}

/// The bound of [`ClassLimit::Auto`].
pub const CLASS_LIMIT_AUTO_MAX: usize = 64;

impl From<usize> for ClassLimit {
    fn from(limit: usize) -> Self {
        Self::Fixed(limit)
    }
}

impl FromStr for ClassLimit {
    type Err = LimitError;

    /// `auto`, or a number from 1 on.
    fn from_str(text: &str) -> Result<Self, LimitError> {
        match text.parse() {
            _ if text == "auto" => Ok(Self::Auto),
            Ok(limit) if limit > 0 => Ok(Self::Fixed(limit)),
            _ => Err(LimitError),
        }
    }
}

/// The error of a text that is not a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a limit is a number from 1 on, or `auto`")]
pub struct LimitError;

/// The counters of one blocking class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassStatistics {
    /// The class.
    pub name: String,
    /// Operations that may be under way at once, now.
    pub limit: usize,
    /// Whether the runtime finds the limit itself.
    pub auto: bool,
    /// Operations so far.
    pub operations: u64,
    /// The most operations that were under way at once.
    pub in_flight_high: usize,
    /// Operations that had to wait for a permit.
    pub waited: u64,
    /// Operations under way now.
    pub in_flight: usize,
    /// Operations that wait for a permit now.
    pub waiting: usize,
}

/// The counters of the scheduler since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerStatistics {
    /// By slot.
    pub slots: Vec<SlotStatistics>,
    /// By blocking class.
    pub classes: Vec<ClassStatistics>,
    /// Threads that it has.
    pub threads: usize,
    /// Requests under way.
    pub requests: usize,
    /// Deadlines that it watches.
    pub deadlines: usize,
    /// By node: tasks in its request queues.
    pub queued: Vec<usize>,
    /// The time since it started.
    pub elapsed: Duration,
}

/// The kind of a trace event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// A firing of a box, or a part of one: a firing that detaches has a part before and a part after.
    Firing {
        /// The box.
        name: String,
        /// The request.
        request: u64,
        /// The number of the thread that held the slot.
        thread: usize,
        /// The box's edges, by their places in [`Outcome::edges`](crate::request::Outcome::edges), and the envelopes
        /// that waited there when it ended.
        edges: Vec<(usize, usize)>,
    },
    /// A closure that blocked: it waited for a permit, ran, and its thread waited for a slot.
    Detached {
        /// The box.
        name: String,
        /// The blocking class.
        class: String,
        /// The request.
        request: u64,
        /// The wait for a permit, in nanoseconds.
        permit_ns: u64,
        /// The run of the closure, in nanoseconds; the remaining time is the wait for a slot.
        blocked_ns: u64,
        /// The slot on which its box continued.
        to: usize,
    },
    /// A task that waited for a permit of its box's class, from its planning until it got the permit, and the slot that
    /// then fired it. The wait takes no time of a slot.
    Permit {
        /// The box.
        name: String,
        /// The blocking class.
        class: String,
        /// The request.
        request: u64,
    },
    /// A branch of another slot's firing, run on this one.
    Branch {
        /// The number of the thread that held the slot.
        thread: usize,
    },
    /// A task or a branch taken from another slot; its duration is that of the search.
    Steal {
        /// The slot that it was taken from.
        from: usize,
        /// The distance to that slot.
        distance: Distance,
    },
}

impl fmt::Display for TraceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Firing { name, .. } => f.write_str(name),
            Self::Detached { name, class, .. } | Self::Permit { name, class, .. } => {
                write!(f, "{name} [{class}]")
            }
            Self::Branch { .. } => f.write_str("branch"),
            Self::Steal { from, distance } => write!(f, "steal from slot {from} ({distance})"),
        }
    }
}

/// One event of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// The slot; for a detached closure the slot that its thread gave away.
    pub slot: usize,
    /// When it began, in nanoseconds since the runtime started.
    pub begin_ns: u64,
    /// Its duration in nanoseconds.
    pub duration_ns: u64,
    /// Tasks in the request queues of the slot's node when it was recorded.
    pub queued: usize,
    /// Its kind.
    pub kind: TraceKind,
}

/// Events that a trace keeps for each slot; a new event replaces the oldest.
pub const TRACE_EVENTS_MAX: usize = 1 << 20;
