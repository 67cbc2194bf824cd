//! `lists`: vectors in lists that a pipeline names.

use std::path::Path;
use std::sync::Arc;

use boxwork_runtime::operator::{Bind, BoxError, Resource, ResourceSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::lists::Lists;

use super::SPACE;

/// The lists of a store, opened once and shared by requests as [`Lists`]; the runtime says whether files may be mapped.
pub(crate) static LISTS: ResourceSpec = ResourceSpec {
    name: "lists",
    about: "The vectors of a store in lists, from `boxwork lists`.",
    parameters: &[
        Parameter::new("path", ParameterType::Path, Default::Required, "the `*.lists.arrow` file"),
        SPACE,
    ],
    example: "lists: {kind: lists, path: vectors.lists.arrow, space: space}",
    provides: None,
    check: None,
    load,
};

fn load(bind: &Bind<'_>) -> Result<Resource, BoxError> {
    Ok(Arc::new(Lists::open_by(
        Path::new(bind.text("path")),
        &super::space(bind)?,
        super::store::access(bind),
    )?))
}
