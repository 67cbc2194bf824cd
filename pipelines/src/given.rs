//! Values given on the command line: `--set name=value`, read by the type that the pipeline declares, and
//! `--blocking class=limit`.

use std::collections::BTreeMap;

use boxwork_runtime::parameter::{ParameterType, Value, did_you_mean};
use boxwork_runtime::plan::{Declaration, ParameterDeclaration};
use boxwork_runtime::statistics::ClassLimit;

use crate::document::node::{self, Node};

/// Reads one value by its parameter's type, and checks it.
///
/// Text and paths are taken literally; a list is `[a, b]`, or numbers parted by commas, or one value as a list of one.
///
/// # Errors
/// A sentence with the given and the expected value.
pub fn parse_setting(parameter: &ParameterDeclaration, text: &str) -> Result<Value, String> {
    let value = parse(&parameter.kind, text)
        .ok_or_else(|| format!("`{}`: \"{text}\" is not {}", parameter.name, parameter.kind))?;
    parameter.admit(&value).map_err(|message| format!("`{}`: {message}", parameter.name))
}

/// Reads all given values; a list's parameter may be given several times, and its values are then joined.
///
/// # Errors
/// Every fault: the parameter's name and a sentence.
pub fn parse_settings(
    declaration: &Declaration,
    given: &[(String, String)],
) -> Result<BTreeMap<String, Value>, Vec<(String, String)>> {
    let (mut values, mut faults): (BTreeMap<String, Value>, _) = (BTreeMap::new(), Vec::new());
    for (name, text) in given {
        let Some(parameter) = declaration.parameters.iter().find(|parameter| parameter.name == *name) else {
            let names: Vec<&str> =
                declaration.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
            let near = did_you_mean(name, names.iter().copied());
            let all = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let help = if near.is_empty() { format!("; there are: {all}") } else { near };
            faults.push((name.clone(), format!("the pipeline has no parameter `{name}`{help}")));
            continue;
        };
        match (parse_setting(parameter, text), values.get_mut(name)) {
            (Ok(Value::List(more)), Some(Value::List(values))) => values.extend(more),
            (Ok(value), None) => drop(values.insert(name.clone(), value)),
            (Ok(_), Some(_)) => faults.push((name.clone(), format!("`{name}` is given twice"))),
            (Err(message), _) => faults.push((name.clone(), message)),
        }
    }
    if faults.is_empty() { Ok(values) } else { Err(faults) }
}

/// Reads `class=limit`, for clap.
///
/// # Errors
/// When it has another form, or the limit is invalid.
pub fn class_and_limit(text: &str) -> Result<(String, ClassLimit), String> {
    match text.split_once('=') {
        Some((class, limit)) if !class.trim().is_empty() => {
            let limit =
                limit.trim().parse().map_err(|error| format!("{error}, such as disk=4 or disk=auto"))?;
            Ok((class.trim().to_owned(), limit))
        }
        _ => Err("write CLASS=LIMIT, such as disk=4 or disk=auto".to_owned()),
    }
}

/// Splits `name=value`, for clap.
///
/// # Errors
/// When there is no `=`, or nothing before it.
pub fn name_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE, such as k=20".to_owned()),
    }
}

fn parse(kind: &ParameterType, text: &str) -> Option<Value> {
    let trimmed = text.trim();
    match kind {
        ParameterType::Boolean => match trimmed {
            "true" | "yes" | "on" => Some(Value::Boolean(true)),
            "false" | "no" | "off" => Some(Value::Boolean(false)),
            _ => None,
        },
        ParameterType::Integer { .. } => trimmed.parse().ok().map(Value::Integer),
        ParameterType::Number { .. } | ParameterType::Positive => {
            trimmed.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Number)
        }
        ParameterType::Text
        | ParameterType::Path
        | ParameterType::Choice(_)
        | ParameterType::Device
        | ParameterType::Resource(_) => Some(Value::Text(text.to_owned())),
        ParameterType::List(item) => {
            if trimmed.starts_with('[') && trimmed.ends_with(']') {
                let Node::List(items) = node::read(trimmed).ok()?.value else { return None };
                let values = items.iter().map(|entry| match &entry.value {
                    Node::Text(text) => parse(item, text),
                    // `[001, 1e3]` as texts: taken literally.
                    _ => parse(item, entry.span.of(trimmed)?),
                });
                return values.collect::<Option<_>>().map(Value::List);
            }
            // A text may have commas, a number has none.
            let is_number = matches!(
                item,
                ParameterType::Integer { .. } | ParameterType::Number { .. } | ParameterType::Positive
            );
            if is_number && text.contains(',') {
                let values = text.split(',').map(|entry| parse(item, entry));
                return values.collect::<Option<_>>().map(Value::List);
            }
            parse(item, text).map(|value| Value::List(vec![value]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline;

    fn declaration() -> Declaration {
        let text = "boxwork: 1\nparameters:\n  k: {type: integer, minimum: 1}\n  alpha: {type: number}\n  \
                    names: {type: list of text}\n  sigma: {type: list of number}\n  store: {type: path}\n  exact: {type: boolean}\n  \
                    mode: {type: text, one_of: [fast, exact]}\n";
        pipeline::read_text("test", text).declaration
    }

    fn given(pairs: &[(&str, &str)]) -> Result<BTreeMap<String, Value>, Vec<(String, String)>> {
        let pairs: Vec<(String, String)> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        parse_settings(&declaration(), &pairs)
    }

    fn texts(texts: &[&str]) -> Value {
        Value::List(texts.iter().map(|text| Value::Text((*text).to_owned())).collect())
    }

    #[test]
    fn values_are_read_by_their_types() {
        let values = given(&[
            ("k", "20"),
            ("alpha", "2"),
            ("names", "[a, 'b, c', 001, 7]"),
            ("names", "d[1]"),
            ("names", "e, f"),
            ("sigma", "15, 25,50.5"),
            ("store", "~/x = y.arrow"),
            ("exact", "yes"),
        ])
        .unwrap();
        assert_eq!(values["k"], Value::Integer(20));
        assert_eq!(values["alpha"], Value::Number(2.0));
        assert_eq!(values["names"], texts(&["a", "b, c", "001", "7", "d[1]", "e, f"]));
        assert_eq!(values["sigma"], Value::List([15.0, 25.0, 50.5].map(Value::Number).to_vec()));
        assert_eq!(values["store"], Value::Text("~/x = y.arrow".into()));
        assert_eq!(values["exact"], Value::Boolean(true));
    }

    #[test]
    fn a_parameter_that_says_nothing_of_itself_leaves_no_hole_in_a_message() {
        let faults = declaration().values(&BTreeMap::new()).unwrap_err();
        let missing = "the parameter `k` is missing: a whole number of at least 1; give it by --set k=VALUE";
        assert_eq!(faults[0].1, missing);
    }

    #[test]
    fn all_faults_are_told() {
        let faults = given(&[
            ("k", "many"),
            ("k", "0"),
            ("alpa", "1"),
            ("mode", "exakt"),
            ("exact", "maybe"),
            ("alpha", "1"),
            ("alpha", "2"),
            ("sigma", "15,"),
        ])
        .unwrap_err();
        let messages: Vec<&str> = faults.iter().map(|(_, message)| message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "`k`: \"many\" is not a whole number of at least 1",
                "`k`: 0 is not a whole number of at least 1",
                "the pipeline has no parameter `alpa`; did you mean `alpha`?",
                "`mode`: \"exakt\" is not one of fast, exact; did you mean `exact`?",
                "`exact`: \"maybe\" is not true or false",
                "`alpha` is given twice",
                "`sigma`: \"15,\" is not a list, each a number",
            ]
        );
    }
}
