//! Running the steps of a row: files that are not there yet, and then what is measured.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use boxwork_lab::bench::{ProcessorTime, Spread};
use boxwork_lab::sample_images::{CLASSES_COUNT_MAX, PER_CLASS_DEFAULT, SampleSet};
use boxwork_runtime::feeding::LazyDevices;
use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::{Outcome, Submission};
use boxwork_runtime::topology::Topology;
use boxwork_runtime::{Config, Runtime};
use boxwork_stores::signature_store::{SignatureStore, StoreError};
use serde_json::Value as Json;

use super::plan::{DATA, Planned, PlannedStep, Task, file};
use super::sweep::Sweep;
use crate::pipeline::Loaded;
use crate::run::is_interrupted;
use crate::shipped;

/// How often Ctrl-C is looked for.
const POLL: Duration = Duration::from_millis(100);
/// The store's objects that are queries lie so far apart: a prime, so that they are spread over any store.
const QUERY_STEP: u64 = 7919;
/// Digits of a distance in JSON: none of the answers may be beyond the range that they give.
const ROUNDING: f64 = 1.0 + 1e-8;

type Figures = Vec<(String, f64)>;

/// Why a row has no figures.
pub(super) enum Failed {
    Interrupted,
    /// The place of the row, the step, and what it said.
    Step {
        row: usize,
        step: String,
        cause: String,
    },
}

/// Why a step has none.
enum Cause {
    Interrupted,
    Said(String),
}

impl<E: std::fmt::Display> From<E> for Cause {
    fn from(error: E) -> Self {
        Self::Said(error.to_string())
    }
}

/// Where steps are run, and what is known of those that were.
pub(super) struct Laboratory<'a> {
    sweep: &'a Sweep,
    catalog: &'a Catalog,
    data: &'a Path,
    runtimes: BTreeMap<Option<usize>, Arc<Runtime>>,
    /// All of them use these.
    devices: Arc<LazyDevices>,
    /// By key: rows that differ in what a step does not use share its figures.
    known: BTreeMap<String, Figures>,
}

impl<'a> Laboratory<'a> {
    pub(super) fn new(sweep: &'a Sweep, catalog: &'a Catalog, data: &'a Path) -> Self {
        Self {
            sweep,
            catalog,
            data,
            runtimes: BTreeMap::new(),
            devices: Arc::default(),
            known: BTreeMap::new(),
        }
    }

    /// The figures of some rows, whose searches take turns: what else the machine does meets all of them alike.
    pub(super) fn measure(&mut self, rows: &[&Planned]) -> Result<Vec<Figures>, Failed> {
        let sweep = self.sweep;
        let mut all = vec![Figures::new(); rows.len()];
        for idx in &sweep.measured {
            let failed = |row: usize, step: usize, cause| match cause {
                Cause::Interrupted => Failed::Interrupted,
                Cause::Said(cause) => Failed::Step { row, step: sweep.steps[step].name.clone(), cause },
            };
            let mut asked: Vec<(usize, Asked)> = Vec::new();
            for (nth, row) in rows.iter().enumerate() {
                for needed in self.needed(row, *idx) {
                    self.make(row, needed).map_err(|cause| failed(nth, needed, cause))?;
                }
                let planned = &row.steps[*idx];
                if self.known.contains_key(&planned.key)
                    || asked.iter().any(|(nth, _)| rows[*nth].steps[*idx].key == planned.key)
                {
                    continue;
                }
                let failed = |cause| failed(nth, *idx, cause);
                match &planned.task {
                    Task::Ask(loaded) => asked.push((nth, self.asked(planned, loaded).map_err(failed)?)),
                    Task::Divine => asked.push((nth, self.divine(planned).map_err(failed)?)),
                    _ => {
                        let figures = self.figures(row, *idx).map_err(failed)?;
                        self.known.insert(planned.key.clone(), figures);
                    }
                }
            }
            let mut rounds: Vec<Vec<Round>> = asked.iter().map(|_| Vec::new()).collect();
            for round in 0..sweep.warmup + sweep.rounds {
                for ((nth, asked), rounds) in asked.iter().zip(&mut rounds) {
                    let measured = asked.round().map_err(|cause| failed(*nth, *idx, cause))?;
                    if round >= sweep.warmup {
                        rounds.push(measured);
                    }
                }
            }
            for ((nth, asked), rounds) in asked.iter().zip(&rounds) {
                let _ = fs::remove_file(&asked.answers);
                self.known.insert(rows[*nth].steps[*idx].key.clone(), asked.figures(rounds));
            }
            for (all, row) in all.iter_mut().zip(rows) {
                let figures = self.known.get(&row.steps[*idx].key).into_iter().flatten();
                let name = &sweep.steps[*idx].name;
                all.extend(figures.map(|(figure, value)| (format!("{name}.{figure}"), *value)));
            }
        }
        Ok(all)
    }

    /// The steps whose files a step reads, and those that they read, the first first.
    fn needed(&self, row: &Planned, idx: usize) -> Vec<usize> {
        let mut needed = Vec::new();
        for used in &row.steps[idx].uses {
            for before in self.needed(row, *used).into_iter().chain([*used]) {
                if !needed.contains(&before) {
                    needed.push(before);
                }
            }
        }
        needed
    }

    fn path(&self, row: &Planned, idx: usize) -> PathBuf {
        self.data.join(file(&self.sweep.steps[idx], &row.steps[idx]))
    }

    fn runtime(&mut self, workers: Option<usize>) -> Result<Arc<Runtime>, Cause> {
        if let Some(runtime) = self.runtimes.get(&workers) {
            return Ok(Arc::clone(runtime));
        }
        let detected = Topology::detect();
        let topology = workers.map_or_else(|| detected.clone(), |workers| detected.first(workers));
        let devices = Arc::clone(&self.devices);
        let runtime = Arc::new(Runtime::start(Config { devices, ..Config::new(topology) })?);
        self.runtimes.insert(workers, Arc::clone(&runtime));
        Ok(runtime)
    }

    /// Makes the file of a step, unless it is there.
    fn make(&mut self, row: &Planned, idx: usize) -> Result<(), Cause> {
        let path = self.path(row, idx);
        if path.exists() {
            return Ok(());
        }
        let planned = &row.steps[idx];
        match &planned.task {
            Task::Images => draw(planned, &path),
            Task::Make(loaded) => {
                let runtime = self.runtime(planned.workers)?;
                let prepared = self.prepare(&runtime, loaded, planned, &[("out", text(&path))])?;
                run(&runtime, &prepared, BTreeMap::new()).map(drop)
            }
            _ => Err(Cause::Said("it makes no file".to_owned())),
        }
    }

    /// A pipeline with the step's values, and with those that come from here.
    fn prepare(
        &self,
        runtime: &Runtime,
        loaded: &Loaded,
        planned: &PlannedStep,
        ours: &[(&str, Value)],
    ) -> Result<Arc<Prepared>, Cause> {
        let mut values: BTreeMap<String, Value> =
            planned.values.iter().map(|(name, value)| (name.clone(), self.on_disk(value))).collect();
        values.extend(ours.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let parameters = &loaded.declaration.parameters;
        values.retain(|name, _| parameters.iter().any(|known| known.name == *name));
        let environment = runtime.environment();
        Ok(Arc::new(Prepared::new(&loaded.declaration, self.catalog, &values, &environment)?))
    }

    /// A value with the files of steps where they lie.
    fn on_disk(&self, value: &Value) -> Value {
        match value {
            Value::Text(name) => match name.strip_prefix(DATA) {
                Some(name) => text(&self.data.join(name)),
                None => value.clone(),
            },
            Value::List(items) => Value::List(items.iter().map(|item| self.on_disk(item)).collect()),
            other => other.clone(),
        }
    }

    fn store(&self, planned: &PlannedStep) -> Result<SignatureStore, Cause> {
        match planned.values.get("store").map(|store| self.on_disk(store)) {
            Some(Value::Text(path)) => Ok(SignatureStore::open(path)?),
            _ => Err(Cause::Said("it has no store".to_owned())),
        }
    }

    fn figures(&mut self, row: &Planned, idx: usize) -> Result<Figures, Cause> {
        let planned = &row.steps[idx];
        match planned.task.clone() {
            Task::Images => {
                self.make(row, idx)?;
                Ok(Figures::new())
            }
            Task::Sizes => sizes(planned, &self.store(planned)?),
            Task::Make(loaded) => self.making(row, idx, &loaded),
            Task::Evaluate(loaded) => self.quality(planned, &loaded),
            // They take turns with others.
            Task::Ask(_) | Task::Divine => Ok(Figures::new()),
        }
    }

    /// The time to make a file: its objects, and how many a second.
    fn making(&mut self, row: &Planned, idx: usize, loaded: &Loaded) -> Result<Figures, Cause> {
        let (planned, path) = (&row.steps[idx], self.path(row, idx));
        let runtime = self.runtime(planned.workers)?;
        let (mut seconds, mut busy) = (Vec::new(), Vec::new());
        for round in 0..self.sweep.warmup + self.sweep.rounds {
            let prepared = self.prepare(&runtime, loaded, planned, &[("out", text(&path))])?;
            let (outcome, spent_ms) = run_counted(&runtime, &prepared, BTreeMap::new())?;
            if round >= self.sweep.warmup {
                seconds.push(outcome.duration.as_secs_f64());
                busy.extend(spent_ms);
            }
        }
        let mut figures = spread("seconds", &seconds);
        // An index is no store: it has no objects of its own.
        if let Ok(store) = SignatureStore::open(&path) {
            let objects = store.len() as f64;
            let centroids = centroids(&store)?;
            figures.push(("objects".to_owned(), objects));
            let median = Spread::of(&seconds).median;
            figures.push(("per_second".to_owned(), objects / median));
            figures.push(("ms_per_object".to_owned(), median * 1e3 / objects));
            if !busy.is_empty() {
                let busy = Spread::of(&busy).median / objects;
                figures.push(("cpu_ms_per_object".to_owned(), busy));
            }
            figures.push(("centroids".to_owned(), centroids.iter().sum::<f64>() / objects));
        }
        Ok(figures)
    }

    /// How good the order is; once, as it is the same each time.
    fn quality(&mut self, planned: &PlannedStep, loaded: &Loaded) -> Result<Figures, Cause> {
        let runtime = self.runtime(planned.workers)?;
        let answers = self.data.join(format!("quality-{}.json", planned.key));
        let ours = [("out", text(&answers)), ("format", Value::Text("json".to_owned()))];
        let prepared = self.prepare(&runtime, loaded, planned, &ours)?;
        let outcome = run(&runtime, &prepared, BTreeMap::new())?;
        let json: Json = serde_json::from_str(&fs::read_to_string(&answers)?)?;
        fs::remove_file(&answers)?;
        let mut figures = vec![("seconds".to_owned(), outcome.duration.as_secs_f64())];
        for name in ["map", "precision_at_10", "idim"] {
            figures.extend(json[name].as_f64().map(|figure| (name.to_owned(), figure)));
        }
        Ok(figures)
    }

    /// The requests of a step that answers queries.
    fn asked(&mut self, planned: &PlannedStep, loaded: &Loaded) -> Result<Asked, Cause> {
        let runtime = self.runtime(planned.workers)?;
        let store = self.store(planned)?;
        let answers = self.answers(planned);
        let prepared = self.prepare(&runtime, loaded, planned, &self.ours(&answers))?;
        let requests = queries(&store, planned)?
            .chunks(planned.batch)
            .map(|names| (Arc::clone(&prepared), names.to_vec()))
            .collect();
        Ok(Asked { runtime, requests, objects: store.len(), answers })
    }

    /// A file that no other step has.
    fn answers(&self, planned: &PlannedStep) -> PathBuf {
        self.data.join(format!("answers-{}.json", planned.key))
    }

    fn ours(&self, answers: &Path) -> [(&'static str, Value); 3] {
        let format = Value::Text("json".to_owned());
        [("out", text(answers)), ("queries", Value::List(Vec::new())), ("format", format)]
    }

    /// Range queries that are told the distance of the k-th answer.
    fn divine(&mut self, planned: &PlannedStep) -> Result<Asked, Cause> {
        let runtime = self.runtime(planned.workers)?;
        let store = self.store(planned)?;
        let answers = self.answers(planned);
        let scan = self.prepare(&runtime, &shipped::SEARCH.load(), planned, &self.ours(&answers))?;
        let loaded = shipped::INDEXED_RANGE.load();
        let mut requests = Vec::new();
        for name in queries(&store, planned)? {
            let names = vec![name];
            run(&runtime, &scan, BTreeMap::from([("queries".to_owned(), Value::List(names.clone()))]))?;
            let json: Json = serde_json::from_str(&fs::read_to_string(&answers)?)?;
            let results = json["queries"][0]["results"].as_array();
            let farthest = results.and_then(|results| results.last()?["distance"].as_f64());
            let Some(farthest) = farthest else {
                return Err(Cause::Said("a query has no answer".to_owned()));
            };
            let mut ours = self.ours(&answers).to_vec();
            ours.push(("range", Value::Number(farthest * ROUNDING)));
            if !planned.values.contains_key("bound") {
                ours.push(("bound", Value::Text("simplex".to_owned())));
            }
            requests.push((self.prepare(&runtime, &loaded, planned, &ours)?, names));
        }
        Ok(Asked { runtime, requests, objects: store.len(), answers })
    }
}

/// The requests of a row, before they are measured.
struct Asked {
    runtime: Arc<Runtime>,
    requests: Vec<(Arc<Prepared>, Vec<Value>)>,
    /// In the store.
    objects: u64,
    /// Where the answers are written.
    answers: PathBuf,
}

/// All requests of a row once: the time of a query, the time of all threads, the distances computed, and how many
/// objects the bounds left.
struct Round {
    ms: f64,
    cpu_ms: Option<f64>,
    distances: f64,
    left: Option<f64>,
}

impl Asked {
    fn round(&self) -> Result<Round, Cause> {
        let count: usize = self.requests.iter().map(|(_, names)| names.len()).sum();
        let (mut seconds, mut busy_ms, mut computed, mut kept) = (0.0, Some(0.0), 0, None);
        for (prepared, names) in &self.requests {
            let values = BTreeMap::from([("queries".to_owned(), Value::List(names.clone()))]);
            let (outcome, spent_ms) = run_counted(&self.runtime, prepared, values)?;
            seconds += outcome.duration.as_secs_f64();
            busy_ms = busy_ms.zip(spent_ms).map(|(sum, spent)| sum + spent);
            let rows = |kind: &str| {
                let of_kind = outcome.boxes.iter().filter(|one| one.kind == kind);
                of_kind.map(|one| one.rows_out).reduce(|sum, rows| sum + rows)
            };
            computed += rows("sqfd").unwrap_or(0);
            kept = rows("lower_bounds").map(|rows| kept.unwrap_or(0) + rows).or(kept);
        }
        let mean = |sum: u64| sum as f64 / count as f64;
        Ok(Round {
            ms: seconds * 1e3 / count as f64,
            cpu_ms: busy_ms.map(|sum: f64| sum / count as f64),
            distances: mean(computed),
            left: kept.map(mean),
        })
    }

    fn figures(&self, rounds: &[Round]) -> Figures {
        let of =
            |figure: &dyn Fn(&Round) -> Option<f64>| rounds.iter().filter_map(figure).collect::<Vec<_>>();
        let objects = self.objects as f64;
        let mut figures = spread("ms", &of(&|round| Some(round.ms)));
        let busy = of(&|round| round.cpu_ms);
        if !busy.is_empty() {
            figures.push(("cpu_ms".to_owned(), Spread::of(&busy).median));
        }
        let distances = Spread::of(&of(&|round| Some(round.distances))).median;
        figures.push(("distances".to_owned(), distances));
        figures.push(("share".to_owned(), distances / objects));
        let left = of(&|round| round.left);
        if !left.is_empty() {
            figures.push(("left".to_owned(), Spread::of(&left).median / objects));
        }
        figures
    }
}

/// Names of objects spread over a store: the same for each step.
fn queries(store: &SignatureStore, planned: &PlannedStep) -> Result<Vec<Value>, Cause> {
    let id = |number: u64| (number * QUERY_STEP + 13) % store.len().max(1);
    (0..planned.sample as u64).map(|number| Ok(Value::Text(store.name(id(number))?))).collect()
}

/// Centroids of each object.
fn centroids(store: &SignatureStore) -> Result<Vec<f64>, Cause> {
    store.verify()?;
    let sizes = store.read::<_, StoreError>(|objects| {
        (0..store.len()).map(|id| Ok(objects.signature(id)?.len() as f64)).collect::<Result<Vec<_>, _>>()
    });
    Ok(sizes?)
}

/// The objects that have from so many centroids on, as many numbers of them as the width is.
fn sizes(planned: &PlannedStep, store: &SignatureStore) -> Result<Figures, Cause> {
    let integer = |name: &str, default: i64| match planned.values.get(name) {
        Some(Value::Integer(value)) => *value as f64,
        _ => default as f64,
    };
    let (from, width) = (integer("from", 0), integer("width", 1));
    let sizes = centroids(store)?;
    let within = sizes.iter().filter(|size| (from..from + width).contains(*size)).count() as f64;
    Ok(vec![("objects".to_owned(), within), ("share".to_owned(), within / sizes.len().max(1) as f64)])
}

/// Draws the pictures of a step; a folder is there only when all are.
fn draw(planned: &PlannedStep, path: &Path) -> Result<(), Cause> {
    let integer = |name: &str, default: u64| match planned.values.get(name) {
        Some(Value::Integer(value)) => u64::try_from(*value).unwrap_or(default),
        _ => default,
    };
    let classes = integer("classes", CLASSES_COUNT_MAX as u64) as usize;
    let per_class = integer("per_class", PER_CLASS_DEFAULT as u64) as usize;
    let set = SampleSet::new(classes, per_class, integer("seed", 1))?;
    let part = path.with_extension("part");
    set.write(&part, &mut |_, _| {})?;
    fs::rename(&part, path)?;
    Ok(())
}

fn text(path: &Path) -> Value {
    Value::Text(path.to_string_lossy().into_owned())
}

/// The median and where the middle half of the rounds lies.
fn spread(name: &str, figures: &[f64]) -> Figures {
    let Spread { median, low, high } = Spread::of(figures);
    vec![(name.to_owned(), median), (format!("{name}_low"), low), (format!("{name}_high"), high)]
}

/// Runs one request to its end, or cancels it when somebody presses Ctrl-C.
fn run(
    runtime: &Runtime,
    prepared: &Arc<Prepared>,
    values: BTreeMap<String, Value>,
) -> Result<Outcome, Cause> {
    let begun = Instant::now();
    let request = runtime.submit(prepared, &Submission { values, ..Submission::default() })?;
    let outcome = loop {
        if is_interrupted() {
            request.cancel();
            request.wait();
            return Err(Cause::Interrupted);
        }
        if let Some(outcome) = request.wait_timeout(POLL) {
            break outcome;
        }
    };
    outcome.result.clone()?;
    if outcome.problems_count > 0 {
        let first =
            outcome.problems.first().map(|problem| format!("{}: {}", problem.subject, problem.message));
        return Err(Cause::Said(format!(
            "{} items of its input have problems, after {:.1} s: {}",
            outcome.problems_count,
            begun.elapsed().as_secs_f64(),
            first.unwrap_or_default()
        )));
    }
    Ok(outcome)
}

/// The same, with the milliseconds that all other threads computed meanwhile, where the system counts them.
fn run_counted(
    runtime: &Runtime,
    prepared: &Arc<Prepared>,
    values: BTreeMap<String, Value>,
) -> Result<(Outcome, Option<f64>), Cause> {
    let before = ProcessorTime::of_others();
    let outcome = run(runtime, prepared, values)?;
    let spent = ProcessorTime::of_others().zip(before).map(|(now, before)| now.since(&before));
    Ok((outcome, spent.map(|ns| ns as f64 * 1e-6)))
}
