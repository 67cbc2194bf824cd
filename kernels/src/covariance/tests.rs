//! Covariances against their formulas, derivatives against differences, and texts.

use proptest::prelude::*;

use super::*;
use crate::chance::Random;

/// Expressions of every form, for points of `dimensions` numbers.
fn texts(dimensions: usize) -> Vec<String> {
    let list = |name: &str| {
        let numbers: Vec<String> = (0..dimensions).map(|d| format!("{:?}", 0.4 + 0.3 * d as f64)).collect();
        format!("{name}=[{}]", numbers.join(", "))
    };
    let (l, p) = (list("l"), list("p"));
    let ard = ["rbf", "matern12", "matern32", "matern52"].map(|name| format!("{name}({l}, v=1.7)"));
    let mut texts: Vec<String> = ard.to_vec();
    texts.extend(["rbf", "matern12", "matern32", "matern52"].map(|name| format!("{name}(0.7)")));
    texts.extend([
        format!("rational_quadratic({l}, c=0.6)"),
        "rational_quadratic(l=0.9, c=3, v=2)".to_owned(),
        format!("periodic({p}, {l})"),
        "periodic(p=1.3, l=0.8, v=0.5)".to_owned(),
        "linear(0.3)".to_owned(),
        "2.5".to_owned(),
        "white(0.2)".to_owned(),
        format!("1.5 * rbf({l}) + periodic(p=0.7) * matern32() + white(0.1)"),
        "(constant(2) + linear(0.1)) * (rbf(0.5) + 0.3 * (matern52() + white(0.01)))".to_owned(),
    ]);
    texts
}

fn points(seed: u64, count: usize, dimensions: usize) -> Points {
    let mut random = Random::mixed(seed);
    let mut points = Points::new(dimensions);
    for nth in 0..count {
        let again = nth > 0 && random.below(5) == 0;
        let point = match again {
            true => points.point(random.idx(nth)),
            false => (0..dimensions).map(|_| 4.0 * random.unit() - 2.0).collect(),
        };
        points.push(&point);
    }
    points
}

#[test]
fn a_text_is_written_as_it_is_read() {
    for dimensions in [1, 2, 3] {
        for text in texts(dimensions) {
            let read: Expression = text.parse().unwrap();
            let again: Expression = read.to_string().parse().unwrap();
            assert_eq!(read, again, "{text} became {read}");
        }
    }
    for text in ["2 * (3 * rbf())", "1 + (2 + rbf())", "(1 + 2) * 3", "1 * 2 * 3 + 4 + 5 * (6 + 7)"] {
        let read: Expression = text.parse().unwrap();
        assert_eq!(read, read.to_string().parse().unwrap(), "{text} became {read}");
    }
    let read: Expression = " rbf( l = 2e-1 in 1e-3 .. 1e+3 fixed)*0.5".parse().unwrap();
    assert_eq!(read.to_string(), "rbf(l=0.2 in 0.001..1000.0 fixed) * 0.5");
    assert_eq!("rbf([1, 2]) + matern12()".parse::<Expression>().unwrap().dimensions(), Some(2));
}

#[test]
fn a_fault_of_a_text_has_its_place_and_a_fix() {
    for (text, at, reason) in [
        ("", 1, "a number or a form"),
        ("rfb()", 1, "did you mean `rbf`"),
        ("1 * matern53()", 5, "did you mean `matern52`"),
        ("cosine()", 1, "there are rbf, matern12"),
        ("rbf(k=1)", 5, "no parameter `k`"),
        ("rbf(l=1, l=2)", 10, "given twice"),
        ("rbf(1, 2, 3)", 11, "takes l, v at most"),
        ("rbf(l=0)", 7, "a length is a finite number above 0"),
        ("rbf(l=-1)", 7, "a length is a finite number above 0"),
        ("white(1e999)", 7, "a variance is a finite number"),
        ("rbf(l=1 in 3..2)", 12, "the bounds cross"),
        ("rbf(l=1e6)", 7, "not within its bounds"),
        ("rbf(l=[1, 2]) * matern12(l=[1, 2, 3])", 28, "3 numbers, where another list has 2"),
        ("rational_quadratic(c=[1, 2])", 22, "is one number"),
        ("rbf(", 5, "a number or a form"),
        ("rbf(1", 6, "`,` is missing"),
        ("rbf() rbf()", 7, "goes on with"),
        ("(rbf()", 7, "`)` is missing"),
        ("rbf() +", 8, "a number or a form"),
        ("é", 1, "a number or a form"),
    ] {
        let error = text.parse::<Expression>().unwrap_err();
        assert!(error.reason.contains(reason), "{text}: {error}");
        assert_eq!(error.at, at, "{text}: {error}");
    }
    assert!("(".repeat(100).parse::<Expression>().unwrap_err().to_string().contains("64 brackets"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn columns_are_those_of_the_formulas(seed in 0..1000u64, count in 1..40usize, dimensions in 1..4usize) {
        let points = points(seed, count, dimensions);
        let mut scratch = Scratch::default();
        for text in texts(dimensions) {
            let expression: Expression = text.parse().unwrap();
            let whole = 0..count;
            for other in 0..count {
                let with = points.point(other);
                let mut found = vec![f64::NAN; count];
                expression.column((&points, whole.clone()), &with, Some(other), &mut scratch, &mut found);
                for (row, found) in found.iter().enumerate() {
                    let expected = reference::entry(&expression, &points.point(row), &with, row == other);
                    // Four units in the last place of the largest part.
                    let scale = expression.diagonal(&points.point(row), true).abs().max(expected.abs()).max(8.0);
                    prop_assert!((found - expected).abs() <= 4.0 * f64::EPSILON * scale, "{text} {found} {expected}");
                }
                // A part of the rows has the same bits.
                let rows = count / 3..count;
                let mut part = vec![f64::NAN; rows.len()];
                expression.column((&points, rows.clone()), &with, Some(other), &mut scratch, &mut part);
                prop_assert!(part.iter().zip(&found[rows]).all(|(a, b)| a.to_bits() == b.to_bits()));
            }
        }
    }

    #[test]
    fn derivatives_are_those_of_differences(seed in 0..1000u64, count in 2..12usize, dimensions in 1..4usize) {
        let points = points(seed, count, dimensions);
        let mut random = Random::mixed(seed + 7);
        let weights: Vec<f64> = (0..count).map(|_| random.unit() - 0.5).collect();
        let (with, whole) = (points.point(1), 0..count);
        let mut scratch = Scratch::default();
        for text in texts(dimensions) {
            let expression: Expression = text.parse().unwrap();
            let mut found = vec![0.0; expression.parameters().len()];
            let of = (&points, whole.clone());
            expression.add_gradient(of, &with, Some(1), &weights, &mut scratch, &mut found);
            let values: Vec<f64> = expression.parameters().iter().map(|p| p.value).collect();
            for (at, found) in found.iter().enumerate() {
                let sum = |step: f64| {
                    let mut values = values.clone();
                    values[at] *= f64::exp(step);
                    let other = expression.with_values(&values);
                    let entry = |row: usize| reference::entry(&other, &points.point(row), &with, row == 1);
                    weights.iter().enumerate().map(|(row, weight)| weight * entry(row)).sum::<f64>()
                };
                let step = 1e-4;
                // Central differences of the fourth order.
                let expected = (8.0 * (sum(step) - sum(-step)) - (sum(2.0 * step) - sum(-2.0 * step))) / (12.0 * step);
                prop_assert!(
                    (found - expected).abs() <= 1e-7 * expected.abs().max(1.0), "{text}, parameter {at}: {found} {expected}"
                );
            }
        }
    }
}

#[test]
fn the_gaussian_of_a_distance_is_the_same_function() {
    // The covariances of feedback are functions of a distance: over l2 they are these.
    use crate::gaussian_process::{Covariance, Form as OfDistance};
    let points = points(3, 20, 2);
    for (text, form) in [("rbf(0.7)", OfDistance::Gaussian), ("matern12(0.7)", OfDistance::Exponential)] {
        let (expression, covariance): (Expression, _) = (text.parse().unwrap(), Covariance::new(form, 0.7));
        for row in 0..20 {
            let (a, b) = (points.point(row), points.point(0));
            let distance = ((a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2)).sqrt();
            assert!((reference::entry(&expression, &a, &b, false) - covariance.of(distance)).abs() < 1e-15);
        }
    }
}
