//! k-means in plain loops over all pairs of a row and a centroid: it defines the bits of [`k_means`](super::k_means).

use super::{BLOCK, Clustering, Options, nearest, update};
use crate::chance::Random;

/// As [`k_means`](super::k_means), on one thread.
///
/// # Panics
/// If there is no centroid.
pub fn k_means(rows: &[f32], dimensions: usize, start: Vec<f32>, options: Options) -> Clustering {
    let (count, clusters) = (rows.len() / dimensions, start.len() / dimensions);
    let mut done = Clustering { centroids: start, objectives: Vec::new(), is_settled: false, splits: 0 };
    let (mut before, mut random) = (Vec::new(), Random::mixed(options.seed ^ 0x6b6d));
    while done.objectives.len() < options.iterations && count > 0 {
        let (mut sums, mut counts) = (vec![0.0f64; clusters * dimensions], vec![0; clusters]);
        let (mut objective, mut assigned) = (0.0, Vec::new());
        for rows in rows.chunks(BLOCK * dimensions) {
            let (mut block_sums, mut block_objective) = (vec![0.0f64; sums.len()], 0.0);
            for row in rows.chunks_exact(dimensions) {
                let (cluster, distance) = nearest(&done.centroids, row);
                block_objective += distance;
                counts[cluster as usize] += 1;
                assigned.push(cluster);
                for (j, x) in row.iter().enumerate() {
                    block_sums[cluster as usize * dimensions + j] += f64::from(*x);
                }
            }
            objective += block_objective;
            sums.iter_mut().zip(block_sums).for_each(|(sum, block)| *sum += block);
        }
        done.objectives.push(objective);
        if assigned == before {
            done.is_settled = true;
            break;
        }
        before = assigned;
        for (place, sum) in sums.into_iter().enumerate() {
            if counts[place / dimensions] > 0 {
                done.centroids[place] = (sum / counts[place / dimensions] as f64) as f32;
            }
        }
        done.splits += update::split(counts, dimensions, &mut done.centroids, &mut random);
        if options.spherical {
            update::normalise(&mut done.centroids, dimensions);
        }
    }
    done
}
