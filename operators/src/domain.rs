//! The types that operators share: signatures, the store that holds them, the columns that boxes exchange.
//!
//! Modules in reading order; nothing here knows a port or a scheduler.

pub mod signature;
pub mod columns;
mod arrow_file;
pub(crate) mod steps;
pub mod signature_store;
pub mod space;
pub mod pivot_table;
pub mod device_kernels;
pub(crate) mod code_path;
pub mod upkeep;
pub mod object_column;
pub mod metric_space;
pub mod metric_query;
pub mod metric_pivots;
pub mod cost_model;
pub(crate) mod json_lines;
