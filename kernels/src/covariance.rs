//! Covariances of points as functions of their coordinates, with derivatives by the logarithms of their parameters.
//!
//! An [`Expression`] is a sum and product of base covariances, read from a text such as
//! `1.0 * rbf(l=[1, 2]) + periodic(p=7) * matern32() + white(0.1)`. [`Expression::column`] computes the covariances of many points
//! with one, [`Expression::add_gradient`] their weighted derivatives. [`mod@reference`] has the formulas, entry by entry.
//!
//! With u_d = (x_d - x'_d)^2 / l_d^2, r^2 the sum of all u_d and t_d = x_d - x'_d (Rasmussen and Williams 2006, chapter 4):
//!
//! | form | covariance | derivative by ln l_d |
//! |---|---|---|
//! | `rbf(l)` | exp(-r^2/2) | k u_d |
//! | `matern12(l)` | exp(-r) | k u_d / r, 0 at r = 0 |
//! | `matern32(l)` | (1 + a) exp(-a), a = sqrt(3) r | 3 u_d exp(-a) |
//! | `matern52(l)` | (1 + a + a^2/3) exp(-a), a = sqrt(5) r | (5/3) u_d (1 + a) exp(-a) |
//! | `rational_quadratic(l, c)` | B^-c, B = 1 + r^2/(2c) | u_d B^(-c-1); by ln c: k (r^2/(2B) - c ln B) |
//! | `periodic(p, l)` | exp(-2 sum sin^2(pi t_d/p_d)/l_d^2) | 4 k sin^2(pi t_d/p_d)/l_d^2; by ln p_d: k (2 pi t_d/(p_d l_d^2)) sin(2 pi t_d/p_d) |
//! | `linear(v)`, `constant(v)`, a number | v x.x', v | the derivative by ln v is k |
//! | `white(v)` | v for the same sample, else 0 | the same |
//!
//! Each form takes `v`, a variance by which it is multiplied.

mod expression;
mod parse;
mod points;
mod exponential;
mod values;
mod evaluate;
mod slopes;
mod device;
pub mod reference;

#[cfg(test)]
mod tests;

pub use expression::{Expression, Form, Parameter};
pub use parse::CovarianceError;
pub use points::Points;
pub use values::Scratch;
