//! `train_lists`: the centroids of a store's lists, and the codebook of their codes.
//!
//! Invariant: equal stores and parameters give equal bits, on every machine, for any number of workers, and on devices.

mod block;
mod on_device;

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Float32Type;
use arrow_array::{ArrayRef, ListArray, StringArray, UInt32Array, UInt64Array};
use boxwork_kernels::CodePath;
use boxwork_kernels::pieces::Pieces;
use boxwork_kernels::rotation::Start;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::Picked;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out, Pushed};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::lists::{
    CODINGS, Clustering, Coding, ListsOptions, Quantizers, Training, quantizers_like, quantizers_of,
};
use boxwork_stores::space::Space;

use self::on_device::{Assignment, DEVICE_ROWS_MIN, Sized};
use crate::columns;
use crate::devices::code_path;
use crate::devices::stage::DeviceStage;
use crate::pieces::side_by_side;
use crate::resources::{self, SPACE, device_parameter};

/// Consecutive ids of an envelope.
const IDS: u64 = 4096;

const QUANTIZERS: Out = Out::new(0, "quantizers", columns::quantizers, "the centroids and the codebook");
const RANGES: Out = Out::new(1, "ranges", columns::ranges, "all ids of the store, in order");

/// Computes centroids by k-means on a sample of a store's vectors, and a codebook of the differences from them; then gives
/// all ids to assign.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `quantizers`: one row. `ranges`: all ids, in order.
///
/// # Parameters
/// `space`: vectors, and the distance l2, ip or cosine. `lists`: their number. `codes`: what lists hold. `parts`: parts of a code. `bits`: bits of a number in
/// codes `rabitq`.
/// `iterations`: the most rounds. `seed`: the seed of the sample and the start. `start`: `random` vectors, or `spread`, vectors that are
/// far from each other (k-means++), which takes longer. `spherical`: whether each round scales centroids to length 1, as it always does for the cosine. `keep`: lists whose centroids come first and stay as they are.
/// `like`: lists of other vectors whose centroids and codebook are taken as they are; `boxwork add --merge` joins such lists. `rotate`: the numbers of vectors that a rotation turns before they are coded, so
/// that codes lose less.
pub static TRAIN_LISTS: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        Parameter::new(
            "lists",
            ParameterType::integer_from(1),
            Default::Absent,
            "the number of lists; by default about the square root of the number of objects",
        ),
        Parameter::new(
            "codes",
            ParameterType::Choice(CODINGS),
            Default::Text("rows"),
            "what lists hold: rows, all numbers of a vector; product, a byte for each part of it; fast, half a byte; rabitq, bits for each number",
        ),
        Parameter::new(
            "parts",
            ParameterType::integer_from(1),
            Default::Absent,
            "parts of a code; by default one for 8 numbers (product) or 4 (fast)",
        ),
        Parameter::new(
            "bits",
            ParameterType::Integer { minimum: 1, maximum: 4 },
            Default::Absent,
            "bits of a number in codes `rabitq`; 2 by default",
        ),
        Parameter::new(
            "iterations",
            ParameterType::integer_from(1),
            Default::Integer(10),
            "the most rounds of k-means",
        ),
        Parameter::new(
            "seed",
            ParameterType::integer_from(0),
            Default::Integer(1234),
            "the seed of all random choices",
        ),
        Parameter::new(
            "start",
            ParameterType::Choice(&["random", "spread"]),
            Default::Text("random"),
            "the first centroids: random vectors, or vectors that are far from each other",
        ),
        Parameter::new(
            "spherical",
            ParameterType::Boolean,
            Default::Boolean(false),
            "whether centroids have length 1, as they always have for the cosine",
        ),
        Parameter::new(
            "keep",
            ParameterType::Path,
            Default::Absent,
            "lists whose centroids come first and stay as they are",
        ),
        Parameter::new(
            "like",
            ParameterType::Path,
            Default::Absent,
            "lists of other vectors whose centroids and codebook are taken as they are: nothing is trained",
        ),
        Parameter::new(
            "rotate",
            ParameterType::integer_from(0),
            Default::Absent,
            "turn vectors before they are coded, to so many numbers, or to as many as they have (0)",
        ),
        Parameter::new(
            "rotate_start",
            ParameterType::Choice(&["principal", "random"]),
            Default::Text("principal"),
            "the first rotation: principal components, or random directions",
        ),
        device_parameter("auto"),
    ],
    outputs: &[QUANTIZERS, RANGES],
    code_path: Some(|arguments, devices| code_path::of_device(arguments, devices, DEVICE_ROWS_MIN)),
    example: "quantizers: {kind: train_lists, space: space, lists: 1024}",
    ..OperatorSpec::new(
        "train_lists",
        "Computes the centroids of a store's lists, and the codebook of their codes.",
        Kind::Stateful,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let count = |name: &str| bind.get_integer(name).map(|count| count as usize);
    let coding = Coding::named(bind.text("codes")).unwrap_or(Coding::Rows);
    let options = ListsOptions {
        lists: count("lists"),
        coding,
        parts: count("parts").filter(|_| coding != Coding::Rows),
        bits: count("bits"),
        iterations: bind.count("iterations"),
        seed: bind.count("seed") as u64,
        rotate: count("rotate"),
        rotate_start: match bind.text("rotate_start") {
            "random" => Start::Random,
            _ => Start::Principal,
        },
        spread: bind.text("start") == "spread",
        spherical: bind.boolean("spherical"),
    };
    let space = resources::space(bind)?;
    let (sized, slots) = (Sized::default(), bind.slots());
    if let Some(others) = bind.get_text("like") {
        let state = State::Known(Box::new(quantizers_like(Path::new(others), &*space)?));
        let picked = Picked { devices: None, reason: "nothing is trained".to_owned() };
        return Ok(Box::new(TrainLists {
            space,
            training: None,
            options,
            picked,
            sized,
            slots,
            state,
            next: 0,
        }));
    }
    let mut training = Training::new(&space, options)?;
    if let Some(others) = bind.get_text("keep") {
        training = training.keeping(&quantizers_of(Path::new(others))?)?;
    }
    let picked = bind.pick_devices("device", Some(training.rows_count() as u64), DEVICE_ROWS_MIN)?;
    let training = Some(training);
    Ok(Box::new(TrainLists { space, training, options, picked, sized, slots, state: State::Begins, next: 0 }))
}

struct TrainLists {
    space: Arc<dyn Space>,
    /// None if the quantizers are known.
    training: Option<Training>,
    options: ListsOptions,
    /// The devices that may assign rows.
    picked: Picked,
    /// Sizes other than the usual ones, in tests.
    sized: Sized,
    slots: usize,
    state: State,
    /// The first id not given yet.
    next: u64,
}

enum State {
    /// The quantizers of other lists.
    Known(Box<Quantizers>),
    Begins,
    /// Devices assign the rows of each round.
    OnDevices(Box<DeviceStage<Assignment>>),
    /// Slots compute the rounds that are left.
    OnSlots(Clustering),
    Trained,
}

impl TrainLists {
    /// Goes on with the training; returns what it gives, if not the quantizers.
    fn train(&mut self, cx: &mut Context<'_>) -> Result<Result<Quantizers, Flow>, BoxError> {
        match std::mem::replace(&mut self.state, State::Trained) {
            State::Known(quantizers) => Ok(Ok(*quantizers)),
            State::Begins => {
                let training = self.training.as_ref().expect("a training begins");
                training.warning().into_iter().for_each(|warning| cx.note(warning));
                resources::bring_in(cx, &**self.space.store(), training.ids())?;
                let begun = training.begin(&mut |count, f| side_by_side(cx, count, f))?;
                let Some(clustering) = begun else { return Ok(Err(Flow::Done)) };
                let sizes = (training.dimensions(), self.options.iterations as u64, self.slots);
                let devices = self.picked.devices.clone().filter(|_| !clustering.rounds.is_over());
                self.state = match devices {
                    Some(devices) => {
                        let stage = on_device::stage(clustering, sizes, self.sized, devices);
                        State::OnDevices(Box::new(stage))
                    }
                    None => State::OnSlots(clustering),
                };
                Ok(Err(Flow::More))
            }
            State::OnDevices(mut stage) => {
                let flow = stage.process(cx)?;
                if flow != Flow::Done || cx.is_cancelled() {
                    self.state = State::OnDevices(stage);
                    return Ok(Err(flow));
                }
                self.state = State::OnSlots(stage.into_task().into_clustering());
                Ok(Err(Flow::More))
            }
            State::OnSlots(mut clustering) => {
                let (path, rows) = (CodePath::detect(), Arc::clone(&clustering.rows));
                let mut pieces = |count: usize, f: &(dyn Fn(usize) + Sync)| side_by_side(cx, count, f);
                while !clustering.rounds.is_over() {
                    if !clustering.rounds.compute(path, &rows, &mut pieces) {
                        return Ok(Err(Flow::Done));
                    }
                }
                let Some(objective) = objective(&clustering, &mut pieces) else { return Ok(Err(Flow::Done)) };
                let training = self.training.as_ref().expect("a training ends");
                let sampled = rows.len() / training.dimensions();
                let rounds = &clustering.rounds;
                cx.figure("vectors clustered", sampled as f64);
                cx.figure("rounds", rounds.count() as f64);
                cx.figure("settled", f64::from(u8::from(rounds.is_settled())));
                cx.figure("lists split", rounds.splits() as f64);
                cx.figure("mean squared distance", objective / sampled.max(1) as f64);
                let mut pieces = |count: usize, f: &(dyn Fn(usize) + Sync)| side_by_side(cx, count, f);
                let trained = training.finish(clustering, &mut pieces)?;
                Ok(trained.ok_or(Flow::Done))
            }
            State::Trained => unreachable!("the quantizers were given"),
        }
    }
}

/// The sum of squared distances from centroids; `None` if the request was cancelled.
fn objective(clustering: &Clustering, pieces: &mut Pieces<'_>) -> Option<f64> {
    match clustering.rounds.count() {
        0 => Some(0.0),
        _ => clustering.rounds.objective(&clustering.rows, pieces),
    }
}

impl Operator for TrainLists {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if !matches!(self.state, State::Trained) {
            return match self.train(cx)? {
                Err(flow) => Ok(flow),
                Ok(quantizers) => {
                    let pushed = cx.push(QUANTIZERS, envelope(&quantizers)?)?;
                    Ok(if pushed == Pushed::Closed { Flow::Done } else { Flow::More })
                }
            };
        }
        let end = self.space.store().ids_count();
        while self.next < end {
            if !cx.has_room(RANGES) {
                return Ok(Flow::Wait);
            }
            let count = IDS.min(end - self.next);
            let columns: [(&str, ArrayRef); 3] = [
                ("query", Arc::new(UInt32Array::from(vec![0]))),
                ("first", Arc::new(UInt64Array::from(vec![self.next]))),
                ("count", Arc::new(UInt64Array::from(vec![count]))),
            ];
            self.next += count;
            if cx.push(RANGES, Envelope::from_columns(columns)?)? == Pushed::Closed {
                break;
            }
        }
        Ok(Flow::Done)
    }
}

/// Quantizers as a row.
fn envelope(quantizers: &Quantizers) -> Result<Envelope, BoxError> {
    let list = |numbers: &[f32]| -> ArrayRef {
        let numbers = numbers.iter().map(|x| Some(*x));
        let numbers = ListArray::from_iter_primitive::<Float32Type, _, _>([Some(numbers)]);
        let (field, offsets, values, _) = numbers.into_parts();
        let field = Arc::new(field.as_ref().clone().with_nullable(false));
        Arc::new(ListArray::new(field, offsets, values, None))
    };
    let codebook = quantizers.codebook().map_or(&[][..], |codebook| codebook.numbers());
    let rotation = quantizers.rotation().map_or(&[][..], |rotation| rotation.numbers());
    let columns: [(&str, ArrayRef); 6] = [
        ("dimensions", Arc::new(UInt32Array::from(vec![quantizers.dimensions() as u32]))),
        ("codes", Arc::new(StringArray::from(vec![quantizers.coding().name()]))),
        ("parts", Arc::new(UInt32Array::from(vec![quantizers.parts() as u32]))),
        ("centroids", list(quantizers.centroids())),
        ("codebook", list(codebook)),
        ("rotation", list(rotation)),
    ];
    Ok(Envelope::from_columns(columns)?)
}
