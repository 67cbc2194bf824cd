//! The operators that Boxwork ships: one file an operator, and the list that names them all.
//!
//! Adding one is a file with its tests, and a line in [`catalog`].

pub mod domain;

pub mod read_jsonl;
pub mod write_store;
pub mod read_store;
pub mod write_jsonl;

use boxwork_runtime::operator::Catalog;

/// All operators and kinds of resource that Boxwork ships, in the order in which data meets them.
pub fn catalog() -> Catalog {
    Catalog::new(
        [
            &read_jsonl::READ_JSONL,
            &write_store::WRITE_STORE,
            &read_store::READ_STORE,
            &write_jsonl::WRITE_JSONL,
        ],
        [&domain::signature_store::SIGNATURE_STORE, &domain::space::SQFD_SPACE],
    )
}
