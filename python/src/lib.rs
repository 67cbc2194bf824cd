//! The native part of the Python package: stores, searches, pipelines and Arrow, for the layer in `boxwork/`.
//!
//! Invariants: no call holds the interpreter's lock while it computes or waits; a signal is heard every few
//! milliseconds of a call; no map is made, so the process gets no handler of SIGBUS; nothing works in a process that was
//! forked after the import. Modules are in reading order and import only modules above them.

mod errors;
mod engine;
mod capsule;
mod numbers;
mod rows;
mod values;
mod boxes;
mod store;
mod vectors;
mod changes;
mod pipeline;

use pyo3::prelude::*;

/// The functions and classes of `boxwork._boxwork`.
#[pymodule]
fn _boxwork(module: &Bound<'_, PyModule>) -> PyResult<()> {
    engine::remember_process();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<numbers::Numbers>()?;
    module.add_class::<rows::Rows>()?;
    module.add_class::<store::Store>()?;
    module.add_class::<pipeline::Pipeline>()?;
    module.add_function(wrap_pyfunction!(engine::configure, module)?)?;
    module.add_function(wrap_pyfunction!(engine::workers, module)?)?;
    module.add_function(wrap_pyfunction!(vectors::vectors, module)?)?;
    module.add_function(wrap_pyfunction!(rows::table_of_arrow, module)?)?;
    module.add_function(wrap_pyfunction!(changes::extract, module)?)?;
    module.add_function(wrap_pyfunction!(changes::add, module)?)?;
    module.add_function(wrap_pyfunction!(changes::remove_objects, module)?)?;
    module.add_function(wrap_pyfunction!(changes::compact, module)?)?;
    module.add_function(wrap_pyfunction!(changes::make_file, module)?)?;
    module.add_function(wrap_pyfunction!(changes::make_sketch_of, module)?)?;
    module.add_function(wrap_pyfunction!(changes::copy, module)?)?;
    module.add_function(wrap_pyfunction!(pipeline::check, module)?)?;
    module.add_function(wrap_pyfunction!(pipeline::shipped_texts, module)?)?;
    module.add_function(wrap_pyfunction!(boxes::register, module)?)?;
    Ok(())
}
