//! Consecutive objects for queries, taken apart into candidates where they are computed on slots.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_runtime::envelope::{Envelope, EnvelopeError};
use boxwork_runtime::operator::BoxError;

use super::range_block::RangeBlock;
use crate::search::queries::Queries;
use boxwork_stores::sqfd_space::SqfdSpace;
use boxwork_stores::store::Store;

/// Queries that follow each other, by their places, and ids.
pub(super) type OfQueries = (Range<usize>, Range<u64>);

/// Ids for the queries of some numbers.
#[derive(Default)]
pub(super) struct Ranges(VecDeque<(Vec<u32>, Range<u64>)>);

impl Ranges {
    /// The ranges of an envelope, each for queries that follow each other by their places.
    pub(super) fn of(envelope: &Envelope, queries: &Queries) -> Result<Vec<OfQueries>, BoxError> {
        let numbers = envelope.u32s("query")?;
        let (firsts, counts) = (envelope.u64s("first")?, envelope.u64s("count")?);
        let mut ranges: Vec<OfQueries> = Vec::new();
        for ((number, first), count) in numbers.iter().zip(firsts).zip(counts) {
            let place = queries.idx(*number)?;
            let Some(end) = first.checked_add(*count) else {
                return Err(BoxError::new(format!(
                    "{count} objects from {first} on are more than there can be"
                )));
            };
            match ranges.last_mut() {
                Some((places, ids)) if places.end == place && *ids == (*first..end) => places.end += 1,
                _ => ranges.push((place..place + 1, *first..end)),
            }
        }
        Ok(ranges)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ids for the queries of some numbers.
    pub(super) fn push(&mut self, numbers: Vec<u32>, ids: Range<u64>) {
        self.0.push_back((numbers, ids));
    }

    /// What a block was to compute.
    pub(super) fn add(&mut self, block: &RangeBlock, queries: &Queries) {
        self.push(block.queries.clone().map(|place| queries.at(place).number).collect(), block.ids());
    }

    /// Chunks for queries, by their places.
    pub(super) fn add_chunks(
        &mut self,
        space: &SqfdSpace,
        queries: &Queries,
        places: Range<usize>,
        chunks: Range<usize>,
    ) {
        let (store, cut) = (space.store(), space.chunks().cut);
        let ids = cut.ids(store, chunks.start).start..cut.ids(store, chunks.end - 1).end;
        self.push(places.map(|place| queries.at(place).number).collect(), ids);
    }

    /// The next objects as candidates, in about so many rows.
    ///
    /// # Errors
    /// When there are no such objects.
    pub(super) fn next(&mut self, store: &dyn Store, rows: usize) -> Result<Option<Envelope>, BoxError> {
        while let Some((numbers, ids)) = self.0.front_mut() {
            if ids.is_empty() || numbers.is_empty() {
                self.0.pop_front();
                continue;
            }
            // What is not there is told by name.
            store.locate(ids.end - 1)?;
            let per_envelope = (rows / numbers.len()).max(1) as u64;
            let here = ids.start..ids.end.min(ids.start + per_envelope);
            ids.start = here.end;
            let found: Vec<u64> = store.among(here).collect();
            if !found.is_empty() {
                return Ok(Some(candidates(numbers, &found)?));
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
        ("lower", Arc::new(Float64Array::from(vec![0.0; numbers.len() * ids.len()]))),
    ];
    Envelope::from_columns(columns)
}
