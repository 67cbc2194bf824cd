//! Drivers that fail, for tests: each call of the driver is counted, and a test can make any call fail.
//!
//! A fault replaces the call. The driver's live objects are counted too, so that a test can show that nothing leaks. A
//! test can make blocks hang: their commands end, and the driver does not report it until [`Faulty::let_go`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::driver::{
    ArgumentInfo, DeviceInfo, Driver, DriverError, DriverResult, Handle, Kind, OnComplete, PlatformInfo, Set,
    Use,
};
use super::error::NoDevices;
use super::launch::Grid;
use super::lazy::LazyDevices;
use super::opencl::OpenCl;
use super::options::Options;
use super::pool::Devices;
use super::survey::find;

/// The answer to a call that was chosen to fail: CL_OUT_OF_RESOURCES, which may mean anything.
const INJECTED: i32 = -5;
const BUILD_FAILURE: i32 = -11;
const OUT_OF_MEMORY: i32 = -4;

/// Handles of made-up devices, above the system's handles, which are addresses.
const MADE_UP: usize = usize::MAX - 64;

/// Whether a test can have a device. Otherwise this prints that the test is skipped, and panics if
/// `BOXWORK_REQUIRE_OPENCL=1`.
///
/// # Panics
/// When there is no device and one is required.
pub fn has_device(test: &str) -> bool {
    let Err(reason) = find(&OpenCl) else { return true };
    let required = std::env::var_os("BOXWORK_REQUIRE_OPENCL").is_some_and(|value| value == "1");
    assert!(!required, "{test} needs an OpenCL device: {reason}");
    // Directly to standard error: the test harness hides the output of a test that passes.
    let _ = writeln!(std::io::stderr(), "NOT TESTED: {test}: {reason}");
    false
}

/// The calls that fail.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The call that fails, counted from 1; 0 for none. Questions for the status of a command are not counted: how many
    /// there are depends on the time that commands take.
    pub call: u64,
    /// The question for the status of a command that fails, counted from 1; 0 for none.
    pub question: u64,
    /// Whether all later calls and questions fail too: a device that is lost.
    pub for_good: bool,
    /// The device whose compiler refuses every program.
    pub compiles_not_on: Option<usize>,
    /// The largest buffer that there is memory for.
    pub buffer_bytes_max: Option<usize>,
    /// The number of devices as which the first one appears; 0 leaves all as they are.
    pub appears_as: usize,
    /// The compute capability that the devices report in place of their own.
    pub compute_capability: Option<(u32, u32)>,
    /// Whether the devices say that they have no atomic additions of 64 bits.
    pub lacks_wide_atomics: bool,
    /// Blocks that do not end before [`Faulty::let_go`], counted from 1 in the order of sending. Everything enqueued
    /// behind them hangs too.
    pub hangs: Range<u64>,
}

/// The time after which a wait for a hanging queue fails, so that a test ends.
const HUNG_WAIT: Duration = Duration::from_secs(20);

/// The system's driver with faults.
pub struct Faulty {
    driver: OpenCl,
    plan: Plan,
    calls: AtomicU64,
    questions: AtomicU64,
    /// The first device, if it appears as several.
    real: Mutex<Option<Handle>>,
    live: Mutex<BTreeMap<Kind, i64>>,
    blocks: AtomicU64,
    /// The queue of each event, if blocks may hang.
    queues: Mutex<HashMap<Handle, Handle>>,
    hung: Mutex<Hung>,
}

#[derive(Default)]
struct Hung {
    queues: HashSet<Handle>,
    /// The callbacks to call in the end.
    waiting: Vec<(Handle, OnComplete)>,
}

impl Faulty {
    fn new(plan: Plan) -> Arc<Self> {
        Arc::new(Self {
            driver: OpenCl,
            plan,
            calls: AtomicU64::new(0),
            questions: AtomicU64::new(0),
            real: Mutex::default(),
            live: Mutex::default(),
            blocks: AtomicU64::new(0),
            queues: Mutex::default(),
            hung: Mutex::default(),
        })
    }

    /// The system's devices with these faults.
    ///
    /// # Errors
    /// When there are none, also because of such a fault.
    pub fn devices(plan: Plan, options: Options) -> (Arc<Self>, Result<Arc<Devices>, NoDevices>) {
        let faulty = Self::new(plan);
        let devices = Devices::open_on(Arc::clone(&faulty) as Arc<dyn Driver>, options);
        (faulty, devices)
    }

    /// The system's devices with these faults, opened at the first use.
    pub fn lazy_devices(plan: Plan, options: Options) -> (Arc<Self>, LazyDevices) {
        let faulty = Self::new(plan);
        let devices = LazyDevices::on(Arc::clone(&faulty) as Arc<dyn Driver>, options);
        (faulty, devices)
    }

    /// Calls so far, without questions for the status of a command.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Whether the call or the question that fails has come.
    pub fn has_failed(&self) -> bool {
        let has_come = |planned: u64, so_far: u64| planned > 0 && so_far >= planned;
        has_come(self.plan.call, self.calls())
            || has_come(self.plan.question, self.questions.load(Ordering::SeqCst))
    }

    /// Blocks that hang.
    pub fn hung(&self) -> usize {
        self.hung.lock().waiting.len()
    }

    /// Lets all hanging blocks end.
    pub fn let_go(&self) {
        let Hung { waiting, .. } = std::mem::take(&mut *self.hung.lock());
        for (event, f) in waiting {
            // If the driver refuses the callback, the feeding thread finds the block by polling.
            let _ = self.driver.on_complete(event, f);
        }
    }

    /// Notes the queue of an event.
    fn enqueued(&self, queue: Handle, made: DriverResult<Handle>) -> DriverResult<Handle> {
        if let (Ok(event), false) = (&made, self.plan.hangs.is_empty()) {
            self.queues.lock().insert(*event, queue);
        }
        self.made(Kind::Event, made)
    }

    fn hangs(&self, event: Handle) -> bool {
        let queue = self.queues.lock().get(&event).copied();
        queue.is_some_and(|queue| self.hung.lock().queues.contains(&queue))
    }

    /// Objects that were made and not released, by kind.
    pub fn left(&self) -> Vec<(String, i64)> {
        let live = self.live.lock();
        live.iter()
            .filter(|(_, count)| **count != 0)
            .map(|(kind, count)| (format!("{kind:?}"), *count))
            .collect()
    }

    fn call(&self, name: &'static str) -> DriverResult<()> {
        self.count(&self.calls, self.plan.call, name)
    }

    /// Counts a call or a question, and fails if it is the one that is planned.
    fn count(&self, counter: &AtomicU64, planned: u64, name: &'static str) -> DriverResult<()> {
        let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
        let fails = number == planned || (self.plan.for_good && self.has_failed());
        if fails { Err(DriverError { call: name, code: INJECTED }) } else { Ok(()) }
    }

    fn made(&self, kind: Kind, made: DriverResult<Handle>) -> DriverResult<Handle> {
        if made.is_ok() {
            *self.live.lock().entry(kind).or_default() += 1;
        }
        made
    }

    /// The system's handle of a device.
    fn of_device(&self, device: Handle) -> Handle {
        if device.0 >= MADE_UP { self.real.lock().unwrap_or(device) } else { device }
    }
}

impl Driver for Faulty {
    fn platforms(&self) -> DriverResult<Vec<Handle>> {
        self.call("clGetPlatformIDs")?;
        self.driver.platforms()
    }

    fn platform_info(&self, platform: Handle) -> DriverResult<PlatformInfo> {
        self.call("clGetPlatformInfo")?;
        self.driver.platform_info(platform)
    }

    fn devices(&self, platform: Handle) -> DriverResult<Vec<Handle>> {
        self.call("clGetDeviceIDs")?;
        let devices = self.driver.devices(platform)?;
        if self.plan.appears_as == 0 {
            return Ok(devices);
        }
        *self.real.lock() = devices.first().copied();
        Ok((0..self.plan.appears_as).map(|idx| Handle(MADE_UP + idx)).collect())
    }

    fn device_info(&self, device: Handle) -> DriverResult<DeviceInfo> {
        self.call("clGetDeviceInfo")?;
        let info = self.driver.device_info(self.of_device(device))?;
        let compute_capability = self.plan.compute_capability.or(info.compute_capability);
        let has_wide_atomics = info.has_wide_atomics && !self.plan.lacks_wide_atomics;
        Ok(DeviceInfo { compute_capability, has_wide_atomics, ..info })
    }

    fn context(&self, device: Handle) -> DriverResult<Handle> {
        self.call("clCreateContext")?;
        self.made(Kind::Context, self.driver.context(self.of_device(device)))
    }

    fn queue(&self, context: Handle, device: Handle) -> DriverResult<Handle> {
        self.call("clCreateCommandQueue")?;
        self.made(Kind::Queue, self.driver.queue(context, self.of_device(device)))
    }

    fn program_of_source(&self, context: Handle, source: &str) -> DriverResult<Handle> {
        self.call("clCreateProgramWithSource")?;
        self.made(Kind::Program, self.driver.program_of_source(context, source))
    }

    fn program_of_binary(&self, context: Handle, device: Handle, binary: &[u8]) -> DriverResult<Handle> {
        self.call("clCreateProgramWithBinary")?;
        let device = self.of_device(device);
        self.made(Kind::Program, self.driver.program_of_binary(context, device, binary))
    }

    fn build(&self, program: Handle, device: Handle, options: &str) -> DriverResult<()> {
        self.call("clBuildProgram")?;
        if self.plan.compiles_not_on.is_some_and(|idx| device.0 == MADE_UP + idx) {
            return Err(DriverError { call: "clBuildProgram", code: BUILD_FAILURE });
        }
        self.driver.build(program, self.of_device(device), options)
    }

    fn build_log(&self, program: Handle, device: Handle) -> DriverResult<String> {
        self.call("clGetProgramBuildInfo")?;
        if self.plan.compiles_not_on.is_some_and(|idx| device.0 == MADE_UP + idx) {
            return Ok("this compiler was made to refuse".to_owned());
        }
        self.driver.build_log(program, self.of_device(device))
    }

    fn binary(&self, program: Handle) -> DriverResult<Vec<u8>> {
        self.call("clGetProgramInfo")?;
        self.driver.binary(program)
    }

    fn kernel(&self, program: Handle, name: &str) -> DriverResult<Handle> {
        self.call("clCreateKernel")?;
        self.made(Kind::Kernel, self.driver.kernel(program, name))
    }

    fn arguments(&self, kernel: Handle) -> DriverResult<Vec<ArgumentInfo>> {
        self.call("clGetKernelArgInfo")?;
        self.driver.arguments(kernel)
    }

    fn group_items_max(&self, kernel: Handle, device: Handle) -> DriverResult<usize> {
        self.call("clGetKernelWorkGroupInfo")?;
        self.driver.group_items_max(kernel, self.of_device(device))
    }

    fn set(&self, kernel: Handle, idx: u32, value: Set<'_>) -> DriverResult<()> {
        self.call("clSetKernelArg")?;
        self.driver.set(kernel, idx, value)
    }

    fn buffer(&self, context: Handle, bytes: usize, buffer_use: Use) -> DriverResult<Handle> {
        self.call("clCreateBuffer")?;
        if self.plan.buffer_bytes_max.is_some_and(|most| bytes > most) {
            return Err(DriverError { call: "clCreateBuffer", code: OUT_OF_MEMORY });
        }
        self.made(Kind::Buffer, self.driver.buffer(context, bytes, buffer_use))
    }

    #[expect(unsafe_code, reason = "handed on")]
    unsafe fn buffer_over(&self, context: Handle, at: *mut u8, bytes: usize) -> DriverResult<Handle> {
        self.call("clCreateBuffer")?;
        // SAFETY: the caller's contract.
        self.made(Kind::Buffer, unsafe { self.driver.buffer_over(context, at, bytes) })
    }

    fn map(&self, queue: Handle, buffer: Handle, bytes: usize) -> DriverResult<*mut u8> {
        self.call("clEnqueueMapBuffer")?;
        self.driver.map(queue, buffer, bytes)
    }

    fn unmap(&self, queue: Handle, buffer: Handle, at: *mut u8) -> DriverResult<()> {
        self.call("clEnqueueUnmapMemObject")?;
        self.driver.unmap(queue, buffer, at)
    }

    #[expect(unsafe_code, reason = "handed on")]
    unsafe fn write(
        &self,
        queue: Handle,
        to: (Handle, usize),
        from: *const u8,
        bytes: usize,
        after: &[Handle],
    ) -> DriverResult<Handle> {
        self.call("clEnqueueWriteBuffer")?;
        // SAFETY: the caller's contract.
        self.enqueued(queue, unsafe { self.driver.write(queue, to, from, bytes, after) })
    }

    #[expect(unsafe_code, reason = "handed on")]
    unsafe fn read(
        &self,
        queue: Handle,
        from: (Handle, usize),
        to: *mut u8,
        bytes: usize,
        after: &[Handle],
    ) -> DriverResult<Handle> {
        self.call("clEnqueueReadBuffer")?;
        // SAFETY: the caller's contract.
        self.enqueued(queue, unsafe { self.driver.read(queue, from, to, bytes, after) })
    }

    fn launch(&self, queue: Handle, kernel: Handle, grid: &Grid, after: &[Handle]) -> DriverResult<Handle> {
        self.call("clEnqueueNDRangeKernel")?;
        self.enqueued(queue, self.driver.launch(queue, kernel, grid, after))
    }

    fn flush(&self, queue: Handle) -> DriverResult<()> {
        self.call("clFlush")?;
        self.driver.flush(queue)
    }

    fn finish(&self, queue: Handle) -> DriverResult<()> {
        self.call("clFinish")?;
        let begun = Instant::now();
        while self.hung.lock().queues.contains(&queue) {
            if begun.elapsed() > HUNG_WAIT {
                return Err(DriverError { call: "clFinish", code: INJECTED });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.driver.finish(queue)
    }

    fn on_complete(&self, event: Handle, f: OnComplete) -> DriverResult<()> {
        self.call("clSetEventCallback")?;
        let block = self.blocks.fetch_add(1, Ordering::SeqCst) + 1;
        if self.plan.hangs.contains(&block)
            && let Some(queue) = self.queues.lock().get(&event)
        {
            self.hung.lock().queues.insert(*queue);
        }
        if self.hangs(event) {
            self.hung.lock().waiting.push((event, f));
            return Ok(());
        }
        self.driver.on_complete(event, f)
    }

    fn status(&self, event: Handle) -> DriverResult<Option<i32>> {
        self.count(&self.questions, self.plan.question, "clGetEventInfo")?;
        if self.hangs(event) { Ok(None) } else { self.driver.status(event) }
    }

    fn times(&self, event: Handle) -> DriverResult<(u64, u64)> {
        self.call("clGetEventProfilingInfo")?;
        self.driver.times(event)
    }

    fn sent(&self, event: Handle) -> DriverResult<(u64, u64)> {
        self.call("clGetEventProfilingInfo")?;
        self.driver.sent(event)
    }

    fn release(&self, kind: Kind, handle: Handle) -> DriverResult<()> {
        // A failed release counts as a release: the caller does not use the object again.
        {
            let mut live = self.live.lock();
            let count = live.entry(kind).or_default();
            *count -= 1;
            assert!(*count >= 0, "a {kind:?} is released twice");
        }
        let injected = self.call("clRelease");
        // The driver still releases the object, because other tests of this process use this driver.
        self.driver.release(kind, handle).and(injected)
    }
}
