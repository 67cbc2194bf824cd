//! `extract_on_devices`: what `extract` does, on devices: blocks of pictures become signatures, the same to the bit.
//!
//! Invariants: signatures leave in the order in which their pictures came, whichever block is back first; pictures that no
//! device has computed are computed here, by the processor's path.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use boxwork_kernels::extract::device::{DeviceExtraction, ITEMS, KERNEL, TEXT};
use boxwork_kernels::extract::{ExtractParameters, Extractor, FEATURES, Signature};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{
    Argument, Back, Block, Blocks, DeviceError, Feed, Grid, KernelSpec, LazyDevices, Picked, ProgramSource,
    Value as Given,
};
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, Input, Kind, Operator, OperatorSpec, Output, Pushed,
};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType};

use crate::columns;
use crate::devices::code_path;
use crate::images::extract::{self, Note};
use boxwork_stores::signature::{PCT_COORDINATES, SignatureBuilder};

const DEVICE: Parameter = Parameter::new(
    "device",
    ParameterType::Device,
    Default::Text("auto"),
    "where to compute: auto, cpu, gpu, or gpu: and the numbers of `boxwork devices`",
);

const PARAMETERS: [Parameter; extract::PARAMETERS.len() + 1] = {
    let mut all = [DEVICE; extract::PARAMETERS.len() + 1];
    let mut idx = 0;
    while idx < extract::PARAMETERS.len() {
        all[idx] = extract::PARAMETERS[idx];
        idx += 1;
    }
    all
};

/// Extracts signatures on devices.
///
/// # Inputs
/// `pixels`: small RGB pictures.
///
/// # Outputs
/// `signatures`: name, signature, and the original's width and height, in the order of the pictures.
///
/// # Parameters
/// Those of `extract`. `device`: where to compute; where there is no device, or one fails, the box computes in place, on
/// one slot: then `extract` with copies is faster. Matrices of many grey levels, or many seeds, do not fit a device.
pub static EXTRACT_ON_DEVICES: OperatorSpec = OperatorSpec {
    parameters: &PARAMETERS,
    inputs: &[Input::stream("pixels", columns::pixels, "small RGB pictures")],
    outputs: &[Output::new("signatures", columns::signatures, "a signature a picture, in the same order")],
    example: "extract: {kind: extract_on_devices, points: 2500, device: gpu}",
    code_path: Some(code_path),
    ..OperatorSpec::new(
        "extract_on_devices",
        "Extracts feature signatures from pictures, on GPUs.",
        Kind::Stateful,
        make,
    )
};

fn code_path(arguments: &Arguments, devices: &LazyDevices) -> String {
    code_path::of_device(arguments, devices, 0)
}

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let picked = bind.pick_devices("device", None, 0)?;
    Ok(Box::new(ExtractOnDevices::new(extract::parameters(bind)?, picked)?))
}

/// Pictures of a block at most, and bytes of their pixels: some milliseconds of a fast device, so that all its units
/// have work to the end.
const BLOCK_PICTURES: usize = 1024;
const BLOCK_BYTES: usize = 96 << 20;

/// Blocks of a box on their way, for each device: what its end points hold, and as many that wait for them.
const BLOCKS_PER_DEVICE: usize = 6;

static KERNELS: [KernelSpec; 1] = [KernelSpec {
    name: KERNEL,
    arguments: &[
        ("pixels", Argument::Buffer),
        ("pictures", Argument::Buffer),
        ("sampling_points", Argument::Buffer),
        ("feature_numbers", Argument::Buffer),
        ("entropy_terms", Argument::Buffer),
        ("grey_max", Argument::Value(4)),
        ("greys", Argument::Buffer),
        ("samples", Argument::Buffer),
        ("centroids", Argument::Buffer),
        ("counts", Argument::Buffer),
    ],
}];

/// What all blocks of a box have in common.
struct Common {
    form: DeviceExtraction,
    program: ProgramSource,
    /// No other extraction of the process has it.
    version: u64,
}

static NEXT_VERSION: AtomicU64 = AtomicU64::new(0);

impl Common {
    fn new(form: DeviceExtraction) -> Self {
        let constants = form.constants().to_vec();
        let program =
            ProgramSource { name: "extract", text: TEXT, constants, kernels: &KERNELS, exact: true };
        Self { form, program, version: NEXT_VERSION.fetch_add(1, Ordering::Relaxed) }
    }
}

/// Pictures on their way to a device and back.
struct Pictures {
    common: Arc<Common>,
    /// Its place in the order of blocks.
    number: u64,
    envelopes: Vec<Envelope>,
    /// Envelope and row of each picture.
    rows: Vec<(usize, usize)>,
    /// As the kernel reads them: first byte, width, height and first pixel.
    places: Vec<[u32; 4]>,
    bytes: usize,
    /// By picture, once the block has come back.
    signatures: VecDeque<Signature>,
}

impl Pictures {
    fn new(common: &Arc<Common>, number: u64, envelopes: Vec<Envelope>) -> Result<Self, BoxError> {
        let (mut rows, mut places, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (nth, pixels) in envelopes.iter().enumerate() {
            for row in 0..pixels.rows() {
                // What is no picture is told of when the envelope leaves.
                let Ok(picture) = extract::picture(pixels, row)? else { continue };
                rows.push((nth, row));
                let (width, height) = (picture.width() as u32, picture.height() as u32);
                places.push([bytes as u32, width, height, bytes as u32 / 3]);
                bytes += picture.rgb().len();
            }
        }
        let (common, signatures) = (Arc::clone(common), VecDeque::new());
        Ok(Self { common, number, envelopes, rows, places, bytes, signatures })
    }

    fn gather(&self, to: &mut [u8]) -> Result<(), BoxError> {
        let mut at = 0;
        for (nth, row) in &self.rows {
            let rgb = self.envelopes[*nth].binaries("rgb")?.value(*row);
            to[at..at + rgb.len()].copy_from_slice(rgb);
            at += rgb.len();
        }
        Ok(())
    }
}

impl Block for Pictures {
    fn size(&self) -> u64 {
        self.rows.len() as u64
    }

    fn kind(&self) -> &'static str {
        "pictures"
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let count = self.rows.len();
        if count == 0 {
            return Ok(());
        }
        let (form, version) = (&self.common.form, self.common.version);
        fn copy<T: Copy>(from: &[T]) -> impl FnOnce(&mut [T]) -> Result<(), DeviceError> + '_ {
            |to| {
                to.copy_from_slice(from);
                Ok(())
            }
        }
        feed.replicated("sampling_points", version, form.points().len(), copy(form.points()))?;
        feed.replicated("feature_numbers", version, form.numbers().len(), copy(form.numbers()))?;
        feed.replicated("entropy_terms", version, form.terms().len(), copy(form.terms()))?;
        feed.write::<u8>("pixels", self.bytes, |to| {
            self.gather(to).map_err(|error| DeviceError::Block(error.to_string()))
        })?;
        feed.write("pictures", count, copy(&self.places))?;
        feed.output::<u8>("greys", self.bytes / 3)?;
        feed.output::<i32>("samples", count * form.sample_numbers())?;
        feed.output::<f32>("centroids", count * form.centroid_numbers())?;
        feed.output::<u32>("counts", count)?;
        let values = [("grey_max", Given::of(form.grey_max()))];
        feed.launch(&self.common.program, KERNEL, Grid::of([count], [ITEMS]), &values)?;
        feed.read::<f32>("centroids", count * form.centroid_numbers())?;
        feed.read::<u32>("counts", count)
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.signatures.clear();
        if self.rows.is_empty() {
            return;
        }
        let form = &self.common.form;
        let centroids = back.numbers::<f32>("centroids").chunks_exact(form.centroid_numbers());
        let counts = back.numbers::<u32>("counts");
        self.signatures.extend(centroids.zip(counts).map(|(of_one, count)| form.signature(of_one, *count)));
    }
}

/// An envelope of pictures that is to leave next, or later.
struct Ready {
    pixels: Envelope,
    /// Of its pictures, in order; none where the box computes them itself.
    signatures: Option<VecDeque<Signature>>,
}

struct ExtractOnDevices {
    parameters: ExtractParameters,
    note: Note,
    /// Made when the box first computes in place.
    extractor: Option<Extractor>,
    common: Option<Arc<Common>>,
    blocks: Option<Blocks<Pictures>>,
    blocks_max: usize,
    waiting: Vec<Envelope>,
    waiting_pictures: usize,
    waiting_bytes: usize,
    next_number: u64,
    /// Blocks that are back, by number, until it is their turn.
    back: BTreeMap<u64, VecDeque<Ready>>,
    next_back: u64,
    ready: VecDeque<Ready>,
}

impl ExtractOnDevices {
    fn new(parameters: ExtractParameters, picked: Picked) -> Result<Self, BoxError> {
        let form = DeviceExtraction::new(&parameters)?;
        let devices = picked.devices.filter(|_| form.is_some());
        Ok(Self {
            note: Note::new(parameters.clone()),
            parameters,
            extractor: None,
            common: form.map(|form| Arc::new(Common::new(form))),
            blocks_max: devices.as_ref().map_or(0, |(_, allowed)| BLOCKS_PER_DEVICE * allowed.len()),
            blocks: devices.map(|(devices, allowed)| Blocks::new(devices, allowed)),
            waiting: Vec::new(),
            waiting_pictures: 0,
            waiting_bytes: 0,
            next_number: 0,
            back: BTreeMap::new(),
            next_back: 0,
            ready: VecDeque::new(),
        })
    }

    /// Takes what has come back, and puts in order what may leave.
    fn take_back(&mut self) -> Result<(), BoxError> {
        while let Some((block, result)) = self.blocks.as_mut().and_then(Blocks::take) {
            let computed = match result {
                Ok(()) => true,
                Err(error) if error.is_of_device() => false,
                Err(error) => return Err(error.into()),
            };
            let Pictures { number, envelopes, rows, mut signatures, .. } = block;
            let mut rows = rows.into_iter().peekable();
            let ready = envelopes.into_iter().enumerate().map(|(nth, pixels)| {
                let mut of_envelope = 0;
                while rows.next_if(|(envelope, _)| *envelope == nth).is_some() {
                    of_envelope += 1;
                }
                let signatures = computed.then(|| signatures.drain(..of_envelope).collect());
                Ready { pixels, signatures }
            });
            self.back.insert(number, ready.collect());
        }
        while let Some(next) = self.back.remove(&self.next_back) {
            self.next_back += 1;
            self.ready.extend(next);
        }
        Ok(())
    }

    /// The signatures of an envelope that is to leave; nothing where none is left of it.
    fn signatures(&mut self, cx: &mut Context<'_>, ready: Ready) -> Result<Option<Envelope>, BoxError> {
        let Ready { pixels, signatures } = ready;
        let Some(mut signatures) = signatures else {
            let extractor = match &mut self.extractor {
                Some(extractor) => extractor,
                None => self.extractor.insert(Extractor::new(self.parameters.clone())?),
            };
            return extract::extract(cx, extractor, &mut self.note, &pixels);
        };
        let mut builder = SignatureBuilder::new(&PCT_COORDINATES)?;
        let mut kept = Vec::with_capacity(pixels.rows());
        for row in 0..pixels.rows() {
            let extracted = extract::picture(&pixels, row)?.and_then(|_| {
                let signature = signatures.pop_front().ok_or("its signature did not come back")?;
                extract::push_signature(&signature, &mut builder)
            });
            extract::keep(cx, &pixels, row, extracted, &mut kept)?;
        }
        extract::envelope_of(&pixels, &kept, builder, &mut self.note)
    }

    /// Hands over what waits, as far as the devices take it; what they do not goes to `ready`, in its order.
    fn hand_over(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        loop {
            let is_served = self.blocks.as_ref().is_some_and(Blocks::is_served);
            let in_flight = self.blocks.as_ref().map_or(0, Blocks::in_flight);
            // Blocks that are back and wait for an older one are kept few as well.
            let under_way = (self.next_number - self.next_back) as usize;
            if is_served && under_way >= self.blocks_max || !is_served && !self.ready.is_empty() {
                return Ok(());
            }
            while self.waiting_pictures < BLOCK_PICTURES
                && self.waiting_bytes < BLOCK_BYTES
                && (is_served || self.waiting.is_empty())
                && let Some(pixels) = cx.take("pixels")
            {
                self.waiting_pictures += pixels.rows();
                self.waiting_bytes += pixels.bytes();
                self.waiting.push(pixels);
            }
            let is_enough = self.waiting_pictures >= BLOCK_PICTURES || self.waiting_bytes >= BLOCK_BYTES;
            if self.waiting.is_empty() || !(is_enough || in_flight == 0 || cx.is_ended("pixels")) {
                return Ok(());
            }
            let envelopes = std::mem::take(&mut self.waiting);
            (self.waiting_pictures, self.waiting_bytes) = (0, 0);
            let number = self.next_number;
            self.next_number += 1;
            match (&mut self.blocks, &self.common) {
                (Some(blocks), Some(common)) if is_served => {
                    blocks.submit(Pictures::new(common, number, envelopes)?, cx.outside());
                }
                _ => {
                    let ready = |pixels| Ready { pixels, signatures: None };
                    self.back.insert(number, envelopes.into_iter().map(ready).collect());
                    self.take_back()?;
                }
            }
        }
    }
}

impl Operator for ExtractOnDevices {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        self.take_back()?;
        self.hand_over(cx)?;
        while cx.has_room("signatures") {
            let Some(ready) = self.ready.pop_front() else { break };
            let computes = ready.signatures.is_none();
            if let Some(signatures) = self.signatures(cx, ready)?
                && cx.push("signatures", signatures)? == Pushed::Closed
            {
                return Ok(Flow::Done);
            }
            if computes {
                // One envelope a firing, as it takes long.
                return Ok(if cx.is_cancelled() { Flow::Done } else { Flow::More });
            }
        }
        let is_empty = self.waiting.is_empty() && self.ready.is_empty() && self.next_back == self.next_number;
        Ok(if is_empty && cx.is_ended("pixels") { Flow::Done } else { Flow::Wait })
    }
}

// A column for each feature of the kernel's.
const _: () = assert!(PCT_COORDINATES.len() == FEATURES);

#[cfg(test)]
mod tests {
    use boxwork_kernels::extract::{GroundDistance, ImageRef};
    use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
    use boxwork_runtime::feeding::{Devices, Options};
    use boxwork_runtime::harness::Harness;

    use super::*;
    use crate::images::extract::tests::pixels;

    fn devices(plan: Plan) -> (Arc<Faulty>, Arc<Devices>) {
        let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
        let (driver, devices) = Faulty::devices(plan, Options { cache, ..Options::default() });
        (driver, devices.unwrap())
    }

    /// Pictures of noise, of one colour, of stripes and of gradients.
    fn picture(nth: u32, width: u32, height: u32) -> Vec<u8> {
        let of_pixel = |x: u32, y: u32| match nth % 4 {
            0 => {
                let hash = (x ^ y.wrapping_mul(0x9e37_79b9) ^ nth.wrapping_mul(0x85eb_ca6b))
                    .wrapping_mul(0xc2b2_ae35);
                [(hash >> 24) as u8, (hash >> 16) as u8, (hash >> 8) as u8]
            }
            1 => [(nth * 37) as u8, 200, 90],
            2 => [if (x / 5 + nth).is_multiple_of(2) { 250 } else { 3 }, (y * 2) as u8, (x / 3) as u8],
            _ => [(x * 255 / width) as u8, (y * 255 / height) as u8, ((x + y + nth) % 256) as u8],
        };
        (0..height).flat_map(|y| (0..width).flat_map(move |x| of_pixel(x, y))).collect()
    }

    /// Runs a box of this kind on pictures of a size, and compares what it gives with `extract`.
    fn check(
        devices: &Arc<Devices>,
        change: impl Fn(&mut ExtractParameters),
        side: u32,
        envelopes: &[Vec<Vec<u8>>],
    ) {
        let mut parameters =
            ExtractParameters { points_count: 300, seeds_count: 60, ..ExtractParameters::default() };
        change(&mut parameters);
        let allowed: Vec<usize> = (0..devices.list().len()).collect();
        let picked = Picked { devices: Some((Arc::clone(devices), allowed.into())), reason: String::new() };
        let operator = ExtractOnDevices::new(parameters.clone(), picked).unwrap();
        let mut harness = Harness::of(&EXTRACT_ON_DEVICES, Box::new(operator));
        for rgbs in envelopes {
            harness.give("pixels", pixels(rgbs, side));
        }
        harness.end("pixels");
        harness.run().unwrap();
        assert!(harness.is_done());
        let mut extractor = Extractor::new(parameters).unwrap();
        let mut found = harness.taken("signatures").into_iter();
        for rgbs in envelopes {
            let is_picture = |rgb: &&Vec<u8>| rgb.len() == (3 * side * side) as usize;
            let expected: Vec<Signature> = rgbs
                .iter()
                .filter(is_picture)
                .map(|rgb| {
                    let side = side as usize;
                    extractor.extract(ImageRef::new(side, side, rgb).unwrap())
                })
                .collect();
            if expected.is_empty() {
                continue;
            }
            let envelope = found.next().expect("an envelope of signatures");
            let columns =
                boxwork_stores::signature::SignatureColumns::new(envelope.lists("signature").unwrap())
                    .unwrap();
            assert_eq!(envelope.rows(), expected.len());
            for (row, expected) in expected.iter().enumerate() {
                let signature = columns.signature(row);
                assert_eq!(signature.weights(), expected.weights, "picture {row} of side {side}");
                for d in 0..FEATURES {
                    assert_eq!(signature.coordinate(d), expected.centroids[d], "coordinate {d} of {row}");
                }
            }
        }
        assert!(found.next().is_none());
    }

    #[test]
    fn a_device_gives_the_same_bits() {
        if !has_device("a_device_gives_the_same_bits") {
            return;
        }
        let (driver, devices) = devices(Plan::default());
        let pictures = |count: u32, side| (0..count).map(|nth| picture(nth, side, side)).collect::<Vec<_>>();
        check(&devices, |_| (), 40, &[pictures(8, 40), Vec::new(), vec![vec![1; 5]], pictures(3, 40)]);
        for side in [1, 2, 7] {
            check(&devices, |_| (), side, &[pictures(4, side)]);
        }
        // Each is compiled anew, so they are few.
        let changes: [fn(&mut ExtractParameters); 5] = [
            |p| (p.distance, p.cluster_weight_min) = (GroundDistance::L1, 0),
            |p| (p.distance, p.window_radius) = (GroundDistance::LInf, 0),
            |p| (p.window_radius, p.grey_max, p.iterations_count) = (5, 31, 2),
            |p| (p.cluster_weight_min, p.points_count) = (60_000, 5),
            |p| (p.centroids_count_max, p.join_distance) = (3, 0.05),
        ];
        for change in changes {
            check(&devices, change, 30, &[pictures(5, 30)]);
        }
        check(&devices, |p| *p = ExtractParameters::default(), 150, &[pictures(4, 150)]);
        assert_eq!(devices.take_warnings(), [""; 0], "the device did nothing");
        assert!(devices.statistics()[0].blocks > 5);
        drop(devices);
        assert_eq!(driver.left(), [], "objects of the driver were left behind");
    }

    #[test]
    fn what_does_not_fit_a_device_is_computed_here() {
        if !has_device("what_does_not_fit_a_device_is_computed_here") {
            return;
        }
        let (_, devices) = devices(Plan::default());
        check(&devices, |p| (p.points_count, p.seeds_count) = (2000, 2000), 20, &[vec![picture(0, 20, 20)]]);
        assert_eq!(devices.statistics()[0].blocks, 0);
    }

    #[test]
    fn what_devices_fail_at_is_computed_here() {
        if !has_device("what_devices_fail_at_is_computed_here") {
            return;
        }
        let pictures: Vec<Vec<u8>> = (0..3).map(|nth| picture(nth, 20, 20)).collect();
        let calls = {
            let (driver, devices) = devices(Plan::default());
            check(&devices, |_| (), 20, &[pictures.clone(), pictures.clone()]);
            drop(devices);
            driver.calls()
        };
        // The first calls open the devices, and fail there.
        for call in (6..calls).step_by(5) {
            let (_, devices) = devices(Plan { call, for_good: call % 2 == 0, ..Plan::default() });
            check(&devices, |_| (), 20, &[pictures.clone(), pictures.clone()]);
        }
    }
}
