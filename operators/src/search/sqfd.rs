//! `sqfd`: the distances of candidates from their queries, by the fastest path of the machine, or on devices.
//!
//! Invariants: rows keep their order within an envelope; a distance is off by no more than the error that the query's
//! `PreparedQuery` declares, whatever path computed it and whatever else is in the envelope. What a device gives back
//! without results is computed here.

mod block;
mod on_device;
pub(crate) mod pairs;
mod range_block;
mod ranges;
mod select;

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use boxwork_kernels::CodePath;
use boxwork_kernels::sqfd::Evaluator;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{LazyDevices, Picked};
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, Input, Kind, Operator, OperatorSpec, Output, Pushed,
};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType};

pub(crate) use self::on_device::compute_sigmas;
use self::on_device::{Left, OnDevice};
pub(crate) use self::range_block::DISTANCES_OF_ALL;
use self::ranges::Ranges;
use self::select::Keeps;
use crate::columns;
use crate::devices::code_path::of_device;
use crate::search::queries::{Queries, SPACE};
use boxwork_stores::signature_store::Objects;
use boxwork_stores::sqfd_space::SqfdSpace;

/// Objects of a store from which on it is worth the way to a device: fewer are a few milliseconds on one core.
pub(crate) const DEVICE_OBJECTS_MIN: u64 = 10_000;

/// Rows that a slot computes in one firing: some milliseconds' worth.
const SLOT_ROWS: usize = 1024;

/// Computes signature quadratic form distances.
///
/// # Inputs
/// `candidates`: objects by query. `ranges`: the same, told as the first id and how many; whole chunks of a store that lies
/// on a device need no word about each of their objects. `query` (side): the queries.
///
/// # Outputs
/// `distances`: the distance of each candidate, in 32-bit arithmetic with a declared error; `top_k` and
/// `filter_range` compute again in 64 bits what the error could decide.
///
/// # Parameters
/// `space`: the measure and the store. `device`: where to compute; `auto` takes GPUs where there are some and the store
/// is worth it. On devices envelopes may overtake each other. `k` and `range`: what a `top_k` or `filter_range` behind
/// this box keeps; on a device, what cannot be among it is then left out where it is computed, and does not come back.
pub static SQFD: OperatorSpec = OperatorSpec {
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
    example: "distance: {kind: sqfd, space: space, copies: auto}",
    code_path: Some(code_path),
    ..OperatorSpec::new("sqfd", "Computes distances of candidates from queries.", Kind::Stateless, make)
};

fn code_path(arguments: &Arguments, devices: &LazyDevices) -> String {
    of_device(arguments, devices, DEVICE_OBJECTS_MIN)
}

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let space: Arc<SqfdSpace> = bind.resource("space")?;
    let picked = bind.pick_devices("device", Some(space.store().len()), DEVICE_OBJECTS_MIN);
    let keeps = Keeps {
        k: bind.get_integer("k").and_then(|k| usize::try_from(k).ok()),
        range: bind.get_number("range"),
        objects_min: None,
    };
    Ok(Box::new(Sqfd::new(space, picked?, keeps)))
}

struct Sqfd {
    space: Arc<SqfdSpace>,
    queries: Option<Queries>,
    gather: Gather,
    devices: Option<OnDevice>,
    /// What came back from devices without results, and ranges where there are none.
    left: Left,
}

impl Sqfd {
    fn new(space: Arc<SqfdSpace>, picked: Picked, keeps: Keeps) -> Self {
        let devices = picked.devices.map(|(devices, allowed)| OnDevice::new(&space, devices, allowed, keeps));
        let gather = Gather::new(Evaluator::new(CodePath::detect()));
        Self { space, queries: None, gather, devices, left: Left::default() }
    }
}

impl Operator for Sqfd {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let queries = match &self.queries {
            Some(queries) => queries,
            None => self.queries.insert(Queries::new(cx.side("query"), &self.space)?),
        };
        // One a firing, as it computes.
        let candidates = match self.left.candidates.pop_front() {
            None => self.left.ranges.next(self.space.store(), SLOT_ROWS)?,
            found => found,
        };
        if let Some(candidates) = candidates {
            let distances = self.gather.envelope(cx, &self.space, queries, &candidates)?;
            let pushed = cx.push("distances", distances)?;
            return Ok(if pushed == Pushed::Closed { Flow::Done } else { Flow::More });
        }
        if let Some(devices) = &mut self.devices {
            let flow = devices.process(cx, &self.space, queries, &mut self.left)?;
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
        let distances = self.gather.envelope(cx, &self.space, queries, &candidates)?;
        let pushed = cx.push("distances", distances)?;
        Ok(if pushed == Pushed::Closed { Flow::Done } else { Flow::Wait })
    }
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

/// Gathers objects from the batches of a store and computes their distances from one query.
pub(crate) struct Gather {
    evaluator: Evaluator,
    rows: Vec<u32>,
    out: Vec<f64>,
}

impl Gather {
    /// With the working memory of an evaluator.
    pub(crate) fn new(evaluator: Evaluator) -> Self {
        Self { evaluator, rows: Vec::new(), out: Vec::new() }
    }

    /// The distances of an envelope of candidates, on this slot; whoever sends them goes on meanwhile.
    fn envelope(
        &mut self,
        cx: &mut Context<'_>,
        space: &SqfdSpace,
        queries: &Queries,
        candidates: &Envelope,
    ) -> Result<Envelope, BoxError> {
        cx.announce();
        let (numbers, ids) = (candidates.u32s("query")?, candidates.u64s("id")?);
        let store = space.store();
        if !store.is_in(ids.iter().copied()) {
            cx.detached("disk", || store.bring_in(ids.iter().copied()))??;
        }
        let mut order: Vec<u32> = (0..ids.len() as u32).collect();
        let key = |row: &u32| (numbers[*row as usize], ids[*row as usize]);
        if !order.is_sorted_by_key(key) {
            order.sort_unstable_by_key(key);
        }
        let mut distances = vec![0.0; ids.len()];
        store.read::<_, BoxError>(|objects| {
            for run in order.chunk_by(|a, b| numbers[*a as usize] == numbers[*b as usize]) {
                let query = queries.at(queries.idx(numbers[run[0] as usize])?);
                self.distances(space, objects, &query.prepared, run, ids, &mut distances)?;
            }
            Ok(())
        })?;
        with_distances(candidates, distances)
    }

    /// Computes the distances of `ids[i]` for each `i` in `run`, whose ids ascend, into `distances[i]`.
    pub(crate) fn distances(
        &mut self,
        space: &SqfdSpace,
        objects: Objects<'_>,
        query: &boxwork_kernels::sqfd::PreparedQuery,
        run: &[u32],
        ids: &[u64],
        distances: &mut [f64],
    ) -> Result<(), BoxError> {
        let store = space.store();
        let mut rest = run;
        while let Some(first) = rest.first() {
            let (batch, _) = store.locate(ids[*first as usize])?;
            let range = store.ids(batch);
            let (here, beyond) = rest.split_at(rest.partition_point(|idx| ids[*idx as usize] < range.end));
            self.rows.clear();
            self.rows.extend(here.iter().map(|idx| (ids[*idx as usize] - range.start) as u32));
            self.out.clear();
            self.out.resize(here.len(), 0.0);
            space.fast(objects, &mut self.evaluator, query, batch, &self.rows, &mut self.out)?;
            for (idx, distance) in here.iter().zip(&self.out) {
                distances[*idx as usize] = *distance;
            }
            rest = beyond;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
