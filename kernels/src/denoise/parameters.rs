//! The settings of the two phases, and the profiles that choose them together.
//!
//! Invariant: every [`Parameters`] that [`Parameters::check`] accepts covers each pixel by a reference patch.

use thiserror::Error;

/// Steps of a grey level in which patches are compared.
pub(crate) const STEPS: f64 = 4.0;
/// Whole numbers below this are exact in f32.
pub(crate) const EXACT_BELOW: f64 = (1 << 24) as f64;
/// Noise above this deviation, in grey levels of 0 to 255, is `strong`.
pub(crate) const STRONG_ABOVE: f64 = 40.0;
/// The most patches of a stack.
pub(crate) const STACK_MAX: usize = 32;
/// The widest half of a search window, in pixels.
const HALF_WINDOW_MAX: usize = 64;

/// A named choice of all settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Steps 3, windows of 39; for deviations above 40 looser stacks and larger patches.
    Default,
    /// Steps 6 and 5, windows of 25.
    Fast,
    /// Steps 2 and flatter weights.
    High,
    /// The settings for strong noise, whatever the deviation.
    Strong,
    /// Windows of 65 and stacks of 8, as a published program for graphics cards has them.
    Seed,
}

impl Profile {
    /// The names of all profiles, as parameters give them.
    pub const NAMES: [&str; 5] = ["default", "fast", "high", "strong", "seed"];

    /// The profile of a name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Default, Self::Fast, Self::High, Self::Strong, Self::Seed];
        Self::NAMES.iter().position(|known| *known == name).map(|place| all[place])
    }
}

/// A transform of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    /// The biorthogonal wavelet 1.5, three periodised levels.
    Bior15,
    /// The cosine transform (DCT-II).
    Dct,
    /// Haar's wavelet, three levels.
    Haar,
    /// Walsh's and Hadamard's transform.
    Walsh,
}

impl Transform {
    /// The names of all transforms, as parameters give them.
    pub const NAMES: [&str; 4] = ["bior1.5", "dct", "haar", "walsh"];

    /// The transform of a name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Bior15, Self::Dct, Self::Haar, Self::Walsh];
        Self::NAMES.iter().position(|known| *known == name).map(|place| all[place])
    }
}

/// A transform along the patches of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackTransform {
    /// Haar's wavelet.
    Haar,
    /// The cosine transform (DCT-II).
    Dct,
    /// Walsh's and Hadamard's transform.
    Walsh,
}

impl StackTransform {
    /// The names of all transforms along stacks, as parameters give them.
    pub const NAMES: [&str; 3] = ["haar", "dct", "walsh"];

    /// The transform of a name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Haar, Self::Dct, Self::Walsh];
        Self::NAMES.iter().position(|known| *known == name).map(|place| all[place])
    }
}

/// The treatment of colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Brightness and two differences of colours, with the patches that are similar in brightness.
    Together,
    /// Each colour as a grey picture of its own.
    Apart,
}

/// The settings of one phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// Width and height of a patch in pixels: 8 or 11.
    pub patch: usize,
    /// Pixels from one reference patch to the next, at most `patch`.
    pub step: usize,
    /// Pixels that a similar patch may be away in each direction.
    pub half_window: usize,
    /// The most patches of a stack, a power of two.
    pub stack: usize,
    /// The mean squared difference of a pixel at which patches are no longer similar, in squared grey levels.
    pub tau: f64,
    /// The parameter of Kaiser's window, by which estimates of a patch count less at its border.
    pub beta: f64,
    /// The transform of patches.
    pub transform: Transform,
}

/// The settings of a denoising.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// The phase that thresholds.
    pub first: Phase,
    /// The phase of Wiener's rule; none returns the first result.
    pub second: Option<Phase>,
    /// Coefficients below this many deviations of their noise are noise.
    pub lambda: f64,
    /// The weight of the noise in Wiener's rule.
    pub mu: f64,
    /// The transform along stacks.
    pub along: StackTransform,
    /// The treatment of colours.
    pub colour: Colour,
}

/// Settings that do not fit each other.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{0}")]
pub struct ParametersError(String);

impl Parameters {
    /// The settings of a profile for noise of a deviation in grey levels (0 to 255).
    pub fn of(profile: Profile, sigma: f64) -> Self {
        let first = Phase {
            patch: 8,
            step: 3,
            half_window: 19,
            stack: 16,
            tau: 3000.0,
            beta: 2.0,
            transform: Transform::Bior15,
        };
        let second = Phase { stack: 32, tau: 400.0, transform: Transform::Dct, ..first };
        let (along, colour) = (StackTransform::Haar, Colour::Together);
        let default = Self { first, second: Some(second), lambda: 2.9, mu: 0.5, along, colour };
        match profile {
            Profile::Default if sigma <= STRONG_ABOVE => default,
            Profile::Default | Profile::Strong => Self {
                // Equal patches differ by twice the noise's variance, 5,000 at a deviation of 50.
                first: Phase { tau: 10_000.0, ..first },
                second: Some(Phase { patch: 11, step: 6, tau: 3500.0, ..second }),
                lambda: 2.85,
                ..default
            },
            Profile::Fast => Self {
                first: Phase { step: 6, half_window: 12, ..first },
                second: Some(Phase { step: 5, half_window: 12, stack: 16, ..second }),
                ..default
            },
            Profile::High => Self {
                first: Phase { step: 2, beta: 2.5, ..first },
                second: Some(Phase { step: 2, beta: 1.5, ..second }),
                ..default
            },
            Profile::Seed => Self {
                first: Phase { half_window: 32, stack: 8, tau: 2500.0, ..first },
                second: Some(Phase { half_window: 32, stack: 8, ..second }),
                lambda: 2.7,
                ..default
            },
        }
    }

    /// The square below which coefficients are zeroed, for noise of a deviation.
    pub(crate) fn limit(&self, deviation: f64) -> f32 {
        (self.lambda * self.lambda * deviation * deviation) as f32
    }

    /// The variance of Wiener's rule, for noise of a deviation.
    pub(crate) fn variance(&self, deviation: f64) -> f32 {
        (self.mu * deviation * deviation) as f32
    }

    /// Checks that the settings fit each other.
    ///
    /// # Errors
    /// With a sentence that names the setting and its limits.
    pub fn check(&self) -> Result<(), ParametersError> {
        let refuse = |message: String| Err(ParametersError(message));
        for (name, phase) in
            std::iter::once(("first", &self.first)).chain(self.second.iter().map(|p| ("second", p)))
        {
            if ![8, 11].contains(&phase.patch) {
                return refuse(format!(
                    "patches of the {name} phase are {} pixels wide: use 8 or 11",
                    phase.patch
                ));
            }
            if phase.patch != 8 && phase.transform != Transform::Dct {
                return refuse(format!(
                    "the {name} phase transforms patches of {0} by {0} pixels, which only `dct` can: use it",
                    phase.patch
                ));
            }
            if phase.step == 0 || phase.step > phase.patch {
                return refuse(format!(
                    "the step of the {name} phase is {}: use 1 to {}",
                    phase.step, phase.patch
                ));
            }
            if phase.half_window > HALF_WINDOW_MAX {
                return refuse(format!(
                    "the {name} phase looks {} pixels far: use at most {HALF_WINDOW_MAX}",
                    phase.half_window
                ));
            }
            if !phase.stack.is_power_of_two() || phase.stack > STACK_MAX {
                return refuse(format!(
                    "stacks of the {name} phase hold {}: use a power of two up to {STACK_MAX}",
                    phase.stack
                ));
            }
            // Sums of squared differences must be exact: `matching.rs`.
            let tau_max = (EXACT_BELOW / (STEPS * STEPS * (phase.patch * phase.patch) as f64)).floor() - 1.0;
            if !(phase.tau > 0.0 && phase.tau <= tau_max) {
                return refuse(format!(
                    "tau of the {name} phase is {}: use above 0 and up to {tau_max}",
                    phase.tau
                ));
            }
            if !(0.0..=20.0).contains(&phase.beta) {
                return refuse(format!("beta of the {name} phase is {}: use 0 to 20", phase.beta));
            }
        }
        if !(self.lambda >= 0.0 && self.lambda <= 100.0 && self.mu > 0.0 && self.mu <= 100.0) {
            return refuse("lambda must lie in 0 to 100, and mu above 0 and up to 100".to_owned());
        }
        Ok(())
    }
}
