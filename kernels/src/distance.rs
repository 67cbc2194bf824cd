//! Distances of objects of any kind, each with what may be concluded from it.
//!
//! A [`Distance`] says of itself which inequalities it obeys ([`Properties`]): a bound of an index is sound only for a
//! distance that obeys the inequality it rests on, and [`Properties::allow`] refuses it elsewhere, by name and with
//! the reason. It also says how far what it computes may lie from the distance of the real numbers ([`Slack`]): what an
//! index proves holds for those.
//!
//! Invariants: a distance of the same two objects has the same bits on every machine and in either order; objects that
//! have passed [`Distance::check`] are at a finite distance that is not negative.
//!
//! Modules in reading order: `slack`, then a distance each, then `tests`, which holds each to what it declares.

mod slack;
mod lp;
mod hausdorff;
mod emd;
mod levenshtein;
mod jaccard;
mod root;

#[cfg(test)]
mod tests;

use std::fmt;

use thiserror::Error;

pub use emd::Emd;
pub use hausdorff::Hausdorff;
pub use jaccard::Jaccard;
pub use levenshtein::{Levenshtein, Pattern};
pub use lp::Lp;
pub use root::Root;
pub use slack::Slack;

use crate::lower_bound::Bound;

/// A distance over objects of one kind.
pub trait Distance: Send + Sync {
    /// What it compares, borrowed.
    type Object<'a>: Copy;

    /// What may be concluded from it.
    fn properties(&self) -> Properties;

    /// How far a computed distance may lie from that of the real numbers, for objects of at most so many numbers (of a
    /// vector, of a centroid), any two of which are at most `extent` apart by the ground distance where there is one.
    fn slack(&self, dimensions: usize, extent: f64) -> Slack;

    /// Whether distances of an object are distances.
    ///
    /// # Errors
    /// What is wrong with it: a number that is not finite, say.
    fn check(&self, object: Self::Object<'_>) -> Result<(), DistanceError>;

    /// The distance of two objects that have passed [`Distance::check`], by the fast path.
    ///
    /// # Panics
    /// When the objects are of different dimensions.
    fn distance(&self, a: Self::Object<'_>, b: Self::Object<'_>) -> f64;

    /// The same as the definition says it, to test the fast path by.
    ///
    /// # Panics
    /// As [`Distance::distance`].
    fn reference(&self, a: Self::Object<'_>, b: Self::Object<'_>) -> f64;
}

/// The inequalities that a distance obeys. All distances here are symmetric, and 0 for an object and itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties {
    /// What it is called in messages.
    pub name: &'static str,
    /// The triangle inequality.
    pub metric: bool,
    /// Ptolemy's inequality, over every four objects.
    pub ptolemaic: bool,
    /// Every four objects lie in a Euclidean space at these distances: the four-point property of supermetrics.
    pub four_point: bool,
    /// Any number of objects do: a Hilbert distance, which the simplex of many pivots needs.
    pub hilbert: bool,
    /// Its square root is a Hilbert distance.
    pub negative_type: bool,
}

impl Properties {
    /// Of a metric that obeys nothing more.
    pub const fn metric(name: &'static str) -> Self {
        let no = false;
        Self { name, metric: true, ptolemaic: no, four_point: no, hilbert: no, negative_type: no }
    }

    /// Of a Hilbert distance, which obeys everything.
    pub const fn hilbert(name: &'static str) -> Self {
        Self { name, metric: true, ptolemaic: true, four_point: true, hilbert: true, negative_type: true }
    }

    /// Whether a bound may be used: `Ok` when no answer can be lost.
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
            false => Err(Unsound { bound, distance: self.name, needs, instead: self.tightest() }),
        }
    }

    /// The tightest bound that is sound, or nothing where none is.
    pub fn tightest(&self) -> Option<Bound> {
        let [triangular, _, combined, simplex] = Bound::ALL;
        let sound =
            [(self.hilbert, simplex), (self.ptolemaic && self.metric, combined), (self.metric, triangular)];
        sound.into_iter().find(|(obeyed, _)| *obeyed).map(|(_, bound)| bound)
    }
}

/// What a bound rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// The triangle inequality.
    Triangle,
    /// Ptolemy's inequality.
    Ptolemy,
    /// That all objects lie in one Hilbert space.
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

/// A bound that could lose answers of a distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsound {
    /// The bound asked for.
    pub bound: Bound,
    /// The distance.
    pub distance: &'static str,
    /// What the distance lacks.
    pub needs: Needs,
    /// The tightest bound that is sound.
    pub instead: Option<Bound>,
}

impl std::error::Error for Unsound {}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bound, distance, needs, instead } = self;
        write!(f, "{distance} {needs}, so the {bound} bound could lose results; use ")?;
        match instead {
            Some(instead) => write!(f, "{instead}"),
            None => f.write_str("no bound"),
        }
    }
}

/// Why a distance, or the distances of an object, cannot be had.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum DistanceError {
    /// A number of a vector is infinite or not a number.
    #[error("number {place} is {value}: the numbers of a vector are finite")]
    NotFinite {
        /// Its place, from 0.
        place: usize,
        /// What stands there.
        value: f32,
    },
    /// The exponent of an Lp distance is below 1, or not a number.
    #[error("p is {0}: below 1 the triangle inequality does not hold, so use 1 or more, or infinity")]
    Exponent(f64),
    /// A set is not in order, or an element stands in it twice.
    #[error("element {place} of the set does not follow the one before it: elements ascend, each once")]
    NotASet {
        /// Its place, from 0.
        place: usize,
    },
    /// A signature without a centroid.
    #[error("the signature has no centroid: leave the object out, or give it one")]
    Empty,
    /// A weight is 0, negative, infinite or not a number.
    #[error("weight {place} is {value}: weights are finite and above 0")]
    Weight {
        /// Its place, from 0.
        place: usize,
        /// What stands there.
        value: f32,
    },
    /// The weights have another sum than all others have.
    #[error(
        "the weights sum to {0}, not 1: the earth mover's distance is a metric only among signatures of one sum, so \
         divide each weight by their sum"
    )]
    WeightSum(f64),
    /// More centroids than a distance that compares each with each can take.
    #[error(
        "the signature has {centroids} centroids, and the earth mover's distance takes {most}, as it holds the distance \
         of each to each: extract smaller signatures, or use another distance"
    )]
    TooManyCentroids {
        /// Those of the signature.
        centroids: usize,
        /// The most.
        most: usize,
    },
    /// A long text of many different letters.
    #[error(
        "the text has {letters} letters, {different} of them different, and takes {} MiB to compare, more than {} MiB: \
         compare parts of it",
        bytes >> 20,
        most >> 20
    )]
    TooManyLetters {
        /// All letters.
        letters: usize,
        /// Different ones.
        different: usize,
        /// What comparing it takes.
        bytes: usize,
        /// The most.
        most: usize,
    },
}
