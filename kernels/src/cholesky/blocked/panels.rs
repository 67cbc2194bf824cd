//! Packed panels: some rows of some columns, a column after the other, in the order in which a product reads them.

use std::ops::Range;

use super::super::number::Number;
use crate::lanes::fused::Fused;

/// Columns that are packed at a time: a panel of the left side takes half of the nearest cache.
pub(super) const TERMS: usize = 128;
/// Columns that are packed before the next panel: each is read in the order of its numbers, and few are read beside each other, so that
/// processors read ahead.
const TOGETHER: usize = 8;
/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Numbers by columns: column p begins at p * `stride`.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a, T> {
    pub(super) numbers: &'a [T],
    pub(super) stride: usize,
}

/// So many numbers of a memory that grows, from the start of a cache line on. Their values are those of an earlier use.
pub(super) fn lines<T: Number>(memory: &mut Vec<T>, count: usize) -> &mut [T] {
    let needed = count + LINE_BYTES / size_of::<T>();
    if memory.len() < needed {
        memory.resize(needed, T::ZERO);
    }
    let first = memory.as_ptr().align_offset(LINE_BYTES);
    &mut memory[first..][..count]
}

/// The rows of a product in strips of at most `MOST` vectors, of which none has one vector alone.
#[derive(Clone, Copy)]
pub(super) struct Strips {
    large: usize,
    pairs: usize,
    most: usize,
}

impl Strips {
    pub(super) fn new(rows: usize, width: usize, most: usize) -> Self {
        let vectors = rows.div_ceil(width).next_multiple_of(if most == 2 { 2 } else { 1 }).max(2);
        match most {
            2 => Self { large: vectors / 2, pairs: 0, most },
            _ => {
                let pairs = [0, 2, 1][vectors % 3];
                Self { large: (vectors - 2 * pairs) / 3, pairs, most }
            }
        }
    }

    /// Vectors of all strips.
    pub(super) fn vectors(self) -> usize {
        self.large * self.most + 2 * self.pairs
    }

    /// The first vector and the number of vectors of each strip.
    #[inline(always)]
    pub(super) fn each(self) -> impl Iterator<Item = (usize, usize)> {
        let (large, most) = (self.large, self.most);
        (0..large + self.pairs).map(move |nth| match nth < large {
            true => (nth * most, most),
            false => (large * most + 2 * (nth - large), 2),
        })
    }
}

/// Packs the rows of some columns in a panel a strip; the last ones are filled up with zeros.
#[inline(always)]
pub(super) fn pack_strips<T: Number, L: Fused<T>>(
    lanes: L,
    (from, rows): (Columns<'_, T>, usize),
    terms: Range<usize>,
    strips: Strips,
    to: &mut [T],
) {
    let count = terms.len();
    for group in terms.clone().step_by(TOGETHER) {
        for (first, vectors) in strips.each() {
            let (first, height) = (first * L::WIDTH, vectors * L::WIDTH);
            let panel = &mut to[first * count..][..height * count];
            for term in group..(group + TOGETHER).min(terms.end) {
                let own = &mut panel[(term - terms.start) * height..][..height];
                let column = &from.numbers[term * from.stride..];
                if first + height <= rows {
                    let column = &column[first..][..height];
                    for vector in 0..vectors {
                        let place = vector * L::WIDTH;
                        lanes.write(lanes.read(&column[place..]), &mut own[place..]);
                    }
                    continue;
                }
                let filled = rows.saturating_sub(first).min(height);
                for (nth, to) in own.iter_mut().enumerate() {
                    *to = if nth < filled { column[first + nth] } else { T::ZERO };
                }
            }
        }
    }
}

/// Packs the rows of some columns in panels of `WIDE` rows. The last panel is filled up with zeros, and so are panels up to `padded` columns.
#[inline(always)]
pub(super) fn pack_rows<T: Number, const WIDE: usize>(
    (from, rows): (Columns<'_, T>, usize),
    terms: Range<usize>,
    padded: usize,
    to: &mut [T],
) {
    for group in terms.clone().step_by(TOGETHER) {
        for first in (0..rows).step_by(WIDE) {
            let panel = &mut to[first * padded..][..WIDE * padded];
            for term in group..(group + TOGETHER).min(terms.end) {
                let own = panel[(term - terms.start) * WIDE..].first_chunk_mut::<WIDE>();
                let own = own.expect("a panel has a place for each column");
                let column = &from.numbers[term * from.stride + first..];
                // Arrays of a known length are copied without a call.
                match column.first_chunk::<WIDE>().filter(|_| first + WIDE <= rows) {
                    Some(whole) => *own = *whole,
                    None => {
                        for (nth, to) in own.iter_mut().enumerate() {
                            *to = if first + nth < rows { column[nth] } else { T::ZERO };
                        }
                    }
                }
            }
        }
    }
    for first in (0..rows).step_by(WIDE) {
        to[first * padded..][..WIDE * padded][WIDE * terms.len()..].fill(T::ZERO);
    }
}
