//! Changes of stores that keep their indexes in step: the work of `boxwork add`, `remove`, `compact` and `index
//! --append`.
//!
//! Invariant: at each moment a store is in its old or its new state, and an index that was in step before is in step
//! with that state. The new parts of an index are written before the store changes: they count only for the store with
//! their fingerprint.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::any_kind;
use super::object_store::{Access, Compaction, PendingChange, StoreLock};
use super::pivot_table::{IndexError, PivotTable, SideBySide, settle};
use super::space::Space;
use super::spaces;
use super::store::Store;
use super::store_error::StoreError;

/// The result of a compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Objects in the store.
    pub objects: u64,
    /// Removed objects that the files no longer contain.
    pub forgotten: u64,
    /// Indexes that were computed again, because one of their pivots was removed from the store.
    pub remade: Vec<PathBuf>,
}

/// Brings the indexes of a store up to a change, and puts the change into effect; returns the numbers of added and
/// removed objects.
///
/// # Errors
/// When a file is no index of the store, or a file cannot be written: the store is unchanged.
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

/// Brings an index up to its store, which is mapped or read as `access` says, and returns the number of objects that
/// the index lacked.
///
/// # Errors
/// When another process changes the store, and as [`commit`].
pub fn bring_up(
    store: &Path,
    index: &Path,
    access: Access,
    side_by_side: &mut SideBySide<'_>,
) -> Result<u64, IndexError> {
    let path = std::fs::canonicalize(store);
    let io = |source| StoreError::Io { path: store.to_owned(), action: "open", source };
    let _lock = StoreLock::take(&path.map_err(io)?, store)?;
    let store = any_kind::open_by(store, access, None)?;
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

/// The space for which an index was made, over a store.
fn space_of(index: &Path, store: &Arc<dyn Store>) -> Result<Arc<dyn Space>, IndexError> {
    Ok(spaces::open(&PivotTable::measure_of(index)?, Arc::clone(store))?)
}

/// Writes a changed store as one file again, and its indexes with a row for each remaining object. `access` decides
/// whether files of stores are mapped or read. Until it replaces the store it often checks `cancelled`, and stops if
/// that returns true.
///
/// # Errors
/// When another process changes the store, an index is not in step with it, a file cannot be written, or the caller
/// cancels it: the store is unchanged, and no new file is left.
pub fn compact(
    store: &Path,
    indexes: &[PathBuf],
    access: Access,
    side_by_side: &mut SideBySide<'_>,
    cancelled: &dyn Fn() -> bool,
) -> Result<Compacted, IndexError> {
    let compaction = any_kind::compaction(store, access, cancelled)?;
    let before = Arc::clone(compaction.store());
    let remade = write_indexes(&compaction, indexes, side_by_side, cancelled);
    let remade = remade.inspect_err(|_| {
        // The store is unchanged: the indexes written for the compacted one are removed.
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

/// Writes the indexes of the compacted store, and returns those that it computed again.
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
