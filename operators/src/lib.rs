//! The operators that Boxwork ships: one file an operator, and the list that names them all.
//!
//! Adding one is a file with its tests, and a line in [`catalog`].

pub mod domain;
