//! `permutation_table`: the permutations of a store that a pipeline names.

use std::path::Path;
use std::sync::Arc;

use boxwork_runtime::operator::{Bind, BoxError, Resource, ResourceSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::permutations::{Layout, Permutations};

use super::SPACE;

/// The permutations of a store, read once and shared by requests as [`Permutations`].
pub(crate) static PERMUTATION_TABLE: ResourceSpec = ResourceSpec {
    name: "permutation_table",
    about: "The nearest pivots of each object of a store, in order, from the pipeline `permutation_index`.",
    parameters: &[
        Parameter::new("path", ParameterType::Path, Default::Required, "the `*.permutations.arrow` file"),
        SPACE,
        Parameter::new(
            "layout",
            ParameterType::Choice(Layout::NAMES),
            Default::Text("auto"),
            "scan: a search compares the lists of all objects; inverted: it reads the objects of the query's pivots; auto: the faster of both. The candidates are the same",
        ),
    ],
    example: "permutations: {kind: permutation_table, path: photos.permutations.arrow, space: space}",
    provides: None,
    check: None,
    load,
};

fn load(bind: &Bind<'_>) -> Result<Resource, BoxError> {
    let cancellation = bind.cancellation();
    let cancelled = || cancellation.is_cancelled();
    let layout: Layout = bind.text("layout").parse().map_err(|error: String| BoxError::new(error))?;
    Ok(Arc::new(Permutations::open(Path::new(bind.text("path")), &super::space(bind)?, layout, &cancelled)?))
}
