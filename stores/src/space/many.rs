//! Several queries that are compared with the same objects.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::distance::Long;
use boxwork_kernels::interrupt::Interrupt;

use super::{Prepared, Scratch, SpaceError};

/// Several queries prepared for a space, which are compared with the same objects.
pub trait PreparedMany: Debug + Send + Sync {
    /// The number of queries.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fast distances of some of the queries from objects with consecutive ids, removed ones included: all objects for the
    /// first query, then all for the second. Otherwise as [`Prepared::fast_until`].
    ///
    /// # Errors
    /// As [`Prepared::fast_until`].
    ///
    /// # Panics
    /// When `out` has not a number for each query and id, or there are no such queries.
    fn fast_until(
        &self,
        queries: Range<usize>,
        ids: Range<u64>,
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), SpaceError>;

    /// The fast distance of a query from one object.
    ///
    /// # Errors
    /// As [`PreparedMany::fast_until`].
    fn distance(&self, query: usize, id: u64, interrupt: Interrupt<'_>) -> Result<f64, SpaceError> {
        let mut out = [0.0];
        self.fast_until(query..query + 1, id..id + 1, &mut out, interrupt)?;
        Ok(out[0])
    }

    /// Whether the distance of a query from an object may take so long that several slots are to share it.
    fn has_long(&self, query: usize) -> bool {
        let _ = query;
        false
    }

    /// Whether that of this object does.
    ///
    /// # Errors
    /// When there is no such object, or its batch is damaged.
    fn is_long(&self, query: usize, id: u64) -> Result<bool, SpaceError> {
        let _ = (query, id);
        Ok(false)
    }

    /// The distance of a query from an object in tiles; nothing if it is not long. Distances count once the store has confirmed that it
    /// is whole.
    ///
    /// # Errors
    /// As [`PreparedMany::is_long`].
    fn long(&self, query: usize, id: u64) -> Result<Option<Long>, SpaceError> {
        let _ = (query, id);
        Ok(None)
    }
}

/// Queries that are compared one after the other.
#[derive(Debug)]
pub(super) struct OneByOne(pub(super) Vec<Arc<dyn Prepared>>);

impl PreparedMany for OneByOne {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn fast_until(
        &self,
        queries: Range<usize>,
        ids: Range<u64>,
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), SpaceError> {
        let ids: Vec<u64> = ids.collect();
        assert_eq!(out.len(), queries.len() * ids.len(), "a number for each query and id");
        let mut scratch = Scratch::default();
        for (query, place) in queries.zip(0..) {
            let out = &mut out[place * ids.len()..][..ids.len()];
            self.0[query].fast_until(&mut scratch, &ids, out, interrupt)?;
        }
        Ok(())
    }
}
