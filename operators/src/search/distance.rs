//! `distance`: computes candidates' distances from their queries, by the machine's fastest path or on devices. `sqfd`
//! is this box for spaces of the signature quadratic form distance.
//!
//! Invariants: rows keep their order within an envelope; a distance is off by no more than its query declares
//! ([`Prepared::widened`](boxwork_stores::space::Prepared::widened)), on every path and whatever else the envelope
//! holds. The slots compute what a device returns without results.

mod select;
mod block;
mod range_block;
mod ranges;
mod on_device;
pub(crate) mod pairs;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{LazyDevices, Picked};
use boxwork_runtime::operator::{Bind, BoxError, Context, In, Kind, Operator, OperatorSpec, Out, Pushed};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType};
use boxwork_stores::chunks::ChunkRun;
use boxwork_stores::space::{DeviceForm, Scratch, Space};

pub(crate) use self::on_device::{DistanceBlock, OnDevice, compute_sigmas};
pub(crate) use self::range_block::{DISTANCES_OF_ALL, Found};
use self::ranges::{Ids, ranges_of};
pub(crate) use self::select::Criteria;
use crate::columns;
use crate::devices::code_path::of_device;
use crate::devices::stage::{BlockOutcome, DeviceStage, DeviceTask, Sizes, Taken};
use crate::resources::{self, SPACE, check_range, device_parameter, get_range, range_parameter};
use crate::search::queries::Queries;

/// From this many objects of a store on, devices are worthwhile; fewer take one core a few milliseconds.
pub(crate) const DEVICE_OBJECTS_MIN: u64 = 10_000;

/// Rows that a slot computes in one firing: a few milliseconds.
const SLOT_ROWS: usize = 1024;

/// A block is worth submitting from this many rows on: a tenth of a millisecond on a fast device.
const BLOCK_ROWS: usize = 1 << 16;

/// For each device, the blocks that its end points hold, and twice as many waiting. If all slots compute, the box is
/// fired some milliseconds after a block has come back, and the device must not run dry meanwhile. The slots take one
/// envelope at a time.
const SIZES: Sizes =
    Sizes { block: [BLOCK_ROWS as u64, u64::MAX], block_min: [0; 2], slots: [0; 2], blocks_per_device: 12 };

/// Computes the distances of candidates.
///
/// # Inputs
/// `candidates`: objects by query. `ranges`: consecutive objects as first id and count, so that whole chunks of a store
/// on a device need no row per object. `query` (side): the queries.
///
/// # Outputs
/// `distances`: the distance of each candidate by the fast path, with a declared error. `top_k` and `filter_range`
/// recompute in f64 whatever that error could decide.
///
/// # Parameters
/// `space`: the objects and their distance. `device`: where to compute; `auto` takes GPUs if there are any, the store
/// is large enough and a kernel computes the distance. On devices envelopes may overtake each other. `k` and `range`:
/// the parameters of the `top_k` or `filter_range` behind this box; a device then drops objects that these cannot keep.
pub(crate) static DISTANCE: OperatorSpec = TABLE;

/// `distance` restricted to spaces of the signature quadratic form distance.
pub(crate) static SQFD: OperatorSpec = OperatorSpec {
    name: "sqfd",
    about: "Computes signature quadratic form distances: `distance` over an SQFD space.",
    example: "distance: {kind: sqfd, space: space, copies: auto}",
    make: make_sqfd,
    ..TABLE
};

const CANDIDATES: In = In::stream(0, "candidates", columns::candidates, "objects whose distance is wanted");
const RANGES: In =
    In::stream(1, "ranges", columns::ranges, "consecutive objects whose distances are wanted").optional();
const QUERY: In = In::side(2, "query", columns::queries, "the queries");
const DISTANCES: Out = Out::new(0, "distances", columns::distances, "one distance per candidate");

const TABLE: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        device_parameter("auto"),
        Parameter::new(
            "k",
            ParameterType::integer_from(1),
            Default::Absent,
            "`k` of the `top_k` behind this box: objects that cannot be in its answer may be dropped",
        )
        .unit("objects"),
        range_parameter(
            Default::Absent,
            "`range` of the `filter_range` behind this box: objects beyond it may be dropped",
        ),
    ],
    inputs: &[CANDIDATES, RANGES, QUERY],
    outputs: &[DISTANCES],
    example: "distance: {kind: distance, space: space, copies: auto}",
    code_path: Some(code_path),
    check: Some(check_range),
    ..OperatorSpec::new("distance", "Computes distances of candidates from queries.", Kind::Stateless, make)
};

fn code_path(arguments: &Arguments, devices: &LazyDevices) -> String {
    of_device(arguments, devices, DEVICE_OBJECTS_MIN)
}

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let space = resources::space(bind)?;
    let picked = bind.pick_devices("device", Some(space.store().ids_count()), DEVICE_OBJECTS_MIN);
    let criteria = Criteria {
        k: bind.get_integer("k").and_then(|k| usize::try_from(k).ok()),
        range: get_range(bind, &*space)?,
        objects_min: None,
    };
    Ok(Box::new(stage(space, picked?, criteria)))
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

/// A `distance` box on the picked devices.
fn stage(space: Arc<dyn Space>, picked: Picked, criteria: Criteria) -> DeviceStage<Distance> {
    let form = Arc::clone(&space).device_form();
    let (devices, picked) = match (form, picked.devices) {
        (Some(DeviceForm::Sqfd(sqfd)), Some((devices, allowed))) => {
            (Some(OnDevice::new(sqfd, &devices, &allowed, criteria)), Some((devices, allowed)))
        }
        _ => (None, None),
    };
    let (queries, scratch, ranges) = (None, Scratch::default(), VecDeque::new());
    DeviceStage::new(Distance { space, queries, scratch, devices, ranges }, SIZES, picked)
}

/// Objects whose distances are wanted.
enum Item {
    /// Candidates, row by row.
    Rows(Envelope),
    /// Whole chunks.
    Run(ChunkRun),
    /// Consecutive objects.
    Ids(Ids),
}

struct Distance {
    space: Arc<dyn Space>,
    /// Set by the first firing.
    queries: Option<Queries>,
    scratch: Scratch,
    /// `None` if the slots compute everything.
    devices: Option<OnDevice>,
    /// Ranges taken from the input that are in no block yet, and that the slots have not computed.
    ranges: VecDeque<Item>,
}

/// The queries, which the first firing has prepared.
fn prepared(queries: &Option<Queries>) -> &Queries {
    queries.as_ref().expect("the first firing prepares the queries")
}

/// The maker of blocks; only a box with devices has one.
fn on_device(devices: &Option<OnDevice>) -> &OnDevice {
    devices.as_ref().expect("there are blocks only where there are devices")
}

impl Distance {
    /// Splits the ranges of an envelope; into runs of chunks if a device computes them.
    fn take_ranges(&mut self, envelope: &Envelope, device: bool) -> Result<(), BoxError> {
        let queries = prepared(&self.queries);
        for (places, ids) in ranges_of(envelope, queries)? {
            let runs = if device { on_device(&self.devices).runs(&places, &ids) } else { None };
            match runs {
                Some(runs) => self.ranges.extend(runs.into_iter().map(Item::Run)),
                None => self.ranges.push_back(Item::Ids(Ids::new(queries, places, ids))),
            }
        }
        Ok(())
    }
}

impl DeviceTask for Distance {
    type Item = Item;
    type Block = DistanceBlock;
    type Made = Envelope;

    const IS_ORDERED: bool = false;

    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        self.queries = Some(Queries::of_side(cx, QUERY, &self.space)?);
        Ok(())
    }

    fn take(&mut self, cx: &mut Context<'_>, device: bool) -> Result<Option<Taken<Item>>, BoxError> {
        let piece = |candidates: Envelope| {
            let weight = [candidates.rows() as u64, 0];
            Some(Taken::Piece(Item::Rows(candidates), weight))
        };
        if let Some(candidates) = cx.take(CANDIDATES) {
            return Ok(piece(candidates));
        }
        loop {
            match self.ranges.front_mut() {
                // Parts of chunks go to a device as candidates.
                Some(Item::Ids(ids)) if device => match ids.next(&**self.space.store(), BLOCK_ROWS)? {
                    None => drop(self.ranges.pop_front()),
                    Some(candidates) => return Ok(piece(candidates)),
                },
                Some(_) => return Ok(self.ranges.pop_front().map(Taken::Whole)),
                None => match cx.take(RANGES) {
                    None => return Ok(None),
                    Some(envelope) => self.take_ranges(&envelope, device)?,
                },
            }
        }
    }

    fn is_ended(&self, cx: &Context<'_>) -> bool {
        self.ranges.is_empty() && cx.is_ended(CANDIDATES) && cx.is_ended(RANGES)
    }

    fn has_items(&self) -> bool {
        !self.ranges.is_empty()
    }

    fn block(&mut self, cx: &mut Context<'_>, items: Vec<Item>) -> Result<DistanceBlock, BoxError> {
        let (queries, mut envelopes) = (prepared(&self.queries), Vec::with_capacity(items.len()));
        let devices = self.devices.as_mut().expect("there are blocks only where there are devices");
        for item in items {
            match item {
                Item::Rows(candidates) => envelopes.push(candidates),
                Item::Run(run) => return devices.run_block(cx, queries, run),
                Item::Ids(_) => unreachable!("devices get candidates and whole chunks"),
            }
        }
        devices.rows_block(cx, queries, envelopes)
    }

    fn home(&self, block: &DistanceBlock) -> Option<usize> {
        block.home()
    }

    fn finish(
        &mut self,
        cx: &mut Context<'_>,
        mut block: DistanceBlock,
    ) -> Result<BlockOutcome<Self>, BoxError> {
        if block.is_missing() {
            return Ok(BlockOutcome::Retry(block));
        }
        Ok(BlockOutcome::Made(on_device(&self.devices).finish(cx, prepared(&self.queries), block)?))
    }

    fn failed(&mut self, block: DistanceBlock, is_served: bool) -> BlockOutcome<Self> {
        match block {
            DistanceBlock::Rows(block) => {
                BlockOutcome::Fallback(block.envelopes.into_iter().map(Item::Rows).collect())
            }
            DistanceBlock::Run(mut block) => {
                // The device that keeps these chunks failed; any other may compute the block.
                if block.home.take().is_some() && is_served {
                    return BlockOutcome::Retry(DistanceBlock::Run(block));
                }
                let ids = Ids::new(prepared(&self.queries), block.queries.clone(), block.ids());
                BlockOutcome::Fallback(vec![Item::Ids(ids)])
            }
        }
    }

    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Item>,
    ) -> Result<Vec<Envelope>, BoxError> {
        let queries = prepared(&self.queries);
        let candidates = loop {
            match left.pop_front() {
                None => return Ok(Vec::new()),
                Some(Item::Rows(candidates)) => break candidates,
                Some(Item::Run((places, chunks))) => {
                    let ids = on_device(&self.devices).ids(&chunks);
                    left.push_front(Item::Ids(Ids::new(queries, places, ids)));
                }
                Some(Item::Ids(mut ids)) => {
                    if let Some(candidates) = ids.next(&**self.space.store(), SLOT_ROWS)? {
                        left.push_front(Item::Ids(ids));
                        break candidates;
                    }
                }
            }
        };
        Ok(vec![on_slot(cx, &*self.space, queries, &mut self.scratch, &candidates)?])
    }

    fn has_room(&self, cx: &Context<'_>) -> bool {
        cx.has_room(DISTANCES)
    }

    fn push(&mut self, cx: &mut Context<'_>, made: Envelope) -> Result<Pushed, BoxError> {
        cx.push(DISTANCES, made)
    }
}

/// Computes the distances of an envelope of candidates on this slot, while the producer continues.
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
