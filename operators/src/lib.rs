//! The operators that Boxwork ships: one file per operator, in folders by domain, with one list per folder.
//!
//! To add an operator, write a file with its tests and a line in its folder's list.

pub mod columns;
mod pieces;
mod envelopes;
mod resources;
mod devices;
mod images;
mod records;
mod search;
mod index;
mod results;
mod quality;
mod pictures;
mod feedback;
pub mod cholesky;
mod regression;
pub mod faults;

pub use devices::{device_kernels, factor, pass_block};
pub use images::list_files::list_images;
pub use images::{beneath, decode, extract};
pub use pictures::{decode_picture, denoise};
pub use records::{read_arrow, read_jsonl, read_store, read_vectors, write_jsonl, write_store};
pub use resources::gp_kernel::feedback_mode;
pub use resources::space::options as distance_options;
pub use resources::store::open as open_store;
pub use search::cost_model;
pub use search::query_objects::{Asked, query_objects};

use boxwork_runtime::operator::Catalog;

/// All operators and resources that Boxwork ships, in the order of a search.
pub fn catalog() -> Catalog {
    let operators = [
        images::LIST,
        records::LIST,
        search::LIST,
        index::LIST,
        quality::LIST,
        pictures::LIST,
        feedback::LIST,
        cholesky::LIST,
        regression::LIST,
        results::LIST,
    ];
    Catalog::new(operators.concat(), resources::LIST.iter().copied()).with_renamed(RENAMED)
}

/// Former names, and their replacements.
const RENAMED: &[(&str, &str)] = &[
    ("extract_on_devices", "extract with `device:`"),
    ("metric_bounds", "lower_bounds"),
    ("metric_distance", "distance"),
    ("metric_top_k", "top_k"),
    ("metric_results", "table, json or csv"),
    ("read_objects", "read_query"),
    ("sqfd_exact", "exact_distance"),
    ("sqfd_exact_on_devices", "exact_distance with `device:`"),
    ("sqfd_pairs", "pair_distances"),
    ("object_column", "store"),
    ("metric_space", "space"),
    ("metric_pivots", "pivot_table without `path:`"),
    ("read_jsonl.signatures", "objects"),
    ("write_store.signatures", "objects"),
    ("append_store.signatures", "objects"),
    ("read_store.signatures", "objects"),
    ("write_jsonl.signatures", "objects"),
];
