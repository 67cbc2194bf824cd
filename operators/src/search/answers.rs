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

/// The answers of some queries.
#[derive(Default)]
pub(crate) struct Answers {
    /// Numbers of queries, and for each its distances and ids.
    of_queries: Vec<(u32, Vec<(f64, u64)>)>,
    /// By query, the rows up to the end of its answer.
    ends: Vec<usize>,
    envelopes: Envelopes,
}

impl Answers {
    /// Answers in the order of their queries, each in order.
    pub(crate) fn new(of_queries: Vec<(u32, Vec<(f64, u64)>)>) -> Self {
        let mut rows = 0;
        let ends = of_queries.iter().map(|(_, found)| {
            rows += found.len();
            rows
        });
        Self { ends: ends.collect(), of_queries, envelopes: Envelopes::default() }
    }

    fn rows(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Sends what there is room for; nothing is returned while rows are left.
    ///
    /// # Errors
    /// As [`Context::push`].
    pub(crate) fn send(&mut self, cx: &mut Context<'_>, output: Out) -> Result<Option<Pushed>, BoxError> {
        let rows = self.rows();
        let Self { of_queries, ends, envelopes } = self;
        envelopes.send(cx, output, rows.div_ceil(ENVELOPE_ROWS), |place| {
            let first = place * ENVELOPE_ROWS;
            envelope(of_queries, ends, first..rows.min(first + ENVELOPE_ROWS))
        })
    }
}

/// Some rows of all answers; `ends` are the rows up to the end of each.
fn envelope(
    of_queries: &[(u32, Vec<(f64, u64)>)],
    ends: &[usize],
    Range { start, end }: Range<usize>,
) -> Result<Envelope, EnvelopeError> {
    let mut rows = Vec::with_capacity(end - start);
    let from = ends.partition_point(|end| *end <= start);
    let mut skipped = start - from.checked_sub(1).map_or(0, |before| ends[before]);
    for (query, found) in &of_queries[from..] {
        let room = end - start - rows.len();
        if room == 0 {
            break;
        }
        let found = found[skipped..].iter().take(room);
        rows.extend(found.map(|(distance, id)| (*query, *id, *distance)));
        skipped = 0;
    }
    distances_envelope(&rows)
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
        assert_eq!(answers.rows(), wanted.len());
        for len in [1, 2, 3, 4, 1000, ENVELOPE_ROWS, wanted.len()] {
            let mut rows = Vec::new();
            for first in (0..wanted.len()).step_by(len) {
                let envelope =
                    envelope(&answers.of_queries, &answers.ends, first..wanted.len().min(first + len))
                        .unwrap();
                let (queries, ids) = (envelope.u32s("query").unwrap(), envelope.u64s("id").unwrap());
                let distances = envelope.f64s("distance").unwrap();
                rows.extend((0..envelope.rows()).map(|row| (queries[row], distances[row], ids[row])));
            }
            assert_eq!(rows, wanted);
        }
        assert_eq!(Answers::new(Vec::new()).rows(), 0);
    }
}
