//! `what=cholesky together=auto,300`: a factor by a device, by slots, and by both together, as a share of the sum of their rates.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use boxwork_kernels::cholesky::device::{TILE, Units};
use boxwork_kernels::cholesky::{Blocked, Factorisation, Packed, TileKernels, TiledMatrix};
use boxwork_kernels::covariance::{Expression, Points};
use boxwork_operators::cholesky;
use boxwork_operators::factor::{
    Choices, DeviceMatrix, DeviceNumber, DeviceSlots, Slots, fits_with_slots, rates, share,
};
use boxwork_runtime::feeding::{DeviceClass, Devices};
use boxwork_runtime::inside::Inside;
use boxwork_runtime::operator::{
    BoxError, Catalog, Context, Environment, Flow, Kind, Operator, OperatorEntry,
};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};

use super::dense::{ADDED, KERNEL, World, compare_rows, figures, head};
use super::support::{Arguments, verdict};

/// The ratio to the sum that is wanted of a GPU that shares the host's memory.
const WANTED: f64 = 0.9;

/// Work within a firing; it gives its seconds.
type Job = Box<dyn FnOnce(&mut Inside<'_>) -> f64 + Send>;

/// The next job, and the seconds of the last one.
#[derive(Default)]
struct Work {
    job: Option<Job>,
    seconds: f64,
}

struct Works(Arc<Mutex<Work>>);

impl Operator for Works {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let mut work = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(job) = work.job.take() else { return Err(BoxError::new("no job was given")) };
        work.seconds = cx.inside(job);
        Ok(Flow::Done)
    }
}

/// A runtime with one box that does jobs.
struct OnSlots {
    runtime: Runtime,
    prepared: Arc<Prepared>,
    work: Arc<Mutex<Work>>,
}

impl OnSlots {
    fn new(count: usize) -> Self {
        let work = Arc::new(Mutex::new(Work::default()));
        let of_box = Arc::clone(&work);
        let operator = OperatorEntry::new("works", "Does a job.", Kind::Stateful, move |_| {
            Ok(Box::new(Works(Arc::clone(&of_box))))
        });
        let text = "boxwork: 1\nboxes:\n  w: {kind: works}\n";
        let loaded = boxwork::pipeline::load_text("works", text).unwrap_or_else(|flaws| panic!("{flaws:?}"));
        let (values, environment) = (BTreeMap::<String, Value>::new(), Environment::of_slots(count));
        let catalog = Catalog::new([], []).with(operator);
        let prepared = Prepared::new(&loaded.declaration, &catalog, &values, &environment);
        let prepared = Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")));
        let runtime = Runtime::start(Config::flat(count)).expect("the system gives threads");
        Self { runtime, prepared, work }
    }

    fn seconds(&self, job: Job) -> f64 {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).job = Some(job);
        let request = self.runtime.submit(&self.prepared, &Submission::default()).expect("the values fit");
        request.wait().result.unwrap_or_else(|error| panic!("{error}"));
        self.work.lock().unwrap_or_else(PoisonError::into_inner).seconds
    }
}

/// The points of a matrix, its covariance and its devices.
#[derive(Clone)]
struct Case {
    devices: Arc<Devices>,
    places: Vec<usize>,
    points: Arc<Points>,
    expression: Arc<Expression>,
    choices: Choices,
    is_mapped: bool,
}

impl Case {
    fn n(&self) -> usize {
        self.points.len()
    }

    fn zeros<T: DeviceNumber>(&self) -> Packed<T> {
        Packed::zeros(self.n().div_ceil(TILE), TILE)
    }

    fn opened<T: DeviceNumber>(&self, choices: Choices) -> DeviceMatrix<T> {
        DeviceMatrix::open(&self.devices, &self.places, self.n(), choices).expect("a matrix")
    }

    /// The seconds of devices from the points to a factor on the host, and the factor.
    fn on_devices<T: DeviceNumber>(&self) -> (f64, TiledMatrix<T>) {
        let (mut matrix, mut tiles) = (self.opened::<T>(self.choices), self.zeros());
        let begun = Instant::now();
        let is_lent = self.is_mapped && matrix.is_whole();
        if is_lent {
            matrix.lend(tiles).expect("lent");
            tiles = Packed::zeros(0, TILE);
        } else {
            matrix.allocate().expect("room on the device");
        }
        matrix.fill(&self.expression, &self.points, ADDED).expect("filled");
        matrix.factor(&|| false).expect("a factor");
        if is_lent {
            tiles = matrix.take_back().expect("the factor");
        } else {
            matrix.read(tiles.numbers_mut()).expect("the factor");
        }
        (begun.elapsed().as_secs_f64(), TiledMatrix::of_packed(self.n(), TILE, tiles))
    }

    /// The seconds of slots alone.
    fn on_slots<T: DeviceNumber>(&self, slots: &OnSlots) -> (f64, TiledMatrix<T>)
    where
        Blocked: TileKernels<T>,
    {
        let tiles = Arc::new(TiledMatrix::of_packed(self.n(), TILE, self.zeros::<T>()));
        let (of_job, case) = (Arc::clone(&tiles), self.clone());
        let seconds = slots.seconds(Box::new(move |inside| {
            let begun = Instant::now();
            let fill = |i: usize, j: usize, tile: &mut [T]| {
                let mut wide = vec![0.0; tile.len()];
                case.expression.tile(&case.points, TILE, (i, j), ADDED, &mut wide);
                tile.iter_mut().zip(wide).for_each(|(to, x)| *to = T::of(x));
            };
            let work = Factorisation::filled(&of_job, Blocked, &fill);
            cholesky::run(inside, &work, None).expect("a factor");
            begun.elapsed().as_secs_f64()
        }));
        (seconds, Arc::into_inner(tiles).expect("the job is done"))
    }

    /// The seconds of both, with the columns of slots, the counts of commands, and the factor.
    fn together<T: DeviceNumber>(&self, slots: &OnSlots, share: usize) -> (f64, String, TiledMatrix<T>) {
        let tiles = Arc::new(TiledMatrix::of_packed(self.n(), TILE, self.zeros::<T>()));
        let said = Arc::new(Mutex::new(String::new()));
        let (of_job, case, to_say) = (Arc::clone(&tiles), self.clone(), Arc::clone(&said));
        let seconds = slots.seconds(Box::new(move |inside| {
            let mut matrix = case.opened::<T>(Choices { slots: share, ..case.choices });
            let mut pieces = |count: usize, f: &(dyn Fn(usize) + Sync)| {
                inside.for_each_chunk(count, 1, |range| range.for_each(f));
                true
            };
            let begun = Instant::now();
            let covariances = Some((&*case.expression, &*case.points, ADDED));
            matrix.factor_with_slots(&of_job, covariances, &mut pieces).expect("a factor");
            let seconds = begun.elapsed().as_secs_f64();
            let columns = matrix.columns_of_slots();
            *to_say.lock().unwrap_or_else(PoisonError::into_inner) =
                format!("slots took {columns} of {} columns; {}", case.n(), matrix.statistics());
            seconds
        }));
        let said = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (seconds, said, Arc::into_inner(tiles).expect("the job is done"))
    }
}

/// The shares of slots that are asked for, in thousandths; none for the one by measured rates.
fn shares(arguments: &Arguments) -> Vec<Option<usize>> {
    let of = |text: &str| match text {
        "auto" => None,
        _ => Some(text.parse().unwrap_or_else(|_| panic!("together={text} is neither auto nor thousandths"))),
    };
    arguments.text("together").unwrap_or("auto").split(',').map(of).collect()
}

pub(super) fn run(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let (mut world, shares) = (World::new(arguments, devices, device), shares(arguments));
    head(
        "how fast is a Cholesky factor by a device and slots together?",
        "GFLOP/s by the wall clock, n^3 / 3 operations, from points to a factor on the host",
    );
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = arguments.get("workers", cores);
    let slots = OnSlots::new(workers);
    if world.devices.list()[world.device].info().class == DeviceClass::Cpu {
        println!(
            "note        this device computes on the cores of the slots, so the sum of both means little"
        );
    }
    world.each(|world, n, precision, units| match precision {
        "f64" => each::<f64>(world, &slots, workers, (n, precision, units), &shares),
        _ => each::<f32>(world, &slots, workers, (n, precision, units), &shares),
    });
}

fn each<T: DeviceNumber + Default>(
    world: &World<'_>,
    slots: &OnSlots,
    workers: usize,
    (n, precision, units): (usize, &str, Option<Units>),
    shares: &[Option<usize>],
) where
    Blocked: TileKernels<T>,
{
    if let Err(reason) = fits_with_slots::<T>(world.devices, &world.places, n) {
        return println!("            n={n}: NOT MEASURED: {reason}");
    }
    let case = Case {
        devices: Arc::clone(world.devices),
        places: world.places.clone(),
        points: Arc::new(world.points(n)),
        expression: Arc::new(KERNEL.parse().expect("a covariance")),
        choices: Choices { block: world.blocks[0], units, ..Choices::default() },
        is_mapped: world.memories[0] == "map",
    };
    if let Some(rates) = rates::<T>(world.devices, world.device) {
        let giga = |rate: f64| rate / 1e9;
        println!(
            "products    {precision}: device {:.1} GFLOP/s, a slot {:.1}",
            giga(rates.device),
            giga(rates.slot)
        );
    }
    let check = |tiles: &TiledMatrix<T>| {
        let row = |i: usize| Ok((0..=i).flat_map(|j| tiles.read(i, j).to_vec()).collect());
        compare_rows::<T>(n, row, &case.expression, &case.points);
    };
    for wanted in shares {
        let measured = Slots { choice: DeviceSlots::Always, count: workers };
        let share = wanted.unwrap_or_else(|| share::<T>(world.devices, &world.places, n, measured));
        if !case.opened::<T>(Choices { slots: share, ..case.choices }).is_with_slots() {
            println!("together    n={n} {precision}: slots take no block of {share} thousandths");
            continue;
        }
        let (mut alone, mut of_slots, mut both, mut said) =
            (Vec::new(), Vec::new(), Vec::new(), String::new());
        for round in 0..=world.rounds {
            let (device, slot) = (case.on_devices::<T>(), case.on_slots::<T>(slots));
            let (seconds, of_round, tiles) = case.together::<T>(slots, share);
            if round == 0 {
                [&device.1, &slot.1, &tiles].into_iter().for_each(check);
                continue;
            }
            alone.push(device.0);
            of_slots.push(slot.0);
            both.push(seconds);
            said = of_round;
        }
        let rate = |seconds: &[f64]| (n as f64).powi(3) / 3.0 / figures(seconds).0 / 1e9;
        let (device, slot, both) = (rate(&alone), rate(&of_slots), rate(&both));
        let of_sum = both / (device + slot);
        println!(
            "together    n={n} {precision} share={share}: device {device:.1} GFLOP/s, {workers} slots {slot:.1}, both {both:.1}: {of_sum:.2} of the sum"
        );
        println!("commands    {said}");
        let info = world.devices.list()[world.device].info();
        if info.class == DeviceClass::Gpu && info.shares_memory {
            verdict("device and slots, of the sum", of_sum, WANTED, of_sum >= WANTED);
        }
    }
}
