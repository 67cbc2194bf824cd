//! Parameters: their types, units, defaults and ranges in one table, and their values.
//!
//! Invariant: the checks, `boxwork boxes NAME` and the JSON schema all use this table, so they cannot differ.

mod device_choice;

use std::collections::BTreeMap;
use std::fmt;

/// A value given for a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Number(f64),
    /// Text, a path, one of a choice, or a resource's name.
    Text(String),
    /// A list of values.
    List(Vec<Value>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(value) => write!(f, "{value:?}"),
            Self::List(values) => {
                f.write_str("[")?;
                for (idx, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if idx == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
        }
    }
}

pub use self::device_choice::DeviceChoice;
pub use crate::suggestion::{did_you_mean, nearest};

/// The type and range of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParameterType {
    /// `true` or `false`.
    Boolean,
    /// A whole number within the range, both ends included.
    Integer {
        /// The least value.
        minimum: i64,
        /// The greatest value.
        maximum: i64,
    },
    /// A finite number within the range, both ends included.
    Number {
        /// The least value.
        minimum: f64,
        /// The greatest value.
        maximum: f64,
    },
    /// A finite number above zero.
    Positive,
    /// Any text.
    Text,
    /// A path of a file or folder.
    Path,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// The device on which a box computes: a [`DeviceChoice`] as text.
    Device,
    /// The name of a resource of this kind.
    Resource(&'static str),
    /// A list; the values' type.
    List(&'static ParameterType),
}

impl ParameterType {
    /// Any whole number.
    pub const fn integer() -> Self {
        Self::integer_from(i64::MIN)
    }

    /// Any whole number from `minimum` up.
    pub const fn integer_from(minimum: i64) -> Self {
        Self::integer_within(minimum, i64::MAX)
    }

    /// Any whole number from `minimum` to `maximum`, both included.
    pub const fn integer_within(minimum: i64, maximum: i64) -> Self {
        Self::Integer { minimum, maximum }
    }

    /// Any finite number.
    pub const fn number() -> Self {
        Self::number_from(f64::MIN)
    }

    /// Any finite number from `minimum` up.
    pub const fn number_from(minimum: f64) -> Self {
        Self::number_within(minimum, f64::MAX)
    }

    /// Any number from `minimum` to `maximum`, both included.
    pub const fn number_within(minimum: f64, maximum: f64) -> Self {
        Self::Number { minimum, maximum }
    }

    /// Checks a value and returns it in the type's own form (`3` for a number becomes `3.0`; one value for a list
    /// becomes a list of one).
    ///
    /// # Errors
    /// A sentence with the given and the wanted value.
    pub fn admit(&self, value: &Value) -> Result<Value, String> {
        match (self, value) {
            (Self::Boolean, Value::Boolean(_))
            | (Self::Text | Self::Path | Self::Resource(_), Value::Text(_)) => Ok(value.clone()),
            (Self::Integer { minimum, maximum }, Value::Integer(given)) => {
                if (minimum..=maximum).contains(&given) { Ok(value.clone()) } else { Err(self.wanted(value)) }
            }
            (Self::Number { .. } | Self::Positive, Value::Integer(given)) => {
                self.admit(&Value::Number(*given as f64))
            }
            (Self::Number { minimum, maximum }, Value::Number(given)) => {
                if given.is_finite() && (minimum..=maximum).contains(&given) {
                    Ok(value.clone())
                } else {
                    Err(self.wanted(value))
                }
            }
            (Self::Positive, Value::Number(given)) => {
                if given.is_finite() && *given > 0.0 {
                    Ok(value.clone())
                } else {
                    Err(self.wanted(value))
                }
            }
            (Self::Choice(words), Value::Text(given)) => {
                if words.contains(&given.as_str()) {
                    return Ok(value.clone());
                }
                let near = did_you_mean(given, words.iter().copied());
                Err(format!("{}{near}", self.wanted(value)))
            }
            (Self::Device, Value::Text(given)) => given.parse::<DeviceChoice>().map(|_| value.clone()),
            (Self::List(item), Value::List(values)) => {
                values.iter().map(|value| item.admit(value)).collect::<Result<_, _>>().map(Value::List)
            }
            (Self::List(item), single) => Ok(Value::List(vec![item.admit(single)?])),
            _ => Err(self.wanted(value)),
        }
    }

    fn wanted(&self, value: &Value) -> String {
        format!("{value} is not {self}")
    }
}

impl fmt::Display for ParameterType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("true or false"),
            Self::Integer { minimum: i64::MIN, maximum: i64::MAX } => f.write_str("a whole number"),
            Self::Integer { minimum, maximum: i64::MAX } => write!(f, "a whole number of at least {minimum}"),
            Self::Integer { minimum, maximum } => write!(f, "a whole number from {minimum} to {maximum}"),
            Self::Number { minimum, maximum } if *minimum == f64::MIN && *maximum == f64::MAX => {
                f.write_str("a number")
            }
            Self::Number { minimum, maximum } if *maximum == f64::MAX => {
                write!(f, "a number of at least {minimum}")
            }
            Self::Number { minimum, maximum } => write!(f, "a number from {minimum} to {maximum}"),
            Self::Positive => f.write_str("a number above zero"),
            Self::Text => f.write_str("text"),
            Self::Path => f.write_str("a path"),
            Self::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Self::Device => f.write_str("auto, cpu, gpu, or gpu: and device numbers"),
            Self::Resource(kind) => write!(f, "the name of a resource of kind {kind}"),
            Self::List(item) => write!(f, "a list, each {item}"),
        }
    }
}

/// The value that a parameter has when none is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// No default: the parameter must be given.
    Required,
    /// The parameter may be left out, and then has no value.
    Absent,
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// Text.
    Text(&'static str),
    /// Numbers in a list.
    Numbers(&'static [f64]),
    /// The empty list.
    EmptyList,
}

impl Default {
    /// The default value, if there is one.
    pub fn value(&self) -> Option<Value> {
        match self {
            Self::Required | Self::Absent => None,
            Self::Boolean(value) => Some(Value::Boolean(*value)),
            Self::Integer(value) => Some(Value::Integer(*value)),
            Self::Number(value) => Some(Value::Number(*value)),
            Self::Text(value) => Some(Value::Text((*value).to_owned())),
            Self::Numbers(values) => Some(Value::List(values.iter().copied().map(Value::Number).collect())),
            Self::EmptyList => Some(Value::List(Vec::new())),
        }
    }
}

/// One parameter of an operator or a resource.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name in YAML.
    pub name: &'static str,
    /// The type and range.
    pub kind: ParameterType,
    /// The unit, or an empty text.
    pub unit: &'static str,
    /// The value when none is given.
    pub default: Default,
    /// Whether a list holds queries: a request takes at most the plan's number of queries, and a run splits a longer
    /// list.
    pub batched: bool,
    /// One line on what it does.
    pub about: &'static str,
}

/// The most queries of one request, unless its plan declares another number.
pub const QUERIES: usize = 64;
/// The most queries that a plan may declare for one request.
pub const QUERIES_MAX: usize = 4096;

impl Parameter {
    /// A parameter with no unit that is not batched.
    pub const fn new(name: &'static str, kind: ParameterType, default: Default, about: &'static str) -> Self {
        Self { name, kind, unit: "", default, batched: false, about }
    }

    /// Sets the unit.
    pub const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    /// Marks its list as split over requests.
    pub const fn batched(mut self) -> Self {
        self.batched = true;
        self
    }
}

/// A table has each name once, no range without a value, and defaults that fit their types.
pub(crate) fn check_table(table: &[Parameter]) {
    if !cfg!(debug_assertions) {
        return;
    }
    debug_assert!(
        table
            .iter()
            .enumerate()
            .all(|(place, parameter)| { table[..place].iter().all(|before| before.name != parameter.name) }),
        "two parameters of a table have one name: the second could never be given"
    );
    for parameter in table {
        let (name, kind) = (parameter.name, &parameter.kind);
        debug_assert!(!name.is_empty(), "a parameter has no name: no pipeline could give it");
        debug_assert!(
            match kind {
                ParameterType::Integer { minimum, maximum } => minimum <= maximum,
                ParameterType::Number { minimum, maximum } => minimum <= maximum,
                ParameterType::Choice(words) => !words.is_empty(),
                _ => true,
            },
            "`{name}` admits no value"
        );
        debug_assert!(
            parameter.default.value().is_none_or(|value| kind.admit(&value).is_ok()),
            "the default of `{name}` is none of the values that it admits"
        );
        debug_assert!(
            !parameter.batched || matches!(kind, ParameterType::List(_)),
            "`{name}` is split over requests and is not a list"
        );
    }
}
/// Checked values by parameter name; parameters that are absent have no entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments {
    /// In the order of the names. A list, because there are few and each box reads them; a comparison mostly ends at
    /// the lengths.
    values: Box<[(String, Value)]>,
}

impl Arguments {
    /// Wraps values that are already checked against a table.
    pub fn new(values: BTreeMap<String, Value>) -> Self {
        Self { values: values.into_iter().collect() }
    }

    /// Checks values against a table and fills in the defaults.
    ///
    /// # Errors
    /// Every fault: the parameter's name and a sentence.
    pub fn check(
        table: &[Parameter],
        given: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<Self, Vec<(String, String)>> {
        check_table(table);
        let (mut values, mut faults) = (BTreeMap::new(), Vec::new());
        for (name, value) in given {
            match table.iter().find(|parameter| parameter.name == name) {
                None => {
                    let near = did_you_mean(&name, table.iter().map(|parameter| parameter.name));
                    let message = format!("there is no parameter `{name}`{near}");
                    faults.push((name, message));
                }
                Some(parameter) => match parameter.kind.admit(&value) {
                    Ok(value) => drop(values.insert(name, value)),
                    Err(message) => faults.push((name, message)),
                },
            }
        }
        for parameter in table {
            if values.contains_key(parameter.name) || faults.iter().any(|(name, _)| name == parameter.name) {
                continue;
            }
            match parameter.default.value() {
                Some(value) => drop(values.insert(parameter.name.to_owned(), value)),
                None if parameter.default == Default::Required => {
                    let message =
                        format!("`{}` is missing: {} ({})", parameter.name, parameter.about, parameter.kind);
                    faults.push((parameter.name.to_owned(), message));
                }
                None => {}
            }
        }
        debug_assert!(
            !faults.is_empty()
                || table.iter().all(|parameter| {
                    parameter.default == Default::Absent || values.contains_key(parameter.name)
                }),
            "a parameter has no value, and no fault says why"
        );
        if faults.is_empty() { Ok(Self::new(values)) } else { Err(faults) }
    }

    /// The value of a parameter, or nothing when it is absent.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// All values by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Parameter] = &[
        Parameter::new("k", ParameterType::integer_from(1), Default::Integer(10), "how many objects"),
        Parameter::new("alpha", ParameterType::Positive, Default::Required, "the similarity's steepness"),
        Parameter::new("range", ParameterType::Positive, Default::Absent, "a limit"),
        Parameter::new(
            "order",
            ParameterType::Choice(&["best_first", "storage"]),
            Default::Text("storage"),
            "order",
        ),
    ];

    fn check(given: &[(&str, Value)]) -> Result<Arguments, Vec<(String, String)>> {
        Arguments::check(TABLE, given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())))
    }

    #[test]
    fn fills_in_defaults_and_keeps_numbers_numbers() {
        let arguments = check(&[("alpha", Value::Integer(3))]).unwrap();
        assert_eq!(arguments.get("alpha"), Some(&Value::Number(3.0)));
        assert_eq!(arguments.get("k"), Some(&Value::Integer(10)));
        assert_eq!(arguments.get("range"), None);
    }

    #[test]
    fn reports_all_faults_at_once() {
        let faults = check(&[
            ("k", Value::Integer(0)),
            ("ordr", Value::Text("storage".into())),
            ("order", Value::Text("best-first".into())),
        ])
        .unwrap_err();
        let messages: Vec<_> = faults.iter().map(|(_, message)| message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "0 is not a whole number of at least 1",
                "there is no parameter `ordr`; did you mean `order`?",
                "\"best-first\" is not one of best_first, storage; did you mean `best_first`?",
                "`alpha` is missing: the similarity's steepness (a number above zero)",
            ]
        );
    }

    #[test]
    fn ranges_are_admitted_and_named() {
        let admits = |kind: ParameterType, value: Value| kind.admit(&value).is_ok();
        assert!(admits(ParameterType::integer(), Value::Integer(i64::MIN)));
        assert!(admits(ParameterType::integer_within(1, 3), Value::Integer(3)));
        assert!(!admits(ParameterType::integer_within(1, 3), Value::Integer(4)));
        assert!(admits(ParameterType::number(), Value::Number(-1e300)));
        assert!(!admits(ParameterType::number_from(0.0), Value::Number(-0.1)));
        assert!(!admits(ParameterType::number_within(0.0, 1.0), Value::Number(1.1)));
        let named = [ParameterType::number(), ParameterType::number_from(0.5), ParameterType::integer()];
        let named = named.map(|kind| kind.to_string());
        assert_eq!(named, ["a number", "a number of at least 0.5", "a whole number"]);
    }

    #[test]
    fn not_a_number_is_no_number() {
        assert!(ParameterType::Positive.admit(&Value::Number(f64::NAN)).is_err());
        assert!(
            ParameterType::Number { minimum: 0.0, maximum: f64::MAX }
                .admit(&Value::Number(f64::INFINITY))
                .is_err()
        );
    }
}
