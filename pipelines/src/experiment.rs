//! Experiments: pipelines run over every combination of some values, into a table and plots.
//!
//! Modules in reading order: `sweep` is what a file says, `reader` reads it with all its faults, `plan` binds a
//! combination's values to the steps' pipelines, `steps` runs them, `table` keeps the rows, `compare` sets one value
//! beside the others, `plot` and `page` show all of it. Nothing here knows a distance.
//!
//! Invariants: nothing runs before all combinations have been checked; a row is written when it is whole, and a row
//! that is there is not measured again; a file that steps share is made once.

mod sweep;
mod reader;
mod plan;
mod steps;
mod table;
mod compare;
mod plot;
mod page;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use boxwork_runtime::operator::Catalog;

use self::plan::Planned;
use self::steps::Laboratory;
use self::table::Table;
use crate::diagnostic::Diagnostic;

pub use self::compare::Comparison;
pub use self::sweep::Sweep;

/// Why an experiment ended before its last row.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// A file or folder cannot be made or read.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The table that is there is of another experiment.
    #[error(
        "{} holds the rows of another sweep ({why}): give another folder by --out, or remove it", path.display()
    )]
    OtherSweep {
        /// The table.
        path: PathBuf,
        /// What differs.
        why: String,
    },
    /// A step failed.
    #[error("step `{step}` of the row {row}: {cause}")]
    Step {
        /// The step.
        step: String,
        /// The row's values.
        row: String,
        /// Why.
        cause: String,
    },
    /// Somebody pressed Ctrl-C.
    #[error("interrupted: the rows so far are kept, and the same call goes on after them")]
    Interrupted,
}

impl ExperimentError {
    fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        |cause| Self::File { path: path.to_owned(), cause }
    }
}

/// A sweep that has been read and checked: all its combinations are known to be sound.
#[derive(Debug)]
pub struct Experiment {
    sweep: Sweep,
    rows: Vec<Planned>,
}

/// What a run of an experiment left.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Rows of the table.
    pub rows: usize,
    /// Rows of them that were there already.
    pub kept: usize,
    /// Plots that were drawn.
    pub plots: usize,
    /// One value beside the others, where the sweep asks for that.
    pub comparison: Option<Comparison>,
}

/// Reads and checks a sweep; `given` replaces the values of axes.
///
/// # Errors
/// Every fault of the text, and every value that a pipeline does not take.
pub fn load(
    path: &Path,
    catalog: &Catalog,
    given: &[(String, String)],
) -> Result<Experiment, Vec<Diagnostic>> {
    let name = path.display().to_string();
    let text = crate::pipeline::read_file(path, &name).map_err(|diagnostic| vec![*diagnostic])?;
    load_text(&name, &text, path.parent().unwrap_or(Path::new(".")), catalog, given)
}

/// The same of a text; pipelines by path are looked for in a folder.
///
/// # Errors
/// As [`load`].
pub fn load_text(
    name: &str,
    text: &str,
    folder: &Path,
    catalog: &Catalog,
    given: &[(String, String)],
) -> Result<Experiment, Vec<Diagnostic>> {
    let (sweep, mut faults) = reader::read(name, text, given);
    let rows = match &sweep {
        Some(sweep) if faults.is_empty() => plan::rows(sweep, folder, catalog, &mut faults),
        _ => Vec::new(),
    };
    faults.sort_by_key(Diagnostic::offset);
    match sweep {
        Some(sweep) if faults.is_empty() => Ok(Experiment { sweep, rows }),
        _ => Err(faults),
    }
}

impl Experiment {
    /// What the file says.
    pub fn sweep(&self) -> &Sweep {
        &self.sweep
    }

    /// How many rows the table will have.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Measures the rows that are not there yet, and draws the plots; `tell` hears of each row.
    ///
    /// # Errors
    /// When a file cannot be written, a step fails, or somebody pressed Ctrl-C; the rows so far are kept.
    pub fn run(
        &self,
        out: &Path,
        catalog: &Catalog,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Summary, ExperimentError> {
        let data = out.join("data");
        fs::create_dir_all(&data).map_err(ExperimentError::file(&data))?;
        let path = out.join("results.csv");
        let mut table = Table::open(&path, &self.sweep)?;
        let mut laboratory = Laboratory::new(&self.sweep, catalog, &data);
        let mut kept = 0;
        for rows in self.turns() {
            let rows: Vec<(usize, &Planned)> = rows.into_iter().map(|idx| (idx, &self.rows[idx])).collect();
            let missing: Vec<(usize, &Planned)> =
                rows.iter().copied().filter(|(_, planned)| !table.has(&planned.values)).collect();
            kept += rows.len() - missing.len();
            if missing.is_empty() {
                continue;
            }
            if crate::run::is_interrupted() {
                return Err(ExperimentError::Interrupted);
            }
            let together: Vec<&Planned> = missing.iter().map(|(_, planned)| *planned).collect();
            let figures = laboratory.measure(&together).map_err(|failed| match failed {
                steps::Failed::Interrupted => ExperimentError::Interrupted,
                steps::Failed::Step { row, step, cause } => {
                    ExperimentError::Step { step, row: together[row].label(&self.sweep), cause }
                }
            })?;
            for ((idx, planned), figures) in missing.into_iter().zip(figures) {
                let label = planned.label(&self.sweep);
                tell(&format!("{}/{}  {label}  {}", idx + 1, self.rows.len(), told(&figures)));
                table.add(&planned.values, figures)?;
            }
        }
        // The rows of this sweep alone, in its order: the table may hold others, of values given before.
        let wanted: Vec<&BTreeMap<String, String>> =
            self.rows.iter().map(|planned| &planned.values).collect();
        let rows = table.rows_of(&wanted);
        let plots = plot::plots(&self.sweep, &rows);
        for (name, picture) in &plots {
            let path = out.join(format!("{name}.svg"));
            fs::write(&path, picture).map_err(ExperimentError::file(&path))?;
        }
        let comparison = Comparison::of(&self.sweep, &rows);
        if let Some(comparison) = &comparison {
            let path = out.join("comparison.csv");
            fs::write(&path, comparison.csv()).map_err(ExperimentError::file(&path))?;
        }
        let path = out.join("index.html");
        let page = page::page(&self.sweep, &rows, &plots, comparison.as_ref());
        fs::write(&path, page).map_err(ExperimentError::file(&path))?;
        Ok(Summary { rows: rows.len(), kept, plots: plots.len(), comparison })
    }

    /// Rows that take turns, round by round: those that are compared with each other, and else each row alone.
    fn turns(&self) -> Vec<Vec<usize>> {
        let Some(compare) = &self.sweep.compare else {
            return (0..self.rows.len()).map(|idx| vec![idx]).collect();
        };
        let mut turns: Vec<Vec<usize>> = Vec::new();
        let mut places: BTreeMap<BTreeMap<&String, &String>, usize> = BTreeMap::new();
        for (idx, planned) in self.rows.iter().enumerate() {
            let others = planned.values.iter().filter(|(axis, _)| **axis != compare.axis).collect();
            let place = *places.entry(others).or_insert(turns.len());
            if place == turns.len() {
                turns.push(Vec::new());
            }
            turns[place].push(idx);
        }
        turns
    }
}

/// Some figures in a line.
fn told(figures: &[(String, f64)]) -> String {
    let shown = figures.iter().filter(|(name, _)| !name.ends_with("_low") && !name.ends_with("_high"));
    let words: Vec<String> =
        shown.map(|(name, figure)| format!("{name} {}", table::number(*figure))).collect();
    words.join("  ")
}
