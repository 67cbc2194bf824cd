//! One call of the evaluator, as [`Work`] that is compiled for each code path.

use super::columns::StoreColumns;
use super::query::PreparedQuery;
use super::stream::{ROWS, STREAM_CENTROIDS, Stream};
use super::terms::{Direct, Gaussian, Heuristic, L1, L2, Minus, SquaredL2, Term};
use crate::interrupt::{Interrupted, Patience};
use crate::lanes::{Lanes, Work};
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
        let frame = (self.query.centre(), self.query.scale());
        self.sums.fill(0.0);
        let mut next = 0;
        // Centroids of rows[next] that are done already. Only a signature larger than a whole stream is cut.
        let mut done = 0;
        while next < self.rows.len() {
            self.stream.restart(columns.dimensions());
            self.streamed.clear();
            // Signatures that lie side by side, as in a scan, are appended together.
            let mut run = Run::default();
            while next < self.rows.len() {
                let (start, len) = self.store.range(self.rows[next] as usize);
                let (start, left) = (start + done, len - done);
                let used = self.stream.used() + run.len;
                if left > STREAM_CENTROIDS - used && used > 0 {
                    break;
                }
                let taken = left.min(STREAM_CENTROIDS - used);
                self.streamed.push(Streamed { row_idx: next, from: used, len: taken });
                if !run.extend(start, taken) {
                    self.stream.append::<L, DIMENSIONS>(lanes, columns, (run.start, run.len), frame);
                    run = Run { start, len: taken };
                }
                done += taken;
                if done < len {
                    break;
                }
                (next, done) = (next + 1, 0);
            }
            self.stream.append::<L, DIMENSIONS>(lanes, columns, (run.start, run.len), frame);
            let mut coming = Coming { store: self.store, rows: &self.rows[next..] };
            let groups = self.query.groups();
            let query_centroids = groups.len() / (columns.dimensions() + 1) * ROWS;
            self.stream.run::<L, T, DIMENSIONS>(lanes, term, groups, |centroids| {
                coming.prefetch(centroids);
                self.patience.spend(centroids * query_centroids)
            })?;
            for part in self.streamed.iter() {
                self.sums[part.row_idx] += self.stream.sum(part.from, part.len);
            }
        }
        Ok(())
    }
}

/// Consecutive centroids of the columns.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    start: usize,
    len: usize,
}

impl Run {
    /// Adds centroids `start..start + len`, if they follow or the run is empty. Returns whether they were added.
    #[inline(always)]
    fn extend(&mut self, start: usize, len: usize) -> bool {
        if self.len == 0 {
            self.start = start;
        }
        let follows = self.start + self.len == start;
        self.len += if follows { len } else { 0 };
        follows
    }
}

/// The rows of the next streams.
struct Coming<'a> {
    store: &'a StoreColumns<'a>,
    rows: &'a [u32],
}

impl Coming<'_> {
    /// Prefetches the next rows, at least so many centroids.
    #[inline(always)]
    fn prefetch(&mut self, centroids: usize) {
        let (mut run, mut left) = (Run::default(), centroids);
        while left > 0
            && let Some((&row, rest)) = self.rows.split_first()
        {
            let (start, len) = self.store.range(row as usize);
            if !run.extend(start, len) {
                prefetch(self.store, run);
                run = Run { start, len };
            }
            (self.rows, left) = (rest, left.saturating_sub(len));
        }
        prefetch(self.store, run);
    }
}

/// Prefetches centroids.
#[inline(always)]
fn prefetch(store: &StoreColumns<'_>, Run { start, len }: Run) {
    #[cfg(target_arch = "x86_64")]
    {
        let columns = store.columns();
        for column in columns.coordinates() {
            crate::lanes::prefetch(&column[start..start + len]);
        }
        crate::lanes::prefetch(&columns.weights()[start..start + len]);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (store, start, len);
}
