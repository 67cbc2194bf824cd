//! A covariance as a sum and product of base forms, and its parameters.

use std::fmt;
use std::ops::Range;

/// A base form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// exp(-r^2/2).
    Rbf,
    /// exp(-r).
    Matern12,
    /// (1 + a) exp(-a), a = sqrt(3) r.
    Matern32,
    /// (1 + a + a^2/3) exp(-a), a = sqrt(5) r.
    Matern52,
    /// (1 + r^2/(2c))^-c.
    RationalQuadratic,
    /// exp(-2 sum sin^2(pi t/p)/l^2).
    Periodic,
    /// x.x'.
    Linear,
    /// 1.
    Constant,
    /// 1 for the same sample, else 0.
    White,
}

impl Form {
    /// All forms.
    pub const ALL: [Self; 9] = [
        Self::Rbf,
        Self::Matern12,
        Self::Matern32,
        Self::Matern52,
        Self::RationalQuadratic,
        Self::Periodic,
        Self::Linear,
        Self::Constant,
        Self::White,
    ];

    /// The name in texts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rbf => "rbf",
            Self::Matern12 => "matern12",
            Self::Matern32 => "matern32",
            Self::Matern52 => "matern52",
            Self::RationalQuadratic => "rational_quadratic",
            Self::Periodic => "periodic",
            Self::Linear => "linear",
            Self::Constant => "constant",
            Self::White => "white",
        }
    }

    /// The names of the parameters, in the order of arguments without names.
    pub const fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::Rbf | Self::Matern12 | Self::Matern32 | Self::Matern52 => &["l", "v"],
            Self::RationalQuadratic => &["l", "c", "v"],
            Self::Periodic => &["p", "l", "v"],
            Self::Linear | Self::Constant | Self::White => &["v"],
        }
    }

    /// Whether a parameter must be given; the others are 1 if they are not, and `v` is then no parameter.
    pub(super) fn has(self, name: &str) -> bool {
        name != "v" || self.parameters() == ["v"]
    }
}

/// A parameter of a base form: a positive number, whose logarithm an optimiser changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// `l`, `c`, `p` or `v`.
    pub name: &'static str,
    /// The number, above 0.
    pub value: f64,
    /// The least and the largest value for an optimiser.
    pub bounds: (f64, f64),
    /// Whether an optimiser leaves it as it is.
    pub fixed: bool,
}

/// The bounds of a parameter without any, as in scikit-learn.
pub(super) const BOUNDS: (f64, f64) = (1e-5, 1e5);

/// A base form with the places of its parameters in the list of the expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) form: Form,
    /// One length for all dimensions, or one for each.
    pub(super) lengths: Range<usize>,
    /// One period for all dimensions, or one for each.
    pub(super) periods: Range<usize>,
    pub(super) shape: Option<usize>,
    pub(super) variance: Option<usize>,
}

/// A step of the evaluation, which takes the results of earlier ones from a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Puts the value of a part on the stack.
    Part(usize),
    /// Replaces the two uppermost values, results of these earlier steps, by their sum.
    Sum(usize, usize),
    /// Replaces them by their product.
    Product(usize, usize),
}

/// A covariance of two points: a sum and product of base forms.
///
/// ```
/// use boxwork_kernels::covariance::Expression;
/// let covariance: Expression = "2 * rbf(l=[1, 3 fixed]) + white(0.1 in 1e-3..1)".parse().unwrap();
/// let free: Vec<f64> = covariance.parameters().iter().filter(|p| !p.fixed).map(|p| p.value).collect();
/// assert_eq!(free, [2.0, 1.0, 0.1]);
/// assert!("rfb()".parse::<Expression>().unwrap_err().to_string().contains("did you mean `rbf`"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    pub(super) parts: Vec<Part>,
    pub(super) steps: Vec<Step>,
    pub(super) parameters: Vec<Parameter>,
}

impl Expression {
    /// All parameters, in the order of the text.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The covariance with other values of its parameters.
    ///
    /// # Panics
    /// When there is not a positive finite value for each parameter.
    #[must_use]
    pub fn with_values(&self, values: &[f64]) -> Self {
        assert_eq!(values.len(), self.parameters.len(), "a value for each parameter");
        let mut other = self.clone();
        for (parameter, value) in other.parameters.iter_mut().zip(values) {
            assert!(*value > 0.0 && value.is_finite(), "{} = {value}", parameter.name);
            parameter.value = *value;
        }
        other
    }

    /// The dimensions that points must have, if the text gives a length or period for each.
    pub fn dimensions(&self) -> Option<usize> {
        let lists = self.parts.iter().flat_map(|part| [part.lengths.len(), part.periods.len()]);
        lists.into_iter().find(|count| *count > 1)
    }

    fn write_part(&self, f: &mut fmt::Formatter<'_>, part: &Part) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, places: Range<usize>| {
            let one = |f: &mut fmt::Formatter<'_>, at: usize| write!(f, "{}", self.parameters[at]);
            if places.len() == 1 {
                return one(f, places.start);
            }
            f.write_str("[")?;
            for (nth, at) in places.enumerate() {
                f.write_str(if nth > 0 { ", " } else { "" })?;
                one(f, at)?;
            }
            f.write_str("]")
        };
        if let (Form::Constant, Some(v)) = (part.form, part.variance) {
            return list(f, v..v + 1);
        }
        write!(f, "{}(", part.form.name())?;
        let single = |place: Option<usize>| place.map_or(0..0, |at| at..at + 1);
        let mut separator = "";
        for name in part.form.parameters() {
            let places = match *name {
                "l" => part.lengths.clone(),
                "p" => part.periods.clone(),
                "c" => single(part.shape),
                _ => single(part.variance),
            };
            if !places.is_empty() {
                write!(f, "{separator}{name}=")?;
                list(f, places)?;
                separator = ", ";
            }
        }
        f.write_str(")")
    }

    fn write_step(&self, f: &mut fmt::Formatter<'_>, step: usize, in_product: bool) -> fmt::Result {
        match self.steps[step] {
            Step::Part(part) => self.write_part(f, &self.parts[part]),
            Step::Product(a, b) => {
                self.write_step(f, a, true)?;
                f.write_str(" * ")?;
                // A product on the right was within brackets: they keep the order.
                let nested = matches!(self.steps[b], Step::Product(..));
                f.write_str(if nested { "(" } else { "" })?;
                self.write_step(f, b, !nested)?;
                f.write_str(if nested { ")" } else { "" })
            }
            Step::Sum(a, b) => {
                f.write_str(if in_product { "(" } else { "" })?;
                self.write_step(f, a, false)?;
                f.write_str(" + ")?;
                let nested = matches!(self.steps[b], Step::Sum(..));
                self.write_step(f, b, nested)?;
                f.write_str(if in_product { ")" } else { "" })
            }
        }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.value)?;
        if self.bounds != BOUNDS {
            write!(f, " in {:?}..{:?}", self.bounds.0, self.bounds.1)?;
        }
        f.write_str(if self.fixed { " fixed" } else { "" })
    }
}

impl fmt::Display for Expression {
    /// The text from which an equal expression is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_step(f, self.steps.len() - 1, false)
    }
}
