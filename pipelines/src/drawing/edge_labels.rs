//! The places of texts at measured edges: in the gap to the right of the edge's producer, without overlap.

use super::layout::{Layout, ROW_GAP};
use super::{ArrowKind, Drawing};

pub(super) const LABEL_PX: f64 = 9.5;
pub(super) const LABEL_LINE_HEIGHT: f64 = 11.5;
/// Space between a text and the boxes beside it.
const MARGIN: f64 = 14.0;
const SPACE: f64 = 7.0;
/// Space between a text and its arrow below.
const ABOVE: f64 = 5.0;

/// The text at one edge.
#[derive(Debug)]
pub(super) struct EdgeLabel {
    pub(super) arrow: usize,
    pub(super) lines: Vec<String>,
    /// The middle of its width, and its upper end.
    pub(super) middle: f64,
    pub(super) top: f64,
}

impl EdgeLabel {
    pub(super) fn height(&self) -> f64 {
        self.lines.len() as f64 * LABEL_LINE_HEIGHT
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height()
    }
}

/// The width of the gaps between columns that the texts need.
pub(super) fn gap(drawing: &Drawing, width: impl Fn(&str) -> f64, least: f64) -> f64 {
    let lines = (0..drawing.arrows.len()).flat_map(|arrow| lines(drawing, arrow));
    lines.map(|line| width(&line) + 2.0 * MARGIN).fold(least, f64::max)
}

/// The text of an edge. If a box feeds several, it names the consumer.
fn lines(drawing: &Drawing, idx: usize) -> Vec<String> {
    let arrow = &drawing.arrows[idx];
    let Some(measured) = &arrow.measured else { return Vec::new() };
    let siblings = drawing
        .arrows
        .iter()
        .filter(|other| other.from == arrow.from && !matches!(other.kind, ArrowKind::Hint(_)));
    let mut lines = Vec::new();
    if siblings.count() > 1 {
        lines.push(format!("to {}", drawing.boxes[arrow.to].name));
    }
    lines.extend(measured.lines.iter().cloned());
    lines
}

/// Places the texts of all arrows that go forward; `heights` are the heights at both ends of an arrow.
pub(super) fn place(
    drawing: &Drawing,
    layout: &Layout,
    skipped: impl Fn(usize) -> bool,
    heights: impl Fn(usize) -> (f64, f64),
) -> Vec<EdgeLabel> {
    let mut labels = Vec::new();
    for (layer, columns) in layout.columns.windows(2).enumerate() {
        let (left, right) = (columns[0].0 + columns[0].1, columns[1].0);
        let mut here: Vec<EdgeLabel> = Vec::new();
        for (idx, arrow) in drawing.arrows.iter().enumerate() {
            let lines = lines(drawing, idx);
            if layout.layers[arrow.from] != layer || lines.is_empty() || skipped(idx) {
                continue;
            }
            let (from, to) = heights(idx);
            let to = layout.via[idx].first().map_or(to, |point| point.1);
            let mut label = EdgeLabel { arrow: idx, lines, middle: f64::midpoint(left, right), top: 0.0 };
            label.top = f64::midpoint(from, to) - label.height() - ABOVE;
            here.push(label);
        }
        spread(&mut here);
        labels.extend(here);
    }
    labels
}

/// Separates texts of one gap: down as far as the order forces, up likewise, and the mean of both.
fn spread(labels: &mut [EdgeLabel]) {
    labels.sort_by(|a, b| a.top.total_cmp(&b.top));
    let wanted: Vec<f64> = labels.iter().map(|label| label.top).collect();
    let step = |label: &EdgeLabel| label.height() + SPACE;
    let (mut down, mut up) = (wanted.clone(), wanted);
    for at in 1..labels.len() {
        down[at] = down[at].max(down[at - 1] + step(&labels[at - 1]));
    }
    for at in (1..labels.len()).rev() {
        up[at - 1] = up[at - 1].min(up[at] - step(&labels[at - 1]));
    }
    let tops: Vec<f64> = down.iter().zip(&up).map(|(down, up)| f64::midpoint(*down, *up)).collect();
    // The title is above the picture.
    let lift = tops.first().map_or(0.0, |top| (-ROW_GAP / 2.0 - top).max(0.0));
    for (label, top) in labels.iter_mut().zip(tops) {
        label.top = top + lift;
    }
}
