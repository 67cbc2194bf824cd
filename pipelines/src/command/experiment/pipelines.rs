//! The tasks of a sweep: pipelines by name, and a few tasks that are not pipelines.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use boxwork_lab::experiment::{Call, Failure, Task, Work};
use boxwork_lab::sample_images::{CLASSES_COUNT_MAX, PER_CLASS_DEFAULT, PER_CLASS_MAX, SampleSet};
use boxwork_lab::{Figures, Measured, ProcessorTime};
use boxwork_runtime::feeding::LazyDevices;
use boxwork_runtime::operator::{Cancellation, Catalog, Environment};
use boxwork_runtime::parameter::{QUERIES_MAX, Value, did_you_mean};
use boxwork_runtime::plan::ParameterDeclaration;
use boxwork_runtime::prepare::{PrepareError, Prepared};
use boxwork_runtime::request::{Outcome, Submission};
use boxwork_runtime::topology::Topology;
use boxwork_runtime::{Config, Runtime};
use boxwork_stores::signature_store::{SignatureStore, StoreError};
use serde_json::Value as Json;

use crate::command::path_value;
use crate::diagnostic::Diagnostic;
use crate::given::parse_setting;
use crate::pipeline::{self, Loaded};
use crate::shipped::{self, Shipped};

/// Interval at which Ctrl-C is checked.
const POLL: Duration = Duration::from_millis(50);
/// The distance between the queries' ids: a prime, so that they are spread over any store.
const QUERY_STEP: u64 = 7919;
/// JSON rounds distances; the factor keeps every answer within a range read from JSON.
const ROUNDING: f64 = 1.0 + 1e-8;
/// Boxes whose rows are distances.
const DISTANCE_BOXES: [&str; 2] = ["distance", "sqfd"];
/// Parameters set here: the output, its format, and the queries.
const OURS: [&str; 3] = ["out", "format", "queries"];
/// Settings of steps that are not parameters of their pipelines, with their largest values.
const SAMPLE: (&str, usize) = ("sample", 4096);
const BATCH: (&str, usize) = ("batch", QUERIES_MAX);
const CENTROIDS_MAX: usize = 1 << 20;
const WORKERS: (&str, usize) = ("workers", 4096);
/// Tasks that are not pipelines.
const SAMPLE_IMAGES: &str = "sample_images";
const SEED: &str = "seed";
const SIZES: &str = "sizes";
const ORACLE: &str = "oracle";

/// The kind of a task.
#[derive(Clone)]
enum Kind {
    /// Draws labelled pictures.
    Images,
    /// Counts the objects whose signatures have some number of centroids.
    Sizes,
    /// Searches within the distance of the k-th answer, which a scan has found.
    Oracle(Arc<Loaded>),
    /// Runs a pipeline that answers queries.
    Search(Arc<Loaded>),
    /// Runs a pipeline that evaluates the order of the answers.
    Evaluate(Arc<Loaded>),
    /// Runs a pipeline that makes a file.
    Make(Arc<Loaded>),
}

/// The tasks of sweeps, over a catalogue of operators.
pub(in crate::command) struct Pipelines<'a> {
    catalog: &'a Catalog,
    /// The folder of pipelines with relative paths.
    folder: PathBuf,
    known: BTreeMap<String, Result<Kind, String>>,
    /// By the number of slots; `None` means all of the machine's.
    runtimes: BTreeMap<Option<usize>, Arc<Runtime>>,
    /// Shared by all runtimes.
    devices: Arc<LazyDevices>,
    /// Says when to stop.
    cancellation: Cancellation,
}

impl<'a> Pipelines<'a> {
    pub(in crate::command) fn new(catalog: &'a Catalog, folder: &Path, cancellation: &Cancellation) -> Self {
        Self {
            catalog,
            folder: folder.to_owned(),
            known: BTreeMap::new(),
            runtimes: BTreeMap::new(),
            devices: Arc::default(),
            cancellation: cancellation.clone(),
        }
    }

    fn kind(&mut self, name: &str) -> Result<Kind, String> {
        if !self.known.contains_key(name) {
            let found = self.look_up(name);
            self.known.insert(name.to_owned(), found);
        }
        self.known[name].clone()
    }

    fn look_up(&self, name: &str) -> Result<Kind, String> {
        let loaded = match (name, shipped::find(name)) {
            (SAMPLE_IMAGES, _) => return Ok(Kind::Images),
            (SIZES, _) => return Ok(Kind::Sizes),
            (ORACLE, _) => return Ok(Kind::Oracle(Arc::new(shipped::INDEXED_RANGE.load()))),
            (_, Some(shipped)) => shipped.load(),
            (path, None) if path.ends_with(".yaml") || path.ends_with(".yml") => {
                pipeline::load(&self.folder.join(path)).map_err(|faults| lines(&faults))?
            }
            _ => {
                let own = [SAMPLE_IMAGES, SIZES, ORACLE];
                let near = did_you_mean(name, shipped::ALL.iter().map(Shipped::name).chain(own));
                return Err(format!("there is no pipeline `{name}`{near}"));
            }
        };
        let (_, faults) = loaded.check(self.catalog, &loaded.declaration.defaults());
        let errors: Vec<Diagnostic> = faults.into_iter().filter(Diagnostic::is_error).collect();
        if !errors.is_empty() {
            return Err(lines(&errors));
        }
        let loaded = Arc::new(loaded);
        let has = |name: &str| loaded.declaration.parameters.iter().any(|parameter| parameter.name == name);
        let kind = match name {
            "evaluate" => Kind::Evaluate,
            _ if has("queries") && has("store") => Kind::Search,
            _ => Kind::Make,
        };
        Ok(kind(Arc::clone(&loaded)))
    }

    fn runtime(&mut self, workers: Option<usize>) -> Result<Arc<Runtime>, Failure> {
        if let Some(runtime) = self.runtimes.get(&workers) {
            return Ok(Arc::clone(runtime));
        }
        let detected = Topology::detect();
        let topology = workers.map_or_else(|| detected.clone(), |workers| detected.first(workers));
        let devices = Arc::clone(&self.devices);
        let runtime = Arc::new(Runtime::start(Config { devices, maps: true, ..Config::new(topology) })?);
        self.runtimes.insert(workers, Arc::clone(&runtime));
        Ok(runtime)
    }

    /// A pipeline with the values of a call and those set here.
    fn prepare(
        &self,
        runtime: &Runtime,
        loaded: &Loaded,
        call: &Call,
        answers: &Path,
        more: &[(&str, Value)],
    ) -> Result<Arc<Prepared>, Failure> {
        let format = Value::Text("json".to_owned());
        let ours = [("out", path_value(answers)), ("queries", Value::List(Vec::new())), ("format", format)];
        let mut values = BTreeMap::new();
        for parameter in &loaded.declaration.parameters {
            let given = more.iter().chain(&ours).find(|(name, _)| parameter.name == *name);
            match (given, call.settings.get(&parameter.name)) {
                (Some((_, value)), _) => drop(values.insert(parameter.name.clone(), value.clone())),
                (None, Some(text)) => {
                    let value = parse_setting(parameter, text).map_err(Failure::Failed)?;
                    values.insert(parameter.name.clone(), value);
                }
                (None, None) => {}
            }
        }
        let environment = Environment { cancellation: self.cancellation.clone(), ..runtime.environment() };
        match Prepared::new(&loaded.declaration, self.catalog, &values, &environment) {
            Err(PrepareError::Cancelled) => Err(Failure::Interrupted),
            prepared => Ok(Arc::new(prepared?)),
        }
    }

    /// The requests of a search: each has at most `batch` queries, which are objects of the store.
    fn search(&mut self, loaded: &Loaded, call: &Call, is_oracle: bool) -> Result<Runs, Failure> {
        let store = SignatureStore::open(&call.settings["store"])?;
        let sample = number(call, SAMPLE.0, 0);
        let id = |nth: usize| (nth as u64 * QUERY_STEP + 13) % store.len().max(1);
        let queries = (0..sample).map(|nth| Ok(Value::Text(store.name(id(nth))?)));
        let queries = queries.collect::<Result<Vec<Value>, StoreError>>()?;
        let runtime = self.runtime(call.settings.get(WORKERS.0).and_then(|text| text.parse().ok()))?;
        let answers = call.file.with_extension("json");
        let mut requests = Vec::new();
        if is_oracle {
            let scan = self.prepare(&runtime, &shipped::SEARCH.load(), call, &answers, &[])?;
            for query in queries {
                run(&runtime, &scan, vec![query.clone()], &self.cancellation)?;
                let json: Json = serde_json::from_str(&fs::read_to_string(&answers)?)?;
                let results = json["queries"][0]["results"].as_array();
                let farthest = results.and_then(|results| results.last()?["distance"].as_f64());
                let range = farthest.ok_or_else(|| Failure::Failed("a query has no answer".to_owned()))?;
                let mut values = vec![("range", Value::Number(range * ROUNDING))];
                if !call.settings.contains_key("bound") {
                    values.push(("bound", Value::Text("simplex".to_owned())));
                }
                requests.push((self.prepare(&runtime, loaded, call, &answers, &values)?, vec![query]));
            }
        } else {
            let prepared = self.prepare(&runtime, loaded, call, &answers, &[])?;
            let batches = queries.chunks(number(call, BATCH.0, 1));
            requests.extend(batches.map(|names| (Arc::clone(&prepared), names.to_vec())));
        }
        let (figures, cancellation) =
            (FiguresOf::Search { objects: store.len() as f64 }, self.cancellation.clone());
        Ok(Runs { runtime, requests, answers, figures, cancellation })
    }
}

impl Work for Pipelines<'_> {
    fn task(&mut self, name: &str) -> Result<Task, String> {
        let kind = self.kind(name)?;
        let mut settings: Vec<String> = kind.parameters().map(|parameter| parameter.name.clone()).collect();
        settings.extend(kind.own().iter().map(|(name, _)| (*name).to_owned()));
        settings.extend(matches!(kind, Kind::Sizes).then(|| "store".to_owned()));
        let makes = match kind {
            Kind::Images => Some(""),
            Kind::Make(_) => Some(".arrow"),
            _ => None,
        };
        Ok(Task { settings, makes })
    }

    fn check(&mut self, call: &Call) -> Vec<(String, String)> {
        let Ok(kind) = self.kind(&call.task) else { return Vec::new() };
        let mut faults = Vec::new();
        let mut fault = |name: &str, message: String| faults.push((name.to_owned(), message));
        for (name, most) in kind.own() {
            let least = usize::from(![SEED, "from"].contains(name));
            match call.settings.get(*name).map(|text| text.parse::<usize>()) {
                None if *name == SAMPLE.0 => {
                    fault("do", "a search has queries: `sample: 20` are 20 objects of the store".to_owned());
                }
                None => {}
                Some(Ok(count)) if (least..=*most).contains(&count) => {}
                Some(_) => fault(name, format!("`{name}` is a whole number from {least} to {most}")),
            }
        }
        for parameter in kind.parameters() {
            let name = parameter.name.as_str();
            match call.settings.get(name).map(|text| parse_setting(parameter, text)) {
                Some(_) if OURS.contains(&name) => {
                    fault(name, format!("the experiment itself gives `{name}`"))
                }
                Some(Err(message)) => fault(name, message),
                None if parameter.default.is_none() && !parameter.optional && !OURS.contains(&name) => {
                    fault("do", format!("`{}` needs `{name}`: {}", call.task, parameter.about));
                }
                Some(Ok(_)) | None => {}
            }
        }
        if matches!(kind, Kind::Sizes) && !call.settings.contains_key("store") {
            fault("do", "`sizes` needs `store`".to_owned());
        }
        faults
    }

    fn open(&mut self, call: &Call) -> Result<Box<dyn Measured<Failure>>, Failure> {
        let workers = call.settings.get(WORKERS.0).and_then(|text| text.parse().ok());
        let (loaded, answers, figures) = match self.kind(&call.task).map_err(Failure::Failed)? {
            Kind::Images => return Ok(Box::new(Images(call.clone()))),
            Kind::Sizes => return Ok(Box::new(Sizes(call.clone()))),
            Kind::Search(loaded) => return Ok(Box::new(self.search(&loaded, call, false)?)),
            Kind::Oracle(loaded) => return Ok(Box::new(self.search(&loaded, call, true)?)),
            Kind::Evaluate(loaded) => (loaded, call.file.with_extension("json"), FiguresOf::Evaluate),
            Kind::Make(loaded) => (loaded, call.file.clone(), FiguresOf::Make),
        };
        let runtime = self.runtime(workers)?;
        let requests = vec![(self.prepare(&runtime, &loaded, call, &answers, &[])?, Vec::new())];
        let cancellation = self.cancellation.clone();
        Ok(Box::new(Runs { runtime, requests, answers, figures, cancellation }))
    }
}

impl Kind {
    /// The parameters of the task's pipeline, except those that the oracle finds itself.
    fn parameters(&self) -> impl Iterator<Item = &ParameterDeclaration> {
        let loaded = match self {
            Self::Images | Self::Sizes => None,
            Self::Oracle(loaded) | Self::Search(loaded) | Self::Evaluate(loaded) | Self::Make(loaded) => {
                Some(loaded)
            }
        };
        let all = loaded.into_iter().flat_map(|loaded| &loaded.declaration.parameters);
        all.filter(|parameter| !matches!(self, Self::Oracle(_)) || parameter.name != "range")
    }

    /// Numeric settings that are not parameters of a pipeline, with their largest values.
    fn own(&self) -> &'static [(&'static str, usize)] {
        match self {
            Self::Images => {
                &[("classes", CLASSES_COUNT_MAX), ("per_class", PER_CLASS_MAX), (SEED, usize::MAX)]
            }
            Self::Sizes => &[("from", CENTROIDS_MAX), ("width", CENTROIDS_MAX)],
            Self::Oracle(_) => &[("k", usize::MAX), SAMPLE, WORKERS],
            Self::Search(_) => &[SAMPLE, BATCH, WORKERS],
            Self::Evaluate(_) | Self::Make(_) => &[WORKERS],
        }
    }
}

/// The runs of a pipeline that are measured together.
struct Runs {
    runtime: Arc<Runtime>,
    /// A prepared pipeline and the queries of one run.
    requests: Vec<(Arc<Prepared>, Vec<Value>)>,
    /// The file that the pipeline writes.
    answers: PathBuf,
    figures: FiguresOf,
    cancellation: Cancellation,
}

/// The figures to report.
enum FiguresOf {
    /// The time of a query, and the number of distances computed for it.
    Search { objects: f64 },
    /// The quality of the order.
    Evaluate,
    /// The time to make a file, and its contents.
    Make,
}

/// The costs of one round's requests.
#[derive(Default)]
struct Taken {
    seconds: f64,
    /// Processor time of all threads except the waiting one, if the system counts it.
    processor_ms: Option<f64>,
    /// Rows made by boxes, by operator.
    rows: BTreeMap<String, u64>,
}

impl Measured<Failure> for Runs {
    fn round(&mut self) -> Result<Figures, Failure> {
        let mut taken = Taken { processor_ms: Some(0.0), ..Taken::default() };
        for (prepared, queries) in &self.requests {
            let before = ProcessorTime::of_others();
            let outcome = run(&self.runtime, prepared, queries.clone(), &self.cancellation)?;
            let spent = ProcessorTime::of_others().zip(before).map(|(now, before)| now.since(&before));
            taken.seconds += outcome.duration.as_secs_f64();
            taken.processor_ms = taken.processor_ms.zip(spent).map(|(sum, ns)| sum + ns as f64 * 1e-6);
            for of in &outcome.boxes {
                *taken.rows.entry(of.kind.to_string()).or_default() += of.rows_out;
            }
        }
        match self.figures {
            FiguresOf::Search { objects } => Ok(self.of_search(&taken, objects)),
            FiguresOf::Evaluate => self.of_evaluate(&taken),
            FiguresOf::Make => self.of_make(&taken),
        }
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        if !matches!(self.figures, FiguresOf::Make) {
            // No other step depends on the answers, and a leftover file is harmless.
            let _ = fs::remove_file(&self.answers);
        }
    }
}

impl Runs {
    fn of_search(&self, taken: &Taken, objects: f64) -> Figures {
        let queries: usize = self.requests.iter().map(|(_, queries)| queries.len()).sum();
        let rows = |kind: &str| taken.rows.get(kind).map(|rows| *rows as f64 / queries as f64);
        let distances: f64 = DISTANCE_BOXES.iter().filter_map(|kind| rows(kind)).sum();
        let mut figures = vec![named("ms", taken.seconds * 1e3 / queries as f64)];
        figures.extend(taken.processor_ms.map(|ms| named("cpu_ms", ms / queries as f64)));
        figures.extend([named("distances", distances), named("share", distances / objects)]);
        figures.extend(rows("lower_bounds").map(|left| named("left", left / objects)));
        figures
    }

    fn of_evaluate(&self, taken: &Taken) -> Result<Figures, Failure> {
        let json: Json = serde_json::from_str(&fs::read_to_string(&self.answers)?)?;
        let told = ["map", "precision_at_10", "idim"];
        let told = told.iter().filter_map(|name| Some(named(name, json[name].as_f64()?)));
        Ok(std::iter::once(named("seconds", taken.seconds)).chain(told).collect())
    }

    fn of_make(&self, taken: &Taken) -> Result<Figures, Failure> {
        let mut figures = vec![named("seconds", taken.seconds)];
        // An index is a file too, but without objects.
        if let Ok(store) = SignatureStore::open(&self.answers) {
            let objects = store.len() as f64;
            figures.extend([
                named("objects", objects),
                named("per_second", objects / taken.seconds),
                named("ms_per_object", taken.seconds * 1e3 / objects),
            ]);
            figures.extend(taken.processor_ms.map(|ms| named("cpu_ms_per_object", ms / objects)));
            figures.push(named("centroids", centroids(&store)?.iter().sum::<usize>() as f64 / objects));
        }
        Ok(figures)
    }
}

/// Draws the pictures of a call.
struct Images(Call);

impl Measured<Failure> for Images {
    fn round(&mut self) -> Result<Figures, Failure> {
        let Self(call) = self;
        let set = SampleSet::new(
            number(call, "classes", CLASSES_COUNT_MAX),
            number(call, "per_class", PER_CLASS_DEFAULT),
            number(call, SEED, 1) as u64,
        )?;
        // The folder gets its name once all pictures are in it.
        let part = call.file.with_extension("part");
        set.write(&part, &mut |_, _| {})?;
        fs::rename(&part, &call.file)?;
        Ok(Figures::new())
    }
}

/// Counts the objects of a store that have at least `from` centroids and fewer than `from + width`.
struct Sizes(Call);

impl Measured<Failure> for Sizes {
    fn round(&mut self) -> Result<Figures, Failure> {
        let Self(call) = self;
        let sizes = centroids(&SignatureStore::open(&call.settings["store"])?)?;
        let from = number(call, "from", 0);
        let wanted = from..from + number(call, "width", 1);
        let within = sizes.iter().filter(|size| wanted.contains(*size)).count() as f64;
        Ok(vec![named("objects", within), named("share", within / sizes.len().max(1) as f64)])
    }
}

/// The number of centroids of each object.
fn centroids(store: &SignatureStore) -> Result<Vec<usize>, StoreError> {
    store.verify()?;
    store.read(|objects| (0..store.len()).map(|id| Ok(objects.signature(id)?.len())).collect())
}

/// Runs one request to its end, or cancels it when the user presses Ctrl-C.
fn run(
    runtime: &Runtime,
    prepared: &Arc<Prepared>,
    queries: Vec<Value>,
    cancellation: &Cancellation,
) -> Result<Outcome, Failure> {
    let values = (!queries.is_empty()).then(|| ("queries".to_owned(), Value::List(queries)));
    let values = values.into_iter().collect();
    let request = runtime.submit(prepared, &Submission { values, ..Submission::default() })?;
    let outcome = loop {
        if cancellation.is_cancelled() {
            request.cancel();
            request.wait();
            return Err(Failure::Interrupted);
        }
        if let Some(outcome) = request.wait_timeout(POLL) {
            break outcome;
        }
    };
    outcome.result.clone()?;
    match outcome.problems.first() {
        None => Ok(outcome),
        Some(problem) => Err(Failure::Failed(format!(
            "{} items of its input have problems, first {}: {}",
            outcome.problems_count, problem.subject, problem.message
        ))),
    }
}

/// A setting that is a number; its default if it is not given.
fn number(call: &Call, name: &str, default: usize) -> usize {
    call.settings.get(name).and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn named(name: &str, figure: f64) -> (String, f64) {
    (name.to_owned(), figure)
}

fn lines(faults: &[Diagnostic]) -> String {
    faults.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("\n")
}
