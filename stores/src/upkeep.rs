//! Stores that change, and their indexes kept in step: what `boxwork add`, `remove`, `compact` and `index --append` do.
//!
//! Invariant: at each moment a store is as it was or as it will be, and an index that was in step before is in step
//! with whichever of the two it is. What an index needs is written before the store changes: it counts only for the
//! store of its fingerprint.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::any_kind;
use super::object_store::{Compaction, PendingChange, StoreLock};
use super::pivot_table::{IndexError, PivotTable, SideBySide, settle};
use super::space::Space;
use super::spaces;
use super::store::Store;
use super::store_error::StoreError;

/// What became of a compacted store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Objects that the store holds.
    pub objects: u64,
    /// Objects whose last traces are gone.
    pub forgotten: u64,
    /// Indexes that were made again, since a pivot of theirs was removed.
    pub remade: Vec<PathBuf>,
}

/// Brings the indexes of a store up to a change, and puts the change in force; gives the numbers of objects that were
/// added and removed.
///
/// # Errors
/// When one is no index of the store, or a file cannot be written: the store stays as it was.
pub fn commit(
    change: PendingChange,
    indexes: &[PathBuf],
    side_by_side: &mut SideBySide<'_>,
) -> Result<(u64, u64), IndexError> {
    for index in indexes {
        settle(index, &**change.store())?;
        append(change.store(), index, side_by_side)?;
    }
    Ok(change.commit()?)
}

/// Brings an index up to its store, and gives the number of objects that it had not told of.
///
/// # Errors
/// When another process changes the store, and as [`commit`].
pub fn bring_up(store: &Path, index: &Path, side_by_side: &mut SideBySide<'_>) -> Result<u64, IndexError> {
    let path = std::fs::canonicalize(store);
    let io = |source| StoreError::Io { path: store.to_owned(), action: "open", source };
    let _lock = StoreLock::take(&path.map_err(io)?, store)?;
    let store = any_kind::open(store, None)?;
    settle(index, &*store)?;
    append(&store, index, side_by_side)
}

fn append(
    store: &Arc<dyn Store>,
    index: &Path,
    side_by_side: &mut SideBySide<'_>,
) -> Result<u64, IndexError> {
    PivotTable::append(index, &space_of(index, store)?, side_by_side)
}

/// The space over a store that an index was made for.
fn space_of(index: &Path, store: &Arc<dyn Store>) -> Result<Arc<dyn Space>, IndexError> {
    Ok(spaces::open(&PivotTable::measure_of(index)?, Arc::clone(store))?)
}

/// Makes one file of a changed store again, and its indexes' rows those of its objects. `cancelled` says when to stop,
/// and is asked often until the store is replaced.
///
/// # Errors
/// When another process changes the store, an index is not in step with it, a file cannot be written, or the caller
/// cancels it: the store stays as it was, and nothing that was written is left.
pub fn compact(
    store: &Path,
    indexes: &[PathBuf],
    side_by_side: &mut SideBySide<'_>,
    cancelled: &dyn Fn() -> bool,
) -> Result<Compacted, IndexError> {
    let compaction = any_kind::compaction(store, cancelled)?;
    let before = Arc::clone(compaction.store());
    let remade = write_indexes(&compaction, indexes, side_by_side, cancelled);
    let remade = remade.inspect_err(|_| {
        // The store stays as it was: the indexes that were written for another one are removed.
        for index in indexes {
            let _ = settle(index, &*before);
        }
    })?;
    let after = Arc::clone(compaction.compacted());
    let _lock = compaction.commit()?;
    for index in indexes {
        settle(index, &*after)?;
    }
    let forgotten = before.ids_count() - after.ids_count();
    Ok(Compacted { objects: after.objects_count(), forgotten, remade })
}

/// Writes the indexes of a store as it will be, and returns those that were made again.
fn write_indexes(
    compaction: &Compaction,
    indexes: &[PathBuf],
    side_by_side: &mut SideBySide<'_>,
    cancelled: &dyn Fn() -> bool,
) -> Result<Vec<PathBuf>, IndexError> {
    let (before, after) = (compaction.store(), compaction.compacted());
    let mut remade = Vec::new();
    for index in indexes {
        settle(index, &**before)?;
        let table = PivotTable::open(index, space_of(index, before)?)?;
        let space = space_of(index, after)?;
        if table.write_compacted(index, &space, side_by_side, cancelled)? {
            remade.push(index.clone());
        }
    }
    if cancelled() {
        return Err(IndexError::Cancelled);
    }
    Ok(remade)
}

#[cfg(test)]
mod tests;
