//! `what=denoise`: megapixels without noise per second, on a device and on slots.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow_array::{ArrayRef, BinaryArray, Float64Array, StringArray, UInt32Array};
use boxwork::pipeline;
use boxwork_kernels::CodePath;
use boxwork_kernels::chance::Random;
use boxwork_kernels::denoise::{Denoiser, Parameters, Picture, Profile, Samples, psnr};
use boxwork_kernels::pieces::one_by_one;
use boxwork_operators::{catalog, columns};
use boxwork_runtime::Runtime;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{DeviceClass, Devices};
use boxwork_runtime::operator::{BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;

use super::support::{Arguments, Spread, verdict};
use super::{config, several};

const PIPELINE: &str = "boxwork: 1
parameters:
  sigma: {type: number}
  profile: {type: text}
  device: {type: text}
boxes:
  noisy: {kind: noisy}
  clean: {kind: denoise, sigma: \"${sigma}\", profile: \"${profile}\", device: \"${device}\"}
  sink: {kind: sink}
edges:
  - {from: noisy, to: clean, envelopes: 16}
  - {from: clean, to: sink, envelopes: 16}
";

/// Megapixels of grey pictures a second that an H100 is to reach with pictures on the device, and with pictures in memory.
const BARS: [f64; 2] = [100.0, 60.0];
/// Pictures on slots for each on the device in a round: slots are slower.
const SLOTS_SHARE: usize = 8;
/// Different pictures, sent repeatedly.
const DIFFERENT: usize = 4;

static PICTURES: OnceLock<Vec<Envelope>> = OnceLock::new();
static LEFT: AtomicUsize = AtomicUsize::new(0);
static LAST: Mutex<Option<Envelope>> = Mutex::new(None);

const NOISY: Out = Out::new(0, "noisy", columns::whole_pictures, "pictures");
static SOURCE: OperatorSpec = OperatorSpec {
    outputs: &[NOISY],
    ..OperatorSpec::new("noisy", "Sends decoded pictures.", Kind::Stateful, |_| Ok(Box::new(Source)))
};
const CLEAN: In = In::stream(0, "clean", columns::whole_pictures, "pictures without noise");
static SINK: OperatorSpec = OperatorSpec {
    inputs: &[CLEAN],
    ..OperatorSpec::new("sink", "Keeps the last picture.", Kind::Stateful, |_| Ok(Box::new(Sink)))
};

struct Source;

impl Operator for Source {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let pictures = PICTURES.get().expect("made before");
        while cx.has_room(NOISY) {
            let left = LEFT.load(Ordering::Relaxed);
            // The last one is the first of the pictures.
            if left == 0 || cx.push(NOISY, pictures[(left - 1) % DIFFERENT].clone())? == Pushed::Closed {
                return Ok(Flow::Done);
            }
            LEFT.store(left - 1, Ordering::Relaxed);
        }
        Ok(Flow::Wait)
    }
}

struct Sink;

impl Operator for Sink {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(picture) = cx.take(CLEAN) {
            *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(picture);
        }
        Ok(if cx.is_ended(CLEAN) { Flow::Done } else { Flow::Wait })
    }
}

/// The pictures of one measurement.
struct Case {
    side: usize,
    channels: usize,
    sigma: f64,
    profile: String,
}

impl Case {
    /// Waves, discs and checkers with noise, in bytes.
    fn samples(&self, nth: usize, sigma: f64) -> Vec<u8> {
        let mut random = Random::mixed(nth as u64 + 1);
        let mut samples = Vec::with_capacity(self.side * self.side * self.channels);
        let at = |place: usize| place as f64 / self.side as f64;
        for y in 0..self.side {
            for x in 0..self.side {
                let (u, v) = (at(x), at(y));
                let mut level = 128.0 + 60.0 * ((14.0 + nth as f64) * u + 5.0 * v).sin();
                if (u - 0.3).hypot(v - 0.35) < 0.18 {
                    level = 220.0;
                }
                if u > 0.5 && v > 0.6 {
                    level = if (x / 16 + y / 16).is_multiple_of(2) { 200.0 } else { 60.0 };
                }
                for channel in 0..self.channels {
                    let noisy = level - 9.0 * channel as f64 + sigma * random.normal();
                    samples.push(noisy.round().clamp(0.0, 255.0) as u8);
                }
            }
        }
        samples
    }

    fn picture(&self, samples: Vec<u8>) -> Picture {
        let picture = Picture::new(self.side, self.side, self.channels, Samples::Bytes(samples));
        picture.unwrap_or_else(|error| panic!("{error}"))
    }

    fn envelope(&self, nth: usize) -> Envelope {
        let number = |number: usize| -> ArrayRef { Arc::new(UInt32Array::from(vec![number as u32])) };
        let samples = BinaryArray::from_iter_values([self.samples(nth, self.sigma)]);
        let columns: [(&str, ArrayRef); 7] = [
            ("name", Arc::new(StringArray::from(vec![format!("{nth}.png")]))),
            ("width", number(self.side)),
            ("height", number(self.side)),
            ("channels", number(self.channels)),
            ("bits", number(8)),
            ("samples", Arc::new(samples)),
            ("sigma", Arc::new(Float64Array::from(vec![0.0]))),
        ];
        Envelope::from_columns(columns).expect("columns of one row")
    }

    /// Compares the last picture with the processor's.
    fn check(&self) {
        let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).take().expect("pictures came");
        let found = self.picture(last.binaries("samples").expect("a column").value(0).to_vec());
        let profile = Profile::named(&self.profile).expect("a profile");
        let parameters = Parameters::of(profile, self.sigma);
        let denoiser =
            Denoiser::new(parameters, self.sigma, CodePath::detect()).expect("a profile's settings");
        let noisy = self.picture(self.samples(0, self.sigma));
        let rows = 0..self.side;
        let expected =
            denoiser.denoise_rows(&noisy, rows, &mut one_by_one(), &|_| ()).expect("never cancelled");
        let count = expected.samples().len();
        let each =
            (0..count).map(|idx| (found.samples().level(idx) - expected.samples().level(idx)).abs() as u32);
        let most = each.clone().max().unwrap_or_default();
        let far = each.filter(|difference| *difference > 0).count();
        assert!(most <= 1 && far * 10_000 <= count, "{far} of {count} samples differ, by up to {most}");
        let clean = self.picture(self.samples(0, 0.0));
        let [noisy, found, expected] = [&noisy, &found, &expected].map(|picture| psnr(&clean, picture));
        assert!((found - expected).abs() < 0.01, "{found} dB, by the processor {expected} dB");
        let bits = if far == 0 { "the processor's bits".to_owned() } else { format!("{far} samples differ") };
        println!("checked     {bits}; {noisy:.2} dB became {found:.2}");
    }
}

pub(super) fn run(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let is_gpu = devices.list()[device].info().class == DeviceClass::Gpu;
    let case = Case {
        side: arguments.get("side", if is_gpu { 1024 } else { 96 }),
        channels: if arguments.get("colour", 0) == 0 { 1 } else { 3 },
        sigma: arguments.get("sigma", 25.0),
        profile: arguments.text("profile").unwrap_or("default").to_owned(),
    };
    let count: usize = arguments.get("objects", if is_gpu { 128 } else { 4 });
    let rounds = arguments.get("rounds", if is_gpu { 7 } else { 1 });
    let (side, channels) = (case.side, case.channels);
    println!("question    how many megapixels per second lose their noise on a device?");
    println!("unit        megapixels/s; {count} of {side} x {side} x {channels}, profile {}", case.profile);
    PICTURES.get_or_init(|| (0..DIFFERENT).map(|nth| case.envelope(nth)).collect());
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let runtime = Runtime::start(config(arguments.get("workers", cores), devices));
    let runtime = runtime.expect("the system gives threads");
    let loaded = pipeline::load_text("denoise", PIPELINE).unwrap_or_else(|flaws| panic!("{flaws:?}"));
    let prepared = |device: &str| {
        let text = |text: &str| Value::Text(text.to_owned());
        let values = BTreeMap::from([
            ("sigma".to_owned(), Value::Number(case.sigma)),
            ("profile".to_owned(), text(&case.profile)),
            ("device".to_owned(), text(device)),
        ]);
        let catalog = catalog().with(&SOURCE).with(&SINK);
        let prepared = Prepared::new(&loaded.declaration, &catalog, &values, &runtime.environment());
        Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")))
    };
    let request = |prepared: &Arc<Prepared>, pictures: usize| {
        LEFT.store(pictures, Ordering::Relaxed);
        let submitted = runtime.submit(prepared, &Submission::default());
        let outcome = submitted.unwrap_or_else(|error| panic!("{error}")).wait();
        outcome.result.clone().unwrap_or_else(|error| panic!("{error}"));
        outcome.duration.as_secs_f64()
    };
    let (on_device, on_slots) = (prepared(&format!("gpu:{device}")), prepared("cpu"));
    let before = devices.statistics()[device];
    request(&on_device, DIFFERENT);
    assert!(devices.statistics()[device].blocks > before.blocks, "the device did nothing");
    case.check();
    let (mut seconds, mut kernels, mut of_slots) = (Vec::new(), Vec::new(), Vec::new());
    let mut times = devices.kernel_times(device);
    let few = (count / SLOTS_SHARE).max(1);
    for _ in 0..rounds {
        let before = devices.statistics()[device].kernel_ns;
        seconds.push(request(&on_device, count));
        kernels.push((devices.statistics()[device].kernel_ns - before) as f64 / 1e9);
        of_slots.push(request(&on_slots, few) / few as f64 * count as f64);
    }
    let pixels = (count * side * side) as f64 / 1e6;
    let rate = |seconds: &[f64]| Spread::of(seconds.iter().map(|seconds| pixels / seconds));
    for (name, ns) in devices.kernel_times(device) {
        let ns = ns - times.remove(name).unwrap_or_default();
        println!("            {name:<14} {:.3} ms a megapixel", ns as f64 / 1e6 / pixels / rounds as f64);
    }
    let [resident, whole] = [rate(&kernels), rate(&seconds)];
    println!("resident    {resident:.2}, by the kernels' own time");
    println!("whole       {whole:.2}, from pictures in memory through the box");
    println!("slots       {:.2}, on {cores} cores", rate(&of_slots));
    let ratio = Spread::of(of_slots.iter().zip(&seconds).map(|(slots, device)| slots / device));
    println!("ratio       the device is {ratio} times as fast as slots");
    if channels == 1 && case.profile == "default" {
        for (name, found, bar) in [("resident", resident, BARS[0]), ("whole", whole, BARS[1])] {
            verdict(&format!("{name}, megapixels/s"), found.median, bar, found.median >= bar);
        }
    }
    if let Some((devices, places)) = several::places(arguments, devices, device) {
        let on_all = prepared(&places);
        let run = |prepared: &Arc<Prepared>| {
            request(prepared, count);
        };
        let (one, all) = (|| run(&on_device), || run(&on_all));
        several::compare("pictures without noise", (devices, rounds), [1.9, 3.6], one, all);
    }
}
