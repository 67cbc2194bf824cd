//! `exact_distance`: computes candidates' distances from their queries in f64, as results report them.
//!
//! Invariants: rows keep their order within an envelope, and envelopes keep theirs; distances have equal bits on slots
//! and on devices.
//!
//! One box without copies: devices return their blocks after the firing that took the input, and this box restores the
//! order. On slots it computes the pieces of its envelopes side by side.

mod block;
pub(crate) mod pairs;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::Picked;
use boxwork_runtime::operator::{Bind, BoxError, Context, In, Kind, Operator, OperatorSpec, Out, Pushed};

use self::block::Common;
pub(crate) use self::block::ExactBlock;
use crate::columns;
use crate::devices::code_path::of_device;
use crate::devices::stage::{BlockOutcome, DeviceStage, DeviceTask, Sizes, Taken};
use crate::resources::{self, SPACE, device_parameter};
use crate::search::distance::{compute_sigmas, with_distances};
use crate::search::queries::Queries;
use boxwork_stores::space::{DeviceForm, Space};
use boxwork_stores::sqfd_space::SqfdSpace;

const CANDIDATES: In = In::stream(0, "candidates", columns::candidates, "objects whose distance is wanted");
const QUERY: In = In::side(1, "query", columns::queries, "the queries");
const DISTANCES: Out = Out::new(0, "distances", columns::distances, "one distance per candidate");

/// Computes distances in f64.
///
/// An index is built from these distances: bounds hold for real numbers, which f64 approximates closely enough.
///
/// # Inputs
/// `candidates`: objects by query. `query` (side): the queries.
///
/// # Outputs
/// `distances`: the distance of each candidate, in the order of the candidates.
///
/// # Parameters
/// `space`: the objects and their distance. `device`: where to compute; the bits are equal everywhere. The slots
/// compute distances that have no kernel.
pub static EXACT_DISTANCE: OperatorSpec = OperatorSpec {
    parameters: &[SPACE, device_parameter("cpu")],
    inputs: &[CANDIDATES, QUERY],
    outputs: &[DISTANCES],
    example: "distance: {kind: exact_distance, space: space}",
    code_path: Some(|arguments, devices| of_device(arguments, devices, DEVICE_OBJECTS_MIN)),
    ..OperatorSpec::new("exact_distance", "Computes distances of candidates in f64.", Kind::Stateful, make)
};

/// From this many objects on `auto` takes GPUs: with the usual 32 pivots they fill one block.
const DEVICE_OBJECTS_MIN: u64 = 2048;

/// A block takes this many rows, or pairs of centroids: some seconds of a few cores, and far less than a device's time
/// limit for a block. The slots compute at most `FIRING_ROWS` in one firing: a few milliseconds.
const SIZES: Sizes = Sizes {
    block: [1 << 16, 1 << 28],
    block_min: [0; 2],
    slots: [FIRING_ROWS as u64, u64::MAX],
    blocks_per_device: 6,
};
const FIRING_ROWS: usize = 16_384;

/// Rows of a piece for one slot: some hundred microseconds.
const PIECE_ROWS: usize = 32;

/// Rows of each block that the slots compute again and compare.
const CHECKED_ROWS: usize = 16;

/// The report of a device that computes wrong sums.
pub(crate) const UNEQUAL: &str =
    "its sums in 64 bits differ from the processor's: distances are computed without devices";

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let space = resources::space(bind)?;
    let objects = space.store().objects_count();
    let picked = bind.pick_devices("device", Some(objects), DEVICE_OBJECTS_MIN)?;
    Ok(Box::new(stage(space, picked, SIZES, CHECKED_ROWS)))
}

fn stage(
    space: Arc<dyn Space>,
    picked: Picked,
    sizes: Sizes,
    checked_rows: usize,
) -> DeviceStage<ExactDistance> {
    let sqfd = Arc::clone(&space).device_form().map(|DeviceForm::Sqfd(space)| space);
    let devices = picked.devices.filter(|_| sqfd.is_some());
    let (queries, common, submitted) = (None, None, Vec::new());
    DeviceStage::new(ExactDistance { space, sqfd, queries, common, checked_rows, submitted }, sizes, devices)
}

/// An envelope of candidates.
struct Candidates {
    envelope: Envelope,
    /// The query's place and the object of each row, if a device computes them.
    rows: Vec<(u32, u64)>,
    /// Pairs of centroids of these rows.
    terms: u64,
}

impl From<Envelope> for Candidates {
    fn from(envelope: Envelope) -> Self {
        Self { envelope, rows: Vec::new(), terms: 0 }
    }
}

/// Some rows of one query, which one slot computes.
struct Piece<'a> {
    query: usize,
    ids: &'a [u64],
    distances: Result<Vec<f64>, BoxError>,
}

struct ExactDistance {
    space: Arc<dyn Space>,
    /// The space, if a device can compute its distances.
    sqfd: Option<Arc<SqfdSpace>>,
    /// Set by the first firing.
    queries: Option<Arc<Queries>>,
    /// Shared by all blocks; set by the first.
    common: Option<Arc<Common>>,
    checked_rows: usize,
    /// The objects of the block that was submitted last.
    submitted: Vec<u64>,
}

impl ExactDistance {
    fn queries(&self) -> &Arc<Queries> {
        self.queries.as_ref().expect("the first firing prepares the queries")
    }

    fn sqfd(&self) -> &Arc<SqfdSpace> {
        self.sqfd.as_ref().expect("devices compute distances of such a space alone")
    }

    fn common(&mut self) -> Result<Arc<Common>, BoxError> {
        if let Some(common) = &self.common {
            return Ok(Arc::clone(common));
        }
        let common = Arc::new(Common::new(self.sqfd(), self.queries())?);
        Ok(Arc::clone(self.common.insert(common)))
    }

    /// Finds the rows of candidates for a block, and their amount of work.
    fn for_block(&mut self, cx: &mut Context<'_>, envelope: Envelope) -> Result<Candidates, BoxError> {
        bring_in(cx, &*self.space, &envelope)?;
        let common = self.common()?;
        let (numbers, ids) = (envelope.u32s("query")?, envelope.u64s("id")?);
        let mut ids = ids.iter();
        let mut rows = Vec::with_capacity(numbers.len());
        for run in numbers.chunk_by(|a, b| a == b) {
            let query = self.queries().idx(run[0])? as u32;
            rows.extend(ids.by_ref().take(run.len()).map(|id| (query, *id)));
        }
        let terms = self.sqfd().store().read::<u64, BoxError>(|objects| {
            rows.iter().try_fold(0, |terms, (query, id)| {
                let object = objects.signature(*id)?.len() as u64;
                Ok(terms + common.centroids(*query as usize) * object)
            })
        })?;
        Ok(Candidates { envelope, rows, terms })
    }

    /// The distances of the candidates of several envelopes, in sequence; slots compute pieces of them side by side.
    fn distances(&self, cx: &mut Context<'_>, envelopes: &[Envelope]) -> Result<Vec<f64>, BoxError> {
        let queries = self.queries();
        let mut pieces = Vec::new();
        for candidates in envelopes {
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
        let mut distances = Vec::new();
        for piece in pieces {
            distances.extend(piece.distances?);
        }
        Ok(distances)
    }
}

/// Reads the candidates' objects from disk unless they are in memory.
fn bring_in(cx: &mut Context<'_>, space: &dyn Space, candidates: &Envelope) -> Result<(), BoxError> {
    resources::bring_in(cx, &**space.store(), candidates.u64s("id")?)
}

/// The candidates of some envelopes with their distances, given in sequence.
fn envelopes_of(envelopes: &[Envelope], distances: Vec<f64>) -> Result<Vec<Envelope>, BoxError> {
    let mut distances = distances.into_iter();
    let mut of_envelope = |candidates: &Envelope| {
        with_distances(candidates, distances.by_ref().take(candidates.rows()).collect())
    };
    envelopes.iter().map(&mut of_envelope).collect()
}

impl DeviceTask for ExactDistance {
    type Item = Candidates;
    type Block = ExactBlock;
    type Made = Envelope;

    const IS_ORDERED: bool = true;

    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        self.queries = Some(Arc::new(Queries::of_side(cx, QUERY, &self.space)?));
        Ok(())
    }

    fn take(&mut self, cx: &mut Context<'_>, device: bool) -> Result<Option<Taken<Candidates>>, BoxError> {
        let Some(envelope) = cx.take(CANDIDATES) else { return Ok(None) };
        let rows = envelope.rows() as u64;
        let candidates = if device { self.for_block(cx, envelope)? } else { envelope.into() };
        let weight = [rows, candidates.terms];
        Ok(Some(Taken::Piece(candidates, weight)))
    }

    fn is_ended(&self, cx: &Context<'_>) -> bool {
        cx.is_ended(CANDIDATES)
    }

    fn block(&mut self, _: &mut Context<'_>, items: Vec<Candidates>) -> Result<ExactBlock, BoxError> {
        let (mut envelopes, mut rows, mut terms) = (Vec::with_capacity(items.len()), Vec::new(), 0);
        for item in items {
            envelopes.push(item.envelope);
            rows.extend(item.rows);
            terms += item.terms;
        }
        self.submitted = rows.iter().map(|(_, id)| *id).collect();
        self.submitted.sort_unstable();
        self.submitted.dedup();
        Ok(ExactBlock::new(&self.common()?, envelopes, rows, terms))
    }

    fn meanwhile(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        // The slots always compute these, since they are kept beside the store.
        let ids = std::mem::take(&mut self.submitted);
        compute_sigmas(cx, self.sqfd(), ids)
    }

    fn finish(&mut self, cx: &mut Context<'_>, block: ExactBlock) -> Result<BlockOutcome<Self>, BoxError> {
        if block.is_as_reference(self.checked_rows)? {
            return Ok(BlockOutcome::Made(envelopes_of(&block.envelopes, block.distances()?)?));
        }
        cx.report(block.device.clone(), UNEQUAL);
        Ok(BlockOutcome::Untrusted(block.envelopes.into_iter().map(Candidates::from).collect()))
    }

    fn failed(&mut self, block: ExactBlock, _: bool) -> BlockOutcome<Self> {
        BlockOutcome::Fallback(block.envelopes.into_iter().map(Candidates::from).collect())
    }

    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Candidates>,
    ) -> Result<Vec<Envelope>, BoxError> {
        let (mut envelopes, mut rows) = (Vec::new(), 0);
        while rows < FIRING_ROWS
            && let Some(Candidates { envelope, .. }) = left.pop_front()
        {
            rows += envelope.rows();
            envelopes.push(envelope);
        }
        // The producer continues while the slots compute.
        cx.announce();
        for candidates in &envelopes {
            bring_in(cx, &*self.space, candidates)?;
        }
        let distances = self.distances(cx, &envelopes)?;
        envelopes_of(&envelopes, distances)
    }

    fn has_room(&self, cx: &Context<'_>) -> bool {
        cx.has_room(DISTANCES)
    }

    fn push(&mut self, cx: &mut Context<'_>, made: Envelope) -> Result<Pushed, BoxError> {
        cx.push(DISTANCES, made)
    }
}
