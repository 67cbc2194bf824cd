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
}

impl Stage {
    fn new(phase: Phase, parameters: &Parameters) -> Self {
        let filter = Filter::new(&phase, parameters.along);
        Self { phase, filter, displacements: displacements(phase.half_window) }
    }
}

/// Rows of a picture as planes.
struct Rows {
    top: usize,
    width: usize,
    planes: Vec<Vec<f32>>,
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
        let second = parameters.second.map(|phase| Stage::new(phase, &parameters));
        Ok(Self { parameters, sigma, path, first: Stage::new(parameters.first, &parameters), second })
    }

    /// Denoises a picture in place. `pieces` runs bands side by side; `progress` is given rows done and all rows. Returns
    /// false if `pieces` was cancelled: the picture then stays as it was.
    pub fn denoise(
        &self,
        picture: &mut Picture,
        pieces: &mut Pieces<'_>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> bool {
        let rows = 0..picture.height();
        self.denoise_by(picture, rows, strip_rows(picture), pieces, progress)
            .map(|done| *picture = done)
            .is_some()
    }

    /// Some rows of a picture without their noise, as a picture of their own; nothing if `pieces` was cancelled.
    pub fn denoise_rows(
        &self,
        source: &Picture,
        rows: Range<usize>,
        pieces: &mut Pieces<'_>,
    ) -> Option<Picture> {
        self.denoise_by(source, rows, strip_rows(source), pieces, &mut |_, _| {})
    }

    /// Some rows of a picture, denoised in strips of so many rows.
    pub(crate) fn denoise_by(
        &self,
        source: &Picture,
        rows: Range<usize>,
        strip_rows: usize,
        pieces: &mut Pieces<'_>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Option<Picture> {
        let mut result = source.cut(rows.clone());
        for top in rows.clone().step_by(strip_rows) {
            let strip = top..rows.end.min(top + strip_rows);
            let done = self.strip(source, strip.clone(), pieces)?;
            let place = strip.start - rows.start..strip.end - rows.start;
            progress(place.end, rows.len());
            result.put(place, &done.planes, done.width, self.parameters.colour);
        }
        Some(result)
    }

    /// The planes of some rows of a picture, denoised.
    fn strip(&self, source: &Picture, rows: Range<usize>, pieces: &mut Pieces<'_>) -> Option<Rows> {
        let Extents { width, height, noisy, basic, rows } =
            Extents::new(&self.parameters, source.width(), source.height(), rows);
        let colour = self.parameters.colour;
        let noisy = Rows { top: noisy.start, width, planes: source.planes(noisy, width, colour) };
        let deviations: Vec<f64> =
            source.deviations(colour).iter().map(|factor| factor * self.sigma).collect();
        let limits = deviations.iter().map(|sigma| Rule::Threshold(self.parameters.limit(*sigma)));
        let basic =
            self.phase(&self.first, &noisy, &noisy, &limits.collect::<Vec<_>>(), basic, height, pieces)?;
        let Some(second) = &self.second else { return Some(basic) };
        let variances = deviations.iter().map(|sigma| Rule::Wiener(self.parameters.variance(*sigma)));
        self.phase(second, &noisy, &basic, &variances.collect::<Vec<_>>(), rows, height, pieces)
    }

    /// One phase for some rows. `model` is matched, and is the model of Wiener's rule.
    #[expect(clippy::too_many_arguments, reason = "two sources, two places and the rules of each plane")]
    fn phase(
        &self,
        stage: &Stage,
        noisy: &Rows,
        model: &Rows,
        rules: &[Rule],
        rows: Range<usize>,
        height: usize,
        pieces: &mut Pieces<'_>,
    ) -> Option<Rows> {
        let width = noisy.width;
        let columns = grid(width, &stage.phase);
        let references = references(&stage.phase, &rows, height);
        let skipped = (model.top - noisy.top) * width;
        let matched = |plane: usize| Pixels::new(&model.planes[plane], width, &stage.phase);
        let alone = self.parameters.colour == Colour::Apart;
        let pixels: Vec<Pixels> = (0..if alone { rules.len() } else { 1 }).map(matched).collect();
        let mut sums: Vec<Sums> = rules.iter().map(|_| Sums::new(rows.start, rows.len(), width)).collect();
        let bands: Vec<&[usize]> = references.chunks(BAND).collect();
        for group in bands.chunks(BANDS) {
            let done = collect(pieces, group.len(), |band| {
                let band = group[band];
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
                    let mut stacks =
                        matches(self.path, pixels, &rows, &columns, phase, displacements).concat();
                    let places = stacks.iter_mut().flat_map(|stack| &mut stack.places);
                    places.for_each(|place| place.0 += model.top as u32);
                    stage.filter.add(self.path, filter::Rows { top: model.top, width }, planes, &stacks);
                }
                sums
            })?;
            for band in &done {
                sums.iter_mut().zip(band).for_each(|(sum, part)| sum.add(part));
            }
        }
        let planes = sums.iter().map(Sums::means).collect();
        Some(Rows { top: rows.start, width, planes })
    }
}

/// Rows of a strip of a picture.
fn strip_rows(picture: &Picture) -> usize {
    (STRIP_PIXELS / (picture.width() * picture.colours())).max(64)
}
