//! Boxes that are written in Python, as operators made at run time.
//!
//! Invariants: the interpreter's lock is taken only around calls of Python, in a blocking class of its own, so a box of
//! Python holds no slot while it waits for the lock or computes; an exception ends the request, with its traceback as the
//! message. `boxwork/_boxes.py` has the other half: it calls what the user wrote.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};

use arrow_schema::{ArrowError, DataType};
use boxwork_operators::columns;
use boxwork_runtime::descriptor::{Column, Descriptor};
use boxwork_runtime::envelope::{ENVELOPE_ROWS_MAX, Envelope};
use boxwork_runtime::operator::{
    BoxError, Catalog, Context, Flow, In, Kind, Mode, Operator, OperatorEntry, Out, Pushed,
};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType, Value};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::rows::Rows;
use crate::{engine, errors, values};

/// The blocking class of calls of Python.
const PYTHON: &str = "python";

/// The operators of this process, by name.
static REGISTERED: RwLock<BTreeMap<String, Arc<OperatorEntry>>> = RwLock::new(BTreeMap::new());

/// The shipped operators and those of this process.
pub(crate) fn catalog() -> Catalog {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    registered.values().fold(boxwork::catalog(), |catalog, entry| catalog.with(Arc::clone(entry)))
}

/// Registers an operator under a name; a second one of that name replaces the first. `make` is called with the arguments
/// of a box, and returns an object with the methods of `boxwork._boxes.Adapter`. `inputs` are names with the words
/// `stream` or `side` and columns; `output` is a name with columns, or None. Columns are a word such as `distances`, or
/// pairs of a name and a type.
#[pyfunction]
pub(crate) fn register(
    py: Python<'_>,
    name: String,
    about: String,
    make: Py<PyAny>,
    inputs: Vec<(String, String, Bound<'_, PyAny>)>,
    output: Option<(String, Bound<'_, PyAny>)>,
    parameters: Vec<(String, String, Bound<'_, PyAny>)>,
) -> PyResult<()> {
    engine::check_process(py)?;
    if boxwork::catalog().operator(&name).is_some() {
        return Err(errors::input(py, format!("`{name}` is an operator of boxwork: choose another name")));
    }
    let mut table = Vec::new();
    for (name, kind, default) in parameters {
        table.push(parameter(name, &kind, &default)?);
    }
    let shape = Shape {
        stream: inputs.iter().position(|(_, mode, _)| mode == "stream"),
        sides: inputs
            .iter()
            .enumerate()
            .filter(|(_, input)| input.1 == "side")
            .map(|(place, input)| (place, input.0.clone()))
            .collect(),
        output: output.as_ref().map(|(_, columns)| descriptor(columns)).transpose()?,
    };
    let shape = Arc::new(shape);
    let make = Arc::new(make);
    let mut entry = OperatorEntry::new(name.clone(), about, Kind::Stateful, move |bind| {
        Ok(Box::new(PythonBox {
            shape: Arc::clone(&shape),
            make: Arc::clone(&make),
            arguments: bind.arguments.clone(),
            state: State::New,
            object: None,
            results: None,
            waiting: VecDeque::new(),
        }))
    });
    entry.parameters = table.into();
    for (name, mode, columns) in inputs {
        let mode = if mode == "side" { Mode::Side } else { Mode::Stream };
        let columns = descriptor(&columns)?;
        entry = entry.input(name, mode, move |_| columns.clone(), "");
    }
    if let Some((name, columns)) = output {
        let columns = descriptor(&columns)?;
        entry = entry.output(name, move |_| columns.clone(), "");
    }
    REGISTERED.write().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::new(entry));
    Ok(())
}

/// A text that lives as long as the process: registered operators do.
fn kept(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn parameter(name: String, kind: &str, default: &Bound<'_, PyAny>) -> PyResult<Parameter> {
    let kind = match kind {
        "bool" => ParameterType::Boolean,
        "int" => ParameterType::integer(),
        "float" => ParameterType::number(),
        "str" => ParameterType::Text,
        other => {
            let message = format!("the parameter `{name}` is {other}: it may be bool, int, float or str");
            return Err(errors::input(default.py(), message));
        }
    };
    let default = if default.is_none() {
        Default::Required
    } else {
        match values::value_of(&name, default)? {
            Value::Boolean(value) => Default::Boolean(value),
            Value::Integer(value) if matches!(kind, ParameterType::Number { .. }) => {
                Default::Number(value as f64)
            }
            Value::Integer(value) => Default::Integer(value),
            Value::Number(value) => Default::Number(value),
            Value::Text(text) => Default::Text(kept(text)),
            Value::List(_) => return Err(errors::input(default.py(), format!("`{name}` is a list"))),
        }
    };
    Ok(Parameter::new(kept(name), kind, default, "an argument of what is written in Python"))
}

/// Columns by a word that boxwork knows, or by their names and types.
fn descriptor(columns: &Bound<'_, PyAny>) -> PyResult<Descriptor> {
    let py = columns.py();
    if let Ok(word) = columns.cast::<PyString>() {
        let word = word.to_str()?.to_owned();
        let arguments = Arguments::check(&[columns::NAMED], [("columns".to_owned(), Value::Text(word))]);
        let arguments = arguments.map_err(|faults| {
            errors::input(py, faults.into_iter().map(|(_, message)| message).collect::<Vec<_>>().join("; "))
        })?;
        return Ok(columns::named(&arguments));
    }
    let mut made: Vec<Column> = Vec::new();
    for (name, kind) in columns.extract::<Vec<(String, String)>>()? {
        let kind = match kind.as_str() {
            "bool" => DataType::Boolean,
            "int32" => DataType::Int32,
            "int64" => DataType::Int64,
            "uint8" => DataType::UInt8,
            "uint32" => DataType::UInt32,
            "uint64" => DataType::UInt64,
            "float32" => DataType::Float32,
            "float64" => DataType::Float64,
            "str" => DataType::Utf8,
            other => {
                let message = format!(
                    "the column `{name}` is {other}: it may be bool, int32, int64, uint8, uint32, uint64, float32, float64 or \
                     str"
                );
                return Err(errors::input(py, message));
            }
        };
        if made.iter().any(|column| column.name == name) {
            return Err(errors::input(py, format!("two columns are named `{name}`")));
        }
        made.push(Column::new(kept(name), kind, ""));
    }
    Ok(Descriptor::new(made))
}

/// The ports of an operator.
struct Shape {
    /// The place of the stream input, if there is one.
    stream: Option<usize>,
    /// The places and names of the side inputs.
    sides: Vec<(usize, String)>,
    output: Option<Descriptor>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Streaming,
    Ending,
}

/// A box whose work Python does.
struct PythonBox {
    shape: Arc<Shape>,
    make: Arc<Py<PyAny>>,
    arguments: Arguments,
    state: State,
    /// The user's object, made at the first firing.
    object: Option<Py<PyAny>>,
    /// The results of the last call, which Python makes one by one.
    results: Option<Py<PyAny>>,
    /// Results that the output has no room for yet.
    waiting: VecDeque<Envelope>,
}

impl Operator for PythonBox {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        loop {
            while let Some(envelope) = self.waiting.pop_front() {
                if !cx.has_room(OUT) {
                    self.waiting.push_front(envelope);
                    return Ok(Flow::Wait);
                }
                if cx.push(OUT, envelope)? == Pushed::Closed {
                    return Ok(Flow::Done);
                }
            }
            if self.results.is_some() {
                self.next_result(cx)?;
                continue;
            }
            match self.state {
                State::New => {
                    self.begin(cx)?;
                    self.state = State::Streaming;
                }
                State::Ending => return Ok(Flow::Done),
                State::Streaming => {
                    let input = self.shape.stream.map(In::nth);
                    if let Some(envelope) = input.and_then(|input| cx.take(input)) {
                        self.call(cx, "process", Some(envelope))?;
                    } else if input.is_none_or(|input| cx.is_ended(input)) {
                        self.state = State::Ending;
                        self.call(cx, "finish", None)?;
                    } else {
                        return Ok(Flow::Wait);
                    }
                }
            }
        }
    }
}

/// The only output.
const OUT: Out = Out::nth(0);

impl PythonBox {
    /// Makes the user's object.
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let sides: Vec<(String, Vec<Envelope>)> = self
            .shape
            .sides
            .iter()
            .map(|(place, name)| (name.clone(), cx.side(In::nth(*place)).to_vec()))
            .collect();
        let object = with_python(cx, |py| {
            let arguments = PyDict::new(py);
            for (name, value) in self.arguments.iter() {
                set(&arguments, name, value)?;
            }
            let of_sides = PyDict::new(py);
            for (name, envelopes) in sides {
                let batches: Vec<_> = envelopes.iter().map(|envelope| envelope.batch().clone()).collect();
                let schema = batches.first().map(arrow_array::RecordBatch::schema);
                let schema = schema.unwrap_or_else(|| Arc::new(arrow_schema::Schema::empty()));
                of_sides.set_item(name, Bound::new(py, Rows::new(schema, batches))?)?;
            }
            Ok(self.make.bind(py).call1((arguments, of_sides))?.unbind())
        })?;
        self.object = Some(object);
        Ok(())
    }

    /// Calls a method of the object, with the rows of an envelope if there is one. It returns None, or results one by one.
    fn call(&mut self, cx: &mut Context<'_>, method: &str, rows: Option<Envelope>) -> Result<(), BoxError> {
        let object = self.object.as_ref();
        let results = with_python(cx, |py| {
            let Some(object) = object else { return Ok(None) };
            let object = object.bind(py);
            let results = match rows {
                Some(envelope) => {
                    let batch = envelope.batch().clone();
                    object.call_method1(method, (Rows::new(batch.schema(), vec![batch]),))?
                }
                None => object.call_method0(method)?,
            };
            Ok((!results.is_none()).then(|| results.unbind()))
        })?;
        self.results = results;
        Ok(())
    }

    /// Takes the next result, if there is one.
    fn next_result(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let Some(results) = &self.results else { return Ok(()) };
        let rows = with_python(cx, |py| {
            let mut results = results.bind(py).try_iter()?;
            results.next().map(|rows| rows.and_then(|rows| Rows::of(&rows))).transpose()
        })?;
        match (rows, &self.shape.output) {
            (None, _) => self.results = None,
            (Some(rows), Some(columns)) => {
                for batch in rows.batches {
                    let batch = fitting(batch, columns)?;
                    for first in (0..batch.num_rows()).step_by(ENVELOPE_ROWS_MAX) {
                        let count = ENVELOPE_ROWS_MAX.min(batch.num_rows() - first);
                        self.waiting.push_back(Envelope::new(batch.slice(first, count))?);
                    }
                }
            }
            (Some(rows), None) if rows.batches.iter().all(|batch| batch.num_rows() == 0) => {}
            (Some(_), None) => {
                return Err(BoxError::new("it returned rows, and was registered without an output"));
            }
        }
        Ok(())
    }
}

/// The columns of a descriptor out of a batch, by name.
fn fitting(
    batch: arrow_array::RecordBatch,
    columns: &Descriptor,
) -> Result<arrow_array::RecordBatch, BoxError> {
    let schema = batch.schema();
    let mut places = Vec::new();
    for column in columns.columns() {
        places.push(schema.index_of(column.name).map_err(|_| {
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            BoxError::new(format!(
                "it returned no column `{}`; it returned {}",
                column.name,
                names.join(", ")
            ))
        })?);
    }
    let batch = batch.project(&places).map_err(|error: ArrowError| BoxError::new(error.to_string()))?;
    columns
        .admits(batch.schema_ref())
        .map_err(|reason| BoxError::new(format!("it returned rows that do not fit: {reason}")))?;
    Ok(batch)
}

/// Calls Python without holding a slot. An exception becomes an error with its traceback.
fn with_python<R>(cx: &mut Context<'_>, f: impl FnOnce(Python<'_>) -> PyResult<R>) -> Result<R, BoxError> {
    let called = cx.detached(PYTHON, || {
        Python::try_attach(|py| f(py).map_err(|error| BoxError::new(traceback(py, &error))))
    })?;
    called.unwrap_or_else(|| Err(BoxError::new("the interpreter is ending")))
}

/// An exception as Python prints it.
fn traceback(py: Python<'_>, error: &PyErr) -> String {
    let format = || -> PyResult<String> {
        let parts = (error.get_type(py), error.value(py), error.traceback(py));
        let lines = py.import("traceback")?.call_method1("format_exception", parts)?;
        Ok(lines.extract::<Vec<String>>()?.concat())
    };
    format().map_or_else(|_| error.to_string(), |text| text.trim_end().to_owned())
}

fn set(arguments: &Bound<'_, PyDict>, name: &str, value: &Value) -> PyResult<()> {
    match value {
        Value::Boolean(value) => arguments.set_item(name, value),
        Value::Integer(value) => arguments.set_item(name, value),
        Value::Number(value) => arguments.set_item(name, value),
        Value::Text(value) => arguments.set_item(name, value),
        // No parameter of `register` is a list.
        Value::List(_) => Ok(()),
    }
}
