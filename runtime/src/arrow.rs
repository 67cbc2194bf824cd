//! Arrow in the version that envelopes have, so that an operator's crate names none of its own.

pub use arrow_array as array;
pub use arrow_schema as schema;
