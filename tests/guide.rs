//! The guide is a book: its links stay inside it, every page is in the summary, and its reference is that of the command.

#[path = "support/guide.rs"]
mod guide;

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use boxwork::pipeline;
use guide::{Fence, Page, pages, root, src};

/// A path without `.` and `..`; none if it leaves its root.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if !parts.pop() => return None,
            Component::ParentDir | Component::CurDir => {}
            part => parts.push(part),
        }
    }
    Some(parts)
}

/// The faults of a page's links to files below `top`.
fn faults(page: &Page, top: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    for (line, target) in page.links() {
        if target.starts_with("https://") {
            continue;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let folder = page.path.parent().expect("a folder");
        let place = format!("{}:{line}: {target}", page.name());
        match plain(&folder.join(path)) {
            _ if path.is_empty() && page.anchors().contains(anchor) => {}
            _ if path.is_empty() => faults.push(format!("{place} names no title")),
            Some(linked) if !linked.starts_with(top) => faults.push(format!("{place} leaves the book")),
            Some(linked) if !linked.exists() => faults.push(format!("{place} leads nowhere")),
            Some(linked) if !anchor.is_empty() && !Page::read(&linked).anchors().contains(anchor) => {
                faults.push(format!("{place} names no title"));
            }
            Some(_) => {}
            None => faults.push(format!("{place} leaves the machine")),
        }
    }
    faults
}

#[test]
fn links_resolve_inside_the_book() {
    let pages = pages(&src());
    assert!(pages.len() > 10 && pages.iter().map(|page| page.links().len()).sum::<usize>() > 100);
    let mut found: Vec<String> = pages.iter().flat_map(|page| faults(page, &src())).collect();
    found.extend(faults(&Page::read(&root().join("README.md")), root()));
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn broken_links_are_found() {
    let page = |text: &str| Page { path: src().join("made-up.md"), text: format!("# A title\n\n{text}\n") };
    for good in ["[a](#a-title)", "[a](pipelines.md)", "`[a](b.md)`", "[a](https://x.y/z)"] {
        assert_eq!(faults(&page(good), &src()), Vec::<String>::new());
    }
    for bad in ["[a](none.md)", "[a](#none)", "[a](../book.toml)", "[a](pipelines.md#none)", "[`a`](none.md)"]
    {
        assert_eq!(faults(&page(bad), &src()).len(), 1, "{bad}");
    }
    assert!(page("## Two `boxwork run`s: x_y").anchors().contains("two-boxwork-runs-x_y"));
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = src().join("SUMMARY.md");
    let listed: Vec<PathBuf> =
        Page::read(&summary).links().into_iter().map(|(_, target)| src().join(target)).collect();
    let once: BTreeSet<PathBuf> = listed.iter().cloned().collect();
    assert_eq!(once.len(), listed.len(), "a page is listed twice");
    let there: BTreeSet<PathBuf> =
        pages(&src()).into_iter().map(|page| page.path).filter(|path| *path != summary).collect();
    assert_eq!(once, there);
}

#[test]
fn the_reference_is_that_of_the_command() {
    let refresh = "cargo run -- reference docs/guide/src/reference";
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_boxwork"));
    assert!(command.arg("reference").arg(folder.path()).status().expect("started").success());
    for name in ["boxes.md", "commands.md"] {
        let made = fs::read_to_string(folder.path().join(name)).expect("a page");
        let path = src().join("reference").join(name);
        if env::var_os("BOXWORK_WRITE_GUIDE").is_some() {
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(&path, &made).expect("written");
        }
        let there = fs::read_to_string(&path).unwrap_or_default();
        let differs = made.lines().zip(there.lines()).find(|(made, there)| made != there);
        assert!(made == there, "{} is out of date at {differs:?}; type: {refresh}", path.display());
    }
}

/// A part of a pipeline as a pipeline: entries alone are boxes, or resources if their kinds are.
fn completed(part: &str) -> String {
    let catalog = boxwork::catalog();
    let is_box = |line: &str| {
        let kind = line.split("kind: ").nth(1).and_then(|rest| rest.split([',', '}']).next());
        kind.is_some_and(|kind| kind.contains('$') || catalog.operator(kind).is_some())
    };
    let lines: Vec<&str> = part.lines().filter(|line| !line.starts_with('#')).collect();
    let has_sections = lines.iter().any(|line| line.trim_end().ends_with(':'));
    let text = if has_sections || lines.iter().any(|line| line.starts_with("boxwork:")) {
        lines.join("\n")
    } else {
        let of = |boxes: bool| {
            lines.iter().filter(move |line| is_box(line) == boxes).map(|line| format!("  {line}\n"))
        };
        let resources: String = of(false).collect();
        let resources = if resources.is_empty() { resources } else { format!("resources:\n{resources}") };
        format!("{resources}boxes:\n{}", of(true).collect::<String>())
    };
    let version = if text.contains("boxwork: 1") { "" } else { "boxwork: 1\n" };
    let boxes = if text.contains("boxes:") { "" } else { "\nboxes: {}\n" };
    format!("{version}{text}{boxes}")
}

/// The faults of a part that do not come from what it leaves out.
fn faults_of_part(fence: &Fence) -> Vec<String> {
    let text = completed(&fence.text);
    let loaded = match pipeline::load_text("part.yaml", &text) {
        Ok(loaded) => loaded,
        Err(faults) => return faults.iter().map(|fault| format!("{}\n{text}", fault.message)).collect(),
    };
    let (_, faults) = loaded.check(&boxwork::catalog(), &loaded.declaration.defaults());
    let is_of_the_rest = |code: &str, message: &str| {
        matches!(code, "unconnected-input" | "unread-box" | "no-boxes" | "unknown-pipeline-parameter")
            || (code == "wrong-value" && message.contains("there is no resource"))
    };
    let own = faults.iter().filter(|fault| !is_of_the_rest(fault.code, &fault.message));
    own.map(|fault| format!("{}: {}\n{text}", fault.code, fault.message)).collect()
}

#[test]
fn parts_of_pipelines_have_no_fault_of_their_own() {
    let mut pages = pages(&src());
    pages.push(Page::read(&root().join("README.md")));
    let mut count = 0;
    for page in pages {
        for fence in page.fences().iter().filter(|fence| fence.language() == "yaml" && fence.is("part")) {
            let faults = faults_of_part(fence);
            assert!(faults.is_empty(), "{}:{}: {faults:#?}", page.name(), fence.line);
            count += 1;
        }
    }
    assert!(count > 40, "the examples of the reference are found: {count}");
    let wrong = |text: &str| {
        let page = Page { path: src(), text: format!("```yaml,part\n{text}\n```\n") };
        faults_of_part(&page.fences()[0]).len()
    };
    assert_eq!(wrong("near: {kind: filter_range, range: 0.3, space: space}"), 0);
    assert!(wrong("near: {kind: filter_range, rang: 0.3, space: space}") > 0);
    assert!(wrong("space: {kind: sqfd_space, store: signatures, alpha: -1}") > 0);
}
