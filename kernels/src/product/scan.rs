//! A query against codes: bounds of whole numbers for most rows, sums of the tables for the others.

use super::Bits;
use super::bytes::{Bytes, Sums};
use super::codes::{Codes, GROUP, group_bytes};
#[cfg(target_arch = "x86_64")]
use super::x86;
use crate::CodePath;
use crate::panels::Shortlist;

/// Rows of 4-bit codes that share bytes with as many others.
const HALF: usize = GROUP / 2;

/// Groups whose bounds are compared with one limit.
const GROUPS_AT_ONCE: usize = 32;

/// Groups whose rows are all summed, before there is a limit to compare bounds with.
const GROUPS_FIRST: usize = 4;

/// With fewer rows than this part of the numbers of a table, sums cost less than tables of whole numbers.
const FEW_ROWS: usize = 2;

/// Offers all rows to a shortlist, by the sum of their tables' numbers in f32, in the order of the parts, from `base` on. Rows
/// have numbers from `first` on. The shortlist is for scores without error, and may have rows of other codes. With a `mask`, only
/// rows with a bit there are offered: bit `r` of word `g` is that of row `r` of group `g`.
///
/// # Panics
/// If the tables, the bytes or the mask are not of these codes, or this machine lacks the instructions.
pub fn scan(
    path: CodePath,
    codes: Codes<'_>,
    tables: &[f32],
    base: f32,
    mask: Option<&[u32]>,
    list: &mut Shortlist,
    first: u32,
) {
    Scanner::new(path).scan(codes, tables, base, mask, list, first);
}

/// Scans many lists of codes, and keeps its room in memory between them.
#[derive(Clone, Debug)]
pub struct Scanner {
    path: CodePath,
    bytes: Bytes,
    /// Groups and those of their rows that may be within the limit.
    found: Vec<(u32, u32)>,
    /// The largest size of a sum of the tables of [`Scanner::begin`].
    size: f64,
}

impl Scanner {
    /// A scanner by a path.
    ///
    /// # Panics
    /// If this machine lacks the instructions.
    pub fn new(path: CodePath) -> Self {
        assert!(path.is_available(), "this machine has no {path} instructions");
        Self { path, bytes: Bytes::default(), found: Vec::new(), size: 0.0 }
    }

    /// As [`scan`].
    ///
    /// # Panics
    /// If the tables, the bytes or the mask are not of these codes.
    pub fn scan(
        &mut self,
        codes: Codes<'_>,
        tables: &[f32],
        base: f32,
        mask: Option<&[u32]>,
        list: &mut Shortlist,
        first: u32,
    ) {
        let Self { path, bytes, found, .. } = self;
        let path = *path;
        bytes.clear();
        codes.check();
        assert_eq!(tables.len(), codes.parts * codes.bits.centroids(), "tables of these codes");
        let groups = codes.rows.div_ceil(GROUP);
        assert!(mask.is_none_or(|mask| mask.len() == groups), "a word of the mask for each group");
        let masked = |group: usize, rows: u32| mask.map_or(rows, |mask| mask[group] & rows);
        let is_fast = is_fast(path, codes.bits) && codes.rows > codes.bits.centroids() / FEW_ROWS;
        let mut next = 0;
        while next < groups {
            if list.limit() == f32::MAX || !is_fast {
                // More rows than the shortlist wants give a limit.
                let end = groups.min(next + GROUPS_FIRST);
                for group in next..end {
                    let to = (&mut *list, first);
                    offer_rows(path, codes, (tables, base), group, masked(group, u32::MAX), |_, sum| sum, to);
                }
                if list.limit() == f32::MAX {
                    list.tighten();
                }
                next = end;
                continue;
            }
            let limit = list.limit();
            if (bytes.tables.is_empty() || bytes.is_coarse(limit))
                && !bytes.set(path, tables, codes.bits, sums_of(path, codes.bits), base, limit)
            {
                return;
            }
            let Some(limit) = bytes.limit(f64::from(list.limit())) else { return };
            let end = groups.min(next + GROUPS_AT_ONCE);
            found.clear();
            let size = group_bytes(codes.parts, codes.bits);
            within(path, codes, bytes, &codes.bytes[next * size..end * size], &[[limit; GROUP]], found);
            for (group, rows) in found.iter().copied() {
                let group = next + group as usize;
                let to = (&mut *list, first);
                offer_rows(path, codes, (tables, base), group, masked(group, rows), |_, sum| sum, to);
            }
            next = end;
        }
    }
}

/// Rows with limits of their own, for callers that know more of a row than its code.
impl Scanner {
    /// Takes the tables of the calls of [`Scanner::within`] that follow.
    pub(crate) fn begin(&mut self, tables: &[f32], bits: Bits) {
        let largest = |table: &[f32]| table.iter().fold(0.0_f64, |most, x| most.max(f64::from(x.abs())));
        self.size = tables.chunks_exact(bits.centroids()).map(largest).sum();
        self.bytes.clear();
    }

    /// Lists the groups with rows whose sums of the tables may be at most their limits, and a bit for each of these rows. There
    /// are at most [`GROUPS_AT_ONCE`] groups, a limit for each of their rows, and no limit that is no number.
    ///
    /// # Panics
    /// If the limits are not of these codes.
    pub(crate) fn within(
        &mut self,
        codes: Codes<'_>,
        tables: &[f32],
        limits: &[f32],
        found: &mut Vec<(u32, u32)>,
    ) {
        let groups = codes.rows.div_ceil(GROUP);
        assert!(groups <= GROUPS_AT_ONCE && limits.len() == groups * GROUP, "limits of these codes");
        let Self { path, bytes, size, .. } = self;
        if is_fast(*path, codes.bits) {
            let mut of_bytes = [[0u16; GROUP]; GROUPS_AT_ONCE];
            let of_bytes = &mut of_bytes[..groups];
            let each = || limits.iter().map(|limit| f64::from(*limit));
            if byte_limits(*path, bytes, (tables, codes.bits, *size), each, of_bytes) {
                within(*path, codes, bytes, codes.bytes, of_bytes, found);
            }
            return;
        }
        // A rounding for each part, and one for the limit.
        let error = (*size * (codes.parts + 2) as f64 * 2f64.powi(-23)) as f32;
        for (group, limits) in limits.as_chunks::<GROUP>().0.iter().enumerate() {
            let mut sums = [0.0; GROUP];
            sum_group(*path, codes, tables, group, &mut sums);
            let mut rows = 0u32;
            for (row, (sum, limit)) in sums.iter().zip(limits).enumerate() {
                rows |= u32::from(*sum <= limit + error) << row;
            }
            if rows != 0 {
                found.push((group as u32, rows));
            }
        }
    }
}

/// What the scores of rows are made of, beside sums of tables.
#[derive(Clone, Copy, Debug)]
pub struct Scales<'a> {
    /// Added to the base: a number for each row of each group.
    pub squares: &'a [f32],
    /// Factors of the sums, none below 0.
    pub scales: &'a [f32],
}

/// Roundings of a score, as a part of the sizes of its parts.
const SCORE_SLACK: f64 = 1.0 / (1 << 21) as f64;

impl Scanner {
    /// As [`Scanner::scan`], for codes of 4 bits and scores `base + square + scale * sum`.
    ///
    /// # Panics
    /// If the tables, the bytes, the mask or the scales are not of these codes.
    #[expect(clippy::too_many_arguments, reason = "all of them say what is scanned")]
    pub fn scan_scaled(
        &mut self,
        codes: Codes<'_>,
        tables: &[f32],
        base: f32,
        of_rows: Scales<'_>,
        mask: Option<&[u32]>,
        list: &mut Shortlist,
        first: u32,
    ) {
        let Self { path, bytes, found, .. } = self;
        let path = *path;
        bytes.clear();
        codes.check();
        let groups = codes.rows.div_ceil(GROUP);
        assert!(
            codes.bits == Bits::Four && tables.len() == codes.parts * codes.bits.centroids(),
            "tables of these codes"
        );
        assert!(mask.is_none_or(|mask| mask.len() == groups), "a word of the mask for each group");
        assert!(
            of_rows.squares.len() == groups * GROUP && of_rows.scales.len() == groups * GROUP,
            "scales of these codes"
        );
        let score = |row: usize, sum: f32| (base + of_rows.squares[row]) + of_rows.scales[row] * sum;
        let is_fast = is_fast(path, codes.bits);
        let largest = tables.iter().fold(0.0f32, |size, x| if x.abs() > size { x.abs() } else { size });
        let size_max = f64::from(largest) * codes.parts as f64;
        let (size, mut next) = (group_bytes(codes.parts, codes.bits), 0);
        let mut limits = [[0u16; GROUP]; GROUPS_AT_ONCE];
        while next < groups {
            let is_first = list.limit() == f32::MAX || !is_fast;
            let end = groups.min(next + if is_first { GROUPS_FIRST } else { GROUPS_AT_ONCE });
            found.clear();
            if is_first {
                found.extend((0..(end - next) as u32).map(|group| (group, u32::MAX)));
            } else {
                let rows = next * GROUP..end * GROUP;
                let of_rows =
                    Scales { squares: &of_rows.squares[rows.clone()], scales: &of_rows.scales[rows] };
                if row_limits(path, bytes, (tables, size_max), base, list.limit(), of_rows, &mut limits) {
                    let (bytes, limits) = (&*bytes, &limits[..end - next]);
                    within(path, codes, bytes, &codes.bytes[next * size..end * size], limits, found);
                }
            }
            for (group, rows) in found.iter().copied() {
                let group = next + group as usize;
                let rows = mask.map_or(rows, |mask| mask[group] & rows);
                offer_rows(path, codes, (tables, 0.0), group, rows, score, (&mut *list, first));
            }
            if list.limit() == f32::MAX {
                list.tighten();
            }
            next = end;
        }
    }
}

/// The largest sums of bytes of rows whose scores may be within a limit. Makes tables of bytes where there are none, or finer ones are worth
/// it; `size` is the largest size of their sums. Returns false if no row is within.
fn row_limits(
    path: CodePath,
    bytes: &mut Bytes,
    (tables, size): (&[f32], f64),
    base: f32,
    limit: f32,
    of_rows: Scales<'_>,
    limits: &mut [[u16; GROUP]],
) -> bool {
    let (base, limit) = (f64::from(base), f64::from(limit));
    let most = |square: f32, scale: f32| {
        let (square, scale) = (f64::from(square), f64::from(scale));
        let slack = SCORE_SLACK * (limit.abs() + base.abs() + square + scale * size);
        let room = limit + slack - base - square;
        // A row without a scale has one score whatever its code is.
        if scale > 0.0 {
            room / scale
        } else if room >= 0.0 {
            f64::INFINITY
        } else {
            f64::NEG_INFINITY
        }
    };
    let each = || of_rows.squares.iter().zip(of_rows.scales).map(|(square, scale)| most(*square, *scale));
    byte_limits(path, bytes, (tables, Bits::Four, size), each, limits)
}

/// The largest sums of bytes of rows whose sums may be at most those that `each` gives. Makes tables of bytes where there are none, or finer
/// ones are worth it; `size` is the largest size of a sum. Returns false if no row is within.
fn byte_limits<I: Iterator<Item = f64>>(
    path: CodePath,
    bytes: &mut Bytes,
    (tables, bits, size): (&[f32], Bits, f64),
    each: impl Fn() -> I,
    limits: &mut [[u16; GROUP]],
) -> bool {
    let largest = each().fold(f64::NEG_INFINITY, |largest, most| if most > largest { most } else { largest });
    let largest = (largest.min(size) as f32).next_up();
    if (bytes.tables.is_empty() || bytes.is_coarse(largest))
        && !bytes.set(path, tables, bits, Sums::Words, 0.0, largest)
    {
        return false;
    }
    let mut has_any = false;
    for (limit, most) in limits.as_flattened_mut().iter_mut().zip(each()) {
        // No sum of bytes is below 0: a row beyond may pass with the sum 0, and its score decides.
        let of_row = bytes.limit(most);
        has_any |= of_row.is_some();
        *limit = of_row.unwrap_or(0);
    }
    has_any
}

/// The sum of a row's numbers, in the order of the parts.
#[inline(always)]
fn sum(codes: Codes<'_>, tables: &[f32], base: f32, row: usize) -> f32 {
    let group = codes.group(row / GROUP);
    let (row, mut sum) = (row % GROUP, base);
    match codes.bits {
        Bits::Eight => {
            for (codes, table) in group.as_chunks::<GROUP>().0.iter().zip(tables.as_chunks::<256>().0) {
                sum += table[usize::from(codes[row])];
            }
        }
        Bits::Four => {
            let shift = row / HALF * 4;
            for (codes, table) in group.as_chunks::<HALF>().0.iter().zip(tables.as_chunks::<16>().0) {
                sum += table[usize::from(codes[row % HALF] >> shift & 15)];
            }
        }
    }
    sum
}

/// Offers some rows of a group. Where all sums of a group cost less than those of these rows, they are computed side by side.
#[inline(always)]
fn offer_rows(
    path: CodePath,
    codes: Codes<'_>,
    (tables, base): (&[f32], f32),
    group: usize,
    mut rows: u32,
    score: impl Fn(usize, f32) -> f32,
    (list, first): (&mut Shortlist, u32),
) {
    let all = (rows.count_ones() > few_rows(path, codes.bits)).then(|| {
        let mut sums = [base; GROUP];
        sum_group(path, codes, tables, group, &mut sums);
        sums
    });
    while rows != 0 {
        let place = rows.trailing_zeros() as usize;
        rows &= rows - 1;
        let row = group * GROUP + place;
        if row < codes.rows {
            let sum = all.map_or_else(|| sum(codes, tables, base, row), |sums| sums[place]);
            list.offer(score(row, sum), first + row as u32);
        }
    }
}

/// Rows of a group whose sums cost no more than those of the whole group.
fn few_rows(path: CodePath, bits: Bits) -> u32 {
    match (path, bits) {
        (CodePath::Avx512, Bits::Four) => 1,
        (CodePath::Avx2 | CodePath::AvxVnni, Bits::Four) => 3,
        _ => GROUP as u32 / 2,
    }
}

/// Adds the numbers of all rows of a group to their sums, in the order of the parts.
fn sum_group(path: CodePath, codes: Codes<'_>, tables: &[f32], group: usize, sums: &mut [f32; GROUP]) {
    #[cfg(target_arch = "x86_64")]
    match (path, codes.bits) {
        (CodePath::Avx512, Bits::Four) => return x86::sum_4_avx512(tables, codes.group(group), sums),
        (CodePath::Avx2 | CodePath::AvxVnni, Bits::Four) => {
            return x86::sum_4_avx2(tables, codes.group(group), sums);
        }
        _ => {}
    }
    let _ = path;
    sum_group_portable(codes, tables, group, sums);
}

/// The sums of a group in plain loops.
pub(super) fn sum_group_portable(codes: Codes<'_>, tables: &[f32], group: usize, sums: &mut [f32; GROUP]) {
    let group = codes.group(group);
    match codes.bits {
        Bits::Eight => {
            for (codes, table) in group.as_chunks::<GROUP>().0.iter().zip(tables.as_chunks::<256>().0) {
                for (sum, code) in sums.iter_mut().zip(codes) {
                    *sum += table[usize::from(*code)];
                }
            }
        }
        Bits::Four => {
            let (low, high) = sums.split_at_mut(HALF);
            for (codes, table) in group.as_chunks::<HALF>().0.iter().zip(tables.as_chunks::<16>().0) {
                for ((low, high), code) in low.iter_mut().zip(&mut *high).zip(codes) {
                    *low += table[usize::from(code & 15)];
                    *high += table[usize::from(code >> 4)];
                }
            }
        }
    }
}

/// Whether bounds of whole numbers are faster than sums of the tables.
fn is_fast(path: CodePath, bits: Bits) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        match (path, bits) {
            (CodePath::Portable, _) => false,
            (_, Bits::Four) => true,
            (_, Bits::Eight) => true,
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (path, bits);
        false
    }
}

/// The numbers that hold sums where all rows have one limit. Registers of AVX2 hold sums of a group in bytes, and not in words.
fn sums_of(path: CodePath, bits: Bits) -> Sums {
    match (path, bits) {
        (CodePath::Avx2 | CodePath::AvxVnni, Bits::Four) => Sums::Bytes,
        _ => Sums::Words,
    }
}

/// Lists the groups with rows whose sums of bytes are within their limits, those of one group for each group or of one for all,
/// and these rows.
fn within(
    path: CodePath,
    codes: Codes<'_>,
    tables: &Bytes,
    bytes: &[u8],
    limits: &[[u16; GROUP]],
    found: &mut Vec<(u32, u32)>,
) {
    let (sums, tables) = (tables.sums, &tables.tables[..]);
    #[cfg(target_arch = "x86_64")]
    match (path, codes.bits) {
        (CodePath::Portable, _) => {}
        (CodePath::Avx512, Bits::Four) if x86::has_dot_tables() => {
            return x86::within_4_dot(tables, bytes, limits, found);
        }
        (CodePath::Avx512, Bits::Four) if x86::has_wide_shuffles() => {
            return x86::within_4_avx512(tables, bytes, limits, found);
        }
        (_, Bits::Four) if sums == Sums::Bytes => {
            return x86::within_4_in_bytes(tables, bytes, limits, found);
        }
        (_, Bits::Four) => return x86::within_4_avx2(tables, bytes, limits, found),
        (CodePath::Avx512, Bits::Eight) if x86::has_wide_tables() => {
            return x86::within_8_avx512(tables, codes.parts, bytes, limits, found);
        }
        (_, Bits::Eight) => return x86::within_8_avx2(tables, codes.parts, bytes, limits, found),
    }
    let _ = (path, sums);
    within_portable(codes, tables, bytes, limits, found);
}

/// The scan in plain loops.
pub(super) fn within_portable(
    codes: Codes<'_>,
    tables: &[u8],
    bytes: &[u8],
    limits: &[[u16; GROUP]],
    found: &mut Vec<(u32, u32)>,
) {
    let size = group_bytes(codes.parts, codes.bits);
    for (group, bytes) in bytes.chunks_exact(size).enumerate() {
        let codes = Codes { rows: GROUP, bytes, ..codes };
        let mut rows = 0;
        for row in 0..GROUP {
            let each = tables.chunks_exact(codes.bits.centroids()).take(codes.parts).enumerate();
            let sum: u32 = each.map(|(part, table)| u32::from(table[codes.at(row, part)])).sum();
            rows |= u32::from(sum <= u32::from(limits[group % limits.len()][row])) << row;
        }
        if rows != 0 {
            found.push((group as u32, rows));
        }
    }
}
