//! `what=gpu`: the pass and the L1 distances on a device, from a block's submission to its results on the host.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

use boxwork_kernels::CodePath;
use boxwork_kernels::gaussian_process::Form;
use boxwork_kernels::gaussian_process::l1;
use boxwork_kernels::gaussian_process::pass::device::DevicePass;
use boxwork_kernels::gaussian_process::pass::{FastPass, Pass, Shortlist, TILE_NUMBERS, at};
use boxwork_kernels::sketch::COORDINATES;
use boxwork_operators::device_kernels::l1_program;
use boxwork_operators::pass_block::{PassBlock, Tiles};
use boxwork_runtime::feeding::{
    Back, Block, Blocks, DeviceClass, DeviceError, Devices, Feed, Grid, LazyDevices, SharedKey, Value,
};
use boxwork_runtime::operator::Outside;

use super::l1::{check as check_l1, vectors};
use super::pass::{kernel, marks, norm_max, tiles};
use super::support::{Arguments, Spread, verdict};

/// Tiles of a block: an eighth of a gigabyte.
const BLOCK_TILES: usize = 1 << 15;
/// Objects of the shortlist.
const SHORTLIST: usize = 256;
/// Numbers that one thread gathers at a time.
const PART: usize = 1 << 22;

pub(super) fn run(arguments: &Arguments) {
    let devices = LazyDevices::of_environment().open().unwrap_or_else(|reason| {
        eprintln!("{reason}");
        std::process::exit(1);
    });
    let device = arguments.get("device", devices.gpus().first().copied().unwrap_or(0));
    let info = devices.list()[device].info();
    println!("device      {info}; driver {}, {}", info.driver, info.version);
    let is_gpu = info.class == DeviceClass::Gpu;
    let rounds = arguments.get("rounds", 9);
    pass(arguments, (&devices, device, is_gpu), rounds);
    distances(arguments, (&devices, device, is_gpu), rounds);
    for warning in devices.take_warnings() {
        println!("warning     {warning}");
    }
}

/// Submits blocks together, and returns them with the seconds of all and those of their kernels.
fn together<B: Block>(devices: &Arc<Devices>, device: usize, given: Vec<B>) -> (Vec<B>, f64, f64) {
    let (tell, told) = channel();
    let mut blocks = Blocks::new(Arc::clone(devices), vec![device]);
    let (count, before) = (given.len(), devices.statistics()[device].kernel_ns);
    let begun = Instant::now();
    for block in given {
        let tell = tell.clone();
        // The receiver waits until all have come.
        blocks.submit(block, Outside::new(move || tell.send(()).unwrap_or_default()));
    }
    (0..count).for_each(|_| told.recv().expect("a block comes back"));
    let wall = begun.elapsed().as_secs_f64();
    let mut done = Vec::new();
    while let Some((block, result)) = blocks.take() {
        result.unwrap_or_else(|error| panic!("the device fails: {error}"));
        done.push(block);
    }
    (done, wall, (devices.statistics()[device].kernel_ns - before) as f64 / 1e9)
}

fn pass(arguments: &Arguments, (devices, device, is_gpu): (&Arc<Devices>, usize, bool), rounds: usize) {
    let objects = arguments.get("objects", if is_gpu { 10_000_000 } else { 20_000usize });
    let count = super::list(arguments, "marks", "60")[0];
    println!("question    how long does a device take to bound every object by its sketch?");
    println!(
        "unit        ms; {objects} objects, {count} marks; sketches are on the device, the {SHORTLIST} largest come back"
    );
    let numbers = Arc::new(tiles(objects));
    let pass = Pass::new(kernel(), 0.25, &marks(&numbers, count));
    let shared = Arc::new(DevicePass::new(&pass));
    let tiles = Tiles { number: boxwork_stores::new_number(), numbers: Arc::<Vec<u16>>::clone(&numbers) };
    let all = numbers.len() / TILE_NUMBERS;
    let error = pass.error(norm_max(&numbers));
    let blocks = || -> Vec<PassBlock> {
        let ranges = (0..all).step_by(BLOCK_TILES).map(|first| first..all.min(first + BLOCK_TILES));
        let (form, list) = (Form::InverseMultiquadric, Shortlist::new(SHORTLIST, error));
        ranges
            .map(|range| {
                PassBlock::new(
                    tiles.clone(),
                    range,
                    form,
                    Arc::clone(&shared),
                    Arc::new(|_| true),
                    list.clone(),
                )
            })
            .collect()
    };
    let exact = |list: Shortlist| list.ranked(|id| pass.upper(&at(&numbers, id as usize)));
    let mut list = Shortlist::new(SHORTLIST, error);
    let mut off = 0f64;
    for block in together(devices, device, blocks()).0 {
        for (id, upper) in block.list.offered().iter().step_by(7) {
            off = off.max((f64::from(*upper) - pass.upper(&at(&numbers, *id as usize)).upper).abs());
        }
        list.merge(block.list);
    }
    assert!(off <= error, "a bound is off by {off:e}, and its pass declares {error:e}");
    let mut on_slots = Shortlist::new(SHORTLIST, error);
    let mut uppers = vec![0.0; numbers.len() / COORDINATES];
    let mut means = uppers.clone();
    FastPass::new(&pass, CodePath::detect()).uppers(&numbers, &mut means, &mut uppers);
    uppers.iter().enumerate().for_each(|(object, upper)| on_slots.offer(object as u64, *upper));
    assert_eq!(exact(list), exact(on_slots), "the device's shortlist is that of the processor");
    let timed: Vec<(f64, f64)> = (0..rounds)
        .map(|_| {
            let begun = Instant::now();
            let (done, _, kernels) = together(devices, device, blocks());
            let mut list = Shortlist::new(SHORTLIST, error);
            done.into_iter().for_each(|block| list.merge(block.list));
            assert!(exact(list).len() == SHORTLIST.min(objects));
            (1e3 * begun.elapsed().as_secs_f64(), 1e3 * kernels)
        })
        .collect();
    let wall = Spread::of(timed.iter().map(|(wall, _)| *wall));
    let kernels = Spread::of(timed.iter().map(|(_, kernels)| *kernels));
    println!("pass        {wall:.2} with the shortlist on the host, kernels {kernels:.2}; error {off:.1e}");
    if is_gpu {
        verdict("1e7 objects, 60 marks, ms", wall.median, 10.0, wall.median <= 10.0);
    }
}

/// Vectors of a block of L1 distances: while a block's distances come back, the device computes the next one.
const BLOCK_VECTORS: usize = 16_384;

/// Distances of some vectors, which stay on the device.
struct Differences {
    /// All vectors.
    objects: Arc<Vec<f32>>,
    /// Those of the block.
    range: Range<usize>,
    marks: Arc<Vec<f32>>,
    dimensions: usize,
    resource: u64,
    found: Vec<f32>,
}

impl Block for Differences {
    fn size(&self) -> u64 {
        self.range.len() as u64
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let (objects, marks) = (self.range.len(), self.marks.len() / self.dimensions);
        let key = SharedKey { resource: self.resource, form: 0, part: self.range.start as u64 };
        let numbers = &self.objects[self.range.start * self.dimensions..self.range.end * self.dimensions];
        feed.shared_in_parts("objects", key, numbers.len(), PART, |part, to: &mut [f32]| {
            to.copy_from_slice(&numbers[part * PART..][..to.len()]);
            Ok(())
        })?;
        feed.write("marks", self.marks.len(), |to| {
            to.copy_from_slice(&self.marks);
            Ok(())
        })?;
        feed.output::<f32>("out", objects * marks)?;
        let values = [
            ("objects_count", Value::of(objects as u32)),
            ("marks_count", Value::of(marks as u32)),
            ("dimensions", Value::of(self.dimensions as u32)),
        ];
        let grid = Grid::of(l1::groups(objects, marks), [l1::ITEMS, 1]);
        feed.launch(&l1_program(), "l1", grid, &values)?;
        feed.read::<f32>("out", objects * marks)
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.found.clear();
        self.found.extend_from_slice(back.numbers("out"));
    }
}

fn distances(arguments: &Arguments, (devices, device, is_gpu): (&Arc<Devices>, usize, bool), rounds: usize) {
    let objects = arguments.get("vectors", if is_gpu { 120_000 } else { 200usize });
    let (dimensions, count) = (arguments.get("dimensions", 4096usize), 128);
    println!();
    println!("question    how long do the L1 distances of the source's largest table take on a device?");
    println!(
        "unit        ms; {objects} objects, {dimensions} numbers, {count} marks; objects are on the device"
    );
    let (given, near) = (vectors(1, objects, dimensions), vectors(2, count, dimensions));
    let error = l1::Marks::new(&near, dimensions).relative_error();
    let (given, near, resource) = (Arc::new(given), Arc::new(near), boxwork_stores::new_number());
    let block = |first: usize| Differences {
        objects: Arc::clone(&given),
        range: first..objects.min(first + BLOCK_VECTORS),
        marks: Arc::clone(&near),
        dimensions,
        resource,
        found: Vec::new(),
    };
    let blocks = (0..objects).step_by(BLOCK_VECTORS).map(block).collect();
    let (mut done, _, _) = together(devices, device, blocks);
    let off = done.iter().map(|block| {
        let numbers = &given[block.range.start * dimensions..block.range.end * dimensions];
        check_l1(numbers, &near, dimensions, &block.found, error)
    });
    let off = off.fold(0.0, f64::max);
    let timed: Vec<(f64, f64)> = (0..rounds)
        .map(|_| {
            let (back, wall, kernels) = together(devices, device, std::mem::take(&mut done));
            done = back;
            (1e3 * wall, 1e3 * kernels)
        })
        .collect();
    let wall = Spread::of(timed.iter().map(|(wall, _)| *wall));
    let kernels = Spread::of(timed.iter().map(|(_, kernels)| *kernels));
    println!(
        "l1          {wall:.2} with distances on the host, kernels {kernels:.2}; relative error {off:.1e}"
    );
    if is_gpu {
        verdict("120,000 objects, 128 marks, ms", wall.median, 20.0, wall.median <= 20.0);
    }
}
