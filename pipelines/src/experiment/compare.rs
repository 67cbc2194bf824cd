//! One value of an axis beside the others: how far its figure is from the least of theirs, whatever the other axes say.

use std::collections::BTreeMap;
use std::fmt;

use super::sweep::{Compare, Sweep};
use super::table::{Row, number, quoted};

/// The figures of one value beside the least of the others'.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    compare: Compare,
    /// Those that vary, without the compared one.
    axes: Vec<String>,
    cells: Vec<Cell>,
}

/// One combination of the other axes' values.
#[derive(Clone, Debug, PartialEq)]
struct Cell {
    values: Vec<String>,
    figure: f64,
    /// The best of the others.
    best: String,
    least: f64,
}

impl Cell {
    fn ratio(&self) -> f64 {
        self.figure / self.least
    }
}

impl Comparison {
    /// Nothing where the sweep asks for none, or no row has another to be compared with.
    pub(super) fn of(sweep: &Sweep, rows: &[Row]) -> Option<Self> {
        let compare = sweep.compare.clone()?;
        let others = |row: &Row| {
            let values = row.values.iter().filter(|(axis, _)| **axis != compare.axis);
            values.map(|(axis, value)| (axis.clone(), value.clone())).collect::<BTreeMap<_, _>>()
        };
        let varies = sweep.axes.iter().filter(|axis| axis.values.len() > 1 && axis.name != compare.axis);
        let axes: Vec<String> = varies.map(|axis| axis.name.clone()).collect();
        let cell = |row: &Row| {
            let figure = *row.figures.get(&compare.figure)?;
            let key = others(row);
            let beside = rows
                .iter()
                .filter(|other| other.values[&compare.axis] != compare.value && others(other) == key);
            let found = beside.filter_map(|other| Some((other, *other.figures.get(&compare.figure)?)));
            let (best, least) = found.min_by(|a, b| a.1.total_cmp(&b.1))?;
            let values = axes.iter().map(|axis| row.values[axis].clone()).collect();
            Some(Cell { values, figure, best: best.values[&compare.axis].clone(), least })
        };
        let compared = rows.iter().filter(|row| row.values[&compare.axis] == compare.value);
        let cells: Vec<Cell> = compared.filter_map(cell).collect();
        (!cells.is_empty()).then_some(Self { compare, axes, cells })
    }

    /// The largest figure of the value over the least of the others', and where.
    pub fn worst(&self) -> (f64, String) {
        let worst = self.cells.iter().max_by(|a, b| a.ratio().total_cmp(&b.ratio()));
        worst.map_or((0.0, String::new()), |cell| {
            let place = self.axes.iter().zip(&cell.values).map(|(axis, value)| format!("{axis}={value}"));
            (cell.ratio(), place.collect::<Vec<_>>().join(" "))
        })
    }

    fn head(&self) -> Vec<String> {
        let of = [self.compare.value.as_str(), "best", "least", "ratio"];
        self.axes.iter().cloned().chain(of.map(str::to_owned)).collect()
    }

    fn lines(&self) -> impl Iterator<Item = Vec<String>> {
        self.cells.iter().map(|cell| {
            let of =
                [number(cell.figure), cell.best.clone(), number(cell.least), format!("{:.3}", cell.ratio())];
            cell.values.iter().cloned().chain(of).collect()
        })
    }

    /// The same as a table for other programs.
    pub(super) fn csv(&self) -> String {
        let line =
            |cells: Vec<String>| cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\n";
        std::iter::once(self.head()).chain(self.lines()).map(line).collect()
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Compare { axis, value, figure } = &self.compare;
        writeln!(f, "{figure}, {axis} {value} beside the best of the others:")?;
        let lines: Vec<Vec<String>> = std::iter::once(self.head()).chain(self.lines()).collect();
        let width =
            |column: usize| lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
        for cells in &lines {
            let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
            writeln!(f, "  {}", padded.collect::<Vec<_>>().join("  "))?;
        }
        let (ratio, place) = self.worst();
        let within = |most: f64| self.cells.iter().filter(|cell| cell.ratio() <= most).count();
        let count = self.cells.len();
        writeln!(f, "at most {ratio:.3} ({place}); within 1.2 in {} of {count}", within(1.2))
    }
}
