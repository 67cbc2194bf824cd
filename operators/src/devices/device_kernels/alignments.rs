//! Alignments of texts with queries (`distance/alignment/device.cl`).

use boxwork_kernels::distance::alignments::{self, AlignedQueries, CodedTexts, Numbers, Shape};
use boxwork_runtime::feeding::{Argument, DeviceError, Feed, Grid, KernelSpec, Plain, ProgramSource, Value};

static ALIGN: [KernelSpec; 1] = [KernelSpec {
    name: alignments::KERNEL,
    arguments: &[
        ("letters", Argument::Buffer),
        ("texts", Argument::Buffer),
        ("texts_count", Argument::Value(4)),
        ("query_letters", Argument::Buffer),
        ("queries", Argument::Buffer),
        ("queries_count", Argument::Value(4)),
        ("insert", Argument::Value(4)),
        ("delete", Argument::Value(4)),
        ("equal", Argument::Value(4)),
        ("replace", Argument::Value(4)),
        ("text_padding", Argument::Value(4)),
        ("query_padding", Argument::Value(4)),
        ("table", Argument::Buffer),
        ("table_columns", Argument::Value(4)),
        ("borders", Argument::Buffer),
        ("border_columns", Argument::Value(4)),
        ("numbers", Argument::Buffer),
    ],
}];

/// Aligns texts, whose letters are in the buffer `letters`, with queries: the buffer `numbers` has those of all positions from the first
/// query, then from the second.
///
/// # Errors
/// When the device has no room, or a call of the driver fails.
pub fn align_with_queries(
    feed: &mut Feed<'_>,
    shape: Shape,
    numbers: &Numbers,
    texts: &CodedTexts,
    queries: &AlignedQueries,
) -> Result<(), DeviceError> {
    write(feed, "texts", texts.texts())?;
    write(feed, "query_letters", &queries.letters)?;
    write(feed, "queries", &queries.queries)?;
    write(feed, "table", &queries.table)?;
    feed.output::<i32>("borders", shape.borders().max(1))?;
    feed.output::<i32>("numbers", (texts.texts().len() * queries.queries.len()).max(1))?;
    let count = |count: usize| Value::of(count as u32);
    let [insert, delete, equal, replace] = numbers.constants().map(Value::of);
    let [text_padding, query_padding] = queries.padding.map(Value::of);
    let values = [
        ("texts_count", count(texts.texts().len())),
        ("queries_count", count(queries.queries.len())),
        ("insert", insert),
        ("delete", delete),
        ("equal", equal),
        ("replace", replace),
        ("text_padding", text_padding),
        ("query_padding", query_padding),
        ("table_columns", count(queries.columns)),
        ("border_columns", count(shape.border_columns())),
    ];
    let grid = Grid::of([shape.groups().max(1)], [alignments::ITEMS]);
    feed.launch(&align_program(shape), alignments::KERNEL, grid, &values)
}

/// Sends numbers to a buffer, which has at least one.
fn write<T: Plain>(feed: &mut Feed<'_>, name: &'static str, numbers: &[T]) -> Result<(), DeviceError> {
    feed.write(name, numbers.len().max(1), |to: &mut [T]| {
        to[..numbers.len()].copy_from_slice(numbers);
        Ok(())
    })
}

fn align_program(shape: Shape) -> ProgramSource {
    ProgramSource {
        name: "alignments",
        text: alignments::TEXT,
        constants: shape.constants(),
        kernels: &ALIGN,
        exact: true,
    }
}

#[cfg(test)]
mod tests;
