//! Edit distances of long pairs of texts (`distance/levenshtein/long.cl`): the calling thread drives a device through the diagonals of
//! their tiles.

use std::sync::Arc;

use boxwork_kernels::distance::long_edits::{self, LongPairs, Shape};
use boxwork_runtime::feeding::{
    Argument, DeviceError, Devices, Direct, DirectStatistics, Grid, KernelSpec, ProgramSource, Value,
};

/// Launches that are under way at most: enough that the device has the next ones, and few enough that a cancelled request ends soon.
const LAUNCHES: usize = 16;

static TILES: [KernelSpec; 1] = [KernelSpec {
    name: long_edits::KERNEL,
    arguments: &[
        ("rows", Argument::Buffer),
        ("columns", Argument::Buffer),
        ("pairs", Argument::Buffer),
        ("strips_first", Argument::Value(4)),
        ("diagonal", Argument::Value(4)),
        ("words", Argument::Buffer),
        ("handed", Argument::Buffer),
        ("borders", Argument::Buffer),
    ],
}];

/// Why there are no distances.
#[derive(Clone, Debug, PartialEq)]
pub enum Uncompared {
    /// The caller cancelled the work.
    Cancelled,
    /// The device failed, has no room, or gave a number that is no distance.
    Device(DeviceError),
}

impl From<DeviceError> for Uncompared {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

/// The distances of long pairs by a device, and its counts; asks between launches whether to end.
///
/// # Errors
/// When the caller cancels, or the device fails or has no room.
///
/// # Panics
/// When there is no such device, or no pair.
pub fn compare_long_pairs(
    devices: &Arc<Devices>,
    device: usize,
    pairs: &LongPairs,
    cancelled: &dyn Fn() -> bool,
) -> Result<(Vec<usize>, DirectStatistics), Uncompared> {
    assert!(!pairs.is_empty(), "a pair");
    let mut direct = Direct::open(devices, device)?;
    let (descriptors, shape) = (pairs.descriptors(), pairs.shape());
    direct.allocate::<u16>("rows", pairs.rows().len())?;
    direct.allocate::<u16>("columns", pairs.columns().len())?;
    direct.allocate::<[u32; 8]>("pairs", descriptors.len())?;
    direct.allocate::<[u32; 4]>("words", pairs.words())?;
    direct.allocate::<[u32; 2]>("handed", pairs.handed())?;
    direct.allocate::<[u32; 2]>("borders", pairs.border())?;
    direct.write("rows", 0, pairs.rows())?;
    direct.write("columns", 0, pairs.columns())?;
    direct.write("pairs", 0, &descriptors)?;
    let program = program(shape);
    for launch in pairs.launches() {
        let grid = Grid::of([launch.strips.len(), pairs.len()], [shape.items(), 1]);
        let [first, diagonal] = [launch.strips.start, launch.diagonal].map(|number| Value::of(number as u32));
        direct.launch(
            &program,
            long_edits::KERNEL,
            grid,
            &[("strips_first", first), ("diagonal", diagonal)],
        )?;
        direct.wait(LAUNCHES)?;
        if cancelled() {
            return Err(Uncompared::Cancelled);
        }
    }
    let mut borders = vec![[0_u32; 2]; pairs.border()];
    direct.read("borders", 0, &mut borders)?;
    let distances = (0..pairs.len()).map(|pair| pairs.distance(pair, &borders)).collect::<Option<Vec<_>>>();
    let is_none = || DeviceError::Block(format!("{}: a number is no distance", direct.device().info().name));
    Ok((distances.ok_or_else(is_none)?, direct.statistics()))
}

/// A diagonal of tiles.
fn program(shape: Shape) -> ProgramSource {
    ProgramSource {
        name: "long_edits",
        text: long_edits::TEXT,
        constants: shape.constants(),
        kernels: &TILES,
        exact: true,
    }
}

#[cfg(test)]
mod tests;
