//! One value of an axis compared with the best of the others, for each combination of the other axes.

use std::fmt;

use super::plan::Values;
use super::sweep::Sweep;
use super::table::{Row, quoted};
use crate::number::number;

/// The figures of one value, and the smallest of the others'.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    heading: String,
    /// The names of the columns, then a line for each combination.
    lines: Vec<Vec<String>>,
    /// The ratio of each combination.
    ratios: Vec<f64>,
    worst: (f64, String),
}

impl Comparison {
    /// `None` if the sweep asks for no comparison, or no row has a counterpart.
    pub(super) fn of(sweep: &Sweep, rows: &[Row]) -> Option<Self> {
        let compare = sweep.compare.as_ref()?;
        let (axis, value, figure) = (&compare.axis.value, &compare.value.value, &compare.figure.value);
        let others = |row: &Row| {
            let mut values: Values = row.values.clone();
            values.remove(axis);
            values
        };
        let varies = sweep.axes.0.iter().filter(|(name, values)| values.len() > 1 && name != axis);
        let axes: Vec<&String> = varies.map(|(name, _)| name).collect();
        let of = [value.as_str(), "best", "least", "ratio"].map(str::to_owned);
        let heading = format!("{figure}, {axis} {value} beside the best of the others:");
        let mut lines: Vec<Vec<String>> = vec![axes.iter().map(|axis| (*axis).clone()).chain(of).collect()];
        let (mut ratios, mut worst) = (Vec::new(), (0.0, String::new()));
        for row in rows.iter().filter(|row| row.values[axis] == *value) {
            let Some(own) = row.figures.get(figure) else { continue };
            let beside =
                rows.iter().filter(|other| other.values[axis] != *value && others(other) == others(row));
            let found = beside.filter_map(|other| Some((other, *other.figures.get(figure)?)));
            let Some((best, least)) = found.min_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
            let ratio = own / least;
            let cells = [number(*own), best.values[axis].clone(), number(least), format!("{ratio:.3}")];
            lines.push(axes.iter().map(|axis| row.values[*axis].clone()).chain(cells).collect());
            ratios.push(ratio);
            if ratio > worst.0 {
                let place = axes.iter().map(|axis| format!("{axis}={}", row.values[*axis]));
                worst = (ratio, place.collect::<Vec<_>>().join(" "));
            }
        }
        (!ratios.is_empty()).then_some(Self { heading, lines, ratios, worst })
    }

    /// The largest ratio of the value's figure to the smallest of the others', and its combination.
    pub fn worst(&self) -> &(f64, String) {
        &self.worst
    }

    /// The comparison as a table for other programs.
    pub(super) fn csv(&self) -> String {
        let line =
            |cells: &Vec<String>| cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\n";
        self.lines.iter().map(line).collect()
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.heading)?;
        let width = |column: usize| self.lines.iter().map(|cells| cells[column].chars().count()).max();
        let widths: Vec<usize> = (0..self.lines[0].len()).filter_map(width).collect();
        for cells in &self.lines {
            let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
            writeln!(f, "  {}", padded.collect::<Vec<_>>().join("  "))?;
        }
        let (ratio, place) = &self.worst;
        let within = self.ratios.iter().filter(|ratio| **ratio <= 1.2).count();
        writeln!(f, "at most {ratio:.3} ({place}); within 1.2 in {within} of {}", self.ratios.len())
    }
}
