//! The inner loop: every centroid of a query against a stream of candidate centroids.
//!
//! Each lane holds a candidate centroid, and query centroids are broadcast. A stream holds the centroids of many signatures
//! back to back, so only its end leaves lanes empty. Nothing reads those lanes.

use super::lanes::Lanes;
use super::terms::Term;
use crate::interrupt::Interrupted;

/// Query centroids that the loop processes together.
pub(super) const ROWS: usize = 4;

/// Vectors of candidate centroids that the loop processes together. With [`ROWS`] query centroids these are 8 independent
/// chains, which hide each other's latency.
pub(super) const VECTORS: usize = 2;

/// Groups of query centroids that are summed before the sum is added to the total. This keeps f32 sums shallow.
pub(super) const GROUPS_PER_PARTIAL_SUM: usize = 16;

/// The most candidate centroids in a stream: about a dozen signatures, which fit the second-level cache.
pub(super) const STREAM_CENTROIDS: usize = 1024;

/// Numbers from one column of a stream to the next. Not a multiple of a page, or all columns would compete for one cache set.
const COLUMN_STRIDE: usize = STREAM_CENTROIDS + 16;

/// Candidate centroids column by column, moved and scaled as the query is, and the sum that the loop computed for each.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    dimensions: usize,
    coordinates: Vec<f32>,
    /// Minus the squared norm of each centroid.
    starts: Vec<f32>,
    weights: Vec<f32>,
    /// Sum over the query of each centroid's weighted terms.
    sums: Vec<f32>,
    used: usize,
}

impl Stream {
    pub(super) fn new() -> Self {
        let column = || vec![0.0; COLUMN_STRIDE];
        Self {
            dimensions: 0,
            coordinates: Vec::new(),
            starts: column(),
            weights: column(),
            sums: column(),
            used: 0,
        }
    }

    /// Empties the stream and prepares it for signatures of this many dimensions.
    pub(super) fn restart(&mut self, dimensions: usize) {
        self.used = 0;
        self.dimensions = dimensions;
        if self.coordinates.len() < dimensions * COLUMN_STRIDE {
            self.coordinates.resize(dimensions * COLUMN_STRIDE, 0.0);
        }
    }

    /// Centroids that can still be appended.
    pub(super) fn room(&self) -> usize {
        STREAM_CENTROIDS - self.used
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Appends centroids `start..start + len` of the columns, for which there must be room.
    #[inline(always)]
    pub(super) fn append(
        &mut self,
        coordinates: &[&[f32]],
        weights: &[f32],
        (start, len): (usize, usize),
        centre: &[f32],
        scale: f32,
    ) {
        let to = self.used..self.used + len;
        let starts = &mut self.starts[to.clone()];
        starts.fill(0.0);
        for (d, column) in coordinates.iter().enumerate() {
            let moved = &mut self.coordinates[d * COLUMN_STRIDE..][to.clone()];
            let centre = centre[d];
            for ((moved, start), &x) in
                moved.iter_mut().zip(starts.iter_mut()).zip(&column[start..start + len])
            {
                let x = (x - centre) * scale;
                *moved = x;
                *start -= x * x;
            }
        }
        self.weights[to.clone()].copy_from_slice(&weights[start..start + len]);
        self.used = to.end;
    }

    /// Adds up what [`Stream::run`] computed for centroids `from..from + len`, in an order that does not depend on their
    /// place in the stream.
    #[inline(always)]
    pub(super) fn sum(&self, from: usize, len: usize) -> f64 {
        let (eights, rest) = self.sums[from..from + len].as_chunks::<8>();
        let mut sums = [0.0; 8];
        for eight in eights {
            for (sum, &x) in sums.iter_mut().zip(eight) {
                *sum += f64::from(x);
            }
        }
        for (sum, &x) in sums.iter_mut().zip(rest) {
            *sum += f64::from(x);
        }
        let [a, b, c, d, e, f, g, h] = sums;
        ((a + b) + (c + d)) + ((e + f) + (g + h))
    }

    /// Computes the sums of all centroids in the stream. `DIMENSIONS` is their number of coordinates if that is known at
    /// compile time, else 0. The loop calls `between` before each few centroids with their number, so that the caller can
    /// prefetch what comes next and stop.
    ///
    /// # Errors
    /// The error of `between`.
    #[inline(always)]
    pub(super) fn run<L: Lanes, T: Term, const DIMENSIONS: usize>(
        &mut self,
        lanes: L,
        term: T,
        groups: &[[f32; ROWS]],
        mut between: impl FnMut(usize) -> Result<(), Interrupted>,
    ) -> Result<(), Interrupted> {
        let dimensions = if DIMENSIONS == 0 { self.dimensions } else { DIMENSIONS };
        let zero = lanes.splat(0.0);
        let width = VECTORS * L::COUNT;
        for first in (0..self.used).step_by(width) {
            between(width)?;
            let mut held = [[zero; VECTORS]; DIMENSIONS];
            for (d, held) in held.iter_mut().enumerate() {
                let column = &self.coordinates[d * COLUMN_STRIDE + first..][..width];
                for (v, held) in held.iter_mut().enumerate() {
                    *held = lanes.load(&column[v * L::COUNT..]);
                }
            }
            let starts = &self.starts[first..first + width];
            let mut total = [zero; VECTORS];
            for part in groups.chunks(GROUPS_PER_PARTIAL_SUM * (dimensions + 1)) {
                let mut partial = [zero; VECTORS];
                for group in part.chunks_exact(dimensions + 1) {
                    let mut pairs = [[zero; VECTORS]; ROWS];
                    for pairs in &mut pairs {
                        for (v, pair) in pairs.iter_mut().enumerate() {
                            *pair = term.start(lanes, lanes.load(&starts[v * L::COUNT..]));
                        }
                    }
                    for d in 0..dimensions {
                        let mut candidates = [zero; VECTORS];
                        if DIMENSIONS == 0 {
                            let column = &self.coordinates[d * COLUMN_STRIDE + first..][..width];
                            for (v, candidate) in candidates.iter_mut().enumerate() {
                                *candidate = lanes.load(&column[v * L::COUNT..]);
                            }
                        } else {
                            candidates = held[d];
                        }
                        for (pairs, &query) in pairs.iter_mut().zip(&group[d]) {
                            let query = lanes.splat(query);
                            for (pair, candidate) in pairs.iter_mut().zip(candidates) {
                                *pair = term.step(lanes, *pair, query, candidate);
                            }
                        }
                    }
                    let [a, b, c, d] = pairs;
                    let [e, f, g, h] = group[dimensions];
                    let [e, f, g, h] = [lanes.splat(e), lanes.splat(f), lanes.splat(g), lanes.splat(h)];
                    let early = term.end(lanes, [a[0], a[1], b[0], b[1]], [e, e, f, f]);
                    let late = term.end(lanes, [c[0], c[1], d[0], d[1]], [g, g, h, h]);
                    for (v, partial) in partial.iter_mut().enumerate() {
                        let early = lanes.add(early[v], early[v + VECTORS]);
                        let late = lanes.add(late[v], late[v + VECTORS]);
                        *partial = lanes.add(*partial, lanes.add(early, late));
                    }
                }
                for (total, partial) in total.iter_mut().zip(partial) {
                    *total = lanes.add(*total, partial);
                }
            }
            for (v, total) in total.into_iter().enumerate() {
                let at = first + v * L::COUNT;
                let weights = lanes.load(&self.weights[at..]);
                lanes.store(lanes.mul(total, weights), &mut self.sums[at..]);
            }
        }
        Ok(())
    }
}

const _: () = assert!(ROWS == 4, "the tree that adds a group's terms has four leaves");
