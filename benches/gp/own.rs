//! Our side alone: where its time goes, and how far it is from the algorithm of the source.

use boxwork_kernels::cholesky::{Factorisation, Tasks as _, TiledMatrix, Usual};
use boxwork_kernels::covariance::{Expression, Points, Scratch};
use boxwork_kernels::gaussian_process::{Regression, TILE, ThisThread, likelihood};

use super::support::clock::thread_seconds;
use super::support::{Side, run_rounds};
use super::world::{COVARIANCE, World, settings};

/// Rounds of a measurement of our side alone.
const ROUNDS: usize = 5;
/// Samples up to which rows are appended one by one: n^3 / 3 FLOP, bound by memory.
const APPENDED_MAX: usize = 4096;

/// A factor by tiles, and its seconds.
fn factor(expression: &Expression, points: &Points) -> (TiledMatrix, f64) {
    let matrix = TiledMatrix::zeros(points.len(), TILE);
    let fill = |i: usize, j: usize, tile: &mut [f64]| expression.tile(points, TILE, (i, j), 0.0, tile);
    let seconds = thread_seconds(|| {
        let done = Factorisation::filled(&matrix, Usual::default(), &fill).run_all();
        done.unwrap_or_else(|error| panic!("{error}"));
    });
    (matrix, seconds)
}

/// Prints the shares of a fit and of a likelihood with derivatives.
pub(super) fn shares(n: usize) {
    let (world, settings) = (World::new(n, 1), settings(COVARIANCE));
    let (points, targets, expression) = (world.points(n), world.y.clone(), settings.expression.clone());
    let tiles = n.div_ceil(TILE);
    let mut tile = vec![0.0; TILE * TILE];
    let mut sides = vec![
        Side::new("covariances", || {
            thread_seconds(|| {
                for (i, j) in (0..tiles).flat_map(|i| (0..=i).map(move |j| (i, j))) {
                    expression.tile(&points, TILE, (i, j), 0.0, &mut tile);
                }
            })
        }),
        Side::new("factor", || factor(&expression, &points).1),
        Side::new("fit", || {
            let (points, targets) = (points.clone(), targets.clone());
            thread_seconds(|| _ = Regression::fit(points, targets, &settings, &mut ThisThread).is_ok())
        }),
        Side::new("gradient", || {
            thread_seconds(|| _ = likelihood(&points, &targets, &settings, &mut ThisThread).is_ok())
        }),
    ];
    run_rounds(ROUNDS, &mut sides);
    let median = |side: usize| sides[side].spread().median;
    let (covariances, factored, fit, gradient) = (median(0), median(1), median(2), median(3));
    let print = |name: &str, seconds: f64, of: f64| {
        println!("shares     n = {n:<6} {name:<44} {seconds:.4} s, {:.3}", seconds / of);
    };
    print("fit", fit, fit);
    print("  covariances", covariances, fit);
    print("  factor", factored - covariances, fit);
    print("  allocation, weights, condition, rows of the model", fit - factored, fit);
    print("gradient", gradient, gradient);
    print("  covariances", covariances, gradient);
    print("  factor", factored - covariances, gradient);
    print("  inverse, its products, derivatives", gradient - factored, gradient);
}

/// A factor as the source makes it: a row for each sample, by one triangular solve, bound by memory.
struct Rows {
    /// Row i at i (i + 1) / 2, up to its pivot.
    packed: Vec<f64>,
    count: usize,
}

impl Rows {
    /// Solves L x = k as the source does: rows are divided by their pivots first, then eliminated column by column.
    fn solve(&self, k: &mut [f64]) {
        let mut normalised = self.packed.clone();
        for row in 0..self.count {
            let of_row = &mut normalised[row * (row + 1) / 2..][..row + 1];
            let pivot = of_row[row];
            of_row.iter_mut().for_each(|x| *x /= pivot);
            k[row] /= pivot;
        }
        for column in 0..self.count {
            let x = k[column];
            for row in column + 1..self.count {
                k[row] -= normalised[row * (row + 1) / 2 + column] * x;
            }
        }
    }

    /// Solves it as a row is appended: each row loses its products with those before.
    fn solve_by_rows(&self, k: &mut [f64]) {
        for row in 0..self.count {
            let of_row = &self.packed[row * (row + 1) / 2..][..row + 1];
            let sum: f64 = of_row[..row].iter().zip(&*k).map(|(l, x)| l * x).sum();
            k[row] = (k[row] - sum) / of_row[row];
        }
    }

    /// Appends a sample with its covariances and its own.
    fn append(&mut self, mut k: Vec<f64>, own: f64) {
        self.solve_by_rows(&mut k);
        let squares: f64 = k.iter().map(|x| x * x).sum();
        self.packed.extend(k);
        self.packed.push((own - squares).sqrt());
        self.count += 1;
    }
}

/// Prints the table of the source: one solve of each size, and the factor by rows and by tiles.
pub(super) fn seed(sizes: &[usize]) {
    println!("one triangular solve as the source does it, a factor made row by row, and one made by tiles");
    for &n in sizes {
        let world = World::new(n + 1, 1);
        let (points, expression) = (world.points(n), settings(COVARIANCE).expression);
        let mut rows = Rows { packed: Vec::new(), count: 0 };
        let mut scratch = Scratch::default();
        let mut column = |at: usize| {
            let mut k = vec![0.0; at + 1];
            let of = (&points, 0..at + 1);
            expression.column(of, &points.point(at), Some(at), &mut scratch, &mut k);
            let own = k.pop().expect("a diagonal entry");
            (k, own)
        };
        if n > APPENDED_MAX {
            println!("n = {n:<6} more than {APPENDED_MAX} rows are not appended one by one");
            continue;
        }
        let by_rows = thread_seconds(|| {
            for at in 0..n {
                let (k, own) = column(at);
                rows.append(k, own);
            }
        });
        let (tiled, _) = factor(&expression, &points);
        let pivot = |row: usize| tiled.read(row / TILE, row / TILE)[row % TILE * (TILE + 1)];
        let apart = |row: usize| (pivot(row) - rows.packed[row * (row + 3) / 2]).abs();
        let apart = (0..n).map(apart).fold(0.0, f64::max);
        assert!(apart < 1e-9, "n = {n}: pivots are {apart} apart");
        let mut right: Vec<f64> = world.y[..n].to_vec();
        let mut sides = vec![
            Side::on_this_core("solve", 1, || rows.solve(std::hint::black_box(&mut right))),
            Side::new("tiles", || factor(&expression, &points).1),
        ];
        run_rounds(ROUNDS, &mut sides);
        let (solve, tiles) = (sides[0].spread().median, sides[1].spread().median);
        println!(
            "n = {n:<6} solve {:>10.1} us   factor by rows {by_rows:>9.5} s   by tiles {tiles:>9.5} s   {:.1} x",
            solve * 1e6,
            by_rows / tiles
        );
    }
}
