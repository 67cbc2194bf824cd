//! A start whose centroids are far from each other: each is a row, chosen with a probability that grows with its squared distance
//! from those before it (k-means++, Arthur and Vassilvitskii 2007).

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::ROWS_PER_PIECE;
use crate::CodePath;
use crate::chance::Random;
use crate::distance::squared_l2_on;
use crate::memory::{MemoryRefused, room};
use crate::pieces::{Pieces, collect};

/// Squared distances in f64 are off by a smaller part.
const SLACK: f64 = 1e-9;

/// Some rows, each with its nearest centroid so far and the squared distance from it.
struct Piece {
    nearest: Vec<(u32, f64)>,
    /// The sum of the squared distances, in the order of the rows.
    sum: f64,
}

/// Appends rows to the centroids `given` until there are `clusters`. `None` if the caller cancelled it. If all rows are centroids
/// already, copies of the first rows follow.
///
/// # Errors
/// If the system has no memory for the distances of the rows.
///
/// # Panics
/// If there is no row, or these are no whole rows and centroids.
pub fn spread(
    rows: &[f32],
    dimensions: usize,
    given: &[f32],
    clusters: usize,
    seed: u64,
    path: CodePath,
    pieces: &mut Pieces<'_>,
) -> Result<Option<Vec<f32>>, MemoryRefused> {
    assert!(dimensions > 0 && !rows.is_empty() && rows.len().is_multiple_of(dimensions), "whole rows");
    assert!(given.len().is_multiple_of(dimensions), "whole centroids");
    let (count, what) = (rows.len() / dimensions, || "the distances of rows from the start".to_owned());
    let mut random = Random::mixed(seed ^ 0x6b2b_2b00);
    let mut parts = Vec::new();
    for first in (0..count).step_by(ROWS_PER_PIECE) {
        let len = ROWS_PER_PIECE.min(count - first);
        let mut nearest = room(len, what, "take fewer rows")?;
        nearest.resize(len, (u32::MAX, f64::INFINITY));
        parts.push(Mutex::new(Piece { nearest, sum: f64::INFINITY }));
    }
    let mut centroids = given.to_vec();
    for centroid in 0..given.len() / dimensions {
        if take(rows, dimensions, &centroids, centroid, &parts, path, pieces).is_none() {
            return Ok(None);
        }
    }
    while centroids.len() / dimensions < clusters {
        let centroid = centroids.len() / dimensions;
        let row =
            if centroid == 0 { random.idx(count) } else { choose(&parts, centroid, count, &mut random) };
        centroids.extend_from_slice(&rows[row * dimensions..][..dimensions]);
        if take(rows, dimensions, &centroids, centroid, &parts, path, pieces).is_none() {
            return Ok(None);
        }
    }
    Ok(Some(centroids))
}

/// A row by the squared distances.
fn choose(parts: &[Mutex<Piece>], centroid: usize, count: usize, random: &mut Random) -> usize {
    let total: f64 = parts.iter().map(|part| lock(part).sum).sum();
    let mut left = random.unit() * total;
    // Sums in another order may end short of the total: the last row that is no centroid is taken then.
    let mut last = None;
    for (number, part) in parts.iter().enumerate() {
        let piece = lock(part);
        if left >= piece.sum && number + 1 < parts.len() {
            left -= piece.sum;
            continue;
        }
        for (row, (_, square)) in piece.nearest.iter().enumerate().filter(|(_, (_, square))| *square > 0.0) {
            last = Some(number * ROWS_PER_PIECE + row);
            if left < *square {
                return number * ROWS_PER_PIECE + row;
            }
            left -= square;
        }
    }
    last.unwrap_or(centroid % count)
}

/// Compares the rows with a new centroid; `None` if cancelled.
fn take(
    rows: &[f32],
    dimensions: usize,
    centroids: &[f32],
    centroid: usize,
    parts: &[Mutex<Piece>],
    path: CodePath,
    pieces: &mut Pieces<'_>,
) -> Option<()> {
    let new = &centroids[centroid * dimensions..][..dimensions];
    let before = centroids[..centroid * dimensions].chunks_exact(dimensions);
    let between: Vec<f64> = before.map(|other| squared_l2_on(path, new, other)).collect();
    let done = collect(pieces, parts.len(), |number| {
        let piece = &mut *lock(&parts[number]);
        let rows = rows[number * ROWS_PER_PIECE * dimensions..].chunks_exact(dimensions);
        for ((nearest, square), row) in piece.nearest.iter_mut().zip(rows) {
            // A centroid twice as far from the nearest one as the row is no nearer to the row.
            let is_far = between
                .get(*nearest as usize)
                .is_some_and(|between| *between >= 4.0 * (1.0 + SLACK) * *square);
            if is_far {
                continue;
            }
            let distance = squared_l2_on(path, row, new);
            if distance < *square {
                (*nearest, *square) = (centroid as u32, distance);
            }
        }
        piece.sum = piece.nearest.iter().map(|(_, square)| square).sum();
    });
    done.map(drop)
}

/// Nothing waits: a piece belongs to one thread at a time.
fn lock(piece: &Mutex<Piece>) -> MutexGuard<'_, Piece> {
    piece.lock().unwrap_or_else(PoisonError::into_inner)
}
