//! Small signatures beside those of 81 centroids: rates of one core, in its cache and from memory.
//!
//! An object of `n` centroids needs `(81 / n)^2` times less arithmetic than one of 81, if the query has as many, but only
//! `81 / n` times fewer bytes. The bench prints both limits. *In cache* are as many objects as the other lines have; *from
//! memory* are objects of 64 MiB, side by side as in a scan, or every object in a random order.

use std::hint::black_box;

use boxwork_kernels::CodePath;
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sqfd::{Evaluator, PreparedQuery, StoreColumns};

use super::support::signatures::{DIMENSIONS, Random, Signatures};
use super::support::{Side, clock, run_rounds, verdict};

/// The centroids of every object of the other lines.
const USUAL: usize = 81;
/// Sizes that are measured beside the given one.
const OTHERS: [usize; 2] = [13, 33];
/// How many times as many distances there must be of 23 centroids as of 81.
const RATIO_WANTED: f64 = 8.0;
const RATIO_OF: usize = 23;
/// More than a core's own cache holds.
const BYTES: usize = 64 << 20;
const OBJECT_NUMBERS: usize = DIMENSIONS + 1;

/// Objects of one size, and the order in which they are compared.
struct Scene {
    name: &'static str,
    centroids: usize,
    signatures: Signatures,
    rows: Vec<u32>,
}

impl Scene {
    fn bytes(&self) -> usize {
        self.centroids * OBJECT_NUMBERS * size_of::<f32>()
    }
}

/// Measures objects of so many centroids beside those of 81, on every path that has vectors.
pub(super) fn run(alpha: f64, centroids: usize, count: usize, rounds: usize) {
    let mut sizes = vec![centroids, USUAL];
    sizes.extend(OTHERS);
    sizes.sort_unstable();
    sizes.dedup();
    let scenes: Vec<Scene> = sizes.iter().flat_map(|&centroids| scenes(centroids, count)).collect();
    let read = read_rate(&scenes);
    println!(
        "\nsizes       alpha {alpha}; a core reads {:.1} GB/s of objects one after the other",
        read / 1e9
    );
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, alpha).expect("alpha is positive");
    for path in CodePath::available() {
        measure_path(path, measure, &scenes, rounds, read);
    }
}

fn scenes(centroids: usize, count: usize) -> [Scene; 3] {
    let objects = BYTES / (centroids * OBJECT_NUMBERS * size_of::<f32>());
    let make = |name, count: usize| {
        let signatures = Signatures::random(1, count, centroids..=centroids);
        Scene { name, centroids, signatures, rows: (0..count as u32).collect() }
    };
    let mut strewn = make("strewn", objects);
    let mut random = Random::new(2);
    for last in (1..objects).rev() {
        strewn.rows.swap(last, random.count(0..=last));
    }
    [make("in cache", count), make("from memory", objects), strewn]
}

fn measure_path(path: CodePath, measure: Measure, scenes: &[Scene], rounds: usize, read: f64) {
    let mut sides: Vec<Side<'_>> = scenes.iter().map(|scene| side(path, measure, scene)).collect();
    run_rounds(rounds, &mut sides);
    println!(
        "{:10} {:14} {:>30} {:>8} {:>24} {:>24} {:>22}",
        path, "", "distances/s", "ns/pair", "x 81, same place", "GB/s (of what it reads)", "by arithmetic"
    );
    let usual = scenes.iter().position(|scene| scene.centroids == USUAL).expect("81 is among the sizes");
    for (at, (scene, side)) in scenes.iter().zip(&sides).enumerate() {
        let (seconds, same) = (side.spread().median, &sides[usual + at % 3]);
        let pairs = (scene.centroids * scene.centroids) as f64;
        let bytes = scene.bytes() as f64 / seconds;
        println!(
            "{:>3} x {:<4} {:14} {:>30} {:>8.3} {:>24} {:>24} {:>22}",
            scene.centroids,
            scene.centroids,
            scene.name,
            format!("{:.0}", super::support::Spread::of(side.seconds.iter().map(|seconds| 1.0 / seconds))),
            seconds * 1e9 / pairs,
            format!("{:.2}", side.faster_than(same)),
            format!("{:.2} ({:.0} %)", bytes / 1e9, 100.0 * bytes / read),
            format!("{:.2}", (USUAL * USUAL) as f64 / pairs),
        );
    }
    for (at, scene) in scenes.iter().enumerate().filter(|(_, scene)| scene.centroids == RATIO_OF) {
        let ratio = sides[at].faster_than(&sides[usual + at % 3]).median;
        let what = format!("{path}, {RATIO_OF} x 81, {}", scene.name);
        verdict(&what, ratio, RATIO_WANTED, ratio >= RATIO_WANTED);
    }
}

fn side<'a>(path: CodePath, measure: Measure, scene: &'a Scene) -> Side<'a> {
    let query = scene.signatures.with(|store| PreparedQuery::new(measure, store.signature(0)));
    let (mut evaluator, mut out) = (Evaluator::new(path), vec![0.0; scene.rows.len()]);
    // The objects' own similarities take no time here, and are not needed for it.
    let own = vec![1.0; scene.rows.len()];
    Side::on_this_core(scene.name, scene.rows.len(), move || {
        let mut measured = |store: &StoreColumns<'_>| {
            evaluator.distances(black_box(&query), store, &scene.rows, &own, black_box(&mut out));
        };
        scene.signatures.with(&mut measured);
    })
}

/// Bytes per second that this core reads from the largest objects, column by column as the kernel does.
fn read_rate(scenes: &[Scene]) -> f64 {
    let scene = scenes.iter().max_by_key(|scene| scene.signatures.weights.len()).expect("there are objects");
    let columns = &scene.signatures.coordinates;
    let bytes: usize = columns.iter().map(|column| size_of_val(column.as_slice())).sum();
    let seconds = (0..5).map(|_| {
        clock::thread_seconds(|| {
            // Whole numbers, whose sum a compiler may add up in any order.
            let sum = |column: &[f32]| column.iter().fold(0, |sum: u32, x| sum.wrapping_add(x.to_bits()));
            black_box(columns.iter().map(|column| sum(black_box(column))).fold(0, u32::wrapping_add));
        })
    });
    bytes as f64 / seconds.fold(f64::INFINITY, f64::min)
}
