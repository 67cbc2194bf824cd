//! Metric indexes: they search among objects of which only the distances are known.
//!
//! An index is made from [`IndexedObjects`], which it knows only by number. It answers a [`Search`]: the k nearest objects,
//! all objects within a range, or both. The caller provides a closure that computes distances, and the index decides which
//! distances to compute. The fewer it computes, the better the index.
//!
//! Invariants of every index: the answer is that of a scan, to the bit, and objects at equal distances are ordered by
//! number; the distance of the query to an object is computed at most once; an object is left out only if a lower bound of
//! its distance, reduced by the possible rounding errors ([`Slack`]), exceeds the range. The distance must obey the triangle
//! inequality.
//!
//! ```
//! use boxwork_kernels::distance::{Distance, Lp};
//! use boxwork_kernels::metric_index::{IndexedObjects, MTree, MetricIndex, Search};
//!
//! let points = [[0.0], [1.0], [4.0], [9.0], [16.0]];
//! let between = |a: u32, b: u32| Lp::L2.distance(&points[a as usize], &points[b as usize]);
//! let tree = MTree::build(&IndexedObjects::new(points.len(), &between)?, 3)?;
//!
//! let mut distance = |object: u32| Lp::L2.distance(&[5.0], &points[object as usize]);
//! let mut search = Search::new(2, f64::INFINITY, Lp::L2.slack(1, 0.0), &mut distance);
//! tree.answer(&mut search)?;
//! assert_eq!(search.finish().objects, [(1.0, 2), (4.0, 1)]);
//! # Ok::<(), boxwork_kernels::metric_index::MetricIndexError>(())
//! ```
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
pub use objects::IndexedObjects;
pub use pm_tree::PmTree;
pub use search::{Answer, Search};

use thiserror::Error;

use crate::distance::Slack;
use crate::interrupt::Interrupted;
use crate::memory::{MemoryRefused, room};

/// An index that can be searched.
pub trait MetricIndex: Send + Sync + std::fmt::Debug {
    /// The number of objects in the index.
    fn objects(&self) -> usize;

    /// The memory of the index without the objects, in bytes.
    fn bytes(&self) -> usize;

    /// Answers the search, and computes the distances that this needs.
    ///
    /// # Errors
    /// If a computed number is no distance, or the caller interrupts.
    fn answer(&self, search: &mut Search<'_>) -> Result<(), MetricIndexError>;
}

/// Why an index cannot be made or used.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum MetricIndexError {
    /// A computed distance is negative, infinite or NaN.
    #[error("the distance of {of} is {distance}: distances are finite and not negative")]
    NotADistance {
        /// The object or the two objects.
        of: String,
        /// The computed number.
        distance: f64,
    },
    /// A distance does not fit the 32 bits in which the index keeps it.
    #[error(
        "a distance of {0:e} is too large for this index, which keeps 32 bits of each: scale the objects down"
    )]
    TooLarge(f64),
    /// More objects than the index can hold.
    #[error("{objects} objects are too many for {index}, which holds {most}: use another index")]
    TooManyObjects {
        /// The name of the index.
        index: &'static str,
        /// The number of objects.
        objects: usize,
        /// The most objects that the index can hold.
        most: usize,
    },
    /// There are no objects.
    #[error("there are no objects: an index needs at least one")]
    NoObjects,
    /// The caller interrupted.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The system refused memory.
    #[error(transparent)]
    Memory(#[from] MemoryRefused),
}

/// Memory for the distances of all objects to the pivots of an index.
fn room_of_pivots<T>(index: &str, objects: usize, pivots: usize) -> Result<Vec<T>, MemoryRefused> {
    let what = || format!("the {index} of {objects} objects and {pivots} pivots");
    room(objects.saturating_mul(pivots), what, "take fewer pivots, or free memory")
}

/// A distance in 32 bits.
fn kept(distance: f64) -> Result<f32, MetricIndexError> {
    let kept = distance as f32;
    if kept.is_finite() { Ok(kept) } else { Err(MetricIndexError::TooLarge(distance)) }
}

/// Bytes that a vector has allocated.
fn bytes_of<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}
