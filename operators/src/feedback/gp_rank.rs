//! `gp_rank`: the objects of the largest means, in order.
//!
//! Invariant: the order is that of the means in f64, of equal ones by id, because objects near the end of the list are
//! computed again before it is cut.

use std::sync::Arc;

use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::distances::Origin;
use super::gp_select::block::Block;
use super::gp_select::{Chosen, round_envelope};
use super::marks::Fitted;
use crate::columns;
use crate::resources::gp_kernel::{self, GpKernel, KERNEL};

const CANDIDATES: In = In::stream(0, "candidates", columns::bounds, "objects with their means");
const MODEL: In = In::side(1, "model", columns::model, "the marks with their model");
const RANKING: Out = Out::new(0, "ranking", columns::rounds, "the objects by falling means");

/// Orders objects by their means.
///
/// # Inputs
/// `candidates`: objects with their means, from `gp_scan`. `model` (side): the marks with their model.
///
/// # Outputs
/// `ranking`: at most `limit` objects by falling means; `upper` is the mean.
///
/// # Parameters
/// `kernel`: the covariance of the objects. `limit`: the most objects.
pub static GP_RANK: OperatorSpec = OperatorSpec {
    parameters: &[
        KERNEL,
        Parameter::new(
            "limit",
            ParameterType::integer_within(1, 32_768),
            Default::Integer(1000),
            "the most objects of the ranking",
        )
        .unit("objects"),
    ],
    inputs: &[CANDIDATES, MODEL],
    outputs: &[RANKING],
    example: "rank: {kind: gp_rank, kernel: kernel, limit: 1000}",
    ..OperatorSpec::new("gp_rank", "Orders objects by their means.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(GpRank {
        kernel: gp_kernel::kernel(bind)?,
        limit: bind.count("limit"),
        rows: Vec::new(),
        error: 0.0,
    }))
}

struct GpRank {
    kernel: Arc<GpKernel>,
    limit: usize,
    /// Means and ids.
    rows: Vec<(f64, u64)>,
    error: f64,
}

impl Operator for GpRank {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(CANDIDATES) {
            let (ids, means) = (envelope.u64s("id")?, envelope.f64s("mean")?);
            self.rows.extend(means.iter().copied().zip(ids.iter().copied()));
            // The error of a mean is at most that of its bound.
            self.error = envelope.f64s("error")?.iter().copied().fold(self.error, f64::max);
        }
        if !cx.is_ended(CANDIDATES) {
            return Ok(Flow::Wait);
        }
        let by_mean = |a: &(f64, u64), b: &(f64, u64)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if self.rows.len() > self.limit {
            let (_, last, _) = self.rows.select_nth_unstable_by(self.limit - 1, by_mean);
            let border = last.0 - 2.0 * self.error;
            let first = self.rows[0].0;
            match self.rows.iter().any(|row| row.0 != first) {
                true => self.rows.retain(|row| row.0 >= border),
                // Without a liked object all means are 0, and the lowest ids count.
                false => self.rows.truncate(self.limit),
            }
        }
        let model = Fitted::of_envelopes(cx.side(MODEL))?;
        let origin = |mark| Origin::of_mark(&self.kernel.space, mark, &|| cx.is_cancelled());
        let origins = model.marks.iter().map(origin).collect::<Result<Vec<_>, _>>()?;
        let mut ids: Vec<u64> = self.rows.drain(..).map(|(_, id)| id).collect();
        ids.sort_unstable();
        let blocks = Block::all(cx, &self.kernel, &model, &origins, &ids)?;
        let places = blocks.iter().flat_map(|block| {
            (0..block.ids.len()).map(move |place| Chosen { block, place, upper: block.posterior.mean(place) })
        });
        let mut rows: Vec<Chosen<'_>> = places.collect();
        // Stable, so equal means stay in the order of ids.
        rows.sort_by(|a, b| b.upper.total_cmp(&a.upper));
        rows.truncate(self.limit);
        if let Some(envelope) = round_envelope(&model, &rows)? {
            cx.push(RANKING, envelope)?;
        }
        Ok(Flow::Done)
    }
}
