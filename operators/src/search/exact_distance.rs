//! `exact_distance`: the f64 distances of candidates from their queries, those that results report.
//!
//! Invariants: rows keep their order, and envelopes theirs, whoever computed them; distances have the same bits on slots
//! and on devices.
//!
//! One box without copies: what devices compute comes back later than the firing that took the input, and its order is
//! restored here. On slots the box computes the pieces of its envelopes side by side.

mod block;
mod on_devices;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::Picked;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, Input, Kind, Operator, OperatorSpec, Output, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use self::on_devices::OnDevices;
use crate::columns;
use crate::devices::code_path::of_device;
use crate::resources::{self, SPACE};
use crate::search::distance::with_distances;
use crate::search::queries::Queries;
use boxwork_stores::space::{DeviceForm, Space};

/// Computes distances in f64.
///
/// An index is made of these: bounds hold for real numbers, and these are near enough to them.
///
/// # Inputs
/// `candidates`: objects by query. `query` (side): the queries.
///
/// # Outputs
/// `distances`: the distance of each candidate, in the order of the candidates.
///
/// # Parameters
/// `space`: the objects and their distance. `device`: where to compute; the bits are the same everywhere. Distances that no
/// device computes are computed on the slots.
pub static EXACT_DISTANCE: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        Parameter::new(
            "device",
            ParameterType::Device,
            Default::Text("cpu"),
            "where to compute: auto, cpu, gpu, or gpu: and the numbers of `boxwork devices`",
        ),
    ],
    inputs: &[
        Input::stream("candidates", columns::candidates, "objects whose distance is wanted"),
        Input::side("query", columns::queries, "the queries"),
    ],
    outputs: &[Output::new("distances", columns::distances, "a distance a candidate")],
    example: "distance: {kind: exact_distance, space: space}",
    code_path: Some(|arguments, devices| of_device(arguments, devices, DEVICE_OBJECTS_MIN)),
    ..OperatorSpec::new("exact_distance", "Computes distances of candidates in f64.", Kind::Stateful, make)
};

/// Objects from which on `auto` takes GPUs: with the usual 32 pivots, those of a block.
const DEVICE_OBJECTS_MIN: u64 = 2048;

/// Rows that the slots compute in one firing at most, and those of a piece that one slot takes: some milliseconds.
const FIRING_ROWS: usize = 16_384;
const PIECE_ROWS: usize = 32;

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let space = resources::space(bind)?;
    let objects = space.store().objects_count();
    let picked = bind.pick_devices("device", Some(objects), DEVICE_OBJECTS_MIN)?;
    Ok(Box::new(ExactDistance::new(space, picked)))
}

/// An envelope on its way out.
struct Ready {
    candidates: Envelope,
    /// Of its rows; nothing where the slots are to compute them.
    distances: Option<Vec<f64>>,
}

/// Some rows of one query, which one slot computes.
struct Piece<'a> {
    query: usize,
    ids: &'a [u64],
    distances: Result<Vec<f64>, BoxError>,
}

struct ExactDistance {
    space: Arc<dyn Space>,
    queries: Option<Arc<Queries>>,
    devices: Option<OnDevices>,
    /// In the order of the candidates.
    ready: VecDeque<Ready>,
}

impl ExactDistance {
    fn new(space: Arc<dyn Space>, picked: Picked) -> Self {
        let form = Arc::clone(&space).device_form();
        let devices = form
            .zip(picked.devices)
            .map(|(DeviceForm::Sqfd(space), (devices, allowed))| OnDevices::new(space, devices, allowed));
        Self { space, queries: None, devices, ready: VecDeque::new() }
    }

    /// Takes candidates for the slots.
    fn take(&mut self, cx: &mut Context<'_>) {
        let mut rows = 0;
        while rows < FIRING_ROWS
            && let Some(candidates) = cx.take("candidates")
        {
            rows += candidates.rows();
            self.ready.push_back(Ready { candidates, distances: None });
        }
    }

    /// Computes on the slots what is next and has no distances. True when there was any.
    fn compute(&mut self, cx: &mut Context<'_>, queries: &Queries) -> Result<bool, BoxError> {
        let mut rows = 0;
        let next = self.ready.iter().take_while(|ready| {
            let is_left = ready.distances.is_none() && rows < FIRING_ROWS;
            rows += ready.candidates.rows();
            is_left
        });
        let envelopes: Vec<Envelope> = next.map(|ready| ready.candidates.clone()).collect();
        if envelopes.is_empty() {
            return Ok(false);
        }
        // Whoever sends them goes on while these are computed.
        cx.announce();
        bring_in(cx, &*self.space, &envelopes)?;
        let mut pieces = Vec::new();
        for candidates in &envelopes {
            let (numbers, mut ids) = (candidates.u32s("query")?, candidates.u64s("id")?);
            for run in numbers.chunk_by(|a, b| a == b) {
                let (of_run, rest) = ids.split_at(run.len());
                let query = queries.idx(run[0])?;
                let of_piece = |ids| Piece { query, ids, distances: Ok(Vec::new()) };
                pieces.extend(of_run.chunks(PIECE_ROWS).map(of_piece));
                ids = rest;
            }
        }
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut pieces, 1, |_, pieces| {
                for piece in pieces {
                    piece.distances = queries.at(piece.query).exact_until(piece.ids, &cancelled);
                }
            });
        });
        let mut pieces = pieces.into_iter();
        for (ready, candidates) in self.ready.iter_mut().zip(&envelopes) {
            let mut distances = Vec::with_capacity(candidates.rows());
            while distances.len() < candidates.rows()
                && let Some(piece) = pieces.next()
            {
                distances.extend(piece.distances?);
            }
            ready.distances = Some(distances);
        }
        Ok(true)
    }
}

/// Reads the objects of candidates from disk, where they are not in memory.
fn bring_in(cx: &mut Context<'_>, space: &dyn Space, envelopes: &[Envelope]) -> Result<(), BoxError> {
    let store = space.store();
    for candidates in envelopes {
        let ids = candidates.u64s("id")?;
        if !store.is_in(ids) {
            cx.detached("disk", || store.bring_in(ids))??;
        }
    }
    Ok(())
}

impl Operator for ExactDistance {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let queries = match &self.queries {
            Some(queries) => Arc::clone(queries),
            None => {
                let queries = Queries::of_side(cx, "query", &self.space)?;
                Arc::clone(self.queries.insert(Arc::new(queries)))
            }
        };
        if let Some(devices) = &mut self.devices {
            devices.process(cx, &queries, &mut self.ready)?;
            if devices.is_given_up() {
                self.devices = None;
            }
        }
        if self.devices.is_none() && self.ready.is_empty() {
            self.take(cx);
        }
        let has_computed = self.compute(cx, &queries)?;
        while cx.has_room("distances")
            && let Some(Ready { candidates, distances: Some(distances) }) =
                self.ready.pop_front_if(|ready| ready.distances.is_some())
        {
            if cx.push("distances", with_distances(&candidates, distances)?)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        if has_computed {
            return Ok(if cx.is_cancelled() { Flow::Done } else { Flow::More });
        }
        let is_idle = self.devices.as_ref().is_none_or(OnDevices::is_idle);
        let is_over = self.ready.is_empty() && is_idle && cx.is_ended("candidates");
        Ok(if is_over { Flow::Done } else { Flow::Wait })
    }
}
