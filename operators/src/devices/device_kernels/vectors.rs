//! The scan of vectors for many queries (`vector/device.cl`).

use boxwork_kernels::vector::device::{self, Held, Products};
use boxwork_runtime::feeding::{Argument, KernelSpec, ProgramSource};

/// A kernel `scan` with further arguments at its end.
macro_rules! scan {
    ($($further:expr),*) => {
        KernelSpec {
            name: "scan",
            arguments: &[
                ("rows", Argument::Buffer),
                ("terms", Argument::Buffer),
                ("rows_first", Argument::Value(4)),
                ("rows_end", Argument::Value(4)),
                ("queries", Argument::Buffer),
                ("queries_count", Argument::Value(4)),
                ("dimensions", Argument::Value(4)),
                ("limits", Argument::Buffer),
                ("counts", Argument::Buffer),
                ("entries", Argument::Buffer),
                ("capacity", Argument::Value(4)),
                ("keeps_all", Argument::Value(4)),
                $($further,)*
            ],
        }
    };
}

const SHORTEN: KernelSpec = KernelSpec {
    name: "shorten",
    arguments: &[
        ("entries", Argument::Buffer),
        ("capacity", Argument::Value(4)),
        ("counts", Argument::Buffer),
        ("wanted", Argument::Value(4)),
        ("errors", Argument::Buffer),
        ("limits", Argument::Buffer),
    ],
};

const HAND_OVER: KernelSpec = KernelSpec {
    name: "hand_over",
    arguments: &[
        ("entries", Argument::Buffer),
        ("capacity", Argument::Value(4)),
        ("counts", Argument::Buffer),
        ("most", Argument::Value(4)),
        ("found", Argument::Buffer),
    ],
};

static VECTORS: [KernelSpec; 3] = [scan!(), SHORTEN, HAND_OVER];

static VECTORS_OF_HELD_QUERIES: [KernelSpec; 3] =
    [scan!(("rows_of_group", Argument::Value(4))), SHORTEN, HAND_OVER];

/// The nearest vectors of many queries, of so many numbers.
pub fn vectors_program(products: Products, dimensions: usize) -> ProgramSource {
    let is_held = products == Products::Halves && Held::of(dimensions).is_some();
    ProgramSource {
        name: "vectors",
        text: device::TEXT,
        constants: device::constants(products, dimensions),
        kernels: if is_held { &VECTORS_OF_HELD_QUERIES } else { &VECTORS },
        exact: true,
    }
}
