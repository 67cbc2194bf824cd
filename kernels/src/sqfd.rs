//! The signature quadratic form distance: an f64 reference, and fast f32 paths that declare their largest error.
//!
//! Every distance that Boxwork reports comes from [mod@reference]. A fast path only decides which objects are worth an
//! exact distance: if its distance exceeds `r + e(r)`, where `e` is [`PreparedQuery::distance_error`], then the reference's
//! distance exceeds `r`. So the fast paths may differ in their last bits, and the answers are the same.
//!
//! Modules in reading order: `columns` (signatures), `reference`, `terms`
//! (measures), `stream` (the inner loop), `device` (data for `device.cl`, the fast path on OpenCL devices), `exact_device`
//! (data for `exact_device.cl`, the reference on OpenCL devices), `error_bound`, `query`, `job` (one call).
//!
//! ```
//! use boxwork_kernels::CodePath;
//! use boxwork_kernels::similarity::{Ground, Measure, Similarity};
//! use boxwork_kernels::sqfd::{Columns, Evaluator, PreparedQuery, StoreColumns, reference};
//!
//! // Two signatures in one dimension: centroids 0 and 1 with equal weights, and centroid 3.
//! let (x, weights, offsets) = ([0.0, 1.0, 3.0], [0.5, 0.5, 1.0], [0, 2, 3]);
//! let coordinates: [&[f32]; 1] = [&x];
//! let store = StoreColumns::new(Columns::new(&coordinates, &weights), &offsets);
//!
//! let measure = Measure::new(Similarity::Gaussian, Ground::L2, 0.2)?;
//! let query = PreparedQuery::new(measure, store.signature(0));
//! let sigma_self: Vec<f64> = (0..2).map(|row| reference::sigma_self(&measure, store.signature(row))).collect();
//! let mut distances = [0.0; 2];
//! Evaluator::new(CodePath::detect()).distances(&query, &store, &[0, 1], &sigma_self, &mut distances);
//!
//! let exact = reference::sqfd(&measure, store.signature(0), store.signature(1));
//! assert!((distances[1] - exact).abs() <= query.distance_error(exact, 0.0));
//! # Ok::<(), boxwork_kernels::similarity::MeasureError>(())
//! ```

mod columns;
pub mod reference;
mod terms;
mod stream;
pub mod device;
pub mod exact_device;
mod error_bound;
mod query;
mod job;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use columns::{Columns, DIMENSIONS_MAX, SignatureRef, StoreColumns};
pub use error_bound::Arithmetic;
pub use query::PreparedQuery;

use crate::CodePath;
use crate::interrupt::{Interrupt, Interrupted, Patience, finished, never};
use crate::lanes::run;
use job::{Job, Streamed};
use stream::Stream;

/// Pairs of centroids that a call computes before it asks again whether to stop: about a millisecond's work.
const PAIRS_PER_QUESTION: usize = 1 << 21;

/// Computes fast distances. It holds working memory, so every thread needs its own.
#[derive(Clone, Debug)]
pub struct Evaluator {
    path: CodePath,
    stream: Stream,
    streamed: Vec<Streamed>,
}

impl Evaluator {
    /// An evaluator that uses the instructions of `path`.
    ///
    /// # Panics
    /// If this machine lacks them, see [`CodePath::is_available`].
    pub fn new(path: CodePath) -> Self {
        assert!(path.is_available(), "this machine has no {path} instructions");
        Self { path, stream: Stream::new(), streamed: Vec::new() }
    }

    /// The instructions in use.
    pub fn path(&self) -> CodePath {
        self.path
    }

    /// Writes the weighted similarity of the query to each signature in `rows` of the store to `out`.
    ///
    /// A result does not depend on the other rows. Ascending rows read memory best. If f32 cannot hold a sum (`minus` of
    /// coordinates that are far apart), the sum is computed in f64 instead.
    ///
    /// # Panics
    /// If a row is not in the store, the dimensions differ, or `rows` and `out` have different lengths.
    pub fn sigma_cross(
        &mut self,
        query: &PreparedQuery,
        store: &StoreColumns<'_>,
        rows: &[u32],
        out: &mut [f64],
    ) {
        finished(self.sigma_cross_until(query, store, rows, out, &never));
    }

    /// As [`Evaluator::sigma_cross`], but the caller can interrupt it. `out` is then unspecified.
    ///
    /// # Errors
    /// If the caller interrupts.
    ///
    /// # Panics
    /// As [`Evaluator::sigma_cross`].
    pub fn sigma_cross_until(
        &mut self,
        query: &PreparedQuery,
        store: &StoreColumns<'_>,
        rows: &[u32],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), Interrupted> {
        assert_eq!(query.dimensions(), store.columns().dimensions(), "signatures of one space");
        assert_eq!(rows.len(), out.len(), "one result for each row");
        let (stream, streamed) = (&mut self.stream, &mut self.streamed);
        let patience = Patience::new(interrupt, PAIRS_PER_QUESTION);
        let mut job = Job { query, store, rows, stream, streamed, sums: out, patience };
        run(self.path, &mut job)?;
        for (sum, &row) in out.iter_mut().zip(rows) {
            if query.is_overflow(*sum) {
                *sum = query.cross_in_f64(store.signature(row as usize), interrupt)?;
            }
        }
        Ok(())
    }

    /// Writes the distance of the query to each signature in `rows` of the store to `out`.
    ///
    /// `sigma_self` holds [`reference::sigma_self`] of every row of the store. If rounding leaves the square of a distance
    /// below 0, the distance is 0.
    ///
    /// # Panics
    /// As [`Evaluator::sigma_cross`], and if `sigma_self` does not have one number per row of the store.
    pub fn distances(
        &mut self,
        query: &PreparedQuery,
        store: &StoreColumns<'_>,
        rows: &[u32],
        sigma_self: &[f64],
        out: &mut [f64],
    ) {
        assert_eq!(sigma_self.len(), store.rows(), "sigma_self has a number for every row of the store");
        self.sigma_cross(query, store, rows, out);
        for (out, &row) in out.iter_mut().zip(rows) {
            *out = reference::distance(query.sigma_self(), sigma_self[row as usize], *out);
        }
    }
}

/// Largest error of a distance near `range` whose square has an error of at most `error_squared`.
///
/// If either the true distance `d` or the computed distance `d'` is at most `range`, the other is at most `range` plus
/// this error: their difference is `|d^2 - d'^2| / (d + d')`, and at most the root of `|d^2 - d'^2|`.
pub fn distance_error(error_squared: f64, range: f64) -> f64 {
    error_squared.sqrt().min(error_squared / range.max(f64::MIN_POSITIVE))
}
