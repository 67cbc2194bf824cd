//! The feeding pool: the queue of blocks, and the threads that feed end points from it.
//!
//! A feeding thread sleeps until a block waits and one of its lanes is free, or a driver tells it that a lane's
//! commands have ended; such a call only notes that down and wakes it. Drivers may take their time with that (NVIDIA's
//! tells every 20 ms), so a thread that has blocks in flight also looks for itself, soon at first and then ever later.
//! Invariants: a block that was submitted ends exactly once; it never waits for a device that will not come to it, as
//! whoever retires a device looks at all that wait; nor for longer than the limit for one that does not answer, which
//! is retired then. What such a device may yet write to is kept until it has, by the feeding thread, and for good
//! where that ends first.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::device::Device;
use super::driver::{DeviceClass, Driver};
use super::end_point::{Back, EndPoint, Feed};
use super::error::{DeviceError, NoDevices};
use super::gather::Gatherers;
use super::opencl::OpenCl;
use super::program::cache_folder;
use super::share::{Rate, takes};
use super::survey::find;
use crate::operator::Lend;
use crate::prepare::panic_message;

/// How devices are used.
#[derive(Clone, Debug)]
pub struct Options {
    /// Command queues for each device.
    pub end_points: usize,
    /// Whether each end point has a thread of its own, or all of a device share one.
    pub thread_per_end_point: bool,
    /// The most memory to use on each device, in bytes; nothing means most of what it has.
    pub memory_bytes: Option<u64>,
    /// The folder where compiled programs are kept; nothing means that each run compiles anew.
    pub cache: Option<PathBuf>,
    /// Threads that gather what one block sends, at most, its feeding thread included: see [`Feed::write_in_parts`].
    pub gatherers: usize,
    /// How long a block's commands may take, from when they are enqueued or the block before it came back. A device
    /// that takes longer is held to be hung, and gets no more blocks.
    pub limit: Duration,
}

/// More than any block takes on a device that works, a slow one that others use too included.
const LIMIT: Duration = Duration::from_secs(120);

/// The limit in seconds, of the devices of the process.
const LIMIT_NAME: &str = "BOXWORK_DEVICE_SECONDS";

impl Default for Options {
    fn default() -> Self {
        Self {
            end_points: 2,
            thread_per_end_point: true,
            memory_bytes: None,
            cache: cache_folder(),
            gatherers: gatherers_of(std::thread::available_parallelism().map_or(1, usize::from)),
            limit: LIMIT,
        }
    }
}

/// Threads that gather for one block on a machine of so many cores: half of them, and eight at most. Two feeding threads are
/// rarely at it at once; where they are, the scheduler lends no more slots than there are.
fn gatherers_of(cores: usize) -> usize {
    (cores / 2).clamp(1, 8)
}

/// How soon a feeding thread looks for itself whether a block has come back, and how rarely at last: a block takes a
/// tenth of a millisecond or more, and a look a microsecond. In between it waits this part of what it has waited
/// already, so that what it adds to the time of a block is as small a part of it.
const LOOK_PAUSE_MIN: Duration = Duration::from_micros(20);
const LOOK_PAUSE_MAX: Duration = Duration::from_millis(2);
const LOOK_SHARE: u32 = 32;

/// How often it is looked whether a device that was given up has come to an end after all.
const LOST_PAUSE: Duration = Duration::from_millis(100);

/// A block, whatever its type.
pub(super) trait Work: Send {
    fn size(&self) -> u64;
    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError>;
    fn collect(&mut self, back: &Back<'_>);
    fn end(self: Box<Self>, result: Result<(), DeviceError>);
    /// Who leaves cores to the threads that work for the block, where they are some scheduler's.
    fn lender(&self) -> Option<Arc<dyn Lend>> {
        None
    }
}

/// A block and where it may go.
struct Parcel {
    work: Box<dyn Work>,
    allowed: Arc<[usize]>,
    /// Devices that have failed it.
    failed: Vec<usize>,
    /// What the last of them said.
    error: Option<DeviceError>,
}

/// What a device has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceStatistics {
    /// Blocks that came back with results.
    pub blocks: u64,
    /// Their sizes.
    pub size: u64,
    /// Blocks that failed.
    pub failures: u64,
    /// Time that kernels took on the device, in nanoseconds.
    pub kernel_ns: u64,
    /// Time that feeding threads took to gather and to enqueue, in nanoseconds.
    pub feed_ns: u64,
    /// Of it, the time to gather what was sent, and how many bytes that was.
    pub gather_ns: u64,
    /// Bytes that were sent.
    pub gathered_bytes: u64,
    /// What was computed in a second, lately.
    pub rate: f64,
}

struct State {
    waiting: VecDeque<Parcel>,
    /// By feeding thread: lanes whose commands have ended, the number of the flight, and the driver's word.
    ended: Vec<Vec<(Place, u64, i32)>>,
    /// By device.
    statistics: Vec<DeviceStatistics>,
    rates: Vec<Rate>,
    /// Feeding threads that are left, by device.
    threads: Vec<usize>,
    warnings: Vec<String>,
    closing: bool,
}

/// An end point of a feeding thread, and a lane of it.
type Place = (usize, usize);

struct Hall {
    devices: Vec<Arc<Device>>,
    /// Threads that gather for one block, at most.
    gatherers: usize,
    desk: Arc<Desk>,
}

/// Where everybody meets. Apart from the devices, as a driver's thread may hold it a moment longer than all others.
struct Desk {
    state: Mutex<State>,
    changed: Condvar,
}

/// The devices of a process, or of a test, and the threads that feed them.
pub struct Devices {
    hall: Arc<Hall>,
    options: Options,
    threads: Mutex<Option<Vec<JoinHandle<()>>>>,
}

static OF_PROCESS: OnceLock<Result<Arc<Devices>, NoDevices>> = OnceLock::new();

impl Devices {
    /// All devices of all drivers.
    ///
    /// # Errors
    /// When there is none, with the reason.
    pub fn open(options: Options) -> Result<Arc<Self>, NoDevices> {
        Self::open_on(Arc::new(OpenCl), options)
    }

    /// The devices that all pipelines of this process share, opened when they are first asked for.
    ///
    /// # Errors
    /// As [`Devices::open`].
    pub fn of_process() -> Result<Arc<Self>, NoDevices> {
        let open = || {
            let given = std::env::var(LIMIT_NAME).ok();
            let (limit, warning) = limit_of(given.as_deref());
            let devices = Self::open(Options { limit, ..Options::default() })?;
            devices.hall.desk.state.lock().warnings.extend(warning);
            Ok(devices)
        };
        OF_PROCESS.get_or_init(open).clone()
    }

    /// As [`Devices::take_warnings`], of the process's devices; opens none.
    pub fn warnings_of_process() -> Vec<String> {
        let opened = OF_PROCESS.get().and_then(|opened| opened.as_ref().ok());
        opened.map(|devices| devices.take_warnings()).unwrap_or_default()
    }

    pub(super) fn open_on(driver: Arc<dyn Driver>, options: Options) -> Result<Arc<Self>, NoDevices> {
        let mut devices = Vec::new();
        let mut warnings = Vec::new();
        for (platform, handle) in find(&*driver)? {
            let opened = driver.device_info(handle).and_then(|info| {
                let (idx, cache) = (devices.len(), options.cache.clone());
                Device::open(&driver, idx, (platform, info), handle, options.memory_bytes, cache)
            });
            match opened {
                Ok(device) => devices.push(Arc::new(device)),
                Err(error) => warnings.push(format!("a device cannot be used: {error}")),
            }
        }
        if devices.is_empty() {
            return Err(NoDevices::Device);
        }
        let count = devices.len();
        let state = State {
            waiting: VecDeque::new(),
            ended: Vec::new(),
            statistics: vec![DeviceStatistics::default(); count],
            rates: vec![Rate::default(); count],
            threads: vec![0; count],
            warnings,
            closing: false,
        };
        let hall = Arc::new(Hall {
            devices,
            gatherers: options.gatherers.max(1),
            desk: Arc::new(Desk { state: Mutex::new(state), changed: Condvar::new() }),
        });
        Ok(Arc::new(Self { hall, options, threads: Mutex::new(None) }))
    }

    /// The devices, by their numbers.
    pub fn list(&self) -> &[Arc<Device>] {
        &self.hall.devices
    }

    /// The numbers of the devices that are more than the cores of this machine.
    pub fn gpus(&self) -> Vec<usize> {
        let gpus = self.list().iter().filter(|device| device.info().class == DeviceClass::Gpu);
        gpus.map(|device| device.idx()).collect()
    }

    /// What each device has done so far.
    pub fn statistics(&self) -> Vec<DeviceStatistics> {
        let state = self.hall.desk.state.lock();
        let with_rate = |(of_device, rate): (&DeviceStatistics, &Rate)| DeviceStatistics {
            rate: rate.get(),
            ..*of_device
        };
        state.statistics.iter().zip(&state.rates).map(with_rate).collect()
    }

    /// What the person who runs this should be told: each device's first failure, and its last. Each is given once.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.hall.desk.state.lock().warnings)
    }

    /// Takes a block in. The threads are started with the first.
    pub(super) fn submit(&self, work: Box<dyn Work>, allowed: Arc<[usize]>) {
        self.threads.lock().get_or_insert_with(|| self.hall.start(&self.options));
        let parcel = Parcel { work, allowed, failed: Vec::new(), error: None };
        if let Some(parcel) = self.hall.put(parcel) {
            parcel.give_up();
        }
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        self.hall.desk.state.lock().closing = true;
        self.hall.desk.changed.notify_all();
        let threads = self.threads.lock().take().into_iter().flatten();
        // The end of a request may drop its operators on a feeding thread, which cannot wait for itself.
        let own = std::thread::current().id();
        for thread in threads.filter(|thread| thread.thread().id() != own) {
            // A block's panics are caught; one of the thread's own was printed.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Devices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}

impl Parcel {
    fn may_go_to(&self, device: &Device) -> bool {
        self.allowed.contains(&device.idx()) && !self.failed.contains(&device.idx()) && !device.is_retired()
    }

    /// It goes back to its box, which computes it in another way.
    fn give_up(self) {
        self.work.end(Err(self.error.unwrap_or(DeviceError::NoneLeft)));
    }
}

impl Hall {
    /// Starts the feeding threads. A device for which the system refuses all of them is retired.
    fn start(self: &Arc<Self>, options: &Options) -> Vec<JoinHandle<()>> {
        let (mut threads, limit) = (Vec::new(), options.limit);
        for device in &self.devices {
            let (count, end_points) = match options.thread_per_end_point {
                true => (options.end_points.max(1), 1),
                false => (1, options.end_points.max(1)),
            };
            for _ in 0..count {
                let number = {
                    let state = &mut *self.desk.state.lock();
                    state.ended.push(Vec::new());
                    state.threads[device.idx()] += 1;
                    state.ended.len() - 1
                };
                let (hall, of_thread) = (Arc::clone(self), Arc::clone(device));
                let thread = std::thread::Builder::new()
                    .name(format!("feed-{}-{number}", device.idx()))
                    .spawn(move || Feeder::new(hall, of_thread, number, limit).run(end_points));
                match thread {
                    Ok(thread) => threads.push(thread),
                    Err(error) => self.lose_thread(device, &error.to_string()),
                }
            }
        }
        threads
    }

    /// Queues a block; it comes back where no device takes it.
    fn put(&self, parcel: Parcel) -> Option<Parcel> {
        {
            let mut state = self.desk.state.lock();
            // Looked at under the lock: a device that retires later finds the block in the queue.
            if !self.devices.iter().any(|device| parcel.may_go_to(device)) {
                return Some(parcel);
            }
            state.waiting.push_back(parcel);
        }
        self.desk.changed.notify_all();
        None
    }

    /// A feeding thread has ended early. The last one of a device retires it.
    fn lose_thread(&self, device: &Device, reason: &str) {
        let is_last = {
            let state = &mut *self.desk.state.lock();
            state.threads[device.idx()] -= 1;
            state.threads[device.idx()] == 0
        };
        if is_last && device.retire() {
            self.retire(device, reason);
        }
    }

    /// A device takes no more blocks: those that only it would have taken go back.
    fn retire(&self, device: &Device, reason: &str) {
        let left: Vec<Parcel> = {
            let state = &mut *self.desk.state.lock();
            state.warnings.push(format!(
                "device {} ({}) is not used any more: {reason}",
                device.idx(),
                device.info().name
            ));
            let is_left = |parcel: &Parcel| !self.devices.iter().any(|device| parcel.may_go_to(device));
            let (left, waiting) = state.waiting.drain(..).partition(is_left);
            state.waiting = waiting;
            Vec::from_iter::<VecDeque<Parcel>>(left)
        };
        self.desk.changed.notify_all();
        left.into_iter().for_each(Parcel::give_up);
    }

    /// Counts a failure of a device, and says it once.
    fn count_failure(&self, device: &Device, error: &DeviceError) {
        let state = &mut *self.desk.state.lock();
        let of_device = &mut state.statistics[device.idx()];
        of_device.failures += 1;
        if of_device.failures == 1 {
            state.warnings.push(format!(
                "device {} ({}): {error}; what it was to compute is computed elsewhere, with the same result",
                device.idx(),
                device.info().name
            ));
        }
    }
}

/// A block in flight.
struct Flight {
    /// Counted by its feeding thread.
    number: u64,
    parcel: Parcel,
    begun: Instant,
    /// When all its commands were enqueued.
    fed: Instant,
}

/// What a feeding thread does next.
enum Next {
    Collect(Place, i32),
    Feed(Parcel, Place),
    /// The blocks of an end point that do not come back.
    GiveUp(usize),
    /// A look at what was given up.
    Recover,
    End,
}

/// One feeding thread.
struct Feeder {
    hall: Arc<Hall>,
    device: Arc<Device>,
    number: usize,
    end_points: Vec<EndPoint>,
    flights: HashMap<Place, Flight>,
    flights_count: u64,
    /// When the last block came back: blocks overlap, and each counts from there.
    last_back: Option<Instant>,
    /// The same by end point.
    heard: Vec<Option<Instant>>,
    limit: Duration,
}

impl Feeder {
    fn new(hall: Arc<Hall>, device: Arc<Device>, number: usize, limit: Duration) -> Self {
        Self {
            hall,
            device,
            number,
            end_points: Vec::new(),
            flights: HashMap::new(),
            flights_count: 0,
            last_back: None,
            heard: Vec::new(),
            limit,
        }
    }

    fn run(mut self, end_points: usize) {
        for _ in 0..end_points {
            match EndPoint::new(&self.device, self.limit) {
                Ok(end_point) => {
                    self.end_points.push(end_point);
                    self.heard.push(None);
                }
                Err(error) => {
                    self.hall.count_failure(&self.device, &error);
                    if self.end_points.is_empty() {
                        return self.hall.lose_thread(&self.device, &error.to_string());
                    }
                    break;
                }
            }
        }
        loop {
            match self.next() {
                Next::Collect(place, status) => self.collect(place, status),
                Next::Feed(parcel, place) => self.feed(parcel, place),
                Next::GiveUp(end_point) => self.give_up(end_point),
                Next::Recover => self.end_points.iter_mut().for_each(EndPoint::recover),
                Next::End => break,
            }
        }
        self.end_points.into_iter().for_each(EndPoint::close);
    }

    /// Waits for something to do.
    fn next(&self) -> Next {
        let desk = &*self.hall.desk;
        let mut state = desk.state.lock();
        let begun = Instant::now();
        loop {
            while let Some((place, flight, status)) = state.ended[self.number].pop() {
                // It may have been seen before it was told.
                if self.flights.get(&place).is_some_and(|found| found.number == flight) {
                    return Next::Collect(place, status);
                }
            }
            if state.closing && self.flights.is_empty() && state.waiting.is_empty() {
                return Next::End;
            }
            let lane = self.end_points.iter().enumerate();
            let lane = lane.filter_map(|(idx, end_point)| Some((idx, end_point.free_lane()?))).next();
            if let Some(place) = lane
                && let Some(at) = self.choose(&state)
                && let Some(parcel) = state.waiting.remove(at)
            {
                return Next::Feed(parcel, place);
            }
            if self.flights.is_empty() {
                if !self.end_points.iter().any(EndPoint::is_lost) {
                    desk.changed.wait(&mut state);
                } else if desk.changed.wait_for(&mut state, LOST_PAUSE).timed_out() {
                    return Next::Recover;
                }
            } else if desk
                .changed
                .wait_for(&mut state, (begun.elapsed() / LOOK_SHARE).clamp(LOOK_PAUSE_MIN, LOOK_PAUSE_MAX))
                .timed_out()
            {
                if let Some((place, status)) = self.look() {
                    return Next::Collect(place, status);
                }
                if let Some(end_point) = self.overdue() {
                    return Next::GiveUp(end_point);
                }
            }
        }
    }

    /// An end point whose blocks should have come back.
    fn overdue(&self) -> Option<usize> {
        let now = Instant::now();
        self.flights.iter().find_map(|((end_point, _), flight)| {
            let from = self.heard[*end_point].map_or(flight.fed, |heard| heard.max(flight.fed));
            (now.duration_since(from) >= self.limit).then_some(*end_point)
        })
    }

    /// A lane whose commands have ended, though the driver has not told yet.
    fn look(&self) -> Option<(Place, i32)> {
        self.flights.keys().find_map(|place| Some((*place, self.end_points[place.0].status(place.1)?)))
    }

    /// The first block that waits for this device, if it should take one.
    fn choose(&self, state: &State) -> Option<usize> {
        let at = state.waiting.iter().position(|parcel| parcel.may_go_to(&self.device))?;
        let parcel = &state.waiting[at];
        let others: Vec<Rate> = self
            .hall
            .devices
            .iter()
            .filter(|device| device.idx() != self.device.idx() && parcel.may_go_to(device))
            .map(|device| state.rates[device.idx()])
            .collect();
        let waiting = state.waiting.iter().map(|parcel| parcel.work.size()).sum();
        takes(parcel.work.size(), state.rates[self.device.idx()], waiting, &others).then_some(at)
    }

    fn feed(&mut self, mut parcel: Parcel, place: Place) {
        let begun = Instant::now();
        let (desk, number) = (Arc::clone(&self.hall.desk), self.number);
        self.flights_count += 1;
        let flight = self.flights_count;
        let told = Box::new(move |status| {
            desk.state.lock().ended[number].push((place, flight, status));
            desk.changed.notify_all();
        });
        let lender = parcel.work.lender();
        let computing = lender.as_ref().and_then(|lender| lender.withhold());
        let gatherers = Gatherers { most: self.hall.gatherers, lender };
        let work = &mut parcel.work;
        let guarded = |feed: &mut Feed<'_>| {
            catch_unwind(AssertUnwindSafe(|| work.feed(feed)))
                .unwrap_or_else(|cause| Err(DeviceError::Panicked(panic_message(cause.as_ref()))))
        };
        let fed = self.end_points[place.0].feed(place.1, gatherers, guarded, told);
        drop(computing);
        let (feed_ns, gathered) =
            (begun.elapsed().as_nanos() as u64, self.end_points[place.0].take_gathered());
        {
            let state = &mut *self.hall.desk.state.lock();
            let of_device = &mut state.statistics[self.device.idx()];
            of_device.feed_ns += feed_ns;
            of_device.gathered_bytes += gathered.bytes;
            of_device.gather_ns += gathered.ns;
        }
        match fed {
            Ok(()) => drop(
                self.flights.insert(place, Flight { number: flight, parcel, begun, fed: Instant::now() }),
            ),
            Err(error) => {
                self.judge(place.0);
                self.fail(parcel, error);
            }
        }
    }

    fn collect(&mut self, place: Place, status: i32) {
        let Some(Flight { mut parcel, begun, .. }) = self.flights.remove(&place) else {
            unreachable!("a lane's commands ended twice")
        };
        let computing = parcel.work.lender().and_then(|lender| lender.withhold());
        let work = &mut parcel.work;
        let collected = self.end_points[place.0].collect(place.1, status, |back| {
            catch_unwind(AssertUnwindSafe(|| work.collect(back)))
                .map(|()| back.kernel_ns())
                .map_err(|cause| DeviceError::Panicked(panic_message(cause.as_ref())))
        });
        drop(computing);
        self.heard[place.0] = Some(Instant::now());
        match collected.and_then(|collected| collected) {
            Ok(kernel_ns) => {
                self.device.succeeded();
                let from = self.last_back.map_or(begun, |last| last.max(begun));
                let now = Instant::now();
                self.last_back = Some(now);
                let size = parcel.work.size();
                {
                    let state = &mut *self.hall.desk.state.lock();
                    let of_device = &mut state.statistics[self.device.idx()];
                    of_device.blocks += 1;
                    of_device.size += size;
                    of_device.kernel_ns += kernel_ns;
                    state.rates[self.device.idx()].measure(size, now.duration_since(from).as_secs_f64());
                }
                parcel.work.end(Ok(()));
            }
            Err(error) => {
                self.judge(place.0);
                self.fail(parcel, error);
            }
        }
    }

    /// The blocks of an end point do not come back: they go elsewhere, and nothing of it is touched any more.
    fn give_up(&mut self, end_point: usize) {
        let places: Vec<Place> = self.flights.keys().filter(|place| place.0 == end_point).copied().collect();
        for (_, lane) in &places {
            self.end_points[end_point].lose(*lane);
        }
        self.judge(end_point);
        for place in places {
            let Some(Flight { mut parcel, .. }) = self.flights.remove(&place) else { continue };
            self.hall.desk.state.lock().statistics[self.device.idx()].failures += 1;
            parcel.failed.push(self.device.idx());
            parcel.error = Some(self.hung());
            if let Some(parcel) = self.hall.put(parcel) {
                parcel.give_up();
            }
        }
    }

    fn hung(&self) -> DeviceError {
        DeviceError::Hung { seconds: self.limit.as_secs_f64() }
    }

    /// A device of which an end point is lost gets no more blocks.
    fn judge(&self, end_point: usize) {
        if self.end_points[end_point].is_lost() && self.device.retire() {
            let reason = format!("{}; it is computed elsewhere, with the same result", self.hung());
            self.hall.retire(&self.device, &reason);
        }
    }

    /// A block did not work here: it goes to the other devices, or back.
    fn fail(&self, mut parcel: Parcel, error: DeviceError) {
        if error.is_of_device() {
            self.hall.count_failure(&self.device, &error);
            if self.device.failed() {
                self.hall.retire(&self.device, "it has failed too often");
            }
            parcel.failed.push(self.device.idx());
            parcel.error = Some(error);
            if let Some(parcel) = self.hall.put(parcel) {
                parcel.give_up();
            }
        } else {
            parcel.work.end(Err(error));
        }
    }
}

/// The limit that a person has set, or the usual one and what is wrong with the one that is set.
fn limit_of(given: Option<&str>) -> (Duration, Option<String>) {
    let Some(given) = given else { return (LIMIT, None) };
    let limit = given.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match limit.filter(|limit| !limit.is_zero()) {
        Some(limit) => (limit, None),
        None => {
            let usual = LIMIT.as_secs();
            (LIMIT, Some(format!("{LIMIT_NAME}={given} is no number of seconds above 0; {usual} are taken")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_of_seconds() {
        assert_eq!(limit_of(None), (LIMIT, None));
        assert_eq!(limit_of(Some("2.5")), (Duration::from_millis(2500), None));
        for wrong in ["", "soon", "0", "-1", "NaN", "1e300"] {
            let (limit, warning) = limit_of(Some(wrong));
            assert_eq!(limit, LIMIT);
            assert!(warning.is_some_and(|warning| warning.contains("seconds above 0")), "{wrong}");
        }
    }
}
