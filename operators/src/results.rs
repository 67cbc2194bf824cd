//! Results as text, tables and pages.

pub(crate) mod looked;
pub(crate) mod sink;
pub(crate) mod rows;
pub(crate) mod table;
pub(crate) mod json;
pub(crate) mod csv;
pub(crate) mod recall;
pub(crate) mod html;
pub(crate) mod graph_path;

use boxwork_runtime::operator::OperatorSpec;

/// The operators of this folder, in the order in which data meets them.
pub(crate) static LIST: &[&OperatorSpec] =
    &[&table::TABLE, &json::JSON, &csv::CSV, &recall::RECALL, &html::HTML, &graph_path::GRAPH_PATH];
