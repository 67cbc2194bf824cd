//! Coordinate ascent over a sweep: the best value of one axis after the other, with the other axes at their best values so
//! far.
//!
//! It measures the sum of the axes' values, not their product. All rows lie in one table, so a run that was stopped
//! continues, and a second pass measures only the rows that no pass before it measured.

use std::collections::BTreeMap;
use std::path::Path;

use super::table::{Row, cells};
use super::{Experiment, ExperimentError, Fault, Measured, Sweep, Values, Work, load};
use crate::number::number;
use crate::page::Page;
use crate::plot::{Chart, Line};

/// The row that an ascent looks for.
#[derive(Clone, Debug)]
pub struct Goal<'a> {
    /// The figure to make large.
    pub figure: &'a str,
    /// The least relative gain for which a value replaces the one before it, such as 0.005.
    pub gain: f64,
    /// Another figure and its limit. A row within the limit is better than one beyond it.
    pub limit: (&'a str, f64),
}

impl Goal<'_> {
    fn is_better(&self, row: &Row, than: &Row) -> bool {
        let figure = |row: &Row, name: &str| row.figures.get(name).copied().unwrap_or(f64::NAN);
        let (limited, limit) = self.limit;
        let is_within = |row: &Row| figure(row, limited) <= limit;
        match (is_within(row), is_within(than)) {
            (true, true) => figure(row, self.figure) > figure(than, self.figure) * (1.0 + self.gain),
            (false, false) => figure(row, limited) < figure(than, limited),
            (is_within, _) => is_within,
        }
    }
}

/// The outcome of an ascent.
#[derive(Clone, Debug)]
pub struct Ascent {
    /// The row at which it began: the first value of each axis.
    pub first: Row,
    /// The best row that it found.
    pub best: Row,
    /// All rows that were measured.
    pub rows: Vec<Row>,
    /// The axes in the sweep's order.
    axes: Vec<String>,
    /// The rows of the last step along each axis.
    steps: BTreeMap<String, Vec<Row>>,
}

/// Looks for the best row of the sweep `text`, in at most `passes` passes over its axes; it ends when a pass changes
/// nothing. `given` replaces the values of axes, `name` is for faults. The rows lie in `out`, and `say` gets a line for
/// each.
///
/// # Errors
/// A fault of the sweep, or what stops an [`Experiment`].
#[expect(clippy::too_many_arguments, reason = "those of `load` and `run`, with two of its own")]
pub fn ascend(
    name: &str,
    text: &str,
    given: &[(String, String)],
    goal: &Goal<'_>,
    passes: usize,
    out: &Path,
    work: &mut dyn Work,
    say: &mut dyn FnMut(&str),
) -> Result<Ascent, ExperimentError> {
    let fault = |mut faults: Vec<Fault>| ExperimentError::Changed(faults.remove(0));
    let (sweep, faults) = Sweep::parse(text, given).map_err(fault)?;
    if !faults.is_empty() {
        return Err(fault(faults));
    }
    let axes: Vec<String> = sweep.axes.names().map(str::to_owned).collect();
    let values = |axis: &str| sweep.values(axis).map(str::to_owned).collect::<Vec<_>>();
    // The first row, and then the rows along one axis.
    let mut along = |at: &Values, axis: Option<&str>| -> Result<Vec<Row>, ExperimentError> {
        let listed = |values: &[String]| {
            let quoted: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
            format!("[{}]", quoted.join(","))
        };
        let fixed = at.iter().map(|(name, value)| match axis {
            Some(axis) if axis == name => (name.clone(), listed(&values(name))),
            _ => (name.clone(), listed(std::slice::from_ref(value))),
        });
        let experiment: Experiment = load(name, text, &fixed.collect::<Vec<_>>(), work).map_err(fault)?;
        let Measured { rows, .. } = experiment.measure(out, work, say)?;
        Ok(rows)
    };
    let start: Values =
        axes.iter().filter_map(|axis| Some((axis.clone(), values(axis).first()?.clone()))).collect();
    let first = along(&start, None)?.remove(0);
    let (mut best, mut all, mut steps) = (first.clone(), vec![first.clone()], BTreeMap::new());
    for _ in 0..passes {
        let before = best.values.clone();
        for axis in axes.iter().filter(|axis| values(axis).len() > 1) {
            let rows = along(&best.values, Some(axis))?;
            for row in &rows {
                if goal.is_better(row, &best) {
                    best = row.clone();
                }
                if all.iter().all(|known| known.values != row.values) {
                    all.push(row.clone());
                }
            }
            steps.insert(axis.clone(), rows);
        }
        if best.values == before {
            break;
        }
    }
    Ok(Ascent { first, best, rows: all, axes, steps })
}

impl Ascent {
    /// The axes whose best value differs from the first, with both values.
    pub fn changes(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let changed = self.axes.iter().filter(|axis| self.first.values[*axis] != self.best.values[*axis]);
        changed.map(|axis| (axis.as_str(), &*self.first.values[axis], &*self.best.values[axis]))
    }

    /// A page: the facts, the text (such as the commands to use the best row), how `figures` change along each axis, and
    /// all rows.
    pub fn page(&self, title: &str, facts: &[(&str, String)], text: &str, figures: &[&str]) -> String {
        let mut page = Page::new(title, facts);
        page.preformatted(text);
        let names: Vec<String> = self.first.figures.keys().cloned().collect();
        let mut compared = vec![vec![String::new(), "first".to_owned(), "best".to_owned()]];
        for axis in &self.axes {
            compared.push(vec![
                axis.clone(),
                self.first.values[axis].clone(),
                self.best.values[axis].clone(),
            ]);
        }
        for figure in figures {
            let shown = |row: &Row| row.figures.get(*figure).map_or(String::new(), |value| number(*value));
            compared.push(vec![(*figure).to_owned(), shown(&self.first), shown(&self.best)]);
        }
        page.table("The first settings and the best ones", &compared);
        for axis in &self.axes {
            let charts = figures.iter().filter_map(|figure| self.chart(axis, figure));
            charts.for_each(|svg| page.figure(&svg));
        }
        page.table("All rows", &cells(&self.axes, &names, &self.rows));
        page.finish()
    }

    /// A figure along an axis, in the last step along it.
    fn chart(&self, axis: &str, figure: &str) -> Option<String> {
        let point = |row: &Row| Some((row.values[axis].clone(), row.spread(figure)?));
        let mut points: Vec<_> = self.steps.get(axis)?.iter().filter_map(point).collect();
        points.sort_by(|(a, _), (b, _)| match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(a), Ok(b)) => a.total_cmp(&b),
            _ => a.cmp(b),
        });
        let heading = format!("{figure} by {axis}");
        let line = Line { label: String::new(), points };
        let facets = vec![(String::new(), vec![line])];
        Chart { heading: &heading, x: axis, legend: "", log: (false, false), facets }.svg()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(map: f64, idim: f64) -> Row {
        let figures = [("map", map), ("idim", idim)].map(|(name, value)| (name.to_owned(), value));
        Row { values: Values::new(), figures: figures.into() }
    }

    #[test]
    fn a_goal_wants_the_limit_first_and_then_a_gain() {
        let goal = Goal { figure: "map", gain: 0.01, limit: ("idim", 8.0) };
        assert!(goal.is_better(&row(0.52, 5.0), &row(0.5, 4.0)));
        assert!(!goal.is_better(&row(0.504, 5.0), &row(0.5, 4.0)), "no gain that counts");
        assert!(!goal.is_better(&row(0.9, 9.0), &row(0.5, 4.0)), "beyond the limit");
        assert!(goal.is_better(&row(0.1, 4.0), &row(0.9, 9.0)), "within the limit");
        assert!(goal.is_better(&row(0.1, 9.0), &row(0.9, 10.0)), "nearer to the limit");
        assert!(!goal.is_better(&row(f64::NAN, 4.0), &row(0.5, 4.0)), "no figure");
    }
}
