//! `what=own`: how much a search saves by known similarities of objects to themselves.

use std::sync::Arc;

use super::distances::{Timing, Way, scene, time};
use super::support::signatures::{Random, Signatures};
use super::support::{Arguments, Spread};
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sqfd::device::Shape;
use boxwork_runtime::feeding::Devices;

/// Centroids of the queries, from few to many.
const QUERIES: [usize; 6] = [20, 40, 60, 80, 120, 160];

pub(super) fn run(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let is_gpu = devices.gpus().contains(&device);
    let objects = arguments.get("objects", if is_gpu { 250_000 } else { 1_000 });
    let (centroids, rounds) = (arguments.get("centroids", 75), arguments.get("rounds", 9));
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, 0.2).expect("alpha is positive");
    println!("question    how much do known similarities of objects to themselves save?");
    println!(
        "unit        ms per million distances, {objects} objects of {centroids} centroids on the device"
    );
    println!(
        "            each time: the same kernel over as many more pairs, those of every object with itself"
    );
    let shape = Shape::new(&measure, 7).split(128, 16).matrices_of(2, 0);
    // A kernel for own similarities would read as much as this one reads for a query of equal size.
    let mut timings: Vec<Timing> = QUERIES
        .into_iter()
        .chain([centroids])
        .enumerate()
        .map(|(version, size)| {
            let (mut signatures, mut random) = (Signatures::default(), Random::new(1));
            signatures.push_random(&mut random, size);
            (1..objects).for_each(|_| signatures.push_random(&mut random, centroids));
            let signatures = Arc::new(signatures);
            let scene = signatures.with(|store| {
                scene(&signatures, store, measure, shape.clone(), 1, 1 + version as u64, Way::Resident)
            });
            Timing::new(
                devices,
                device,
                Arc::new(super::distances::Scene { part: version as u64, ..scene }),
                measure,
            )
        })
        .collect();
    let mut figures = vec![Vec::new(); timings.len()];
    for round in 0..=rounds {
        for (timing, figures) in timings.iter_mut().zip(&mut figures) {
            let ms = 1e3 * time(timing, devices, device);
            if round > 0 {
                figures.push(ms);
            }
        }
    }
    let own = figures.pop().expect("the objects' own size");
    println!("{:>10} {:>24} {:>24} {:>24}", "query", "known", "each time", "times as long");
    for (size, known) in QUERIES.into_iter().zip(figures) {
        let both: Vec<f64> = known.iter().zip(&own).map(|(known, own)| known + own).collect();
        let ratio = Spread::of(both.iter().zip(&known).map(|(both, known)| both / known));
        let (known, both) = (Spread::of(known), Spread::of(both));
        println!("{size:>10} {known:>24.2} {both:>24.2} {ratio:>24.2}");
        for (series, value) in [("known", known.median), ("computed for each distance", both.median)] {
            arguments.append_csv(&["4.16", series, &size.to_string(), &format!("{value:.4}")]);
        }
    }
}
