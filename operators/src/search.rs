//! From queries to the nearest objects.

pub(crate) mod queries;
pub(crate) mod answers;
pub mod query_objects;
pub(crate) mod subset;
pub(crate) mod read_query;
pub(crate) mod distance;
pub(crate) mod head;
pub(crate) mod scan;
pub(crate) mod scan_lists;
pub(crate) mod hnsw_candidates;
pub mod cost_model;
pub(crate) mod lower_bounds;
pub(crate) mod permutation_candidates;
pub(crate) mod prefilter;
pub(crate) mod rest;
pub(crate) mod exact_distance;
pub(crate) mod edit_distances;
pub(crate) mod alignments;
pub(crate) mod merge;
pub(crate) mod filter_range;
pub(crate) mod top_k;
pub(crate) mod rank;
#[cfg(test)]
mod giant_signatures;

use boxwork_runtime::operator::OperatorSpec;

/// The operators of this folder, in the order in which data meets them.
pub(crate) static LIST: &[&OperatorSpec] = &[
    &read_query::READ_QUERY,
    &scan::SCAN,
    &scan_lists::SCAN_LISTS,
    &hnsw_candidates::HNSW_CANDIDATES,
    &lower_bounds::LOWER_BOUNDS,
    &prefilter::PREFILTER,
    &head::HEAD,
    &rest::REST,
    &distance::DISTANCE,
    &distance::SQFD,
    &exact_distance::EXACT_DISTANCE,
    &edit_distances::EDIT_DISTANCES,
    &alignments::ALIGNMENTS,
    &permutation_candidates::PERMUTATION_CANDIDATES,
    &merge::MERGE,
    &filter_range::FILTER_RANGE,
    &top_k::TOP_K,
    &rank::RANK,
];
