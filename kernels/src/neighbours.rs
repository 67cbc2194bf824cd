//! The graph of the k nearest neighbours of every row, and paths in it.
//!
//! The graph is exact: by (f64 distance, number), as a scan for each row would find it, by the Euclidean distance or by the cosine.
//! Each pair of two blocks of rows is
//! computed once and serves the rows of both blocks (half the arithmetic of a scan for each row).
//!
//! A path of the least largest edge joins two rows (`min over paths, max over edges`: the bottleneck path) over the graph made
//! symmetric: rows are joined if either has the other among its neighbours.
//!
//! Invariant: graph and paths have the same bits on every code path and for any number of workers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};

use crate::CodePath;
use crate::distance::squared_l2_on;
use crate::memory::{MemoryRefused, filled, room};
use crate::panels::{Panels, Shortlist};
use crate::pieces::{Pieces, collect};
use crate::vector::{VectorMeasure, inner_product};

/// Rows of a block: those of two lie in the second-level cache.
const BLOCK: usize = 768;

/// No neighbour: there are fewer rows.
pub const NONE: u32 = u32::MAX;

/// The k nearest other rows of each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    k: usize,
    neighbours: Vec<u32>,
    distances: Vec<f64>,
}

/// A path, from its first row to its last.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// The rows, at least one.
    pub rows: Vec<u32>,
    /// The length of each edge, one fewer than rows.
    pub edges: Vec<f64>,
}

impl Path {
    /// The largest edge; 0 if there is none.
    pub fn largest(&self) -> f64 {
        self.edges.iter().copied().fold(0.0, f64::max)
    }
}

impl Graph {
    /// The graph of neighbours by row, `k` each, the nearest first, with their distances; [`NONE`] fills the end of a row. `None`
    /// if these are no graph.
    pub fn of_parts(k: usize, neighbours: Vec<u32>, distances: Vec<f64>) -> Option<Self> {
        let rows = neighbours.len().checked_div(k).unwrap_or(0);
        let fits = k > 0
            && neighbours.len() == distances.len()
            && neighbours.len().is_multiple_of(k)
            && neighbours.iter().all(|row| *row == NONE || (*row as usize) < rows)
            && distances.iter().all(|distance| *distance >= 0.0);
        fits.then_some(Self { k, neighbours, distances })
    }

    /// Neighbours of a row.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.neighbours.len() / self.k
    }

    /// The neighbours of a row with their distances, the nearest first; equal distances go by row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn of(&self, row: usize) -> impl Iterator<Item = (u32, f64)> + '_ {
        let places = row * self.k..(row + 1) * self.k;
        let each = self.neighbours[places.clone()].iter().zip(&self.distances[places]);
        each.map(|(row, distance)| (*row, *distance)).filter(|(row, _)| *row != NONE)
    }

    /// A path between two rows whose largest edge is as small as can be, by Dijkstra's algorithm on (largest edge, edges,
    /// row); `None` if no path joins them.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn path(&self, from: u32, to: u32) -> Option<Path> {
        let rows = self.rows();
        assert!((from as usize) < rows && (to as usize) < rows, "rows of the graph");
        let (starts, edges) = self.symmetric();
        let mut before = vec![(NONE, 0.0); rows];
        let mut is_done = vec![false; rows];
        // Distances are not negative, so their bits are in their order.
        let mut waiting = BinaryHeap::from([Reverse((0u64, 0u32, from, NONE, 0u64))]);
        while let Some(Reverse((largest, count, row, previous, edge))) = waiting.pop() {
            if std::mem::replace(&mut is_done[row as usize], true) {
                continue;
            }
            before[row as usize] = (previous, f64::from_bits(edge));
            if row == to {
                return Some(walked(&before, to));
            }
            for &(next, distance) in &edges[starts[row as usize]..starts[row as usize + 1]] {
                if !is_done[next as usize] {
                    let edge = distance.to_bits();
                    waiting.push(Reverse((largest.max(edge), count + 1, next, row, edge)));
                }
            }
        }
        None
    }

    /// All edges in both directions, by row, and where each row begins.
    fn symmetric(&self) -> (Vec<usize>, Vec<(u32, f64)>) {
        let mut starts = vec![0usize; self.rows() + 1];
        for row in 0..self.rows() {
            for (other, _) in self.of(row) {
                starts[row + 1] += 1;
                starts[other as usize + 1] += 1;
            }
        }
        for row in 0..self.rows() {
            starts[row + 1] += starts[row];
        }
        let (mut next, mut edges) = (starts.clone(), vec![(NONE, 0.0); starts[self.rows()]]);
        for row in 0..self.rows() {
            for (other, distance) in self.of(row) {
                for (a, b) in [(row, other), (other as usize, row as u32)] {
                    edges[next[a]] = (b, distance.abs());
                    next[a] += 1;
                }
            }
        }
        (starts, edges)
    }
}

/// The path that ends in a row.
fn walked(before: &[(u32, f64)], to: u32) -> Path {
    let mut path = Path { rows: vec![to], edges: Vec::new() };
    let mut row = to;
    while let (previous, edge) = before[row as usize]
        && previous != NONE
    {
        path.rows.push(previous);
        path.edges.push(edge);
        row = previous;
    }
    path.rows.reverse();
    path.edges.reverse();
    path
}

/// The `k` nearest other rows of each row, by Euclidean distance. `None` if the caller cancelled it.
///
/// # Errors
/// If the system has no memory for the graph.
///
/// # Panics
/// If `k` is 0, these are no whole rows, or there are 2^32 or more.
pub fn graph(
    rows: &[f32],
    dimensions: usize,
    k: usize,
    path: CodePath,
    pieces: &mut Pieces<'_>,
) -> Result<Option<Graph>, MemoryRefused> {
    let row = |row: u32| &rows[row as usize * dimensions..][..dimensions];
    let squared = |a: u32, b: u32| squared_l2_on(path, row(a), row(b));
    let scanned =
        Scanned { rows, dimensions, error: 0.0, compared: &squared, distance: &|squared| squared.sqrt() };
    scanned.graph(k, path, pieces)
}

/// As [`graph`], by the cosine: one less the cosine of the angle, and for vectors of zeros as [`VectorMeasure::Cosine`] says.
///
/// # Errors
/// As [`graph`].
///
/// # Panics
/// As [`graph`].
pub fn graph_by_cosine(
    rows: &[f32],
    dimensions: usize,
    k: usize,
    path: CodePath,
    pieces: &mut Pieces<'_>,
) -> Result<Option<Graph>, MemoryRefused> {
    assert!(dimensions > 0 && rows.len().is_multiple_of(dimensions), "whole rows");
    let (units, squares) = units(rows, dimensions)?;
    let row = |row: u32| &rows[row as usize * dimensions..][..dimensions];
    let cosine = |a: u32, b: u32| VectorMeasure::Cosine.with_square(row(a), squares[a as usize], row(b));
    let scanned = Scanned {
        rows: &units,
        dimensions: dimensions + 1,
        error: UNITS_ERROR,
        compared: &cosine,
        distance: &|cosine| cosine,
    };
    scanned.graph(k, path, pieces)
}

/// Half of a squared distance of unit vectors in f32 is off by less than this from the cosine's distance in f64. A vector is off by
/// 2^-24 of its length, so a distance, of at most 2, is by 2^-23, its square by four times that, and half of the square by 2^-22.
/// Twice as much leaves room for roundings of f64 and of numbers below the normal ones.
const UNITS_ERROR: f64 = 1.0 / (1 << 21) as f64;

/// Rows of length 1 with one number more, and their squared lengths. The Euclidean distance of two such rows is the root of twice
/// the cosine's distance: the last number is 0, but for rows of zeros, for which it is 1, so that they are orthogonal to all others.
fn units(rows: &[f32], dimensions: usize) -> Result<(Vec<f32>, Vec<f64>), MemoryRefused> {
    let count = rows.len() / dimensions;
    let what = || format!("{count} vectors of length 1");
    let mut units = filled(count * (dimensions + 1), 0.0_f32, what, "take fewer rows")?;
    let mut squares = room(count, what, "take fewer rows")?;
    for (row, unit) in rows.chunks_exact(dimensions).zip(units.chunks_exact_mut(dimensions + 1)) {
        let square = inner_product(row, row);
        let length = square.sqrt();
        if square > 0.0 {
            unit.iter_mut().zip(row).for_each(|(unit, x)| *unit = (f64::from(*x) / length) as f32);
        } else {
            unit[dimensions] = 1.0;
        }
        squares.push(square);
    }
    Ok((units, squares))
}

/// Rows that are scanned by the Euclidean distance, and what is exact of them.
struct Scanned<'a> {
    rows: &'a [f32],
    dimensions: usize,
    /// The error of half a squared distance of exact rows, beside that of a scan.
    error: f64,
    /// A number of two rows in the order of their distances, in f64.
    compared: &'a (dyn Fn(u32, u32) -> f64 + Sync),
    /// The distance of such a number.
    distance: &'a (dyn Fn(f64) -> f64 + Sync),
}

impl Scanned<'_> {
    fn graph(
        &self,
        k: usize,
        path: CodePath,
        pieces: &mut Pieces<'_>,
    ) -> Result<Option<Graph>, MemoryRefused> {
        let Self { rows, dimensions, compared, .. } = *self;
        assert!(
            k > 0 && dimensions > 0 && rows.len().is_multiple_of(dimensions),
            "whole rows, some neighbours"
        );
        let count = rows.len() / dimensions;
        assert!(count < NONE as usize, "rows have numbers of 32 bits");
        let what = || format!("the graph of {count} rows");
        let blocks: Vec<&[f32]> = rows.chunks(BLOCK * dimensions).collect();
        let centre = mean(rows, dimensions);
        let norm_max = Panels::norm_max_of(rows, dimensions, &centre);
        let mut lists = room(blocks.len(), what, "take fewer rows")?;
        for block in &blocks {
            // For one more: a row is among its own candidates.
            let of_block = block.chunks_exact(dimensions).map(|row| {
                let panels = Panels::new(&[], dimensions, Some(&centre));
                panels.borrow().with_norm_max(norm_max).shortlist(row, k + 1).with_more_error(self.error)
            });
            lists.push(Mutex::new(of_block.collect::<Vec<_>>()));
        }
        let lock = |block: usize| lists[block].lock().unwrap_or_else(PoisonError::into_inner);
        for pairs in rounds(blocks.len()) {
            let done = collect(pieces, pairs.len(), |pair| {
                let (a, b) = pairs[pair];
                let panels = Panels::new(blocks[b], dimensions, Some(&centre));
                let panels = panels.borrow().with_norm_max(norm_max);
                let first = [(a * BLOCK) as u32, (b * BLOCK) as u32];
                let mut of_a = lock(a);
                if a == b {
                    panels.scan_within(path, blocks[a], &mut of_a, first[0]);
                } else {
                    panels.scan_both(path, blocks[a], [&mut of_a, &mut lock(b)], first);
                }
                for block in [a, b].into_iter().take(1 + usize::from(a != b)) {
                    let mut other = (block != a).then(|| lock(block));
                    let lists = other.as_mut().unwrap_or(&mut of_a);
                    for (place, list) in lists.iter_mut().enumerate() {
                        let own = (block * BLOCK + place) as u32;
                        list.settle(4 * k + 256, |other| compared(own, other));
                    }
                }
            });
            if done.is_none() {
                return Ok(None);
            }
        }
        let mut found = Graph {
            k,
            neighbours: filled(count * k, NONE, what, "take fewer rows")?,
            distances: filled(count * k, f64::MAX, what, "take fewer rows")?,
        };
        let ranked = collect(pieces, blocks.len(), |block| {
            let lists: Vec<Shortlist> = std::mem::take(&mut *lock(block));
            let each = lists.into_iter().enumerate();
            each.map(|(place, list)| {
                let own = (block * BLOCK + place) as u32;
                list.ranked(|other| (self.distance)(compared(own, other)))
            })
            .collect::<Vec<_>>()
        });
        let Some(ranked) = ranked else { return Ok(None) };
        for (number, ranked) in ranked.into_iter().flatten().enumerate() {
            let others = ranked.into_iter().filter(|(_, other)| *other as usize != number);
            for (place, (distance, other)) in others.take(k).enumerate() {
                found.neighbours[number * k + place] = other;
                found.distances[number * k + place] = distance;
            }
        }
        Ok(Some(found))
    }
}

/// Rounds of pairs of blocks, each pair once and each block with itself; no block is in two pairs of a round.
fn rounds(blocks: usize) -> Vec<Vec<(usize, usize)>> {
    let mut rounds = vec![(0..blocks).map(|block| (block, block)).collect()];
    // The circle method: all places but the first turn by one each round.
    let places = blocks.next_multiple_of(2);
    for turn in 0..places.saturating_sub(1) {
        let at = |place: usize| if place == 0 { 0 } else { 1 + (place - 1 + turn) % (places - 1) };
        let pairs = (0..places / 2).map(|place| (at(place), at(places - 1 - place)));
        let pairs = pairs.map(|(a, b)| (a.min(b), a.max(b))).filter(|(_, b)| *b < blocks);
        rounds.push(pairs.collect());
    }
    rounds
}

/// The mean of all rows.
fn mean(rows: &[f32], dimensions: usize) -> Vec<f32> {
    let mut sums = vec![0.0f64; dimensions];
    for row in rows.chunks_exact(dimensions) {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
    }
    let count = (rows.len() / dimensions).max(1) as f64;
    sums.into_iter().map(|sum| (sum / count) as f32).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chance::Random;
    use crate::distance::squared_l2;
    use crate::pieces::one_by_one;

    fn plain(rows: &[f32], dimensions: usize, k: usize, distance: fn(&[f32], &[f32]) -> f64) -> Graph {
        let each: Vec<&[f32]> = rows.chunks_exact(dimensions).collect();
        let mut graph =
            Graph { k, neighbours: vec![NONE; each.len() * k], distances: vec![f64::MAX; each.len() * k] };
        for (number, row) in each.iter().enumerate() {
            let others = each.iter().enumerate().filter(|(other, _)| *other != number);
            let mut found: Vec<(f64, u32)> =
                others.map(|(other, numbers)| (distance(row, numbers), other as u32)).collect();
            found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            for (place, (distance, other)) in found.into_iter().take(k).enumerate() {
                graph.neighbours[number * k + place] = other;
                graph.distances[number * k + place] = distance;
            }
        }
        graph
    }

    fn check(rows: &[f32], dimensions: usize, k: usize) -> Graph {
        let expected = plain(rows, dimensions, k, |a, b| squared_l2(a, b).sqrt());
        check_of(rows, dimensions, k, &expected, graph);
        let by_cosine = plain(rows, dimensions, k, |a, b| VectorMeasure::Cosine.between(a, b));
        check_of(rows, dimensions, k, &by_cosine, graph_by_cosine);
        expected
    }

    type Make = fn(&[f32], usize, usize, CodePath, &mut Pieces<'_>) -> Result<Option<Graph>, MemoryRefused>;

    fn check_of(rows: &[f32], dimensions: usize, k: usize, expected: &Graph, graph: Make) {
        for path in CodePath::available() {
            let mut threads = |count: usize, f: &(dyn Fn(usize) + Sync)| {
                std::thread::scope(|scope| {
                    for worker in 0..3 {
                        scope.spawn(move || (worker..count).step_by(3).for_each(f));
                    }
                });
                true
            };
            assert_eq!(graph(rows, dimensions, k, path, &mut one_by_one()).unwrap().as_ref(), Some(expected));
            assert_eq!(graph(rows, dimensions, k, path, &mut threads).unwrap().as_ref(), Some(expected));
        }
    }

    #[test]
    fn graphs_are_those_of_a_scan_for_each_row() {
        let mut random = Random::mixed(2);
        for (count, dimensions) in [(0, 3), (1, 1), (2, 2), (33, 5), (900, 3), (1700, 9)] {
            for levels in [0, 3] {
                let number = |_| if levels == 0 { random.normal_f32() } else { random.below(levels) as f32 };
                let rows: Vec<f32> = (0..count * dimensions).map(number).collect();
                for k in [1, 10] {
                    check(&rows, dimensions, k);
                }
            }
        }
        // Copies of one row, and numbers whose squares overflow.
        check(&[0.25; 800 * 2], 2, 4);
        let huge: Vec<f32> = (0..120).map(|_| 1e30 * random.normal_f32()).collect();
        check(&huge, 3, 4);
        // Rows of one direction and many lengths, some of them zeros and some below the normal numbers.
        let mut rows: Vec<f32> = (0..300 * 5).map(|_| random.normal_f32()).collect();
        for row in (0..300).filter(|row| row % 3 > 0) {
            let scale = [0.0, 1e-30, 1e-41, 7.0, 0.125, 1e20][random.idx(6)];
            let from = if row % 2 == 0 { row / 3 * 3 } else { 0 };
            for place in 0..5 {
                rows[row * 5 + place] = scale * rows[from * 5 + place];
            }
        }
        for k in [1, 30] {
            check(&rows, 5, k);
        }
    }

    #[test]
    fn every_pair_of_blocks_meets_once() {
        for blocks in 0..9 {
            let rounds = rounds(blocks);
            let mut all: Vec<_> = rounds.iter().flatten().copied().collect();
            all.sort_unstable();
            let expected: Vec<_> = (0..blocks).flat_map(|a| (a..blocks).map(move |b| (a, b))).collect();
            assert_eq!(all, expected);
            for round in &rounds[1..] {
                let mut members: Vec<usize> = round.iter().flat_map(|(a, b)| [*a, *b]).collect();
                members.sort_unstable();
                let count = members.len();
                members.dedup();
                assert_eq!(members.len(), count);
            }
        }
    }

    #[test]
    fn cancelled_work_gives_no_graph_and_parts_that_do_not_fit_none() {
        let mut cancelled = |_: usize, _: &(dyn Fn(usize) + Sync)| false;
        assert_eq!(graph(&[1.0; 8], 2, 1, CodePath::Portable, &mut cancelled).unwrap(), None);
        assert_eq!(Graph::of_parts(2, vec![0, 5], vec![0.0, 1.0]), None);
        assert_eq!(Graph::of_parts(2, vec![0], vec![0.0]), None);
        assert_eq!(Graph::of_parts(1, vec![0], vec![f64::NAN]), None);
        assert!(Graph::of_parts(1, vec![1, NONE], vec![2.0, 0.0]).is_some());
    }

    /// The largest edge of the path in a minimum spanning tree: the edge, in ascending order, that first joins the two rows.
    fn of_spanning_tree(graph: &Graph, from: u32, to: u32) -> Option<f64> {
        let mut edges: Vec<(f64, usize, usize)> = (0..graph.rows())
            .flat_map(|row| graph.of(row).map(move |(other, distance)| (distance, row, other as usize)))
            .collect();
        edges.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut trees: Vec<usize> = (0..graph.rows()).collect();
        if from == to {
            return Some(0.0);
        }
        for (distance, a, b) in edges {
            let (a, b) = (trees[a], trees[b]);
            trees.iter_mut().filter(|tree| **tree == a).for_each(|tree| *tree = b);
            if trees[from as usize] == trees[to as usize] {
                return Some(distance);
            }
        }
        None
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn the_largest_edge_is_that_of_the_minimum_spanning_tree(
            k in 1usize..5, dimensions in 1usize..4, numbers in prop::collection::vec(-9i8..9, 8..120),
        ) {
            let whole = numbers.len() / dimensions * dimensions;
            let rows: Vec<f32> = numbers[..whole].iter().map(|x| f32::from(*x)).collect();
            let graph = check(&rows, dimensions, k);
            for to in 0..graph.rows() as u32 {
                let path = graph.path(0, to);
                prop_assert_eq!(path.as_ref().map(Path::largest), of_spanning_tree(&graph, 0, to));
                if let Some(path) = path {
                    prop_assert_eq!((path.rows[0], *path.rows.last().unwrap()), (0, to));
                    for (pair, edge) in path.rows.windows(2).zip(&path.edges) {
                        let joins = |a: u32, b: u32| graph.of(a as usize).any(|found| found == (b, *edge));
                        prop_assert!(joins(pair[0], pair[1]) || joins(pair[1], pair[0]));
                    }
                }
            }
        }
    }
}
