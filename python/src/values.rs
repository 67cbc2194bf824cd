//! Python's values as values of parameters.

use std::collections::BTreeMap;

use boxwork_runtime::parameter::Value;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyString};

use crate::errors;

/// The values of a dictionary; those that are None are left out.
pub(crate) fn of_dict(values: &Bound<'_, PyDict>) -> PyResult<BTreeMap<String, Value>> {
    let mut read = BTreeMap::new();
    for (name, value) in values {
        if !value.is_none() {
            let name: String = name.extract()?;
            let value = value_of(&name, &value)?;
            read.insert(name, value);
        }
    }
    Ok(read)
}

/// One value; `name` is that of its parameter.
pub(crate) fn value_of(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Value::Text(text.to_str()?.to_owned()));
    }
    if let Ok(truth) = object.cast::<PyBool>() {
        return Ok(Value::Boolean(truth.is_true()));
    }
    if let Ok(number) = object.cast::<PyFloat>() {
        return Ok(Value::Number(number.value()));
    }
    // Whole numbers of numpy are none of Python's, and numpy's floats of 32 bits neither.
    if object.hasattr("__index__")? {
        let number = object.extract::<i64>();
        return number.map(Value::Integer).map_err(|_| {
            errors::input(object.py(), format!("`{name}`: a whole number of more than 64 bits"))
        });
    }
    if object.hasattr("__float__")? && !object.hasattr("__iter__")? {
        return Ok(Value::Number(object.extract()?));
    }
    let Ok(items) = object.try_iter() else {
        let kind = object.get_type().name()?;
        let message =
            format!("`{name}`: a value is a truth, a number, a text, a path or a list, not `{kind}`");
        return Err(errors::input(object.py(), message));
    };
    let values: PyResult<Vec<Value>> = items.map(|item| value_of(name, &item?)).collect();
    values.map(Value::List)
}
