//! Measures of a query's list and those of all objects, and the objects with the least ones.
//!
//! Measures of more than a byte a number take two look-ups each. So candidates come from sums of the high bits alone where these tell almost
//! all objects of a block from the nearest so far; the others' measures are computed one by one.

use super::Comparison;
#[cfg(target_arch = "x86_64")]
use super::lists::BYTES_MAX;
use super::lists::{BLOCK, Lists, Numbers};
use super::tables::{ByteTables, CoarseTables, Tables};
use crate::CodePath;
use crate::lanes::{Lanes, Work, run};

/// Measures that are compared with the limit at once.
const AT_ONCE: usize = 32;
/// Objects of a block whose measures are computed one by one at most: more take longer than those of the block.
const FEW: usize = 8;
/// Blocks that are scanned by whole measures after one in which more objects were near.
const WHOLE_BLOCKS: usize = 16;

/// A query's list, ready to be compared with those of all objects.
struct Scanner<'a> {
    lists: &'a Lists,
    path: CodePath,
    tables: Tables,
    bytes: Option<ByteTables>,
    /// Tables of the high bits, where `bytes` are tables of two bytes.
    coarse: Option<CoarseTables>,
}

impl Lists {
    /// The measure between a query's list and those of all objects.
    ///
    /// # Panics
    /// When the query's list has another length, or this machine lacks the instructions.
    pub fn measures(&self, path: CodePath, comparison: impl Into<Comparison>, query: &[u16]) -> Vec<u32> {
        let scanner = Scanner::new(self, path, comparison.into(), query);
        let mut found = vec![0; self.objects().next_multiple_of(BLOCK)];
        for (block, found) in found.as_chunks_mut().0.iter_mut().enumerate() {
            scanner.block(block, found);
        }
        found.truncate(self.objects());
        found
    }

    /// The `count` first objects by (measure, number), in this order, among those that `has` names.
    ///
    /// # Panics
    /// As [`Lists::measures`].
    pub fn candidates(
        &self,
        path: CodePath,
        comparison: impl Into<Comparison>,
        query: &[u16],
        count: usize,
        has: impl Fn(usize) -> bool,
    ) -> Vec<u32> {
        let scanner = Scanner::new(self, path, comparison.into(), query);
        let (mut winnow, mut found) = (Winnow::new(count.min(self.objects())), [0; BLOCK]);
        let mut whole_blocks = 0;
        for (block, first) in (0..self.objects()).step_by(BLOCK).enumerate() {
            let count = BLOCK.min(self.objects() - first);
            if whole_blocks == 0
                && let Some(limit) = scanner.by_coarse(block, winnow.limit, &mut found)
            {
                let near = found[..count].iter().filter(|sum| **sum < limit).count();
                if near <= FEW {
                    let near = (0..count).filter(|_| near > 0).filter(|nth| found[*nth] < limit);
                    for nth in near.filter(|nth| has(first + nth)) {
                        winnow.take(first + nth, scanner.measure(block, nth));
                    }
                    continue;
                }
                whole_blocks = WHOLE_BLOCKS;
            }
            whole_blocks = whole_blocks.saturating_sub(1);
            scanner.block(block, &mut found);
            winnow.offer(&found[..count], first, &has);
        }
        winnow.finish()
    }
}

impl<'a> Scanner<'a> {
    fn new(lists: &'a Lists, path: CodePath, comparison: Comparison, query: &[u16]) -> Self {
        assert_eq!(query.len(), lists.length(), "lists of one length");
        assert!(path.is_available(), "this machine has no {path} instructions");
        let tables = Tables::new(lists, comparison, query);
        let bytes = tables.in_bytes(lists, &comparison);
        let coarse = bytes.as_ref().filter(|bytes| !bytes.high.is_empty()).map(|_| tables.coarse(lists));
        Self { lists, path, tables, bytes, coarse }
    }

    /// Writes coarse sums of a block's objects, and returns the limit from which on none has a measure below `limit`; nothing if
    /// the path has no look-ups for them, or all measures are below the limit.
    fn by_coarse(&self, block: usize, limit: u32, out: &mut [u32; BLOCK]) -> Option<u32> {
        let coarse = self.coarse.as_ref().filter(|_| limit < u32::MAX)?;
        let Numbers::Bytes(numbers) = self.lists.numbers() else { return None };
        let size = BLOCK * self.lists.length();
        let is_made = self.by_bytes(&coarse.tables, &numbers[block * size..][..size], out);
        is_made.then(|| coarse.limit(limit))
    }

    /// The measure of one object of a block.
    fn measure(&self, block: usize, nth: usize) -> u32 {
        let (pivots, first) = (self.lists.pivots(), block * BLOCK * self.lists.length() + nth);
        let places = (0..self.lists.length()).map(|place| first + place * BLOCK);
        match self.lists.numbers() {
            Numbers::Bytes(numbers) => self.tables.measure(pivots, places.map(|at| numbers[at].into())),
            Numbers::Words(numbers) => self.tables.measure(pivots, places.map(|at| numbers[at].into())),
        }
    }

    /// The measures of the objects of a block; numbers without meaning beyond the last object.
    fn block(&self, block: usize, out: &mut [u32; BLOCK]) {
        let size = BLOCK * self.lists.length();
        match self.lists.numbers() {
            Numbers::Bytes(numbers) => {
                let numbers = &numbers[block * size..][..size];
                if !self.bytes.as_ref().is_some_and(|bytes| self.by_bytes(bytes, numbers, out)) {
                    run(self.path, LookUps { scanner: self, numbers, out });
                }
            }
            Numbers::Words(numbers) => {
                let numbers = &numbers[block * size..][..size];
                run(self.path, LookUps { scanner: self, numbers, out });
            }
        }
    }

    /// Whether the path has look-ups of bytes, which then were made.
    #[cfg(target_arch = "x86_64")]
    fn by_bytes(&self, bytes: &ByteTables, numbers: &[u8], out: &mut [u32; BLOCK]) -> bool {
        use super::x86::{block_avx2, block_wide, has_wide_tables};
        match self.path {
            CodePath::Avx512 if has_wide_tables() => block_wide(bytes, numbers, out),
            CodePath::Avx512 | CodePath::AvxVnni | CodePath::Avx2 if bytes.width == 128 => {
                block_avx2(bytes, numbers, out);
            }
            _ => return false,
        }
        true
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn by_bytes(&self, _bytes: &ByteTables, _numbers: &[u8], _out: &mut [u32; BLOCK]) -> bool {
        false
    }
}

/// Whether a path looks up so many pivots by permutes of bytes, far faster than one after the other.
#[cfg(target_arch = "x86_64")]
pub(super) fn looks_up_bytes(path: CodePath, pivots: usize) -> bool {
    path == CodePath::Avx512 && super::x86::has_wide_tables() && pivots <= BYTES_MAX
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn looks_up_bytes(_path: CodePath, _pivots: usize) -> bool {
    false
}

/// One look-up after the other.
struct LookUps<'a, N> {
    scanner: &'a Scanner<'a>,
    numbers: &'a [N],
    out: &'a mut [u32; BLOCK],
}

impl<N: Copy + Into<usize>> Work for LookUps<'_, N> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let Self { scanner, numbers, out } = self;
        out.fill(scanner.tables.absent);
        let rows = scanner.tables.entries.chunks_exact(scanner.lists.pivots());
        for (row, numbers) in rows.zip(numbers.as_chunks::<BLOCK>().0) {
            for (out, number) in out.iter_mut().zip(numbers) {
                *out = out.wrapping_add(row[(*number).into()]);
            }
        }
    }
}

/// The objects with the least measures so far, among objects that come by ascending number.
pub(super) struct Winnow {
    count: usize,
    /// Measures from here on are too large: with an equal one, an object with a larger number is farther.
    limit: u32,
    /// The measure above the number.
    kept: Vec<u64>,
}

impl Winnow {
    pub(super) fn new(count: usize) -> Self {
        let limit = if count == 0 { 0 } else { u32::MAX };
        Self { count, limit, kept: Vec::with_capacity(2 * count) }
    }

    /// Takes the measures of consecutive objects; those that `has` does not name are left out.
    pub(super) fn offer(&mut self, measures: &[u32], first: usize, has: &impl Fn(usize) -> bool) {
        for (part, measures) in measures.chunks(AT_ONCE).enumerate() {
            // One branch for many objects: few have any within the limit.
            if measures.iter().fold(u32::MAX, |least, measure| least.min(*measure)) >= self.limit {
                continue;
            }
            for (object, measure) in (first + part * AT_ONCE..).zip(measures) {
                if *measure < self.limit && has(object) {
                    self.take(object, *measure);
                }
            }
        }
    }

    /// Takes an object, whose number is above all before.
    #[inline(always)]
    fn take(&mut self, object: usize, measure: u32) {
        if measure < self.limit {
            self.kept.push(u64::from(measure) << 32 | object as u64);
            if self.kept.len() == 2 * self.count {
                self.cut();
            }
        }
    }

    fn cut(&mut self) {
        let (_, last, _) = self.kept.select_nth_unstable(self.count - 1);
        self.limit = (*last >> 32) as u32;
        self.kept.truncate(self.count);
    }

    /// The objects, the least measure first.
    pub(super) fn finish(mut self) -> Vec<u32> {
        self.kept.sort_unstable();
        self.kept.truncate(self.count);
        self.kept.into_iter().map(|key| key as u32).collect()
    }
}
