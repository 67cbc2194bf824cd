//! The algorithms of Boxwork: extraction of signatures, distances, bounds, metric
//! indexes, regression by Gaussian processes, factorisation by tiles, removal of noise, and measures of quality.
//!
//! Each algorithm has a plain reference, which defines its result, and fast twins for vector units and OpenCL devices.
//! Tests hold the twins to the reference, to the bit or within an error that the twin declares.
//!
//! This crate knows no thread, no envelope, no file and no OpenCL call. Kernel texts (`*.cl`) are strings that the caller
//! compiles.

mod elementary;
mod path;
mod bits;
mod lanes;
pub mod memory;
pub mod chance;
pub mod interrupt;
pub mod extract;
pub mod similarity;
pub mod sqfd;
pub mod sketch;
pub mod lower_bound;
pub mod selection;
pub mod k_select;
mod numbers;
pub mod pieces;
pub mod distance;
pub mod panels;
pub mod vector;
pub mod kmeans;
pub mod product;
pub mod rotation;
pub mod directions;
pub mod codes;
pub mod neighbours;
pub mod permutation;
pub mod covariance;
pub mod cholesky;
pub mod gaussian_process;
pub mod metric_index;
pub mod quality;
pub mod denoise;

pub use path::CodePath;
