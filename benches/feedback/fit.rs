//! `what=fit`: the model of the marks on one core.

use boxwork_kernels::gaussian_process::{MARK_NOISE, Model};

use super::pass::{kernel, marks, tiles};
use super::support::{Arguments, Side, Spread, run_rounds, verdict};
use boxwork_kernels::sketch::coordinate;

pub(super) fn run(arguments: &Arguments) {
    let rounds = arguments.get("rounds", 9);
    println!("question    how long does a core take to fit a model?");
    println!("unit        ms; covariances of random sketches are given");
    let tiles = tiles(2000);
    let marks = marks(&tiles, 1000);
    let distance = |a: usize, b: usize| -> f64 {
        let differences = marks[a].sketch.iter().zip(&marks[b].sketch);
        differences.map(|(a, b)| f64::from(coordinate(*a) - coordinate(*b)).powi(2)).sum::<f64>().sqrt()
    };
    let rows: Vec<Vec<f64>> =
        (0..marks.len()).map(|a| (0..a).map(|b| kernel().of(distance(a, b))).collect()).collect();
    let scores: Vec<f64> = (0..marks.len()).map(|mark| (mark % 2) as f64).collect();
    let noises = vec![MARK_NOISE; marks.len()];
    let fit = |first: usize, model: &mut Model, end: usize| {
        model.extend(&rows[first..end], &scores[first..end], &noises[first..end]);
    };
    let mut two_hundred = Model::new();
    fit(0, &mut two_hundred, 200);
    let mut grown = two_hundred.clone();
    fit(200, &mut grown, 212);
    // (K + noise) weights = scores.
    let weights = grown.weights();
    for (mark, row) in rows[..212].iter().enumerate() {
        let later = (mark + 1..212).map(|other| rows[other][mark] * weights[other]);
        let sum: f64 = row.iter().zip(&weights).map(|(k, w)| k * w).chain(later).sum();
        let off = (sum + (1.0 + MARK_NOISE) * weights[mark] - scores[mark]).abs();
        assert!(off < 1e-9, "mark {mark} is off by {off:e}");
    }
    let mut sides = [
        Side::on_this_core("200 to 212", 1, || {
            grown.truncate(200);
            fit(200, &mut grown, 212);
            std::hint::black_box(grown.weights());
        }),
        Side::on_this_core("0 to 1,000", 1, || {
            let mut model = Model::new();
            fit(0, &mut model, 1000);
            std::hint::black_box(model.weights());
        }),
    ];
    run_rounds(rounds, &mut sides);
    for (side, wanted) in sides.iter().zip([2.0, 300.0]) {
        let ms = Spread::of(side.seconds.iter().map(|seconds| 1e3 * seconds));
        println!("{:>12} marks {ms:>26.2}", side.name);
        verdict(&format!("{} marks, ms", side.name), ms.median, wanted, ms.median <= wanted);
    }
}
