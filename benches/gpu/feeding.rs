//! `what=feeding`: feeding threads compared with the naive dispatcher, one thread that does everything (figure 3.11 of
//! the thesis), by the number of devices.
//!
//! Both sides do equal work for each block: they gather its signatures into pinned memory and send them (unless they
//! stay on the device), run the kernel for their distances to all queries, and bring these back; the host finds the k
//! nearest. The naive thread has one queue and one block under way on each device: while a device computes it gathers
//! for the others. On our side feeding threads do that, with two end points for each device, and other threads find the
//! nearest. Utilisation is the time that the blocks' kernels take alone, divided by the devices' time.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sqfd::device::Shape;
use boxwork_runtime::feeding::{Argument, Blocks, DeviceClass, Devices};
use boxwork_runtime::operator::Outside;
use opencl3::command_queue::{CL_QUEUE_PROFILING_ENABLE, CommandQueue};
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, Device};
use opencl3::event::Event;
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE, ClMem};
use opencl3::program::Program;
use opencl3::types::{CL_FALSE, CL_TRUE, cl_mem};

use super::distances::{Scan, Scene, Way, scene};
use super::support::signatures::{DIMENSIONS, Signatures};
use super::support::{Arguments, Spread, verdict};

/// Blocks under way for each device on our side.
const IN_FLIGHT: usize = 6;

/// The best rows of each query so far: similarity, then the part and the place in it.
#[derive(Clone, Default, PartialEq, Debug)]
struct Best {
    k: usize,
    by_query: Vec<Vec<(f32, u64, u32)>>,
}

impl Best {
    fn new(queries: usize, k: usize) -> Self {
        Self { k, by_query: vec![Vec::new(); queries] }
    }

    /// Adds the similarities of a part. Most are below the k-th and cost one comparison.
    fn take(&mut self, part: u64, sums: &[f32]) {
        let (k, objects) = (self.k, sums.len() / self.by_query.len());
        for (best, sums) in self.by_query.iter_mut().zip(sums.chunks_exact(objects)) {
            let mut least = kth(best, k);
            for (place, sum) in sums.iter().enumerate() {
                if *sum >= least {
                    best.push((*sum, part, place as u32));
                    if best.len() >= 2 * k + 64 {
                        cut(best, k);
                        least = kth(best, k);
                    }
                }
            }
            cut(best, k);
        }
    }

    fn merge(&mut self, other: &Self) {
        for (best, others) in self.by_query.iter_mut().zip(&other.by_query) {
            best.extend_from_slice(others);
            cut(best, self.k);
        }
    }
}

fn kth(best: &[(f32, u64, u32)], k: usize) -> f32 {
    best.get(k - 1).map_or(f32::NEG_INFINITY, |row| row.0)
}

fn cut(best: &mut Vec<(f32, u64, u32)>, k: usize) {
    best.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    // A block is repeated; each of its rows counts once.
    best.dedup();
    best.truncate(k);
}

pub(super) fn run(arguments: &Arguments, devices: &Arc<Devices>) {
    let gpus = devices.gpus();
    let allowed: Vec<usize> = if gpus.is_empty() { (0..devices.list().len()).collect() } else { gpus };
    let is_gpu = devices.list()[allowed[0]].info().class == DeviceClass::Gpu;
    let objects = arguments.get("objects", if is_gpu { 50_000 } else { 200 });
    let parts = arguments.get("parts", if is_gpu { 8u64 } else { 2 });
    let blocks = arguments.get("blocks", if is_gpu { 64usize } else { 4 });
    println!("question    what do feeding threads gain over one thread that does everything?");
    println!(
        "unit        share of the devices' time that kernels take; {blocks} blocks of {objects} objects per device"
    );
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, 0.2).expect("alpha is positive");
    let shape = Shape::new(&measure, DIMENSIONS);
    let shape = match devices.list()[allowed[0]].info().compute_capability {
        Some(capability) if capability >= (8, 0) => shape.matrices(),
        _ => shape,
    };
    let signatures: Vec<Arc<Signatures>> = std::thread::scope(|scope| {
        let make = |part| scope.spawn(move || Arc::new(Signatures::random(part, objects, 75..=75)));
        let threads: Vec<_> = (0..parts).map(make).collect();
        threads.into_iter().map(|thread| thread.join().expect("signatures")).collect()
    });
    let ways = arguments.text("ways").unwrap_or("resident,gathered,pinned");
    for (version, way) in (1 << 32..).zip(ways.split(',')) {
        let way = match way {
            "resident" => Way::Resident,
            "gathered" => Way::Gathered,
            "pinned" => Way::Pinned,
            other => panic!("ways={other} is none of resident, gathered, pinned"),
        };
        let queries = arguments.get("queries", if way == Way::Resident { 1 } else { 64usize });
        // All parts use the queries of the first.
        let scenes: Vec<Arc<Scene>> = (0..parts)
            .map(|part| {
                let of = &signatures[part as usize];
                let first = signatures[0].with(|store| {
                    scene(&signatures[0], store, measure, shape.clone(), queries, version, way)
                });
                let own = of.with(|store| scene(of, store, measure, shape.clone(), 1, version, way));
                Arc::new(Scene { signatures: Arc::clone(of), layout: own.layout, part, ..first })
            })
            .collect();
        let alone = alone(devices, allowed[0], &scenes);
        println!("{way:?}, {queries} queries: a block's kernel takes {:.3} ms alone", alone * 1e3);
        let mut of_one = None;
        for count in arguments.text("counts").unwrap_or("1,2,4").split(',') {
            let count: usize = count.parse().expect("a number of devices");
            if count > allowed.len() {
                println!("{count} devices: there are {}", allowed.len());
                continue;
            }
            let took = compare(arguments, devices, &allowed[..count], &scenes, blocks * count);
            if count == 1 {
                of_one = Some([took.ours.median, took.naive.median]);
            }
            report(arguments, way, count, alone * blocks as f64, of_one.unwrap_or_default(), &took);
        }
    }
}

/// The seconds of both sides.
struct Took {
    ours: Spread,
    naive: Spread,
    /// The naive side's over ours, round by round.
    ratio: Spread,
}

/// Times so many blocks on some devices, and checks that both sides find the same.
fn compare(
    arguments: &Arguments,
    devices: &Arc<Devices>,
    allowed: &[usize],
    scenes: &[Arc<Scene>],
    blocks: usize,
) -> Took {
    let (k, rounds) = (arguments.get("k", 100usize), arguments.get("rounds", 5));
    let mut naive = Naive::new(devices, allowed, &scenes[0]);
    let (mut ours_took, mut naive_took, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (_, expected) = naive.run(scenes, scenes.len(), k);
    for round in 0..=rounds {
        let (ours, found) = ours(devices, allowed, scenes, blocks, k);
        let (naive, of_naive) = naive.run(scenes, blocks, k);
        assert_eq!(found, of_naive, "both find the same");
        assert_eq!(found, expected, "and the same as before");
        // The first brings everything in.
        if round > 0 {
            ours_took.push(ours);
            naive_took.push(naive);
            ratios.push(naive / ours);
        }
    }
    Took { ours: Spread::of(ours_took), naive: Spread::of(naive_took), ratio: Spread::of(ratios) }
}

/// Prints a line of some devices. The kernels of one device take `busy_seconds`, the two sides on it `of_one`.
fn report(
    arguments: &Arguments,
    way: Way,
    count: usize,
    busy_seconds: f64,
    [ours_one, naive_one]: [f64; 2],
    Took { ours, naive, ratio }: &Took,
) {
    let busy = |took: &Spread| busy_seconds / took.median;
    // As much work for each device: the time would stay the same.
    let speedup = |one: f64, took: &Spread| count as f64 * one / took.median;
    println!(
        "{count} devices   ours {:.1} ms, {:.1} % busy, {:.2} x one   naive {:.1} ms, {:.1} % busy, {:.2} x one   naive over ours {:.2}",
        ours.median * 1e3,
        100.0 * busy(ours),
        speedup(ours_one, ours),
        naive.median * 1e3,
        100.0 * busy(naive),
        speedup(naive_one, naive),
        ratio,
    );
    for (side, took) in [("feeding threads", ours), ("one thread for all", naive)] {
        let series = format!("{side}, {way:?}").to_lowercase();
        let row = |figure, value: f64| {
            arguments.append_csv(&[figure, &series, &count.to_string(), &format!("{value:.4}")]);
        };
        row("3.11 time", took.median * 1e3 / count as f64);
        row("3.11 busy", 100.0 * busy(took));
    }
    if count == 4 {
        verdict("devices busy", busy(ours), 0.9, busy(ours) >= 0.9);
        let of_one = speedup(ours_one, ours);
        verdict("4 devices over 1", of_one, 3.6, of_one >= 3.6);
    }
}

/// What a block's kernel takes with nothing beside it, in seconds.
fn alone(devices: &Arc<Devices>, device: usize, scenes: &[Arc<Scene>]) -> f64 {
    let (tell, told) = channel();
    let mut blocks = Blocks::new(Arc::clone(devices), vec![device]);
    let mut of = |scene: &Arc<Scene>| {
        let tell = tell.clone();
        let outside = Outside::new(move || tell.send(()).expect("the receiver waits"));
        blocks.submit(Scan { scene: Arc::clone(scene), sums: None }, outside);
        told.recv().expect("a block comes back");
        blocks.take().expect("it has").1.expect("the device works");
    };
    scenes.iter().for_each(&mut of);
    let before = devices.statistics()[device];
    let rounds = 4;
    (0..rounds).for_each(|_| scenes.iter().for_each(&mut of));
    (devices.statistics()[device].kernel_ns - before.kernel_ns) as f64 / 1e9 / (rounds * scenes.len()) as f64
}

/// Computes this many blocks by feeding threads: the seconds, and the results.
fn ours(
    devices: &Arc<Devices>,
    allowed: &[usize],
    scenes: &[Arc<Scene>],
    all: usize,
    k: usize,
) -> (f64, Best) {
    let queries = scenes[0].queries();
    let (tell, told) = channel();
    let mut blocks = Blocks::new(Arc::clone(devices), allowed.to_vec());
    let begun = Instant::now();
    let (give, given) = channel::<Scan>();
    let given = Arc::new(Mutex::new(given));
    let best = std::thread::scope(|scope| {
        let rank = |given: Arc<Mutex<Receiver<Scan>>>| {
            let mut best = Best::new(queries, k);
            loop {
                // Outside the condition, which would hold the lock while the block is ranked.
                let next = given.lock().expect("no thread panics").recv();
                let Ok(Scan { scene, sums: Some(sums) }) = next else { break };
                best.take(scene.part, &sums);
            }
            best
        };
        let threads: Vec<_> = (0..2 * allowed.len())
            .map(|_| {
                let given = Arc::clone(&given);
                scope.spawn(move || rank(given))
            })
            .collect();
        let mut handed = 0;
        for taken in 0..all {
            while handed < all && handed < taken + IN_FLIGHT * allowed.len() {
                let tell = tell.clone();
                let outside = Outside::new(move || tell.send(()).expect("the receiver waits"));
                let (place, turn) = (handed % scenes.len(), handed % allowed.len());
                let block = Scan { scene: Arc::clone(&scenes[place]), sums: Some(Vec::new()) };
                // Resident data is computed on its device.
                match scenes[0].way {
                    Way::Gathered => blocks.submit(block, outside),
                    _ => blocks.submit_to(block, allowed[turn], outside),
                }
                handed += 1;
            }
            told.recv().expect("a block comes back");
            let (block, result) = blocks.take().expect("it has");
            result.expect("the device works");
            give.send(block).expect("the threads are there");
        }
        drop(give);
        let mut all = Best::new(queries, k);
        threads.into_iter().for_each(|thread| all.merge(&thread.join().expect("nobody panics")));
        all
    });
    (begun.elapsed().as_secs_f64(), best)
}

/// One thread that gathers, sends, launches, waits and ranks, for all devices.
struct Naive {
    lanes: Vec<Lane>,
}

/// A device's queue and buffers.
struct Lane {
    queue: CommandQueue,
    kernel: Kernel,
    arguments: &'static [(&'static str, Argument)],
    /// By name; columns and sums among them.
    buffers: BTreeMap<&'static str, Buffer<u32>>,
    /// The columns of each part, and its tiles and pieces.
    parts: BTreeMap<u64, [Buffer<u32>; 3]>,
    staging: Vec<(Buffer<u32>, &'static mut [f32])>,
    context: Context,
    under_way: Option<(u64, Event)>,
}

impl Naive {
    fn new(devices: &Arc<Devices>, allowed: &[usize], scene: &Scene) -> Self {
        let platforms = opencl3::platform::get_platforms().expect("a driver");
        let of = |platform: &opencl3::platform::Platform| {
            platform.get_devices(CL_DEVICE_TYPE_ALL).unwrap_or_default()
        };
        let found: Vec<Device> = platforms.iter().flat_map(of).map(Device::new).collect();
        assert_eq!(found.len(), devices.list().len(), "the same devices");
        let lanes = allowed.iter().map(|idx| Lane::new(&found[*idx], scene)).collect();
        Self { lanes }
    }

    /// Computes this many blocks: the seconds, and the results.
    fn run(&mut self, scenes: &[Arc<Scene>], all: usize, k: usize) -> (f64, Best) {
        let mut best = Best::new(scenes[0].queries(), k);
        let begun = Instant::now();
        let count = self.lanes.len();
        for nth in 0..all + count {
            let lane = &mut self.lanes[nth % count];
            lane.take(scenes, &mut best);
            if nth < all {
                lane.begin(&scenes[nth % scenes.len()]);
            }
        }
        (begun.elapsed().as_secs_f64(), best)
    }
}

/// Kernels are launched, and buffers read and written, with checked arguments; nothing is touched meanwhile.
#[expect(unsafe_code, reason = "the calls of OpenCL")]
impl Lane {
    fn new(device: &Device, scene: &Scene) -> Self {
        let context = Context::from_device(device).expect("a context");
        // SAFETY: the device is the context's.
        let queue = unsafe { CommandQueue::create(&context, device.id(), CL_QUEUE_PROFILING_ENABLE) }
            .expect("a queue");
        let source = &scene.program;
        let program = Program::create_and_build_from_source(&context, source.text, &source.options())
            .expect("it compiles");
        let kernel = Kernel::create(&program, "sqfd").expect("the kernel");
        let spec = source.kernels.iter().find(|kernel| kernel.name == "sqfd").expect("its table");
        let mut lane = Self {
            queue,
            kernel,
            arguments: spec.arguments,
            buffers: BTreeMap::new(),
            parts: BTreeMap::new(),
            staging: Vec::new(),
            context,
            under_way: None,
        };
        let words = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<u32>>();
        for (name, numbers) in [
            ("rows", words(&scene.rows)),
            ("row_offsets", scene.row_offsets.clone()),
            ("centres", words(&scene.centres)),
        ] {
            let buffer = lane.filled(&numbers);
            lane.buffers.insert(name, buffer);
        }
        let (columns, sums) =
            ((DIMENSIONS + 1) * scene.stride(), scene.layout.pieces.len() * scene.queries());
        for (name, len) in [("columns", columns), ("sums", sums)] {
            let buffer = lane.buffer(len, CL_MEM_READ_WRITE);
            lane.buffers.insert(name, buffer);
            // Data in both directions passes through pinned memory.
            let buffer = lane.buffer(len, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR);
            let mut at = std::ptr::null_mut();
            // SAFETY: mapped for good; the slice is this lane's, and the buffer is kept beside it.
            let numbers = unsafe {
                lane.queue.enqueue_map_buffer(&buffer, CL_TRUE, 3, 0, 4 * len, &mut at, &[]).expect("a map");
                std::slice::from_raw_parts_mut(at.cast::<f32>(), len)
            };
            numbers.fill(0.0);
            lane.staging.push((buffer, numbers));
        }
        lane
    }

    fn buffer(&self, len: usize, flags: u64) -> Buffer<u32> {
        // SAFETY: no memory of the host's is lent.
        unsafe { Buffer::create(&self.context, flags, len, std::ptr::null_mut()) }.expect("device memory")
    }

    fn filled(&self, numbers: &[u32]) -> Buffer<u32> {
        let mut buffer = self.buffer(numbers.len(), CL_MEM_READ_WRITE);
        // SAFETY: the call returns when the numbers are there.
        unsafe { self.queue.enqueue_write_buffer(&mut buffer, CL_TRUE, 0, numbers, &[]) }.expect("a write");
        buffer
    }

    /// Gathers a block, and enqueues its work.
    fn begin(&mut self, scene: &Scene) {
        let stride = scene.stride();
        if !self.parts.contains_key(&scene.part) {
            let of = |tiles: &[[u32; 4]]| self.filled(tiles.as_flattened());
            let (tiles, pieces) = (of(&scene.layout.tiles), of(&scene.layout.pieces));
            let columns = match scene.way {
                Way::Resident => {
                    let mut columns = vec![0.0f32; (DIMENSIONS + 1) * stride];
                    columns.chunks_exact_mut(stride).enumerate().for_each(|(d, to)| scene.fill(d, to));
                    self.filled(&columns.iter().map(|number| number.to_bits()).collect::<Vec<u32>>())
                }
                _ => self.buffer(1, CL_MEM_READ_WRITE),
            };
            self.parts.insert(scene.part, [columns, tiles, pieces]);
        }
        if scene.way != Way::Resident {
            let (_, numbers) = &mut self.staging[0];
            numbers.chunks_exact_mut(stride).enumerate().for_each(|(d, to)| scene.fill(d, to));
            let columns = self.buffers.get_mut("columns").expect("it was made");
            // SAFETY: `f32` and `u32` are four bytes each; the staging memory is left alone until the block is taken.
            unsafe {
                let words = std::slice::from_raw_parts(numbers.as_ptr().cast::<u32>(), numbers.len());
                self.queue.enqueue_write_buffer(columns, CL_FALSE, 0, words, &[]).expect("a write");
            }
        }
        let values = scene.values();
        let [columns, tiles, pieces] = &self.parts[&scene.part];
        for (idx, (name, _)) in self.arguments.iter().enumerate() {
            let idx = idx as u32;
            // SAFETY: each has the type that the kernel's table declares.
            let set = unsafe {
                match values.iter().find(|(given, _)| given == name) {
                    Some((_, value)) => match value.local_bytes() {
                        Some(bytes) => self.kernel.set_arg_local_buffer(idx, bytes),
                        None => {
                            self.kernel.set_arg(idx, value.bytes().first_chunk::<4>().expect("four bytes"))
                        }
                    },
                    None => {
                        let buffer: cl_mem = match *name {
                            "columns" if scene.way == Way::Resident => columns.get(),
                            "tiles" => tiles.get(),
                            "pieces" => pieces.get(),
                            other => self.buffers[other].get(),
                        };
                        self.kernel.set_arg(idx, &buffer)
                    }
                }
            };
            set.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let items = [scene.layout.tiles.len() * scene.queries() * scene.shape.items()];
        let group = [scene.shape.items()];
        let (_, numbers) = &mut self.staging[1];
        // SAFETY: the arguments are set; the staging memory is left alone until the block is taken.
        let event = unsafe {
            let (kernel, null) = (self.kernel.get(), std::ptr::null());
            self.queue
                .enqueue_nd_range_kernel(kernel, 1, null, items.as_ptr(), group.as_ptr(), &[])
                .expect("a launch");
            let words = std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast::<u32>(), numbers.len());
            self.queue.enqueue_read_buffer(&self.buffers["sums"], CL_FALSE, 0, words, &[]).expect("a read")
        };
        self.queue.flush().expect("a flush");
        self.under_way = Some((scene.part, event));
    }

    /// Waits for the block under way, and ranks its results.
    fn take(&mut self, scenes: &[Arc<Scene>], best: &mut Best) {
        let Some((part, event)) = self.under_way.take() else { return };
        event.wait().expect("the device works");
        let sums = scenes[part as usize].layout.pieces.len() * scenes[0].queries();
        best.take(part, &self.staging[1].1[..sums]);
    }
}
