//! Rotations before a product quantizer: vectors are turned so that parts of equally many numbers lose least by their codes
//! (optimized product quantization; Ge, He, Ke and Sun 2013).
//!
//! A rotation has orthonormal rows, as many as a turned vector has numbers: fewer than the vectors have, if those are reduced. So the
//! squared distance of a query from the turned-back vector of a code is that of the turned query from the code, but for a part that no code
//! changes.
//!
//! Training begins with principal components, dealt out to the parts so that the products of their variances are equal, or with
//! random directions. Each round trains a codebook on turned vectors, decodes their codes, and takes the rotation that brings the vectors nearest to these: the
//! orthogonal Procrustes problem, solved by a singular value decomposition.
//!
//! Invariant: rotations and turned vectors have the same bits on every code path and for any number of workers. Sums are in f64, each in one
//! order; no operation is fused.
//!
//! Modules in reading order: `jacobi` (singular values), `reference` (turning in plain loops).

mod jacobi;
pub mod reference;
#[cfg(test)]
mod tests;

use crate::CodePath;
use crate::chance::Random;
use crate::elementary::ln;
use crate::lanes::{Lanes, Work, run};
use crate::memory::MemoryRefused;
use crate::pieces::{Pieces, collect};
use crate::product::{Bits, Codebook};
use jacobi::{Singular, complete, decompose};

/// Rounds of codebook and rotation.
const ROUNDS: usize = 50;
/// Rounds of k-means for the first codebook, and for each that begins with the one before.
const ITERATIONS_FIRST: usize = 40;
const ITERATIONS: usize = 4;
/// Rows that train a rotation; more change it little.
const SAMPLE_MAX: usize = 16_384;
/// The most numbers of a vector: a decomposition takes time with their third power.
pub const DIMENSIONS_MAX: usize = 1024;
/// Smaller variances, as parts of the largest one, count as this.
const VARIANCE_MIN: f64 = 1e-6;
/// Rows of a matrix that one piece of work sums up.
const BAND: usize = 16;
/// Vectors that one piece of work turns.
const ROWS_PER_PIECE: usize = 1024;

/// A rotation of vectors, perhaps to fewer numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotation {
    from: usize,
    to: usize,
    /// Row after row, `from` numbers each.
    numbers: Vec<f32>,
    /// The same, column after column.
    turned: Vec<f32>,
}

impl Rotation {
    /// The rotation of [`Rotation::numbers`]; `None` if it cannot be one.
    pub fn of_numbers(from: usize, to: usize, numbers: Vec<f32>) -> Option<Self> {
        let fits = (1..=from).contains(&to) && numbers.len() == from.checked_mul(to)?;
        if !fits || numbers.iter().any(|x| !x.is_finite()) {
            return None;
        }
        let mut turned = vec![0.0; numbers.len()];
        for (i, row) in numbers.chunks_exact(from).enumerate() {
            row.iter().enumerate().for_each(|(j, x)| turned[j * to + i] = *x);
        }
        Some(Self { from, to, numbers, turned })
    }

    /// A random rotation of vectors.
    ///
    /// # Panics
    /// If they have no numbers, or more than [`DIMENSIONS_MAX`].
    pub fn random(dimensions: usize, seed: u64) -> Self {
        Self::random_to(dimensions, dimensions, seed)
    }

    /// A random rotation of vectors to `to` numbers: the first rows of [`Rotation::random`].
    ///
    /// # Panics
    /// If they have no numbers, fewer than `to`, or more than [`DIMENSIONS_MAX`].
    pub fn random_to(dimensions: usize, to: usize, seed: u64) -> Self {
        assert!((1..=DIMENSIONS_MAX).contains(&dimensions) && to <= dimensions, "numbers of a vector");
        let mut random = Random::mixed(seed ^ 0x726f_7461);
        let mut directions: Vec<f64> = (0..dimensions * dimensions).map(|_| random.normal()).collect();
        complete(&mut directions, dimensions, &vec![true; dimensions]);
        let numbers = directions.into_iter().take(to * dimensions).map(|x| x as f32).collect();
        Self::of_numbers(dimensions, to, numbers).expect("orthonormal rows are finite")
    }

    /// Numbers of a vector.
    pub fn from(&self) -> usize {
        self.from
    }

    /// Numbers of a turned vector.
    pub fn to(&self) -> usize {
        self.to
    }

    /// Its rows, one after the other.
    pub fn numbers(&self) -> &[f32] {
        &self.numbers
    }

    /// Turns vectors.
    ///
    /// # Panics
    /// If these are no whole vectors, or this machine lacks the instructions.
    pub fn turn(&self, path: CodePath, vectors: &[f32]) -> Vec<f32> {
        assert!(vectors.len().is_multiple_of(self.from), "whole vectors");
        run(path, Turn { rotation: self, vectors })
    }

    /// Turns one vector, and keeps f64 numbers.
    ///
    /// # Panics
    /// If it has another number of dimensions, or this machine lacks the instructions.
    pub fn turn_wide(&self, path: CodePath, vector: &[f64]) -> Vec<f64> {
        assert_eq!(vector.len(), self.from, "numbers of a vector");
        run(path, TurnWide { rotation: self, vector })
    }

    /// How far a rotation to as many numbers may change a squared norm, as a part of it: the Frobenius norm of `R^T R - I`, which
    /// is no less than its largest eigenvalue, and the roundings of its sums.
    pub fn defect(&self, path: CodePath) -> f64 {
        let Self { from, to, numbers, .. } = self;
        let work = Products { rows: numbers, dimensions: *from, others: numbers, to: *from, band: 0..*from };
        let squares = run(path, work).into_iter().enumerate().map(|(place, product)| {
            let whole = if place % (from + 1) == 0 { 1.0 } else { 0.0 };
            (product - whole) * (product - whole)
        });
        let roundings = *from as f64 * (from + to) as f64 * f64::EPSILON;
        squares.sum::<f64>().sqrt() * (1.0 + roundings) + roundings
    }
}

struct Turn<'a> {
    rotation: &'a Rotation,
    vectors: &'a [f32],
}

impl Work for Turn<'_> {
    type Done = Vec<f32>;

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> Vec<f32> {
        let Rotation { from, to, turned, .. } = self.rotation;
        let mut out = Vec::with_capacity(self.vectors.len() / from * to);
        let mut sums = vec![0.0f64; *to];
        for vector in self.vectors.chunks_exact(*from) {
            sums.fill(0.0);
            add_products(vector, turned, &mut sums);
            for sum in &sums {
                out.push(*sum as f32);
            }
        }
        out
    }
}

struct TurnWide<'a> {
    rotation: &'a Rotation,
    vector: &'a [f64],
}

impl Work for TurnWide<'_> {
    type Done = Vec<f64>;

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> Vec<f64> {
        let Rotation { to, turned, .. } = self.rotation;
        let mut sums = vec![0.0f64; *to];
        add_products(self.vector, turned, &mut sums);
        sums
    }
}

/// Adds the numbers of a vector, times a column each.
#[inline(always)]
fn add_products<T: Copy + Into<f64>>(vector: &[T], columns: &[f32], sums: &mut [f64]) {
    for (x, column) in vector.iter().zip(columns.chunks_exact(sums.len())) {
        let x: f64 = (*x).into();
        for (sum, y) in sums.iter_mut().zip(column) {
            *sum += x * f64::from(*y);
        }
    }
}

/// The principal directions of some rows about the origin, those of the largest second moments first; `None` if the caller cancelled
/// it. At most 16,384 of the rows count.
///
/// # Panics
/// If there is no row, these are no whole rows, or there are more than [`DIMENSIONS_MAX`] numbers.
pub fn directions(
    rows: &[f32],
    dimensions: usize,
    path: CodePath,
    pieces: &mut Pieces<'_>,
) -> Option<Rotation> {
    assert!(!rows.is_empty() && rows.len().is_multiple_of(dimensions), "whole rows");
    assert!(dimensions <= DIMENSIONS_MAX, "numbers of a vector");
    let sample = sample_of(rows, dimensions);
    let moments = products(&sample, dimensions, &sample, dimensions, path, pieces)?;
    let singular = decompose(path, moments, dimensions, dimensions, None);
    let numbers = singular.right.into_iter().map(|x| x as f32).collect();
    Rotation::of_numbers(dimensions, dimensions, numbers)
}

/// Some of the rows, evenly apart.
fn sample_of(rows: &[f32], dimensions: usize) -> Vec<f32> {
    let count = rows.len() / dimensions;
    (0..count.min(SAMPLE_MAX))
        .map(|place| place * count / count.min(SAMPLE_MAX))
        .flat_map(|row| rows[row * dimensions..][..dimensions].iter().copied())
        .collect()
}

/// What [`train`] needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Numbers of a turned vector.
    pub to: usize,
    /// Parts of a code.
    pub parts: usize,
    /// How many bits name a centroid of a part.
    pub bits: Bits,
    /// The seed of the codebooks, and of a random start.
    pub seed: u64,
    /// The rotation to begin with.
    pub start: Start,
}

/// The rotation that training begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// Principal components, dealt out to the parts.
    #[default]
    Principal,
    /// Random directions.
    Random,
}

/// A rotation for vectors like some rows, and a codebook of the turned rows. `None` if the caller cancelled it.
///
/// # Errors
/// If the system has no memory for the clusters.
///
/// # Panics
/// If there is no row, these are no whole rows, there are more than [`DIMENSIONS_MAX`] numbers, or the options do not fit them.
pub fn train(
    rows: &[f32],
    dimensions: usize,
    options: Options,
    path: CodePath,
    pieces: &mut Pieces<'_>,
) -> Result<Option<(Rotation, Codebook)>, MemoryRefused> {
    assert!(!rows.is_empty() && rows.len().is_multiple_of(dimensions), "whole rows");
    assert!(dimensions <= DIMENSIONS_MAX && (1..=dimensions).contains(&options.to), "numbers of a vector");
    let Options { to, parts, bits, seed, start } = options;
    let sample = sample_of(rows, dimensions);
    let begun = match start {
        Start::Principal => principal(&sample, dimensions, to, parts, path, pieces),
        Start::Random => Some(Rotation::random_to(dimensions, to, seed)),
    };
    let Some(mut rotation) = begun else { return Ok(None) };
    let (mut codebook, mut before) = (None::<Codebook>, None);
    for round in 0..ROUNDS {
        let Some(turned) = turn(&rotation, &sample, path, pieces) else { return Ok(None) };
        let iterations = if round == 0 { ITERATIONS_FIRST } else { ITERATIONS };
        let trained = Codebook::train_from(
            &turned,
            to,
            parts,
            bits,
            codebook.as_ref(),
            iterations,
            seed,
            path,
            pieces,
        )?;
        let Some(trained) = trained else { return Ok(None) };
        let Some(decoded) = decoded(&trained, &turned, path, pieces) else { return Ok(None) };
        let Some(products) = products(&sample, dimensions, &decoded, to, path, pieces) else {
            return Ok(None);
        };
        let singular = decompose(path, products, dimensions, to, before.as_deref());
        rotation = procrustes(&singular, dimensions, to);
        before = Some(singular.right);
        codebook = Some(trained);
    }
    let Some(turned) = turn(&rotation, rows, path, pieces) else { return Ok(None) };
    let trained = Codebook::train_from(
        &turned,
        to,
        parts,
        bits,
        codebook.as_ref(),
        crate::product::ITERATIONS,
        seed,
        path,
        pieces,
    )?;
    Ok(trained.map(|codebook| (rotation, codebook)))
}

/// Turns rows side by side.
fn turn(rotation: &Rotation, rows: &[f32], path: CodePath, pieces: &mut Pieces<'_>) -> Option<Vec<f32>> {
    let size = ROWS_PER_PIECE * rotation.from;
    let found = collect(pieces, rows.len().div_ceil(size), |piece| {
        rotation.turn(path, &rows[piece * size..rows.len().min((piece + 1) * size)])
    })?;
    Some(found.concat())
}

/// The vectors of the codes of rows.
fn decoded(codebook: &Codebook, rows: &[f32], path: CodePath, pieces: &mut Pieces<'_>) -> Option<Vec<f32>> {
    let (encoder, dimensions, parts) = (codebook.encoder(), codebook.dimensions(), codebook.parts());
    let size = ROWS_PER_PIECE * dimensions;
    let found = collect(pieces, rows.len().div_ceil(size), |piece| {
        let rows = &rows[piece * size..rows.len().min((piece + 1) * size)];
        let codes = encoder.encode(path, rows);
        let mut decoded = vec![0.0; rows.len()];
        for (code, decoded) in codes.chunks_exact(parts).zip(decoded.chunks_exact_mut(dimensions)) {
            codebook.decode(code, decoded);
        }
        decoded
    })?;
    Some(found.concat())
}

/// The sums of the products of each number of a row with each number of its other row: column after column, one for each
/// of the `to` numbers of the others.
fn products(
    rows: &[f32],
    dimensions: usize,
    others: &[f32],
    to: usize,
    path: CodePath,
    pieces: &mut Pieces<'_>,
) -> Option<Vec<f64>> {
    let bands = collect(pieces, to.div_ceil(BAND), |piece| {
        let band = piece * BAND..to.min((piece + 1) * BAND);
        run(path, Products { rows, dimensions, others, to, band })
    })?;
    Some(bands.concat())
}

/// Some columns of the products.
struct Products<'a> {
    rows: &'a [f32],
    dimensions: usize,
    others: &'a [f32],
    to: usize,
    band: std::ops::Range<usize>,
}

impl Work for Products<'_> {
    type Done = Vec<f64>;

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> Vec<f64> {
        let Self { rows, dimensions, others, to, band } = self;
        let mut sums = vec![0.0f64; band.len() * dimensions];
        for (row, other) in rows.chunks_exact(dimensions).zip(others.chunks_exact(to)) {
            for (y, sums) in other[band.clone()].iter().zip(sums.chunks_exact_mut(dimensions)) {
                let y = f64::from(*y);
                for (sum, x) in sums.iter_mut().zip(row) {
                    *sum += y * f64::from(*x);
                }
            }
        }
        sums
    }
}

/// The rotation that brings vectors nearest to others, by the decomposition of their [`products`].
fn procrustes(singular: &Singular, from: usize, to: usize) -> Rotation {
    let mut numbers = vec![0.0f64; to * from];
    // R = V U^T, one singular direction after the other.
    let each = singular.left.chunks_exact(from).zip(singular.right.chunks_exact(to));
    for (left, right) in each {
        for (y, row) in right.iter().zip(numbers.chunks_exact_mut(from)) {
            for (number, x) in row.iter_mut().zip(left) {
                *number += y * x;
            }
        }
    }
    let numbers = numbers.into_iter().map(|x| x as f32).collect();
    Rotation::of_numbers(from, to, numbers).expect("orthonormal rows are finite")
}

/// The principal components of rows, dealt out to the parts; `None` if cancelled.
fn principal(
    rows: &[f32],
    dimensions: usize,
    to: usize,
    parts: usize,
    path: CodePath,
    pieces: &mut Pieces<'_>,
) -> Option<Rotation> {
    let count = (rows.len() / dimensions) as f64;
    let mut means = vec![0.0f64; dimensions];
    for row in rows.chunks_exact(dimensions) {
        means.iter_mut().zip(row).for_each(|(mean, x)| *mean += f64::from(*x));
    }
    means.iter_mut().for_each(|mean| *mean /= count);
    let mut covariances = products(rows, dimensions, rows, dimensions, path, pieces)?;
    for (row, mean) in covariances.chunks_exact_mut(dimensions).zip(&means) {
        row.iter_mut().zip(&means).for_each(|(covariance, other)| *covariance -= count * mean * other);
    }
    let singular = decompose(path, covariances, dimensions, dimensions, None);
    // The width of a part, as the codebook cuts it; the last parts may have fewer numbers.
    let width = to.div_ceil(parts);
    let room = |part: usize| ((part + 1) * width).min(to).saturating_sub(part * width);
    let least = (singular.values[0] * VARIANCE_MIN).max(f64::MIN_POSITIVE);
    let (mut dealt, mut sizes) = (vec![Vec::new(); parts], vec![0.0f64; parts]);
    for (component, value) in singular.values.iter().enumerate().take(to) {
        let open = (0..parts).filter(|part| dealt[*part].len() < room(*part));
        let Some(part) = open.min_by(|a, b| sizes[*a].total_cmp(&sizes[*b])) else { break };
        dealt[part].push(component);
        // Sums of logarithms are products. All are positive, so that a part with a large variance waits.
        sizes[part] += ln(value.max(least) / least);
    }
    let rows = dealt.into_iter().flatten();
    let rows = rows.flat_map(|component| &singular.right[component * dimensions..][..dimensions]);
    Rotation::of_numbers(dimensions, to, rows.map(|x| *x as f32).collect())
}
