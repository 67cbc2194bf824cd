//! `lower_bounds`: the objects that an index cannot rule out, and a range that the answers lie within.
//!
//! Invariants: an object that is left out is beyond the range in f64, strictly, so that of equal distances none is
//! lost. The range is no less than the f64 distance of the k-th answer: it is the k-th smallest upper bound, or the
//! range asked for. Both hold wherever the bounds were computed.

mod block;
mod bounded;
mod on_device;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_kernels::CodePath;
use boxwork_kernels::lower_bound::{Bound, BoundEvaluator, Bounds};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{Devices, LazyDevices};
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, HintOut, In, Join, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType, Value};

use self::bounded::{Bounded, Found, above};
use self::on_device::{Came, OnDevice, SIZES, Sizes};
use crate::auto::cost_model::{self, OnDevices, Remembered, Search};
use crate::columns;
use crate::devices::code_path;
use crate::resources::space::options;
use crate::search::distance;
use crate::search::queries::Queries;
use crate::search::scan;
use boxwork_stores::pivot_table::PivotTable;

/// Blocks, counted once for each query, that one firing bounds: some milliseconds' worth.
const BLOCKS_PER_FIRING: usize = 1024;
/// Blocks that are bounded by one closure at most, and at least: of a small table each slot gets some all the same.
const BLOCKS_PER_CHUNK: usize = 32;
const BLOCKS_PER_CHUNK_MIN: usize = 4;
/// Pivots whose distances to a query are computed by one closure: some tens of microseconds' worth.
const PIVOTS_PER_CHUNK: usize = 2;
/// Rows of an envelope at most, and at least where there are as many.
const ENVELOPE_ROWS: usize = 4096;
const ENVELOPE_ROWS_MIN: usize = 256;
/// Pieces of any work that each slot gets at least.
const PIECES_PER_SLOT: usize = 4;
/// Objects of a table from which on it is worth the way to a device: fewer are some milliseconds on one core.
const DEVICE_OBJECTS_MIN: u64 = 1_000_000;

const QUERIES: In = In::side(0, "queries", columns::queries, "the queries");
const CANDIDATES: Out = Out::new(0, "candidates", columns::candidates, "the objects that are not ruled out");
const RANGES: Out = Out::new(1, "ranges", columns::ranges, "all objects, for GPUs that scan");
const RANGE: HintOut =
    HintOut::new(0, "range", Join::Minimum, "a distance that no object of the answer is beyond");

/// Bounds the distances of all objects and emits those that may be among the answers.
///
/// Every object's distance is bounded from below and above by the distances to the pivots, which are computed for
/// each query in f64. The k-th smallest upper bound is a range that holds the k nearest, before any distance of an
/// object is known (section 4.6.2 of the source calls it misestimation when such a range is too small; this one never
/// is). An object whose lower bound is above the range is left out.
///
/// # Inputs
/// `queries` (side): the queries.
///
/// # Outputs
/// `candidates`: the objects left with their lower bounds, by query, ids ascending. `ranges`: where `auto` takes a scan
/// and GPUs compute the distances, all objects go out here as ranges of whole chunks, and no candidates do.
///
/// # Hints
/// `range`, written: a distance that no object of the answer is beyond.
///
/// # Parameters
/// `pivots`: the index. `bound`: which bound; `none` rules nothing out; `auto` measures on some of the objects what
/// bounds and distances take and how many objects are left, takes what is fastest, and rules nothing out where a scan
/// is. `k`: how many objects a query gets; without it no range comes from upper bounds. `range`: if given, only objects
/// at most this far. `remember`: objects left of all queries together, 16 bytes each; where there are more, all are
/// bounded once more when they are sent. `device`: where to bound; `auto` takes GPUs where there are some and the
/// table is worth it. The table stays in a device's memory, and what is not ruled out comes back. What computes the
/// distances has the same `device`: with `ranges` connected, `bound: auto` asks whether GPUs scan faster.
pub static LOWER_BOUNDS: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "pivots",
            ParameterType::Resource("pivot_table"),
            Default::Required,
            "the index of the store that is searched",
        ),
        Parameter::new(
            "bound",
            ParameterType::Choice(&["auto", "none", "triangular", "ptolemaic", "combined", "simplex"]),
            Default::Text("auto"),
            "what rules objects out; auto takes what pays by a sample, and none where a scan is faster",
        ),
        Parameter::new(
            "k",
            ParameterType::integer_from(1),
            Default::Absent,
            "how many objects a query gets: their range then comes from upper bounds",
        )
        .unit("objects"),
        Parameter::new(
            "range",
            ParameterType::Number { minimum: 0.0, maximum: f64::MAX },
            Default::Absent,
            "leave out objects farther than this",
        ),
        Parameter::new(
            "remember",
            ParameterType::Integer { minimum: 0, maximum: 1 << 32 },
            Default::Integer(4 << 20),
            "objects left that are kept in memory; where there are more, all are bounded twice",
        )
        .unit("objects"),
        Parameter::new(
            "device",
            ParameterType::Device,
            Default::Text("auto"),
            "where to bound: auto, cpu, gpu, or gpu: and the numbers of `boxwork devices`",
        ),
    ],
    inputs: &[QUERIES],
    outputs: &[CANDIDATES, RANGES],
    hints_written: &[RANGE],
    example: "bounds: {kind: lower_bounds, pivots: table, bound: auto, k: 10}",
    code_path: Some(code_path),
    check: Some(check),
    ..OperatorSpec::new("lower_bounds", "Rules out objects by an index.", Kind::Stateful, make)
};

fn code_path(arguments: &Arguments, devices: &LazyDevices) -> String {
    if ["k", "range"].iter().all(|name| arguments.get(name).is_none()) {
        return format!("{} (without k and range nothing is left out)", CodePath::detect());
    }
    code_path::of_device(arguments, devices, DEVICE_OBJECTS_MIN)
}

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let table: Arc<PivotTable> = bind.resource("pivots")?;
    let bound = match bind.text("bound") {
        "none" => None,
        "auto" => table.space().properties().tightest(),
        name => Some(name.parse::<Bound>()?),
    };
    // A request may give another bound than the plan was checked with.
    bound.map_or(Ok(()), |bound| table.allow(bound))?;
    let unit = table.unit();
    let picked = bind.pick_devices("device", Some(table.len()), DEVICE_OBJECTS_MIN);
    // Where none can be had, what computes distances says so.
    let scans = bind.pick_devices("device", Some(table.len()), distance::DEVICE_OBJECTS_MIN).ok();
    let scans = scans
        .and_then(|picked| picked.devices)
        .zip(table.space().store().clone().as_signatures())
        .map(|((devices, allowed), store)| scan::OnDevices::new(&store, devices, allowed));
    Ok(Box::new(LowerBounds {
        table,
        evaluator: BoundEvaluator::new(CodePath::detect()),
        bound,
        // Costs are known of tables that are read, whose unit is 1.
        is_auto: bind.text("bound") == "auto" && unit == 1.0,
        k: bind.get_integer("k").and_then(|k| usize::try_from(k).ok()),
        limit: bind.get_number("range").map_or(f32::INFINITY, |range| above(range / unit)),
        remember: bind.count("remember"),
        queries: None,
        picked: picked?.devices,
        computes: scans.as_ref().and_then(|scans| {
            let (devices, allowed) = scans.devices();
            OnDevices::of(devices, allowed)
        }),
        scans,
        slots: bind.slots(),
        remembered: bind.memory(),
        sizes: SIZES,
        devices: None,
        rest: VecDeque::new(),
        bounded: 0,
        left: Some(0),
        is_mixed: false,
        sending: None,
        made: None,
    }))
}

/// Whether the bound is sound for the distance of the space of the index.
fn check(arguments: &Arguments, resources: &dyn Fn(&str) -> Option<Arguments>) -> Result<(), String> {
    let named = |arguments: &Arguments, name: &str| match arguments.get(name) {
        Some(Value::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let bound = named(arguments, "bound").and_then(|bound| bound.parse::<Bound>().ok());
    let space = named(arguments, "pivots").and_then(|pivots| named(&resources(&pivots)?, "space"));
    let (Some(bound), Some(space)) = (bound, space.and_then(|space| resources(&space))) else {
        return Ok(());
    };
    // A space that is not sound has a fault of its own; the distance may be given with the request.
    match options(&space, None).properties() {
        Ok(Some(properties)) => properties.allow(bound).map_err(|error| error.to_string()),
        _ => Ok(()),
    }
}

struct LowerBounds {
    table: Arc<PivotTable>,
    evaluator: BoundEvaluator,
    bound: Option<Bound>,
    /// Whether the bound is given up where it does not pay.
    is_auto: bool,
    k: Option<usize>,
    /// The range asked for.
    limit: f32,
    remember: usize,
    queries: Option<Vec<Bounded>>,
    /// The devices that may be used, and the numbers of those.
    picked: Option<(Arc<Devices>, Arc<[usize]>)>,
    /// The devices that compute distances, by ranges where no bound is worth it.
    scans: Option<scan::OnDevices>,
    /// How fast they are, where they are GPUs.
    computes: Option<OnDevices>,
    /// Slots of the runtime: the more there are, the more counts what one of them does alone.
    slots: usize,
    /// What the runtime knows of such searches.
    remembered: Arc<Remembered>,
    sizes: Sizes,
    /// What is under way there.
    devices: Option<OnDevice>,
    /// Blocks that the slots have yet to bound.
    rest: VecDeque<Range<usize>>,
    /// Objects that are done.
    bounded: u64,
    /// Objects remembered of all queries; nothing when they were too many.
    left: Option<usize>,
    /// Whether devices were asked, from which blocks come in any order.
    is_mixed: bool,
    /// How far the answers are sent, once all are known.
    sending: Option<Sending>,
    /// Made, and yet to be sent.
    made: Option<Envelope>,
}

/// How far the answers are sent.
#[derive(Clone, Copy, std::default::Default)]
struct Sending {
    query: usize,
    /// The block, where none are remembered.
    place: usize,
}

impl Operator for LowerBounds {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.queries.is_none() {
            self.prepare(cx)?;
            return Ok(Flow::More);
        }
        if self.sending.is_none() {
            if cx.is_cancelled() {
                return Ok(Flow::Done);
            }
            if self.devices.is_some() {
                self.take_back(cx)?;
            }
            if !self.rest.is_empty() {
                self.bound_blocks(cx);
                return Ok(Flow::More);
            }
            if self.devices.is_some() {
                return Ok(Flow::Wait);
            }
            for query in self.queries.iter_mut().flatten() {
                if self.is_mixed {
                    query.sort(ENVELOPE_ROWS);
                }
                if query.query.is_some() {
                    cx.join_hint(RANGE, query.number, f64::from(query.range()) * self.table.unit());
                }
            }
            self.sending = Some(Sending::default());
        }
        self.send(cx)
    }
}

impl LowerBounds {
    /// Computes the queries' distances to the pivots, where they are to be bounded.
    fn prepare(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let space = Arc::clone(self.table.space());
        let queries = Queries::of_side(cx, QUERIES, &space)?;
        let search = Search {
            k: self.k,
            range: self.limit.is_finite().then_some(f64::from(self.limit)),
            queries: queries.len(),
            workers: self.slots,
            devices: self.computes.filter(|_| !cx.is_closed(RANGES)),
        };
        let known = if self.is_auto {
            cost_model::known(&self.remembered, &self.table, search)
        } else {
            Some(self.bound)
        };
        let table = &self.table;
        let pivots = table.pivots();
        let store = space.store();
        if known != Some(None) && !store.is_in(pivots) {
            cx.detached("disk", || store.bring_in(pivots))??;
        }
        self.bound = match known {
            Some(bound) => bound,
            None => cost_model::choose(cx, &self.remembered, table, search, &queries)?,
        };
        if self.bound.is_some() || search.devices.is_none() {
            self.scans = None;
        }
        // Known only after the choice: a scan needs none of them.
        let pieces = if self.bound.is_some() { pivots.len().div_ceil(PIVOTS_PER_CHUNK) } else { 0 };
        let mut parts: Vec<Result<Vec<f64>, BoxError>> =
            (0..pieces * queries.len()).map(|_| Ok(Vec::new())).collect();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut parts, 1, |idx, part| {
                let (query, first) = (queries.at(idx / pieces), idx % pieces * PIVOTS_PER_CHUNK);
                let upto = pivots.len().min(first + PIVOTS_PER_CHUNK);
                part[0] = query.exact_until(&pivots[first..upto], &cancelled);
            });
        });
        let parts: Vec<Vec<f64>> = parts.into_iter().collect::<Result<_, _>>()?;
        let distances: Vec<Vec<f64>> = match pieces {
            0 => vec![Vec::new(); queries.len()],
            _ => parts.chunks(pieces).map(<[_]>::concat).collect(),
        };
        let mut prepared = Vec::new();
        for (query, distances) in queries.iter().zip(distances) {
            let bound = self.bound.map(|bound| {
                let made = table.query(bound, &distances, &*query.prepared);
                made.map_err(|error| {
                    BoxError::new(format!("query {} and `{}`: {error}", query.number, table.path().display()))
                })
            });
            prepared.push(Bounded::new(query.number, bound.transpose()?, self.limit));
        }
        match (self.bound, &self.picked) {
            // Nothing to bound: whatever is sent is bounded then, by nothing.
            (None, _) => self.left = None,
            _ if prepared.is_empty() => self.left = None,
            // Where nothing is left out, all would come back; and devices do not know which objects were removed.
            (Some(bound), Some((devices, allowed)))
                if (self.k.is_some() || self.limit.is_finite())
                    && store.objects_count() == store.ids_count() =>
            {
                let (table, k) = (&self.table, self.k);
                let places = (devices, &**allowed);
                let on_device = OnDevice::new(table, bound, &prepared, k, places, self.sizes, self.remember);
                (self.devices, self.is_mixed) = (Some(on_device), true);
            }
            _ => self.rest.push_back(0..self.table.blocks()),
        }
        self.queries = Some(prepared);
        Ok(())
    }

    /// Takes what devices have bounded, and hands over what they are to bound.
    fn take_back(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let (Some(devices), Some(queries)) = (&mut self.devices, &mut self.queries) else { return Ok(()) };
        for came in devices.process(cx, queries)? {
            match came {
                Came::Failed(blocks) => {
                    self.rest.push_back(blocks);
                    continue;
                }
                Came::TooMany(scan) => {
                    self.bounded += scan.objects();
                    self.left = None;
                }
                Came::Left(scan) => {
                    self.bounded += scan.objects();
                    for (query, entries) in queries.iter_mut().zip(&scan.entries) {
                        let range = query.range();
                        let uppers = entries.iter().map(|entry| entry.upper);
                        let mut found = Found::default();
                        found.uppers.extend(uppers.filter(|upper| *upper <= range));
                        entries.iter().for_each(|entry| found.left.push(entry.id, entry.lower));
                        query.learn(found);
                    }
                }
            }
            cx.progress(self.bounded, self.table.len());
        }
        if devices.is_over() {
            self.devices = None;
        }
        self.narrow();
        Ok(())
    }

    /// Forgets what the upper bounds seen rule out, and everything where too much is left.
    fn narrow(&mut self) {
        let Some(queries) = &mut self.queries else { return };
        let mut left = 0;
        for query in queries.iter_mut() {
            left += query.narrow(self.k);
        }
        self.left = self.left.map(|_| left).filter(|left| *left <= self.remember);
        if self.left.is_none() {
            queries.iter_mut().for_each(|query| query.left.clear());
        }
    }

    /// Bounds the next blocks for all queries.
    fn bound_blocks(&mut self, cx: &mut Context<'_>) {
        let Some(queries) = &mut self.queries else { return };
        let Some(rest) = self.rest.front_mut() else { return };
        let count = (BLOCKS_PER_FIRING / queries.len()).max(BLOCKS_PER_CHUNK);
        let blocks = rest.start..rest.end.min(rest.start + count);
        rest.start = blocks.end;
        if rest.start == rest.end {
            self.rest.pop_front();
        }
        let per_chunk =
            (blocks.len() / (PIECES_PER_SLOT * self.slots)).clamp(BLOCKS_PER_CHUNK_MIN, BLOCKS_PER_CHUNK);
        let chunks = blocks.len().div_ceil(per_chunk);
        let mut parts: Vec<Vec<Found>> = (0..chunks).map(|_| Vec::new()).collect();
        let (table, evaluator, k, keeps) = (&self.table, &self.evaluator, self.k, self.left.is_some());
        let shared: &[Bounded] = queries;
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut parts, 1, |chunk, part| {
                let first = blocks.start + chunk * per_chunk;
                let mut found: Vec<Found> = shared.iter().map(|_| Found::default()).collect();
                let mut bounds = Bounds::default();
                let upto = blocks.end.min(first + per_chunk);
                for block in first..upto {
                    // All queries of a block while it is near.
                    let mut next = (block + 1 < upto).then(|| table.block(block + 1));
                    for (query, found) in shared.iter().zip(&mut found) {
                        let Some(prepared) = &query.query else { continue };
                        evaluator.bounds_before(prepared, table.block(block), next.take(), &mut bounds);
                        table.hide_removed(block, &mut bounds);
                        query.see(table.ids(block), &bounds, k, keeps, found);
                    }
                }
                part[0] = found;
            });
        });
        for part in parts {
            queries.iter_mut().zip(part).for_each(|(query, found)| query.learn(found));
        }
        self.narrow();
        self.bounded += self.table.ids(blocks.end - 1).end - self.table.ids(blocks.start).start;
        cx.progress(self.bounded, self.table.len());
    }

    /// Sends what is left, query after query.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(queries) = &self.queries else { return Ok(Flow::Done) };
        if let Some(scan) = &mut self.scans {
            let numbers: Vec<u32> = queries.iter().map(|query| query.number).collect();
            while cx.has_room(RANGES) {
                let next = if cx.is_cancelled() || numbers.is_empty() { None } else { scan.next(&numbers)? };
                let Some(envelope) = next else { return Ok(Flow::Done) };
                if cx.push(RANGES, envelope)? == Pushed::Closed {
                    return Ok(Flow::Done);
                }
            }
            return Ok(Flow::Wait);
        }
        while cx.has_room(CANDIDATES) {
            cx.announce();
            let made = match self.made.take() {
                None => self.make()?,
                made => made,
            };
            let Some(made) = made else { return Ok(Flow::Done) };
            let (mut rows, whole) = (made.rows(), made.rows());
            if let Some(left) = &mut self.left {
                // As a scan does, so that all slots end together where what follows computes.
                rows = rows.min((*left / (2 * self.slots)).clamp(ENVELOPE_ROWS_MIN, ENVELOPE_ROWS));
                *left -= rows;
            }
            let mut next = made.clone();
            if rows < whole {
                next = Envelope::new(made.batch().slice(0, rows))?;
                self.made = Some(Envelope::new(made.batch().slice(rows, whole - rows))?);
            }
            if cx.push(CANDIDATES, next)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }

    /// The next of what is left, of one query; nothing when all was made.
    fn make(&mut self) -> Result<Option<Envelope>, BoxError> {
        let (Some(queries), Some(sending)) = (&mut self.queries, &mut self.sending) else { return Ok(None) };
        let space = Arc::clone(self.table.space());
        let store = space.store();
        let mut bounds = Bounds::default();
        while let Some(query) = queries.get_mut(sending.query) {
            let range = query.range();
            let (mut ids, mut lowers) = (Vec::new(), Vec::new());
            if self.left.is_some() {
                // Narrowed to the range before the first was sent. Large pieces go as they are, small ones together.
                let mut left = query.left.pop_front().unwrap_or_default();
                while let Some(next) =
                    query.left.pop_front_if(|next| next.len() + left.len() <= ENVELOPE_ROWS)
                {
                    left.append(next);
                }
                (ids, lowers) = (left.ids, left.lowers);
                lowers.iter_mut().for_each(|lower| *lower *= self.table.unit());
                if query.left.is_empty() {
                    *sending = Sending { query: sending.query + 1, place: 0 };
                }
            } else {
                let is_scan = self.bound.is_none();
                let left = self.table.len() - self.table.ids(sending.place).start;
                let rows_max =
                    if is_scan { scan::rows_next(left, self.slots) as usize } else { ENVELOPE_ROWS };
                while ids.len() < rows_max && sending.place < self.table.blocks() {
                    if let Some(prepared) = &query.query {
                        self.evaluator.bounds(prepared, self.table.block(sending.place), &mut bounds);
                    }
                    for (id, lower) in self.table.ids(sending.place).zip(bounds.lower.iter().copied()) {
                        if lower <= range && store.has(id) {
                            ids.push(id);
                            lowers.push(f64::from(lower) * self.table.unit());
                        }
                    }
                    sending.place += 1;
                }
                if sending.place == self.table.blocks() {
                    *sending = Sending { query: sending.query + 1, place: 0 };
                }
            }
            if ids.is_empty() {
                continue;
            }
            let columns: [(&str, ArrayRef); 3] = [
                ("query", Arc::new(UInt32Array::from(vec![query.number; ids.len()]))),
                ("id", Arc::new(UInt64Array::from(ids))),
                ("lower", Arc::new(Float64Array::from(lowers))),
            ];
            return Ok(Some(Envelope::from_columns(columns)?));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
