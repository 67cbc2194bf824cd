//! `gp_predict`: means and deviations of points under a fitted Gaussian process.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use boxwork_kernels::covariance::Scratch;
use boxwork_kernels::gaussian_process::{
    NegativeVariance, Precision, Predicted, half_width, predict, predict_by,
};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::Picked;
use boxwork_runtime::operator::{Bind, BoxError, Context, In, Kind, Operator, OperatorSpec, Out, Pushed};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::gp_append::must_fit;
use super::on_device::DEVICE_ROWS_MIN;
use super::predict_block::{DeviceModel, PredictBlock};
use super::samples::Samples;
use crate::columns;
use crate::devices::code_path::of_device;
use crate::devices::stage::{BlockOutcome, DeviceStage, DeviceTask, Sizes, Taken};
use crate::resources::gp_model::{self, GpModel};

const SAMPLES: In = In::stream(0, "samples", columns::samples, "the points");
const PREDICTIONS: Out =
    Out::new(0, "predictions", columns::predictions, "the points with means and deviations");

/// Points that slots predict in one firing: an envelope is a piece for one slot.
const SLOTS_POINTS: u64 = 4096;
/// Blocks of a device at a time: those that its end points hold, and one that waits.
const BLOCKS_PER_DEVICE: usize = 5;
/// Points of a block whose means the processor computes again.
const CHECKED: usize = 4;
/// The report of a device that computes other means.
const UNEQUAL: &str = "its means differ from the processor's: points are predicted without devices";

/// Predicts points by a fitted Gaussian process.
///
/// Points stream: a request holds a few envelopes of them, however many there are.
///
/// # Inputs
/// `samples`: the points; their targets pass through.
///
/// # Outputs
/// `predictions`: for each point the mean, the deviation, and an interval.
///
/// # Parameters
/// `model`: the fitted process. `deviation`: whether deviations are computed; without them means take O(n) for n samples and not O(n^2).
/// `of`: the deviation of the function, or of an observation, which has noise too. `level`: the probability of the interval.
/// `device`: where points are predicted. The factor stays on a device for all requests; a device that fails leaves points to the slots.
pub static GP_PREDICT: OperatorSpec = OperatorSpec {
    parameters: &[
        gp_model::MODEL,
        Parameter::new(
            "deviation",
            ParameterType::Boolean,
            Default::Boolean(true),
            "whether deviations are computed",
        ),
        Parameter::new(
            "of",
            ParameterType::Choice(&["function", "observation"]),
            Default::Text("function"),
            "the deviation of the function, or of an observation, which has the noise and `white` too",
        ),
        Parameter::new(
            "level",
            ParameterType::Number { minimum: 0.0, maximum: 0.999_999_999 },
            Default::Number(0.95),
            "the probability with which the value lies within lower and upper",
        ),
        Parameter::new(
            "device",
            ParameterType::Device,
            Default::Text("auto"),
            "where points are predicted: cpu, auto (on GPUs, for a model of 1024 samples or more), gpu, or gpu: and device numbers",
        ),
    ],
    inputs: &[SAMPLES],
    outputs: &[PREDICTIONS],
    example: "predict: {kind: gp_predict, model: model}",
    code_path: Some(|arguments, devices| of_device(arguments, devices, DEVICE_ROWS_MIN as u64)),
    ..OperatorSpec::new("gp_predict", "Predicts points by a fitted Gaussian process.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let model = gp_model::model(bind)?;
    let deviations = bind.boolean("deviation");
    if deviations && !model.saved.regression.has_factor() {
        model.factor()?;
    }
    let samples = model.saved.regression.len() as u64;
    let picked = bind.pick_devices("device", Some(samples), DEVICE_ROWS_MIN as u64)?;
    let predict = GpPredict {
        model,
        deviations,
        of_observation: bind.text("of") == "observation",
        half_width: half_width(bind.number("level")),
        on_device: None,
        missing: VecDeque::new(),
        note: None,
    };
    Ok(Box::new(stage(predict, &picked)))
}

/// The stage on the devices that were picked, as far as they can predict by the model.
fn stage(mut predict: GpPredict, picked: &Picked) -> DeviceStage<GpPredict> {
    let mut used = None;
    if let Some((devices, allowed)) = &picked.devices {
        match DeviceModel::of(&predict.model, predict.deviations, devices, allowed) {
            Ok((model, fitting)) => {
                for device in &fitting {
                    predict
                        .missing
                        .extend(model.missing(devices, *device).into_iter().map(|part| (*device, part)));
                }
                predict.on_device = Some(Arc::new(model));
                used = Some((Arc::clone(devices), fitting.into()));
            }
            Err(reason) => predict.note = Some(format!("{reason}: slots predict")),
        }
    }
    let points = predict.on_device.as_ref().map_or(0, |model| model.points_max) as u64;
    let sizes = Sizes {
        block: [points, u64::MAX],
        block_min: [0; 2],
        slots: [SLOTS_POINTS, u64::MAX],
        blocks_per_device: BLOCKS_PER_DEVICE,
    };
    DeviceStage::new(predict, sizes, used)
}

struct GpPredict {
    model: Arc<GpModel>,
    deviations: bool,
    of_observation: bool,
    half_width: f64,
    /// The model on devices, if these predict.
    on_device: Option<Arc<DeviceModel>>,
    /// Devices, and the ranges of the factor that they do not hold yet.
    missing: VecDeque<(usize, usize)>,
    /// The reason, for the user, why devices do not predict.
    note: Option<String>,
}

/// A piece of a block.
enum Item {
    Points(Envelope),
    /// A range of the factor that a device shall hold.
    Range(usize, usize),
}

impl GpPredict {
    fn on_device(&self) -> &Arc<DeviceModel> {
        self.on_device.as_ref().expect("there are blocks only where devices predict")
    }

    fn points_of(&self, envelopes: &[Envelope]) -> Result<Samples, BoxError> {
        let mut samples = Samples::default();
        for envelope in envelopes {
            samples.add(envelope)?;
        }
        must_fit(&self.model, &samples)?;
        Ok(samples)
    }

    fn fault(&self, names: &[String], error: NegativeVariance) -> BoxError {
        BoxError::new(format!("sample `{}`, model `{}`: {error}", names[error.point], self.model.path))
    }

    /// Predicts the points of an envelope on the calling thread.
    fn predict(&self, envelope: &Envelope) -> Result<Predicted, BoxError> {
        let samples = self.points_of(std::slice::from_ref(envelope))?;
        let factor = self.deviations.then(|| self.model.factor()).transpose()?;
        let predicted = predict(&self.model.saved.regression, factor, &samples.points);
        predicted.map_err(|error| self.fault(&samples.names, error))
    }

    /// Whether the means of some points of a block are those of the processor, up to rounding.
    fn is_as_reference(&self, block: &PredictBlock) -> bool {
        let model = &self.model.saved.regression;
        let (n, points) = (model.len(), &block.points);
        let (mut scratch, mut column) = (Scratch::default(), vec![0.0; n]);
        let rounding = if model.precision == Precision::F64 { 1e-9 } else { 1e-3 };
        let apart = points.len().div_ceil(CHECKED).max(1);
        (0..points.len()).step_by(apart).all(|at| {
            model.expression.column(
                (&model.points, 0..n),
                &points.point(at),
                None,
                &mut scratch,
                &mut column,
            );
            let terms = || column.iter().zip(&model.weights).map(|(k, weight)| k * weight);
            let (sum, amount) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
            (block.sums.means[at] - sum).abs() <= rounding * amount.max(f64::MIN_POSITIVE)
                && block.sums.explained.get(at).is_none_or(|explained| explained.is_finite())
        })
    }

    /// The envelopes of points with their predictions, given in sequence.
    fn envelopes_of(
        &self,
        cx: &mut Context<'_>,
        envelopes: &[Envelope],
        predicted: &Predicted,
    ) -> Result<Vec<Envelope>, BoxError> {
        if predicted.rounded > 0 {
            cx.count("variances that rounding made negative", predicted.rounded as u64);
        }
        let variances = if self.of_observation { &predicted.of_observations } else { &predicted.variances };
        let (mut made, mut first) = (Vec::with_capacity(envelopes.len()), 0);
        for envelope in envelopes {
            let rows = first..first + envelope.rows();
            let means = &predicted.means[rows.clone()];
            let deviations: Vec<f64> = match self.deviations {
                true => variances[rows.clone()].iter().map(|variance| variance.sqrt()).collect(),
                false => vec![f64::NAN; means.len()],
            };
            made.push(self.envelope(envelope, means, deviations)?);
            first = rows.end;
        }
        Ok(made)
    }

    fn envelope(
        &self,
        envelope: &Envelope,
        means: &[f64],
        deviations: Vec<f64>,
    ) -> Result<Envelope, BoxError> {
        let bound = |sign: f64| {
            let ends = means.iter().zip(&deviations);
            Arc::new(Float64Array::from_iter_values(ends.map(|(m, d)| m + sign * self.half_width * d)))
                as ArrayRef
        };
        let (lower, upper) = (bound(-1.0), bound(1.0));
        let known = ["name", "x", "y"].map(|name| envelope.column(name).map(|column| (name, column.clone())));
        let mut columns = known.into_iter().collect::<Result<Vec<(&str, ArrayRef)>, _>>()?;
        columns.extend([
            ("mean", Arc::new(Float64Array::from(means.to_vec())) as ArrayRef),
            ("deviation", Arc::new(Float64Array::from(deviations))),
            ("lower", lower),
            ("upper", upper),
        ]);
        Ok(Envelope::from_columns(columns)?)
    }
}

impl DeviceTask for GpPredict {
    type Item = Item;
    type Block = PredictBlock;
    type Made = Envelope;

    const IS_ORDERED: bool = true;

    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        self.note.take().into_iter().for_each(|note| cx.note(note));
        Ok(())
    }

    fn take(&mut self, cx: &mut Context<'_>, device: bool) -> Result<Option<Taken<Item>>, BoxError> {
        if !device {
            self.missing.clear();
        }
        if let Some((device, range)) = self.missing.pop_front() {
            return Ok(Some(Taken::Whole(Item::Range(device, range))));
        }
        while let Some(envelope) = cx.take(SAMPLES) {
            let weight = [envelope.rows() as u64, 0];
            // A block has points.
            if weight[0] > 0 {
                return Ok(Some(Taken::Piece(Item::Points(envelope), weight)));
            }
        }
        Ok(None)
    }

    fn is_ended(&self, cx: &Context<'_>) -> bool {
        cx.is_ended(SAMPLES)
    }

    fn has_items(&self) -> bool {
        !self.missing.is_empty()
    }

    fn block(&mut self, _: &mut Context<'_>, items: Vec<Item>) -> Result<PredictBlock, BoxError> {
        let mut envelopes = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Item::Range(device, range) => {
                    return Ok(PredictBlock::bringing(self.on_device(), device, range));
                }
                Item::Points(envelope) => envelopes.push(envelope),
            }
        }
        let points = self.points_of(&envelopes)?.points;
        Ok(PredictBlock::new(self.on_device(), envelopes, points))
    }

    fn home(&self, block: &PredictBlock) -> Option<usize> {
        block.brings.map(|(device, _)| device)
    }

    fn finish(
        &mut self,
        cx: &mut Context<'_>,
        mut block: PredictBlock,
    ) -> Result<BlockOutcome<Self>, BoxError> {
        if block.brings.is_some() {
            return Ok(BlockOutcome::Made(Vec::new()));
        }
        if !self.is_as_reference(&block) {
            cx.report(block.device.clone(), UNEQUAL);
            return Ok(BlockOutcome::Untrusted(block.envelopes.into_iter().map(Item::Points).collect()));
        }
        let sums = std::mem::take(&mut block.sums);
        let predicted = predict_by(&self.model.saved.regression, &block.points, sums);
        let predicted = match predicted {
            Ok(predicted) => predicted,
            Err(error) => return Err(self.fault(&self.points_of(&block.envelopes)?.names, error)),
        };
        cx.count("points predicted on devices", block.points.len() as u64);
        Ok(BlockOutcome::Made(self.envelopes_of(cx, &block.envelopes, &predicted)?))
    }

    fn failed(&mut self, block: PredictBlock, _: bool) -> BlockOutcome<Self> {
        // A range that did not come to a device comes there with the first points.
        BlockOutcome::Fallback(block.envelopes.into_iter().map(Item::Points).collect())
    }

    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Item>,
    ) -> Result<Vec<Envelope>, BoxError> {
        let (mut envelopes, mut points) = (Vec::new(), 0);
        while points < SLOTS_POINTS
            && let Some(item) = left.pop_front()
        {
            if let Item::Points(envelope) = item {
                points += envelope.rows() as u64;
                envelopes.push(envelope);
            }
        }
        // The producer continues while the slots compute.
        cx.announce();
        let mut pieces: Vec<(Envelope, Option<Result<Predicted, BoxError>>)> =
            envelopes.into_iter().map(|envelope| (envelope, None)).collect();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut pieces, 1, |_, pieces| {
                for (envelope, predicted) in pieces.iter_mut().filter(|_| !cancelled()) {
                    *predicted = Some(self.predict(envelope));
                }
            });
        });
        let mut made = Vec::with_capacity(pieces.len());
        for (envelope, predicted) in pieces {
            // Without a prediction the request is cancelled.
            let Some(predicted) = predicted else { return Ok(Vec::new()) };
            made.extend(self.envelopes_of(cx, &[envelope], &predicted?)?);
        }
        Ok(made)
    }

    fn has_room(&self, cx: &Context<'_>) -> bool {
        cx.has_room(PREDICTIONS)
    }

    fn push(&mut self, cx: &mut Context<'_>, made: Envelope) -> Result<Pushed, BoxError> {
        cx.push(PREDICTIONS, made)
    }
}

#[cfg(test)]
mod tests;
