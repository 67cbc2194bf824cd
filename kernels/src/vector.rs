//! Vectors of numbers of four types, their inner products and distances, and exact search among many of them.
//!
//! Invariants: a number of any type widens to f32 and to f64 without an error. So rows are kept as they came, and their
//! distances are those of the widened numbers.

#![expect(clippy::neg_cmp_op_on_partial_ord, reason = "a number that is no number excludes nothing")]

mod measure;
mod nearest;
mod pair;
mod flat;
pub(crate) mod integer;
mod bytes;
mod tile;
mod held;
pub(crate) mod halves;
pub mod device;
pub mod few;
pub mod exact;
pub mod generate;
#[cfg(test)]
pub(crate) mod tests;

pub use crate::numbers::{Number, NumberType, VectorRef};
pub use bytes::ByteQueries;
pub use flat::FlatQueries;
pub use measure::{VectorMeasure, inner_product};
pub use nearest::Nearest;
pub use pair::{PairValue, pair_bytes, pair_f32, pair_halves};
