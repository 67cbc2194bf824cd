//! The YAML front end and the `boxwork` command.
//!
//! A text becomes a document, the document a declaration, and the runtime's check of it a plan; every fault comes
//! back to its line and column. Modules in reading order; nothing imports upwards.

mod document;
mod compile;
pub mod diagnostic;
pub mod pipeline;
pub mod given;
mod numbers;
pub mod run_report;
pub mod drawing;
pub mod catalogue;
pub mod schema;
pub mod explain;
pub mod estimate;
pub mod topology_page;
pub mod shipped;
mod trace;
mod report;
pub mod metrics;
pub mod top;
pub mod engine;
pub mod terminal;
mod command;

pub use command::main_with;
pub use document::span::Span;
