//! Lists of many vectors at once, by their Euclidean distances to pivots that are vectors.
//!
//! Half the squared distances of [`PANEL`] vectors from all pivots come from the tiled product of `panels`, in f32; the bitonic network
//! orders them (`order`). Pivots whose distances the declared error cannot tell apart are compared by f64 distances.
//!
//! Invariant: lists are those of [`nearest_pivots`] for the distances of `Lp::L2`, on every path.

use super::order::{Exact, Order};
use super::{Lists, ListsError, nearest_pivots};
use crate::CodePath;
use crate::distance::squared_l2;
use crate::lanes::{Lanes, Work, load_two, run};
use crate::panels::{PANEL, TILE_QUERIES, scores, tiles};

/// The unit roundoff of f32.
const UNIT: f64 = 1.0 / (1 << 24) as f64;
/// From this square of norms on, squares may leave f32.
const SQUARE_MAX: f64 = 1e37;
/// Sums of whole numbers and halves up to this are exact in f32.
const WHOLE_MAX: f64 = (1 << 22) as f64;

/// Pivots, arranged for the lists of many vectors.
#[derive(Clone, Debug)]
pub struct VectorPivots {
    dimensions: usize,
    count: usize,
    length: usize,
    numbers: Vec<f32>,
    /// The mean of the pivots, taken off all vectors: it makes norms and so the error smaller.
    centre: Vec<f32>,
    /// The pivots less the centre, with the sign turned, in tiles.
    tiles: Vec<f32>,
    /// Half the squared norm of each pivot of the tiles.
    halves: Vec<f32>,
    norm_max: f64,
    /// All numbers of pivots and centre are whole.
    are_whole: bool,
}

impl VectorPivots {
    /// Arranges pivots, `dimensions` finite numbers each, for lists of `length`.
    ///
    /// # Errors
    /// As [`Lists::new`].
    ///
    /// # Panics
    /// If these are no whole pivots.
    pub fn new(numbers: Vec<f32>, dimensions: usize, length: usize) -> Result<Self, ListsError> {
        assert!(dimensions > 0 && numbers.len().is_multiple_of(dimensions), "whole pivots");
        let count = numbers.len() / dimensions;
        Lists::new(count, length)?;
        let are_whole = numbers.iter().all(|x| x.fract() == 0.0);
        let mut sums = vec![0.0_f64; dimensions];
        for pivot in numbers.chunks_exact(dimensions) {
            sums.iter_mut().zip(pivot).for_each(|(sum, x)| *sum += f64::from(*x));
        }
        let mean = sums.iter().map(|sum| (sum / count as f64) as f32);
        let centre: Vec<f32> = mean.map(|x| if are_whole { x.round() } else { x }).collect();
        let (mut norm_max, mut halves) = (0.0_f64, Vec::new());
        for pivot in numbers.chunks_exact(dimensions) {
            let square: f64 =
                pivot.iter().zip(&centre).map(|(x, centre)| f64::from(x - centre).powi(2)).sum();
            norm_max = norm_max.max(square.sqrt());
            halves.push((square * 0.5) as f32);
        }
        let tiles = tiles(&numbers, dimensions, Some(&centre));
        halves.resize(tiles.len() / dimensions, 0.0);
        Ok(Self { dimensions, count, length, numbers, centre, tiles, halves, norm_max, are_whole })
    }

    /// Numbers of a vector.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Number of pivots.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Pivots of a list.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// The numbers of the pivots, one pivot after the other.
    pub(super) fn numbers(&self) -> &[f32] {
        &self.numbers
    }

    /// Whether all numbers of pivots are whole.
    pub(super) fn are_whole(&self) -> bool {
        self.are_whole
    }

    /// Appends the lists of some vectors, which are finite.
    ///
    /// # Panics
    /// If these are no whole vectors, or this machine lacks the instructions.
    pub fn append(&self, path: CodePath, rows: &[f32], lists: &mut Vec<u16>) {
        assert!(rows.len().is_multiple_of(self.dimensions), "whole vectors");
        run(path, Append { pivots: self, rows, lists });
    }

    #[inline(always)]
    fn distance(&self, pivot: usize, row: &[f32]) -> f64 {
        squared_l2(&self.numbers[pivot * self.dimensions..][..self.dimensions], row).sqrt()
    }

    /// The error of half a squared distance in f32, for a vector of this norm; 0 if it is exact.
    fn error(&self, norm: f64, is_whole: bool) -> f64 {
        let square = (norm + self.norm_max).powi(2);
        if is_whole && self.are_whole && square < WHOLE_MAX {
            return 0.0;
        }
        if !(square < SQUARE_MAX) {
            return f64::INFINITY;
        }
        // Partial sums are at most half of the square; then the roundings of both norms, of the last sums, and of the vectors when
        // the centre is taken off.
        let roundings = (0.5 * self.dimensions as f64 + 10.0) * UNIT;
        1.01 * (roundings / (1.0 - roundings).max(0.5) * square) + self.dimensions as f64 * 1e-37
    }
}

struct Append<'a> {
    pivots: &'a VectorPivots,
    rows: &'a [f32],
    lists: &'a mut Vec<u16>,
}

/// The distances of a vector.
struct OfVector<'a> {
    pivots: &'a VectorPivots,
    row: &'a [f32],
}

impl Exact for OfVector<'_> {
    #[inline(always)]
    fn distance(&self, pivot: usize) -> f64 {
        self.pivots.distance(pivot, self.row)
    }
}

/// Some vectors, number by number, and what is known of each.
struct Panel {
    numbers: Vec<f32>,
    halves: [f32; PANEL],
    /// Twice the error of a score.
    slacks: [f64; PANEL],
}

impl Work for Append<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { pivots, rows, lists } = self;
        let mut order = Order::new(lanes, pivots.count, pivots.length);
        // Half the squared distances from each pivot, vector by vector.
        let mut halves = vec![0.0; order.padded().max(pivots.halves.len()) * PANEL];
        let numbers = vec![0.0; pivots.dimensions * PANEL];
        let mut panel = Panel { numbers, halves: [0.0; PANEL], slacks: [0.0; PANEL] };
        for rows in rows.chunks(PANEL * pivots.dimensions) {
            fill(pivots, rows, &mut panel);
            product(lanes, pivots, &panel, &mut halves);
            halves[pivots.count * PANEL..].fill(f32::MAX);
            for (column, rows) in rows.chunks(L::COUNT * pivots.dimensions).enumerate() {
                let first = column * L::COUNT;
                order.find(lanes, &halves[first..]);
                for (lane, row) in rows.chunks_exact(pivots.dimensions).enumerate() {
                    let slack = panel.slacks[first + lane];
                    if slack.is_finite() {
                        let numbers = &halves[first + lane..];
                        let exact = OfVector { pivots, row };
                        order.append(numbers, lane, (slack > 0.0).then_some(slack), &exact, lists);
                    } else {
                        pivots.by_all_distances(row, lists);
                    }
                }
            }
        }
    }
}

/// Arranges up to [`PANEL`] vectors; those that are missing are zeros.
#[inline(always)]
fn fill(pivots: &VectorPivots, rows: &[f32], panel: &mut Panel) {
    let (dimensions, count) = (pivots.dimensions, rows.len() / pivots.dimensions);
    let (to, _) = panel.numbers.as_chunks_mut::<PANEL>();
    if count < PANEL {
        to.fill([0.0; PANEL]);
    }
    let mut are_whole = [pivots.are_whole; PANEL];
    for (lane, (row, is_whole)) in rows.chunks_exact(dimensions).zip(&mut are_whole).enumerate() {
        for ((to, x), centre) in to.iter_mut().zip(row).zip(&pivots.centre) {
            to[lane] = x - centre;
        }
        *is_whole = *is_whole && row.iter().all(|x| x.fract() == 0.0);
    }
    let mut squares = [0.0_f64; PANEL];
    for numbers in &*to {
        for (square, x) in squares.iter_mut().zip(numbers) {
            let x = f64::from(*x);
            *square += x * x;
        }
    }
    for (lane, square) in squares.iter().enumerate() {
        panel.halves[lane] = (square * 0.5) as f32;
        panel.slacks[lane] = 2.0 * pivots.error(square.sqrt(), are_whole[lane]);
    }
}

/// Half the squared distances of a panel's vectors from each pivot.
#[inline(always)]
fn product<L: Lanes>(lanes: L, pivots: &VectorPivots, panel: &Panel, out: &mut [f32]) {
    let tiles = pivots.tiles.chunks_exact(pivots.dimensions * TILE_QUERIES);
    let each = tiles.zip(pivots.halves.chunks_exact(TILE_QUERIES));
    for ((tile, halves), out) in each.zip(out.chunks_exact_mut(TILE_QUERIES * PANEL)) {
        for column in (0..PANEL).step_by(2 * L::COUNT) {
            let of_rows = load_two(lanes, &panel.halves[column..]);
            let sums = scores::<L, TILE_QUERIES>(lanes, tile, &panel.numbers[column..], of_rows);
            for query in 0..TILE_QUERIES {
                let half = lanes.splat(halves[query]);
                for v in 0..2 {
                    // Roundings may have made it negative.
                    let sum = lanes.max(lanes.add(sums[query][v], half), lanes.splat(0.0));
                    lanes.store(sum, &mut out[query * PANEL + column + v * L::COUNT..]);
                }
            }
        }
    }
}

impl VectorPivots {
    /// The list of a vector whose distances are too large for f32.
    #[cold]
    #[inline(never)]
    fn by_all_distances(&self, row: &[f32], lists: &mut Vec<u16>) {
        let distances: Vec<f64> = (0..self.count).map(|pivot| self.distance(pivot, row)).collect();
        let first = lists.len();
        lists.resize(first + self.length, 0);
        nearest_pivots(&distances, &mut lists[first..]);
    }
}
