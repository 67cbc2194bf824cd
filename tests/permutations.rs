//! Permutations of pivots through the shipped pipelines: for any kind of object, the same for any number of workers, with a recall that
//! grows with the candidates; files that do not fit are refused.

#[path = "support/command.rs"]
mod command;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use boxwork_kernels::chance::Random;
use command::{fails, folder, json, ok};
use serde_json::Value as Json;

const OBJECTS: usize = 3000;
const QUERIES: usize = 20;

/// Vectors around 40 centres.
fn vectors(at: &Path) {
    let mut random = Random::new(2);
    let centres: Vec<f64> = (0..40 * 8).map(|_| random.unit() * 10.0).collect();
    let mut text = String::new();
    for id in 0..OBJECTS {
        let centre = random.idx(40) * 8;
        let numbers: Vec<f64> = (0..8).map(|at| centres[centre + at] + random.normal()).collect();
        writeln!(text, "{{\"name\": \"v{id}\", \"object\": {numbers:?}}}").expect("a string");
    }
    fs::write(at.join("vectors.jsonl"), text).expect("a disk");
    ok(at, &["import", "vectors.jsonl", "--holds", "vectors", "--out", "v.arrow"]);
}

fn queries() -> String {
    let names: Vec<String> = (0..QUERIES).map(|query| format!("v{}", query * 101)).collect();
    format!("queries=[{}]", names.join(","))
}

fn index(at: &Path, store: &str, out: &str, more: &[&str]) -> String {
    let (store, out) = (format!("store={store}"), format!("out={out}"));
    ok(at, &[&["run", "permutation_index", "--set", &store, "--set", &out], more].concat())
}

fn search(at: &Path, store: &str, file: &str, queries: &str, more: &[&str]) -> Json {
    let (store, file) = (format!("store={store}"), format!("permutations={file}"));
    let run = [
        "run",
        "permutation_search",
        "--set",
        &store,
        "--set",
        &file,
        "--set",
        queries,
        "--set",
        "format=json",
    ];
    json(&ok(at, &[&run[..], more].concat()))
}

fn joined<'a>(first: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [first, more].concat()
}

/// The share of the true answers that are found.
fn recall(found: &Json, exact: &Json) -> f64 {
    let ids = |query: &Json| -> BTreeSet<u64> {
        query["results"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|hit| hit["id"].as_u64().expect("an id"))
            .collect()
    };
    let (found, exact) =
        (found["queries"].as_array().expect("a list"), exact["queries"].as_array().expect("a list"));
    assert_eq!((found.len(), exact.len()), (QUERIES, QUERIES));
    let shared = found.iter().zip(exact).map(|(found, exact)| ids(found).intersection(&ids(exact)).count());
    let all: usize = exact.iter().map(|query| ids(query).len()).sum();
    shared.sum::<usize>() as f64 / all as f64
}

#[test]
fn more_candidates_find_more_and_all_find_all() {
    let folder = folder();
    let at = folder.path();
    vectors(at);
    let small = ["--set", "pivots=64", "--set", "length=16"];
    index(at, "v.arrow", "a.permutations.arrow", &[&small[..], &["--workers", "1"]].concat());
    index(at, "v.arrow", "b.permutations.arrow", &[&small[..], &["--workers", "2"]].concat());
    let bytes = |name: &str| fs::read(at.join(name)).expect("a file");
    assert_eq!(
        bytes("a.permutations.arrow"),
        bytes("b.permutations.arrow"),
        "the same for any number of workers"
    );
    let names: Vec<String> = (0..QUERIES).map(|query| format!("v{}", query * 101)).collect();
    let mut exact = vec!["search", "--store", "v.arrow", "-k", "10", "--format", "json"];
    names.iter().for_each(|name| exact.extend(["--query", name]));
    let exact = json(&ok(at, &exact));
    for measure in ["measure=footrule", "measure=rho"] {
        let mut recalls = Vec::new();
        for candidates in [10, 50, 200, 1000, OBJECTS] {
            let candidates = format!("candidates={candidates}");
            let more = ["--set", &candidates, "--set", measure];
            let found = search(at, "v.arrow", "a.permutations.arrow", &queries(), &more);
            assert_eq!(found["exact"], false, "every answer is marked");
            recalls.push(recall(&found, &exact));
        }
        assert!(recalls.is_sorted() && recalls[2] > 0.9, "{measure}: {recalls:?}");
        assert_eq!(recalls[4], 1.0, "of all objects as candidates the nearest are found");
        // Chance would find a fifteenth.
        assert!(recalls[0] > 0.2, "{measure}: {recalls:?}");
    }
    // Fewer candidates than objects to find are raised, and the user is told.
    let few =
        ["run", "permutation_search", "--set", "store=v.arrow", "--set", "permutations=a.permutations.arrow"];
    let few = ok(
        at,
        &[&few[..], &["--set", "queries=v3", "--set", "k=7", "--set", "candidates=2", "--set", "format=csv"]]
            .concat(),
    );
    assert_eq!(few.lines().filter(|line| line.ends_with(",false,2")).count(), 7, "{few}");
}

#[test]
fn texts_and_sets_have_permutations_too() {
    let folder = folder();
    let at = folder.path();
    let words: String = (0..300).map(|id| format!("{{\"object\": \"{:b}\"}}\n", id * 7 + 1)).collect();
    fs::write(at.join("words.jsonl"), words).expect("a disk");
    ok(at, &["import", "words.jsonl", "--holds", "texts", "--out", "w.arrow"]);
    index(at, "w.arrow", "w.permutations.arrow", &["--set", "pivots=20", "--set", "length=20"]);
    let found = search(at, "w.arrow", "w.permutations.arrow", "queries=1111", &["--set", "k=3"]);
    assert_eq!(found["queries"][0]["results"][0]["distance"], 0.0, "{found}");
}

#[test]
fn what_does_not_fit_is_refused_with_a_way_out() {
    let folder = folder();
    let at = folder.path();
    vectors(at);
    let run = ["run", "permutation_index", "--set", "store=v.arrow", "--set", "out=p.arrow"];
    assert!(fails(at, &joined(&run, &["--set", "pivots=4000"]), 3).contains("at most 3000 pivots"));
    assert!(fails(at, &joined(&run, &["--set", "pivots=8", "--set", "length=9"]), 3).contains("from 1 to 8"));
    assert!(!at.join("p.arrow").exists());
    index(at, "v.arrow", "p.arrow", &["--set", "pivots=16", "--set", "length=8"]);
    let search = ["run", "permutation_search", "--set", "permutations=p.arrow", "--set", "queries=v3"];
    let other = fails(at, &joined(&search, &["--set", "store=v.arrow", "--set", "distance=l1"]), 3);
    assert!(
        other.contains("p.arrow") && other.contains("l1") && other.contains("permutation_index"),
        "{other}"
    );
    let wrong = ["run", "permutation_search", "--set", "permutations=v.arrow", "--set", "queries=v3"];
    let no_file = fails(at, &joined(&wrong, &["--set", "store=v.arrow"]), 3);
    assert!(no_file.contains("has no permutations"), "{no_file}");
    // Another store, and the same one after a change.
    fs::write(at.join("few.jsonl"), "{\"object\": [1, 2]}\n").expect("a disk");
    ok(at, &["import", "few.jsonl", "--holds", "vectors", "--out", "few.arrow"]);
    let stale = fails(at, &joined(&search, &["--set", "store=few.arrow", "--set", "queries=[1,2]"]), 3);
    assert!(stale.contains("another store") && stale.contains("permutation_index"), "{stale}");
    ok(at, &["remove", "--store", "v.arrow", "v7"]);
    let kept = json(&ok(
        at,
        &joined(&search, &["--set", "store=v.arrow", "--set", "k=3000", "--set", "format=json"]),
    ));
    let found = kept["queries"][0]["results"].as_array().expect("a list");
    assert!(
        found.len() == OBJECTS - 1 && found.iter().all(|hit| hit["name"] != "v7"),
        "a removed object is no candidate"
    );
    // Every byte counts.
    let whole = fs::read(at.join("p.arrow")).expect("a file");
    for place in [9, whole.len() / 2, whole.len() - 20] {
        let mut bytes = whole.clone();
        bytes[place] ^= 4;
        fs::write(at.join("p.arrow"), bytes).expect("a disk");
        let said = fails(at, &joined(&search, &["--set", "store=v.arrow"]), 3);
        assert!(said.contains("p.arrow"), "{said}");
    }
    fs::write(at.join("p.arrow"), &whole[..whole.len() / 2]).expect("a disk");
    assert!(fails(at, &joined(&search, &["--set", "store=v.arrow"]), 3).contains("p.arrow"));
}
