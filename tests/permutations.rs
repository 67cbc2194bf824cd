//! Permutations of pivots through the shipped pipelines: for any kind of object, the same for any number of workers, with a recall that
//! grows with the candidates; files that do not fit are refused.

#[path = "support/command.rs"]
mod command;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use boxwork_kernels::chance::Random;
use command::{fails, folder, json, ok, stats};
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

/// Batches of the file are made by any slot, and removed objects have rows in them, also where a whole batch is removed.
#[test]
fn files_of_many_batches_have_the_same_bytes_for_any_number_of_workers() {
    const MANY: usize = 21_000;
    let folder = folder();
    let at = folder.path();
    let mut random = Random::new(7);
    let mut text = String::new();
    for id in 0..MANY {
        let numbers: Vec<f64> = (0..5).map(|_| random.normal()).collect();
        writeln!(text, "{{\"name\": \"v{id}\", \"object\": {numbers:?}}}").expect("a string");
    }
    fs::write(at.join("vectors.jsonl"), text).expect("a disk");
    ok(at, &["import", "vectors.jsonl", "--holds", "vectors", "--out", "v.arrow"]);
    let same = |round: &str| -> Vec<u8> {
        let bytes: Vec<Vec<u8>> = ["1", "2", "7"]
            .map(|workers| {
                let out = format!("{round}-{workers}.permutations.arrow");
                index(at, "v.arrow", &out, &["--set", "length=12", "--workers", workers]);
                fs::read(at.join(out)).expect("a file")
            })
            .into();
        assert!(bytes.iter().all(|other| *other == bytes[0]), "{round}: the same for any number of workers");
        bytes.into_iter().next().expect("three files")
    };
    let whole = same("whole");
    // All of the second batch, the end of the first, some at the beginning of the third, and the last.
    let removed = (4090..8200).chain([9000, MANY - 1]);
    let names: Vec<String> = removed.map(|id| format!("v{id}\n")).collect();
    fs::write(at.join("names"), names.concat()).expect("a disk");
    ok(at, &["remove", "--store", "v.arrow", "--names", "names"]);
    assert_ne!(same("removed"), whole);
    // An object's own list is the most similar one.
    for query in ["v0", "v4089", "v8200", "v12288", "v20998"] {
        let queries = format!("queries={query}");
        let more = ["--set", "k=1", "--set", "candidates=60"];
        let found = search(at, "v.arrow", "removed-7.permutations.arrow", &queries, &more);
        assert_eq!(found["queries"][0]["results"][0]["name"], query);
    }
}

#[test]
fn both_layouts_give_the_same_answers() {
    let folder = folder();
    let at = folder.path();
    vectors(at);
    index(at, "v.arrow", "p.arrow", &["--set", "pivots=300", "--set", "length=12"]);
    let found = |layout: &str, more: &[&str]| {
        let layout = format!("layout={layout}");
        search(
            at,
            "v.arrow",
            "p.arrow",
            &queries(),
            &joined(&["--set", &layout, "--set", "candidates=40"], more),
        )
    };
    let all = found("scan", &[]);
    for more in [
        &[][..],
        &["--set", "measure=rho"],
        &["--set", "query_pivots=3"],
        &["--set", "max_shift=1", "--workers", "1"],
        &["--set", "query_pivots=5", "--set", "max_shift=2", "--set", "measure=rho"],
    ] {
        let scan = found("scan", more);
        assert_eq!(found("inverted", more), scan, "{more:?}");
        assert_eq!(found("auto", more), scan, "{more:?}");
        // Fewer pivots and places choose other candidates.
        assert_eq!(scan == all, more.is_empty(), "{more:?}");
    }
    assert!(
        fails(at, &["run", "permutation_search", "--set", "layout=table"], 2).contains("inverted"),
        "the layouts are named"
    );
    // The inverted layout follows the store, and stale or damaged files are refused as for a scan.
    let more: String =
        (0..50).map(|id| format!("{{\"name\": \"n{id}\", \"object\": {:?}}}\n", place(id))).collect();
    fs::write(at.join("more.jsonl"), &more).expect("a disk");
    ok(at, &["add", "--store", "v.arrow", "--from", "more.jsonl", "--permutations", "p.arrow"]);
    ok(at, &["remove", "--store", "v.arrow", "v0", "n7"]);
    let queries = format!(
        "queries=[{}]",
        (1..QUERIES).map(|query| format!("n{}", query + 9)).collect::<Vec<_>>().join(",")
    );
    let of_added =
        |layout| search(at, "v.arrow", "p.arrow", &queries, &["--set", layout, "--set", "candidates=20"]);
    let grown = of_added("layout=scan");
    assert_eq!(of_added("layout=inverted"), grown);
    assert_eq!(grown["queries"][0]["results"][0]["name"], "n10");
    ok(at, &["compact", "--store", "v.arrow", "--permutations", "p.arrow"]);
    assert_eq!(of_added("layout=inverted"), of_added("layout=scan"));
    fs::write(at.join("late.jsonl"), more.replace("\"n", "\"late")).expect("a disk");
    let run = ["run", "permutation_search", "--set", "store=v.arrow", "--set", "permutations=p.arrow"];
    let run = joined(&run, &["--set", "queries=v3", "--set", "layout=inverted"]);
    ok(at, &run);
    let whole = fs::read(at.join("p.arrow")).expect("a file");
    for damaged in [whole[..whole.len() - 9].to_vec(), whole.iter().map(|byte| byte ^ 1).collect()] {
        fs::write(at.join("p.arrow"), damaged).expect("a disk");
        assert!(fails(at, &run, 3).contains("p.arrow"));
    }
    fs::write(at.join("p.arrow"), whole).expect("a disk");
    ok(at, &["add", "--store", "v.arrow", "--from", "late.jsonl"]);
    assert!(fails(at, &run, 3).contains("boxwork index --append"));
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

#[test]
fn the_order_of_permutations_gives_the_answers_of_a_scan() {
    let folder = folder();
    let at = folder.path();
    vectors(at);
    index(at, "v.arrow", "v.permutations.arrow", &["--set", "pivots=40", "--set", "length=10"]);
    ok(at, &["index", "--store", "v.arrow", "--pivots", "6", "--out", "v.pivots.arrow"]);
    let queries = queries();
    let common = ["--set", "store=v.arrow", "--set", "format=json", "--set", &queries];
    let scan = json(&ok(at, &joined(&["run", "search"], &common)));
    let files = ["--set", "permutations=v.permutations.arrow", "--set", "pivots=v.pivots.arrow"];
    let run = joined(&["run", "permutation_exact"], &joined(&common, &files));
    for bound in ["bound=none", "bound=triangular", "bound=simplex"] {
        let found = json(&ok(at, &joined(&run, &["--set", bound])));
        assert_eq!(found["queries"], scan["queries"], "{bound}");
        assert_ne!(found["exact"], false, "{bound}");
    }
    // Without what it needs, the order is refused.
    let text = fs::read_to_string("pipelines/permutation_exact.yaml").expect("the shipped pipeline");
    let without = |what: &str| {
        let text: String =
            text.lines().filter(|line| !line.contains(what)).map(|line| format!("{line}\n")).collect();
        fs::write(at.join("without.yaml"), text).expect("a disk");
        let run = joined(&["run", "without.yaml"], &joined(&common, &files));
        fails(at, &run, 3)
    };
    assert!(without("query -> nearest.queries").contains("connect `queries`"));
}

#[test]
fn permutations_follow_their_store() {
    let folder = folder();
    let at = folder.path();
    vectors(at);
    index(at, "v.arrow", "v.permutations.arrow", &["--set", "pivots=50", "--set", "length=20"]);
    let before = fs::read(at.join("v.permutations.arrow")).expect("a file");
    let more = |first: usize, file: &str| {
        let lines: String = (first..first + 70)
            .map(|id| format!("{{\"name\": \"n{id}\", \"object\": {:?}}}\n", place(id)))
            .collect();
        fs::write(at.join(file), lines).expect("a disk");
    };
    more(0, "more.jsonl");
    more(70, "most.jsonl");
    let add = ["add", "--store", "v.arrow", "--from", "more.jsonl", "--permutations", "v.permutations.arrow"];
    ok(at, &add);
    assert_eq!(fs::read(at.join("v.permutations.arrow")).expect("a file"), before, "the first file stays");
    assert!(at.join("v.permutations.arrow.part-1").exists());
    // An added object's list is that of the object: as its own query it is among few candidates.
    let first = |query: &str, file: &str| {
        let query = format!("queries={query}");
        let found = search(at, "v.arrow", file, &query, &["--set", "k=1", "--set", "candidates=30"]);
        found["queries"][0]["results"][0]["name"].as_str().expect("a name").to_owned()
    };
    assert_eq!(first("n5", "v.permutations.arrow"), "n5");
    // Left behind, they are refused with the command that brings them up.
    ok(at, &["add", "--store", "v.arrow", "--from", "most.jsonl"]);
    let run = ["run", "permutation_search", "--set", "store=v.arrow", "--set", "queries=v3"];
    let run = joined(&run, &["--set", "permutations=v.permutations.arrow"]);
    let behind = fails(at, &run, 3);
    assert!(behind.contains("3070 of the 3140 ids") && behind.contains("boxwork index --append"), "{behind}");
    ok(at, &["index", "--append", "--store", "v.arrow", "--out", "v.permutations.arrow"]);
    assert_eq!(first("n100", "v.permutations.arrow"), "n100");
    // A removed object is no candidate, and a removed pivot remains one until the store is compacted.
    ok(at, &["remove", "--store", "v.arrow", "n5"]);
    let compact = ["compact", "--store", "v.arrow", "--permutations", "v.permutations.arrow"];
    let pivots_kept = stats(at, &compact);
    assert!(!pivots_kept.contains("made again"), "{pivots_kept}");
    assert!(!at.join("v.permutations.arrow.part-1").exists());
    assert_eq!(first("n100", "v.permutations.arrow"), "n100");
    let every: Vec<String> = (0..OBJECTS).filter(|id| id % 2 == 0).map(|id| format!("v{id}")).collect();
    let mut remove = vec!["remove", "--store", "v.arrow"];
    remove.extend(every.iter().map(String::as_str));
    ok(at, &remove);
    assert_eq!(first("n100", "v.permutations.arrow"), "n100");
    ok(at, &compact);
    assert_eq!(first("n101", "v.permutations.arrow"), "n101");
    let all = search(at, "v.arrow", "v.permutations.arrow", "queries=n7", &["--set", "k=5000"]);
    assert_eq!(all["queries"][0]["results"].as_array().expect("a list").len(), OBJECTS / 2 + 139);
}

/// A vector between the others, another one for each number.
fn place(id: usize) -> Vec<f64> {
    (0..8).map(|at| ((id * 7 + at * 13 + id * id * at) % 29) as f64 / 2.9 + 0.001 * id as f64).collect()
}

#[test]
fn a_pivot_twice_and_numbers_that_are_none_are_told() {
    let folder = folder();
    let at = folder.path();
    let lines: String = (0..40).map(|id| format!("{{\"object\": [{}, 1]}}\n", id % 4)).collect();
    fs::write(at.join("few.jsonl"), lines).expect("a disk");
    ok(at, &["import", "few.jsonl", "--holds", "vectors", "--out", "few.arrow"]);
    let out = ["run", "permutation_index", "--set", "store=few.arrow", "--set", "out=few.permutations.arrow"];
    let run = joined(&out, &["--set", "pivots=12", "--set", "length=4"]);
    let said = stats(at, &run);
    assert!(said.contains("8 of 12 pivots equal an earlier one"), "{said}");
    let found = search(at, "few.arrow", "few.permutations.arrow", "queries=[3,1]", &["--set", "k=10"]);
    let hits = found["queries"][0]["results"].as_array().expect("a list");
    assert!(hits.iter().all(|hit| hit["distance"] == 0.0), "ties go by number: {found}");
    // A number that is none is refused with its row, before any permutation is made.
    fs::write(at.join("nan.jsonl"), "{\"object\": [1, 2]}\n{\"object\": [1, 1e999]}\n").expect("a disk");
    let nan = fails(at, &["import", "nan.jsonl", "--holds", "vectors", "--out", "nan.arrow"], 3);
    assert!(nan.contains("nan.jsonl") && nan.contains('2'), "{nan}");
    // More to find than candidates: raised, and told.
    let run = ["run", "permutation_search", "--set", "store=few.arrow", "--set", "queries=[3,1]"];
    let few = ["--set", "permutations=few.permutations.arrow", "--set", "k=7", "--set", "candidates=2"];
    let told = stats(at, &joined(&run, &few));
    assert!(told.contains("2 candidates are too few for the 7 objects to find"), "{told}");
}
