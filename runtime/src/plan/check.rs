//! The checks of a declaration: all faults at once, and the plan when there is none.

mod edges;
mod ports;

use std::collections::BTreeMap;

use super::declaration::{BLOCKING, BoxDeclaration, COPIES, Declaration, KIND, Setting};
use super::graph;
use super::{COPIES_MAX, Copies, Fault, FaultKind, Place, Plan, PlanBox, PlanResource, Severity};
use crate::operator::{Catalog, Kind, OperatorEntry, ResourceSpec};
use crate::parameter::{Arguments, Default, Parameter, ParameterType, QUERIES, QUERIES_MAX, Value};
use crate::parameter::{check_table, did_you_mean, nearest};

/// Checks a declaration against a catalogue, with the known values of the parameters (the defaults, or all).
///
/// Returns the plan if no fault is an error, and all faults in the order of the declaration, warnings included.
pub fn check(
    declaration: &Declaration,
    catalog: &Catalog,
    values: &BTreeMap<String, Value>,
) -> (Option<Plan>, Vec<Fault>) {
    let mut checker = Checker { declaration, catalog, values, faults: Vec::new() };
    let plan = checker.plan();
    let faults = checker.faults;
    let broken = faults.iter().any(|fault| fault.severity == Severity::Error);
    if !broken {
        debug_assert_eq!(
            plan.boxes.len(),
            declaration.boxes.len(),
            "a box was left out, and no fault says why"
        );
        debug_assert_eq!(
            plan.edges.len(),
            declaration.edges.len(),
            "an edge was left out, and no fault says why"
        );
        debug_assert_eq!(
            (plan.resources.len(), plan.hints.len()),
            (declaration.resources.len(), declaration.hints.len()),
            "a resource or a hint was left out, and no fault says why"
        );
        plan.check_invariants();
    }
    ((!broken).then_some(plan), faults)
}

/// Faults that get help, which may compare every name; users read fewer.
const HELPED_COUNT_MAX: usize = 1000;
/// The most names that a help lists.
const LISTED_COUNT_MAX: usize = 40;

struct Checker<'a> {
    declaration: &'a Declaration,
    catalog: &'a Catalog,
    values: &'a BTreeMap<String, Value>,
    faults: Vec<Fault>,
}

impl Checker<'_> {
    fn fault(&mut self, place: Place, kind: FaultKind, message: String, label: &str, help: Option<String>) {
        let label = label.to_owned();
        self.faults.push(Fault { place, severity: Severity::Error, kind, message, label, help });
    }

    fn warning(&mut self, place: Place, kind: FaultKind, message: String, label: &str, help: Option<String>) {
        let label = label.to_owned();
        self.faults.push(Fault { place, severity: Severity::Warning, kind, message, label, help });
    }

    /// Computes the help of a fault, for the first faults only.
    fn help(&self, help: impl FnOnce() -> Option<String>) -> Option<String> {
        (self.faults.len() < HELPED_COUNT_MAX).then(help).flatten()
    }

    fn plan(&mut self) -> Plan {
        let parameters = self.parameters();
        let queries = self.queries();
        let resources = self.resources();
        let boxes: Vec<Option<PlanBox>> =
            self.declaration.boxes.iter().map(|declared| self.plan_box(declared, &resources)).collect();
        if boxes.is_empty() {
            let help = Some("add a `boxes:` map; `boxwork boxes` lists the operators".to_owned());
            self.fault(
                Place::Whole,
                FaultKind::NoBoxes,
                "the pipeline has no boxes".into(),
                "nothing to run",
                help,
            );
        }
        let edges = self.edges(&boxes);
        self.ports(&boxes, &edges);
        self.cycles_and_diamonds(&boxes, &edges);
        let hints = self.hints(&boxes);
        Plan {
            parameters,
            resources,
            boxes: boxes.into_iter().flatten().collect(),
            edges: edges.into_iter().flatten().collect(),
            hints,
            queries,
        }
    }

    fn queries(&mut self) -> usize {
        let queries = self.declaration.queries.unwrap_or(QUERIES);
        if !(1..=QUERIES_MAX).contains(&queries) {
            let message =
                format!("a request of {queries} queries is out of range: 1 to {QUERIES_MAX} are possible");
            self.fault(Place::Queries, FaultKind::WrongQueries, message, "out of range", None);
        }
        queries
    }

    fn parameters(&mut self) -> Vec<super::ParameterDeclaration> {
        let mut used: Vec<&str> = Vec::new();
        for resource in &self.declaration.resources {
            used.extend(resource.kind.parameters());
            used.extend(resource.settings.iter().flat_map(|(_, setting)| setting.parameters()));
        }
        for declared in &self.declaration.boxes {
            used.extend(declared.kind.parameters());
            used.extend(declared.copies.iter().flat_map(Setting::parameters));
            used.extend(declared.settings.iter().flat_map(|(_, setting)| setting.parameters()));
        }
        for parameter in &self.declaration.parameters {
            let place = Place::Parameter(parameter.name.clone());
            if let Some(Err(message)) = parameter.default.as_ref().map(|value| parameter.admit(value)) {
                let message = format!("the default of `{}` does not fit: {message}", parameter.name);
                self.fault(place, FaultKind::WrongDefault, message, "wrong default", None);
            } else if !used.contains(&parameter.name.as_str()) {
                let message = format!("the parameter `{}` is never used", parameter.name);
                let help = Some(format!(
                    "write \"${{{}}}\" where its value should stand, or remove it",
                    parameter.name
                ));
                self.warning(place, FaultKind::UnusedParameter, message, "never used", help);
            }
        }
        self.declaration.parameters.clone()
    }

    /// The resources, ordered so that each follows the resources that it names.
    fn resources(&mut self) -> Vec<PlanResource> {
        let declared = &self.declaration.resources;
        let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (idx, resource) in declared.iter().enumerate() {
            places.entry(&resource.name).or_default().push(idx);
        }
        let named = |resource: &super::ResourceDeclaration| -> Vec<usize> {
            let texts = resource.settings.iter().filter_map(|(_, setting)| match setting {
                Setting::Value(Value::Text(text)) => places.get(text.as_str()),
                _ => None,
            });
            texts.flatten().copied().collect()
        };
        let needs: Vec<Vec<usize>> = declared.iter().map(named).collect();
        let mut planned = Vec::new();
        for (idx, in_circle) in graph::order(&needs) {
            if in_circle {
                let name = declared[idx].name.clone();
                let message = format!("the resource `{name}` needs a resource that needs `{name}`");
                self.fault(Place::Resource(name), FaultKind::ResourceCycle, message, "in a circle", None);
            }
            planned.extend(self.resource(&declared[idx]));
        }
        planned
    }

    fn resource(&mut self, declared: &super::ResourceDeclaration) -> Option<PlanResource> {
        let name = &declared.name;
        let spec = self.resource_spec(name, &declared.kind)?;
        let arguments = self.arguments(
            spec.parameters,
            &declared.settings,
            &|key| Place::ResourceSetting(name.clone(), key.to_owned()),
            &Place::Resource(name.clone()),
            &format!("resource kind `{}`", spec.name),
        );
        let arguments = arguments.ok();
        if let (Some(check), Some(arguments)) = (spec.check, &arguments)
            && let Err(message) = check(arguments)
        {
            self.fault(Place::Resource(name.clone()), FaultKind::RefusedResource, message, "refused", None);
        }
        Some(PlanResource { name: name.clone(), spec, settings: declared.settings.clone(), arguments })
    }

    fn resource_spec(&mut self, name: &str, kind: &Setting) -> Option<&'static ResourceSpec> {
        let place = Place::ResourceKind(name.to_owned());
        let kind = self.kind(&place, kind)?;
        let spec = self.catalog.resource(&kind);
        if spec.is_none() {
            let names = || self.catalog.resources().iter().map(|spec| spec.name).collect::<Vec<_>>();
            let help = self.help(|| Some(suggestion(&kind, &names(), "kinds of resource")));
            let help = self.catalog.new_name(&kind).map_or(help, |new| Some(format!("it is `{new}` now")));
            let message = format!("resource `{name}`: unknown kind `{kind}`");
            self.fault(place, FaultKind::UnknownResourceKind, message, "no such kind of resource", help);
        }
        spec
    }

    /// The text of a kind, which may be a parameter of the pipeline.
    fn kind(&mut self, place: &Place, kind: &Setting) -> Option<String> {
        self.known_parameters(place, kind)?;
        match kind.resolve(self.values) {
            Some(Value::Text(kind)) => Some(kind),
            Some(other) => {
                self.fault(
                    place.clone(),
                    FaultKind::WrongKind,
                    format!("a kind is a name, not {other}"),
                    "not a name",
                    None,
                );
                None
            }
            None => {
                let message = "the kind is a parameter without a value".to_owned();
                let help =
                    Some("give the parameter a default, so that the pipeline can be checked".to_owned());
                self.fault(place.clone(), FaultKind::UnboundKind, message, "no value yet", help);
                None
            }
        }
    }

    /// `None` when the setting names a parameter that the pipeline does not declare.
    fn known_parameters(&mut self, place: &Place, setting: &Setting) -> Option<()> {
        let mut known = Some(());
        for name in setting.parameters() {
            if !self.declaration.parameters.iter().any(|parameter| parameter.name == name) {
                let names =
                    || self.declaration.parameters.iter().map(|p| p.name.as_str()).collect::<Vec<_>>();
                let help = self.help(|| Some(suggestion(name, &names(), "parameters of this pipeline")));
                let message = format!("`${{{name}}}`: the pipeline declares no parameter `{name}`");
                self.fault(
                    place.clone(),
                    FaultKind::UnknownPipelineParameter(name.to_owned()),
                    message,
                    "not declared",
                    help,
                );
                known = None;
            }
        }
        known
    }

    /// Checks settings against a table. Returns the arguments if every value is known and right, and otherwise all
    /// arguments that the known values leave possible, as far as they decide a port's columns.
    fn arguments(
        &mut self,
        table: &[Parameter],
        settings: &[(String, Setting)],
        at: &dyn Fn(&str) -> Place,
        whole: &Place,
        owner: &str,
    ) -> Result<Arguments, Vec<Arguments>> {
        check_table(table);
        let (mut values, mut unknown, mut complete) = (BTreeMap::new(), Vec::new(), true);
        for (key, setting) in settings {
            let place = at(key);
            if self.known_parameters(&place, setting).is_none() {
                complete = false;
                continue;
            }
            let Some(parameter) = table.iter().find(|parameter| parameter.name == key) else {
                let names = || table.iter().map(|parameter| parameter.name).collect::<Vec<_>>();
                let help = self.help(|| Some(suggestion(key, &names(), "parameters")));
                let message = format!("{owner} has no parameter `{key}`");
                self.fault(place, FaultKind::UnknownParameter, message, "no such parameter", help);
                complete = false;
                continue;
            };
            match setting.resolve(self.values) {
                Some(value) => {
                    match parameter.kind.admit(&value).and_then(|value| self.resource_named(parameter, value))
                    {
                        Ok(value) => drop(values.insert(key.clone(), value)),
                        Err(message) => {
                            let unit = if parameter.unit.is_empty() {
                                String::new()
                            } else {
                                format!(", in {}", parameter.unit)
                            };
                            let help =
                                Some(format!("`{key}`: {} ({}{unit})", parameter.about, parameter.kind));
                            self.fault(
                                place,
                                FaultKind::WrongValue,
                                format!("`{key}`: {message}"),
                                "wrong value",
                                help,
                            );
                            complete = false;
                        }
                    }
                }
                None => complete &= self.unbound(parameter, setting, place),
            }
        }
        for parameter in table {
            if settings.iter().any(|(key, _)| key == parameter.name) {
                if !values.contains_key(parameter.name) {
                    unknown.push(parameter);
                    values.extend(parameter.default.value().map(|value| (parameter.name.to_owned(), value)));
                }
                continue;
            }
            match parameter.default.value() {
                Some(value) => drop(values.insert(parameter.name.to_owned(), value)),
                None if parameter.default == Default::Required => {
                    let message = format!("{owner} needs `{}`: {}", parameter.name, parameter.about);
                    let help = Some(format!("add `{}:` with {}", parameter.name, parameter.kind));
                    self.fault(
                        whole.clone(),
                        FaultKind::MissingParameter,
                        message,
                        "a parameter is missing",
                        help,
                    );
                    complete = false;
                }
                None => {}
            }
        }
        if complete { Ok(Arguments::new(values)) } else { Err(edges::possible_arguments(values, &unknown)) }
    }

    /// Checks the type of a setting whose parameter has no value yet. False when the arguments stay unknown.
    fn unbound(&mut self, parameter: &Parameter, setting: &Setting, place: Place) -> bool {
        let Setting::Parameter(name) = setting else { return false };
        let declared = self.declaration.parameters.iter().find(|declared| &declared.name == name);
        let Some(declared) = declared else { return false };
        if !fits(&declared.kind, &parameter.kind) {
            let message = format!(
                "`{}` takes {}, and the pipeline's parameter `{name}` is {}",
                parameter.name, parameter.kind, declared.kind
            );
            let help = Some(format!("change the type of `{name}` under `parameters:`"));
            self.fault(place, FaultKind::WrongType, message, "wrong type", help);
            return false;
        }
        // If an optional parameter is absent, the operator's own default applies.
        declared.optional && parameter.default != Default::Required
    }

    /// Whether a kind of resource belongs to a family.
    fn provides(&self, kind: &str, family: &str) -> bool {
        self.catalog.resource(kind).is_some_and(|spec| spec.provides == Some(family))
    }

    fn resource_named(&self, parameter: &Parameter, value: Value) -> Result<Value, String> {
        let (ParameterType::Resource(kind), Value::Text(name)) = (parameter.kind, &value) else {
            return Ok(value);
        };
        let resources = &self.declaration.resources;
        let Some(resource) = resources.iter().find(|resource| &resource.name == name) else {
            let near = || did_you_mean(name, resources.iter().map(|resource| resource.name.as_str()));
            let near = self.help(|| Some(near())).unwrap_or_default();
            return Err(format!("there is no resource `{name}`{near}"));
        };
        match resource.kind.resolve(self.values) {
            Some(Value::Text(found)) if found != kind && !self.provides(&found, kind) => {
                Err(format!("the resource `{name}` is a {found}, and a {kind} is needed"))
            }
            _ => Ok(value),
        }
    }

    fn plan_box(&mut self, declared: &BoxDeclaration, resources: &[PlanResource]) -> Option<PlanBox> {
        let place = Place::BoxKind(declared.name.clone());
        let kind = self.kind(&place, &declared.kind)?;
        let Some(spec) = self.catalog.operator(&kind).cloned() else {
            let names = || self.catalog.operators().iter().map(|spec| &*spec.name).collect::<Vec<_>>();
            let help = self.help(|| {
                Some(format!("{} (`boxwork boxes` lists them all)", suggestion(&kind, &names(), "operators")))
            });
            let help = self.catalog.new_name(&kind).map_or(help, |new| Some(format!("it is `{new}` now")));
            let message = format!("box `{}`: unknown operator `{kind}`", declared.name);
            self.fault(place, FaultKind::UnknownOperator, message, "no such operator", help);
            return None;
        };
        let arguments = self.arguments(
            &spec.parameters,
            &declared.settings,
            &|key| Place::BoxSetting(declared.name.clone(), key.to_owned()),
            &Place::Box(declared.name.clone()),
            &format!("operator `{kind}`"),
        );
        let (arguments, possible) = match arguments {
            Ok(arguments) => (Some(arguments), Vec::new()),
            Err(possible) => (None, possible),
        };
        let of_resource = |name: &str| {
            let resource = resources.iter().find(|resource| resource.name == name);
            resource.and_then(|resource| resource.arguments.clone())
        };
        if let (Some(check), Some(arguments)) = (&spec.check, &arguments)
            && let Err(message) = check(arguments, &of_resource)
        {
            let (place, message) =
                (Place::Box(declared.name.clone()), format!("box `{}`: {message}", declared.name));
            self.fault(place, FaultKind::RefusedBox, message, "refused", None);
        }
        let copies = self.copies(declared, &spec);
        let mut settings = declared.settings.clone();
        settings.push((KIND.to_owned(), declared.kind.clone()));
        settings.extend(declared.copies.clone().map(|copies| (COPIES.to_owned(), copies)));
        let blocking = declared.blocking.clone().or_else(|| spec.blocking.as_deref().map(str::to_owned));
        if blocking.as_deref() == Some("") {
            let place = Place::BoxSetting(declared.name.clone(), BLOCKING.to_owned());
            self.fault(
                place,
                FaultKind::WrongValue,
                "`blocking` names no class".into(),
                "empty",
                Some("write `blocking: disk`".into()),
            );
        }
        Some(PlanBox { name: declared.name.clone(), spec, settings, arguments, possible, copies, blocking })
    }

    fn copies(&mut self, declared: &BoxDeclaration, spec: &OperatorEntry) -> Copies {
        let Some(setting) = &declared.copies else { return Copies::Count(1) };
        let place = Place::BoxSetting(declared.name.clone(), COPIES.to_owned());
        if self.known_parameters(&place, setting).is_none() {
            return Copies::Count(1);
        }
        let copies = match setting.resolve(self.values) {
            Some(Value::Text(text)) if text == "auto" => Copies::Auto,
            Some(Value::Integer(count)) if (1..=COPIES_MAX as i64).contains(&count) => {
                Copies::Count(count as usize)
            }
            None => Copies::Auto,
            Some(other) => {
                let message =
                    format!("`copies`: {other} is neither `auto` nor a whole number from 1 to {COPIES_MAX}");
                self.fault(place, FaultKind::WrongValue, message, "wrong value", None);
                return Copies::Count(1);
            }
        };
        if spec.kind == Kind::Stateful && copies != Copies::Count(1) {
            let message = format!(
                "box `{}`: the operator `{}` is stateful and has one copy only",
                declared.name, spec.name
            );
            self.fault(
                place,
                FaultKind::CopiesOfStateful,
                message,
                "one copy only",
                Some("remove `copies`".into()),
            );
            return Copies::Count(1);
        }
        copies
    }
}

/// Whether an operator's parameter of one type accepts a pipeline's parameter of the other.
fn fits(declared: &ParameterType, taken: &ParameterType) -> bool {
    use ParameterType as T;
    match (declared, taken) {
        (T::List(a), T::List(b)) => fits(a, b),
        (single, T::List(b)) => fits(single, b),
        (T::Integer { .. }, T::Integer { .. } | T::Number { .. } | T::Positive)
        | (T::Number { .. } | T::Positive, T::Number { .. } | T::Positive)
        | (T::Boolean, T::Boolean)
        | (T::Text | T::Path | T::Choice(_), T::Text | T::Path | T::Choice(_) | T::Resource(_)) => true,
        _ => false,
    }
}

/// `did you mean ...`, or the list of all names.
fn suggestion(given: &str, names: &[&str], what: &str) -> String {
    match nearest(given, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None if names.is_empty() => format!("there are no {what}"),
        None if names.len() > LISTED_COUNT_MAX => {
            let more = names.len() - LISTED_COUNT_MAX;
            format!("the {what}: {} and {more} more", names[..LISTED_COUNT_MAX].join(", "))
        }
        None => format!("the {what}: {}", names.join(", ")),
    }
}
