//! A run reports on request: figures while it runs, and a report at its end.

#[path = "support/command.rs"]
mod command;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Output, Stdio};

use command::boxwork;
use serde_json::Value as Json;
use tempfile::TempDir;

const POINTS: &str = r#"{"name": "a", "centroids": [[0, 0]], "weights": [1]}
{"name": "b", "centroids": [[1, 0]], "weights": [2]}
"#;

fn run(folder: &Path, arguments: &[&str], status: i32) -> (String, String) {
    let Output { status: ended, stdout, stderr } =
        boxwork(folder).args(arguments).output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let (data, said) = (text(stdout), text(stderr));
    assert_eq!(ended.code(), Some(status), "{arguments:?}: {said}");
    (data, said)
}

fn with_store() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("v.jsonl"), POINTS).expect("written");
    run(folder.path(), &["import", "v.jsonl", "--out", "v.arrow"], 0);
    folder
}

fn pipeline(name: &str) -> String {
    format!("{}/pipelines/{name}.yaml", env!("CARGO_MANIFEST_DIR"))
}

/// An import from standard input, which runs until that is closed, and the address of its figures.
struct Endless {
    child: Child,
    said: BufReader<ChildStderr>,
    address: String,
}

impl Endless {
    fn start(folder: &Path) -> Self {
        let file = pipeline("import");
        let arguments =
            ["run", &file, "--set", "path=-", "--set", "out=x.arrow", "--metrics", "0", "--workers", "2"];
        let mut command = boxwork(folder);
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        let address =
            line.trim().strip_prefix("metrics: http://").and_then(|url| url.strip_suffix("/metrics"));
        let address = address.unwrap_or_else(|| panic!("no address in {line}")).to_owned();
        assert!(address.starts_with("127.0.0.1:"), "{address}");
        Self { child, said, address }
    }

    fn page(&self) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        answer
    }

    /// The page, once a box has fired: threads may start late.
    fn page_with(&self, what: &str) -> String {
        loop {
            let page = self.page();
            if page.contains(what) {
                return page;
            }
            std::thread::yield_now();
        }
    }

    fn end(mut self) {
        self.child.stdin.take().expect("a pipe").write_all(POINTS.as_bytes()).expect("taken");
        assert_eq!(self.child.wait().expect("an end").code(), Some(0));
        let mut said = String::new();
        self.said.read_to_string(&mut said).expect("text");
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn a_run_is_watched_while_it_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let endless = Endless::start(folder.path());
    let page = endless
        .page_with("boxwork_box_firings_total{request=\"1\",box=\"lines\",operator=\"read_jsonl\"} 1\n");
    for line in ["boxwork_requests 1", "boxwork_class_limit{class=\"disk\"} 4"] {
        assert!(page.lines().any(|known| known == line), "{line} is not in {page}");
    }
    assert!(page.contains("\nboxwork_edge_envelopes{request=\"1\",from=\"lines."), "{page}");
    // Clients that break off, or speak another protocol, do not affect the run.
    TcpStream::connect(&endless.address).expect("a connection").write_all(b"\0\0\0\r\n\r\n").expect("sent");
    drop(TcpStream::connect(&endless.address).expect("a connection"));

    let (shown, _) = run(folder.path(), &["top", &endless.address, "--once", "--interval", "0.05"], 0);
    for expected in
        ["requests 1", "shared cache", "lines", "read_jsonl", "write_store", "blocking class", "disk"]
    {
        assert!(shown.contains(expected), "{expected} is not in {shown}");
    }
    assert!(!shown.contains('\u{1b}'), "no terminal, no control characters");

    let taken = ["search", "--store", "v.arrow", "--query", "a", "--metrics", &endless.address];
    let (_, said) = run(folder.path(), &taken, 3);
    assert!(said.contains(&endless.address) && said.contains("another run"), "{said}");
    let address = endless.address.clone();
    endless.end();
    let (_, said) = run(folder.path(), &["top", &address, "--once"], 3);
    assert!(said.contains("no run is listening") && said.contains("--metrics"), "{said}");
    let (_, said) = run(folder.path(), &["top", "somewhere"], 2);
    assert!(said.contains("is no address"), "{said}");
}

#[test]
fn a_search_serves_its_figures_too() {
    let folder = with_store();
    let search = ["search", "--store", "v.arrow", "--query", "a", "--metrics", "127.0.0.1:0"];
    let (found, said) = run(folder.path(), &search, 0);
    assert!(found.contains('b') && said.contains("metrics: http://127.0.0.1:"), "{said}");
}

#[test]
fn a_report_is_written_and_drawn() {
    let folder = with_store();
    let at = folder.path();
    run(at, &["search", "--store", "v.arrow", "--query", "a", "--report", "run.json"], 0);
    let text = fs::read_to_string(at.join("run.json")).expect("a report");
    let report: Json = serde_json::from_str(&text).expect("JSON");
    let distance =
        report["boxes"].as_array().expect("boxes").iter().find(|of_box| of_box["name"] == "distance");
    let distance = distance.expect("the box");
    assert_eq!((&distance["rows_out"], &distance["operator"]), (&Json::from(2), &Json::from("distance")));
    assert!(report["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
    let edges = report["edges"].as_array().expect("edges");
    assert_eq!(edges.len(), 8, "one for all copies: {edges:?}");

    let file = pipeline("search");
    for (format, busiest) in [("mermaid", ":::busiest"), ("dot", "fillcolor"), ("svg", "the busiest box")] {
        let (drawn, said) = run(at, &["graph", &file, "--with", "run.json", "--format", format], 0);
        assert!(
            drawn.contains("rows/s") && drawn.contains("busy ") && drawn.contains("most 1 of"),
            "{drawn}"
        );
        assert!(drawn.contains(busiest), "{drawn}");
        assert_eq!(said, "");
    }
    let (_, said) = run(at, &["graph", &pipeline("import"), "--with", "run.json"], 0);
    assert!(said.contains("warning: the report has no box `lines`"), "{said}");
    for (name, content) in [("a.json", "{}"), ("b.json", "no JSON"), ("c.json", "[1]")] {
        fs::write(at.join(name), content).expect("written");
        let (_, said) = run(at, &["graph", &file, "--with", name], 2);
        assert!(said.contains(name) && said.contains("run --report"), "{said}");
    }
    fs::write(at.join("d.json"), text.replace("\"boxwork_report\": 1", "\"boxwork_report\": 9"))
        .expect("written");
    let (_, said) = run(at, &["graph", &file, "--with", "d.json"], 2);
    assert!(said.contains("version 9"), "{said}");
    run(at, &["graph", &file, "--with", "nowhere.json"], 2);
    let unwritable = ["search", "--store", "v.arrow", "--query", "a", "--report", "no/folder.json"];
    assert!(run(at, &unwritable, 3).1.contains("no/folder.json"));
}

#[test]
fn an_automatic_limit_is_told() {
    let folder = with_store();
    let out = ["import", "v.jsonl", "--out", "w.arrow", "--stats", "--report", "r.json"];
    let (_, said) = run(folder.path(), &[&out[..], &["--blocking", "disk=auto"]].concat(), 0);
    assert!(said.contains("at once (auto: 4 at the end)"), "{said}");
    let report: Json =
        serde_json::from_str(&fs::read_to_string(folder.path().join("r.json")).expect("a report"))
            .expect("JSON");
    assert_eq!((&report["classes"][0]["auto"], &report["classes"][0]["limit"]), (&true.into(), &4.into()));
    for limit in ["disk", "disk=0", "=4", "disk=Auto"] {
        let (_, said) = run(folder.path(), &[&out[..], &["--blocking", limit]].concat(), 2);
        assert!(said.contains("disk=auto"), "{said}");
    }
}
