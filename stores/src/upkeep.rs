//! Changes of stores that keep their indexes, sketches, codes, lists and permutations in step: the work of `boxwork add`, `remove`, `compact`, `index
//! --append`, `sketch --append` and `lists --append`.
//!
//! Invariant: at each moment a store is in its old or its new state, and a file that was in step before is in step with that
//! state. Its new parts are written before the store changes: they count only for the store with their
//! fingerprint.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::any_kind;
use super::hnsw::{self, HnswError};
use super::lists::{self, Lists, ListsError};
use super::object_store::{Access, Compaction, PendingChange, StoreLock, real_path};
use super::packed_file::{self, Format, next_path};
use super::permutations::{self, Layout, PermutationError, Permutations};
use super::pivot_table::{self, IndexError, PivotTable, SideBySide};
use super::sketch::{self, Sketch, SketchError};
use super::space::{Space, SpaceError};
use super::spaces;
use super::store::Store;
use super::store_error::StoreError;
use super::vector_codes::{self, CodesError};

/// A store, or a file that is kept in step with it, cannot be changed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[non_exhaustive]
pub enum UpkeepError {
    /// The store.
    Store(#[from] StoreError),
    /// An index.
    Index(#[from] IndexError),
    /// A sketch.
    Sketch(#[from] SketchError),
    /// Codes.
    Codes(#[from] CodesError),
    /// Lists.
    Lists(#[from] ListsError),
    /// Permutations.
    Permutations(#[from] PermutationError),
    /// A graph.
    Hnsw(#[from] HnswError),
    /// A distance.
    Space(#[from] SpaceError),
}

impl UpkeepError {
    /// Whether the caller cancelled the work.
    pub fn is_cancelled(&self) -> bool {
        match self {
            Self::Store(error) => {
                matches!(error, StoreError::Cancelled { .. } | StoreError::Interrupted(_))
            }
            Self::Index(error) => error.is_cancelled(),
            Self::Sketch(error) => error.is_cancelled(),
            Self::Codes(error) => error.is_cancelled(),
            Self::Lists(error) => error.is_cancelled(),
            Self::Permutations(error) => error.is_cancelled(),
            Self::Hnsw(error) => error.is_cancelled(),
            Self::Space(error) => matches!(error, SpaceError::Interrupted(_)),
        }
    }
}

/// The result of a compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Objects in the store.
    pub objects: u64,
    /// Removed objects that the files no longer contain.
    pub forgotten: u64,
    /// Indexes and sketches that were computed again, because one of their pivots was removed from the store.
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
) -> Result<(u64, u64), UpkeepError> {
    commit_merging(change, indexes, &[], side_by_side)
}

/// As [`commit`], but added objects that one of `sources` has take their lists from it, if it has the same centroids and codebook: lists of
/// two stores become one by joining them. The file is that of [`commit`], to the byte.
///
/// # Errors
/// As [`commit`], and when lists among the sources have other quantizers than all lists among the indexes.
pub fn commit_merging(
    change: PendingChange,
    indexes: &[PathBuf],
    sources: &[Lists],
    side_by_side: &mut SideBySide<'_>,
) -> Result<(u64, u64), UpkeepError> {
    if !sources.is_empty() {
        let of_lists = indexes.iter().filter(|index| Kept::of(index) == Kept::Lists);
        lists::check_sources(sources, &of_lists.cloned().collect::<Vec<_>>(), &**change.store())?;
    }
    for index in indexes {
        settle(index, &**change.store())?;
        append(change.store(), index, sources, side_by_side)?;
    }
    Ok(change.commit()?)
}

/// Opens lists of a store that others are to take in, for the distance for which they were made.
///
/// # Errors
/// When a file is no lists of the store.
pub fn sources(paths: &[PathBuf], store: &Arc<dyn Store>, access: Access) -> Result<Vec<Lists>, UpkeepError> {
    let open = |path: &PathBuf| {
        let space = spaces::open(&lists::measure_of(path, &**store)?, Arc::clone(store))?;
        Ok(Lists::open_by(path, &space, access)?)
    };
    paths.iter().map(open).collect()
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
) -> Result<u64, UpkeepError> {
    let path = std::fs::canonicalize(store);
    let io = |source| StoreError::Io { path: store.to_owned(), action: "open", source };
    let _lock = StoreLock::take(&path.map_err(io)?, store)?;
    let store = any_kind::open_by(store, access, None)?;
    settle(index, &*store)?;
    append(&store, index, &[], side_by_side)
}

/// What a file has of a store's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Distances,
    Sketches,
    Codes,
    Lists,
    Permutations,
    Graph,
}

impl Kept {
    /// What a file, or the file that will replace it, has; distances if it is none of the others.
    fn of(path: &Path) -> Self {
        let whole = real_path(path);
        let files = [next_path(&whole), whole];
        let formats = [
            (sketch::FORMAT, Self::Sketches),
            (vector_codes::FORMAT, Self::Codes),
            (lists::FORMAT, Self::Lists),
            (permutations::FORMAT, Self::Permutations),
            (hnsw::FORMAT, Self::Graph),
        ];
        let is_of = |format: &Format| files.iter().any(|path| format.open(path).is_ok());
        formats.into_iter().find(|(format, _)| is_of(format)).map_or(Self::Distances, |(_, kept)| kept)
    }
}

fn append(
    store: &Arc<dyn Store>,
    index: &Path,
    sources: &[Lists],
    side_by_side: &mut SideBySide<'_>,
) -> Result<u64, UpkeepError> {
    let space = space_of(index, store)?;
    match Kept::of(index) {
        Kept::Distances => Ok(PivotTable::append(index, &space, side_by_side)?),
        Kept::Sketches => Ok(Sketch::append(index, &space, side_by_side)?),
        Kept::Codes => Ok(vector_codes::append(index, &space, side_by_side)?),
        Kept::Lists => Ok(lists::append(index, &space, sources, side_by_side)?),
        Kept::Permutations => Ok(Permutations::append(index, &space, side_by_side)?),
        Kept::Graph => Err(no_upkeep(index)),
    }
}

/// See [`packed_file::settle`].
fn settle(path: &Path, store: &dyn Store) -> Result<(), UpkeepError> {
    let format = match Kept::of(path) {
        Kept::Distances => return Ok(pivot_table::settle(path, store)?),
        Kept::Sketches => sketch::FORMAT,
        Kept::Codes => vector_codes::FORMAT,
        Kept::Lists => lists::FORMAT,
        Kept::Permutations => permutations::FORMAT,
        Kept::Graph => return Err(no_upkeep(path)),
    };
    Ok(packed_file::settle(path, format, store).map_err(SketchError::from)?)
}

/// The space for which an index was made, over a store.
fn space_of(index: &Path, store: &Arc<dyn Store>) -> Result<Arc<dyn Space>, UpkeepError> {
    let measure = match Kept::of(index) {
        Kept::Distances => PivotTable::measure_of(index)?,
        Kept::Sketches => Sketch::measure_of(index)?,
        Kept::Codes => vector_codes::measure_of(index, &**store)?,
        Kept::Lists => lists::measure_of(index, &**store)?,
        Kept::Permutations => Permutations::measure_of(index)?,
        Kept::Graph => return Err(no_upkeep(index)),
    };
    Ok(spaces::open(&measure, Arc::clone(store))?)
}

/// A graph is not changed together with its store.
fn no_upkeep(path: &Path) -> UpkeepError {
    HnswError::NoUpkeep { path: path.to_owned() }.into()
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
) -> Result<Compacted, UpkeepError> {
    let compaction = any_kind::compaction(store, access, cancelled)?;
    let before = Arc::clone(compaction.store());
    let remade = write_indexes(&compaction, indexes, access, side_by_side, cancelled);
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
    access: Access,
    side_by_side: &mut SideBySide<'_>,
    cancelled: &dyn Fn() -> bool,
) -> Result<Vec<PathBuf>, UpkeepError> {
    let (before, after) = (compaction.store(), compaction.compacted());
    let mut remade = Vec::new();
    for index in indexes {
        settle(index, &**before)?;
        let (of_before, of_after) = (space_of(index, before)?, space_of(index, after)?);
        match Kept::of(index) {
            Kept::Distances => {
                let table = PivotTable::open(index, of_before)?;
                if table.write_compacted(index, &of_after, side_by_side, cancelled)? {
                    remade.push(index.clone());
                }
            }
            Kept::Sketches => {
                let sketch = Sketch::open(index, &of_before)?;
                if sketch.write_compacted(index, &of_after, side_by_side, cancelled)? {
                    remade.push(index.clone());
                }
            }
            Kept::Codes => vector_codes::write_compacted(index, &*of_before, &*of_after, side_by_side)?,
            Kept::Permutations => {
                let permutations = Permutations::open(index, &of_before, Layout::Scan, cancelled)?;
                if permutations.write_compacted(index, &of_after, side_by_side, cancelled)? {
                    remade.push(index.clone());
                }
            }
            Kept::Lists => lists::write_compacted(index, &of_before, &*of_after, access, cancelled)?,
            Kept::Graph => return Err(no_upkeep(index)),
        }
    }
    if cancelled() {
        return Err(IndexError::Cancelled.into());
    }
    Ok(remade)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vector_tests;
