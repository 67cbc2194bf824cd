//! Synthetic signatures that look like extracted ones, and the file format of signatures for a peer.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::ops::RangeInclusive;
use std::path::Path;

use boxwork_kernels::sqfd::{Columns, StoreColumns};

/// Coordinates of a centroid: x, y, L, a, b, contrast and entropy.
pub const DIMENSIONS: usize = 7;

/// Mean and deviation of each coordinate, as in the default extraction of photographs.
const PLACES: [(f32, f32); DIMENSIONS] =
    [(4.0, 1.6), (4.0, 1.6), (0.5, 0.25), (0.1, 0.3), (0.1, 0.4), (0.3, 0.3), (0.7, 0.2)];

/// Numbers that look random and are equal in every run.
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number from 0 to below 1.
    pub fn unit(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 24) as f32
    }

    /// A number of a range.
    pub fn count(&mut self, range: RangeInclusive<usize>) -> usize {
        range.start() + (self.unit() * (range.end() - range.start() + 1) as f32) as usize
    }

    /// About normal: mean 0, deviation 1.
    fn normal(&mut self) -> f32 {
        2.0 * (self.unit() + self.unit() + self.unit() - 1.5)
    }
}

/// Signatures in sequence, column by column; weights sum to 1.
#[derive(Debug)]
pub struct Signatures {
    pub coordinates: Vec<Vec<f32>>,
    pub weights: Vec<f32>,
    pub offsets: Vec<i32>,
}

impl Default for Signatures {
    fn default() -> Self {
        Self { coordinates: vec![Vec::new(); DIMENSIONS], weights: Vec::new(), offsets: vec![0] }
    }
}

impl Signatures {
    /// So many signatures, each with a number of centroids in a range.
    pub fn random(seed: u64, count: usize, centroids: RangeInclusive<usize>) -> Self {
        let (mut signatures, mut random) = (Self::default(), Random::new(seed));
        for _ in 0..count {
            let centroids = random.count(centroids.clone());
            signatures.push_random(&mut random, centroids);
        }
        signatures
    }

    /// Appends a signature.
    pub fn push_random(&mut self, random: &mut Random, centroids: usize) {
        let start = self.weights.len();
        for _ in 0..centroids {
            for (column, (mean, deviation)) in self.coordinates.iter_mut().zip(PLACES) {
                column.push(mean + deviation * random.normal());
            }
            self.weights.push(0.1 + random.unit());
        }
        let sum: f32 = self.weights[start..].iter().sum();
        self.weights[start..].iter_mut().for_each(|weight| *weight /= sum);
        self.offsets.push(self.weights.len() as i32);
    }

    /// Appends a signature given column by column; its weights are divided by their sum.
    pub fn push(&mut self, coordinates: &[Vec<f32>], weights: &[f32]) {
        let sum: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
        for (column, more) in self.coordinates.iter_mut().zip(coordinates) {
            column.extend_from_slice(more);
        }
        self.weights.extend(weights.iter().map(|&weight| (f64::from(weight) / sum) as f32));
        self.offsets.push(self.weights.len() as i32);
    }

    /// Number of signatures.
    pub fn count(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Drops all and keeps the memory.
    pub fn clear(&mut self) {
        self.coordinates.iter_mut().for_each(Vec::clear);
        self.weights.clear();
        self.offsets.truncate(1);
    }

    /// The kernels' view.
    pub fn with<R>(&self, read: impl FnOnce(&StoreColumns<'_>) -> R) -> R {
        let coordinates: Vec<&[f32]> = self.coordinates.iter().map(Vec::as_slice).collect();
        read(&StoreColumns::new(Columns::new(&coordinates, &self.weights), &self.offsets))
    }

    /// Writes them for a peer: count, lengths, then rows of weight and coordinates.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(&(self.count() as u32).to_le_bytes())?;
        for ends in self.offsets.windows(2) {
            file.write_all(&(ends[1] - ends[0]).to_le_bytes())?;
        }
        for (centroid, weight) in self.weights.iter().enumerate() {
            file.write_all(&weight.to_le_bytes())?;
            for column in &self.coordinates {
                file.write_all(&column[centroid].to_le_bytes())?;
            }
        }
        file.flush()
    }

    /// Reads the file that a peer has written in this form.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut bytes = Vec::new();
        File::open(path)?.read_to_end(&mut bytes)?;
        let (words, _) = bytes.as_chunks::<4>();
        let count = u32::from_le_bytes(words[0]) as usize;
        let (lengths, rows) = words[1..].split_at(count);
        let mut rows = rows.chunks_exact(DIMENSIONS + 1);
        let mut signatures = Self::default();
        for length in lengths {
            let (mut coordinates, mut weights) = (vec![Vec::new(); DIMENSIONS], Vec::new());
            for row in rows.by_ref().take(u32::from_le_bytes(*length) as usize) {
                weights.push(f32::from_le_bytes(row[0]));
                for (column, number) in coordinates.iter_mut().zip(&row[1..]) {
                    column.push(f32::from_le_bytes(*number));
                }
            }
            signatures.push(&coordinates, &weights);
        }
        Ok(signatures)
    }
}
