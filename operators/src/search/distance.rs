//! `distance`: the distances of candidates from their queries, by the fastest path of the machine, or on devices.
//! `sqfd` is the same box for spaces of the signature quadratic form distance.
//!
//! Invariants: rows keep their order within an envelope; a distance is off by no more than its query declares
//! ([`Prepared::widened`](boxwork_stores::space::Prepared::widened)), whatever path computed it and whatever else is in
//! the envelope. What a device gives back without results is computed here.

mod select;
mod block;
mod range_block;
mod ranges;
mod on_device;
pub(crate) mod pairs;

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{LazyDevices, Picked};
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, Input, Kind, Operator, OperatorSpec, Output, Pushed,
};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType};
use boxwork_stores::space::{DeviceForm, Scratch, Space};

pub(crate) use self::on_device::compute_sigmas;
use self::on_device::{Left, OnDevice};
pub(crate) use self::range_block::DISTANCES_OF_ALL;
use self::ranges::Ranges;
use self::select::Keeps;
use crate::columns;
use crate::devices::code_path::of_device;
use crate::resources::{self, SPACE};
use crate::search::queries::Queries;

/// Objects of a store from which on it is worth the way to a device: fewer are a few milliseconds on one core.
pub(crate) const DEVICE_OBJECTS_MIN: u64 = 10_000;

/// Rows that a slot computes in one firing: some milliseconds' worth.
const SLOT_ROWS: usize = 1024;

/// Computes the distances of candidates.
///
/// # Inputs
/// `candidates`: objects by query. `ranges`: the same as the first id and a count; whole chunks of a store that lies on a
/// device need no row for each of their objects. `query` (side): the queries.
///
/// # Outputs
/// `distances`: the distance of each candidate by the fast path, with a declared error; `top_k` and `filter_range`
/// compute again in 64 bits what the error could decide.
///
/// # Parameters
/// `space`: the objects and their distance. `device`: where to compute; `auto` takes GPUs where there are some, the store
/// is worth it and a kernel computes the distance. On devices envelopes may overtake each other. `k` and `range`: what a
/// `top_k` or `filter_range` behind this box keeps; a device then leaves out what cannot be among it.
pub(crate) static DISTANCE: OperatorSpec = TABLE;

/// The same for spaces of the signature quadratic form distance alone.
pub(crate) static SQFD: OperatorSpec = OperatorSpec {
    name: "sqfd",
    about: "Computes signature quadratic form distances: `distance` over an SQFD space.",
    example: "distance: {kind: sqfd, space: space, copies: auto}",
    make: make_sqfd,
    ..TABLE
};

const TABLE: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        Parameter::new(
            "device",
            ParameterType::Device,
            Default::Text("auto"),
            "where to compute: auto, cpu, gpu, or gpu: and the numbers of `boxwork devices`",
        ),
        Parameter::new(
            "k",
            ParameterType::integer_from(1),
            Default::Absent,
            "how many of the nearest what follows keeps: others may be left out",
        )
        .unit("objects"),
        Parameter::new(
            "range",
            ParameterType::Number { minimum: 0.0, maximum: f64::MAX },
            Default::Absent,
            "how far objects may be that what follows keeps: others may be left out",
        ),
    ],
    inputs: &[
        Input::stream("candidates", columns::candidates, "objects whose distance is wanted"),
        Input::stream("ranges", columns::ranges, "consecutive objects whose distances are wanted").optional(),
        Input::side("query", columns::queries, "the queries"),
    ],
    outputs: &[Output::new("distances", columns::distances, "a distance a candidate")],
    example: "distance: {kind: distance, space: space, copies: auto}",
    code_path: Some(code_path),
    ..OperatorSpec::new("distance", "Computes distances of candidates from queries.", Kind::Stateless, make)
};

fn code_path(arguments: &Arguments, devices: &LazyDevices) -> String {
    of_device(arguments, devices, DEVICE_OBJECTS_MIN)
}

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let space = resources::space(bind)?;
    let picked = bind.pick_devices("device", Some(space.store().ids_count()), DEVICE_OBJECTS_MIN);
    let keeps = Keeps {
        k: bind.get_integer("k").and_then(|k| usize::try_from(k).ok()),
        range: bind.get_number("range"),
        objects_min: None,
    };
    Ok(Box::new(Distance::new(space, picked?, keeps)))
}

fn make_sqfd(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let space = resources::space(bind)?;
    match Arc::clone(&space).device_form() {
        Some(DeviceForm::Sqfd(_)) => make(bind),
        None => Err(BoxError::new(format!(
            "`sqfd` computes signature quadratic form distances, and the distance of the space is {}: write \
             `kind: distance`",
            space.measure()
        ))),
    }
}

struct Distance {
    space: Arc<dyn Space>,
    queries: Option<Queries>,
    scratch: Scratch,
    devices: Option<OnDevice>,
    /// What came back from devices without results, and ranges where there are none.
    left: Left,
}

impl Distance {
    fn new(space: Arc<dyn Space>, picked: Picked, keeps: Keeps) -> Self {
        let form = Arc::clone(&space).device_form();
        let devices = form.zip(picked.devices).map(|(DeviceForm::Sqfd(space), (devices, allowed))| {
            OnDevice::new(space, devices, allowed, keeps)
        });
        Self { space, queries: None, scratch: Scratch::default(), devices, left: Left::default() }
    }
}

impl Operator for Distance {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let queries = match &self.queries {
            Some(queries) => queries,
            None => self.queries.insert(Queries::of_side(cx, "query", &self.space)?),
        };
        // One a firing, as it computes.
        let candidates = match self.left.candidates.pop_front() {
            None => self.left.ranges.next(&**self.space.store(), SLOT_ROWS)?,
            found => found,
        };
        if let Some(candidates) = candidates {
            let distances = on_slot(cx, &*self.space, queries, &mut self.scratch, &candidates)?;
            let pushed = cx.push("distances", distances)?;
            return Ok(if pushed == Pushed::Closed { Flow::Done } else { Flow::More });
        }
        if let Some(devices) = &mut self.devices {
            let flow = devices.process(cx, queries, &mut self.left)?;
            if !self.left.is_empty() {
                return Ok(Flow::More);
            }
            if devices.is_served() || flow == Flow::Done || devices.in_flight() > 0 {
                return Ok(flow);
            }
            // No device is left: from here on as if there had been none.
            self.devices = None;
        }
        let Some(candidates) = cx.take("candidates") else {
            if let Some(envelope) = cx.take("ranges") {
                for (places, ids) in Ranges::of(&envelope, queries)? {
                    self.left.ranges.push(places.map(|place| queries.at(place).number).collect(), ids);
                }
                return Ok(Flow::More);
            }
            let is_over = cx.is_ended("candidates") && cx.is_ended("ranges");
            return Ok(if is_over { Flow::Done } else { Flow::Wait });
        };
        let distances = on_slot(cx, &*self.space, queries, &mut self.scratch, &candidates)?;
        let pushed = cx.push("distances", distances)?;
        Ok(if pushed == Pushed::Closed { Flow::Done } else { Flow::Wait })
    }
}

/// The distances of an envelope of candidates, on this slot. The box that sends candidates continues meanwhile.
fn on_slot(
    cx: &mut Context<'_>,
    space: &dyn Space,
    queries: &Queries,
    scratch: &mut Scratch,
    candidates: &Envelope,
) -> Result<Envelope, BoxError> {
    cx.announce();
    let distances = queries.fast(cx, space, scratch, candidates)?;
    with_distances(candidates, distances)
}

/// Candidates with their distances.
pub(crate) fn with_distances(candidates: &Envelope, distances: Vec<f64>) -> Result<Envelope, BoxError> {
    let columns: [(&str, ArrayRef); 3] = [
        ("query", Arc::clone(candidates.column("query")?)),
        ("id", Arc::clone(candidates.column("id")?)),
        ("distance", Arc::new(Float64Array::from(distances))),
    ];
    Ok(Envelope::from_columns(columns)?)
}

#[cfg(test)]
mod tests;
