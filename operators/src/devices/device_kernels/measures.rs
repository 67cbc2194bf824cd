//! The objects with the least measures of permutations (`permutation/measures.cl`, `selection.cl`).

use boxwork_kernels::permutation::Lists;
use boxwork_kernels::permutation::measures::{self, BINS, ITEMS, Shape};
use boxwork_kernels::selection::{self, Bounded, ENTRY};
use boxwork_runtime::feeding::{Argument, DeviceError, Feed, Grid, KernelSpec, ProgramSource, Value};

use super::selection_program;

static MEASURES: [KernelSpec; 2] = [
    KernelSpec {
        name: "measures",
        arguments: &[
            ("lists", Argument::Buffer),
            ("blocks", Argument::Value(4)),
            ("alive", Argument::Buffer),
            ("tables", Argument::Buffer),
            ("starts", Argument::Buffer),
            ("lowers", Argument::Buffer),
            ("stride", Argument::Value(4)),
            ("histogram", Argument::Buffer),
        ],
    },
    KernelSpec {
        name: "limit",
        arguments: &[
            ("histogram", Argument::Buffer),
            ("wanted", Argument::Value(4)),
            ("ranges", Argument::Buffer),
        ],
    },
];

/// A search for the objects with the least measures.
#[derive(Clone, Copy, Debug)]
pub struct LeastMeasures<'a> {
    /// The sizes of the program.
    pub shape: Shape,
    /// The lists of all objects.
    pub lists: &'a Lists,
    /// The tables of all queries.
    pub tables: &'a [u8],
    /// By query: the measure to which look-ups add.
    pub starts: &'a [u32],
    /// Objects that each query wants.
    pub wanted: usize,
    /// Entries of a query for which there is room.
    pub capacity: usize,
}

/// Finds the objects with the least measures among those whose lists are in the buffer `lists`, and which are marked in `alive`.
/// `entries` has, for each query, objects among which the `wanted` with the least measures are, and their measures as f32; `counts` has their numbers,
/// which may be more than there is room for.
///
/// # Errors
/// When the device has no room, or a call of the driver fails.
pub fn least_measures(feed: &mut Feed<'_>, search: &LeastMeasures<'_>) -> Result<(), DeviceError> {
    let LeastMeasures { shape, lists, tables, starts, wanted, capacity } = *search;
    let (objects, queries) = (lists.objects(), starts.len());
    feed.write("tables", tables.len(), |to: &mut [u8]| {
        to.copy_from_slice(tables);
        Ok(())
    })?;
    feed.write("starts", queries, |to: &mut [u32]| {
        to.copy_from_slice(starts);
        Ok(())
    })?;
    for (name, len) in [("histogram", queries * BINS), ("counts", queries)] {
        feed.write(name, len, |to: &mut [u32]| {
            to.fill(0);
            Ok(())
        })?;
    }
    let stride = Shape::stride(objects);
    feed.output::<f32>("lowers", queries * stride)?;
    feed.output::<f32>("ranges", queries)?;
    feed.output::<u32>("entries", queries * capacity * ENTRY)?;
    let program = ProgramSource {
        name: "permutation_measures",
        text: measures::TEXT,
        constants: shape.constants(),
        kernels: &MEASURES,
        exact: true,
    };
    let number = |value: usize| Value::of(value as u32);
    let grid = Grid::of([Shape::groups(objects), queries], [ITEMS, 1]);
    let values = [("blocks", number(lists.blocks())), ("stride", number(stride))];
    feed.launch(&program, "measures", grid, &values)?;
    feed.launch(&program, "limit", Grid::of([queries], [ITEMS]), &[("wanted", number(wanted))])?;
    let select = selection_program(Bounded::Measures);
    for query in 0..queries {
        let values = [
            ("first", number(query * stride)),
            ("objects", number(objects)),
            ("query", number(query)),
            ("capacity", number(capacity)),
        ];
        let grid = Grid::of([selection::groups(objects)], [selection::ITEMS]);
        feed.launch(&select, "winnow", grid, &values)?;
    }
    Ok(())
}
