//! The device manager: one device with its context, its memory and its compiled programs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

use super::binaries;
use super::driver::{DeviceClass, DeviceInfo, Driver, DriverResult, Handle, Kind, PlatformInfo};
use super::error::DeviceError;
use super::fill_once::{FillOnce, Found};
use super::memory::{Buffer, Memory, SharedKey};
use super::object::Object;
use super::options::Options;
use super::pinned::{PinBudget, Pinned};
use super::program::{Program, ProgramSource, Target};
use super::recent::Recent;

/// Failures of blocks in a row after which a device gets no more blocks.
const FAILURES_MAX: u32 = 3;

/// The most of a GPU's memory that blocks use: the rest is the driver's own.
const MEMORY_SHARE: f64 = 0.9;

/// The most of the host's memory that a device which computes there may use: the page cache needs some too.
const HOST_MEMORY_SHARE: f64 = 0.25;

type Built = Result<Arc<Program>, DeviceError>;

/// One device.
pub struct Device {
    idx: usize,
    info: DeviceInfo,
    platform: PlatformInfo,
    identity: String,
    driver: Arc<dyn Driver>,
    handle: Handle,
    context: Object,
    pub(super) memory: Memory,
    pub(super) pinned: Pinned,
    cache: Option<PathBuf>,
    /// Texts about it, by their names.
    kept: Mutex<BTreeMap<String, String>>,
    /// Programs that are kept, and kernels that each end point keeps.
    pub(super) programs_max: usize,
    programs: Mutex<Recent<(String, Arc<FillOnce<Built>>)>>,
    failures: AtomicU32,
    retired: AtomicBool,
}

impl Device {
    pub(super) fn open(
        driver: &Arc<dyn Driver>,
        idx: usize,
        (platform, info): (PlatformInfo, DeviceInfo),
        handle: Handle,
        options: &Options,
        pinned: Arc<PinBudget>,
    ) -> DriverResult<Self> {
        let context = Object::own(driver, Kind::Context, |driver| driver.context(handle))?;
        let share = if info.class == DeviceClass::Gpu { MEMORY_SHARE } else { HOST_MEMORY_SHARE };
        let most = (info.memory_bytes as f64 * share) as u64;
        let budget = options.memory_bytes.map_or(most, |bytes| bytes.min(most));
        Ok(Self {
            idx,
            identity: format!("{}\n{}\n{}\n{}", platform.version, info.name, info.driver, info.version),
            platform,
            driver: Arc::clone(driver),
            handle,
            context,
            memory: Memory::new(budget),
            pinned: Pinned::new(pinned, info.class),
            info,
            cache: options.cache.clone(),
            kept: Mutex::default(),
            programs_max: options.programs_max.max(1),
            programs: Mutex::new(Recent::new(options.programs_max.max(1))),
            failures: AtomicU32::new(0),
            retired: AtomicBool::new(false),
        })
    }

    /// Its number, as in `gpu:0` and in `boxwork devices`.
    pub fn idx(&self) -> usize {
        self.idx
    }

    /// The properties that its driver reports.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// The driver that it belongs to.
    pub fn platform(&self) -> &PlatformInfo {
        &self.platform
    }

    /// The most that may be allocated in its memory, in bytes.
    pub fn memory_budget_bytes(&self) -> u64 {
        self.memory.budget_bytes()
    }

    /// The bytes allocated in its memory now.
    pub fn memory_used_bytes(&self) -> u64 {
        self.memory.used_bytes()
    }

    /// Host memory pinned for parts that do not fit on it, in bytes.
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned.bytes()
    }

    /// Whether a part of a resource is in its memory.
    pub fn holds(&self, key: SharedKey) -> bool {
        self.memory.holds(key)
    }

    /// Whether a part of a resource is in host memory pinned for this device.
    pub fn pins(&self, key: SharedKey) -> bool {
        self.pinned.holds(key)
    }

    /// Whether it has failed so often that it gets no more blocks.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// A text about this device and its driver that [`Device::keep`] has kept, in this run or in an earlier one.
    pub fn kept(&self, name: &str) -> Option<String> {
        if let Some(text) = self.kept.lock().get(name) {
            return Some(text.clone());
        }
        let text = binaries::read(self.cache.as_deref()?, name, &self.key_of(name))?;
        let text = String::from_utf8(text).ok()?;
        self.kept.lock().insert(name.to_owned(), text.clone());
        Some(text)
    }

    /// Keeps a text about this device and its driver beside the compiled programs, for example what was measured: a name is a word. If
    /// there is no folder, or it cannot be written to, this run alone knows the text.
    pub fn keep(&self, name: &str, text: &str) {
        if let Some(folder) = &self.cache {
            let _ = binaries::write(folder, name, &self.key_of(name), text.as_bytes());
        }
        self.kept.lock().insert(name.to_owned(), text.to_owned());
    }

    fn key_of(&self, name: &str) -> String {
        format!("{}\nkept\n{name}", self.identity)
    }

    pub(super) fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    pub(super) fn context(&self) -> Handle {
        self.context.handle()
    }

    pub(super) fn queue(&self) -> DriverResult<Object> {
        let (context, device) = (self.context.handle(), self.handle);
        Object::own(&self.driver, Kind::Queue, |driver| driver.queue(context, device))
    }

    pub(super) fn buffer(&self, bytes: usize) -> Result<Buffer, DeviceError> {
        self.memory.take(&self.driver, self.context.handle(), bytes)
    }

    /// A program, compiled at its first use. A program that does not compile is not tried again.
    pub(super) fn program(&self, source: &ProgramSource) -> Built {
        let place = self.place_of(source.key());
        let filler = loop {
            match place.find() {
                Found::Empty(filler) => break filler,
                Found::Filling => place.wait(),
                Found::Filled => {
                    if let Some(built) = place.with(Built::clone) {
                        return built;
                    }
                }
            }
        };
        let target = Target {
            driver: &self.driver,
            context: self.context.handle(),
            device: self.handle,
            identity: &self.identity,
            name: &self.info.name,
            cache: self.cache.as_deref(),
        };
        debug_assert!(
            place.is_filling(),
            "a thread compiles a program that another one may compile meanwhile"
        );
        let built = Program::build(&target, source).map(Arc::new);
        if matches!(built, Ok(_) | Err(DeviceError::Build { .. } | DeviceError::Arguments { .. })) {
            filler.fill(built.clone());
        }
        built
    }

    /// The place of a program, before and after it is compiled.
    fn place_of(&self, key: String) -> Arc<FillOnce<Built>> {
        let (place, _dropped) = {
            let programs = &mut *self.programs.lock();
            if let Some((_, place)) = programs.find(|(known, _)| *known == key) {
                return Arc::clone(place);
            }
            let place = Arc::default();
            (Arc::clone(&place), programs.add((key, place)))
        };
        // The evicted program is released here, without the lock.
        place
    }

    pub(super) fn group_items_max(&self, kernel: Handle) -> DriverResult<usize> {
        self.driver.group_items_max(kernel, self.handle)
    }

    /// A block succeeded.
    pub(super) fn succeeded(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    /// A block failed. True when this retires the device.
    pub(super) fn failed(&self) -> bool {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        failures >= FAILURES_MAX && !self.retired.swap(true, Ordering::Relaxed)
    }

    /// The device takes no more blocks. True when this retires it.
    pub(super) fn retire(&self) -> bool {
        !self.retired.swap(true, Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("idx", &self.idx).field("info", &self.info).finish_non_exhaustive()
    }
}
