//! `gp_select`: chooses the objects of the next round, GP-BUCB.
//!
//! Invariants: the choice is made in f64 from exact distances, so it is the same on every machine; where bounds of all
//! objects come in, it is the choice among all of them, because objects are taken in until the last bound chosen is above
//! every bound left.

pub(super) mod block;

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_kernels::chance::Random;
use boxwork_kernels::gaussian_process::MARK_NOISE;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use self::block::Block;
use super::distances::{ColumnMaker, Origin};
use super::gp_scan::{EXPLORE, SEED};
use super::marks::{Fitted, NO_MARK};
use crate::columns;
use crate::resources::gp_kernel::{self, GpKernel, KERNEL};

const CANDIDATES: In = In::stream(0, "candidates", columns::bounds, "objects by falling bounds");
const MODEL: In = In::side(1, "model", columns::model, "the marks with their model");
const ROUND: Out =
    Out::new(0, "round", columns::rounds, "the objects of the round, in the order of the choice");

/// Chooses the objects of a round.
///
/// Takes the object of the largest upper confidence bound, counts it as marked for the variances alone, and repeats, so that
/// a round has no two objects that tell the same (GP-BUCB). Without a mark it spreads the round over the store, from an
/// object that the seed chooses. If no object is liked, means say nothing, and the deviation alone decides.
///
/// # Inputs
/// `candidates`: objects by falling bounds. `model` (side): the marks with their model.
///
/// # Outputs
/// `round`: at most `batch` objects; fewer if fewer may be shown, nothing if none may.
///
/// # Parameters
/// `kernel`: the covariance of the objects. `batch`: objects of a round. `explore`: the weight of the deviation. `seed`: the
/// choice of the first object where there is no mark.
pub static GP_SELECT: OperatorSpec = OperatorSpec {
    parameters: &[
        KERNEL,
        Parameter::new(
            "batch",
            ParameterType::integer_within(1, 1000),
            Default::Integer(12),
            "the objects of a round",
        )
        .unit("objects"),
        EXPLORE,
        SEED,
    ],
    inputs: &[CANDIDATES, MODEL],
    outputs: &[ROUND],
    example: "select: {kind: gp_select, kernel: kernel, batch: 12}",
    ..OperatorSpec::new("gp_select", "Chooses the objects of the next round.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(GpSelect {
        kernel: gp_kernel::kernel(bind)?,
        batch: bind.count("batch"),
        explore: bind.number("explore"),
        seed: bind.count("seed") as u64,
        model: None,
        origins: Vec::new(),
        blocks: Vec::new(),
        picks: Vec::new(),
        is_picking: false,
        pending: None,
    }))
}

/// An object of the round.
#[derive(Clone, Copy, Debug)]
struct Pick {
    /// Its block and its place there.
    at: (usize, usize),
    upper: f64,
}

struct GpSelect {
    kernel: Arc<GpKernel>,
    batch: usize,
    explore: f64,
    seed: u64,
    /// Set by the first firing.
    model: Option<Arc<Fitted>>,
    /// The origins of the marks.
    origins: Vec<Origin>,
    blocks: Vec<Block>,
    picks: Vec<Pick>,
    is_picking: bool,
    /// The last pick, whose column is being made.
    pending: Option<(Pick, ColumnMaker)>,
}

impl Operator for GpSelect {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(model) = self.model.clone() else {
            let model = Fitted::of_envelopes(cx.side(MODEL))?;
            let origin = |mark| Origin::of_mark(&self.kernel.space, mark, &|| cx.is_cancelled());
            self.origins = model.marks.iter().map(origin).collect::<Result<_, _>>()?;
            self.model = Some(Arc::new(model));
            return Ok(Flow::More);
        };
        if self.is_picking {
            // One pick a firing: each computes distances from all candidates.
            self.is_picking = self.pick(cx, &model)?;
            return Ok(Flow::More);
        }
        if let Some(envelope) = cx.take(CANDIDATES) {
            if !self.is_settled(&envelope)? {
                let ids = envelope.u64s("id")?;
                let blocks = Block::all(cx, &self.kernel, &model, &self.origins, ids)?;
                self.blocks.extend(blocks);
                self.blocks.iter_mut().for_each(Block::reset);
                self.picks.clear();
                self.is_picking = true;
                return Ok(Flow::More);
            }
        } else if !cx.is_ended(CANDIDATES) {
            return Ok(Flow::Wait);
        }
        if let Some(envelope) = self.round(&model)? {
            cx.push(ROUND, envelope)?;
        }
        Ok(Flow::Done)
    }
}

impl GpSelect {
    /// Whether no object of these candidates, nor of later ones, can be chosen.
    fn is_settled(&self, envelope: &Envelope) -> Result<bool, BoxError> {
        let (uppers, errors) = (envelope.f64s("upper")?, envelope.f64s("error")?);
        let Some(last) = self.picks.get(self.batch - 1) else { return Ok(uppers.is_empty()) };
        // The lower id counts among equal bounds, and it may be among the candidates left.
        Ok(uppers.first().zip(errors.first()).is_none_or(|(upper, error)| last.upper > upper + error))
    }

    /// Makes one pick; returns whether another one is to follow.
    fn pick(&mut self, cx: &mut Context<'_>, model: &Fitted) -> Result<bool, BoxError> {
        if let Some((pick, maker)) = &mut self.pending {
            if maker.step(cx)?.is_none() {
                return Ok(true);
            }
            let pick = *pick;
            self.pending = None;
            self.count_in(cx, pick)?;
            return Ok(true);
        }
        if self.picks.len() == self.batch {
            return Ok(false);
        }
        let explore = model.explore(self.explore);
        let best = match self.picks.is_empty() && model.marks.is_empty() {
            true => self.by_chance(),
            false => self.best(explore),
        };
        let Some(at) = best else { return Ok(false) };
        let block = &mut self.blocks[at.0];
        block.take(at.1);
        let pick = Pick { at, upper: block.posterior.upper(at.1, explore) };
        self.picks.push(pick);
        if self.picks.len() == self.batch {
            return Ok(false);
        }
        let id = self.blocks[at.0].ids[at.1];
        match self.kernel.is_small() {
            true => self.pending = Some((pick, ColumnMaker::of_id(&self.kernel, id))),
            false => self.count_in(cx, pick)?,
        }
        Ok(true)
    }

    /// The object of the largest bound; of equal ones, that with the lowest id.
    fn best(&self, explore: f64) -> Option<(usize, usize)> {
        let mut best: Option<(f64, u64, (usize, usize))> = None;
        for (number, block) in self.blocks.iter().enumerate() {
            let Some(place) = block.best(explore) else { continue };
            let (upper, id) = (block.posterior.upper(place, explore), block.ids[place]);
            if best.is_none_or(|(most, lowest, _)| upper > most || (upper == most && id < lowest)) {
                best = Some((upper, id, (number, place)));
            }
        }
        best.map(|(.., at)| at)
    }

    /// An object that the seed chooses: without a mark all have one bound.
    fn by_chance(&self) -> Option<(usize, usize)> {
        let places = self.blocks.iter().enumerate().flat_map(|(number, block)| {
            block.ids.iter().enumerate().map(move |(place, id)| (*id, (number, place)))
        });
        let mut all: Vec<(u64, (usize, usize))> = places.collect();
        all.sort_unstable();
        let nth = (!all.is_empty()).then(|| Random::mixed(self.seed).idx(all.len()))?;
        Some(all[nth].1)
    }

    /// Counts a pick as marked for the variances of all candidates.
    fn count_in(&mut self, cx: &mut Context<'_>, pick: Pick) -> Result<(), BoxError> {
        let block = &self.blocks[pick.at.0];
        let row = block.posterior.factor_row(pick.at.1, MARK_NOISE);
        let origin = Origin::of_id(block.ids[pick.at.1]);
        block::push_all(cx, &self.kernel, &mut self.blocks, &origin, &row)
    }

    fn round(&self, model: &Fitted) -> Result<Option<Envelope>, BoxError> {
        let chosen =
            |pick: &Pick| Chosen { block: &self.blocks[pick.at.0], place: pick.at.1, upper: pick.upper };
        round_envelope(model, &self.picks.iter().map(chosen).collect::<Vec<_>>())
    }
}

/// A row of a round.
pub(super) struct Chosen<'a> {
    pub(super) block: &'a Block,
    pub(super) place: usize,
    pub(super) upper: f64,
}

/// The envelope of a round or a ranking; nothing if it has no rows.
pub(super) fn round_envelope(model: &Fitted, rows: &[Chosen<'_>]) -> Result<Option<Envelope>, BoxError> {
    if rows.is_empty() {
        return Ok(None);
    }
    let shares: Vec<[(u64, f64); 2]> =
        rows.iter().map(|row| extreme_shares(model, |mark| row.block.covariances[mark][row.place])).collect();
    let numbers = |of: fn(&Chosen<'_>) -> f64| Arc::new(Float64Array::from_iter_values(rows.iter().map(of)));
    let share =
        |which: usize| Arc::new(Float64Array::from_iter_values(shares.iter().map(|both| both[which].1)));
    let of = |which: usize| Arc::new(UInt64Array::from_iter_values(shares.iter().map(|both| both[which].0)));
    let ids = rows.iter().map(|row| row.block.ids[row.place]);
    let columns: [(&str, ArrayRef); 10] = [
        ("query", Arc::new(UInt32Array::from(vec![0; rows.len()]))),
        ("rank", Arc::new(UInt32Array::from_iter_values(1..=rows.len() as u32))),
        ("id", Arc::new(UInt64Array::from_iter_values(ids))),
        ("mean", numbers(|row| row.block.posterior.mean(row.place))),
        ("deviation", numbers(|row| row.block.deviations[row.place])),
        ("upper", numbers(|row| row.upper)),
        ("liked", of(0)),
        ("liked_share", share(0)),
        ("disliked", of(1)),
        ("disliked_share", share(1)),
    ];
    Ok(Some(Envelope::from_columns(columns)?))
}

/// The marks that raise and lower the mean of an object most, by their ids, and by how much: a mark's share is its weight
/// times its covariance with the object.
fn extreme_shares(model: &Fitted, covariance: impl Fn(usize) -> f64) -> [(u64, f64); 2] {
    let (mut liked, mut disliked) = ((NO_MARK, 0.0), (NO_MARK, 0.0));
    for (number, (mark, weight)) in model.marks.iter().zip(&model.weights).enumerate() {
        let share = weight * covariance(number);
        if share > liked.1 {
            liked = (mark.id, share);
        }
        if share < disliked.1 {
            disliked = (mark.id, share);
        }
    }
    [liked, disliked]
}
