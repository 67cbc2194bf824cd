//! Both phases, each in bands of reference rows that may run side by side.
//!
//! Invariant: the sums of a phase do not depend on the order of its bands.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::aggregation::{SharedSums, Sums};
use super::extents::{grid, reach, references};
use super::filter::{self, Filter, Plane, Rule};
use super::matching::{Pixels, ROWS, displacements, matches};
use super::parameters::{Colour, Parameters, ParametersError, Phase};
use super::picture::Picture;
use super::progress::{Progress, patch_work};
use crate::CodePath;
use crate::pieces::Pieces;

/// Rows of reference patches that are compared and filtered together.
const BAND: usize = ROWS;

/// A phase with its tables.
pub(crate) struct Stage {
    pub phase: Phase,
    pub filter: Filter,
    pub displacements: Vec<(i32, i32)>,
    /// The work for a reference patch.
    pub patch_work: u64,
}

impl Stage {
    fn new(phase: Phase, parameters: &Parameters, is_second: bool) -> Self {
        let filter = Filter::new(&phase, parameters.along);
        let displacements = displacements(phase.half_window);
        Self { phase, filter, displacements, patch_work: patch_work(&phase, is_second) }
    }

    /// The work for some rows of a picture of this size.
    pub fn work(&self, rows: &Range<usize>, width: usize, height: usize) -> u64 {
        let count = references(&self.phase, rows, height).len() * grid(width, &self.phase).len();
        count as u64 * self.patch_work
    }
}

/// Rows of a picture as planes.
pub(crate) struct Rows {
    pub top: usize,
    pub width: usize,
    pub planes: Vec<Vec<f32>>,
}

/// One phase for some rows of a picture.
pub(crate) struct Task<'a> {
    pub stage: &'a Stage,
    pub noisy: &'a Rows,
    /// The planes that are matched, which are the model of Wiener's rule.
    pub model: &'a Rows,
    /// By plane.
    pub rules: &'a [Rule],
    pub rows: Range<usize>,
    /// Rows of the whole picture.
    pub height: usize,
    pub progress: &'a Progress<'a>,
}

/// The phases of some settings, with their tables.
pub(crate) struct Phases {
    pub parameters: Parameters,
    pub path: CodePath,
    pub first: Stage,
    pub second: Option<Stage>,
}

impl Phases {
    /// The phases of these settings.
    ///
    /// # Errors
    /// If the settings do not fit each other.
    pub fn new(parameters: Parameters, path: CodePath) -> Result<Self, ParametersError> {
        parameters.check()?;
        let second = parameters.second.map(|phase| Stage::new(phase, &parameters, true));
        Ok(Self { parameters, path, first: Stage::new(parameters.first, &parameters, false), second })
    }

    /// The rules of each plane of a picture in the first phase, for noise of a deviation.
    pub fn limits(&self, source: &Picture, sigma: f64) -> Vec<Rule> {
        let deviations = source.deviations(self.parameters.colour).into_iter();
        deviations.map(|factor| Rule::Threshold(self.parameters.limit(factor * sigma))).collect()
    }

    /// As [`Phases::limits`], in the second phase.
    pub fn variances(&self, source: &Picture, sigma: f64) -> Vec<Rule> {
        let deviations = source.deviations(self.parameters.colour).into_iter();
        deviations.map(|factor| Rule::Wiener(self.parameters.variance(factor * sigma))).collect()
    }

    /// Does a task; nothing if `pieces` was cancelled.
    pub fn run(&self, task: &Task<'_>, pieces: &mut Pieces<'_>) -> Option<Rows> {
        let Task { stage, noisy, model, rules, ref rows, height, progress } = *task;
        let width = noisy.width;
        let columns = grid(width, &stage.phase);
        let references = references(&stage.phase, rows, height);
        let alone = self.parameters.colour == Colour::Apart;
        let matched = &model.planes[..if alone { rules.len() } else { 1 }];
        let pixels = matched.iter().map(|plane| Pixels::new(plane, width, &stage.phase, pieces));
        let pixels = pixels.collect::<Option<Vec<_>>>()?;
        let sums: Vec<_> = rules.iter().map(|_| SharedSums::new(rows.start, rows.len(), width)).collect();
        let bands: Vec<&[usize]> = references.chunks(BAND).collect();
        // Bands take each other's memory over: pages that the system clears for each of them would cost a twentieth of the time, and all
        // threads would wait for them.
        let used: Mutex<Vec<Vec<Sums>>> = Mutex::default();
        let lock = || used.lock().unwrap_or_else(PoisonError::into_inner);
        let are_done = pieces(bands.len(), &|band| {
            let taken = lock().pop();
            let mut done = taken.unwrap_or_else(|| vec![Sums::default(); rules.len()]);
            self.band(task, bands[band], &columns, &pixels, &mut done);
            sums.iter().zip(&done).for_each(|(sums, added)| sums.add(added));
            lock().push(done);
            progress.add((bands[band].len() * columns.len()) as u64 * stage.patch_work);
        });
        if !are_done {
            return None;
        }
        let planes = sums.iter().map(|sums| sums.means(pieces)).collect::<Option<_>>()?;
        Some(Rows { top: rows.start, width, planes })
    }

    /// Computes the sums of the stacks of some rows of reference patches, by plane.
    fn band(&self, task: &Task<'_>, band: &[usize], columns: &[usize], pixels: &[Pixels], sums: &mut [Sums]) {
        let Task { stage, noisy, model, rules, height, .. } = *task;
        let width = noisy.width;
        let skipped = (model.top - noisy.top) * width;
        let top = band[0].saturating_sub(stage.phase.half_window);
        let bottom = height.min(band[band.len() - 1] + reach(&stage.phase));
        sums.iter_mut().for_each(|sums| sums.reset(top, bottom - top, width));
        let rows: Vec<usize> = band.iter().map(|y| y - model.top).collect();
        let each = sums.iter_mut().zip(rules).zip(noisy.planes.iter().zip(&model.planes));
        let mut planes: Vec<Plane<'_>> = each
            .map(|((sums, rule), (noisy, model))| Plane {
                rule: *rule,
                noisy: &noisy[skipped..],
                model,
                sums,
            })
            .collect();
        // Stacks of one plane, or those that all planes share.
        let sharing = planes.len() / pixels.len();
        for (pixels, planes) in pixels.iter().zip(planes.chunks_mut(sharing)) {
            let (phase, displacements) = (&stage.phase, &stage.displacements);
            let mut stacks = matches(self.path, pixels, &rows, columns, phase, displacements).concat();
            let places = stacks.iter_mut().flat_map(|stack| &mut stack.places);
            places.for_each(|place| place.0 += model.top as u32);
            let rows = filter::Rows { top: model.top, width };
            stage.filter.add(self.path, rows, planes, &stacks, &filter::Rows { top, width });
        }
    }
}
