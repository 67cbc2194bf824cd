//! Codes and lists of vectors are in step with their store after a kill at any step of a change, and hold each vector.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use boxwork_kernels::CodePath;
use boxwork_kernels::codes::{CodeNearest, CodeQueries, Levels};
use boxwork_kernels::pieces::one_by_one;

use super::*;
use crate::any_kind;
use crate::lists::mapped_tests::write_first_version;
use crate::lists::{Assigned, Coding, Lists, ListsOptions, Training, vectors, write};
use crate::object_column;
use crate::pivot_table::in_threads;
use crate::steps;
use crate::subset::Subset;
use crate::vector_codes::{CodesWriter, centre_of, encoder_of, open, vectors_of, words_of};

const FOLDER: &str = "BOXWORK_TEST_VECTORS";
const ACT: &str = "BOXWORK_TEST_VECTORS_ACT";
/// More steps than any act takes.
const STEPS_MAX: usize = 200;
/// Levels of codes, a file for each.
const LEVELS: [Levels; 3] = [Levels::Planes, Levels::Pca, Levels::Product16];
const CODINGS: [Coding; 4] = [Coding::Rows, Coding::Product, Coding::Fast, Coding::Rabitq];

fn at(folder: &Path, name: &str) -> PathBuf {
    folder.join(name)
}

/// The codes and the lists of each coding.
fn kept(folder: &Path) -> Vec<PathBuf> {
    let lists = CODINGS.map(|coding| at(folder, &format!("{}.lists.arrow", coding.name())));
    let codes = LEVELS.map(|levels| at(folder, &format!("{}.codes.arrow", levels.name())));
    codes.into_iter().chain(lists).collect()
}

fn import(path: &Path, rows: std::ops::Range<usize>) -> Arc<dyn Store> {
    let line = |row: usize| {
        let numbers: Vec<usize> = (0..5).map(|j| (row * 31 + j * 17 + row * row * j) % 97).collect();
        format!("{{\"name\": \"v{row}\", \"object\": {numbers:?}}}\n")
    };
    let lines = path.with_extension("jsonl");
    fs::write(&lines, rows.map(line).collect::<String>()).unwrap();
    object_column::open(&lines, None, "name", Some(any_kind::named("vectors").unwrap())).unwrap()
}

fn space(folder: &Path) -> Arc<dyn Space> {
    let store = any_kind::open(&at(folder, "v.arrow"), None).unwrap();
    spaces::open(&spaces::DistanceOptions { distance: "l2".to_owned(), ..Default::default() }, store).unwrap()
}

/// A store of 300 vectors with its codes and lists.
fn prepare(folder: &Path) {
    any_kind::copy(&import(&at(folder, "v"), 0..300), &at(folder, "v.arrow"), &|| false).unwrap();
    let (space, kept) = (space(folder), kept(folder));
    let (of_space, measure) = vectors_of(&*space).unwrap();
    for (levels, path) in LEVELS.into_iter().zip(&kept) {
        let centre = centre_of(&of_space, measure, &|| false).unwrap();
        let encoder = encoder_of(levels, &of_space, measure, centre, &mut one_by_one()).unwrap();
        let mut writer = CodesWriter::create(path, &*space, encoder.clone()).unwrap();
        writer.push(&words_of(&of_space, &encoder, 0..300).unwrap()).unwrap();
        writer.finish().unwrap();
    }
    for (coding, path) in CODINGS.into_iter().zip(&kept[LEVELS.len()..]) {
        let options = ListsOptions { lists: Some(7), iterations: 3, seed: 1, ..ListsOptions::of(coding) };
        let training = Training::new(&space, options).unwrap();
        let quantizers = training.train(&mut one_by_one()).unwrap().unwrap();
        let ids: Vec<u64> = (0..300).collect();
        let (lists, codes) = quantizers.assign(&vectors(&**space.store(), &ids).unwrap());
        write(path, &space, &quantizers, &Assigned { ids, lists, codes }, &|| false).unwrap();
    }
}

fn act(folder: &Path, what: &str) {
    let (store, kept) = (at(folder, "v.arrow"), kept(folder));
    match what {
        "add" | "add one" => {
            let count = if what == "add" { 40 } else { 1 };
            let first = if what == "add" { 300 } else { 900 };
            let new = import(&at(folder, "w"), first..first + count);
            let ids: Vec<u64> = (0..count as u64).collect();
            let names: Vec<String> = ids.iter().map(|id| new.name(*id).unwrap()).collect();
            let columns: Vec<ArrayRef> = new.columns(&ids).unwrap();
            let mut change = any_kind::change(&store).unwrap();
            change.push_rows(&StringArray::from(names), &columns, false).unwrap();
            commit(change.write().unwrap(), &kept, &mut in_threads(2)).unwrap();
        }
        "remove" => {
            let mut change = any_kind::change(&store).unwrap();
            [0, 7, 299].iter().for_each(|id| assert!(change.remove(*id).unwrap()));
            change.write().unwrap().commit().unwrap();
        }
        "compact" => {
            compact(&store, &kept, Access::Map, &mut in_threads(2), &|| false).unwrap();
        }
        _ => panic!("{what}"),
    }
}

/// All objects that lists find for some of them, with the bits of their scores.
fn found_in(lists: &Lists, ids: &[u64]) -> Vec<Vec<(u64, u32)>> {
    let store = lists.space().store();
    let (every, all) = ((0..lists.count() as u32).collect::<Vec<_>>(), Subset::of(&**store, |_| true));
    lists.bring_in(&every, &|| false).unwrap();
    let queries = lists.queries(vectors(&**store, &ids[..3]).unwrap());
    let of = |(place, id): (usize, &u64)| {
        let query = vectors(&**store, &[*id]).unwrap();
        let mut found = vec![lists.shortlist(&query, ids.len(), f64::INFINITY)];
        for list in &every {
            lists.scan(*list, &queries, &[place], None, &mut found);
            assert!(lists.mask(*list, &all).is_none_or(|mask| mask.iter().any(|word| *word != 0)));
        }
        let each = found[0].kept().iter();
        let mut found: Vec<(u64, u32)> = each.map(|(score, row)| (lists.id(*row), score.to_bits())).collect();
        found.sort_unstable();
        found
    };
    let found = ids[..3].iter().enumerate().map(of).collect();
    lists.confirm().unwrap();
    found
}

/// The names of the store's vectors. Its codes and lists must be in step, and find each vector by itself.
fn state(folder: &Path) -> Vec<String> {
    let (space, kept) = (space(folder), kept(folder));
    let store = space.store();
    let ids: Vec<u64> = store.among(0..store.ids_count()).collect();
    let all_rows = vectors(&**store, &ids).unwrap();
    for path in &kept[..LEVELS.len()] {
        let codes = open(path, &*space).unwrap();
        assert_eq!(codes.len() as u64, store.ids_count());
        // The bounds of vectors that were added hold too.
        for (place, query) in all_rows.chunks_exact(5).enumerate().step_by(50) {
            let mut nearest = vec![CodeNearest::new(1, f64::INFINITY)];
            let is_removed = |row: u32| !store.has(u64::from(row));
            let queries = CodeQueries::new(CodePath::detect(), &codes, &[query]);
            queries.scan(&codes, 0..codes.len(), Some(&is_removed), &mut nearest);
            let left = nearest.remove(0).finish();
            assert!(left.iter().any(|(_, row)| u64::from(*row) == ids[place]), "{}", path.display());
        }
    }
    for path in &kept[LEVELS.len()..] {
        let [lists, read] = [Access::Map, Access::Read].map(|access| {
            let lists = Lists::open_by(path, &space, access).unwrap();
            assert_eq!(lists.objects(), ids.len() as u64);
            lists
        });
        let of_map = found_in(&lists, &ids);
        assert!(
            of_map.iter().all(|found| found.iter().map(|(id, _)| *id).eq(ids.iter().copied())),
            "{path:?}"
        );
        assert_eq!(of_map, found_in(&read, &ids), "{path:?}");
    }
    ids.iter().map(|id| store.name(*id).unwrap()).collect()
}

fn files(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| !name.ends_with(".jsonl")).collect()
}

/// The process to be killed. It does nothing unless it gets an act.
#[test]
fn act_on_vectors_and_be_killed() {
    if let (Some(folder), Ok(what)) = (std::env::var_os(FOLDER), std::env::var(ACT)) {
        act(Path::new(&folder), &what);
    }
}

/// Kills an act at each of its steps: the store is in its old or its new state, all files are in step with it, and the next change
/// removes the leftovers.
fn check(what: &str, before: &[&str], steps_min: usize) {
    let prepared = |acts: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        acts.iter().for_each(|what| act(folder.path(), what));
        folder
    };
    let folder = prepared(before);
    let was = state(folder.path());
    act(folder.path(), what);
    let will_be = state(folder.path());
    act(folder.path(), "add one");
    let (last, files_wanted) = (state(folder.path()), files(folder.path()));
    for step in 1..STEPS_MAX {
        let folder = prepared(before);
        let ended = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "upkeep::vector_tests::act_on_vectors_and_be_killed"])
            .env(FOLDER, folder.path())
            .env(ACT, what)
            .env(steps::VARIABLE, step.to_string())
            .output()
            .unwrap();
        let found = state(folder.path());
        if ended.status.success() {
            assert_eq!(found, will_be);
            assert!(step > steps_min, "{what} takes {step} steps");
            return;
        }
        assert_eq!(ended.status.signal(), Some(libc::SIGKILL), "{ended:?}");
        assert!(found == was || found == will_be, "{what} killed at step {step}");
        if found == was {
            act(folder.path(), what);
            assert_eq!(state(folder.path()), will_be, "{what} after step {step}");
        }
        act(folder.path(), "add one");
        assert_eq!(state(folder.path()), last, "{what} after step {step}");
        assert_eq!(files(folder.path()), files_wanted, "{what} killed at step {step}");
    }
    panic!("{what} does not end within {STEPS_MAX} steps");
}

#[test]
fn lists_of_the_first_version_follow_their_store() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepare(folder);
    for path in &kept(folder)[LEVELS.len()..] {
        if !path.ends_with("product.lists.arrow") && !path.ends_with("fast.lists.arrow") {
            let new = path.with_extension("new");
            fs::rename(path, &new).unwrap();
            write_first_version(&new, path);
            fs::remove_file(new).unwrap();
        }
    }
    act(folder, "add");
    act(folder, "remove");
    assert_eq!(state(folder).len(), 337);
    act(folder, "compact");
    act(folder, "add one");
    assert_eq!(state(folder).len(), 338);
}

#[test]
fn lists_of_two_stores_become_one_by_joining_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    prepare(folder);
    let into = kept(folder)[LEVELS.len()..].to_vec();
    let (new, other) = (import(&at(folder, "w"), 300..340), at(folder, "w.arrow"));
    any_kind::copy(&new, &other, &|| false).unwrap();
    let store = any_kind::open(&other, None).unwrap();
    let space = spaces::open(&spaces::DistanceOptions::named("l2"), Arc::clone(&store)).unwrap();
    let ids: Vec<u64> = (0..40).collect();
    let of = vectors(&*store, &ids).unwrap();
    // The next list after the nearest, so that it shows whether lists are taken or found anew; not of the last object.
    let mut lists_of = Vec::new();
    let paths: Vec<PathBuf> = into.iter().map(|path| path.with_extension("other")).collect();
    for (path, from) in paths.iter().zip(&into) {
        let quantizers = lists::quantizers_like(from, &*space).unwrap();
        let (mut lists, codes) = quantizers.assign(&of);
        lists.iter_mut().for_each(|list| *list = (*list + 1) % 7);
        write(
            path,
            &space,
            &quantizers,
            &Assigned { ids: ids.clone(), lists: lists.clone(), codes },
            &|| false,
        )
        .unwrap();
        lists_of.push(lists);
    }
    let change = || {
        let mut change = any_kind::change(&at(folder, "v.arrow")).unwrap();
        let names: Vec<String> = ids.iter().map(|id| new.name(*id).unwrap()).collect();
        change.push_rows(&StringArray::from(names), &new.columns(&ids).unwrap(), false).unwrap();
        // An object that the lists do not have.
        let more = import(&at(folder, "x"), 900..901);
        let name = StringArray::from(vec![more.name(0).unwrap()]);
        change.push_rows(&name, &more.columns(&[0]).unwrap(), false).unwrap();
        change.write().unwrap()
    };
    // Lists by other centroids are refused, and so are lists that no file takes in.
    let rows = sources(&paths[..1], &store, Access::Map).unwrap();
    for into in [&into[1..], &[]] {
        let said = commit_merging(change(), into, &rows, &mut in_threads(1)).unwrap_err().to_string();
        assert!(said.contains("cannot be merged with") && said.contains("--like"), "{said}");
    }
    let all = sources(&paths, &store, Access::Map).unwrap();
    assert_eq!(commit_merging(change(), &kept(folder), &all, &mut in_threads(2)).unwrap(), (41, 0));
    assert_eq!(state(folder).len(), 341);
    let space = self::space(folder);
    for (path, wanted) in into.iter().zip(lists_of) {
        let lists = Lists::open(path, &space).unwrap();
        lists.bring_in(&[0, 1, 2, 3, 4, 5, 6], &|| false).unwrap();
        for (id, wanted) in (300..340).zip(wanted) {
            let one = Subset::of(&**space.store(), |other| other == id);
            let found: Vec<u32> = (0..7).filter(|list| lists.mask(*list, &one).is_some()).collect();
            assert_eq!(found, [wanted], "{}", path.display());
        }
    }
}

#[test]
fn a_killed_addition_leaves_codes_and_lists_in_step() {
    check("add", &["remove"], 20);
}

#[test]
fn a_killed_removal_leaves_codes_and_lists_in_step() {
    check("remove", &["add"], 3);
}

#[test]
fn a_killed_compaction_leaves_codes_and_lists_in_step() {
    check("compact", &["add", "remove"], 20);
}
