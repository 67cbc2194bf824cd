//! The means of clusters on devices: constants and sizes for `means.cl`, and clusters as it takes them.
//!
//! Invariant: the means have the bits of `update.rs`: sums in f64 of each block of rows, in the order of the rows, joined in the
//! order of the blocks.

use super::BLOCK;
use super::update::mean_of;
use crate::CodePath;
use crate::pieces::{Pieces, collect};
use crate::vector::device::ITEMS;

/// The source of the kernel.
pub const TEXT: &str = include_str!("means.cl");

/// Clusters of a round whose means the host computes too, and the most rows of such a one.
const CHECKED: usize = 4;
const CHECKED_ROWS: usize = 4096;

/// The constants to compile the source with.
pub fn constants() -> Vec<(&'static str, String)> {
    vec![("ITEMS", ITEMS.to_string()), ("BLOCK", BLOCK.to_string())]
}

/// Work groups of `means` for some clusters.
pub fn groups(clusters: usize, dimensions: usize) -> usize {
    (clusters * dimensions).div_ceil(ITEMS)
}

/// The clusters of rows as `means` takes them.
#[derive(Clone, Debug)]
pub struct Grouped {
    count: usize,
    /// By block of rows, the place at which each cluster begins, and the end of the last one.
    pub starts: Vec<u32>,
    /// By block, its rows, cluster by cluster, in their order within each.
    pub order: Vec<Vec<u32>>,
}

impl Grouped {
    /// Groups the rows of each of `count` clusters; `None` if the caller cancelled it.
    ///
    /// # Panics
    /// If a row has no such cluster.
    pub fn new(clusters: &[u32], count: usize, pieces: &mut Pieces<'_>) -> Option<Self> {
        let blocks = collect(pieces, clusters.len().div_ceil(BLOCK), |block| {
            let first = block * BLOCK;
            let of_block = &clusters[first..clusters.len().min(first + BLOCK)];
            let mut starts = vec![0u32; count + 1];
            for cluster in of_block {
                starts[*cluster as usize + 1] += 1;
            }
            for cluster in 0..count {
                starts[cluster + 1] += starts[cluster];
            }
            let (mut next, mut order) = (starts[..count].to_vec(), vec![0; of_block.len()]);
            for (row, cluster) in (first as u32..).zip(of_block) {
                let place = &mut next[*cluster as usize];
                order[*place as usize] = row;
                *place += 1;
            }
            (starts, order)
        })?;
        let (starts, order): (Vec<_>, _) = blocks.into_iter().unzip();
        Some(Self { count, starts: starts.concat(), order })
    }

    /// Number of clusters.
    pub fn clusters(&self) -> usize {
        self.count
    }

    /// Blocks of rows.
    pub fn blocks(&self) -> usize {
        self.starts.len() / (self.count + 1)
    }

    /// The rows of each cluster.
    pub fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.count];
        for starts in self.starts.chunks_exact(self.count + 1) {
            counts
                .iter_mut()
                .zip(starts.windows(2))
                .for_each(|(count, ends)| *count += (ends[1] - ends[0]) as usize);
        }
        counts
    }

    /// The rows of a cluster, ascending.
    fn rows_of(&self, cluster: usize) -> Vec<u32> {
        let of_block = |(starts, order): (&[u32], &Vec<u32>)| {
            order[starts[cluster] as usize..starts[cluster + 1] as usize].to_vec()
        };
        self.starts.chunks_exact(self.count + 1).zip(&self.order).flat_map(of_block).collect()
    }
}

/// Whether the means of some clusters have the bits that the host computes: those of a few that have not many rows.
///
/// # Panics
/// If there is no mean for each cluster.
pub fn are_means(
    path: CodePath,
    rows: &[f32],
    dimensions: usize,
    grouped: &Grouped,
    counts: &[usize],
    means: &[f32],
) -> bool {
    let few = |count: &usize| (1..=CHECKED_ROWS).contains(count);
    let mut chosen =
        (0..counts.len()).step_by((counts.len() / CHECKED).max(1)).filter(|cluster| few(&counts[*cluster]));
    let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
    chosen.all(|cluster| {
        let found = &means[cluster * dimensions..(cluster + 1) * dimensions];
        bits(found) == bits(&mean_of(path, rows, dimensions, &grouped.rows_of(cluster)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::update::means as means_on_slots;
    use super::*;
    use crate::chance::Random;
    use crate::pieces::one_by_one;

    #[test]
    fn groups_hold_every_row_once_and_means_are_those_of_the_host() {
        let mut random = Random::new(8);
        let (count, dimensions, rows) = (50, 3, 2 * BLOCK + 99);
        let clusters: Vec<u32> = (0..rows).map(|_| random.idx(count - 1) as u32).collect();
        let numbers: Vec<f32> = (0..rows * dimensions).map(|_| random.normal_f32().powi(9)).collect();
        let grouped = Grouped::new(&clusters, count, &mut one_by_one()).unwrap();
        assert_eq!((grouped.blocks(), grouped.counts().iter().sum::<usize>()), (3, rows));
        assert_eq!(grouped.order.iter().map(Vec::len).collect::<Vec<_>>(), [BLOCK, BLOCK, 99]);
        for (block, order) in grouped.order.iter().enumerate() {
            let starts = &grouped.starts[block * (count + 1)..][..=count];
            for (cluster, ends) in starts.windows(2).enumerate() {
                let of_cluster = &order[ends[0] as usize..ends[1] as usize];
                assert!(of_cluster.windows(2).all(|pair| pair[0] < pair[1]));
                assert!(of_cluster.iter().all(|row| clusters[*row as usize] == cluster as u32));
            }
        }
        let path = CodePath::detect();
        let (mut means, counts) =
            means_on_slots(path, &numbers, dimensions, &clusters, count, &mut one_by_one()).unwrap();
        assert_eq!(counts, grouped.counts());
        let are = |means: &[f32]| are_means(path, &numbers, dimensions, &grouped, &counts, means);
        assert!(are(&means));
        means[0] = means[0].next_up();
        assert!(!are(&means));
    }
}
