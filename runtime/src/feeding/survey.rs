//! The search for devices.

use super::codes::{NO_DEVICE, NO_DRIVER, NO_LOADER};
use super::driver::{Driver, Handle, PlatformInfo};
use super::error::NoDevices;

/// All devices, each with its platform. A platform that fails is skipped if another one works.
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
