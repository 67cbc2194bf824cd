//! The devices of one owner, opened when somebody first asks for them.
//!
//! A runtime owns them ([`Config::devices`](crate::Config::devices)), and its
//! boxes come to them by [`Bind::pick_devices`](crate::operator::Bind::pick_devices). Two runtimes have devices of their own unless they are given the same
//! value. When the last owner drops it, its threads end and all that was allocated on the devices is released. Only
//! success is remembered: an owner that finds no device finds one that is plugged in later.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::driver::Driver;
use super::error::NoDevices;
use super::opencl::OpenCl;
use super::options::Options;
use super::pool::{DeviceStatistics, Devices};

/// Devices that are opened at their first use.
pub struct LazyDevices {
    /// The driver to open them on; nothing where there are none to be had.
    driver: Option<Arc<dyn Driver>>,
    options: Options,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    opened: Option<Arc<Devices>>,
    /// The fault of the options.
    warnings: Vec<String>,
}

impl LazyDevices {
    /// All devices of all drivers, used in this way.
    pub fn new(options: Options) -> Self {
        Self::on(Arc::new(OpenCl), options)
    }

    /// All devices of all drivers, used as the environment says: `BOXWORK_DEVICE_SECONDS`, `BOXWORK_DEVICE_MB` and
    /// `BOXWORK_PINNED_MB`.
    pub fn of_environment() -> Self {
        let (options, warnings) = Options::of_environment(|name| std::env::var(name).ok());
        let devices = Self::new(options);
        devices.state.lock().warnings = warnings;
        devices
    }

    /// No devices: whoever asks is told that there are none here.
    pub fn none() -> Self {
        Self { driver: None, options: Options::default(), state: Mutex::default() }
    }

    pub(super) fn on(driver: Arc<dyn Driver>, options: Options) -> Self {
        Self { driver: Some(driver), options, state: Mutex::default() }
    }

    /// The devices; opens them at the first call.
    ///
    /// # Errors
    /// When there is none, with the reason. The next call looks again.
    pub fn open(&self) -> Result<Arc<Devices>, NoDevices> {
        // Held while they are opened: a second caller could only open them a second time.
        let state = &mut *self.state.lock();
        if let Some(devices) = &state.opened {
            return Ok(Arc::clone(devices));
        }
        let driver = self.driver.as_ref().ok_or(NoDevices::NotHere)?;
        let devices = Devices::open_on(Arc::clone(driver), self.options.clone())?;
        debug_assert!(!devices.list().is_empty(), "devices were opened, and there is none");
        Ok(Arc::clone(state.opened.insert(devices)))
    }

    /// The devices, where they were opened.
    pub fn opened(&self) -> Option<Arc<Devices>> {
        self.state.lock().opened.clone()
    }

    /// The warnings for the user: see [`Devices::take_warnings`]. Opens no device.
    pub fn take_warnings(&self) -> Vec<String> {
        let (mut warnings, opened) = {
            let state = &mut *self.state.lock();
            // Options that nobody has used need no warning.
            match &state.opened {
                None => return Vec::new(),
                Some(opened) => (std::mem::take(&mut state.warnings), Arc::clone(opened)),
            }
        };
        warnings.extend(opened.take_warnings());
        warnings
    }

    /// The statistics of each device that has computed anything, with its number and name. Opens no device.
    pub fn statistics(&self) -> Vec<(String, DeviceStatistics)> {
        let Some(devices) = self.opened() else { return Vec::new() };
        let names = devices.list().iter().map(|device| format!("{} ({})", device.idx(), device.info().name));
        let all = names.zip(devices.statistics());
        all.filter(|(_, of_device)| of_device.blocks + of_device.failures > 0).collect()
    }
}

impl Default for LazyDevices {
    /// Used as the environment says.
    fn default() -> Self {
        Self::of_environment()
    }
}

impl From<Arc<Devices>> for LazyDevices {
    /// Devices that are open already.
    fn from(devices: Arc<Devices>) -> Self {
        let state = State { opened: Some(devices), ..State::default() };
        Self { state: Mutex::new(state), ..Self::none() }
    }
}

impl fmt::Debug for LazyDevices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyDevices").field("opened", &self.opened()).finish_non_exhaustive()
    }
}
