//! The sizes of a factorisation that were fastest on a device, as `cargo bench --bench gpu -- what=tune` has found and kept them.

use boxwork_runtime::feeding::Device;

use super::DeviceNumber;

/// The fastest sizes for matrices of so many rows of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuned {
    /// Rows of tiles.
    pub rows: usize,
    /// Columns of tiles of a block.
    pub block: usize,
    /// Whether the next block is factored on a second queue.
    pub looks_ahead: bool,
}

/// The name under which a device keeps its table, for numbers of some bytes.
fn name<T>() -> String {
    format!("factor_{}", 8 * size_of::<T>())
}

/// The table that a device has kept; a damaged one is empty.
pub fn tuned<T: DeviceNumber>(device: &Device) -> Vec<Tuned> {
    let entry = |line: &str| {
        let numbers: Option<Vec<usize>> = line.split(' ').map(|word| word.parse().ok()).collect();
        let [rows, block, looks_ahead] = numbers?[..] else { return None };
        let is_sound = rows > 0 && block > 0 && looks_ahead <= 1;
        is_sound.then_some(Tuned { rows, block, looks_ahead: looks_ahead == 1 })
    };
    let table = device.kept(&name::<T>());
    table.and_then(|text| text.lines().map(entry).collect()).unwrap_or_default()
}

/// Adds sizes to the table of a device, in place of those for the same matrices.
pub fn keep_tuned<T: DeviceNumber>(device: &Device, found: Tuned) {
    let mut table = tuned::<T>(device);
    table.retain(|entry| entry.rows != found.rows);
    table.push(found);
    table.sort_by_key(|entry| entry.rows);
    let line = |entry: &Tuned| format!("{} {} {}", entry.rows, entry.block, u8::from(entry.looks_ahead));
    device.keep(&name::<T>(), &table.iter().map(line).collect::<Vec<_>>().join("\n"));
}

/// The sizes for a matrix: those of the entry whose rows differ by the least factor, at most two.
pub(super) fn nearest<T: DeviceNumber>(device: &Device, rows: usize) -> Option<Tuned> {
    let apart = |entry: &Tuned| entry.rows.max(rows) as f64 / entry.rows.min(rows) as f64;
    let table = tuned::<T>(device).into_iter().filter(|entry| apart(entry) <= 2.0);
    table.min_by(|a, b| apart(a).total_cmp(&apart(b)))
}
