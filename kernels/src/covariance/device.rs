//! Covariances for devices: an expression as text of OpenCL C, over the functions of `device.cl`, and its parameters.

use std::fmt::Write as _;
use std::ops::Range;

use super::expression::{Expression, Form, Part, Step};

impl Expression {
    /// The expression for the kernels of [`cholesky::device`](crate::cholesky::device), without spaces: parameters stand there by
    /// their places in [`Expression::device_numbers`], so that other values need no other program.
    pub fn device_text(&self) -> String {
        self.text_of(self.steps.len() - 1)
    }

    /// The parameters as the text takes them: lengths as their inverses, all others as they are.
    pub fn device_numbers(&self) -> Vec<f64> {
        let mut numbers: Vec<f64> = self.parameters.iter().map(|parameter| parameter.value).collect();
        for at in self.parts.iter().flat_map(|part| part.lengths.clone()) {
            numbers[at] = 1.0 / numbers[at];
        }
        numbers
    }

    /// The statements, without spaces, that add a weight times the derivatives by the logarithms of all parameters to sums.
    pub fn device_slopes(&self) -> String {
        let mut slopes = String::new();
        self.add_slopes(self.steps.len() - 1, "(wide)1", &mut slopes);
        slopes
    }

    fn text_of(&self, step: usize) -> String {
        match self.steps[step] {
            Step::Part(part) => text_of_part(&self.parts[part]),
            Step::Sum(a, b) => format!("({}+{})", self.text_of(a), self.text_of(b)),
            Step::Product(a, b) => format!("({}*{})", self.text_of(a), self.text_of(b)),
        }
    }

    /// Adds the statements of a step, of which `adjoint` is the derivative of the whole by its value.
    fn add_slopes(&self, step: usize, adjoint: &str, slopes: &mut String) {
        match self.steps[step] {
            Step::Part(part) => add_slopes_of_part(&self.parts[part], adjoint, slopes),
            Step::Sum(a, b) => [a, b].into_iter().for_each(|child| self.add_slopes(child, adjoint, slopes)),
            Step::Product(a, b) => {
                for (child, other) in [(a, b), (b, a)] {
                    self.add_slopes(child, &format!("{adjoint}*{}", self.text_of(other)), slopes);
                }
            }
        }
    }
}

/// A list has a number for each dimension.
fn list(places: &Range<usize>) -> String {
    format!("{},{}", places.start, u32::from(places.len() > 1))
}

/// A form without its variance.
fn text_of_form(part: &Part) -> String {
    let (lengths, variance) = (list(&part.lengths), part.variance.unwrap_or(0));
    match part.form {
        Form::Rbf => format!("RBF({lengths})"),
        Form::Matern12 => format!("MATERN12({lengths})"),
        Form::Matern32 => format!("MATERN32({lengths})"),
        Form::Matern52 => format!("MATERN52({lengths})"),
        Form::RationalQuadratic => format!("RATIONAL({lengths},{})", part.shape.unwrap_or(0)),
        Form::Periodic => format!("PERIODIC({},{lengths})", list(&part.periods)),
        Form::Linear => "LINEAR".to_owned(),
        Form::Constant => format!("CONSTANT({variance})"),
        Form::White => format!("WHITE({variance})"),
    }
}

fn text_of_part(part: &Part) -> String {
    let own = text_of_form(part);
    match part.variance {
        Some(at) if !matches!(part.form, Form::Constant | Form::White) => format!("(CONSTANT({at})*{own})"),
        _ => own,
    }
}

fn add_slopes_of_part(part: &Part, adjoint: &str, slopes: &mut String) {
    // A string takes any text.
    if let Some(at) = part.variance {
        let _ = write!(slopes, "BY_VALUE({at},{adjoint}*{})", text_of_part(part));
    }
    let scaled = match part.variance {
        Some(at) => format!("{adjoint}*CONSTANT({at})"),
        None => adjoint.to_owned(),
    };
    let (lengths, shape) = (list(&part.lengths), part.shape.unwrap_or(0));
    let _ = match part.form {
        Form::Rbf => write!(slopes, "BY_LENGTH({lengths},{scaled}*RBF({lengths}))"),
        Form::Matern12 => write!(slopes, "BY_LENGTH({lengths},{scaled}*MATERN12_SLOPE({lengths}))"),
        Form::Matern32 => write!(slopes, "BY_LENGTH({lengths},{scaled}*MATERN32_SLOPE({lengths}))"),
        Form::Matern52 => write!(slopes, "BY_LENGTH({lengths},{scaled}*MATERN52_SLOPE({lengths}))"),
        Form::RationalQuadratic => write!(
            slopes,
            "BY_LENGTH({lengths},{scaled}*RATIONAL_SLOPE({lengths},{shape}))BY_VALUE({shape},{scaled}*RATIONAL_SHAPE({lengths},{shape}))"
        ),
        Form::Periodic => {
            write!(slopes, "BY_PERIOD({},{lengths},{scaled}*{})", list(&part.periods), text_of_form(part))
        }
        Form::Linear | Form::Constant | Form::White => Ok(()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_parameters_by_their_places() {
        let of = |text: &str| text.parse::<Expression>().unwrap();
        let expression = of("2 * rbf(l=[4, 8]) + white(0.5)");
        assert_eq!(expression.device_text(), "((CONSTANT(0)*RBF(1,1))+WHITE(3))");
        assert_eq!(expression.device_numbers(), [2.0, 0.25, 0.125, 0.5]);
        let expression = of("periodic(p=7, l=2) * linear(v=3)");
        assert_eq!(expression.device_text(), "(PERIODIC(0,0,1,0)*(CONSTANT(2)*LINEAR))");
        assert_eq!(expression.device_numbers(), [7.0, 0.5, 3.0]);
        assert_eq!(of("rational_quadratic(l=2, c=3)").device_text(), "RATIONAL(0,0,1)");
    }

    #[test]
    fn slopes_name_the_derivative_of_the_whole_by_each_part() {
        let of = |text: &str| text.parse::<Expression>().unwrap().device_slopes();
        assert_eq!(
            of("2 * rbf(l=[4, 8]) + white(0.5)"),
            "BY_VALUE(0,(wide)1*RBF(1,1)*CONSTANT(0))BY_LENGTH(1,1,(wide)1*CONSTANT(0)*RBF(1,1))BY_VALUE(3,(wide)1*WHITE(3))"
        );
        assert_eq!(of("linear(v=3)"), "BY_VALUE(0,(wide)1*(CONSTANT(0)*LINEAR))");
        assert!(!of("(periodic(p=7, l=2, v=3) + matern32()) * linear(v=3)").contains(' '));
    }
}
