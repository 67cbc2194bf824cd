//! Resources that the pipelines of one store have in common: loaded once, by the first that has them.
//!
//! Invariant: two pipelines share a resource only if both declare its kind with the same arguments, those by which it
//! names other resources included.

use std::collections::BTreeMap;

use boxwork_runtime::operator::{Catalog, Resource};
use boxwork_runtime::parameter::{ParameterType, Value};
use boxwork_runtime::plan::PlanResource;
use boxwork_runtime::prepare::Prepared;

use crate::engine::{Engine, Preparation};
use crate::pipeline::Loaded;

/// What makes a resource the same as another: its kind, and its arguments. Another resource is named by its place in
/// [`Resources`].
type Identity = (&'static str, Vec<(String, Value)>);

/// The resources loaded so far.
#[derive(Default)]
pub(super) struct Resources(Vec<(Identity, Resource)>);

impl Resources {
    /// Prepares a pipeline with those of its resources that are loaded already, and keeps the others.
    pub(super) fn prepare(
        &mut self,
        engine: &Engine,
        loaded: &Loaded,
        catalog: &Catalog,
        values: &BTreeMap<String, Value>,
    ) -> Result<std::sync::Arc<Prepared>, String> {
        let mut resources = BTreeMap::new();
        // Values that do not fit are reported when the pipeline is prepared.
        let plan = loaded.declaration.values(values).ok().and_then(|bound| loaded.check(catalog, &bound).0);
        for (name, place) in plan.map(|plan| self.places(&plan.resources)).unwrap_or_default() {
            resources.insert(name, std::sync::Arc::clone(&self.0[place].1));
        }
        let preparation = Preparation { resources, ..Preparation::default() };
        let prepared = engine.prepare_with(loaded, catalog, values, preparation);
        let prepared = prepared.map_err(|error| error.to_string())?;
        let mut places = self.places(&prepared.plan().resources);
        for declared in &prepared.plan().resources {
            let known = places.contains_key(&declared.name);
            let (Some(identity), Some(resource)) =
                (identity(declared, &places).filter(|_| !known), prepared.resource(&declared.name))
            else {
                continue;
            };
            places.insert(declared.name.clone(), self.0.len());
            self.0.push((identity, std::sync::Arc::clone(resource)));
        }
        Ok(prepared)
    }

    /// The places of the resources that are loaded, by the names that a plan gives them.
    fn places(&self, declared: &[PlanResource]) -> BTreeMap<String, usize> {
        let mut places = BTreeMap::new();
        for resource in declared {
            let wanted = identity(resource, &places);
            let place = wanted.and_then(|wanted| self.0.iter().position(|(known, _)| *known == wanted));
            places.extend(place.map(|place| (resource.name.clone(), place)));
        }
        places
    }
}

/// The identity of a resource; nothing if one that it names is not loaded.
fn identity(resource: &PlanResource, places: &BTreeMap<String, usize>) -> Option<Identity> {
    let mut arguments = Vec::new();
    for (name, value) in resource.arguments.as_ref()?.iter() {
        let declared = resource.spec.parameters.iter().find(|parameter| parameter.name == name)?;
        let value = match (&declared.kind, value) {
            (ParameterType::Resource(_), Value::Text(other)) => Value::Integer(*places.get(other)? as i64),
            _ => value.clone(),
        };
        arguments.push((name.to_owned(), value));
    }
    Some((resource.spec.name, arguments))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::shipped;

    #[test]
    fn pipelines_of_one_store_load_it_once_and_those_of_another_do_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let (engine, catalog) =
            (Engine::builder().workers(1).start().expect("threads"), boxwork_operators::catalog());
        let mut resources = Resources::default();
        let mut prepare = |shipped: shipped::Shipped, file: &str, alpha: f64| {
            let path = folder.path().join(file);
            let line =
                |name: &str| format!("{{\"name\": \"{name}\", \"centroids\": [[0, 0]], \"weights\": [1]}}\n");
            if !path.exists() {
                std::fs::write(&path, ["a", "b"].map(line).concat()).expect("written");
            }
            let text = Value::Text(path.to_str().expect("UTF-8").to_owned());
            let mut values =
                BTreeMap::from([("store".to_owned(), text), ("alpha".to_owned(), Value::Number(alpha))]);
            if shipped.name() == "search" {
                values.insert("queries".to_owned(), Value::List(Vec::new()));
            }
            resources.prepare(&engine, &shipped.load(), &catalog, &values).expect("prepared")
        };
        let search = prepare(shipped::SEARCH, "a.jsonl", 0.2);
        let same = |other: &Prepared, name: &str| {
            let [one, other] = [&*search, other].map(|prepared| prepared.resource(name).expect("it has one"));
            Arc::ptr_eq(one, other)
        };
        let round = prepare(shipped::FEEDBACK, "a.jsonl", 0.2);
        assert!(same(&round, "objects") && same(&round, "space"));
        let ranking = prepare(shipped::FEEDBACK_RANKING, "a.jsonl", 0.2);
        let kernels = [&round, &ranking].map(|prepared| prepared.resource("kernel").expect("it has one"));
        assert!(Arc::ptr_eq(kernels[0], kernels[1]));
        let steeper = prepare(shipped::FEEDBACK, "a.jsonl", 0.4);
        assert!(same(&steeper, "objects") && !same(&steeper, "space"));
        let other = prepare(shipped::SEARCH, "b.jsonl", 0.2);
        assert!(!same(&other, "objects") && !same(&other, "space"));
    }
}
