//! Product codes as the codes of rows: their sums by tables, and which rows may lie within the range of a query.
//!
//! The code of a row stands for a vector `c` of the codebook, so `<q, c>` is a sum of one number a part. Each number of a table is
//! rounded once from its f64 sum. `|<q_j, c_j>|` summed over the parts is at most `|q| |c|`, so this rounding is one of those that the
//! slack of the bounds covers.
//!
//! Most rows are excluded before they are bounded. With the angles `t` of a row and `s` of a query from the row's code, the
//! lower bound is within the range only if `|q| |x| cos(s - t)` is at least some number `n` of the row, and then `s` is at most
//! `t + acos(n / (|q| |x|))`. So `<q, c>` has a least value for each row, and the loops over tables of bytes look for rows that reach
//! theirs.
//!
//! Invariant: a row whose distance is within the range is never excluded. Numbers that are none exclude nothing.

use std::ops::Range;

use super::held::Codes;
use super::nearest::CodeNearest;
use super::query::CodeQuery;
use super::{SLACK, TINY};
use crate::CodePath;
use crate::lanes::{Lanes, Work, run};
use crate::product::{Bits, Codebook, GROUP, Scanner};
use crate::vector::VectorMeasure;

/// Groups whose rows get their least values at a time.
const GROUPS_AT_ONCE: usize = 32;

/// The most numbers of tables that are kept for the queries of a search: 64 MiB. For more they are computed for each piece.
const TABLES_MAX: usize = 1 << 24;

/// Shorter rows are not excluded by their angles: their f32 numbers have few bits.
const SHORT_ROW: f64 = 1.0 / (1_u128 << 100) as f64;

/// The error of an angle, as a part of the query's norm: more than the f32 numbers of a row, and its height from above, cause.
const ANGLE_SLACK: f64 = 8.0 * SLACK;

/// Queries for product codes.
#[derive(Debug)]
pub(super) struct ProductQueries {
    /// The queries less the centre.
    moved: Vec<Vec<f64>>,
    /// Their tables one after the other; empty if these would be large.
    tables: Vec<f32>,
}

impl ProductQueries {
    /// Packs queries for codes of a codebook.
    pub(super) fn new(path: CodePath, codebook: &Codebook, moved: Vec<Vec<f64>>) -> Self {
        let size = codebook.tables_len();
        let mut tables = Vec::new();
        if moved.len() * size <= TABLES_MAX {
            tables.resize(moved.len() * size, 0.0);
            let each = moved.iter().zip(tables.chunks_exact_mut(size));
            each.for_each(|(query, out)| fill_tables(path, codebook, query, out));
        }
        Self { moved, tables }
    }

    /// Queries whose tables are computed for each piece.
    #[cfg(test)]
    pub(super) fn computing(moved: Vec<Vec<f64>>) -> Self {
        Self { moved, tables: Vec::new() }
    }

    /// Adds rows to the nearest of each query; rows that `skips` names are left out.
    pub(super) fn scan(
        &self,
        path: CodePath,
        codes: &Codes,
        queries: &[CodeQuery],
        rows: Range<usize>,
        skips: Option<&dyn Fn(u32) -> bool>,
        nearest: &mut [CodeNearest],
    ) {
        let Some(codebook) = codes.encoder().codebook() else { return };
        let size = codebook.tables_len();
        let (mut scanner, mut found, mut computed) = (Scanner::new(path), Vec::new(), Vec::new());
        let mut limits = [0.0_f32; GROUPS_AT_ONCE * GROUP];
        for (nth, (query, nearest)) in queries.iter().zip(nearest).enumerate() {
            let tables = match self.tables.get(nth * size..(nth + 1) * size) {
                Some(tables) => tables,
                None => {
                    computed.resize(size, 0.0);
                    fill_tables(path, codebook, &self.moved[nth], &mut computed);
                    &computed
                }
            };
            scanner.begin(tables, Bits::Eight);
            let mut next = rows.start / GROUP;
            while next < rows.end.div_ceil(GROUP) {
                let end = rows.end.div_ceil(GROUP).min(next + GROUPS_AT_ONCE);
                let of_block = next * GROUP..end * GROUP;
                found.clear();
                match Limits::new(path, query, nearest.range()) {
                    None => found.extend((0..(end - next) as u32).map(|group| (group, u32::MAX))),
                    Some(of_query) => {
                        let limits = &mut limits[..of_block.len()];
                        of_query.write(codes, of_block, limits);
                        scanner.within(codes.product(next..end), tables, limits, &mut found);
                    }
                }
                for (group, mut mask) in found.iter().copied() {
                    let first = (next + group as usize) * GROUP;
                    while mask != 0 {
                        let row = first + mask.trailing_zeros() as usize;
                        mask &= mask - 1;
                        if rows.contains(&row) && !skips.is_some_and(|skips| skips(row as u32)) {
                            let (lower, upper) = bounds(codes, query, tables, row);
                            nearest.push(lower, upper, row as u32);
                        }
                    }
                }
                next = end;
            }
        }
    }
}

/// Writes the tables of a query: the products of its parts with all centroids, with the opposite sign.
pub(super) fn fill_tables(path: CodePath, codebook: &Codebook, query: &[f64], out: &mut [f32]) {
    run(path, Tables { codebook, query, out });
}

struct Tables<'a> {
    codebook: &'a Codebook,
    query: &'a [f64],
    out: &'a mut [f32],
}

impl Work for Tables<'_> {
    type Done = ();

    // In plain loops, which the compiler vectorises for the path.
    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let Self { codebook, query, out } = self;
        let (width, count) = (codebook.width(), Bits::Eight.centroids());
        let parts = codebook.turned().chunks_exact(width * count).zip(out.chunks_exact_mut(count));
        for (part, (turned, out)) in parts.enumerate() {
            let query = &query[(part * width).min(query.len())..((part + 1) * width).min(query.len())];
            let mut sums = [0.0_f64; Bits::Eight.centroids()];
            for (x, numbers) in query.iter().zip(turned.chunks_exact(count)) {
                for (sum, number) in sums.iter_mut().zip(numbers) {
                    *sum -= x * f64::from(*number);
                }
            }
            for (to, sum) in out.iter_mut().zip(sums) {
                *to = sum as f32;
            }
        }
    }
}

/// The bounds of a row.
pub(super) fn bounds(codes: &Codes, query: &CodeQuery, tables: &[f32], row: usize) -> (f64, f64) {
    let (triple, shift) = (codes.triple(row, true), codes.shift(row));
    let sum = codes.product(row / GROUP..row / GROUP + 1).sum_of(row % GROUP, tables);
    query.bounds(-sum * query.scale * f64::from(triple.inverse), triple, shift)
}

/// The largest sums of tables of rows that may lie within a range of a query.
struct Limits {
    path: CodePath,
    /// Half the number that is compared is `base + half * |x|^2 - shifts * shift`, and slack of both.
    base: f64,
    half: f64,
    shifts: f64,
    /// The part of the limit that each unit of a row's norm takes off.
    of_norm: f64,
    square: f64,
    norm: f64,
}

impl Limits {
    /// For a range; `None` if it excludes nothing.
    fn new(path: CodePath, query: &CodeQuery, range: f64) -> Option<Self> {
        let (norm, tiny) = (query.square.sqrt(), TINY * (1.0 + query.square.sqrt()));
        let (base, half, shifts, of_norm) = match query.measure {
            // The inner product, both less the centre, is the opposite of the distance, less the products with the centre.
            VectorMeasure::InnerProduct => {
                let (middle, (centre, roundings)) = query.of_centre();
                (-range - middle - roundings * centre - tiny, 0.0, 1.0, query.error + roundings)
            }
            measure => {
                let range = match measure {
                    VectorMeasure::Cosine => (2.0 * (range + SLACK)).max(0.0).sqrt(),
                    _ => range,
                };
                let reach = range + query.error + TINY;
                ((query.square - reach * reach) / 2.0 - tiny, 0.5, 0.0, 0.0)
            }
        };
        let is_known = (base * query.scale).is_finite() && norm > 0.0;
        is_known.then_some(Self { path, base, half, shifts, of_norm, square: query.square, norm })
    }

    /// Writes the limits of the rows of some groups.
    fn write(&self, codes: &Codes, rows: Range<usize>, out: &mut [f32]) {
        let triples = codes.first_triples().each_ref().map(|list| &list[rows.clone()]);
        let shifts = codes.shifts().get(rows).unwrap_or_default();
        run(self.path, Write { limits: self, triples, shifts, out });
    }
}

struct Write<'a> {
    limits: &'a Limits,
    triples: [&'a [f32]; 3],
    shifts: &'a [f32],
    out: &'a mut [f32],
}

impl Work for Write<'_> {
    type Done = ();

    // In plain loops, which the compiler vectorises for the path.
    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let Self { limits, triples: [inverses, alongs, heights], shifts, out } = self;
        let Limits { base, half, shifts: of_shift, of_norm, square, norm, .. } = *limits;
        let (inverses, alongs, heights) =
            (&inverses[..out.len()], &alongs[..out.len()], &heights[..out.len()]);
        for row in 0..out.len() {
            let (a, h) = (f64::from(alongs[row]), f64::from(heights[row]));
            let shift = if shifts.is_empty() { 0.0 } else { f64::from(shifts[row]) };
            let far = a * a + h * h;
            let length = far.sqrt();
            let slack = SLACK * (square + far + shift.abs());
            let least = base + half * far - of_shift * shift - of_norm * length - slack;
            let cosine = least / (norm * length);
            // The sine is not below 0, whether the angle is below a right one or above.
            let sine = ((1.0 - cosine) * (1.0 + cosine)).max(0.0).sqrt();
            let along = norm * ((a * cosine - h * sine) / length - ANGLE_SLACK);
            let limit = -along / f64::from(inverses[row]);
            // No angle is far enough if the row's and the one that is allowed make two right ones.
            let has_limit = cosine * length > -a && length > SHORT_ROW && inverses[row] > 0.0;
            let limit = if has_limit { limit } else { f64::INFINITY };
            // No row at any angle is within.
            let limit = if cosine > 1.0 { f64::NEG_INFINITY } else { limit };
            out[row] = if limit.is_nan() { f32::INFINITY } else { limit as f32 };
        }
    }
}
