//! What distances take where GPUs compute them.

use boxwork_runtime::feeding::{DeviceClass, Devices, pick};
use boxwork_runtime::parameter::DeviceChoice;

use crate::sqfd::DEVICE_OBJECTS_MIN;

/// Distances that a GPU computes in a second as long as it has not computed any: a twentieth of what a fast one does,
/// and what a small one does.
const RATE_UNKNOWN: f64 = 2e7;
/// Rates that are believed. A device's rate counts the blocks of all boxes, of whatever size they are: what is above
/// these were bounds, what is below pictures.
const RATE_MIN: f64 = 1e6;
const RATE_MAX: f64 = 1e9;
/// There and back for a scan: what is before the first kernel and after the last.
const SCAN_SECONDS: f64 = 1.5e-3;
/// There and back for one block of rows that were picked out, and how many follow each other until the range has come.
const BLOCK_SECONDS: f64 = 2e-4;
const BLOCKS: f64 = 8.0;
/// How many times as long as the next object of a scan one takes that was picked out.
const PICKED: f64 = 4.0;

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
    pub fn picked(choice: &DeviceChoice, objects: u64) -> Option<Self> {
        let picked = pick(choice, Some(objects), DEVICE_OBJECTS_MIN).ok()?;
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
        let statistics = devices.statistics();
        Some(Self::by_rates(allowed.iter().map(|idx| statistics[*idx].rate)))
    }

    fn by_rates(rates: impl Iterator<Item = f64>) -> Self {
        let mut all = Self { count: 0, rate: 0.0, is_measured: true };
        for rate in rates {
            let is_measured = (RATE_MIN..=RATE_MAX).contains(&rate);
            all.count += 1;
            all.rate += if is_measured { rate } else { RATE_UNKNOWN };
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
        BLOCKS * BLOCK_SECONDS + PICKED * distances / self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_counts_and_what_cannot_be_a_rate_of_distances_does_not() {
        let of = |rates: &[f64]| OnDevices::by_rates(rates.iter().copied());
        assert_eq!(of(&[4.5e8]), OnDevices { count: 1, rate: 4.5e8, is_measured: true });
        assert_eq!(of(&[0.0]), OnDevices { count: 1, rate: RATE_UNKNOWN, is_measured: false });
        assert_eq!(of(&[1.9e5]), of(&[0.0]), "pictures");
        assert_eq!(of(&[2.5e10]), of(&[0.0]), "bounds");
        let two = of(&[4.5e8, 0.0]);
        assert_eq!((two.count, two.rate, two.is_measured), (2, 4.5e8 + RATE_UNKNOWN, false));
        assert!(two.scan_seconds(1e6) < of(&[4.5e8]).scan_seconds(1e6));
        assert!(two.picked_seconds(1e6) > two.scan_seconds(1e6));
    }
}
