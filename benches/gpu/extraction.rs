//! `what=extraction`: signatures of decoded pictures per second.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use arrow_array::{ArrayRef, BinaryArray, StringArray, UInt32Array};
use boxwork_kernels::extract::{ExtractParameters, Extractor, FEATURES, ImageRef, Preset};
use boxwork_operators::columns;
use boxwork_runtime::Runtime;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{DeviceClass, Devices};
use boxwork_runtime::operator::{
    BoxError, Catalog, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::plan::{BoxDeclaration, Declaration, EdgeDeclaration, End, Setting};
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_stores::signature::SignatureColumns;

use super::config;
use super::support::signatures::Random;
use super::support::{Arguments, Spread, verdict};

const SIDE: usize = 150;
/// Pictures of an envelope, as `decode` makes them.
const ENVELOPE: usize = 64;
/// Envelopes of different pictures, sent repeatedly.
const DIFFERENT: usize = 16;

static PICTURES: OnceLock<Vec<Envelope>> = OnceLock::new();
static LEFT: AtomicUsize = AtomicUsize::new(0);
static FIRST: Mutex<Option<Envelope>> = Mutex::new(None);

const PIXELS: Out = Out::new(0, "pixels", columns::pixels, "pictures");

static SOURCE: OperatorSpec = OperatorSpec {
    outputs: &[PIXELS],
    ..OperatorSpec::new("pictures", "Sends decoded pictures.", Kind::Stateful, |_| Ok(Box::new(Source)))
};
const SIGNATURES: In = In::stream(0, "signatures", columns::signatures, "signatures");

static SINK: OperatorSpec = OperatorSpec {
    inputs: &[SIGNATURES],
    ..OperatorSpec::new("signatures", "Counts signatures.", Kind::Stateful, |_| Ok(Box::new(Sink(0))))
};

struct Source;

impl Operator for Source {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let pictures = PICTURES.get().expect("made before");
        while cx.has_room(PIXELS) {
            let left = LEFT.load(Ordering::Relaxed);
            if left == 0 || cx.push(PIXELS, pictures[left % DIFFERENT].clone())? == Pushed::Closed {
                return Ok(Flow::Done);
            }
            LEFT.store(left - 1, Ordering::Relaxed);
        }
        Ok(Flow::Wait)
    }
}

struct Sink(usize);

impl Operator for Sink {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(signatures) = cx.take(SIGNATURES) {
            if self.0 == 0 {
                *FIRST.lock().expect("no thread panics with it") = Some(signatures.clone());
            }
            self.0 += signatures.rows();
        }
        Ok(if cx.is_ended(SIGNATURES) { Flow::Done } else { Flow::Wait })
    }
}

/// Gradients, stripes and noise in changing shares.
fn picture(random: &mut Random) -> Vec<u8> {
    let (period, noise) = (random.count(4..=40), 60.0 * random.unit());
    let base: [f32; 6] = std::array::from_fn(|_| random.unit() * 160.0);
    let mut rgb = Vec::with_capacity(3 * SIDE * SIDE);
    for y in 0..SIDE {
        for x in 0..SIDE {
            let stripe = if (x + y) / period % 2 == 0 { 0.0 } else { 60.0 };
            let (right, down) = (x as f32 / SIDE as f32, y as f32 / SIDE as f32);
            for channel in 0..3 {
                let smooth = base[channel] * (1.0 - right) + base[channel + 3] * down;
                rgb.push((smooth + stripe + noise * random.unit()).clamp(0.0, 255.0) as u8);
            }
        }
    }
    rgb
}

fn envelope(random: &mut Random) -> Envelope {
    let rgbs: Vec<Vec<u8>> = (0..ENVELOPE).map(|_| picture(random)).collect();
    let sides: ArrayRef = Arc::new(UInt32Array::from(vec![SIDE as u32; ENVELOPE]));
    let columns: [(&str, ArrayRef); 6] = [
        ("name", Arc::new(StringArray::from_iter_values((0..ENVELOPE).map(|nth| nth.to_string())))),
        ("width", Arc::clone(&sides)),
        ("height", Arc::clone(&sides)),
        ("scaled_width", Arc::clone(&sides)),
        ("scaled_height", sides),
        ("rgb", Arc::new(BinaryArray::from_iter_values(rgbs))),
    ];
    Envelope::from_columns(columns).expect("columns of one length")
}

pub(super) fn run(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let is_gpu = devices.list()[device].info().class == DeviceClass::Gpu;
    let pictures: usize = arguments.get("objects", if is_gpu { 65_536 } else { 256 });
    let (points, iterations) = (arguments.get("points", 2000u32), arguments.get("iterations", 5u32));
    let rounds = arguments.get("rounds", if is_gpu { 11 } else { 3 });
    let envelopes = pictures.div_ceil(ENVELOPE).max(DIFFERENT);
    println!("question    how many signatures per second does a device extract from pictures in memory?");
    let count = envelopes * ENVELOPE;
    println!("unit        pictures/s; {count} of {SIDE} x {SIDE}, {points} points, {iterations} iterations");
    let mut random = Random::new(11);
    PICTURES.get_or_init(|| (0..DIFFERENT).map(|_| envelope(&mut random)).collect());

    let text = |text: &str| Setting::Value(Value::Text(text.to_owned()));
    let number = |number: u32| Setting::Value(Value::Integer(i64::from(number)));
    let declared = |name: &str, settings: Vec<(String, Setting)>| BoxDeclaration {
        name: name.to_owned(),
        kind: text(name),
        copies: None,
        blocking: None,
        settings,
    };
    let settings = vec![
        ("transform".to_owned(), text(Preset::PRACTICAL.name)),
        ("points".to_owned(), number(points)),
        ("iterations".to_owned(), number(iterations)),
        ("device".to_owned(), text(&format!("gpu:{device}"))),
    ];
    let end = |name: &str| End { name: name.to_owned(), port: None };
    let edge = |from: &str, to: &str| EdgeDeclaration {
        from: end(from),
        to: end(to),
        // As many as fill the blocks.
        envelopes: Some(64),
        bytes: Some(1 << 30),
    };
    let declaration = Declaration {
        boxes: vec![
            declared("pictures", Vec::new()),
            declared("extract", settings),
            declared("signatures", Vec::new()),
        ],
        edges: vec![edge("pictures", "extract"), edge("extract", "signatures")],
        ..Declaration::default()
    };
    let catalog = Catalog::new([&SOURCE, &boxwork_operators::extract::EXTRACT, &SINK], []);
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let runtime =
        Runtime::start(config(arguments.get("workers", cores), devices)).expect("the system gives threads");
    let values = std::collections::BTreeMap::new();
    let prepared = Prepared::new(&declaration, &catalog, &values, &runtime.environment());
    let prepared = Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")));
    let request = |envelopes: usize| {
        LEFT.store(envelopes, Ordering::Relaxed);
        let submitted =
            runtime.submit(&prepared, &Submission::default()).unwrap_or_else(|error| panic!("{error}"));
        let outcome = submitted.wait();
        outcome.result.clone().unwrap_or_else(|error| panic!("{error}"));
        outcome.duration.as_secs_f64()
    };

    request(DIFFERENT);
    let centroids = check(points, iterations);
    println!("checked     the processor's bits; {centroids:.0} centroids per signature");
    let (mut seconds, mut kernels, mut feeds) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let before = devices.statistics()[device];
        seconds.push(request(envelopes));
        let after = devices.statistics()[device];
        kernels.push((after.kernel_ns - before.kernel_ns) as f64 / 1e9);
        feeds.push((after.feed_ns - before.feed_ns) as f64 / 1e9);
    }
    let count = (envelopes * ENVELOPE) as f64;
    let rate = |seconds: &[f64]| Spread::of(seconds.iter().map(|seconds| count / seconds));
    println!("kernel      {:.0} pictures/s, by its own time", rate(&kernels));
    println!("gathering   {:.0} pictures/s of one feeding thread", rate(&feeds));
    let whole = rate(&seconds);
    println!("whole       {whole:.0} pictures/s");
    verdict("pictures per second", whole.median, 50_000.0, whole.median >= 50_000.0);
}

/// Compares the first envelope's signatures with the processor's, and returns the mean number of centroids.
fn check(points_count: u32, iterations_count: u32) -> f64 {
    let parameters = ExtractParameters { points_count, iterations_count, ..Preset::PRACTICAL.parameters() };
    let mut extractor = Extractor::new(parameters).expect("parameters in their ranges");
    let found = FIRST.lock().expect("no thread panics with it").take().expect("signatures came");
    let found = SignatureColumns::new(found.lists("signature").expect("a column")).expect("signatures");
    // The source counts down to the number of different envelopes, and sends this one first.
    let pictures = &PICTURES.get().expect("made before")[0];
    let rgbs = pictures.binaries("rgb").expect("a column");
    let mut centroids = 0;
    for nth in 0..ENVELOPE {
        let image = ImageRef::new(SIDE, SIDE, rgbs.value(nth)).expect("a picture");
        let (ours, theirs) = (extractor.extract(image), found.signature(nth));
        assert_eq!(theirs.weights(), ours.weights, "the weights of picture {nth}");
        for d in 0..FEATURES {
            assert_eq!(theirs.coordinate(d), ours.centroids[d], "coordinate {d} of picture {nth}");
        }
        centroids += ours.weights.len();
    }
    centroids as f64 / ENVELOPE as f64
}
