//! The properties of models and picks, against the plainest arithmetic.

use proptest::prelude::*;

use super::*;
use crate::chance::Random;

/// Points of a plane with duplicates, so that covariances are near to singular.
fn points(seed: u64, count: usize) -> Vec<[f64; 2]> {
    let mut random = Random::mixed(seed);
    let mut points: Vec<[f64; 2]> = Vec::new();
    for _ in 0..count {
        let again = !points.is_empty() && random.below(4) == 0;
        points.push(match again {
            true => points[random.idx(points.len())],
            false => [random.unit(), random.unit()],
        });
    }
    points
}

fn apart(a: [f64; 2], b: [f64; 2]) -> f64 {
    ((a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2)).sqrt()
}

/// Solves a dense system by elimination with pivoting.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let n = right.len();
    for column in 0..n {
        let pivot = (column..n)
            .max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))
            .expect("a row");
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        for row in column + 1..n {
            let factor = matrix[row][column] / matrix[column][column];
            let (above, below) = matrix.split_at_mut(row);
            let pairs = below[0].iter_mut().zip(&above[column]).skip(column);
            pairs.for_each(|(value, other)| *value -= factor * other);
            right[row] -= factor * right[column];
        }
    }
    for row in (0..n).rev() {
        let sum: f64 = (row + 1..n).map(|k| matrix[row][k] * right[k]).sum();
        right[row] = (right[row] - sum) / matrix[row][row];
    }
    right
}

/// A mark of the reference: its place, score and noise.
type Mark = ([f64; 2], f64, f64);

/// The mean and variance of a point by the formulas, mu = k* (K + s2 I)^-1 y and 1 - k* (K + s2 I)^-1 k*^T.
fn reference(covariance: &Covariance, marks: &[Mark], point: [f64; 2]) -> (f64, f64) {
    let matrix: Vec<Vec<f64>> = marks
        .iter()
        .enumerate()
        .map(|(i, a)| {
            let cell =
                |(j, b): (usize, &Mark)| covariance.of(apart(a.0, b.0)) + if i == j { a.2 } else { 0.0 };
            marks.iter().enumerate().map(cell).collect()
        })
        .collect();
    let k: Vec<f64> = marks.iter().map(|mark| covariance.of(apart(mark.0, point))).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let weights = solve(matrix.clone(), marks.iter().map(|mark| mark.1).collect());
    let inverse = solve(matrix, k.clone());
    (dot(&k, &weights), 1.0 - dot(&k, &inverse))
}

fn row(covariance: &Covariance, marks: &[Mark], at: usize) -> Vec<f64> {
    marks[..at].iter().map(|other| covariance.of(apart(marks[at].0, other.0))).collect()
}

fn fresh(covariance: &Covariance, marks: &[Mark]) -> Model {
    let mut model = Model::new();
    for (at, mark) in marks.iter().enumerate() {
        model.push(&row(covariance, marks, at), mark.1, mark.2);
    }
    model
}

/// A step of a session.
#[derive(Clone, Debug)]
enum Step {
    Push { score: f64, weak: bool },
    Score { mark: usize, score: f64 },
    Noise { mark: usize, weak: bool },
    Remove { mark: usize },
    Undo { marks: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let score = 0.0f64..=1.0;
    prop::collection::vec(
        prop_oneof![
            4 => (score.clone(), any::<bool>()).prop_map(|(score, weak)| Step::Push { score, weak }),
            1 => (0usize..64, score).prop_map(|(mark, score)| Step::Score { mark, score }),
            1 => (0usize..64, any::<bool>()).prop_map(|(mark, weak)| Step::Noise { mark, weak }),
            1 => (0usize..64).prop_map(|mark| Step::Remove { mark }),
            1 => (0usize..6).prop_map(|marks| Step::Undo { marks }),
        ],
        1..60,
    )
}

fn noise_of(weak: bool) -> f64 {
    if weak { WEAK_NOISE } else { MARK_NOISE }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_model_after_any_changes_is_the_one_fitted_anew(steps in steps(), seed in 0u64..1000, form in 0usize..4) {
        let covariance = Covariance::new(Form::ALL[form], 0.3);
        let places = points(seed, 64);
        let (mut model, mut marks): (Model, Vec<Mark>) = (Model::new(), Vec::new());
        for (turn, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push { score, weak } => {
                    marks.push((places[turn], score, noise_of(weak)));
                    model.push(&row(&covariance, &marks, marks.len() - 1), score, noise_of(weak));
                }
                Step::Score { mark, score } if !marks.is_empty() => {
                    let mark = mark % marks.len();
                    marks[mark].1 = score;
                    model.set_score(mark, score);
                }
                Step::Noise { mark, weak } if !marks.is_empty() => {
                    let mark = mark % marks.len();
                    marks[mark].2 = noise_of(weak);
                    model.set_noise(mark, noise_of(weak));
                }
                Step::Remove { mark } if !marks.is_empty() => {
                    let mark = mark % marks.len();
                    marks.remove(mark);
                    model.remove(mark);
                }
                Step::Undo { marks: undone } => {
                    marks.truncate(marks.len().saturating_sub(undone));
                    model.truncate(marks.len());
                }
                _ => {}
            }
        }
        // Equal to the bit to a fresh one, made one by one and at once; and within 1e-10 of the formulas.
        let anew = fresh(&covariance, &marks);
        prop_assert_eq!(&model, &anew);
        let rows: Vec<Vec<f64>> = (0..marks.len()).map(|at| row(&covariance, &marks, at)).collect();
        let scores: Vec<f64> = marks.iter().map(|mark| mark.1).collect();
        let noises: Vec<f64> = marks.iter().map(|mark| mark.2).collect();
        prop_assert_eq!(&model, &Model::fit(&rows, &scores, &noises));
        let weights = model.weights();
        for point in points(seed + 1, 5).into_iter().chain(marks.first().map(|mark| mark.0)) {
            let k: Vec<f64> = marks.iter().map(|mark| covariance.of(apart(mark.0, point))).collect();
            let mean: f64 = k.iter().zip(&weights).map(|(k, w)| k * w).sum();
            let (expected, variance) = reference(&covariance, &marks, point);
            prop_assert!((mean - expected).abs() < 1e-10, "{} {}", mean, expected);
            prop_assert!((model.variance(&k) - variance.max(0.0)).abs() < 1e-10);
        }
    }

    #[test]
    fn picks_by_updates_are_those_of_models_fitted_again(
        seed in 0u64..10_000, marked in 0usize..20, explore in 0.0f64..2.0, form in 0usize..4,
    ) {
        let covariance = Covariance::new(Form::ALL[form], 0.3);
        let (objects, mut random) = (points(seed, 300), Random::mixed(seed));
        let mut marks: Vec<Mark> = objects[..marked]
            .iter()
            .map(|place| (*place, random.unit(), noise_of(random.below(3) == 0)))
            .collect();
        let model = fresh(&covariance, &marks);
        let weights = model.weights();
        let with = |place: [f64; 2]| -> Vec<f64> {
            objects.iter().map(|object| covariance.of(apart(place, *object))).collect()
        };
        let mut posterior = Posterior::new(objects.len());
        for (mark, (place, ..)) in marks.iter().enumerate() {
            posterior.push(model.factor_row(mark), &with(*place));
        }
        posterior.set_means(&weights, |mark| with(marks[mark].0));
        let mut picked: Vec<usize> = (0..marked).collect();
        for _ in 0..12 {
            let pick = posterior.pick(explore, |object| !picked.contains(&object)).expect("some are left");
            // A model of all marks and picks that is fitted anew makes the same choice.
            let refitted = fresh(&covariance, &marks);
            let upper = |object: usize| {
                let k: Vec<f64> =
                    marks.iter().map(|mark| covariance.of(apart(mark.0, objects[object]))).collect();
                let mean: f64 = k.iter().zip(&weights).map(|(k, w)| k * w).sum();
                mean + explore * refitted.variance(&k).sqrt()
            };
            prop_assert!((posterior.upper(pick, explore) - upper(pick)).abs() < 1e-10);
            let best = (0..objects.len())
                .filter(|object| !picked.contains(object))
                .map(upper)
                .fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(upper(pick) >= best - 1e-10);
            // A hallucinated row is the row of a mark.
            let row = posterior.factor_row(pick, MARK_NOISE);
            let k: Vec<f64> = marks.iter().map(|mark| covariance.of(apart(mark.0, objects[pick]))).collect();
            let mut extended = refitted.clone();
            extended.push(&k, 0.0, MARK_NOISE);
            prop_assert_eq!(&row[..], extended.factor_row(marks.len()));
            posterior.hallucinate(pick, &with(objects[pick]), MARK_NOISE);
            marks.push((objects[pick], 0.0, MARK_NOISE));
            picked.push(pick);
        }
        // Forgetting the hallucinated ones leaves the bits of before.
        posterior.truncate(marked);
        let mut again = Posterior::new(objects.len());
        for (mark, (place, ..)) in marks[..marked].iter().enumerate() {
            again.push(model.factor_row(mark), &with(*place));
        }
        prop_assert!((0..objects.len()).all(|o| posterior.variance(o).to_bits() == again.variance(o).to_bits()));
    }
}

#[test]
fn a_thousand_equal_objects_have_a_model_and_distinct_picks() {
    let covariance = Covariance::new(Form::InverseMultiquadric, 0.5);
    let ones = vec![covariance.of(0.0); MARKS_MAX];
    let rows: Vec<&[f64]> = (0..MARKS_MAX).map(|i| &ones[..i]).collect();
    let model = Model::fit(&rows, &vec![1.0; MARKS_MAX], &vec![MARK_NOISE; MARKS_MAX]);
    let mean = model.weights().iter().sum::<f64>();
    let expected = 1.0 / (1.0 + MARK_NOISE / MARKS_MAX as f64);
    assert!((mean - expected).abs() < 1e-10, "{mean}");
    // Half of the objects are equal: after one of them, one of the others comes.
    let mut posterior = Posterior::new(8);
    let covariances = |pick: usize| -> Vec<f64> {
        (0..8).map(|other| if pick / 4 == other / 4 { 1.0 } else { 0.3 }).collect()
    };
    let mut picked = Vec::new();
    for _ in 0..8 {
        let pick = posterior.pick(0.25, |object| !picked.contains(&object)).unwrap();
        posterior.hallucinate(pick, &covariances(pick), MARK_NOISE);
        picked.push(pick);
    }
    assert_eq!(picked, [0, 4, 1, 5, 2, 6, 3, 7]);
    assert_eq!(posterior.pick(0.25, |object| !picked.contains(&object)), None);
}

#[test]
#[should_panic(expected = "not positive definite")]
fn a_matrix_that_is_not_positive_definite_is_refused() {
    let mut model = Model::new();
    model.push(&[], 1.0, MARK_NOISE);
    model.push(&[3.0], 1.0, MARK_NOISE);
}
