//! k-means: centroids that divide rows of f32 into clusters by Euclidean distance (Lloyd's algorithm).
//!
//! A round assigns each row to its nearest centroid and replaces each centroid by the mean of its rows. The fast assignment
//! ranks the centroids that are nearest within its error in f64, so it is the exact one.
//!
//! Invariant: the centroids have the same bits on every code path and for any number of workers. Distances are those of
//! [`squared_l2`], ties go to the lowest centroid, and sums are f64, over blocks of [`BLOCK`] rows in the order of the rows,
//! joined in the order of the blocks.
//!
//! Modules in reading order: `assign`, `device` (the assignment on devices), `means` (their means), `spread` (a start with distances between its
//! centroids), `update` (means, and clusters without rows), `reference` (the same in plain loops).

mod assign;
mod update;
pub mod device;
pub mod means;
mod spread;
pub mod reference;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

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
    /// For each round that was computed by [`Rounds::compute`], the sum of squared distances of rows from the centroids at its beginning.
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
/// As [`Rounds::new`].
pub fn k_means(
    rows: &[f32],
    dimensions: usize,
    start: Vec<f32>,
    options: Options,
    path: CodePath,
    pieces: &mut Pieces<'_>,
) -> Result<Option<Clustering>, MemoryRefused> {
    let mut rounds = Rounds::new(rows, dimensions, start, options)?;
    while !rounds.is_over() {
        if !rounds.compute(path, rows, pieces) {
            return Ok(None);
        }
    }
    Ok(Some(rounds.into_clustering()))
}

/// A clustering under way. A round assigns all rows, here or elsewhere, and ends with new centroids.
#[derive(Clone, Debug)]
pub struct Rounds {
    dimensions: usize,
    options: Options,
    /// Near the middle of the rows.
    centre: Vec<f32>,
    /// By row: its cluster in the last round.
    clusters: Arc<Vec<u32>>,
    /// The clusters of an earlier round, for their memory.
    room: Vec<u32>,
    done: Clustering,
    count: usize,
    random: Random,
}

impl Rounds {
    /// Begins with the centroids `start` for some rows, `dimensions` numbers each.
    ///
    /// # Errors
    /// If the system has no memory for the clusters of the rows.
    ///
    /// # Panics
    /// If there is no centroid, or these are no whole rows, or more than 2^32.
    pub fn new(
        rows: &[f32],
        dimensions: usize,
        start: Vec<f32>,
        options: Options,
    ) -> Result<Self, MemoryRefused> {
        assert!(dimensions > 0 && rows.len().is_multiple_of(dimensions), "whole rows");
        assert!(!start.is_empty() && start.len().is_multiple_of(dimensions), "whole centroids");
        let count = rows.len() / dimensions;
        assert!(count.max(start.len() / dimensions) < u32::MAX as usize, "rows have numbers of 32 bits");
        let what = || format!("the clusters of {count} rows");
        Ok(Self {
            dimensions,
            options,
            centre: assign::centre(rows, dimensions),
            clusters: Arc::new(filled(count, u32::MAX, what, "take fewer rows")?),
            done: Clustering { centroids: start, objectives: Vec::new(), is_settled: false, splits: 0 },
            room: Vec::new(),
            count: 0,
            random: Random::mixed(options.seed ^ 0x6b6d),
        })
    }

    /// Whether there is no further round.
    pub fn is_over(&self) -> bool {
        self.done.is_settled || self.count >= self.options.iterations || self.clusters.is_empty()
    }

    /// Rounds so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The centroids to assign the rows of this round to.
    pub fn centroids(&self) -> &[f32] {
        &self.done.centroids
    }

    /// The assignment of this round; its rows may be taken with those clusters that [`Rounds::earlier`] gives.
    pub fn assigner(&self) -> Assigner<'_> {
        Assigner::new(&self.done.centroids, self.dimensions, Some(&self.centre))
    }

    /// The clusters of some rows in the round before; none in the first round.
    ///
    /// # Panics
    /// If there are no such rows.
    pub fn earlier(&self, rows: Range<usize>) -> &[u32] {
        if self.count == 0 { &[] } else { &self.clusters[rows] }
    }

    /// Computes a round; returns false if the caller cancelled it.
    ///
    /// # Panics
    /// If these are not the rows it began with.
    pub fn compute(&mut self, path: CodePath, rows: &[f32], pieces: &mut Pieces<'_>) -> bool {
        let (dimensions, count) = (self.dimensions, self.clusters.len());
        let assigner = self.assigner();
        let found = collect(pieces, count.div_ceil(ROWS_PER_PIECE), |piece| {
            let of_piece = piece * ROWS_PER_PIECE..count.min((piece + 1) * ROWS_PER_PIECE);
            let rows = &rows[of_piece.start * dimensions..of_piece.end * dimensions];
            assigner.assign_again(path, rows, self.earlier(of_piece))
        });
        let Some(found) = found else { return false };
        let (mut objective, mut block) = (0.0, 0.0);
        for (row, (_, distance)) in found.iter().flatten().enumerate() {
            if row % BLOCK == 0 {
                objective += block;
                block = 0.0;
            }
            block += distance;
        }
        self.done.objectives.push(objective + block);
        let clusters = found.into_iter().flatten().map(|(cluster, _)| cluster).collect();
        self.settle(clusters) || self.update(path, rows, pieces)
    }

    /// Takes the cluster of each row, the lowest of those that are nearest; returns whether no row has another than in the round
    /// before. If not, [`Rounds::update`] comes next.
    ///
    /// # Panics
    /// If there is no cluster for each row, or the rounds are over.
    pub fn settle(&mut self, clusters: Vec<u32>) -> bool {
        assert!(
            !self.is_over() && clusters.len() == self.clusters.len(),
            "a cluster for each row of a round"
        );
        self.done.is_settled = clusters == *self.clusters;
        let before = std::mem::replace(&mut self.clusters, Arc::new(clusters));
        self.room = Arc::try_unwrap(before).unwrap_or_default();
        self.count += 1;
        self.done.is_settled
    }

    /// Memory for the clusters of a round, with numbers that mean nothing: that of an earlier round, if no one else has it.
    pub fn take_room(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.room)
    }

    /// Replaces centroids by the means of their clusters; returns false if the caller cancelled it.
    ///
    /// # Panics
    /// If these are not the rows it began with.
    pub fn update(&mut self, path: CodePath, rows: &[f32], pieces: &mut Pieces<'_>) -> bool {
        let (dimensions, count) = (self.dimensions, self.done.centroids.len() / self.dimensions);
        assert_eq!(rows.len(), self.clusters.len() * dimensions, "rows of the rounds");
        let found = update::means(path, rows, dimensions, &self.clusters, count, pieces);
        let Some((means, counts)) = found else { return false };
        self.replace(&means, counts);
        true
    }

    /// Replaces centroids by the means of their clusters, which have so many rows, as [`Rounds::update`] computes them.
    ///
    /// # Panics
    /// If there is no mean or number for each cluster.
    pub fn replace(&mut self, means: &[f32], counts: Vec<usize>) {
        let (dimensions, options, centroids) = (self.dimensions, self.options, &mut self.done.centroids);
        assert_eq!((means.len(), counts.len() * dimensions), (centroids.len(), centroids.len()), "means");
        let frozen = options.frozen.min(counts.len());
        let each = centroids.chunks_exact_mut(dimensions).zip(means.chunks_exact(dimensions)).zip(&counts);
        for ((centroid, mean), _) in each.skip(frozen).filter(|(_, count)| **count > 0) {
            centroid.copy_from_slice(mean);
        }
        self.done.splits += update::split(counts, options.frozen, dimensions, centroids, &mut self.random);
        if options.spherical {
            update::normalise(&mut centroids[frozen * dimensions..], dimensions);
        }
    }

    /// Whether the last round changed no row's cluster.
    pub fn is_settled(&self) -> bool {
        self.done.is_settled
    }

    /// Clusters that had no rows and were split off another, in all rounds together.
    pub fn splits(&self) -> usize {
        self.done.splits
    }

    /// The sum of squared distances of rows from the centroids as they are now, by the clusters of the last round: the same bits
    /// wherever its rows were assigned. `None` if the caller cancelled it.
    ///
    /// # Panics
    /// If these are not the rows it began with, or there was no round.
    pub fn objective(&self, rows: &[f32], pieces: &mut Pieces<'_>) -> Option<f64> {
        let (dimensions, count) = (self.dimensions, self.clusters.len());
        assert!(rows.len() == count * dimensions && self.count > 0, "rows of the rounds");
        let sums = collect(pieces, count.div_ceil(BLOCK), |block| {
            let of_block = block * BLOCK..count.min((block + 1) * BLOCK);
            let each =
                rows[of_block.start * dimensions..].chunks_exact(dimensions).zip(&self.clusters[of_block]);
            let centroid = |cluster: u32| &self.done.centroids[cluster as usize * dimensions..][..dimensions];
            each.map(|(row, cluster)| squared_l2(row, centroid(*cluster))).sum::<f64>()
        })?;
        Some(sums.into_iter().sum())
    }

    /// The clusters of the last round.
    pub fn clusters(&self) -> &Arc<Vec<u32>> {
        &self.clusters
    }

    /// The centroids and how they came about; sums of squared distances only of the rounds that were computed here.
    pub fn into_clustering(self) -> Clustering {
        self.done
    }
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
