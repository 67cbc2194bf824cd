//! Fits with a factor in f32 beside their twins in f64, and matrices that need each way to the weights.

use super::fitting::{Prior, norm};
use super::refinement::{refine, times};
use super::*;
use crate::chance::Random;
use crate::covariance::{Expression, Points};

/// Samples of a wave over so many dimensions, at random places.
fn samples(seed: u64, count: usize, dimensions: usize) -> (Points, Vec<f64>) {
    let mut random = Random::mixed(seed);
    let (mut points, mut targets) = (Points::new(dimensions), Vec::new());
    for _ in 0..count {
        let point: Vec<f64> = (0..dimensions).map(|_| 4.0 * random.unit()).collect();
        targets.push(point.iter().map(|x| (2.0 * x).sin()).sum::<f64>() + 0.1 * random.normal());
        points.push(&point);
    }
    (points, targets)
}

fn fitted(precision: Precision, text: &str, (points, targets): &(Points, Vec<f64>)) -> Regression {
    let expression = text.parse().unwrap();
    let settings = Settings { expression, noise: 0.0, jitter: Jitter::Auto, normalize: false, precision };
    Regression::fit(points.clone(), targets.clone(), &settings, &mut ThisThread).unwrap()
}

/// The greatest difference of weights, as a part of the greatest weight.
fn apart(a: &Regression, b: &Regression) -> f64 {
    let scale = b.weights.iter().fold(0.0_f64, |scale, w| scale.max(w.abs()));
    a.weights.iter().zip(&b.weights).fold(0.0_f64, |apart, (a, b)| apart.max((a - b).abs())) / scale
}

/// The length of y - K alpha over that which rounding explains.
fn residual(model: &Regression) -> f64 {
    let added = model.noise + model.jitter;
    let prior = Prior { expression: &model.expression, points: &model.points, added };
    let product = times(&prior, &model.weights, &mut ThisThread).unwrap();
    let length = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    let left = length(&mut model.targets.iter().zip(product).map(|(y, p)| y - p));
    let (of_weights, of_targets) =
        (length(&mut model.weights.iter().copied()), length(&mut model.targets.iter().copied()));
    let norm = norm(&prior, &mut ThisThread).unwrap();
    left / ((model.len() as f64).sqrt() * f64::EPSILON * (norm * of_weights + of_targets))
}

#[test]
fn products_with_the_matrix_are_those_of_its_entries() {
    for n in [1, 127, 128, 129, 300] {
        let (points, targets) = samples(3, n, 2);
        let expression: Expression = "rbf(l=0.8) + white(0.05)".parse().unwrap();
        let prior = Prior { expression: &expression, points: &points, added: 0.25 };
        let found = times(&prior, &targets, &mut ThisThread).unwrap();
        let entry = |row: usize, column: usize| {
            let (a, b) = (points.point(row), points.point(column));
            let added = if row == column { 0.25 } else { 0.0 };
            crate::covariance::reference::entry(&expression, &a, &b, row == column) + added
        };
        let mut greatest: f64 = 0.0;
        for (row, found) in found.iter().enumerate() {
            let expected: f64 = (0..n).map(|column| entry(row, column) * targets[column]).sum();
            assert!((found - expected).abs() < 1e-11, "{n}: row {row}");
            greatest = greatest.max((0..n).map(|column| entry(row, column).abs()).sum());
        }
        assert!((norm(&prior, &mut ThisThread).unwrap() - greatest).abs() < 1e-11 * greatest);
    }
}

#[test]
fn weights_by_a_factor_in_f32_are_refined_to_those_of_f64() {
    for text in ["1.5 * rbf(l=0.8) + white(0.05)", "matern32(l=1.2, v=2) + white(0.1)"] {
        for n in [1, 60, 128, 300] {
            let samples = samples(n as u64, n, 2);
            let exact = fitted(Precision::F64, text, &samples);
            let mixed = fitted(Precision::Mixed, text, &samples);
            assert!(matches!(mixed.solved, Solved::Refined(rounds) if rounds <= 5), "{:?}", mixed.solved);
            assert!(
                residual(&mixed) <= 1.0 && apart(&mixed, &exact) < 1e-11,
                "{n}: {}",
                apart(&mixed, &exact)
            );
            let error = (mixed.log_likelihood - exact.log_likelihood).abs();
            assert!(error <= mixed.likelihood_error(), "{n}: {error} of {}", mixed.likelihood_error());
            let single = fitted(Precision::F32, text, &samples);
            assert_eq!((single.solved, single.precision), (Solved::Directly, Precision::F32));
            assert!(apart(&single, &exact) < 1e-3 && (n == 1 || single.weights != exact.weights));
            // Means are those of the weights; deviations are those of the factor.
            let new = self::samples(99, 20, 2).0;
            let of = |model: &Regression| Predictor::new(model, true).predict(&new).unwrap();
            let (of_mixed, of_exact) = (of(&mixed), of(&exact));
            for at in 0..new.len() {
                assert!((of_mixed.means[at] - of_exact.means[at]).abs() < 1e-9);
                assert!((of_mixed.variances[at] - of_exact.variances[at]).abs() < 1e-4);
            }
        }
    }
}

#[test]
fn a_bad_condition_takes_conjugate_gradients_and_a_worse_one_a_factor_in_f64() {
    let samples = samples(5, 300, 1);
    let mut ways = Vec::new();
    for noise in ["1e-3", "1e-5", "3e-6", "1e-6", "3e-7", "1e-7", "1e-9"] {
        let text = format!("rbf(l=0.7) + white({noise} fixed)");
        let (exact, mixed) =
            (fitted(Precision::F64, &text, &samples), fitted(Precision::Mixed, &text, &samples));
        match mixed.solved {
            Solved::Refined(_) | Solved::ByGradients(_) => {
                assert!(residual(&mixed) <= 1.0, "{noise}: {:?}", mixed.solved);
                assert_eq!(mixed.precision, Precision::Mixed);
            }
            _ => {
                assert_eq!((mixed.precision, mixed.likelihood_error()), (Precision::F64, 0.0));
                assert!(mixed.weights == exact.weights && mixed.factor == exact.factor, "{noise}");
            }
        }
        // A condition of 1e9 leaves 7 digits.
        assert!(
            apart(&mixed, &exact) <= 10.0 * exact.condition * f64::EPSILON,
            "{noise}: {:?}",
            mixed.solved
        );
        ways.push(mixed.solved);
    }
    assert!(matches!(ways[0], Solved::Refined(_)), "{ways:?}");
    assert!(ways.iter().any(|way| matches!(way, Solved::ByGradients(_))), "{ways:?}");
    assert_eq!(ways.last(), Some(&Solved::AgainNotPositiveDefinite), "{ways:?}");
}

#[test]
fn what_no_preconditioner_helps_does_not_converge() {
    let samples = samples(5, 400, 1);
    let expression: Expression = "rbf(l=0.3) + white(1e-9 fixed)".parse().unwrap();
    let prior = Prior { expression: &expression, points: &samples.0, added: 0.0 };
    let mut weights = vec![0.0; 400];
    let found = refine(&prior, &|_| {}, (&samples.1, &mut weights), &mut ThisThread).unwrap();
    assert_eq!(found, None);
}

#[test]
fn appended_samples_of_a_mixed_model_are_refined_too() {
    let all = samples(8, 220, 2);
    let text = "1.5 * rbf(l=0.8) + white(0.05)";
    let part = |range: std::ops::Range<usize>| {
        let mut points = Points::new(2);
        range.clone().for_each(|at| points.push(&all.0.point(at)));
        (points, all.1[range].to_vec())
    };
    let (mut model, more) = (fitted(Precision::Mixed, text, &part(0..200)), part(200..220));
    model.append(&more.0, &more.1).unwrap();
    assert!(residual(&model) <= 1.0 && matches!(model.solved, Solved::Refined(_)));
    assert!(apart(&model, &fitted(Precision::F64, text, &all)) < 1e-11);
}

#[test]
fn an_optimiser_in_f32_reaches_the_optimum_or_refuses() {
    let (points, targets) = samples(3, 150, 2);
    let found = |text: &str, precision: Precision| {
        let expression = text.parse().unwrap();
        let settings = Settings { expression, noise: 0.0, jitter: Jitter::None, normalize: false, precision };
        optimise(&points, &targets, &settings, (0, 1), &mut ThisThread)
    };
    let text = "1 * rbf(l=[1, 1]) + white(0.1)";
    let exact = found(text, Precision::F64).unwrap();
    for precision in [Precision::Mixed, Precision::F32] {
        let of_single = found(text, precision).unwrap();
        let apart = (of_single.log_likelihood - exact.log_likelihood).abs();
        assert!(apart < 1e-2, "{precision}: {apart}");
    }
    // From next to the optimum there is little to gain beside the error of the determinant.
    let near: Vec<f64> = exact.expression.parameters().iter().map(|p| p.value * 1.0005).collect();
    let near = exact.expression.with_values(&near).to_string();
    let error = found(&near, Precision::Mixed).unwrap_err();
    assert!(matches!(error, FitError::Imprecise { error, gained } if error > 1e-3 * gained), "{error}");
    assert!(error.to_string().contains("`precision: f64`"), "{error}");
}
