//! `gp_fit_samples`: fits a Gaussian process to samples.
//!
//! Invariant: the model depends on the samples, their order and the parameters alone, not on the number of slots. Devices round in their own ways,
//! so there it also depends on who has which columns of the factor.

use boxwork_kernels::covariance::Expression;
use boxwork_kernels::gaussian_process::{
    Jitter, Optimised, Precision, RESTARTS_MAX, Regression, Settings, Solved, TILE, Threads, optimise,
};
use boxwork_runtime::feeding::LazyDevices;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out};
use boxwork_runtime::parameter::{Arguments, Default, DeviceChoice, Parameter, ParameterType, Value};
use boxwork_stores::gp_model::SavedModel;

use super::on_device::{DEVICE_ROWS_MIN, Memory, OnDevice};
use super::on_slots::OnSlots;
use super::read_samples::{INPUTS, TARGET};
use super::samples::{Samples, fault, push_model};
use crate::columns;
use crate::devices::code_path;
use crate::devices::factor::{DEVICE_SLOTS, Slots};

const SAMPLES: In = In::stream(0, "samples", columns::samples, "the samples");
const MODEL: Out = Out::new(0, "model", columns::regression, "the samples with the model");

/// Fits a Gaussian process to samples.
///
/// The covariance of two samples is that of `kernel`, a text such as `1 * rbf(l=[1, 1]) + white(0.1)`: sums and products of `rbf`,
/// `matern12`, `matern32`, `matern52`, `rational_quadratic`, `periodic`, `linear`, `constant` (or a number) and `white`. Parameters may be
/// `fixed`, or have bounds (`l=1 in 0.1..10`). With `optimise` those of the greatest likelihood are found first.
///
/// # Inputs
/// `samples`: the samples; each needs a target.
///
/// # Outputs
/// `model`: the samples with their weights and rows of the factor.
///
/// # Parameters
/// `kernel`: the covariance. `noise`: the variance of the targets' noise, beside that of `white`. `jitter`: what is added to the
/// diagonal if the covariances are not positive definite. `normalize`: scales targets to mean 0 and deviation 1. `optimise`,
/// `restarts`, `seed`: the search for parameters. `precision`: the numbers of the factor; `mixed` makes it
/// in f32 and refines weights in f64, or makes it again in f64 where that does not converge. `inputs`, `target`: the names of the columns, for the model. `memory`: the most MiB that the
/// matrices may take. `device`: where factors and derivatives are computed; a device that fails leaves them to the slots. `device_memory`: how
/// the matrix comes to it. `device_slots`: whether slots take some columns of a factor; they are dealt by the rates of both, which are
/// measured once for each device.
pub static GP_FIT_SAMPLES: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "kernel",
            ParameterType::Text,
            Default::Text("1 * rbf() + white(0.1)"),
            "the covariance of two samples, such as 1 * rbf(l=[1, 1]) + white(0.1)",
        ),
        Parameter::new(
            "noise",
            ParameterType::Number { minimum: 0.0, maximum: f64::MAX },
            Default::Number(0.0),
            "the variance of the targets' noise, beside that of `white`; it is not optimised",
        ),
        Parameter::new(
            "jitter",
            ParameterType::Text,
            Default::Text("auto"),
            "what is added to the diagonal if covariances are not positive definite: none, a number, or auto: as little as helps",
        ),
        Parameter::new(
            "normalize",
            ParameterType::Boolean,
            Default::Boolean(false),
            "whether targets are scaled to mean 0 and deviation 1; the likelihood is that of the scaled ones",
        ),
        Parameter::new(
            "optimise",
            ParameterType::Boolean,
            Default::Boolean(false),
            "whether the parameters of the greatest likelihood are found first",
        ),
        Parameter::new(
            "restarts",
            ParameterType::integer_within(0, RESTARTS_MAX as i64),
            Default::Integer(0),
            "random starts beside the given one",
        ),
        Parameter::new(
            "seed",
            ParameterType::integer_from(0),
            Default::Integer(1),
            "the seed of random starts",
        ),
        Parameter::new(
            "precision",
            ParameterType::Choice(&["f64", "mixed", "f32"]),
            Default::Text("f64"),
            "the numbers of the factor: f64, f32 with weights refined in f64 (mixed), or f32 alone",
        ),
        INPUTS,
        TARGET,
        Parameter::new(
            "memory",
            ParameterType::integer_within(1, 1 << 40),
            Default::Absent,
            "the most memory that the matrices may take; by default what the system has free",
        )
        .unit("MiB"),
        Parameter::new(
            "device",
            ParameterType::Device,
            Default::Text("auto"),
            "where factors and derivatives are computed: cpu, auto (on a GPU from 1024 samples on, on several if one has no room), gpu, or gpu: and device numbers",
        ),
        Parameter::new(
            "device_memory",
            ParameterType::Choice(&["auto", "map", "copy"]),
            Default::Text("auto"),
            "how the matrix comes to the device: in place (map), by copies, or in place if the device shares the host's memory (auto)",
        ),
        DEVICE_SLOTS,
    ],
    inputs: &[SAMPLES],
    outputs: &[MODEL],
    example: "fit: {kind: gp_fit_samples, kernel: 1 * rbf(l=1) + white(0.1), optimise: true}",
    check: Some(check),
    code_path: Some(code_path),
    ..OperatorSpec::new("gp_fit_samples", "Fits a Gaussian process to samples.", Kind::Stateful, make)
};

fn code_path(arguments: &Arguments, devices: &LazyDevices) -> String {
    let place = code_path::of_device(arguments, devices, DEVICE_ROWS_MIN as u64);
    let memory = match arguments.get("device_memory") {
        Some(Value::Text(text)) if text != "auto" => text,
        _ => "auto: in place where the device shares the host's memory, else by copies",
    };
    if place.starts_with("OpenCL") { format!("{place}; memory {memory}") } else { place }
}

/// Reads the covariance and the jitter, with no file opened.
fn check(arguments: &Arguments, _: &dyn Fn(&str) -> Option<Arguments>) -> Result<(), String> {
    if let Some(Value::Text(text)) = arguments.get("jitter") {
        jitter(text)?;
    }
    let Some(Value::Text(text)) = arguments.get("kernel") else { return Ok(()) };
    let expression: Expression = text.parse().map_err(|error| format!("{error}"))?;
    match arguments.get("inputs") {
        Some(Value::List(inputs)) if !inputs.is_empty() => fits(&expression, inputs.len()),
        _ => Ok(()),
    }
}

/// Whether a covariance takes points of so many inputs.
fn fits(expression: &Expression, inputs: usize) -> Result<(), String> {
    match expression.dimensions() {
        Some(wanted) if wanted != inputs => Err(format!(
            "the kernel has {wanted} lengths or periods in a list, and samples have {inputs} inputs: give one number for all, or one \
             for each"
        )),
        _ => Ok(()),
    }
}

fn jitter(text: &str) -> Result<Jitter, String> {
    match text {
        "none" => Ok(Jitter::None),
        "auto" => Ok(Jitter::Auto),
        _ => {
            let number = text.parse().ok().filter(|number: &f64| *number >= 0.0 && number.is_finite());
            let wrong = || format!("`jitter: {text}` is neither none, auto, nor a number from 0 up");
            number.map(Jitter::Number).ok_or_else(wrong)
        }
    }
}

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let settings = Settings {
        expression: bind.text("kernel").parse().map_err(|error| BoxError::new(format!("{error}")))?,
        noise: bind.number("noise"),
        jitter: jitter(bind.text("jitter")).map_err(BoxError::new)?,
        normalize: bind.boolean("normalize"),
        precision: Precision::named(bind.text("precision")).unwrap_or_default(),
    };
    let starts = (bind.count("restarts"), u64::try_from(bind.integer("seed"))?);
    let memory = bind.get_integer("memory").map(|mebibytes| (mebibytes as u64).saturating_mul(1 << 20));
    let rows_min = if bind.device("device") == DeviceChoice::Auto { DEVICE_ROWS_MIN } else { 0 };
    let picked = bind.pick_devices("device", None, 0)?;
    let device = OnDevice::of(&picked, Memory::named(bind.text("device_memory")), rows_min)
        .map(|device| device.with_slots(Slots::of(bind)));
    Ok(Box::new(GpFitSamples {
        settings,
        starts: bind.boolean("optimise").then_some(starts),
        inputs: bind.texts("inputs"),
        target: bind.get_text("target").unwrap_or("y").to_owned(),
        memory,
        device,
        samples: Samples::default(),
        fitted: None,
        sent: 0,
    }))
}

struct GpFitSamples {
    settings: Settings,
    /// Restarts and seed, if parameters are optimised.
    starts: Option<(usize, u64)>,
    inputs: Vec<String>,
    target: String,
    memory: Option<u64>,
    device: Option<OnDevice>,
    samples: Samples,
    fitted: Option<SavedModel>,
    sent: usize,
}

impl Operator for GpFitSamples {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.fitted.is_none() {
            while let Some(envelope) = cx.take(SAMPLES) {
                self.samples.add(&envelope)?;
                self.check_memory()?;
            }
            if !cx.is_ended(SAMPLES) {
                return Ok(Flow::Wait);
            }
            self.fitted = Some(self.fit(cx)?);
        }
        let Some(model) = &self.fitted else { unreachable!("it was fitted above") };
        Ok(if push_model(cx, MODEL, model, &mut self.sent)? { Flow::Done } else { Flow::Wait })
    }
}

/// The bytes that the matrices of a fit take at once.
fn bytes_of(samples: u64, optimises: bool, precision: Precision) -> u64 {
    // The factor by tiles, and its rows in f64; with gradients the inverse by tiles. A fit in mixed precision may need one in f64.
    let (tiles, number) = (samples.div_ceil(TILE as u64), if precision == Precision::F32 { 4 } else { 8 });
    let by_tiles = tiles * (tiles + 1) / 2 * (TILE * TILE) as u64 * number;
    let rows = 4 * samples * (samples + 1);
    by_tiles + if optimises { rows.max(by_tiles) } else { rows }
}

impl GpFitSamples {
    fn check_memory(&self) -> Result<(), BoxError> {
        let Some(allowed) = self.memory.or_else(boxwork_runtime::feeding::memory_available) else {
            return Ok(());
        };
        let needs = |samples: u64| bytes_of(samples, self.starts.is_some(), self.settings.precision);
        let samples = self.samples.names.len() as u64;
        if needs(samples) <= allowed {
            return Ok(());
        }
        let (mut fits, mut too_many) = (0, samples);
        while too_many - fits > 1 {
            let middle = (fits + too_many) / 2;
            if needs(middle) <= allowed { fits = middle } else { too_many = middle }
        }
        let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
        Err(BoxError::new(format!(
            "{samples} samples or more need {} MiB for their matrices, and {} MiB may be taken: fit {fits} samples at most, or \
             allow more (`memory:`)",
            mebibytes(needs(samples)),
            allowed >> 20
        )))
    }

    fn fit(&mut self, cx: &mut Context<'_>) -> Result<SavedModel, BoxError> {
        let samples = std::mem::take(&mut self.samples);
        let dimensions = samples.points.dimensions();
        if !samples.names.is_empty() {
            fits(&self.settings.expression, dimensions).map_err(BoxError::new)?;
        }
        samples.must_have_targets()?;
        let Samples { names, points, targets } = samples;
        let mut settings = self.settings.clone();
        if let Some(starts) = self.starts.filter(|_| !names.is_empty()) {
            let device = self.device.as_mut();
            let found = cx.inside(|inside| {
                // The number of factorisations is not known.
                let mut threads = OnSlots { inside, device, work: None };
                optimise(&points, &targets, &settings, starts, &mut threads as &mut dyn Threads)
            });
            let found = found.map_err(|error| fault(&error, &names))?;
            notes_of(&found).into_iter().for_each(|note| cx.note(note));
            settings.expression = found.expression;
        }
        let device = self.device.as_mut();
        let work = Some(cx.work());
        let (regression, closest) = cx
            .inside(|inside| {
                let mut threads = OnSlots { inside, device, work };
                let fitted = Regression::fit(points, targets, &settings, &mut threads)?;
                let is_bad = fitted.jitter > 0.0 || fitted.condition > fitted.condition_max();
                let closest = is_bad.then(|| fitted.closest(&mut threads)).flatten();
                Ok((fitted, closest))
            })
            .map_err(|error| fault(&error, &names))?;
        self.device.iter().flat_map(OnDevice::notes).for_each(|note| cx.note(note));
        let pair = closest.map_or_else(String::new, |(first, second)| {
            format!("; the samples nearest to each other are `{}` and `{}`", names[first], names[second])
        });
        if regression.jitter > 0.0 {
            cx.note(format!(
                "a jitter of {:e} was added to the diagonal, as the covariances were not positive definite{pair}",
                regression.jitter
            ));
        }
        notes_of_precision(self.settings.precision, &regression).into_iter().for_each(|note| cx.note(note));
        if regression.condition > regression.condition_max() {
            cx.note(format!(
                "the condition of the covariances is about {:.0e}, so half of all digits are lost, or more{pair}: a larger noise helps",
                regression.condition
            ));
        }
        cx.note(format!(
            "log likelihood {:.6} of {} samples under {}",
            regression.log_likelihood,
            regression.len(),
            regression.expression
        ));
        let named = self.inputs.len() == dimensions;
        let numbered = || (1..=dimensions).map(|nth| format!("x{nth}")).collect();
        let inputs = if named { self.inputs.clone() } else { numbered() };
        Ok(SavedModel { regression, names, inputs, target: self.target.clone() })
    }
}

/// The notes for a user on the numbers of a fit.
fn notes_of_precision(wanted: Precision, model: &Regression) -> Vec<String> {
    let mut notes = Vec::new();
    let instead = "so the factor was made again in f64";
    match model.solved {
        Solved::Directly => {}
        Solved::Refined(rounds) => notes.push(format!("weights were refined in f64: {rounds} corrections")),
        Solved::ByGradients(steps) => notes.push(format!(
            "corrections of the weights did not converge, so they were refined by {steps} steps of conjugate gradients"
        )),
        Solved::AgainNotPositiveDefinite => {
            notes.push(format!("the covariances are not positive definite in f32, {instead}"));
        }
        Solved::AgainNotConverged => {
            notes.push(format!("neither corrections nor conjugate gradients converged, {instead}"));
        }
    }
    if wanted != Precision::F64 && model.precision != Precision::F64 {
        notes.push(format!(
            "the factor is one of f32: the error of the log likelihood is about {:.1e}",
            model.likelihood_error()
        ));
    }
    notes
}

/// The notes for a user on a search for parameters.
fn notes_of(found: &Optimised) -> Vec<String> {
    let mut notes = Vec::new();
    if !found.converged {
        notes.push(format!(
            "the search for parameters ended after {} evaluations before the gradient vanished: start nearer, or with `restarts`",
            found.evaluations
        ));
    }
    for at in &found.at_bounds {
        let parameter = &found.expression.parameters()[*at];
        notes.push(format!(
            "{} = {:?} lies at its bound: give wider ones (`{}=A in B..C`) if that is not meant",
            parameter.name, parameter.value, parameter.name
        ));
    }
    notes
}
