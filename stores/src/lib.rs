//! Objects, their files, their distances and their indexes.
//!
//! Modules are in reading order and import only modules above them. This crate knows no box, no slot and no scheduler.

mod number;
pub mod signature;
mod arrow_file;
pub mod foreign_arrow;
pub mod limits;
mod steps;
pub mod json_lines;
pub mod store_error;
pub mod store;
pub mod subset;
pub mod kinds;
pub mod vector_file;
pub mod sample_file;
pub mod object_store;
pub mod signature_store;
pub mod any_kind;
pub mod object_column;
pub mod chunks;
mod space_error;
pub mod sqfd_space;
pub mod space;
pub mod spaces;
mod packed_file;
pub mod gp_model;
pub mod pivot_table;
pub mod sketch;
pub mod permutations;
pub mod lists;
pub mod hnsw;
pub mod vector_codes;
pub mod upkeep;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub(crate) use number::limit;
pub use number::new_number;
