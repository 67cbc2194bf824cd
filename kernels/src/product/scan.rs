//! A query against codes: bounds of whole numbers for most rows, sums of the tables for the others.

use super::Bits;
use super::bytes::Bytes;
use super::codes::{Codes, GROUP, group_bytes};
#[cfg(target_arch = "x86_64")]
use super::x86;
use crate::CodePath;
use crate::panels::Shortlist;

/// Groups whose bounds are compared with one limit.
const GROUPS_AT_ONCE: usize = 32;

/// Groups whose rows are all summed, before there is a limit to compare bounds with.
const GROUPS_FIRST: usize = 4;

/// Offers all rows to a shortlist, by the sum of their tables' numbers in f32, in the order of the parts, from `base` on. Rows
/// have numbers from `first` on. The shortlist is for scores without error, and may have rows of other codes.
///
/// # Panics
/// If the tables or the bytes are not of these codes, or this machine lacks the instructions.
pub fn scan(path: CodePath, codes: Codes<'_>, tables: &[f32], base: f32, list: &mut Shortlist, first: u32) {
    codes.check();
    assert_eq!(tables.len(), codes.parts * codes.bits.centroids(), "tables of these codes");
    assert!(path.is_available(), "this machine has no {path} instructions");
    let groups = codes.rows.div_ceil(GROUP);
    let mut bytes = Bytes::default();
    let mut found = Vec::new();
    let mut next = 0;
    while next < groups {
        if list.limit() == f32::MAX || !is_fast(path, codes.bits) {
            // More rows than the shortlist wants give a limit.
            let end = groups.min(next + GROUPS_FIRST);
            for row in next * GROUP..codes.rows.min(end * GROUP) {
                list.offer(sum(codes, tables, base, row), first + row as u32);
            }
            list.tighten();
            next = end;
            continue;
        }
        if bytes.tables.is_empty() && !bytes.set(tables, codes.bits, base, list.limit()) {
            return;
        }
        let Some(limit) = bytes.limit(list.limit()) else { return };
        let end = groups.min(next + GROUPS_AT_ONCE);
        found.clear();
        let size = group_bytes(codes.parts, codes.bits);
        within(path, codes, &bytes.tables, &codes.bytes[next * size..end * size], limit, &mut found);
        for (group, mut rows) in found.iter().copied() {
            while rows != 0 {
                let row = (next + group as usize) * GROUP + rows.trailing_zeros() as usize;
                rows &= rows - 1;
                if row < codes.rows {
                    list.offer(sum(codes, tables, base, row), first + row as u32);
                }
            }
        }
        next = end;
    }
}

/// The sum of a row's numbers.
#[inline(always)]
fn sum(codes: Codes<'_>, tables: &[f32], base: f32, row: usize) -> f32 {
    let count = codes.bits.centroids();
    let mut sum = base;
    for (part, table) in tables.chunks_exact(count).enumerate() {
        sum += table[codes.at(row, part)];
    }
    sum
}

/// Whether bounds of whole numbers are faster than sums of the tables.
fn is_fast(path: CodePath, bits: Bits) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        match (path, bits) {
            (CodePath::Portable, _) => false,
            (_, Bits::Four) => true,
            (CodePath::Avx2, Bits::Eight) => false,
            (CodePath::Avx512, Bits::Eight) => x86::has_wide_tables(),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (path, bits);
        false
    }
}

/// Lists the groups with rows whose sums of bytes are within a limit, and these rows.
fn within(
    path: CodePath,
    codes: Codes<'_>,
    tables: &[u8],
    bytes: &[u8],
    limit: u16,
    found: &mut Vec<(u32, u32)>,
) {
    #[cfg(target_arch = "x86_64")]
    match (path, codes.bits) {
        (CodePath::Portable, _) => {}
        (CodePath::Avx512, Bits::Four) if x86::has_wide_shuffles() => {
            return x86::within_4_avx512(tables, bytes, limit, found);
        }
        (_, Bits::Four) => return x86::within_4_avx2(tables, bytes, limit, found),
        (_, Bits::Eight) if x86::has_wide_tables() => {
            return x86::within_8_avx512(tables, codes.parts, bytes, limit, found);
        }
        (_, Bits::Eight) => {}
    }
    let _ = path;
    within_portable(codes, tables, bytes, limit, found);
}

/// The scan in plain loops.
pub(super) fn within_portable(
    codes: Codes<'_>,
    tables: &[u8],
    bytes: &[u8],
    limit: u16,
    found: &mut Vec<(u32, u32)>,
) {
    let size = group_bytes(codes.parts, codes.bits);
    for (group, bytes) in bytes.chunks_exact(size).enumerate() {
        let codes = Codes { rows: GROUP, bytes, ..codes };
        let mut rows = 0;
        for row in 0..GROUP {
            let each = tables.chunks_exact(codes.bits.centroids()).take(codes.parts).enumerate();
            let sum: u32 = each.map(|(part, table)| u32::from(table[codes.at(row, part)])).sum();
            rows |= u32::from(sum <= u32::from(limit)) << row;
        }
        if rows != 0 {
            found.push((group as u32, rows));
        }
    }
}
