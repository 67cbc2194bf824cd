//! The programs of a factorisation and of covariances: `cholesky/device.cl`, `covariance/device.cl`.

use boxwork_kernels::cholesky::device::{self, Numbers, Units};
use boxwork_kernels::covariance::Expression;
use boxwork_runtime::feeding::{Argument, KernelSpec, ProgramSource};

static COVARIANCES: [KernelSpec; 2] = [
    KernelSpec {
        name: "fill",
        arguments: &[
            ("tiles", Argument::Buffer),
            ("first_column", Argument::Value(4)),
            ("width", Argument::Value(4)),
            ("points", Argument::Buffer),
            ("stride", Argument::Value(4)),
            ("count", Argument::Value(4)),
            ("parameters", Argument::Buffer),
            ("added", Argument::Buffer),
        ],
    },
    KernelSpec {
        name: "between",
        arguments: &[
            ("beside", Argument::Buffer),
            ("places", Argument::Buffer),
            ("places_stride", Argument::Value(4)),
            ("points", Argument::Buffer),
            ("stride", Argument::Value(4)),
            ("count", Argument::Value(4)),
            ("parameters", Argument::Buffer),
            ("weights", Argument::Buffer),
            ("keeps", Argument::Value(4)),
            ("parts", Argument::Buffer),
        ],
    },
];

static SLOPES: [KernelSpec; 1] = [KernelSpec {
    name: "slopes",
    arguments: &[
        ("tiles", Argument::Buffer),
        ("points", Argument::Buffer),
        ("stride", Argument::Value(4)),
        ("count", Argument::Value(4)),
        ("parameters", Argument::Buffer),
        ("alpha", Argument::Buffer),
        ("parts", Argument::Buffer),
    ],
}];

static FACTOR: [KernelSpec; 14] = [
    KernelSpec {
        name: "factor",
        arguments: &[
            ("tiles", Argument::Buffer),
            ("first_column", Argument::Value(4)),
            ("width", Argument::Value(4)),
            ("k", Argument::Value(4)),
            ("failed", Argument::Buffer),
        ],
    },
    KernelSpec {
        name: "invert",
        arguments: &[
            ("tiles", Argument::Buffer),
            ("first_column", Argument::Value(4)),
            ("width", Argument::Value(4)),
            ("k", Argument::Value(4)),
            ("inverses", Argument::Buffer),
        ],
    },
    KernelSpec {
        name: "update",
        arguments: &[
            ("to_tiles", Argument::Buffer),
            ("to_first", Argument::Value(4)),
            ("to_width", Argument::Value(4)),
            ("tiles", Argument::Buffer),
            ("first_column", Argument::Value(4)),
            ("width", Argument::Value(4)),
            ("from", Argument::Value(4)),
            ("columns", Argument::Value(4)),
            ("first", Argument::Value(4)),
            ("end", Argument::Value(4)),
        ],
    },
    KernelSpec {
        name: "solve",
        arguments: &[
            ("tiles", Argument::Buffer),
            ("first_column", Argument::Value(4)),
            ("width", Argument::Value(4)),
            ("k", Argument::Value(4)),
            ("inverses", Argument::Buffer),
        ],
    },
    STEP_FORWARD,
    STEP_BACKWARD,
    KernelSpec {
        name: "diagonal",
        arguments: &[
            ("tiles", Argument::Buffer),
            ("first_column", Argument::Value(4)),
            ("width", Argument::Value(4)),
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
    KernelSpec {
        name: "eliminate",
        arguments: &[
            ("beside", Argument::Buffer),
            ("tiles", Argument::Buffer),
            ("base", Argument::Value(4)),
            ("inverses", Argument::Buffer),
            ("width", Argument::Value(4)),
            ("is_upper", Argument::Value(4)),
            ("j", Argument::Value(4)),
            ("first", Argument::Value(4)),
        ],
    },
    KernelSpec {
        name: "behind",
        arguments: &[
            ("beside", Argument::Buffer),
            ("tiles", Argument::Buffer),
            ("base", Argument::Value(4)),
            ("width", Argument::Value(4)),
            ("is_upper", Argument::Value(4)),
            ("from", Argument::Value(4)),
            ("first", Argument::Value(4)),
            ("end", Argument::Value(4)),
        ],
    },
    KernelSpec {
        name: "squared",
        arguments: &[
            ("beside", Argument::Buffer),
            ("places_stride", Argument::Value(4)),
            ("parts", Argument::Buffer),
        ],
    },
    KernelSpec {
        name: "totals",
        arguments: &[
            ("parts", Argument::Buffer),
            ("places_stride", Argument::Value(4)),
            ("width", Argument::Value(4)),
            ("kinds", Argument::Value(4)),
            ("sums", Argument::Buffer),
        ],
    },
    KernelSpec { name: "unit", arguments: &[("beside", Argument::Buffer), ("width", Argument::Value(4))] },
    KernelSpec {
        name: "inverse",
        arguments: &[
            ("tiles", Argument::Buffer),
            ("beside", Argument::Buffer),
            ("width", Argument::Value(4)),
        ],
    },
];

const STEP_FORWARD: KernelSpec = KernelSpec {
    name: "forward",
    arguments: &[
        ("tiles", Argument::Buffer),
        ("first_column", Argument::Value(4)),
        ("width", Argument::Value(4)),
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
        ("first_column", Argument::Value(4)),
        ("width", Argument::Value(4)),
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
        constants: device::constants(numbers, units),
        kernels: &FACTOR,
        exact: true,
    }
}

/// The covariances of points of some dimensions, by the text of their expression.
pub fn fill_program(numbers: Numbers, expression: &Expression, dimensions: usize) -> ProgramSource {
    ProgramSource {
        name: "covariances",
        text: device::COVARIANCE_TEXT,
        constants: device::covariance_constants(numbers, expression, dimensions, false),
        kernels: &COVARIANCES,
        exact: true,
    }
}

/// The derivatives of the likelihood of samples by the parameters of their covariance.
pub fn slopes_program(numbers: Numbers, expression: &Expression, dimensions: usize) -> ProgramSource {
    ProgramSource {
        name: "slopes",
        text: device::COVARIANCE_TEXT,
        constants: device::covariance_constants(numbers, expression, dimensions, true),
        kernels: &SLOPES,
        exact: true,
    }
}
