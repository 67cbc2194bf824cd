//! Checks a value against a JSON schema.

use serde_json::Value as Json;

/// The part of JSON schema that ours uses; patterns are left to editors.
pub fn matches(schema: &Json, root: &Json, value: &Json) -> Result<(), String> {
    let fail = |what: &str| Err(format!("{what}: {value} against {schema}"));
    let all = |schemas: &Json| -> Vec<Json> { schemas.as_array().cloned().unwrap_or_default() };
    if let Some(reference) = schema["$ref"].as_str() {
        matches(root.pointer(&reference[1..]).expect("a definition"), root, value)?;
    }
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64(),
        other => panic!("type {other}"),
    };
    let types: Vec<String> = match &schema["type"] {
        Json::String(name) => vec![name.clone()],
        Json::Array(names) => names.iter().map(|name| name.as_str().unwrap().to_owned()).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|name| is(name)) {
        return fail("type");
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return fail("const");
    }
    if schema.get("enum").is_some_and(|words| !words.as_array().unwrap().contains(value)) {
        return fail("enum");
    }
    if let (Some(least), Some(number)) = (schema["minimum"].as_f64(), value.as_f64())
        && number < least
    {
        return fail("minimum");
    }
    if schema["pattern"].as_str().is_some_and(|pattern| pattern.starts_with(r"\$")) {
        let text = value.as_str().unwrap_or_default();
        if !(text.contains("${") && text.contains('}')) {
            return fail("pattern");
        }
    }
    if schema.get("anyOf").is_some() {
        let errors: Vec<String> =
            all(&schema["anyOf"]).iter().filter_map(|schema| matches(schema, root, value).err()).collect();
        if errors.len() == all(&schema["anyOf"]).len() {
            return Err(errors.join("\n"));
        }
    }
    for schema in all(&schema["allOf"]) {
        if matches(&schema["if"], root, value).is_ok() {
            matches(&schema["then"], root, value)?;
        }
    }
    for item in value.as_array().into_iter().flatten() {
        if schema.get("items").is_some() {
            matches(&schema["items"], root, item)?;
        }
    }
    if let Some(object) = value.as_object() {
        for key in all(&schema["required"]) {
            if !object.contains_key(key.as_str().unwrap()) {
                return fail("required");
            }
        }
        for (key, value) in object {
            match schema["properties"].get(key) {
                Some(schema) => matches(schema, root, value)?,
                None if schema["additionalProperties"] == Json::Bool(false) => return fail(key),
                None if schema["additionalProperties"].is_object() => {
                    matches(&schema["additionalProperties"], root, value)?;
                }
                None => {}
            }
        }
    }
    Ok(())
}
