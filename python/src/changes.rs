//! Stores that are made and changed: extraction, additions, removals, compaction, indexes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use boxwork::engine::{Exchange, Limits};
use boxwork::pipeline::Loaded;
use boxwork::shipped::{self, Shipped};
use boxwork_runtime::operator::Cancellation;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_stores::any_kind;
use boxwork_stores::object_store::Access;
use boxwork_stores::pivot_table::{PivotTable, in_threads_until};
use boxwork_stores::spaces::{DistanceOptions, EditConstants};
use boxwork_stores::store_error::StoreError;
use boxwork_stores::upkeep;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::engine::{engine, interruptible, run};
use crate::store::{Store, named, prepare};
use crate::{errors, values};

/// What a run left out: what it is, and why; and the number of all such items.
type Skipped = (Vec<(String, String)>, u64);

/// Runs a shipped pipeline that writes a file.
fn run_shipped(py: Python<'_>, pipeline: Shipped, values: &BTreeMap<String, Value>) -> PyResult<Skipped> {
    run_loaded(py, &pipeline.load(), values)
}

fn run_loaded(py: Python<'_>, loaded: &Loaded, values: &BTreeMap<String, Value>) -> PyResult<Skipped> {
    let prepared = prepare(py, loaded, values, BTreeMap::new())?;
    finish(py, loaded, &prepared)
}

/// Runs a prepared pipeline.
fn finish(py: Python<'_>, loaded: &Loaded, prepared: &Arc<Prepared>) -> PyResult<Skipped> {
    let ended = run(py, prepared, &BTreeMap::new(), Exchange::default(), Limits::default())?;
    if let Some(failure) = &ended.failure {
        return Err(errors::failure(py, loaded, failure));
    }
    let problems = ended.outcomes.iter().flat_map(|outcome| &outcome.problems);
    let problems = problems.map(|problem| (problem.subject.clone(), problem.message.clone())).collect();
    Ok((problems, ended.outcomes.iter().map(|outcome| outcome.problems_count).sum()))
}

/// Extracts the signatures of images into a store file.
#[pyfunction]
pub(crate) fn extract(py: Python<'_>, values: &Bound<'_, PyDict>) -> PyResult<Skipped> {
    run_shipped(py, shipped::EXTRACT, &values::of_dict(values)?)
}

/// Adds images, or the objects of another store.
#[pyfunction]
pub(crate) fn add(py: Python<'_>, store: &Bound<'_, Store>, values: &Bound<'_, PyDict>) -> PyResult<Skipped> {
    let path = store.get().file(py)?;
    let mut values = values::of_dict(values)?;
    values.insert("store".to_owned(), Value::Text(path.to_string_lossy().into_owned()));
    let pipeline = if values.contains_key("from") {
        for name in ["holds", "from_holds"] {
            values.insert(name.to_owned(), Value::Text(store.get().opened().store.kind().to_owned()));
        }
        shipped::ADD_FROM
    } else {
        shipped::ADD
    };
    let skipped = run_shipped(py, pipeline, &values)?;
    store.get().reopen(py)?;
    Ok(skipped)
}

/// Removes objects by their names, all or none of them.
#[pyfunction]
pub(crate) fn remove_objects(py: Python<'_>, store: &Bound<'_, Store>, names: Vec<String>) -> PyResult<u64> {
    let path = store.get().file(py)?;
    let removed = interruptible(py, |cancellation: &Cancellation| remove(&path, &names, cancellation))?;
    let removed = match removed.map_err(|error| errors::store(py, error))? {
        Ok(removed) => removed,
        Err(missing) => {
            let path = path.display();
            let message = format!("`{path}` has no object named `{missing}`; nothing was removed");
            return Err(errors::input(py, message));
        }
    };
    store.get().reopen(py)?;
    Ok(removed)
}

/// Writes the store as one file again; objects are numbered anew.
#[pyfunction]
pub(crate) fn compact(py: Python<'_>, store: &Bound<'_, Store>, pivots: Vec<PathBuf>) -> PyResult<u64> {
    let path = store.get().file(py)?;
    let slots = engine(py)?.runtime().environment().slots;
    let compacted = interruptible(py, |cancellation: &Cancellation| {
        let cancelled = || cancellation.is_cancelled();
        let side_by_side = &mut in_threads_until(slots, &cancelled);
        upkeep::compact(&path, &pivots, Access::Read, side_by_side, &cancelled)
    })?;
    let forgotten = compacted.map_err(|error| errors::store(py, error))?.forgotten;
    store.get().reopen(py)?;
    Ok(forgotten)
}

/// Writes a file that belongs to the store, such as an index or sketches, by the shipped pipeline of this name.
#[pyfunction]
pub(crate) fn make_file(
    py: Python<'_>,
    store: &Bound<'_, Store>,
    pipeline: &str,
    values: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let path = store.get().file(py)?;
    let mut values = values::of_dict(values)?;
    values.insert("store".to_owned(), Value::Text(path.to_string_lossy().into_owned()));
    let loaded = named(py, pipeline)?;
    run_loaded(py, &loaded, &values).map(drop)
}

/// Writes the sketches of an index of the store, for the distance that the index was made for.
#[pyfunction]
pub(crate) fn make_sketch_of(
    py: Python<'_>,
    store: &Bound<'_, Store>,
    pivots: PathBuf,
    values: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let path = store.get().file(py)?;
    let of_index = py.detach(|| PivotTable::measure_of(&pivots));
    let DistanceOptions { distance, p, root, similarity, ground, alpha, costs, band } =
        of_index.map_err(|error| errors::store(py, error))?;
    let EditConstants { insert, delete, replace, matrix } = costs;
    let mut values = values::of_dict(values)?;
    let text = |path: &std::path::Path| Value::Text(path.to_string_lossy().into_owned());
    values.extend([
        ("store".to_owned(), text(&path)),
        ("pivots".to_owned(), text(&pivots)),
        ("distance".to_owned(), Value::Text(distance)),
        ("similarity".to_owned(), Value::Text(similarity)),
        ("ground".to_owned(), Value::Text(ground)),
        ("root".to_owned(), Value::Boolean(root)),
    ]);
    values.extend(
        [("p", p), ("alpha", alpha)]
            .into_iter()
            .filter_map(|(name, number)| Some((name.to_owned(), Value::Number(number?)))),
    );
    let whole = |count: Option<u32>| count.map(i64::from);
    let counts = [("insert", whole(insert)), ("delete", whole(delete)), ("replace", whole(replace))];
    let band = band.and_then(|band| i64::try_from(band).ok());
    values.extend(
        counts
            .into_iter()
            .chain([("band", band)])
            .filter_map(|(name, count)| Some((name.to_owned(), Value::Integer(count?)))),
    );
    values.extend(matrix.map(|file| ("matrix".to_owned(), Value::Text(file))));
    let loaded = named(py, "sketch_apexes")?;
    run_loaded(py, &loaded, &values).map(drop)
}

/// Writes the objects of a store, which may be in memory, to a file.
#[pyfunction]
pub(crate) fn copy(py: Python<'_>, store: &Bound<'_, Store>, out: PathBuf) -> PyResult<()> {
    let (opened, loaded) = (store.get().opened(), shipped::COPY.load());
    let text = |text: &std::path::Path| Value::Text(text.to_string_lossy().into_owned());
    let values = BTreeMap::from([
        ("store".to_owned(), text(opened.store.path())),
        ("out".to_owned(), text(&out)),
        ("holds".to_owned(), Value::Text(opened.store.kind().to_owned())),
    ]);
    let prepared = opened.prepare(py, &loaded, &values)?;
    finish(py, &loaded, &prepared).map(drop)
}

/// The number of objects removed, or the first name that no object has. A cancelled removal leaves the store unchanged.
fn remove(
    path: &std::path::Path,
    names: &[String],
    cancellation: &Cancellation,
) -> Result<Result<u64, String>, StoreError> {
    let go_on = || cancellation.check().map_err(|_| StoreError::Cancelled { path: path.to_owned() });
    let mut change = any_kind::change_by(path, Access::Read)?;
    for name in names {
        go_on()?;
        match change.store().find(name)? {
            Some(id) => drop(change.remove(id)?),
            None => return Ok(Err(name.clone())),
        }
    }
    let pending = change.write()?;
    go_on()?;
    pending.commit().map(|(_, removed)| Ok(removed))
}
