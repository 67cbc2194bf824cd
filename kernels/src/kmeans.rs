//! k-means: centroids that divide rows of f32 into clusters by Euclidean distance (Lloyd's algorithm).
//!
//! A round assigns each row to its nearest centroid and replaces each centroid by the mean of its rows. The fast assignment
//! ranks the centroids that are nearest within its error in f64, so it is the exact one.
//!
//! Invariant: the centroids have the same bits on every code path and for any number of workers. Distances are those of
//! [`squared_l2`], ties go to the lowest centroid, and sums are f64, over blocks of [`BLOCK`] rows in the order of the rows,
//! joined in the order of the blocks.
//!
//! Modules in reading order: `assign`, `spread` (a start with distances between its centroids), `update` (means, and clusters
//! without rows), `reference` (the same in plain loops).

mod assign;
mod spread;
mod update;
pub mod reference;
#[cfg(test)]
mod tests;

pub use assign::Assigner;
pub use spread::spread;

use crate::CodePath;
use crate::chance::Random;
use crate::distance::squared_l2;
use crate::memory::{MemoryRefused, filled};
use crate::pieces::{Pieces, collect};

/// Rows whose sums are added by themselves, before they join those of other blocks.
pub const BLOCK: usize = 65_536;

/// Rows that one piece of work assigns.
const ROWS_PER_PIECE: usize = 8192;
const _: () = assert!(BLOCK.is_multiple_of(ROWS_PER_PIECE));

/// With fewer rows a cluster, centroids follow single rows.
pub const ROWS_A_CLUSTER_MIN: usize = 39;

/// More rows a cluster improve centroids little.
pub const ROWS_A_CLUSTER_MAX: usize = 256;

/// The settings of a clustering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The most rounds; fewer if no row changes its cluster.
    pub iterations: usize,
    /// The seed of random choices: which clusters are split for those without rows.
    pub seed: u64,
    /// Whether each centroid is scaled to norm 1.
    pub spherical: bool,
    /// The first centroids that stay as they are: they get rows, and neither move nor are split.
    pub frozen: usize,
}

/// Centroids and how they came about.
#[derive(Clone, Debug, PartialEq)]
pub struct Clustering {
    /// Row after row.
    pub centroids: Vec<f32>,
    /// For each round, the sum of squared distances of rows from the centroids at its beginning.
    pub objectives: Vec<f64>,
    /// Whether the last round changed no row's cluster.
    pub is_settled: bool,
    /// Clusters that had no rows and were split off another, in all rounds together.
    pub splits: usize,
}

/// The rows of a random start: `clusters` different ones of `rows`, or all in random order if there are fewer.
pub fn start(rows: u64, clusters: usize, seed: u64) -> Vec<u64> {
    Random::mixed(seed).distinct(rows, clusters)
}

/// Improves the centroids `start` for some rows, `dimensions` numbers each. `None` if the caller cancelled it.
///
/// # Errors
/// If the system has no memory for the clusters of the rows.
///
/// # Panics
/// If there is no centroid, or these are no whole rows, or more than 2^32.
pub fn k_means(
    rows: &[f32],
    dimensions: usize,
    start: Vec<f32>,
    options: Options,
    path: CodePath,
    pieces: &mut Pieces<'_>,
) -> Result<Option<Clustering>, MemoryRefused> {
    assert!(dimensions > 0 && rows.len().is_multiple_of(dimensions), "whole rows");
    assert!(!start.is_empty() && start.len().is_multiple_of(dimensions), "whole centroids");
    let count = rows.len() / dimensions;
    assert!(count.max(start.len() / dimensions) < u32::MAX as usize, "rows have numbers of 32 bits");
    let mut done = Clustering { centroids: start, objectives: Vec::new(), is_settled: false, splits: 0 };
    let frozen = options.frozen.min(done.centroids.len() / dimensions) * dimensions;
    let centre = assign::centre(rows, dimensions);
    let what = || format!("the clusters of {count} rows");
    let mut clusters = filled(count, u32::MAX, what, "take fewer rows")?;
    let mut random = Random::mixed(options.seed ^ 0x6b6d);
    while done.objectives.len() < options.iterations && count > 0 {
        let assigner = Assigner::new(&done.centroids, dimensions, Some(&centre));
        let is_first = done.objectives.is_empty();
        let found = collect(pieces, count.div_ceil(ROWS_PER_PIECE), |piece| {
            let of_piece = piece * ROWS_PER_PIECE..count.min((piece + 1) * ROWS_PER_PIECE);
            let rows = &rows[of_piece.start * dimensions..of_piece.end * dimensions];
            assigner.assign_again(path, rows, if is_first { &[] } else { &clusters[of_piece] })
        });
        let Some(found) = found else { return Ok(None) };
        let (mut objective, mut block, mut has_moved) = (0.0, 0.0, false);
        for (row, (cluster, distance)) in found.into_iter().flatten().enumerate() {
            if row % BLOCK == 0 {
                objective += block;
                block = 0.0;
            }
            block += distance;
            has_moved |= clusters[row] != cluster;
            clusters[row] = cluster;
        }
        done.objectives.push(objective + block);
        if !has_moved {
            done.is_settled = true;
            break;
        }
        let kept = done.centroids[..frozen].to_vec();
        let Some(counts) = update::means(path, rows, dimensions, &clusters, &mut done.centroids, pieces)
        else {
            return Ok(None);
        };
        done.centroids[..frozen].copy_from_slice(&kept);
        done.splits += update::split(counts, options.frozen, dimensions, &mut done.centroids, &mut random);
        if options.spherical {
            update::normalise(&mut done.centroids[frozen..], dimensions);
        }
    }
    Ok(Some(done))
}

/// The nearest centroid of a row and the squared distance from it, by comparing all.
fn nearest(centroids: &[f32], row: &[f32]) -> (u32, f64) {
    let mut nearest = (0, f64::INFINITY);
    for (number, centroid) in centroids.chunks_exact(row.len()).enumerate() {
        let distance = squared_l2(row, centroid);
        if distance < nearest.1 {
            nearest = (number as u32, distance);
        }
    }
    nearest
}
