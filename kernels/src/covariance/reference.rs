//! The formulas of the table, entry by entry in f64: they define the covariances.

use std::f64::consts::PI;

use super::expression::{Expression, Form, Part, Step};

/// The covariance of two points; `same` says whether they are the same sample.
///
/// # Panics
/// When the points have different dimensions.
pub fn entry(expression: &Expression, a: &[f64], b: &[f64], same: bool) -> f64 {
    assert_eq!(a.len(), b.len(), "points of the same dimensions");
    let mut values: Vec<f64> = Vec::new();
    for step in &expression.steps {
        values.push(match *step {
            Step::Part(part) => part_entry(expression, &expression.parts[part], a, b, same),
            Step::Sum(left, right) => values[left] + values[right],
            Step::Product(left, right) => values[left] * values[right],
        });
    }
    values[values.len() - 1]
}

fn part_entry(expression: &Expression, part: &Part, a: &[f64], b: &[f64], same: bool) -> f64 {
    let value = |place: usize| expression.parameters[place].value;
    let of = |places: &std::ops::Range<usize>, d: usize| {
        value(places.start + if places.len() == 1 { 0 } else { d })
    };
    let sum = |f: &dyn Fn(usize) -> f64| (0..a.len()).map(f).sum::<f64>();
    let r2 = || sum(&|d| ((a[d] - b[d]) / of(&part.lengths, d)).powi(2));
    let r = || r2().sqrt();
    let unit = match part.form {
        Form::Rbf => (-0.5 * r2()).exp(),
        Form::Matern12 => (-r()).exp(),
        Form::Matern32 => (1.0 + 3f64.sqrt() * r()) * (-(3f64.sqrt()) * r()).exp(),
        Form::Matern52 => {
            let a = 5f64.sqrt() * r();
            (1.0 + a + a * a / 3.0) * (-a).exp()
        }
        Form::RationalQuadratic => {
            let c = part.shape.map_or(1.0, value);
            (1.0 + r2() / (2.0 * c)).powf(-c)
        }
        Form::Periodic => {
            let wave = |d: usize| (PI * (a[d] - b[d]) / of(&part.periods, d)).sin() / of(&part.lengths, d);
            (-2.0 * sum(&|d| wave(d).powi(2))).exp()
        }
        Form::Linear => sum(&|d| a[d] * b[d]),
        Form::Constant => 1.0,
        Form::White => f64::from(u8::from(same)),
    };
    part.variance.map_or(1.0, value) * unit
}
