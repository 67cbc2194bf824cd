//! The driver that feeding needs: the calls of OpenCL that it uses, one method each.
//!
//! `opencl.rs` makes them; `faults.rs` wraps it and makes them fail. Invariant: a [`Handle`] comes from the driver that
//! it is given to, and [`Object`](super::object::Object) releases each once, after its last use.

use std::fmt;

use super::launch::Grid;

/// An object of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Handle(pub(super) usize);

/// The kind of object behind a handle that must be released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Context,
    Queue,
    Buffer,
    Program,
    Kernel,
    Event,
}

/// A call of the driver that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed: {} ({code})", super::codes::code_name(*code))]
pub struct DriverError {
    /// The call, as OpenCL names it.
    pub call: &'static str,
    /// OpenCL's error code; negative.
    pub code: i32,
}

impl DriverError {
    /// Whether the device had no memory left, so that another try after freeing some may do.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        super::codes::OUT_OF_MEMORY.contains(&self.code)
    }
}

pub(crate) type DriverResult<T> = Result<T, DriverError>;

/// A platform: one vendor's driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlatformInfo {
    /// Its name.
    pub name: String,
    /// The version of OpenCL that it offers, in its own words.
    pub version: String,
}

/// The class of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceClass {
    /// Cores that this process computes on anyway.
    #[default]
    Cpu,
    /// A GPU, or another accelerator.
    Gpu,
}

impl fmt::Display for DeviceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "CPU",
            Self::Gpu => "GPU",
        })
    }
}

/// The properties of a device, as its driver reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its name.
    pub name: String,
    /// The vendor.
    pub vendor: String,
    /// The version of its driver.
    pub driver: String,
    /// The version of OpenCL that it offers, in its own words.
    pub version: String,
    /// The class.
    pub class: DeviceClass,
    /// Multiprocessors, or cores.
    pub compute_units: u32,
    /// The highest clock, in MHz.
    pub clock_mhz: u32,
    /// Its memory.
    pub memory_bytes: u64,
    /// The largest buffer.
    pub buffer_bytes_max: u64,
    /// Memory that a work group shares.
    pub local_bytes: u64,
    /// The most work items in a group.
    pub group_items_max: usize,
    /// Whether it has numbers of 64 bits.
    pub has_doubles: bool,
    /// Whether kernels add to numbers of 64 bits atomically.
    pub has_wide_atomics: bool,
    /// Whether its memory is the host's: nothing must be copied.
    pub shares_memory: bool,
    /// The compute capability (major, minor) of an NVIDIA device.
    pub compute_capability: Option<(u32, u32)>,
}

/// How a kernel takes an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// A buffer.
    Global,
    /// Local memory by size.
    Local,
    /// A value.
    Private,
}

/// The compiler's description of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArgumentInfo {
    pub(crate) name: String,
    pub(crate) type_name: String,
    pub(crate) space: Space,
}

/// The value of an argument.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Set<'a> {
    Buffer(Handle),
    Value(&'a [u8]),
    Local(usize),
}

/// How the host uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// On the device only; the host reads and writes by commands.
    Device,
    /// Host memory that the device copies from and to without a detour.
    Staging,
}

/// Called with the status of a command when it has ended: 0, or the error code.
pub(crate) type OnComplete = Box<dyn FnOnce(i32) + Send>;

/// The calls. A call that returns an event's handle only enqueues a command, which begins when the commands `after`
/// have ended, and fails when one of them has failed.
pub(crate) trait Driver: Send + Sync {
    fn platforms(&self) -> DriverResult<Vec<Handle>>;
    fn platform_info(&self, platform: Handle) -> DriverResult<PlatformInfo>;
    fn devices(&self, platform: Handle) -> DriverResult<Vec<Handle>>;
    fn device_info(&self, device: Handle) -> DriverResult<DeviceInfo>;
    fn context(&self, device: Handle) -> DriverResult<Handle>;
    fn queue(&self, context: Handle, device: Handle) -> DriverResult<Handle>;
    fn program_of_source(&self, context: Handle, source: &str) -> DriverResult<Handle>;
    fn program_of_binary(&self, context: Handle, device: Handle, binary: &[u8]) -> DriverResult<Handle>;
    fn build(&self, program: Handle, device: Handle, options: &str) -> DriverResult<()>;
    fn build_log(&self, program: Handle, device: Handle) -> DriverResult<String>;
    fn binary(&self, program: Handle) -> DriverResult<Vec<u8>>;
    fn kernel(&self, program: Handle, name: &str) -> DriverResult<Handle>;
    fn arguments(&self, kernel: Handle) -> DriverResult<Vec<ArgumentInfo>>;
    fn group_items_max(&self, kernel: Handle, device: Handle) -> DriverResult<usize>;
    fn set(&self, kernel: Handle, idx: u32, value: Set<'_>) -> DriverResult<()>;
    fn buffer(&self, context: Handle, bytes: usize, buffer_use: Use) -> DriverResult<Handle>;
    /// Maps a staging buffer: its address in the host's memory, until it is unmapped.
    fn map(&self, queue: Handle, buffer: Handle, bytes: usize) -> DriverResult<*mut u8>;
    fn unmap(&self, queue: Handle, buffer: Handle, at: *mut u8) -> DriverResult<()>;
    /// A buffer over memory of the host, in which a device that shares the memory computes.
    ///
    /// # Safety
    /// Until the buffer is released and the commands that use it have ended, the memory lives, and the host uses it only while the
    /// buffer is mapped.
    #[expect(unsafe_code, reason = "the device uses the host's memory later")]
    unsafe fn buffer_over(&self, context: Handle, at: *mut u8, bytes: usize) -> DriverResult<Handle>;
    /// Copies host memory into a buffer, from a place on.
    ///
    /// # Safety
    /// `from` may be read for `bytes` until the command has ended.
    #[expect(unsafe_code, reason = "the device reads the host's memory later")]
    unsafe fn write(
        &self,
        queue: Handle,
        to: (Handle, usize),
        from: *const u8,
        bytes: usize,
        after: &[Handle],
    ) -> DriverResult<Handle>;
    /// Copies a buffer into host memory, from a place on.
    ///
    /// # Safety
    /// `to` may be written for `bytes` until the command has ended, and is not read meanwhile.
    #[expect(unsafe_code, reason = "the device writes the host's memory later")]
    unsafe fn read(
        &self,
        queue: Handle,
        from: (Handle, usize),
        to: *mut u8,
        bytes: usize,
        after: &[Handle],
    ) -> DriverResult<Handle>;
    fn launch(&self, queue: Handle, kernel: Handle, grid: &Grid, after: &[Handle]) -> DriverResult<Handle>;
    fn flush(&self, queue: Handle) -> DriverResult<()>;
    fn finish(&self, queue: Handle) -> DriverResult<()>;
    /// Asks a thread of the driver to call `f` when a command has ended. If this fails, `f` is not called.
    fn on_complete(&self, event: Handle, f: OnComplete) -> DriverResult<()>;
    /// The status with which a command has ended; nothing while it runs.
    fn status(&self, event: Handle) -> DriverResult<Option<i32>>;
    /// The times at which a command began and ended, in the device's nanoseconds.
    fn times(&self, event: Handle) -> DriverResult<(u64, u64)>;
    /// The times at which a command was enqueued and submitted to the device, on the same clock.
    fn sent(&self, event: Handle) -> DriverResult<(u64, u64)>;
    fn release(&self, kind: Kind, handle: Handle) -> DriverResult<()>;
}
