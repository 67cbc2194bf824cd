//! Tables of what each stored number of a list adds to a measure.
//!
//! A measure is a sum over the pivots that the query's list has, as if the object's list had none, and over the object's list the
//! differences from that: one look-up for each number of the object's list. All sums wrap around; only the end counts.

use super::lists::BYTES_MAX;
use super::{Comparison, Lists, Measure};

/// The tables of a query.
pub(super) struct Tables {
    /// The measure of an object whose list has no pivot of the query's.
    pub(super) absent: u32,
    /// By place, then by pivot.
    pub(super) entries: Vec<u32>,
}

/// Tables of bytes, for measures of at most 16 bits.
pub(super) struct ByteTables {
    /// The measure to which the look-ups add.
    pub(super) start: u16,
    /// Numbers of a place's table: 128 or 256.
    pub(super) width: usize,
    /// By place, then by pivot.
    pub(super) low: Vec<u8>,
    /// The high bytes of numbers of 16 bits, or nothing.
    pub(super) high: Vec<u8>,
}

/// Tables of single bytes, whose sums tell at most how small a measure is.
pub(super) struct CoarseTables {
    pub(super) tables: ByteTables,
    /// The measure without the sum.
    start: i64,
    /// Low bits that numbers have lost.
    shift: u32,
}

impl CoarseTables {
    /// Objects whose sums are below this may have a measure below the limit, no others.
    pub(super) fn limit(&self, limit: u32) -> u32 {
        let over = (i64::from(limit) - self.start).max(0) as u64;
        over.div_ceil(1 << self.shift).min(u64::from(u32::MAX)) as u32
    }
}

impl Tables {
    /// The measure of an object, by the numbers of its list.
    #[inline(always)]
    pub(super) fn measure(&self, pivots: usize, numbers: impl Iterator<Item = usize>) -> u32 {
        let rows = self.entries.chunks_exact(pivots);
        rows.zip(numbers).fold(self.absent, |sum, (row, number)| sum.wrapping_add(row[number]))
    }

    pub(super) fn new(lists: &Lists, comparison: Comparison, query: &[u16]) -> Self {
        let measure = comparison.measure;
        let (pivots, length) = (lists.pivots(), lists.length());
        let absent: u64 = (1..=length).map(|away| measure.of(away)).sum();
        let mut entries = vec![0_u32; length * pivots];
        for (place, row) in entries.chunks_exact_mut(pivots).enumerate() {
            // As if the query did not have the pivot.
            row.fill(measure.of(length - place) as u32);
            for (position, pivot) in query.iter().enumerate() {
                if comparison.places(position, length).contains(&place) {
                    let entry = &mut row[usize::from(*pivot)];
                    *entry = entry.wrapping_sub(gain(measure, length, position, place));
                }
            }
        }
        Self { absent: absent as u32, entries }
    }

    /// The tables in bytes, if measures of such lists fit 16 bits and there are few pivots.
    pub(super) fn in_bytes(&self, lists: &Lists, comparison: &Comparison) -> Option<ByteTables> {
        let measure = comparison.measure;
        let (pivots, length) = (lists.pivots(), lists.length());
        if pivots > BYTES_MAX || length > 255 || largest(measure, length) > u64::from(u16::MAX) {
            return None;
        }
        // Footrules differ by at most the length from a pivot to its absence; where all are present and count, by less.
        let all_count = length == pivots && *comparison == Comparison::from(comparison.measure);
        let largest_entry = if all_count { 2 * (length - 1) } else { 2 * length };
        let is_one_byte = measure == Measure::Footrule && largest_entry <= 255;
        let bias = if is_one_byte { length as u16 } else { 0 };
        let width = if pivots <= 128 { 128 } else { 256 };
        let mut low = vec![0; length * width];
        let mut high = if is_one_byte { Vec::new() } else { low.clone() };
        for (place, row) in self.entries.chunks_exact(pivots).enumerate() {
            for (pivot, entry) in row.iter().enumerate() {
                let [first, second] = (*entry as u16).wrapping_add(bias).to_le_bytes();
                low[place * width + pivot] = first;
                if let Some(high) = high.get_mut(place * width + pivot) {
                    *high = second;
                }
            }
        }
        let start = (self.absent as u16).wrapping_sub(bias.wrapping_mul(length as u16));
        Some(ByteTables { start, width, low, high })
    }

    /// The tables with as many high bits of each number as a byte holds, above the least number of the place.
    pub(super) fn coarse(&self, lists: &Lists) -> CoarseTables {
        let (pivots, length) = (lists.pivots(), lists.length());
        let least = |row: &[u32]| row.iter().map(|entry| entry.cast_signed()).min().unwrap_or(0);
        let above = |entry: &u32, least: i32| entry.cast_signed().abs_diff(least);
        let rows = || self.entries.chunks_exact(pivots).map(|row| (row, least(row)));
        let largest = rows().flat_map(|(row, least)| row.iter().map(move |entry| above(entry, least))).max();
        let shift = (u32::BITS - largest.unwrap_or(0).leading_zeros()).saturating_sub(u8::BITS);
        let width = if pivots <= 128 { 128 } else { 256 };
        let (mut low, mut start) = (vec![0; length * width], i64::from(self.absent.cast_signed()));
        for ((row, least), low) in rows().zip(low.chunks_exact_mut(width)) {
            start += i64::from(least);
            for (entry, low) in row.iter().zip(low) {
                *low = (above(entry, least) >> shift) as u8;
            }
        }
        CoarseTables { tables: ByteTables { start: 0, width, low, high: Vec::new() }, start, shift }
    }
}

/// By how much a measure is smaller because of a pivot that is in both lists, at these places, than if each list had another one.
pub(super) fn gain(measure: Measure, length: usize, position: usize, place: usize) -> u32 {
    let apart = measure.of(length - position) + measure.of(length - place);
    (apart - measure.of(position.abs_diff(place))) as u32
}

/// The measure of two lists that share no pivot: none is larger.
pub(super) fn largest(measure: Measure, length: usize) -> u64 {
    (1..=length).map(|away| 2 * measure.of(away)).sum()
}
