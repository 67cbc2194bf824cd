//! `benches/README.md` from the files under `benches/results`.
//!
//! `introduction.md` comes first, then a table for each JSON file in the order of their names, and `reading.md` last. A
//! JSON file answers one question; its rows are objects whose keys name the columns. A cell that is missing stays empty.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value as Json};

/// The report cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be read.
    #[error("{}: {cause}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// A file does not have the form of results.
    #[error("{}: {cause}", .path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// The fault, with its line.
        cause: serde_json::Error,
    },
}

/// The results that answer one question.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Results {
    title: String,
    question: String,
    /// The calls that measure, one or several.
    command: Vec<String>,
    /// The machine of the measurement.
    machine: Vec<String>,
    /// The day of the last measurement.
    date: String,
    /// A bound that no program can beat, or an obstacle.
    limit: Option<String>,
    rows: Vec<Map<String, Json>>,
}

/// The text of `benches/README.md`, from the folder `benches/results`.
///
/// # Errors
/// When a file cannot be read, or is no file of results.
pub fn readme(folder: &Path) -> Result<String, Error> {
    let mut text = read(&folder.join("introduction.md"))?;
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(|cause| Error::File { path: folder.to_owned(), cause })?;
    let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    paths.sort();
    for path in paths {
        let results: Results =
            serde_json::from_str(&read(&path)?).map_err(|cause| Error::Form { path: path.clone(), cause })?;
        results.write(&mut text);
    }
    text.push('\n');
    Ok(text + &read(&folder.join("reading.md"))?)
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|cause| Error::File { path: path.to_owned(), cause })
}

impl Results {
    /// Appends the section to a page of Markdown.
    fn write(&self, text: &mut String) {
        let _ = writeln!(text, "\n## {}\n\n{}\n", self.title, self.question);
        let mut columns: Vec<&str> = Vec::new();
        for name in self.rows.iter().flat_map(Map::keys) {
            if !columns.contains(&name.as_str()) {
                columns.push(name);
            }
        }
        let mut line = |cells: Vec<String>| {
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        };
        line(columns.iter().map(|name| escape(name)).collect());
        line(vec!["---".to_owned(); columns.len()]);
        for row in &self.rows {
            line(columns.iter().map(|name| row.get(*name).map_or_else(String::new, cell)).collect());
        }
        let commands: Vec<String> = self.command.iter().map(|command| format!("`{command}`")).collect();
        let _ = writeln!(text, "\n{}, by {}.", self.date, commands.join(", "));
        let _ = writeln!(text, "On {}.", self.machine.join("; "));
        if let Some(limit) = &self.limit {
            let _ = writeln!(text, "Limit: {limit}.");
        }
    }
}

fn cell(value: &Json) -> String {
    match value {
        Json::String(text) => escape(text),
        Json::Number(number) => match number.as_u64() {
            Some(whole) => crate::number::significant(whole as f64),
            None => number.to_string(),
        },
        other => other.to_string(),
    }
}

fn escape(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_readme_of_the_benches_is_what_their_results_give() {
        let benches = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches");
        let made = readme(&benches.join("results")).expect("the results");
        let found = read(&benches.join("README.md")).expect("the page");
        assert!(made == found, "make it again: cargo run -p boxwork-lab --bin bench-readme");
    }

    #[test]
    fn a_cell_that_is_missing_stays_empty_and_a_file_of_another_form_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
        write("introduction.md", "# Benches\n");
        write("reading.md", "## Reading\n");
        let of = |rows: &str| {
            format!(
                "{{\"title\": \"T\", \"question\": \"Q?\", \"command\": [\"c\"], \"machine\": [\"m\"], \
                 \"date\": \"d\", \"rows\": {rows}}}"
            )
        };
        write("10-t.json", &of("[{\"case\": \"a|b\", \"ns\": 12345}, {\"case\": \"x\", \"share\": 0.5}]"));
        let expected = "# Benches\n\n## T\n\nQ?\n\n| case | ns | share |\n| --- | --- | --- |\n\
                        | a\\|b | 12,345 |  |\n| x |  | 0.5 |\n\nd, by `c`.\nOn m.\n\n## Reading\n";
        assert_eq!(readme(folder.path()).expect("the page"), expected);
        write("11-u.json", &of("3"));
        let error = readme(folder.path()).expect_err("no rows").to_string();
        assert!(error.contains("11-u.json") && error.contains("line 1"), "{error}");
    }
}
