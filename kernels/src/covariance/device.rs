//! Covariances for devices: an expression as text of OpenCL C, over the functions of `cholesky/device.cl`, and its parameters.

use super::expression::{Expression, Form, Part, Step};

impl Expression {
    /// The expression for the kernel `fill` of [`cholesky::device`](crate::cholesky::device), without spaces: parameters stand there by
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

    fn text_of(&self, step: usize) -> String {
        match self.steps[step] {
            Step::Part(part) => text_of_part(&self.parts[part]),
            Step::Sum(a, b) => format!("({}+{})", self.text_of(a), self.text_of(b)),
            Step::Product(a, b) => format!("({}*{})", self.text_of(a), self.text_of(b)),
        }
    }
}

fn text_of_part(part: &Part) -> String {
    // A list has a number for each dimension.
    let list = |places: &std::ops::Range<usize>| format!("{},{}", places.start, u32::from(places.len() > 1));
    let variance = part.variance.unwrap_or(0);
    let lengths = list(&part.lengths);
    let own = match part.form {
        Form::Rbf => format!("RBF({lengths})"),
        Form::Matern12 => format!("MATERN12({lengths})"),
        Form::Matern32 => format!("MATERN32({lengths})"),
        Form::Matern52 => format!("MATERN52({lengths})"),
        Form::RationalQuadratic => format!("RATIONAL({lengths},{})", part.shape.unwrap_or(0)),
        Form::Periodic => format!("PERIODIC({},{lengths})", list(&part.periods)),
        Form::Linear => "LINEAR".to_owned(),
        Form::Constant => return format!("CONSTANT({variance})"),
        Form::White => return format!("WHITE({variance})"),
    };
    match part.variance {
        Some(at) => format!("(CONSTANT({at})*{own})"),
        None => own,
    }
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
}
