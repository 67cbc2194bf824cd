//! `lower_bounds`: emits the objects that an index cannot exclude, and a range that contains the answers.
//!
//! Invariants: an excluded object's f64 distance is strictly beyond the range, so ties stay. The range is at least the
//! f64 distance of the k-th answer: it is the k-th smallest upper bound, or the range given. Both hold for bounds from
//! slots and from devices.

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
use crate::columns;
use crate::devices::code_path;
use crate::devices::stage::DeviceStage;
use crate::resources::{self, check_index, space::options};
use crate::search::cost_model::{OnDevices, Remembered, Search};
use crate::search::distance;
use crate::search::queries::Queries;
use crate::search::scan;
use boxwork_stores::pivot_table::PivotTable;

/// Pivots whose distances to a query one closure computes: some tens of microseconds.
const PIVOTS_PER_CHUNK: usize = 2;
/// From this many objects of a table on, devices are worthwhile; fewer take one core some milliseconds.
const DEVICE_OBJECTS_MIN: u64 = 1_000_000;

const QUERIES: In = In::side(0, "queries", columns::queries, "the queries");
const CANDIDATES: Out =
    Out::new(0, "candidates", columns::candidates, "the objects that the index cannot exclude");
const RANGES: Out = Out::new(1, "ranges", columns::ranges, "all objects, if GPUs scan");
const RANGE: HintOut = HintOut::new(0, "range", Join::Minimum, "a distance that contains the whole answer");

/// Bounds the distances of all objects and emits those that may be in the answer.
///
/// The distances to the pivots, computed in f64 for each query, bound every object's distance from below and above. The
/// k-th smallest upper bound is a range that contains the k nearest objects, before any distance of an object is known.
/// (Section 4.6.2 of the source calls it misestimation if such a range is too small; this one never is.) Objects with
/// lower bounds above the range are excluded.
///
/// # Inputs
/// `queries` (side): the queries.
///
/// # Outputs
/// `candidates`: the remaining objects with their lower bounds, by query, ids ascending. `ranges`: if `auto` chooses a
/// scan and GPUs compute the distances, all objects leave here as ranges of whole chunks, and none as candidates.
///
/// # Hints
/// `range`, written: a distance that contains the whole answer.
///
/// # Parameters
/// `pivots`: the index. `bound`: which bound; `none` excludes nothing; `auto` measures on a sample the costs of bounds
/// and distances and the objects that remain, takes the fastest way, and excludes nothing if that is a scan. `k`: the
/// number of objects that a query returns; without it no range comes from upper bounds. `range`: if given, keeps only
/// objects at most this far. `remember`: the remaining objects of all queries to keep in memory, 16 bytes each; if
/// there are more, all are bounded again when they are sent. `device`: where to bound; `auto` takes GPUs if there are
/// any and the table is large enough. The table stays in a device's memory, and the device returns the remaining
/// objects. The distance box has the same `device`: if `ranges` is connected, `bound: auto` also considers a scan by
/// GPUs.
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
            "the bound that excludes objects; auto chooses by a sample, and takes none if a scan is faster",
        ),
        Parameter::new(
            "k",
            ParameterType::integer_from(1),
            Default::Absent,
            "the number of objects that a query returns: upper bounds then give a range",
        )
        .unit("objects"),
        Parameter::new(
            "range",
            ParameterType::Number { minimum: 0.0, maximum: f64::MAX },
            Default::Absent,
            "exclude objects farther than this",
        ),
        Parameter::new(
            "remember",
            ParameterType::Integer { minimum: 0, maximum: 1 << 32 },
            Default::Integer(4 << 20),
            "remaining objects to keep in memory; if there are more, all are bounded twice",
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
    ..OperatorSpec::new("lower_bounds", "Excludes objects by an index.", Kind::Stateful, make)
};

fn code_path(arguments: &Arguments, devices: &LazyDevices) -> String {
    if ["k", "range"].iter().all(|name| arguments.get(name).is_none()) {
        return format!("{} (without k and range nothing is excluded)", CodePath::detect());
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
    // The bound of a request may differ from the plan's, which was checked.
    bound.map_or(Ok(()), |bound| table.allow(bound))?;
    let unit = table.unit();
    let picked = bind.pick_devices("device", Some(table.len()), DEVICE_OBJECTS_MIN);
    // If no device is available, the distance box reports it.
    let scans = bind.pick_devices("device", Some(table.len()), distance::DEVICE_OBJECTS_MIN).ok();
    let scans = scans
        .and_then(|picked| picked.devices)
        .zip(table.space().store().clone().as_signatures())
        .map(|((devices, allowed), store)| scan::OnDevices::new(&store, devices, allowed));
    Ok(Box::new(LowerBounds {
        table,
        bound,
        // Rates are known for tables read from a file, whose unit is 1.
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

/// Whether an index, and the bound, are sound for the distance of the space of the index.
fn check(arguments: &Arguments, resources: &dyn Fn(&str) -> Option<Arguments>) -> Result<(), String> {
    let named = |arguments: &Arguments, name: &str| match arguments.get(name) {
        Some(Value::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let bound = named(arguments, "bound").and_then(|bound| bound.parse::<Bound>().ok());
    let table = named(arguments, "pivots").and_then(|pivots| resources(&pivots));
    table.as_ref().map_or(Ok(()), |table| check_index(table, resources))?;
    let space = table.and_then(|table| named(&table, "space"));
    let (Some(bound), Some(space)) = (bound, space.and_then(|space| resources(&space))) else {
        return Ok(());
    };
    // An unsound space has its own fault, and a request may still give the distance.
    match options(&space, None).properties() {
        Ok(Some(properties)) => properties.allow(bound).map_err(|error| error.to_string()),
        _ => Ok(()),
    }
}

struct LowerBounds {
    table: Arc<PivotTable>,
    bound: Option<Bound>,
    /// Whether a bound that does not pay may be dropped.
    is_auto: bool,
    k: Option<usize>,
    /// The parameter `range`.
    limit: f32,
    remember: usize,
    /// The devices that may bound, and their numbers.
    picked: Option<(Arc<Devices>, Arc<[usize]>)>,
    /// The devices that compute distances, from ranges if no bound pays.
    scans: Option<scan::OnDevices>,
    /// Their rates, if they are GPUs.
    computes: Option<OnDevices>,
    /// Slots of the runtime: the more there are, the more serial work costs.
    slots: usize,
    /// Rates and choices that the runtime remembers.
    remembered: Arc<Remembered>,
    sizes: Sizes,
    state: State,
}

/// The stage of the box's work.
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
    /// Computes the queries' distances to the pivots, unless no bound is used.
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
        let known = if self.is_auto { self.remembered.choice(&self.table, search) } else { Some(self.bound) };
        let table = &self.table;
        let pivots = table.pivots();
        let store = space.store();
        if known != Some(None) {
            resources::bring_in(cx, &**store, pivots)?;
        }
        // Without a bound no distance to a pivot is needed; a new choice needs them all the same.
        let distances = match known {
            Some(None) => vec![Vec::new(); queries.len()],
            _ => distances_to(cx, &queries, pivots)?,
        };
        self.bound = match known {
            Some(bound) => bound,
            None => {
                let interrupt = || cx.is_cancelled();
                self.remembered.choose(table, search, &queries, &distances, &interrupt)?
            }
        };
        if self.bound.is_some() || search.devices.is_none() {
            self.scans = None;
        }
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
            // Without a bound there is nothing to do before sending.
            (None, _) => left = None,
            _ if prepared.is_empty() => left = None,
            // If nothing can be excluded, devices would return everything; and they do not know removed objects.
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

/// The f64 distances of each query to the pivots; slots compute pieces of them side by side.
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
