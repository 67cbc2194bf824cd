//! Shared by the operators of metric indexes: an index built once for all requests, and the box that searches it.

use std::sync::Arc;

use boxwork_kernels::interrupt::Interrupt;
use boxwork_kernels::metric_index::{Answer, IndexedObjects, MetricIndex, MetricIndexError, Search};
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Operator, Out, Pushed, Resource};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType};

use crate::columns;
use crate::resources;
use crate::search::answers::Answers;
use crate::search::queries::{Queries, Query};
use boxwork_stores::space::Space;

/// Queries that one firing answers, side by side.
const QUERIES_PER_FIRING: usize = 8;

/// The parameter `k`.
pub(crate) const K: Parameter = Parameter::new(
    "k",
    ParameterType::integer_from(1),
    Default::Absent,
    "the number of objects that a query returns; without it, all within the range",
)
.unit("objects");

/// The parameter `range`.
pub(crate) const RANGE: Parameter = Parameter::new(
    "range",
    ParameterType::Number { minimum: 0.0, maximum: f64::MAX },
    Default::Absent,
    "only objects at most this far",
);

/// The parameter `pivots`.
pub(crate) const PIVOTS: Parameter = Parameter::new(
    "pivots",
    ParameterType::Integer { minimum: 1, maximum: 1024 },
    Default::Integer(16),
    "the number of pivots; fewer if there are fewer different objects",
)
.unit("objects");

/// The parameter `seed`.
pub(crate) const SEED: Parameter = Parameter::new(
    "seed",
    ParameterType::integer_from(0),
    Default::Integer(1),
    "the seed for choosing the pivots",
);

/// The input of every index.
pub(crate) const INPUTS: &[In] = &[QUERIES];
const QUERIES: In = In::side(0, "queries", columns::queries, "the queries");

/// The output of every index.
pub(crate) const OUTPUTS: &[Out] = &[NEAREST];
const NEAREST: Out =
    Out::new(0, "nearest", columns::distances, "the objects found, by query, distance and id");

/// An index that requests share.
struct Shared {
    space: Arc<dyn Space>,
    index: Box<dyn MetricIndex>,
}

/// Builds the index of a box, once, when the pipeline is prepared.
pub(crate) fn share<I: MetricIndex + 'static>(
    bind: &Bind<'_>,
    build: impl FnOnce(&IndexedObjects<'_>, &dyn Space) -> Result<I, MetricIndexError>,
) -> Result<Resource, BoxError> {
    let space = resources::index_space(bind)?;
    let store = space.store();
    let count = usize::try_from(store.objects_count())?;
    let is_cancelled = || bind.cancellation().is_cancelled();
    let (mut build, mut built) = (Some(build), None);
    space.lend(&is_cancelled, &mut |between| {
        if let Some(build) = build.take() {
            let between = |a: u32, b: u32| between(store.nth(u64::from(a)), store.nth(u64::from(b)));
            let objects = IndexedObjects::new(count, &between).map(|objects| objects.until(&is_cancelled));
            built = Some(objects.and_then(|objects| build(&objects, &*space)));
        }
    })?;
    let index = built.ok_or_else(|| BoxError::new("the space lent no distances"))??;
    Ok(Arc::new(Shared { space: Arc::clone(&space), index: Box::new(index) }))
}

/// Refuses a search without limits, and a distance by which the index could lose answers.
pub(crate) fn check(
    arguments: &Arguments,
    resources: &dyn Fn(&str) -> Option<Arguments>,
) -> Result<(), String> {
    resources::check_index(arguments, resources)?;
    match arguments.get("k").or(arguments.get("range")) {
        Some(_) => Ok(()),
        None => Err("neither `k` nor `range` is given: every object would be in the answer".to_owned()),
    }
}

/// Makes the operator of a box, after [`share`] has built its index.
pub(crate) fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(MetricSearch {
        shared: bind.shared(),
        k: bind.get_integer("k").and_then(|k| usize::try_from(k).ok()).unwrap_or(usize::MAX),
        range: bind.get_number("range").unwrap_or(f64::INFINITY),
        queries: None,
        next: 0,
        answers: Answers::default(),
    }))
}

struct MetricSearch {
    shared: Arc<Shared>,
    k: usize,
    range: f64,
    queries: Option<Queries>,
    /// The next query to answer.
    next: usize,
    /// Answers not sent yet.
    answers: Answers,
}

impl Operator for MetricSearch {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.queries.is_none() {
            self.queries = Some(Queries::of_side(cx, QUERIES, &self.shared.space)?);
        }
        let Some(queries) = &self.queries else { return Ok(Flow::Done) };
        match self.answers.send(cx, NEAREST)? {
            Some(Pushed::Sent) => (),
            Some(Pushed::Closed) => return Ok(Flow::Done),
            None => return Ok(Flow::Wait),
        }
        if self.next == queries.len() || cx.is_cancelled() {
            return Ok(Flow::Done);
        }
        let queries: Vec<&Query> = queries.iter().skip(self.next).take(QUERIES_PER_FIRING).collect();
        let mut answers: Vec<Option<Result<Answer, BoxError>>> = queries.iter().map(|_| None).collect();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut answers, 1, |idx, answer| {
                answer[0] = Some(self.answer(queries[idx], &cancelled));
            });
        });
        let (store, mut found) = (self.shared.space.store(), Vec::with_capacity(queries.len()));
        for (query, answer) in queries.iter().zip(answers) {
            let Some(answer) = answer else { continue };
            let objects = answer?.objects.into_iter();
            let objects = objects.map(|(distance, place)| (distance, store.nth(u64::from(place))));
            found.push((query.number, objects.collect()));
        }
        self.answers = Answers::new(found);
        self.next += queries.len();
        cx.progress(self.next as u64, self.queries.as_ref().map_or(0, Queries::len) as u64);
        Ok(Flow::More)
    }
}

impl MetricSearch {
    fn answer(&self, query: &Query, interrupt: Interrupt<'_>) -> Result<Answer, BoxError> {
        let Shared { space, index } = &*self.shared;
        let slack = query.prepared.slack().max(space.slack());
        let (store, mut answer) = (space.store(), None);
        query.prepared.lend(interrupt, &mut |distance| {
            let mut distance = |place: u32| distance(store.nth(u64::from(place)));
            let mut search = Search::new(self.k, self.range, slack, &mut distance);
            answer = Some(index.answer(&mut search).map(|()| search.finish()));
        })?;
        answer.unwrap_or_else(|| unreachable!("a query lends its distances once")).map_err(BoxError::from)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use arrow_array::{ArrayRef, StringArray, UInt32Array};
    use boxwork_runtime::envelope::Envelope;
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::{Cancellation, Environment, OperatorSpec};
    use boxwork_runtime::parameter::Value;
    use boxwork_stores::any_kind::named;
    use boxwork_stores::object_column;
    use boxwork_stores::signature_store::SignatureStore;
    use boxwork_stores::space::SharedSpace;
    use boxwork_stores::spaces::{DistanceOptions, open};
    use boxwork_stores::testing;

    use super::*;
    use crate::resources::pivot_table::PIVOT_TABLE;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    /// Spaces of every distance, each over some objects, many of them equal.
    pub(crate) fn spaces(folder: &Path) -> Vec<Arc<dyn Space>> {
        let lines = |name: &str, line: &dyn Fn(u64) -> String| {
            let path = folder.join(format!("{name}.jsonl"));
            fs::write(&path, (0..150).map(line).collect::<String>()).unwrap();
            path
        };
        let number = |i: u64, j: u64| ((i * 7 + j * 13) * 2_654_435_761 % 1000) as f64 / 100.0;
        let vectors = lines("vectors", &|i| {
            let i = i % 120;
            format!("{{\"object\": [{}, {}, {}]}}\n", number(i, 0), number(i, 1), number(i, 2))
        });
        let texts = lines("texts", &|i| {
            let letters = (0..i % 11).map(|j| ['a', 'b', 'é'][((i * 31 + j * 17) % 7 % 3) as usize]);
            format!("{{\"name\": \"t{i}\", \"object\": \"{}\"}}\n", letters.collect::<String>())
        });
        let sets = lines("sets", &|i| {
            let elements = (0..i % 9).map(|j| (i * 5 + j * j * 3) % 23).map(|element| element.to_string());
            format!("{{\"object\": [{}]}}\n", elements.collect::<Vec<_>>().join(", "))
        });
        let mut spaces = Vec::new();
        for (path, distances, kind) in [
            (vectors, &["l1", "l2", "linf", "lp"][..], "vectors"),
            (texts, &["levenshtein"], "texts"),
            (sets, &["jaccard"], "sets"),
        ] {
            let column = object_column::open(&path, None, "name", Some(named(kind).unwrap())).unwrap();
            for distance in distances {
                for root in [false, true] {
                    let p = (*distance == "lp").then_some(3.0);
                    let options = DistanceOptions { p, root, ..DistanceOptions::named(distance) };
                    spaces.push(open(&options, Arc::clone(&column)).unwrap());
                }
            }
        }
        let store = testing::store(folder, 150);
        let less = folder.join("less");
        fs::create_dir(&less).unwrap();
        let less =
            testing::without(&testing::store(&less, 190), (0..190).filter(|id| id % 19 < 4 && id % 50 > 3));
        for (distance, ground) in
            [("hausdorff", "l1"), ("emd", "l2"), ("emd", "linf"), ("sqfd", "l2"), ("hausdorff", "linf")]
        {
            for root in [false, true] {
                let ground = ground.to_owned();
                let options = DistanceOptions { ground, root, ..DistanceOptions::named(distance) };
                for store in [&store, &less] {
                    spaces.push(open(&options, Arc::<SignatureStore>::clone(store)).unwrap());
                }
            }
        }
        spaces
    }

    /// Objects of a space as queries: the envelope, and the result of a scan for each, in order.
    pub(crate) fn asked(space: &Arc<dyn Space>, places: &[u32]) -> (Envelope, Vec<Vec<(f64, u64)>>) {
        let store = space.store();
        let ids: Vec<u64> = places.iter().map(|place| store.nth(u64::from(*place))).collect();
        let names: Vec<String> = ids.iter().map(|id| store.name(*id).unwrap()).collect();
        let columns: [(&str, ArrayRef); 3] = [
            ("query", Arc::new(UInt32Array::from_iter_values(0..ids.len() as u32))),
            ("name", Arc::new(StringArray::from(names))),
            ("object", store.objects(&ids).unwrap()),
        ];
        let envelope = Envelope::from_columns(columns).unwrap();
        let queries = Queries::new(std::slice::from_ref(&envelope), space).unwrap();
        let all: Vec<u64> = store.among(0..store.ids_count()).collect();
        let ranked = queries.iter().map(|query| {
            let mut ranked: Vec<(f64, u64)> =
                query.exact(&all).unwrap().into_iter().zip(all.iter().copied()).collect();
            ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            ranked
        });
        let ranked = ranked.collect();
        (envelope, ranked)
    }

    #[test]
    fn indexes_and_pivots_under_way_end_when_the_preparation_is_cancelled() {
        let folder = tempfile::tempdir().unwrap();
        let space: Resource = Arc::new(SharedSpace(spaces(folder.path()).swap_remove(0)));
        let resources = BTreeMap::from([("s".to_owned(), space)]);
        let (cancellation, going) = (Cancellation::new(), Environment::of_slots(1));
        let stopped = Environment { cancellation: cancellation.clone(), ..Environment::of_slots(1) };
        cancellation.cancel();
        let given = [("space".to_owned(), text("s")), ("k".to_owned(), Value::Integer(1))];
        for name in ["aesa", "laesa", "list_of_clusters", "m_tree", "pm_tree", "m_index"] {
            let spec = crate::index::LIST.iter().find(|spec| spec.name == name).unwrap();
            let arguments = Arguments::check(spec.parameters, given.clone()).unwrap();
            let share =
                |environment| (spec.share.unwrap())(&Bind::new("x", &arguments, &resources, environment));
            assert!(share(&going).is_ok());
            let error = share(&stopped).unwrap_err().to_string();
            assert!(error.contains("interrupted"), "{name}: {error}");
        }
        let arguments = Arguments::check(PIVOT_TABLE.parameters, given[..1].to_vec()).unwrap();
        let load = |environment| (PIVOT_TABLE.load)(&Bind::new("x", &arguments, &resources, environment));
        assert!(load(&going).is_ok() && load(&stopped).is_err());
    }

    #[test]
    fn the_building_of_an_index_computes_few_distances_after_it_was_stopped() {
        use boxwork_kernels::metric_index::{
            Aesa, AesaChoice, ClusterSize, Laesa, ListOfClusters, MTree, PmTree,
        };
        type Build = fn(&IndexedObjects<'_>) -> Result<(), MetricIndexError>;
        let builds: [(&str, Build); 6] = [
            ("aesa", |objects| Aesa::build(objects, AesaChoice::default()).map(drop)),
            ("laesa", |objects| Laesa::build(objects, &[3, 8, 99], 8).map(drop)),
            ("list of clusters", |objects| ListOfClusters::build(objects, ClusterSize::Objects(9)).map(drop)),
            ("m-tree", |objects| MTree::build(objects, 8).map(drop)),
            ("pm-tree", |objects| PmTree::build(objects, 8, &[3, 8]).map(drop)),
            ("pivots", |objects| objects.pivots(40, 1).map(drop)),
        ];
        let between = |a: u32, b: u32| f64::from((a * 37 % 101).abs_diff(b * 37 % 101));
        for (name, build) in builds {
            for stop_at in [1, 2, 10, 30] {
                let (questions, after) = (Cell::new(0), Cell::new(0));
                let counted = |a: u32, b: u32| {
                    after.set(after.get() + usize::from(questions.get() >= stop_at));
                    between(a, b)
                };
                let stop = || {
                    questions.set(questions.get() + 1);
                    questions.get() >= stop_at
                };
                let objects = IndexedObjects::new(101, &counted).unwrap().until(&stop);
                let error = build(&objects).expect_err(name).to_string();
                assert!(error.contains("interrupted"), "{name}: {error}");
                assert_eq!((questions.get(), after.get()), (stop_at, 0), "{name} went on");
                assert!(objects.computed() <= 8 * stop_at as u64, "{name}: {}", objects.computed());
            }
        }
    }

    /// Asks a box over every space for the nearest objects and for all within a range, and compares with a scan.
    pub(crate) fn check(spec: &'static OperatorSpec) {
        let folder = tempfile::tempdir().unwrap();
        for space in spaces(folder.path()) {
            let name = space.properties().name;
            let (envelope, ranked) = asked(&space, &[0, 7, 77, 149, 3, 50, 51, 52, 53, 54]);
            let range = ranked[1][20].0;
            for (k, range) in
                [(Some(5), None), (None, Some(range)), (Some(12), Some(range)), (Some(500), None)]
            {
                let mut given = vec![("space", text("s"))];
                given.extend(k.map(|k| ("k", Value::Integer(k))));
                given.extend(range.map(|range| ("range", Value::Number(range))));
                let resource: Resource = Arc::new(SharedSpace(Arc::clone(&space)));
                let mut harness = Harness::with_resources(spec, given, [("s", resource)]).unwrap();
                harness.give(QUERIES, envelope.clone());
                let mut found = Vec::new();
                while !harness.is_done() {
                    harness.run().unwrap();
                    found.extend(testing::distance_rows(&harness.taken(NEAREST)));
                }
                let within = |found: &&(f64, u64)| found.0 <= range.unwrap_or(f64::INFINITY);
                let wanted = ranked.iter().enumerate().flat_map(|(number, ranked)| {
                    let k = k.map_or(usize::MAX, |k| k as usize);
                    ranked.iter().filter(within).take(k).map(move |found| (number as u32, found.1, found.0))
                });
                assert_eq!(found, wanted.collect::<Vec<_>>(), "{} of {name}, {k:?}, {range:?}", spec.name);
            }
        }
    }
}
