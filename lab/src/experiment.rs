//! Sweeps: tasks measured over every combination of some values, into a table and plots.
//!
//! In reading order: `sweep` reads the file, `plan` turns each combination into calls, `table` keeps the rows,
//! `compare` compares one value with the others, `ascent` looks for the best values. The caller provides the tasks
//! ([`Work`]): this module knows no pipeline.
//!
//! Invariants: nothing runs before all combinations have been checked; a row is written when it is complete, and never
//! measured again; a file that rows share is made once.

mod sweep;
mod plan;
mod table;
mod compare;
mod ascent;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use boxwork_runtime::topology::Topology;

use self::plan::Values;
use self::sweep::{Plot, Scale};
use self::table::Table;
use crate::machine::Machine;
use crate::number::number;
use crate::page::Page;
use crate::plot::{Chart, Line, standalone};
use crate::spread::Spread;
use crate::turns::{self, Figures, Rounds, take_turns};

pub use self::ascent::{Ascent, Goal, ascend};
pub use self::compare::Comparison;
pub use self::sweep::{Fault, Sweep};
pub use self::table::Row as Measurement;

/// A task with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its name.
    pub task: String,
    /// The step's settings that the task accepts.
    pub settings: BTreeMap<String, String>,
    /// The path for a task that makes a file; other tasks may use it for temporary files.
    pub file: PathBuf,
}

/// The properties of a task that do not depend on its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The names of its settings.
    pub settings: Vec<String>,
    /// The ending of the file that it makes; `None` if it makes none.
    pub makes: Option<&'static str>,
}

/// A call has no figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The user pressed Ctrl-C.
    Interrupted,
    /// It failed.
    Failed(String),
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

/// The tasks that sweeps can measure.
pub trait Work {
    /// Looks a task up by its name.
    ///
    /// # Errors
    /// A sentence, if there is no such task.
    fn task(&mut self, name: &str) -> Result<Task, String>;

    /// The faults of a call, each with the name of its setting. It runs nothing, as files of other steps may be
    /// missing.
    fn check(&mut self, call: &Call) -> Vec<(String, String)>;

    /// Prepares a call for measuring. A task that makes a file makes it in each round.
    ///
    /// # Errors
    /// When that fails, or the user pressed Ctrl-C.
    fn open(&mut self, call: &Call) -> Result<Box<dyn turns::Measured<Failure>>, Failure>;
}

/// An experiment ended before its last row.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// A file or folder cannot be made or read.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The folder holds the table of another sweep.
    #[error(
        "{} holds the rows of another sweep ({why}): give another folder with --out, or remove it", path.display()
    )]
    OtherSweep {
        /// The table.
        path: PathBuf,
        /// The difference.
        why: String,
    },
    /// A step failed.
    #[error("step `{step}` of the row {row}: {cause}")]
    Step {
        /// The step.
        step: String,
        /// The row's values.
        row: String,
        /// The reason.
        cause: String,
    },
    /// The user pressed Ctrl-C.
    #[error("interrupted: the rows so far are kept; run the command again to continue")]
    Interrupted,
    /// Combinations that were sound when the sweep was read no longer are.
    #[error("{0}")]
    Changed(Fault),
}

impl ExperimentError {
    fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        |cause| Self::File { path: path.to_owned(), cause }
    }
}

/// A sweep whose combinations have been checked.
#[derive(Debug)]
pub struct Experiment {
    name: String,
    sweep: Sweep,
    rows: usize,
}

/// The outcome of a run of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Rows of the table.
    pub rows: usize,
    /// Rows of these that an earlier run measured.
    pub kept: usize,
    /// Plots that were drawn.
    pub plots: usize,
    /// The comparison of one value with the others, if the sweep asks for one.
    pub comparison: Option<Comparison>,
}

/// Reads and checks a sweep. `given` replaces the values of axes; `name` is for the page.
///
/// # Errors
/// Every fault of the text, or every value that a task refuses.
pub fn load(
    name: &str,
    text: &str,
    given: &[(String, String)],
    work: &mut dyn Work,
) -> Result<Experiment, Vec<Fault>> {
    let sweep = Sweep::read(text, given)?;
    let rows = plan::rows(&sweep, Path::new("data"), work)?.len();
    Ok(Experiment { name: name.to_owned(), sweep, rows })
}

impl Experiment {
    /// The number of rows of the table.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Measures the missing rows, and draws the plots; `say` gets a line for each row.
    ///
    /// # Errors
    /// When a file cannot be written, a step fails, or the user pressed Ctrl-C; the rows so far are kept.
    pub fn run(
        &self,
        out: &Path,
        work: &mut dyn Work,
        say: &mut dyn FnMut(&str),
    ) -> Result<Summary, ExperimentError> {
        let Measured { table, rows, kept } = self.measure(out, work, say)?;
        let comparison = Comparison::of(&self.sweep, &rows);
        let cells = table::cells(&table.axes, table.figures(), &rows);
        let plots = self.write(out, &rows, &cells, comparison.as_ref())?;
        Ok(Summary { rows: rows.len(), kept, plots, comparison })
    }

    /// Measures the missing rows.
    fn measure(
        &self,
        out: &Path,
        work: &mut dyn Work,
        say: &mut dyn FnMut(&str),
    ) -> Result<Measured, ExperimentError> {
        let data = out.join("data");
        fs::create_dir_all(&data).map_err(ExperimentError::file(&data))?;
        let mut table = Table::open(&out.join("results.csv"), &self.sweep)?;
        let changed = |mut faults: Vec<Fault>| ExperimentError::Changed(faults.remove(0));
        let rows = plan::rows(&self.sweep, &data, work).map_err(changed)?;
        let mut run = Run { sweep: &self.sweep, work, known: BTreeMap::new() };
        let mut measured = 0;
        for turn in self.turns(&rows) {
            let missing: Vec<&plan::Row> = turn.into_iter().filter(|row| !table.has(&row.values)).collect();
            let figures = run.measure(&missing)?;
            for (row, figures) in missing.iter().zip(figures) {
                measured += 1;
                say(&format!("{}  {}", row.label(&self.sweep), shown(&figures)));
                table.add(&row.values, figures)?;
            }
        }
        let all: Vec<&Values> = rows.iter().map(|row| &row.values).collect();
        let rows = table.rows_of(&all);
        Ok(Measured { kept: rows.len() - measured, table, rows })
    }

    /// Rows that take turns: those that are compared with each other, or each row alone.
    fn turns<'r>(&self, rows: &'r [plan::Row]) -> Vec<Vec<&'r plan::Row>> {
        let mut turns: Vec<(Values, Vec<&plan::Row>)> = Vec::new();
        for row in rows {
            let mut others = row.values.clone();
            if let Some(compare) = &self.sweep.compare {
                others.remove(&compare.axis.value);
            }
            match turns.iter_mut().find(|(known, _)| *known == others) {
                Some((_, turn)) => turn.push(row),
                None => turns.push((others, vec![row])),
            }
        }
        turns.into_iter().map(|(_, turn)| turn).collect()
    }

    /// Writes the plots, the comparison and the page; returns how many plots there are.
    fn write(
        &self,
        out: &Path,
        rows: &[table::Row],
        cells: &[Vec<String>],
        comparison: Option<&Comparison>,
    ) -> Result<usize, ExperimentError> {
        let write = |name: &str, text: &str| {
            let path = out.join(name);
            fs::write(&path, text).map_err(ExperimentError::file(&path))
        };
        let sweep = &self.sweep;
        let machine = Machine::look(&Topology::detect());
        let facts = [
            ("sweep", self.name.clone()),
            ("machine", machine.processor.clone()),
            ("topology", machine.shape()),
            ("rounds", format!("{} after {}; medians", sweep.rounds, sweep.warmup)),
        ];
        let title = if sweep.about.is_empty() { "Boxwork experiment" } else { &sweep.about };
        let mut page = Page::new(title, &facts);
        let mut plots = 0;
        for (name, plot) in &sweep.plots.0 {
            if let Some(svg) = chart(sweep, name, plot, rows) {
                write(&format!("{name}.svg"), &standalone(&svg))?;
                page.figure(&svg);
                plots += 1;
            }
        }
        if let Some(comparison) = comparison {
            write("comparison.csv", &comparison.csv())?;
            page.preformatted(&comparison.to_string());
        }
        page.table("", cells);
        write("index.html", &page.finish())?;
        Ok(plots)
    }
}

/// The rows of an experiment.
struct Measured {
    table: Table,
    /// Those of this sweep, in its order.
    rows: Vec<Measurement>,
    /// How many of these an earlier run measured.
    kept: usize,
}

/// The figures measured so far in one run.
struct Run<'a> {
    sweep: &'a Sweep,
    work: &'a mut dyn Work,
    /// By key: rows that differ only in values that a step does not use share its figures.
    known: BTreeMap<String, Rounds>,
}

impl Run<'_> {
    /// The figures of rows that take turns.
    fn measure(&mut self, rows: &[&plan::Row]) -> Result<Vec<Figures>, ExperimentError> {
        let mut all = vec![Figures::new(); rows.len()];
        for step in self.sweep.measured() {
            let (name, _) = &self.sweep.steps.0[step];
            let failed = |row: &plan::Row, step: usize, failure| match failure {
                Failure::Interrupted => ExperimentError::Interrupted,
                Failure::Failed(cause) => ExperimentError::Step {
                    step: self.sweep.steps.0[step].0.clone(),
                    row: row.label(self.sweep),
                    cause,
                },
            };
            let (mut open, mut opened): (Vec<_>, Vec<&plan::Row>) = (Vec::new(), Vec::new());
            for row in rows {
                for needed in row.needs(step) {
                    let call = &row.calls[needed].call;
                    if !call.file.exists() {
                        let made = self.work.open(call).and_then(|mut made| made.round());
                        made.map_err(|failure| failed(row, needed, failure))?;
                    }
                }
                let key = &row.calls[step].key;
                if !self.known.contains_key(key) && !opened.iter().any(|other| other.calls[step].key == *key)
                {
                    let case = self.work.open(&row.calls[step].call);
                    open.push(case.map_err(|failure| failed(row, step, failure))?);
                    opened.push(row);
                }
            }
            let measured = take_turns(&mut open, self.sweep.warmup, self.sweep.rounds)
                .map_err(|(idx, failure)| failed(opened[idx], step, failure))?;
            let keys = opened.iter().map(|row| row.calls[step].key.clone());
            self.known.extend(keys.zip(measured));
            for (figures, row) in all.iter_mut().zip(rows) {
                figures.extend(medians(name, &self.known[&row.calls[step].key]));
            }
        }
        Ok(all)
    }
}

/// The median of each figure; for the first, the answer, also the middle half of the rounds.
fn medians(step: &str, rounds: &Rounds) -> Figures {
    let mut figures = Figures::new();
    for (idx, (name, rounds)) in rounds.iter().enumerate() {
        let Spread { median, low, high } = Spread::of(rounds);
        figures.push((format!("{step}.{name}"), median));
        if idx == 0 {
            figures.push((format!("{step}.{name}_low"), low));
            figures.push((format!("{step}.{name}_high"), high));
        }
    }
    figures
}

/// Figures in a line.
fn shown(figures: &Figures) -> String {
    let shown = figures.iter().filter(|(name, _)| !name.ends_with("_low") && !name.ends_with("_high"));
    shown.map(|(name, figure)| format!("{name} {}", number(*figure))).collect::<Vec<_>>().join("  ")
}

/// A plot of the rows that have its figures; `None` if none has.
fn chart(sweep: &Sweep, name: &str, plot: &Plot, rows: &[table::Row]) -> Option<String> {
    let values = |axis: &Option<sweep::Text>| match axis {
        Some(axis) => sweep.values(&axis.value).map(str::to_owned).collect(),
        None => vec![String::new()],
    };
    let is = |row: &table::Row, axis: &Option<sweep::Text>, value: &String| {
        axis.as_ref().is_none_or(|axis| row.values.get(&axis.value) == Some(value))
    };
    let line = |facet: &String, label: &String| {
        let of_line = rows.iter().filter(|row| is(row, &plot.facets, facet) && is(row, &plot.series, label));
        let point = |row: &table::Row| Some((row.cell(&plot.x.value)?, row.spread(&plot.y.value)?));
        Line { label: label.clone(), points: of_line.filter_map(point).collect() }
    };
    let series: Vec<String> = values(&plot.series);
    let facet = |facet: String| {
        let lines = series.iter().map(|label| line(&facet, label)).collect();
        let title = plot.facets.as_ref().map_or(String::new(), |axis| format!("{} {facet}", axis.value));
        (title, lines)
    };
    let chart = Chart {
        heading: &format!("{}: {}", plot.title.as_deref().unwrap_or(name), plot.y.value),
        x: &plot.x.value,
        legend: plot.series.as_ref().map_or("", |axis| &axis.value),
        log: (plot.log.contains(&Scale::X), plot.log.contains(&Scale::Y)),
        facets: values(&plot.facets).into_iter().map(facet).collect(),
    };
    chart.svg()
}
