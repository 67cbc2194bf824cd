//! The programs that scan lists of product codes (`product/device.cl`), and the selection from the sums of each query.

use boxwork_kernels::k_select::{self, Way};
use boxwork_kernels::product::device::{self, Shape, Terms};
use boxwork_runtime::feeding::{Argument, KernelSpec, ProgramSource};

const PRODUCTS: KernelSpec = KernelSpec {
    name: "list_products",
    arguments: &[
        ("codebook", Argument::Buffer),
        ("queries", Argument::Buffer),
        ("queries_count", Argument::Value(4)),
        ("products", Argument::Buffer),
    ],
};

const PLACES: KernelSpec = KernelSpec {
    name: "list_places",
    arguments: &[
        ("starts", Argument::Buffer),
        ("least", Argument::Buffer),
        ("least_places", Argument::Buffer),
        ("k", Argument::Value(4)),
        ("count", Argument::Value(4)),
        ("groups", Argument::Buffer),
        ("found", Argument::Buffer),
    ],
};

/// The kernels, of which `list_sums` has these arguments for the part of the tables that lists have.
macro_rules! kernels {
    ($($terms:literal),*) => {
        [
            PRODUCTS,
            KernelSpec {
                name: "list_sums",
                arguments: &[
                    ("codes", Argument::Buffer),
                    ("alive", Argument::Buffer),
                    $(($terms, Argument::Buffer),)*
                    ("products", Argument::Buffer),
                    ("jobs", Argument::Buffer),
                    ("pairs", Argument::Buffer),
                    ("scores", Argument::Buffer),
                    ("groups", Argument::Buffer),
                    ("parts_first", Argument::Value(4)),
                ],
            },
            PLACES,
        ]
    };
}

static WITHOUT_TERMS: [KernelSpec; 3] = kernels!();
static OF_KEPT_TERMS: [KernelSpec; 3] = kernels!("terms");
static OF_COMPUTED_TERMS: [KernelSpec; 3] = kernels!("codebook", "centroids");

static LEAST: [KernelSpec; 1] = [KernelSpec {
    name: "k_least",
    arguments: &[
        ("scores", Argument::Buffer),
        ("starts", Argument::Buffer),
        ("k", Argument::Value(4)),
        ("least", Argument::Buffer),
        ("least_places", Argument::Buffer),
    ],
}];

/// Sums of codes of some lists (`product/device.cl`).
pub fn lists_program(shape: Shape) -> ProgramSource {
    let kernels: &[KernelSpec] = match shape.terms() {
        Terms::None => &WITHOUT_TERMS,
        Terms::Kept => &OF_KEPT_TERMS,
        Terms::Computed => &OF_COMPUTED_TERMS,
    };
    let (text, constants) = (device::TEXT, shape.constants());
    ProgramSource { name: "lists", text, constants, kernels, exact: true }
}

/// The k least numbers of each query in the buffer `scores` (`k_select.cl`); the buffer `starts` has the place of the first of each
/// query.
pub fn select_of_queries(way: Way, k: usize) -> ProgramSource {
    let constants = way.constants_of_starts(k, "scores", "starts");
    ProgramSource { name: "k_select", text: k_select::TEXT, constants, kernels: &LEAST, exact: true }
}
