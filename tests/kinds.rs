//! Stores of every kind through the shipped pipelines: imported, searched with one `search.yaml`, extended.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use boxwork::pipeline;
use boxwork::shipped::{self, Shipped};
use boxwork_kernels::distance::{Distance, Lp};
use boxwork_operators::catalog;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};
use boxwork_stores::any_kind::{self, KINDS};
use boxwork_stores::spaces::{DISTANCE_NAMES_OR_AUTO, DISTANCES};
use serde_json::Value as Json;

const OBJECTS: usize = 300;

fn run(runtime: &Runtime, pipeline: Shipped, given: &[(&str, &str)]) {
    let given = given.iter().map(|(name, value)| ((*name).to_owned(), Value::Text((*value).to_owned())));
    let mut values: BTreeMap<String, Value> = given.collect();
    if let Some(Value::Text(query)) = values.get("queries").cloned() {
        values.insert("queries".to_owned(), Value::List(vec![Value::Text(query)]));
    }
    let prepared = Prepared::new(&pipeline.load().declaration, &catalog(), &values, &runtime.environment());
    let prepared = Arc::new(prepared.unwrap_or_else(|error| panic!("{}: {error}", pipeline.source)));
    let request = runtime.submit(&prepared, &Submission::default()).unwrap_or_else(|error| panic!("{error}"));
    request.wait().result.unwrap_or_else(|error| panic!("{}: {error}", pipeline.source));
}

/// The names and distances that a search finds.
fn search(runtime: &Runtime, store: &str, query: &str, out: &Path) -> Vec<(String, f64)> {
    let path = out.to_str().expect("a path in UTF-8");
    run(runtime, shipped::SEARCH, &[("store", store), ("queries", query), ("format", "json"), ("out", path)]);
    let json: Json = serde_json::from_str(&fs::read_to_string(out).expect("written")).expect("JSON");
    let hits = json["queries"][0]["results"].as_array().expect("a list");
    let hit = |hit: &Json| {
        let name = hit["name"].as_str().expect("a name").to_owned();
        (name, hit["distance"].as_f64().expect("a number"))
    };
    hits.iter().map(hit).collect()
}

fn vector(nth: usize) -> [f32; 3] {
    [nth * 7919 % 101, nth * 31 % 17, nth % 7].map(|number| number as f32 + 0.5)
}

#[test]
fn vectors_and_signatures_of_store_files_go_through_one_search_pipeline() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("a path in UTF-8").to_owned();
    let runtime = Runtime::start(Config::flat(2)).expect("a runtime");
    let (mut vectors, mut signatures) = (String::new(), String::new());
    for nth in 0..OBJECTS {
        let [x, y, z] = vector(nth);
        let _ = writeln!(vectors, "{{\"name\": \"v{nth}\", \"object\": [{x}, {y}, {z}]}}");
        let line = format!("\"centroids\": [[{x}, {y}], [{y}, {z}]], \"weights\": [1, {}]", nth + 1);
        let _ = writeln!(signatures, "{{\"name\": \"s{nth}\", {line}}}");
    }
    fs::write(at("vectors.jsonl"), vectors).expect("a disk");
    fs::write(at("signatures.jsonl"), signatures).expect("a disk");
    for kind in ["vectors", "signatures"] {
        let (from, to) = (at(&format!("{kind}.jsonl")), at(&format!("{kind}.arrow")));
        run(&runtime, shipped::IMPORT, &[("path", &from), ("out", &to), ("holds", kind)]);
        assert_eq!(any_kind::open(Path::new(&to), None).expect("a store").kind(), kind);
    }
    let out = folder.path().join("found.json");
    let found = search(&runtime, &at("signatures.arrow"), "s11", &out);
    assert_eq!((found.len(), &found[0]), (10, &("s11".to_owned(), 0.0)));
    let nearest = |skipped: Option<usize>| {
        let objects = (0..OBJECTS).filter(|nth| Some(*nth) != skipped);
        let mut all: Vec<(f64, usize)> =
            objects.map(|nth| (Lp::L2.distance(&vector(11), &vector(nth)), nth)).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let named = all.into_iter().take(10).map(|(distance, nth)| (format!("v{nth}"), distance));
        named.collect::<Vec<_>>()
    };
    let store = at("vectors.arrow");
    assert_eq!(search(&runtime, &store, "v11", &out), nearest(None));
    assert_eq!(search(&runtime, &store, "[11.5, 0.5, 1]", &out).len(), 10);

    // The store changes: the query's nearest object is removed, and an added object is found.
    let second = nearest(None)[1].0.clone();
    let skipped = second[1..].parse().expect("a number");
    let mut change = any_kind::change(Path::new(&store)).expect("a store");
    let id = change.store().find(&second).expect("names").expect("an object");
    assert!(change.remove(id).expect("an object"));
    change.write().expect("a disk").commit().expect("a disk");
    assert_eq!(search(&runtime, &store, "v11", &out), nearest(Some(skipped)));
    let [x, y, z] = vector(11);
    fs::write(at("more.jsonl"), format!("{{\"name\": \"new\", \"object\": [{x}, {y}, {z}]}}\n"))
        .expect("a disk");
    run(&runtime, shipped::ADD_FROM, &[("store", &store), ("from", &at("more.jsonl")), ("holds", "vectors")]);
    let found = search(&runtime, &store, "v11", &out);
    assert_eq!(found[..2], [("v11".to_owned(), 0.0), ("new".to_owned(), 0.0)]);
}

/// The `nth` object of a kind, as the members of a line of JSON. Each kind has its odd ones among the first.
fn members(kind: &str, nth: usize) -> String {
    let number = nth * 7919 % 1009;
    match kind {
        "signatures" => {
            let size = if nth.is_multiple_of(2) {
                format!(", \"width\": {nth}, \"height\": 7")
            } else {
                String::new()
            };
            format!("\"centroids\": [[{number}.1, -0.0], [1e-45, 3]], \"weights\": [1, {}]{size}", nth + 1)
        }
        "vectors" => {
            format!("\"object\": [{number}.3, -0.0, 1e-45, -3.4028235e38, {}]", 1.0 / (nth + 1) as f64)
        }
        "texts" => format!("\"object\": {}", Json::from("\"é\n\\".repeat(nth % 4))),
        "sets" if nth == 0 => "\"object\": []".to_owned(),
        "sets" => format!("\"object\": [4294967295, {number}, 0]"),
        "codes" => format!("\"object\": \"{number:x}00000000000000{nth:02x}\""),
        other => panic!("give this test objects of the kind {other}"),
    }
}

#[test]
fn objects_of_every_kind_are_exported_and_imported_as_they_were() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("a path in UTF-8").to_owned();
    let read = |name: &str| fs::read(at(name)).expect("a file");
    let runtime = Runtime::start(Config::flat(2)).expect("a runtime");
    for kind in KINDS.iter().map(|kind| kind.name()) {
        let line = |nth: usize| {
            let name = Json::from(format!("{nth} \"{kind}\" \\ é"));
            format!("{{\"name\": {name}, {}}}\n", members(kind, nth))
        };
        fs::write(at("in.jsonl"), (0..1500).map(line).collect::<String>()).expect("a disk");
        let holds = ("holds", kind);
        run(&runtime, shipped::IMPORT, &[("path", &at("in.jsonl")), ("out", &at("first")), holds]);
        run(&runtime, shipped::EXPORT, &[("store", &at("first")), ("out", &at("lines")), holds]);
        run(&runtime, shipped::IMPORT, &[("path", &at("lines")), ("out", &at("second")), holds]);
        assert!(read("first") == read("second"), "{kind}: the stores differ");
        run(&runtime, shipped::EXPORT, &[("store", &at("second")), ("out", &at("again")), holds]);
        assert!(read("lines") == read("again"), "{kind}: the lines differ");
        // A store is an Arrow file too, as another program might have written it.
        let arrow = [("path", &*at("first")), ("reader", "read_column"), ("out", &at("third")), holds];
        run(&runtime, shipped::IMPORT, &arrow);
        assert!(read("first") == read("third"), "{kind}: the store of the column differs");
        let store = any_kind::open(Path::new(&at("second")), None).expect("a store");
        assert_eq!((store.kind(), store.objects_count()), (kind, 1500));
        assert_eq!(store.name(7).expect("a name"), format!("7 \"{kind}\" \\ é"));
    }
}

#[test]
fn an_edge_that_names_a_port_by_its_former_name_learns_the_new_one() {
    let text = "boxwork: 1
boxes:
  lines: {kind: read_jsonl, path: a.jsonl}
  store: {kind: write_store, out: a.arrow}
edges:
  - lines.signatures -> store.signatures
";
    let loaded = pipeline::read_text("old.yaml", text);
    let (plan, faults) = loaded.check(&catalog(), &loaded.declaration.defaults());
    let helps: Vec<&str> = faults.iter().filter_map(|fault| fault.help.as_deref()).collect();
    assert!(plan.is_none());
    assert_eq!(helps, ["it is `objects` now"; 2]);
}

#[test]
fn the_guide_and_the_shipped_pipelines_know_every_kind_and_distance() {
    let names: Vec<&str> = DISTANCES.iter().map(|distance| distance.name()).collect();
    assert_eq!(DISTANCE_NAMES_OR_AUTO, [&["auto"], &names[..]].concat());
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guide/src/distances.md");
    let guide = fs::read_to_string(guide).expect("the guide");
    for name in KINDS.iter().map(|kind| kind.name()).chain(names) {
        assert!(guide.contains(&format!("`{name}`")), "the page on distances does not name `{name}`");
    }
    let distances = |wanted: fn(&str) -> bool| -> Vec<&str> {
        DISTANCES.iter().filter(|distance| wanted(distance.of())).map(|distance| distance.name()).collect()
    };
    let kinds = KINDS.iter().map(|kind| kind.name()).filter(|kind| *kind != "signatures");
    let kinds: Vec<&str> = std::iter::once("auto").chain(kinds).collect();
    for (pipeline, parameter, wanted) in [
        (shipped::METRIC_SEARCH, "distance", distances(|of| of != "signatures")),
        (shipped::METRIC_INDEX, "distance", distances(|of| of != "signatures")),
        (shipped::METRIC_SIGNATURES, "distance", distances(|of| of == "signatures")),
        (shipped::METRIC_SEARCH, "holds", kinds.clone()),
        (shipped::METRIC_INDEX, "holds", kinds.clone()),
    ] {
        let declaration = pipeline.load().declaration;
        let declared = declaration.parameters.iter().find(|declared| declared.name == parameter);
        assert_eq!(declared.expect("a parameter").one_of, wanted, "{parameter} of {}", pipeline.source);
    }
}
