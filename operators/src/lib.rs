//! The operators that Boxwork ships: one file an operator, in folders by domain, and a list a folder.
//!
//! Adding one is a file with its tests, and a line in the list of its folder.

pub mod columns;
mod random;
mod devices;
mod images;
mod records;
mod search;
mod auto;
mod index;
mod quality;
mod results;
pub mod faults;

pub use auto::cost_model;
pub use devices::device_kernels;
pub use images::{decode, extract, extract_on_devices};
pub use records::{read_jsonl, read_store, write_jsonl, write_store};

use boxwork_runtime::operator::Catalog;

/// All operators and kinds of resource that Boxwork ships, in the order in which data meets them.
pub fn catalog() -> Catalog {
    let operators = [images::LIST, records::LIST, search::LIST, index::LIST, quality::LIST, results::LIST];
    Catalog::new(
        operators.concat(),
        [
            &boxwork_stores::signature_store::SIGNATURE_STORE,
            &boxwork_stores::sqfd_space::SQFD_SPACE,
            &boxwork_stores::pivot_table::PIVOT_TABLE,
            &boxwork_stores::object_column::OBJECT_COLUMN,
            &boxwork_stores::metric_space::METRIC_SPACE,
            &boxwork_stores::metric_pivots::METRIC_PIVOTS,
        ],
    )
}
