//! Edit distances of many pairs of texts (`distance/levenshtein/device.cl`).

use boxwork_kernels::distance::edits::{self, CodedQueries, Shape};
use boxwork_kernels::distance::{PairPlanes, TextPlanes};
use boxwork_runtime::feeding::{Argument, DeviceError, Feed, Grid, KernelSpec, Plain, ProgramSource, Value};

/// A kernel that compares texts with queries, with further arguments at its end.
macro_rules! to_queries {
    ($($further:expr),*) => {
        [KernelSpec {
            name: edits::TO_QUERIES,
            arguments: &[
                ("planes", Argument::Buffer),
                ("bundles", Argument::Buffer),
                ("bundles_count", Argument::Value(4)),
                ("texts_count", Argument::Value(4)),
                ("letters", Argument::Buffer),
                ("queries", Argument::Buffer),
                ("queries_count", Argument::Value(4)),
                ("columns", Argument::Buffer),
                ("columns_of_group", Argument::Value(4)),
                $($further,)*
            ],
        }]
    };
}

static ALL: [KernelSpec; 1] = to_queries!(("distances", Argument::Buffer));

static LISTED: [KernelSpec; 1] = to_queries!(
    ("limits", Argument::Buffer),
    ("counts", Argument::Buffer),
    ("entries", Argument::Buffer),
    ("capacity", Argument::Value(4))
);

static PAIRS: [KernelSpec; 1] = [KernelSpec {
    name: edits::PAIRS,
    arguments: &[
        ("planes", Argument::Buffer),
        ("bundles", Argument::Buffer),
        ("bundles_count", Argument::Value(4)),
        ("columns", Argument::Buffer),
        ("columns_of_group", Argument::Value(4)),
        ("distances", Argument::Buffer),
    ],
}];

/// The largest distances that are wanted of each query (none if negative), and the most entries that come back.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// By query.
    pub limits: &'a [i32],
    /// Entries for which there is room.
    pub capacity: usize,
}

/// Compares texts, whose words are in the buffer `planes`, with queries. Without limits the buffer `distances` has the distances of all
/// positions from the first query, then from the second, in a byte or two each. With limits `entries` has, in any order, a query and a
/// position above the distance; and `counts` has their number, which may be more than there is room for.
///
/// # Errors
/// When the device has no room, or a call of the driver fails.
pub fn compare_with_queries(
    feed: &mut Feed<'_>,
    shape: Shape,
    texts: &TextPlanes,
    queries: &CodedQueries,
    limits: Option<Limits<'_>>,
) -> Result<(), DeviceError> {
    debug_assert_eq!(shape.is_listed(), limits.is_some(), "limits are for programs that list");
    write(feed, "bundles", &texts.descriptors())?;
    write(feed, "letters", &queries.letters)?;
    write(feed, "queries", &queries.queries)?;
    let count = queries.queries.len();
    let mut values = vec![
        ("bundles_count", number(texts.bundles())),
        ("texts_count", number(texts.order().len())),
        ("queries_count", number(count)),
        ("columns_of_group", number(shape.columns_of_group())),
    ];
    match limits {
        Some(Limits { limits, capacity }) => {
            write(feed, "limits", limits)?;
            write(feed, "counts", &[0_u32])?;
            feed.output::<[u32; 2]>("entries", capacity)?;
            values.push(("capacity", number(capacity)));
        }
        None => feed.output::<u8>("distances", count * texts.positions() * shape.distance_bytes())?,
    }
    launch(feed, shape, edits::TO_QUERIES, &values)
}

/// Compares pairs, whose words are in the buffer `planes`: `distances` has the distance of each position, in a byte or two.
///
/// # Errors
/// When the device has no room, or a call of the driver fails.
pub fn compare_pairs(feed: &mut Feed<'_>, shape: Shape, pairs: &PairPlanes) -> Result<(), DeviceError> {
    write(feed, "bundles", &pairs.descriptors())?;
    feed.output::<u8>("distances", pairs.positions() * shape.distance_bytes())?;
    let values =
        [("bundles_count", number(pairs.bundles())), ("columns_of_group", number(shape.columns_of_group()))];
    launch(feed, shape, edits::PAIRS, &values)
}

fn number(value: usize) -> Value {
    Value::of(value as u32)
}

/// Sends numbers to a buffer, which has at least one.
fn write<T: Plain>(feed: &mut Feed<'_>, name: &'static str, numbers: &[T]) -> Result<(), DeviceError> {
    feed.write(name, numbers.len().max(1), |to: &mut [T]| {
        to[..numbers.len()].copy_from_slice(numbers);
        Ok(())
    })
}

fn launch(
    feed: &mut Feed<'_>,
    shape: Shape,
    kernel: &'static str,
    values: &[(&'static str, Value)],
) -> Result<(), DeviceError> {
    let columns = shape.groups() * shape.columns_of_group() * edits::ITEMS;
    feed.output::<[u32; 2]>("columns", columns.max(1))?;
    let grid = Grid::of([shape.groups()], [edits::ITEMS]);
    feed.launch(&edits_program(shape), kernel, grid, values)
}

/// Distances of texts from queries, or of pairs of texts.
fn edits_program(shape: Shape) -> ProgramSource {
    let kernels: &[KernelSpec] = match (shape.is_paired(), shape.is_listed()) {
        (true, _) => &PAIRS,
        (_, true) => &LISTED,
        _ => &ALL,
    };
    ProgramSource { name: "edits", text: edits::TEXT, constants: shape.constants(), kernels, exact: true }
}

#[cfg(test)]
mod tests;
