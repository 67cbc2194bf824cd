//! Means of clusters, and what happens to clusters without rows.

use super::BLOCK;
use crate::CodePath;
use crate::chance::Random;
use crate::lanes::{Lanes, Work, run};
use crate::pieces::{Pieces, collect};

/// Clusters whose means one piece of work computes.
const CLUSTERS_PER_PIECE: usize = 64;

/// A split cluster's two centroids differ by this part of each number, with alternating signs (Johnson, Douze and Jegou 2017).
const SPLIT: f32 = 1.0 / 1024.0;

/// The mean of each cluster, zeros where it has no rows, and the number of rows of each; `None` if cancelled.
pub(super) fn means(
    path: CodePath,
    rows: &[f32],
    dimensions: usize,
    clusters: &[u32],
    count: usize,
    pieces: &mut Pieces<'_>,
) -> Option<(Vec<f32>, Vec<usize>)> {
    let (order, starts) = by_cluster(clusters, count);
    let found = collect(pieces, count.div_ceil(CLUSTERS_PER_PIECE), |piece| {
        let first = piece * CLUSTERS_PER_PIECE;
        let clusters = first..count.min(first + CLUSTERS_PER_PIECE);
        run(path, Means { rows, dimensions, order: &order, starts: &starts[clusters.start..=clusters.end] })
    })?;
    Some((found.concat(), starts.windows(2).map(|window| window[1] - window[0]).collect()))
}

/// The mean of a cluster of these rows, which ascend.
pub(super) fn mean_of(path: CodePath, rows: &[f32], dimensions: usize, of_cluster: &[u32]) -> Vec<f32> {
    run(path, Means { rows, dimensions, order: of_cluster, starts: &[0, of_cluster.len()] })
}

/// All rows cluster by cluster, in their order within each, and where each cluster begins.
fn by_cluster(clusters: &[u32], count: usize) -> (Vec<u32>, Vec<usize>) {
    let mut starts = vec![0usize; count + 1];
    for cluster in clusters {
        starts[*cluster as usize + 1] += 1;
    }
    for cluster in 0..count {
        starts[cluster + 1] += starts[cluster];
    }
    let (mut next, mut order) = (starts.clone(), vec![0; clusters.len()]);
    for (row, cluster) in clusters.iter().enumerate() {
        let place = &mut next[*cluster as usize];
        order[*place] = row as u32;
        *place += 1;
    }
    (order, starts)
}

/// The means of some clusters: each has sums of each block of its rows, which ascend, then their sum.
struct Means<'a> {
    rows: &'a [f32],
    dimensions: usize,
    /// Rows, cluster by cluster.
    order: &'a [u32],
    /// The place at which each cluster begins, and the end of the last one.
    starts: &'a [usize],
}

impl Work for Means<'_> {
    type Done = Vec<f32>;

    // The sums are in f64, which the compiler vectorises for the path. Nothing is fused, so all paths have the same bits.
    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> Vec<f32> {
        let Self { rows, dimensions, order, starts } = self;
        let mut means = Vec::with_capacity((starts.len() - 1) * dimensions);
        let (mut total, mut block) = (vec![0.0f64; dimensions], vec![0.0f64; dimensions]);
        for ends in starts.windows(2) {
            let of_cluster = &order[ends[0]..ends[1]];
            total.fill(0.0);
            let mut first = 0;
            while first < of_cluster.len() {
                block.fill(0.0);
                let number = of_cluster[first] as usize / BLOCK;
                while first < of_cluster.len() && of_cluster[first] as usize / BLOCK == number {
                    let row = &rows[of_cluster[first] as usize * dimensions..][..dimensions];
                    for (sum, x) in block.iter_mut().zip(row) {
                        *sum += f64::from(*x);
                    }
                    first += 1;
                }
                for (total, sum) in total.iter_mut().zip(&block) {
                    *total += sum;
                }
            }
            let count = of_cluster.len().max(1) as f64;
            for total in &total {
                means.push((total / count) as f32);
            }
        }
        means
    }
}

/// Gives each cluster without rows half of another, which is chosen with a probability that grows with its rows. Returns the
/// number of such clusters that could be filled. The first `frozen` clusters take no part in it.
pub(super) fn split(
    mut counts: Vec<usize>,
    frozen: usize,
    dimensions: usize,
    centroids: &mut [f32],
    random: &mut Random,
) -> usize {
    let mut splits = 0;
    counts.iter_mut().take(frozen).for_each(|count| *count = 1);
    for empty in 0..counts.len() {
        if counts[empty] > 0 {
            continue;
        }
        // A cluster of one row cannot be split.
        let spare = |count: &usize| count.saturating_sub(1) as u64;
        let all: u64 = counts.iter().map(spare).sum();
        if all == 0 {
            break;
        }
        let mut left = random.below(all);
        let chosen = counts.iter().position(|count| {
            let spare = spare(count);
            let is_chosen = left < spare;
            left = left.saturating_sub(spare);
            is_chosen
        });
        let Some(full) = chosen else { break };
        for j in 0..dimensions {
            let (x, sign) = (centroids[full * dimensions + j], if j % 2 == 0 { SPLIT } else { -SPLIT });
            centroids[empty * dimensions + j] = x * (1.0 + sign);
            centroids[full * dimensions + j] = x * (1.0 - sign);
        }
        counts[empty] = counts[full] / 2;
        counts[full] -= counts[empty];
        splits += 1;
    }
    splits
}

/// Scales each centroid to norm 1, unless it is 0.
pub(super) fn normalise(centroids: &mut [f32], dimensions: usize) {
    for centroid in centroids.chunks_exact_mut(dimensions) {
        let square: f64 = centroid.iter().fold(0.0, |sum, x| sum + f64::from(*x) * f64::from(*x));
        if square > 0.0 {
            let scale = 1.0 / square.sqrt();
            centroid.iter_mut().for_each(|x| *x = (f64::from(*x) * scale) as f32);
        }
    }
}
