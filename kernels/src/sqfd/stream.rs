//! The inner loop: every centroid of a query against a stream of candidate centroids.
//!
//! Each lane holds a candidate centroid, and query centroids are broadcast. A stream holds the centroids of many signatures
//! back to back, so only its end leaves lanes empty. Nothing reads those lanes.

use super::columns::Columns;
use super::terms::Term;
use crate::interrupt::Interrupted;
use crate::lanes::Lanes;

/// Query centroids that the loop processes together.
pub(super) const ROWS: usize = 4;

/// Vectors of candidate centroids that the loop processes together. With [`ROWS`] query centroids these are 8 independent
/// chains, which hide each other's latency.
pub(super) const VECTORS: usize = 2;

/// Groups of query centroids that are summed before the sum is added to the total. This keeps f32 sums shallow.
pub(super) const GROUPS_PER_PARTIAL_SUM: usize = 16;

/// The most candidate centroids in a stream: about a dozen signatures, which fit the second-level cache.
pub(super) const STREAM_CENTROIDS: usize = 1024;

/// Numbers of the widest vector.
const COUNT_MAX: usize = 16;

/// Numbers from one column of a stream to the next. Not a multiple of a page, or all columns would compete for one cache
/// set. A multiple of a cache line, or vectors would straddle two. [`VECTORS`] that are appended may begin at the last place.
const COLUMN_STRIDE: usize = STREAM_CENTROIDS + VECTORS * COUNT_MAX;
const _: () = assert!(COLUMN_STRIDE.is_multiple_of(LINE) && !COLUMN_STRIDE.is_multiple_of(1024));

/// Numbers of a cache line.
const LINE: usize = 16;

/// Minus the squared norm of each centroid.
const STARTS: usize = 0;
const WEIGHTS: usize = 1;
/// Sum over the query of each centroid's weighted terms.
const SUMS: usize = 2;
/// The first column of coordinates.
const COORDINATES: usize = 3;

/// Candidate centroids column by column, moved and scaled as the query is, and the sum that the loop computed for each.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    dimensions: usize,
    /// All columns, the first of which begins at `skipped`.
    memory: Vec<f32>,
    /// Numbers before the first cache line.
    skipped: usize,
    used: usize,
}

impl Stream {
    pub(super) fn new() -> Self {
        Self { dimensions: 0, memory: Vec::new(), skipped: 0, used: 0 }
    }

    /// Empties the stream and prepares it for signatures of this many dimensions.
    pub(super) fn restart(&mut self, dimensions: usize) {
        self.used = 0;
        self.dimensions = dimensions;
        let len = (COORDINATES + dimensions) * COLUMN_STRIDE + LINE;
        if self.memory.len() < len {
            self.memory.resize(len, 0.0);
        }
        // A remainder, because the offset may be unknown.
        self.skipped = self.memory.as_ptr().align_offset(LINE * size_of::<f32>()) % LINE;
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Appends centroids `start..start + len` of the columns, for which there must be room. `DIMENSIONS` is as in
    /// [`Stream::run`].
    ///
    /// Whole vectors are moved, so the last ones also move centroids that were not asked for. They lie beyond the used
    /// part, where the next ones replace them.
    #[inline(always)]
    pub(super) fn append<L: Lanes, const DIMENSIONS: usize>(
        &mut self,
        lanes: L,
        columns: Columns<'_>,
        (start, len): (usize, usize),
        (centre, scale): (&[f32], f32),
    ) {
        let dimensions = if DIMENSIONS == 0 { self.dimensions } else { DIMENSIONS };
        let (coordinates, centre) = (&columns.coordinates()[..dimensions], &centre[..dimensions]);
        let weights = columns.weights();
        let (factor, width) = (lanes.splat(scale), VECTORS * L::COUNT);
        let to = &mut self.memory[self.skipped + self.used..];
        self.used += len;
        // Vectors that would reach beyond the end of the columns are left to the second loop.
        let whole = len.min((weights.len() - start) / width * width);
        for done in (0..whole).step_by(width) {
            let from = start + done;
            let mut norms = [lanes.splat(0.0); VECTORS];
            for (d, (column, &centre)) in coordinates.iter().zip(centre).enumerate() {
                let column = &column[from..from + width];
                let moved = &mut to[(COORDINATES + d) * COLUMN_STRIDE + done..][..width];
                let centre = lanes.splat(centre);
                for (v, norm) in norms.iter_mut().enumerate() {
                    let x = lanes.load(&column[v * L::COUNT..]);
                    let x = lanes.mul(lanes.sub(x, centre), factor);
                    lanes.store(x, &mut moved[v * L::COUNT..]);
                    *norm = lanes.sub(*norm, lanes.mul(x, x));
                }
            }
            for (v, norm) in norms.into_iter().enumerate() {
                let (from, to_at) = (from + v * L::COUNT, done + v * L::COUNT);
                lanes.store(norm, &mut to[STARTS * COLUMN_STRIDE + to_at..]);
                lanes.store(lanes.load(&weights[from..]), &mut to[WEIGHTS * COLUMN_STRIDE + to_at..]);
            }
        }
        for done in whole..len {
            let (from, mut norm) = (start + done, 0.0);
            for (d, (column, centre)) in coordinates.iter().zip(centre).enumerate() {
                let x = (column[from] - centre) * scale;
                to[(COORDINATES + d) * COLUMN_STRIDE + done] = x;
                norm -= x * x;
            }
            to[STARTS * COLUMN_STRIDE + done] = norm;
            to[WEIGHTS * COLUMN_STRIDE + done] = weights[from];
        }
    }

    /// Adds up what [`Stream::run`] computed for centroids `from..from + len`, in an order that does not depend on their
    /// place in the stream.
    #[inline(always)]
    pub(super) fn sum(&self, from: usize, len: usize) -> f64 {
        let mut sums = [0.0; 8];
        let eights = self.memory[self.skipped + SUMS * COLUMN_STRIDE + from..][..len.next_multiple_of(8)]
            .as_chunks::<8>()
            .0;
        for (idx, eight) in eights.iter().enumerate() {
            let left = len - 8 * idx;
            for (place, (sum, &x)) in sums.iter_mut().zip(eight).enumerate() {
                // A choice instead of a shorter loop, so that a signature of a few centroids takes a few instructions.
                *sum += if place < left { f64::from(x) } else { 0.0 };
            }
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
        let (used, columns) = (self.used, &mut self.memory[self.skipped..]);
        for first in (0..used).step_by(width) {
            between(width)?;
            let block = &columns[first..][..(COORDINATES + dimensions - 1) * COLUMN_STRIDE + width];
            let mut total = [zero; VECTORS];
            for part in groups.chunks(GROUPS_PER_PARTIAL_SUM * (dimensions + 1)) {
                let mut partial = [zero; VECTORS];
                for group in part.chunks_exact(dimensions + 1) {
                    // Too many for the registers, so every group loads them again, as operands of its instructions.
                    let block = lanes.reload(block);
                    let load =
                        |column: usize, v: usize| lanes.load(&block[column * COLUMN_STRIDE + v * L::COUNT..]);
                    let mut pairs = [[zero; VECTORS]; ROWS];
                    for pairs in &mut pairs {
                        for (v, pair) in pairs.iter_mut().enumerate() {
                            *pair = term.start(lanes, load(STARTS, v));
                        }
                    }
                    for (d, queries) in group[..dimensions].iter().enumerate() {
                        let candidates: [L::V; VECTORS] = std::array::from_fn(|v| load(COORDINATES + d, v));
                        for (pairs, &query) in pairs.iter_mut().zip(queries) {
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
                let weights = lanes.load(&columns[WEIGHTS * COLUMN_STRIDE + at..]);
                lanes.store(lanes.mul(total, weights), &mut columns[SUMS * COLUMN_STRIDE + at..]);
            }
        }
        Ok(())
    }
}

const _: () = assert!(ROWS == 4, "the tree that adds a group's terms has four leaves");
