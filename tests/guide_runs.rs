//! The blocks of the guide and of the README do what the pages say.
//!
//! Each page runs in a folder of its own, its blocks in order. Marks after the language of a fence, cut at commas:
//!
//! - `sh`: the commands, by `sh`; `sh,exit=1` ends with that status. `sh,no_run` is not run: a comment above the block,
//!   `<!-- not run: REASON -->`, says why.
//! - `text`: what the commands of the block above it print, compared with times, sizes and rates masked. `text,example`
//!   is not compared.
//! - `console`: commands after `$ `, each followed by what it prints.
//! - `yaml`: a whole pipeline or sweep, checked; `yaml,file=NAME` also leaves it in the folder. `yaml,part` is not
//!   whole; the test `guide` checks what it has.
//!
//! `<!-- needs: NAME ... -->` at the head of a page lists the data that are there already: `Pictures`, `some.jpg`,
//! `new-photos`, `photos.signatures.arrow`, `photos.pivots.arrow`, `vectors.jsonl`, `more.jsonl`. With BOXWORK_WRITE_GUIDE=1 the `text` blocks are written again.
#![cfg(unix)]

#[path = "support/guide.rs"]
mod guide;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{env, iter};

use guide::{Fence, Page, pages, root, src};
use tempfile::TempDir;

/// The number of blocks that are not run, and of outputs that are examples. A page that adds one changes it here.
const NOT_RUN: usize = 21;
const EXAMPLES: usize = 4;

/// Pictures of three classes, with names as in the guide, made and extracted once for all pages.
fn data() -> &'static Path {
    static DATA: OnceLock<TempDir> = OnceLock::new();
    let make = || {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        let boxwork = |arguments: &str| ran(at, &format!("boxwork {arguments}"), 0);
        boxwork("sample-images Pictures --classes 3 --per-class 14");
        boxwork("sample-images new-photos --classes 2 --per-class 2 --seed 7");
        let classes = fs::read_dir(at.join("Pictures")).expect("classes");
        let mut classes: Vec<PathBuf> = classes.map(|entry| entry.expect("a class").path()).collect();
        classes.sort();
        for (class, name) in classes.iter().zip(["cats", "dogs", "sunsets"]) {
            fs::rename(class, at.join("Pictures").join(name)).expect("renamed");
        }
        fs::copy(at.join("Pictures/cats/001.jpg"), at.join("some.jpg")).expect("copied");
        boxwork("extract Pictures --out photos.signatures.arrow");
        boxwork("index --store photos.signatures.arrow --pivots 8 --out photos.pivots.arrow");
        let line = |nth: i32| format!("{{\"name\": \"v{nth}\", \"object\": [{}, {}]}}\n", nth % 7, nth % 5);
        fs::write(at.join("vectors.jsonl"), (0..40).map(line).collect::<String>()).expect("written");
        fs::write(at.join("more.jsonl"), line(41)).expect("written");
        folder
    };
    DATA.get_or_init(make).path()
}

/// Runs a script as a user would, who has the command on the path and the folder as home. Returns all that it prints.
fn ran(folder: &Path, script: &str, status: i32) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_boxwork")).parent().expect("a folder");
    let path = env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    command.current_dir(folder).stdin(Stdio::null());
    command.env("HOME", folder).env("NO_COLOR", "1").env("PATH", format!("{}:{path}", binary.display()));
    // A device that the machine has makes other lines.
    command.env("OCL_ICD_VENDORS", "/nonexistent").env("BOXWORK_CACHE", folder.join(".cache"));
    command.arg("-ec").arg(format!("exec 2>&1\n{script}"));
    let output = command.output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(status), "{script}\n{said}");
    assert!(!said.contains("panicked"), "{script}\n{said}");
    said
}

/// The data that a page needs, in a folder of its own.
fn folder_for(page: &Page) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let needs = page.text.lines().find_map(|line| line.strip_prefix("<!-- needs: ")?.strip_suffix(" -->"));
    for name in needs.into_iter().flat_map(str::split_whitespace) {
        let from = data().join(name);
        assert!(from.exists(), "{} needs {name}, which nothing makes", page.name());
        let copied = Command::new("cp").arg("-r").arg(&from).arg(folder.path()).status();
        assert!(copied.expect("cp").success());
    }
    folder
}

/// A text in which what differs from run to run is masked: numbers before a unit of time, size or rate.
fn masked(text: &str) -> String {
    const UNITS: [&str; 12] = ["s", "ms", "us", "ns", "min", "%", "B", "KiB", "MiB", "GiB", "MB", "GB"];
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        let next = words.iter().skip(1).map(Some).chain(iter::once(None));
        let mask = |(word, next): (&&str, Option<&&str>)| {
            let unit = next.map(|next| next.trim_end_matches([',', ';', ')', '.']));
            let is_measured =
                is_number(word.trim_start_matches('(')) && unit.is_some_and(|unit| UNITS.contains(&unit));
            if is_measured { "#".to_owned() } else { (*word).to_owned() }
        };
        words.iter().zip(next).map(mask).collect::<Vec<_>>().join(" ")
    };
    text.trim_end().lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The blocks of a page, counted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    not_run: usize,
    examples: usize,
    run: usize,
    compared: usize,
    checked: usize,
}

/// Runs the blocks of a page in order. Returns its text with the outputs as they are now.
fn run(page: &Page, counts: &mut Counts) -> String {
    let fences = page.fences();
    let folder = folder_for(page);
    let at = folder.path();
    let mut said = None;
    let mut text = page.text.clone();
    for fence in &fences {
        let place = format!("{}:{}", page.name(), fence.line);
        match fence.language() {
            "sh" if fence.is("no_run") => {
                assert!(fence.before.starts_with("<!-- not run: "), "{place}: say why it is not run");
                counts.not_run += 1;
                said = None;
            }
            "sh" => {
                let status = fence.value("exit").map_or(0, |status| status.parse().expect("a status"));
                println!("{place}");
                said = Some(ran(at, &fence.text, status));
                counts.run += 1;
            }
            "text" if fence.is("example") => counts.examples += 1,
            "text" => {
                assert!(fence.follows, "{place}: a text follows its commands, or is an example");
                let said = said.as_ref().unwrap_or_else(|| panic!("{place}: no command is above"));
                let now = said.trim_end().to_owned() + "\n";
                if masked(&now) != masked(&fence.text) && env::var_os("BOXWORK_WRITE_GUIDE").is_some() {
                    text = text.replacen(
                        &format!("```text\n{}```", fence.text),
                        &format!("```text\n{now}```"),
                        1,
                    );
                } else {
                    assert_eq!(
                        masked(&now),
                        masked(&fence.text),
                        "{place}; BOXWORK_WRITE_GUIDE=1 writes it again"
                    );
                }
                counts.compared += 1;
            }
            "console" => {
                for (command, expected) in steps(&fence.text) {
                    let now = ran(at, command, 0);
                    assert_eq!(masked(&now), masked(expected), "{place}: {command}");
                    counts.run += 1;
                    counts.compared += 1;
                }
            }
            "yaml" if fence.is("part") => {}
            "yaml" => {
                check(at, fence, &place);
                counts.checked += 1;
            }
            "rust" | "toml" | "json" => {}
            // The tests of the Python package run these: python/tests/test_guide.py. Those of `py` need more than numpy.
            "python" | "py" => {}
            other => panic!("{place}: a block of `{other}`"),
        }
    }
    text
}

/// The commands of a console, each with the lines up to the next one.
fn steps(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let steps = text.strip_prefix("$ ").into_iter().flat_map(|text| text.split("\n$ "));
    steps.map(|step| step.split_once('\n').unwrap_or((step, "")))
}

/// Checks a pipeline or a sweep, and leaves it where the page's commands find it.
fn check(at: &Path, fence: &Fence, place: &str) {
    let name = fence.value("file").unwrap_or("block.yaml");
    fs::write(at.join(name), &fence.text).expect("written");
    println!("{place}");
    let is_sweep = fence.text.starts_with("experiment:");
    let script =
        if is_sweep { format!("boxwork experiment {name} --check") } else { format!("boxwork check {name}") };
    ran(at, &script, 0);
}

#[test]
fn the_blocks_of_the_guide_run() {
    let mut all = pages(&src());
    // Its examples are parts, which the test `guide` checks.
    all.retain(|page| !page.path.starts_with(src().join("reference")));
    all.push(Page::read(&root().join("README.md")));
    let mut sum = Counts::default();
    let mut of_pages = BTreeMap::new();
    for page in &all {
        let mut counts = Counts::default();
        let text = run(page, &mut counts);
        if text != page.text {
            fs::write(&page.path, text).expect("written");
        }
        sum.not_run += counts.not_run;
        sum.examples += counts.examples;
        sum.run += counts.run;
        sum.compared += counts.compared;
        sum.checked += counts.checked;
        of_pages.insert(page.name(), counts);
    }
    assert_eq!((sum.not_run, sum.examples), (NOT_RUN, EXAMPLES), "{of_pages:#?}");
    assert!(sum.run >= 15 && sum.compared >= 3 && sum.checked >= 4, "{of_pages:#?}");
}

#[test]
fn times_and_sizes_are_masked_and_steps_are_cut() {
    assert_eq!(masked("wrote a: 12 images in 9.4 s; 3 left\n"), "wrote a: 12 images in # s; 3 left");
    assert_eq!(masked("(0.5  MiB) 7\n"), "# MiB) 7");
    assert_ne!(masked("12 images in 1 s"), masked("13 images in 1 s"));
    let steps: Vec<_> = steps("$ a b\nc\nd\n$ e\n$ f\n").collect();
    assert_eq!(steps, [("a b", "c\nd"), ("e", ""), ("f", "")]);
}
