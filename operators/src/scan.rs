//! `scan`: every object of a store is a candidate for every query.
//!
//! Invariants: an envelope holds one range of ids for all queries, query by query, ids ascending; the objects of an
//! envelope are in memory and checked when it goes out.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, Input, Kind, Operator, OperatorSpec, Output, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::domain::columns;
use crate::domain::signature_store::SignatureStore;

/// Rows of an envelope at most: a thousand distances are a few milliseconds, the most that one worker computes alone
/// at the end of a scan.
const ENVELOPE_ROWS: u64 = 1024;

/// Emits all objects of a store as candidates.
///
/// # Inputs
/// `queries` (side): the queries.
///
/// # Outputs
/// `candidates`: every object for every query, with the lower bound 0; the queries of one object stand in one
/// envelope, so that it is read from memory once for all of them.
///
/// # Parameters
/// `store`: the store to scan.
pub static SCAN: OperatorSpec = OperatorSpec {
    parameters: &[Parameter::new(
        "store",
        ParameterType::Resource("signature_store"),
        Default::Required,
        "the store to scan",
    )],
    inputs: &[Input::side("queries", columns::queries, "the queries")],
    outputs: &[Output::new("candidates", columns::candidates, "every object for every query")],
    example: "all: {kind: scan, store: signatures}",
    ..OperatorSpec::new("scan", "Takes every object of a store as a candidate.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(Scan { store: bind.resource("store")?, batch: 0, next: 0, shared: None }))
}

struct Scan {
    store: Arc<SignatureStore>,
    batch: usize,
    next: u64,
    /// The queries and the bounds of the last envelope: the next one has the same, but for its length.
    shared: Option<(u64, ArrayRef, ArrayRef)>,
}

impl Operator for Scan {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let mut queries = Vec::new();
        for envelope in cx.side("queries") {
            queries.extend_from_slice(envelope.u32s("query")?);
        }
        if queries.is_empty() {
            return Ok(Flow::Done);
        }
        let ids_per_envelope = (ENVELOPE_ROWS / queries.len() as u64).max(1);
        while cx.has_room("candidates") {
            if self.batch == self.store.batches() || cx.is_cancelled() {
                return Ok(Flow::Done);
            }
            if !self.store.is_checked(self.batch) {
                let (store, first) = (&self.store, self.store.ids(self.batch).start);
                cx.detached("disk", || store.bring_in([first]))??;
            }
            let end = self.store.ids(self.batch).end;
            let upto = end.min(self.next + ids_per_envelope);
            let envelope = self.envelope(&queries, upto)?;
            self.next = upto;
            self.batch += usize::from(upto == end);
            cx.progress(self.next, self.store.len());
            if cx.push("candidates", envelope)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }
}

impl Scan {
    /// The objects up to `upto` for all queries.
    fn envelope(&mut self, queries: &[u32], upto: u64) -> Result<Envelope, BoxError> {
        let ids = self.next..upto;
        let count = upto - self.next;
        let (numbers, bounds) = match &self.shared {
            Some((length, numbers, bounds)) if *length == count => (Arc::clone(numbers), Arc::clone(bounds)),
            _ => {
                let repeated = queries.iter().flat_map(|query| ids.clone().map(|_| *query));
                let numbers: ArrayRef = Arc::new(UInt32Array::from_iter_values(repeated));
                let bounds: ArrayRef = Arc::new(Float64Array::from(vec![0.0; numbers.len()]));
                self.shared = Some((count, Arc::clone(&numbers), Arc::clone(&bounds)));
                (numbers, bounds)
            }
        };
        let rows: UInt64Array = queries.iter().flat_map(|_| ids.clone()).collect::<Vec<u64>>().into();
        Ok(Envelope::from_columns([
            ("query", numbers),
            ("id", Arc::new(rows) as ArrayRef),
            ("lower", bounds),
        ])?)
    }
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use crate::testing;

    fn check(objects: usize, queries: &[(&str, u64)], envelopes_expected: usize) {
        let folder = tempfile::tempdir().unwrap();
        let store: Resource = testing::store(folder.path(), objects);
        let mut harness =
            Harness::with_resources(&SCAN, [("store", Value::Text("s".into()))], [("s", store)]).unwrap();
        harness.room(2);
        harness.give("queries", testing::queries(queries));
        let mut found = Vec::new();
        let mut envelopes = 0;
        while !harness.is_done() {
            harness.run().unwrap();
            for envelope in harness.taken("candidates") {
                envelopes += 1;
                assert!(envelope.rows() <= ENVELOPE_ROWS as usize);
                assert!(envelope.f64s("lower").unwrap().iter().all(|lower| *lower == 0.0));
                let (queries, ids) = (envelope.u32s("query").unwrap(), envelope.u64s("id").unwrap());
                found.extend(queries.iter().copied().zip(ids.iter().copied()));
            }
        }
        assert_eq!(envelopes, envelopes_expected);
        found.sort_unstable();
        let expected: Vec<(u32, u64)> = (0..queries.len() as u32)
            .flat_map(|query| (0..objects as u64).map(move |id| (query, id)))
            .collect();
        assert_eq!(found, expected);
        if !queries.is_empty() {
            assert_eq!(harness.progress(), (objects as u64, objects as u64));
            assert_eq!(harness.detached(), vec!["disk"; objects.div_ceil(4096)]);
        }
    }

    #[test]
    fn every_object_for_every_query() {
        check(1, &[("a", 1)], 1);
        check(5000, &[("a", 1), ("b", 2), ("c", 3)], 16);
        check(10, &[], 0);
    }
}
