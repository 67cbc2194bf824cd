//! What devices there are, for people: found without opening any.

use std::sync::Arc;

use super::driver::{DeviceInfo, Driver, DriverError, Handle, PlatformInfo};
use super::error::NoDevices;
use super::opencl::{NO_DEVICE, NO_DRIVER, NO_LOADER, OpenCl};

/// A driver and its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// What it tells of itself.
    pub info: PlatformInfo,
    /// What it tells of each device, in the order of their numbers.
    pub devices: Vec<Result<DeviceInfo, DriverError>>,
}

/// All drivers and their devices.
///
/// # Errors
/// When there is none, with the reason.
pub fn survey() -> Result<Vec<Platform>, NoDevices> {
    let driver: Arc<dyn Driver> = Arc::new(OpenCl);
    let mut platforms: Vec<Platform> = Vec::new();
    let mut last = None;
    for (info, handle) in find(&*driver)? {
        let device = driver.device_info(handle);
        // Devices of one platform follow each other.
        if last.as_ref() != Some(&info) {
            platforms.push(Platform { info: info.clone(), devices: Vec::new() });
            last = Some(info);
        }
        if let Some(platform) = platforms.last_mut() {
            platform.devices.push(device);
        }
    }
    Ok(platforms)
}

/// All devices, each with its platform. A platform that fails is passed over as long as another one works.
pub(super) fn find(driver: &dyn Driver) -> Result<Vec<(PlatformInfo, Handle)>, NoDevices> {
    let platforms = driver.platforms().map_err(|error| match error.code {
        NO_LOADER => NoDevices::Loader,
        NO_DRIVER => NoDevices::Driver,
        _ => NoDevices::Failed(error),
    })?;
    if platforms.is_empty() {
        return Err(NoDevices::Driver);
    }
    let (mut found, mut failure) = (Vec::new(), None);
    for platform in platforms {
        let devices = driver.platform_info(platform).and_then(|info| Ok((info, driver.devices(platform)?)));
        match devices {
            Ok((info, devices)) => found.extend(devices.into_iter().map(|device| (info.clone(), device))),
            Err(error) if error.code == NO_DEVICE => {}
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        _ if !found.is_empty() => Ok(found),
        Some(error) => Err(NoDevices::Failed(error)),
        None => Err(NoDevices::Device),
    }
}
