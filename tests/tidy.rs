//! The source tree keeps its measures: short files and functions, a head on every module, a twin of every device kernel.
//!
//! Each list of exceptions can only shrink: an exception that is no longer needed fails.

#[path = "support/tidy.rs"]
mod tidy;

use std::fs;
use std::path::Path;

use tidy::{files, functions, has_head};

/// The most lines of a file.
const FILE_LINES_MAX: usize = 500;
/// The most lines of a function.
const FUNCTION_LINES_MAX: usize = 80;

/// The least assertions in a thousand lines of the runtime, tests left out.
const ASSERTIONS_MIN: usize = 15;

/// Each Rust file of the tree with its text.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let name = |path: &Path| path.display().to_string();
    let read = |path: &Path| fs::read_to_string(root.join(path)).expect("a file of the tree");
    let all: Vec<_> = files(root, ".rs").iter().map(|path| (name(path), read(path))).collect();
    assert!(all.len() > 100, "the tree is found");
    all
}

/// Fails if anything is above a limit.
fn check(limit: usize, found: impl Iterator<Item = (String, usize)>) {
    let above: Vec<_> = found.filter(|(_, lines)| *lines > limit).collect();
    assert!(above.is_empty(), "above {limit} lines: {above:#?}");
}

#[test]
fn files_are_short() {
    check(FILE_LINES_MAX, sources().into_iter().map(|(name, text)| (name, text.lines().count())));
}

#[test]
fn functions_are_short() {
    let of_file = |(file, text): (String, String)| {
        functions(&text).into_iter().map(move |(name, _, lines)| (format!("{file}::{name}"), lines))
    };
    check(FUNCTION_LINES_MAX, sources().into_iter().flat_map(of_file));
}

#[test]
fn every_module_begins_with_its_head() {
    let without: Vec<_> =
        sources().into_iter().filter(|(_, text)| !has_head(text)).map(|(name, _)| name).collect();
    assert!(without.is_empty(), "no `//!` at the top of {without:?}");
}

#[test]
fn every_device_kernel_has_its_twin_beside_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kernels = files(root, ".cl");
    assert!(!kernels.is_empty(), "the kernels are found");
    let alone: Vec<_> =
        kernels.iter().filter(|path| !root.join(path).with_extension("rs").exists()).collect();
    assert!(alone.is_empty(), "no Rust file of this stem beside {alone:?}");
}

#[test]
fn the_runtime_asserts_what_its_heads_promise() {
    let is_test = |name: &str| name.contains("tests") || name.contains("loom_models");
    let (mut lines, mut assertions) = (0, 0);
    for (_, text) in sources().iter().filter(|(name, _)| name.starts_with("runtime/src/") && !is_test(name)) {
        // Test modules stand at the end.
        let product = text.split("\nmod tests {").next().unwrap_or_default();
        lines += product.lines().count();
        let code = product.lines().filter(|line| !line.trim_start().starts_with("//"));
        assertions += code.filter(|line| line.contains("assert!(") || is_comparison(line)).count();
    }
    let least = ASSERTIONS_MIN * lines / 1000;
    assert!(assertions >= least, "{assertions} assertions in {lines} lines, of {least} at least");
}

/// Whether a line asserts that two values are equal, or are not.
fn is_comparison(line: &str) -> bool {
    line.contains("assert_eq!(") || line.contains("assert_ne!(")
}

#[test]
fn lines_of_functions_are_counted_to_the_closing_brace() {
    let text = "fn a() {}\nconst F: fn(u8) -> u8 = g;\ntrait T {\n    fn b(&self);\n    fn c<X>(x: [u8; 2])\n    where\n        \
                X: Copy,\n    {\n        // }\n        let _ = \"}\";\n    }\n}\n";
    let expected = [("a".to_owned(), 1, 1), ("c".to_owned(), 5, 7)];
    assert_eq!(functions(text), expected);
}
