//! Every search strategy that uses bounds finds the same objects as a sort of all distances, over several hundred thousand
//! queries: with every rule, k from one to more than all objects, alphas from flat to steep, and misleading sets of objects.
//!
//! The strategies are those of the pipelines in a few lines each. `tests/index.rs` checks the pipelines themselves, with fewer
//! queries.

use super::*;
use crate::CodePath;
use crate::chance::Random;
use crate::similarity::{Ground, Measure, Similarity};
use crate::sqfd::reference;
use crate::sqfd::testing::Store;

/// Queries per set of objects.
const QUERIES: usize = 50;
/// Sets of each kind at each alpha.
const ROUNDS: u64 = 17;

/// Misleading sets of objects, followed by queries.
#[derive(Clone, Copy, Debug)]
enum Set {
    Random,
    /// Few different objects, each many times or with small changes.
    Duplicates,
    /// All objects have the same distance from the first queries, and nearly all from each other.
    EqualDistances,
    OneObject,
    /// Pivots on one line, which span no more dimensions than two of them.
    CollinearPivots,
    /// One object as every pivot.
    IdenticalPivots,
}

const SETS: [Set; 6] = [
    Set::Random,
    Set::Duplicates,
    Set::EqualDistances,
    Set::OneObject,
    Set::CollinearPivots,
    Set::IdenticalPivots,
];

/// Objects, queries after them, and the objects that are pivots.
struct Asked {
    store: Store,
    objects: usize,
    pivots: Vec<usize>,
}

impl Set {
    fn make(self, seed: u64) -> Asked {
        let mut random = Random::new(seed);
        let mut below = |limit: usize| (random.unit() * limit as f64) as usize;
        let objects = if matches!(self, Self::OneObject) { 1 } else { 2 + below(38) };
        let dimensions = 1 + below(4);
        let sizes: Vec<usize> = (0..objects + QUERIES).map(|_| 1 + below(3)).collect();
        let mut store = Store::random(seed ^ 0xb0c5, dimensions, &sizes, 1.5);
        let mut pivots: Vec<usize> = (0..1 + below(8)).map(|_| below(objects)).collect();
        match self {
            Self::Random | Self::OneObject => {}
            Self::Duplicates => {
                // Rows are copies of the first four, exact or moved a little.
                store = Store::random(seed, dimensions, &vec![2; objects + QUERIES], 1.5);
                let step = [0.0, 0.0, 1e-6, 1e-3][below(4)];
                for row in 4..objects + QUERIES / 2 {
                    let from = below(4);
                    for column in &mut store.coordinates {
                        column.copy_within(2 * from..2 * from + 2, 2 * row);
                        column[2 * row] += step * below(3) as f32;
                    }
                    store.weights.copy_within(2 * from..2 * from + 2, 2 * row);
                }
            }
            Self::EqualDistances => {
                // The corners of a cross about the origin, where the first queries lie.
                store = Store::random(seed, dimensions, &vec![1; objects + QUERIES], 1.5);
                for row in 0..objects + 2 {
                    for (d, column) in store.coordinates.iter_mut().enumerate() {
                        let corner = row % (2 * dimensions);
                        let is_there = row < objects && d == corner / 2;
                        column[row] = if is_there { [1.0, -1.0][corner % 2] } else { 0.0 };
                    }
                }
            }
            Self::CollinearPivots => {
                store = Store::random(seed, dimensions, &vec![1; objects + QUERIES], 1.5);
                for row in 0..objects.div_ceil(2) {
                    store.coordinates[0][row] = row as f32 / 8.0;
                    store.coordinates[1..].iter_mut().for_each(|column| column[row] = 0.0);
                }
                pivots = (0..objects.div_ceil(2).min(9)).collect();
            }
            Self::IdenticalPivots => pivots = vec![below(objects); 2 + below(4)],
        }
        Asked { store, objects, pivots }
    }
}

/// The k nearest of (distance, id) pairs, in order.
fn nearest(mut found: Vec<(f64, usize)>, k: usize) -> Vec<(f64, usize)> {
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    found.truncate(k);
    found
}

/// The k-th smallest; infinite where there are fewer.
fn kth(numbers: impl Iterator<Item = f64>, k: usize) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(k - 1).copied().unwrap_or(f64::INFINITY)
}

/// A query's distances to all objects, with their bounds.
struct Query {
    distances: Vec<f64>,
    lowers: Vec<f64>,
    uppers: Vec<f64>,
}

impl Query {
    fn computed(&self, ids: impl Iterator<Item = usize>) -> Vec<(f64, usize)> {
        ids.map(|id| (self.distances[id], id)).collect()
    }

    /// In the order of lower bounds, until the next bound exceeds the k-th distance.
    fn best_first(&self, k: usize) -> Vec<(f64, usize)> {
        let mut order: Vec<usize> = (0..self.lowers.len()).collect();
        order.sort_by(|a, b| self.lowers[*a].total_cmp(&self.lowers[*b]));
        let (mut range, mut found) = (kth(self.uppers.iter().copied(), k), Vec::new());
        let mut sorted: Vec<f64> = Vec::new();
        for id in order {
            if self.lowers[id] > range {
                break;
            }
            let distance = self.distances[id];
            found.push((distance, id));
            sorted.insert(sorted.partition_point(|other| *other <= distance), distance);
            range = range.min(sorted.get(k - 1).copied().unwrap_or(f64::INFINITY));
        }
        nearest(found, k)
    }

    /// All objects whose lower bound is within the k-th smallest upper bound.
    fn estimated_range(&self, k: usize) -> Vec<(f64, usize)> {
        let range = kth(self.uppers.iter().copied(), k);
        let ids = (0..self.lowers.len()).filter(|id| self.lowers[*id] <= range);
        nearest(self.computed(ids), k)
    }

    /// First the objects with the least bounds, then the others within the k-th distance of these.
    fn two_phase(&self, k: usize, estimation: usize) -> Vec<(f64, usize)> {
        let mut order: Vec<usize> = (0..self.lowers.len()).collect();
        order.sort_by(|a, b| self.lowers[*a].total_cmp(&self.lowers[*b]));
        let (first, rest) = order.split_at(estimation.min(order.len()));
        let mut found = self.computed(first.iter().copied());
        let range = kth(found.iter().map(|found| found.0), k);
        found.extend(self.computed(rest.iter().copied().filter(|id| self.lowers[*id] <= range)));
        nearest(found, k)
    }

    /// In the order of storage, block by block, within the k-th distance of the blocks before.
    fn blocks(&self, k: usize, block: usize) -> Vec<(f64, usize)> {
        let (mut range, mut found) = (f64::INFINITY, Vec::new());
        for first in (0..self.lowers.len()).step_by(block) {
            let ids = first..self.lowers.len().min(first + block);
            found.extend(self.computed(ids.filter(|id| self.lowers[*id] <= range)));
            range = kth(found.iter().map(|found| found.0), k);
        }
        nearest(found, k)
    }

    /// All objects within a range.
    fn within(&self, range: f64) -> Vec<(f64, usize)> {
        let ids = (0..self.lowers.len()).filter(|id| self.lowers[*id] <= range);
        let found = self.computed(ids).into_iter().filter(|found| found.0 <= range);
        nearest(found.collect(), usize::MAX)
    }
}

/// Searches with all queries of a set and all rules. Returns the number of compared answers.
fn check(set: Set, seed: u64, measure: &Measure) -> usize {
    let Asked { store, objects, pivots } = set.make(seed);
    let rows = store.offsets.len() - 1;
    // From every row (objects and queries) to every object.
    let (distances, sigma_max) = store.with(|columns| {
        let sigmas: Vec<f64> =
            (0..rows).map(|row| reference::sigma_self(measure, columns.signature(row))).collect();
        let of = |a: usize, b: usize| {
            let cross = reference::sigma(measure, columns.signature(a), columns.signature(b));
            reference::distance(sigmas[a], sigmas[b], cross)
        };
        let all: Vec<Vec<f64>> =
            (0..rows).map(|row| (0..objects).map(|object| of(row, object)).collect()).collect();
        (all, sigmas.iter().fold(0.0, |largest: f64, sigma| largest.max(sigma.abs())))
    });
    let to_pivots = |row: usize| -> Vec<f64> { pivots.iter().map(|pivot| distances[row][*pivot]).collect() };
    let between: Vec<f64> = pivots.iter().flat_map(|pivot| to_pivots(*pivot)).collect();
    let table: Vec<Vec<f64>> = (0..objects).map(to_pivots).collect();
    let distance_max = table.iter().flatten().fold(0.0, |largest: f64, distance| largest.max(*distance));
    let centroids_max = store.offsets.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0) as usize;
    let dimensions = store.coordinates.len();
    let noise_squared = reference::error_squared(measure, sigma_max, distance_max, centroids_max, dimensions);
    let simplex = Simplex::new(&between, noise_squared).unwrap();
    let mut columns = vec![0f32; pivots.len() * PACKED_OBJECTS];
    let mut tips = vec![0f32; simplex.dimensions() * PACKED_OBJECTS];
    let mut spread_max: f64 = 0.0;
    for (object, row) in table.iter().enumerate() {
        let apex = simplex.apex(row, noise_squared).unwrap();
        spread_max = spread_max.max(apex.spread);
        for (column, distance) in row.iter().enumerate() {
            columns[column * PACKED_OBJECTS + object] = *distance as f32;
        }
        for (column, coordinate) in apex.coordinates.iter().enumerate() {
            tips[column * PACKED_OBJECTS + object] = *coordinate as f32;
        }
    }
    let block = PackedBlock { distances: &columns, apexes: &tips };
    let errors = TableErrors { distance_max, noise_squared, spread_max };
    let evaluator = BoundEvaluator::new(CodePath::detect());
    let mut compared = 0;
    let mut bounds = Bounds::default();
    for (row, exact) in distances.iter().enumerate().skip(objects) {
        let sorted = nearest(exact.iter().copied().zip(0..).collect(), usize::MAX);
        for bound in Bound::ALL {
            let prepared = BoundQuery::new(bound, &to_pivots(row), &between, &simplex, &errors).unwrap();
            evaluator.bounds(&prepared, block, &mut bounds);
            let of = |bounds: &[f32]| bounds[..objects].iter().map(|bound| f64::from(*bound)).collect();
            let query =
                Query { distances: exact.clone(), lowers: of(&bounds.lower), uppers: of(&bounds.upper) };
            for k in [1, 2 + row % 7, objects, objects + 5] {
                let expected = &sorted[..k.min(objects)];
                let said = format!("{bound}, k = {k} of {set:?} {seed}, {measure:?}");
                assert_eq!(query.best_first(k), expected, "best first, {said}");
                assert_eq!(query.estimated_range(k), expected, "estimated range, {said}");
                assert_eq!(query.two_phase(k, 1 + row % 9), expected, "two phases, {said}");
                assert_eq!(query.blocks(k, 1 + row % 5), expected, "blocks, {said}");
                compared += 4;
            }
            // An object at exactly the range belongs to the answer.
            let border = sorted[row % objects].0;
            let within = sorted.partition_point(|found| found.0 <= border);
            assert_eq!(query.within(border), sorted[..within], "{bound} within {border} of {set:?} {seed}");
            compared += 1;
        }
    }
    compared
}

#[test]
fn every_way_finds_what_a_sort_of_all_finds() {
    let mut compared = 0;
    for (kind, set) in SETS.into_iter().enumerate() {
        for (steepness, alpha) in [0.01, 0.2, 0.64, 3.0].into_iter().enumerate() {
            for round in 0..ROUNDS {
                let seed = round * 100 + kind as u64 * 10 + steepness as u64;
                let measure = Measure::new(Similarity::Gaussian, Ground::L2, alpha).unwrap();
                compared += check(set, seed, &measure);
            }
        }
    }
    assert!(compared > 1_000_000, "{compared} answers");
}

#[test]
fn so_it_is_for_the_other_measures() {
    for set in SETS {
        for (seed, measure) in (0..).zip(crate::sqfd::testing::every_measure(0.5)) {
            check(set, seed, &measure);
        }
    }
}
