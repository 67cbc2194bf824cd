//! The YAML front end and the `boxwork` command.
//!
//! A text becomes a document, the document a declaration, and the runtime's check turns that into a plan; every fault
//! is mapped to its line and column. Modules are in reading order and import only modules above them.

// Messages go through `terminal::say`, which cleans them.
#![warn(clippy::print_stderr)]

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
pub mod expand;
mod trace;
mod report;
pub mod metrics;
pub mod reference;
pub mod top;
pub mod engine;
pub mod serving;
pub mod terminal;
mod command;
pub mod prelude;

pub use boxwork_operators::catalog;
pub use boxwork_runtime::arrow;
pub use command::main_with;
pub use document::span::Span;
