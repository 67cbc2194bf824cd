//! `what=l1`: L1 distances of long vectors on one core, the source's own kernel.

use boxwork_kernels::CodePath;
use boxwork_kernels::chance::Random;
use boxwork_kernels::gaussian_process::l1::{Marks, reference};

use super::support::{Arguments, Side, Spread, clock, run_rounds, verdict};

/// The source's largest table.
const OBJECTS: f64 = 120_000.0;

/// Vectors of random numbers.
pub(super) fn vectors(seed: u64, count: usize, dimensions: usize) -> Vec<f32> {
    let mut random = Random::mixed(seed);
    (0..count * dimensions).map(|_| random.unit_f32()).collect()
}

/// Compares some distances with those in f64.
pub(super) fn check(objects: &[f32], marks: &[f32], dimensions: usize, found: &[f32], error: f64) -> f64 {
    let count = marks.len() / dimensions;
    let mut worst = 0f64;
    for (object, found) in objects.chunks_exact(dimensions).zip(found.chunks_exact(count)).step_by(17) {
        for (mark, found) in marks.chunks_exact(dimensions).zip(found).step_by(5) {
            let exact = reference(object, mark);
            worst = worst.max((f64::from(*found) - exact).abs() / exact);
        }
    }
    assert!(worst <= error, "a distance is off by {worst:e}, declared {error:e}");
    worst
}

pub(super) fn run(arguments: &Arguments) {
    let (objects, dimensions) = (arguments.get("objects", 512usize), arguments.get("dimensions", 4096usize));
    let (count, rounds) = (super::list(arguments, "marks", "128")[0], arguments.get("rounds", 9));
    println!("question    how long do the L1 distances of the source's largest table take?");
    println!(
        "unit        s for 120,000 objects on two cores; {objects} objects, {dimensions} numbers, {count} marks"
    );
    println!("limit       two additions of eight lanes a clock, {:.2} GHz", clock::gigahertz());
    let given = vectors(1, objects, dimensions);
    let marks = vectors(2, count, dimensions);
    let prepared = Marks::new(&marks, dimensions);
    let limit = OBJECTS * (dimensions * count) as f64 / 8.0 / 2.0 / clock::gigahertz() / 1e9;
    println!("{:>10} {:>26} {:>10} {:>12}", "path", "s", "limit", "error");
    for path in CodePath::available() {
        let mut out = vec![0.0; objects * count];
        prepared.distances(path, &given, &mut out);
        let off = check(&given, &marks, dimensions, &out, prepared.relative_error());
        let mut sides = [Side::on_this_core("l1", objects, || prepared.distances(path, &given, &mut out))];
        run_rounds(rounds, &mut sides);
        let seconds = Spread::of(sides[0].seconds.iter().map(|seconds| seconds * OBJECTS / 2.0));
        println!("{:>10} {seconds:>26.2} {limit:>10.2} {off:>12.1e}", path.to_string());
        if path == CodePath::detect() && dimensions == 4096 && count == 128 {
            verdict("120,000 objects, two cores, s", seconds.median, 1.8, seconds.median <= 1.8);
        }
    }
}
