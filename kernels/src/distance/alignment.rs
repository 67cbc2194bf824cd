//! Distances of sequences by their cheapest alignment, where the costs of edits are not 1.
//!
//! Each is a table of numbers: a cell follows from its neighbours above, to the left, and between them. Modules compute
//! the table of a long pair, in stripes or column by column with a profile of letters, and the tables of a text and many others abreast, in
//! numbers of 16 bits as long as all of the table fit.
//!
//! Modules in reading order: `matrix`, `stripes`, `profile`, `abreast`, `letters`, `compare`, then one distance each, then `device`.

mod matrix;
mod stripes;
mod profile;
mod abreast;
mod letters;
mod compare;
mod edit;
mod local;
mod warping;
pub mod device;

#[cfg(test)]
mod tests;

pub use edit::{COST_MAX, CostError, Edit, EditCosts};
pub use local::LocalScores;
pub use matrix::{LetterMatrix, MATRIX_LETTERS_MAX, MatrixFault};
pub use warping::Dtw;
