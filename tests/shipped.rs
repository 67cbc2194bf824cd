//! The shipped pipelines by their names, from a folder that holds no pipeline; and the text of a pipeline with its
//! values.

#[path = "support/command.rs"]
mod command;

use std::fs;

use command::{fails, folder, json, ok};

const WORDS: &str = "{\"object\": \"kitten\"}\n{\"object\": \"sitting\"}\n{\"object\": \"mitten\"}\n";

#[test]
fn shipped_pipelines_run_by_name_from_any_folder() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("words.jsonl"), WORDS).expect("the words");
    let set = ["--set", "objects=words.jsonl", "--set", "distance=levenshtein", "--set", "queries=bitten"];
    let found = json(&ok(at, &[&["run", "metric_search", "--set", "format=json"], &set[..]].concat()));
    let names: Vec<_> = found["queries"][0]["results"].as_array().expect("results").iter().collect();
    assert_eq!(names[0]["name"], "kitten", "{found}");

    ok(at, &["check", "search", "index", "--deny-warnings"]);
    assert!(ok(at, &["explain", "search"]).contains("distance"));
    assert!(ok(at, &["graph", "search"]).contains("top"));
}

#[test]
fn a_file_of_the_name_comes_before_the_shipped_pipeline() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("search"), "boxwork: 1\nboxes:\n  a: {kind: nothing_shipped}\n").expect("a file");
    assert!(fails(at, &["check", "search"], 1).contains("nothing_shipped"));
    // A folder is no pipeline, so it hides none.
    fs::create_dir(at.join("index")).expect("a folder");
    assert!(ok(at, &["explain", "index"]).contains("select_pivots"));
}

#[test]
fn a_shipped_pipeline_is_listed_printed_and_changed() {
    let folder = folder();
    let at = folder.path();
    let list = ok(at, &["pipelines"]);
    assert!(list.lines().any(|line| line.starts_with("search ")), "{list}");
    let listed = json(&ok(at, &["pipelines", "--format", "json"]));
    for entry in listed["pipelines"].as_array().expect("a list") {
        let name = entry["name"].as_str().expect("a name");
        assert!(entry["about"].as_str().is_some_and(|about| !about.is_empty()), "{name}");
        let text = ok(at, &["pipelines", "show", name]);
        assert!(text.starts_with("boxwork: 1\n"), "{name}: {text}");
        fs::write(at.join("mine.yaml"), &text).expect("a file");
        ok(at, &["check", "mine.yaml", "--deny-warnings"]);
    }
}

#[test]
fn a_name_that_is_neither_a_file_nor_shipped_gets_advice() {
    let folder = folder();
    let at = folder.path();
    let said = fails(at, &["run", "serach"], 1);
    assert!(said.contains("did you mean the shipped pipeline `search`?"), "{said}");
    let said = fails(at, &["run", "pipelines/search.yaml"], 1);
    assert!(said.contains("write `search` for the shipped pipeline"), "{said}");
    let said = fails(at, &["explain", "search", "--set", "alpha=-1"], 1);
    assert!(said.contains("shipped:search.yaml:"), "no path that a user could look for: {said}");
    let said = fails(at, &["pipelines", "show", "serach"], 2);
    assert!(said.contains("did you mean `search`?"), "{said}");
}

#[test]
fn an_expanded_pipeline_checks_clean_and_gives_the_same_answer() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("words.jsonl"), WORDS).expect("the words");
    let set = ["--set", "objects=words.jsonl", "--set", "distance=levenshtein", "--set", "format=json"];
    // The queries are no value yet, so they stay a parameter.
    fs::write(at.join("open.yaml"), ok(at, &[&["expand", "metric_search"], &set[..]].concat()))
        .expect("a file");
    ok(at, &["check", "open.yaml", "--deny-warnings"]);
    let queries = ["--set", "queries=bitten"];
    let found = json(&ok(at, &[&["run", "open.yaml"], &queries[..]].concat()));
    assert_eq!(found, json(&ok(at, &[&["run", "metric_search"], &set[..], &queries[..]].concat())));

    let closed = ok(at, &[&["expand", "open.yaml"], &queries[..]].concat());
    assert!(!closed.contains("parameters:") && !closed.contains("${"), "{closed}");
    fs::write(at.join("closed.yaml"), closed).expect("a file");
    ok(at, &["check", "closed.yaml", "--deny-warnings"]);
    assert_eq!(json(&ok(at, &["run", "closed.yaml"])), found);

    assert!(fails(at, &["expand", "metric_search", "--set", "k=0"], 2).contains("at least 1"));
    assert!(fails(at, &["expand", "metric_search", "--set", "distance=l9"], 2).contains("l9"));
}
