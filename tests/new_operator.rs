//! `boxwork new operator`: the crate that it makes, and the guide that shows it.

#[path = "support/command.rs"]
mod command;

use std::fs;
use std::path::Path;
use std::process::Command;

use command::{fails, folder, ok};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The packages that cargo builds for a crate with these arguments, one a line.
fn packages(at: &Path, more: &[&str]) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(at)
        .args(["tree", "--offline", "--edges", "normal,build", "--prefix", "none"])
        .args(more);
    let output = cargo.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_new_operator_is_built_without_the_command_line_and_the_images() {
    let folder = folder();
    ok(folder.path(), &["new", "operator", "near-by", "--path", ROOT]);
    let at = folder.path().join("near-by");
    // The versions of the workspace, which are on this machine.
    fs::copy(Path::new(ROOT).join("Cargo.lock"), at.join("Cargo.lock")).expect("a copy");
    let alone = packages(&at, &[]);
    assert!(alone.starts_with("near-by v0.1.0") && alone.contains("boxwork-runtime v"), "{alone}");
    for unwanted in [
        "boxwork",
        "boxwork-operators",
        "clap",
        "miette",
        "indicatif",
        "image",
        "serde_json",
        "axum",
        "hyper",
        "tokio",
    ] {
        assert!(!alone.contains(&format!("\n{unwanted} v")), "{unwanted} in {alone}");
    }
    let whole = packages(&at, &["--features", "command"]);
    assert!(whole.contains("\nboxwork v") && whole.contains("\nclap v"), "{whole}");
}

#[test]
fn the_guide_shows_what_the_command_makes() {
    let folder = folder();
    ok(folder.path(), &["new", "operator", "near"]);
    let guide = fs::read_to_string(Path::new(ROOT).join("docs/guide/src/operators.md")).expect("the guide");
    for (file, language) in
        [("Cargo.toml", "toml"), ("src/lib.rs", "rust,ignore"), ("src/main.rs", "rust,ignore")]
    {
        let text = fs::read_to_string(folder.path().join("near").join(file)).expect("a file");
        assert!(
            guide.contains(&format!("```{language}\n{text}```\n")),
            "{file} differs in operators.md:\n{text}"
        );
    }
}

#[test]
fn a_name_or_a_folder_that_cannot_be_is_refused() {
    let folder = folder();
    let at = folder.path();
    assert!(fails(at, &["new", "operator", "top-k"], 2).contains("there is an operator `top_k` already"));
    assert!(fails(at, &["new", "operator", "fn"], 2).contains("the language, cargo or"));
    assert!(fails(at, &["new", "operator", "near", "--path", "."], 2).contains("no checkout of Boxwork"));
    fs::create_dir(at.join("near")).expect("a folder");
    fs::write(at.join("near/Cargo.toml"), "mine").expect("a file");
    assert!(fails(at, &["new", "operator", "near"], 2).contains("`near` is there already"));
    assert!(fails(at, &["new", "operator", "results"], 2).contains("the new crate's own text"));
    assert_eq!(fs::read_to_string(at.join("near/Cargo.toml")).expect("my file"), "mine");
}

#[test]
fn a_name_that_contains_the_examples_name_is_written_once() {
    let folder = folder();
    ok(folder.path(), &["new", "operator", "my_new_operator"]);
    let read =
        |file: &str| fs::read_to_string(folder.path().join("my_new_operator").join(file)).expect("a file");
    assert!(read("Cargo.toml").contains("name = \"my_new_operator\""), "{}", read("Cargo.toml"));
    assert!(read("src/main.rs").contains("&my_new_operator::MY_NEW_OPERATOR"), "{}", read("src/main.rs"));
    assert!(!read("src/lib.rs").contains("my_my"), "{}", read("src/lib.rs"));
}
