//! Measures of a source tree: lines of files and functions, module heads, twins of device kernels.

#[path = "tokens.rs"]
mod tokens;

use std::fs;
use std::path::{Path, PathBuf};

use tokens::{end_of_item, tokens};

/// Every file under a folder with this ending, as paths from the folder, in order. Build outputs and hidden folders are
/// skipped.
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display())) {
            let path = entry.expect("an entry of a folder").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && !name.starts_with('.') && !["target", "demo"].contains(&&*name) {
                waiting.push(path);
            } else if name.ends_with(ending) {
                found.push(path.strip_prefix(folder).unwrap_or(&path).to_owned());
            }
        }
    }
    found.sort();
    found
}

/// The functions of a Rust text: name, line, and number of lines from `fn` to the closing brace.
pub fn functions(text: &str) -> Vec<(String, usize, usize)> {
    let tokens = tokens(text);
    let word = |at: usize| tokens.get(at).map_or("", |token| token.1);
    let is_name = |name: &str| name.starts_with(|x: char| x.is_alphabetic() || x == '_');
    let starts = (0..tokens.len()).filter(|at| word(*at) == "fn" && is_name(word(at + 1)));
    let with_body = starts.filter_map(|at| {
        let end = end_of_item(&tokens, at) - 1;
        // A function without a body ends with its semicolon.
        (word(end) == "}").then(|| (word(at + 1).to_owned(), tokens[at].0, tokens[end].0 + 1 - tokens[at].0))
    });
    with_body.collect()
}

/// Whether a Rust text opens with the head of its module.
pub fn has_head(text: &str) -> bool {
    text.lines()
        .find(|line| !line.is_empty() && !line.starts_with("#!"))
        .is_some_and(|line| line.starts_with("//!"))
}
