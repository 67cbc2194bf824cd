//! `pivot_table`: an index that a pipeline names.

use std::path::Path;
use std::sync::Arc;

use boxwork_kernels::lower_bound::PIVOTS_MAX;
use boxwork_runtime::operator::{Bind, BoxError, Resource, ResourceSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::pivot_table::PivotTable;

/// The distances of a store's objects to pivots, read or computed once and shared by requests as [`PivotTable`].
pub(crate) static PIVOT_TABLE: ResourceSpec = ResourceSpec {
    name: "pivot_table",
    about: "The distances of a store's objects to a few pivots: an index from `boxwork index`, or computed in memory.",
    parameters: &[
        Parameter::new(
            "path",
            ParameterType::Path,
            Default::Absent,
            "the `*.pivots.arrow` file; without it the table is computed when the pipeline is prepared",
        ),
        Parameter::new(
            "space",
            ParameterType::Resource("space"),
            Default::Required,
            "the space to search: the store and measure for which the index was made",
        ),
        Parameter::new(
            "count",
            ParameterType::Integer { minimum: 1, maximum: PIVOTS_MAX as i64 },
            Default::Integer(16),
            "pivots of a computed table; fewer if there are fewer different objects",
        )
        .unit("objects"),
        Parameter::new(
            "seed",
            ParameterType::integer_from(0),
            Default::Integer(1),
            "the seed for choosing them",
        ),
    ],
    example: "table: {kind: pivot_table, path: photos.pivots.arrow, space: space}",
    provides: None,
    check: None,
    load,
};

fn load(bind: &Bind<'_>) -> Result<Resource, BoxError> {
    let space = super::index_space(bind)?;
    let table = match bind.get_text("path") {
        Some(path) => PivotTable::open(Path::new(path), space)?,
        None => {
            let cancellation = bind.cancellation();
            let cancelled = || cancellation.is_cancelled();
            PivotTable::of_space(space, bind.count("count"), bind.count("seed") as u64, &cancelled)?
        }
    };
    Ok(Arc::new(table))
}
