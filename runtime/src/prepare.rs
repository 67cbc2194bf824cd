//! Preparing a plan: its values bound, its resources loaded, once for many requests.

mod shape;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use self::shape::{HintShape, Shape};
use crate::operator::{Bind, BoxError, Cancellation, Catalog, Environment, Operator, Resource};
use crate::panic_message::panic_message;
use crate::parameter::{Arguments, QUERIES_MAX, Value};
use crate::plan::{self, Declaration, Fault, Plan, PlanBox, Severity};

/// The reason that a pipeline could not be prepared, or a request not be made.
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
    /// The caller stopped the preparation.
    #[error("the preparation was cancelled")]
    Cancelled,
    /// The deadline passed while the pipeline was prepared.
    #[error("the deadline passed while the pipeline was being prepared")]
    DeadlinePassed,
    /// A request gives another value to a parameter that is bound once.
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
    /// By box: its arguments in requests that change none of its values; none if these values do not fit.
    arguments: Vec<Option<Arguments>>,
    /// The parameters that cannot differ between requests.
    once: Vec<String>,
    /// As [`Prepared::batched`] says; found once, because each request asks.
    batched: Option<String>,
    declaration: Declaration,
}

/// The arguments of all boxes for one request.
pub(crate) struct BoundArguments<'a> {
    prepared: &'a Prepared,
    /// By box: its arguments if they differ from the prepared ones.
    anew: Vec<Option<Arguments>>,
}

impl BoundArguments<'_> {
    /// The arguments of a box.
    pub(crate) fn of(&self, box_idx: usize) -> &Arguments {
        let anew = self.anew.get(box_idx).and_then(Option::as_ref);
        anew.or(self.prepared.arguments[box_idx].as_ref())
            .unwrap_or_else(|| unreachable!("the arguments of a box were not bound"))
    }
}

impl Prepared {
    /// Checks a declaration with the values given, and loads its resources.
    ///
    /// # Errors
    /// When a value does not fit, the plan has faults with these values, a resource cannot be loaded, or the
    /// environment's cancellation stops the preparation.
    pub fn new(
        declaration: &Declaration,
        catalog: &Catalog,
        given: &BTreeMap<String, Value>,
        environment: &Environment,
    ) -> Result<Self, PrepareError> {
        Self::with_resources(declaration, catalog, given, environment, BTreeMap::new())
    }

    /// As [`Prepared::new`], with resources that the caller has already: by name, in place of those that would be loaded.
    /// The type of a resource is that of its kind, such as a shared store.
    ///
    /// # Errors
    /// As [`Prepared::new`]; and when the pipeline has no resource of such a name.
    pub fn with_resources(
        declaration: &Declaration,
        catalog: &Catalog,
        given: &BTreeMap<String, Value>,
        environment: &Environment,
        resources: BTreeMap<String, Resource>,
    ) -> Result<Self, PrepareError> {
        let values = declaration.values(given).map_err(PrepareError::Values)?;
        let (plan, faults) = plan::check(declaration, catalog, &values);
        let Some(plan) = plan else {
            let errors = faults.into_iter().filter(|fault| fault.severity == Severity::Error).collect();
            return Err(PrepareError::Faults(errors));
        };
        for name in resources.keys() {
            if !plan.resources.iter().any(|resource| resource.name == *name) {
                let cause = BoxError::new("the caller gives it, and the pipeline has no such resource");
                return Err(PrepareError::Resource { name: name.clone(), cause });
            }
        }
        let mut prepared = Self {
            plan,
            values,
            resources,
            shared: Vec::new(),
            arguments: Vec::new(),
            once: Vec::new(),
            batched: None,
            declaration: declaration.clone(),
        };
        prepared.load(environment)?;
        let bound = prepared.plan.boxes.iter().map(|planned| bind(planned, &prepared.values).ok());
        prepared.arguments = bound.collect();
        prepared.once = prepared.plan.bound_once().into_iter().map(str::to_owned).collect();
        prepared.batched = batched(&prepared.plan.boxes).map(str::to_owned);
        debug_assert_eq!(
            [prepared.shared.len(), prepared.arguments.len()],
            [prepared.plan.boxes.len(); 2],
            "the lists by box have another length than the plan's boxes"
        );
        debug_assert!(
            prepared
                .once
                .iter()
                .all(|name| { prepared.plan.parameters.iter().any(|declared| declared.name == *name) }),
            "a parameter is bound once that the pipeline does not declare"
        );
        debug_assert!(
            prepared.plan.resources.iter().all(|resource| prepared.resources.contains_key(&resource.name)),
            "a resource was not loaded, and the preparation did not fail"
        );
        Ok(prepared)
    }

    /// Loads the resources, and makes the values that the requests of a box share. Checks the cancellation between
    /// them; within them their own loops check it.
    fn load(&mut self, environment: &Environment) -> Result<(), PrepareError> {
        let cancellation = &environment.cancellation;
        for resource in &self.plan.resources {
            stopped(cancellation)?;
            let name = &resource.name;
            if self.resources.contains_key(name) {
                continue;
            }
            let failed = |cause| PrepareError::Resource { name: name.clone(), cause };
            let arguments = resource.arguments.as_ref().ok_or_else(|| failed(unbound()))?;
            let resources = &self.resources;
            let bind = Bind::new(name, arguments, resources, environment);
            let loaded = (resource.spec.load)(&bind).map_err(|cause| why(cancellation, failed(cause)))?;
            let before = self.resources.insert(name.clone(), loaded);
            debug_assert!(
                before.is_none(),
                "two resources have one name: boxes would get the wrong resource"
            );
        }
        for planned in &self.plan.boxes {
            stopped(cancellation)?;
            let name = &planned.name;
            let failed = |cause| PrepareError::Box { name: name.clone(), cause };
            let shared = match &planned.spec.share {
                None => None,
                Some(share) => {
                    let arguments = planned.arguments.as_ref().ok_or_else(|| failed(unbound()))?;
                    let bind = Bind::new(name, arguments, &self.resources, environment);
                    Some(share(&bind).map_err(|cause| why(cancellation, failed(cause)))?)
                }
            };
            self.shared.push(shared);
        }
        stopped(cancellation)
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

    /// The pipeline's parameter whose list is split over requests, if a box has one.
    pub fn batched(&self) -> Option<&str> {
        self.batched.as_deref()
    }

    /// The values of a run, with the queries that a box takes in place of those given ([`expand`](crate::operator::OperatorSpec::expand)).
    ///
    /// # Errors
    /// When a value does not fit, or the box cannot say its queries.
    pub fn expanded(
        &self,
        given: &BTreeMap<String, Value>,
        environment: &Environment,
    ) -> Result<BTreeMap<String, Value>, PrepareError> {
        let mut expanded = given.clone();
        for (idx, planned) in self.plan.boxes.iter().enumerate() {
            let Some(expand) = planned.spec.expand else { continue };
            let arguments = bind(planned, &*self.values_with(given)?)?;
            let failed = |cause| PrepareError::Box { name: planned.name.clone(), cause };
            let values = expand(&self.bind(idx, &arguments, environment)).map_err(failed)?;
            let named = values.into_iter().map(|(key, value)| {
                match planned.settings.iter().find(|(name, _)| name == key) {
                    Some((_, plan::Setting::Parameter(name))) => Some((name.clone(), value)),
                    _ => None,
                }
            });
            expanded.extend(named.collect::<Option<Vec<_>>>().into_iter().flatten());
        }
        Ok(expanded)
    }

    /// The arguments of every box for one request, with the request's values. Most are those of all requests.
    pub(crate) fn arguments(
        &self,
        anew: &BTreeMap<String, Value>,
    ) -> Result<BoundArguments<'_>, PrepareError> {
        let values = self.values_with(anew)?;
        self.queries_fit(&values)?;
        let mut bound = BoundArguments { prepared: self, anew: Vec::new() };
        for (idx, (planned, known)) in self.plan.boxes.iter().zip(&self.arguments).enumerate() {
            let differs = || {
                let mut names = planned.settings.iter().flat_map(|(_, setting)| setting.parameters());
                names.any(|name| anew.contains_key(name))
            };
            if known.is_none() || !anew.is_empty() && differs() {
                debug_assert!(
                    bound.anew.len() <= idx,
                    "the arguments of a box would be replaced by those of another box"
                );
                bound.anew.resize_with(idx, || None);
                bound.anew.push(Some(bind(planned, &values)?));
            }
        }
        Ok(bound)
    }

    /// Whether the plan allows the request's number of queries.
    fn queries_fit(&self, values: &BTreeMap<String, Value>) -> Result<(), PrepareError> {
        let (Some(name), most) = (self.batched(), self.plan.queries) else { return Ok(()) };
        match values.get(name) {
            Some(Value::List(queries)) if queries.len() > most => {
                let message = format!(
                    "`{name}` has {} values, and a request of this pipeline takes at most {most}: split them over requests, \
                     or declare `queries: {}` in the pipeline",
                    queries.len(),
                    queries.len().min(QUERIES_MAX),
                );
                Err(PrepareError::Values(vec![(name.to_owned(), message)]))
            }
            _ => Ok(()),
        }
    }

    /// The values of one request.
    fn values_with(
        &self,
        anew: &BTreeMap<String, Value>,
    ) -> Result<Cow<'_, BTreeMap<String, Value>>, PrepareError> {
        if anew.is_empty() {
            return Ok(Cow::Borrowed(&self.values));
        }
        let mut values = self.values.clone();
        for (name, value) in anew {
            if self.once.contains(name) {
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

    /// The values that a box of a request is made from.
    pub(crate) fn bind<'a>(
        &'a self,
        box_idx: usize,
        arguments: &'a Arguments,
        environment: &'a Environment,
    ) -> Bind<'a> {
        let shared = self.shared[box_idx].as_ref();
        let bind = Bind::new(&self.plan.boxes[box_idx].name, arguments, &self.resources, environment);
        Bind { shared, ..bind }
    }

    /// Makes the operator of one copy of a box.
    pub(crate) fn make(&self, box_idx: usize, bind: &Bind<'_>) -> Result<Box<dyn Operator>, PrepareError> {
        debug_assert!(
            bind.shared.is_some() == self.plan.boxes[box_idx].spec.share.is_some(),
            "a box is made without the value that its copies share"
        );
        let planned = &self.plan.boxes[box_idx];
        let made = catch_unwind(AssertUnwindSafe(|| (planned.spec.make)(bind)));
        let made = made.unwrap_or_else(|cause| {
            let cause = panic_message(cause.as_ref());
            Err(BoxError::new(format!("panicked: {cause}; this is a bug in its operator")))
        });
        made.map_err(|cause| PrepareError::Box { name: planned.name.clone(), cause })
    }
}

/// The pipeline's parameter that gives a batched parameter of a box its value; the first one.
fn batched(boxes: &[PlanBox]) -> Option<&str> {
    boxes.iter().find_map(|planned| {
        let (_, setting) = planned.settings.iter().find(|(key, _)| {
            planned.spec.parameters.iter().any(|parameter| parameter.batched && parameter.name == key)
        })?;
        match setting {
            plan::Setting::Parameter(name) => Some(name.as_str()),
            _ => None,
        }
    })
}

/// The arguments of a box.
fn bind(planned: &PlanBox, values: &BTreeMap<String, Value>) -> Result<Arguments, PrepareError> {
    let table = &*planned.spec.parameters;
    let given =
        planned.settings.iter().filter(|(key, _)| table.iter().any(|parameter| parameter.name == key));
    let given = given.filter_map(|(key, setting)| Some((key.clone(), setting.resolve(values)?)));
    Arguments::check(table, given).map_err(PrepareError::Values)
}

/// An error if the preparation must stop.
fn stopped(cancellation: &Cancellation) -> Result<(), PrepareError> {
    match cancellation.is_cancelled() {
        true if cancellation.is_asked() => Err(PrepareError::Cancelled),
        true => Err(PrepareError::DeadlinePassed),
        false => Ok(()),
    }
}

/// The error of a failed step of the preparation. If the preparation must stop, that is the reason of the step's error.
fn why(cancellation: &Cancellation, error: PrepareError) -> PrepareError {
    stopped(cancellation).err().unwrap_or(error)
}

fn unbound() -> BoxError {
    BoxError::new("a parameter has no value")
}
