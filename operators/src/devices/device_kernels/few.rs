//! The search for a few vectors (`vector/few.cl`).

use boxwork_kernels::vector::few::{self, Few};
use boxwork_runtime::feeding::{Argument, KernelSpec, ProgramSource};

const VALUES: KernelSpec = KernelSpec {
    name: "few",
    arguments: &[
        ("rows", Argument::Buffer),
        ("terms", Argument::Buffer),
        ("rows_first", Argument::Value(4)),
        ("rows_end", Argument::Value(4)),
        ("queries", Argument::Buffer),
        ("queries_count", Argument::Value(4)),
        ("dimensions", Argument::Value(4)),
        ("values", Argument::Buffer),
        ("minima", Argument::Buffer),
    ],
};

const WINNOW: KernelSpec = KernelSpec {
    name: "winnow",
    arguments: &[
        ("values", Argument::Buffer),
        ("rows_first", Argument::Value(4)),
        ("rows_end", Argument::Value(4)),
        ("least", Argument::Buffer),
        ("wanted", Argument::Value(4)),
        ("errors", Argument::Buffer),
        ("limits", Argument::Buffer),
        ("counts", Argument::Buffer),
        ("entries", Argument::Buffer),
        ("capacity", Argument::Value(4)),
    ],
};

const CONCLUDE: KernelSpec = KernelSpec {
    name: "conclude",
    arguments: &[
        ("values", Argument::Buffer),
        ("minima", Argument::Buffer),
        ("rows_first", Argument::Value(4)),
        ("rows_end", Argument::Value(4)),
        ("wanted", Argument::Value(4)),
        ("errors", Argument::Buffer),
        ("limits", Argument::Buffer),
        ("counts", Argument::Buffer),
        ("entries", Argument::Buffer),
        ("capacity", Argument::Value(4)),
        ("most", Argument::Value(4)),
        ("found", Argument::Buffer),
    ],
};

static FEW: [KernelSpec; 2] = [VALUES, WINNOW];

static FEWER: [KernelSpec; 3] = [VALUES, WINNOW, CONCLUDE];

/// The nearest vectors of a few queries.
pub fn few_program(few: Few) -> ProgramSource {
    ProgramSource {
        name: "few_vectors",
        text: few::TEXT,
        constants: few.constants(),
        kernels: if few.has_conclusion() { &FEWER } else { &FEW },
        exact: true,
    }
}
