//! Tables of whole numbers, whose sums are certain lower bounds.

use super::Bits;
use super::codes::PARTS_STEP;

/// Tables as bytes, rounded down with one step.
#[derive(Clone, Debug, Default)]
pub(super) struct Bytes {
    /// The numbers of each part: 16 or 256. There are parts up to the next multiple of 4, with zeros.
    pub(super) tables: Vec<u8>,
    /// The sum of the least number of each part, and the rest of the sum.
    least: f64,
    /// One in units of the tables.
    step: f64,
    /// Bound on the error of a sum in f32.
    error: f64,
    least_of_part: Vec<f32>,
}

impl Bytes {
    /// Rounds tables. Sums of rows beyond `limit` may be smaller than their true ones, but are beyond it too. Returns false if every
    /// row is beyond.
    pub(super) fn set(&mut self, tables: &[f32], bits: Bits, base: f32, limit: f32) -> bool {
        let count = bits.centroids();
        let parts = tables.len() / count;
        let (mut range, mut least, mut sizes) = (0.0f32, f64::from(base), f64::from(base.abs()));
        self.least_of_part.clear();
        for table in tables.chunks_exact(count) {
            let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
            for x in table {
                low = if *x < low { *x } else { low };
                high = if *x > high { *x } else { high };
            }
            range = range.max(high - low);
            least += f64::from(low);
            sizes += f64::from(low.abs().max(high.abs()));
            self.least_of_part.push(low);
        }
        (self.least, self.error) = (least, sizes * (parts + 2) as f64 * 2f64.powi(-23));
        let room = f64::from(limit) + self.error - least;
        if room < 0.0 {
            return false;
        }
        // A number above the room decides alone: it becomes the largest.
        self.step = (f64::from(range).min(room) / 254.0).max(f64::MIN_POSITIVE);
        let scale = (1.0 / self.step).min(f64::from(f32::MAX)) as f32;
        self.tables.clear();
        self.tables.resize(parts.next_multiple_of(PARTS_STEP) * count, 0);
        let each = tables.chunks_exact(count).zip(self.tables.chunks_exact_mut(count));
        for ((table, bytes), low) in each.zip(&self.least_of_part) {
            for (x, byte) in table.iter().zip(bytes) {
                // The difference and the product are rounded: less a part of the largest number, they are at most the true
                // one. The cast rounds down, and takes numbers beyond its range as the ends of it.
                *byte = ((x - low) * scale - 1.0 / 1024.0) as u8;
            }
        }
        true
    }

    /// The largest sum of bytes of rows that may be within a limit; `None` if no row is.
    pub(super) fn limit(&self, limit: f32) -> Option<u16> {
        let room = f64::from(limit) + self.error - self.least;
        (room >= 0.0).then(|| (room / self.step + 1e-3).min(f64::from(u16::MAX)) as u16)
    }
}
