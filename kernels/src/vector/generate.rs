//! Vectors for measurements, any number of them, each made from a seed and its row alone.
//!
//! [`Generator::of_sample`] makes vectors that are hard to search in the way of a sample: about as many are near, at distances
//! about as large, and the intrinsic dimension stays as their number grows. A row of the sample is picked; with `m` the mean of
//! its 16 nearest, itself included, the vector is `m + sum of w_t (neighbour_t - m)`. The weights are normal, of deviation
//! 1.5/4, less their mean. Numbers of a sample without negative ones are clamped at 0, the vector is scaled to the sample's mean
//! norm, and bytes are rounded.
//!
//! Random numbers are those of PCG64 (M. O'Neill, "PCG", 2014: XSL RR 128/64), with the seed as state and the row as stream.

use std::ops::Range;

use super::measure::{VectorMeasure, inner_product};
use super::{ByteQueries, FlatQueries, Nearest};
use crate::CodePath;
use crate::elementary::{exp, ln};
use crate::numbers::VectorRef;

/// Nearest rows of which a vector is mixed.
pub const NEIGHBOURS: usize = 16;
/// The deviation of the sum of weights: with it the intrinsic dimension of SIFT vectors stays.
const SPREAD: f64 = 1.5;
/// Groups of a mixture.
const GROUPS: u64 = 1024;
/// The deviation of a mixture's vectors around their group, of the deviation of groups.
const WITHIN: f64 = 0.7;
/// The stream of the groups, which no row has.
const GROUP_STREAM: u64 = 1 << 63;

/// The random numbers of a seed and a stream.
#[derive(Clone, Debug)]
pub struct Pcg64 {
    state: u128,
    increment: u128,
}

impl Pcg64 {
    const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

    /// The numbers of a seed and a stream.
    pub fn new(seed: u128, stream: u128) -> Self {
        let mut random = Self { state: 0, increment: stream << 1 | 1 };
        random.step();
        random.state = random.state.wrapping_add(seed);
        random.step();
        random
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(Self::MULTIPLIER).wrapping_add(self.increment);
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A normal number of mean 0 and deviation 1: the polar method.
    fn normal(&mut self) -> f64 {
        loop {
            let (u, v) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = u * u + v * v;
            if (f64::MIN_POSITIVE..1.0).contains(&square) {
                return u * (-2.0 * ln(square) / square).sqrt();
            }
        }
    }
}

/// Generated vectors, row after row.
#[derive(Clone, Debug, PartialEq)]
pub enum Generated {
    /// Like a sample of bytes.
    U8(Vec<u8>),
    /// Like any other.
    F32(Vec<f32>),
}

impl Generated {
    /// The numbers.
    pub fn all(&self) -> VectorRef<'_> {
        match self {
            Self::U8(numbers) => VectorRef::U8(numbers),
            Self::F32(numbers) => VectorRef::F32(numbers),
        }
    }
}

/// Makes the rows of a seed.
#[derive(Clone, Debug)]
pub struct Generator {
    seed: u64,
    dimensions: usize,
    like: Like,
}

#[derive(Clone, Debug)]
enum Like {
    Sample {
        rows: Vec<f32>,
        neighbours: Vec<[u32; NEIGHBOURS]>,
        norm: f64,
        is_positive: bool,
        is_bytes: bool,
    },
    Mixture {
        spectrum: Vec<f64>,
    },
}

impl Generator {
    /// Vectors like those of a sample; `None` if it has fewer than 16 rows.
    ///
    /// # Panics
    /// If the numbers are not whole rows.
    pub fn of_sample(seed: u64, sample: VectorRef<'_>, dimensions: usize) -> Option<Self> {
        assert!(sample.len().is_multiple_of(dimensions), "whole rows");
        let rows = sample.widened();
        let count = rows.len() / dimensions;
        if count < NEIGHBOURS {
            return None;
        }
        let norms: f64 = rows.chunks_exact(dimensions).map(|row| inner_product(row, row).sqrt()).sum();
        let is_bytes = matches!(sample, VectorRef::U8(_));
        let is_positive = rows.iter().all(|number| *number >= 0.0);
        let neighbours = neighbours(sample, &rows, dimensions);
        let norm = norms / count as f64;
        Some(Self { seed, dimensions, like: Like::Sample { rows, neighbours, norm, is_positive, is_bytes } })
    }

    /// Unit vectors of a mixture whose spectrum falls as `j^-0.6`: of the shape of descriptors and embeddings, for rates only.
    pub fn of_mixture(seed: u64, dimensions: usize) -> Self {
        let spectrum = (1..=dimensions).map(|j| exp(-0.6 * ln(j as f64))).collect();
        Self { seed, dimensions, like: Like::Mixture { spectrum } }
    }

    /// Numbers of a vector.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// The vectors of some rows, whatever else was made.
    pub fn rows(&self, rows: Range<u64>) -> Generated {
        let mut numbers = Vec::with_capacity((rows.end - rows.start) as usize * self.dimensions);
        let is_bytes = matches!(self.like, Like::Sample { is_bytes: true, .. });
        for row in rows {
            let mut random = Pcg64::new(self.seed.into(), row.into());
            let mut vector = match &self.like {
                Like::Sample { rows, neighbours, norm, is_positive, .. } => {
                    let of = &neighbours[random.below(neighbours.len() as u64) as usize];
                    let mut vector = mixed(rows, of, self.dimensions, &mut random);
                    if *is_positive {
                        vector.iter_mut().for_each(|x| *x = x.max(0.0));
                    }
                    scale(&mut vector, *norm);
                    vector
                }
                Like::Mixture { spectrum } => {
                    let group = random.below(GROUPS);
                    let mut centre = Pcg64::new(self.seed.into(), (GROUP_STREAM | group).into());
                    let number = |deviation: &f64| deviation * (centre.normal() + WITHIN * random.normal());
                    let mut vector: Vec<f64> = spectrum.iter().map(number).collect();
                    scale(&mut vector, 1.0);
                    vector
                }
            };
            if is_bytes {
                vector.iter_mut().for_each(|x| *x = x.round().clamp(0.0, 255.0));
            }
            numbers.extend(vector.into_iter().map(|x| x as f32));
        }
        match is_bytes {
            true => Generated::U8(numbers.into_iter().map(|number| number as u8).collect()),
            false => Generated::F32(numbers),
        }
    }
}

/// The mean of some rows, moved by random multiples of their differences from it.
fn mixed(rows: &[f32], of: &[u32; NEIGHBOURS], dimensions: usize, random: &mut Pcg64) -> Vec<f64> {
    let mut weights = [0.0; NEIGHBOURS];
    weights.iter_mut().for_each(|weight| *weight = random.normal() * SPREAD / (NEIGHBOURS as f64).sqrt());
    let mean = weights.iter().sum::<f64>() / NEIGHBOURS as f64;
    // As the weights less their mean sum to 0, differences from the mean row need not be taken.
    let mut vector = vec![0.0; dimensions];
    for (weight, row) in weights.iter().zip(of) {
        let share = weight - mean + 1.0 / NEIGHBOURS as f64;
        let row = &rows[*row as usize * dimensions..][..dimensions];
        vector.iter_mut().zip(row).for_each(|(sum, x)| *sum += share * f64::from(*x));
    }
    vector
}

fn scale(vector: &mut [f64], norm: f64) {
    let own = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    if own > 0.0 {
        vector.iter_mut().for_each(|x| *x *= norm / own);
    }
}

/// The nearest rows of each row, itself included.
fn neighbours(sample: VectorRef<'_>, rows: &[f32], dimensions: usize) -> Vec<[u32; NEIGHBOURS]> {
    let path = CodePath::detect();
    let mut all = Vec::with_capacity(rows.len() / dimensions);
    for queries in rows.chunks(256 * dimensions) {
        let queries: Vec<&[f32]> = queries.chunks_exact(dimensions).collect();
        let mut nearest = vec![Nearest::new(NEIGHBOURS, f64::INFINITY); queries.len()];
        let measure = VectorMeasure::L2;
        let bytes = ByteQueries::new(path, measure, sample.number_type(), dimensions, &queries);
        match bytes {
            Some(bytes) => bytes.scan(sample, 0, None, &mut nearest),
            None => FlatQueries::new(path, measure, dimensions, &queries).scan(sample, 0, None, &mut nearest),
        }
        for (query, nearest) in queries.into_iter().zip(nearest) {
            let of = |row: u32| &rows[row as usize * dimensions..][..dimensions];
            let left = nearest.finish().into_iter();
            let mut left: Vec<(f64, u32)> =
                left.map(|(_, row)| (measure.between(query, of(row)), row)).collect();
            left.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            all.push(std::array::from_fn(|place| left[place].1));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_published_generator() {
        // The first outputs of pcg64-demo for the seed 42 and the stream 54.
        let mut random = Pcg64::new(42, 54);
        let expected = [0x86b1_da1d_7206_2b68_u64, 0x1304_aa46_c985_3d39, 0xa367_0e9e_0dd5_0358];
        assert_eq!(expected.map(|_| random.bits()), expected);
    }

    #[test]
    fn rows_are_the_same_whatever_else_is_made() {
        let sample: Vec<u8> = (0..64 * 5).map(|i| (i * 7919 % 251) as u8).collect();
        for generator in [
            Generator::of_sample(7, VectorRef::U8(&sample), 5).unwrap(),
            Generator::of_sample(
                7,
                VectorRef::F32(&sample.iter().map(|x| f32::from(*x) - 99.5).collect::<Vec<_>>()),
                5,
            )
            .unwrap(),
            Generator::of_mixture(7, 96),
        ] {
            let all = generator.rows(0..40).all().widened();
            let halves =
                [generator.rows(0..13), generator.rows(13..40)].map(|half| half.all().widened()).concat();
            assert_eq!(all, halves);
            assert!(all[..generator.dimensions()] != all[generator.dimensions()..2 * generator.dimensions()]);
        }
        let unit = Generator::of_mixture(1, 96).rows(5..6).all().widened();
        assert!((inner_product(&unit, &unit) - 1.0).abs() < 1e-5);
        assert!(Generator::of_sample(1, VectorRef::U8(&sample[..75]), 5).is_none());
    }
}
