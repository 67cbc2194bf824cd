//! Indexes and sketches: pivots and sketches that are written, and indexes made in memory.

pub(crate) mod select_pivots;
pub(crate) mod write_pivots;
pub(crate) mod sketch_basis;
pub(crate) mod sketch_objects;
pub(crate) mod sketch_apexes;
pub(crate) mod write_sketch;
pub(crate) mod metric_search;
pub(crate) mod nearest_vectors;
pub(crate) mod probe;
pub(crate) mod train_lists;
pub(crate) mod assign_lists;
pub(crate) mod write_lists;
pub(crate) mod write_hnsw;
pub(crate) mod neighbours;
pub(crate) mod aesa;
pub(crate) mod laesa;
pub(crate) mod list_of_clusters;
pub(crate) mod m_tree;
pub(crate) mod pm_tree;
pub(crate) mod m_index;
pub(crate) mod write_codes;
pub(crate) mod write_permutations;

use boxwork_runtime::operator::OperatorSpec;

/// The operators of this folder, in the order in which data meets them.
pub(crate) static LIST: &[&OperatorSpec] = &[
    &select_pivots::SELECT_PIVOTS,
    &write_pivots::WRITE_PIVOTS,
    &sketch_basis::SKETCH_BASIS,
    &sketch_objects::SKETCH_OBJECTS,
    &sketch_apexes::SKETCH_APEXES,
    &write_sketch::WRITE_SKETCH,
    &train_lists::TRAIN_LISTS,
    &assign_lists::ASSIGN_LISTS,
    &write_lists::WRITE_LISTS,
    &write_hnsw::WRITE_HNSW,
    &neighbours::NEIGHBOURS,
    &aesa::AESA,
    &laesa::LAESA,
    &list_of_clusters::LIST_OF_CLUSTERS,
    &m_tree::M_TREE,
    &pm_tree::PM_TREE,
    &m_index::M_INDEX,
    &write_codes::WRITE_CODES,
    &write_permutations::WRITE_PERMUTATIONS,
    &probe::PROBE,
    &nearest_vectors::NEAREST_VECTORS,
];
