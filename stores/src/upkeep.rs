//! Stores that change, and their indexes kept in step: what `boxwork add`, `remove`, `compact` and `index --append` do.
//!
//! Invariant: at each moment a store is as it was or as it will be, and an index that was in step before is in step
//! with whichever of the two it is. What follows an index is written first: it counts only for the store of its
//! fingerprint.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::pivot_table::{IndexError, PivotTable, SideBySide, settle};
use super::signature_store::{Compaction, PendingChange, SignatureStore, StoreError, StoreLock};
use super::sqfd_space::SqfdSpace;

/// What became of a compacted store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Objects that the store holds.
    pub objects: u64,
    /// Objects whose last traces are gone.
    pub forgotten: u64,
    /// Indexes that must be made again, since a pivot of theirs was removed, and the number of their pivots.
    pub lost: Vec<(PathBuf, usize)>,
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
        settle(index, change.store())?;
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
    let store = Arc::new(SignatureStore::open(store)?);
    settle(index, &store)?;
    append(&store, index, side_by_side)
}

fn append(
    store: &Arc<SignatureStore>,
    index: &Path,
    side_by_side: &mut SideBySide<'_>,
) -> Result<u64, IndexError> {
    let measure = PivotTable::measure_of(index)?;
    let space = Arc::new(SqfdSpace::new(Arc::clone(store), measure));
    PivotTable::append(index, &space, side_by_side)
}

/// Makes one file of a changed store again, and its indexes' rows those of its objects.
///
/// # Errors
/// When another process changes the store, an index is not in step with it, or a file cannot be written: the store
/// stays as it was.
pub fn compact(store: &Path, indexes: &[PathBuf]) -> Result<Compacted, IndexError> {
    let compaction = Compaction::write(store)?;
    let before = Arc::clone(compaction.store());
    let mut lost = Vec::new();
    for index in indexes {
        settle(index, &before)?;
        let space = Arc::new(SqfdSpace::new(Arc::clone(&before), PivotTable::measure_of(index)?));
        let table = PivotTable::open(index, space)?;
        if !table.write_compacted(index, compaction.fingerprint())? {
            lost.push((index.clone(), table.pivots().len()));
        }
    }
    let (after, _lock) = compaction.commit()?;
    for index in indexes {
        settle(index, &after)?;
    }
    Ok(Compacted { objects: after.objects(), forgotten: before.len() - after.len(), lost })
}

#[cfg(test)]
mod tests {
    //! A process that is killed at any step of a change leaves the store as it was or as it should be.

    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use boxwork_kernels::sqfd::Columns;

    use super::*;
    use crate::pivot_table::in_threads;
    use crate::signature_store::{StoreChange, StoreInfo, StoreWriter};
    use crate::steps;
    use crate::testing;

    const FOLDER: &str = "BOXWORK_TEST_FOLDER";
    const ACT: &str = "BOXWORK_TEST_ACT";
    /// Beyond what any of the acts takes.
    const STEPS_MAX: usize = 200;

    fn store_in(folder: &Path) -> PathBuf {
        folder.join("test.signatures.arrow")
    }

    fn index_in(folder: &Path) -> PathBuf {
        folder.join("test.pivots.arrow")
    }

    fn push(name: &str, seed: u64, to: &mut StoreChange) {
        let ([x, y], weights) = testing::centroids(seed);
        let columns: [&[f32]; 2] = [&x, &y];
        to.push(name, Columns::new(&columns, &weights).signature(0, weights.len()), 640, 480).unwrap();
    }

    /// A store of 40 objects that were changed or not, and its index.
    fn prepare(folder: &Path, is_changed: bool) {
        let space = testing::space(testing::store(folder, 40));
        testing::write_index(&space, &[3, 17, 30], &index_in(folder)).unwrap();
        if is_changed {
            act(folder, "add");
            act(folder, "remove");
        }
    }

    fn act(folder: &Path, what: &str) {
        let (store, indexes) = (store_in(folder), [index_in(folder)]);
        match what {
            "add" => {
                let mut change = StoreChange::begin(&store).unwrap();
                (0..5).for_each(|object| push(&format!("new/{object}"), 90 + object, &mut change));
                commit(change.write().unwrap(), &indexes, &mut in_threads(2)).unwrap();
            }
            "remove" => {
                let mut change = StoreChange::begin(&store).unwrap();
                [0, 5, 39].into_iter().for_each(|id| assert!(change.remove(id).unwrap()));
                commit(change.write().unwrap(), &[], &mut in_threads(2)).unwrap();
            }
            "both" => {
                let mut change = StoreChange::begin(&store).unwrap();
                assert!(change.remove_named("cats/003.png").unwrap());
                push("cats/003.png", 77, &mut change);
                commit(change.write().unwrap(), &indexes, &mut in_threads(2)).unwrap();
            }
            "compact" => assert_eq!(compact(&store, &indexes).unwrap().lost, []),
            "build" => {
                let mut writer =
                    StoreWriter::create(&store, &testing::COORDINATES, &StoreInfo::default()).unwrap();
                let columns: [&[f32]; 2] = [&[1.0], &[2.0]];
                writer.push("one", Columns::new(&columns, &[1.0]).signature(0, 1), 0, 0).unwrap();
                writer.finish().unwrap();
            }
            _ => panic!("{what}"),
        }
    }

    /// The names of a sound store and whether an index is in step with it, as it must be but for another store's.
    fn state(folder: &Path) -> Vec<String> {
        let store = Arc::new(SignatureStore::open(store_in(folder)).unwrap());
        store.verify().unwrap();
        let names: Vec<String> = store.among(0..store.len()).map(|id| store.name(id).unwrap()).collect();
        if names != ["one"] {
            let space = testing::space(Arc::clone(&store));
            let table = PivotTable::open(index_in(folder), Arc::clone(&space)).unwrap();
            assert_eq!(table.len(), store.len());
            for id in store.among(0..store.len()) {
                let (block, row) = ((id / 256) as usize, (id % 256) as usize);
                for (idx, pivot) in table.pivots().iter().enumerate() {
                    let distance = store.read(|objects| space.between(objects, *pivot, id)).unwrap();
                    assert_eq!(table.block(block).distances[idx * 256 + row], distance as f32);
                }
            }
        }
        names
    }

    /// The process that is killed; nothing, where it is not told what to do.
    #[test]
    fn act_and_be_killed() {
        if let (Some(folder), Ok(what)) = (std::env::var_os(FOLDER), std::env::var(ACT)) {
            act(Path::new(&folder), &what);
        }
    }

    fn check(what: &str, is_changed: bool, steps_min: usize) {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path(), is_changed);
        let before = state(folder.path());
        act(folder.path(), what);
        let after = state(folder.path());
        for step in 1..STEPS_MAX {
            let folder = tempfile::tempdir().unwrap();
            prepare(folder.path(), is_changed);
            let ended = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "upkeep::tests::act_and_be_killed"])
                .env(FOLDER, folder.path())
                .env(ACT, what)
                .env(steps::VARIABLE, step.to_string())
                .output()
                .unwrap();
            let found = state(folder.path());
            if ended.status.success() {
                assert_eq!(found, after);
                assert!(step > steps_min, "{what} takes {step} steps");
                return;
            }
            assert_eq!(ended.status.signal(), Some(libc::SIGKILL), "{ended:?}");
            assert!(found == before || found == after, "{what} killed at step {step}: {found:?}");
            // Whoever comes next does not mind, and tidies up.
            if found == before {
                act(folder.path(), what);
                assert_eq!(state(folder.path()), after, "{what} after step {step}");
            }
        }
        panic!("{what} does not end within {STEPS_MAX} steps");
    }

    #[test]
    fn a_killed_build_leaves_one_of_the_two() {
        check("build", false, 5);
        check("build", true, 5);
    }

    #[test]
    fn a_killed_addition_leaves_one_of_the_two() {
        check("add", false, 12);
        check("both", true, 14);
    }

    #[test]
    fn a_killed_removal_leaves_one_of_the_two() {
        check("remove", false, 8);
        check("both", false, 14);
    }

    #[test]
    fn a_killed_compaction_leaves_one_of_the_two() {
        check("compact", true, 10);
    }
}
