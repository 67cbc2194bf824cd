//! Product quantizer: vectors as short codes, and distances of a query from codes by tables.
//!
//! A vector is cut into parts of equally many numbers; each part has a number of centroids, 256 or 16, and the code of the vector names
//! the nearest centroid of each part (Jegou, Douze and Schmid 2011). The squared distance of a query from the vector of a
//! code is a sum of one number a part, from tables that are computed once a query.
//!
//! Codes lie in groups of [`GROUP`] rows, part by part, so that vector units look up a part of many rows at once. They look up tables
//! of whole numbers up to 255, rounded down with one step: sums of these are certain lower bounds, and rows within the limit of
//! a shortlist get the sum of the f32 tables.
//!
//! Invariant: codes, tables and sums have the same bits on every code path. Sums add the parts in order, in f32; no operation
//! is fused.
//!
//! Modules in reading order: `tables`, `codes` (groups), `bytes` (tables of whole numbers), `x86` (the loops over groups in vector
//! instructions), `scan`, `device` (scans of lists on a device), `reference`.

mod tables;
mod codes;
mod bytes;
#[cfg(target_arch = "x86_64")]
mod x86;
mod scan;
pub mod device;
pub mod reference;
#[cfg(test)]
mod tests;

pub use codes::{Codes, GROUP, group_bytes, pack, unpack};
pub use scan::{Scales, Scanner, scan};

use crate::CodePath;
use crate::chance::Random;
use crate::kmeans::{Assigner, Options, k_means, start};
use crate::lanes::run;
use crate::memory::MemoryRefused;
use crate::pieces::Pieces;

/// The most parts of a code: sums of as many whole numbers fit 16 bits.
pub const PARTS_MAX: usize = 256;
const _: () = assert!(PARTS_MAX * 255 <= u16::MAX as usize);

/// Rounds of k-means for each part.
pub const ITERATIONS: usize = 25;

/// Rows that train a quantizer; more change it little.
pub const SAMPLE_MAX: usize = 65_536;

/// Rows that are cut and encoded at a time.
const ROWS_AT_ONCE: usize = 768;

/// How many bits name a centroid of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bits {
    /// 16 centroids.
    Four,
    /// 256 centroids.
    Eight,
}

impl Bits {
    /// Centroids of a part.
    pub const fn centroids(self) -> usize {
        match self {
            Self::Four => 16,
            Self::Eight => 256,
        }
    }
}

/// The centroids of all parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Codebook {
    dimensions: usize,
    parts: usize,
    bits: Bits,
    /// Part after part, centroid after centroid.
    numbers: Vec<f32>,
    /// Part after part, number after number, for all centroids of the part.
    turned: Vec<f32>,
}

impl Codebook {
    /// The numbers of a part; the last part may have fewer, and is filled with zeros.
    pub fn width(&self) -> usize {
        self.dimensions.div_ceil(self.parts)
    }

    /// Numbers of a vector.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Parts of a code.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// How many bits name a centroid.
    pub fn bits(&self) -> Bits {
        self.bits
    }

    /// All centroids: part after part, centroid after centroid.
    pub fn numbers(&self) -> &[f32] {
        &self.numbers
    }

    /// The centroids' numbers, turned: part after part, number after number, for all centroids of the part.
    pub fn turned(&self) -> &[f32] {
        &self.turned
    }

    /// The codebook of [`Codebook::numbers`]; `None` if it cannot be one.
    pub fn of_numbers(dimensions: usize, parts: usize, bits: Bits, numbers: Vec<f32>) -> Option<Self> {
        if parts == 0 || parts > PARTS_MAX.min(dimensions) || numbers.iter().any(|x| !x.is_finite()) {
            return None;
        }
        let (width, count) = (dimensions.div_ceil(parts), bits.centroids());
        if numbers.len() != parts.checked_mul(width)?.checked_mul(count)? {
            return None;
        }
        let mut turned = vec![0.0; numbers.len()];
        let each = numbers.chunks_exact(width * count).zip(turned.chunks_exact_mut(width * count));
        for (numbers, turned) in each {
            for (centroid, numbers) in numbers.chunks_exact(width).enumerate() {
                numbers.iter().enumerate().for_each(|(j, x)| turned[j * count + centroid] = *x);
            }
        }
        Some(Self { dimensions, parts, bits, numbers, turned })
    }

    /// Trains centroids on a sample of rows. `None` if the caller cancelled it.
    ///
    /// # Errors
    /// If the system has no memory for the clusters.
    ///
    /// # Panics
    /// If there is no row, these are no whole rows, or `parts` is 0, above [`PARTS_MAX`] or above the dimensions.
    pub fn train(
        rows: &[f32],
        dimensions: usize,
        parts: usize,
        bits: Bits,
        seed: u64,
        path: CodePath,
        pieces: &mut Pieces<'_>,
    ) -> Result<Option<Self>, MemoryRefused> {
        Self::train_from(rows, dimensions, parts, bits, None, ITERATIONS, seed, path, pieces)
    }

    /// As [`Codebook::train`], from the centroids of another codebook of this shape, if there is one, and with other than
    /// [`ITERATIONS`] rounds.
    #[expect(clippy::too_many_arguments, reason = "all of them say what is trained")]
    pub(crate) fn train_from(
        rows: &[f32],
        dimensions: usize,
        parts: usize,
        bits: Bits,
        before: Option<&Self>,
        iterations: usize,
        seed: u64,
        path: CodePath,
        pieces: &mut Pieces<'_>,
    ) -> Result<Option<Self>, MemoryRefused> {
        assert!(!rows.is_empty() && rows.len().is_multiple_of(dimensions), "whole rows");
        assert!((1..=PARTS_MAX.min(dimensions)).contains(&parts), "{parts} parts of {dimensions} numbers");
        let (count, width) = (rows.len() / dimensions, dimensions.div_ceil(parts));
        let size = width * bits.centroids();
        let mut numbers = Vec::with_capacity(parts * size);
        let mut cut = Vec::new();
        for part in 0..parts {
            cut_out(rows, dimensions, width, part, &mut cut);
            let seed = Random::mixed(seed.wrapping_add(part as u64)).bits();
            let from = match before {
                Some(before) => before.numbers[part * size..][..size].to_vec(),
                None => {
                    let chosen = start(count as u64, bits.centroids(), seed).into_iter();
                    let mut from: Vec<f32> =
                        chosen.flat_map(|row| cut[row as usize * width..][..width].iter().copied()).collect();
                    // With fewer rows than centroids, copies of a row fill the rest; codes never name them.
                    while from.len() < size {
                        from.extend_from_within(..width);
                    }
                    from
                }
            };
            let options = Options { iterations, seed, spherical: false, frozen: 0 };
            let Some(found) = k_means(&cut, width, from, options, path, pieces)? else { return Ok(None) };
            numbers.extend(found.centroids);
        }
        Ok(Self::of_numbers(dimensions, parts, bits, numbers))
    }

    /// Arranges the codebook for encoding many rows.
    pub fn encoder(&self) -> Encoder<'_> {
        let size = self.width() * self.bits.centroids();
        let assigners = self.numbers.chunks_exact(size).map(|part| Assigner::new(part, self.width(), None));
        Encoder { codebook: self, assigners: assigners.collect() }
    }

    /// Writes the vector of a code: a centroid number for each part.
    ///
    /// # Panics
    /// If the code or the room has another length.
    pub fn decode(&self, code: &[u8], out: &mut [f32]) {
        assert!(code.len() == self.parts && out.len() == self.dimensions, "a code and room for its vector");
        let (width, count) = (self.width(), self.bits.centroids());
        for (part, (centroid, out)) in code.iter().zip(out.chunks_mut(width)).enumerate() {
            let from = &self.numbers[(part * count + usize::from(*centroid)) * width..];
            out.copy_from_slice(&from[..out.len()]);
        }
    }

    /// Numbers of the tables of a query.
    pub fn tables_len(&self) -> usize {
        self.parts * self.bits.centroids()
    }

    /// Writes the tables of a query: for each part, the squared distances of its numbers from all centroids.
    ///
    /// # Panics
    /// If the query or the room has another length, or this machine lacks the instructions.
    pub fn tables(&self, path: CodePath, query: &[f32], out: &mut [f32]) {
        assert_eq!(query.len(), self.dimensions, "a query of the codebook's dimensions");
        assert_eq!(out.len(), self.tables_len(), "room for the tables");
        run(path, tables::Tables { codebook: self, query, out, terms: tables::Terms::Distances });
    }

    /// Writes the part of a query in tables of residuals: -2 <x, c> for all centroids.
    ///
    /// # Panics
    /// As [`Codebook::tables`].
    pub fn products(&self, path: CodePath, query: &[f32], out: &mut [f32]) {
        assert_eq!(query.len(), self.dimensions, "a query of the codebook's dimensions");
        assert_eq!(out.len(), self.tables_len(), "room for the tables");
        run(path, tables::Tables { codebook: self, query, out, terms: tables::Terms::Products });
    }

    /// Writes the part of a list in tables of residuals, `|c|^2 + 2 <y, c>` for the list's centroid `y` and all centroids
    /// `c` of the parts. With the [`Codebook::products`] of a query and its squared distance from `y`, the sums are squared
    /// distances of the query from `y` and a residual.
    ///
    /// # Panics
    /// As [`Codebook::tables`].
    pub fn terms(&self, path: CodePath, centroid: &[f32], out: &mut [f32]) {
        assert_eq!(centroid.len(), self.dimensions, "a centroid of the codebook's dimensions");
        assert_eq!(out.len(), self.tables_len(), "room for the tables");
        run(path, tables::Tables { codebook: self, query: centroid, out, terms: tables::Terms::List });
    }
}

/// A codebook, arranged for encoding many rows.
#[derive(Clone, Debug)]
pub struct Encoder<'a> {
    codebook: &'a Codebook,
    assigners: Vec<Assigner<'a>>,
}

impl Encoder<'_> {
    /// The codes of some rows, row after row: for each part the number of its nearest centroid, the lowest of equal ones.
    ///
    /// # Panics
    /// If these are no whole rows, or this machine lacks the instructions.
    pub fn encode(&self, path: CodePath, rows: &[f32]) -> Vec<u8> {
        let (dimensions, parts, width) =
            (self.codebook.dimensions, self.codebook.parts, self.codebook.width());
        assert!(rows.len().is_multiple_of(dimensions), "whole rows");
        let mut codes = vec![0; rows.len() / dimensions * parts];
        let mut cut = Vec::new();
        for (rows, codes) in
            rows.chunks(ROWS_AT_ONCE * dimensions).zip(codes.chunks_mut(ROWS_AT_ONCE * parts))
        {
            for (part, assigner) in self.assigners.iter().enumerate() {
                cut_out(rows, dimensions, width, part, &mut cut);
                let mut to = codes.iter_mut().skip(part).step_by(parts);
                assigner.assign_numbers(path, &cut, |centroid| {
                    if let Some(code) = to.next() {
                        *code = centroid as u8;
                    }
                });
            }
        }
        codes
    }
}

/// Copies a part of each row, filled with zeros.
fn cut_out(rows: &[f32], dimensions: usize, width: usize, part: usize, out: &mut Vec<f32>) {
    let (first, end) = ((part * width).min(dimensions), ((part + 1) * width).min(dimensions));
    out.clear();
    out.resize(rows.len() / dimensions * width, 0.0);
    // Parts are short: a loop copies them sooner than a call.
    for (to, row) in out.chunks_exact_mut(width).zip(rows.chunks_exact(dimensions)) {
        to.iter_mut().zip(&row[first..end]).for_each(|(to, x)| *to = *x);
    }
}
