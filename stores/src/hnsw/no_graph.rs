//! The place of the library of graphs in a build without the feature `graph`: there is no graph, and callers ask
//! [`check_built`](super::check_built) first.

use super::Shape;

/// Whether this build has graphs.
pub(super) const IS_BUILT: bool = false;

/// A graph; there is none in this build.
#[derive(Debug)]
pub(super) enum Graph {}

impl Graph {
    /// Refuses.
    pub(super) fn new(_: &Shape, _: u64, _: usize) -> Result<Self, String> {
        Err("this program was built without graphs".to_owned())
    }

    /// Refuses.
    pub(super) fn of_bytes(_: &Shape, _: &[u8], _: u64, _: usize) -> Result<Self, String> {
        Err("this program was built without graphs".to_owned())
    }

    /// The number of vectors.
    pub(super) fn len(&self) -> u64 {
        match *self {}
    }

    /// Adds a vector.
    pub(super) fn add(&self, _: u64, _: &[f32]) -> Result<(), String> {
        match *self {}
    }

    /// The keys of the nearest vectors.
    pub(super) fn nearest(
        &self,
        _: &[f32],
        _: usize,
        _: Option<&dyn Fn(u64) -> bool>,
    ) -> Result<Vec<u64>, String> {
        match *self {}
    }

    /// The bytes of the graph.
    pub(super) fn to_bytes(&self, _: Vec<u8>) -> Result<Vec<u8>, String> {
        match *self {}
    }

    /// The number of those bytes.
    pub(super) fn bytes(&self) -> usize {
        match *self {}
    }
}
