//! Tools to measure and try Boxwork: scheduling workloads, sweeps over parameters, plots, sample pictures.
//!
//! The `boxwork` command offers them as subcommands and draws with the page's functions; no operator or store needs this
//! crate, and it knows no pipeline. Modules are in reading order and import only modules above them.

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

pub use machine::{Machine, processor};
pub use page::escape_xml;
pub use processor_time::ProcessorTime;
pub use spread::Spread;
pub use turns::{Figures, Measured};
