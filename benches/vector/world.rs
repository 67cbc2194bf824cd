//! The rows and queries of a measurement, and the exact answers by a scan.

use std::fs;
use std::path::{Path, PathBuf};

use boxwork_kernels::CodePath;
use boxwork_kernels::distance::{squared_l2_of, squared_l2_on};
use boxwork_kernels::vector::generate::Generator;
use boxwork_kernels::vector::{FlatQueries, Nearest, VectorMeasure, VectorRef};

use super::support::Arguments;

/// Numbers of a row of the sample.
pub(super) const SAMPLE_DIMENSIONS: usize = 128;
/// The seed of the generated rows.
pub(super) const SEED: u64 = 7;
/// Queries whose answers are looked for in plain loops too.
const CHECKED: usize = 5;

/// The k nearest of each query: (distance, row).
pub(super) type Answers = Vec<Vec<(f64, u32)>>;

/// Rows and queries.
pub(super) struct World {
    pub(super) dimensions: usize,
    pub(super) rows: Vec<f32>,
    /// The rows as bytes; those of a mixture are rounded.
    pub(super) bytes: Vec<u8>,
    pub(super) queries: Vec<f32>,
    /// Whether the rows are like a sample of real ones.
    pub(super) is_like_sample: bool,
    pub(super) norm_max: f64,
}

/// The sample's numbers, if it is there.
pub(super) fn sample(arguments: &Arguments) -> Option<Vec<u8>> {
    let beside = "../shared/data/vectors/bigann10k/base_10000x128.u8";
    let path = match arguments.text("sample") {
        Some(path) => PathBuf::from(path),
        None => Some(Path::new(env!("CARGO_MANIFEST_DIR")).join(beside)).filter(|path| path.is_file())?,
    };
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("sample={}: {error}", path.display()));
    assert!(bytes.len().is_multiple_of(SAMPLE_DIMENSIONS), "rows of {SAMPLE_DIMENSIONS} bytes");
    println!("sample      {} rows of {}", bytes.len() / SAMPLE_DIMENSIONS, path.display());
    Some(bytes)
}

impl World {
    pub(super) fn new(arguments: &Arguments) -> Self {
        let count: u64 = arguments.get("rows", 100_000);
        let queries: u64 = arguments.get("queries", 1000);
        let sample = sample(arguments);
        let (generator, dimensions) = match &sample {
            Some(sample) => {
                let sample = VectorRef::U8(sample);
                let made = Generator::of_sample(SEED, sample, SAMPLE_DIMENSIONS);
                (made.expect("a sample of 16 rows"), SAMPLE_DIMENSIONS)
            }
            None => {
                let dimensions = arguments.get("dimensions", SAMPLE_DIMENSIONS);
                (Generator::of_mixture(SEED, dimensions), dimensions)
            }
        };
        let made = generator.rows(0..count);
        let rows = made.all().widened();
        let bytes = match made.all() {
            VectorRef::U8(bytes) => bytes.to_vec(),
            _ => rows.iter().map(|x| (x * 400.0 + 128.0) as u8).collect(),
        };
        let queries = generator.rows(count..count + queries).all().widened();
        let kind =
            if sample.is_some() { "like the sample" } else { "of a mixture: NO RECALL MEANS ANYTHING" };
        println!("rows        {count} x {dimensions}, {} queries, {kind}", queries.len() / dimensions);
        let norm = |row: &[f32]| row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        let norm_max = rows.chunks_exact(dimensions).chain(queries.chunks_exact(dimensions)).map(norm);
        let norm_max = norm_max.fold(0.0, f64::max);
        Self { dimensions, rows, bytes, queries, is_like_sample: sample.is_some(), norm_max }
    }

    pub(super) fn count(&self) -> usize {
        self.rows.len() / self.dimensions
    }

    pub(super) fn row(&self, row: u32) -> &[f32] {
        &self.rows[row as usize * self.dimensions..][..self.dimensions]
    }

    pub(super) fn each_query(&self) -> Vec<&[f32]> {
        self.queries.chunks_exact(self.dimensions).collect()
    }

    /// The first rows, evenly spread.
    pub(super) fn spread(&self, most: usize) -> Vec<f32> {
        let count = self.count();
        let taken = most.min(count);
        (0..taken).flat_map(|place| self.row((place * count / taken) as u32).to_vec()).collect()
    }

    /// By how much an answer in f32 may be off: by the usual bound of a sum of products, of squared distances or products.
    pub(super) fn tolerance(&self) -> f64 {
        (self.dimensions as f64 + 8.0) / f64::from(1 << 24) * 4.0 * self.norm_max * self.norm_max
    }

    /// The exact answers; a few are compared with plain loops.
    pub(super) fn exact(&self, measure: VectorMeasure, k: usize) -> Answers {
        let queries = self.each_query();
        let found = self.flat(CodePath::detect(), measure, k, &queries);
        for (query, found) in queries.iter().zip(&found).take(CHECKED) {
            let mut all: Vec<(f64, u32)> =
                (0..self.count() as u32).map(|row| (measure.between(query, self.row(row)), row)).collect();
            all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            all.truncate(k);
            assert_eq!(*found, all, "the scan in f32 with ranks in f64 finds what plain loops find");
        }
        found
    }

    /// All f32 distances, and the ranks of those left in f64.
    pub(super) fn flat(
        &self,
        path: CodePath,
        measure: VectorMeasure,
        k: usize,
        queries: &[&[f32]],
    ) -> Answers {
        let packed = FlatQueries::new(path, measure, self.dimensions, queries);
        let mut nearest = vec![Nearest::new(k, f64::INFINITY); queries.len()];
        packed.scan(VectorRef::F32(&self.rows), 0, None, &mut nearest);
        let each = queries.iter().zip(nearest);
        each.map(|(query, nearest)| self.ranked(measure, query, k, nearest.finish(), false)).collect()
    }

    /// The k nearest of what is left, by (f64 distance, row). With lower bounds, which ascend, the rest is left out.
    pub(super) fn ranked(
        &self,
        measure: VectorMeasure,
        query: &[f32],
        k: usize,
        left: Vec<(f64, u32)>,
        has_bounds: bool,
    ) -> Vec<(f64, u32)> {
        let mut found: Vec<(f64, u32)> = Vec::with_capacity(k + 1);
        for (lower, row) in left {
            let range = if found.len() == k { found[k - 1].0 } else { f64::INFINITY };
            if has_bounds && lower > range {
                break;
            }
            let distance = measure.between(query, self.row(row));
            if distance > range {
                continue;
            }
            let place = found.partition_point(|(at, other)| (*at, *other) < (distance, row));
            found.insert(place, (distance, row));
            found.truncate(k);
        }
        found
    }

    /// Asserts that what a peer found in f32 is the answer, up to ties within the error of f32.
    pub(super) fn assert_same(
        &self,
        name: &str,
        measure: VectorMeasure,
        wanted: &Answers,
        found: &[Vec<i64>],
    ) {
        let comparable =
            |distance: f64| if measure == VectorMeasure::L2 { distance * distance } else { distance };
        let tolerance = self.tolerance();
        for ((query, wanted), found) in self.each_query().iter().zip(wanted).zip(found) {
            let mut distances: Vec<f64> = found
                .iter()
                .map(|row| match u32::try_from(*row) {
                    Ok(row) => comparable(measure.between(query, self.row(row))),
                    Err(_) => f64::INFINITY,
                })
                .collect();
            distances.sort_by(f64::total_cmp);
            let mut rows = found.clone();
            rows.sort_unstable();
            rows.dedup();
            assert_eq!(rows.len(), found.len(), "{name} found a row twice");
            for ((distance, _), found) in wanted.iter().zip(distances) {
                let off = (comparable(*distance) - found).abs();
                assert!(off <= tolerance, "{name}: {found} instead of {}", comparable(*distance));
            }
        }
    }

    /// The share of the first `k` true neighbours among the first `k` found.
    pub(super) fn recall(truth: &Answers, found: &[Vec<u32>], k: usize) -> f64 {
        let hits = truth.iter().zip(found).map(|(truth, found)| {
            truth.iter().take(k).filter(|(_, row)| found.iter().take(k).any(|found| found == row)).count()
        });
        hits.sum::<usize>() as f64 / (k * truth.len()) as f64
    }

    /// The share of queries whose nearest row is among the first `r` found.
    pub(super) fn recall_at(truth: &Answers, found: &[Vec<u32>], r: usize) -> f64 {
        let hits = truth
            .iter()
            .zip(found)
            .filter(|(truth, found)| found.iter().take(r).any(|row| *row == truth[0].1));
        hits.count() as f64 / truth.len() as f64
    }

    /// The k nearest of some rows, with squared distances.
    pub(super) fn nearest_of(&self, query: &[f32], rows: &[u32], k: usize) -> Vec<(f64, u32)> {
        let mut squares = Vec::with_capacity(rows.len());
        squared_l2_of(CodePath::detect(), query, &self.rows, rows, &mut squares);
        let mut found: Vec<(f64, u32)> = squares.into_iter().zip(rows.iter().copied()).collect();
        found.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        found.truncate(k);
        found
    }

    /// The squared distance of a query from a row.
    pub(super) fn squared(&self, query: &[f32], row: u32) -> f64 {
        squared_l2_on(CodePath::detect(), query, self.row(row))
    }
}
