//! The command as a user sees it: from images to answers, bad input, interruption. For its measurements see
//! `measuring.rs`.
//!
//! Each test makes its data in its own folder; none needs a network or other files.

#[path = "support/command.rs"]
mod command;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use boxwork_stores::signature_store::SignatureStore;
use serde_json::Value as Json;
use tempfile::TempDir;

use command::{POINTS, boxwork, fails, folder, json, ok, with_points};

/// A folder with 4 classes of 6 images and their store.
fn with_store() -> TempDir {
    let folder = folder();
    ok(folder.path(), &["sample-images", "images", "--classes", "4", "--per-class", "6", "--seed", "3"]);
    ok(folder.path(), &["extract", "images", "--out", "s.arrow", "--points", "300", "--seeds", "60"]);
    folder
}

#[test]
fn from_a_folder_of_images_to_the_most_similar_ones() {
    let folder = with_store();
    let name =
        fs::read_dir(folder.path().join("images")).expect("classes").next().expect("one").expect("a class");
    let query = format!("{}/002.jpg", name.file_name().to_string_lossy());
    let search = ["search", "--store", "s.arrow", "--query", &query, "-k", "5", "--format", "json"];
    let found = json(&ok(folder.path(), &search));
    let results = found["queries"][0]["results"].as_array().expect("results");
    assert_eq!(results.len(), 5);
    assert_eq!(
        (results[0]["name"].as_str(), results[0]["distance"].as_f64()),
        (Some(query.as_str()), Some(0.0))
    );
    let distances: Vec<f64> =
        results.iter().map(|result| result["distance"].as_f64().expect("a number")).collect();
    assert!(distances.windows(2).all(|pair| pair[0] <= pair[1]));

    // The file itself, extracted with the store's parameters, is the object.
    let file = format!("images/{query}");
    fs::copy(folder.path().join(&file), folder.path().join("query.jpg")).expect("a copy");
    let again = json(&ok(
        folder.path(),
        &["search", "--store", "s.arrow", "--query", "query.jpg", "-k", "5", "--format", "json"],
    ));
    assert_eq!(again["queries"][0]["results"], found["queries"][0]["results"]);

    // `run` of the shipped file gives this answer too, with any number of workers.
    let pipeline = concat!(env!("CARGO_MANIFEST_DIR"), "/pipelines/search.yaml");
    for workers in ["1", "3"] {
        let set = format!("queries={query}");
        let run = [
            "run",
            pipeline,
            "--set",
            "store=s.arrow",
            "--set",
            &set,
            "--set",
            "k=5",
            "--set",
            "format=json",
            "--workers",
            workers,
        ];
        assert_eq!(json(&ok(folder.path(), &run)), found);
    }

    let quality = json(&ok(folder.path(), &["evaluate", "--store", "s.arrow", "--format", "json"]));
    assert_eq!(quality["classes"].as_object().map(serde_json::Map::len), Some(4));
    let map = quality["map"].as_f64().expect("a MAP");
    assert!(map > 0.35 && map <= 1.0, "chance alone gives about 0.22, not {map}");

    ok(
        folder.path(),
        &["search", "--store", "s.arrow", "--query", &query, "--format", "html", "--out", "page.html"],
    );
    let page = fs::read_to_string(folder.path().join("page.html")).expect("a page");
    assert_eq!(
        page.matches("data:image/jpeg;base64,").count(),
        11,
        "the query and ten neighbours with pictures"
    );
}

#[test]
fn a_search_by_an_index_finds_what_a_scan_finds() {
    let folder = with_store();
    let path = folder.path();
    ok(path, &["index", "--store", "s.arrow", "--pivots", "5", "--select", "maxmin", "--out", "i.arrow"]);
    let query = SignatureStore::open(path.join("s.arrow")).expect("a store").name(7).expect("a name");
    let search = |more: &[&str]| {
        let given = ["search", "--store", "s.arrow", "--query", &query, "--format", "json"];
        json(&ok(path, &[&given, more].concat()))
    };
    // A larger k than objects gives all of them.
    for k in ["1", "10", "500"] {
        let scanned = search(&["-k", k]);
        for strategy in
            ["auto", "best_first", "estimated_range", "two_phase", "fixed_blocks", "adaptive_blocks", "scan"]
        {
            assert_eq!(
                search(&["-k", k, "--pivots", "i.arrow", "--strategy", strategy]),
                scanned,
                "{strategy}"
            );
        }
        assert_eq!(search(&["-k", k, "--pivots", "i.arrow", "--bound", "combined"]), scanned);
    }
    let near = search(&["--range", "0.4"]);
    assert!(!near["queries"][0]["results"].as_array().expect("results").is_empty());
    assert_eq!(search(&["--range", "0.4", "--pivots", "i.arrow"]), near);
    assert_eq!(search(&["--range", "0.4", "--pivots", "i.arrow", "--strategy", "scan"]), near);

    // The estimate of `auto` is shown without a search.
    let estimate = search(&["-k", "3", "--pivots", "i.arrow", "--explain"]);
    assert_eq!((estimate["objects"].as_u64(), estimate["pivots"].as_u64()), (Some(24), Some(5)));
    let ways = estimate["ways"].as_array().expect("ways");
    assert!(ways.len() > 4 && ways.iter().all(|way| way["seconds"].as_f64().is_some_and(|time| time > 0.0)));
    assert!(["scan", "best_first"].contains(&estimate["auto"]["strategy"].as_str().expect("a choice")));
    let pipeline = Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines/auto.yaml");
    let pipeline = pipeline.to_str().expect("a path in UTF-8");
    let explained = ["explain", pipeline, "--estimate", "--set", "store=s.arrow", "--set", "pivots=i.arrow"];
    let page = ok(path, &explained);
    assert!(page.contains("auto takes") && page.contains("ptolemaic"), "{page}");

    // The index is identical with any number of workers, and replaces the old one.
    let first = fs::read(path.join("i.arrow")).expect("an index");
    let again =
        ["index", "--store", "s.arrow", "--pivots", "5", "--select", "maxmin", "--out", "i.arrow", "--force"];
    ok(path, &[&again[..], &["--workers", "1"]].concat());
    assert!(fs::read(path.join("i.arrow")).expect("an index") == first, "the indexes differ");

    ok(path, &["synthesize", "--store", "s.arrow", "--count", "100", "--out", "large.arrow"]);
    assert_eq!(SignatureStore::open(path.join("large.arrow")).expect("a store").len(), 100);
}

#[test]
fn an_index_that_does_not_fit_is_refused_with_the_way_out() {
    let folder = with_points(POINTS);
    let path = folder.path();
    let index = ["index", "--store", "v.arrow", "--pivots", "2", "--alpha", "0.5", "--out", "i.arrow"];
    ok(path, &index);
    let search = ["search", "--store", "v.arrow", "--query", "a", "--pivots", "i.arrow"];
    let refused = |arguments: &[&str], status: i32, words: &[&str]| {
        // Wherever the lines break.
        let said = fails(path, arguments, status).replace('│', " ");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    refused(
        &search,
        3,
        &[
            "i.arrow",
            "alpha 0.5",
            "alpha 0.2",
            "search with `--alpha 0.5`",
            "`boxwork index --store v.arrow --alpha 0.2 --pivots 2 --out i.arrow --force`",
        ],
    );
    let sound = [&search[..], &["--alpha", "0.5"]].concat();
    ok(path, &sound);
    refused(&[&sound[..], &["--strategy", "two_phase", "--range", "1"]].concat(), 2, &["give -k"]);
    refused(&["search", "--store", "v.arrow", "--query", "a", "--bound", "simplex"], 2, &["--pivots"]);
    refused(&[&sound[..], &["--bound", "cosine"]].concat(), 2, &["cosine", "simplex"]);
    refused(
        &["index", "--store", "v.arrow", "--pivots", "9", "--out", "j.arrow"],
        3,
        &["9 pivots", "v.arrow", "ask for at most 3"],
    );
    refused(&["index", "--store", "v.arrow", "--pivots", "0", "--out", "j.arrow"], 2, &["--pivots"]);
    for (similarity, ground, instead) in
        [("gaussian", "l1", "use l2"), ("gaussian", "l2_squared", "use l2"), ("heuristic", "linf", "use l1")]
    {
        let unsound = ["--similarity", similarity, "--ground", ground, "--pivots", "2", "--out", "j.arrow"];
        let words = ["not positive definite", "could lose results", instead];
        refused(&[&["index", "--store", "v.arrow"], &unsound[..]].concat(), 1, &words);
    }
    refused(&["index", "--store", "none.arrow", "--out", "j.arrow"], 3, &["cannot open", "none.arrow"]);
    refused(&["index", "--store", "i.arrow", "--out", "j.arrow"], 3, &["i.arrow", "no store"]);
    let swapped = ["search", "--store", "v.arrow", "--query", "a", "--pivots", "v.arrow"];
    refused(&swapped, 3, &["v.arrow", "is no index", "boxwork index"]);
    assert!(!path.join("j.arrow").exists());

    // The store changes, but the index does not.
    let other = POINTS.replace("[1, 0]", "[1, 0.5]");
    fs::write(path.join("v.jsonl"), other).expect("the lines are written");
    ok(path, &["import", "v.jsonl", "--out", "v.arrow", "--force"]);
    refused(&sound, 3, &["i.arrow", "`v.arrow` has changed", "boxwork index --store v.arrow --out i.arrow"]);
}

#[test]
fn extraction_is_the_same_on_any_number_of_workers() {
    let folder = with_store();
    let again =
        ["extract", "images", "--out", "t.arrow", "--points", "300", "--seeds", "60", "--workers", "1"];
    ok(folder.path(), &again);
    let read = |name: &str| fs::read(folder.path().join(name)).expect("a store");
    assert!(read("s.arrow") == read("t.arrow"), "the stores differ");
}

#[test]
fn every_parameter_of_an_extraction_reaches_the_store() {
    let folder = folder();
    ok(folder.path(), &["sample-images", "images", "--classes", "1", "--per-class", "1"]);
    let flags = "--points 200 --sigma 0.3 --seed 5 --size 40 --grey-levels 8 --radius 2 --seeds 50 --iterations 3 \
                 --cluster-min 1 --join-distance 0.25 --ground l1 --cap 60 --multiplier 4,5,0.01,0.02,0.03,0.04,0.5";
    let mut call = vec!["extract", "images", "--out", "s.arrow"];
    call.extend(flags.split_whitespace());
    ok(folder.path(), &call);
    let store = SignatureStore::open(folder.path().join("s.arrow")).expect("a store");
    let expected = r#"{"points": 200, "distribution": "gaussian", "sigma": 0.3, "seed": 5, "size": 40,
        "grey_levels": 8, "radius": 2, "seeds": 50, "iterations": 3, "cluster_min": 1, "join_distance": 0.25,
        "ground": "l1", "cap": 60, "multiplier": [4, 5, 0.01, 0.02, 0.03, 0.04, 0.5], "offset": [0, 0, 0, 0, 0, 0, 0]}"#;
    let (found, expected) = (json(store.parameters().expect("parameters")), json(expected));
    let (Json::Object(found), Json::Object(expected)) = (found, expected) else { panic!("no objects") };
    for (name, value) in &expected {
        // 4 is written as 4.0, which is an equal number.
        let numbers = |value: &Json| match value {
            Json::Array(values) => values.iter().map(Json::as_f64).collect::<Option<Vec<_>>>(),
            other => other.as_f64().map(|number| vec![number]),
        };
        let same = found.get(name).is_some_and(|found| match numbers(value) {
            Some(value) => numbers(found) == Some(value),
            None => found == value,
        });
        assert!(same, "{name}: {:?}, not {value}", found.get(name));
    }
    assert!(found.keys().all(|name| expected.contains_key(name)), "{:?}", found.keys());
}

#[test]
fn distances_are_those_of_the_definition() {
    let folder = with_points(POINTS);
    let search = ["search", "--store", "v.arrow", "--query", "a", "--alpha", "0.5", "--format", "json"];
    let found = json(&ok(folder.path(), &search));
    let results = found["queries"][0]["results"].as_array().expect("results");
    // By hand: sigma(a,a) = 1, sigma(a,b) = exp(-0.5), sigma(c,c) = (1 + exp(-12.5)) / 2, and sigma(a,c) equals it.
    let to_b = (2.0 - 2.0 * (-0.5_f64).exp()).sqrt();
    let near = (1.0 + (-12.5_f64).exp()) / 2.0;
    let to_c = (1.0 + near - 2.0 * near).sqrt();
    let names: Vec<&str> = results.iter().filter_map(|result| result["name"].as_str()).collect();
    assert_eq!(names, ["a", "c", "b"]);
    for (result, wanted) in results.iter().zip([0.0, to_c, to_b]) {
        let distance = result["distance"].as_f64().expect("a number");
        assert!((distance - wanted).abs() < 1e-7, "{distance} is not {wanted}");
    }
    // A range alone finds all objects within it, including the border.
    let range = [
        "search", "--store", "v.arrow", "--query", "a", "--alpha", "0.5", "--range", "0.8", "--format", "csv",
    ];
    assert_eq!(ok(folder.path(), &range).lines().count(), 1 + 2);
}

#[test]
fn a_range_of_a_printed_distance_keeps_that_object() {
    let lines: String = (0..60)
        .map(|n| {
            format!("{{\"name\": \"o{n}\", \"centroids\": [[{}, 0.1]], \"weights\": [1]}}\n", n as f32 / 7.0)
        })
        .collect();
    let folder = with_points(&lines);
    let search = |more: &[&str], format: &str| {
        let all = [&["search", "--store", "v.arrow", "--query", "o3", "--format", format][..], more].concat();
        ok(folder.path(), &all)
    };
    for k in 2..20_usize {
        let found = search(&["-k", &k.to_string()], "csv");
        let range = found.lines().last().and_then(|line| line.rsplit(',').next()).expect("a distance");
        let within = search(&["--range", range], "json");
        let within = json(&within)["queries"][0]["results"].as_array().expect("results").clone();
        assert!(within.len() >= k, "{} of {k} within {range}", within.len());
        let farthest = within[k - 1]["distance"].as_f64().expect("a number");
        assert_eq!(farthest.to_bits(), range.parse::<f64>().expect("a number").to_bits());
    }
}

#[test]
fn more_queries_than_a_request_holds_keep_their_order() {
    let lines: String = (0..150)
        .map(|n| format!("{{\"name\": \"o{n:03}\", \"centroids\": [[{n}, 0]], \"weights\": [1]}}\n"))
        .collect();
    let folder = with_points(&lines);
    let names: Vec<String> = (0..150).rev().map(|n| format!("o{n:03}")).collect();
    let mut arguments = vec!["search", "--store", "v.arrow", "-k", "1", "--format", "csv"];
    for name in &names {
        arguments.extend(["--query", name]);
    }
    let found = ok(folder.path(), &arguments);
    let lines: Vec<&str> = found.lines().skip(1).collect();
    assert_eq!(lines.len(), 150);
    for (line, name) in lines.iter().zip(&names) {
        assert!(line.starts_with(name.as_str()) && line.matches(name.as_str()).count() == 2, "{line}");
    }
}

#[test]
fn export_and_import_give_the_same_store() {
    let folder = with_points(POINTS);
    let lines = ok(folder.path(), &["export", "v.arrow"]);
    fs::write(folder.path().join("w.jsonl"), lines).expect("written");
    ok(folder.path(), &["import", "w.jsonl", "--out", "w.arrow"]);
    let read = |name: &str| fs::read(folder.path().join(name)).expect("a store");
    assert!(read("v.arrow") == read("w.arrow"), "the stores differ");
}

#[test]
fn files_that_are_no_images_are_listed_and_the_rest_goes_on() {
    let folder = folder();
    ok(folder.path(), &["sample-images", "images", "--classes", "1", "--per-class", "3"]);
    let class =
        fs::read_dir(folder.path().join("images")).expect("a class").next().expect("one").expect("it").path();
    let whole = fs::read(class.join("001.jpg")).expect("an image");
    fs::write(class.join("cut.jpg"), &whole[..whole.len() / 3]).expect("written");
    fs::write(class.join("text.png"), "not an image").expect("written");
    fs::write(class.join("empty.gif"), "").expect("written");
    let mut huge = b"BM".to_vec();
    huge.extend([0; 8]);
    huge.extend([54, 0, 0, 0, 40, 0, 0, 0]);
    huge.extend(100_000_i32.to_le_bytes());
    huge.extend(100_000_i32.to_le_bytes());
    huge.extend([1, 0, 24, 0]);
    huge.extend([0; 24]);
    fs::write(class.join("huge.bmp"), huge).expect("written");
    let said = fails(folder.path(), &["extract", "images", "--out", "s.arrow", "--points", "100"], 1);
    for name in ["cut.jpg", "text.png", "empty.gif", "huge.bmp"] {
        assert!(said.contains(name), "{name} is not named: {said}");
    }
    assert!(said.contains("4 items had problems"), "{said}");
    assert_eq!(ok(folder.path(), &["export", "s.arrow"]).lines().count(), 3);
}

#[test]
fn what_cannot_work_says_what_to_do_and_leaves_nothing() {
    let folder = with_points(POINTS);
    let at = folder.path();
    fs::create_dir(at.join("empty")).expect("a folder");
    let said = fails(at, &["extract", "empty", "--out", "n.arrow"], 3);
    assert!(said.contains("jpg"), "{said}");
    fails(at, &["extract", "nowhere", "--out", "n.arrow"], 3);
    assert!(!at.join("n.arrow").exists());
    let said = fails(at, &["search", "--store", "v.arrow", "--query", "aa"], 3);
    assert!(said.contains("`aa`"), "{said}");
    fails(at, &["search", "--store", "v.arrow", "--query", "a", "-k", "0"], 2);
    let search = ["search", "--store", "v.arrow", "--query", "a"];
    for (given, number) in [(&["--alpha", "-1"][..], "-1"), (&["--alpha=-1"], "-1"), (&["--alpha", "0"], "0")]
    {
        let expected = format!("error: --alpha: {number} is not a number above zero\n");
        assert_eq!(fails(at, &[&search, given].concat(), 2), expected);
    }
    let said = fails(at, &[&search[..], &["--range", "-0.5"]].concat(), 2);
    assert_eq!(said, "error: --range: -0.5 is not a number of at least 0\n");
    assert!(fails(at, &[&search[..], &["-k", "-1"]].concat(), 2).contains("'-k <N>'"));
    let said = fails(at, &["extract", "empty", "--out", "n.arrow", "--multiplier", "-1,2,3"], 3);
    assert!(said.contains("`multiplier` has 3 numbers: give 7"), "{said}");
    for to_stream in [&["extract", "empty"][..], &["import", "v.jsonl"], &["index", "--store", "v.arrow"]] {
        let said = fails(at, &[to_stream, &["--out", "-"]].concat(), 2);
        assert_eq!(said, "error: --out: a store is no stream: name a file, or ./- for one called -\n");
    }
    let refused =
        ["search", "--store", "v.arrow", "--query", "a", "--similarity", "gaussian", "--ground", "l1"];
    let said = fails(at, &refused, 1);
    assert!(
        said.starts_with("error: ") && said.contains("use l2"),
        "it must say what to use instead: {said}"
    );
    assert!(!said.contains(".yaml"), "the user never saw the pipeline: {said}");
    fs::write(at.join("none.jsonl"), "{\"thing\": 1}\n").expect("written");
    assert!(fails(at, &["search", "--store", "none.jsonl", "--query", "a"], 3).contains("none.jsonl"));
    let [lines, store] = ["v.jsonl", "v.arrow"]
        .map(|store| ok(at, &["search", "--store", store, "--query", "a", "--format", "csv"]));
    assert_eq!(lines, store, "signatures in lines are searched as those of a store");
    fs::write(at.join("bad.yaml"), "boxwork: 1\nboxes:\n  a: {kind: scna}\n").expect("written");
    let said = fails(at, &["run", "bad.yaml"], 1);
    assert!(said.contains("bad.yaml:3:") && said.contains("did you mean `scan`"), "{said}");
    fails(at, &["run", "bad.yaml", "--set", "x=1"], 2);
    let all = ok(at, &["search", "--store", "v.arrow", "--query", "a", "-k", "1000", "--format", "csv"]);
    assert_eq!(all.lines().count(), 1 + 3, "k beyond the store finds all of it");
    for (line, what) in [
        (r#"{"name": "x", "centroids": [[1, 2]], "weights": [-1]}"#, "weight"),
        (r#"{"name": "x", "centroids": [], "weights": []}"#, "centroid"),
        (r#"{"name": "x", "centroids": [[1, 2], [3]], "weights": [1, 1]}"#, ""),
        (r#"{"name": "x", "centroids": [[1, 2]]"#, ""),
    ] {
        fs::write(at.join("x.jsonl"), format!("{POINTS}{line}\n")).expect("written");
        let said = fails(at, &["import", "x.jsonl", "--out", "n.arrow"], 3);
        assert!(said.contains("x.jsonl:4") && said.contains(what), "{line}: {said}");
        assert!(!at.join("n.arrow").exists());
    }
    let left: Vec<_> = fs::read_dir(at)
        .expect("the folder")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    assert!(!left.iter().any(|name| name.contains("tmp")), "{left:?}");
}

/// A pipeline that runs longer than any test: it reads from a pipe that stays open.
fn endless(folder: &Path) -> Child {
    let mut images = Vec::new();
    for n in 0..4000 {
        images.push(format!("{{\"name\": \"o{n}\", \"centroids\": [[{n}, 0]], \"weights\": [1]}}"));
    }
    fs::write(folder.join("many.jsonl"), images.join("\n")).expect("written");
    let mut child = boxwork(folder)
        .args([
            "run",
            concat!(env!("CARGO_MANIFEST_DIR"), "/pipelines/import.yaml"),
            "--set",
            "path=-",
            "--set",
            "out=old.arrow",
        ])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // Enough for the writer to begin; standard input stays open, so the run waits in a blocking read.
    let lines = fs::read(folder.join("many.jsonl")).expect("lines");
    child.stdin.as_mut().expect("a pipe").write_all(&lines).expect("the pipe takes them");
    child
}

fn wait(child: &mut Child) -> Option<i32> {
    let until = Instant::now() + Duration::from_secs(30);
    while Instant::now() < until {
        if let Some(status) = child.try_wait().expect("a status") {
            return status.code();
        }
        std::thread::yield_now();
    }
    child.kill().expect("killed");
    panic!("the command does not end");
}

#[test]
fn a_killed_run_leaves_the_old_store() {
    let folder = with_points(POINTS);
    fs::copy(folder.path().join("v.arrow"), folder.path().join("old.arrow")).expect("a copy");
    let mut child = endless(folder.path());
    child.kill().expect("killed");
    wait(&mut child);
    let read = |name: &str| fs::read(folder.path().join(name)).expect("a store");
    assert!(read("old.arrow") == read("v.arrow"), "the old store was touched");
}

#[test]
#[expect(unsafe_code, reason = "a signal is sent to a child of this test")]
fn an_interrupt_stops_cleanly() {
    let folder = with_points(POINTS);
    fs::copy(folder.path().join("v.arrow"), folder.path().join("old.arrow")).expect("a copy");
    let mut child = endless(folder.path());
    let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
    let id = i32::try_from(child.id()).expect("an id");
    // SAFETY: the child has not been waited for, so the id is its own.
    assert_eq!(unsafe { libc::kill(id, libc::SIGINT) }, 0);
    let mut text = String::new();
    said.read_line(&mut text).expect("text");
    assert!(text.starts_with("interrupted: stopping"), "{text}");
    // A blocking read is not interrupted; the end of its input lets it return.
    drop(child.stdin.take());
    assert_eq!(wait(&mut child), Some(130));
    said.read_to_string(&mut text).expect("text");
    assert!(text.contains("nothing was left half-written"), "{text}");
    let read = |name: &str| fs::read(folder.path().join(name)).expect("a store");
    assert!(read("old.arrow") == read("v.arrow"), "the old store was touched");
    let left = fs::read_dir(folder.path()).expect("the folder").filter_map(Result::ok);
    assert!(!left.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().contains("tmp")));
}
