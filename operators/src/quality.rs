//! How good the order of a store is.

pub(crate) mod all_pairs;
pub(crate) mod query_blocks;
pub(crate) mod class_pairs;
pub(crate) mod pair_distances;
pub(crate) mod evaluate;

use boxwork_runtime::operator::OperatorSpec;

/// The operators of this folder, in the order in which data meets them.
pub(crate) static LIST: &[&OperatorSpec] =
    &[&all_pairs::ALL_PAIRS, &class_pairs::CLASS_PAIRS, &pair_distances::PAIR_DISTANCES, &evaluate::EVALUATE];
