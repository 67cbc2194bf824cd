//! The alpha that a store keeps: a preset gives it, commands keep it, and searches need none.

#[path = "support/command.rs"]
mod command;

use std::fs;
use std::path::Path;

use boxwork_kernels::extract::Preset;
use boxwork_stores::signature_store::SignatureStore;
use serde_json::Value as Json;
use tempfile::TempDir;

use command::{fails, folder, json, ok};

/// A folder with 3 classes of 4 images.
fn with_images() -> TempDir {
    let folder = folder();
    ok(folder.path(), &["sample-images", "images", "--classes", "3", "--per-class", "4", "--seed", "3"]);
    folder
}

/// As [`with_images`], with their store by the default preset.
fn with_store() -> TempDir {
    let folder = with_images();
    ok(folder.path(), &["extract", "images", "--out", "s.arrow"]);
    folder
}

fn alpha(at: &Path, store: &str) -> Option<f64> {
    SignatureStore::open(at.join(store)).expect("a store").alpha()
}

fn first_name(at: &Path, store: &str) -> String {
    SignatureStore::open(at.join(store)).expect("a store").name(0).expect("a name")
}

/// The answers of a search.
fn found(at: &Path, store: &str, more: &[&str]) -> Json {
    let query = first_name(at, store);
    let search = ["search", "--store", store, "--query", &query, "-k", "6", "--format", "json"];
    json(&ok(at, &[&search[..], more].concat()))
}

#[test]
fn a_preset_gives_the_store_that_all_its_settings_give() {
    let folder = with_images();
    let at = folder.path();
    let stored = |more: &[&str]| {
        ok(at, &[&["extract", "images", "--force", "--out", "p.arrow"], more].concat());
        fs::read(at.join("p.arrow")).expect("a store")
    };
    let usual = stored(&[]);
    // The defaults before there was a third preset.
    let practical = "--multiplier=8,8,0.01,0.02,0.02,0.04,0.25 --points=2500 --sigma=0.2 --seeds=400 \
                     --grey-levels=16 --cluster-min=2 --iterations=10 --alpha=0.2";
    let spelt: Vec<&str> = practical.split_whitespace().collect();
    assert!(
        stored(&["--transform", "practical"]) == stored(&spelt),
        "practical is another store than before"
    );
    let best: Vec<&str> =
        spelt[1..].iter().copied().chain(["--multiplier=8,8,0.02,0.02,0.02,0.08,0.5"]).collect();
    assert!(stored(&["--transform", "best"]) == stored(&best), "best is another store than before");
    assert!(usual == stored(&["--transform", "balanced"]) && usual != stored(&spelt));
    // The pipeline's own defaults are the command's.
    ok(at, &["run", "extract", "--set", "paths=images", "--set", "source=images", "--set", "out=r.arrow"]);
    assert!(fs::read(at.join("r.arrow")).expect("a store") == usual, "`run extract` makes another store");
    for preset in Preset::ALL {
        stored(&["--transform", preset.name]);
        assert_eq!(alpha(at, "p.arrow"), Some(preset.alpha), "{}", preset.name);
        stored(&["--transform", preset.name, "--alpha", "0.7"]);
        assert_eq!(alpha(at, "p.arrow"), Some(0.7));
    }
    for (given, reason) in [("0", "--alpha: 0 is not a number above zero"), ("-1", "--alpha: -1")] {
        let said = fails(at, &["extract", "images", "--out", "n.arrow", "--alpha", given], 2);
        assert!(said.contains(reason), "{said}");
    }
    let said = fails(at, &["extract", "images", "--out", "n.arrow", "--transform", "balancd"], 2);
    assert!(said.contains("balanced, practical, best"), "{said}");
}

#[test]
fn every_command_keeps_alpha() {
    let folder = with_store();
    let at = folder.path();
    let kept = |store: &str| assert_eq!(alpha(at, store), Some(Preset::BALANCED.alpha), "{store}");
    kept("s.arrow");
    ok(at, &["sample-images", "more", "--classes", "4", "--per-class", "1", "--seed", "9"]);
    ok(at, &["add", "more", "--store", "s.arrow", "--replace"]);
    kept("s.arrow");
    let name = first_name(at, "s.arrow");
    ok(at, &["remove", "--store", "s.arrow", &name]);
    kept("s.arrow");
    // The store's own alpha stays, whatever that of the objects.
    ok(at, &["extract", "more", "--out", "m.arrow", "--alpha", "0.5"]);
    assert_eq!(alpha(at, "m.arrow"), Some(0.5));
    ok(at, &["add", "--from", "m.arrow", "--store", "s.arrow"]);
    kept("s.arrow");
    ok(at, &["compact", "--store", "s.arrow", "--out", "c.arrow"]);
    kept("c.arrow");
    ok(at, &["compact", "--store", "s.arrow"]);
    kept("s.arrow");
    ok(at, &["export", "s.arrow", "--out", "s.jsonl"]);
    ok(at, &["import", "s.jsonl", "--out", "i.arrow"]);
    kept("i.arrow");
    assert_eq!(ok(at, &["export", "i.arrow"]), fs::read_to_string(at.join("s.jsonl")).expect("lines"));
    // Another program sees a store as an Arrow file.
    ok(at, &["import", "c.arrow", "--out", "a.arrow"]);
    kept("a.arrow");
    ok(at, &["synthesize", "--store", "s.arrow", "--out", "y.arrow", "--count", "30"]);
    kept("y.arrow");
    // The lines of signatures are searched with their alpha, too.
    let query = first_name(at, "s.arrow");
    let of_lines = ["search", "--store", "s.jsonl", "--query", &query, "-k", "6", "--format", "json"];
    assert_eq!(json(&ok(at, &of_lines)), found(at, "s.arrow", &[]));
}

#[test]
fn a_search_without_alpha_is_one_with_the_stores() {
    let folder = with_store();
    let at = folder.path();
    ok(at, &["index", "--store", "s.arrow", "--out", "s.pivots.arrow", "--pivots", "3"]);
    ok(at, &["index", "--store", "s.arrow", "--out", "t.pivots.arrow", "--pivots", "3", "--alpha", "1.28"]);
    let read = |name: &str| fs::read(at.join(name)).expect("an index");
    assert!(read("s.pivots.arrow") == read("t.pivots.arrow"), "an index without alpha is another");
    let usual = found(at, "s.arrow", &[]);
    assert_eq!(found(at, "s.arrow", &["--alpha", "1.28"]), usual);
    assert_ne!(found(at, "s.arrow", &["--alpha", "0.2"]), usual);
    for strategy in ["auto", "best_first", "estimated_range", "fixed_blocks", "adaptive_blocks", "two_phase"]
    {
        let by_index = ["--pivots", "s.pivots.arrow", "--strategy", strategy];
        assert_eq!(found(at, "s.arrow", &by_index), usual, "{strategy}");
    }
    let query = first_name(at, "s.arrow");
    let range = |more: &[&str]| {
        let call = ["search", "--store", "s.arrow", "--query", &query, "--range", "0.5", "--format", "json"];
        json(&ok(at, &[&call[..], more].concat()))
    };
    assert_eq!(range(&[]), range(&["--alpha", "1.28"]));
    assert_eq!(range(&["--pivots", "s.pivots.arrow"]), range(&[]));
    let metric = |more: &[&str]| {
        let query = format!("queries={query}");
        let call = ["run", "metric_signatures", "--set", "store=s.arrow", "--set", &query];
        ok(at, &[&call[..], more].concat())
    };
    assert_eq!(metric(&[]), metric(&["--set", "alpha=1.28"]));
    assert_ne!(metric(&[]), metric(&["--set", "alpha=0.2"]));
}

#[test]
fn an_index_of_another_alpha_is_refused_with_the_command_that_makes_the_right_one() {
    let folder = with_store();
    let at = folder.path();
    ok(at, &["index", "--store", "s.arrow", "--out", "i.arrow", "--pivots", "3", "--alpha", "0.2"]);
    let query = first_name(at, "s.arrow");
    let search = ["search", "--store", "s.arrow", "--pivots", "i.arrow", "--query", &query];
    let said = fails(at, &search, 3);
    for words in ["alpha 0.2", "alpha 1.28", "`i.arrow`", "search with `--alpha 0.2`"] {
        assert!(said.contains(words), "{said}");
    }
    ok(at, &[&search[..], &["--alpha", "0.2"]].concat());
    let command = said.split("`boxwork ").nth(1).and_then(|rest| rest.split('`').next()).expect("a command");
    assert_eq!(command, "index --store s.arrow --alpha 1.28 --pivots 3 --out i.arrow --force");
    ok(at, &command.split(' ').collect::<Vec<_>>());
    ok(at, &search);
    let said = fails(at, &[&search[..], &["--alpha", "0.2"]].concat(), 3);
    assert!(
        said.contains("boxwork index --store s.arrow --alpha 0.2 --pivots 3 --out i.arrow --force"),
        "{said}"
    );
}

#[test]
fn outputs_that_speak_of_the_distance_name_alpha_and_its_origin() {
    let folder = with_store();
    let at = folder.path();
    ok(at, &["index", "--store", "s.arrow", "--out", "i.arrow", "--pivots", "3"]);
    ok(at, &["index", "--store", "s.arrow", "--out", "j.arrow", "--pivots", "3", "--alpha", "3"]);
    let query = first_name(at, "s.arrow");
    let search =
        |more: &[&str]| ok(at, &[&["search", "--store", "s.arrow", "--query", &query][..], more].concat());
    let evaluate = |more: &[&str]| ok(at, &[&["evaluate", "--store", "s.arrow"][..], more].concat());
    let usual = "gaussian similarity over l2 at alpha 1.28 (the store's alpha)";
    let given = "gaussian similarity over l2 at alpha 3.0 (given; the store's alpha is 1.28)";
    assert!(search(&["--pivots", "i.arrow", "--explain"]).contains(usual));
    let explained = json(&search(&["--pivots", "j.arrow", "--explain", "--alpha", "3", "--format", "json"]));
    assert_eq!(explained["distance"], given);
    assert!(evaluate(&[]).contains(&format!("\ndistance: {usual}\n")));
    assert_eq!(json(&evaluate(&["--format", "json", "--alpha", "3"]))["distance"], given);
    let set = ["--set", "store=s.arrow", "--set", "pivots=i.arrow", "--set", "queries=a"];
    let page = ok(at, &[&["explain", "auto", "--estimate"][..], &set].concat());
    assert!(page.contains(usual), "{page}");
    assert!(search(&["--format", "html"]).contains("at alpha 1.28 (the store"));
}

#[test]
fn a_store_without_alpha_is_searched_with_a_fifth() {
    let folder = folder();
    let at = folder.path();
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("stores/tests/version_1");
    for name in ["plain.signatures.arrow", "plain.pivots.arrow"] {
        fs::copy(old.join(name), at.join(name)).expect("a copy");
    }
    assert_eq!(alpha(at, "plain.signatures.arrow"), None);
    let usual = found(at, "plain.signatures.arrow", &[]);
    assert_eq!(found(at, "plain.signatures.arrow", &["--alpha", "0.2"]), usual);
    assert_ne!(found(at, "plain.signatures.arrow", &["--alpha", "1.28"]), usual);
    assert_eq!(found(at, "plain.signatures.arrow", &["--pivots", "plain.pivots.arrow"]), usual);
    // It gets none from objects that have one, nor by being written anew.
    ok(at, &["export", "plain.signatures.arrow", "--out", "p.jsonl"]);
    let lines = fs::read_to_string(at.join("p.jsonl")).expect("lines");
    assert!(!lines.contains("alpha"), "{lines}");
    let named = lines.replacen("{\"name\":\"", "{\"name\":\"of ", 100).replacen(',', ",\"alpha\":3,", 1);
    fs::write(at.join("q.jsonl"), named).expect("lines");
    ok(at, &["import", "q.jsonl", "--out", "q.arrow"]);
    assert_eq!(alpha(at, "q.arrow"), Some(3.0));
    ok(at, &["add", "--from", "q.arrow", "--store", "plain.signatures.arrow"]);
    ok(at, &["compact", "--store", "plain.signatures.arrow"]);
    assert_eq!(alpha(at, "plain.signatures.arrow"), None);
    ok(at, &["synthesize", "--store", "plain.signatures.arrow", "--out", "y.arrow", "--count", "30"]);
    assert_eq!(alpha(at, "y.arrow"), None);
}

#[test]
fn vectors_have_no_alpha() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("v.jsonl"), "{\"name\": \"a\", \"object\": [1, 2]}\n").expect("the lines are written");
    let pipeline = "boxwork: 1\nboxes:\n  lines: {kind: read_jsonl, path: v.jsonl, holds: vectors}\n  \
                    store: {kind: write_store, out: v.arrow, holds: vectors, alpha: 2}\nedges:\n  - lines -> store\n";
    fs::write(at.join("p.yaml"), pipeline).expect("the pipeline is written");
    let said = fails(at, &["run", "p.yaml"], 3);
    assert!(said.contains("`alpha` is for signatures, and `holds` is vectors: leave it out"), "{said}");
}

#[test]
fn the_guide_has_the_table_of_presets() {
    let guide = fs::read_to_string("docs/guide/src/photographs.md").expect("the guide");
    for preset in Preset::ALL {
        let Preset { name, sigma, points_count, seeds_count, grey_levels, .. } = preset;
        let multiplier = preset.multiplier.map(|factor| factor.to_string()).join(", ");
        let (least, rounds, alpha) = (preset.cluster_weight_min, preset.iterations_count, preset.alpha);
        let row = format!(
            "| `{name}` | {multiplier} | {sigma} | {points_count} | {seeds_count} | {grey_levels} | {least} | {rounds} | \
             {alpha} |"
        );
        assert!(guide.lines().any(|line| line == row), "the guide lacks the line\n{row}");
    }
}

/// Their figures are those of the thesis, so they depend on no default.
#[test]
fn the_sweeps_state_their_preset_and_alpha() {
    for entry in fs::read_dir("experiments").expect("the sweeps") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|ending| ending != "yaml") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a sweep");
        let (_, steps) = text.split_once("\nsteps:\n").expect("steps");
        for step in steps.split("do: ").skip(1) {
            let task = step.split([',', '\n', '}']).next().unwrap_or_default();
            let stated = match task {
                "sample_images" | "synthesize" | "sizes" => continue,
                "extract" => "transform: ",
                _ => "alpha: ",
            };
            assert!(step.contains(stated), "{}: `do: {task}` lacks `{stated}`", path.display());
        }
    }
}
