//! k-means in plain loops over all pairs of a row and a centroid: it defines the bits of [`k_means`](super::k_means).

use super::{BLOCK, Clustering, Options, ROWS_PER_PIECE, nearest, update};
use crate::chance::Random;
use crate::distance::squared_l2;

/// As [`spread`](super::spread), on one thread, comparing all rows with all centroids.
///
/// # Panics
/// If there is no row.
pub fn spread(rows: &[f32], dimensions: usize, given: &[f32], clusters: usize, seed: u64) -> Vec<f32> {
    let count = rows.len() / dimensions;
    let (mut centroids, mut random) = (given.to_vec(), Random::mixed(seed ^ 0x6b2b_2b00));
    while centroids.len() / dimensions < clusters {
        let row = if centroids.is_empty() {
            random.idx(count)
        } else {
            let squares: Vec<f64> = rows
                .chunks_exact(dimensions)
                .map(|row| {
                    let squares =
                        centroids.chunks_exact(dimensions).map(|centroid| squared_l2(row, centroid));
                    squares.fold(f64::INFINITY, |least, square| if square < least { square } else { least })
                })
                .collect();
            let sums: Vec<f64> = squares.chunks(ROWS_PER_PIECE).map(|squares| squares.iter().sum()).collect();
            let mut left = random.unit() * sums.iter().sum::<f64>();
            let mut first = 0;
            while first + 1 < sums.len() && left >= sums[first] {
                left -= sums[first];
                first += 1;
            }
            let far = (first * ROWS_PER_PIECE..count).filter(|row| squares[*row] > 0.0);
            let mut last = None;
            for row in far {
                last = Some(row);
                if left < squares[row] {
                    break;
                }
                left -= squares[row];
            }
            last.unwrap_or(centroids.len() / dimensions % count)
        };
        centroids.extend_from_slice(&rows[row * dimensions..][..dimensions]);
    }
    centroids
}

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
            if counts[place / dimensions] > 0 && place / dimensions >= options.frozen {
                done.centroids[place] = (sum / counts[place / dimensions] as f64) as f32;
            }
        }
        done.splits += update::split(counts, options.frozen, dimensions, &mut done.centroids, &mut random);
        if options.spherical {
            let frozen = options.frozen.min(clusters) * dimensions;
            update::normalise(&mut done.centroids[frozen..], dimensions);
        }
    }
    done
}
