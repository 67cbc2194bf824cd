//! Settings: values, and texts with `${name}` in them. Boxwork interpolates, not YAML.

use boxwork_runtime::parameter::Value;
use boxwork_runtime::plan::{Piece, Setting};

use super::is_name;

/// A fault of an interpolation: the bytes of the text, a sentence, and a remedy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) message: String,
    pub(super) help: String,
}

/// Reads a text: `${name}` alone keeps the parameter's type; within other text it is inserted as text; `$$` is a `$`.
pub(super) fn interpolate(text: &str) -> Result<Setting, Malformed> {
    let (mut pieces, mut literal, mut at) = (Vec::new(), String::new(), 0);
    while let Some(dollar) = text[at..].find('$') {
        let dollar = at + dollar;
        literal.push_str(&text[at..dollar]);
        let rest = &text[dollar + 1..];
        if rest.starts_with('$') {
            literal.push('$');
            at = dollar + 2;
        } else if let Some(inner) = rest.strip_prefix('{') {
            let Some(len) = inner.find('}') else {
                return Err(Malformed {
                    start: dollar,
                    end: text.len(),
                    message: "`${` has no `}`".to_owned(),
                    help: "write ${name}, or $${ for the two characters themselves".to_owned(),
                });
            };
            let (name, end) = (&inner[..len], dollar + 2 + len + 1);
            if !is_name(name) {
                let help = match name.split_once([':', '?', '=']) {
                    Some((name, _)) if is_name(name) => {
                        format!(
                            "give `{name}` its default under `parameters:`, and write ${{{name}}} alone here"
                        )
                    }
                    _ => "write ${name} with the name of one of this pipeline's parameters".to_owned(),
                };
                let message = format!("`${{{name}}}` names no parameter");
                return Err(Malformed { start: dollar, end, message, help });
            }
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
            }
            pieces.push(Piece::Parameter(name.to_owned()));
            at = end;
        } else {
            let word: usize =
                rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').map(char::len_utf8).sum();
            let help = if word == 0 {
                "write `$$` for a dollar sign".to_owned()
            } else {
                format!(
                    "write ${{{0}}} for the pipeline's parameter `{0}`, or $${0} for the text; the environment is not read",
                    &rest[..word]
                )
            };
            let message = "a single `$` has no meaning".to_owned();
            return Err(Malformed { start: dollar, end: dollar + 1 + word, message, help });
        }
    }
    literal.push_str(&text[at..]);
    if pieces.is_empty() {
        return Ok(Setting::Value(Value::Text(literal)));
    }
    if let ([Piece::Parameter(name)], true) = (pieces.as_slice(), literal.is_empty()) {
        return Ok(Setting::Parameter(name.clone()));
    }
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(Setting::Text(pieces))
}

/// A list of settings, which is a value if all items are values.
pub(crate) fn list(items: Vec<Setting>) -> Setting {
    let values: Option<Vec<Value>> = items
        .iter()
        .map(|item| match item {
            Setting::Value(value) => Some(value.clone()),
            _ => None,
        })
        .collect();
    values.map_or(Setting::List(items), |values| Setting::Value(Value::List(values)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Setting {
        Setting::Value(Value::Text(text.to_owned()))
    }

    #[test]
    fn a_bare_parameter_keeps_its_type() {
        assert_eq!(interpolate("${k}"), Ok(Setting::Parameter("k".into())));
        assert_eq!(interpolate("plain"), Ok(text("plain")));
        assert_eq!(interpolate(""), Ok(text("")));
        assert_eq!(interpolate("$${k} costs 3$$"), Ok(text("${k} costs 3$")));
        assert_eq!(
            interpolate("${store}/x$$"),
            Ok(Setting::Text(vec![Piece::Parameter("store".into()), Piece::Literal("/x$".into())]))
        );
    }

    #[test]
    fn malformed_interpolations_say_what_to_do() {
        let error = interpolate("a ${k:-3}").unwrap_err();
        assert_eq!((error.start, error.end), (2, 9));
        assert!(error.help.contains("give `k` its default"), "{}", error.help);
        assert_eq!(interpolate("x${k").unwrap_err().message, "`${` has no `}`");
        assert!(interpolate("$HOME/x").unwrap_err().help.contains("the environment is not read"));
        assert!(interpolate("3 $").unwrap_err().help.contains("`$$`"));
        assert!(interpolate("${}").is_err());
    }
}
