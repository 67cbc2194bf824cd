//! `pivot_table`: an index that a pipeline names.

use std::sync::Arc;

use boxwork_runtime::operator::{Bind, BoxError, Resource, ResourceSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::PivotTable;

/// The distances of a store's objects to pivots, read once and shared by requests as [`PivotTable`].
pub static PIVOT_TABLE: ResourceSpec = ResourceSpec {
    name: "pivot_table",
    about: "The distances of a store's objects to a few of them, made by `boxwork index`.",
    parameters: &[
        Parameter::new("path", ParameterType::Path, Default::Required, "the `*.pivots.arrow` file"),
        Parameter::new(
            "space",
            ParameterType::Resource("sqfd_space"),
            Default::Required,
            "the space that is searched: of the store and the measure that the index was made for",
        ),
    ],
    example: "table: {kind: pivot_table, path: photos.pivots.arrow, space: space}",
    check: None,
    load,
};

fn load(bind: &Bind<'_>) -> Result<Resource, BoxError> {
    Ok(Arc::new(PivotTable::open(bind.path("path"), bind.resource("space")?)?))
}
