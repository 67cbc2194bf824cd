//! Diagnostics of pipelines: each case is a file with a snapshot of its diagnostics beside it.
//!
//! `INSTA_UPDATE=always cargo test --test pipelines` rewrites the snapshots. The test has its own operators, so that a
//! change of a shipped one changes no snapshot.

#[path = "support/json_schema.rs"]
mod json_schema;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output as Ended};

use arrow_schema::DataType;
use boxwork::pipeline::{self, Loaded};
use boxwork::{catalogue, diagnostic, drawing, explain, schema};
use boxwork_runtime::descriptor::{Column, Descriptor};
use boxwork_runtime::feeding::LazyDevices;
use boxwork_runtime::operator::{
    Bind, BoxError, Catalog, HintIn, HintOut, In, Join, Kind, Mode, Operator, OperatorSpec, Out, Resource,
    ResourceSpec,
};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType};
use boxwork_runtime::topology::Topology;
use json_schema::matches;
use proptest::prelude::*;
use serde_json::Value as Json;

fn never(_: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Err(BoxError::new("these operators are checked and never run"))
}

fn never_loaded(_: &Bind<'_>) -> Result<Resource, BoxError> {
    Err(BoxError::new("these resources are checked and never loaded"))
}

fn numbers(_: &Arguments) -> Descriptor {
    Descriptor::new([Column::new("number", DataType::Float64, "any number")])
}

fn texts(_: &Arguments) -> Descriptor {
    Descriptor::new([Column::new("text", DataType::Utf8, "any text")])
}

const WORDS: Parameter = Parameter::new(
    "words",
    ParameterType::List(&ParameterType::Text),
    Default::EmptyList,
    "words to go with them",
);
const RANGE: HintIn = HintIn::new(0, "range", Join::Minimum, "what is not wanted from here on");
const RANGE_WRITTEN: HintOut = HintOut::new(0, "range", Join::Minimum, "what is not wanted from here on");
const ROWS: Out = Out::new(0, "rows", numbers, "what was made");

static NUMBERS: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new("count", ParameterType::integer_from(1), Default::Integer(3), "how many").unit("rows"),
        WORDS,
    ],
    outputs: &[ROWS],
    blocking: Some("disk"),
    example: "source: {kind: numbers, count: 3}",
    ..OperatorSpec::new("numbers", "Makes numbers.", Kind::Stateful, never)
};
const ROWS_OUT: Out = Out::new(0, "rows", texts, "what was made");

static TEXTS: OperatorSpec = OperatorSpec {
    outputs: &[ROWS_OUT],
    ..OperatorSpec::new("texts", "Makes texts.", Kind::Stateful, never)
};
const ROWS_IN: In = In::stream(0, "rows", numbers, "what to scale");

static SCALE: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new("factor", ParameterType::Positive, Default::Number(1.0), "what to multiply by"),
        Parameter::new(
            "table",
            ParameterType::Resource("table_file"),
            Default::Required,
            "what to look up in",
        ),
        Parameter::new("exact", ParameterType::Boolean, Default::Boolean(true), "whether to round"),
    ],
    inputs: &[ROWS_IN],
    outputs: &[ROWS],
    hints_read: &[RANGE],
    code_path: Some(|_, _| "portable".to_owned()),
    ..OperatorSpec::new("scale", "Multiplies.", Kind::Stateless, never)
};
static EITHER: OperatorSpec = OperatorSpec {
    inputs: &[In { mode: Mode::Merge, about: "streams to join", ..ROWS_IN }],
    outputs: &[ROWS],
    ..OperatorSpec::new("either", "Joins streams.", Kind::Ordered, never)
};
const ALL: In = In::side(1, "all", numbers, "what to show first").optional();

static SHOW: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new("mode", ParameterType::Choice(&["fast", "exact"]), Default::Text("fast"), "how"),
        Parameter::new("most", ParameterType::integer_from(1), Default::Absent, "rows to show at most"),
        WORDS,
    ],
    inputs: &[In { about: "what to show", ..ROWS_IN }, ALL],
    hints_written: &[RANGE_WRITTEN],
    ..OperatorSpec::new("show", "Shows numbers.", Kind::Stateful, never)
};
static TABLE_FILE: ResourceSpec = ResourceSpec {
    name: "table_file",
    about: "A table in a file.",
    parameters: &[Parameter::new("path", ParameterType::Path, Default::Required, "the file")],
    example: "table: {kind: table_file, path: x.arrow}",
    provides: None,
    check: None,
    load: never_loaded,
};

fn catalog() -> Catalog {
    Catalog::new([&NUMBERS, &TEXTS, &SCALE, &EITHER, &SHOW], [&TABLE_FILE])
}

fn cases(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/pipelines").join(kind);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    files.sort();
    assert!(!files.is_empty());
    files
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

fn read(path: &Path) -> Loaded {
    let name = format!("{}.yaml", stem(path));
    pipeline::read_text(&name, &fs::read_to_string(path).unwrap())
}

fn snapshot(name: &str, text: &str) {
    insta::with_settings!({
        snapshot_path => "cases/pipelines/snapshots", prepend_module_to_snapshot => false, omit_expression => true,
    }, {
        insta::assert_snapshot!(name, text);
    });
}

/// The diagnostics of a pipeline, for users and then as JSON.
fn said(loaded: &Loaded) -> String {
    let (plan, diagnostics) = loaded.check(&catalog(), &loaded.declaration.defaults());
    let (errors, _) = diagnostic::counts(&diagnostics);
    assert_eq!(plan.is_none(), errors > 0);
    let lines: String = diagnostics.iter().map(|diagnostic| format!("{diagnostic}\n")).collect();
    format!("{lines}\n{}", diagnostic::render(&diagnostics, false))
}

#[test]
fn good_pipelines_have_no_faults() {
    for path in cases("good") {
        let loaded = read(&path);
        let (plan, diagnostics) = loaded.check(&catalog(), &loaded.declaration.defaults());
        assert!(diagnostics.is_empty(), "{}", diagnostic::render(&diagnostics, false));
        assert!(plan.is_some());
    }
}

#[test]
fn bad_pipelines_are_told_all_their_faults() {
    for path in cases("bad") {
        let loaded = read(&path);
        let said = said(&loaded);
        assert!(said.contains("error: "), "{} has no error", path.display());
        snapshot(&format!("bad_{}", stem(&path)), &said);
    }
}

#[test]
fn diagnostics_as_json() {
    let path = cases("bad").into_iter().find(|path| stem(path) == "wiring").unwrap();
    let (_, diagnostics) = read(&path).check(&catalog(), &BTreeMap::new());
    snapshot("json_wiring", &format!("{:#}", diagnostic::to_json(&diagnostics)));
}

#[test]
fn pages_and_drawings() {
    let plain = cases("good").into_iter().find(|path| stem(path) == "plain").unwrap();
    let loaded = read(&plain);
    let values = loaded.declaration.defaults();
    let (plan, _) = loaded.check(&catalog(), &values);
    let topology = Topology::synthetic("numa:2 core:2").unwrap();
    let plan = plan.unwrap();
    let (about, devices) = (&loaded.about, &LazyDevices::none());
    let explained = explain::Explained { about, plan: &plan, values: &values, topology: &topology, devices };
    snapshot("explain_plain", &explained.text());
    snapshot("explain_plain_json", &format!("{:#}", explained.json()));
    let drawn = drawing::draw(&loaded, &catalog(), &values);
    snapshot("graph_plain_mermaid", &drawing::mermaid(&drawn));
    snapshot("graph_plain_dot", &drawing::dot(&drawn));
    snapshot("graph_plain_svg", &drawing::svg(&drawn));
    let wiring = cases("bad").into_iter().find(|path| stem(path) == "everything_at_once").unwrap();
    let drawn = drawing::draw(&read(&wiring), &catalog(), &BTreeMap::new());
    snapshot("graph_broken_mermaid", &drawing::mermaid(&drawn));
    let pages = ["numbers", "scale", "show", "table_file"]
        .map(|name| catalogue::find(&catalog(), name).unwrap().text())
        .join("\n----\n\n");
    snapshot("boxes", &format!("{}\n----\n\n{pages}", catalogue::list_text(&catalog())));
    snapshot("schema", &format!("{:#}", schema::schema(&catalog())));
}

fn json_of(text: &str) -> Json {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn the_schema_takes_what_the_check_takes() {
    let own = schema::schema(&catalog());
    for path in cases("good") {
        matches(&own, &own, &json_of(&fs::read_to_string(path).unwrap())).unwrap();
    }
    let shipped = schema::schema(&boxwork_operators::catalog());
    for pipeline in boxwork::shipped::ALL {
        matches(&shipped, &shipped, &json_of(pipeline.text)).unwrap();
    }
    for wrong in [
        "boxwork: 2\nboxes: {}",
        "boxwork: 1\nboxes: {a: {kind: numbers, count: 0}}",
        "boxwork: 1\nboxes: {a: {kind: numbers, counts: 1}}",
        "boxwork: 1\nboxes: {a: {kind: numbers, copies: 2}}",
        "boxwork: 1\nboxes: {a: {kind: scale}}",
        "boxwork: 1\nboxes: {a: {kind: nombers}}",
        "boxwork: 1\nboxes: {a: {kind: show, mode: slow}}",
    ] {
        assert!(matches(&own, &own, &json_of(wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn the_shipped_pipelines_have_no_faults() {
    for shipped in boxwork::shipped::ALL {
        let loaded = shipped.load();
        let (_, diagnostics) = loaded.check(&boxwork_operators::catalog(), &loaded.declaration.defaults());
        assert!(diagnostics.is_empty(), "{}", diagnostic::render(&diagnostics, false));
    }
}

/// All steps for a text except running it.
fn use_all(text: &str) {
    let loaded = pipeline::read_text("mutated.yaml", text);
    let values = loaded.declaration.defaults();
    let (plan, diagnostics) = loaded.check(&catalog(), &values);
    let rendered = diagnostic::render(&diagnostics, false);
    assert!(!rendered.contains('\u{1b}'), "{rendered:?}");
    let (errors, _) = diagnostic::counts(&diagnostics);
    assert_eq!(plan.is_none(), errors > 0, "{rendered}");
    for diagnostic in diagnostic::to_json(&diagnostics)["diagnostics"].as_array().unwrap() {
        assert!(diagnostic["line"].as_u64().is_none_or(|line| line >= 1));
    }
    let drawn = drawing::draw(&loaded, &catalog(), &values);
    drawing::mermaid(&drawn);
    drawing::dot(&drawn);
    let picture = drawing::svg(&drawn);
    assert!(!picture.contains("NaN") && !picture.contains("inf\""), "{picture}");
    if let Some(plan) = plan {
        let topology = Topology::flat(2);
        let devices = &LazyDevices::none();
        explain::Explained { about: "", plan: &plan, values: &values, topology: &topology, devices }.text();
    }
}

#[derive(Clone, Debug)]
enum Change {
    Truncate(usize),
    Flip(usize, u8),
    Insert(usize, String),
    Remove(usize, usize),
    Swap(usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let pieces = prop_oneof![
        Just("\t".to_owned()),
        Just("${".to_owned()),
        Just("$".to_owned()),
        Just(": ".to_owned()),
        Just("- ".to_owned()),
        Just("*a ".to_owned()),
        Just("&a ".to_owned()),
        Just("<<: ".to_owned()),
        Just("{".to_owned()),
        Just("]".to_owned()),
        Just("\n".to_owned()),
        Just("\"".to_owned()),
        Just("->".to_owned()),
        Just("~>".to_owned()),
        Just(".".to_owned()),
        Just("|\n".to_owned()),
        Just("🙂ß\u{202e}".to_owned()),
        Just("\u{1b}[31m".to_owned()),
        Just("99999999999999999999".to_owned()),
        Just(".nan".to_owned()),
        Just("!!binary ".to_owned()),
        Just("? ".to_owned()),
        Just("\r\n".to_owned()),
        Just("---\n".to_owned()),
        Just("\u{feff}".to_owned()),
        Just("null".to_owned()),
    ];
    let at = 0..4096_usize;
    prop_oneof![
        at.clone().prop_map(Change::Truncate),
        (at.clone(), any::<u8>()).prop_map(|(at, bits)| Change::Flip(at, bits)),
        (at.clone(), pieces).prop_map(|(at, piece)| Change::Insert(at, piece)),
        (at.clone(), 1..20_usize).prop_map(|(at, len)| Change::Remove(at, len)),
        (at.clone(), at).prop_map(|(a, b)| Change::Swap(a, b)),
    ]
}

fn apply(text: &str, changes: &[Change]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for change in changes {
        let len = bytes.len().max(1);
        match change {
            // The truncation is rare: most of the text should stay for the other changes to matter.
            Change::Truncate(at) => bytes.truncate(at % len + len / 3),
            Change::Flip(at, bits) => {
                if let Some(byte) = bytes.get_mut(at % len) {
                    *byte ^= bits;
                }
            }
            Change::Insert(at, piece) => {
                let at = (at % len).min(bytes.len());
                bytes.splice(at..at, piece.bytes());
            }
            Change::Remove(at, count) => {
                let at = (at % len).min(bytes.len());
                bytes.drain(at..(at + count).min(bytes.len()));
            }
            Change::Swap(a, b) if !bytes.is_empty() => bytes.swap(a % len, b % len),
            Change::Swap(..) => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_front_end_panic(
        which in 0..16_usize,
        changes in prop::collection::vec(change(), 1..5),
    ) {
        let files: Vec<PathBuf> = cases("good").into_iter().chain(cases("bad")).collect();
        let text = fs::read_to_string(&files[which % files.len()]).unwrap();
        use_all(&apply(&text, &changes));
    }
}

fn boxwork(arguments: &[&str], folder: &Path) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_boxwork"));
    command.args(arguments).current_dir(folder).env("NO_COLOR", "1");
    command.output().unwrap()
}

fn talk(ended: &Ended) -> String {
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

#[test]
fn check_answers_by_its_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    put("good.yaml", b"boxwork: 1\nboxes:\n  store: {kind: list_files, paths: [x]}\n  bytes: {kind: read_files}\nedges:\n  - store -> bytes\n");
    put("latin1.yaml", b"boxwork: 1\nabout: Gr\xf6\xdfe\n");
    put("binary.yaml", b"\x7fELF\0\0");
    put("empty.yaml", b"");
    put("foreign.yml", b"name: ci\non: push\n");
    let check = |arguments: &[&str]| boxwork(&[&["check"], arguments].concat(), folder.path());

    // One warning only: `bytes` is not consumed.
    assert_eq!(check(&["good.yaml"]).status.code(), Some(0));
    assert_eq!(check(&["good.yaml", "--deny-warnings"]).status.code(), Some(1));
    assert_eq!(check(&[]).status.code(), Some(2));
    for (file, what) in [
        ("latin1.yaml", "latin1.yaml: the file is not UTF-8"),
        ("binary.yaml", "binary.yaml: the file is binary"),
        ("empty.yaml", "the file is empty"),
        ("absent.yaml", "absent.yaml: the file cannot be read"),
        ("foreign.yml", "it does not say `boxwork: 1`"),
    ] {
        let ended = check(&[file]);
        assert_eq!(ended.status.code(), Some(1), "{file}");
        assert!(talk(&ended).contains(what), "{}", talk(&ended));
        assert!(ended.stdout.is_empty());
    }
    let ended = check(&[".", "--format", "json"]);
    let found: Json = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(found["errors"], 3);
    assert_eq!(found["warnings"], 1);
    assert!(talk(&ended).contains("passed over 1 that do not say `boxwork: 1`"), "{}", talk(&ended));
}

#[test]
fn other_subcommands_answer_too() {
    let folder = tempfile::tempdir().unwrap();
    let ended = |arguments: &[&str]| boxwork(arguments, folder.path());
    assert_eq!(ended(&["boxes"]).status.code(), Some(0));
    let unknown = ended(&["boxes", "lst_files"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(talk(&unknown).contains("did you mean `list_files`?"));
    assert_eq!(ended(&["boxes", "list_files", "--format", "json"]).status.code(), Some(0));
    assert_eq!(ended(&["schema"]).status.code(), Some(0));
    assert_eq!(ended(&["topology", "--synthetic", "numa:2 core:2"]).status.code(), Some(0));
    assert_eq!(ended(&["topology", "--synthetic", "nodes:2"]).status.code(), Some(2));
    let drawn = ended(&["sample-images", "pictures", "--classes", "2", "--per-class", "1"]);
    assert_eq!(drawn.status.code(), Some(0));
    assert_eq!(fs::read_dir(folder.path().join("pictures")).unwrap().count(), 2);
    assert_eq!(ended(&["sample-images", "pictures", "--classes", "0"]).status.code(), Some(2));
}

/// This many lines, each made from its number.
fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect()
}

#[test]
fn a_text_that_holds_too_much_is_refused() {
    let boxes = "boxes:\n  a: {kind: numbers}\n  b: {kind: show}\n";
    for (text, code) in [
        (format!("boxes:\n{}", lines(1001, |n| format!("  b{n}: {{kind: numbers}}\n"))), "too-large"),
        (format!("{boxes}edges:\n{}", lines(4001, |_| "  - a -> b\n".into())), "too-large"),
        (format!("{boxes}edges:\n{}", lines(4001, |_| "  - {from: a, to: b}\n".into())), "too-large"),
        (format!("{boxes}hints:\n{}", lines(4001, |_| "  - b ~> a\n".into())), "too-large"),
        // Each arrow is an edge, whether its ends are boxes or not.
        (format!("{boxes}edges:\n  - {}b\n", "-> ".repeat(300_000)), "too-large"),
        // A value that is repeated: 600 KiB of text would need 60 GiB.
        (
            format!(
                "parameters:\n  p: {{type: text, default: {}}}\nboxes:\n  a: {{kind: \"{}\"}}\n",
                "x".repeat(500_000),
                "${p}".repeat(25_000)
            ),
            "too-large",
        ),
        (
            format!(
                "parameters:\n  p: {{type: text, default: x}}\nboxes:\n  a: {{kind: numbers, words: [{}]}}\n",
                vec!["\"${p}\""; 1001].join(", ")
            ),
            "too-large",
        ),
        (format!("parameters:\n  p: {{type: text, default: {}}}\n", "x".repeat(66_000)), "too-large"),
        (format!("boxes:\n  {}: {{kind: numbers}}\n", "b".repeat(65)), "wrong-name"),
    ] {
        let text = format!("boxwork: 1\n{text}");
        let (plan, diagnostics) =
            pipeline::read_text("large.yaml", &text).check(&catalog(), &BTreeMap::new());
        assert!(plan.is_none() && diagnostics.iter().any(|d| d.code == code), "{code}: {}", &text[..80]);
        use_all(&text);
    }
}

#[test]
fn what_a_text_may_hold_is_checked_and_drawn_without_delay() {
    let boxes = lines(1000, |n| format!("  b{n}: {{kind: either}}\n"));
    for text in [
        // Each box is declared before its producer.
        format!(
            "boxes:\n{}  b999: {{kind: numbers}}\nedges:\n{}",
            lines(999, |n| format!("  b{n}: {{kind: either}}\n")
                .replace("b0: {kind: either}", "b0: {kind: show}")),
            lines(999, |n| format!("  - b{} -> b{n}\n", n + 1)),
        ),
        format!(
            "resources:\n{}",
            lines(1000, |n| format!("  r{n}: {{kind: table_file, path: r{}}}\n", n + 1))
        ),
        format!("boxes:\n{boxes}edges:\n{}", lines(4000, |n| format!("  - no{n} -> not{n}\n"))),
        format!("boxes:\n{boxes}edges:\n{}", lines(4000, |n| format!("  - b{} -> b{}\n", n % 1000, n / 4))),
        format!(
            "boxes:\n  a: {{kind: numbers}}\n  b: {{kind: show}}\nedges:\n{}",
            "  - a -> b\n".repeat(4000)
        ),
        format!("boxes:\n  a: {{kind: scale}}\n  b: {{kind: show}}\nhints:\n{}", "  - b ~> a\n".repeat(4000)),
        format!("boxes:\n{}", lines(40_000, |n| format!("  b{}: 1\n", n / 2))),
    ] {
        use_all(&format!("boxwork: 1\n{text}"));
    }
    let text = format!("boxwork: 1\nboxes:\n{boxes}edges:\n  - {} -> b1\n", "q".repeat(60));
    let (_, diagnostics) = pipeline::read_text("names.yaml", &text).check(&catalog(), &BTreeMap::new());
    let help = diagnostics.iter().find_map(|d| d.help.as_deref().filter(|_| d.code == "unknown-box"));
    assert!(help.unwrap().ends_with("b39 and 960 more"), "{help:?}");
}
