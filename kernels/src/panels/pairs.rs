//! The loop over pairs of a query and a row, each of which may be among the nearest of the other: half the distances serve both.

use super::block::{QUERIES, scores};
use super::{PANEL, PanelsRef, Shortlist};
use crate::lanes::{Lanes, Work, load_two};

/// Vectors of rows that the inner loop processes together.
const VECTORS: usize = 2;

/// Queries and rows, with the shortlists of both.
pub(super) struct Pairs<'a> {
    pub(super) panels: PanelsRef<'a>,
    pub(super) tiles: &'a [f32],
    /// Half the squared norm of each query of the tiles; infinite where there is none.
    pub(super) halves: &'a [f32],
    /// For each query of the tiles, and for each row of the panels, the largest score that matters.
    pub(super) limits: [&'a mut [f32]; 2],
    /// The shortlists of the queries, and those of the rows.
    pub(super) lists: [&'a mut [Shortlist]; 2],
    /// The number of the first query, and that of the first row.
    pub(super) first: [u32; 2],
}

impl Work for Pairs<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { panels, tiles, halves, limits: [query_limits, row_limits], lists, first } = self;
        let [query_lists, row_lists] = lists;
        let size = panels.dimensions * PANEL;
        for (panel, numbers) in panels.numbers.chunks_exact(size).enumerate() {
            for (tile, queries) in tiles.chunks_exact(panels.dimensions * QUERIES).enumerate() {
                for column in (0..PANEL).step_by(VECTORS * L::COUNT) {
                    let place = panel * PANEL + column;
                    let own = load_two(lanes, &panels.halves[place..]);
                    let sums = scores::<L, QUERIES>(lanes, queries, &numbers[column..], own);
                    for (query, sums) in sums.iter().enumerate() {
                        let query = tile * QUERIES + query;
                        let half = lanes.splat(halves[query]);
                        for (v, sum) in sums.iter().enumerate() {
                            let row = place + v * L::COUNT;
                            let sum = lanes.add(*sum, half);
                            let of_query = lanes.at_most(sum, lanes.splat(query_limits[query]));
                            let of_rows = lanes.at_most(sum, lanes.load(&row_limits[row..]));
                            let mut left = of_query | of_rows;
                            if left == 0 {
                                continue;
                            }
                            let mut numbers = [0.0; PANEL];
                            lanes.store(sum, &mut numbers);
                            while left != 0 {
                                let lane = left.trailing_zeros() as usize;
                                left &= left - 1;
                                let (score, row) = (numbers[lane], row + lane);
                                if of_query >> lane & 1 == 1 {
                                    query_lists[query].offer(score, first[1] + row as u32);
                                }
                                if of_rows >> lane & 1 == 1 {
                                    row_lists[row].offer(score, first[0] + query as u32);
                                    row_limits[row] = row_lists[row].limit();
                                }
                            }
                            if of_query != 0 {
                                query_limits[query] = query_lists[query].limit();
                            }
                        }
                    }
                }
            }
        }
    }
}
