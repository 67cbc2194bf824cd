//! `hnsw`: a graph of near neighbours that a pipeline names.

use std::path::Path;
use std::sync::Arc;

use boxwork_runtime::operator::{Bind, BoxError, Resource, ResourceSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::hnsw::Hnsw;

use super::SPACE;

/// The graph of a store, read once and shared by requests as [`Hnsw`].
pub(crate) static HNSW: ResourceSpec = ResourceSpec {
    name: "hnsw",
    about: "The vectors of a store in a graph of near neighbours, from `boxwork hnsw`; in builds with the feature `graph`.",
    parameters: &[
        Parameter::new("path", ParameterType::Path, Default::Required, "the `*.hnsw.arrow` file"),
        SPACE,
    ],
    example: "graph: {kind: hnsw, path: vectors.hnsw.arrow, space: space}",
    provides: None,
    check: None,
    load,
};

fn load(bind: &Bind<'_>) -> Result<Resource, BoxError> {
    // Boxes search on slots alone, so no more threads search at once.
    Ok(Arc::new(Hnsw::open(Path::new(bind.text("path")), &super::space(bind)?, bind.slots())?))
}
