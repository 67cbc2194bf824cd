//! Preparing a plan: its values bound, its resources loaded, once for many requests.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::operator::{Bind, BoxError, Catalog, Operator, Part, Resource};
use crate::parameter::{Arguments, Value};
use crate::plan::{self, Declaration, Fault, Plan, PlanBox, Severity};

/// Why a pipeline could not be prepared, or a request not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// The values do not fit the pipeline's parameters: names and sentences.
    #[error("{}", .0.iter().map(|(_, message)| message.as_str()).collect::<Vec<_>>().join("\n"))]
    Values(Vec<(String, String)>),
    /// With these values the plan has faults.
    #[error("{}", .0.iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>().join("\n"))]
    Faults(Vec<Fault>),
    /// A resource could not be loaded.
    #[error("resource `{name}`: {cause}")]
    Resource {
        /// The resource.
        name: String,
        /// Why.
        cause: BoxError,
    },
    /// A box could not be made.
    #[error("box `{name}`: {cause}")]
    Box {
        /// The box.
        name: String,
        /// Why.
        cause: BoxError,
    },
    /// A parameter that is bound once was given anew for a request.
    #[error(
        "the parameter `{name}` is bound when the pipeline is prepared and cannot differ between requests"
    )]
    BoundOnce {
        /// The parameter.
        name: String,
    },
}

/// A plan with its values bound and its resources loaded, ready for requests.
pub struct Prepared {
    plan: Plan,
    values: BTreeMap<String, Value>,
    resources: BTreeMap<String, Resource>,
    shared: Vec<Option<Resource>>,
    /// By box: what it is made with in requests that give no value anew that it uses; none where these values do not fit.
    arguments: Vec<Option<Arguments>>,
    declaration: Declaration,
}

impl Prepared {
    /// Checks a declaration with the values given, and loads its resources.
    ///
    /// # Errors
    /// When a value does not fit, the plan has faults with these values, or a resource cannot be loaded.
    pub fn new(
        declaration: &Declaration,
        catalog: &Catalog,
        given: &BTreeMap<String, Value>,
    ) -> Result<Self, PrepareError> {
        let values = declaration.values(given).map_err(PrepareError::Values)?;
        let (plan, faults) = plan::check(declaration, catalog, &values);
        let Some(plan) = plan else {
            let errors = faults.into_iter().filter(|fault| fault.severity == Severity::Error).collect();
            return Err(PrepareError::Faults(errors));
        };
        let mut prepared = Self {
            plan,
            values,
            resources: BTreeMap::new(),
            shared: Vec::new(),
            arguments: Vec::new(),
            declaration: declaration.clone(),
        };
        prepared.load()?;
        let bound = prepared.plan.boxes.iter().map(|planned| bind(planned, &prepared.values).ok());
        prepared.arguments = bound.collect();
        Ok(prepared)
    }

    fn load(&mut self) -> Result<(), PrepareError> {
        for resource in &self.plan.resources {
            let name = &resource.name;
            let failed = |cause| PrepareError::Resource { name: name.clone(), cause };
            let arguments = resource.arguments.as_ref().ok_or_else(|| failed(unbound()))?;
            let bind = Bind { name, arguments, resources: &self.resources, part: Part::WHOLE, shared: None };
            let loaded = (resource.spec.load)(&bind).map_err(failed)?;
            self.resources.insert(name.clone(), loaded);
        }
        for planned in &self.plan.boxes {
            let name = &planned.name;
            let failed = |cause| PrepareError::Box { name: name.clone(), cause };
            let shared = match planned.spec.share {
                None => None,
                Some(share) => {
                    let arguments = planned.arguments.as_ref().ok_or_else(|| failed(unbound()))?;
                    let resources = &self.resources;
                    let bind = Bind { name, arguments, resources, part: Part::WHOLE, shared: None };
                    Some(share(&bind).map_err(failed)?)
                }
            };
            self.shared.push(shared);
        }
        Ok(())
    }

    /// The checked plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The values of the pipeline's parameters.
    pub fn values(&self) -> &BTreeMap<String, Value> {
        &self.values
    }

    /// A loaded resource.
    pub fn resource(&self, name: &str) -> Option<&Resource> {
        self.resources.get(name)
    }

    /// The pipeline's parameter whose list is split over requests, where a box has one.
    pub fn batched(&self) -> Option<&str> {
        self.plan.boxes.iter().find_map(|planned| {
            let (_, setting) = planned.settings.iter().find(|(key, _)| {
                planned.spec.parameters.iter().any(|parameter| parameter.batched && parameter.name == key)
            })?;
            match setting {
                plan::Setting::Parameter(name) => Some(name.as_str()),
                _ => None,
            }
        })
    }

    /// The arguments of every box for one request, with some values given anew. Most are those of all requests.
    pub(crate) fn arguments(
        &self,
        anew: &BTreeMap<String, Value>,
    ) -> Result<Vec<Cow<'_, Arguments>>, PrepareError> {
        let values = self.values_with(anew)?;
        let bound = self.plan.boxes.iter().zip(&self.arguments).map(|(planned, known)| {
            let names = || planned.settings.iter().flat_map(|(_, setting)| setting.parameters());
            match known {
                Some(known) if anew.is_empty() || !names().any(|name| anew.contains_key(name)) => {
                    Ok(Cow::Borrowed(known))
                }
                _ => bind(planned, &values).map(Cow::Owned),
            }
        });
        bound.collect()
    }

    /// The values of one request.
    fn values_with(
        &self,
        anew: &BTreeMap<String, Value>,
    ) -> Result<Cow<'_, BTreeMap<String, Value>>, PrepareError> {
        if anew.is_empty() {
            return Ok(Cow::Borrowed(&self.values));
        }
        let once = self.plan.bound_once();
        let mut values = self.values.clone();
        for (name, value) in anew {
            if once.contains(&name.as_str()) {
                return Err(PrepareError::BoundOnce { name: name.clone() });
            }
            let declared = self.declaration.parameters.iter().find(|parameter| &parameter.name == name);
            let admitted = match declared {
                Some(declared) => declared.admit(value),
                None => Err(format!("the pipeline has no parameter `{name}`")),
            };
            let value = admitted.map_err(|message| PrepareError::Values(vec![(name.clone(), message)]))?;
            values.insert(name.clone(), value);
        }
        Ok(Cow::Owned(values))
    }

    /// Makes the operator of one copy of a box.
    pub(crate) fn make(
        &self,
        box_idx: usize,
        arguments: &Arguments,
        part: Part,
    ) -> Result<Box<dyn Operator>, PrepareError> {
        let planned = &self.plan.boxes[box_idx];
        let shared = self.shared[box_idx].as_ref();
        let bind = Bind { name: &planned.name, arguments, resources: &self.resources, part, shared };
        let made = catch_unwind(AssertUnwindSafe(|| (planned.spec.make)(&bind)));
        let made = made.unwrap_or_else(|cause| {
            let cause = panic_message(cause.as_ref());
            Err(BoxError::new(format!("panicked: {cause}; this is a bug in its operator")))
        });
        made.map_err(|cause| PrepareError::Box { name: planned.name.clone(), cause })
    }
}

/// The arguments of a box.
fn bind(planned: &PlanBox, values: &BTreeMap<String, Value>) -> Result<Arguments, PrepareError> {
    let table = planned.spec.parameters;
    let given =
        planned.settings.iter().filter(|(key, _)| table.iter().any(|parameter| parameter.name == key));
    let given = given.filter_map(|(key, setting)| Some((key.clone(), setting.resolve(values)?)));
    Arguments::check(table, given).map_err(PrepareError::Values)
}

/// The text of a panic.
pub(crate) fn panic_message(cause: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = cause.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = cause.downcast_ref::<String>() {
        text.clone()
    } else {
        "with a value that is no text".to_owned()
    }
}

fn unbound() -> BoxError {
    BoxError::new("a parameter has no value")
}
