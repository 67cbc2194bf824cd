//! The shape of an edge, and a snapshot of its state.

use std::sync::Arc;

/// A snapshot of an edge, for reports and statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeState {
    /// Envelopes that wait.
    pub envelopes: usize,
    /// Bytes that wait.
    pub bytes: usize,
    /// Envelopes that it holds at most.
    pub envelopes_max: usize,
    /// Bytes that it holds at most.
    pub bytes_max: usize,
    /// The most envelopes that waited at once.
    pub envelopes_high: usize,
    /// The most bytes that waited at once.
    pub bytes_high: usize,
    /// Envelopes that came through.
    pub envelopes_total: u64,
    /// Rows that came through.
    pub rows_total: u64,
    /// Their bytes.
    pub bytes_total: u64,
    /// Bytes that the consumer took on another NUMA node than the producer made them on.
    pub bytes_crossed: u64,
    /// Whether a producer waits for room.
    pub wanted: bool,
    /// How often a producer found no room.
    pub refusals: u64,
    /// Whether all producers have ended.
    pub ended: bool,
    /// Whether all consumers have closed it.
    pub closed: bool,
    /// How often its bounds were doubled to end a stall.
    pub grown: usize,
}

/// The shape of an edge, from the plan.
pub(crate) struct EdgeShape {
    /// Its place in the plan.
    pub(crate) plan_edge: usize,
    /// The boxes that put on it, by their place in the model.
    pub(crate) producers: Arc<[usize]>,
    /// The boxes that take from it.
    pub(crate) consumers: Arc<[usize]>,
    /// The nodes that have a lane of their own; 0 for none.
    pub(crate) lanes: usize,
    pub(crate) envelopes_max: usize,
    pub(crate) bytes_max: usize,
}
