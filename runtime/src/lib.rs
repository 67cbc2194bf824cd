//! Boxes that exchange columnar envelopes, and the NUMA-aware scheduler that runs them.
//!
//! Modules are in reading order; no module imports upwards. This crate knows no image, no distance, no kernel and no
//! YAML.

#[cfg(all(not(loom), any(test, feature = "testing")))]
pub mod simulator;
pub mod arrow;
mod sync;
mod suggestion;
pub mod topology;
pub mod envelope;
mod edge;
pub mod descriptor;
pub mod parameter;
pub mod printable;
mod panic_message;
mod outside;
pub mod feeding;
pub mod inside;
pub mod operator;
#[cfg(any(test, feature = "testing"))]
pub mod harness;
pub mod plan;
pub mod prepare;
pub mod request;
mod model;
pub mod statistics;
mod config;
mod scheduler;
mod runtime;
pub mod prelude;
#[cfg(all(test, loom))]
mod loom_models;

pub use config::Config;
pub use runtime::{Request, Runtime};
