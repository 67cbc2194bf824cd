//! `lower_bounds`: the objects that an index cannot rule out, and a range that the answers lie within.
//!
//! Invariants: an object that is left out is beyond the range in f64, strictly, so that of equal distances none is
//! lost. The range is no less than the f64 distance of the k-th answer: it is the k-th smallest upper bound, or the
//! range asked for. Both hold wherever the bounds were computed.

mod block;
mod bounded;
mod answers;
mod on_device;
mod bounding;

use std::collections::VecDeque;
use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::lower_bound::{Bound, BoundEvaluator};
use boxwork_runtime::feeding::{Devices, LazyDevices};
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, HintOut, In, Join, Kind, Operator, OperatorSpec, Out,
};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType, Value};

use self::answers::Answers;
use self::bounded::{Bounded, above};
use self::bounding::Bounding;
use self::on_device::{OnDevice, SIZES, STAGE_SIZES, Sizes};
use crate::auto::cost_model::{self, OnDevices, Remembered, Search};
use crate::columns;
use crate::devices::code_path;
use crate::devices::stage::DeviceStage;
use crate::resources::space::options;
use crate::search::distance;
use crate::search::queries::Queries;
use crate::search::scan;
use boxwork_stores::pivot_table::PivotTable;

/// Pivots whose distances to a query are computed by one closure: some tens of microseconds' worth.
const PIVOTS_PER_CHUNK: usize = 2;
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
        bound,
        // Costs are known of tables that are read, whose unit is 1.
        is_auto: bind.text("bound") == "auto" && unit == 1.0,
        k: bind.get_integer("k").and_then(|k| usize::try_from(k).ok()),
        limit: bind.get_number("range").map_or(f32::INFINITY, |range| above(range / unit)),
        remember: bind.count("remember"),
        picked: picked?.devices,
        computes: scans.as_ref().and_then(|scans| {
            let (devices, allowed) = scans.devices();
            OnDevices::of(devices, allowed)
        }),
        scans,
        slots: bind.slots(),
        remembered: bind.memory(),
        sizes: SIZES,
        state: State::New,
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
    bound: Option<Bound>,
    /// Whether the bound is given up where it does not pay.
    is_auto: bool,
    k: Option<usize>,
    /// The range asked for.
    limit: f32,
    remember: usize,
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
    state: State,
}

/// How far the box is.
#[derive(std::default::Default)]
enum State {
    #[default]
    New,
    Bounding(Box<DeviceStage<Bounding>>),
    Sending(Answers),
}

impl Operator for LowerBounds {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        match &mut self.state {
            State::New => {
                self.state = State::Bounding(Box::new(self.prepare(cx)?));
                Ok(Flow::More)
            }
            State::Bounding(stage) => {
                let flow = stage.process(cx)?;
                if cx.is_cancelled() {
                    return Ok(Flow::Done);
                }
                if flow == Flow::Done {
                    let State::Bounding(stage) = std::mem::take(&mut self.state) else { return Ok(flow) };
                    let answers = stage.into_task().answers(cx, self.bound.is_some(), self.scans.take());
                    self.state = State::Sending(answers);
                    return Ok(Flow::More);
                }
                Ok(flow)
            }
            State::Sending(answers) => answers.send(cx),
        }
    }
}

impl LowerBounds {
    /// Computes the queries' distances to the pivots, where they are to be bounded.
    fn prepare(&mut self, cx: &mut Context<'_>) -> Result<DeviceStage<Bounding>, BoxError> {
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
        let distances = match self.bound {
            Some(_) => distances_to(cx, &queries, pivots)?,
            None => vec![Vec::new(); queries.len()],
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
        let (mut left, mut rest, mut devices) = (Some(0), VecDeque::new(), None);
        match (self.bound, &self.picked) {
            // Nothing to bound: whatever is sent is bounded then, by nothing.
            (None, _) => left = None,
            _ if prepared.is_empty() => left = None,
            // Where nothing is left out, all would come back; and devices do not know which objects were removed.
            (Some(bound), Some(picked))
                if (self.k.is_some() || self.limit.is_finite())
                    && store.objects_count() == store.ids_count() =>
            {
                devices = Some(OnDevice::new(
                    table,
                    bound,
                    &prepared,
                    self.k,
                    (&picked.0, &*picked.1),
                    self.sizes,
                    self.remember,
                ));
            }
            _ => rest.push_back(0..table.blocks()),
        }
        let picked = self.picked.clone().filter(|_| devices.is_some());
        let bounding = Bounding {
            table: Arc::clone(table),
            evaluator: BoundEvaluator::new(CodePath::detect()),
            k: self.k,
            remember: self.remember,
            slots: self.slots,
            queries: prepared,
            devices,
            rest,
            bounded: 0,
            left,
        };
        Ok(DeviceStage::new(bounding, STAGE_SIZES, picked))
    }
}

/// The f64 distances of each query to the pivots, by pieces that slots compute side by side.
fn distances_to(cx: &mut Context<'_>, queries: &Queries, pivots: &[u64]) -> Result<Vec<Vec<f64>>, BoxError> {
    let pieces = pivots.len().div_ceil(PIVOTS_PER_CHUNK);
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
    Ok(parts.chunks(pieces).map(<[_]>::concat).collect())
}

#[cfg(test)]
mod tests;
