//! Codes rows, and measures each against its code.

use std::sync::Arc;

use super::principal::Principal;
use super::{LARGE, Levels, NUMBERS_PER_WORD, SHORT, Triple, ZERO_4, ZERO_8, has_shift, parts};
use crate::CodePath;
use crate::memory::MemoryRefused;
use crate::pieces::Pieces;
use crate::product::{Bits, Codebook};
use crate::vector::{VectorMeasure, inner_product};

/// The seed of the training of a codebook.
const SEED: u64 = 1234;
/// Rows whose product codes are found at a time.
const ROWS_AT_ONCE: usize = 256;

/// Codes rows of a store.
#[derive(Clone, Debug)]
pub struct Encoder {
    measure: VectorMeasure,
    levels: Levels,
    centre: Vec<f32>,
    /// The centroids of product codes.
    codebook: Option<Arc<Codebook>>,
    /// The directions of codes with bits by variance.
    principal: Option<Arc<Principal>>,
}

impl Encoder {
    /// An encoder of codes of numbers. `centre` is the mean of the rows, or of the normalised rows for the cosine; any other bounds as surely, and
    /// not as tightly.
    pub fn new(measure: VectorMeasure, levels: Levels, centre: Vec<f32>) -> Self {
        Self { measure, levels, centre, codebook: None, principal: None }
    }

    /// An encoder of product codes with a codebook for rows less the centre; `None` if these do not fit together.
    pub fn of_codebook(
        measure: VectorMeasure,
        levels: Levels,
        centre: Vec<f32>,
        numbers: Vec<f32>,
    ) -> Option<Self> {
        let parts = levels.parts(centre.len())?;
        let codebook = Codebook::of_numbers(centre.len(), parts, Bits::Eight, numbers)?;
        Some(Self { codebook: Some(Arc::new(codebook)), ..Self::new(measure, levels, centre) })
    }

    /// An encoder of codes along principal directions, by [`Principal::numbers`]; `None` if these do not fit together.
    pub fn of_principal(measure: VectorMeasure, centre: Vec<f32>, numbers: Vec<f32>) -> Option<Self> {
        let principal = Principal::of_numbers(centre.len(), numbers)?;
        Some(Self { principal: Some(Arc::new(principal)), ..Self::new(measure, Levels::Pca, centre) })
    }

    /// As [`Encoder::new`]; for product codes it trains a codebook on a sample of rows, for codes along principal directions these, with
    /// the same bits on every machine. `None` if the caller cancelled it.
    ///
    /// # Errors
    /// If the system has no memory for the training.
    ///
    /// # Panics
    /// If these are no whole rows of the centre's dimensions, or these are more than [`Levels::dimensions_max`].
    pub fn trained(
        measure: VectorMeasure,
        levels: Levels,
        centre: Vec<f32>,
        sample: &[f32],
        path: CodePath,
        pieces: &mut Pieces<'_>,
    ) -> Result<Option<Self>, MemoryRefused> {
        let dimensions = centre.len();
        let plain = Self::new(measure, levels, centre);
        if !levels.is_trained() {
            return Ok(Some(plain));
        }
        assert!(dimensions > 0 && sample.len().is_multiple_of(dimensions), "whole rows");
        let bounded = sample.chunks_exact(dimensions).filter_map(|row| plain.bounded(row));
        let mut rows: Vec<f32> = bounded.flatten().map(|x| x as f32).collect();
        if rows.is_empty() {
            // Nothing is known of rows: codes of zeros are as good as any.
            rows.resize(dimensions, 0.0);
        }
        let Some(parts) = levels.parts(dimensions) else {
            let principal = Principal::train(&rows, dimensions, path, pieces);
            return Ok(principal.map(|principal| Self { principal: Some(Arc::new(principal)), ..plain }));
        };
        let codebook = Codebook::train(&rows, dimensions, parts, Bits::Eight, SEED, path, pieces)?;
        Ok(codebook.map(|codebook| Self { codebook: Some(Arc::new(codebook)), ..plain }))
    }

    /// The centroids of product codes.
    pub fn codebook(&self) -> Option<&Codebook> {
        self.codebook.as_deref()
    }

    /// The directions of codes with bits by variance.
    pub fn principal(&self) -> Option<&Principal> {
        self.principal.as_deref()
    }

    /// Words of a row.
    pub fn words(&self) -> usize {
        self.levels.words(self.measure, self.centre.len())
    }

    /// The measure.
    pub fn measure(&self) -> VectorMeasure {
        self.measure
    }

    /// The bits.
    pub fn levels(&self) -> Levels {
        self.levels
    }

    /// The centre.
    pub fn centre(&self) -> &[f32] {
        &self.centre
    }

    /// A row less the centre, in f64; NaN if it has no direction that the cosine needs.
    pub(super) fn moved(&self, row: &[f32]) -> Vec<f64> {
        let factor = match self.measure {
            VectorMeasure::Cosine => 1.0 / inner_product(row, row).sqrt(),
            _ => 1.0,
        };
        let pairs = row.iter().zip(&self.centre);
        pairs.map(|(number, centre)| f64::from(*number) * factor - f64::from(*centre)).collect()
    }

    /// Appends the words of rows, one row after the other: its planes or its product code, then its triples by their bits, then its
    /// shift.
    ///
    /// # Panics
    /// If these are no whole rows of the centre's dimensions, or this machine lacks the instructions of the path.
    pub fn encode(&self, path: CodePath, rows: &[f32], words: &mut Vec<u32>) {
        let dimensions = self.centre.len();
        assert!(dimensions > 0 && rows.len().is_multiple_of(dimensions), "whole rows");
        if let Some(principal) = &self.principal {
            rows.chunks_exact(dimensions).for_each(|row| self.encode_turned(principal, path, row, words));
            return;
        }
        let Some(codebook) = &self.codebook else {
            rows.chunks_exact(dimensions).for_each(|row| self.encode_numbers(row, words));
            return;
        };
        let (encoder, mut decoded) = (codebook.encoder(), vec![0.0; dimensions]);
        for rows in rows.chunks(ROWS_AT_ONCE * dimensions) {
            let moved: Vec<Option<Vec<f64>>> =
                rows.chunks_exact(dimensions).map(|row| self.bounded(row)).collect();
            // A row that is not bounded has any code, and numbers that are none.
            let numbers: Vec<f32> =
                moved.iter().flat_map(|row| narrowed(row.as_deref(), dimensions)).collect();
            let codes = encoder.encode(path, &numbers);
            for (moved, code) in moved.iter().zip(codes.chunks_exact(codebook.parts())) {
                words.extend(parts::words(code));
                codebook.decode(code, &mut decoded);
                let unbounded;
                let moved = match moved {
                    Some(moved) => moved,
                    None => {
                        unbounded = vec![f64::NAN; dimensions];
                        &unbounded
                    }
                };
                let triple = triple(moved, decoded.iter().map(|x| f64::from(*x)));
                words.extend([triple.inverse, triple.along, triple.height].map(f32::to_bits));
                self.push_shift(moved, words);
            }
        }
    }

    fn encode_turned(&self, principal: &Principal, path: CodePath, row: &[f32], words: &mut Vec<u32>) {
        // A row that is not bounded has any code, and numbers that are none.
        let moved = self.bounded(row).unwrap_or_else(|| vec![f64::NAN; row.len()]);
        let turned = principal.turn(path, &moved);
        for code in principal.encode(&turned, words) {
            let triple = triple(&turned, code.into_iter());
            words.extend([triple.inverse, triple.along, triple.height].map(f32::to_bits));
        }
        self.push_shift(&moved, words);
    }

    fn encode_numbers(&self, row: &[f32], words: &mut Vec<u32>) {
        let bounded = self.bounded(row);
        let largest = bounded.iter().flatten().fold(0.0_f64, |largest, x| largest.max(x.abs()));
        let step = largest / 127.5;
        // A row that is not bounded has numbers that are none.
        let moved = bounded.unwrap_or_else(|| vec![f64::NAN; row.len()]);
        let byte = |x: f64| match step > 0.0 {
            true => (x / step + f64::from(ZERO_8)).round().clamp(0.0, 255.0) as u8,
            false => ZERO_8 as u8,
        };
        let bytes: Vec<u8> = moved.iter().map(|x| byte(*x)).collect();
        for shift in [4, 0].into_iter().take(self.levels.counts().0) {
            words.extend(bytes.chunks(NUMBERS_PER_WORD).map(|bytes| {
                let at =
                    |place: usize| u32::from(bytes.get(place).copied().unwrap_or_default() >> shift & 15);
                (0..4).fold(0, |word, place| word | (at(place) | at(place + 4) << 4) << (8 * place))
            }));
        }
        let mut add = |code: &dyn Fn(u8) -> i32| {
            let triple = triple(&moved, bytes.iter().map(|byte| f64::from(code(*byte))));
            words.extend([triple.inverse, triple.along, triple.height].map(f32::to_bits));
        };
        if self.levels.has_first() {
            add(&|byte| 2 * i32::from(byte >> 4) - ZERO_4);
        }
        if self.levels.has_both() {
            add(&|byte| i32::from(byte) - ZERO_8);
        }
        self.push_shift(&moved, words);
    }

    fn push_shift(&self, moved: &[f64], words: &mut Vec<u32>) {
        if has_shift(self.measure) {
            let pairs = moved.iter().zip(&self.centre);
            let shift: f64 = pairs.map(|(x, centre)| x * f64::from(*centre)).sum();
            words.push((shift as f32).to_bits());
        }
    }

    /// A row less the centre, if all its numbers are small enough for bounds.
    fn bounded(&self, row: &[f32]) -> Option<Vec<f64>> {
        let moved = self.moved(row);
        moved.iter().all(|x| x.abs() <= LARGE).then_some(moved)
    }
}

/// A row less the centre in f32; zeros for one without bounds.
fn narrowed(moved: Option<&[f64]>, dimensions: usize) -> impl Iterator<Item = f32> {
    (0..dimensions).map(move |j| moved.map_or(0.0, |moved| moved[j] as f32))
}

/// The numbers of a row for a code.
fn triple(moved: &[f64], code: impl Iterator<Item = f64>) -> Triple {
    let (mut product, mut square, mut norm) = (0.0, 0.0_f64, 0.0);
    for (x, c) in moved.iter().zip(code) {
        product += x * c;
        // Whole numbers have exact squares, and sums of these.
        square += c * c;
        norm += x * x;
    }
    let length = square.sqrt();
    let inverse = if length >= SHORT { 1.0 / length } else { 0.0 };
    let along = product * inverse;
    // The f32 of `along` is what a bound uses; 2^-40 covers the sums in f64.
    let rest = (norm - along * along).max(0.0) + norm * 2.0_f64.powi(-40);
    let height = rest.sqrt();
    let near = height as f32;
    let height = if f64::from(near) < height { near.next_up() } else { near };
    Triple { inverse: inverse as f32, along: along as f32, height }
}
