//! The command in a folder of the test's own.
#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value as Json;
use tempfile::TempDir;

pub fn boxwork(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_boxwork"));
    command.current_dir(folder).env("NO_COLOR", "1").env_remove("RUST_BACKTRACE");
    command
}

pub fn run(folder: &Path, arguments: &[&str]) -> Output {
    boxwork(folder).args(arguments).output().expect("the command starts")
}

/// Runs a call that must succeed, and returns its standard output.
pub fn ok(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the output is text")
}

/// Runs a call that must end with this status, and returns its messages.
pub fn fails(folder: &Path, arguments: &[&str], status: i32) -> String {
    let output = run(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

/// Runs a call that must succeed, and returns its statistics.
pub fn stats(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, &[arguments, &["--stats"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

pub fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder for the test")
}

/// Signatures of two dimensions as JSON lines, imported as `v.arrow`.
pub fn with_points(lines: &str) -> TempDir {
    let folder = folder();
    fs::write(folder.path().join("v.jsonl"), lines).expect("the lines are written");
    ok(folder.path(), &["import", "v.jsonl", "--out", "v.arrow"]);
    folder
}

pub const POINTS: &str = r#"{"name": "a", "centroids": [[0, 0]], "weights": [1]}
{"name": "b", "centroids": [[1, 0]], "weights": [2]}
{"name": "c", "centroids": [[0, 0], [3, 4]], "weights": [1, 1]}
"#;
