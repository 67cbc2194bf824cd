//! Search by feedback from end to end: the command, the pipelines, a caller with rows of its own, and simulated users.

#[path = "support/command.rs"]
mod command;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use boxwork::engine::Engine;
use boxwork::shipped;
use boxwork_runtime::feeding::faults::has_device;
use boxwork_runtime::operator::{RequestInput, RequestOutput};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::request::Submission;
use boxwork_stores::any_kind;
use serde_json::Value as Json;
use tempfile::TempDir;

use command::{fails, folder, json, ok};

/// A folder with pictures of 3 classes and their store.
fn with_store() -> TempDir {
    let folder = folder();
    let at = folder.path();
    ok(at, &["sample-images", "images", "--classes", "3", "--per-class", "8", "--seed", "3"]);
    ok(at, &["extract", "images", "--out", "s.arrow"]);
    folder
}

fn names(at: &Path) -> Vec<String> {
    let store = any_kind::open(&at.join("s.arrow"), None).expect("a store");
    (0..store.ids_count()).map(|id| store.name(id).expect("a name")).collect()
}

fn round(at: &Path, more: &[&str]) -> Json {
    let call = ["feedback", "--store", "s.arrow", "--batch", "4", "--format", "json"];
    json(&ok(at, &[&call[..], more].concat()))
}

fn shown(round: &Json) -> Vec<String> {
    let rows = round["round"].as_array().expect("a list");
    rows.iter().map(|row| row["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_session_by_the_command_is_the_same_for_any_number_of_workers() {
    let folder = with_store();
    let (at, names) = (folder.path(), names(folder.path()));
    let mut seen: Vec<String> = Vec::new();
    for _ in 0..5 {
        let mut call: Vec<&str> = vec!["--like", &names[0], "--dislike", &names[9]];
        for name in &seen {
            call.extend(["--seen", name]);
        }
        let one = round(at, &[&call[..], &["--workers", "1"]].concat());
        let two = round(at, &[&call[..], &["--workers", "2"]].concat());
        assert_eq!(one, two);
        let next = shown(&one);
        assert_eq!(next.len(), 4);
        assert_eq!(one["exhausted"], false);
        assert_eq!(one["marks"].as_array().expect("a list").len(), 2 + seen.len());
        assert!(next.iter().all(|name| !seen.contains(name) && *name != names[0] && *name != names[9]));
        seen.extend(next);
    }
    let mut call: Vec<&str> = vec!["--like", &names[0], "--dislike", &names[9]];
    seen.iter().for_each(|name| call.extend(["--seen", name]));
    let last = round(at, &call);
    assert_eq!((shown(&last).len(), &last["exhausted"]), (2, &Json::Bool(true)));
    // Other forms of the same round.
    let same = ["feedback", "--store", "s.arrow", "--like", &names[0], "--batch", "3"];
    let table = ok(at, &same);
    assert!(table.starts_with("1 liked, 0 disliked, 0 shown and not judged\n"), "{table}");
    assert!(table.contains(&format!("like {}", names[0])), "{table}");
    let csv = ok(at, &[&same[..], &["--format", "csv"]].concat());
    assert_eq!(csv.lines().count(), 4);
    ok(at, &[&same[..], &["--format", "html", "--out", "round.html"]].concat());
    let page = std::fs::read_to_string(at.join("round.html")).expect("a page");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert_eq!(page.matches("data:image/jpeg;base64,").count(), 4);
}

#[test]
fn rounds_from_sketches_are_the_same_on_slots_and_devices() {
    let folder = with_store();
    let (at, names) = (folder.path(), names(folder.path()));
    ok(at, &["sketch", "--store", "s.arrow", "--out", "s.sketch.arrow", "--frequencies", "256"]);
    let marks = ["--like", &names[0], "--dislike", &names[9], "--seen", &names[4]];
    let from_sketches = ["--sketch", "s.sketch.arrow", "--mode", "sketch"];
    let with = |more: &[&str]| round(at, &[&marks[..], &from_sketches, more].concat());
    let on_slots = with(&["--rerank", "6", "--device", "cpu", "--workers", "1"]);
    assert_eq!(shown(&on_slots).len(), 4);
    assert_eq!(on_slots, with(&["--rerank", "6", "--device", "cpu", "--workers", "2"]));
    // With no device there is nothing to compare.
    if has_device("rounds_from_sketches_are_the_same_on_slots_and_devices") {
        assert_eq!(on_slots, with(&["--rerank", "6", "--device", "gpu"]));
    }
    // Among all objects the choice is that of exact distances.
    assert_eq!(with(&["--rerank", "24"]), round(at, &marks));
    // By themselves sketches bound the objects of large stores only.
    assert_eq!(round(at, &[&marks[..], &from_sketches[..2]].concat()), round(at, &marks));
    let first = round(at, &from_sketches);
    assert_eq!(shown(&first).len(), 4);
    assert_ne!(first, round(at, &[&from_sketches[..], &["--seed", "2"]].concat()));
    let refused = |more: &[&str], words: &[&str]| {
        let said = fails(at, &[&["feedback", "--store", "s.arrow"][..], more].concat(), 3);
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    refused(&["--mode", "sketch"], &["boxwork sketch --store s.arrow --out"]);
    refused(&["--sketch", "s.arrow"], &["s.arrow", "boxwork sketch"]);
    // One that does not fit is refused even where it is not used.
    refused(&["--sketch", "s.sketch.arrow", "--alpha", "3"], &["boxwork sketch --store s.arrow --alpha 3"]);
    ok(at, &["remove", "--store", "s.arrow", &names[3]]);
    assert_eq!(shown(&with(&["--rerank", "6"])).len(), 4, "a removed object needs no new sketch");
    ok(at, &["compact", "--store", "s.arrow"]);
    refused(&from_sketches, &["boxwork sketch --store s.arrow --out s.sketch.arrow --force"]);
}

#[test]
fn rounds_from_the_sketch_of_an_index_are_the_same_on_slots_and_devices() {
    let folder = with_store();
    let (at, names) = (folder.path(), names(folder.path()));
    for (number, of) in [&["--similarity", "minus"][..], &["--alpha", "0.5"]].into_iter().enumerate() {
        let [index, sketch] = ["pivots", "sketch"].map(|kind| format!("{number}.{kind}.arrow"));
        ok(at, &[&["index", "--store", "s.arrow", "--pivots", "8", "--out", &index][..], of].concat());
        ok(at, &["sketch", "--store", "s.arrow", "--pivots", &index, "--out", &sketch]);
        let marks = ["--like", &names[0], "--dislike", &names[9], "--seen", &names[4]];
        let exact = round(at, &[&marks[..], of].concat());
        let from_sketches = ["--sketch", &sketch, "--mode", "sketch"];
        let with = |more: &[&str]| round(at, &[&marks[..], of, &from_sketches, more].concat());
        let on_slots = with(&["--rerank", "6", "--device", "cpu", "--workers", "1"]);
        assert_eq!(shown(&on_slots).len(), 4);
        assert_eq!(on_slots, with(&["--rerank", "6", "--device", "cpu", "--workers", "2"]));
        if has_device("rounds_from_the_sketch_of_an_index_are_the_same_on_slots_and_devices") {
            assert_eq!(on_slots, with(&["--rerank", "6", "--device", "gpu"]));
        }
        assert_eq!(with(&["--rerank", "24"]), exact, "a choice among all is that of exact distances");
        // A picture that is not in the store is sketched by its distances to the pivots: its copy comes first.
        let file = at.join("images").join(&names[6]);
        let like = ["--like", file.to_str().expect("a name")];
        let shown_first = shown(&round(at, &[&like[..], of, &from_sketches, &["--rerank", "2"]].concat()));
        assert!(shown_first.contains(&names[6]), "{shown_first:?} of {}", names[6]);
    }
    // Users find more than by chance.
    let simulated = json(&ok(
        at,
        &[
            "simulate",
            "--store",
            "s.arrow",
            "--seeds",
            "6",
            "--rounds",
            "4",
            "--batch",
            "3",
            "--format",
            "json",
            "--methods",
            "random,gp_bucb",
            "--similarity",
            "minus",
            "--sketch",
            "0.sketch.arrow",
            "--mode",
            "sketch",
            "--rerank",
            "6",
        ],
    ));
    let found = |place: usize| simulated["methods"][place]["found"][3]["mean"].as_f64().unwrap();
    assert!(found(1) > found(0) + 1.0, "{simulated}");
}

#[test]
fn a_picture_given_as_a_signature_is_the_picture_read_from_its_file() {
    let folder = with_store();
    let (at, names) = (folder.path(), names(folder.path()));
    // The same pixels as an object of the store, from outside.
    std::fs::copy(at.join("images").join(&names[2]), at.join("mine.jpg")).expect("copied");
    let by_file = round(at, &["--like", "mine.jpg", "--dislike", &names[10]]);
    let store = any_kind::open(&at.join("s.arrow"), None).expect("a store");
    store.bring_in(&[2]).expect("in memory");
    let given = RecordBatch::try_from_iter([
        ("name", Arc::new(StringArray::from(vec!["mine"])) as ArrayRef),
        ("object", store.objects(&[2]).expect("the object")),
        ("relevance", Arc::new(Float64Array::from(vec![1.0]))),
    ])
    .expect("a batch");
    let engine = Engine::builder().workers(2).start().expect("an engine");
    let text = |text: &str| Value::Text(text.to_owned());
    let values = BTreeMap::from([
        ("store".to_owned(), text(at.join("s.arrow").to_str().expect("a path"))),
        ("batch".to_owned(), Value::Integer(4)),
        ("marks".to_owned(), Value::List(vec![text(&format!("{}=0", names[10]))])),
    ]);
    let prepared = engine
        .prepare(&shipped::FEEDBACK.load(), &boxwork_operators::catalog(), &values, None)
        .expect("a pipeline");
    for _ in 0..2 {
        let (output, rows) = RequestOutput::collected();
        let submission = Submission {
            inputs: BTreeMap::from([("marks".to_owned(), RequestInput::batches(vec![given.clone()]))]),
            outputs: BTreeMap::from([("results".to_owned(), output)]),
            ..Submission::default()
        };
        engine.submit(&prepared, &submission).expect("a request").wait().result.expect("a round");
        let rows = rows.take();
        let ids = rows[0]["id"].as_primitive::<UInt64Type>().values().to_vec();
        let means = rows[0]["mean"].as_primitive::<Float64Type>().values().to_vec();
        let liked = rows[0]["liked"].as_primitive::<UInt64Type>().values().to_vec();
        let expected = by_file["round"].as_array().expect("a list");
        for (place, row) in expected.iter().enumerate() {
            assert_eq!(
                (ids[place], means[place]),
                (row["id"].as_u64().unwrap(), row["mean"].as_f64().unwrap())
            );
        }
        assert!(liked.iter().all(|id| *id == u64::MAX - 1));
    }
}

#[test]
fn a_ranking_and_an_explanation_agree_with_the_round() {
    let folder = with_store();
    let (at, names) = (folder.path(), names(folder.path()));
    let marks = format!("marks=[{}=1, {}=0]", names[0], names[9]);
    let run = |pipeline: &str, more: &[&str]| {
        let call = ["run", pipeline, "--set", "store=s.arrow", "--set", &marks, "--set", "format=json"];
        json(&ok(at, &[&call[..], more].concat()))
    };
    let ranking = run("feedback_ranking", &[]);
    let rows = ranking["round"].as_array().expect("a list");
    assert_eq!(rows.len(), names.len());
    assert_eq!(rows[0]["name"], names[0].as_str());
    let object = format!("object={}", rows[3]["name"].as_str().expect("a name"));
    let why = run("feedback_why", &["--set", &object]);
    assert_eq!(why["mean"], rows[3]["mean"]);
    let shares: f64 =
        why["marks"].as_array().expect("a list").iter().map(|mark| mark["share"].as_f64().unwrap()).sum();
    assert!((shares - why["mean"].as_f64().unwrap()).abs() < 1e-12);
    assert_eq!(why["nearest_liked"][0]["name"], names[0].as_str());
}

#[test]
fn unsound_covariances_and_wrong_marks_are_refused() {
    let folder = with_store();
    let (at, names) = (folder.path(), names(folder.path()));
    let refused = |more: &[&str], exit: i32, words: &[&str]| {
        let said = fails(at, &[&["feedback", "--store", "s.arrow"][..], more].concat(), exit);
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    refused(&["--distance", "emd"], 1, &["emd", "positive semidefinite"]);
    refused(&["--mark", "x=2"], 3, &["no number from 0 to 1"]);
    refused(&["--like", "no/such.jpg"], 3, &["neither the name"]);
    refused(&["--like", &names[0], "--dislike", &names[0]], 3, &["marked twice"]);
    refused(&["--batch", "0"], 2, &["--batch: 0 is not a whole number from 1"]);
}

#[test]
fn simulated_users_are_the_same_for_any_number_of_workers() {
    let folder = with_store();
    let at = folder.path();
    ok(at, &["sketch", "--store", "s.arrow", "--out", "s.sketch.arrow", "--frequencies", "256"]);
    let call = [
        "simulate", "--store", "s.arrow", "--seeds", "6", "--rounds", "4", "--batch", "3", "--format", "json",
    ];
    let methods = ["--methods", "random,nearest,gp_mean,gp_ucb,gp_bucb"];
    for more in [
        &[][..],
        &["--first", "spread"],
        &["--first", "random", "--flips", "0.2"],
        &["--clicks", "0.5", "--rare", "3"],
        &["--clicks", "0.5", "--unmarked", "ignore"],
        &["--sketch", "s.sketch.arrow", "--mode", "sketch", "--rerank", "9", "--first", "spread"],
    ] {
        let with = |workers: &str| ok(at, &[&call[..], &methods, more, &["--workers", workers]].concat());
        let one = with("1");
        assert_eq!(one, with("2"));
        let report = json(&one);
        let found = |place: usize| report["methods"][place]["found"][3]["mean"].as_f64().unwrap();
        assert_eq!(report["methods"].as_array().unwrap().len(), 5);
        if more.is_empty() {
            // The classes of drawn pictures are easy to tell apart.
            assert!(found(4) > found(0) + 1.0, "{report}");
            // A user is shown 12 of the 23 other objects, of which 7 are relevant.
            assert!(found(4) <= 7.0);
        }
    }
    if has_device("simulated_users_are_the_same_for_any_number_of_workers") {
        let on = |device: &str| ok(at, &[&call[..], &methods, &["--device", device]].concat());
        assert_eq!(on("gpu"), on("cpu"));
    }
    let said = fails(at, &[&call[..], &["--classes", "no-such"]].concat(), 3);
    assert!(said.contains("there is no class `no-such`; there are"), "{said}");
    let table = ok(
        at,
        &[
            "simulate",
            "--store",
            "s.arrow",
            "--seeds",
            "2",
            "--rounds",
            "3",
            "--batch",
            "2",
            "--methods",
            "random,gp_bucb",
        ],
    );
    assert!(table.contains("6 sessions of 3 classes, 3 rounds of 2") && table.contains("of 6"), "{table}");
}

#[test]
fn sessions_are_played_with_all_exact_distances_or_not_at_all() {
    let folder = with_store();
    let at = folder.path();
    ok(at, &["sample-images", "few", "--classes", "2", "--per-class", "3", "--seed", "3"]);
    ok(at, &["extract", "few", "--out", "few.arrow"]);
    let shown = ok(at, &["pipelines", "show", "simulate"]);
    for (from, to, fault) in [
        ("exact_pairs: 8386560", "exact_pairs: 0", "give `exact_pairs` of box `pair_distances` at least 276"),
        ("all_pairs, store: objects", "all_pairs, store: few", "all 276 pairs of the store, and 15 came"),
    ] {
        let with_few = shown.replace("resources:", "resources:\n  few: {kind: store, path: few.arrow}");
        std::fs::write(at.join("mine.yaml"), with_few.replace(from, to)).expect("a file");
        let said = fails(at, &["run", "mine.yaml", "--set", "store=s.arrow", "--set", "seeds=1"], 3);
        assert!(said.contains(fault), "{said}");
    }
}
