//! The names that an operator and its command need: `use boxwork::prelude::*;`.
//!
//! It is the prelude of the runtime, which is all that a crate with an operator alone needs
//! ([`boxwork_runtime::prelude`]), with the shipped operators and their columns.

pub use boxwork_operators::{catalog, columns};
pub use boxwork_runtime::prelude::*;

pub use crate::main_with;
