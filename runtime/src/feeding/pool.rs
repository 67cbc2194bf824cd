//! The feeding pool: the queue of blocks, and the threads that feed end points from it.
//!
//! Invariants: a submitted block ends exactly once. It never waits for a retired device, because the thread that retires a
//! device checks all waiting blocks. It never waits for a device that leaves it to another one: whenever a block is taken or
//! a rate changes, the devices that have left a block to others decide again. It never waits longer than the limit for a device that does not answer: the device is
//! retired then. The feeding thread keeps the memory to which such a device may still write until the device has ended; if
//! the thread ends first, the memory is never freed.

mod feeder;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use self::feeder::Feeder;
use super::block::Block;
use super::device::Device;
use super::direct_statistics::DirectStatistics;
use super::driver::{DeviceClass, Driver};
use super::error::{DeviceError, NoDevices};
use super::fill_once::HoldsBack;
use super::opencl::OpenCl;
use super::options::Options;
use super::pinned::PinBudget;
use super::resident::{Access, Turn};
use super::share::Rates;
use super::survey::find;
use crate::outside::Lend;

/// A block of any type.
pub(super) trait Work: Send {
    fn block(&self) -> &dyn Block;
    fn block_mut(&mut self) -> &mut dyn Block;
    fn end(self: Box<Self>, result: Result<(), DeviceError>);
    /// The scheduler that leaves cores to the threads that work for the block, if there is one.
    fn lender(&self) -> Option<Arc<dyn Lend>> {
        None
    }
}

/// A block in the queue, and the devices that it may go to.
struct Queued {
    work: Box<dyn Work>,
    allowed: Arc<[usize]>,
    /// Devices that have failed it.
    failed: Vec<usize>,
    /// Its turns with the residents that it uses.
    turns: Vec<Turn>,
    /// The part that it needs on a device, while another thread brings it there.
    held_back: Option<(usize, Arc<dyn HoldsBack>)>,
    /// The last error.
    error: Option<DeviceError>,
}

/// The statistics of a device so far.
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
    /// The part of that time that gathering took, in nanoseconds.
    pub gather_ns: u64,
    /// Bytes that were gathered and sent.
    pub gathered_bytes: u64,
    /// The commands of threads that drive the device themselves, as the factorisation of a matrix does.
    pub direct: DirectStatistics,
}

struct State {
    waiting: VecDeque<Queued>,
    /// By feeding thread: lanes whose commands have ended, the number of the flight, and the driver's status.
    ended: Vec<Vec<(Place, u64, i32)>>,
    /// By device.
    statistics: Vec<DeviceStatistics>,
    /// By device: the time of each kernel, in nanoseconds.
    kernels: Vec<BTreeMap<&'static str, u64>>,
    rates: Vec<Rates>,
    /// Feeding threads that are left, by device.
    threads: Vec<usize>,
    warnings: Vec<String>,
    /// Whether a device has left a block to faster ones since the threads were last woken for that.
    has_declined: bool,
    closing: bool,
}

/// An end point of a feeding thread, and a lane of it.
type Place = (usize, usize);

/// The devices and the queue, as feeding threads share them.
struct Pool {
    devices: Vec<Arc<Device>>,
    /// The most threads that gather for one block.
    gatherers: usize,
    shared: Arc<Shared>,
}

/// The queue that submitters, feeding threads and the driver's threads share. It does not own the devices, because a thread
/// of the driver may hold it a moment longer than all others.
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    /// Wakes the threads of devices that have left a block to faster ones. What they weighed has changed: a rate, or the
    /// blocks that wait. Otherwise each device could leave the last block to the other. Threads that are to end wait for the
    /// last block too.
    fn weigh_again(&self, state: &mut State) {
        let has_declined = std::mem::take(&mut state.has_declined) && !state.waiting.is_empty();
        if has_declined || state.closing {
            self.changed.notify_all();
        }
    }
}

/// Devices and the threads that feed them. Dropping the last reference ends the threads, once the blocks that wait have come
/// back, and releases what is allocated on the devices.
pub struct Devices {
    pool: Arc<Pool>,
    options: Options,
    threads: Mutex<Option<Vec<JoinHandle<()>>>>,
}

impl Devices {
    /// All devices of all drivers.
    ///
    /// # Errors
    /// When there is none, with the reason.
    pub fn open(options: Options) -> Result<Arc<Self>, NoDevices> {
        Self::open_on(Arc::new(OpenCl), options)
    }

    pub(super) fn open_on(driver: Arc<dyn Driver>, options: Options) -> Result<Arc<Self>, NoDevices> {
        let mut devices = Vec::new();
        let mut warnings = Vec::new();
        let pinned = PinBudget::new(options.pinned_bytes);
        for (platform, handle) in find(&*driver)? {
            let opened = driver.device_info(handle).and_then(|info| {
                let (idx, pinned) = (devices.len(), Arc::clone(&pinned));
                Device::open(&driver, idx, (platform, info), handle, &options, pinned)
            });
            match opened {
                Ok(device) => devices.push(Arc::new(device)),
                Err(error) => warnings.push(format!("a device cannot be used: {error}")),
            }
        }
        if devices.is_empty() {
            return Err(NoDevices::Device);
        }
        debug_assert!(
            devices.iter().enumerate().all(|(place, device): (usize, &Arc<Device>)| device.idx() == place),
            "a device's number is not its place: another device's figures would be its own"
        );
        let count = devices.len();
        let state = State {
            waiting: VecDeque::new(),
            ended: Vec::new(),
            statistics: vec![DeviceStatistics::default(); count],
            kernels: vec![BTreeMap::new(); count],
            rates: vec![Rates::default(); count],
            threads: vec![0; count],
            warnings,
            has_declined: false,
            closing: false,
        };
        let pool = Arc::new(Pool {
            devices,
            gatherers: options.gatherers.max(1),
            shared: Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }),
        });
        Ok(Arc::new(Self { pool, options, threads: Mutex::new(None) }))
    }

    /// The devices, by their numbers.
    pub fn list(&self) -> &[Arc<Device>] {
        &self.pool.devices
    }

    /// The numbers of the GPUs.
    pub fn gpus(&self) -> Vec<usize> {
        let gpus = self.list().iter().filter(|device| device.info().class == DeviceClass::Gpu);
        gpus.map(|device| device.idx()).collect()
    }

    /// The statistics of each device so far.
    pub fn statistics(&self) -> Vec<DeviceStatistics> {
        self.pool.shared.state.lock().statistics.clone()
    }

    /// The time that each kernel has taken on a device so far, in nanoseconds, by name.
    ///
    /// # Panics
    /// When there is no such device.
    pub fn kernel_times(&self, device: usize) -> BTreeMap<&'static str, u64> {
        self.pool.shared.state.lock().kernels[device].clone()
    }

    /// The recent speed of each device with blocks of a kind (see [`Block::kind`](super::Block::kind)), in blocks'
    /// sizes a second; 0 if it has computed none.
    pub fn rates(&self, kind: &str) -> Vec<f64> {
        let state = self.pool.shared.state.lock();
        state.rates.iter().map(|rates| rates.of(kind).get()).collect()
    }

    /// The warnings for the user: each device's first failure, and its last. Each is returned once.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.pool.shared.state.lock().warnings)
    }

    /// Counts what a thread has done that drives a device itself, and whether the device failed.
    pub(super) fn count_direct(
        &self,
        device: usize,
        done: &DirectStatistics,
        kernels: &BTreeMap<&'static str, u64>,
        failure: Option<&DeviceError>,
    ) {
        let device = &self.pool.devices[device];
        {
            let state = &mut *self.pool.shared.state.lock();
            let of_device = &mut state.statistics[device.idx()];
            of_device.direct.add(done);
            of_device.kernel_ns += done.running_ns;
            for (name, ns) in kernels {
                *state.kernels[device.idx()].entry(name).or_default() += ns;
            }
        }
        let Some(error) = failure else { return device.succeeded() };
        self.pool.count_failure(device, error);
        let is_hung = matches!(error, DeviceError::Hung { .. });
        if if is_hung { device.retire() } else { device.failed() } {
            self.pool.retire(device, if is_hung { "it does not answer" } else { "it has failed too often" });
        }
    }

    /// The limit of a block's time.
    pub(super) fn limit(&self) -> std::time::Duration {
        self.options.limit
    }

    /// Queues a block. The first block starts the threads.
    pub(super) fn submit(&self, work: Box<dyn Work>, mut allowed: Arc<[usize]>) {
        debug_assert!(
            allowed.iter().all(|idx| *idx < self.list().len()),
            "a block may go to a device that is not there"
        );
        self.threads.lock().get_or_insert_with(|| self.pool.start(&self.options));
        let accesses = work.block().residents();
        if let Some(first) = accesses.first() {
            let home = first.device();
            let is_home = |access: &Access| Arc::ptr_eq(access.device(), home);
            let is_ours = self.list().get(home.idx()).is_some_and(|device| Arc::ptr_eq(device, home));
            assert!(
                is_ours && allowed.contains(&home.idx()) && accesses.iter().all(is_home),
                "the residents of a block must all be on one device that may compute it"
            );
            allowed = [home.idx()].into();
        }
        let (failed, turns) = (Vec::new(), Vec::new());
        let queued = Queued { work, allowed, failed, turns, held_back: None, error: None };
        if let Some(queued) = self.pool.put(queued, accesses) {
            self.pool.give_up(queued);
        }
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        self.pool.shared.state.lock().closing = true;
        self.pool.shared.changed.notify_all();
        let threads = self.threads.lock().take().into_iter().flatten();
        // The end of a request may drop its operators on a feeding thread, which cannot wait for itself.
        let own = std::thread::current().id();
        for thread in threads.filter(|thread| thread.thread().id() != own) {
            // A block's panics are caught; one of the thread's own was printed.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}

impl Queued {
    fn may_go_to(&self, device: &Device) -> bool {
        self.allowed.contains(&device.idx()) && !self.failed.contains(&device.idx()) && !device.is_retired()
    }

    /// Whether another thread is bringing its part to the device.
    fn is_held_back_on(&self, device: &Device) -> bool {
        let held_back = self.held_back.as_ref();
        held_back.is_some_and(|(idx, part)| *idx == device.idx() && part.is_filling())
    }

    /// Whether a device may be fed with it now.
    fn is_ready_for(&self, device: &Device) -> bool {
        self.may_go_to(device) && !self.is_held_back_on(device) && self.turns.iter().all(Turn::is_next)
    }
}

impl Pool {
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
                    let state = &mut *self.shared.state.lock();
                    state.ended.push(Vec::new());
                    state.threads[device.idx()] += 1;
                    state.ended.len() - 1
                };
                let (pool, of_thread) = (Arc::clone(self), Arc::clone(device));
                let thread = std::thread::Builder::new()
                    .name(format!("feed-{}-{number}", device.idx()))
                    .spawn(move || Feeder::new(pool, of_thread, number, limit).run(end_points));
                match thread {
                    Ok(thread) => threads.push(thread),
                    Err(error) => self.lose_thread(device, &error.to_string()),
                }
            }
        }
        threads
    }

    /// Queues a block; `accesses` are its residents if it is new. Returns the block if no device takes it.
    fn put(&self, mut queued: Queued, accesses: Vec<Access>) -> Option<Queued> {
        {
            let mut state = self.shared.state.lock();
            if !accesses.is_empty() {
                // Under the lock, so that all residents see the blocks in one order, and no two blocks wait for each other.
                queued.turns = Turn::take(accesses);
            }
            // Checked under the lock: a device that retires later finds the block in the queue.
            if !self.devices.iter().any(|device| queued.may_go_to(device)) {
                return Some(queued);
            }
            state.waiting.push_back(queued);
        }
        self.shared.changed.notify_all();
        None
    }

    /// Puts a block at the head of the queue that waits for a part which another block brings to the device.
    fn put_back(&self, mut queued: Queued, device: &Device, held_back: Arc<dyn HoldsBack>) {
        queued.held_back = Some((device.idx(), held_back));
        let left = {
            let mut state = self.shared.state.lock();
            // As in `put`: a device that retired while the block was fed did not find it in the queue.
            if self.devices.iter().any(|device| queued.may_go_to(device)) {
                state.waiting.push_front(queued);
                None
            } else {
                Some(queued)
            }
        };
        // Another device may take the block.
        self.shared.changed.notify_all();
        if let Some(queued) = left {
            self.give_up(queued);
        }
    }

    /// Wakes the feeding threads if a block waits for another one: a part was filled, or a block was fed or has come back.
    fn look_again(&self) {
        let is_any = {
            let state = self.shared.state.lock();
            state.waiting.iter().any(|queued| queued.held_back.is_some() || !queued.turns.is_empty())
        };
        if is_any {
            self.shared.changed.notify_all();
        }
    }

    /// A block goes back to its box.
    fn end(&self, queued: Queued, result: Result<(), DeviceError>) {
        let Queued { work, turns, .. } = queued;
        let has_turns = !turns.is_empty();
        // Before the box gets the block back: it may then submit blocks that use these residents.
        turns.into_iter().for_each(|turn| turn.end(result.is_ok()));
        if has_turns {
            self.look_again();
        }
        work.end(result);
    }

    /// A block that no device takes goes back to its box, which computes it in another way.
    fn give_up(&self, mut queued: Queued) {
        let error = queued.error.take().unwrap_or(DeviceError::NoneLeft);
        debug_assert!(
            !self.devices.iter().any(|device| queued.may_go_to(device)),
            "a block is given up that a device would take"
        );
        self.end(queued, Err(error));
    }

    /// A feeding thread has ended early. The last one of a device retires it.
    fn lose_thread(&self, device: &Device, reason: &str) {
        let is_last = {
            let state = &mut *self.shared.state.lock();
            debug_assert!(
                state.threads[device.idx()] > 0,
                "more feeding threads of a device ended than began"
            );
            state.threads[device.idx()] -= 1;
            state.threads[device.idx()] == 0
        };
        if is_last && device.retire() {
            self.retire(device, reason);
        }
    }

    /// Ends the use of a retired device: blocks that only it could take go back.
    fn retire(&self, device: &Device, reason: &str) {
        debug_assert!(device.is_retired(), "blocks are taken from a device that still takes some");
        let left: Vec<Queued> = {
            let state = &mut *self.shared.state.lock();
            state.warnings.push(format!(
                "device {} ({}) is not used any more: {reason}",
                device.idx(),
                device.info().name
            ));
            let is_left = |queued: &Queued| !self.devices.iter().any(|device| queued.may_go_to(device));
            let (left, waiting) = state.waiting.drain(..).partition(is_left);
            state.waiting = waiting;
            Vec::from_iter::<VecDeque<Queued>>(left)
        };
        self.shared.changed.notify_all();
        left.into_iter().for_each(|queued| self.give_up(queued));
    }

    /// Counts a failure of a device. The first failure adds a warning.
    fn count_failure(&self, device: &Device, error: &DeviceError) {
        let state = &mut *self.shared.state.lock();
        let of_device = &mut state.statistics[device.idx()];
        of_device.failures += 1;
        if of_device.failures == 1 {
            state.warnings.push(format!(
                "device {} ({}): {error}; the block is computed elsewhere, with the same result",
                device.idx(),
                device.info().name
            ));
        }
    }
}
