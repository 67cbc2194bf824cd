//! Indexes of objects of which nothing is known but their distances.
//!
//! An index is made of [`Objects`], which it knows by number alone, and answers a [`Search`]: the k nearest, all within
//! a range, or both. Whoever asks gives a closure that computes a distance; the index decides which distances are
//! computed, and the number of those is what it is good for.
//!
//! Invariants, of every index: the answer is that of a scan, to the bit, objects at one distance by their numbers; a
//! distance of the query is computed at most once an object; an object is left out only when a bound is above the
//! range, strictly, after what rounding could have done to it was taken off ([`Slack`]). The distance must obey the
//! triangle inequality.
//!
//! Modules in reading order: `objects`, `search`, then an index each.

mod objects;
mod search;
mod aesa;
mod laesa;
mod list_of_clusters;
mod m_tree;
mod pm_tree;
mod m_index;

#[cfg(test)]
mod testing;

pub use aesa::{Aesa, AesaChoice};
pub use laesa::Laesa;
pub use list_of_clusters::{ClusterSize, ListOfClusters};
pub use m_index::{MIndex, MIndexParameters};
pub use m_tree::MTree;
pub use objects::Objects;
pub use pm_tree::PmTree;
pub use search::{Answer, Search};

use thiserror::Error;

use crate::distance::Slack;
use crate::interrupt::Interrupted;
use crate::memory::{MemoryRefused, room};

/// An index that is made.
pub trait MetricIndex: Send + Sync + std::fmt::Debug {
    /// How many objects it holds.
    fn objects(&self) -> usize;

    /// Memory that it takes, without the objects, in bytes.
    fn bytes(&self) -> usize;

    /// Computes what distances it takes to answer.
    ///
    /// # Errors
    /// When one of them is no distance.
    fn answer(&self, search: &mut Search<'_>) -> Result<(), MetricIndexError>;
}

/// Why an index cannot be made or used.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum MetricIndexError {
    /// What was computed is negative, infinite or not a number.
    #[error("the distance of {of} is {distance}: distances are finite and not negative")]
    NotADistance {
        /// The object or the two.
        of: String,
        /// What was computed.
        distance: f64,
    },
    /// A distance does not fit into the 32 bits that the index keeps of it.
    #[error(
        "a distance of {0:e} is too large for this index, which keeps 32 bits of each: scale the objects down"
    )]
    TooLarge(f64),
    /// More objects than the index can hold.
    #[error("{objects} objects are too many for {index}, which holds {most}: use another index")]
    TooManyObjects {
        /// What the index is called.
        index: &'static str,
        /// The objects given.
        objects: usize,
        /// How many it holds at most.
        most: usize,
    },
    /// There is nothing to index.
    #[error("there are no objects: an index needs at least one")]
    NoObjects,
    /// The caller interrupted.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The system has no memory for it.
    #[error(transparent)]
    Memory(#[from] MemoryRefused),
}

/// Room for the distances of all objects to some pivots, in an index of this name.
fn room_of_pivots<T>(index: &str, objects: usize, pivots: usize) -> Result<Vec<T>, MemoryRefused> {
    let what = || format!("the {index} of {objects} objects and {pivots} pivots");
    room(objects.saturating_mul(pivots), what, "take fewer pivots, or free memory")
}

/// A distance in 32 bits.
fn kept(distance: f64) -> Result<f32, MetricIndexError> {
    let kept = distance as f32;
    if kept.is_finite() { Ok(kept) } else { Err(MetricIndexError::TooLarge(distance)) }
}

/// Bytes of a vector's numbers.
fn bytes_of<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}
