//! Distances of objects of any kind.
//!
//! A [`Distance`] declares which inequalities it obeys ([`Properties`]). A bound is sound only for distances that obey the
//! inequality it rests on, and [`Properties::allow`] refuses other combinations with the reason. A distance also declares
//! its largest error against real arithmetic ([`Slack`]), because the proofs of an index hold for real numbers.
//!
//! Invariants: the distance of two objects has the same bits on every machine and in either order; objects that have passed
//! [`Distance::check`] have finite distances, which are not negative unless the distance says so ([`Properties::signed`]).
//!
//! Modules in reading order: `slack`, then one distance each, then `tests`, which checks what each distance declares.
//!
//! ```
//! use boxwork_kernels::distance::{Distance, Jaccard, Levenshtein, Lp};
//!
//! let text = |text: &str| text.chars().collect::<Vec<char>>();
//! assert_eq!(Lp::L2.distance(&[0.0, 0.0], &[3.0, 4.0]), 5.0);
//! assert_eq!(Levenshtein.distance(&text("kitten"), &text("sitting")), 3.0);
//! assert_eq!(Jaccard.distance(&[1, 2, 3], &[2, 3, 4]), 0.5);
//! ```

mod slack;
mod lp;
mod hausdorff;
mod emd;
mod levenshtein;
mod alignment;
mod jaccard;
mod root;

#[cfg(test)]
mod tests;

use std::fmt;

use thiserror::Error;

pub use alignment::device as alignments;
pub use alignment::{
    COST_MAX, CostError, Dtw, Edit, EditCosts, LetterMatrix, LocalScores, MATRIX_LETTERS_MAX, MatrixFault,
};
pub use emd::Emd;
pub use hausdorff::Hausdorff;
pub use jaccard::Jaccard;
pub use levenshtein::device as edits;
pub use levenshtein::long as long_edits;
pub use levenshtein::{
    Levenshtein, Long, PairPlanes, Pattern, TILED_LETTERS_MIN, TextBlock, TextPlanes, Tiles,
};
pub use lp::{Lp, l2_of_each, squared_l2, squared_l2_of, squared_l2_on};
pub use root::Root;
pub use slack::Slack;

use crate::lower_bound::Bound;

/// A distance of objects of one kind.
pub trait Distance: Send + Sync {
    /// The objects that it compares, borrowed.
    type Object<'a>: Copy;

    /// The inequalities that it obeys.
    fn properties(&self) -> Properties;

    /// The largest error of a computed distance against real arithmetic. `dimensions` is the most numbers of a vector or
    /// centroid, and `extent` is the largest ground distance of two centroids, if there is a ground distance.
    fn slack(&self, dimensions: usize, extent: f64) -> Slack;

    /// Checks that the object has distances.
    ///
    /// # Errors
    /// Names the fault of the object, such as a number that is not finite.
    fn check(&self, object: Self::Object<'_>) -> Result<(), DistanceError>;

    /// The distance of two objects that have passed [`Distance::check`], computed by the fast path.
    ///
    /// # Panics
    /// If the objects have different dimensions.
    fn distance(&self, a: Self::Object<'_>, b: Self::Object<'_>) -> f64;

    /// The distance by its definition, to test the fast path.
    ///
    /// # Panics
    /// As [`Distance::distance`].
    fn reference(&self, a: Self::Object<'_>, b: Self::Object<'_>) -> f64;
}

/// The inequalities that a distance obeys. All distances here are symmetric, and 0 from an object to itself unless they are
/// [`signed`](Properties::signed).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties {
    /// The name of the distance in messages.
    pub name: &'static str,
    /// Whether these are the properties of the square root of that distance.
    pub is_root: bool,
    /// The triangle inequality.
    pub metric: bool,
    /// Ptolemy's inequality, for every four objects.
    pub ptolemaic: bool,
    /// Every four objects can be put into a Euclidean space at these distances: the four-point property of supermetrics.
    pub four_point: bool,
    /// Any number of objects can: a Hilbert distance, which the simplex bound needs.
    pub hilbert: bool,
    /// The square root of the distance is a Hilbert distance.
    pub negative_type: bool,
    /// Distances may be negative. Such a distance obeys no inequality and has no root.
    pub signed: bool,
}

impl Properties {
    /// The properties of a metric that obeys no further inequality.
    pub const fn metric(name: &'static str) -> Self {
        let no = false;
        Self {
            name,
            is_root: no,
            metric: true,
            ptolemaic: no,
            four_point: no,
            hilbert: no,
            negative_type: no,
            signed: no,
        }
    }

    /// The properties of a distance that obeys no inequality.
    pub const fn none(name: &'static str) -> Self {
        Self { metric: false, ..Self::metric(name) }
    }

    /// The properties of a Hilbert distance, which obeys all of them.
    pub const fn hilbert(name: &'static str) -> Self {
        Self {
            name,
            is_root: false,
            metric: true,
            ptolemaic: true,
            four_point: true,
            hilbert: true,
            negative_type: true,
            signed: false,
        }
    }

    /// Checks that an index of pivots or of balls may exclude objects, whatever its bound: all of them rest on the triangle
    /// inequality.
    ///
    /// # Errors
    /// The inequality that the distance does not obey, and whether its root does.
    pub fn allow_index(&self) -> Result<(), NoIndex> {
        let (distance, is_root, has_root) = (self.name, self.is_root, self.negative_type);
        if self.metric { Ok(()) } else { Err(NoIndex { distance, is_root, has_root }) }
    }

    /// Checks that a bound may be used: `Ok` if it cannot lose answers.
    ///
    /// ```
    /// use boxwork_kernels::distance::{Distance, Levenshtein};
    /// use boxwork_kernels::lower_bound::Bound;
    /// assert!(Levenshtein.properties().allow(Bound::Triangular).is_ok());
    /// assert!(Levenshtein.properties().allow(Bound::Ptolemaic).is_err());
    /// ```
    ///
    /// # Errors
    /// The inequality that the distance does not obey, and a bound to use instead.
    pub fn allow(&self, bound: Bound) -> Result<(), Unsound> {
        let (obeyed, needs) = match bound {
            Bound::Triangular => (self.metric, Needs::Triangle),
            Bound::Ptolemaic => (self.ptolemaic, Needs::Ptolemy),
            Bound::Combined => (self.metric && self.ptolemaic, Needs::Ptolemy),
            Bound::Simplex => (self.hilbert, Needs::Hilbert),
        };
        match obeyed {
            true => Ok(()),
            false => {
                let (distance, is_root) = (self.name, self.is_root);
                Err(Unsound { bound, distance, is_root, needs, instead: self.tightest() })
            }
        }
    }

    /// The tightest bound that is sound, if any is.
    pub fn tightest(&self) -> Option<Bound> {
        let [triangular, _, combined, simplex] = Bound::ALL;
        let sound =
            [(self.hilbert, simplex), (self.ptolemaic && self.metric, combined), (self.metric, triangular)];
        sound.into_iter().find(|(obeyed, _)| *obeyed).map(|(_, bound)| bound)
    }
}

/// The property that a bound needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// The triangle inequality.
    Triangle,
    /// Ptolemy's inequality.
    Ptolemy,
    /// All objects lie in one Hilbert space.
    Hilbert,
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Triangle => "does not obey the triangle inequality",
            Self::Ptolemy => "does not obey Ptolemy's inequality",
            Self::Hilbert => "is no Hilbert distance",
        })
    }
}

/// A bound that could lose answers with a distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsound {
    /// The bound asked for.
    pub bound: Bound,
    /// The distance.
    pub distance: &'static str,
    /// Whether its square root was meant.
    pub is_root: bool,
    /// The property that the distance lacks.
    pub needs: Needs,
    /// The tightest bound that is sound.
    pub instead: Option<Bound>,
}

impl std::error::Error for Unsound {}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bound, distance, is_root, needs, instead } = self;
        let root = if *is_root { "the root of " } else { "" };
        write!(f, "{root}{distance} {needs}, so the {bound} bound could lose results; use ")?;
        match instead {
            Some(instead) => write!(f, "{instead}"),
            None => f.write_str("no bound"),
        }
    }
}

/// A distance for which an index of pivots or of balls could lose answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub struct NoIndex {
    /// The distance.
    pub distance: &'static str,
    /// Whether its square root was meant.
    pub is_root: bool,
    /// Whether its square root is a metric.
    pub has_root: bool,
}

impl fmt::Display for NoIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { distance, is_root, has_root } = self;
        let root = if *is_root { "the root of " } else { "" };
        write!(
            f,
            "{root}{distance} does not obey the triangle inequality, d(a, c) <= d(a, b) + d(b, c), so an index of pivots or \
             balls could lose results"
        )?;
        if *has_root { f.write_str(": take its root, which obeys it (`root: true`)") } else { Ok(()) }
    }
}

/// Why there is no such distance, or why an object has no distances.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum DistanceError {
    /// A number of a vector is infinite or NaN.
    #[error("number {place} is {value}: the numbers of a vector are finite")]
    NotFinite {
        /// Its place, from 0.
        place: usize,
        /// The number.
        value: f32,
    },
    /// The exponent of an Lp distance is below 1 or NaN.
    #[error("p is {0}: below 1 the triangle inequality does not hold, so use 1 or more, or infinity")]
    Exponent(f64),
    /// A set is not in ascending order, or contains an element twice.
    #[error("element {place} of the set does not follow the one before it: elements ascend, each once")]
    NotASet {
        /// Its place, from 0.
        place: usize,
    },
    /// A signature without a centroid.
    #[error("the signature has no centroid: leave the object out, or give it one")]
    Empty,
    /// A weight is 0, negative, infinite or NaN.
    #[error("weight {place} is {value}: weights are finite and above 0")]
    Weight {
        /// Its place, from 0.
        place: usize,
        /// The number.
        value: f32,
    },
    /// The weights do not sum to 1.
    #[error(
        "the weights sum to {0}, not 1: the earth mover's distance is a metric only among signatures of one sum, so \
         divide each weight by their sum"
    )]
    WeightSum(f64),
    /// A signature has more centroids than the distance can compare.
    #[error(
        "the signature has {centroids} centroids, and the earth mover's distance takes {most}, as it holds the distance \
         of each to each: extract smaller signatures, or use another distance"
    )]
    TooManyCentroids {
        /// The centroids of the signature.
        centroids: usize,
        /// The most.
        most: usize,
    },
    /// A text is too long for its number of different letters.
    #[error(
        "the text has {letters} letters, {different} of them different, and takes {} MiB to compare, more than {} MiB: \
         compare parts of it",
        bytes >> 20,
        most >> 20
    )]
    TooManyLetters {
        /// The number of letters.
        letters: usize,
        /// The number of different letters.
        different: usize,
        /// The memory that comparing the text takes.
        bytes: usize,
        /// The most.
        most: usize,
    },
    /// A number is so large that a sum of differences may overflow.
    #[error(
        "number {place} is {value}, and dtw takes numbers from -{most:e} to {most:e} in series of this length: divide all numbers"
    )]
    TooLarge {
        /// Its place, from 0.
        place: usize,
        /// The number.
        value: f32,
        /// The most.
        most: f32,
    },
}
