//! The rates of products of a device and of a slot, and the share of a factor that slots take by them.
//!
//! Rates are measured once for each device and driver, and kept beside the compiled programs. Slots help a device that shares the host's memory, and
//! hardly one that has memory of its own: it does the work of many slots.

use std::sync::Arc;
use std::time::Instant;

use boxwork_kernels::cholesky::device::{ITEMS, TILE, Units, tiles as count};
use boxwork_runtime::feeding::{DeviceClass, DeviceError, DeviceInfo, Devices, Direct, Grid, Placed};
use boxwork_runtime::operator::Bind;
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::copies::NUMBERS;
use super::layout::PARTS;
use super::{DeviceNumber, factor_program, whole_numbers};

/// Operations of the product of two tiles.
const OPERATIONS: f64 = 2.0 * (TILE * TILE * TILE) as f64;
/// Columns of tiles whose products a measured launch subtracts.
const DEPTH: usize = 4;
/// Rows of tiles of measured launches, until one takes [`LONG_S`].
const ROWS: [usize; 3] = [8, 16, 32];
/// Seconds of a launch beside which its own cost is little.
const LONG_S: f64 = 0.005;
/// Rounds of a measurement, of which the fastest counts.
const ROUNDS: usize = 3;
/// Products of a slot that are measured together, and the measurements, of which the fastest counts.
const PRODUCTS: (usize, usize) = (4, 16);
/// Rows from which on `auto` lets slots help: fewer are few blocks.
const ROWS_MIN: usize = 2048;
/// The least part of a device's rate that slots must add for `auto` to take them.
const GAIN_MIN: f64 = 0.05;

/// Whether slots take part in the factor of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceSlots {
    /// On GPUs that share the host's memory, where they gain more than a twentieth.
    Auto,
    /// On every device.
    Always,
    /// On none.
    #[default]
    Never,
}

impl DeviceSlots {
    fn named(name: &str) -> Self {
        match name {
            "always" => Self::Always,
            "never" => Self::Never,
            _ => Self::Auto,
        }
    }
}

/// The parameter of boxes that make factors on devices.
pub(crate) const DEVICE_SLOTS: Parameter = Parameter::new(
    "device_slots",
    ParameterType::Choice(&["auto", "always", "never"]),
    Default::Text("auto"),
    "whether slots take some columns of a device's factor: auto: if a GPU shares the host's memory, and they gain more than a twentieth",
);

/// The slots that may take part.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slots {
    /// Whether they do.
    pub choice: DeviceSlots,
    /// The number of slots.
    pub count: usize,
}

impl Slots {
    /// All slots of the runtime, as the parameter [`DEVICE_SLOTS`] says.
    pub(crate) fn of(bind: &Bind<'_>) -> Self {
        Self { choice: DeviceSlots::named(bind.text("device_slots")), count: bind.slots() }
    }
}

/// Operations a second in products of tiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Those of the device.
    pub device: f64,
    /// Those of one slot.
    pub slot: f64,
}

/// The share of the columns that slots take of a matrix of n rows, in thousandths, for [`Choices::slots`](super::Choices::slots).
pub fn share<T: DeviceNumber>(devices: &Arc<Devices>, places: &[usize], n: usize, slots: Slots) -> usize {
    let are_near = places.iter().all(|place| is_near(devices.list()[*place].info()));
    let are_wanted = match slots.choice {
        DeviceSlots::Never => false,
        DeviceSlots::Always => true,
        DeviceSlots::Auto => are_near && n >= ROWS_MIN,
    };
    if !are_wanted || slots.count == 0 {
        return 0;
    }
    let all: Option<Vec<Rates>> = places.iter().map(|place| rates::<T>(devices, *place)).collect();
    let Some(all) = all else { return 0 };
    let device: f64 = all.iter().map(|rates| rates.device).sum();
    let of_slots = all[0].slot * slots.count as f64;
    match slots.choice {
        DeviceSlots::Auto if of_slots <= GAIN_MIN * device => 0,
        _ => (PARTS as f64 * of_slots / (of_slots + device)).round() as usize,
    }
}

/// Whether slots and a device are different processors with one memory. The cores of a device of class CPU are those of the slots.
fn is_near(info: &DeviceInfo) -> bool {
    info.class == DeviceClass::Gpu && info.shares_memory
}

/// The name under which a device keeps its rates, for numbers of some bytes.
fn name<T>() -> String {
    format!("products_{}", 8 * size_of::<T>())
}

/// The rates that a device has kept, or those that are measured now; nothing if the device fails.
pub fn rates<T: DeviceNumber>(devices: &Arc<Devices>, place: usize) -> Option<Rates> {
    let (device, name) = (&devices.list()[place], name::<T>());
    if let Some(known) = device.kept(&name).and_then(|text| read(&text)) {
        return Some(known);
    }
    // A device that fails here fails the factor too, which says why.
    let rates = Rates { device: of_device::<T>(devices, place).ok()?, slot: of_slot::<T>() };
    device.keep(&name, &written(rates));
    Some(rates)
}

/// Megaflops a second.
fn written(rates: Rates) -> String {
    let mega = |rate: f64| (rate / 1e6).round().max(1.0) as u64;
    format!("{} {}", mega(rates.device), mega(rates.slot))
}

/// Rates that were kept; nothing if they are damaged.
fn read(text: &str) -> Option<Rates> {
    let numbers: Option<Vec<u32>> = text.split(' ').map(|word| word.parse().ok()).collect();
    let [device, slot] = numbers?[..] else { return None };
    let rate = |mega: u32| f64::from(mega) * 1e6;
    (device > 0 && slot > 0).then(|| Rates { device: rate(device), slot: rate(slot) })
}

/// Products of a block of columns with all tiles of a matrix behind it, by the wall clock.
fn of_device<T: DeviceNumber>(devices: &Arc<Devices>, place: usize) -> Result<f64, DeviceError> {
    let mut direct = Direct::open(devices, place)?;
    let info = direct.device().info().clone();
    let Some(numbers) = T::numbers(info.has_doubles) else {
        return Err(DeviceError::Block(format!("{} has no numbers of f64", info.name)));
    };
    let program = factor_program(numbers, Units::of(numbers, info.compute_capability));
    let most = ROWS[ROWS.len() - 1];
    direct.allocate::<T>("to_tiles", count(most) * NUMBERS)?;
    let panel = count(DEPTH) + most * DEPTH;
    direct.allocate::<T>("tiles", panel * NUMBERS)?;
    // Sums of anything else might leave the usual numbers, which some processors compute slowly.
    for (name, len) in [("to_tiles", count(most)), ("tiles", panel)] {
        direct.write_part_by((name, 0), 0, len * NUMBERS, &mut |_, to: &mut [T]| to.fill(T::ONE))?;
    }
    direct.wait(0)?;
    let mut rate = 0f64;
    for rows in ROWS {
        // The block has the columns before those of the matrix.
        let values = whole_numbers(&[
            ("to_first", DEPTH),
            ("to_width", rows),
            ("first_column", 0),
            ("width", DEPTH),
            ("from", DEPTH),
            ("columns", rows),
            ("first", 0),
            ("end", DEPTH),
        ]);
        let mut least = f64::INFINITY;
        for _ in 0..=ROUNDS {
            let begun = Instant::now();
            let grid = Grid::of([count(rows)], [ITEMS]);
            direct.launch_placed(&program, "update", grid, &values, Placed::default())?;
            direct.wait(0)?;
            least = least.min(begun.elapsed().as_secs_f64());
        }
        rate = rate.max((count(rows) * DEPTH) as f64 * OPERATIONS / least);
        if least >= LONG_S {
            break;
        }
    }
    Ok(rate)
}

/// Products of tiles on the calling thread.
fn of_slot<T: DeviceNumber>() -> f64 {
    let (kernels, ones) = (T::kernels(), vec![T::ONE; NUMBERS]);
    let (mut tile, mut least, (products, rounds)) = (ones.clone(), f64::INFINITY, PRODUCTS);
    for _ in 0..=rounds {
        let begun = Instant::now();
        (0..products).for_each(|_| kernels.product(&ones, &ones, &mut tile, TILE));
        least = least.min(begun.elapsed().as_secs_f64());
    }
    products as f64 * OPERATIONS / least
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::feeding::Options;
    use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};

    use super::*;

    #[test]
    fn slots_take_the_share_of_their_rate() {
        if !has_device("slots_take_the_share_of_their_rate") {
            return;
        }
        let options = Options { cache: None, ..Options::default() };
        let (_, devices) = Faulty::devices(Plan { appears_as: 2, ..Plan::default() }, options);
        let devices = devices.expect("devices");
        let (first, name) = (&devices.list()[0], name::<f32>());
        let slots = |choice, count| Slots { choice, count };
        let share = |places: &[usize], slots| share::<f32>(&devices, places, 100, slots);
        assert_eq!(share(&[0], slots(DeviceSlots::Never, 4)), 0);
        assert_eq!(share(&[0], slots(DeviceSlots::Always, 0)), 0);
        assert_eq!(share(&[0], slots(DeviceSlots::Auto, 4)), 0, "too few rows");
        assert_eq!(first.kept(&name), None);
        let found = rates::<f32>(&devices, 0).expect("rates");
        assert!(found.device > 0.0 && found.slot > 0.0, "{found:?}");
        let kept = first.kept(&name).expect("what was measured");
        assert_eq!(read(&kept).map(written), Some(kept));
        for device in devices.list() {
            device.keep(&name, "3000 1000");
        }
        assert_eq!(share(&[0], slots(DeviceSlots::Always, 1)), 250);
        assert_eq!(share(&[0, 1], slots(DeviceSlots::Always, 6)), 500);
        for damaged in ["", "1", "0 7", "1 2 3", "a b"] {
            assert_eq!(read(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn slots_help_by_themselves_only_beside_another_processor_with_their_memory() {
        for (class, shares_memory, expected) in [
            (DeviceClass::Gpu, true, true),
            (DeviceClass::Gpu, false, false),
            (DeviceClass::Cpu, true, false),
        ] {
            let info = DeviceInfo { class, shares_memory, ..DeviceInfo::default() };
            assert_eq!(is_near(&info), expected, "{class}");
        }
    }
}
