//! A picture denoised strip by strip, and each strip in bands of reference rows that may run side by side.
//!
//! Invariant: reference patches lie on the picture's grid, wherever strips and bands begin, so a cut changes no bit.

use std::ops::Range;

use super::aggregation::Sums;
use super::extents::{Extents, grid, reach, references};
use super::filter::{self, Filter, Plane, Rule};
use super::matching::{Pixels, ROWS, displacements, matches};
use super::parameters::{Colour, Parameters, ParametersError, Phase};
use super::picture::Picture;
use super::progress::{Progress, patch_work};
use crate::CodePath;
use crate::pieces::{Pieces, collect};

/// Rows of reference patches that are compared and filtered together.
const BAND: usize = ROWS;
/// Bands whose sums are in memory at a time.
const BANDS: usize = 16;
/// Pixels of all planes of a strip, as far as its halo allows: about 200 MiB.
const STRIP_PIXELS: usize = 6 << 20;

/// Removes noise of one deviation from pictures.
pub struct Denoiser {
    parameters: Parameters,
    sigma: f64,
    path: CodePath,
    first: Stage,
    second: Option<Stage>,
}

/// A phase with its tables.
struct Stage {
    phase: Phase,
    filter: Filter,
    displacements: Vec<(i32, i32)>,
    /// The work for a reference patch.
    patch_work: u64,
}

impl Stage {
    fn new(phase: Phase, parameters: &Parameters, is_second: bool) -> Self {
        let filter = Filter::new(&phase, parameters.along);
        let displacements = displacements(phase.half_window);
        Self { phase, filter, displacements, patch_work: patch_work(&phase, is_second) }
    }

    /// The work for some rows of a picture of this size.
    fn work(&self, rows: &Range<usize>, width: usize, height: usize) -> u64 {
        let count = references(&self.phase, rows, height).len() * grid(width, &self.phase).len();
        count as u64 * self.patch_work
    }
}

/// Rows of a picture as planes.
struct Rows {
    top: usize,
    width: usize,
    planes: Vec<Vec<f32>>,
}

/// One phase for some rows of a picture.
struct Task<'a> {
    stage: &'a Stage,
    noisy: &'a Rows,
    /// The planes that are matched, which are the model of Wiener's rule.
    model: &'a Rows,
    /// By plane.
    rules: &'a [Rule],
    rows: Range<usize>,
    /// Rows of the whole picture.
    height: usize,
    progress: &'a Progress<'a>,
}

impl Denoiser {
    /// A denoiser for noise of deviation `sigma` in grey levels of 0 to 255.
    ///
    /// # Errors
    /// If the settings do not fit each other.
    ///
    /// # Panics
    /// If `sigma` is not positive and finite, or the machine lacks the path's instructions.
    pub fn new(parameters: Parameters, sigma: f64, path: CodePath) -> Result<Self, ParametersError> {
        assert!(sigma > 0.0 && sigma.is_finite(), "a deviation is positive");
        parameters.check()?;
        let second = parameters.second.map(|phase| Stage::new(phase, &parameters, true));
        Ok(Self { parameters, sigma, path, first: Stage::new(parameters.first, &parameters, false), second })
    }

    /// Denoises a picture in place. `pieces` runs bands side by side, each of which tells `progress` on its thread how much it has
    /// done, in pixels of the picture: all in all, its pixels. Returns false if `pieces` was cancelled: the picture then stays as it
    /// was.
    pub fn denoise(
        &self,
        picture: &mut Picture,
        pieces: &mut Pieces<'_>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> bool {
        self.denoise_rows(picture, 0..picture.height(), pieces, progress)
            .map(|done| *picture = done)
            .is_some()
    }

    /// Some rows of a picture without their noise, as a picture of their own; nothing if `pieces` was cancelled. `progress` is as for
    /// [`Denoiser::denoise`], with the pixels of the rows in all.
    pub fn denoise_rows(
        &self,
        source: &Picture,
        rows: Range<usize>,
        pieces: &mut Pieces<'_>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Option<Picture> {
        self.denoise_by(source, rows, strip_rows(source), pieces, progress)
    }

    /// Some rows of a picture, denoised in strips of so many rows.
    pub(crate) fn denoise_by(
        &self,
        source: &Picture,
        rows: Range<usize>,
        strip_rows: usize,
        pieces: &mut Pieces<'_>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Option<Picture> {
        let mut result = source.cut(rows.clone());
        let strips = || rows.clone().step_by(strip_rows).map(|top| top..rows.end.min(top + strip_rows));
        let work = strips().map(|strip| self.work(source, strip)).sum();
        let progress = Progress::new((rows.len() * source.width()) as u64, work, progress);
        for strip in strips() {
            let done = self.strip(source, strip.clone(), pieces, &progress)?;
            let place = strip.start - rows.start..strip.end - rows.start;
            result.put(place, &done.planes, done.width, self.parameters.colour);
        }
        Some(result)
    }

    /// The work for a strip.
    fn work(&self, source: &Picture, rows: Range<usize>) -> u64 {
        let Extents { width, height, basic, rows, .. } =
            Extents::new(&self.parameters, source.width(), source.height(), rows);
        let second = self.second.as_ref().map_or(0, |second| second.work(&rows, width, height));
        self.first.work(&basic, width, height) + second
    }

    /// The planes of some rows of a picture, denoised.
    fn strip(
        &self,
        source: &Picture,
        rows: Range<usize>,
        pieces: &mut Pieces<'_>,
        progress: &Progress<'_>,
    ) -> Option<Rows> {
        let Extents { width, height, noisy, basic, rows } =
            Extents::new(&self.parameters, source.width(), source.height(), rows);
        let colour = self.parameters.colour;
        let noisy = Rows { top: noisy.start, width, planes: source.planes(noisy, width, colour) };
        let deviations: Vec<f64> =
            source.deviations(colour).iter().map(|factor| factor * self.sigma).collect();
        let limits: Vec<Rule> =
            deviations.iter().map(|sigma| Rule::Threshold(self.parameters.limit(*sigma))).collect();
        let first = Task {
            stage: &self.first,
            noisy: &noisy,
            model: &noisy,
            rules: &limits,
            rows: basic,
            height,
            progress,
        };
        let basic = self.phase(&first, pieces)?;
        let Some(second) = &self.second else { return Some(basic) };
        let variances: Vec<Rule> =
            deviations.iter().map(|sigma| Rule::Wiener(self.parameters.variance(*sigma))).collect();
        self.phase(&Task { stage: second, model: &basic, rules: &variances, rows, ..first }, pieces)
    }

    /// Does a task.
    fn phase(&self, task: &Task<'_>, pieces: &mut Pieces<'_>) -> Option<Rows> {
        let Task { stage, noisy, model, rules, ref rows, height, progress } = *task;
        let width = noisy.width;
        let columns = grid(width, &stage.phase);
        let references = references(&stage.phase, rows, height);
        let matched = |plane: usize| Pixels::new(&model.planes[plane], width, &stage.phase);
        let alone = self.parameters.colour == Colour::Apart;
        let pixels: Vec<Pixels> = (0..if alone { rules.len() } else { 1 }).map(matched).collect();
        let mut sums: Vec<Sums> = rules.iter().map(|_| Sums::new(rows.start, rows.len(), width)).collect();
        let bands: Vec<&[usize]> = references.chunks(BAND).collect();
        for group in bands.chunks(BANDS) {
            let done = collect(pieces, group.len(), |band| {
                let sums = self.band(task, group[band], &columns, &pixels);
                progress.add((group[band].len() * columns.len()) as u64 * stage.patch_work);
                sums
            })?;
            for band in &done {
                sums.iter_mut().zip(band).for_each(|(sum, part)| sum.add(part));
            }
        }
        let planes = sums.iter().map(Sums::means).collect();
        Some(Rows { top: rows.start, width, planes })
    }

    /// The sums of the stacks of some rows of reference patches, by plane.
    fn band(&self, task: &Task<'_>, band: &[usize], columns: &[usize], pixels: &[Pixels]) -> Vec<Sums> {
        let Task { stage, noisy, model, rules, height, .. } = *task;
        let width = noisy.width;
        let skipped = (model.top - noisy.top) * width;
        let top = band[0].saturating_sub(stage.phase.half_window);
        let bottom = height.min(band[band.len() - 1] + reach(&stage.phase));
        let mut sums: Vec<Sums> = rules.iter().map(|_| Sums::new(top, bottom - top, width)).collect();
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
            stage.filter.add(self.path, filter::Rows { top: model.top, width }, planes, &stacks);
        }
        sums
    }
}

/// Rows of a strip of a picture.
fn strip_rows(picture: &Picture) -> usize {
    (STRIP_PIXELS / (picture.width() * picture.colours())).max(64)
}
