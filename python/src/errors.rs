//! Errors of the library as the exceptions of `boxwork/_errors.py`.

use boxwork::diagnostic::{self, Diagnostic};
use boxwork::engine::Failure;
use boxwork::pipeline::Loaded;
use boxwork_runtime::prepare::PrepareError;
use boxwork_runtime::request::RequestError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The module of the exceptions, imported at the first error.
static EXCEPTIONS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// An exception of the package: `name` is its class.
fn raised(py: Python<'_>, name: &str, arguments: (String, Option<String>)) -> PyErr {
    let module = EXCEPTIONS.get_or_try_init(py, || py.import("boxwork._errors").map(Bound::unbind));
    let made = module.and_then(|module| {
        let class = module.bind(py).getattr(name)?;
        match arguments {
            (message, None) => class.call1((message,)),
            (message, Some(faults)) => class.call1((message, faults)),
        }
    });
    made.map_or_else(|error| error, PyErr::from_value)
}

/// An error of no narrower class.
pub(crate) fn error(py: Python<'_>, message: impl ToString) -> PyErr {
    raised(py, "Error", (message.to_string(), None))
}

/// A store that cannot be read or changed.
pub(crate) fn store(py: Python<'_>, message: impl ToString) -> PyErr {
    raised(py, "StoreError", (message.to_string(), None))
}

/// A call with input that cannot be used.
pub(crate) fn input(py: Python<'_>, message: impl ToString) -> PyErr {
    raised(py, "InputError", (message.to_string(), None))
}

/// A pipeline that failed while it ran.
pub(crate) fn pipeline(py: Python<'_>, message: impl ToString) -> PyErr {
    raised(py, "PipelineError", (message.to_string(), None))
}

/// A pipeline with faults.
pub(crate) fn faults(py: Python<'_>, faults: &[Diagnostic]) -> PyErr {
    let lines: Vec<String> = faults
        .iter()
        .map(|fault| match &fault.help {
            Some(help) => format!("{fault}; {help}"),
            None => fault.to_string(),
        })
        .collect();
    raised(py, "PipelineError", (lines.join("\n"), Some(as_json(faults))))
}

/// Faults as JSON, from which `boxwork/_errors.py` makes objects.
pub(crate) fn as_json(faults: &[Diagnostic]) -> String {
    diagnostic::to_json(faults).to_string()
}

/// The exception for a pipeline that could not be prepared, or whose request could not be made.
pub(crate) fn prepare(py: Python<'_>, loaded: &Loaded, failure: &PrepareError) -> PyErr {
    match failure {
        PrepareError::Values(found) => input(py, of_values(found)),
        PrepareError::BoundOnce { .. } => input(py, failure),
        PrepareError::Faults(found) => {
            let found: Vec<Diagnostic> = found.iter().map(|fault| loaded.diagnose(fault)).collect();
            faults(py, &found)
        }
        PrepareError::Resource { .. } => store(py, failure),
        _ => pipeline(py, failure),
    }
}

/// Faults of values, each with the name of its parameter.
fn of_values(found: &[(String, String)]) -> String {
    let line = |(name, message): &(String, String)| {
        let is_named = message.contains(&format!("`{name}`"));
        if is_named { message.clone() } else { format!("`{name}`: {message}") }
    };
    found.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The exception for a run that ended before it was done.
pub(crate) fn failure(py: Python<'_>, loaded: &Loaded, failure: &Failure) -> PyErr {
    match failure {
        Failure::Prepare(error) => prepare(py, loaded, error),
        Failure::Request(error) => pipeline(py, error),
        _ => error(py, failure),
    }
}

/// As [`failure`], for a search of a store: the box `query` fails if what is asked for is not there.
pub(crate) fn search_failure(py: Python<'_>, loaded: &Loaded, found: &Failure) -> PyErr {
    match found {
        Failure::Request(RequestError::Failed { name, cause }) if name == "query" => input(py, cause),
        other => failure(py, loaded, other),
    }
}
