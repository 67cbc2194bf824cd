//! `gp_fit`: fits a Gaussian process to the marks of a session.
//!
//! Invariant: the model depends on the marks, their order and the kernel alone, and has equal bits on every machine.

use std::sync::Arc;

use boxwork_kernels::gaussian_process::Model;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out};
use boxwork_stores::space::SpaceError;

use super::distances::{ColumnMaker, Origin, between_marks, bring_in};
use super::marks::{self, Fitted, Mark};
use crate::columns;
use crate::resources::gp_kernel::{self, GpKernel, KERNEL};

const MARKS: In = In::side(0, "marks", columns::marks, "the marks of a session");
const MODEL: Out = Out::new(0, "model", columns::model, "the marks with their model");

/// Fits a Gaussian process to marks.
///
/// The process has prior mean 0 and the covariance of `kernel`. From the weights follows the mean of an object, from the rows
/// of the Cholesky factor its variance.
///
/// # Inputs
/// `marks` (side): the marks of a session.
///
/// # Outputs
/// `model`: one envelope of the marks with `alpha` and `row`; nothing without marks.
///
/// # Parameters
/// `kernel`: the covariance of the objects.
pub static GP_FIT: OperatorSpec = OperatorSpec {
    parameters: &[KERNEL],
    inputs: &[MARKS],
    outputs: &[MODEL],
    example: "fit: {kind: gp_fit, kernel: kernel}",
    check: Some(gp_kernel::check),
    ..OperatorSpec::new("gp_fit", "Fits a Gaussian process to marks.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(GpFit { kernel: gp_kernel::kernel(bind)?, state: State::New }))
}

struct GpFit {
    kernel: Arc<GpKernel>,
    state: State,
}

enum State {
    New,
    /// Exact columns of a small store are made first, as all distances then come from them.
    Columns(Vec<Mark>, ColumnMaker),
    Ready(Vec<Mark>),
}

impl Operator for GpFit {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        match &mut self.state {
            State::New => {
                let marks = marks::of_envelopes(cx.side(MARKS))?;
                self.state = if self.kernel.is_small() {
                    let maker = ColumnMaker::new(&self.kernel, &marks, &|| cx.is_cancelled())?;
                    State::Columns(marks, maker)
                } else {
                    State::Ready(marks)
                };
            }
            State::Columns(marks, maker) => {
                if maker.step(cx)?.is_some() {
                    self.state = State::Ready(std::mem::take(marks));
                }
            }
            State::Ready(marks) => {
                let model = fit(cx, &self.kernel, marks)?;
                if let Some(envelope) = Fitted::envelope(cx.side(MARKS), &model)? {
                    cx.push(MODEL, envelope)?;
                }
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::More)
    }
}

/// Fits a model to marks; slots compute rows of covariances side by side.
fn fit(cx: &mut Context<'_>, kernel: &GpKernel, marks: &[Mark]) -> Result<Model, BoxError> {
    let ids: Vec<u64> = marks.iter().filter(|mark| mark.is_stored()).map(|mark| mark.id).collect();
    bring_in(cx, kernel, &ids)?;
    let origin = |mark| Origin::of_mark(&kernel.space, mark, &|| cx.is_cancelled());
    let origins = marks.iter().map(origin).collect::<Result<Vec<_>, _>>()?;
    let mut rows: Vec<Result<Vec<f64>, SpaceError>> = marks.iter().map(|_| Ok(Vec::new())).collect();
    cx.inside(|inside| {
        let cancelled = inside.cancelled();
        inside.for_each_chunk_of(&mut rows, 4, |first, rows| {
            for (at, row) in rows.iter_mut().enumerate() {
                let of = first + at;
                let with = |other: usize| {
                    let (pair, of_marks) = ((&origins[of], &origins[other]), (&marks[of], &marks[other]));
                    between_marks(kernel, pair, of_marks, &cancelled)
                };
                *row = (0..of).map(|other| Ok(kernel.covariance.of(with(other)?))).collect();
            }
        });
    });
    let rows = rows.into_iter().collect::<Result<Vec<_>, _>>()?;
    let scores: Vec<f64> = marks.iter().map(|mark| mark.relevance).collect();
    let noises: Vec<f64> = marks.iter().map(|mark| mark.noise).collect();
    Ok(Model::fit(&rows, &scores, &noises))
}
