//! `boxwork devices`: the OpenCL devices of the machine, and whether they work.

use std::fmt::Write as _;

use boxwork_runtime::feeding::{Device, LazyDevices, NoDevices};
use boxwork_runtime::printable::printable_lines;
use serde_json::{Value as Json, json};

use super::{Format, data, data_json, say};
use crate::terminal::Exit;

/// Shows the OpenCL devices that `device:` may name, and whether each compiles and runs a small program
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The form of the answer
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Exit {
    let devices = match LazyDevices::of_environment().open() {
        Ok(devices) => devices,
        Err(reason) => return none(arguments.format, &reason),
    };
    let checks: Vec<Result<(), String>> =
        devices.list().iter().map(|device| devices.self_check(device.idx())).collect();
    let all_work = checks.iter().all(Result::is_ok);
    let told = match arguments.format {
        Format::Text => data(&printable_lines(&text(devices.list(), &checks))),
        Format::Json => {
            let list = devices.list().iter().zip(&checks).map(|(device, check)| page(device, check));
            data_json(&json!({"devices": list.collect::<Vec<_>>(), "none": null}))
        }
    };
    for warning in devices.take_warnings() {
        say(format_args!("warning: {warning}"));
    }
    if told == Exit::Ok && !all_work { Exit::Problems } else { told }
}

/// Having no device is an answer, not a failure.
fn none(format: Format, reason: &NoDevices) -> Exit {
    match format {
        Format::Text => data(&printable_lines(&format!("{reason}\n"))),
        Format::Json => data_json(&json!({"devices": [], "none": reason.to_string()})),
    }
}

fn text(devices: &[std::sync::Arc<Device>], checks: &[Result<(), String>]) -> String {
    let mut page = String::new();
    for (device, check) in devices.iter().zip(checks) {
        let info = device.info();
        let _ = writeln!(page, "device {}  {info}", device.idx());
        let _ = writeln!(page, "          {} by {}, driver {}", info.version, info.vendor, info.driver);
        let _ = writeln!(
            page,
            "          up to {} MHz; {} MiB of its memory are used at most, {} KiB are local to a group",
            info.clock_mhz,
            device.memory_budget_bytes() >> 20,
            info.local_bytes >> 10
        );
        let _ = match check {
            Ok(()) => writeln!(page, "          works: it has compiled and run a program"),
            Err(reason) => writeln!(page, "          does not work: {reason}"),
        };
    }
    page
}

fn page(device: &Device, check: &Result<(), String>) -> Json {
    let (info, platform) = (device.info(), device.platform());
    json!({
        "device": device.idx(), "name": info.name, "vendor": info.vendor, "class": info.class.to_string(),
        "platform": {"name": platform.name, "version": platform.version},
        "driver": info.driver, "version": info.version,
        "compute_units": info.compute_units, "clock_mhz": info.clock_mhz,
        "memory_bytes": info.memory_bytes, "memory_budget_bytes": device.memory_budget_bytes(),
        "buffer_bytes_max": info.buffer_bytes_max, "local_bytes": info.local_bytes,
        "group_items_max": info.group_items_max,
        "works": check.is_ok(), "fault": check.as_ref().err(),
    })
}
