//! Objects into stores and out of them.

pub mod read_jsonl;
pub mod write_store;
pub(crate) mod append_store;
pub(crate) mod mix_signatures;
pub mod read_store;
pub mod write_jsonl;
pub mod write_arrow;
pub mod read_arrow;

use boxwork_runtime::operator::OperatorSpec;

/// The operators of this folder, in the order in which data meets them.
pub(crate) static LIST: &[&OperatorSpec] = &[
    &read_jsonl::READ_JSONL,
    &write_store::WRITE_STORE,
    &append_store::APPEND_STORE,
    &mix_signatures::MIX_SIGNATURES,
    &read_store::READ_STORE,
    &write_jsonl::WRITE_JSONL,
    &read_arrow::READ_ARROW,
    &write_arrow::WRITE_ARROW,
];
