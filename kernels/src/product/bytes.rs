//! Tables of whole numbers, whose sums are certain lower bounds.

use super::Bits;
use super::codes::PARTS_STEP;
use crate::CodePath;
use crate::lanes::{Lanes, Work, run};

/// Numbers beyond this many times a part's even share of the limit count as that much. Rows within the limit have few such
/// numbers, and the step is the finer.
const SHARES: f64 = 8.0;

/// The largest sum of a byte that says how large it is: a sum that is larger may be the largest byte.
const BYTE_SUM_MAX: f64 = 254.0;

/// Tables are rounded anew when the room below the limit has fallen to this part.
const FALLEN: f64 = 0.7;

/// The numbers that hold sums of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sums {
    /// Words of 16 bits, which hold every sum.
    #[default]
    Words,
    /// Bytes, which stay at the largest one when a sum is beyond it. Steps are the longer, and sums take fewer instructions.
    Bytes,
}

/// Tables as bytes, rounded down with one step.
#[derive(Clone, Debug, Default)]
pub(super) struct Bytes {
    /// The numbers of each part: 16 or 256. There are parts up to the next multiple of 4, with zeros.
    pub(super) tables: Vec<u8>,
    /// The sum of the least number of each part, and the rest of the sum.
    least: f64,
    /// One in units of the tables.
    step: f64,
    /// The limit less the least sum, when the step was chosen.
    room: f64,
    /// Bound on the error of a sum in f32.
    error: f64,
    least_of_part: Vec<f32>,
    /// The numbers that hold sums, as was said when the step was chosen.
    pub(super) sums: Sums,
}

impl Bytes {
    /// Rounds tables for a limit. Sums of bytes, in steps, are lower bounds. Returns false if every row is beyond the limit.
    pub(super) fn set(
        &mut self,
        path: CodePath,
        tables: &[f32],
        bits: Bits,
        sums: Sums,
        base: f32,
        limit: f32,
    ) -> bool {
        let count = bits.centroids();
        let parts = tables.len() / count;
        self.least_of_part.clear();
        self.least_of_part.resize(parts, 0.0);
        let (range, least, sizes) = run(path, Ranges { tables, count, least: &mut self.least_of_part });
        let (least, sizes) = (least + f64::from(base), sizes + f64::from(base.abs()));
        self.least = least;
        self.error = sizes * (parts + 2) as f64 * 2f64.powi(-23);
        let room = f64::from(limit) + self.error - least;
        if room < 0.0 {
            return false;
        }
        // A number above the largest byte becomes it, so that its sum is a lower bound still.
        let most = room * (SHARES / parts as f64).min(1.0);
        let step = match sums {
            Sums::Words => f64::from(range).min(most) / 254.0,
            Sums::Bytes => room / BYTE_SUM_MAX,
        };
        self.step = step.max(f64::MIN_POSITIVE);
        self.sums = sums;
        self.room = room;
        let scale = (1.0 / self.step).min(f64::from(f32::MAX)) as f32;
        self.tables.resize(parts.next_multiple_of(PARTS_STEP) * count, 0);
        self.tables[parts * count..].fill(0);
        run(path, Round { tables, count, least: &self.least_of_part, scale, bytes: &mut self.tables });
        true
    }

    /// Forgets the tables.
    pub(super) fn clear(&mut self) {
        self.tables.clear();
    }

    /// Whether tables with a finer step are worth it.
    pub(super) fn is_coarse(&self, limit: f32) -> bool {
        f64::from(limit) + self.error - self.least < FALLEN * self.room
    }

    /// The largest sum of bytes of rows that may be within a limit; `None` if no row is.
    #[inline(always)]
    pub(super) fn limit(&self, limit: f64) -> Option<u16> {
        let room = limit + self.error - self.least;
        (room >= 0.0).then(|| (room / self.step + 1e-3).min(f64::from(u16::MAX)) as u16)
    }
}

/// The largest range of a table's numbers, the sum of the least of each table, and the sum of the largest sizes.
struct Ranges<'a> {
    tables: &'a [f32],
    count: usize,
    least: &'a mut [f32],
}

impl Work for Ranges<'_> {
    type Done = (f32, f64, f64);

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Self::Done {
        let (mut range, mut least, mut sizes) = (0.0f32, 0.0, 0.0);
        for (table, to) in self.tables.chunks_exact(self.count).zip(self.least) {
            let (mut lows, mut highs) = (lanes.splat(f32::INFINITY), lanes.splat(f32::NEG_INFINITY));
            for numbers in table.chunks_exact(L::COUNT) {
                let numbers = lanes.load(numbers);
                lows = lanes.min(numbers, lows);
                highs = lanes.max(numbers, highs);
            }
            let (low, high) = (lanes.least(lows), lanes.largest(highs));
            range = if high - low > range { high - low } else { range };
            least += f64::from(low);
            sizes += f64::from(if low.abs() > high.abs() { low.abs() } else { high.abs() });
            *to = low;
        }
        (range, least, sizes)
    }
}

/// Rounds tables down to bytes.
struct Round<'a> {
    tables: &'a [f32],
    count: usize,
    least: &'a [f32],
    scale: f32,
    bytes: &'a mut [u8],
}

impl Work for Round<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { tables, count, least, scale, bytes } = self;
        let (zero, most) = (lanes.splat(0.0), lanes.splat(255.0));
        let each = tables.chunks_exact(count).zip(bytes.chunks_exact_mut(count)).zip(least);
        for ((table, bytes), low) in each {
            for (numbers, bytes) in table.chunks_exact(L::COUNT).zip(bytes.chunks_exact_mut(L::COUNT)) {
                // The difference and the product are rounded: less a part of the largest number, they are at most the true
                // one. Less a half, the nearest whole number is not above it.
                let scaled = lanes.mul(lanes.sub(lanes.load(numbers), lanes.splat(*low)), lanes.splat(scale));
                let lower = lanes.sub(scaled, lanes.splat(0.5 + 1.0 / 1024.0));
                let mut counts = [0u16; 16];
                lanes.store_counts(lanes.min(lanes.max(lower, zero), most), &mut counts);
                for (byte, count) in bytes.iter_mut().zip(counts) {
                    *byte = count as u8;
                }
            }
        }
    }
}
