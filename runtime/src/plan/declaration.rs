//! A pipeline as a person declared it: names not yet resolved, values not yet checked.

use std::collections::BTreeMap;

use crate::parameter::{ParameterType, Value};

/// The key of a box's or resource's kind among its settings' places.
pub const KIND: &str = "kind";
/// The key of a box's number of copies.
pub const COPIES: &str = "copies";
/// The key of a box's blocking class.
pub const BLOCKING: &str = "blocking";

/// A piece of a text with parameters in it.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Text as it stands.
    Literal(String),
    /// The value of a pipeline's parameter.
    Parameter(String),
}

/// The setting of a key: a value, or an expression with the pipeline's parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// A value.
    Value(Value),
    /// A bare `${name}`: the parameter's value with its type.
    Parameter(String),
    /// Text with `${name}` in it.
    Text(Vec<Piece>),
    /// A list of settings.
    List(Vec<Setting>),
}

impl Setting {
    /// The names of the pipeline's parameters in it.
    pub fn parameters(&self) -> Vec<&str> {
        match self {
            Self::Value(_) => Vec::new(),
            Self::Parameter(name) => vec![name],
            Self::Text(pieces) => pieces
                .iter()
                .filter_map(|piece| match piece {
                    Piece::Parameter(name) => Some(name.as_str()),
                    Piece::Literal(_) => None,
                })
                .collect(),
            Self::List(items) => items.iter().flat_map(Self::parameters).collect(),
        }
    }

    /// The value, when every parameter in it has one; nothing when a parameter is absent.
    pub fn resolve(&self, values: &BTreeMap<String, Value>) -> Option<Value> {
        match self {
            Self::Value(value) => Some(value.clone()),
            Self::Parameter(name) => values.get(name).cloned(),
            Self::Text(pieces) => pieces
                .iter()
                .map(|piece| match piece {
                    Piece::Literal(text) => Some(text.clone()),
                    Piece::Parameter(name) => values.get(name).map(|value| match value {
                        Value::Text(text) => text.clone(),
                        other => other.to_string(),
                    }),
                })
                .collect::<Option<String>>()
                .map(Value::Text),
            Self::List(items) => {
                items.iter().map(|item| item.resolve(values)).collect::<Option<_>>().map(Value::List)
            }
        }
    }
}

/// A parameter that a pipeline declares.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterDeclaration {
    /// The name.
    pub name: String,
    /// The type and range.
    pub kind: ParameterType,
    /// The only allowed values, if any are listed.
    pub one_of: Vec<String>,
    /// The value when none is given.
    pub default: Option<Value>,
    /// Whether it may be left out without a default.
    pub optional: bool,
    /// One line on what it does.
    pub about: String,
}

impl ParameterDeclaration {
    /// Checks a value given for it.
    ///
    /// # Errors
    /// A sentence with the given and the wanted value.
    pub fn admit(&self, value: &Value) -> Result<Value, String> {
        let value = self.kind.admit(value)?;
        match &value {
            Value::Text(text) if !self.one_of.is_empty() && !self.one_of.contains(text) => {
                let near = crate::parameter::did_you_mean(text, self.one_of.iter().map(String::as_str));
                Err(format!("\"{text}\" is not one of {}{near}", self.one_of.join(", ")))
            }
            _ => Ok(value),
        }
    }
}

/// A resource that a pipeline declares.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceDeclaration {
    /// The name.
    pub name: String,
    /// The kind's name.
    pub kind: Setting,
    /// The other settings, in order.
    pub settings: Vec<(String, Setting)>,
}

/// A box that a pipeline declares.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxDeclaration {
    /// The name.
    pub name: String,
    /// The operator's name.
    pub kind: Setting,
    /// The number of copies, if declared: a number or `auto`.
    pub copies: Option<Setting>,
    /// The blocking class, if declared.
    pub blocking: Option<String>,
    /// The operator's parameters, in order.
    pub settings: Vec<(String, Setting)>,
}

/// One end of an edge: a box, and a port if one is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The box's name.
    pub name: String,
    /// The port's name; nothing means the operator's first.
    pub port: Option<String>,
}

/// An edge that a pipeline declares; a chain `a -> b -> c` is two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeDeclaration {
    /// The producer.
    pub from: End,
    /// The consumer.
    pub to: End,
    /// Envelopes that it holds, if declared.
    pub envelopes: Option<usize>,
    /// Bytes that it holds, if declared.
    pub bytes: Option<usize>,
}

/// A hint's edge that a pipeline declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintDeclaration {
    /// The writer; the port is the hint's name.
    pub from: End,
    /// The reader; the port is the hint's name.
    pub to: End,
}

/// A pipeline as a person declared it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declaration {
    /// The parameters.
    pub parameters: Vec<ParameterDeclaration>,
    /// The resources.
    pub resources: Vec<ResourceDeclaration>,
    /// The boxes.
    pub boxes: Vec<BoxDeclaration>,
    /// The edges.
    pub edges: Vec<EdgeDeclaration>,
    /// The hints' edges.
    pub hints: Vec<HintDeclaration>,
    /// The most queries of one request, if declared: 1 to [`QUERIES_MAX`](crate::parameter::QUERIES_MAX).
    pub queries: Option<usize>,
}

impl Declaration {
    /// Checks the values given for the parameters and fills in the defaults.
    ///
    /// # Errors
    /// Every fault: the parameter's name and a sentence.
    pub fn values(
        &self,
        given: &BTreeMap<String, Value>,
    ) -> Result<BTreeMap<String, Value>, Vec<(String, String)>> {
        let (mut values, mut faults) = (BTreeMap::new(), Vec::new());
        for name in given.keys().filter(|name| !self.parameters.iter().any(|p| p.name == **name)) {
            let near = crate::parameter::did_you_mean(name, self.parameters.iter().map(|p| p.name.as_str()));
            faults.push((name.clone(), format!("the pipeline has no parameter `{name}`{near}")));
        }
        for parameter in &self.parameters {
            match given
                .get(&parameter.name)
                .or(parameter.default.as_ref())
                .map(|value| parameter.admit(value))
            {
                Some(Ok(value)) => drop(values.insert(parameter.name.clone(), value)),
                Some(Err(message)) => faults.push((parameter.name.clone(), message)),
                None if parameter.optional => {}
                None => {
                    let (name, kind) = (&parameter.name, &parameter.kind);
                    let what = match parameter.about.as_str() {
                        "" => kind.to_string(),
                        about => format!("{about} ({kind})"),
                    };
                    let message =
                        format!("the parameter `{name}` is missing: {what}; give it by --set {name}=VALUE");
                    faults.push((parameter.name.clone(), message));
                }
            }
        }
        if faults.is_empty() { Ok(values) } else { Err(faults) }
    }

    /// The defaults alone: the known values before any is given.
    pub fn defaults(&self) -> BTreeMap<String, Value> {
        let known = self.parameters.iter().filter_map(|parameter| {
            let value = parameter.admit(parameter.default.as_ref()?).ok()?;
            Some((parameter.name.clone(), value))
        });
        known.collect()
    }
}
