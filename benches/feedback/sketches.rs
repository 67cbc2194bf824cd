//! `what=sketch`: sketches of signatures on one core.

use boxwork_kernels::CodePath;
use boxwork_kernels::sketch::{Basis, COORDINATES, Frequencies, Sketcher, coordinate, reference};

use super::list;
use super::support::signatures::{Random, Signatures};
use super::support::{Arguments, Side, Spread, run_rounds, verdict};

/// Signatures that are sketched.
const SIGNATURES: usize = 256;

pub(super) fn run(arguments: &Arguments) {
    let (count, rounds) = (arguments.get("frequencies", 1024usize), arguments.get("rounds", 9));
    println!("question    how long does a core take to sketch a signature?");
    println!("unit        microseconds; {count} frequencies, 7 dimensions, {SIGNATURES} signatures");
    let frequencies = Frequencies::new(1, 1.28, 7, count);
    println!("{:>10} {:>10} {:>26} {:>26}", "centroids", "path", "microseconds", "s for 1e6 on two cores");
    for centroids in list(arguments, "centroids", "23,81") {
        let (mut signatures, mut random) = (Signatures::default(), Random::new(1));
        (0..SIGNATURES).for_each(|_| signatures.push_random(&mut random, centroids));
        signatures.with(|store| {
            let rows: Vec<_> = (0..SIGNATURES).map(|row| store.signature(row)).collect();
            let width = frequencies.features();
            let mut features = vec![0.0; width * SIGNATURES];
            let mut sketcher = Sketcher::new(CodePath::detect());
            for (row, features) in rows.iter().zip(features.chunks_exact_mut(width)) {
                sketcher.features(&frequencies, *row, features);
            }
            let in_turn = &mut |numbers: &mut [f64], piece: usize, f: &(dyn Fn(usize, &mut [f64]) + Sync)| {
                numbers.chunks_mut(piece).enumerate().for_each(|(idx, numbers)| f(idx * piece, numbers));
                true
            };
            let basis =
                Basis::of_sample(&features, width, in_turn).expect("there is memory").expect("it ran");
            let mut out = vec![0; SIGNATURES * COORDINATES];
            for path in CodePath::available() {
                let mut sketcher = Sketcher::new(path);
                sketcher.sketch(&frequencies, &basis, &rows, &mut out);
                let exact = reference::coordinates(&basis, &reference::features(&frequencies, rows[7]));
                for (bits, exact) in out[7 * COORDINATES..].iter().zip(exact) {
                    let off = (f64::from(coordinate(*bits)) - exact).abs();
                    assert!(off < exact.abs() / 2048.0 + 2e-5, "{exact} is off by {off:e}");
                }
                let side = Side::on_this_core("sketch", SIGNATURES, || {
                    sketcher.sketch(&frequencies, &basis, &rows, &mut out);
                });
                let mut sides = [side];
                run_rounds(rounds, &mut sides);
                let us = Spread::of(sides[0].seconds.iter().map(|seconds| 1e6 * seconds));
                let both = Spread::of(sides[0].seconds.iter().map(|seconds| 0.5e6 * seconds));
                println!("{centroids:>10} {:>10} {us:>26.1} {both:>26.1}", path.to_string());
                if centroids == 81 && path == CodePath::detect() {
                    verdict(
                        "1e6 signatures of 81 centroids, two cores, s",
                        both.median,
                        90.0,
                        both.median <= 90.0,
                    );
                }
            }
        });
    }
}
