//! The rows as a CSV file: the axes' values and then the figures, by names in the first line.
//!
//! Invariants: the file is whole at every moment; rows of another sweep are refused, by a text beside the file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::ExperimentError;
use super::sweep::Sweep;

/// A row: the axes' values and the figures.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) values: BTreeMap<String, String>,
    pub(super) figures: BTreeMap<String, f64>,
}

/// The rows so far.
#[derive(Debug)]
pub(super) struct Table {
    path: PathBuf,
    axes: Vec<String>,
    /// In the order in which they were first told.
    figures: Vec<String>,
    rows: Vec<Row>,
}

impl Table {
    /// Reads the table that is there, if it is of this sweep.
    pub(super) fn open(path: &Path, sweep: &Sweep) -> Result<Self, ExperimentError> {
        let axes: Vec<String> = sweep.axes.iter().map(|axis| axis.name.clone()).collect();
        let mut table = Self { path: path.to_owned(), axes, figures: Vec::new(), rows: Vec::new() };
        let beside = path.with_extension("sweep");
        let fingerprint = sweep.fingerprint() + "\n";
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                fs::write(&beside, fingerprint).map_err(ExperimentError::file(&beside))?;
                return Ok(table);
            }
            Err(error) => return Err(ExperimentError::file(path)(error)),
        };
        let other = |why: &str| ExperimentError::OtherSweep { path: path.to_owned(), why: why.to_owned() };
        if fs::read_to_string(&beside).map_err(ExperimentError::file(&beside))? != fingerprint {
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
    pub(super) fn has(&self, values: &BTreeMap<String, String>) -> bool {
        self.rows.iter().any(|row| row.values == *values)
    }

    /// Adds a row and writes the table.
    pub(super) fn add(
        &mut self,
        values: &BTreeMap<String, String>,
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
        let head: Vec<String> = self.axes.iter().chain(&self.figures).map(|name| quoted(name)).collect();
        let mut text = head.join(",") + "\n";
        for row in &self.rows {
            let values = self.axes.iter().map(|axis| quoted(&row.values[axis]));
            let figures =
                self.figures.iter().map(|name| row.figures.get(name).copied().map_or(String::new(), number));
            text += &(values.chain(figures).collect::<Vec<_>>().join(",") + "\n");
        }
        text
    }

    /// The rows of these values, in their order.
    pub(super) fn rows_of(&self, wanted: &[&BTreeMap<String, String>]) -> Vec<Row> {
        wanted
            .iter()
            .filter_map(|values| self.rows.iter().find(|row| row.values == **values))
            .cloned()
            .collect()
    }
}

/// A figure with six digits that say something.
pub(super) fn number(figure: f64) -> String {
    if figure == 0.0 || figure.fract() == 0.0 && figure.abs() < 1e15 {
        return format!("{figure:.0}");
    }
    let digits = (5 - figure.abs().log10().floor() as i64).clamp(0, 12) as usize;
    let text = format!("{figure:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

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
    fn cells_are_read_as_they_were_written() {
        let cells = ["plain", "a, b", "say \"so\"", "", "two\nlines"];
        let line = cells.map(quoted).join(",") + "\n";
        assert_eq!(records(&(line.clone() + &line)), vec![cells.map(str::to_owned).to_vec(); 2]);
    }

    #[test]
    fn figures_have_six_digits() {
        let shown = [0.0, 3.0, 0.000_123_456_78, 1_234.567_89, -0.5, 1e9 + 0.25].map(number);
        assert_eq!(shown, ["0", "3", "0.000123457", "1234.57", "-0.5", "1000000000"]);
    }
}
