//! `what=bounds`: bounds of all objects by a pivot table on the device, and the objects that remain.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

use boxwork_kernels::CodePath;
use boxwork_kernels::lower_bound::device::{DeviceSlack, Shape};
use boxwork_kernels::lower_bound::{
    self, Bound, BoundEvaluator, BoundQuery, Bounds, PACKED_OBJECTS, Simplex, TableErrors,
};
use boxwork_kernels::selection::{self, Bounded};
use boxwork_operators::device_kernels::{bounds_program, selection_program};
use boxwork_runtime::feeding::{
    Back, Block, Blocks, DeviceClass, DeviceError, Devices, Feed, Grid, Plain, ProgramSource, SharedKey,
    Value,
};
use boxwork_runtime::operator::Outside;

use super::memory;
use super::support::signatures::Random;
use super::support::{Arguments, Spread};

/// The size of a buffer on the device, as in `lower_bounds`.
const CHUNK_BYTES: usize = 128 << 20;
/// Dimensions of a point beyond the number of pivots, so that the pivots do not span the whole space.
const MORE_DIMENSIONS: usize = 8;
/// Points lie in this many clusters, so that bounds can exclude some.
const CLUSTERS: usize = 1000;
const CLUSTER_SPREAD: f32 = 0.2;
/// Entries for each query.
const CAPACITY: usize = 1 << 16;

pub(super) fn run(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let is_gpu = devices.list()[device].info().class == DeviceClass::Gpu;
    let objects = arguments.get("objects", if is_gpu { 17_500_000 } else { 20_000 });
    let (pivots, k) = (arguments.get("pivots", 32usize), arguments.get("k", 10usize));
    let rounds = arguments.get("rounds", 21);
    println!("question    how long does a device take to bound all objects by a pivot table?");
    println!("unit        ms; {objects} objects, {pivots} pivots, k = {k}, one query");
    println!("rounds      {rounds}; median (middle half); kernels by events, one block in flight");
    let copied = memory::rates(devices, device, objects * pivots * 4, rounds).copied;
    let made = Instant::now();
    let space = Arc::new(Space::random(objects, pivots));
    println!(
        "table       {:.2} GB, made in {:.1} s",
        (objects * pivots * 4) as f64 / 1e9,
        made.elapsed().as_secs_f64()
    );
    // Upper bounds say little without a pivot near the query: all bounds get the range in which a search ends.
    let range = space.range(k);
    println!("range       {range:.4}, the k-th distance");
    let bounds: Vec<Bound> = match arguments.text("bound").unwrap_or("all") {
        "all" => Bound::ALL.to_vec(),
        list => list.split(',').map(|name| name.parse().unwrap_or_else(|error| panic!("{error}"))).collect(),
    };
    for bound in bounds {
        for held in arguments.text("held").unwrap_or("2").split(',') {
            let held: usize = held.parse().expect("held is a number of blocks");
            line(devices, device, &space, (bound, held, k, range), rounds, copied);
        }
    }
}

/// Points, and their pivot table.
struct Space {
    objects: usize,
    between: Vec<f64>,
    simplex: Simplex,
    /// The query's distances from the pivots.
    query: Vec<f64>,
    distance_max: f64,
    /// Its distances from the objects.
    exact: Vec<f32>,
    /// By block, then by column.
    distances: Vec<f32>,
    apexes: Vec<f32>,
}

impl Space {
    fn random(objects: usize, pivots: usize) -> Self {
        let dimensions = pivots + MORE_DIMENSIONS;
        let mut random = Random::new(3);
        let mut points = |count: usize| -> Vec<f32> {
            (0..count * dimensions).map(|_| 2.0 * random.unit() - 1.0).collect()
        };
        let (centres, strays, pivot_points) = (points(CLUSTERS), points(2048), points(pivots));
        let point = |object: usize, to: &mut Vec<f32>| {
            // Numbers without a pattern, fixed for each object.
            let mixed = (object as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let (cluster, stray) = ((mixed >> 40) as usize % CLUSTERS, (mixed >> 20) as usize % (2048 - 8));
            let shift = object / 7 % (8 * dimensions);
            let centre = &centres[cluster * dimensions..][..dimensions];
            let strays = &strays[stray * dimensions + shift..][..dimensions];
            to.clear();
            to.extend(centre.iter().zip(strays).map(|(x, stray)| x + CLUSTER_SPREAD * stray));
        };
        let distance = |a: &[f32], b: &[f32]| -> f64 {
            f64::from(a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f32>()).sqrt()
        };
        let to_pivots = |from: &[f32]| -> Vec<f64> {
            pivot_points.chunks_exact(dimensions).map(|pivot| distance(from, pivot)).collect()
        };
        let between: Vec<f64> = pivot_points.chunks_exact(dimensions).flat_map(to_pivots).collect();
        let simplex = Simplex::new(&between, NOISE_SQUARED).expect("distances of points");
        let mut whole = Vec::new();
        point(objects / 2, &mut whole);
        whole[0] += 0.05;
        let query = to_pivots(&whole);
        let blocks = objects.div_ceil(PACKED_OBJECTS);
        let mut distances = vec![0f32; blocks * pivots * PACKED_OBJECTS];
        let mut apexes = vec![0f32; blocks * simplex.dimensions() * PACKED_OBJECTS];
        let mut exact = vec![f32::INFINITY; blocks * PACKED_OBJECTS];
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let per_thread = blocks.div_ceil(threads).max(1);
        let of_thread = |numbers: usize| per_thread * numbers * PACKED_OBJECTS;
        std::thread::scope(|scope| {
            let parts = distances
                .chunks_mut(of_thread(pivots))
                .zip(apexes.chunks_mut(of_thread(simplex.dimensions())))
                .zip(exact.chunks_mut(of_thread(1)));
            for (part, ((distances, apexes), exact)) in parts.enumerate() {
                let (simplex, point, to_pivots, whole) = (&simplex, &point, &to_pivots, &whole);
                scope.spawn(move || {
                    let mut coordinates = Vec::new();
                    let first = part * per_thread * PACKED_OBJECTS;
                    let here = objects.saturating_sub(first);
                    for (place, exact) in exact.iter_mut().enumerate().take(here) {
                        point(first + place, &mut coordinates);
                        *exact = distance(whole, &coordinates) as f32;
                        let found = to_pivots(&coordinates);
                        let apex = simplex.apex(&found, NOISE_SQUARED).expect("distances of points");
                        put(distances, place, &found);
                        put(apexes, place, &apex.coordinates);
                    }
                });
            }
        });
        let distance_max =
            f64::from(distances.iter().fold(0.0f32, |largest, distance| largest.max(*distance)));
        Self { objects, between, simplex, query, distance_max, exact, distances, apexes }
    }

    /// The query, prepared for a bound.
    fn prepared(&self, bound: Bound) -> BoundQuery {
        let (distance_max, spread_max) = (self.distance_max, 20.0);
        let errors = TableErrors { distance_max, noise_squared: NOISE_SQUARED, spread_max };
        BoundQuery::new(bound, &self.query, &self.between, &self.simplex, &errors)
            .expect("distances of points")
    }

    /// The k-th distance.
    fn range(&self, k: usize) -> f32 {
        let mut distances = self.exact.clone();
        match k <= self.objects {
            true => *distances.select_nth_unstable_by(k - 1, f32::total_cmp).1,
            false => f32::INFINITY,
        }
    }

    fn columns(&self, bound: Bound) -> (&[f32], usize) {
        match bound {
            Bound::Simplex => (&self.apexes, self.simplex.dimensions()),
            _ => (&self.distances, self.query.len()),
        }
    }

    fn block(&self, block: usize) -> lower_bound::PackedBlock<'_> {
        let of = |numbers: usize| block * numbers * PACKED_OBJECTS..(block + 1) * numbers * PACKED_OBJECTS;
        lower_bound::PackedBlock {
            distances: &self.distances[of(self.query.len())],
            apexes: &self.apexes[of(self.simplex.dimensions())],
        }
    }
}

/// The error of squared distances summed in f32.
const NOISE_SQUARED: f64 = 1e-5;

/// Puts an object's numbers into the columns of its block.
fn put(columns: &mut [f32], place: usize, numbers: &[f64]) {
    let block = place / PACKED_OBJECTS * numbers.len() * PACKED_OBJECTS;
    for (number, x) in numbers.iter().enumerate() {
        columns[block + number * PACKED_OBJECTS + place % PACKED_OBJECTS] = *x as f32;
    }
}

/// Shared by all blocks of a line.
struct Scene {
    space: Arc<Space>,
    shape: Shape,
    bounds: ProgramSource,
    selection: ProgramSource,
    numbers: Vec<f32>,
    pairs: Vec<f32>,
    slack: DeviceSlack,
    k: usize,
    /// The range known before.
    range: f32,
}

/// The share of the work that a block does.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// Bounds alone; only one number comes back.
    Bounds,
    /// Bounds and selection.
    Left,
    /// Bounds and selection, and all bounds come back.
    All,
}

struct Scan {
    scene: Arc<Scene>,
    stage: Stage,
    range: f32,
    count: usize,
    entries: Vec<u32>,
    lowers: Vec<f32>,
    uppers: Vec<f32>,
}

impl Block for Scan {
    fn size(&self) -> u64 {
        self.scene.space.objects as u64
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let scene = Arc::clone(&self.scene);
        let (space, shape) = (&scene.space, &scene.shape);
        let (all, columns) = space.columns(shape.bound());
        let of_block = columns * PACKED_OBJECTS;
        let chunk = (CHUNK_BYTES / (4 * of_block)).max(1) * of_block;
        write(feed, "numbers", &scene.numbers)?;
        write(feed, "pairs", &scene.pairs)?;
        write(feed, "ranges", &[scene.range])?;
        write(feed, "counts", &[0u32])?;
        let groups: usize = all.chunks(chunk).map(|chunk| shape.groups(chunk.len() / of_block)).sum();
        let kept = selection::kept(groups, scene.k);
        feed.output::<f32>("lowers", space.objects)?;
        feed.output::<f32>("uppers", space.objects)?;
        feed.output::<f32>("minima", groups * kept)?;
        feed.output::<u32>("entries", CAPACITY * selection::ENTRY)?;
        let number = |value: usize| Value::of(value as u32);
        let (mut first, mut minima_first) = (0, 0);
        for (part, chunk) in all.chunks(chunk).enumerate() {
            let form = u64::from(shape.bound() == Bound::Simplex);
            feed.shared(
                "columns",
                SharedKey { resource: 1 << 40, form, part: part as u64 },
                chunk.len(),
                |to| {
                    to.copy_from_slice(chunk);
                    Ok(())
                },
            )?;
            let blocks = chunk.len() / of_block;
            let objects = (space.objects - first).min(blocks * PACKED_OBJECTS);
            let values = [
                ("blocks", number(blocks)),
                ("objects", number(objects)),
                ("numbers_first", number(0)),
                ("pairs_first", number(0)),
                ("slack", Value::of(scene.slack.slack)),
                ("pairs_slack", Value::of(scene.slack.pairs)),
                ("first", number(first)),
                ("minima_first", number(minima_first)),
                ("kept", number(kept)),
            ];
            feed.launch(&scene.bounds, "bounds", Grid::of([shape.groups(blocks)], [shape.items()]), &values)?;
            first += objects;
            minima_first += shape.groups(blocks) * kept;
        }
        if self.stage == Stage::Bounds {
            return feed.read::<u32>("counts", 1);
        }
        let values = [
            ("minima_first", number(0)),
            ("minima_count", number(groups * kept)),
            ("wanted", number(scene.k)),
            ("query", number(0)),
        ];
        feed.launch(&scene.selection, "kth", Grid::of([1], [selection::ITEMS]), &values)?;
        let values = [
            ("first", number(0)),
            ("objects", number(space.objects)),
            ("query", number(0)),
            ("capacity", number(CAPACITY)),
        ];
        let grid = Grid::of([selection::groups(space.objects)], [selection::ITEMS]);
        feed.launch(&scene.selection, "winnow", grid, &values)?;
        if self.stage == Stage::All {
            feed.read::<f32>("lowers", space.objects)?;
            feed.read::<f32>("uppers", space.objects)?;
        }
        feed.read::<f32>("ranges", 1)?;
        feed.read::<u32>("counts", 1)?;
        feed.read::<u32>("entries", CAPACITY * selection::ENTRY)
    }

    fn collect(&mut self, back: &Back<'_>) {
        if self.stage == Stage::Bounds {
            return;
        }
        if self.stage == Stage::All {
            self.lowers = back.numbers("lowers").to_vec();
            self.uppers = back.numbers("uppers").to_vec();
        }
        self.range = back.numbers("ranges")[0];
        self.count = back.numbers::<u32>("counts")[0] as usize;
        let entries = self.count.min(CAPACITY) * selection::ENTRY;
        self.entries = back.numbers("entries")[..entries].to_vec();
    }
}

fn write<T: Plain>(feed: &mut Feed<'_>, name: &'static str, numbers: &[T]) -> Result<(), DeviceError> {
    feed.write(name, numbers.len(), |to| {
        to.copy_from_slice(numbers);
        Ok(())
    })
}

/// Runs blocks one by one: the results, and the seconds of kernels and of the wall clock.
/// Runs a block on a device; the block, the seconds of its kernels, and those until it has come back.
pub(super) fn run_block<B: Block>(devices: &Arc<Devices>, device: usize, block: B) -> (B, f64, f64) {
    let (tell, told) = channel();
    let mut blocks = Blocks::new(Arc::clone(devices), vec![device]);
    let before = devices.statistics()[device];
    let begun = Instant::now();
    let outside = Outside::new(move || {
        // The receiver waits until this has come.
        let _ = tell.send(());
    });
    blocks.submit(block, outside);
    told.recv().expect("a block comes back");
    let wall = begun.elapsed().as_secs_f64();
    let (block, result) = blocks.take().expect("it was told");
    result.unwrap_or_else(|error| panic!("the device fails: {error}"));
    (block, (devices.statistics()[device].kernel_ns - before.kernel_ns) as f64 / 1e9, wall)
}

/// One bound: checked, then timed.
fn line(
    devices: &Arc<Devices>,
    device: usize,
    space: &Arc<Space>,
    (bound, held, k, range): (Bound, usize, usize, f32),
    rounds: usize,
    copied: f64,
) {
    let query = space.prepared(bound);
    let (_, columns) = space.columns(bound);
    let shape = Shape::new(bound, columns).split(held);
    let (mut numbers, mut pairs) = (Vec::new(), Vec::new());
    query.device_numbers(&shape, &mut numbers, &mut pairs);
    pairs.resize(pairs.len().max(4), 0.0);
    let (bounds, selection) = (bounds_program(&shape), selection_program(Bounded::Distances));
    let (space, slack) = (Arc::clone(space), query.device_slack());
    let scene = Arc::new(Scene { space, shape, bounds, selection, numbers, pairs, slack, k, range });
    let scan = |stage| Scan {
        scene: Arc::clone(&scene),
        stage,
        range: f32::INFINITY,
        count: 0,
        entries: Vec::new(),
        lowers: Vec::new(),
        uppers: Vec::new(),
    };
    let (first, _, brought) = run_block(devices, device, scan(Stage::All));
    let left = check(&first, &query, k);
    drop(first);
    // The other end point also compiles and allocates.
    (0..4).for_each(|_| drop(run_block(devices, device, scan(Stage::Left))));
    let (mut alone, mut both, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        alone.push(run_block(devices, device, scan(Stage::Bounds)).1);
        let (_, kernels, wall) = run_block(devices, device, scan(Stage::Left));
        both.push(kernels);
        whole.push(wall);
    }
    let bytes = (scene.space.objects * (columns + 2) * 4) as f64;
    let gb = Spread::of(alone.iter().map(|seconds| bytes / seconds / 1e9));
    let selecting = Spread::of(both.iter().zip(&alone).map(|(both, alone)| 1e3 * (both - alone)));
    let ms = |seconds: &[f64]| Spread::of(seconds.iter().map(|seconds| 1e3 * seconds));
    println!(
        "{bound:10} held={held} bounds {:.3} ms, {gb:.0} GB/s, {:.2} of the copy rate   selection {selecting:.3} ms   \
         whole {:.3} ms   {left} left of {}   first {:.0} ms",
        ms(&alone),
        gb.median / copied,
        ms(&whole),
        scene.space.objects,
        1e3 * brought
    );
}

/// Compares all bounds, and the remaining objects, with the processor's loops; returns the number that remains.
fn check(scan: &Scan, query: &BoundQuery, k: usize) -> usize {
    let space = &scan.scene.space;
    let evaluator = BoundEvaluator::new(CodePath::detect());
    let mut bounds = Bounds::default();
    let more = f64::from(scan.scene.slack.slack.max(scan.scene.slack.pairs)) - query.slack();
    let found: std::collections::HashMap<u32, (f32, f32)> = scan
        .entries
        .chunks_exact(selection::ENTRY)
        .map(|entry| (entry[0], (f32::from_bits(entry[1]), f32::from_bits(entry[2]))))
        .collect();
    let mut uppers = scan.uppers.clone();
    let exact = match k <= uppers.len() {
        true => *uppers.select_nth_unstable_by(k - 1, f32::total_cmp).1,
        false => f32::INFINITY,
    };
    let exact = exact.min(scan.scene.range);
    assert!(scan.range >= exact, "the range {} is below the k-th upper bound, {exact}", scan.range);
    let mut within = 0;
    for first in (0..space.objects).step_by(PACKED_OBJECTS) {
        evaluator.bounds(query, space.block(first / PACKED_OBJECTS), &mut bounds);
        for object in first..space.objects.min(first + PACKED_OBJECTS) {
            let (lower, upper) = (scan.lowers[object], scan.uppers[object]);
            let most = 2.0 * more + 2f64.powi(-22) * f64::from(upper);
            for (found, expected) in
                [(lower, bounds.lower[object - first]), (upper, bounds.upper[object - first])]
            {
                let apart = (f64::from(found) - f64::from(expected)).abs();
                assert!(apart <= most, "object {object}: {found}, not {expected} within {most:e}");
            }
            let is_within = lower <= scan.range;
            within += usize::from(is_within);
            if scan.count <= CAPACITY {
                let listed = found.get(&(object as u32)).copied();
                assert_eq!(listed, is_within.then_some((lower, upper)), "object {object}");
            }
        }
    }
    assert_eq!(within, scan.count, "objects within {}", scan.range);
    within
}
