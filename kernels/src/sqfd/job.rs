//! One call of the evaluator, as [`Work`] that is compiled for each code path.

use super::columns::StoreColumns;
use super::lanes::{Lanes, Work};
use super::query::PreparedQuery;
use super::stream::{ROWS, Stream};
use super::terms::{Direct, Gaussian, Heuristic, L1, L2, Minus, SquaredL2, Term};
use crate::interrupt::{Interrupted, Patience};
use crate::similarity::{Ground, Similarity};

/// A query, the rows that it is compared with, and the place of the cross sums.
pub(super) struct Job<'a> {
    pub query: &'a PreparedQuery,
    pub store: &'a StoreColumns<'a>,
    pub rows: &'a [u32],
    pub stream: &'a mut Stream,
    /// Memory for the places of the signatures in the stream.
    pub streamed: &'a mut Vec<Streamed>,
    /// The cross sum of each row.
    pub sums: &'a mut [f64],
    /// Counts pairs of centroids.
    pub patience: Patience<'a>,
}

/// The place in the stream of a signature, or of a part of one that is larger than a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streamed {
    /// Index into [`Job::rows`].
    row_idx: usize,
    from: usize,
    len: usize,
}

impl Work for &mut Job<'_> {
    type Done = Result<(), Interrupted>;

    /// Computes all sums.
    ///
    /// # Errors
    /// If the caller interrupts.
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Self::Done {
        let measure = self.query.measure();
        let heuristic = Heuristic { alpha: measure.alpha() as f32 };
        match (measure.similarity(), measure.ground()) {
            (Similarity::Gaussian, _) if self.query.dimensions() == 7 => {
                self.run_term::<L, _, 7>(lanes, Gaussian)
            }
            (Similarity::Gaussian, _) => self.run_term::<L, _, 0>(lanes, Gaussian),
            (Similarity::Heuristic, Ground::L1) => self.run_term::<L, _, 0>(lanes, Direct(L1, heuristic)),
            (Similarity::Heuristic, Ground::L2) => self.run_term::<L, _, 0>(lanes, Direct(L2, heuristic)),
            (Similarity::Heuristic, Ground::SquaredL2) => {
                self.run_term::<L, _, 0>(lanes, Direct(SquaredL2, heuristic))
            }
            (Similarity::Minus, Ground::L1) => self.run_term::<L, _, 0>(lanes, Direct(L1, Minus)),
            (Similarity::Minus, Ground::L2) => self.run_term::<L, _, 0>(lanes, Direct(L2, Minus)),
            (Similarity::Minus, Ground::SquaredL2) => {
                self.run_term::<L, _, 0>(lanes, Direct(SquaredL2, Minus))
            }
            (Similarity::Heuristic | Similarity::Minus, Ground::Linf) => {
                unreachable!("Measure::new refuses it")
            }
        }
    }
}

impl Job<'_> {
    #[inline(always)]
    fn run_term<L: Lanes, T: Term, const DIMENSIONS: usize>(
        &mut self,
        lanes: L,
        term: T,
    ) -> Result<(), Interrupted> {
        let columns = self.store.columns();
        self.sums.fill(0.0);
        let mut next = 0;
        // Centroids of rows[next] that are done already. Only a signature larger than a whole stream is cut.
        let mut done = 0;
        while next < self.rows.len() {
            self.stream.restart(columns.dimensions());
            self.streamed.clear();
            while next < self.rows.len() {
                let (start, len) = self.store.range(self.rows[next] as usize);
                let left = len - done;
                if left > self.stream.room() && self.stream.used() > 0 {
                    break;
                }
                let taken = left.min(self.stream.room());
                self.streamed.push(Streamed { row_idx: next, from: self.stream.used(), len: taken });
                let (centre, scale) = (self.query.centre(), self.query.scale());
                let range = (start + done, taken);
                self.stream.append(columns.coordinates(), columns.weights(), range, centre, scale);
                done += taken;
                if done < len {
                    break;
                }
                (next, done) = (next + 1, 0);
            }
            let mut coming = self.rows[next..].iter();
            let groups = self.query.groups();
            let query_centroids = groups.len() / (columns.dimensions() + 1) * ROWS;
            self.stream.run::<L, T, DIMENSIONS>(lanes, term, groups, |centroids| {
                if let Some(&row) = coming.next() {
                    prefetch(self.store, row);
                }
                self.patience.spend(centroids * query_centroids)
            })?;
            for part in self.streamed.iter() {
                self.sums[part.row_idx] += self.stream.sum(part.from, part.len);
            }
        }
        Ok(())
    }
}

/// Prefetches the centroids of a row.
#[inline(always)]
fn prefetch(store: &StoreColumns<'_>, row: u32) {
    #[cfg(target_arch = "x86_64")]
    {
        let (start, len) = store.range(row as usize);
        let columns = store.columns();
        for column in columns.coordinates() {
            super::x86::prefetch(&column[start..start + len]);
        }
        super::x86::prefetch(&columns.weights()[start..start + len]);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (store, row);
}
