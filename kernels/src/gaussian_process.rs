//! Gaussian process regression over objects of which only distances are known, and the choice of the next objects to show.
//!
//! A [`Covariance`] turns a distance into a covariance. A [`Model`] holds scores of marked objects and the Cholesky factor of
//! their covariances; it changes one mark at a time. A [`Posterior`] holds the mean and the variance of many objects under a
//! model, and [`Posterior::pick`] chooses among them by an upper confidence bound.
//!
//! Invariants: all arithmetic is f64 in one order of summation, which no blocking changes. A model after any order of
//! changes has the bits of a model that was fitted anew, and a pick depends on no thread, machine or code path.
//!
//! ```
//! use boxwork_kernels::gaussian_process::{Covariance, Form, MARK_NOISE, Model, Posterior};
//!
//! // Objects on a line; the one at 0 is liked, the one at 5 is not.
//! let (places, marked) = ([0.0, 1.0, 4.0, 9.0], [(0.0f64, 1.0), (5.0, 0.0)]);
//! let covariance = Covariance::new(Form::InverseMultiquadric, 1.0);
//! let to = |from: f64| places.map(|place| covariance.of((place - from).abs()));
//! let mut model = Model::new();
//! let mut posterior = Posterior::new(places.len());
//! for (idx, (place, score)) in marked.into_iter().enumerate() {
//!     let earlier: Vec<f64> = marked[..idx].iter().map(|other| covariance.of((place - other.0).abs())).collect();
//!     model.push(&earlier, score, MARK_NOISE);
//!     posterior.push(model.factor_row(idx), &to(place));
//! }
//! posterior.set_means(&model.weights(), |mark| to(marked[mark].0));
//! assert_eq!(posterior.pick(0.25, |_| true), Some(0));
//! ```
//!
//! A [`Regression`] is fitted to samples: points with targets, under a covariance of points
//! ([`Expression`](crate::covariance::Expression)). Its factor is the same [`Cholesky`], made by tiles for a batch and by rows for appended samples; [`optimise`]
//! finds the parameters of the greatest likelihood.
//!
//! Modules in reading order: `covariance`, `cholesky`, `model`, `device`, `precision`, `triangle`, `factor_tiles`, `fitting`, `refinement`, `regression`, `predict`, `optimise`, `select`, `pass` (a bound for every object of a large store), `l1`
//! (columns over long vectors).

mod covariance;
mod cholesky;
mod model;
mod device;
mod precision;
mod triangle;
mod factor_tiles;
mod fitting;
mod refinement;
mod regression;
mod predict;
mod optimise;
mod score;
mod select;
pub mod pass;
pub mod l1;

#[cfg(test)]
mod precision_tests;
#[cfg(test)]
mod regression_tests;
#[cfg(test)]
mod tests;

pub use cholesky::{Cholesky, PIVOT_SQUARED_MIN};
pub use covariance::{Covariance, Form, Needs, Unfit};
pub use device::{FactorDevice, Made, Outcome, Sloped, SlopedOutcome, Stopped, Wanted};
pub use factor_tiles::{inverse_of_diagonal_tile, tile_of_rows};
pub use fitting::{TILE, ThisThread, Threads};
pub use model::Model;
pub use optimise::{Optimised, RESTARTS_MAX, likelihood, optimise};
pub use precision::{Precision, Solved};
pub use predict::{BLOCK, NegativeVariance, Predicted, Predictor, Sums, predict, predict_by};
pub use regression::{CONDITION_MAX, CONDITION_MAX_SINGLE, FitError, Jitter, Regression, Settings};
pub use score::{Score, half_width};
pub use select::Posterior;

/// The variance of the noise of a judgement.
pub const MARK_NOISE: f64 = 0.1;
/// The variance of the noise of an object that was shown and not judged.
pub const WEAK_NOISE: f64 = 1.0;
/// The most marks of a model: a fit from nothing takes some hundred milliseconds.
pub const MARKS_MAX: usize = 1000;
