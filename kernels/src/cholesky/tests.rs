//! The factor by tiles: against the reference, in random orders of the tasks, and of matrices that have none.

use std::collections::HashSet;

use super::*;
use crate::chance::Random;

const SIZES: [usize; 7] = [1, 2, 63, 64, 65, 200, 500];
const TILES: [usize; 3] = [16, 32, 64];

/// A positive definite matrix: a kernel of random places on a line, and a little on the diagonal.
fn entries(n: usize) -> impl Fn(usize, usize) -> f64 {
    let mut chance = Random::mixed(n as u64);
    let places: Vec<f64> = (0..n).map(|_| chance.unit() * 10.0).collect();
    move |row, column| {
        let apart = places[row] - places[column];
        (-0.5 * apart * apart).exp() + if row == column { 0.01 } else { 0.0 }
    }
}

fn dense(n: usize, entry: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    (0..n * n).map(|at| entry((at % n).max(at / n), (at % n).min(at / n))).collect()
}

/// The greatest difference of L L^T and the matrix, as a part of 2 n 2^-52 times the norm of the matrix.
fn error(n: usize, lower: &[f64], matrix: &[f64]) -> f64 {
    let mut greatest: f64 = 0.0;
    for row in 0..n {
        for column in 0..=row {
            let product: f64 = (0..=column).map(|p| lower[p * n + row] * lower[p * n + column]).sum();
            greatest = greatest.max((product - matrix[column * n + row]).abs());
        }
    }
    let norm = matrix.iter().fold(0.0_f64, |norm, x| norm.max(x.abs()));
    greatest / (2.0 * n as f64 * f64::EPSILON * norm)
}

/// Runs the tasks in a random order that the dependences allow.
fn run_in_random_order<K: TileKernels>(
    factorisation: &Factorisation<'_, K>,
    seed: u64,
) -> Result<(), NotPositiveDefinite> {
    let (steps, mut chance) = (factorisation.steps(), Random::mixed(seed));
    let mut left: Vec<u32> = (0..steps.count()).map(|task| steps.predecessors(task)).collect();
    let mut ready: Vec<usize> = (0..left.len()).filter(|task| left[*task] == 0).collect();
    let mut ran = 0;
    while !ready.is_empty() {
        let task = ready.swap_remove(chance.idx(ready.len()));
        factorisation.run(task)?;
        ran += 1;
        steps.successors(task, |next| {
            left[next] -= 1;
            if left[next] == 0 {
                ready.push(next);
            }
        });
    }
    assert_eq!(ran, steps.count(), "tasks never became ready");
    Ok(())
}

fn check<K: TileKernels + Copy>(kernels: K) {
    for n in SIZES {
        let (entry, matrix) = (entries(n), dense(n, entries(n)));
        let expected = reference::factor(n, &matrix).unwrap();
        assert!(error(n, &expected, &matrix) <= 1.0, "the reference, {n}");
        for size in TILES {
            let tiled = TiledMatrix::new(n, size, &entry);
            Factorisation::new(&tiled, kernels).run_all().unwrap();
            let lower = tiled.lower();
            let error = error(n, &lower, &matrix);
            assert!(error <= 1.0, "{n} rows in tiles of {size}: {error}");
            let apart = lower.iter().zip(&expected).fold(0.0_f64, |apart, (a, b)| apart.max((a - b).abs()));
            assert!(apart < 1e-9, "{n} rows in tiles of {size}: {apart} from the reference");
            for seed in 0..3 {
                let again = TiledMatrix::new(n, size, &entry);
                run_in_random_order(&Factorisation::new(&again, kernels), seed).unwrap();
                assert_eq!(again.lower(), lower, "the order of the tasks changed the bits");
            }
        }
    }
}

fn check_failures<K: TileKernels + Copy>(kernels: K) {
    let n = 100;
    for bad in [-0.5, f64::NAN, f64::INFINITY, 0.0] {
        for at in [0, 1, 31, 32, 70, 99] {
            let good = entries(n);
            let entry = |row, column| if (row, column) == (at, at) { bad } else { good(row, column) };
            for size in TILES {
                let tiled = TiledMatrix::new(n, size, entry);
                let failed = Factorisation::new(&tiled, kernels).run_all();
                assert_eq!(failed, Err(NotPositiveDefinite { row: at }), "{bad} at {at}, tiles of {size}");
            }
            assert_eq!(reference::factor(n, &dense(n, entry)), Err(NotPositiveDefinite { row: at }));
        }
    }
}

#[test]
fn the_factor_is_that_of_the_reference_in_any_order_of_the_tasks() {
    check(Plain);
    check(Blocked);
}

#[test]
fn a_matrix_that_is_not_positive_definite_is_an_error_with_its_row() {
    check_failures(Plain);
    check_failures(Blocked);
    let said = NotPositiveDefinite { row: 17 }.to_string();
    assert!(said.starts_with("row 17 of the matrix"), "{said}");
}

#[cfg(feature = "faer")]
#[test]
fn faer_gives_the_factor_and_the_errors_of_the_reference() {
    check(Faer);
    check_failures(Faer);
}

#[test]
fn a_matrix_of_no_rows_has_no_tasks() {
    let tiled = TiledMatrix::<f64>::new(0, 16, |_, _| unreachable!("it has no entry"));
    let factorisation = Factorisation::new(&tiled, Plain);
    assert_eq!(factorisation.steps().count(), 0);
    factorisation.run_all().unwrap();
}

#[test]
fn tasks_are_numbered_without_gaps_and_agree_on_their_order() {
    for rows in 1..=12 {
        let steps = Steps::new(rows);
        assert_eq!(steps.count(), rows * (rows + 1) * (rows + 2) / 6);
        let all: Vec<Step> = (0..steps.count()).map(|task| steps.step(task)).collect();
        assert_eq!(all.iter().map(|step| format!("{step:?}")).collect::<HashSet<_>>().len(), all.len());
        let mut named = vec![0; steps.count()];
        for task in (0..steps.count()).rev() {
            steps.successors(task, |next| {
                assert!(next > task, "{:?} before {:?}", all[task], all[next]);
                named[next] += 1;
            });
        }
        for task in 0..steps.count() {
            assert_eq!(named[task], steps.predecessors(task), "{:?}", all[task]);
        }
        let work: u64 = (0..steps.count()).map(|task| steps.work(task)).sum();
        assert_eq!(work, steps.work_of_all());
    }
    assert_eq!(Steps::new(128).count(), 357_760);
}

#[test]
fn products_come_step_by_step_and_columns_before_those_of_the_step_before() {
    let steps = Steps::new(9);
    let place = |step: Step| match step {
        Step::Factor { k } | Step::Solve { k, .. } => (k, true),
        Step::Square { k, .. } | Step::Product { k, .. } => (k, false),
    };
    for (a, b) in (0..steps.count()).flat_map(|a| (0..steps.count()).map(move |b| (a, b))) {
        let ((of_a, a_is_column), (of_b, b_is_column)) = (place(steps.step(a)), place(steps.step(b)));
        let is_before = match (a_is_column, b_is_column) {
            (true, false) => of_a <= of_b + 1,
            (false, true) => of_a + 1 < of_b,
            _ => of_a < of_b,
        };
        assert_eq!(
            steps.priority(a) > steps.priority(b),
            is_before,
            "{:?} {:?}",
            steps.step(a),
            steps.step(b)
        );
    }
}

/// Numbers of a seed, by columns.
fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut chance = Random::mixed(seed);
    (0..count).map(|_| chance.unit() - 0.5).collect()
}

/// The operations on tiles of other numbers of rows, against their definitions.
fn check_rows<T: Number, K: TileKernels<T>>(kernels: &K) {
    for (size, rows) in [(1, 1), (5, 3), (16, 16), (33, 7), (33, 32), (64, 65), (128, 200), (40, 0)] {
        let of = |numbers: Vec<f64>| numbers.into_iter().map(T::of).collect::<Vec<T>>();
        let mut triangle = of(numbers(1, size * size));
        (0..size).for_each(|row| triangle[row * size + row] = T::of(4.0) + triangle[row * size + row]);
        let (mut left, right) = (of(numbers(2, size * rows)), of(numbers(3, size * size)));
        // Zeros at the start of rows, as a triangle has them.
        (0..rows.min(size / 2)).for_each(|term| left[term * rows..][..rows - rows / 3].fill(T::ZERO));
        let mut solved = left.clone();
        kernels.solve(&triangle, &mut solved, size);
        let before = of(numbers(4, size * rows));
        let mut less = before.clone();
        kernels.product(&left, &right, &mut less, size);
        let near = |a: f64, b: f64| (a - b).abs() < 100.0 * size as f64 * T::EPSILON;
        for (column, row) in (0..size).flat_map(|column| (0..rows).map(move |row| (column, row))) {
            let product = |x: &[T], y: &[T], terms: usize| {
                let term = |p: usize| x[p * rows + row].wide() * y[p * size + column].wide();
                (0..terms).map(term).sum::<f64>()
            };
            let at = column * rows + row;
            let again = product(&solved, &triangle, column + 1);
            assert!(near(again, left[at].wide()), "{size} columns, {rows} rows: row {row}");
            let difference = before[at].wide() - product(&left, &right, size);
            assert!(near(difference, less[at].wide()), "{size} columns, {rows} rows: row {row}");
        }
        let mut squared = of(numbers(5, size * size));
        let (before, mut expected) = (squared.clone(), squared.clone());
        kernels.square(&right, &mut squared, size);
        kernels.product(&right, &right, &mut expected, size);
        for (column, row) in (0..size).flat_map(|column| (column..size).map(move |row| (column, row))) {
            let at = column * size + row;
            assert!(near(squared[at].wide(), expected[at].wide()) && before[at] != squared[at]);
        }
    }
}

#[test]
fn operations_on_tiles_of_any_rows_are_those_of_their_definitions() {
    check_rows::<f64, _>(&Plain);
    check_rows::<f32, _>(&Plain);
    check_rows::<f64, _>(&Blocked);
    check_rows::<f32, _>(&Blocked);
    check_rows::<f64, _>(&Usual::default());
}

#[test]
fn a_matrix_that_its_tasks_fill_has_the_factor_of_one_that_was_filled_before() {
    for (n, size) in [(1, 16), (63, 16), (64, 16), (65, 32), (200, 64)] {
        let entry = entries(n);
        let before = TiledMatrix::new(n, size, &entry);
        Factorisation::new(&before, Plain).run_all().unwrap();
        let filled = TiledMatrix::zeros(n, size);
        let fill = |i: usize, j: usize, tile: &mut [f64]| {
            for (at, value) in tile.iter_mut().enumerate() {
                let (row, column) = (i * size + at % size, j * size + at / size);
                if column <= row && row < n {
                    *value = entry(row, column);
                }
            }
        };
        run_in_random_order(&Factorisation::filled(&filled, Plain, &fill), 5).unwrap();
        assert!(filled.lower() == before.lower(), "{n} rows in tiles of {size}");
    }
}
