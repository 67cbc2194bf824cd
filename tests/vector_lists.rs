//! `boxwork lists` and `boxwork search --lists`: the same files and answers for any number of workers, exact where all lists
//! are looked into, marked as approximate, and refused when they do not fit.

#[path = "support/command.rs"]
mod command;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use boxwork_kernels::chance::Random;
use command::{fails, folder, ok};

const LISTS: &str = "20";

/// Vectors of 12 numbers in clusters, with some copies.
fn store(at: &Path, count: usize) {
    let mut random = Random::mixed(9);
    let centres: Vec<Vec<f32>> =
        (0..15).map(|_| (0..12).map(|_| 10.0 * random.normal_f32()).collect()).collect();
    let mut lines = String::new();
    let mut last = Vec::new();
    for row in 0..count {
        if row % 50 != 1 {
            last = centres[random.idx(15)].iter().map(|x| x + random.normal_f32()).collect();
        }
        writeln!(lines, "{{\"name\": \"v{row}\", \"object\": {last:?}}}").expect("a line");
    }
    fs::write(at.join("v.jsonl"), lines).expect("the vectors");
    ok(at, &["import", "v.jsonl", "--holds", "vectors", "--out", "v.arrow", "--force"]);
}

fn lists(at: &Path, codes: &str, out: &str, workers: &str) -> Vec<u8> {
    let arguments = ["lists", "--store", "v.arrow", "--out", out, "--lists", LISTS, "--codes", codes];
    ok(at, &[&arguments[..], &["--workers", workers]].concat());
    fs::read(at.join(out)).expect("the lists")
}

const QUERIES: [&str; 8] =
    ["--query", "v0", "--query", "v51", "--query", "v200", "--query", "[1,2,3,4,5,6,7,8,9,10,11,12]"];

fn search(at: &Path, arguments: &[&str]) -> String {
    ok(at, &[&["search", "--store", "v.arrow", "-k", "7"][..], &QUERIES, arguments].concat())
}

/// Rows of a table in CSV, without the mark of approximate results.
fn rows(text: &str) -> Vec<&str> {
    text.lines().skip(1).map(|line| line.strip_suffix(",false").unwrap_or(line)).collect()
}

#[test]
fn lists_and_answers_do_not_depend_on_workers_and_all_lists_give_the_exact_answer() {
    let folder = folder();
    let at = folder.path();
    store(at, 1500);
    let exact = search(at, &["--format", "csv"]);
    for codes in ["rows", "product", "fast"] {
        let one = lists(at, codes, "a.lists.arrow", "1");
        assert!(one == lists(at, codes, "b.lists.arrow", "3"), "the number of workers shows in {codes}");
        let all = ["--lists", "a.lists.arrow", "--probes", LISTS, "--refine", "300", "--format", "csv"];
        assert_eq!(rows(&search(at, &all)), rows(&exact), "{codes}");
        for (probes, refine) in [("1", "1"), ("3", "2"), ("8", "10")] {
            let some =
                ["--lists", "a.lists.arrow", "--probes", probes, "--refine", refine, "--format", "csv"];
            let found = search(at, &[&some[..], &["--workers", "1"]].concat());
            for workers in ["2", "7"] {
                assert_eq!(search(at, &[&some[..], &["--workers", workers]].concat()), found);
            }
            // Distances are the exact ones of the objects found.
            let mut common = 0;
            for line in rows(&found) {
                let fields: Vec<&str> = line.rsplitn(5, ',').collect();
                let (name, distance) = (fields[1], fields[0]);
                let same = |line: &&str| line.ends_with(&format!(",{name},{distance}"));
                common += usize::from(rows(&exact).iter().any(same));
            }
            // At least the queries that are objects themselves, and much more with more probes.
            let least = if refine == "10" { 24 } else { 3 };
            assert!(common >= least, "{codes}, {probes} probes: {common} of 28 found");
        }
        fs::remove_file(at.join("a.lists.arrow")).expect("a file");
        fs::remove_file(at.join("b.lists.arrow")).expect("a file");
    }
}

#[test]
fn results_say_that_they_are_approximate() {
    let folder = folder();
    let at = folder.path();
    store(at, 300);
    lists(at, "rows", "v.lists.arrow", "2");
    let by = ["--lists", "v.lists.arrow", "--probes", "2"];
    let json = search(at, &[&by[..], &["--format", "json"]].concat());
    assert!(json.starts_with("{\"exact\": false, \"probes\": 2, \"queries\": ["), "{json}");
    let csv = search(at, &[&by[..], &["--format", "csv"]].concat());
    assert!(csv.starts_with("query,rank,id,name,distance,exact\n") && csv.ends_with(",false\n"), "{csv}");
    assert!(search(at, &by).starts_with("approximate: each query looked into the 2 nearest lists\n"));
    assert!(
        search(at, &[&by[..], &["--format", "html"]].concat()).contains("looked into the 2 nearest lists")
    );
    assert!(!search(at, &["--format", "json"]).contains("\"exact\""));
}

#[test]
fn wrong_input_gets_an_error_that_says_what_to_do() {
    let folder = folder();
    let at = folder.path();
    store(at, 300);
    let make = ["lists", "--store", "v.arrow", "--out", "v.lists.arrow"];
    let fail = |more: &[&str], status: i32| fails(at, &[&make[..], more].concat(), status);
    assert!(fail(&["--lists", "301"], 3).contains("ask for fewer lists than objects"));
    assert!(fail(&["--codes", "product", "--parts", "13"], 3).contains("ask for 1 to 12 parts"));
    assert!(fail(&["--codes", "tiny"], 2).contains("product"));
    assert!(!at.join("v.lists.arrow").exists());
    ok(at, &make);
    assert!(fail(&[], 2).contains("--force"));

    let find = ["search", "--store", "v.arrow", "--query", "v0", "--lists", "v.lists.arrow"];
    let refused = |words: &str| {
        let error = fails(at, &find, 3);
        assert!(error.contains(words) && error.contains("boxwork lists --store v.arrow"), "{error}");
    };
    let bytes = fs::read(at.join("v.lists.arrow")).expect("the lists");
    for place in [100, bytes.len() / 3, bytes.len() / 2, bytes.len() - 300] {
        let mut damaged = bytes.clone();
        damaged[place] ^= 8;
        fs::write(at.join("v.lists.arrow"), damaged).expect("the lists");
        refused("");
    }
    fs::write(at.join("v.lists.arrow"), &bytes[..bytes.len() / 2]).expect("the lists");
    refused("cut short");
    fs::write(at.join("v.lists.arrow"), &bytes).expect("the lists");
    ok(at, &find);
    assert!(fails(at, &[&find[..], &["--query", "[1, 2]"]].concat(), 3).contains("query 1"));
    assert!(
        fails(at, &["search", "--store", "v.arrow", "--query", "v0", "--probes", "3"], 2).contains("--lists")
    );

    // Another content of the store.
    ok(at, &["remove", "--store", "v.arrow", "v7"]);
    refused("has changed since");
    fs::write(at.join("w.jsonl"), "{\"object\": \"kitten\"}\n").expect("the words");
    ok(at, &["import", "w.jsonl", "--holds", "texts", "--out", "w.arrow"]);
    let error = fails(at, &["lists", "--store", "w.arrow", "--out", "w.lists.arrow"], 3);
    assert!(error.contains("l2") || error.contains("vectors"), "{error}");
}

#[test]
fn lists_of_a_store_without_some_objects_hold_the_others() {
    let folder = folder();
    let at = folder.path();
    store(at, 300);
    ok(at, &["remove", "--store", "v.arrow", "v7", "v8", "v299"]);
    let exact = ok(at, &["search", "--store", "v.arrow", "--query", "v6", "-k", "297", "--format", "csv"]);
    for codes in ["rows", "fast"] {
        ok(at, &["lists", "--store", "v.arrow", "--out", "v.lists.arrow", "--codes", codes, "--force"]);
        let find = ["search", "--store", "v.arrow", "--query", "v6", "-k", "297", "--lists", "v.lists.arrow"];
        let found = ok(at, &[&find[..], &["--probes", "1000", "--format", "csv"]].concat());
        assert_eq!(rows(&found), rows(&exact), "{codes}");
        assert_eq!(rows(&found).len(), 297);
    }
}

#[test]
fn bytes_are_vectors_too() {
    let folder = folder();
    let at = folder.path();
    let mut random = Random::mixed(3);
    let bytes: Vec<u8> = (0..600 * 16).map(|_| random.below(200) as u8).collect();
    fs::write(at.join("base.u8"), bytes).expect("the vectors");
    ok(at, &["import", "base.u8", "--type", "u8", "--dimensions", "16", "--out", "u.arrow"]);
    let find = ["search", "--store", "u.arrow", "--query", "3", "--query", "599", "--format", "csv"];
    let exact = ok(at, &find);
    for codes in ["rows", "product", "fast"] {
        ok(at, &["lists", "--store", "u.arrow", "--out", "u.lists.arrow", "--codes", codes, "--force"]);
        let by = ["--lists", "u.lists.arrow", "--probes", "30", "--refine", "60"];
        assert_eq!(rows(&ok(at, &[&find[..], &by].concat())), rows(&exact), "{codes}");
    }
}

#[test]
fn a_graph_of_neighbours_has_those_of_a_search_and_paths() {
    let folder = folder();
    let at = folder.path();
    store(at, 300);
    let graph = |out: &str, workers: &str| {
        let make = ["run", "knn_graph", "--set", "store=v.arrow", "--set", "k=12", "--workers", workers];
        ok(at, &[&make[..], &["--set", &format!("out={out}")]].concat());
        fs::read(at.join(out)).expect("the graph")
    };
    assert!(graph("a.arrow", "1") == graph("b.arrow", "3"), "the number of workers shows");
    let path = |from: &str, to: &str| {
        let ends = [format!("from={from}"), format!("to={to}")];
        let find =
            ["run", "graph_path", "--set", "store=v.arrow", "--set", "graph=a.arrow", "--set", &ends[0]];
        let text = ok(at, &[&find[..], &["--set", &ends[1]]].concat());
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")
    };
    let same = path("v5", "v5");
    assert_eq!((same["largest"].as_f64(), same["path"].as_array().map(Vec::len)), (Some(0.0), Some(1)));
    // A vector and its nearest other one, which the search lists second.
    let nearest = ok(at, &["search", "--store", "v.arrow", "--query", "v5", "-k", "2", "--format", "json"]);
    let nearest: serde_json::Value = serde_json::from_str(&nearest).expect("JSON");
    let nearest = &nearest["queries"][0]["results"][1];
    let step = path("v5", nearest["name"].as_str().expect("a name"));
    assert!(step["largest"].as_f64() <= nearest["distance"].as_f64(), "{step} {nearest}");
    // A path over many vectors has their distances, or there is none.
    let many = path("v0", "v299");
    let largest = many["path"].as_array().map(|path| {
        path[1..].iter().map(|object| object["distance"].as_f64().expect("a distance")).fold(0.0, f64::max)
    });
    assert_eq!(many["largest"].as_f64(), largest);
    let find = ["run", "graph_path", "--set", "store=v.arrow", "--set", "graph=a.arrow", "--set", "from=v0"];
    assert!(fails(at, &[&find[..], &["--set", "to=nobody"]].concat(), 3).contains("no object `nobody`"));
}
