//! The loop for the one nearest row: a least score first, then the rows whose scores are within the error of it.

use super::block::{QUERIES, scores};
use super::{PANEL, PanelsRef};
use crate::lanes::{Lanes, Work, load_two};

/// Vectors of rows that the inner loop processes together.
const VECTORS: usize = 2;

/// Numbers of the panels that stay in the first-level cache, or of one panel if it has more, while the tiles pass.
const NUMBERS_AT_ONCE: usize = 16_384;

/// Rows whose scores are compared between two branches.
const AT_ONCE: usize = u64::BITS as usize;

/// The most panels at once, whose scores lie in memory.
const PANELS_MAX: usize = 64;

/// A row that may be nearest to a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) query: u32,
    pub(crate) row: u32,
    pub(crate) score: f32,
}

/// Collects the rows that may be nearest to each of some queries.
pub(super) struct Nearest<'a> {
    pub(super) panels: PanelsRef<'a>,
    pub(super) tiles: &'a [f32],
    /// For each query of the tiles, twice the error of a score; NaN to collect none.
    pub(super) slacks: &'a [f32],
    /// For each query of the tiles, the largest score that matters; infinite at first.
    pub(super) limits: &'a mut [f32],
    pub(super) found: &'a mut Vec<Candidate>,
}

impl Work for Nearest<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { panels, tiles, slacks, limits, found } = self;
        let size = panels.dimensions * PANEL;
        let at_once = (NUMBERS_AT_ONCE / size).clamp(1, PANELS_MAX);
        let mut buffer = vec![0.0; QUERIES * at_once * PANEL];
        let each = panels.numbers.chunks(at_once * size).zip(panels.halves.chunks(at_once * PANEL));
        for (chunk, (numbers, halves)) in each.enumerate() {
            let rows = halves.len();
            for (tile, queries) in tiles.chunks_exact(panels.dimensions * QUERIES).enumerate() {
                let mut least = [lanes.splat(f32::INFINITY); QUERIES];
                for (panel, numbers) in numbers.chunks_exact(size).enumerate() {
                    for column in (0..PANEL).step_by(VECTORS * L::COUNT) {
                        let place = panel * PANEL + column;
                        let sums = scores::<L, QUERIES>(
                            lanes,
                            queries,
                            &numbers[column..],
                            load_two(lanes, &halves[place..]),
                        );
                        for (query, sums) in sums.iter().enumerate() {
                            let to = &mut buffer[query * rows + place..];
                            for (v, sum) in sums.iter().enumerate() {
                                lanes.store(*sum, &mut to[v * L::COUNT..]);
                                least[query] = lanes.min(*sum, least[query]);
                            }
                        }
                    }
                }
                for (place, least) in least.iter().enumerate() {
                    let query = tile * QUERIES + place;
                    let least = lanes.least(*least);
                    // The sum is rounded once.
                    let limit = (least + slacks[query]).next_up();
                    limits[query] = if limit < limits[query] { limit } else { limits[query] };
                    if least <= limits[query] {
                        let (scores, first) = (&buffer[place * rows..][..rows], chunk * at_once * PANEL);
                        collect(lanes, scores, limits[query], query, first, found);
                    }
                }
            }
        }
    }
}

/// Appends the rows with scores within the limit.
#[inline(always)]
pub(super) fn collect<L: Lanes>(
    lanes: L,
    scores: &[f32],
    limit: f32,
    query: usize,
    first: usize,
    found: &mut Vec<Candidate>,
) {
    const { assert!(PANEL.is_multiple_of(L::COUNT)) };
    let limits = lanes.splat(limit);
    // One branch for many rows: few have any that is within.
    for (idx, part) in scores.chunks(AT_ONCE).enumerate() {
        let mut within = 0u64;
        for (v, vector) in part.chunks_exact(L::COUNT).enumerate() {
            within |= u64::from(lanes.at_most(lanes.load(vector), limits)) << (v * L::COUNT);
        }
        while within != 0 {
            let place = within.trailing_zeros() as usize;
            let row = (first + idx * AT_ONCE + place) as u32;
            found.push(Candidate { query: query as u32, row, score: part[place] });
            within &= within - 1;
        }
    }
}
