//! `scan`: emits every object of a store as a candidate for every query.
//!
//! Invariants: an envelope holds one range of ids for all queries, query by query, ids ascending; the objects of an
//! envelope of candidates are in memory and checked when it leaves. For devices, ranges of whole chunks leave instead,
//! without a row per object: a device computes faster than a slot could write these rows.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_runtime::envelope::{Envelope, EnvelopeError};
use boxwork_runtime::feeding::Devices;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::columns;
use crate::resources::{self, store_parameter};
use crate::search::distance::DEVICE_OBJECTS_MIN;
use boxwork_stores::chunks::{ChunkRun, Cut};
use boxwork_stores::signature_store::SignatureStore;
use boxwork_stores::store::Store;

/// The most rows of an envelope: a thousand distances take a few milliseconds, the longest that one worker computes
/// alone at the end of a scan.
const ENVELOPE_ROWS: u64 = 1024;
/// The fewest rows of an envelope: a scan shrinks its envelopes towards the end, so that no slot computes long after
/// the others.
const ENVELOPE_ROWS_MIN: u64 = 128;

const QUERIES: In = In::side(0, "queries", columns::queries, "the queries");
const CANDIDATES: Out = Out::new(0, "candidates", columns::candidates, "every object for every query");
const RANGES: Out = Out::new(1, "ranges", columns::ranges, "all objects as ranges of ids, for devices");

/// Emits all objects of a store as candidates.
///
/// # Inputs
/// `queries` (side): the queries.
///
/// # Outputs
/// `candidates`: every object for every query, with the lower bound minus infinity. Each envelope has all queries of its objects, which
/// are thus read from memory once. `ranges`: all objects as ranges, if devices compute the distances and this output is
/// connected; then no candidates leave.
///
/// # Parameters
/// `store`: the store to scan. `device`: where the distance box computes.
pub static SCAN: OperatorSpec = OperatorSpec {
    parameters: &[
        store_parameter("the store to scan"),
        Parameter::new(
            "device",
            ParameterType::Device,
            Default::Text("cpu"),
            "`device` of the distance box; if devices compute, ranges leave",
        ),
    ],
    inputs: &[QUERIES],
    outputs: &[CANDIDATES, RANGES],
    example: "all: {kind: scan, store: signatures}",
    ..OperatorSpec::new("scan", "Emits every object of a store as a candidate.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let store = resources::store(bind)?;
    // If no device is available, the distance box reports it.
    let devices = bind
        .pick_devices("device", Some(store.ids_count()), DEVICE_OBJECTS_MIN)
        .ok()
        .and_then(|picked| picked.devices);
    let signatures = Arc::clone(&store).as_signatures();
    let devices = signatures.zip(devices);
    let devices = devices.map(|(store, (devices, allowed))| OnDevices::new(&store, devices, allowed));
    Ok(Box::new(Scan { store, devices, slots: bind.slots(), parts: None, turn: 0, done: 0, shared: None }))
}

/// The columns of queries and bounds of the last envelope, which the next shares if its length is equal.
type SharedColumns = Option<(u64, ArrayRef, ArrayRef)>;

struct Scan {
    store: Arc<dyn Store>,
    /// The devices that compute, unless the slots do.
    devices: Option<OnDevices>,
    /// Slots of the runtime.
    slots: usize,
    /// The remaining batches of each node, or of the whole store; set by the first firing.
    parts: Option<Vec<Part>>,
    /// The next part's turn.
    turn: usize,
    /// Objects emitted so far.
    done: u64,
    shared: SharedColumns,
}

/// The devices that compute, and the ranges of a store left for them.
pub(crate) struct OnDevices {
    devices: Arc<Devices>,
    allowed: Arc<[usize]>,
    store: Arc<SignatureStore>,
    cut: Cut,
    /// Places of queries, and chunks; set by the first call.
    runs: Option<VecDeque<ChunkRun>>,
}

impl OnDevices {
    pub(crate) fn new(store: &Arc<SignatureStore>, devices: Arc<Devices>, allowed: Arc<[usize]>) -> Self {
        Self { devices, allowed, cut: Cut::new(store), store: Arc::clone(store), runs: None }
    }

    /// The devices, and their numbers.
    pub(crate) fn devices(&self) -> (&Devices, &[usize]) {
        (&self.devices, &self.allowed)
    }

    /// The next range, for all of these queries.
    pub(crate) fn next(&mut self, queries: &[u32]) -> Result<Option<Envelope>, EnvelopeError> {
        let Self { devices, allowed, store, cut, runs } = self;
        let runs = runs.get_or_insert_with(|| {
            cut.runs(store, devices, allowed, (0..queries.len(), 0..cut.count())).into()
        });
        let Some((places, run)) = runs.pop_front() else { return Ok(None) };
        let (queries, count) = (&queries[places.clone()], places.len());
        let ids = cut.ids(store, run.start).start..cut.ids(store, run.end - 1).end;
        let columns: [(&str, ArrayRef); 3] = [
            ("query", Arc::new(UInt32Array::from(queries.to_vec()))),
            ("first", Arc::new(UInt64Array::from(vec![ids.start; count]))),
            ("count", Arc::new(UInt64Array::from(vec![ids.end - ids.start; count]))),
        ];
        Envelope::from_columns(columns).map(Some)
    }
}

/// Batches of a store that lie on one node.
struct Part {
    node: Option<usize>,
    batches: Range<usize>,
    /// The next object.
    next: u64,
}

impl Part {
    fn new(store: &dyn Store, node: Option<usize>, batches: Range<usize>) -> Self {
        Self { node, next: store.batch_ids(batches.start).start, batches }
    }

    /// The parts of a store on a machine with `nodes` nodes; one part if the store lies on other nodes, or on none.
    fn all(store: &dyn Store, nodes: usize) -> Vec<Self> {
        if nodes == 1 || store.nodes() != nodes {
            return vec![Self::new(store, None, 0..store.batches())];
        }
        let mut parts: Vec<Self> = Vec::with_capacity(nodes);
        for batch in 0..store.batches() {
            let node = store.node(batch);
            match parts.last_mut() {
                Some(part) if part.node == node => part.batches.end = batch + 1,
                _ => parts.push(Self::new(store, node, batch..batch + 1)),
            }
        }
        parts
    }
}

impl Operator for Scan {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let mut queries = Vec::new();
        for envelope in cx.side(QUERIES) {
            queries.extend_from_slice(envelope.u32s("query")?);
        }
        if queries.is_empty() {
            return Ok(Flow::Done);
        }
        if self.devices.is_some() && !cx.is_closed(RANGES) {
            return self.send_ranges(cx, &queries);
        }
        let parts = self.parts.get_or_insert_with(|| Part::all(&*self.store, cx.nodes()));
        while cx.has_room(CANDIDATES) {
            cx.announce();
            // One envelope of each part in turn, so that every node has work from beginning to end.
            let count = parts.len();
            let mut in_turn = (0..count).map(|nth| (self.turn + nth) % count);
            let left = in_turn.find(|nth| !parts[*nth].batches.is_empty());
            let Some(nth) = left.filter(|_| !cx.is_cancelled()) else { return Ok(Flow::Done) };
            let part = &mut parts[nth];
            let batch = part.batches.start;
            resources::bring_in(cx, &*self.store, &[part.next])?;
            let end = self.store.batch_ids(batch).end;
            let rows = rows_next((self.store.objects_count() - self.done) * queries.len() as u64, self.slots);
            let upto = end.min(part.next + (rows / queries.len() as u64).max(1));
            let ids = self.store.among(part.next..upto);
            let envelope = candidates(&mut self.shared, &queries, ids)?;
            self.done += self.store.count(part.next..upto);
            part.next = upto;
            part.batches.start += usize::from(upto == end);
            self.turn = nth + 1;
            cx.progress(self.done, self.store.objects_count());
            if envelope.rows() == 0 {
                continue;
            }
            let pushed = match part.node {
                Some(node) => cx.push_near(CANDIDATES, envelope, node)?,
                None => cx.push(CANDIDATES, envelope)?,
            };
            if pushed == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }
}

impl Scan {
    /// Sends the store as ranges, each for all queries.
    fn send_ranges(&mut self, cx: &mut Context<'_>, queries: &[u32]) -> Result<Flow, BoxError> {
        let Some(devices) = &mut self.devices else { return Ok(Flow::Done) };
        while cx.has_room(RANGES) {
            let next = if cx.is_cancelled() { None } else { devices.next(queries)? };
            let Some(envelope) = next else { return Ok(Flow::Done) };
            if cx.push(RANGES, envelope)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }
}

/// Rows of the next envelope, given the objects left and the slots: guided self-scheduling, half of a slot's share.
pub(crate) fn rows_next(left: u64, slots: usize) -> u64 {
    (left / (2 * slots as u64)).clamp(ENVELOPE_ROWS_MIN, ENVELOPE_ROWS)
}

/// Objects for all queries.
fn candidates(
    shared: &mut SharedColumns,
    queries: &[u32],
    ids: impl Iterator<Item = u64> + Clone,
) -> Result<Envelope, BoxError> {
    let count = ids.clone().count() as u64;
    let (numbers, bounds) = match shared {
        Some((length, numbers, bounds)) if *length == count => (Arc::clone(numbers), Arc::clone(bounds)),
        _ => {
            let repeated = queries.iter().flat_map(|query| ids.clone().map(|_| *query));
            let numbers: ArrayRef = Arc::new(UInt32Array::from_iter_values(repeated));
            let bounds: ArrayRef = Arc::new(Float64Array::from(vec![columns::NO_BOUND; numbers.len()]));
            *shared = Some((count, Arc::clone(&numbers), Arc::clone(&bounds)));
            (numbers, bounds)
        }
    };
    let rows: UInt64Array = queries.iter().flat_map(|_| ids.clone()).collect::<Vec<u64>>().into();
    Ok(Envelope::from_columns([("query", numbers), ("id", Arc::new(rows) as ArrayRef), ("lower", bounds)])?)
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;
    use boxwork_runtime::topology::Topology;

    use super::*;
    use boxwork_stores::testing;

    fn check(objects: usize, queries: &[(&str, u64)]) {
        let folder = tempfile::tempdir().unwrap();
        check_on(testing::store(folder.path(), objects), 1, queries);
    }

    /// Returns the nodes on which the envelopes' objects lie.
    fn check_on(store: Arc<SignatureStore>, nodes: usize, queries: &[(&str, u64)]) -> Vec<Option<usize>> {
        let objects = store.len() as usize;
        // A harness has one slot.
        let slots = 1;
        let of_batch: Vec<_> =
            (0..store.batches()).map(|batch| (store.ids(batch), store.node(batch))).collect();
        let store: Resource = testing::shared_store(&store);
        let mut harness =
            Harness::with_resources(&SCAN, [("store", Value::Text("s".into()))], [("s", store)]).unwrap();
        harness.room(1);
        harness.nodes(nodes);
        harness.give(QUERIES, testing::queries(queries));
        let mut found = Vec::new();
        let mut nears = Vec::new();
        while !harness.is_done() {
            harness.run().unwrap();
            for (envelope, near) in harness.taken_near(CANDIDATES) {
                nears.push(near);
                if let Some(node) = near {
                    let first = envelope.u64s("id").unwrap()[0];
                    assert!(of_batch.iter().any(|(ids, of)| ids.contains(&first) && *of == Some(node)));
                }
                let rows = rows_next(((objects - found.len() / queries.len()) * queries.len()) as u64, slots);
                assert!((1..=(rows as usize).max(queries.len())).contains(&envelope.rows()));
                assert!(envelope.f64s("lower").unwrap().iter().all(|lower| *lower == columns::NO_BOUND));
                let (queries, ids) = (envelope.u32s("query").unwrap(), envelope.u64s("id").unwrap());
                found.extend(queries.iter().copied().zip(ids.iter().copied()));
            }
        }
        found.sort_unstable();
        let expected: Vec<(u32, u64)> = (0..queries.len() as u32)
            .flat_map(|query| (0..objects as u64).map(move |id| (query, id)))
            .collect();
        assert_eq!(found, expected);
        if !queries.is_empty() {
            assert_eq!(harness.progress(), (objects as u64, objects as u64));
            assert_eq!(harness.detached(), vec!["disk"; objects.div_ceil(4096)]);
        }
        nears
    }

    #[test]
    fn parts_of_a_copied_store_go_to_their_nodes_in_turn() {
        let folder = tempfile::tempdir().unwrap();
        let copied = |machine| {
            let store = Arc::into_inner(testing::store(folder.path(), 9000)).unwrap();
            Arc::new(store.copied_to(Topology::synthetic(machine).unwrap()))
        };
        // Three batches, the last of 808 objects.
        let nears = check_on(copied("numa:3 core:1"), 3, &[("a", 1)]);
        let on = |node: usize| Some(node);
        assert_eq!(nears[..5], [on(0), on(1), on(2), on(0), on(1)]);
        assert!(nears.iter().all(|near| near.is_some_and(|node| node < 3)));
        // Copied for a machine with other nodes, or with one node: in order, and near no node.
        for (machine, nodes) in [("numa:3 core:1", 2), ("numa:1 core:2", 1), ("numa:2 core:1", 1)] {
            let nears = check_on(copied(machine), nodes, &[("a", 1)]);
            assert!(nears.len() >= 9 && nears.iter().all(Option::is_none));
        }
        // With more nodes than batches, some nodes have none.
        assert!(check_on(copied("numa:4 core:1"), 4, &[("a", 1)]).iter().all(|near| *near < on(3)));
    }

    #[test]
    fn envelopes_get_smaller_towards_the_end() {
        let rows = |left| rows_next(left, 16);
        assert_eq!(
            [rows(1 << 20), rows(32_768), rows(8000), rows(4096), rows(1)],
            [1024, 1024, 250, 128, 128]
        );
        assert_eq!(rows_next(100, 1), ENVELOPE_ROWS_MIN);
    }

    #[test]
    fn every_object_for_every_query() {
        check(1, &[("a", 1)]);
        check(5000, &[("a", 1), ("b", 2), ("c", 3)]);
        check(10, &[]);
    }
}
