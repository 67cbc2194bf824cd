//! Stores that change, as a user sees them: the commands, bad input, two writers at once, a killed writer.

#[path = "support/objects.rs"]
mod objects;

#[path = "support/command.rs"]
mod command;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use boxwork_stores::pivot_table::PivotTable;
use boxwork_stores::signature_store::{SignatureStore, StoreChange};
use boxwork_stores::sqfd_space::SqfdSpace;
use tempfile::TempDir;

use command::boxwork;
use objects::{Object, gaussian, push, write_store};

/// Runs a call that must end with this status, and returns its output and its messages.
fn ends(folder: &Path, arguments: &[&str], status: i32) -> (String, String) {
    let output = boxwork(folder).args(arguments).output().expect("the command starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    assert!(!said.contains("panicked"), "{said}");
    (String::from_utf8(output.stdout).expect("the output is text"), said)
}

fn ok(folder: &Path, arguments: &[&str]) -> String {
    ends(folder, arguments, 0).0
}

fn says(folder: &Path, arguments: &[&str], status: i32, words: &[&str]) {
    let (_, said) = ends(folder, arguments, status);
    for word in words {
        assert!(said.contains(word), "{arguments:?}: {said}");
    }
}

/// Two folders of images, the store of the first and its index.
fn with_images() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let at = folder.path();
    ok(at, &["sample-images", "images", "--classes", "3", "--per-class", "5", "--seed", "3"]);
    ok(at, &["sample-images", "more", "--classes", "2", "--per-class", "9", "--seed", "3"]);
    ok(at, &["extract", "images", "--out", "s.arrow", "--points", "300", "--seeds", "60", "--size", "70"]);
    ok(at, &["index", "--store", "s.arrow", "--out", "i.arrow", "--pivots", "4"]);
    folder
}

fn names(folder: &Path, store: &str) -> Vec<String> {
    let store = SignatureStore::open(folder.join(store)).expect("a store");
    store.among(0..store.len()).map(|id| store.name(id).expect("a name")).collect()
}

#[test]
fn images_are_added_and_removed_by_the_command() {
    let folder = with_images();
    let at = folder.path();
    fs::create_dir(at.join("new")).expect("a folder");
    let classes: Vec<_> = fs::read_dir(at.join("more")).expect("images").filter_map(Result::ok).collect();
    for class in classes {
        fs::rename(class.path(), at.join("new").join(format!("new-{}", class.file_name().to_string_lossy())))
            .expect("a new name");
    }
    says(at, &["add", "--store", "s.arrow", "--pivots", "i.arrow", "new"], 0, &["s.arrow holds 33 objects"]);
    let all = names(at, "s.arrow");
    assert_eq!(all.len(), 33);
    // Made with the store's parameters, as an extraction of both shows.
    ok(
        at,
        &["extract", "images", "new", "--out", "t.arrow", "--points", "300", "--seeds", "60", "--size", "70"],
    );
    assert_eq!(ok(at, &["export", "s.arrow"]), ok(at, &["export", "t.arrow"]));

    let search = ["search", "--store", "s.arrow", "--query", &all[20], "-k", "33", "--format", "csv"];
    let indexed: Vec<&str> = search.iter().copied().chain(["--pivots", "i.arrow"]).collect();
    assert_eq!(ok(at, &search), ok(at, &indexed));
    says(at, &["remove", "--store", "s.arrow", &all[0], &all[20]], 0, &["removed 2 objects", "holds 31"]);
    says(at, &search, 3, &[&format!("`{}` was removed from `s.arrow`", all[20]), "boxwork add"]);
    fs::write(at.join("names.txt"), format!("{}\n{}\n", all[1], all[32])).expect("names");
    says(at, &["remove", "--store", "s.arrow", "--names", "names.txt"], 0, &["removed 2 objects"]);
    let search = ["search", "--store", "s.arrow", "--query", &all[5], "-k", "40", "--format", "csv"];
    let indexed: Vec<&str> = search.iter().copied().chain(["--pivots", "i.arrow"]).collect();
    let found = ok(at, &search);
    assert_eq!((found.lines().count(), &found), (1 + 29, &ok(at, &indexed)));
    assert!([0, 1, 20, 32].iter().all(|gone| !found.contains(&format!("{},", all[*gone]))), "{found}");

    // Here a replaced object has a new id and its old signature.
    says(at, &["add", "--store", "s.arrow", "--pivots", "i.arrow", "--replace", "images"], 0, &["holds 31"]);
    assert_eq!(ok(at, &indexed).lines().count(), 1 + 31);
    says(at, &["compact", "--store", "s.arrow", "--out", "c.arrow"], 0, &["wrote c.arrow with 31 objects"]);
    let exported = ok(at, &["export", "s.arrow"]);
    assert_eq!(exported, ok(at, &["export", "c.arrow"]));
    says(at, &["compact", "--store", "s.arrow", "--pivots", "i.arrow"], 0, &["holds 31 objects"]);
    assert_eq!(exported, ok(at, &["export", "s.arrow"]));
    assert_eq!(ok(at, &search), ok(at, &indexed));
    assert!(fs::read_dir(at).expect("a folder").filter_map(Result::ok).all(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        !name.contains(".part-") && !name.contains(".lock") && !name.contains(".next")
    }));
}

#[test]
fn a_folder_of_which_a_part_is_there_adds_the_rest() {
    let folder = with_images();
    let at = folder.path();
    let all = names(at, "s.arrow");
    ok(at, &["remove", "--store", "s.arrow", &all[3], &all[7]]);
    let add = ["add", "--store", "s.arrow", "--pivots", "i.arrow", "images"];
    says(at, &add, 0, &["added 2", "13 are there already", "s.arrow holds 15 objects"]);
    assert_eq!(names(at, "s.arrow").len(), 15);
    let before = files_in(at);
    says(at, &add, 0, &["added 0", "15 are there already", "s.arrow holds 15 objects"]);
    assert_eq!(files_in(at), before, "a change without objects is none");
    let search = ["search", "--store", "s.arrow", "--query", &all[0], "-k", "15", "--format", "csv"];
    assert_eq!(ok(at, &search), ok(at, &[&search[..], &["--pivots", "i.arrow"]].concat()));

    // The content of one image changes: it is known by its name.
    fs::copy(at.join("images").join(&all[1]), at.join("images").join(&all[0])).expect("a copy");
    says(at, &add, 0, &["added 0", "15 are there already"]);
    assert_eq!(files_in(at), before, "no picture is decoded or replaced");
    let replace = [&add[..], &["--replace"]].concat();
    says(at, &replace, 0, &["added 15, of which 15 replace others", "s.arrow holds 15 objects"]);
    says(at, &add, 0, &["added 0", "15 are there already"]);

    // An index that an earlier change left behind is brought up, though no object is added.
    ok(at, &["remove", "--store", "s.arrow", &all[3]]);
    ok(at, &["add", "--store", "s.arrow", "images"]);
    says(at, &add, 0, &["added 0", "15 are there already"]);
    assert_eq!(ok(at, &search), ok(at, &[&search[..], &["--pivots", "i.arrow"]].concat()));
    says(at, &["add", "--store", "s.arrow", "--pivots", "none.arrow", "images"], 3, &["none.arrow"]);
}

#[test]
fn what_cannot_be_done_is_refused_with_the_way_out() {
    let folder = with_images();
    let at = folder.path();
    let before = fs::read(at.join("s.arrow")).expect("a store");
    let all = names(at, "s.arrow");
    says(
        at,
        &["remove", "--store", "s.arrow", "nobody", &all[0]],
        3,
        &["error: `s.arrow` has no object named `nobody`; nothing was removed"],
    );
    let everything: Vec<&str> =
        ["remove", "--store", "s.arrow"].into_iter().chain(all.iter().map(String::as_str)).collect();
    says(at, &everything, 3, &["no object would be left in `s.arrow`, which stays as it is"]);
    says(at, &["remove", "--store", "none.arrow", "a"], 3, &["cannot open `none.arrow`"]);
    says(
        at,
        &["remove", "--store", "s.arrow", "--names", "none.txt"],
        3,
        &["cannot read the names in `none.txt`"],
    );
    says(at, &["remove", "--store", "s.arrow"], 2, &["NAME"]);
    says(at, &["add", "--store", "s.arrow"], 2, &["PATH"]);
    other_signatures_are_refused(at);
    other_indexes_are_refused(at, &before);
    an_index_left_behind_is_refused_until_it_is_brought_up(at);
    unsound_indexes_are_refused(at);
    parts_that_are_missing_or_of_another_store_are_refused(at);
}

fn other_signatures_are_refused(at: &Path) {
    ok(at, &["extract", "more", "--out", "o.arrow", "--points", "200", "--seeds", "60", "--size", "70"]);
    let otherwise = ["add", "--store", "s.arrow", "--from", "o.arrow"];
    says(at, &otherwise, 3, &["extracted otherwise: points 200 where the store has 300"]);
    fs::write(at.join("v.jsonl"), "{\"name\": \"a\", \"centroids\": [[1, 0.5]], \"weights\": [1]}\n")
        .expect("lines");
    ok(at, &["import", "v.jsonl", "--out", "v.arrow"]);
    says(
        at,
        &["add", "--store", "s.arrow", "--from", "v.arrow"],
        3,
        &["`s.arrow` holds signatures of", "is wanted"],
    );
    says(
        at,
        &["add", "--store", "v.arrow", "more"],
        3,
        &["does not say how its signatures were extracted", "--from"],
    );
    says(at, &["add", "--store", "v.arrow", "--from", "v.arrow"], 0, &["added 0, 1 is there already"]);
}

/// A foreign index changes nothing.
fn other_indexes_are_refused(at: &Path, before: &[u8]) {
    ok(at, &["index", "--store", "o.arrow", "--out", "oi.arrow", "--pivots", "3"]);
    ok(at, &["index", "--store", "s.arrow", "--out", "a.arrow", "--pivots", "3", "--alpha", "0.5"]);
    let add = |pivots| ["add", "--store", "s.arrow", "--replace", "more", "--pivots", pivots];
    says(
        at,
        &add("oi.arrow"),
        3,
        &["`oi.arrow` is the index of another store", "boxwork index --store s.arrow --out oi.arrow"],
    );
    says(at, &add("s.arrow"), 3, &["`s.arrow` is no index"]);
    assert!(fs::read(at.join("s.arrow")).expect("a store") == *before, "the store was changed");
}

/// Indexes of any measure are updated; an index that was not named is behind, and the message explains how to update
/// it.
fn an_index_left_behind_is_refused_until_it_is_brought_up(at: &Path) {
    let add = |pivots| ["add", "--store", "s.arrow", "--replace", "more", "--pivots", pivots];
    says(at, &add("a.arrow"), 0, &["s.arrow holds"]);
    let all = names(at, "s.arrow");
    let search = ["search", "--store", "s.arrow", "--query", &all[0], "--pivots"];
    let with = |more: &[&'static str]| search.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>();
    ends(at, &with(&["a.arrow", "--alpha", "0.5"]), 0);
    let other = ["`a.arrow` is an index for", "alpha 0.5", "alpha 1.28: search with `--alpha 0.5`"];
    says(at, &with(&["a.arrow"]), 3, &other);
    says(
        at,
        &with(&["i.arrow"]),
        3,
        &[
            "`i.arrow` covers 15 of the 33 objects that `s.arrow` ever held",
            "run `boxwork index --append --store s.arrow --out i.arrow`",
        ],
    );
    says(at, &["compact", "--store", "s.arrow", "--pivots", "i.arrow"], 3, &["boxwork index --append"]);
    says(
        at,
        &["index", "--append", "--store", "s.arrow", "--out", "i.arrow"],
        0,
        &["i.arrow covers 18 objects more"],
    );
    says(
        at,
        &["index", "--append", "--store", "s.arrow", "--out", "i.arrow"],
        0,
        &["covers all objects of s.arrow"],
    );
    ends(at, &with(&["i.arrow"]), 0);
    says(
        at,
        &["index", "--append", "--store", "s.arrow", "--out", "oi.arrow"],
        3,
        &["the index of another store"],
    );
    says(
        at,
        &["index", "--append", "--store", "s.arrow", "--out", "i.arrow", "--pivots", "3"],
        2,
        &["--append"],
    );
}

fn unsound_indexes_are_refused(at: &Path) {
    let all = names(at, "s.arrow");
    let index = |more: &[&'static str]| {
        ["index", "--store", "s.arrow", "--out", "n.arrow"]
            .into_iter()
            .chain(more.iter().copied())
            .collect::<Vec<_>>()
    };
    says(at, &index(&["--pivots", "40"]), 3, &["40 pivots were requested", "ask for at most"]);
    says(at, &index(&["--alpha", "NaN"]), 2, &["NaN is not a number"]);
    says(at, &index(&["--ground", "l1"]), 1, &["gaussian", "use l2"]);
    let found =
        ok(at, &["search", "--store", "s.arrow", "--query", &all[0], "-k", "1000", "--format", "csv"]);
    assert_eq!(found.lines().count(), 1 + all.len(), "k beyond the objects gives all");
}

fn parts_that_are_missing_or_of_another_store_are_refused(at: &Path) {
    let part = at.join("s.arrow.part-0");
    let sound = fs::read(&part).expect("the base");
    fs::rename(&part, at.join("away")).expect("a new name");
    says(at, &["export", "s.arrow"], 3, &["cannot open", "s.arrow.part-0"]);
    fs::copy(at.join("o.arrow"), &part).expect("a copy");
    says(
        at,
        &["export", "s.arrow"],
        3,
        &["s.arrow.part-0` is not the part of", "that its record of changes names"],
    );
    fs::write(&part, sound).expect("the base again");
    ok(at, &["export", "s.arrow"]);
}

#[test]
fn of_two_writers_the_second_is_told() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let at = folder.path();
    let object = |number: u64| (format!("class/{number}"), number);
    write_store(&at.join("s.arrow"), &[object(1), object(2)]);
    write_store(&at.join("t.arrow"), &[object(3)]);
    let mut change = StoreChange::begin(at.join("s.arrow")).expect("a store");
    let busy = ["another process is changing `s.arrow`: run this again when it is done"];
    says(at, &["add", "--store", "s.arrow", "--from", "t.arrow"], 3, &busy);
    says(at, &["remove", "--store", "s.arrow", "class/1"], 3, &busy);
    says(at, &["compact", "--store", "s.arrow"], 3, &busy);
    push(&object(4), |name, signature| change.push(name, signature, 0, 0));
    change.write().and_then(|pending| pending.commit()).expect("the change can be made");
    ok(at, &["add", "--store", "s.arrow", "--from", "t.arrow"]);
    assert_eq!(names(at, "s.arrow"), ["class/1", "class/2", "class/4", "class/3"]);
    // An abandoned change leaves nothing, and frees the lock.
    let mut change = StoreChange::begin(at.join("s.arrow")).expect("a store");
    push(&object(5), |name, signature| change.push(name, signature, 0, 0));
    drop(change.write().expect("the parts can be written"));
    ok(at, &["remove", "--store", "s.arrow", "class/1"]);
    assert_eq!(names(at, "s.arrow"), ["class/2", "class/4", "class/3"]);
    // A new store of that name replaces all of the old one.
    let lines = "{\"name\": \"a\", \"centroids\": [[1, 0.5]], \"weights\": [1]}\n";
    let mut child = boxwork(at)
        .args(["import", "/dev/stdin", "--out", "s.arrow", "--force"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    child.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("lines");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(names(at, "s.arrow"), ["a"]);
    let left = fs::read_dir(at).expect("a folder").filter_map(Result::ok);
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_command_that_is_killed_leaves_the_store_as_it_was_or_as_it_should_be() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let at = folder.path();
    let objects: Vec<Object> = (0..3000).map(|number| (format!("class/{number}"), number)).collect();
    let more: Vec<Object> = (3000..6000).map(|number| (format!("class/{number}"), number)).collect();
    write_store(&at.join("t.arrow"), &more);
    write_store(&at.join("s.arrow"), &objects);
    ok(at, &["index", "--store", "s.arrow", "--out", "i.arrow", "--pivots", "3"]);
    let mut killed = 0;
    for turn in 0..24u64 {
        let mut child = boxwork(at)
            .args(["add", "--store", "s.arrow", "--pivots", "i.arrow", "--from", "t.arrow"])
            .stderr(Stdio::null())
            .spawn()
            .expect("the command starts");
        std::thread::sleep(Duration::from_millis(3 * turn * turn));
        let _ = child.kill();
        let status = child.wait().expect("it ends");
        killed += u32::from(!status.success());
        let store = Arc::new(SignatureStore::open(at.join("s.arrow")).expect("a whole store"));
        store.verify().expect("a sound store");
        assert!([3000, 6000].contains(&store.objects()), "{} objects", store.objects());
        let space = Arc::new(SqfdSpace::new(Arc::clone(&store), gaussian()));
        PivotTable::open(at.join("i.arrow"), space).expect("an index in step");
        if store.objects() == 6000 {
            let mut change = StoreChange::begin(at.join("s.arrow")).expect("the lock is free");
            (3000..store.len()).filter(|id| store.has(*id)).for_each(|id| {
                change.remove(id).expect("an object");
            });
            change.write().and_then(|pending| pending.commit()).expect("the change can be made");
        }
    }
    assert!(killed > 0, "the first is killed at once");
}

#[test]
fn a_compaction_that_is_told_to_stop_leaves_the_store_and_no_other_file() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let at = folder.path();
    let objects: Vec<Object> = (0..3000).map(|number| (format!("class/{number}"), number)).collect();
    write_store(&at.join("s.arrow"), &objects);
    ok(at, &["index", "--store", "s.arrow", "--out", "i.arrow", "--pivots", "3"]);
    ok(at, &["remove", "--store", "s.arrow", "class/7"]);
    let before = files_in(at);
    for target in [&["--out", "c.arrow"][..], &["--pivots", "i.arrow"], &[]] {
        // A deadline that has passed stops the command at the points where Ctrl-C would.
        let call = [&["compact", "--store", "s.arrow", "--deadline", "0"], target].concat();
        let (_, said) = ends(at, &call, 3);
        assert!(said.contains("nothing was left half-written"), "{call:?}: {said}");
        assert_eq!(files_in(at), before, "{call:?}");
    }
    assert!(SignatureStore::open(at.join("s.arrow")).expect("a whole store").is_changed());
}

/// Sends a signal to a child.
#[expect(unsafe_code, reason = "a signal is sent to a child of this test")]
fn signal(child: &Child, signal: libc::c_int) {
    let id = i32::try_from(child.id()).expect("an id");
    // SAFETY: the child has not been waited for, so the id is its own.
    assert_eq!(unsafe { libc::kill(id, signal) }, 0);
}

/// One of these states of a child, as a `CLD_` number; 0 when the call need not wait and the child is in none of them.
#[expect(unsafe_code, reason = "the test asks for the state of its child")]
fn state(child: &Child, states: libc::c_int) -> libc::c_int {
    // SAFETY: zeros are a `siginfo_t`.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let states = states | libc::WNOWAIT;
    // SAFETY: `info` is valid for the answer; the child stays to be waited for.
    assert_eq!(unsafe { libc::waitid(libc::P_PID, child.id(), &raw mut info, states) }, 0);
    info.si_code
}

/// Waits for a child that hears Ctrl-C, and checks its status and its message.
fn ends_interrupted(child: Child) {
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert_eq!(said, "interrupted: nothing was left half-written\n");
}

fn files_in(folder: &Path) -> BTreeSet<OsString> {
    fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").file_name()).collect()
}

#[test]
fn a_compaction_that_hears_ctrl_c_leaves_the_store_and_no_temporary_file() {
    const OBJECTS: u64 = 60_000;
    let folder = tempfile::tempdir().expect("a folder for the test");
    let at = folder.path();
    let objects: Vec<Object> = (0..OBJECTS).map(|number| (format!("class/{number}"), number)).collect();
    write_store(&at.join("s.arrow"), &objects);
    let bytes = fs::metadata(at.join("s.arrow")).expect("the store").len();
    let mut removed = 0;
    for (target, temporary) in [(&["--out", "c.arrow"][..], ".c.arrow.tmp-"), (&[][..], ".s.arrow.tmp-")] {
        // The command is stopped as soon as its file is there, so that the signal meets it at work. On a machine where it
        // gets too far before that, it is let go, and another one is begun.
        let is_interrupted = (0..50).any(|_| {
            ok(at, &["remove", "--store", "s.arrow", &format!("class/{removed}")]);
            removed += 1;
            let before = files_in(at);
            let mut child = boxwork(at)
                .args(["compact", "--store", "s.arrow"])
                .args(target)
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the command starts");
            let written = || {
                let file =
                    files_in(at).into_iter().find(|name| name.to_string_lossy().starts_with(temporary));
                file.and_then(|name| fs::metadata(at.join(name)).ok()).map(|file| file.len())
            };
            while written().is_none() && state(&child, libc::WEXITED | libc::WNOHANG) == 0 {
                std::thread::yield_now();
            }
            signal(&child, libc::SIGSTOP);
            let is_amid = state(&child, libc::WSTOPPED | libc::WEXITED) == libc::CLD_STOPPED
                && written().is_some_and(|written| written < bytes / 2);
            if is_amid {
                signal(&child, libc::SIGINT);
                signal(&child, libc::SIGCONT);
                ends_interrupted(child);
                assert_eq!(files_in(at), before, "{target:?}");
            } else {
                signal(&child, libc::SIGCONT);
                assert!(child.wait().expect("it ends").success());
                let _ = fs::remove_file(at.join("c.arrow"));
            }
            is_amid
        });
        assert!(is_interrupted, "the command was never met at work: {target:?}");
        let store = SignatureStore::open(at.join("s.arrow")).expect("a whole store");
        store.verify().expect("a sound store");
        assert!(store.is_changed());
        assert_eq!(store.objects(), OBJECTS - removed);
    }
}

#[test]
fn a_removal_that_hears_ctrl_c_leaves_the_store_and_no_other_file() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let at = folder.path();
    let objects: Vec<Object> = (0..100).map(|number| (format!("class/{number}"), number)).collect();
    write_store(&at.join("s.arrow"), &objects);
    assert!(Command::new("mkfifo").arg(at.join("names")).status().expect("mkfifo starts").success());
    let before = files_in(at);
    let child = boxwork(at)
        .args(["remove", "--store", "s.arrow", "--names", "names"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // Opening waits until the command opens the pipe to read the names; it listens to signals before.
    let mut names = fs::File::options().write(true).open(at.join("names")).expect("the pipe");
    signal(&child, libc::SIGINT);
    names.write_all(b"class/1\nclass/2\n").expect("the pipe takes the names");
    drop(names);
    ends_interrupted(child);
    assert_eq!(files_in(at), before);
    let store = SignatureStore::open(at.join("s.arrow")).expect("a whole store");
    store.verify().expect("a sound store");
    assert_eq!((store.objects(), store.is_changed()), (100, false));
}
