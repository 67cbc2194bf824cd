//! The operators that Boxwork ships: one file an operator, and the list that names them all.
//!
//! Adding one is a file with its tests, and a line in [`catalog`].

pub mod domain;

pub mod list_files;
pub mod read_files;
pub mod decode;
pub mod extract;
pub mod extract_on_devices;
mod queries;
pub mod read_query;
pub mod scan;
pub mod select_pivots;
pub mod lower_bounds;
pub mod prefilter;
pub mod head;
pub mod rest;
pub mod sqfd;
pub mod sqfd_exact;
pub mod sqfd_exact_on_devices;
pub mod write_pivots;
pub mod read_jsonl;
pub mod write_store;
pub mod append_store;
mod random;
pub mod mix_signatures;
pub mod read_store;
pub mod write_jsonl;
pub mod merge;
pub mod filter_range;
pub mod top_k;
mod results;
pub mod table;
pub mod json;
pub mod csv;
pub mod html;
pub mod all_pairs;
pub mod sqfd_pairs;
pub mod evaluate;
mod metric_search;
pub mod read_objects;
pub mod metric_bounds;
pub mod metric_distance;
pub mod metric_top_k;
pub mod aesa;
pub mod laesa;
pub mod list_of_clusters;
pub mod m_tree;
pub mod pm_tree;
pub mod m_index;
pub mod metric_results;
pub mod faults;
#[cfg(test)]
mod testing;

use boxwork_runtime::operator::Catalog;

/// All operators and kinds of resource that Boxwork ships, in the order in which data meets them.
pub fn catalog() -> Catalog {
    Catalog::new(
        [
            &list_files::LIST_FILES,
            &read_files::READ_FILES,
            &decode::DECODE,
            &extract::EXTRACT,
            &extract_on_devices::EXTRACT_ON_DEVICES,
            &read_jsonl::READ_JSONL,
            &write_store::WRITE_STORE,
            &append_store::APPEND_STORE,
            &mix_signatures::MIX_SIGNATURES,
            &read_store::READ_STORE,
            &write_jsonl::WRITE_JSONL,
            &read_query::READ_QUERY,
            &scan::SCAN,
            &select_pivots::SELECT_PIVOTS,
            &lower_bounds::LOWER_BOUNDS,
            &prefilter::PREFILTER,
            &head::HEAD,
            &rest::REST,
            &sqfd::SQFD,
            &sqfd_exact::SQFD_EXACT,
            &sqfd_exact_on_devices::SQFD_EXACT_ON_DEVICES,
            &write_pivots::WRITE_PIVOTS,
            &merge::MERGE,
            &filter_range::FILTER_RANGE,
            &top_k::TOP_K,
            &table::TABLE,
            &json::JSON,
            &csv::CSV,
            &html::HTML,
            &all_pairs::ALL_PAIRS,
            &sqfd_pairs::SQFD_PAIRS,
            &evaluate::EVALUATE,
            &read_objects::READ_OBJECTS,
            &metric_bounds::METRIC_BOUNDS,
            &metric_distance::METRIC_DISTANCE,
            &metric_top_k::METRIC_TOP_K,
            &aesa::AESA,
            &laesa::LAESA,
            &list_of_clusters::LIST_OF_CLUSTERS,
            &m_tree::M_TREE,
            &pm_tree::PM_TREE,
            &m_index::M_INDEX,
            &metric_results::METRIC_RESULTS,
        ],
        [
            &domain::signature_store::SIGNATURE_STORE,
            &domain::space::SQFD_SPACE,
            &domain::pivot_table::PIVOT_TABLE,
            &domain::object_column::OBJECT_COLUMN,
            &domain::metric_space::METRIC_SPACE,
            &domain::metric_pivots::METRIC_PIVOTS,
        ],
    )
}
