//! `what=pass` and `what=round`: the pass over sketches on one core.

use boxwork_kernels::CodePath;
use boxwork_kernels::chance::Random;
use boxwork_kernels::gaussian_process::pass::{
    Column, FastPass, Pass, PassMark, TILE, TILE_NUMBERS, at, multiply_adds,
};
use boxwork_kernels::gaussian_process::{Covariance, Form};
use boxwork_kernels::sketch::{COORDINATES, coordinate};

use super::list;
use super::support::{Arguments, Side, Spread, run_rounds, verdict};

/// Marks of a round that are new.
const NEW: usize = 12;
/// Objects whose bounds are compared with f64.
const CHECKED: usize = 2000;

/// Sketches of random objects with norms of about 1/2.
pub(super) fn tiles(objects: usize) -> Vec<u16> {
    let mut random = Random::mixed(2);
    (0..objects.div_ceil(TILE) * TILE_NUMBERS)
        .map(|_| (random.bits() as u16 & 0x8000) | (0x2000 + random.below(0x0e00) as u16))
        .collect()
}

pub(super) fn marks(tiles: &[u16], count: usize) -> Vec<PassMark> {
    let objects = tiles.len() / COORDINATES;
    let weight = |mark: usize| (mark % 7) as f64 / 5.0 - 0.5;
    (0..count)
        .map(|mark| PassMark { sketch: at(tiles, mark * 97 % objects), weight: weight(mark), noise: 0.1 })
        .collect()
}

pub(super) fn kernel() -> Covariance {
    Covariance::new(Form::InverseMultiquadric, 0.4)
}

pub(super) fn norm_max(tiles: &[u16]) -> f64 {
    let squares = tiles.chunks_exact(TILE_NUMBERS).flat_map(|tile| {
        let mut squares = [0.0; TILE];
        for line in tile.chunks_exact(TILE) {
            squares.iter_mut().zip(line).for_each(|(sum, x)| *sum += f64::from(coordinate(*x)).powi(2));
        }
        squares
    });
    squares.fold(0.0, f64::max).sqrt()
}

/// Compares bounds with those in f64.
pub(super) fn check(pass: &Pass, tiles: &[u16], uppers: &[f32], error: f64) -> f64 {
    let step = (uppers.len() / CHECKED).max(1);
    let off = (0..uppers.len())
        .step_by(step)
        .map(|object| (f64::from(uppers[object]) - pass.upper(&at(tiles, object)).upper).abs());
    let off = off.fold(0.0, f64::max);
    assert!(off <= error, "a bound is off by {off:e}, and its pass declares {error:e}");
    off
}

/// Multiply-adds of a core in a second.
fn peak<'a>(path: CodePath) -> Side<'a> {
    let (count, _) = multiply_adds(path, 100_000);
    Side::on_this_core(format!("{path} multiply-adds"), count as usize, move || {
        std::hint::black_box(multiply_adds(path, 100_000));
    })
}

pub(super) fn pass(arguments: &Arguments) {
    let (objects, rounds) = (arguments.get("objects", 100_000usize), arguments.get("rounds", 9));
    println!("question    how long does a core take to bound every object by its sketch?");
    println!("unit        ms for 1e6 objects on one core, by processor time; {objects} objects");
    println!("limit       the multiply-adds that the core does in registers, in the same rounds");
    let tiles = tiles(objects);
    let norm_max = norm_max(&tiles);
    println!(
        "{:>8} {:>10} {:>26} {:>10} {:>18} {:>12}",
        "marks", "path", "ms per 1e6", "limit", "of the limit", "error"
    );
    for path in CodePath::available() {
        for count in list(arguments, "marks", "12,60,200") {
            let pass = Pass::new(kernel(), 0.25, &marks(&tiles, count));
            let fast = FastPass::new(&pass, path);
            let mut uppers = vec![0.0; tiles.len() / COORDINATES];
            let mut means = uppers.clone();
            fast.uppers(&tiles, &mut means, &mut uppers);
            let off = check(&pass, &tiles, &uppers, pass.error(norm_max));
            let units = uppers.len();
            let side = Side::on_this_core("pass", units, || {
                fast.uppers(&tiles, &mut means, &mut uppers);
            });
            let mut sides = [side, peak(path)];
            run_rounds(rounds, &mut sides);
            let [pass, peak] = &sides;
            let work = (count * COORDINATES) as f64;
            let share =
                Spread::of(pass.seconds.iter().zip(&peak.seconds).map(|(pass, one)| one * work / pass));
            let ms = Spread::of(pass.seconds.iter().map(|seconds| 1e9 * seconds));
            let limit = 1e9 * work * peak.spread().median;
            println!(
                "{count:>8} {:>10} {ms:>26.1} {limit:>10.1} {share:>18.2} {off:>12.1e}",
                path.to_string()
            );
            if count == 60 && path == CodePath::detect() {
                verdict(
                    "1e6 objects, 60 marks, two cores, ms",
                    ms.median / 2.0,
                    75.0,
                    ms.median / 2.0 <= 75.0,
                );
                verdict("share of the multiply-adds", share.median, 0.5, share.median >= 0.5);
            }
        }
    }
}

pub(super) fn round(arguments: &Arguments) {
    let (objects, rounds) = (arguments.get("objects", 100_000usize), arguments.get("rounds", 9));
    println!("question    how long does a round take that keeps the columns of the marks before it?");
    println!("unit        ms for 1e6 objects on one core; {objects} objects, {NEW} new marks");
    let (tiles, path) = (tiles(objects), CodePath::detect());
    let padded = tiles.len() / COORDINATES;
    println!("{:>8} {:>24} {:>24} {:>24}", "marks", "all anew", "kept, with the new", "times as fast");
    for count in list(arguments, "marks", "60,200") {
        let marks = marks(&tiles, count);
        let pass = Pass::new(kernel(), 0.25, &marks);
        let (fast, new) = (FastPass::new(&pass, path), Pass::new(kernel(), 0.25, &marks[count - NEW..]));
        let new = FastPass::new(&new, path);
        let mut kept = vec![vec![0u16; padded]; count];
        let mut slices: Vec<&mut [u16]> = kept.iter_mut().map(Vec::as_mut_slice).collect();
        fast.columns(&tiles, &mut slices);
        let fold = |kept: &[Vec<u16>], means: &mut [f32], out: &mut [f32]| {
            let columns: Vec<Column<'_>> = kept
                .iter()
                .zip(&marks)
                .map(|(covariances, mark)| Column { covariances, weight: mark.weight, noise: mark.noise })
                .collect();
            FastPass::fold(path, &columns, 0.25, means, out);
        };
        let (mut uppers, mut anew) = (vec![0.0; padded], vec![0.0; padded]);
        let (mut means, mut means_anew) = (uppers.clone(), anew.clone());
        fold(&kept, &mut means, &mut uppers);
        check(&pass, &tiles, &uppers, pass.error_of_columns(norm_max(&tiles)));
        let mut sides = [
            Side::on_this_core("anew", padded, || {
                fast.uppers(&tiles, &mut means_anew, &mut anew);
            }),
            Side::on_this_core("kept", padded, || {
                let mut slices: Vec<&mut [u16]> =
                    kept[count - NEW..].iter_mut().map(Vec::as_mut_slice).collect();
                new.columns(&tiles, &mut slices);
                fold(&kept, &mut means, &mut uppers);
            }),
        ];
        run_rounds(rounds, &mut sides);
        let [all, some] = [0, 1].map(|side| Spread::of(sides[side].seconds.iter().map(|s| 1e9 * s)));
        let faster = sides[1].faster_than(&sides[0]);
        println!("{count:>8} {all:>24.1} {some:>24.1} {faster:>24.2}");
    }
}
