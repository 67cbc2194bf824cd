//! Files of stores and indexes are complete after a kill at any step of a change, and foreign files are untouched.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use boxwork_kernels::sqfd::Columns;

use super::*;
use crate::any_kind;
use crate::pivot_table::{in_threads, in_threads_until};
use crate::signature_store::{SignatureStore, StoreChange, StoreInfo, StoreWriter};
use crate::steps;
use crate::testing;

const FOLDER: &str = "BOXWORK_TEST_FOLDER";
const ACT: &str = "BOXWORK_TEST_ACT";
/// More steps than any act takes.
const STEPS_MAX: usize = 200;
const STORE: &str = "test.signatures.arrow";
const INDEX: &str = "test.pivots.arrow";
/// A sketch by the same pivots, after the act `sketch`.
const SKETCH: &str = "test.sketch.arrow";
/// The pivots of the index, until one is removed.
const PIVOTS: [u64; 3] = [3, 17, 30];

fn push(name: &str, seed: u64, to: &mut StoreChange) {
    let ([x, y], weights) = testing::centroids(seed);
    let columns: [&[f32]; 2] = [&x, &y];
    to.push(name, Columns::new(&columns, &weights).signature(0, weights.len()), 640, 480).unwrap();
}

/// A store of 40 objects and its index, after these acts.
fn prepare(folder: &Path, acts: &[&str]) {
    let space = testing::space(testing::store(folder, 40));
    testing::write_index(&space, &PIVOTS, &folder.join(INDEX)).unwrap();
    acts.iter().for_each(|what| act(folder, what));
}

fn act(folder: &Path, what: &str) {
    let store = folder.join(STORE);
    act_on(&store, &folder.join(INDEX), what);
}

fn act_on(store: &Path, index: &Path, what: &str) {
    let (sketch, in_threads) = (store.with_file_name(SKETCH), &mut in_threads(2));
    let mut indexes = vec![index.to_owned()];
    indexes.extend(sketch.exists().then(|| sketch.clone()));
    let remove = |ids: &[u64]| {
        let mut change = StoreChange::begin(store).unwrap();
        ids.iter().for_each(|id| assert!(change.remove(*id).unwrap()));
        change.write().unwrap().commit().unwrap();
    };
    let mut add = |class: &str, count: u64| {
        let mut change = StoreChange::begin(store).unwrap();
        (0..count).for_each(|object| push(&format!("{class}/{object}"), 90 + object, &mut change));
        commit(change.write().unwrap(), &indexes, in_threads).unwrap();
    };
    match what {
        "add" => add("new", 5),
        "add one" => add("one more", 1),
        "remove" => remove(&[0, 5, 39]),
        "remove a pivot" => remove(&PIVOTS[1..2]),
        "both" => {
            let mut change = StoreChange::begin(store).unwrap();
            assert!(change.remove_named("cats/003.png").unwrap());
            push("cats/003.png", 77, &mut change);
            commit(change.write().unwrap(), &indexes, in_threads).unwrap();
        }
        "sketch" => {
            let space = testing::any_space(&testing::space(Arc::new(SignatureStore::open(store).unwrap())));
            testing::write_sketch_of_pivots(&space, &PIVOTS, &sketch).unwrap();
        }
        "compact" => {
            let before = SignatureStore::open(store).unwrap();
            let lost_a_pivot = PIVOTS.iter().any(|pivot| !before.has(*pivot));
            let remade = compact(store, &indexes, Access::Map, in_threads, &|| false).unwrap().remade;
            assert_eq!(remade, if lost_a_pivot { indexes } else { Vec::new() });
        }
        "build" => {
            let mut writer =
                StoreWriter::create(store, &testing::COORDINATES, &StoreInfo::default()).unwrap();
            let columns: [&[f32]; 2] = [&[1.0], &[2.0]];
            writer.push("one", Columns::new(&columns, &[1.0]).signature(0, 1), 0, 0).unwrap();
            writer.finish().unwrap();
        }
        _ => panic!("{what}"),
    }
}

/// The names of the objects of a sound store.
fn names(store: &Path) -> Vec<String> {
    let store = SignatureStore::open(store).unwrap();
    store.verify().unwrap();
    store.among(0..store.len()).map(|id| store.name(id).unwrap()).collect()
}

/// The names of the objects of a sound store; its index must be in step, or belong to another store.
fn state(store: &Path, index: &Path) -> Vec<String> {
    let names = names(store);
    let store = Arc::new(SignatureStore::open(store).unwrap());
    if names != ["one"] {
        let space = testing::space(Arc::clone(&store));
        let table = PivotTable::open(index, Arc::<crate::sqfd_space::SqfdSpace>::clone(&space)).unwrap();
        assert_eq!((table.len(), table.pivots().len()), (store.len(), 3));
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

/// As [`state`]; the sketch, if there is one, must be in step too, or belong to another store.
fn state_in(folder: &Path) -> Vec<String> {
    let (names, sketch) = (state(&folder.join(STORE), &folder.join(INDEX)), folder.join(SKETCH));
    if sketch.exists() && names != ["one"] {
        let store = Arc::new(SignatureStore::open(folder.join(STORE)).unwrap());
        let space = testing::any_space(&testing::space(store));
        let sketch = Sketch::open(&sketch, &space).unwrap();
        let ids: Vec<u64> = space.store().among(0..sketch.len()).collect();
        let expected = sketch.maker().sketches(&ids, &mut in_threads(1)).unwrap();
        assert_eq!((sketch.len(), sketch.maker().pivots().len()), (space.store().ids_count(), 3));
        assert_eq!(ids.iter().flat_map(|id| sketch.at(*id)).collect::<Vec<_>>(), expected);
    }
    names
}

fn files(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// The process to be killed. It does nothing unless it gets an act.
#[test]
fn act_and_be_killed() {
    if let (Some(folder), Ok(what)) = (std::env::var_os(FOLDER), std::env::var(ACT)) {
        act(Path::new(&folder), &what);
    }
}

/// Kills an act at each of its steps. The store must be in its old or its new state, its index in step, and the next
/// change must remove the leftovers.
fn check(what: &str, before: &[&str], steps_min: usize) {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), before);
    let was = state_in(folder.path());
    act(folder.path(), what);
    let will_be = state_in(folder.path());
    let next = if what == "build" { "build" } else { "add one" };
    act(folder.path(), next);
    let (last, files_wanted) = (state_in(folder.path()), files(folder.path()));
    for step in 1..STEPS_MAX {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path(), before);
        let ended = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "upkeep::tests::act_and_be_killed"])
            .env(FOLDER, folder.path())
            .env(ACT, what)
            .env(steps::VARIABLE, step.to_string())
            .output()
            .unwrap();
        let found = state_in(folder.path());
        if ended.status.success() {
            assert_eq!(found, will_be);
            assert!(step > steps_min, "{what} takes {step} steps");
            return;
        }
        assert_eq!(ended.status.signal(), Some(libc::SIGKILL), "{ended:?}");
        assert!(found == was || found == will_be, "{what} killed at step {step}: {found:?}");
        if found == was {
            act(folder.path(), what);
            assert_eq!(state_in(folder.path()), will_be, "{what} after step {step}");
        }
        act(folder.path(), next);
        assert_eq!(state_in(folder.path()), last, "{what} after step {step}");
        assert_eq!(files(folder.path()), files_wanted, "{what} killed at step {step}");
    }
    panic!("{what} does not end within {STEPS_MAX} steps");
}

#[test]
fn a_killed_build_leaves_one_of_the_two() {
    check("build", &[], 5);
    check("build", &["add", "remove"], 5);
}

#[test]
fn a_killed_addition_leaves_one_of_the_two() {
    check("add", &[], 12);
    check("both", &["add", "remove"], 14);
}

#[test]
fn a_killed_removal_leaves_one_of_the_two() {
    check("remove", &[], 8);
    check("both", &[], 14);
}

#[test]
fn a_killed_compaction_leaves_one_of_the_two() {
    check("compact", &["add", "remove"], 10);
}

#[test]
fn a_killed_compaction_after_a_pivot_was_removed_leaves_the_index_in_step() {
    check("compact", &["add", "remove a pivot"], 12);
}

#[test]
fn sketches_by_pivots_are_in_step_after_a_kill() {
    check("add", &["sketch"], 16);
    check("compact", &["sketch", "add", "remove"], 14);
    check("compact", &["sketch", "add", "remove a pivot"], 16);
}

#[test]
fn files_of_others_are_not_deleted() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), &[]);
    // One foreign file is a store with the name of a part.
    let store = folder.path().join(STORE);
    let whole_store = fs::read(&store).unwrap();
    let mut foreign: Vec<PathBuf> = Vec::new();
    for end in [".part-0", ".part-1", ".part-07", ".part-2", ".part-x", ".next"] {
        for name in [STORE, INDEX] {
            let path = folder.path().join(format!("{name}{end}"));
            fs::write(&path, if end == ".part-2" { &whole_store[..] } else { b"mine" }).unwrap();
            foreign.push(path);
        }
    }
    let next = foreign.pop().unwrap();
    let check = |what: &str| {
        for path in &foreign {
            let wanted = if path.extension().unwrap() == "part-2" { &whole_store[..] } else { b"mine" };
            assert!(fs::read(path).is_ok_and(|found| found == wanted), "{what}: {}", path.display());
        }
    };
    for what in ["add", "remove", "both"] {
        act(folder.path(), what);
        check(what);
        state_in(folder.path());
    }
    // The temporary name of the index is taken.
    let before = state_in(folder.path());
    let indexes = [folder.path().join(INDEX)];
    let error =
        compact(&store, &indexes, Access::Map, &mut in_threads(1), &|| false).unwrap_err().to_string();
    assert!(error.contains("test.pivots.arrow.next` is in the way"), "{error}");
    check("a compaction that is refused");
    assert_eq!(state_in(folder.path()), before);
    assert_eq!(fs::read(&next).unwrap(), b"mine");
    fs::rename(&next, folder.path().join("away")).unwrap();
    act(folder.path(), "compact");
    check("compact");
    assert_eq!(state_in(folder.path()), before);
    act(folder.path(), "add one");
    let space = testing::space(Arc::new(SignatureStore::open(&store).unwrap()));
    testing::write_index(&space, &[1, 2, 3], &indexes[0]).unwrap();
    act(folder.path(), "build");
    check("build");
    // Only foreign files and necessary files are left.
    let left = files(folder.path());
    assert_eq!(left.len(), foreign.len() + ["store", "index", "sidecar", "away"].len(), "{left:?}");
}

#[test]
fn a_renamed_store_keeps_its_parts() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), &["add", "remove"]);
    let [store, renamed] = [STORE, "renamed.arrow"].map(|name| folder.path().join(name));
    let before = names(&store);
    fs::rename(&store, &renamed).unwrap();
    act(folder.path(), "build");
    assert_eq!(names(&renamed), before, "another store took the name");
    let mut change = StoreChange::begin(&store).unwrap();
    push("two", 2, &mut change);
    change.write().unwrap().commit().unwrap();
    assert_eq!((names(&store), names(&renamed)), (vec!["one".to_owned(), "two".to_owned()], before.clone()));
    compact(&store, &[], Access::Read, &mut in_threads(1), &|| false).unwrap();
    assert_eq!(names(&renamed), before);
    // A record that is away for a while finds its parts when it returns.
    fs::rename(&renamed, folder.path().join("away")).unwrap();
    act(folder.path(), "build");
    fs::rename(folder.path().join("away"), &renamed).unwrap();
    assert_eq!(names(&renamed), before);
}

#[test]
fn a_copied_record_keeps_the_parts_that_it_names() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), &["add", "remove"]);
    let [store, copy] = [STORE, "copy.arrow"].map(|name| folder.path().join(name));
    let before = names(&store);
    fs::copy(&store, &copy).unwrap();
    act(folder.path(), "compact");
    assert_eq!((names(&store), names(&copy)), (before.clone(), before.clone()));
    act(folder.path(), "build");
    assert_eq!(names(&copy), before);
    // The last store that names them removes them.
    compact(&copy, &[], Access::Read, &mut in_threads(1), &|| false).unwrap();
    assert_eq!(names(&copy), before);
    assert!(files(folder.path()).iter().all(|name| !name.contains(".part-") || name.starts_with(INDEX)));
}

#[test]
fn a_store_and_an_index_are_changed_through_links() {
    let folder = tempfile::tempdir().unwrap();
    let (inner, links) = (folder.path().join("real"), folder.path().join("links"));
    fs::create_dir(&inner).unwrap();
    fs::create_dir(&links).unwrap();
    prepare(&inner, &[]);
    let [store, index] = [STORE, INDEX].map(|name| links.join(format!("l-{name}")));
    symlink(inner.join(STORE), &store).unwrap();
    symlink(inner.join(INDEX), &index).unwrap();
    for what in ["add", "remove", "both", "remove a pivot", "compact", "add one", "compact"] {
        act_on(&store, &index, what);
        assert!(store.is_symlink() && index.is_symlink(), "{what}");
        assert_eq!(state(&store, &index), state_in(&inner), "{what}");
        assert!(
            files(&links).iter().all(|name| name.starts_with("l-") && !name.contains(".part-")),
            "{what}"
        );
    }
    act_on(&store, &index, "build");
    assert_eq!(names(&inner.join(STORE)), ["one"]);
}

/// Runs a compaction that is cancelled at the `asks`-th check; returns its result, and the number of checks.
fn compact_until(folder: &Path, asks: usize) -> (Result<Compacted, UpkeepError>, usize) {
    let (store, indexes) = (folder.join(STORE), [folder.join(INDEX)]);
    let asked = AtomicUsize::new(0);
    let cancelled = || asked.fetch_add(1, Ordering::Relaxed) + 1 >= asks;
    let done = compact(&store, &indexes, Access::Map, &mut in_threads_until(1, &cancelled), &cancelled);
    (done, asked.into_inner())
}

#[test]
fn a_compaction_that_is_interrupted_leaves_the_old_store_and_a_clean_folder() {
    for acts in [&["add", "remove"][..], &["add", "remove a pivot"]] {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path(), acts);
        let (was, files_before) = (state_in(folder.path()), files(folder.path()));
        let mut asks = 1;
        loop {
            let (done, asked) = compact_until(folder.path(), asks);
            let Err(error) = done else { break };
            assert!(error.is_cancelled(), "{error}");
            assert!(asked >= asks);
            assert_eq!(files(folder.path()), files_before, "cancelled at question {asks}");
            assert_eq!(state_in(folder.path()), was, "cancelled at question {asks}");
            asks += 1;
        }
        // One check for each object, and some for the index.
        assert!(asks > was.len() + 1, "{asks} questions");
        assert_eq!(state_in(folder.path()), was);
    }
}

/// Whether this process maps a file of a folder.
#[cfg(target_os = "linux")]
fn is_mapped(folder: &Path) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.contains(folder.to_str().unwrap())
}

#[test]
#[cfg(target_os = "linux")]
fn upkeep_of_a_store_that_is_read_maps_nothing() {
    for (access, maps) in [(Access::Read, false), (Access::Map, true)] {
        let folder = tempfile::tempdir().unwrap();
        // An index that a removed pivot makes `compact` measure again, and that `bring_up` finds behind its store.
        prepare(folder.path(), &["remove a pivot"]);
        let (store, index) = (folder.path().join(STORE), folder.path().join(INDEX));
        let mut asked = 0;
        let mut compute = in_threads(1);
        let mut side_by_side = |numbers: &mut [f64], piece: usize, f: &pivot_table::Piece<'_>| {
            asked += 1;
            assert_eq!(is_mapped(folder.path()), maps, "{access:?}");
            compute(numbers, piece, f)
        };
        let done = compact(&store, std::slice::from_ref(&index), access, &mut side_by_side, &|| false);
        assert_eq!(done.unwrap().remade, std::slice::from_ref(&index));
        let mut change = StoreChange::begin_by(&store, Access::Read).unwrap();
        // By its name the part is too large to be read into memory whatever the access.
        push(&"n".repeat(5 << 20), 7, &mut change);
        change.write().unwrap().commit().unwrap();
        assert_eq!(bring_up(&store, &index, access, &mut side_by_side).unwrap(), 1);
        assert!(asked >= 2 && !is_mapped(folder.path()), "{asked}");
    }
}

#[test]
fn a_copy_that_is_interrupted_leaves_the_file_that_was_there() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), &["remove"]);
    let (store, out) = (any_kind::open(&folder.path().join(STORE), None).unwrap(), folder.path().join("out"));
    fs::write(&out, "old").unwrap();
    let files_before = files(folder.path());
    let asked = AtomicUsize::new(0);
    let cancelled = || asked.fetch_add(1, Ordering::Relaxed) == 20;
    let error = any_kind::copy(&store, &out, &cancelled).unwrap_err();
    assert!(matches!(error, StoreError::Cancelled { .. }), "{error}");
    assert_eq!((files(folder.path()), fs::read(&out).unwrap()), (files_before, b"old".to_vec()));
    assert_eq!(any_kind::copy(&store, &out, &|| false).unwrap(), 37);
}
