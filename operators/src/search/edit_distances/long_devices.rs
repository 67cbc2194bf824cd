//! Devices for the tables of long pairs that differ in much: several pairs at a time, on the first device that can.
//!
//! Invariant: where no device can, the caller still has the tables for slots, and a note says why.

use std::sync::Arc;

use boxwork_kernels::distance::Tiles;
use boxwork_kernels::distance::long_edits::{LongPairs, Shape};
use boxwork_runtime::feeding::{DeviceError, Devices, LazyDevices};
use boxwork_runtime::operator::{BoxError, Context};
use boxwork_runtime::parameter::DeviceChoice;

use crate::devices::device_kernels::{Uncompared, compare_long_pairs};

/// Cells for each slot from which on `auto` looks for a device: about a second of a slot, as long as it takes to open a device.
const CELLS_MIN: u64 = 1 << 37;
/// Letters of the pairs that are computed together, about. Few pairs of fewer letters would leave most of a large device idle.
const LETTERS_TOGETHER: usize = 1 << 22;
/// Pairs that are computed together, at most.
const PAIRS_TOGETHER: usize = 256;

/// The devices of a box.
pub(super) struct LongDevices {
    choice: Choice,
    /// Why a device did not compute, for a note.
    problem: Option<String>,
    /// Whether there was such a note.
    has_noted: bool,
    /// Distances that devices have found.
    pub(super) found: u64,
}

/// The devices that may compute.
enum Choice {
    /// These.
    Picked(Arc<Devices>, Arc<[usize]>),
    /// GPUs, which are opened for tables of so many cells.
    Later(Arc<LazyDevices>, u64),
    /// None.
    Slots,
}

impl LongDevices {
    /// These devices, for all tables.
    pub(super) fn picked((devices, allowed): (Arc<Devices>, Arc<[usize]>)) -> Self {
        Self::of(Choice::Picked(devices, allowed))
    }

    /// GPUs if there are any, for tables that take so many slots long.
    pub(super) fn later(devices: Arc<LazyDevices>, slots: usize) -> Self {
        Self::of(Choice::Later(devices, CELLS_MIN * slots as u64))
    }

    /// No devices.
    pub(super) fn none() -> Self {
        Self::of(Choice::Slots)
    }

    fn of(choice: Choice) -> Self {
        Self { choice, problem: None, has_noted: false, found: 0 }
    }

    /// Whether devices are to compute a table.
    pub(super) fn want(&mut self, tiles: &Tiles) -> bool {
        if !tiles.is_wide() {
            return false;
        }
        if let Choice::Later(devices, cells_min) = &self.choice {
            if tiles.cells() < *cells_min {
                return false;
            }
            let picked = devices.pick(&DeviceChoice::Auto, None, 0).ok().and_then(|picked| picked.devices);
            self.choice = picked.map_or(Choice::Slots, |(devices, allowed)| Choice::Picked(devices, allowed));
        }
        matches!(self.choice, Choice::Picked(..))
    }

    /// Whether these tables are enough for a device.
    pub(super) fn are_many<'t>(tables: impl Iterator<Item = &'t Tiles>) -> bool {
        let (mut letters, mut pairs) = (0, 0);
        for tiles in tables {
            letters += tiles.letters().0.iter().map(|letters| letters.len()).sum::<usize>();
            pairs += 1;
        }
        letters >= LETTERS_TOGETHER || pairs >= PAIRS_TOGETHER
    }

    /// The distances of some tables; nothing if no device can. Meanwhile another thread has the slot.
    pub(super) fn distances(
        &mut self,
        cx: &mut Context<'_>,
        tables: &[&Tiles],
    ) -> Result<Option<Vec<usize>>, BoxError> {
        let Choice::Picked(devices, allowed) = &self.choice else { return Ok(None) };
        let bits = tables.iter().map(|tiles| tiles.letters().1).max().unwrap_or(0);
        let mut pairs = LongPairs::new(Shape::new(bits));
        tables.iter().for_each(|tiles| pairs.add(tiles.letters().0));
        for device in &**allowed {
            let cancelled = cx.cancelled();
            match cx.detached("device", || compare_long_pairs(devices, *device, &pairs, &cancelled))? {
                Ok((distances, _)) => {
                    self.found += distances.len() as u64;
                    cx.count("distances of long texts computed on devices", distances.len() as u64);
                    return Ok(Some(distances));
                }
                Err(Uncompared::Cancelled) => return Err(BoxError::new("the comparison was cancelled")),
                Err(Uncompared::Device(error)) => {
                    let name = devices.list()[*device].info().to_string();
                    if let DeviceError::Block(problem) = &error {
                        cx.report(name.clone(), problem.clone());
                    }
                    self.problem = Some(format!("device {device} ({name}): {error}"));
                }
            }
        }
        if let (Some(problem), false) = (self.problem.take(), self.has_noted) {
            cx.note(format!("{problem}: slots compared long texts"));
            self.has_noted = true;
        }
        Ok(None)
    }
}
