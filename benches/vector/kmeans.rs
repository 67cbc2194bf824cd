//! `what=kmeans`: clusters of all rows, from the same start.

use boxwork_kernels::kmeans::{Assigner, Options, k_means, start};

use super::contest::{Bench, Limit, Other, Work, pieces, shared};
use super::support::Arguments;

/// The seed of the start.
const SEED: u64 = 1;
/// By how much a sum of squared distances may be above another.
const WORSE_MAX: f64 = 1e-4;

pub(super) fn run(bench: &Bench, arguments: &Arguments) {
    let (world, iterations) = (&bench.world, arguments.get("iterations", 25));
    let (dimensions, mut first) = (world.dimensions, first(bench, arguments.get("clusters", 4096)));
    let clusters = first.len() / dimensions;
    // Only one of the peer's ways takes a start, but both choose it alike.
    if bench.ask(&format!("start {clusters} {SEED}")).is_some() {
        first = bench.read_f32("start.f32");
    }
    let cluster = || {
        let options = Options { iterations, seed: SEED, spherical: false, frozen: 0 };
        let found =
            k_means(&world.rows, dimensions, first.clone(), options, bench.path, &mut pieces(bench.threads));
        found.expect("memory").expect("no one cancels it").centroids
    };
    // Both sides are judged by one exact sum: the squared distances of all rows from their nearest centroids.
    let objective =
        |centroids: &[f32]| -> f64 { assigned(bench, centroids).iter().map(|(_, square)| square).sum() };
    let own = objective(&cluster());
    let mut note = format!("objective {own:.6e}");
    let mut others = Vec::new();
    for (name, bar) in [("Kmeans", 3.0), ("SuperKmeans", 1.2)] {
        let question = format!("kmeans {name} {iterations} {SEED}");
        if bench.ask(&question).is_some() {
            let theirs = objective(&bench.read_f32("centroids.f32"));
            note += &format!(", {name} {theirs:.6e}");
            assert!(own <= theirs * (1.0 + WORSE_MAX), "{name} finds {theirs:e}, better than {own:e}");
        }
        others.push(Other { name, question, bar });
    }
    let products = (world.count() * clusters * dimensions * iterations) as f64;
    let name = format!("k-means to {clusters}, {iterations} rounds");
    let work = Work { row: "5", name, limit: Limit::MultiplyAdds(products), note };
    bench.contest(&work, &others, &mut || _ = cluster());
}

/// The first centroids: rows chosen at random, at most one for every 20 rows.
pub(super) fn first(bench: &Bench, clusters: usize) -> Vec<f32> {
    let world = &bench.world;
    let clusters = clusters.min(world.count() / 20).max(1);
    start(world.count() as u64, clusters, SEED)
        .into_iter()
        .flat_map(|row| world.row(row as u32).to_vec())
        .collect()
}

/// The nearest centroid of each row, and the squared distance from it.
pub(super) fn assigned(bench: &Bench, centroids: &[f32]) -> Vec<(u32, f64)> {
    let (world, dimensions) = (&bench.world, bench.world.dimensions);
    let assigner = Assigner::new(centroids, dimensions, None);
    shared(bench.threads, world.count(), |part| {
        assigner.assign(bench.path, &world.rows[part.start * dimensions..part.end * dimensions])
    })
}
