//! An engine leaves its process as it was. The file has one test, as threads and signal handlers are those of the
//! process.
#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "signals are sent, and their actions are asked for")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use boxwork::engine::{Engine, Limits};
use boxwork::shipped::{self, Shipped};
use boxwork_operators::catalog;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;

/// The handlers of all signals that an engine may handle.
fn handlers() -> Vec<usize> {
    let action = |signal| {
        // SAFETY: zeros are a `sigaction`: no flag, no handler, no signal blocked.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: asks for the present action; `action` is valid for the answer.
        assert_eq!(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) }, 0);
        action.sa_sigaction
    };
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGBUS].map(action).to_vec()
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").expect("Linux lists threads").count()
}

/// Waits until this many threads exist: the system lists a thread for a moment after it was joined.
fn wait_for_threads(count: usize) {
    const TRIES: usize = 1_000_000;
    assert!((0..TRIES).any(|_| threads() <= count), "{} threads, not {count}", threads());
}

/// Runs a shipped pipeline, and returns it with its open store.
fn run(engine: &Engine, pipeline: Shipped, values: &[(&str, &Path)]) -> Arc<Prepared> {
    let text = |path: &Path| Value::Text(path.to_str().expect("a path in UTF-8").to_owned());
    let values: BTreeMap<String, Value> =
        values.iter().map(|(name, path)| ((*name).to_owned(), text(path))).collect();
    let prepared = engine.prepare(&pipeline.load(), &catalog(), &values, None);
    let prepared = prepared.unwrap_or_else(|error| panic!("{error}"));
    let ended = engine.run(&prepared, Limits::default(), &mut |_| {});
    assert!(ended.failure.is_none(), "{:?}", ended.failure);
    prepared
}

#[test]
fn a_dropped_engine_leaves_no_thread_no_handler_and_no_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let lines = "{\"name\": \"a\", \"centroids\": [[1, 2]], \"weights\": [1]}\n";
    fs::write(at("lines"), lines).expect("written");
    let before = (threads(), handlers());
    for (has_signals, maps) in [(false, false), (true, true)] {
        let engine = Engine::builder().workers(3).sampler(true).signals(has_signals).maps(maps).start();
        let engine = engine.expect("threads");
        assert!(threads() > before.0);
        assert_eq!(handlers()[..3] != before.1[..3], has_signals);
        run(&engine, shipped::IMPORT, &[("path", &at("lines")), ("out", &at("store"))]);
        let open = run(&engine, shipped::EXPORT, &[("store", &at("store")), ("out", &at("copy"))]);
        assert_eq!(handlers()[3] != before.1[3], maps, "a handler of SIGBUS while a store is mapped");
        drop(open);
        drop(engine);
        wait_for_threads(before.0);
        assert_eq!(handlers(), before.1, "signals: {has_signals}");
    }
    let files: BTreeSet<_> = fs::read_dir(folder.path())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    assert_eq!(files, ["copy", "lines", "store"].map(str::to_owned).into());

    // A signal cancels the engines that listen, and ends no process.
    let [deaf, hears, hears_too] = [false, true, true]
        .map(|has_signals| Engine::builder().workers(1).signals(has_signals).start().expect("threads"));
    drop(hears_too);
    assert_ne!(handlers()[0], before.1[0], "another engine listens");
    // SAFETY: a signal to this process, which an engine handles.
    assert_eq!(unsafe { libc::raise(libc::SIGTERM) }, 0);
    assert_eq!([&deaf, &hears].map(Engine::is_cancelled), [false, true]);
    drop(hears);
    assert_eq!(handlers(), before.1);
    let again = Engine::builder().workers(1).signals(true).start().expect("threads");
    assert!(!again.is_cancelled(), "signals before its start do not count");
}
