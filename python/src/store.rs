//! `Store`: an open store and what it answers: searches, distances, evaluations.
//!
//! Invariant: an open store is a snapshot; a change of the store replaces it, and calls under way keep theirs. Files are
//! read and never mapped, so nothing that a call returns lies in a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use arrow_array::types::Float32Type;
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use boxwork::engine::{Exchange, Limits, Preparation};
use boxwork::pipeline::Loaded;
use boxwork::shipped;
use boxwork_operators::{Asked, distance_options, open_store, query_objects};
use boxwork_runtime::operator::{Cancellation, RequestInput, Resource};
use boxwork_runtime::parameter::{Arguments, Value};
use boxwork_runtime::prepare::{PrepareError, Prepared};
use boxwork_stores::object_store::Access;
use boxwork_stores::space::{SharedSpace, Space};
use boxwork_stores::spaces;
use boxwork_stores::store::{SharedStore, Store as Objects};
use boxwork_stores::store_error::StoreError;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::engine::{engine, interruptible, run};
use crate::numbers::Numbers;
use crate::rows::Rows;
use crate::{errors, rows, values};

/// Prepared pipelines that a store keeps.
const PREPARED_KEPT: usize = 8;
/// The parameters of a distance.
const DISTANCE: [&str; 6] = ["distance", "p", "root", "similarity", "ground", "alpha"];

/// An open store.
#[pyclass(frozen, module = "boxwork._boxwork")]
pub(crate) struct Store {
    opened: RwLock<Arc<Opened>>,
}

/// A snapshot of a store, and what was computed for it.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Objects>,
    /// Whether it comes from a file.
    is_file: bool,
    /// By the arguments of the distance.
    spaces: Mutex<Vec<(Arguments, Arc<dyn Space>)>>,
    /// By pipeline and values; the latest last.
    prepared: Mutex<Vec<(String, Arc<Prepared>)>>,
}

impl Opened {
    fn new(store: Arc<dyn Objects>, is_file: bool) -> Self {
        Self { store, is_file, spaces: Mutex::default(), prepared: Mutex::default() }
    }

    /// The space of a distance over the store.
    fn space(&self, py: Python<'_>, values: &BTreeMap<String, Value>) -> PyResult<Arc<dyn Space>> {
        let given = values.iter().filter(|(name, _)| DISTANCE.contains(&name.as_str()));
        let mut given: BTreeMap<String, Value> =
            given.map(|(name, value)| (name.clone(), value.clone())).collect();
        for name in ["p", "alpha"] {
            // A whole number is a number too.
            if let Some(Value::Integer(number)) = given.get(name) {
                let number = *number as f64;
                given.insert(name.to_owned(), Value::Number(number));
            }
        }
        let arguments = Arguments::new(given);
        let known = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, space)) = known.iter().find(|(of, _)| *of == arguments) {
            return Ok(Arc::clone(space));
        }
        drop(known);
        let options = distance_options(&arguments, None);
        let store = Arc::clone(&self.store);
        let space = interruptible(py, move |_| spaces::open(&options, store))?;
        let space = space.map_err(|error| errors::input(py, error))?;
        let mut known = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= PREPARED_KEPT {
            known.remove(0);
        }
        known.push((arguments, Arc::clone(&space)));
        Ok(space)
    }

    /// A shipped pipeline over this snapshot, prepared once for equal values.
    pub(crate) fn prepare(
        &self,
        py: Python<'_>,
        loaded: &Loaded,
        values: &BTreeMap<String, Value>,
    ) -> PyResult<Arc<Prepared>> {
        let key = format!("{} {values:?}", loaded.name());
        {
            let mut kept = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(place) = kept.iter().position(|(of, _)| *of == key) {
                let found = kept.remove(place);
                let prepared = Arc::clone(&found.1);
                kept.push(found);
                return Ok(prepared);
            }
        }
        let mut resources: BTreeMap<String, Resource> = BTreeMap::new();
        for declared in &loaded.declaration.resources {
            match declared.name.as_str() {
                "objects" | "signatures" => {
                    let store: Resource = Arc::new(SharedStore(Arc::clone(&self.store)));
                    resources.insert(declared.name.clone(), store);
                }
                "space" => {
                    let space: Resource = Arc::new(SharedSpace(self.space(py, values)?));
                    resources.insert(declared.name.clone(), space);
                }
                _ => {}
            }
        }
        let prepared = prepare(py, loaded, values, resources)?;
        let mut kept = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= PREPARED_KEPT {
            kept.remove(0);
        }
        kept.push((key, Arc::clone(&prepared)));
        Ok(prepared)
    }
}

/// Prepares a pipeline with the operators that this process has.
pub(crate) fn prepare(
    py: Python<'_>,
    loaded: &Loaded,
    values: &BTreeMap<String, Value>,
    resources: BTreeMap<String, Resource>,
) -> PyResult<Arc<Prepared>> {
    let engine = engine(py)?;
    let catalog = crate::boxes::catalog();
    let prepared = interruptible(py, |cancellation: &Cancellation| -> Result<_, PrepareError> {
        let preparation =
            Preparation { resources, cancellation: cancellation.clone(), ..Preparation::default() };
        engine.prepare_with(loaded, &catalog, values, preparation)
    })?;
    prepared.map_err(|error| errors::prepare(py, loaded, &error))
}

/// Opens a store, reading its files.
fn open(path: &Path) -> Result<Arc<dyn Objects>, boxwork_runtime::operator::BoxError> {
    open_store(path, None, "name", None, Access::Read, None)
}

/// What Python asks for: a name, a path or a text; an id; a picture; or a vector.
fn asked(store: &dyn Objects, object: &Bound<'_, PyAny>) -> PyResult<Asked> {
    let py = object.py();
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Asked::Text(text.to_str()?.to_owned()));
    }
    if let Ok(id) = object.extract::<u64>() {
        return Ok(Asked::Id(id));
    }
    if store.kind() == "vectors" {
        let (numbers, shape) = crate::numbers::shared::<Float32Type>(object)?;
        let [dimensions] = shape[..] else {
            return Err(errors::input(
                py,
                format!("a query is a vector, and this array has the shape {shape:?}"),
            ));
        };
        return Ok(Asked::Object(rows::vectors::<Float32Type>(numbers, 1, dimensions)));
    }
    let picture = PyBuffer::<u8>::get(object)?;
    let [height, width, 3] = picture.shape()[..] else {
        let shape = picture.shape();
        let message =
            format!("a picture is an array of uint8 of the shape (height, width, 3), not {shape:?}");
        return Err(errors::input(py, message));
    };
    let (Ok(width), Ok(height)) = (u32::try_from(width), u32::try_from(height)) else {
        return Err(errors::input(py, "a picture of more than 2^32 columns or rows"));
    };
    Ok(Asked::Picture { width, height, rgb: picture.to_vec(py)? })
}

impl Store {
    /// A store in memory.
    pub(crate) fn in_memory(store: Arc<dyn Objects>) -> Self {
        Self { opened: RwLock::new(Arc::new(Opened::new(store, false))) }
    }

    /// The present snapshot.
    pub(crate) fn opened(&self) -> Arc<Opened> {
        Arc::clone(&self.opened.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The file, which a store in memory lacks.
    pub(crate) fn file(&self, py: Python<'_>) -> PyResult<PathBuf> {
        let opened = self.opened();
        if opened.is_file {
            return Ok(opened.store.path().to_owned());
        }
        Err(errors::store(py, "vectors in memory are no file: they cannot be changed or indexed"))
    }

    /// Opens the file again, after a change.
    pub(crate) fn reopen(&self, py: Python<'_>) -> PyResult<()> {
        let path = self.file(py)?;
        let store = interruptible(py, |_| open(&path))?.map_err(|error| errors::store(py, error))?;
        *self.opened.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Opened::new(store, true));
        Ok(())
    }
}

#[pymethods]
impl Store {
    /// Opens a store file.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let store = interruptible(py, |_| open(&path))?.map_err(|error| errors::store(py, error))?;
        Ok(Self { opened: RwLock::new(Arc::new(Opened::new(store, true))) })
    }

    fn __len__(&self) -> usize {
        self.opened().store.objects_count() as usize
    }

    /// The file; None for vectors in memory.
    #[getter]
    fn path(&self) -> Option<String> {
        let opened = self.opened();
        opened.is_file.then(|| opened.store.path().to_string_lossy().into_owned())
    }

    /// What the objects are, in the plural.
    #[getter]
    fn kind(&self) -> &'static str {
        self.opened().store.kind()
    }

    /// A text unique to the content.
    #[getter]
    fn fingerprint(&self) -> String {
        self.opened().store.fingerprint().to_owned()
    }

    /// The alpha of searches that name none.
    #[getter]
    fn alpha(&self) -> Option<f64> {
        self.opened().store.alpha()
    }

    /// The ids that have objects, ascending, and their names.
    fn listed(&self, py: Python<'_>) -> PyResult<(Numbers, Vec<String>)> {
        let store = Arc::clone(&self.opened().store);
        let listed = interruptible(py, move |cancellation: &Cancellation| {
            let (mut ids, mut names) = (Vec::new(), Vec::new());
            for batch in 0..store.batches() {
                if cancellation.is_cancelled() {
                    break;
                }
                store.each_name(batch, &mut |id, name| {
                    if store.has(id) {
                        ids.push(id);
                        names.push(name.to_owned());
                    }
                })?;
            }
            Ok::<_, StoreError>((ids, names))
        })?;
        let (ids, names) = listed.map_err(|error| errors::store(py, error))?;
        let ids: ArrayRef = Arc::new(arrow_array::UInt64Array::from(ids));
        let ids = Numbers::of(&ids).unwrap_or_else(|| unreachable!("ids are numbers"));
        Ok((ids, names))
    }

    /// The names of objects.
    fn names_of(&self, py: Python<'_>, ids: Vec<u64>) -> PyResult<Vec<String>> {
        let store = Arc::clone(&self.opened().store);
        let names = interruptible(py, move |_| {
            ids.iter().map(|id| store.name(*id)).collect::<Result<Vec<String>, StoreError>>()
        })?;
        names.map_err(|error| errors::input(py, error))
    }

    /// The id of an object by its name; None if there is none.
    fn find(&self, py: Python<'_>, name: String) -> PyResult<Option<u64>> {
        let store = Arc::clone(&self.opened().store);
        interruptible(py, move |_| store.find(&name))?.map_err(|error| errors::store(py, error))
    }

    /// Queries with their objects: rows with `query`, `name` and `object`, and with `relevance` if it is given. A query is a
    /// name, a path, an id, a picture or a vector; paths and pictures are extracted as the store's images were.
    #[pyo3(signature = (queries, relevance=None))]
    fn query_rows(
        &self,
        py: Python<'_>,
        queries: Vec<Bound<'_, PyAny>>,
        relevance: Option<Vec<f64>>,
    ) -> PyResult<Rows> {
        let store = Arc::clone(&self.opened().store);
        let asked: Vec<Asked> = queries.iter().map(|query| asked(&*store, query)).collect::<PyResult<_>>()?;
        if asked.is_empty() || relevance.as_ref().is_some_and(|relevance| relevance.len() != asked.len()) {
            return Err(errors::input(py, "there are no queries, or not as many as numbers"));
        }
        let found = interruptible(py, move |cancellation: &Cancellation| {
            query_objects(&store, asked, &|| cancellation.is_cancelled())
        })?;
        let mut batch = found.map_err(|error| errors::input(py, error))?;
        if let Some(relevance) = relevance {
            let mut fields: Vec<Arc<Field>> = batch.schema().fields().iter().map(Arc::clone).collect();
            fields.push(Arc::new(Field::new("relevance", DataType::Float64, false)));
            let mut columns = batch.columns().to_vec();
            columns.push(Arc::new(Float64Array::from(relevance)));
            let made = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
            batch = made.map_err(crate::capsule::arrow)?;
        }
        Ok(Rows::new(batch.schema(), vec![batch]))
    }

    /// The rows of a table of float32 as queries of vectors: rows with `query`, `name` and `object`.
    fn query_table(&self, py: Python<'_>, table: &Bound<'_, PyAny>) -> PyResult<Rows> {
        let (numbers, shape) = crate::numbers::shared::<Float32Type>(table)?;
        let [count, dimensions] = shape[..] else {
            let message = format!("queries are the rows of a table, and this array has the shape {shape:?}");
            return Err(errors::input(py, message));
        };
        let names = (0..count).map(|row| row.to_string());
        let columns: [(&str, ArrayRef); 3] = [
            ("query", Arc::new(arrow_array::UInt32Array::from_iter_values(0..count as u32))),
            ("name", Arc::new(arrow_array::StringArray::from_iter_values(names))),
            ("object", rows::vectors::<Float32Type>(numbers, count, dimensions)),
        ];
        let batch = RecordBatch::try_from_iter(columns).map_err(crate::capsule::arrow)?;
        Ok(Rows::new(batch.schema(), vec![batch]))
    }

    /// Runs a shipped pipeline over the store, and returns the rows of one of its boxes. It is prepared once for equal
    /// `values`; `each` are values that may differ between requests, and `inputs` are rows for its boxes.
    fn ask(
        &self,
        py: Python<'_>,
        pipeline: &str,
        output: String,
        values: &Bound<'_, PyDict>,
        each: &Bound<'_, PyDict>,
        inputs: BTreeMap<String, Bound<'_, Rows>>,
    ) -> PyResult<Rows> {
        let opened = self.opened();
        let loaded = named(py, pipeline)?;
        let (mut values, mut each) = (values::of_dict(values)?, values::of_dict(each)?);
        let path = opened.store.path().to_string_lossy().into_owned();
        values.insert("store".to_owned(), Value::Text(path));
        // A parameter that must have a value and differs between requests: any value will do for the preparation.
        for declared in &loaded.declaration.parameters {
            if let Some(value) = each.get(&declared.name)
                && !declared.optional
                && declared.default.is_none()
            {
                let fixed = if let Value::List(_) = value { Value::List(Vec::new()) } else { value.clone() };
                values.insert(declared.name.clone(), fixed);
            }
        }
        each.retain(|name, value| values.get(name) != Some(&*value));
        let prepared = opened.prepare(py, &loaded, &values)?;
        let inputs = inputs
            .into_iter()
            .map(|(name, rows)| (name, RequestInput::batches(rows.get().batches.clone())))
            .collect();
        let exchange = Exchange { inputs, outputs: vec![output.clone()], ..Exchange::default() };
        let mut ended = run(py, &prepared, &each, exchange, Limits::default())?;
        if let Some(failure) = &ended.failure {
            return Err(errors::search_failure(py, &loaded, failure));
        }
        let sink = prepared.plan().boxes.iter().find(|planned| planned.name == output);
        let gives = sink.and_then(|sink| sink.spec.gives.as_ref().zip(sink.arguments.as_ref()));
        let columns = gives.map(|(gives, arguments)| gives(arguments)).unwrap_or_default();
        Ok(Rows::of_output(&columns, ended.outputs.remove(&output).unwrap_or_default()))
    }

    /// The exact distances of objects: a row for each of `ids`, a column for each of `others`.
    fn distances(
        &self,
        py: Python<'_>,
        ids: Vec<u64>,
        others: Vec<u64>,
        values: &Bound<'_, PyDict>,
    ) -> PyResult<Numbers> {
        let opened = self.opened();
        if let Some(id) = ids.iter().chain(&others).find(|id| !opened.store.has(**id)) {
            let path = opened.store.path().display();
            return Err(errors::input(py, format!("`{path}` has no object {id}")));
        }
        let space = opened.space(py, &values::of_dict(values)?)?;
        let slots = engine(py)?.runtime().environment().slots;
        let columns = others.len();
        let numbers = interruptible(py, move |cancellation: &Cancellation| {
            table(&space, &ids, &others, slots, cancellation)
        })?;
        numbers.map(|numbers| Numbers::table(numbers, columns)).map_err(|message| errors::store(py, message))
    }
}

/// A shipped pipeline by its name, read once.
pub(crate) fn named(py: Python<'_>, name: &str) -> PyResult<Arc<Loaded>> {
    static READ: Mutex<BTreeMap<&'static str, Arc<Loaded>>> = Mutex::new(BTreeMap::new());
    let shipped = shipped::find(name);
    let shipped =
        shipped.ok_or_else(|| errors::error(py, format!("there is no shipped pipeline `{name}`")))?;
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Arc::clone(read.entry(shipped.name()).or_insert_with(|| Arc::new(shipped.load()))))
}

/// The exact distances between two lists of objects, row by row, on all slots.
fn table(
    space: &Arc<dyn Space>,
    ids: &[u64],
    others: &[u64],
    slots: usize,
    cancellation: &Cancellation,
) -> Result<Vec<f64>, String> {
    let mut numbers = vec![0.0; ids.len() * others.len()];
    if numbers.is_empty() {
        return Ok(numbers);
    }
    let store = space.store();
    store.bring_in(ids).and_then(|()| store.bring_in(others)).map_err(|error| error.to_string())?;
    let rows: Vec<(u64, Mutex<&mut [f64]>)> =
        ids.iter().copied().zip(numbers.chunks_mut(others.len()).map(Mutex::new)).collect();
    let next = AtomicUsize::new(0);
    let fault: Mutex<Option<String>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..slots.min(rows.len()) {
            scope.spawn(|| {
                while !cancellation.is_cancelled() {
                    let Some((id, row)) = rows.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                    let mut row = row.lock().unwrap_or_else(PoisonError::into_inner);
                    let found = one_row(space, *id, others, &mut row, cancellation);
                    if let Err(error) = found {
                        *fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        return;
                    }
                }
            });
        }
    });
    drop(rows);
    match fault.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(fault) => Err(fault),
        None => store.confirm().map(|()| numbers).map_err(|error| error.to_string()),
    }
}

fn one_row(
    space: &Arc<dyn Space>,
    id: u64,
    others: &[u64],
    row: &mut [f64],
    cancellation: &Cancellation,
) -> Result<(), String> {
    let interrupt = || cancellation.is_cancelled();
    let object = space.store().objects(&[id]).map_err(|error| error.to_string())?;
    debug_assert_eq!(object.len(), 1);
    let prepared = Arc::clone(space).prepare_until(&object, 0, &interrupt);
    let prepared = prepared.map_err(|error| error.to_string())?;
    prepared.exact_until(others, row, &interrupt).map_err(|error| error.to_string())
}
