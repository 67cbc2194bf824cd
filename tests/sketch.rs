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

#[test]
fn a_sketch_of_an_index_has_the_same_bytes_for_any_number_of_workers_and_follows_its_store() {
    let folder = folder();
    let at = folder.path();
    store(at);
    let by_minus = ["--similarity", "minus", "--pivots", "7"];
    let index = ["index", "--store", "s.arrow", "--out", "i.pivots.arrow"];
    ok(at, &[&index[..], &by_minus].concat());
    let sketch = |out: &str, workers: &str| {
        let make = ["sketch", "--store", "s.arrow", "--pivots", "i.pivots.arrow", "--out", out];
        ok(at, &[&make[..], &["--workers", workers]].concat());
        fs::read(at.join(out)).expect("a sketch")
    };
    let one = sketch("a.sketch.arrow", "1");
    assert!(one == sketch("b.sketch.arrow", "3"), "the number of workers shows");
    // The sketch needs the index no more.
    fs::remove_file(at.join("i.pivots.arrow")).expect("the index");
    ok(at, &["add", "--store", "s.arrow", "--sketch", "a.sketch.arrow", "--replace", "more"]);
    assert!(at.join("a.sketch.arrow.part-1").exists() && !at.join("b.sketch.arrow.part-1").exists());
    ok(at, &["sketch", "--append", "--store", "s.arrow", "--out", "b.sketch.arrow"]);
    let files = ["--sketch", "a.sketch.arrow", "--sketch", "b.sketch.arrow"];
    ok(at, &[&["compact", "--store", "s.arrow"][..], &files].concat());
    let [a, b] = ["a.sketch.arrow", "b.sketch.arrow"].map(|name| fs::read(at.join(name)).expect("a sketch"));
    assert!(a == b && a != one);

    let refused = |more: &[&str], words: &[&str]| {
        let said =
            fails(at, &[&["feedback", "--store", "s.arrow", "--similarity", "minus"][..], more].concat(), 3);
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    let both =
        ["boxwork index --store s.arrow --similarity minus", "boxwork sketch --store s.arrow --pivots INDEX"];
    refused(&["--mode", "sketch"], &both);
    refused(&["--sketch", "a.sketch.arrow", "--alpha", "3"], &[both[0], both[1], "--alpha 3", "--force"]);
    // A distance without features is refused with the way by an index.
    fs::write(at.join("v.jsonl"), "{\"object\": [1, 2]}\n{\"object\": [3, 5]}\n").expect("the vectors");
    ok(at, &["import", "v.jsonl", "--holds", "vectors", "--out", "v.arrow"]);
    let index_of = |store: &str, out: &str, more: &[&str]| {
        ok(at, &[&["index", "--store", store, "--out", out, "--pivots", "2"][..], more].concat())
    };
    index_of("v.arrow", "v.pivots.arrow", &[]);
    index_of("v.arrow", "l1.pivots.arrow", &["--distance", "l1"]);
    let make = |index: &str, status: i32| {
        fails(at, &["sketch", "--store", "v.arrow", "--pivots", index, "--out", "v.sketch.arrow"], status)
    };
    assert!(make("l1.pivots.arrow", 1).contains("boxwork index --root"));
    assert!(make("v.arrow", 3).contains("make one with `boxwork index`"));
    assert!(make("none", 3).contains("cannot open `none`"));
    assert!(!at.join("v.sketch.arrow").exists());
    let and = ["sketch", "--store", "v.arrow", "--pivots", "v.pivots.arrow", "--out", "v.sketch.arrow"];
    assert!(fails(at, &[&and[..], &["--alpha", "2"]].concat(), 2).contains("--alpha"));
    ok(at, &and);
    assert!(
        fails(at, &["sketch", "--store", "s.arrow", "--pivots", "v.pivots.arrow", "--out", "x"], 3)
            .contains("l2")
    );
}
