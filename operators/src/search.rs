//! From queries to the nearest objects.

pub(crate) mod queries;
pub(crate) mod read_query;
pub(crate) mod scan;
pub(crate) mod lower_bounds;
pub(crate) mod prefilter;
pub(crate) mod head;
pub(crate) mod rest;
pub(crate) mod sqfd;
pub(crate) mod sqfd_exact;
pub(crate) mod sqfd_exact_on_devices;
pub(crate) mod merge;
pub(crate) mod filter_range;
pub(crate) mod top_k;
pub(crate) mod read_objects;
pub(crate) mod metric_bounds;
pub(crate) mod metric_distance;
pub(crate) mod metric_top_k;

use boxwork_runtime::operator::OperatorSpec;

/// The operators of this folder, in the order in which data meets them.
pub(crate) static LIST: &[&OperatorSpec] = &[
    &read_query::READ_QUERY,
    &scan::SCAN,
    &lower_bounds::LOWER_BOUNDS,
    &prefilter::PREFILTER,
    &head::HEAD,
    &rest::REST,
    &sqfd::SQFD,
    &sqfd_exact::SQFD_EXACT,
    &sqfd_exact_on_devices::SQFD_EXACT_ON_DEVICES,
    &merge::MERGE,
    &filter_range::FILTER_RANGE,
    &top_k::TOP_K,
    &read_objects::READ_OBJECTS,
    &metric_bounds::METRIC_BOUNDS,
    &metric_distance::METRIC_DISTANCE,
    &metric_top_k::METRIC_TOP_K,
];
