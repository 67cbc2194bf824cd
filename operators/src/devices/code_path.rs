//! The place where a box with a parameter `device` computes, as `explain` prints it.

use boxwork_kernels::CodePath;
use boxwork_runtime::feeding::{LazyDevices, Picked};
use boxwork_runtime::parameter::{Arguments, DeviceChoice, Value};

/// The place for these arguments on this machine. With `device: auto`, devices compute from `objects_min` objects on.
pub(crate) fn of_device(arguments: &Arguments, devices: &LazyDevices, objects_min: u64) -> String {
    let choice = match arguments.get("device") {
        Some(Value::Text(text)) => text.parse().unwrap_or(DeviceChoice::Auto),
        _ => DeviceChoice::Auto,
    };
    match devices.pick(&choice, None, objects_min) {
        Ok(Picked { devices: None, reason }) => format!("{} ({reason})", CodePath::detect()),
        Ok(Picked { reason, .. }) if choice == DeviceChoice::Auto && objects_min > 0 => {
            format!("OpenCL, from {objects_min} objects on ({reason})")
        }
        Ok(Picked { reason, .. }) => format!("OpenCL ({reason})"),
        Err(reason) => format!("none ({reason})"),
    }
}
