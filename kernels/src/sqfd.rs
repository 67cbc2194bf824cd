//! Signature quadratic form distance: the f64 reference, and f32 paths that are fast and say how wrong they may be.
//!
//! Every distance that is reported comes from [mod@reference]. The fast paths only decide which objects are worth
//! that: an object farther than `r + e(r)` by a fast path, where `e` is [`PreparedQuery::distance_error`], is
//! farther than `r` by the reference. Paths differ in their last bits, never in what they decide together with
//! the reference.
//!
//! Modules in reading order: `columns` (signatures), `reference`, `lanes` (vector operations) and `x86`,
//! `terms` (measures), `block` (the inner loop), `query`, `bound` (the error), `device` (what `device.cl`, the twin on
//! OpenCL devices, is given), `exact_device` (the same of `exact_device.cl`, the reference's twin), `job` (a call).

mod columns;
pub mod reference;
mod lanes;
#[cfg(target_arch = "x86_64")]
mod x86;
mod terms;
mod block;
pub mod device;
pub mod exact_device;
mod bound;
mod query;
mod job;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use bound::Arithmetic;
pub use columns::{Columns, DIMENSIONS_MAX, SignatureRef, StoreColumns};
pub use query::PreparedQuery;

use crate::CodePath;
use crate::interrupt::{Interrupt, Interrupted, Patience, finished, never};
use block::Stream;
use job::{Job, Piece};
use lanes::Work;

/// Pairs of centroids that a call computes between two questions whether to stop: a millisecond's worth.
const PAIRS_PER_QUESTION: usize = 1 << 21;

/// Computes fast distances; holds the working memory, so each worker has its own.
#[derive(Clone, Debug)]
pub struct Evaluator {
    path: CodePath,
    stream: Stream,
    pieces: Vec<Piece>,
}

impl Evaluator {
    /// An evaluator that uses the instructions of `path`.
    ///
    /// # Panics
    /// When this machine lacks them, see [`CodePath::is_available`].
    pub fn new(path: CodePath) -> Self {
        assert!(path.is_available(), "this machine has no {path} instructions");
        Self { path, stream: Stream::new(), pieces: Vec::new() }
    }

    /// The instructions in use.
    pub fn path(&self) -> CodePath {
        self.path
    }

    /// Weighted similarities of the query to the signatures in `rows` of the store, into `out`.
    ///
    /// A result does not depend on which other rows are asked for. Rows in ascending order read memory best. Where f32
    /// cannot hold a sum (`minus` of coordinates that are far apart), it is computed in f64 instead.
    ///
    /// # Panics
    /// When a row is not in the store, the dimensions differ, or `rows` and `out` have different lengths.
    pub fn sigma_cross(
        &mut self,
        query: &PreparedQuery,
        store: &StoreColumns<'_>,
        rows: &[u32],
        out: &mut [f64],
    ) {
        finished(self.sigma_cross_until(query, store, rows, out, &never));
    }

    /// As [`Evaluator::sigma_cross`], with a way to stop; `out` is then half done.
    ///
    /// # Errors
    /// When the caller interrupts.
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
        assert_eq!(rows.len(), out.len(), "a place for each row");
        let (stream, pieces) = (&mut self.stream, &mut self.pieces);
        let patience = Patience::new(interrupt, PAIRS_PER_QUESTION);
        let mut job = Job { query, store, rows, stream, pieces, sums: out, patience };
        match self.path {
            CodePath::Portable => (&mut job).run(lanes::Portable),
            #[cfg(target_arch = "x86_64")]
            CodePath::Avx2 => x86::run_avx2(&mut job),
            #[cfg(target_arch = "x86_64")]
            CodePath::Avx512 => x86::run_avx512(&mut job),
            #[cfg(not(target_arch = "x86_64"))]
            CodePath::Avx2 | CodePath::Avx512 => unreachable!("Evaluator::new refuses it"),
        }?;
        for (sum, &row) in out.iter_mut().zip(rows) {
            if query.is_overflow(*sum) {
                *sum = query.cross_in_f64(store.signature(row as usize), interrupt)?;
            }
        }
        Ok(())
    }

    /// Distances of the query to the signatures in `rows` of the store, into `out`.
    ///
    /// `sigma_self` is the store's column of [`reference::sigma_self`], a number for every row of it. Square roots
    /// of what rounding leaves below 0 are 0.
    ///
    /// # Panics
    /// As [`Evaluator::sigma_cross`], and when `sigma_self` has not one number a row of the store.
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

/// Largest error of a distance near `range` when its square is off by at most `error_squared`.
///
/// If one of a true and a computed distance is at most `range`, the other is at most `range` plus this: the
/// difference is `|d^2 - d'^2| / (d + d')`, and no more than the root of `|d^2 - d'^2|`.
pub fn distance_error(error_squared: f64, range: f64) -> f64 {
    error_squared.sqrt().min(error_squared / range.max(f64::MIN_POSITIVE))
}
