//! How many signature distances a second does one core compute, on each code path?
//!
//! Seven dimensions, 81 and 23 centroids a side, candidates that stay in the cache of the core. The baseline is the f64
//! reference, own similarities cached. Answers are checked before they are timed; the median of the runs is printed,
//! with the fastest and the slowest.
//!
//! `cargo run --release -p boxwork-kernels --example sqfd_rate -- [ALPHA [CENTROIDS...]]`

use std::hint::black_box;
use std::time::Instant;

use boxwork_kernels::CodePath;
use boxwork_kernels::chance::Random;
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sqfd::{Columns, Evaluator, PreparedQuery, StoreColumns, reference};

const DIMENSIONS: usize = 7;
const CENTROIDS: [usize; 2] = [81, 23];
const SIGNATURES: usize = 128;
const RUNS: usize = 201;

fn main() {
    let alpha = std::env::args().nth(1).map_or(0.2, |alpha| alpha.parse().expect("alpha, a number"));
    let measures = [
        (Similarity::Gaussian, Ground::L2),
        (Similarity::Heuristic, Ground::L2),
        (Similarity::Heuristic, Ground::L1),
        (Similarity::Minus, Ground::L2),
    ];
    let mut sizes: Vec<usize> =
        std::env::args().skip(2).map(|size| size.parse().expect("centroids, a number")).collect();
    if sizes.is_empty() {
        sizes.extend(CENTROIDS);
    }
    for (similarity, ground) in measures {
        let measure = Measure::new(similarity, ground, alpha).expect("a Hilbert measure");
        for &centroids in &sizes {
            println!(
                "{similarity} over {ground}, alpha {alpha}, {centroids} x {centroids}, D = {DIMENSIONS}"
            );
            measure_all(measure, centroids);
        }
    }
}

fn measure_all(measure: Measure, centroids: usize) {
    let mut random = Random::new(1);
    let mut random = || 2.0 * random.unit_f32() - 1.0;
    let total = SIGNATURES * centroids;
    let coordinates: Vec<Vec<f32>> =
        (0..DIMENSIONS).map(|_| (0..total).map(|_| 4.0 * random()).collect()).collect();
    let mut weights: Vec<f32> = (0..total).map(|_| random() + 1.1).collect();
    for signature in weights.chunks_mut(centroids) {
        let sum: f32 = signature.iter().sum();
        signature.iter_mut().for_each(|weight| *weight /= sum);
    }
    let offsets: Vec<i32> = (0..=SIGNATURES).map(|i| (i * centroids) as i32).collect();
    let coordinates: Vec<&[f32]> = coordinates.iter().map(Vec::as_slice).collect();
    let store = StoreColumns::new(Columns::new(&coordinates, &weights), &offsets);

    let rows: Vec<u32> = (0..SIGNATURES as u32).collect();
    let sigma_self: Vec<f64> =
        (0..SIGNATURES).map(|row| reference::sigma_self(&measure, store.signature(row))).collect();
    let query = PreparedQuery::new(measure, store.signature(0));
    let mut expected = vec![0.0; SIGNATURES];
    time("reference", centroids, 3, || {
        for (row, expected) in expected.iter_mut().enumerate() {
            let cross = reference::sigma(&measure, store.signature(0), store.signature(row));
            *expected = reference::distance(sigma_self[0], sigma_self[row], cross);
        }
    });

    let sigma_self_min = sigma_self.iter().copied().fold(f64::INFINITY, f64::min);
    for path in CodePath::available() {
        let mut evaluator = Evaluator::new(path);
        let mut found = vec![0.0; SIGNATURES];
        time(&path.to_string(), centroids, RUNS, || {
            evaluator.distances(black_box(&query), &store, &rows, &sigma_self, black_box(&mut found));
        });
        let errors = found.iter().zip(&expected).map(|(found, expected)| (found - expected).abs());
        for (error, &expected) in errors.clone().zip(&expected) {
            assert!(error <= query.distance_error(expected, sigma_self_min), "{path} is off by {error:e}");
        }
        let distance = expected[SIGNATURES / 2];
        println!(
            "  {:>9}  largest error {:.1e} (but for the query itself), declared {:.1e} at distance {distance:.3}",
            "",
            errors.skip(1).fold(0.0, f64::max),
            query.distance_error(distance, sigma_self_min),
        );
    }
}

fn time(name: &str, centroids: usize, runs: usize, mut run: impl FnMut()) {
    run();
    let mut seconds: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    let rate = |seconds: f64| SIGNATURES as f64 / seconds;
    let pair_ns = |seconds: f64| 1e9 * seconds / (SIGNATURES * centroids * centroids) as f64;
    let median = seconds[runs / 2];
    println!(
        "  {name:>9}  {:>9.0} distances/s, {:.3} ns a pair ({:.3} to {:.3})",
        rate(median),
        pair_ns(median),
        pair_ns(seconds[0]),
        pair_ns(seconds[runs - 1]),
    );
}
