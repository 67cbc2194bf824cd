//! Tiles in the host's memory or copied, by what was measured on the device.
//!
//! Both ways are measured once for each device and driver, for three sizes, and kept beside the compiled programs. A device with
//! memory of its own is not measured: kernels that read the host's memory there wait for the bus at each access.

use std::sync::Arc;
use std::time::Instant;

use boxwork_runtime::feeding::{DeviceError, Devices, Direct};

/// Bytes for which both ways are measured.
const SIZES: [usize; 3] = [64 << 10, 1 << 20, 64 << 20];
/// Rounds of a measurement, of which the fastest counts.
const ROUNDS: usize = 3;
/// The name under which a device keeps its measurements.
const NAME: &str = "memory_ways";

/// Nanoseconds of both ways, for some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Measured {
    bytes: usize,
    map_ns: u64,
    copy_ns: u64,
}

/// Whether a device that shares the host's memory should compute there, rather than on a copy of so many bytes.
pub fn maps(devices: &Arc<Devices>, place: usize, bytes: usize) -> bool {
    let device = &devices.list()[place];
    if !device.info().shares_memory {
        return false;
    }
    let known = device.kept(NAME).and_then(|text| read(&text));
    let known = known.unwrap_or_else(|| {
        // A device that fails here fails the factor too, which says why.
        let measured = measured(devices, place).unwrap_or_default();
        device.keep(NAME, &written(&measured));
        measured
    });
    // The largest size that is not above the bytes, or the smallest one.
    let near = known.iter().rev().find(|size| size.bytes <= bytes).or(known.first());
    near.is_none_or(|size| size.map_ns <= size.copy_ns)
}

/// Both ways for each size that the device has room for: memory is given and taken back, or numbers are copied there and back.
fn measured(devices: &Arc<Devices>, place: usize) -> Result<Vec<Measured>, DeviceError> {
    let (mut direct, mut all) = (Direct::open(devices, place)?, Vec::new());
    let most = direct.device().memory_budget_bytes().min(direct.device().info().buffer_bytes_max);
    for bytes in SIZES.into_iter().filter(|bytes| *bytes as u64 <= most) {
        let (mut map_ns, mut copy_ns) = (u64::MAX, u64::MAX);
        let mut memory = vec![0u32; bytes / size_of::<u32>()];
        let len = memory.len();
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            direct.give("lent", memory, 0..len)?;
            memory = direct.take_back("lent")?;
            map_ns = map_ns.min(begun.elapsed().as_nanos() as u64);
            let begun = Instant::now();
            direct.allocate::<u32>("copied", len)?;
            direct.write("copied", 0, &memory)?;
            direct.read("copied", 0, &mut memory)?;
            copy_ns = copy_ns.min(begun.elapsed().as_nanos() as u64);
        }
        all.push(Measured { bytes, map_ns, copy_ns });
    }
    Ok(all)
}

fn written(measured: &[Measured]) -> String {
    let line = |size: &Measured| format!("{} {} {}", size.bytes, size.map_ns, size.copy_ns);
    measured.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Measurements that were kept; nothing if they are damaged.
fn read(text: &str) -> Option<Vec<Measured>> {
    let line = |line: &str| {
        let numbers: Option<Vec<u64>> = line.split(' ').map(|word| word.parse().ok()).collect();
        let [bytes, map_ns, copy_ns] = numbers?[..] else { return None };
        Some(Measured { bytes: bytes as usize, map_ns, copy_ns })
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::feeding::Options;
    use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};

    use super::*;

    #[test]
    fn a_device_is_measured_once_and_its_measurements_decide() {
        if !has_device("a_device_is_measured_once_and_its_measurements_decide") {
            return;
        }
        let options = Options { cache: None, ..Options::default() };
        let (_, devices) = Faulty::devices(Plan::default(), options);
        let devices = devices.expect("a device");
        let device = &devices.list()[0];
        assert_eq!(device.kept(NAME), None);
        if !device.info().shares_memory {
            assert!(!maps(&devices, 0, 1 << 20) && device.kept(NAME).is_none());
            return;
        }
        maps(&devices, 0, 1 << 20);
        let kept = device.kept(NAME).expect("what was measured");
        assert!(kept.lines().count() > 0, "{kept}");
        assert_eq!(read(&kept).map(|measured| written(&measured)), Some(kept));
        device.keep(NAME, "65536 9 5\n1048576 5 9");
        for (bytes, expected) in [(1000, false), (70_000, false), (1 << 20, true), (1 << 30, true)] {
            assert_eq!(maps(&devices, 0, bytes), expected, "{bytes} bytes");
        }
        // Damaged measurements are made again.
        device.keep(NAME, "65536 9");
        maps(&devices, 0, 1000);
        assert!(device.kept(NAME).is_some_and(|text| read(&text).is_some()));
    }
}
