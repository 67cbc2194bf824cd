//! Binding: the values that a box or a resource is made from.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(doc)]
use super::Memory;
use super::{BoxError, Cancellation, Environment};
use super::{InputReader, OutputWriter, RequestInput, RequestOutput};
use crate::feeding::{LazyDevices, Picked};
use crate::parameter::{Arguments, DeviceChoice, Value};
use crate::topology::Topology;

/// A loaded resource: a snapshot that boxes share.
pub type Resource = Arc<dyn Any + Send + Sync>;

/// The place of a request in its run: queries beyond [`Plan::queries`](crate::plan::Plan::queries) make more requests,
/// and sinks restore their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The place of this request among the run's.
    pub idx: usize,
    /// The number of requests of the run.
    pub count: usize,
}

impl Part {
    /// The only request of a run.
    pub const WHOLE: Self = Self { idx: 0, count: 1 };
}

/// The values that a box or a resource is made from: its checked parameters and the resources.
///
/// The typed getters panic when the table has no such parameter, or one of another type: a bug of the operator.
pub struct Bind<'a> {
    /// The box's or resource's name in the pipeline.
    pub name: &'a str,
    /// The parameters' values.
    pub arguments: &'a Arguments,
    /// The loaded resources by name.
    pub resources: &'a BTreeMap<String, Resource>,
    /// The place of the request in its run.
    pub part: Part,
    /// The result of `share`, if the operator has it.
    pub shared: Option<&'a Resource>,
    /// The runtime that the box or resource is made for.
    pub environment: &'a Environment,
    /// The batches that the request's caller gives to the box.
    pub input: Option<&'a RequestInput>,
    /// The writer that the request's caller gives to the box.
    pub output: Option<&'a RequestOutput>,
}

impl<'a> Bind<'a> {
    /// For a resource, or for a box that shares nothing, of the only request of its run.
    pub fn new(
        name: &'a str,
        arguments: &'a Arguments,
        resources: &'a BTreeMap<String, Resource>,
        environment: &'a Environment,
    ) -> Self {
        Self {
            name,
            arguments,
            resources,
            part: Part::WHOLE,
            shared: None,
            environment,
            input: None,
            output: None,
        }
    }
}

impl Bind<'_> {
    fn wrong(&self, name: &str, wanted: &str) -> ! {
        panic!("`{}` asked for the parameter `{name}` as {wanted}, which its table does not say", self.name)
    }

    /// Slots of the runtime: the number of tasks that compute at once. Never ask the machine instead: some of its cores
    /// may belong to other programs.
    pub fn slots(&self) -> usize {
        self.environment.slots
    }

    /// The machine of the runtime.
    pub fn machine(&self) -> &Topology {
        &self.environment.machine
    }

    /// The value of a type that operators of this runtime keep from request to request: [`Memory::get`].
    pub fn memory<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        self.environment.memory.get()
    }

    /// Says when to stop loading a resource, sharing or making a box. Ask it in every loop that may take 100 ms.
    pub fn cancellation(&self) -> &Cancellation {
        &self.environment.cancellation
    }

    /// Takes the batches that the request's caller gives to the box, if any.
    ///
    /// # Errors
    /// When another box or an earlier request has taken them.
    pub fn take_input(&self) -> Result<Option<InputReader>, BoxError> {
        let taken = self.input.map(|input| input.take().ok_or_else(|| self.twice("input")));
        taken.transpose()
    }

    /// Takes the writer that the request's caller gives to the box, if any.
    ///
    /// # Errors
    /// When another box or an earlier request has taken it.
    pub fn take_output(&self) -> Result<Option<OutputWriter>, BoxError> {
        let taken = self.output.map(|output| output.take().ok_or_else(|| self.twice("output")));
        taken.transpose()
    }

    fn twice(&self, what: &str) -> BoxError {
        BoxError::new(format!("the {what} of `{}` was given to another box or request already", self.name))
    }

    /// A whole number, if it is given.
    pub fn get_integer(&self, name: &str) -> Option<i64> {
        match self.arguments.get(name)? {
            Value::Integer(value) => Some(*value),
            _ => self.wrong(name, "a whole number"),
        }
    }

    /// A whole number.
    pub fn integer(&self, name: &str) -> i64 {
        self.get_integer(name).unwrap_or_else(|| self.wrong(name, "a whole number"))
    }

    /// A whole number that is at least zero.
    pub fn count(&self, name: &str) -> usize {
        match self.get_integer(name).map(usize::try_from) {
            Some(Ok(value)) => value,
            _ => self.wrong(name, "a count"),
        }
    }

    /// A number, if it is given.
    pub fn get_number(&self, name: &str) -> Option<f64> {
        match self.arguments.get(name)? {
            Value::Number(value) => Some(*value),
            _ => self.wrong(name, "a number"),
        }
    }

    /// A number.
    pub fn number(&self, name: &str) -> f64 {
        self.get_number(name).unwrap_or_else(|| self.wrong(name, "a number"))
    }

    /// `true` or `false`.
    pub fn boolean(&self, name: &str) -> bool {
        match self.arguments.get(name) {
            Some(Value::Boolean(value)) => *value,
            _ => self.wrong(name, "true or false"),
        }
    }

    /// Text, if it is given.
    pub fn get_text(&self, name: &str) -> Option<&str> {
        match self.arguments.get(name)? {
            Value::Text(value) => Some(value),
            _ => self.wrong(name, "text"),
        }
    }

    /// Text.
    pub fn text(&self, name: &str) -> &str {
        self.get_text(name).unwrap_or_else(|| self.wrong(name, "text"))
    }

    /// The device to compute on.
    pub fn device(&self, name: &str) -> DeviceChoice {
        self.text(name).parse().unwrap_or_else(|_| self.wrong(name, "a device"))
    }

    /// Picks the devices that a parameter chooses. `work` is the amount of work, if it is known; less than `work_min`
    /// is not worth sending to a device.
    ///
    /// # Errors
    /// When the parameter names devices that are not there; the text says which.
    pub fn pick_devices(&self, name: &str, work: Option<u64>, work_min: u64) -> Result<Picked, BoxError> {
        self.environment.devices.pick(&self.device(name), work, work_min).map_err(BoxError::new)
    }

    /// The devices of the runtime, for a box that learns only from its input whether it needs them.
    pub fn devices(&self) -> &Arc<LazyDevices> {
        &self.environment.devices
    }

    /// A path.
    pub fn path(&self, name: &str) -> PathBuf {
        Path::new(self.text(name)).to_path_buf()
    }

    /// A path, if it is given.
    pub fn get_path(&self, name: &str) -> Option<PathBuf> {
        self.get_text(name).map(PathBuf::from)
    }

    /// A list whose values `of` takes; `wanted` names its type.
    fn list<T>(&self, name: &str, wanted: &str, of: impl Fn(&Value) -> Option<T>) -> Vec<T> {
        let Some(Value::List(values)) = self.arguments.get(name) else { self.wrong(name, wanted) };
        values.iter().map(|value| of(value).unwrap_or_else(|| self.wrong(name, wanted))).collect()
    }

    /// A list of texts.
    pub fn texts(&self, name: &str) -> Vec<String> {
        self.list(name, "a list of texts", |value| match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        })
    }

    /// A list of paths.
    pub fn paths(&self, name: &str) -> Vec<PathBuf> {
        self.texts(name).into_iter().map(PathBuf::from).collect()
    }

    /// A list of whole numbers.
    pub fn integers(&self, name: &str) -> Vec<i64> {
        self.list(name, "a list of whole numbers", |value| match value {
            Value::Integer(value) => Some(*value),
            _ => None,
        })
    }

    /// A list of numbers.
    pub fn numbers(&self, name: &str) -> Vec<f64> {
        self.list(name, "a list of numbers", |value| match value {
            Value::Number(number) => Some(*number),
            _ => None,
        })
    }

    /// The resource that a parameter names, if it is given.
    ///
    /// # Errors
    /// When the resource is of another kind.
    pub fn get_resource<T: Any + Send + Sync>(&self, name: &str) -> Result<Option<Arc<T>>, BoxError> {
        let Some(resource_name) = self.get_text(name) else { return Ok(None) };
        let resource = self.resources.get(resource_name).ok_or_else(|| {
            BoxError::new(format!("`{}` uses the resource `{resource_name}`, which is not there", self.name))
        })?;
        Arc::clone(resource).downcast().map(Some).map_err(|_| {
            BoxError::new(format!(
                "the resource `{resource_name}` is of another kind than `{}` needs",
                self.name
            ))
        })
    }

    /// The resource that a parameter names.
    ///
    /// # Errors
    /// When the resource is of another kind.
    pub fn resource<T: Any + Send + Sync>(&self, name: &str) -> Result<Arc<T>, BoxError> {
        Ok(self.get_resource(name)?.unwrap_or_else(|| self.wrong(name, "a resource")))
    }

    /// The result of [`OperatorSpec::share`](super::OperatorSpec::share).
    pub fn shared<T: Any + Send + Sync>(&self) -> Arc<T> {
        let shared = self.shared.cloned().and_then(|shared| shared.downcast().ok());
        shared.unwrap_or_else(|| panic!("`{}` shares nothing of this type", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::{Default, Parameter, ParameterType};

    const WHOLE: ParameterType = ParameterType::integer();
    const PARTS: ParameterType = ParameterType::number();
    const TABLE: &[Parameter] = &[
        Parameter::new("yes", ParameterType::Boolean, Default::Boolean(true), ""),
        Parameter::new("whole", WHOLE, Default::Integer(-3), ""),
        Parameter::new("number", PARTS, Default::Number(0.5), ""),
        Parameter::new("text", ParameterType::Text, Default::Text("a b"), ""),
        Parameter::new("path", ParameterType::Path, Default::Absent, ""),
        Parameter::new("texts", ParameterType::List(&ParameterType::Text), Default::Required, ""),
        Parameter::new("paths", ParameterType::List(&ParameterType::Path), Default::Required, ""),
        Parameter::new("wholes", ParameterType::List(&WHOLE), Default::Required, ""),
        Parameter::new("numbers", ParameterType::List(&PARTS), Default::Numbers(&[1.0, 2.5]), ""),
    ];

    #[test]
    fn every_type_of_a_parameter_has_a_getter() {
        let text = |text: &str| Value::Text(text.to_owned());
        let given = [
            ("texts", Value::List(vec![text("a"), text("b")])),
            ("paths", text("/x")),
            ("wholes", Value::List(vec![Value::Integer(1), Value::Integer(-2)])),
        ];
        let given = given.map(|(name, value)| (name.to_owned(), value));
        let arguments = Arguments::check(TABLE, given).expect("the values fit");
        let (resources, environment) = (BTreeMap::new(), Environment::of_slots(1));
        let bind = Bind::new("test", &arguments, &resources, &environment);
        assert!(bind.boolean("yes"));
        assert_eq!((bind.integer("whole"), bind.number("number"), bind.text("text")), (-3, 0.5, "a b"));
        assert_eq!(bind.get_path("path"), None);
        assert_eq!(bind.texts("texts"), ["a", "b"]);
        assert_eq!(bind.paths("paths"), [Path::new("/x")]);
        assert_eq!((bind.integers("wholes"), bind.numbers("numbers")), (vec![1, -2], vec![1.0, 2.5]));
    }
}
