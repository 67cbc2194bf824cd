//! The variance of noise in the coefficients of a stack whose patches overlap.
//!
//! Patches of a stack share the noise of the pixels that they share: so noise of a constant variance in the picture has another
//! variance in each coefficient along the stack. Correlations of a coefficient depend only on the distance of its two
//! patches, and are products of those of a row and of a column of pixels.
//!
//! Source: Mäkinen, Azzari, Foi, "Collaborative filtering of correlated noise: exact transform-domain variance for improved
//! shrinkage and patch matching", IEEE Transactions on Image Processing 29 (2020).
//!
//! Invariant: sums of few pairs of patches go through the pairs in their order, and sums of many pairs through distances in their
//! order, one IEEE operation after the other. So every path and every device has the same variances.

use crate::lanes::Lanes;

use super::parameters::STACK_MAX;
use super::transform::{Matrix, Patch};

/// The least variance of a coefficient, in those of the noise, so that rounding leaves none below zero.
pub(crate) const VARIANCE_MIN: f32 = 1.0 / 1024.0;

/// By distance, then by coefficient: the correlation of noise in a coefficient of one row of pixels and in the same
/// coefficient of the row that begins so many pixels away.
pub(crate) fn correlations(forward: &Matrix) -> Matrix {
    let shared = |row: &Vec<f64>, distance: usize| row.iter().zip(&row[distance..]).map(|(a, b)| a * b).sum();
    (0..forward.len()).map(|distance| forward.iter().map(|row| shared(row, distance)).collect()).collect()
}

/// Up to this many patches in each half of a part of a stack, their pairs are added one by one; `device.cl` does so too.
pub(crate) const FEW_PATCHES: usize = 4;
/// Distances that a table has: those within the largest patch, and one for all others.
const DISTANCES: usize = 12;
/// Columns of a row of counts, a power of two.
const COUNTS: usize = 16;
/// Patches whose distances are computed together.
const WIDTH: usize = 8;
/// Coefficients that are summed at once, a multiple of all lanes.
const BLOCK: usize = 64;
/// Coefficients of the largest patch in whole blocks.
const COEFFICIENTS: usize = 3 * BLOCK;
/// The most numbers of a vector.
const LANES_MAX: usize = 16;

/// Correlations by distance; those from the size of a patch on are 0, as patches so far apart share nothing.
pub(crate) struct Correlations {
    /// Correlations of rows of pixels: each as often as a row of coefficients has numbers.
    rows: [[f32; COEFFICIENTS]; DISTANCES],
    /// Correlations of columns of pixels: those of all columns, again and again.
    columns: [[f32; LANES_MAX]; DISTANCES],
}

impl Correlations {
    /// The tables for a forward matrix, with coefficients in rows of `row` numbers.
    pub fn new(forward: &Matrix, row: usize) -> Self {
        let mut tables =
            Self { rows: [[0.0; COEFFICIENTS]; DISTANCES], columns: [[0.0; LANES_MAX]; DISTANCES] };
        for (distance, of_distance) in correlations(forward).into_iter().enumerate() {
            for (i, correlation) in of_distance.into_iter().enumerate() {
                tables.rows[distance][i * row..][..row].fill(correlation as f32);
                tables.columns[distance]
                    .iter_mut()
                    .skip(i)
                    .step_by(row)
                    .for_each(|to| *to = correlation as f32);
            }
        }
        tables
    }
}

/// Corners of the patches of a stack.
struct Corners {
    ys: [i32; STACK_MAX],
    xs: [i32; STACK_MAX],
}

/// The variances of all coefficients of a stack after Haar's transform along it, in those of the noise in the picture.
#[inline(always)]
pub(crate) fn variances<L: Lanes, const P: usize, const R: usize>(
    lanes: L,
    correlations: &Correlations,
    places: &[(u32, u32)],
    into: &mut [Patch<P, R>],
) {
    let mut corners = Corners { ys: [0; STACK_MAX], xs: [0; STACK_MAX] };
    for (k, (y, x)) in places.iter().enumerate() {
        (corners.ys[k], corners.xs[k]) = (*y as i32, *x as i32);
    }
    into.fill([[1.0; R]; P]);
    let (half, least) = (lanes.splat(0.5), lanes.splat(VARIANCE_MIN));
    let mut shared = [0f32; COEFFICIENTS];
    let mut step = 1;
    while step < places.len() {
        for base in (0..places.len()).step_by(2 * step) {
            if step <= FEW_PATCHES {
                of_few::<L, P, R>(lanes, correlations, &corners, base, step, &mut shared);
            } else {
                of_many::<L, P, R>(lanes, correlations, &corners, base, step, &mut shared);
            }
            let share = lanes.splat(1.0 / step as f32);
            let (low, high) = into[base..].split_at_mut(step);
            let low = low[0].as_flattened_mut().chunks_exact_mut(L::COUNT);
            let high = high[0].as_flattened_mut().chunks_exact_mut(L::COUNT);
            for ((low, high), shared) in low.zip(high).zip(shared.chunks_exact(L::COUNT)) {
                let mean = lanes.mul(lanes.add(lanes.load(low), lanes.load(high)), half);
                let part = lanes.mul(lanes.load(shared), share);
                lanes.store(lanes.add(mean, part), low);
                lanes.store(lanes.max(lanes.sub(mean, part), least), high);
            }
        }
        step *= 2;
    }
    // Only sums of all patches, which become the means, are not yet above the least variance.
    for means in into[0].as_flattened_mut().chunks_exact_mut(L::COUNT) {
        lanes.store(lanes.max(lanes.load(means), least), means);
    }
}

/// The sum of the correlations of all pairs of one of `step` patches from `base` on and one of the next `step`, by coefficient.
#[inline(always)]
fn of_few<L: Lanes, const P: usize, const R: usize>(
    lanes: L,
    correlations: &Correlations,
    corners: &Corners,
    base: usize,
    step: usize,
    sums: &mut [f32; COEFFICIENTS],
) {
    let mut pairs = [(0, 0); FEW_PATCHES * FEW_PATCHES];
    let mut count = 0;
    for k in base..base + step {
        for l in base + step..base + 2 * step {
            let rows = corners.ys[k].abs_diff(corners.ys[l]).min(P as u32);
            let columns = corners.xs[k].abs_diff(corners.xs[l]).min(P as u32);
            pairs[count] = (rows as usize, columns as usize);
            count += 1;
        }
    }
    let tables = pairs[..count]
        .iter()
        .map(|(rows, columns)| (&correlations.rows[*rows], &correlations.columns[*columns]));
    sum_of_products::<L, P, R>(lanes, tables, sums);
}

/// The sums, over pairs of tables, of the products of a number of the rows' table and one of the columns'.
#[expect(clippy::needless_range_loop, reason = "a number of vectors that each path knows")]
#[inline(always)]
fn sum_of_products<'a, L: Lanes, const P: usize, const R: usize>(
    lanes: L,
    tables: impl Iterator<Item = (&'a [f32; COEFFICIENTS], &'a [f32; LANES_MAX])> + Clone,
    sums: &mut [f32; COEFFICIENTS],
) {
    for from in (0..P * R).step_by(BLOCK) {
        let mut some = [lanes.splat(0.0); BLOCK / 4];
        for (rows, columns) in tables.clone() {
            // Sizes that the compiler knows, so that it checks none.
            let rows: &[f32; BLOCK] = rows[from..].first_chunk().expect("a whole block");
            for vector in 0..BLOCK / L::COUNT {
                let at = vector * L::COUNT;
                let product = lanes.mul(lanes.load(&rows[at..]), lanes.load(&columns[at % R..]));
                some[vector] = lanes.add(some[vector], product);
            }
        }
        let into: &mut [f32; BLOCK] = sums[from..].first_chunk_mut().expect("a whole block");
        for vector in 0..BLOCK / L::COUNT {
            lanes.store(some[vector], &mut into[vector * L::COUNT..]);
        }
    }
}

/// As [`of_few`], for a multiple of [`WIDTH`] patches: counts their pairs by distance before correlations are added.
#[inline(always)]
fn of_many<L: Lanes, const P: usize, const R: usize>(
    lanes: L,
    correlations: &Correlations,
    corners: &Corners,
    base: usize,
    step: usize,
    sums: &mut [f32; COEFFICIENTS],
) {
    let counts = count::<P>(corners, base, step);
    // By rows away: sums for columns of coefficients.
    let mut of_rows = [[0f32; LANES_MAX]; DISTANCES];
    for rows in 0..P {
        for from in (0..R).step_by(L::COUNT) {
            let mut sum = lanes.splat(0.0);
            for columns in 0..P {
                let count = lanes.splat(f32::from(counts[rows * COUNTS + columns]));
                sum = lanes.add(sum, lanes.mul(count, lanes.load(&correlations.columns[columns][from..])));
            }
            lanes.store(sum, &mut of_rows[rows][from..]);
        }
    }
    sum_of_products::<L, P, R>(lanes, correlations.rows[..P].iter().zip(&of_rows), sums);
}

/// The number of pairs of one of `step` patches from `base` on and one of the next `step`, by rows away, then columns.
#[inline(always)]
fn count<const P: usize>(corners: &Corners, base: usize, step: usize) -> [u16; DISTANCES * COUNTS] {
    let mut counts = [0u16; DISTANCES * COUNTS];
    for k in base..base + step {
        for from in (base + step..base + 2 * step).step_by(WIDTH) {
            let ys: &[i32; WIDTH] = corners.ys[from..].first_chunk().expect("a multiple of the width");
            let xs: &[i32; WIDTH] = corners.xs[from..].first_chunk().expect("a multiple of the width");
            let mut cells = [0u32; WIDTH];
            for l in 0..WIDTH {
                let rows = ys[l].abs_diff(corners.ys[k]).min(P as u32);
                let columns = xs[l].abs_diff(corners.xs[k]);
                // Pairs that are far apart count in several cells, as additions to one cell wait for each other.
                let columns = if columns < P as u32 { columns } else { P as u32 + l as u32 % 4 };
                cells[l] = rows * COUNTS as u32 + columns;
            }
            for cell in cells {
                counts[cell as usize] += 1;
            }
        }
    }
    counts
}

const _: () =
    assert!((2 * FEW_PATCHES).is_multiple_of(WIDTH), "more than a few patches are a multiple of the width");
const _: () = assert!(DISTANCES + 3 <= COUNTS, "cells of pairs far apart are within a row");
const _: () = assert!(COEFFICIENTS >= 11 * 16, "the largest patch");
