//! The loop over panels: tiles of queries against the rows of a panel.

use super::{PANEL, PanelsRef, Shortlist};
use crate::lanes::{Lanes, Work, load_two};

/// Queries of a tile: their sums and the two vectors of rows fill the registers of AVX2.
pub(crate) const QUERIES: usize = 6;
/// Vectors of rows that the inner loop processes together.
const VECTORS: usize = 2;

/// Queries in tiles, with the sign turned: number `j` of query `i` of tile `t` is at `(t * dimensions + j) * QUERIES + i`.
pub(crate) fn tiles(queries: &[f32], dimensions: usize, centre: Option<&[f32]>) -> Vec<f32> {
    let mut tiles = vec![0.0; (queries.len() / dimensions).next_multiple_of(QUERIES) * dimensions];
    for (idx, query) in queries.chunks_exact(dimensions).enumerate() {
        let to = &mut tiles[idx / QUERIES * QUERIES * dimensions + idx % QUERIES..];
        for (j, x) in query.iter().enumerate() {
            to[j * QUERIES] = -(x - centre.map_or(0.0, |centre| centre[j]));
        }
    }
    tiles
}

/// Offers the rows of all panels to the shortlists of some queries.
pub(super) struct Scan<'a> {
    pub(super) panels: PanelsRef<'a>,
    pub(super) tiles: &'a [f32],
    /// For each query of the tiles, the largest score that matters.
    pub(super) limits: &'a mut [f32],
    pub(super) lists: &'a mut [Shortlist],
    /// The number of the first row.
    pub(super) first: u32,
}

impl Work for Scan<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) {
        let dimensions = self.panels.dimensions;
        let size = dimensions * PANEL;
        let (tiles, queries) = (self.tiles, self.lists.len());
        for panel in 0..self.panels.rows.div_ceil(PANEL) {
            let numbers = &self.panels.numbers[panel * size..][..size];
            let halves = &self.panels.halves[panel * PANEL..][..PANEL];
            for (tile, of_tile) in tiles.chunks_exact(dimensions * QUERIES).enumerate() {
                // Few queries at the end have loops of their own.
                match queries - tile * QUERIES {
                    1 => self.tile::<L, 1>(lanes, panel, tile, of_tile, numbers, halves),
                    2 => self.tile::<L, 2>(lanes, panel, tile, of_tile, numbers, halves),
                    3 | 4 => self.tile::<L, 4>(lanes, panel, tile, of_tile, numbers, halves),
                    _ => self.tile::<L, QUERIES>(lanes, panel, tile, of_tile, numbers, halves),
                }
            }
        }
    }
}

impl Scan<'_> {
    /// Offers a panel to the first `Q` queries of a tile.
    #[inline(always)]
    fn tile<L: Lanes, const Q: usize>(
        &mut self,
        lanes: L,
        panel: usize,
        tile: usize,
        queries: &[f32],
        numbers: &[f32],
        halves: &[f32],
    ) {
        let limits: &mut [f32; Q] =
            self.limits[tile * QUERIES..].first_chunk_mut().expect("a limit for each query");
        for column in (0..PANEL).step_by(VECTORS * L::COUNT) {
            let sums = scores::<L, Q>(lanes, queries, &numbers[column..], load_two(lanes, &halves[column..]));
            for (query, sums) in sums.iter().enumerate() {
                let limit = lanes.splat(limits[query]);
                for (v, scores) in sums.iter().enumerate() {
                    let within = lanes.at_most(*scores, limit);
                    if within != 0 {
                        let list = &mut self.lists[tile * QUERIES + query];
                        let row = self.first + (panel * PANEL + column + v * L::COUNT) as u32;
                        offer(lanes, *scores, within, list, row);
                        limits[query] = list.limit();
                    }
                }
            }
        }
    }
}

/// The scores of the first `Q` queries of a tile and two vectors of rows.
#[inline(always)]
pub(crate) fn scores<L: Lanes, const Q: usize>(
    lanes: L,
    queries: &[f32],
    rows: &[f32],
    halves: [L::V; VECTORS],
) -> [[L::V; VECTORS]; Q] {
    let mut sums = [halves; Q];
    let (queries, _) = queries.as_chunks::<QUERIES>();
    for (queries, rows) in queries.iter().zip(rows.chunks(PANEL)) {
        let rows: [L::V; VECTORS] = load_two(lanes, rows);
        for query in 0..Q {
            let x = lanes.splat(queries[query]);
            for v in 0..VECTORS {
                sums[query][v] = lanes.mul_add(x, rows[v], sums[query][v]);
            }
        }
    }
    sums
}

/// Offers the rows within the limit to a shortlist.
#[inline(always)]
fn offer<L: Lanes>(lanes: L, scores: L::V, mut within: u32, list: &mut Shortlist, first: u32) {
    let mut numbers = [0.0; PANEL];
    lanes.store(scores, &mut numbers);
    while within != 0 {
        let lane = within.trailing_zeros();
        list.offer(numbers[lane as usize], first + lane);
        within &= within - 1;
    }
}
