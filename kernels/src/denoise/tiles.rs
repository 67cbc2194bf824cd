//! One phase for the reference patches of a frame of a video, in tiles that may run side by side.
//!
//! A tile has sums of its own for all frames around, and adds them to those of the frames when its stacks are filtered. So memory is bounded by
//! the number of tiles that run at a time.
//!
//! Invariant: sums do not depend on the order of the tiles.

use std::sync::{Mutex, PoisonError};

use super::aggregation::{SharedSums, Sums};
use super::extents::grid;
use super::filter::{self, Layout, Plane, Rule};
use super::matching::{Pixels, ROWS, columns_at_once};
use super::parameters::Colour;
use super::phases::{Phases, Rows, Stage};
use super::prediction::{self, Around, HALF};
use super::progress::Progress;
use crate::pieces::Pieces;

/// Rows of reference patches of a tile. With more of them its sums are smaller beside its stacks.
const TILE_ROWS: usize = 2 * ROWS;

/// One phase for the reference patches of a frame.
pub(crate) struct FrameTask<'a> {
    pub stage: &'a Stage,
    /// The planes of all frames, below each other.
    pub noisy: &'a Rows,
    /// The planes that are matched, which are the model of Wiener's rule.
    pub model: &'a Rows,
    /// By plane.
    pub rules: &'a [Rule],
    pub around: &'a Around<'a>,
    /// The sums of each frame by plane, in the order of [`Around::tops`].
    pub sums: &'a [&'a [SharedSums]],
    pub progress: &'a Progress<'a>,
}

/// The sums of a tile: a rectangle of each frame, one below the other.
struct TileLayout<'a> {
    /// Rows of a frame in planes.
    height: usize,
    /// The number of each frame in the tile, by its place in planes.
    numbers: &'a [usize],
    top: usize,
    left: usize,
    rows: usize,
    width: usize,
}

impl Layout for TileLayout<'_> {
    #[inline(always)]
    fn number(&self, y: usize, x: usize) -> usize {
        let row = self.numbers[y / self.height] * self.rows + y % self.height - self.top;
        row * self.width + x - self.left
    }
}

impl<'a> TileLayout<'a> {
    /// The rectangle that the stacks of these reference patches may add to.
    fn new(
        (ys, xs): (&[usize], &[usize]),
        reach: usize,
        patch: usize,
        (height, width): (usize, usize),
        numbers: &'a [usize],
    ) -> Self {
        let side = |corners: &[usize], side: usize| {
            let from = corners[0].saturating_sub(reach);
            (from, side.min(corners[corners.len() - 1] + patch + reach) - from)
        };
        let ((top, rows), (left, width)) = (side(ys, height), side(xs, width));
        Self { height, numbers, top, left, rows, width }
    }
}

impl FrameTask<'_> {
    /// Does the task; nothing if `pieces` was cancelled, and the sums are then of no use.
    pub fn run(&self, phases: &Phases, pieces: &mut Pieces<'_>) -> Option<()> {
        let Self { stage, model, rules, around, progress, .. } = *self;
        let width = model.width;
        let own = around.own * width..(around.own + around.height) * width;
        let alone = phases.parameters.colour == Colour::Apart;
        let matched = &model.planes[..if alone { rules.len() } else { 1 }];
        let pixels =
            matched.iter().map(|plane| Pixels::new(&plane[own.clone()], width, &stage.phase, pieces));
        let pixels = pixels.collect::<Option<Vec<_>>>()?;
        let mut numbers = vec![0; model.planes[0].len() / (around.height * width)];
        around.tops().enumerate().for_each(|(number, top)| numbers[top / around.height] = number);
        let (rows, columns) = (grid(around.height, &stage.phase), grid(width, &stage.phase));
        let columns: Vec<&[usize]> = columns.chunks(columns_at_once(&stage.phase)).collect();
        let tiles: Vec<(&[usize], &[usize])> =
            rows.chunks(TILE_ROWS).flat_map(|ys| columns.iter().map(move |xs| (ys, *xs))).collect();
        // As bands of a picture do, tiles take over the memory of those that have ended.
        let used: Mutex<Vec<Vec<Sums>>> = Mutex::default();
        let lock = || used.lock().unwrap_or_else(PoisonError::into_inner);
        let are_done = pieces(tiles.len(), &|tile| {
            let (ys, xs) = tiles[tile];
            let taken = lock().pop();
            let mut sums = taken.unwrap_or_else(|| vec![Sums::default(); rules.len()]);
            self.tile(phases, (ys, xs), &pixels, &numbers, &mut sums);
            lock().push(sums);
            progress.add((ys.len() * xs.len()) as u64 * stage.patch_work);
        });
        are_done.then_some(())
    }

    /// Filters the stacks of a tile of reference patches, with some sums by plane to begin with.
    fn tile(
        &self,
        phases: &Phases,
        (ys, xs): (&[usize], &[usize]),
        pixels: &[Pixels],
        numbers: &[usize],
        sums: &mut [Sums],
    ) {
        let Self { stage, noisy, model, rules, around, .. } = *self;
        let phase = &stage.phase;
        // Each frame may lead the search away from the one before.
        let reach = phase.half_window + HALF * around.sides.iter().map(Vec::len).max().unwrap_or(0);
        let layout = TileLayout::new((ys, xs), reach, phase.patch, (around.height, model.width), numbers);
        let rows = self.sums.len() * layout.rows;
        sums.iter_mut().for_each(|sums| sums.reset(0, rows, layout.width));
        let each = sums.iter_mut().zip(rules).zip(noisy.planes.iter().zip(&model.planes));
        let mut planes: Vec<Plane<'_>> =
            each.map(|((sums, rule), (noisy, model))| Plane { rule: *rule, noisy, model, sums }).collect();
        // Stacks of one plane, or those that all planes share.
        let sharing = planes.len() / pixels.len();
        let rows = filter::Rows { top: 0, width: model.width };
        for (plane, (pixels, planes)) in pixels.iter().zip(planes.chunks_mut(sharing)).enumerate() {
            let around = (around, plane);
            let stacks =
                prediction::matches(phases.path, pixels, ys, xs, phase, &stage.displacements, around);
            stage.filter.add(phases.path, rows, planes, &stacks, &layout);
        }
        let size = layout.rows * layout.width;
        for (number, of_frame) in self.sums.iter().enumerate() {
            let part = number * size..(number + 1) * size;
            for (to, sums) in of_frame.iter().zip(&*sums) {
                let (estimates, weights) = (&sums.estimates[part.clone()], &sums.weights[part.clone()]);
                to.add_part((layout.top, layout.left), layout.width, estimates, weights);
            }
        }
    }
}
