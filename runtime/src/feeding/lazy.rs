//! The devices of one owner, opened at the first request for them.
//!
//! A runtime owns them ([`Config::devices`](crate::Config::devices)), and its boxes come to them by
//! [`Bind::pick_devices`](crate::operator::Bind::pick_devices). Two runtimes share devices only if both get one value.
//! When the last owner drops it, its threads end and all memory on the devices is released. Only success is remembered:
//! a later call can find a device that was plugged in since.

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
    /// The driver to open them on; nothing if there are none.
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
    /// All devices of all drivers, with these options.
    pub fn new(options: Options) -> Self {
        Self::on(Arc::new(OpenCl), options)
    }

    /// All devices of all drivers, with the options of the environment: `BOXWORK_DEVICE_SECONDS`, `BOXWORK_DEVICE_MB`
    /// and `BOXWORK_PINNED_MB`.
    pub fn of_environment() -> Self {
        let (options, warnings) = Options::of_environment(|name| std::env::var(name).ok());
        let devices = Self::new(options);
        devices.state.lock().warnings = warnings;
        devices
    }

    /// No devices: every call returns [`NoDevices::NotHere`].
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
        // Held while they are opened, so that a second caller does not open them again.
        let state = &mut *self.state.lock();
        if let Some(devices) = &state.opened {
            return Ok(Arc::clone(devices));
        }
        let driver = self.driver.as_ref().ok_or(NoDevices::NotHere)?;
        let devices = Devices::open_on(Arc::clone(driver), self.options.clone())?;
        debug_assert!(!devices.list().is_empty(), "devices were opened, and there is none");
        Ok(Arc::clone(state.opened.insert(devices)))
    }

    /// The devices, if they are open.
    pub fn opened(&self) -> Option<Arc<Devices>> {
        self.state.lock().opened.clone()
    }

    /// The warnings for the user: see [`Devices::take_warnings`]. Opens no device.
    pub fn take_warnings(&self) -> Vec<String> {
        let (mut warnings, opened) = {
            let state = &mut *self.state.lock();
            // Unused options need no warning.
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
        all.filter(|(_, of_device)| of_device.blocks + of_device.failures + of_device.direct.launches > 0)
            .collect()
    }
}

impl Default for LazyDevices {
    /// As [`LazyDevices::of_environment`].
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
