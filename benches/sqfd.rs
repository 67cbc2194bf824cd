//! How many signature distances per second does one core compute?
//!
//! Unit: distances per second; 81 x 81 centroids of 7 coordinates, Gaussian over L2. Baselines: OpenCV-contrib's
//! `PCTSignaturesSQFD` on these signatures, and our own scalar twin: f32 with the mathematics library's `expf`, which
//! no compiler vectorises. The f64 reference, which ranks the best objects again, is measured too. The thesis reports
//! "more than two orders of magnitude" over serial code, with four GPUs; the bars are 80 x OpenCV and 20 x the scalar
//! twin on one core.
//!
//! *Cached* is the work of a search: an object's similarity to itself comes from the store's space, and one block of
//! pairs remains. *Three blocks* is what OpenCV computes in every call. *First use* is the first search of a space: the
//! object's own similarity in f64, then the block.
//!
//! `cargo bench --bench sqfd -- alpha=1.0 centroids=81 signatures=128 rounds=41`; alpha=all, the default, is 1.0, 0.2,
//! 0.64 and 3.0. If `centroids` is not 81, a last table compares this size, 13, 33 and 81 in cache and from memory
//! (`sizes.rs`), at the first alpha. The binary needs no other file.

mod support;

#[path = "sqfd/sizes.rs"]
mod sizes;

use std::hint::black_box;

use boxwork_kernels::CodePath;
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sqfd::{Evaluator, PreparedQuery, SignatureRef, StoreColumns, reference};
use support::clock;
use support::peer::Peer;
use support::signatures::{DIMENSIONS, Signatures};
use support::{Arguments, Side, print_machine, run_rounds, verdict};

/// The largest error of a fast distance, except for objects at distance 0.
const ERROR_MAX: f64 = 1e-5;
/// OpenCV sums pairs one by one in f32.
const OPENCV_ERROR_MAX: f64 = 1e-4;
const OPENCV_RATIO_WANTED: f64 = 80.0;
const SCALAR_RATIO_WANTED: f64 = 20.0;

fn main() {
    let arguments = Arguments::read(&["alpha", "centroids", "signatures", "rounds"]);
    let centroids = arguments.get("centroids", 81);
    let count = arguments.get("signatures", 128);
    let rounds = arguments.get("rounds", 41);
    let alphas = match arguments.text("alpha") {
        None | Some("all") => vec![1.0, 0.2, 0.64, 3.0],
        Some(_) => vec![arguments.get("alpha", 1.0)],
    };
    println!("question    how many signature distances per second does one core compute?");
    println!(
        "unit        distances/s, {centroids} x {centroids} centroids, D = {DIMENSIONS}, Gaussian over L2"
    );
    print_machine();
    println!("code path   {}, of {}", CodePath::detect(), list(CodePath::available()));
    println!("rounds      {rounds}; median (middle half) of processor time, ratios within a round");

    let signatures = Signatures::random(1, count, centroids..=centroids);
    let file = std::env::temp_dir().join(format!("boxwork-sqfd-{}.bin", std::process::id()));
    signatures.write(&file).expect("the folder of temporary files can be written to");
    let mut peer = Peer::opencv(&["sqfd", file.to_str().expect("a path in UTF-8")]);
    for &alpha in &alphas {
        signatures.with(|store| measure(alpha, store, rounds, peer.as_mut()));
    }
    drop(peer);
    if centroids != 81 {
        sizes::run(alphas[0], centroids, count, rounds);
    }
    // The system cleans up what cannot be removed.
    let _ = std::fs::remove_file(&file);
}

fn measure(alpha: f64, store: &StoreColumns<'_>, rounds: usize, mut peer: Option<&mut Peer>) {
    println!("\nalpha {alpha}");
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, alpha).expect("alpha is positive");
    let count = store.rows();
    let centroids = store.signature(0).len();
    let rows: Vec<u32> = (0..count as u32).collect();
    let prepared: Vec<PreparedQuery> =
        rows.iter().map(|&row| PreparedQuery::new(measure, store.signature(row as usize))).collect();
    let sigma_self: Vec<f64> = prepared.iter().map(PreparedQuery::sigma_self).collect();
    let query = &prepared[0];
    let exact: Vec<f64> = (0..count)
        .map(|row| {
            let cross = reference::sigma(&measure, store.signature(0), store.signature(row));
            reference::distance(sigma_self[0], sigma_self[row], cross)
        })
        .collect();
    check(store, &prepared, &sigma_self, &exact);
    if let Some(peer) = &mut peer {
        check_peer(peer, alpha, &exact);
    }

    let sigma_scalar: Vec<f32> =
        (0..count).map(|row| sigma_f32(alpha as f32, store.signature(row), store.signature(row))).collect();
    let mut sides = vec![
        Side::on_this_core("reference f64", count, || {
            for (row, &own) in sigma_self.iter().enumerate() {
                let cross = reference::sigma(&measure, black_box(store.signature(0)), store.signature(row));
                black_box(reference::distance(sigma_self[0], own, cross));
            }
        }),
        Side::on_this_core("scalar f32", count, || {
            for (row, &own) in sigma_scalar.iter().enumerate() {
                let cross = sigma_f32(alpha as f32, black_box(store.signature(0)), store.signature(row));
                black_box((sigma_scalar[0] + own - 2.0 * cross).max(0.0).sqrt());
            }
        }),
    ];
    for path in CodePath::available() {
        let (mut evaluator, mut out) = (Evaluator::new(path), vec![0.0; count]);
        let (sigma_self, rows) = (&sigma_self, &rows);
        sides.push(Side::on_this_core(path.to_string(), count, move || {
            evaluator.distances(black_box(query), store, rows, sigma_self, black_box(&mut out));
        }));
    }
    let best = sides.len() - 1;
    let path = CodePath::detect();
    let (mut evaluator, prepared, all_rows) = (Evaluator::new(path), &prepared, &rows);
    sides.push(Side::on_this_core(format!("{path}, three blocks"), count, move || {
        for (row, object) in prepared.iter().enumerate() {
            let row = &all_rows[row..=row];
            let mut sigma = |query: &PreparedQuery, row: &[u32]| {
                let mut out = [0.0];
                evaluator.sigma_cross(query, store, row, &mut out);
                out[0]
            };
            let sigmas = [sigma(query, &all_rows[..1]), sigma(object, row), sigma(query, row)];
            black_box(reference::distance(sigmas[0], sigmas[1], sigmas[2]));
        }
    }));
    let (mut evaluator, mut out) = (Evaluator::new(path), vec![0.0; count]);
    sides.push(Side::on_this_core(format!("{path}, first use"), count, move || {
        evaluator.sigma_cross(query, store, all_rows, &mut out);
        for (row, out) in out.iter_mut().enumerate() {
            let own = reference::sigma_self(&measure, store.signature(row));
            *out = reference::distance(query.sigma_self(), own, *out);
        }
        black_box(&mut out);
    }));
    let has_peer = peer.is_some();
    if let Some(peer) = peer {
        let name = peer.name.clone();
        sides.push(Side::new(name, move || peer.seconds("time")));
    }
    run_rounds(rounds, &mut sides);
    report(&sides, best, has_peer, centroids);
}

/// Prints the rates of all sides, and whether the best of ours is as fast as it is to be. The second side is the scalar twin,
/// the last one the peer if there is one.
fn report(sides: &[Side<'_>], best: usize, has_peer: bool, centroids: usize) {
    let opencv = sides.last().filter(|_| has_peer);
    let scalar = &sides[1];
    let path = CodePath::detect();
    println!("{:22} {:>30} {:>10} {:>24} {:>20}", "", "distances/s", "ns/pair", "x OpenCV", "x scalar f32");
    for side in sides {
        let seconds = side.spread().median;
        println!(
            "{:22} {:>30} {:>10.3} {:>24} {:>20}",
            side.name,
            format!("{:.0}", support::Spread::of(side.seconds.iter().map(|seconds| 1.0 / seconds))),
            seconds * 1e9 / (centroids * centroids) as f64,
            opencv.map_or("not measured".to_owned(), |opencv| side.faster_than(opencv).to_string()),
            side.faster_than(scalar).to_string(),
        );
    }
    print_limit(path, sides[best].spread().median * 1e9 / (centroids * centroids) as f64);
    if let Some(opencv) = opencv {
        let ratio = sides[best].faster_than(opencv).median;
        verdict(
            &format!("{path} x OpenCV, cached"),
            ratio,
            OPENCV_RATIO_WANTED,
            ratio >= OPENCV_RATIO_WANTED,
        );
    }
    let ratio = sides[best].faster_than(scalar).median;
    verdict(&format!("{path} x scalar f32"), ratio, SCALAR_RATIO_WANTED, ratio >= SCALAR_RATIO_WANTED);
    if path != CodePath::Avx512 {
        println!("            (the targets are AVX-512's, and this machine has none)");
    }
}

/// Checks every path against the reference, before anything is timed.
fn check(store: &StoreColumns<'_>, prepared: &[PreparedQuery], sigma_self: &[f64], exact: &[f64]) {
    let rows: Vec<u32> = (0..store.rows() as u32).collect();
    let sigma_self_min = sigma_self.iter().copied().fold(f64::INFINITY, f64::min);
    for path in CodePath::available() {
        let mut found = vec![0.0; rows.len()];
        Evaluator::new(path).distances(&prepared[0], store, &rows, sigma_self, &mut found);
        let mut largest: f64 = 0.0;
        for (row, (found, &exact)) in found.iter().zip(exact).enumerate() {
            let error = (found - exact).abs();
            let declared = prepared[0].distance_error(exact, sigma_self_min);
            assert!(error <= declared, "{path}: object {row} is off by {error:e}, more than {declared:e}");
            // The query itself is at distance 0, where the root magnifies any error.
            largest = if row == 0 { largest } else { largest.max(error) };
        }
        assert!(largest <= ERROR_MAX, "{path} is off by {largest:e}");
        println!("checked     {path}: at most {largest:.1e} from the f64 reference, of {ERROR_MAX:e}");
    }
}

fn check_peer(peer: &mut Peer, alpha: f64, exact: &[f64]) {
    peer.ask(&format!("alpha {alpha}"));
    let answer = peer.ask("distances");
    let found = answer["distances"].as_array().expect("a list of distances");
    assert_eq!(found.len(), exact.len());
    let errors =
        found.iter().zip(exact).map(|(found, exact)| (found.as_f64().unwrap_or(f64::NAN) - exact).abs());
    let largest = errors.skip(1).fold(0.0, f64::max);
    assert!(largest <= OPENCV_ERROR_MAX, "{} is off by {largest:e}", peer.name);
    println!("checked     {}: at most {largest:.1e} from the f64 reference", peer.name);
}

/// The limit of a core, and the share of it that is reached.
fn print_limit(path: CodePath, pair_ns: f64) {
    /// Seven for the coordinates and five for the polynomial of the exponential function.
    const MULTIPLY_ADDS: f64 = 12.0;
    /// No x86-64 core starts more per cycle.
    const PER_CYCLE: f64 = 2.0;
    /// Also the norm, the limit of the exponent, its reduction, scaling, and the sum: with vectors of 512 bits all of
    /// them need one of two ports.
    const ALL_AVX512: f64 = 17.0;
    let lanes = match path {
        CodePath::Avx512 => 16.0,
        CodePath::Avx2 | CodePath::AvxVnni => 8.0,
        _ => return,
    };
    let clock = clock::gigahertz();
    let limit = MULTIPLY_ADDS / PER_CYCLE / lanes / clock;
    println!(
        "limit       {limit:.3} ns per pair by its {MULTIPLY_ADDS} multiply-adds, two per cycle at {clock:.2} GHz: \
         {:.0} % reached",
        100.0 * limit / pair_ns
    );
    if path == CodePath::Avx512 {
        let limit = ALL_AVX512 / PER_CYCLE / lanes / clock;
        println!(
            "            {limit:.3} ns by all {ALL_AVX512} vector instructions on two ports: {:.0} % reached",
            100.0 * limit / pair_ns
        );
    }
}

/// Weighted similarity of two signatures, as one would write it down first.
#[inline(never)]
fn sigma_f32(alpha: f32, a: SignatureRef<'_>, b: SignatureRef<'_>) -> f32 {
    let (a_len, b_len) = (a.len(), b.len());
    let a_columns: [&[f32]; DIMENSIONS] = std::array::from_fn(|dimension| &a.coordinate(dimension)[..a_len]);
    let b_columns: [&[f32]; DIMENSIONS] = std::array::from_fn(|dimension| &b.coordinate(dimension)[..b_len]);
    let (a_weights, b_weights) = (&a.weights()[..a_len], &b.weights()[..b_len]);
    let mut sum = 0.0;
    for i in 0..a_len {
        let mut inner = 0.0;
        for j in 0..b_len {
            let mut squared = 0.0;
            for (a_column, b_column) in a_columns.iter().zip(&b_columns) {
                let difference = a_column[i] - b_column[j];
                squared += difference * difference;
            }
            inner += b_weights[j] * (-alpha * squared).exp();
        }
        sum += a_weights[i] * inner;
    }
    sum
}

fn list(paths: Vec<CodePath>) -> String {
    paths.iter().map(CodePath::to_string).collect::<Vec<_>>().join(", ")
}
