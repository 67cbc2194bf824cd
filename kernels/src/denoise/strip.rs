//! A picture denoised strip by strip, and each strip in bands of reference rows that may run side by side.
//!
//! Invariant: reference patches lie on the picture's grid, wherever strips and bands begin, so a cut changes no bit.

use std::ops::Range;

use super::aggregation::Sums;
use super::filter::{Filter, PlanePair, Rule};
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

    /// Pixels from a reference patch's corner to the last pixel that its stack reads or writes.
    fn reach(&self) -> usize {
        self.phase.half_window + self.phase.patch
    }

    /// The reference rows whose stacks may write to some rows of a picture of `height` rows.
    fn references(&self, rows: &Range<usize>, height: usize) -> Vec<usize> {
        let near = |y: &usize| *y < rows.end + self.phase.half_window && y + self.reach() > rows.start;
        grid(height, &self.phase).into_iter().filter(near).collect()
    }
}

/// The corners of reference patches along one side: every `step`, and the last place.
pub(crate) fn grid(side: usize, phase: &Phase) -> Vec<usize> {
    let last = side - phase.patch;
    let mut places: Vec<usize> = (0..=last).step_by(phase.step).collect();
    if places.last() != Some(&last) {
        places.push(last);
    }
    places
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
    /// false if `pieces` was cancelled: the picture is then partly done.
    pub fn denoise(
        &self,
        picture: &mut Picture,
        pieces: &mut Pieces<'_>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> bool {
        let per_row = picture.width() * picture.colours();
        self.denoise_by(picture, (STRIP_PIXELS / per_row).max(64), pieces, progress)
    }

    /// Denoises a picture in strips of so many rows.
    pub(crate) fn denoise_by(
        &self,
        picture: &mut Picture,
        strip_rows: usize,
        pieces: &mut Pieces<'_>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> bool {
        let height = picture.height();
        let source = picture.clone();
        for top in (0..height).step_by(strip_rows) {
            let rows = top..height.min(top + strip_rows);
            let Some(done) = self.strip(&source, rows.clone(), pieces) else { return false };
            picture.put(rows.clone(), &done.planes, done.width, self.parameters.colour);
            progress(rows.end, height);
        }
        true
    }

    /// Some rows of a picture, denoised.
    fn strip(&self, source: &Picture, rows: Range<usize>, pieces: &mut Pieces<'_>) -> Option<Rows> {
        let patch = self.first.phase.patch.max(self.second.as_ref().map_or(0, |second| second.phase.patch));
        let height = source.height().max(patch);
        // A picture below the size of a patch is one strip, mirrored up.
        let rows = rows.start..if rows.end == source.height() { height } else { rows.end };
        let around = |rows: &Range<usize>, stage: &Stage| {
            let reach = stage.reach() + stage.phase.half_window;
            rows.start.saturating_sub(reach)..height.min(rows.end + reach)
        };
        let basic_rows = self.second.as_ref().map_or(rows.clone(), |second| around(&rows, second));
        let noisy_rows = around(&basic_rows, &self.first);
        let colour = self.parameters.colour;
        let noisy = Rows {
            top: noisy_rows.start,
            width: source.width().max(patch),
            planes: source.planes(noisy_rows, patch, colour),
        };
        let deviations: Vec<f64> =
            source.deviations(colour).iter().map(|factor| factor * self.sigma).collect();
        let limits = deviations.iter().map(|sigma| Rule::Threshold((self.parameters.lambda * sigma) as f32));
        let basic =
            self.phase(&self.first, &noisy, &noisy, &limits.collect::<Vec<_>>(), basic_rows, height, pieces)?;
        let Some(second) = &self.second else { return Some(basic) };
        let variances =
            deviations.iter().map(|sigma| Rule::Wiener((self.parameters.mu * sigma * sigma) as f32));
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
        let references = stage.references(&rows, height);
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
                let bottom = height.min(band[band.len() - 1] + stage.reach());
                let mut sums: Vec<Sums> = rules.iter().map(|_| Sums::new(top, bottom - top, width)).collect();
                let rows: Vec<usize> = band.iter().map(|y| y - model.top).collect();
                let mut stacks = Vec::new();
                for (plane, sums) in sums.iter_mut().enumerate() {
                    if let Some(pixels) = pixels.get(plane) {
                        let (phase, displacements) = (&stage.phase, &stage.displacements);
                        stacks = matches(self.path, pixels, &rows, &columns, phase, displacements).concat();
                        let places = stacks.iter_mut().flat_map(|stack| &mut stack.places);
                        places.for_each(|place| place.0 += model.top as u32);
                    }
                    let planes = PlanePair {
                        noisy: &noisy.planes[plane][skipped..],
                        model: &model.planes[plane],
                        width,
                        top: model.top,
                    };
                    stage.filter.add(self.path, rules[plane], &planes, &stacks, sums);
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
