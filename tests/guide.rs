//! The guide is a book: its links stay inside it, every page is in the summary, and its reference is that of the command.

#[path = "support/guide.rs"]
mod guide;

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use guide::{Page, pages, root, src};

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
