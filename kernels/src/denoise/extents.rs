//! The places of reference patches, and the rows that a strip of a picture needs.
//!
//! Invariant: reference patches lie on the picture's grid, wherever a strip begins.

use std::ops::Range;

use super::parameters::{Parameters, Phase};

/// The corners of reference patches along one side: every `step`, and the last place.
pub(crate) fn grid(side: usize, phase: &Phase) -> Vec<usize> {
    let last = side - phase.patch;
    let mut places: Vec<usize> = (0..=last).step_by(phase.step).collect();
    if places.last() != Some(&last) {
        places.push(last);
    }
    places
}

/// Pixels from a reference patch's corner to the last pixel that its stack reads or writes.
pub(crate) fn reach(phase: &Phase) -> usize {
    phase.half_window + phase.patch
}

/// The reference rows whose stacks may write to some rows of a picture of `height` rows.
pub(crate) fn references(phase: &Phase, rows: &Range<usize>, height: usize) -> Vec<usize> {
    let near = |y: &usize| *y < rows.end + phase.half_window && y + reach(phase) > rows.start;
    grid(height, phase).into_iter().filter(near).collect()
}

/// The rows of planes that a strip of a picture needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Extents {
    /// Pixels of a row of planes: of the picture, or of a patch if the picture is narrower.
    pub width: usize,
    /// Rows of planes of the whole picture.
    pub height: usize,
    /// The rows of the noisy planes.
    pub noisy: Range<usize>,
    /// The rows of the first phase's result.
    pub basic: Range<usize>,
    /// The rows of the strip.
    pub rows: Range<usize>,
}

impl Extents {
    /// The rows for some rows of a picture. A picture below the size of a patch is one strip, mirrored up.
    pub fn new(parameters: &Parameters, width: usize, height: usize, rows: Range<usize>) -> Self {
        let Parameters { first, second, .. } = parameters;
        let patch = first.patch.max(second.map_or(0, |second| second.patch));
        let rows = rows.start..if rows.end == height { height.max(patch) } else { rows.end };
        let height = height.max(patch);
        let around = |rows: &Range<usize>, phase: &Phase| {
            let reach = reach(phase) + phase.half_window;
            rows.start.saturating_sub(reach)..height.min(rows.end + reach)
        };
        let basic = second.map_or(rows.clone(), |second| around(&rows, &second));
        Self { width: width.max(patch), height, noisy: around(&basic, first), basic, rows }
    }
}
