//! Tools to measure and try Boxwork: scheduling workloads, sweeps over parameters, plots, sample pictures.
//!
//! The `boxwork` command offers them as subcommands; nothing else of the product needs this crate, and it knows no
//! pipeline. Modules in reading order; nothing imports upwards.

pub mod sample_images;
mod number;
mod spread;
mod processor_time;
mod machine;
mod turns;
mod page;
mod plot;
pub mod bench;
pub mod experiment;
pub mod report;

pub use machine::Machine;
pub use processor_time::ProcessorTime;
pub use spread::Spread;
pub use turns::{Figures, Measured};
