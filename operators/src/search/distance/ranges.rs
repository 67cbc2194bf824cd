//! Splits ranges of objects into candidates for the slots.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_runtime::envelope::{Envelope, EnvelopeError};
use boxwork_runtime::operator::BoxError;

use crate::columns::NO_BOUND;
use crate::search::queries::Queries;
use boxwork_stores::store::Store;

/// Consecutive queries, by their places, and ids.
pub(super) type OfQueries = (Range<usize>, Range<u64>);

/// The ranges of an envelope; equal ranges of consecutive queries are joined.
pub(super) fn ranges_of(envelope: &Envelope, queries: &Queries) -> Result<Vec<OfQueries>, BoxError> {
    let numbers = envelope.u32s("query")?;
    let (firsts, counts) = (envelope.u64s("first")?, envelope.u64s("count")?);
    let mut ranges: Vec<OfQueries> = Vec::new();
    for ((number, first), count) in numbers.iter().zip(firsts).zip(counts) {
        let place = queries.idx(*number)?;
        let Some(end) = first.checked_add(*count) else {
            return Err(BoxError::new(format!(
                "{count} objects from {first} on are more than ids can number"
            )));
        };
        match ranges.last_mut() {
            Some((places, ids)) if places.end == place && *ids == (*first..end) => places.end += 1,
            _ => ranges.push((place..place + 1, *first..end)),
        }
    }
    Ok(ranges)
}

/// Ids for some queries, which `next` turns into candidates piece by piece.
pub(super) struct Ids {
    numbers: Vec<u32>,
    ids: Range<u64>,
}

impl Ids {
    /// Ids for the queries at some places.
    pub(super) fn new(queries: &Queries, places: Range<usize>, ids: Range<u64>) -> Self {
        Self { numbers: places.map(|place| queries.at(place).number).collect(), ids }
    }

    /// The next objects as candidates, in about `rows` rows; `None` at the end.
    ///
    /// # Errors
    /// If the store has no such ids.
    pub(super) fn next(&mut self, store: &dyn Store, rows: usize) -> Result<Option<Envelope>, BoxError> {
        while !self.ids.is_empty() && !self.numbers.is_empty() {
            // An error about missing ids names the last of them.
            store.locate(self.ids.end - 1)?;
            let per_envelope = (rows / self.numbers.len()).max(1) as u64;
            let here = self.ids.start..self.ids.end.min(self.ids.start + per_envelope);
            self.ids.start = here.end;
            let found: Vec<u64> = store.among(here).collect();
            if !found.is_empty() {
                return Ok(Some(candidates(&self.numbers, &found)?));
            }
        }
        Ok(None)
    }
}

/// Objects for all queries, query by query.
fn candidates(numbers: &[u32], ids: &[u64]) -> Result<Envelope, EnvelopeError> {
    let of_queries = numbers.iter().flat_map(|number| std::iter::repeat_n(*number, ids.len()));
    let of_ids = numbers.iter().flat_map(|_| ids.iter().copied());
    let columns: [(&str, ArrayRef); 3] = [
        ("query", Arc::new(UInt32Array::from_iter_values(of_queries))),
        ("id", Arc::new(UInt64Array::from_iter_values(of_ids))),
        ("lower", Arc::new(Float64Array::from(vec![NO_BOUND; numbers.len() * ids.len()]))),
    ];
    Envelope::from_columns(columns)
}
