//! What the operators of metric indexes share: an index that is made once for all requests, and the box that asks it.

use std::sync::Arc;

use boxwork_kernels::metric_index::{Answer, MetricIndex, MetricIndexError, Objects, Search};
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Input, Operator, Output, Pushed, Resource};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType};

use crate::columns;
use crate::search::top_k::envelope_of;
use boxwork_stores::metric_query::{MetricQuery, queries};
use boxwork_stores::metric_space::MetricSpace;

/// Rows of an envelope at most.
const ENVELOPE_ROWS: usize = 4096;
/// Queries that one firing answers, beside each other.
const QUERIES_PER_FIRING: usize = 8;

/// The parameter of the k nearest.
pub(crate) const K: Parameter = Parameter::new(
    "k",
    ParameterType::integer_from(1),
    Default::Absent,
    "how many objects a query gets; without it all within the range",
)
.unit("objects");

/// The parameter of a range.
pub(crate) const RANGE: Parameter = Parameter::new(
    "range",
    ParameterType::Number { minimum: 0.0, maximum: f64::MAX },
    Default::Absent,
    "only objects at most this far",
);

/// The parameter of pivots.
pub(crate) const PIVOTS: Parameter = Parameter::new(
    "pivots",
    ParameterType::Integer { minimum: 1, maximum: 1024 },
    Default::Integer(16),
    "how many pivots; fewer where there are fewer different objects",
)
.unit("objects");

/// The parameter of their choice.
pub(crate) const SEED: Parameter = Parameter::new(
    "seed",
    ParameterType::integer_from(0),
    Default::Integer(1),
    "the seed of the pivots' choice",
);

/// The input of every index.
pub(crate) const INPUTS: &[Input] = &[Input::side("queries", columns::object_queries, "the queries")];

/// The output of every index.
pub(crate) const OUTPUTS: &[Output] =
    &[Output::new("nearest", columns::distances, "the objects found, by query, distance and id")];

/// An index that requests share.
struct Shared {
    space: Arc<MetricSpace>,
    index: Box<dyn MetricIndex>,
}

/// Makes the index of a box, once, when the pipeline is prepared.
pub(crate) fn share<I: MetricIndex + 'static>(
    bind: &Bind<'_>,
    build: impl FnOnce(&Objects<'_>, &MetricSpace) -> Result<I, MetricIndexError>,
) -> Result<Resource, BoxError> {
    let space: Arc<MetricSpace> = bind.resource("space")?;
    let is_cancelled = || bind.cancellation().is_cancelled();
    let index = space.between(|between| {
        let objects = Objects::new(space.len() as usize, between)?.until(&is_cancelled);
        build(&objects, &space)
    })??;
    Ok(Arc::new(Shared { space, index: Box::new(index) }))
}

/// Whether anything less than all objects is wanted.
pub(crate) fn check(
    arguments: &Arguments,
    _resources: &dyn Fn(&str) -> Option<Arguments>,
) -> Result<(), String> {
    match arguments.get("k").or(arguments.get("range")) {
        Some(_) => Ok(()),
        None => Err("neither `k` nor `range` is given: every object would be an answer".to_owned()),
    }
}

/// Makes the operator of a box whose `share` is [`share`].
pub(crate) fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(MetricSearch {
        shared: bind.shared(),
        k: bind.get_integer("k").and_then(|k| usize::try_from(k).ok()).unwrap_or(usize::MAX),
        range: bind.get_number("range").unwrap_or(f64::INFINITY),
        queries: None,
        next: 0,
        rows: Vec::new(),
        sent: 0,
    }))
}

struct MetricSearch {
    shared: Arc<Shared>,
    k: usize,
    range: f64,
    queries: Option<Vec<MetricQuery>>,
    /// The query that is answered next.
    next: usize,
    /// Answers that have not been sent.
    rows: Vec<(u32, u64, f64)>,
    sent: usize,
}

impl Operator for MetricSearch {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.queries.is_none() {
            self.queries = Some(queries(cx.side("queries"), &self.shared.space)?);
        }
        let Some(queries) = &self.queries else { return Ok(Flow::Done) };
        while self.sent < self.rows.len() {
            if !cx.has_room("nearest") {
                return Ok(Flow::Wait);
            }
            let upto = self.rows.len().min(self.sent + ENVELOPE_ROWS);
            let envelope = envelope_of(&self.rows[self.sent..upto])?;
            self.sent = upto;
            if cx.push("nearest", envelope)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        if self.next == queries.len() || cx.is_cancelled() {
            return Ok(Flow::Done);
        }
        let queries = &queries[self.next..queries.len().min(self.next + QUERIES_PER_FIRING)];
        let mut answers: Vec<Option<Result<Answer, BoxError>>> = queries.iter().map(|_| None).collect();
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut answers, 1, |idx, answer| {
                answer[0] = Some(self.answer(&queries[idx]));
            });
        });
        (self.rows, self.sent) = (Vec::new(), 0);
        for (query, answer) in queries.iter().zip(answers) {
            let Some(answer) = answer else { continue };
            let found = answer?.objects.into_iter();
            let space = &self.shared.space;
            self.rows.extend(found.map(|(distance, place)| (query.number, space.id(place), distance)));
        }
        self.next += queries.len();
        cx.progress(self.next as u64, self.queries.iter().flatten().count() as u64);
        Ok(Flow::More)
    }
}

impl MetricSearch {
    fn answer(&self, query: &MetricQuery) -> Result<Answer, BoxError> {
        let Shared { space, index } = &*self.shared;
        let slack = space.slack(Some(query)).max(space.slack(None));
        space.distances(query, |distance| {
            let mut search = Search::new(self.k, self.range, slack, distance);
            index.answer(&mut search)?;
            Ok::<_, BoxError>(search.finish())
        })?
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::path::Path;

    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::{Cancellation, Environment, OperatorSpec, ResourceSpec};
    use boxwork_runtime::parameter::Value;
    use std::collections::BTreeMap;

    use super::*;
    use boxwork_stores::metric_pivots::METRIC_PIVOTS;
    use boxwork_stores::metric_query::QueryBuilder;
    use boxwork_stores::metric_space::{METRIC_SPACE, MetricMeasure};
    use boxwork_stores::object_column::{OBJECT_COLUMN, ObjectColumn};
    use boxwork_stores::testing;

    fn arguments(spec: &ResourceSpec, given: &[(&str, Value)]) -> Arguments {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        Arguments::check(spec.parameters, given).unwrap()
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    /// Spaces of every distance, each of some objects, many of them alike.
    pub(crate) fn spaces(folder: &Path) -> Vec<Arc<MetricSpace>> {
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
        for (path, distances) in
            [(vectors, &["l1", "l2", "linf", "lp"][..]), (texts, &["levenshtein"]), (sets, &["jaccard"])]
        {
            let holds = if distances == ["jaccard"] { "sets" } else { "auto" };
            let given = [("path", text(path.to_str().unwrap())), ("holds", text(holds))];
            let column = arguments(&OBJECT_COLUMN, &given);
            let (resources, environment) = (BTreeMap::new(), Environment::of_slots(1));
            let bind = Bind::new("objects", &column, &resources, &environment);
            let column: Arc<ObjectColumn> = (OBJECT_COLUMN.load)(&bind).unwrap().downcast().unwrap();
            for distance in distances {
                for root in [false, true] {
                    let mut given = vec![("objects", text("o")), ("distance", text(distance))];
                    given.push(("root", Value::Boolean(root)));
                    given.extend((*distance == "lp").then_some(("p", Value::Number(3.0))));
                    let measure = MetricMeasure::of(&arguments(&METRIC_SPACE, &given)).unwrap();
                    spaces.push(Arc::new(MetricSpace::of_column(measure, Arc::clone(&column)).unwrap()));
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
                let given = [
                    ("store", text("s")),
                    ("distance", text(distance)),
                    ("ground", text(ground)),
                    ("root", Value::Boolean(root)),
                ];
                let measure = MetricMeasure::of(&arguments(&METRIC_SPACE, &given)).unwrap();
                for store in [&store, &less] {
                    spaces.push(Arc::new(MetricSpace::of_store(measure, Arc::clone(store)).unwrap()));
                }
            }
        }
        spaces
    }

    /// Queries that are objects of a space: the envelope, and what a scan finds for each, in order.
    pub(crate) fn asked(
        space: &MetricSpace,
        places: &[u32],
    ) -> (boxwork_runtime::envelope::Envelope, Vec<Vec<(f64, u64)>>) {
        let mut builder = QueryBuilder::new(space).unwrap();
        places.iter().for_each(|place| builder.push_object(space, space.id(*place)).unwrap());
        let envelope = builder.finish().unwrap();
        let queries = queries(std::slice::from_ref(&envelope), space).unwrap();
        let ranked = queries.iter().map(|query| {
            let all = space.distances(query, |distance| {
                (0..space.len() as u32).map(|place| (distance(place), space.id(place))).collect::<Vec<_>>()
            });
            let mut all = all.unwrap();
            all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            all
        });
        let ranked = ranked.collect();
        (envelope, ranked)
    }

    #[test]
    fn indexes_and_pivots_under_way_end_when_the_preparation_is_cancelled() {
        let folder = tempfile::tempdir().unwrap();
        let space: Resource = spaces(folder.path()).swap_remove(0) as Resource;
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
        let arguments = Arguments::check(METRIC_PIVOTS.parameters, given[..1].to_vec()).unwrap();
        let load = |environment| (METRIC_PIVOTS.load)(&Bind::new("x", &arguments, &resources, environment));
        assert!(load(&going).is_ok() && load(&stopped).is_err());
    }

    /// Asks a box of every space for the nearest and for all within a range, and compares with a scan.
    pub(crate) fn check(spec: &'static OperatorSpec) {
        let folder = tempfile::tempdir().unwrap();
        for space in spaces(folder.path()) {
            let name = space.measure().properties().name;
            let (envelope, ranked) = asked(&space, &[0, 7, 77, 149, 3, 50, 51, 52, 53, 54]);
            let range = ranked[1][20].0;
            for (k, range) in
                [(Some(5), None), (None, Some(range)), (Some(12), Some(range)), (Some(500), None)]
            {
                let mut given = vec![("space", text("s"))];
                given.extend(k.map(|k| ("k", Value::Integer(k))));
                given.extend(range.map(|range| ("range", Value::Number(range))));
                let resource: Resource = Arc::clone(&space) as Resource;
                let mut harness = Harness::with_resources(spec, given, [("s", resource)]).unwrap();
                harness.give("queries", envelope.clone());
                let mut found = Vec::new();
                while !harness.is_done() {
                    harness.run().unwrap();
                    found.extend(testing::distance_rows(&harness.taken("nearest")));
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
