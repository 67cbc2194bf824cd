//! Arrows that run below the boxes: hints, and edges against the direction of the picture.

use super::edge_labels::EdgeLabel;
use super::layout::{Layout, Size};
use super::{ArrowKind, Drawing};

/// Space between the lowest box above an arrow and the arrow, and between arrows.
const HINT_DROP: f64 = 26.0;

/// Whether an arrow runs below the boxes.
pub(super) fn runs_below(drawing: &Drawing, layout: &Layout, sizes: &[Size], idx: usize) -> bool {
    let arrow = &drawing.arrows[idx];
    let back = layout.corners[arrow.from].0 + sizes[arrow.from].width > layout.corners[arrow.to].0;
    matches!(arrow.kind, ArrowKind::Hint(_)) || back
}

/// Arrows that run below the boxes: hints, and edges against the direction of the picture.
pub(super) struct LowArrows {
    /// The lowest height of each arrow below the boxes.
    pub(super) low: Vec<Option<f64>>,
    pub(super) bottom: f64,
}

impl LowArrows {
    pub(super) fn new(drawing: &Drawing, layout: &Layout, sizes: &[Size], labels: &[EdgeLabel]) -> Self {
        let mut arrows = Self { low: vec![None; drawing.arrows.len()], bottom: 0.0 };
        let mut taken: Vec<(f64, f64, f64)> = Vec::new();
        for (idx, arrow) in drawing.arrows.iter().enumerate() {
            let (from, to) = (layout.corners[arrow.from], layout.corners[arrow.to]);
            if !runs_below(drawing, layout, sizes, idx) {
                continue;
            }
            let (left, right) =
                (from.0.min(to.0), (from.0 + sizes[arrow.from].width).max(to.0 + sizes[arrow.to].width));
            let over = layout
                .corners
                .iter()
                .zip(sizes)
                .filter(|(corner, size)| corner.0 < right && corner.0 + size.width > left);
            let boxes = over.map(|(corner, size)| corner.1 + size.height).fold(0.0, f64::max);
            let via = layout.via.iter().flatten().filter(|(x, _)| *x < right && *x > left);
            let texts = labels.iter().filter(|label| label.middle < right && label.middle > left);
            let texts = texts.map(EdgeLabel::bottom).fold(boxes, f64::max);
            let mut low = via.map(|(_, y)| *y).fold(texts, f64::max) + HINT_DROP;
            // Below the hints already drawn over this stretch.
            let beside = taken.iter().filter(|(l, r, _)| *l < right && *r > left);
            let mut heights: Vec<f64> = beside.map(|(_, _, y)| *y).collect();
            heights.sort_by(f64::total_cmp);
            let mut above = 0;
            loop {
                above += heights[above..].partition_point(|y| low - y >= HINT_DROP - 4.0);
                match heights.get(above) {
                    Some(y) if y - low < HINT_DROP - 4.0 => low += HINT_DROP - 4.0,
                    _ => break,
                }
            }
            taken.push((left, right, low));
            arrows.low[idx] = Some(low);
            arrows.bottom = arrows.bottom.max(low + 8.0);
        }
        arrows
    }

    pub(super) fn x(&self, layout: &Layout, sizes: &[Size], of: usize, share: f64) -> f64 {
        layout.corners[of].0 + sizes[of].width * share
    }

    pub(super) fn path(
        &self,
        drawing: &Drawing,
        layout: &Layout,
        sizes: &[Size],
        idx: usize,
        low: f64,
    ) -> String {
        let arrow = &drawing.arrows[idx];
        let (x1, x2) = (self.x(layout, sizes, arrow.from, 0.62), self.x(layout, sizes, arrow.to, 0.38));
        let y1 = layout.corners[arrow.from].1 + sizes[arrow.from].height;
        let y2 = layout.corners[arrow.to].1 + sizes[arrow.to].height + 2.0;
        // Down, along, and up, with rounded corners.
        let step = if x2 < x1 { -1.0 } else { 1.0 };
        let round = ((x2 - x1).abs() / 2.0).min(14.0);
        format!(
            "M {x1:.1} {y1:.1} L {x1:.1} {:.1} Q {x1:.1} {low:.1} {:.1} {low:.1} L {:.1} {low:.1} Q {x2:.1} {low:.1} {x2:.1} {:.1} L {x2:.1} {y2:.1}",
            low - round,
            x1 + step * round,
            x2 - step * round,
            low - round,
        )
    }
}
