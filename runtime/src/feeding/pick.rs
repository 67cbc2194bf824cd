//! From the value of `device:` to the devices, with a reason.

use std::sync::Arc;

use super::lazy::LazyDevices;
use super::pool::Devices;
use crate::parameter::DeviceChoice;

/// The devices picked.
#[derive(Clone, Debug)]
pub struct Picked {
    /// The devices, and the numbers of the devices to use; nothing means the slots.
    pub devices: Option<(Arc<Devices>, Arc<[usize]>)>,
    /// The reason, for `explain`.
    pub reason: String,
}

impl LazyDevices {
    /// Picks devices for a choice; opens them if the choice may want any. `work` is the amount of work, if it is known;
    /// less than `work_min` is not worth sending to a device.
    ///
    /// # Errors
    /// When the choice names devices that are not there; the text says which.
    pub fn pick(&self, choice: &DeviceChoice, work: Option<u64>, work_min: u64) -> Result<Picked, String> {
        let on_slots = |reason: String| Ok(Picked { devices: None, reason });
        match choice {
            DeviceChoice::Cpu => on_slots("device: cpu".to_owned()),
            DeviceChoice::Auto => {
                if let Some(work) = work.filter(|work| *work < work_min) {
                    return on_slots(format!("auto: {work} objects are too few for a device"));
                }
                match self.open() {
                    Err(reason) => on_slots(format!("auto: {reason}")),
                    Ok(devices) => match devices.gpus() {
                        gpus if gpus.is_empty() => on_slots("auto: no OpenCL device is a GPU".to_owned()),
                        gpus => Ok(picked("auto", devices, gpus)),
                    },
                }
            }
            DeviceChoice::Gpu(numbers) => {
                let devices = self.open().map_err(|reason| format!("device: {choice}: {reason}"))?;
                let count = devices.list().len();
                if let Some(number) = numbers.iter().find(|number| **number >= count) {
                    return Err(format!(
                        "device: {choice}: there is no device {number}: the {count} devices are numbered from 0, and `boxwork devices` lists them"
                    ));
                }
                let wanted = match (numbers.is_empty(), devices.gpus()) {
                    // A device that is named twice is one device: with two shares it would keep twice as much as fits.
                    (false, _) => {
                        let is_first = |(place, number): (usize, &usize)| {
                            (!numbers[..place].contains(number)).then_some(*number)
                        };
                        numbers.iter().enumerate().filter_map(is_first).collect()
                    }
                    (true, gpus) if gpus.is_empty() => (0..count).collect(),
                    (true, gpus) => gpus,
                };
                Ok(picked(&choice.to_string(), devices, wanted))
            }
        }
    }
}

fn picked(choice: &str, devices: Arc<Devices>, numbers: Vec<usize>) -> Picked {
    let names = numbers.iter().map(|idx| format!("device {idx}, {}", devices.list()[*idx].info()));
    let reason = format!("{choice}: {}", names.collect::<Vec<_>>().join("; "));
    Picked { devices: Some((devices, numbers.into())), reason }
}

#[cfg(test)]
mod tests {
    use super::super::faults::has_device;
    use super::*;

    #[test]
    fn a_device_that_is_named_twice_is_picked_once() {
        if !has_device("a device that is named twice") {
            return;
        }
        let choice = DeviceChoice::Gpu(vec![0, 0]);
        let picked = LazyDevices::of_environment().pick(&choice, None, 0).unwrap();
        let (_, numbers) = picked.devices.expect("a device was asked for");
        assert_eq!(*numbers, [0]);
    }
}
