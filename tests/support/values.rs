//! Values of a pipeline's parameters.

use std::path::Path;

use boxwork_runtime::parameter::Value;

/// A path as a value.
pub fn path_value(path: &Path) -> Value {
    Value::Text(path.to_str().expect("a path in UTF-8").to_owned())
}
