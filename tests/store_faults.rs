//! Stores and results under faults of the disk: a store truncated while it is read, a full disk, a killed writer.
//!
//! Each test makes its data in its own folder.

#[path = "support/command.rs"]
mod command;
#[path = "support/values.rs"]
mod values;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output as Ended, Stdio};
use std::sync::Arc;

use boxwork::{pipeline, shipped};
use boxwork_operators::catalog;
use boxwork_operators::columns;
use boxwork_runtime::operator::{
    Bind, BoxError, Catalog, Context, Environment, Flow, In, Kind, Operator, OperatorSpec, Out,
};
use boxwork_runtime::parameter::{Default as Given, Parameter, ParameterType, Value};
use boxwork_runtime::plan::Declaration;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};
use command::{boxwork, ok};
use tempfile::TempDir;
use values::path_value;

/// Objects of one centroid, in classes, as `v.jsonl` and `v.arrow`.
fn with_store(objects: usize) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let line = |n: usize| {
        format!("{{\"name\": \"class{}/o{n}\", \"centroids\": [[{n}, 0.5]], \"weights\": [1]}}\n", n % 9)
    };
    let lines: String = (0..objects).map(line).collect();
    fs::write(folder.path().join("v.jsonl"), lines).expect("the lines are written");
    ok(folder.path(), &["import", "v.jsonl", "--out", "v.arrow"]);
    folder
}

/// Names in a folder that begin with a dot: temporary files.
fn hidden(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder").filter_map(Result::ok);
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with('.')).collect()
}

fn cut(path: &Path, bytes: u64) {
    File::options().write(true).open(path).expect("the store").set_len(bytes).expect("cut");
}

type Values = Vec<(&'static str, Value)>;

/// A prepared pipeline over a store.
struct Ready {
    prepared: Arc<Prepared>,
    out: PathBuf,
}

impl Ready {
    fn new(declaration: &Declaration, catalog: &Catalog, store: &Path, extra: &[(&str, Value)]) -> Self {
        let out = store.with_extension("out");
        let mut values =
            BTreeMap::from([("store".to_owned(), path_value(store)), ("out".to_owned(), path_value(&out))]);
        values.extend(extra.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let prepared = Prepared::new(declaration, catalog, &values, &Environment::of_slots(2));
        Self { prepared: Arc::new(prepared.unwrap_or_else(|error| panic!("{error}"))), out }
    }

    fn run(&self, runtime: &Runtime) -> Result<Vec<u8>, String> {
        let request = runtime.submit(&self.prepared, &Submission::default()).expect("a request");
        request.wait().result.map_err(|error| error.to_string())?;
        Ok(fs::read(&self.out).expect("the results"))
    }
}

fn queries() -> (&'static str, Value) {
    let names = ["class1/o1", "class3/o9003"].map(|name| Value::Text(name.to_owned()));
    ("queries", Value::List(names.to_vec()))
}

fn check_refusal(store: &Path, result: Result<Vec<u8>, String>) {
    let said = result.expect_err("a request on a store that was cut short");
    let name = store.display().to_string();
    for words in [name.as_str(), "cut short", "restore it", "boxwork extract"] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_store_cut_short_fails_its_requests_and_no_others() {
    let folder = with_store(10_000);
    let at = |name: &str| folder.path().join(name);
    let whole = fs::read(at("v.arrow")).expect("the store");
    let length = whole.len() as u64;
    let format = ("format", Value::Text("json".to_owned()));
    let pipelines: [(&str, Declaration, Values); 4] = [
        ("search", shipped::SEARCH.load().declaration, vec![queries(), format.clone()]),
        (
            "range",
            shipped::RANGE.load().declaration,
            vec![queries(), format.clone(), ("range", Value::Number(0.9))],
        ),
        (
            "minus",
            shipped::SEARCH.load().declaration,
            vec![queries(), format, ("similarity", Value::Text("minus".to_owned()))],
        ),
        ("export", shipped::EXPORT.load().declaration, vec![]),
    ];
    let runtime = Runtime::start(Config::flat(2)).expect("a runtime");
    fs::copy(at("v.arrow"), at("other.arrow")).expect("a copy");
    for (name, declaration, extra) in &pipelines {
        let other = Ready::new(declaration, &catalog(), &at("other.arrow"), extra);
        let expected = other.run(&runtime).expect("a sound store");
        // Before the first read, and after it, when the checksums are not compared again. A cut in the last page gives
        // zeros without a signal.
        for (bytes, is_read_before) in
            [(0, false), (length / 2, false), (length / 2, true), (length - 9, true)]
        {
            let path = at(&format!("{name}.arrow"));
            fs::write(&path, &whole).expect("the store");
            let ready = Ready::new(declaration, &catalog(), &path, extra);
            if is_read_before {
                assert!(ready.run(&runtime) == Ok(expected.clone()), "{name}");
            }
            fs::write(&ready.out, "old").expect("written");
            cut(&path, bytes);
            for _ in 0..2 {
                check_refusal(&path, ready.run(&runtime));
            }
            assert_eq!(fs::read(&ready.out).expect("the old results"), b"old");
            assert!(other.run(&runtime).as_ref() == Ok(&expected), "{name} of another store");
            drop(ready);
        }
    }
    // Similarities computed from zeros would pass for those of the whole store.
    let entries = fs::read_dir(folder.path()).expect("the folder").filter_map(Result::ok);
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let kept: Vec<String> = names.filter(|name| name.ends_with(".sigma")).collect();
    assert!(!kept.is_empty() && kept.iter().all(|name| name.starts_with("other.arrow")), "{kept:?}");
    assert_eq!(hidden(folder.path()), [""; 0]);
}

const CANDIDATES: In = In::stream(0, "candidates", columns::candidates, "any candidates");
const PASSED: Out = Out::new(0, "passed", columns::candidates, "what came in");

/// Passes candidates, and truncates a file before the first of them leaves.
static CUTS: OperatorSpec = OperatorSpec {
    parameters: &[Parameter::new("path", ParameterType::Path, Given::Required, "the file to cut short")],
    inputs: &[CANDIDATES],
    outputs: &[PASSED],
    example: "saw: {kind: cuts, path: s.arrow}",
    ..OperatorSpec::new("cuts", "Cuts a file short.", Kind::Stateful, make_cuts)
};

fn make_cuts(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(Cuts { path: Some(bind.path("path")) }))
}

struct Cuts {
    path: Option<PathBuf>,
}

impl Operator for Cuts {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(PASSED) {
            let Some(envelope) = cx.take(CANDIDATES) else {
                return Ok(if cx.is_ended(CANDIDATES) { Flow::Done } else { Flow::Wait });
            };
            if let Some(path) = self.path.take() {
                cut(&path, 8192);
            }
            cx.push(PASSED, envelope)?;
        }
        Ok(Flow::Wait)
    }
}

#[test]
fn a_store_cut_short_in_the_midst_of_a_request_gives_no_distance() {
    let folder = with_store(10_000);
    let path = folder.path().join("v.arrow");
    let shipped = include_str!("../pipelines/search.yaml");
    let text_with_saw = shipped
        .replace("\n  scan: ", "\n  saw:      {kind: cuts, path: \"${store}\"}\n  scan: ")
        .replace("scan.queries -> distance.candidates", "scan.queries -> saw -> distance.candidates");
    assert_eq!(text_with_saw.matches("saw").count(), 2);
    let loaded = pipeline::load_text("with_saw.yaml", &text_with_saw);
    let loaded = loaded.unwrap_or_else(|_| panic!("{text_with_saw}"));
    let format = ("format", Value::Text("csv".to_owned()));
    let ready = Ready::new(&loaded.declaration, &catalog().with(&CUTS), &path, &[queries(), format]);
    let runtime = Runtime::start(Config::flat(2)).expect("a runtime");
    check_refusal(&path, ready.run(&runtime));
    assert!(!ready.out.exists());
    drop(ready);
    assert_eq!(hidden(folder.path()), [""; 0]);
    let left = fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(left, 2, "the lines and what is left of the store, no similarities");
}

#[test]
fn the_command_says_that_its_store_was_cut_short() {
    // Enough batches that the last are not read yet while the first results wait: the pipe and the edge hold a few.
    let folder = with_store(60_000);
    let mut command = boxwork(folder.path());
    command.args(["export", "v.arrow"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let first = lines.next().expect("a line").expect("text");
    assert!(first.contains("class0/o0"), "{first}");
    cut(&folder.path().join("v.arrow"), 8192);
    let rest = lines.map(|line| line.expect("text"));
    for (line, n) in rest.zip(1..) {
        assert!(line.is_empty() || line.contains(&format!("/o{n}\"")), "line {n}: {line}");
    }
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert_eq!(child.wait().expect("a status").code(), Some(3), "{said}");
    assert!(said.contains("`v.arrow` was cut short") && said.contains("restore it"), "{said}");
}

/// A call whose file cannot be written, and that file.
struct Full {
    arguments: Vec<&'static str>,
    out: &'static str,
}

fn calls() -> Vec<Full> {
    let search = |format: &'static str| Full {
        arguments: vec![
            "search",
            "--store",
            "v.arrow",
            "--query",
            "class1/o1",
            "-k",
            "200",
            "--format",
            format,
        ],
        out: "results",
    };
    vec![
        Full {
            arguments: vec!["extract", "images", "--points", "300", "--seeds", "60", "--force"],
            out: "s.arrow",
        },
        Full { arguments: vec!["import", "v.jsonl", "--force"], out: "w.arrow" },
        Full { arguments: vec!["export", "v.arrow", "--force"], out: "w.jsonl" },
        search("table"),
        search("json"),
        search("csv"),
        search("html"),
    ]
}

fn with_store_and_images() -> TempDir {
    let folder = with_store(300);
    ok(folder.path(), &["sample-images", "images", "--classes", "1", "--per-class", "3", "--seed", "3"]);
    folder
}

/// The messages of a call that could not write a file.
fn check_full(call: &Full, ended: &Ended, cause: &str) {
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(3), "{:?}: {said}", call.arguments);
    for words in [call.out, cause, "write to another"] {
        assert!(said.contains(words), "{:?} does not say `{words}`: {said}", call.arguments);
    }
}

#[test]
fn a_file_beyond_the_limit_of_its_size_kills_no_command_and_leaves_the_old_one_or_none() {
    let folder = with_store_and_images();
    for is_there in [true, false] {
        for call in calls() {
            let out = folder.path().join(call.out);
            let _ = fs::remove_file(&out);
            if is_there {
                fs::write(&out, "old").expect("written");
            }
            // A write beyond one block fails like on a full disk.
            let mut command = Command::new("sh");
            command.current_dir(folder.path()).env("NO_COLOR", "1");
            command.args(["-c", "ulimit -f 1; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_boxwork")]);
            let ended = command.args(&call.arguments).args(["--out", call.out]).output().expect("a shell");
            check_full(&call, &ended, "File too large");
            assert_eq!(fs::read(&out).ok(), is_there.then(|| b"old".to_vec()), "{:?}", call.arguments);
            assert_eq!(hidden(folder.path()), [""; 0], "{:?}", call.arguments);
        }
    }
}

#[test]
fn a_trace_and_a_report_that_do_not_fit_leave_the_old_files_or_none() {
    let folder = with_store(300);
    let read = |name: &str| fs::read(folder.path().join(name)).ok();
    for is_there in [true, false] {
        for (option, name) in [("--trace", "trace.json"), ("--report", "report.json")] {
            let _ = fs::remove_file(folder.path().join(name));
            if is_there {
                fs::write(folder.path().join(name), "old").expect("written");
            }
            // A write beyond one block fails like on a full disk.
            let mut command = Command::new("sh");
            command.current_dir(folder.path()).env("NO_COLOR", "1");
            command.args(["-c", "ulimit -f 1; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_boxwork")]);
            command.args(["search", "--store", "v.arrow", "--query", "class1/o1", option, name]);
            let ended = command.output().expect("a shell");
            let said = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.code(), Some(3), "{said}");
            assert!(said.contains(name) && said.contains("File too large"), "{said}");
            assert_eq!(read(name), is_there.then(|| b"old".to_vec()), "{option}");
            assert_eq!(hidden(folder.path()), [""; 0], "{option}");
        }
    }
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    // A small disk for the test, if the system allows mounts. It disappears with the shell, which therefore checks the
    // leftovers.
    const SCRIPT: &str =
        "set -e; disk=$1; shift; mount -t tmpfs -o size=64k none \"$disk\"; printf old > \"$disk/$1\"
        dd if=/dev/zero of=\"$disk/filler\" bs=4096 2>/dev/null || true
        set +e; shift; \"$@\"; status=$?; cd \"$disk\"; ls -A; cat [!f]*; exit $status";
    let folder = with_store_and_images();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).expect("a folder");
    let in_space = |script: &str| {
        let mut command = Command::new("unshare");
        command
            .current_dir(folder.path())
            .env("NO_COLOR", "1")
            .args(["-rm", "sh", "-c", script, "sh"])
            .arg(&disk);
        command
    };
    let can_mount = in_space("mount -t tmpfs -o size=64k none \"$1\"").output();
    if !can_mount.as_ref().is_ok_and(|ended| ended.status.success()) {
        eprintln!("left out: this system lets no test mount a disk of its own ({can_mount:?})");
        return;
    }
    for call in calls() {
        let out = format!("disk/{}", call.out);
        let mut command = in_space(SCRIPT);
        command.arg(call.out).arg(env!("CARGO_BIN_EXE_boxwork")).args(&call.arguments).args(["--out", &out]);
        let ended = command.output().expect("a shell");
        check_full(&call, &ended, "No space left on device");
        // An extraction keeps what it has done, and continues when there is room.
        let partial =
            if call.arguments[0] == "extract" { format!("{}.partial\n", call.out) } else { String::new() };
        let left = format!("filler\n{}\n{partial}old", call.out);
        assert_eq!(String::from_utf8_lossy(&ended.stdout), left, "{:?}", call.arguments);
    }
}

#[test]
fn a_full_standard_output_is_an_error() {
    let folder = with_store(300);
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        eprintln!("left out: this system has no /dev/full");
        return;
    };
    let search = ["search", "--store", "v.arrow", "--query", "class1/o1", "--format", "csv"];
    for arguments in [&["export", "v.arrow"][..], &search] {
        let stdout = full.try_clone().expect("a handle");
        let ended =
            boxwork(folder.path()).args(arguments).stdout(stdout).output().expect("the command starts");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(3), "{said}");
        assert!(said.contains("standard output") && said.contains("No space left on device"), "{said}");
    }
}

#[test]
fn the_next_writer_removes_what_a_killed_one_left() {
    let folder = with_store(5000);
    let mut command = boxwork(folder.path());
    // The pipe stays open, so the writer waits for more.
    command.args(["run", concat!(env!("CARGO_MANIFEST_DIR"), "/pipelines/import.yaml")]);
    command.args(["--set", "path=-", "--set", "out=w.arrow"]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the command starts");
    let lines = fs::read(folder.path().join("v.jsonl")).expect("lines");
    std::io::Write::write_all(child.stdin.as_mut().expect("a pipe"), &lines).expect("the pipe takes them");
    while hidden(folder.path()).is_empty() {
        assert!(child.try_wait().expect("a status").is_none(), "it waits for the rest of its input");
        std::thread::yield_now();
    }
    ok(folder.path(), &["import", "v.jsonl", "--out", "w.arrow"]);
    assert_eq!(hidden(folder.path()).len(), 1, "the other writer is alive");
    child.kill().expect("killed");
    child.wait().expect("a status");
    assert_eq!(hidden(folder.path()).len(), 1);
    ok(folder.path(), &["import", "v.jsonl", "--out", "x.arrow"]);
    assert_eq!(hidden(folder.path()).len(), 1, "a file of another name is not touched");
    ok(folder.path(), &["import", "v.jsonl", "--out", "w.arrow", "--force"]);
    assert_eq!(hidden(folder.path()), [""; 0]);
}
