//! Distances of signatures and of other objects, indexes over them, extraction and quality numbers: an f64 or straight
//! reference of each, and vector twins.
//!
//! Pure algorithms: this crate knows no thread, no envelope and no file.

mod elementary;
mod path;
pub mod memory;
pub mod chance;
pub mod interrupt;
pub mod extract;
pub mod similarity;
pub mod sqfd;
pub mod lower_bound;
pub mod selection;
pub mod distance;
pub mod metric_index;
pub mod quality;

pub use path::CodePath;
