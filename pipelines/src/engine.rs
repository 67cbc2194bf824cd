//! An engine: the slots, devices, memory and signal handling for running pipelines, as one value.
//!
//! A process may hold several engines with different settings. No engine prints, and a dropped engine leaves no thread
//! and no signal handler behind. `terminal` runs pipelines for the command and prints.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::Arc;
//!
//! use arrow_array::cast::AsArray;
//! use arrow_array::types::UInt64Type;
//! use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array};
//! use boxwork::engine::Engine;
//! use boxwork::pipeline;
//! use boxwork_runtime::operator::{RequestInput, RequestOutput};
//! use boxwork_runtime::parameter::Value;
//! use boxwork_runtime::request::Submission;
//!
//! const NEAREST: &str = r#"
//! boxwork: 1
//! parameters:
//!   words: {type: path}
//! resources:
//!   words: {kind: store, path: "${words}", column: word}
//!   space: {kind: space, store: words, distance: levenshtein}
//! boxes:
//!   query:    {kind: read_arrow, columns: queries}
//!   scan:     {kind: scan, store: words}
//!   distance: {kind: distance, space: space}
//!   top:      {kind: top_k, k: 2, space: space}
//!   results:  {kind: write_arrow, columns: distances}
//! edges:
//!   - query -> scan.queries -> distance.candidates -> top.distances -> results
//!   - query -> distance.query
//!   - query -> top.query
//! "#;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("words.jsonl");
//! # let words = ["quark", "bark", "park"].map(|word| format!("{{\"word\": \"{word}\"}}\n"));
//! # std::fs::write(&path, words.concat())?;
//! # let path = path.to_str().ok_or("a path in UTF-8")?.to_owned();
//! let engine = Engine::builder().workers(2).start()?;
//! let pipeline = pipeline::load_text("nearest", NEAREST).map_err(|faults| faults[0].to_string())?;
//! let values = BTreeMap::from([("words".to_owned(), Value::Text(path))]);
//! let prepared = engine.prepare(&pipeline, &boxwork_operators::catalog(), &values, None)?;
//!
//! let query = RecordBatch::try_from_iter([
//!     ("query", Arc::new(UInt32Array::from(vec![0])) as ArrayRef),
//!     ("name", Arc::new(StringArray::from(vec!["mine"]))),
//!     ("object", Arc::new(StringArray::from(vec!["bar"]))),
//! ])?;
//! let (output, found) = RequestOutput::collected();
//! let submission = Submission {
//!     inputs: BTreeMap::from([("query".to_owned(), RequestInput::batches(vec![query]))]),
//!     outputs: BTreeMap::from([("results".to_owned(), output)]),
//!     ..Submission::default()
//! };
//! engine.submit(&prepared, &submission)?.wait().result?;
//! let found = found.take();
//! assert_eq!(found[0]["id"].as_primitive::<UInt64Type>().values()[..], [1, 2]);
//! # Ok(())
//! # }
//! ```

pub(crate) mod signals;
mod renumbered;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use boxwork_runtime::feeding::LazyDevices;
use boxwork_runtime::operator::{
    Cancellation, Catalog, Collected, Environment, Memory, Part, RequestInput, RequestOutput, Resource,
};
use boxwork_runtime::parameter::{QUERIES, Value};
use boxwork_runtime::prepare::{PrepareError, Prepared};
use boxwork_runtime::request::{Outcome, RequestError, Submission};
use boxwork_runtime::statistics::ClassLimit;
use boxwork_runtime::topology::Topology;
use boxwork_runtime::{Config, Request, Runtime};
use boxwork_stores::object_store::Access;

pub use self::renumbered::counted_from;
pub(crate) use self::signals::Interrupts;
use crate::pipeline::Loaded;

/// Requests of one run under way at once: one computes while the next begins and the last ends.
const REQUESTS_IN_FLIGHT: usize = 3;
/// As many of a pipeline that declares its queries, since it takes little time for each: a device would wait for the next request.
const LARGE_REQUESTS_IN_FLIGHT: usize = 8;
/// Interval at which a run reports its progress and checks for a cancellation: a tenth of the time in which it stops.
const POLL: Duration = Duration::from_millis(10);

/// The settings of an engine: see [`Engine::builder`].
#[derive(Clone, Debug)]
#[must_use = "an engine starts with `start`"]
pub struct Builder {
    config: Config,
    has_signals: bool,
}

impl Builder {
    /// The machine: one slot for each of its logical cores. The default is the part that this process may use.
    pub fn topology(mut self, topology: Topology) -> Self {
        let Config { topology, threads_max, .. } = Config::new(topology);
        (self.config.topology, self.config.threads_max) = (topology, threads_max);
        self
    }

    /// Slots to compute on: the first of the machine that this process may use.
    pub fn workers(self, count: usize) -> Self {
        self.topology(Topology::detect().first(count))
    }

    /// Whether each worker is pinned to its core. The default is false.
    pub fn pin(mut self, pin: bool) -> Self {
        self.config.pin = pin;
        self
    }

    /// Whether the engine records its workers' actions, for [`Runtime::take_trace`]. The default is false.
    pub fn trace(mut self, trace: bool) -> Self {
        self.config.trace = trace;
        self
    }

    /// Whether a thread looks for boxes that block without declaring it. The default is false.
    pub fn sampler(mut self, sampler: bool) -> Self {
        self.config.sampler = sampler;
        self
    }

    /// Operations of a blocking class that may be under way at once.
    pub fn blocking(mut self, class: impl Into<String>, limit: ClassLimit) -> Self {
        self.config.blocking.insert(class.into(), limit);
        self
    }

    /// The devices that boxes may use. By default the engine opens its own at their first use, as the environment
    /// configures them; [`LazyDevices::none`] leaves all work to the processor.
    pub fn devices(mut self, devices: Arc<LazyDevices>) -> Self {
        self.config.devices = devices;
        self
    }

    /// The memory in which operators keep results between requests, such as measured rates: another engine's, or by
    /// default a new one.
    pub fn memory(mut self, memory: Memory) -> Self {
        self.config.memory = memory;
        self
    }

    /// Whether stores are mapped. The process then has a handler of SIGBUS while a store is open, so that a request
    /// fails instead of the process if another process truncates a mapped file. The default is false: a store's batches
    /// are read at first use, and stay in memory while the store is open. The answers are equal.
    pub fn maps(mut self, maps: bool) -> Self {
        self.config.maps = maps;
        self
    }

    /// Whether the engine listens to Ctrl-C, SIGTERM and SIGHUP while it lives. The first signal cancels everything
    /// that the engine prepares and runs, for good; the second ends the process. The default is false: the host handles
    /// signals.
    pub fn signals(mut self, has_signals: bool) -> Self {
        self.has_signals = has_signals;
        self
    }

    /// Starts the engine's threads.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start(self) -> io::Result<Engine> {
        let interrupts = self.has_signals.then(Interrupts::listen);
        let cancellation = match &interrupts {
            Some(interrupts) => interrupts.cancellation().clone(),
            None => Cancellation::new(),
        };
        let runtime = Arc::new(Runtime::start(self.config)?);
        Ok(Engine { runtime, cancellation, interrupts })
    }
}

/// The slots, devices, memory and signal handling for running pipelines.
///
/// Dropping it cancels all running work, waits for it, and restores signal handlers. Clone [`Engine::runtime`] to keep
/// only the threads.
pub struct Engine {
    runtime: Arc<Runtime>,
    cancellation: Cancellation,
    interrupts: Option<Interrupts>,
}

/// The bounds of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// The most bytes that the edges of a request may hold; by default only the edges' own bounds apply.
    pub memory_bytes: Option<usize>,
    /// The time at which the run is cancelled.
    pub deadline: Option<Instant>,
}

/// The part of the caller in a run: its envelopes, and its wish to stop.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    /// By box: its record batches, for a run of one request.
    pub inputs: BTreeMap<String, RequestInput>,
    /// The boxes whose record batches the caller takes.
    pub outputs: Vec<String>,
    /// Cancels this run, and no other of the engine.
    pub cancellation: Cancellation,
}

/// What a preparation takes beside the values.
#[derive(Clone, Default)]
pub struct Preparation {
    /// By name: resources that the caller has already, such as an open store, in place of those that would be loaded.
    pub resources: BTreeMap<String, Resource>,
    /// The time at which the preparation is cancelled.
    pub deadline: Option<Instant>,
    /// Cancels this preparation, and nothing else of the engine.
    pub cancellation: Cancellation,
}

/// A report during a run, at least ten times a second.
pub enum Event<'a> {
    /// The oldest of its requests under way.
    UnderWay(&'a Request),
    /// The engine was cancelled, by [`Engine::cancel`] or a signal; the requests have been cancelled too.
    Cancelled,
}

/// The end of a run.
#[derive(Debug)]
pub struct Ended {
    /// Its requests, in order, including failed ones.
    pub outcomes: Vec<Outcome>,
    /// The reason if it ended before all of its requests were done.
    pub failure: Option<Failure>,
    /// The time from the first request to the end of the last.
    pub elapsed: Duration,
    /// By box: the batches for the caller, of all requests that have ended, in the order of the requests. Numbers of
    /// queries count over the whole run.
    pub outputs: BTreeMap<String, Vec<RecordBatch>>,
}

/// A run ended before all of its requests were done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A request could not be made.
    #[error(transparent)]
    Prepare(PrepareError),
    /// A request failed.
    #[error(transparent)]
    Request(RequestError),
    /// The engine was cancelled, by [`Engine::cancel`] or a signal.
    #[error("the run was cancelled")]
    Cancelled,
}

impl Engine {
    /// An engine with a slot for each logical core that this process may use, with the devices of the environment, no
    /// maps and no signal handling.
    pub fn builder() -> Builder {
        Builder { config: Config::new(Topology::detect()), has_signals: false }
    }

    /// How the engine brings files of stores into memory, for work on a store that is no pipeline, such as
    /// [`upkeep::compact`](boxwork_stores::upkeep::compact).
    pub fn access(&self) -> Access {
        if self.runtime.environment().maps { Access::Map } else { Access::Read }
    }

    /// Binds a pipeline's values and loads its resources, once for many requests, until a deadline.
    ///
    /// # Errors
    /// When the values do not fit, the plan has faults, a resource cannot be loaded, or it was cancelled.
    pub fn prepare(
        &self,
        loaded: &Loaded,
        catalog: &Catalog,
        values: &BTreeMap<String, Value>,
        deadline: Option<Instant>,
    ) -> Result<Arc<Prepared>, PrepareError> {
        let preparation = Preparation { deadline, ..Preparation::default() };
        self.prepare_with(loaded, catalog, values, preparation)
    }

    /// As [`Engine::prepare`], with resources of the caller.
    ///
    /// # Errors
    /// As [`Engine::prepare`]; and when the pipeline has no resource of a given name.
    pub fn prepare_with(
        &self,
        loaded: &Loaded,
        catalog: &Catalog,
        values: &BTreeMap<String, Value>,
        preparation: Preparation,
    ) -> Result<Arc<Prepared>, PrepareError> {
        let Preparation { resources, deadline, cancellation } = preparation;
        let environment = Environment {
            cancellation: self.cancellation.clone().or(&cancellation).until(deadline),
            ..self.runtime.environment()
        };
        Prepared::with_resources(&loaded.declaration, catalog, values, &environment, resources).map(Arc::new)
    }

    /// Submits one request of a prepared pipeline, optionally with the caller's envelopes for inputs and outputs.
    ///
    /// # Errors
    /// When its values do not fit, or a box refuses to be made.
    pub fn submit(&self, prepared: &Arc<Prepared>, submission: &Submission) -> Result<Request, PrepareError> {
        self.runtime.submit(prepared, submission)
    }

    /// Runs a prepared pipeline to its end. Queries beyond the limit of one request make further requests, some of
    /// which run at once. This thread calls `watch` during the run.
    pub fn run(&self, prepared: &Arc<Prepared>, limits: Limits, watch: &mut dyn FnMut(Event<'_>)) -> Ended {
        self.run_with(prepared, &BTreeMap::new(), limits, &Exchange::default(), watch)
    }

    /// As [`Engine::run`], with other values than the prepared ones, and with envelopes from and for the caller.
    pub fn run_with(
        &self,
        prepared: &Arc<Prepared>,
        values: &BTreeMap<String, Value>,
        limits: Limits,
        exchange: &Exchange,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Ended {
        let begun = Instant::now();
        let (outcomes, outputs) = (Vec::new(), BTreeMap::new());
        let mut run = Run { engine: self, prepared, values, limits, exchange, outcomes, outputs };
        let failure = run.requests(watch);
        Ended { outcomes: run.outcomes, failure, elapsed: begun.elapsed(), outputs: run.outputs }
    }

    /// Cancels what the engine prepares and runs, now and later.
    pub fn cancel(&self) {
        self.cancellation.cancel();
    }

    /// Whether the engine was cancelled, by [`Engine::cancel`] or a signal.
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_asked()
    }

    /// Whether the engine listens to signals.
    pub fn has_signals(&self) -> bool {
        self.interrupts.is_some()
    }

    /// The runtime, for its figures.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }
}

struct Run<'a> {
    engine: &'a Engine,
    prepared: &'a Arc<Prepared>,
    values: &'a BTreeMap<String, Value>,
    limits: Limits,
    exchange: &'a Exchange,
    outcomes: Vec<Outcome>,
    outputs: BTreeMap<String, Vec<RecordBatch>>,
}

/// A request under way, and its batches for the caller.
struct UnderWay {
    request: Request,
    idx: usize,
    collected: Vec<(String, Collected)>,
}

impl Run<'_> {
    /// The values of each request: queries beyond one request's limit make further requests.
    fn parts(&self) -> Result<Vec<BTreeMap<String, Value>>, PrepareError> {
        let given = match self.exchange.inputs.is_empty() {
            true => self.prepared.expanded(self.values, &self.engine.runtime.environment())?,
            // The caller has the queries already.
            false => self.values.clone(),
        };
        let most = self.prepared.plan().queries;
        let value = |name| given.get(name).or_else(|| self.prepared.values().get(name));
        let batched = self.prepared.batched().and_then(|name| match value(name) {
            Some(Value::List(values)) if values.len() > most => Some((name, values)),
            _ => None,
        });
        Ok(match batched {
            None => vec![given],
            Some((name, values)) => {
                let part = |values: &[Value]| {
                    let mut of_part = given.clone();
                    of_part.insert(name.to_owned(), Value::List(values.to_vec()));
                    of_part
                };
                values.chunks(most).map(part).collect()
            }
        })
    }

    fn requests(&mut self, watch: &mut dyn FnMut(Event<'_>)) -> Option<Failure> {
        let parts = match self.parts() {
            Ok(parts) => parts,
            Err(error) => return Some(Failure::Prepare(error)),
        };
        let count = parts.len();
        let in_flight = match self.prepared.plan().queries > QUERIES {
            true => LARGE_REQUESTS_IN_FLIGHT,
            false => REQUESTS_IN_FLIGHT,
        };
        let mut under_way: VecDeque<UnderWay> = VecDeque::new();
        let mut waiting = parts.into_iter().enumerate();
        loop {
            while under_way.len() < in_flight {
                let Some((idx, values)) = waiting.next() else { break };
                match self.submit(values, Part { idx, count }) {
                    Ok(request) => under_way.push_back(request),
                    Err(error) => {
                        self.cancel(&under_way);
                        return Some(Failure::Prepare(error));
                    }
                }
            }
            let oldest = under_way.front()?;
            if self.engine.is_cancelled() || self.exchange.cancellation.is_cancelled() {
                // Before the caller learns of it: the caller may then unblock a request, which must not end
                // successfully.
                under_way.iter().for_each(|under_way| under_way.request.cancel());
                watch(Event::Cancelled);
                self.cancel(&under_way);
                return Some(Failure::Cancelled);
            }
            match oldest.request.wait_timeout(POLL) {
                None => watch(Event::UnderWay(&oldest.request)),
                Some(outcome) => {
                    if let Some(ended) = under_way.pop_front() {
                        self.keep(ended);
                    }
                    let result = outcome.result.clone();
                    self.outcomes.push(outcome);
                    if let Err(error) = result {
                        self.cancel(&under_way);
                        return Some(Failure::Request(error));
                    }
                }
            }
        }
    }

    fn submit(&self, values: BTreeMap<String, Value>, part: Part) -> Result<UnderWay, PrepareError> {
        let (mut outputs, mut collected) = (BTreeMap::new(), Vec::new());
        for name in &self.exchange.outputs {
            let (output, batches) = RequestOutput::collected();
            outputs.insert(name.clone(), output);
            collected.push((name.clone(), batches));
        }
        let Limits { memory_bytes, deadline } = self.limits;
        let inputs = self.exchange.inputs.clone();
        let submission = Submission { values, part, memory_bytes, deadline, inputs, outputs };
        let request = self.engine.submit(self.prepared, &submission)?;
        Ok(UnderWay { request, idx: part.idx, collected })
    }

    /// Keeps the batches of a request that has ended.
    fn keep(&mut self, ended: UnderWay) {
        let queries_before = (ended.idx * self.prepared.plan().queries) as u32;
        for (name, collected) in ended.collected {
            let batches = collected.take().into_iter().map(|batch| counted_from(queries_before, batch));
            self.outputs.entry(name).or_default().extend(batches);
        }
    }

    fn cancel(&mut self, requests: &VecDeque<UnderWay>) {
        requests.iter().for_each(|under_way| under_way.request.cancel());
        self.outcomes.extend(requests.iter().map(|under_way| under_way.request.wait()));
    }
}
