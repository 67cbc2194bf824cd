//! The figures of a run on a drawing of its pipeline: rates, the load of boxes, the fill of edges.

use super::{Arrow, ArrowKind, Drawing, DrawnBox};
use crate::numbers::{amount, bytes, share};
use crate::run_report::{BoxReport, EdgeReport, RunReport};

/// The figures of a box.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredBox {
    /// The text in the box.
    pub lines: Vec<String>,
    /// Its busy time as a share of the busiest box's.
    pub heat: f64,
    /// Whether no box was busier.
    pub busiest: bool,
}

/// The figures of an edge.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredEdge {
    /// The text at the edge.
    pub lines: Vec<String>,
    /// Whether a producer found it full, or it was grown: its consumer held up the run there.
    pub full: bool,
}

impl Drawing {
    /// Adds the figures of a run, and returns the differences if the report is of another pipeline.
    pub fn measure(&mut self, report: &RunReport) -> Vec<String> {
        let seconds = report.seconds;
        let busiest = report.boxes.iter().map(|of_box| of_box.busy_seconds).fold(0.0, f64::max);
        let mut strange: Vec<String> = Vec::new();
        for drawn in &mut self.boxes {
            match report.boxes.iter().find(|of_box| of_box.name == drawn.name) {
                Some(of_box) => drawn.measured = Some(of_run(drawn, of_box, seconds, busiest)),
                None => strange.push(format!("the report has no box `{}`", drawn.name)),
            }
        }
        for of_box in &report.boxes {
            if !self.boxes.iter().any(|drawn| drawn.name == of_box.name) {
                strange.push(format!("the report tells of a box `{}`, which is not there", of_box.name));
            }
        }
        for idx in 0..self.arrows.len() {
            if matches!(self.arrows[idx].kind, ArrowKind::Hint(_)) {
                continue;
            }
            let (from, to) = self.ends(&self.arrows[idx]);
            match report.edges.iter().find(|edge| edge.from == from && edge.to == to) {
                Some(edge) => self.arrows[idx].measured = Some(of_edge(edge, seconds)),
                None => strange.push(format!("the report has no edge {from} -> {to}")),
            }
        }
        strange
    }

    /// `box.port` of both ends of an edge.
    fn ends(&self, arrow: &Arrow) -> (String, String) {
        let (from, to) = (&self.boxes[arrow.from], &self.boxes[arrow.to]);
        (
            format!("{}.{}", from.name, from.outputs[arrow.output].name),
            format!("{}.{}", to.name, to.inputs[arrow.input].name),
        )
    }
}

fn of_run(drawn: &DrawnBox, of_box: &BoxReport, seconds: f64, busiest: f64) -> MeasuredBox {
    let rows = if drawn.outputs.is_empty() { of_box.rows_in } else { of_box.rows_out };
    let mut lines = vec![rate(rows, seconds)];
    let copies = of_box.copies.max(1);
    let of_copies = if copies > 1 { format!(" of {copies} copies") } else { String::new() };
    let percent = |busy: f64| share(busy, seconds * copies as f64);
    lines.push(format!("busy {}{of_copies}", percent(of_box.busy_seconds)));
    // For boxes that never block this line would be noise.
    if of_box.blocked_seconds > 0.0 {
        lines.push(format!("blocked {}", percent(of_box.blocked_seconds)));
    }
    let heat = if busiest > 0.0 { (of_box.busy_seconds / busiest).clamp(0.0, 1.0) } else { 0.0 };
    MeasuredBox { lines, heat, busiest: busiest > 0.0 && of_box.busy_seconds >= busiest }
}

fn of_edge(edge: &EdgeReport, seconds: f64) -> MeasuredEdge {
    let most = match edge.envelopes_max {
        Some(bound) => format!("most {} of {bound}", edge.envelopes_high),
        None => format!("most {}", edge.envelopes_high),
    };
    let mut lines = vec![rate(edge.rows, seconds), format!("{most}, {}", bytes(edge.bytes_high))];
    let times =
        |count: u64| if count == 1 { "once".to_owned() } else { format!("{} times", amount(count as f64)) };
    if edge.refusals > 0 {
        lines.push(format!("full {}", times(edge.refusals)));
    }
    if edge.grown > 0 {
        lines.push(format!("grown {}", times(edge.grown as u64)));
    }
    MeasuredEdge { lines, full: edge.refusals > 0 || edge.grown > 0 }
}

fn rate(rows: u64, seconds: f64) -> String {
    if seconds > 0.0 { format!("{} rows/s", amount(rows as f64 / seconds)) } else { format!("{rows} rows") }
}
