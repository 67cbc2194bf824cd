//! `boxwork check`: every fault of pipelines, without running them or opening the files that they name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use boxwork_runtime::operator::Catalog;

use super::{Format, data_json, print_diagnostics, say};
use crate::diagnostic::{self, Diagnostic};
use crate::shipped;
use crate::terminal::Exit;

/// The greatest depth of nested folders that are searched.
const DEPTH_MAX: usize = 32;

/// Reports every fault of pipelines, with its line, its column and a remedy
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Pipelines, folders that are searched for *.yaml and *.yml, or names of shipped pipelines
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The form of the answer; JSON goes to standard output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Exit with 1 for warnings too
    #[arg(long)]
    deny_warnings: bool,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let (mut diagnostics, mut files, mut others) = (Vec::new(), Vec::new(), 0);
    for path in &arguments.paths {
        if path.is_dir() {
            let mut found = Vec::new();
            if let Err(fault) = search(path, DEPTH_MAX, &mut found) {
                diagnostics.push(*fault);
            } else if found.is_empty() {
                let message = "the folder holds no *.yaml or *.yml";
                diagnostics.push(Diagnostic::of_file(&path.display().to_string(), "no-files", message, None));
            }
            files.extend(found.into_iter().map(|file| (file, true)));
        } else {
            files.push((path.clone(), false));
        }
    }
    let mut checked = 0;
    for (file, searched) in files {
        let found = check_file(&file, catalog);
        // A folder may hold other YAML files; only files named by the user must be pipelines.
        if searched && found.iter().any(|diagnostic| diagnostic.code == "missing-version") {
            others += 1;
            continue;
        }
        checked += 1;
        diagnostics.extend(found);
    }
    let (errors, warnings) = diagnostic::counts(&diagnostics);
    let written = match arguments.format {
        Format::Json => data_json(&diagnostic::to_json(&diagnostics)),
        Format::Text => {
            print_diagnostics(&diagnostics);
            Exit::Ok
        }
    };
    let files = if checked == 1 { "1 pipeline".to_owned() } else { format!("{checked} pipelines") };
    let others = match others {
        0 => String::new(),
        others => format!("; passed over {others} that do not say `boxwork: 1`"),
    };
    say(format_args!("checked {files}: {}{others}", diagnostic::summary(&diagnostics)));
    if errors > 0 || (warnings > 0 && arguments.deny_warnings) { Exit::Problems } else { written }
}

/// All faults of one file.
fn check_file(file: &Path, catalog: &Catalog) -> Vec<Diagnostic> {
    match shipped::read(file) {
        Ok(loaded) => loaded.check(catalog, &loaded.declaration.defaults()).1,
        Err(faults) => faults,
    }
}

/// The pipelines below a folder, by name; links to folders and hidden folders are skipped.
fn search(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), Box<Diagnostic>> {
    let unreadable = |error: io::Error| {
        let message = format!("the folder cannot be read: {error}");
        Box::new(Diagnostic::of_file(&folder.display().to_string(), "unreadable", message, None))
    };
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(unreadable)?;
    entries.sort();
    for path in entries {
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.is_dir() {
            if depth > 0 && !hidden && !path.is_symlink() {
                search(&path, depth - 1, found)?;
            }
        } else if !hidden && path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml") {
            found.push(path);
        }
    }
    Ok(())
}
