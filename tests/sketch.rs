//! `boxwork sketch`: the same file for any number of workers, kept in step with its store, and refused when it does not fit.

#[path = "support/command.rs"]
mod command;

use std::fs;
use std::path::Path;

use command::{fails, folder, ok};

fn store(at: &Path) {
    ok(at, &["sample-images", "images", "--classes", "3", "--per-class", "5", "--seed", "3"]);
    ok(at, &["sample-images", "more", "--classes", "1", "--per-class", "4", "--seed", "4"]);
    ok(at, &["extract", "images", "--out", "s.arrow", "--points", "300", "--seeds", "40"]);
}

#[test]
fn a_sketch_has_the_same_bytes_for_any_number_of_workers_and_follows_its_store() {
    let folder = folder();
    let at = folder.path();
    store(at);
    let sketch = |out: &str, workers: &str| {
        ok(at, &["sketch", "--store", "s.arrow", "--out", out, "--frequencies", "128", "--workers", workers]);
        fs::read(at.join(out)).expect("a sketch")
    };
    let one = sketch("a.sketch.arrow", "1");
    assert!(one == sketch("b.sketch.arrow", "3"), "the number of workers shows");
    let again = ["sketch", "--store", "s.arrow", "--out", "a.sketch.arrow", "--frequencies", "128"];
    assert!(fails(at, &again, 2).contains("--force"));

    ok(at, &["add", "--store", "s.arrow", "--sketch", "a.sketch.arrow", "--replace", "more"]);
    assert!(at.join("a.sketch.arrow.part-1").exists() && !at.join("b.sketch.arrow.part-1").exists());
    let behind = ["compact", "--store", "s.arrow", "--sketch", "b.sketch.arrow"];
    assert!(fails(at, &behind, 3).contains("boxwork sketch --append --store s.arrow --out b.sketch.arrow"));
    ok(at, &["sketch", "--append", "--store", "s.arrow", "--out", "b.sketch.arrow"]);
    ok(at, &["compact", "--store", "s.arrow", "--sketch", "a.sketch.arrow", "--sketch", "b.sketch.arrow"]);
    let [a, b] = ["a.sketch.arrow", "b.sketch.arrow"].map(|name| fs::read(at.join(name)).expect("a sketch"));
    assert!(a == b && a != one);
    assert!(!at.join("a.sketch.arrow.part-1").exists());
}

#[test]
fn wrong_input_gets_an_error_that_says_what_to_do() {
    let folder = folder();
    let at = folder.path();
    store(at);
    let make = ["sketch", "--store", "s.arrow", "--out", "s.sketch.arrow"];
    assert!(fails(at, &[&make[..], &["--frequencies", "100"]].concat(), 3).contains("ask for 128"));
    assert!(fails(at, &[&make[..], &["--frequencies", "32"]].concat(), 2).contains("64..=2048"));
    assert!(fails(at, &["sketch", "--store", "none", "--out", "x"], 3).contains("cannot open"));
    assert!(!at.join("s.sketch.arrow").exists());
    fs::write(at.join("words.jsonl"), "{\"object\": \"kitten\"}\n").expect("the words");
    ok(at, &["import", "words.jsonl", "--holds", "texts", "--out", "w.arrow"]);
    assert!(fails(at, &["sketch", "--store", "w.arrow", "--out", "x"], 3).contains("signatures"));
}
