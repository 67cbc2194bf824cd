//! Covariances of two objects as functions of their distance.
//!
//! Invariant: a form is used only with distances for which every matrix of its covariances is positive semidefinite.

use std::fmt;

use thiserror::Error;

use crate::CodePath;
use crate::distance::Properties;
use crate::elementary::exp;
use crate::lanes::{Lanes, Work, run};

/// The form of a covariance; d is the distance, l the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// 1 / sqrt(1 + (d / l)^2), a mixture of Gaussians of all widths.
    InverseMultiquadric,
    /// exp(-(d / l)^2 / 2).
    Gaussian,
    /// exp(-d / l).
    Exponential,
    /// exp(-d / l), by the name that it has for the distance l1.
    Laplacian,
}

/// The property of a distance that a form needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// The square of the distance is of negative type: all objects lie in one Hilbert space (Schoenberg 1938).
    Hilbert,
    /// The distance itself is of negative type: its root is a Hilbert distance.
    NegativeType,
}

impl Form {
    /// All forms.
    pub const ALL: [Self; 4] =
        [Self::InverseMultiquadric, Self::Gaussian, Self::Exponential, Self::Laplacian];

    /// The name in pipelines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InverseMultiquadric => "inverse_multiquadric",
            Self::Gaussian => "gaussian",
            Self::Exponential => "exponential",
            Self::Laplacian => "laplacian",
        }
    }

    /// The form of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }

    /// The property that a distance must have.
    pub const fn needs(self) -> Needs {
        match self {
            Self::InverseMultiquadric | Self::Gaussian => Needs::Hilbert,
            Self::Exponential | Self::Laplacian => Needs::NegativeType,
        }
    }

    /// The usual length in medians of the distance of two objects: the values with which the most was found.
    pub const fn medians(self) -> f64 {
        match self {
            Self::InverseMultiquadric | Self::Gaussian => 0.5,
            Self::Exponential | Self::Laplacian => 2.0,
        }
    }

    /// Checks that covariances of this form are positive semidefinite for a distance.
    ///
    /// ```
    /// use boxwork_kernels::distance::{Distance, Lp};
    /// use boxwork_kernels::gaussian_process::Form;
    /// assert!(Form::InverseMultiquadric.allow(&Lp::L2.properties()).is_ok());
    /// assert!(Form::Gaussian.allow(&Lp::L1.properties()).is_err());
    /// assert!(Form::Laplacian.allow(&Lp::L1.properties()).is_ok());
    /// ```
    ///
    /// # Errors
    /// The property that the distance lacks, and a form to use instead.
    pub fn allow(self, properties: &Properties) -> Result<(), Unfit> {
        let has = |needs| match needs {
            Needs::Hilbert => properties.hilbert,
            Needs::NegativeType => properties.negative_type || properties.hilbert,
        };
        if has(self.needs()) {
            return Ok(());
        }
        let instead = Self::ALL.into_iter().rev().find(|form| has(form.needs()));
        let (distance, is_root) = (properties.name, properties.is_root);
        Err(Unfit { form: self, distance, is_root, instead, has_root: properties.negative_type })
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A form whose covariances would not be positive semidefinite with a distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub struct Unfit {
    /// The form.
    pub form: Form,
    /// The distance.
    pub distance: &'static str,
    /// Whether its square root was meant.
    pub is_root: bool,
    /// A form that fits, if there is one.
    pub instead: Option<Form>,
    /// Whether the root of the distance fits every form.
    pub has_root: bool,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { form, distance, is_root, instead, has_root } = self;
        let root = if *is_root { "the root of " } else { "" };
        let lacks = match form.needs() {
            Needs::Hilbert => "is no Hilbert distance",
            Needs::NegativeType => "is not of negative type",
        };
        write!(
            f,
            "{root}{distance} {lacks}, so covariances of the form {form} would not be positive semidefinite; use "
        )?;
        match (instead, has_root) {
            (Some(instead), true) => write!(f, "{instead}, or the distance's root (`root: true`)"),
            (Some(instead), false) => write!(f, "{instead}"),
            (None, _) => f.write_str("a distance such as l2, jaccard or sqfd"),
        }
    }
}

/// A form with its length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Covariance {
    form: Form,
    length: f64,
}

impl Covariance {
    /// A covariance; the length is in the distance's unit.
    ///
    /// # Panics
    /// When the length is not finite and above 0.
    pub fn new(form: Form, length: f64) -> Self {
        assert!(length.is_finite() && length > 0.0, "the length of a covariance is {length}");
        Self { form, length }
    }

    /// The form.
    pub const fn form(&self) -> Form {
        self.form
    }

    /// The length, in the distance's unit.
    pub const fn length(&self) -> f64 {
        self.length
    }

    /// This covariance as a function of distances that are multiples of `unit`, a power of two.
    #[must_use]
    pub fn in_units(&self, unit: f64) -> Self {
        Self { form: self.form, length: (self.length / unit).clamp(f64::MIN_POSITIVE, f64::MAX) }
    }

    /// The covariance of two objects at a distance: from 0 to 1, and 1 at distance 0. It has equal bits on every machine.
    #[inline(always)]
    pub fn of(&self, distance: f64) -> f64 {
        let ratio = distance / self.length;
        match self.form {
            Form::InverseMultiquadric => 1.0 / (1.0 + ratio * ratio).sqrt(),
            Form::Gaussian => exp(-0.5 * (ratio * ratio)),
            Form::Exponential | Form::Laplacian => exp(-ratio),
        }
    }

    /// The covariances of many objects at these distances; the bits are those of [`Covariance::of`].
    ///
    /// # Panics
    /// When there is not a number for each distance.
    pub fn of_all(&self, distances: &[f32], out: &mut [f64]) {
        assert_eq!(distances.len(), out.len(), "a covariance for each distance");
        run(CodePath::detect(), All { covariance: *self, distances, out });
    }

    /// The largest change of the covariance if a distance changes by at most `change`, and its square by at most
    /// `change_squared`.
    pub fn change(&self, change: f64, change_squared: f64) -> f64 {
        match self.form {
            // The slope over d^2 is at most 1 / (2 l^2), and over d at most 0.39 / l and 0.61 / l.
            Form::InverseMultiquadric | Form::Gaussian => {
                (change_squared / (2.0 * self.length * self.length)).min(0.61 * change / self.length)
            }
            Form::Exponential | Form::Laplacian => change / self.length,
        }
    }
}

/// Covariances side by side: the compiler makes vectors of the loops.
struct All<'a> {
    covariance: Covariance,
    distances: &'a [f32],
    out: &'a mut [f64],
}

impl Work for All<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let Self { covariance, distances, out } = self;
        // A loop for each form: a choice inside of one would keep it from vectors.
        match covariance.form {
            Form::InverseMultiquadric => {
                let of = Covariance { form: Form::InverseMultiquadric, ..covariance };
                for (k, distance) in out.iter_mut().zip(distances) {
                    *k = of.of(f64::from(*distance));
                }
            }
            Form::Gaussian => {
                let of = Covariance { form: Form::Gaussian, ..covariance };
                for (k, distance) in out.iter_mut().zip(distances) {
                    *k = of.of(f64::from(*distance));
                }
            }
            Form::Exponential | Form::Laplacian => {
                let of = Covariance { form: Form::Exponential, ..covariance };
                for (k, distance) in out.iter_mut().zip(distances) {
                    *k = of.of(f64::from(*distance));
                }
            }
        }
    }
}

impl fmt::Display for Covariance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of length {:?}", self.form, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covariances_of_many_have_the_bits_of_one() {
        let distances: Vec<f32> = (0..1001).map(|nth| nth as f32 * 0.0037).collect();
        for form in Form::ALL {
            let covariance = Covariance::new(form, 0.43);
            let mut found = vec![f64::NAN; distances.len()];
            covariance.of_all(&distances, &mut found);
            for (distance, found) in distances.iter().zip(found) {
                assert_eq!(found.to_bits(), covariance.of(f64::from(*distance)).to_bits());
            }
        }
    }

    #[test]
    fn covariances_are_those_of_their_formulas() {
        for d in [0.0, 0.1, 0.7, 1.0, 3.5] {
            let of = |form| Covariance::new(form, 0.7).of(d);
            let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-15, "{a} {b}");
            near(of(Form::InverseMultiquadric), (1.0 + (d / 0.7) * (d / 0.7)).powf(-0.5));
            near(of(Form::Gaussian), (-d * d / (2.0 * 0.49)).exp());
            near(of(Form::Exponential), (-d / 0.7).exp());
            assert_eq!(of(Form::Exponential).to_bits(), of(Form::Laplacian).to_bits());
        }
        for form in Form::ALL {
            assert_eq!(Covariance::new(form, 0.3).of(0.0), 1.0);
            assert_eq!(Form::named(form.name()), Some(form));
        }
        assert_eq!(Form::named("linear"), None);
    }

    #[test]
    fn a_change_of_distance_changes_the_covariance_by_no_more_than_is_said() {
        for form in Form::ALL {
            let covariance = Covariance::new(form, 0.4);
            for step in 0..400 {
                let (d, change) = (f64::from(step) * 0.005, 1e-3);
                let other = d + change;
                let bound = covariance.change(change, other * other - d * d);
                assert!(
                    (covariance.of(d) - covariance.of(other)).abs() <= bound * (1.0 + 1e-9),
                    "{form} {d}"
                );
            }
        }
    }

    #[test]
    fn forms_refuse_distances_for_which_they_are_not_positive_semidefinite() {
        let message = |form: Form, properties: Properties| form.allow(&properties).unwrap_err().to_string();
        let l1 = Properties { negative_type: true, ..Properties::metric("l1") };
        let text = message(Form::InverseMultiquadric, l1);
        assert!(text.contains("l1 is no Hilbert distance") && text.contains("use laplacian"), "{text}");
        assert!(text.contains("`root: true`"), "{text}");
        let text = message(Form::Laplacian, Properties::metric("levenshtein"));
        assert!(text.contains("not of negative type") && text.contains("a distance such as"), "{text}");
        assert!(Form::ALL.into_iter().all(|form| form.allow(&Properties::hilbert("l2")).is_ok()));
    }
}
