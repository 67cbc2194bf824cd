//! What distances take where GPUs compute them.

use boxwork_runtime::feeding::{DeviceClass, DeviceInfo, Devices, LazyDevices};
use boxwork_runtime::parameter::DeviceChoice;

use crate::search::distance::{DEVICE_OBJECTS_MIN, DISTANCES_OF_ALL};

/// Distances in a cycle of a compute unit, as long as a device has not computed any: an H200's are 1.7e-3.
const PER_CYCLE_UNKNOWN: f64 = 1.4e-3;
/// What any GPU is taken for, whatever it says of itself.
const RATE_LEAST: f64 = 1e7;
/// There and back for a scan: what is before the first kernel and after the last.
const SCAN_SECONDS: f64 = 1.3e-3;
/// There and back for rows that were picked out, block after block until the range has come. On an H200 a search that
/// computed some tens of 100,000, or of a million, took 2 to 3 ms longer than a scan of all of them.
const PICKED_SECONDS: f64 = 5e-3;
/// For each of these rows, whatever the device does: each is laid out on the host. There it was 0.24 us for 48,000 and
/// 82,000 of 100,000, and 1.2 us for 34,000 of a million.
const PICK_SECONDS: f64 = 5e-7;

/// GPUs that compute distances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OnDevices {
    /// How many there are.
    pub count: usize,
    /// Distances that all of them compute in a second.
    pub rate: f64,
    /// Whether that was measured, and not assumed.
    pub is_measured: bool,
}

impl OnDevices {
    /// Of what computes the distances of so many objects for this `device:`.
    pub fn picked(devices: &LazyDevices, choice: &DeviceChoice, objects: u64) -> Option<Self> {
        let picked = devices.pick(choice, Some(objects), DEVICE_OBJECTS_MIN).ok()?;
        let (devices, allowed) = picked.devices?;
        Self::of(&devices, &allowed)
    }

    /// Of devices by their numbers; nothing when one of them is no GPU, as the cores of this machine are measured
    /// otherwise.
    pub(crate) fn of(devices: &Devices, allowed: &[usize]) -> Option<Self> {
        let list = devices.list();
        if allowed.is_empty() || allowed.iter().any(|idx| list[*idx].info().class != DeviceClass::Gpu) {
            return None;
        }
        let rates = devices.rates(DISTANCES_OF_ALL);
        let expected = |info: &DeviceInfo| {
            let cycles = f64::from(info.compute_units) * f64::from(info.clock_mhz) * 1e6;
            (cycles * PER_CYCLE_UNKNOWN).max(RATE_LEAST)
        };
        Some(Self::by_rates(allowed.iter().map(|idx| (rates[*idx], expected(list[*idx].info())))))
    }

    /// Of rates that were measured, or 0, and those to expect.
    fn by_rates(rates: impl Iterator<Item = (f64, f64)>) -> Self {
        let mut all = Self { count: 0, rate: 0.0, is_measured: true };
        for (rate, expected) in rates {
            let is_measured = rate > 0.0;
            all.count += 1;
            all.rate += if is_measured { rate } else { expected };
            all.is_measured &= is_measured;
        }
        all
    }

    /// Seconds of a scan that computes so many distances.
    pub(super) fn scan_seconds(&self, distances: f64) -> f64 {
        SCAN_SECONDS + distances / self.rate
    }

    /// Seconds of so many distances picked out, block after block.
    pub(super) fn picked_seconds(&self, distances: f64) -> f64 {
        PICKED_SECONDS + distances * (PICK_SECONDS + 1.0 / self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_counts_and_little_is_assumed_of_the_others() {
        let of = |rates: &[f64]| OnDevices::by_rates(rates.iter().map(|rate| (*rate, 2e7)));
        assert_eq!(of(&[4.5e8]), OnDevices { count: 1, rate: 4.5e8, is_measured: true });
        assert_eq!(of(&[0.0]), OnDevices { count: 1, rate: 2e7, is_measured: false });
        let two = of(&[4.5e8, 0.0]);
        assert_eq!((two.count, two.rate, two.is_measured), (2, 4.7e8, false));
        assert!(two.scan_seconds(1e6) < of(&[4.5e8]).scan_seconds(1e6));
        assert!(two.picked_seconds(1e6) > two.scan_seconds(1e6));
    }
}
