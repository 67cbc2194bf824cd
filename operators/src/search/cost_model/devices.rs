//! The rate of GPUs that compute distances.

use boxwork_runtime::feeding::{DeviceClass, Devices, LazyDevices};
use boxwork_runtime::parameter::DeviceChoice;

use crate::search::distance::{DEVICE_OBJECTS_MIN, DISTANCES_OF_ALL};

/// Seconds that blocks of picked objects wait for each other and for the device: each block narrows the range of the
/// next. On an H200 a search by an index took 2.6 ms longer than a scan of 100,000 objects, and 15 ms longer than one of
/// a million.
const PICKED_SECONDS: f64 = 1e-2;

/// Distances per second of a GPU that has computed none yet: a quarter of an H200's.
const RATE_ASSUMED: f64 = 1e8;

/// GPUs that compute distances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OnDevices {
    /// The number of GPUs.
    pub count: usize,
    /// Distances per second of all of them in a scan.
    pub rate: f64,
    /// Whether the rate of each is measured.
    pub is_measured: bool,
}

impl OnDevices {
    /// The devices that `device:` selects for so many objects.
    pub fn picked(devices: &LazyDevices, choice: &DeviceChoice, objects: u64) -> Option<Self> {
        let picked = devices.pick(choice, Some(objects), DEVICE_OBJECTS_MIN).ok()?;
        let (devices, allowed) = picked.devices?;
        Self::of(&devices, &allowed)
    }

    /// Devices by their numbers; `None` if one of them is no GPU: the model counts this machine's cores as slots.
    pub(crate) fn of(devices: &Devices, allowed: &[usize]) -> Option<Self> {
        let list = devices.list();
        if allowed.is_empty() || allowed.iter().any(|idx| list[*idx].info().class != DeviceClass::Gpu) {
            return None;
        }
        let rates = devices.rates(DISTANCES_OF_ALL);
        Some(Self::by_rates(allowed.iter().map(|idx| rates[*idx])))
    }

    /// Devices by their measured rates, 0 without a measurement.
    fn by_rates(rates: impl Iterator<Item = f64>) -> Self {
        let mut all = Self { count: 0, rate: 0.0, is_measured: true };
        for rate in rates {
            let is_measured = rate > 0.0;
            all.count += 1;
            all.rate += if is_measured { rate } else { RATE_ASSUMED };
            all.is_measured &= is_measured;
        }
        all
    }

    /// Seconds to compute so many distances of objects that bounds picked out, block after block.
    pub(super) fn picked_seconds(&self, distances: f64) -> f64 {
        PICKED_SECONDS + distances / self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_rates_count_and_the_others_are_assumed() {
        let of = |rates: &[f64]| OnDevices::by_rates(rates.iter().copied());
        assert_eq!(of(&[4.5e8]), OnDevices { count: 1, rate: 4.5e8, is_measured: true });
        assert_eq!(of(&[4.5e8, 0.0]), OnDevices { count: 2, rate: 5.5e8, is_measured: false });
        assert!(of(&[0.0]).picked_seconds(1e6) > of(&[4.5e8]).picked_seconds(1e6));
    }
}
