//! `gp_scan`: bounds what may be expected of every object that may be shown.
//!
//! A bound U is the mean plus `explore` times a deviation that is at least the true one: the variance given one mark is at
//! least the variance given all, so the mark of the largest covariance bounds it. Thus U is at least the upper confidence
//! bound u, whatever is hallucinated.
//!
//! Invariants: no object leaves that was shown, is marked, is removed or is filtered out. From exact distances every other
//! object leaves once, in the order of ids. From sketches those of the largest bounds leave, in f64, so they are the same on
//! every machine, on slots and on devices.

mod columns;
mod device_columns;
mod sketches;

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_kernels::chance::Random;
use boxwork_kernels::gaussian_process::pass::Upper;
use boxwork_kernels::interrupt::Interrupt;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use boxwork_runtime::feeding::Picked;
use boxwork_stores::space::DeviceForm;
use boxwork_stores::store::Store;

use self::columns::ColumnPass;
use self::device_columns::DeviceColumns;
use self::sketches::{DEVICE_OBJECTS_MIN, SketchScan};
use super::distances::ColumnMaker;
use super::marks::Fitted;
use super::read_marks::{SEEN, ids_of};
use crate::columns as edge;
use crate::devices::code_path;
use crate::devices::stage::DeviceStage;
use crate::resources::gp_kernel::{self, Column, GpKernel, KERNEL};
use crate::resources::{bring_in, device_parameter};
use crate::search::distance::DEVICE_OBJECTS_MIN as DISTANCES_MIN;

/// Rows of the longest shortlist.
pub(super) const ROWS_MAX: usize = 32_768;
/// Ids that one envelope covers, which one slot bounds.
const IDS_PER_ENVELOPE: u64 = 4096;
/// Ids of a small store that one envelope covers: all slots take part in a round.
const IDS_PER_ENVELOPE_MIN: u64 = 256;

const MODEL: In = In::side(0, "model", edge::model, "the marks with their model");
const CANDIDATES: Out = Out::new(0, "candidates", edge::bounds, "the objects that may be shown");

/// The parameter of boxes that bound what may be expected of an object.
pub(crate) const EXPLORE: Parameter = Parameter::new(
    "explore",
    ParameterType::number_within(0.0, 10.0),
    Default::Number(0.25),
    "the weight of the deviation: 0 shows what is probably relevant, 2 what is least known",
);

/// The parameter of boxes that choose by chance where there is no mark.
pub(super) const SEED: Parameter = Parameter::new(
    "seed",
    ParameterType::integer_from(0),
    Default::Integer(1),
    "the choice of the first object where there is no mark",
);

/// Bounds the objects under a model.
///
/// The bound of an object is its mean plus `explore` times a deviation. The deviation is that given the one mark that tells
/// most, so it is at least the deviation given all marks, and takes one pass over the distances.
///
/// If the kernel uses sketches, the distances are those of the sketches, and the `size` objects of the largest bounds leave.
/// Without a mark all bounds are equal, and objects that the seed chooses leave.
///
/// # Inputs
/// `model` (side): the marks with their model.
///
/// # Outputs
/// `candidates`: every object that may be shown, or those of the largest bounds.
///
/// # Parameters
/// `kernel`: the covariance of the objects. `explore`: the weight of the deviation. `seen`: objects to leave out. `shown`:
/// whether they and the marks are left out. `class`: the last folder of the objects to show, or the beginning of their names
/// if it ends in `/`. `size`: the objects that leave, if the kernel uses sketches. `seed`: the choice of objects where there
/// is no mark. `device`: where to bound sketches, or to compute exact distances if a kernel does.
pub static GP_SCAN: OperatorSpec = OperatorSpec {
    parameters: &[
        KERNEL,
        EXPLORE,
        SEEN,
        Parameter::new(
            "shown",
            ParameterType::Choice(&["hide", "keep"]),
            Default::Text("hide"),
            "hide: leave out the objects of `seen` and of the marks; keep: bound all objects",
        ),
        Parameter::new(
            "class",
            ParameterType::Text,
            Default::Absent,
            "only objects whose last folder has this name, or whose names begin with it if it ends in /",
        ),
        Parameter::new(
            "size",
            ParameterType::integer_within(1, ROWS_MAX as i64),
            Default::Integer(256),
            "the objects of the largest bounds that leave, if the kernel uses sketches",
        )
        .unit("objects"),
        SEED,
        device_parameter("auto"),
    ],
    inputs: &[MODEL],
    outputs: &[CANDIDATES],
    example: "scan: {kind: gp_scan, kernel: kernel, explore: 0.25}",
    code_path: Some(|arguments, devices| code_path::of_device(arguments, devices, DEVICE_OBJECTS_MIN)),
    ..OperatorSpec::new("gp_scan", "Bounds what may be expected of every object.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let kernel = gp_kernel::kernel(bind)?;
    let (objects, objects_min) = match &kernel.sketch {
        Some(sketch) => (sketch.len(), DEVICE_OBJECTS_MIN),
        None => (kernel.space.store().ids_count(), DISTANCES_MIN),
    };
    Ok(Box::new(GpScan {
        kernel,
        explore: bind.number("explore"),
        seen: bind.texts("seen"),
        hides: bind.text("shown") == "hide",
        class: bind.get_text("class").map(str::to_owned),
        size: bind.count("size"),
        seed: bind.count("seed") as u64,
        picked: bind.pick_devices("device", Some(objects), objects_min)?,
        slots: bind.slots() as u64,
        state: State::New,
    }))
}

struct GpScan {
    kernel: Arc<GpKernel>,
    explore: f64,
    seen: Vec<String>,
    hides: bool,
    class: Option<String>,
    size: usize,
    seed: u64,
    /// The devices that may bound sketches, or compute distances.
    picked: Picked,
    slots: u64,
    state: State,
}

/// The stage of the box's work.
enum State {
    New,
    /// Slots make the columns of the marks.
    Making(Making, ColumnMaker),
    /// Devices do.
    OnDevices(Making, Box<DeviceStage<DeviceColumns>>),
    /// Bounds leave, from this id on.
    Columns {
        pass: ColumnPass,
        eligible: Arc<Eligible>,
        next: u64,
        /// Envelopes that wait for room.
        made: VecDeque<Envelope>,
    },
    Sketches(Box<DeviceStage<SketchScan>>),
    /// The objects that leave.
    Chosen(Vec<(u64, Upper)>),
}

/// The model, and the objects to bound once there are columns.
struct Making {
    model: Arc<Fitted>,
    eligible: Arc<Eligible>,
}

/// The objects that may be shown.
pub(super) struct Eligible {
    store: Arc<dyn Store>,
    excluded: HashSet<u64>,
    /// The only objects that may be shown, ascending.
    members: Option<Arc<[u64]>>,
}

impl Eligible {
    /// Whether an object of the store may be shown.
    fn allows(&self, id: u64) -> bool {
        let is_member = self.members.as_ref().is_none_or(|members| members.binary_search(&id).is_ok());
        is_member && !self.excluded.contains(&id)
    }

    /// Whether there is such an object, and it may be shown.
    pub(super) fn has(&self, id: u64) -> bool {
        self.store.has(id) && self.allows(id)
    }

    /// Objects by chance, `size` at most.
    fn sample(&self, size: usize, seed: u64) -> Vec<u64> {
        let count = match &self.members {
            Some(members) => members.len() as u64,
            None => self.store.objects_count(),
        };
        let places = Random::mixed(seed).distinct(count, size.saturating_add(self.excluded.len()));
        let id = |place: u64| match &self.members {
            Some(members) => members[place as usize],
            None => self.store.nth(place),
        };
        places.into_iter().map(id).filter(|id| self.has(*id)).take(size).collect()
    }
}

impl Operator for GpScan {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        match &mut self.state {
            State::New => {
                self.state = self.begin(cx)?;
                Ok(Flow::More)
            }
            State::Making(making, maker) => {
                if let Some(columns) = maker.step(cx)? {
                    self.state = making.columns(&self.kernel, self.explore, columns);
                }
                Ok(Flow::More)
            }
            State::OnDevices(_, stage) => {
                let flow = stage.process(cx)?;
                if flow != Flow::Done || cx.is_cancelled() {
                    return Ok(flow);
                }
                let State::OnDevices(making, stage) = std::mem::replace(&mut self.state, State::New) else {
                    return Ok(flow);
                };
                let columns = stage.into_task().into_columns(cx)?;
                self.state = making.columns(&self.kernel, self.explore, columns);
                Ok(Flow::More)
            }
            State::Columns { .. } => self.columns(cx),
            State::Sketches(stage) => {
                let flow = stage.process(cx)?;
                if flow != Flow::Done || cx.is_cancelled() {
                    return Ok(flow);
                }
                let State::Sketches(stage) = std::mem::replace(&mut self.state, State::New) else {
                    return Ok(flow);
                };
                self.state = State::Chosen(stage.into_task().largest(cx)?);
                Ok(Flow::More)
            }
            State::Chosen(rows) => {
                if !cx.has_room(CANDIDATES) {
                    return Ok(Flow::Wait);
                }
                if !rows.is_empty() {
                    let column = |of: fn(&Upper) -> f64| rows.iter().map(|(_, upper)| of(upper)).collect();
                    let ids = rows.iter().map(|(id, _)| *id).collect();
                    let (means, uppers) = (column(|upper| upper.mean), column(|upper| upper.upper));
                    cx.push(CANDIDATES, envelope(ids, means, uppers, 0.0)?)?;
                }
                Ok(Flow::Done)
            }
        }
    }
}

impl GpScan {
    fn begin(&self, cx: &mut Context<'_>) -> Result<State, BoxError> {
        let model = Arc::new(Fitted::of_envelopes(cx.side(MODEL))?);
        let (kernel, seen, class) = (&self.kernel, &self.seen, &self.class);
        let (store, cancelled) = (kernel.space.store(), cx.cancelled());
        let (seen, members) = cx.detached("disk", || {
            let members = class.as_deref().map(|class| kernel.members(class)).transpose()?;
            Ok::<_, BoxError>((ids_of(seen, &**store, &cancelled)?, members))
        })??;
        let mut excluded: HashSet<u64> = seen.into_iter().collect();
        excluded.extend(model.marks.iter().map(|mark| mark.id));
        if !self.hides {
            excluded.clear();
        }
        let eligible = Arc::new(Eligible { store: Arc::clone(store), excluded, members });
        let Some(sketch) = &kernel.sketch else {
            return self.begin_columns(cx, Making { model, eligible });
        };
        let explore = model.explore(self.explore);
        if model.marks.is_empty() {
            let all = Upper { mean: 0.0, upper: explore };
            let mut ids = eligible.sample(self.size, self.seed);
            ids.sort_unstable();
            return Ok(State::Chosen(ids.into_iter().map(|id| (id, all)).collect()));
        }
        let picked = self.picked.devices.clone();
        let allowed = picked.as_ref().map(|(_, allowed)| Arc::clone(allowed));
        if model.marks.iter().any(|mark| !mark.is_stored()) {
            // Their distances to the pivots are computed here, if the sketch has pivots.
            bring_in(cx, &**store, sketch.maker().pivots())?;
        }
        let task = SketchScan::new(
            kernel,
            sketch,
            &model,
            explore,
            (self.size, eligible),
            allowed,
            &cx.cancelled(),
        )?;
        Ok(State::Sketches(Box::new(DeviceStage::new(task, sketches::SIZES, picked))))
    }

    /// Begins with the columns of the marks: devices make them if a kernel computes the distance.
    fn begin_columns(&self, cx: &Context<'_>, making: Making) -> Result<State, BoxError> {
        let kernel = &self.kernel;
        let form = Arc::clone(&kernel.space).device_form().filter(|_| !kernel.is_small());
        if let (Some(DeviceForm::Sqfd(space)), Some((devices, allowed))) = (form, &self.picked.devices) {
            let task = DeviceColumns::new((kernel, space), &making.model, (devices, allowed), &|| {
                cx.is_cancelled()
            })?;
            let stage = DeviceStage::new(task, device_columns::SIZES, self.picked.devices.clone());
            return Ok(State::OnDevices(making, Box::new(stage)));
        }
        let maker = ColumnMaker::new(kernel, &making.model.marks, &|| cx.is_cancelled())?;
        Ok(State::Making(making, maker))
    }

    /// Sends the bounds of all objects, from exact distances, as long as there is room.
    fn columns(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let State::Columns { pass, eligible, next, made } = &mut self.state else { return Ok(Flow::Done) };
        let ids = eligible.store.ids_count();
        while cx.has_room(CANDIDATES) {
            cx.announce();
            if let Some(envelope) = made.pop_front() {
                if cx.push(CANDIDATES, envelope)? == Pushed::Closed {
                    return Ok(Flow::Done);
                }
                continue;
            }
            if *next >= ids {
                return Ok(Flow::Done);
            }
            let (first, pieces) = (*next, 2 * self.slots);
            let size = ids.div_ceil(pieces).clamp(IDS_PER_ENVELOPE_MIN, IDS_PER_ENVELOPE);
            *next = ids.min(first + pieces * size);
            *made = bounds(cx, pass, eligible, (first..*next, size))?;
            cx.progress(*next, ids);
        }
        Ok(Flow::Wait)
    }
}

impl Making {
    fn columns(&self, kernel: &Arc<GpKernel>, explore: f64, columns: Vec<Arc<Column>>) -> State {
        let pass = ColumnPass::new(kernel, &self.model, explore, columns);
        State::Columns { pass, eligible: Arc::clone(&self.eligible), next: 0, made: VecDeque::new() }
    }
}

/// The bounds of some ids, in pieces of this size, of which slots take one at a time; a piece without an object that may be
/// shown has no envelope.
fn bounds(
    cx: &mut Context<'_>,
    pass: &ColumnPass,
    eligible: &Eligible,
    (range, size): (Range<u64>, u64),
) -> Result<VecDeque<Envelope>, BoxError> {
    let pieces = range.clone().step_by(size as usize).map(|first| first..range.end.min(first + size));
    let mut pieces: Vec<_> = pieces.map(|ids| (ids, Ok(None))).collect();
    cx.inside(|inside| {
        let cancelled = inside.cancelled();
        inside.for_each_chunk_of(&mut pieces, 1, |_, pieces| {
            pieces.iter_mut().for_each(|(ids, made)| *made = piece(pass, eligible, ids.clone(), &cancelled));
        });
    });
    pieces.into_iter().filter_map(|(_, made)| made.transpose()).collect()
}

/// The bounds of the objects among some ids that may be shown.
fn piece(
    pass: &ColumnPass,
    eligible: &Eligible,
    ids: Range<u64>,
    interrupt: Interrupt<'_>,
) -> Result<Option<Envelope>, BoxError> {
    let count = (ids.end - ids.start) as usize;
    let (mut means, mut uppers) = (vec![0.0; count], vec![0.0; count]);
    pass.bounds(ids.clone(), &mut means, &mut uppers, interrupt)?;
    let first = ids.start;
    let allowed: Vec<u64> = eligible.store.among(ids).filter(|id| eligible.allows(*id)).collect();
    if allowed.is_empty() {
        return Ok(None);
    }
    let of = |numbers: &[f64]| allowed.iter().map(|id| numbers[(id - first) as usize]).collect();
    let (means, uppers) = (of(&means), of(&uppers));
    Ok(Some(envelope(allowed, means, uppers, pass.error())?))
}

/// The envelope of objects with their bounds, all with one error.
fn envelope(ids: Vec<u64>, means: Vec<f64>, uppers: Vec<f64>, error: f64) -> Result<Envelope, BoxError> {
    let count = ids.len();
    let columns: [(&str, ArrayRef); 5] = [
        ("query", Arc::new(UInt32Array::from(vec![0; count]))),
        ("id", Arc::new(UInt64Array::from(ids))),
        ("mean", Arc::new(Float64Array::from(means))),
        ("upper", Arc::new(Float64Array::from(uppers))),
        ("error", Arc::new(Float64Array::from(vec![error; count]))),
    ];
    Ok(Envelope::from_columns(columns)?)
}
