//! Similarities of two centroids: the choice that makes a signature distance.
//!
//! A [`Measure`] is a similarity over a ground metric, with one constant. It exists only for combinations whose signature
//! distance embeds in a Hilbert space, because every pruning rule of the indexes rests on that. [`Measure::new`] refuses
//! the others with the reason; no other place has to check.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::elementary::exp;

/// The distance of two centroids, to which the similarity is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ground {
    /// Sum of absolute differences.
    L1,
    /// Euclidean distance.
    L2,
    /// Largest absolute difference. Refused with every similarity; it has a name so that the refusal can say why.
    Linf,
    /// Euclidean distance squared.
    SquaredL2,
}

/// The function that turns the ground distance `d` of two centroids into their similarity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Similarity {
    /// `exp(-alpha d^2)`.
    Gaussian,
    /// `1 / (alpha + d)`.
    Heuristic,
    /// `-d`; does not use alpha.
    Minus,
}

/// Why a [`Measure`] cannot be made. Every message says what to use instead.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The distance would not be a Hilbert distance, so pruning could lose results.
    #[error(
        "similarity {similarity} over ground {ground} is not positive definite, so an index could lose results; \
         use {instead}"
    )]
    NotHilbert {
        /// The similarity asked for.
        similarity: Similarity,
        /// The ground metric asked for.
        ground: Ground,
        /// The grounds that work with this similarity.
        instead: &'static str,
    },
    /// Alpha is zero, negative, infinite or not a number.
    #[error(
        "alpha is {0}; use a finite number above 0 (smaller values index better, larger ones order better)"
    )]
    Alpha(f64),
    /// No similarity has this name.
    #[error("unknown similarity `{0}`; use gaussian, heuristic or minus")]
    UnknownSimilarity(String),
    /// No ground metric has this name.
    #[error("unknown ground `{0}`; use l1, l2 or l2_squared")]
    UnknownGround(String),
}

/// One signature distance: its similarity, ground metric and alpha.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    similarity: Similarity,
    ground: Ground,
    alpha: f64,
}

impl Measure {
    /// The measure, if its distance is a Hilbert distance.
    ///
    /// ```
    /// use boxwork_kernels::similarity::{Ground, Measure, Similarity};
    /// let measure = Measure::new(Similarity::Gaussian, Ground::L2, 0.2).unwrap();
    /// assert_eq!(measure.f_s(&[1.0, 2.0], &[1.0, 2.0]), 1.0);
    /// assert!(Measure::new(Similarity::Gaussian, Ground::L1, 0.2).is_err());
    /// ```
    ///
    /// # Errors
    /// [`MeasureError::NotHilbert`] for the Gaussian over anything but L2 and for Linf under any similarity;
    /// [`MeasureError::Alpha`] unless alpha is finite and positive.
    pub fn new(similarity: Similarity, ground: Ground, alpha: f64) -> Result<Self, MeasureError> {
        let instead = match (similarity, ground) {
            (Similarity::Gaussian, Ground::L1 | Ground::Linf | Ground::SquaredL2) => "l2",
            (Similarity::Heuristic | Similarity::Minus, Ground::Linf) => "l1, l2 or l2_squared",
            _ if alpha.is_finite() && alpha > 0.0 => return Ok(Self { similarity, ground, alpha }),
            _ => return Err(MeasureError::Alpha(alpha)),
        };
        Err(MeasureError::NotHilbert { similarity, ground, instead })
    }

    /// The similarity of two centroids.
    pub fn similarity(&self) -> Similarity {
        self.similarity
    }

    /// The ground metric under it.
    pub fn ground(&self) -> Ground {
        self.ground
    }

    /// The constant of the similarity, finite and positive.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Similarity of two centroids, summed over the dimensions in order.
    pub fn f_s(&self, a: &[f64], b: &[f64]) -> f64 {
        let differences = a.iter().zip(b).map(|(a, b)| a - b);
        let ground = match self.ground {
            Ground::L1 => differences.fold(0.0, |sum, x| sum + x.abs()),
            Ground::Linf => differences.fold(0.0, |largest: f64, x| largest.max(x.abs())),
            Ground::L2 | Ground::SquaredL2 => differences.fold(0.0, |sum, x| sum + x * x),
        };
        self.of_ground(ground)
    }

    /// Similarity at ground distance `ground`. For L2, `ground` is the squared distance: the Gaussian needs no root.
    #[inline]
    fn of_ground(&self, ground: f64) -> f64 {
        let rooted = || if self.ground == Ground::L2 { ground.sqrt() } else { ground };
        match self.similarity {
            Similarity::Gaussian => exp(-self.alpha * ground),
            Similarity::Heuristic => 1.0 / (self.alpha + rooted()),
            Similarity::Minus => -rooted(),
        }
    }

    /// Largest distance of two signatures whose weights sum to 1. `None` for `minus`, whose distances have no bound.
    pub fn distance_max(&self) -> Option<f64> {
        match self.similarity {
            Similarity::Gaussian => Some(2f64.sqrt()),
            Similarity::Heuristic => Some((2.0 / self.alpha).sqrt()),
            Similarity::Minus => None,
        }
    }
}

impl fmt::Display for Similarity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Gaussian => "gaussian",
            Self::Heuristic => "heuristic",
            Self::Minus => "minus",
        })
    }
}

impl FromStr for Similarity {
    type Err = MeasureError;

    fn from_str(name: &str) -> Result<Self, MeasureError> {
        [Self::Gaussian, Self::Heuristic, Self::Minus]
            .into_iter()
            .find(|similarity| similarity.to_string() == name)
            .ok_or_else(|| MeasureError::UnknownSimilarity(name.to_owned()))
    }
}

impl fmt::Display for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::L1 => "l1",
            Self::L2 => "l2",
            Self::Linf => "linf",
            Self::SquaredL2 => "l2_squared",
        })
    }
}

impl FromStr for Ground {
    type Err = MeasureError;

    fn from_str(name: &str) -> Result<Self, MeasureError> {
        [Self::L1, Self::L2, Self::Linf, Self::SquaredL2]
            .into_iter()
            .find(|ground| ground.to_string() == name)
            .ok_or_else(|| MeasureError::UnknownGround(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIMILARITIES: [Similarity; 3] = [Similarity::Gaussian, Similarity::Heuristic, Similarity::Minus];
    const GROUNDS: [Ground; 4] = [Ground::L1, Ground::L2, Ground::Linf, Ground::SquaredL2];

    #[test]
    fn only_hilbert_distances_are_accepted() {
        for similarity in SIMILARITIES {
            for ground in GROUNDS {
                let hilbert = match similarity {
                    Similarity::Gaussian => ground == Ground::L2,
                    _ => ground != Ground::Linf,
                };
                let measure = Measure::new(similarity, ground, 0.2);
                assert_eq!(measure.is_ok(), hilbert, "{similarity} over {ground}");
                if let Err(error) = measure {
                    assert!(error.to_string().contains("use l"), "{error}");
                }
            }
        }
    }

    #[test]
    fn alpha_must_be_finite_and_positive() {
        for alpha in [0.0, -1.0, f64::INFINITY, f64::NAN] {
            let error = Measure::new(Similarity::Gaussian, Ground::L2, alpha).unwrap_err();
            assert!(error.to_string().contains("above 0"), "{error}");
        }
    }

    #[test]
    fn names_are_read_back() {
        for similarity in SIMILARITIES {
            assert_eq!(similarity.to_string().parse::<Similarity>(), Ok(similarity));
        }
        for ground in GROUNDS {
            assert_eq!(ground.to_string().parse::<Ground>(), Ok(ground));
        }
        assert!("cosine".parse::<Similarity>().unwrap_err().to_string().contains("gaussian"));
        assert!("cosine".parse::<Ground>().unwrap_err().to_string().contains("l2_squared"));
    }

    #[test]
    fn similarities_of_a_known_pair() {
        let (a, b) = ([0.0, 0.0], [3.0, 4.0]);
        let check = |similarity, ground, expected: f64| {
            let measure = Measure::new(similarity, ground, 0.5).unwrap();
            let found = measure.f_s(&a, &b);
            assert!((found - expected).abs() < 1e-15, "{similarity} over {ground}: {found}, not {expected}");
        };
        check(Similarity::Gaussian, Ground::L2, (-12.5f64).exp());
        check(Similarity::Heuristic, Ground::L1, 1.0 / 7.5);
        check(Similarity::Heuristic, Ground::L2, 1.0 / 5.5);
        check(Similarity::Heuristic, Ground::SquaredL2, 1.0 / 25.5);
        check(Similarity::Minus, Ground::L1, -7.0);
        check(Similarity::Minus, Ground::L2, -5.0);
        check(Similarity::Minus, Ground::SquaredL2, -25.0);
    }

    #[test]
    fn largest_distances() {
        let largest = |similarity| Measure::new(similarity, Ground::L2, 0.5).unwrap().distance_max();
        assert_eq!(largest(Similarity::Gaussian), Some(2f64.sqrt()));
        assert_eq!(largest(Similarity::Heuristic), Some(2.0));
        assert_eq!(largest(Similarity::Minus), None);
    }
}
