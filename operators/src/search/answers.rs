//! Answers of queries on their way out.
//!
//! Invariant: rows leave by query, in the order in which the answer of each was given.

use std::ops::Range;

use boxwork_runtime::envelope::{Envelope, EnvelopeError};
use boxwork_runtime::operator::{BoxError, Context, Out, Pushed};

use crate::columns::distances_envelope;
use crate::envelopes::Envelopes;

/// Rows of an envelope at most.
const ENVELOPE_ROWS: usize = 4096;

/// What was found for each of some queries, at a distance; some rows of all of it are an envelope.
pub(crate) struct ByQuery<T> {
    /// Numbers of queries, and for each what was found.
    of_queries: Vec<(u32, Vec<(f64, T)>)>,
    /// By query, the rows up to the end of what was found for it.
    ends: Vec<usize>,
}

impl<T> Default for ByQuery<T> {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl<T> ByQuery<T> {
    /// Takes what was found, in its order.
    pub(crate) fn new(of_queries: Vec<(u32, Vec<(f64, T)>)>) -> Self {
        let mut rows = 0;
        let ends = of_queries.iter().map(|(_, found)| {
            rows += found.len();
            rows
        });
        Self { ends: ends.collect(), of_queries }
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }
}

impl<T: Copy> ByQuery<T> {
    /// Some rows: the number of the query, what was found, and its distance.
    pub(crate) fn rows(&self, Range { start, end }: Range<usize>) -> Vec<(u32, T, f64)> {
        let mut rows = Vec::with_capacity(end - start);
        let from = self.ends.partition_point(|end| *end <= start);
        let mut skipped = start - from.checked_sub(1).map_or(0, |before| self.ends[before]);
        for (query, found) in &self.of_queries[from..] {
            let room = end - start - rows.len();
            if room == 0 {
                break;
            }
            let found = found[skipped..].iter().take(room);
            rows.extend(found.map(|(distance, what)| (*query, *what, *distance)));
            skipped = 0;
        }
        rows
    }
}

/// The answers of some queries.
#[derive(Default)]
pub(crate) struct Answers {
    /// Ids and distances.
    found: ByQuery<u64>,
    envelopes: Envelopes,
}

impl Answers {
    /// Answers in the order of their queries, each in order.
    pub(crate) fn new(of_queries: Vec<(u32, Vec<(f64, u64)>)>) -> Self {
        Self { found: ByQuery::new(of_queries), envelopes: Envelopes::default() }
    }

    /// Sends what there is room for; nothing is returned while rows are left.
    ///
    /// # Errors
    /// As [`Context::push`].
    pub(crate) fn send(&mut self, cx: &mut Context<'_>, output: Out) -> Result<Option<Pushed>, BoxError> {
        let Self { found, envelopes } = self;
        envelopes.send_rows(cx, output, (found.len(), ENVELOPE_ROWS), |rows| envelope(found, rows))
    }
}

/// An envelope of some rows of all answers.
fn envelope(found: &ByQuery<u64>, rows: Range<usize>) -> Result<Envelope, EnvelopeError> {
    distances_envelope(&found.rows(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes_hold_all_rows_wherever_they_are_cut() {
        // Queries without an answer lie before, between and behind the others.
        let lens = [0, 3, 0, 0, ENVELOPE_ROWS + 5, 1, 0];
        let of_query = |(query, len): (usize, &usize)| {
            (query as u32 * 2, (0..*len).map(|row| (row as f64 / 2.0, (row * 7 + query) as u64)).collect())
        };
        let of_queries: Vec<(u32, Vec<(f64, u64)>)> = lens.iter().enumerate().map(of_query).collect();
        let wanted: Vec<(u32, f64, u64)> = of_queries
            .iter()
            .flat_map(|(query, found)| found.iter().map(|(distance, id)| (*query, *distance, *id)))
            .collect();
        let answers = Answers::new(of_queries);
        assert_eq!(answers.found.len(), wanted.len());
        for len in [1, 2, 3, 4, 1000, ENVELOPE_ROWS, wanted.len()] {
            let mut rows = Vec::new();
            for first in (0..wanted.len()).step_by(len) {
                let envelope = envelope(&answers.found, first..wanted.len().min(first + len)).unwrap();
                let (queries, ids) = (envelope.u32s("query").unwrap(), envelope.u64s("id").unwrap());
                let distances = envelope.f64s("distance").unwrap();
                rows.extend((0..envelope.rows()).map(|row| (queries[row], distances[row], ids[row])));
            }
            assert_eq!(rows, wanted);
        }
        assert_eq!(Answers::new(Vec::new()).found.len(), 0);
    }
}
