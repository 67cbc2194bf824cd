//! A picture denoised strip by strip.
//!
//! Invariant: reference patches lie on the picture's grid, wherever strips and bands begin, so a cut changes no bit.

use std::ops::Range;

use super::extents::Extents;
use super::parameters::{Parameters, ParametersError};
use super::phases::{Phases, Rows, Task};
use super::picture::Picture;
use super::progress::Progress;
use crate::CodePath;
use crate::pieces::Pieces;

/// Pixels of all planes of a strip, as far as its halo allows: about 450 MiB. Each strip ends with threads that wait for the last one,
/// and a picture of 12 megapixels is one.
const STRIP_PIXELS: usize = 12 << 20;

/// Removes noise of one deviation from pictures.
pub struct Denoiser {
    phases: Phases,
    sigma: f64,
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
        Ok(Self { phases: Phases::new(parameters, path)?, sigma })
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
            if !result.put(place, &done.planes, done.width, self.phases.parameters.colour, pieces) {
                return None;
            }
        }
        Some(result)
    }

    /// The work for a strip.
    fn work(&self, source: &Picture, rows: Range<usize>) -> u64 {
        let Extents { width, height, basic, rows, .. } =
            Extents::new(&self.phases.parameters, source.width(), source.height(), rows);
        let second = self.phases.second.as_ref().map_or(0, |second| second.work(&rows, width, height));
        self.phases.first.work(&basic, width, height) + second
    }

    /// The planes of some rows of a picture, denoised.
    fn strip(
        &self,
        source: &Picture,
        rows: Range<usize>,
        pieces: &mut Pieces<'_>,
        progress: &Progress<'_>,
    ) -> Option<Rows> {
        let phases = &self.phases;
        let Extents { width, height, noisy, basic, rows } =
            Extents::new(&phases.parameters, source.width(), source.height(), rows);
        let planes = source.planes_by(noisy.clone(), width, phases.parameters.colour, pieces)?;
        let noisy = Rows { top: noisy.start, width, planes };
        let limits = phases.limits(source, self.sigma);
        let first = Task {
            stage: &phases.first,
            noisy: &noisy,
            model: &noisy,
            rules: &limits,
            rows: basic,
            height,
            progress,
        };
        let basic = phases.run(&first, pieces)?;
        let Some(second) = &phases.second else { return Some(basic) };
        let variances = phases.variances(source, self.sigma);
        phases.run(&Task { stage: second, model: &basic, rules: &variances, rows, ..first }, pieces)
    }
}

/// Rows of a strip of a picture.
fn strip_rows(picture: &Picture) -> usize {
    (STRIP_PIXELS / (picture.width() * picture.colours())).max(64)
}
