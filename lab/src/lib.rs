//! Scheduling workloads and sample pictures: what Boxwork is measured and tried with.
//!
//! The `boxwork` command offers them as subcommands; nothing else of the product needs this crate, and it knows no
//! YAML. Modules in reading order; nothing imports upwards.

pub mod sample_images;
pub mod page;
pub mod bench;
