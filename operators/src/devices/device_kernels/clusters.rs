//! The rounds of k-means (`kmeans/device.cl`, `kmeans/means.cl`).

use boxwork_kernels::kmeans::{device, means};
use boxwork_runtime::feeding::{Argument, KernelSpec, ProgramSource};

static ASSIGN: [KernelSpec; 1] = [KernelSpec {
    name: "assign",
    arguments: &[
        ("rows", Argument::Buffer),
        ("terms", Argument::Buffer),
        ("rows_count", Argument::Value(4)),
        ("centroids", Argument::Buffer),
        ("squares", Argument::Buffer),
        ("centroids_count", Argument::Value(4)),
        ("dimensions", Argument::Value(4)),
        ("errors", Argument::Value(16)),
        ("clusters", Argument::Buffer),
        ("list_count", Argument::Buffer),
        ("list", Argument::Buffer),
        ("is_listed", Argument::Value(4)),
    ],
}];

static ASSIGN_ON_UNITS: [KernelSpec; 1] = [KernelSpec {
    name: "assign",
    arguments: &[
        ("halves", Argument::Buffer),
        ("terms", Argument::Buffer),
        ("rows_count", Argument::Value(4)),
        ("halved", Argument::Buffer),
        ("halved_squares", Argument::Buffer),
        ("centroids_count", Argument::Value(4)),
        ("dimensions", Argument::Value(4)),
        ("errors", Argument::Value(16)),
        ("clusters", Argument::Buffer),
        ("list_count", Argument::Buffer),
        ("list", Argument::Buffer),
    ],
}];

static MEANS: [KernelSpec; 1] = [KernelSpec {
    name: "means",
    arguments: &[
        ("rows", Argument::Buffer),
        ("order", Argument::Buffer),
        ("starts", Argument::Buffer),
        ("blocks", Argument::Value(4)),
        ("clusters", Argument::Value(4)),
        ("dimensions", Argument::Value(4)),
        ("found", Argument::Buffer),
    ],
}];

/// The means of clusters (`kmeans/means.cl`).
pub fn means_program() -> ProgramSource {
    ProgramSource {
        name: "means",
        text: means::TEXT,
        constants: means::constants(),
        kernels: &MEANS,
        exact: true,
    }
}

/// The nearest centroid of each row, of so many numbers (`kmeans/device.cl`).
pub fn assign_program(on_units: bool, dimensions: usize) -> ProgramSource {
    ProgramSource {
        name: "kmeans",
        text: device::TEXT,
        constants: device::constants(on_units, dimensions),
        kernels: if on_units { &ASSIGN_ON_UNITS } else { &ASSIGN },
        exact: true,
    }
}
