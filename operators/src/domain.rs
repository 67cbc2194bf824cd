//! The types that operators share: signatures, the store that holds them, the columns that boxes exchange.
//!
//! Modules in reading order; nothing here knows a port or a scheduler.

pub mod signature;
pub mod columns;
mod arrow_file;
pub(crate) mod steps;
pub mod signature_store;
pub(crate) mod chunks;
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

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that nothing else of this process has, or had: what lies on a device is known by it.
pub(crate) fn new_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
