//! `Pipeline`: a YAML text, checked and run; its sinks' rows come back as Arrow.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use boxwork::diagnostic::Diagnostic;
use boxwork::engine::{Exchange, Limits};
use boxwork::pipeline::{self, Loaded};
use boxwork::shipped;
use boxwork_runtime::operator::{RequestInput, Resource};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::plan::{PlanBox, Setting};
use boxwork_stores::store::SharedStore;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::engine::run;
use crate::rows::{Rows, reader_of};
use crate::store::{Store, prepare};
use crate::{engine, errors, values};

/// The name of a text in messages.
const TEXT: &str = "<text>";

/// A pipeline, read and checked without its values.
#[pyclass(frozen, module = "boxwork._boxwork")]
pub(crate) struct Pipeline {
    loaded: Loaded,
}

fn read(source: &str, is_text: bool) -> Result<Loaded, Vec<Diagnostic>> {
    if is_text { Ok(pipeline::read_text(TEXT, source)) } else { shipped::read(Path::new(source)) }
}

/// All faults of a pipeline, as JSON.
#[pyfunction]
pub(crate) fn check(py: Python<'_>, source: &str, is_text: bool) -> PyResult<String> {
    engine::check_process(py)?;
    let found = match read(source, is_text) {
        Ok(loaded) => loaded.check(&crate::boxes::catalog(), &loaded.declaration.defaults()).1,
        Err(faults) => faults,
    };
    Ok(errors::as_json(&found))
}

/// The text of a shipped pipeline, by name; all names and texts.
#[pyfunction]
pub(crate) fn shipped_texts() -> BTreeMap<&'static str, &'static str> {
    shipped::ALL.iter().map(|shipped| (shipped.name(), shipped.text)).collect()
}

#[pymethods]
impl Pipeline {
    /// Reads a text, a file, or the shipped pipeline of a name.
    #[new]
    fn new(py: Python<'_>, source: &str, is_text: bool) -> PyResult<Self> {
        engine::check_process(py)?;
        let loaded = read(source, is_text).map_err(|found| errors::faults(py, &found))?;
        // Values may be missing, and they decide what else is wrong: a run says that.
        let (_, found) = loaded.check(&crate::boxes::catalog(), &loaded.declaration.defaults());
        let found: Vec<Diagnostic> = found.into_iter().filter(Diagnostic::is_error).collect();
        if found.is_empty() { Ok(Self { loaded }) } else { Err(errors::faults(py, &found)) }
    }

    /// The description by its author.
    #[getter]
    fn about(&self) -> &str {
        &self.loaded.about
    }

    /// The parameters: the name, the type in words, whether a value must be given, and what it is.
    #[getter]
    fn parameters(&self) -> Vec<(String, String, bool, String)> {
        let defaults = self.loaded.declaration.defaults();
        let parameter = |parameter: &boxwork_runtime::plan::ParameterDeclaration| {
            let is_required = !parameter.optional && !defaults.contains_key(&parameter.name);
            (parameter.name.clone(), parameter.kind.to_string(), is_required, parameter.about.clone())
        };
        self.loaded.declaration.parameters.iter().map(parameter).collect()
    }

    /// Runs it. `stores` are open stores by the parameters of their paths; `inputs` are rows by box.
    #[pyo3(signature = (values, inputs, stores, deadline_s=None, memory_bytes=None))]
    fn run(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyDict>,
        inputs: BTreeMap<String, Bound<'_, PyAny>>,
        stores: BTreeMap<String, Bound<'_, Store>>,
        deadline_s: Option<f64>,
        memory_bytes: Option<usize>,
    ) -> PyResult<BTreeMap<String, Rows>> {
        let deadline = deadline_s
            .map(|seconds| Duration::try_from_secs_f64(seconds).map(|time| Instant::now() + time))
            .transpose()
            .map_err(|_| errors::input(py, "the deadline is no number of seconds from now"))?;
        let mut values = values::of_dict(values)?;
        let resources = self.given(&stores, &mut values);
        let inputs = inputs.iter().map(|(name, object)| Ok((name.clone(), input(object)?)));
        let inputs = inputs.collect::<PyResult<BTreeMap<String, RequestInput>>>()?;
        let prepared = prepare(py, &self.loaded, &values, resources)?;
        let sinks: Vec<&PlanBox> =
            prepared.plan().boxes.iter().filter(|planned| gives_rows(planned)).collect();
        let outputs = sinks.iter().map(|planned| planned.name.clone()).collect();
        let exchange = Exchange { inputs, outputs, ..Exchange::default() };
        let mut ended = run(py, &prepared, &BTreeMap::new(), exchange, Limits { memory_bytes, deadline })?;
        if let Some(failure) = &ended.failure {
            return Err(errors::failure(py, &self.loaded, failure));
        }
        let mut taken = BTreeMap::new();
        for planned in sinks {
            let batches = ended.outputs.remove(&planned.name).unwrap_or_default();
            let gives = planned.spec.gives.as_ref().zip(planned.arguments.as_ref());
            let columns = gives.map(|(gives, arguments)| gives(arguments)).unwrap_or_default();
            taken.insert(planned.name.clone(), Rows::of_output(&columns, batches));
        }
        Ok(taken)
    }
}

impl Pipeline {
    /// The open stores as the resources whose paths their parameters give.
    fn given(
        &self,
        stores: &BTreeMap<String, Bound<'_, Store>>,
        values: &mut BTreeMap<String, Value>,
    ) -> BTreeMap<String, Resource> {
        let mut resources: BTreeMap<String, Resource> = BTreeMap::new();
        for (parameter, store) in stores {
            let opened = store.get().opened();
            let path = opened.store.path().to_string_lossy().into_owned();
            values.insert(parameter.clone(), Value::Text(path));
            for declared in &self.loaded.declaration.resources {
                let is_store =
                    matches!(&declared.kind, Setting::Value(Value::Text(kind)) if kind.ends_with("store"));
                let is_named = |(key, setting): &(String, Setting)| {
                    key == "path" && *setting == Setting::Parameter(parameter.clone())
                };
                if is_store && declared.settings.iter().any(is_named) {
                    let store: Resource = Arc::new(SharedStore(Arc::clone(&opened.store)));
                    resources.insert(declared.name.clone(), store);
                }
            }
        }
        resources
    }
}

/// Whether a box gives its rows to the caller: a sink that was given no file to write.
fn gives_rows(planned: &PlanBox) -> bool {
    let out = planned.arguments.as_ref().and_then(|arguments| arguments.get("out"));
    let has_file = matches!(out, Some(Value::Text(out)) if out != "-");
    planned.spec.gives.is_some() && !has_file
}

/// The rows of a caller for a box; a stream is read while the pipeline runs.
fn input(object: &Bound<'_, PyAny>) -> PyResult<RequestInput> {
    if object.cast::<Rows>().is_err() && object.hasattr("__arrow_c_stream__")? {
        return Ok(RequestInput::reader(reader_of(object)?));
    }
    Ok(RequestInput::batches(Rows::of(object)?.batches))
}
