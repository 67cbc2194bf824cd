//! The device programs that several boxes launch: the arguments of their kernels, in the order of the text.

mod alignments;
mod clusters;
mod edits;
mod factor;
mod few;
mod lists;
mod long_edits;
mod measures;
mod vectors;

pub use self::alignments::align_with_queries;
pub use self::clusters::{assign_program, means_program};
pub use self::edits::{Limits, compare_pairs, compare_with_queries};
pub use self::factor::{factor_program, fill_program, slopes_program};
pub use self::few::few_program;
pub use self::lists::{lists_program, select_of_queries};
pub use self::long_edits::{Uncompared, compare_long_pairs};
pub use self::measures::{LeastMeasures, least_measures};
pub use self::vectors::vectors_program;

use boxwork_kernels::gaussian_process::pass::device as pass;
use boxwork_kernels::gaussian_process::{Form, l1};
use boxwork_kernels::k_select::{self, Way};
use boxwork_kernels::lower_bound::device::{self as bounds, Shape};
use boxwork_kernels::permutation::device as permutations;
use boxwork_kernels::selection::{self, Bounded};
use boxwork_kernels::similarity::Measure;
use boxwork_kernels::sqfd::device as distances;
use boxwork_kernels::sqfd::exact_device as exact;
use boxwork_kernels::vector::exact as vector_sums;
use boxwork_kernels::vector::{NumberType, VectorMeasure};
use boxwork_runtime::feeding::{Argument, KernelSpec, ProgramSource};

static DISTANCES: [KernelSpec; 1] = [KernelSpec {
    name: "sqfd",
    arguments: &[
        ("columns", Argument::Buffer),
        ("stride", Argument::Value(4)),
        ("tiles", Argument::Buffer),
        ("tiles_first", Argument::Value(4)),
        ("pieces", Argument::Buffer),
        ("pieces_first", Argument::Value(4)),
        ("pieces_count", Argument::Value(4)),
        ("rows", Argument::Buffer),
        ("row_offsets", Argument::Buffer),
        ("queries_first", Argument::Value(4)),
        ("queries_count", Argument::Value(4)),
        ("centres", Argument::Buffer),
        ("factor", Argument::Value(4)),
        ("alpha", Argument::Value(4)),
        ("sums", Argument::Buffer),
        ("sums_first", Argument::Value(4)),
    ],
}];

static EXACT: [KernelSpec; 1] = [KernelSpec {
    name: exact::KERNEL,
    arguments: &[
        ("queries", Argument::Buffer),
        ("query_offsets", Argument::Buffer),
        ("objects", Argument::Buffer),
        ("object_offsets", Argument::Buffer),
        ("pairs", Argument::Buffer),
        ("pairs_count", Argument::Value(4)),
        ("alpha", Argument::Value(8)),
        ("sums", Argument::Buffer),
    ],
}];

static BOUNDS: [KernelSpec; 1] = [KernelSpec {
    name: "bounds",
    arguments: &[
        ("columns", Argument::Buffer),
        ("blocks", Argument::Value(4)),
        ("objects", Argument::Value(4)),
        ("numbers", Argument::Buffer),
        ("numbers_first", Argument::Value(4)),
        ("pairs", Argument::Buffer),
        ("pairs_first", Argument::Value(4)),
        ("slack", Argument::Value(4)),
        ("pairs_slack", Argument::Value(4)),
        ("lowers", Argument::Buffer),
        ("uppers", Argument::Buffer),
        ("first", Argument::Value(4)),
        ("minima", Argument::Buffer),
        ("minima_first", Argument::Value(4)),
        ("kept", Argument::Value(4)),
    ],
}];

const KTH: KernelSpec = KernelSpec {
    name: "kth",
    arguments: &[
        ("minima", Argument::Buffer),
        ("minima_first", Argument::Value(4)),
        ("minima_count", Argument::Value(4)),
        ("wanted", Argument::Value(4)),
        ("ranges", Argument::Buffer),
        ("query", Argument::Value(4)),
    ],
};

static OF_DISTANCES: [KernelSpec; 2] = [
    KTH,
    KernelSpec {
        name: "winnow",
        arguments: &[
            ("lowers", Argument::Buffer),
            ("uppers", Argument::Buffer),
            ("first", Argument::Value(4)),
            ("objects", Argument::Value(4)),
            ("ranges", Argument::Buffer),
            ("query", Argument::Value(4)),
            ("entries", Argument::Buffer),
            ("capacity", Argument::Value(4)),
            ("counts", Argument::Buffer),
        ],
    },
];

static OF_SIMILARITIES: [KernelSpec; 3] = [
    KTH,
    KernelSpec {
        name: "winnow",
        arguments: &[
            ("lowers", Argument::Buffer),
            ("sums", Argument::Buffer),
            ("first", Argument::Value(4)),
            ("objects", Argument::Value(4)),
            ("ranges", Argument::Buffer),
            ("query", Argument::Value(4)),
            ("entries", Argument::Buffer),
            ("capacity", Argument::Value(4)),
            ("counts", Argument::Buffer),
        ],
    },
    KernelSpec {
        name: "straddle",
        arguments: &[
            ("sums", Argument::Buffer),
            ("sums_first", Argument::Value(4)),
            ("objects", Argument::Value(4)),
            ("sigmas", Argument::Buffer),
            ("sigmas_first", Argument::Value(4)),
            ("own", Argument::Value(4)),
            ("error", Argument::Value(4)),
            ("lowers", Argument::Buffer),
            ("minima", Argument::Buffer),
            ("minima_first", Argument::Value(4)),
            ("kept", Argument::Value(4)),
        ],
    },
];

static OF_MEASURES: [KernelSpec; 2] = [
    KTH,
    KernelSpec {
        name: "winnow",
        arguments: &[
            ("lowers", Argument::Buffer),
            ("first", Argument::Value(4)),
            ("objects", Argument::Value(4)),
            ("ranges", Argument::Buffer),
            ("query", Argument::Value(4)),
            ("entries", Argument::Buffer),
            ("capacity", Argument::Value(4)),
            ("counts", Argument::Buffer),
        ],
    },
];

static PERMUTATIONS: [KernelSpec; 1] = [KernelSpec {
    name: "nearest_pivots",
    arguments: &[
        ("rows", Argument::Buffer),
        ("count", Argument::Value(4)),
        ("dimensions", Argument::Value(4)),
        ("pivots", Argument::Buffer),
        ("are_whole", Argument::Value(4)),
        ("slack", Argument::Value(4)),
        ("least", Argument::Value(4)),
        ("lists", Argument::Buffer),
        ("doubts", Argument::Buffer),
    ],
}];

static UPPERS: [KernelSpec; 1] = [KernelSpec {
    name: "uppers",
    arguments: &[
        ("tiles", Argument::Buffer),
        ("objects", Argument::Value(4)),
        ("numbers", Argument::Buffer),
        ("terms", Argument::Buffer),
        ("marks", Argument::Value(4)),
        ("scale", Argument::Value(4)),
        ("explore", Argument::Value(4)),
        ("out", Argument::Buffer),
        ("maxima", Argument::Buffer),
    ],
}];

static L1: [KernelSpec; 1] = [KernelSpec {
    name: "l1",
    arguments: &[
        ("objects", Argument::Buffer),
        ("objects_count", Argument::Value(4)),
        ("marks", Argument::Buffer),
        ("marks_count", Argument::Value(4)),
        ("dimensions", Argument::Value(4)),
        ("out", Argument::Buffer),
    ],
}];

/// The kernel that sums up f64 distances of rows in a buffer of this name.
macro_rules! sums_of {
    ($rows:literal) => {
        KernelSpec {
            name: vector_sums::KERNEL,
            arguments: &[
                ($rows, Argument::Buffer),
                ("stride", Argument::Value(4)),
                ("wide_queries", Argument::Buffer),
                ("dimensions", Argument::Value(4)),
                ("found", Argument::Buffer),
                ("most", Argument::Value(4)),
                ("counts", Argument::Buffer),
                ("sums", Argument::Buffer),
            ],
        }
    };
}

const RANKS: KernelSpec = KernelSpec {
    name: vector_sums::RANKS,
    arguments: &[
        ("found", Argument::Buffer),
        ("most", Argument::Value(4)),
        ("counts", Argument::Buffer),
        ("sums", Argument::Buffer),
        ("wanted", Argument::Value(4)),
        ("nearest", Argument::Buffer),
        ("nearest_sums", Argument::Buffer),
    ],
};

static SUMS_OF_ROWS: [KernelSpec; 2] = [sums_of!("rows"), RANKS];
static SUMS_OF_WIDE_ROWS: [KernelSpec; 2] = [sums_of!("wide_rows"), RANKS];

/// The kernel `k_least` over arrays in a buffer of this name.
macro_rules! k_least {
    ($array:literal) => {
        [KernelSpec {
            name: "k_least",
            arguments: &[
                ($array, Argument::Buffer),
                ("numbers", Argument::Value(4)),
                ("stride", Argument::Value(4)),
                ("k", Argument::Value(4)),
                ("least", Argument::Buffer),
                ("least_places", Argument::Buffer),
            ],
        }]
    };
}

static LEAST_OF_VALUES: [KernelSpec; 1] = k_least!("values");
static LEAST_OF_MINIMA: [KernelSpec; 1] = k_least!("minima");

/// The buffer whose arrays `k_least` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrays {
    /// `values`.
    Values,
    /// `minima`.
    Minima,
}

/// The nearest pivots of vectors (`permutation/device.cl`).
pub fn permutations_program(shape: permutations::Shape) -> ProgramSource {
    ProgramSource {
        name: "permutations",
        text: permutations::TEXT,
        constants: shape.constants(),
        kernels: &PERMUTATIONS,
        exact: true,
    }
}

/// The sums of f64 distances of listed rows (`vector/exact.cl`), of the rows that the scan reads or of wider ones; and the nearest by
/// them, if devices [rank](vector_sums::ranks).
pub fn sums_program(measure: VectorMeasure, numbers: NumberType, are_wide: bool) -> ProgramSource {
    let (rows, kernels) = match are_wide {
        true => ("wide_rows", &SUMS_OF_WIDE_ROWS),
        false => ("rows", &SUMS_OF_ROWS),
    };
    let kernels = if vector_sums::ranks(measure) { &kernels[..] } else { &kernels[..1] };
    ProgramSource {
        name: "vector_sums",
        text: vector_sums::TEXT,
        constants: vector_sums::constants(measure, numbers, rows),
        kernels,
        exact: true,
    }
}

/// The k least numbers of each array of a buffer (`k_select.cl`).
pub fn select_program(way: Way, k: usize, arrays: Arrays) -> ProgramSource {
    let (name, kernels): (_, &[KernelSpec]) = match arrays {
        Arrays::Values => ("values", &LEAST_OF_VALUES),
        Arrays::Minima => ("minima", &LEAST_OF_MINIMA),
    };
    let constants = way.constants(k, name);
    ProgramSource { name: "k_select", text: k_select::TEXT, constants, kernels, exact: true }
}

/// Upper bounds of scores from sketches (`gaussian_process/pass.cl`).
pub fn pass_program(form: Form) -> ProgramSource {
    ProgramSource {
        name: "pass",
        text: pass::TEXT,
        constants: pass::constants(form),
        kernels: &UPPERS,
        exact: false,
    }
}

/// L1 distances of vectors (`gaussian_process/l1.cl`).
pub fn l1_program() -> ProgramSource {
    ProgramSource { name: "l1", text: l1::TEXT, constants: l1::constants(), kernels: &L1, exact: false }
}

/// Similarities of queries to signatures (`sqfd/device.cl`).
pub fn distances_program(shape: &distances::Shape) -> ProgramSource {
    ProgramSource {
        name: "sqfd",
        text: distances::TEXT,
        constants: shape.constants(),
        kernels: &DISTANCES,
        exact: shape.needs_subnormals(),
    }
}

/// Similarities of queries to signatures in f64 (`sqfd/exact_device.cl`).
pub fn exact_program(measure: &Measure, dimensions: usize) -> ProgramSource {
    let constants = exact::constants(measure, dimensions);
    ProgramSource { name: "sqfd_exact", text: exact::TEXT, constants, kernels: &EXACT, exact: true }
}

/// Bounds of distances from a pivot table (`lower_bound/device.cl`).
pub fn bounds_program(shape: &Shape) -> ProgramSource {
    ProgramSource {
        name: "lower_bound",
        text: bounds::TEXT,
        constants: shape.constants(),
        kernels: &BOUNDS,
        exact: false,
    }
}

/// Selection of the objects that bounds do not exclude (`selection.cl`).
pub fn selection_program(bounded: Bounded) -> ProgramSource {
    let kernels: &[KernelSpec] = match bounded {
        Bounded::Distances => &OF_DISTANCES,
        Bounded::Similarities => &OF_SIMILARITIES,
        Bounded::Measures => &OF_MEASURES,
    };
    ProgramSource {
        name: "selection",
        text: selection::TEXT,
        constants: selection::constants(bounded),
        kernels,
        exact: false,
    }
}

#[cfg(test)]
mod tests;
