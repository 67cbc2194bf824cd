//! Answers of queries on their way out: slots make the envelopes side by side.
//!
//! Invariant: rows leave by query, in the order in which the answer of each was given.

use std::collections::VecDeque;

use boxwork_runtime::envelope::{Envelope, EnvelopeError};
use boxwork_runtime::operator::{BoxError, Context, Out, Pushed};

use crate::columns::distances_envelope;

/// Rows of an envelope at most.
const ENVELOPE_ROWS: usize = 4096;
/// Envelopes that are made before some of them leave.
const MADE_AT_ONCE: usize = 32;

/// The answers of some queries.
#[derive(Default)]
pub(crate) struct Answers {
    /// Numbers of queries, and for each its distances and ids.
    of_queries: Vec<(u32, Vec<(f64, u64)>)>,
    /// By query, the rows up to the end of its answer.
    ends: Vec<usize>,
    /// Rows of which envelopes were made.
    next: usize,
    made: VecDeque<Envelope>,
}

impl Answers {
    /// Answers in the order of their queries, each in order.
    pub(crate) fn new(of_queries: Vec<(u32, Vec<(f64, u64)>)>) -> Self {
        let mut rows = 0;
        let ends = of_queries.iter().map(|(_, found)| {
            rows += found.len();
            rows
        });
        Self { ends: ends.collect(), of_queries, ..Self::default() }
    }

    fn rows(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Sends what there is room for; nothing is returned while rows are left.
    ///
    /// # Errors
    /// As [`Context::push`].
    pub(crate) fn send(&mut self, cx: &mut Context<'_>, output: Out) -> Result<Option<Pushed>, BoxError> {
        loop {
            if !self.made.is_empty() && !cx.has_room(output) {
                return Ok(None);
            }
            match self.made.pop_front() {
                Some(envelope) => {
                    if cx.push(output, envelope)? == Pushed::Closed {
                        return Ok(Some(Pushed::Closed));
                    }
                }
                None if self.next == self.rows() => return Ok(Some(Pushed::Sent)),
                None => self.make(cx)?,
            }
        }
    }

    /// Makes the next envelopes.
    fn make(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let end = self.rows().min(self.next + MADE_AT_ONCE * ENVELOPE_ROWS);
        let firsts = (self.next..end).step_by(ENVELOPE_ROWS);
        let mut made: Vec<(usize, Option<Result<Envelope, EnvelopeError>>)> =
            firsts.map(|first| (first, None)).collect();
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut made, 1, |_, made| {
                for (first, envelope) in made {
                    *envelope = Some(self.envelope(*first, end.min(*first + ENVELOPE_ROWS)));
                }
            });
        });
        for (_, envelope) in made {
            self.made.extend(envelope.transpose()?);
        }
        self.next = end;
        Ok(())
    }

    /// Some rows of all answers.
    fn envelope(&self, first: usize, end: usize) -> Result<Envelope, EnvelopeError> {
        let mut rows = Vec::with_capacity(end - first);
        let from = self.ends.partition_point(|end| *end <= first);
        let mut skipped = first - from.checked_sub(1).map_or(0, |before| self.ends[before]);
        for (query, found) in &self.of_queries[from..] {
            let room = end - first - rows.len();
            if room == 0 {
                break;
            }
            let found = found[skipped..].iter().take(room);
            rows.extend(found.map(|(distance, id)| (*query, *id, *distance)));
            skipped = 0;
        }
        distances_envelope(&rows)
    }
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
                let envelope = answers.envelope(first, wanted.len().min(first + len)).unwrap();
                let (queries, ids) = (envelope.u32s("query").unwrap(), envelope.u64s("id").unwrap());
                let distances = envelope.f64s("distance").unwrap();
                rows.extend((0..envelope.rows()).map(|row| (queries[row], distances[row], ids[row])));
            }
            assert_eq!(rows, wanted);
        }
        assert_eq!(Answers::new(Vec::new()).rows(), 0);
    }
}
