//! The programs of a factorisation: `cholesky/device.cl`.

use boxwork_kernels::cholesky::device::{self, Numbers, Units};
use boxwork_runtime::feeding::{Argument, KernelSpec, ProgramSource};

static FILL: [KernelSpec; 1] = [KernelSpec {
    name: "fill",
    arguments: &[
        ("tiles", Argument::Buffer),
        ("points", Argument::Buffer),
        ("stride", Argument::Value(4)),
        ("count", Argument::Value(4)),
        ("parameters", Argument::Buffer),
        ("added", Argument::Buffer),
    ],
}];

static FACTOR: [KernelSpec; 8] = [
    KernelSpec {
        name: "factor",
        arguments: &[("tiles", Argument::Buffer), ("k", Argument::Value(4)), ("failed", Argument::Buffer)],
    },
    KernelSpec {
        name: "invert",
        arguments: &[("tiles", Argument::Buffer), ("k", Argument::Value(4)), ("inverses", Argument::Buffer)],
    },
    KernelSpec {
        name: "update",
        arguments: &[
            ("tiles", Argument::Buffer),
            ("from", Argument::Value(4)),
            ("first", Argument::Value(4)),
            ("end", Argument::Value(4)),
            ("is_column", Argument::Value(4)),
        ],
    },
    KernelSpec {
        name: "solve",
        arguments: &[("tiles", Argument::Buffer), ("k", Argument::Value(4)), ("inverses", Argument::Buffer)],
    },
    STEP_FORWARD,
    STEP_BACKWARD,
    KernelSpec {
        name: "diagonal",
        arguments: &[
            ("tiles", Argument::Buffer),
            ("count", Argument::Value(4)),
            ("pivots", Argument::Buffer),
        ],
    },
    KernelSpec {
        name: "product",
        arguments: &[
            ("a", Argument::Buffer),
            ("b", Argument::Buffer),
            ("c", Argument::Buffer),
            ("depth", Argument::Value(4)),
        ],
    },
];

const STEP_FORWARD: KernelSpec = KernelSpec {
    name: "forward",
    arguments: &[
        ("tiles", Argument::Buffer),
        ("inverses", Argument::Buffer),
        ("j", Argument::Value(4)),
        ("b", Argument::Buffer),
        ("solved", Argument::Buffer),
    ],
};

/// The right side of the transposed factor is the solution of the factor.
const STEP_BACKWARD: KernelSpec = KernelSpec {
    name: "backward",
    arguments: &[
        ("tiles", Argument::Buffer),
        ("inverses", Argument::Buffer),
        ("j", Argument::Value(4)),
        ("solved", Argument::Buffer),
        ("weights", Argument::Buffer),
    ],
};

/// The factorisation, solves and products.
pub fn factor_program(numbers: Numbers, units: Units) -> ProgramSource {
    ProgramSource {
        name: "factor",
        text: device::TEXT,
        constants: device::constants(numbers, units, None),
        kernels: &FACTOR,
        exact: true,
    }
}

/// The covariances of points of some dimensions, by the text of their expression.
pub fn fill_program(numbers: Numbers, covariance: String, dimensions: usize) -> ProgramSource {
    ProgramSource {
        name: "covariances",
        text: device::TEXT,
        constants: device::constants(numbers, Units::None, Some((covariance, dimensions))),
        kernels: &FILL,
        exact: true,
    }
}
