//! Regression against the formulas, in plain loops, and the optimiser against known optima.

use proptest::prelude::*;

use super::*;
use crate::chance::Random;
use crate::cholesky::{Factorisation, Plain, Tasks, TiledMatrix, reference};
use crate::covariance::{Expression, Points, reference::entry};

fn samples(seed: u64, count: usize, dimensions: usize) -> (Points, Vec<f64>) {
    let mut random = Random::mixed(seed);
    let mut points = Points::new(dimensions);
    let mut targets = Vec::new();
    for _ in 0..count {
        let point: Vec<f64> = (0..dimensions).map(|_| 4.0 * random.unit()).collect();
        let wave: f64 = point.iter().enumerate().map(|(d, x)| (x * (1.0 + d as f64)).sin()).sum();
        points.push(&point);
        targets.push(3.0 + wave + 0.1 * random.normal());
    }
    (points, targets)
}

fn settings(text: &str) -> Settings {
    Settings {
        expression: text.parse().unwrap(),
        noise: 0.0,
        jitter: Jitter::None,
        normalize: false,
        precision: Precision::F64,
    }
}

/// The likelihood, and the mean and variance of points, by the plainest loops.
fn plain(settings: &Settings, points: &Points, targets: &[f64], at: &Points) -> (f64, Vec<f64>, Vec<f64>) {
    let (n, expression) = (points.len(), &settings.expression);
    let (shift, scale) = regression::scaling(targets, settings.normalize).unwrap();
    let y: Vec<f64> = targets.iter().map(|y| (y - shift) / scale).collect();
    let mut matrix = vec![0.0; n * n];
    for row in 0..n {
        for column in 0..n {
            let same = row == column;
            matrix[column * n + row] = entry(expression, &points.point(row), &points.point(column), same)
                + if same { settings.noise } else { 0.0 };
        }
    }
    let lower = reference::factor(n, &matrix).unwrap();
    let forward = |b: &[f64]| {
        let mut x = b.to_vec();
        for row in 0..n {
            for before in 0..row {
                x[row] -= lower[before * n + row] * x[before];
            }
            x[row] /= lower[row * n + row];
        }
        x
    };
    let z = forward(&y);
    let mut alpha = z.clone();
    for row in (0..n).rev() {
        for after in row + 1..n {
            alpha[row] -= lower[row * n + after] * alpha[after];
        }
        alpha[row] /= lower[row * n + row];
    }
    let logs: f64 = (0..n).map(|row| lower[row * n + row].ln()).sum();
    let fitted: f64 = z.iter().map(|z| z * z).sum();
    let likelihood = -0.5 * fitted - logs - 0.5 * n as f64 * (2.0 * std::f64::consts::PI).ln();
    let (mut means, mut variances) = (Vec::new(), Vec::new());
    for point in 0..at.len() {
        let point = at.point(point);
        let k: Vec<f64> = (0..n).map(|row| entry(expression, &points.point(row), &point, false)).collect();
        let v = forward(&k);
        means.push(shift + scale * k.iter().zip(&alpha).map(|(k, a)| k * a).sum::<f64>());
        let left = entry(expression, &point, &point, false) - v.iter().map(|v| v * v).sum::<f64>();
        variances.push(scale * scale * left);
    }
    (likelihood, means, variances)
}

const TEXTS: [&str; 4] = [
    "1.5 * rbf(l=0.8) + white(0.05)",
    "matern52(l=1.2, v=2) + 0.5 * linear(0.1) + white(0.1)",
    "rational_quadratic(l=0.9, c=0.7) * periodic(p=5, l=2) + white(0.02)",
    "2 * matern32(0.7) + constant(0.3) + white(0.2)",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_fit_is_that_of_the_formulas(
        seed in 0..1000u64, count in prop_oneof![1..40usize, Just(127), Just(128), Just(129), Just(300)],
        dimensions in 1..4usize, which in 0..TEXTS.len(), normalize: bool
    ) {
        let (points, targets) = samples(seed, count, dimensions);
        let settings = Settings { normalize, noise: 0.01, ..settings(TEXTS[which]) };
        let model = Regression::fit(points.clone(), targets.clone(), &settings, &mut ThisThread).unwrap();
        let (at, _) = samples(seed + 1, 17, dimensions);
        let (likelihood, means, variances) = plain(&settings, &points, &targets, &at);
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * (1.0 + b.abs());
        prop_assert!(near(model.log_likelihood, likelihood), "{} {likelihood}", model.log_likelihood);
        let predicted = Predictor::new(&model, true).predict(&at).unwrap();
        for at in 0..17 {
            prop_assert!(near(predicted.means[at], means[at]), "{} {}", predicted.means[at], means[at]);
            prop_assert!(near(predicted.variances[at], variances[at]));
        }
        let means_alone = Predictor::new(&model, false).predict(&at).unwrap();
        prop_assert_eq!(means_alone.means, predicted.means);
    }

    #[test]
    fn appended_samples_have_the_fit_of_all(seed in 0..1000u64, first in 1..150usize, more in 1..20usize) {
        let (points, targets) = samples(seed, first + more, 2);
        let settings = settings(TEXTS[0]);
        let whole = Regression::fit(points.clone(), targets.clone(), &settings, &mut ThisThread).unwrap();
        let part = |range: std::ops::Range<usize>| {
            let mut part = Points::new(2);
            range.for_each(|at| part.push(&points.point(at)));
            part
        };
        let mut model = Regression::fit(part(0..first), targets[..first].to_vec(), &settings, &mut ThisThread).unwrap();
        model.append(&part(first..first + more), &targets[first..]).unwrap();
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-10 * (1.0 + b.abs());
        for row in 0..whole.len() {
            prop_assert!(model.factor.row(row).iter().zip(whole.factor.row(row)).all(near));
        }
        prop_assert!(model.weights.iter().zip(&whole.weights).all(|(a, b)| (a - b).abs() <= 1e-8 * (1.0 + b.abs())));
        prop_assert!(near((&model.log_likelihood, &whole.log_likelihood)));
    }

    #[test]
    fn plain_tiles_have_the_bits_of_rows(seed in 0..1000u64, count in 1..300usize) {
        // Both subtract in the order of the columns.
        let (points, _) = samples(seed, count, 2);
        let expression: Expression = TEXTS[0].parse().unwrap();
        let of = |row: usize, column: usize| entry(&expression, &points.point(row), &points.point(column), row == column);
        let tiled = TiledMatrix::new(count, 64, of);
        Factorisation::new(&tiled, Plain).run_all().unwrap();
        let rows: Vec<Vec<f64>> = (0..count).map(|row| (0..=row).map(|column| of(row, column)).collect()).collect();
        let mut factor = Cholesky::default();
        factor.extend(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let lower = tiled.lower();
        for row in 0..count {
            prop_assert!((0..=row).all(|column| lower[column * count + row] == factor.row(row)[column]));
        }
    }

    #[test]
    fn the_gradient_is_that_of_differences(seed in 0..1000u64, count in prop_oneof![2..30usize, Just(140)], which in 0..TEXTS.len()) {
        let (points, targets) = samples(seed, count, 2);
        let expression: Expression = TEXTS[which].parse().unwrap();
        let prior = fitting::Prior { expression: &expression, points: &points, added: 0.01 };
        let fit = prior.likelihood::<f64>(&targets, &mut ThisThread).unwrap();
        let gradient = prior.gradient(&fit, &mut ThisThread).unwrap();
        let values: Vec<f64> = expression.parameters().iter().map(|p| p.value).collect();
        for (at, found) in gradient.iter().enumerate() {
            let value = |step: f64| {
                let mut values = values.clone();
                values[at] *= f64::exp(step);
                let other = expression.with_values(&values);
                fitting::Prior { expression: &other, ..prior }.likelihood::<f64>(&targets, &mut ThisThread).unwrap().log_likelihood
            };
            let step = 1e-3;
            let expected = (8.0 * (value(step) - value(-step)) - (value(2.0 * step) - value(-2.0 * step))) / (12.0 * step);
            prop_assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{at}: {found} {expected}");
        }
    }
}

#[test]
fn the_condition_is_near_its_value() {
    // A diagonal matrix has the ratio of its entries: points far apart, of which one has more variance.
    let mut points = Points::new(1);
    (0..200).for_each(|at| points.push(&[100.0 * f64::from(at)]));
    let model = |text: &str| {
        Regression::fit(points.clone(), vec![1.0; 200], &settings(text), &mut ThisThread).unwrap()
    };
    assert!((model("rbf()").condition - 1.0).abs() < 1e-12);
    // x x' + 1: the greatest sum of a column over the least eigenvalue, which is 1.
    let expected = 1.0 + 19_900.0 * (199.0 * 200.0 / 2.0) * 100.0;
    let found = model("linear(1) + white(1)").condition;
    assert!(found <= 2.1 * expected && found >= expected / 3.0, "{found} {expected}");
}

#[test]
fn duplicates_without_noise_are_named_and_a_jitter_helps() {
    let (mut points, mut targets) = samples(1, 40, 2);
    points.push(&points.point(7));
    targets.push(targets[7]);
    let settings = settings("rbf()");
    let error = Regression::fit(points.clone(), targets.clone(), &settings, &mut ThisThread).unwrap_err();
    assert_eq!(error, FitError::NotPositiveDefinite { row: 40, nearest: Some(7), jitter: 0.0 });
    let auto = Settings { jitter: Jitter::Auto, ..settings.clone() };
    let model = Regression::fit(points.clone(), targets.clone(), &auto, &mut ThisThread).unwrap();
    assert!(model.jitter > 0.0 && model.jitter <= 1e-4 && model.condition > 1e6, "{}", model.jitter);
    assert_eq!(model.closest(&mut ThisThread), Some((7, 40)));
    let none = Settings { jitter: Jitter::Number(1e-300), ..settings };
    assert!(Regression::fit(points, targets, &none, &mut ThisThread).is_err());
}

#[test]
fn a_sample_that_cannot_be_appended_leaves_the_model() {
    let (points, targets) = samples(1, 20, 1);
    let model = Regression::fit(points, targets, &settings("rbf()"), &mut ThisThread);
    let mut model = model.or_else(|_| {
        let (points, targets) = samples(1, 5, 1);
        Regression::fit(points, targets, &settings("matern12()"), &mut ThisThread)
    });
    let model = model.as_mut().unwrap();
    let before = model.clone();
    let again = Points::of_rows(1, &model.points.point(2));
    let error = model.append(&again, &[1.0]).unwrap_err();
    assert!(matches!(error, FitError::NotPositiveDefinite { nearest: Some(2), .. }), "{error}");
    assert_eq!(*model, before);
}

#[test]
fn targets_without_deviation_are_not_normalised() {
    let (points, _) = samples(1, 3, 1);
    let settings = Settings { normalize: true, ..settings(TEXTS[0]) };
    let fit =
        |targets: [f64; 3]| Regression::fit(points.clone(), targets.to_vec(), &settings, &mut ThisThread);
    assert_eq!(fit([2.5; 3]).unwrap_err(), FitError::Constant(2.5));
    assert_eq!(fit([1.0, 2.0, 3.0]).unwrap().scaling, (2.0, (2.0f64 / 3.0).sqrt()));
    let one = Regression::fit(Points::of_rows(1, &[1.0]), vec![7.0], &settings, &mut ThisThread).unwrap();
    assert_eq!(one.scaling, (7.0, 1.0));
    let none = Regression::fit(Points::new(1), Vec::new(), &settings, &mut ThisThread);
    assert_eq!(none.unwrap_err(), FitError::Empty);
}

#[test]
fn the_optimiser_finds_where_the_gradient_vanishes() {
    let (points, targets) = samples(3, 60, 2);
    let settings = Settings { normalize: true, ..settings("1 * rbf(l=[1, 1]) + white(0.1)") };
    let found = optimise(&points, &targets, &settings, (0, 1), &mut ThisThread).unwrap();
    assert!(found.converged && found.at_bounds.is_empty(), "{found:?}");
    let start = Regression::fit(points.clone(), targets.clone(), &settings, &mut ThisThread).unwrap();
    let end = Settings { expression: found.expression.clone(), ..settings.clone() };
    let end = Regression::fit(points.clone(), targets.clone(), &end, &mut ThisThread).unwrap();
    assert!(end.log_likelihood > start.log_likelihood + 1.0);
    assert!((end.log_likelihood - found.log_likelihood).abs() < 1e-9);
    // Random starts find nothing worse, and the same for the same seed.
    let more = optimise(&points, &targets, &settings, (3, 1), &mut ThisThread).unwrap();
    assert!(more.log_likelihood >= found.log_likelihood && more.evaluations > found.evaluations);
    assert_eq!(more, optimise(&points, &targets, &settings, (3, 1), &mut ThisThread).unwrap());
}

#[test]
fn a_parameter_ends_at_its_bound_and_a_fixed_one_stays() {
    let (points, targets) = samples(3, 50, 1);
    let text = "4 fixed * rbf(l=0.1 in 0.05..0.2) + white(0.1 in 0.05..0.5)";
    let settings = settings(text);
    let found = optimise(&points, &targets, &settings, (0, 1), &mut ThisThread).unwrap();
    let parameters = found.expression.parameters();
    assert!(found.converged, "{found:?}");
    assert_eq!((parameters[0].value, parameters[1].value), (4.0, 0.2), "{found:?}");
    assert!(found.at_bounds.contains(&1));
    let all_fixed = Settings { expression: "rbf(l=1 fixed) + white(0.1 fixed)".parse().unwrap(), ..settings };
    let found = optimise(&points, &targets, &all_fixed, (2, 1), &mut ThisThread).unwrap();
    assert_eq!((found.expression, found.converged), (all_fixed.expression, true));
}

#[test]
fn the_factor_of_feedback_is_the_factor_of_regression() {
    // Marks over l2 with a Gaussian are samples under rbf: one Cholesky, the same numbers.
    let (points, targets) = samples(5, 30, 2);
    let covariance = Covariance::new(Form::Gaussian, 1.3);
    let settings = Settings { noise: MARK_NOISE, ..settings("rbf(1.3)") };
    let model = Regression::fit(points.clone(), targets.clone(), &settings, &mut ThisThread).unwrap();
    let mut marks = Model::new();
    for (row, target) in targets.iter().enumerate() {
        let to = |other: usize| {
            let (a, b) = (points.point(row), points.point(other));
            covariance.of(((a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2)).sqrt())
        };
        marks.push(&(0..row).map(to).collect::<Vec<_>>(), *target, MARK_NOISE);
    }
    for row in 0..30 {
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
        assert!(model.factor.row(row).iter().zip(marks.factor_row(row)).all(near));
    }
}

/// Threads that cancel after some pieces and tasks.
struct Cancels(usize);

impl Threads for Cancels {
    fn factorise(&mut self, work: &dyn Tasks) -> Result<(), Stopped> {
        for task in 0..work.steps().count() {
            self.0 = self.0.checked_sub(1).ok_or(Stopped::Interrupted)?;
            work.run(task).map_err(|fault| Stopped::NotPositiveDefinite { row: fault.row })?;
        }
        Ok(())
    }

    fn pieces(&mut self, count: usize, f: &(dyn Fn(usize) + Sync)) -> bool {
        (0..count).all(|piece| {
            let left = self.0.checked_sub(1);
            self.0 = left.unwrap_or(0);
            f(piece);
            left.is_some()
        })
    }
}

#[test]
fn a_fit_that_is_cancelled_anywhere_ends() {
    let (points, targets) = samples(2, 300, 2);
    for precision in Precision::ALL {
        let settings = Settings { precision, ..settings(TEXTS[0]) };
        let fit =
            |after: usize| Regression::fit(points.clone(), targets.clone(), &settings, &mut Cancels(after));
        let steps = (0..).find(|after| fit(*after).is_ok()).unwrap();
        assert!(steps > 10, "{precision}: {steps}");
        for after in 0..steps {
            assert_eq!(fit(after).unwrap_err(), FitError::Interrupted, "{precision}: {after}");
        }
        let found = optimise(&points, &targets, &settings, (0, 1), &mut Cancels(steps + 20));
        assert_eq!(found.unwrap_err(), FitError::Interrupted);
    }
}

#[test]
fn an_appended_sample_may_spoil_the_condition() {
    let mut points = Points::new(1);
    (0..200).for_each(|at| points.push(&[f64::from(at)]));
    let settings = settings("matern12()");
    let mut model = Regression::fit(points.clone(), vec![1.0; 200], &settings, &mut ThisThread).unwrap();
    assert!(model.condition < 10.0);
    model.append(&Points::of_rows(1, &[200.0]), &[1.0]).unwrap();
    assert!(model.condition < 10.0, "{}", model.condition);
    // Nearly a duplicate: the least eigenvalue is about the distance.
    model.append(&Points::of_rows(1, &[17.0 + 1e-13]), &[1.0]).unwrap();
    assert!(model.condition > CONDITION_MAX, "{}", model.condition);
    points.push(&[200.0]);
    points.push(&[17.0 + 1e-13]);
    let whole = Regression::fit(points, vec![1.0; 202], &settings, &mut ThisThread).unwrap();
    assert!((model.condition / whole.condition - 1.0).abs() < 0.2, "{} {}", model.condition, whole.condition);
}
