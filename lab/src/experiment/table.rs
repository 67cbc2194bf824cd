//! The rows as a CSV file: the axes' values and then the figures, by names in the first line.
//!
//! Invariants: the file is complete at every moment; the rows of another sweep are refused, by a text beside the file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::ExperimentError;
use super::plan::Values;
use super::sweep::Sweep;
use crate::number::number;
use crate::spread::Spread;

/// A row: the axes' values and the figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The value of each axis.
    pub values: BTreeMap<String, String>,
    /// The figures, such as `quality.map`.
    pub figures: BTreeMap<String, f64>,
}

impl Row {
    /// An axis's value, or a figure.
    pub(super) fn cell(&self, name: &str) -> Option<String> {
        self.values.get(name).cloned().or_else(|| self.figures.get(name).copied().map(number))
    }

    /// A figure with the middle half of its rounds, if the row has that.
    pub(super) fn spread(&self, name: &str) -> Option<Spread> {
        let median = *self.figures.get(name)?;
        let end = |which: &str| self.figures.get(&format!("{name}_{which}")).copied().unwrap_or(median);
        Some(Spread { median, low: end("low"), high: end("high") })
    }
}

/// The rows so far.
#[derive(Debug)]
pub(super) struct Table {
    path: PathBuf,
    pub(super) axes: Vec<String>,
    /// In the order in which they first came.
    figures: Vec<String>,
    rows: Vec<Row>,
}

impl Table {
    /// Reads the table that is there, if it is of this sweep.
    pub(super) fn open(path: &Path, sweep: &Sweep) -> Result<Self, ExperimentError> {
        let axes: Vec<String> = sweep.axes.names().map(str::to_owned).collect();
        let mut table = Self { path: path.to_owned(), axes, figures: Vec::new(), rows: Vec::new() };
        let beside = path.with_extension("sweep");
        let identity = sweep.identity() + "\n";
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                fs::write(&beside, identity).map_err(ExperimentError::file(&beside))?;
                return Ok(table);
            }
            Err(error) => return Err(ExperimentError::file(path)(error)),
        };
        let other = |why: &str| ExperimentError::OtherSweep { path: path.to_owned(), why: why.to_owned() };
        if fs::read_to_string(&beside).map_err(ExperimentError::file(&beside))? != identity {
            return Err(other("its steps or rounds differ"));
        }
        let mut lines = records(&text).into_iter();
        let names = lines.next().unwrap_or_default();
        if names.len() < table.axes.len() || names[..table.axes.len()] != table.axes[..] {
            return Err(other("its axes differ"));
        }
        table.figures = names[table.axes.len()..].to_vec();
        for cells in lines {
            if cells.len() != names.len() {
                return Err(other("a row has another number of columns than the first line"));
            }
            let (values, figures) = cells.split_at(table.axes.len());
            let values = table.axes.iter().cloned().zip(values.iter().cloned()).collect();
            let figures = table.figures.iter().cloned().zip(figures);
            let figures = figures.filter_map(|(name, cell)| Some((name, cell.parse().ok()?))).collect();
            table.rows.push(Row { values, figures });
        }
        Ok(table)
    }

    /// Whether a row of these values is there.
    pub(super) fn has(&self, values: &Values) -> bool {
        self.rows.iter().any(|row| row.values == *values)
    }

    /// Adds a row and writes the table.
    pub(super) fn add(
        &mut self,
        values: &Values,
        figures: Vec<(String, f64)>,
    ) -> Result<(), ExperimentError> {
        for (name, _) in &figures {
            if !self.figures.contains(name) {
                self.figures.push(name.clone());
            }
        }
        self.rows.push(Row { values: values.clone(), figures: figures.into_iter().collect() });
        let temporary = self.path.with_extension("csv.tmp");
        fs::write(&temporary, self.text()).map_err(ExperimentError::file(&temporary))?;
        fs::rename(&temporary, &self.path).map_err(ExperimentError::file(&self.path))
    }

    fn text(&self) -> String {
        let lines = cells(&self.axes, &self.figures, &self.rows);
        let line =
            |cells: Vec<String>| cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\n";
        lines.into_iter().map(line).collect()
    }

    /// The names of all figures.
    pub(super) fn figures(&self) -> &[String] {
        &self.figures
    }

    /// The rows of these values, in their order.
    pub(super) fn rows_of(&self, wanted: &[&Values]) -> Vec<Row> {
        wanted
            .iter()
            .filter_map(|values| self.rows.iter().find(|row| row.values == **values))
            .cloned()
            .collect()
    }
}

/// The names of the columns, and then the cells of each row.
pub(super) fn cells(axes: &[String], figures: &[String], rows: &[Row]) -> Vec<Vec<String>> {
    let head = axes.iter().chain(figures).cloned().collect();
    let row = |row: &Row| axes.iter().chain(figures).map(|name| row.cell(name).unwrap_or_default()).collect();
    std::iter::once(head).chain(rows.iter().map(row)).collect()
}

/// A cell of a CSV file.
pub(super) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// The cells of each line.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut cells, mut cell, mut is_quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(std::mem::take(&mut cell)),
            '\n' if !is_quoted => {
                cells.push(std::mem::take(&mut cell));
                records.push(std::mem::take(&mut cells));
            }
            letter => cell.push(letter),
        }
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_the_middle_half_that_stands_beside_it() {
        let figures = [("run.ms", 2.0), ("run.ms_low", 1.5), ("run.ms_high", 3.0), ("run.calls", 7.0)];
        let figures = figures.map(|(name, figure)| (name.to_owned(), figure)).into();
        let row = Row { values: Values::new(), figures };
        assert_eq!(row.spread("run.ms"), Some(Spread { median: 2.0, low: 1.5, high: 3.0 }));
        assert_eq!(row.spread("run.calls"), Some(Spread { median: 7.0, low: 7.0, high: 7.0 }));
        assert_eq!(row.spread("run.other"), None);
    }

    #[test]
    fn cells_are_read_as_they_were_written() {
        let cells = ["plain", "a, b", "say \"so\"", "", "two\nlines"];
        let line = cells.map(quoted).join(",") + "\n";
        assert_eq!(records(&(line.clone() + &line)), vec![cells.map(str::to_owned).to_vec(); 2]);
    }
}
