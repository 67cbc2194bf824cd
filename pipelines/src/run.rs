//! Running a pipeline: its requests, Ctrl-C, and the problems at the end.

mod outputs;
mod progress;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use boxwork_runtime::feeding::LazyDevices;
use boxwork_runtime::operator::{Cancellation, Catalog, Environment, Part};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::{PrepareError, Prepared};
use boxwork_runtime::request::{Outcome, RequestError, Submission};
use boxwork_runtime::statistics::ClassLimit;
use boxwork_runtime::topology::Topology;
use boxwork_runtime::{Config, Request, Runtime};

use self::progress::Bar;
use crate::diagnostic::Diagnostic;
use crate::pipeline::Loaded;
use crate::{given, metrics, report};

/// Requests of one run that are under way at once: one computes while the next begins and the last ends.
const REQUESTS_IN_FLIGHT: usize = 3;
/// How often progress is shown and Ctrl-C looked for.
const POLL: Duration = Duration::from_millis(100);
/// Problems that are listed one by one.
const PROBLEMS_LISTED_MAX: usize = 20;

/// The last word of a run that Ctrl-C has ended.
const INTERRUPTED: &str = "interrupted: nothing was left half-written";

/// How a pipeline is run.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// Slots to compute on [default: all logical cores that this process may use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub workers: Option<u32>,
    /// Pin each worker to its core
    #[arg(long)]
    pub pin: bool,
    /// Print what every box and worker did
    #[arg(long)]
    pub stats: bool,
    /// Write a trace that Perfetto (ui.perfetto.dev) opens
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write what every box, edge and worker did, for `boxwork graph --with`
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Serve the run's figures at http://ADDRESS/metrics while it goes on, for Prometheus and `boxwork top`
    #[arg(long, value_name = "ADDRESS", value_parser = metrics::parse_address)]
    pub metrics: Option<SocketAddr>,
    /// Blocking operations of a class that may be under way at once: a number, or `auto`, which finds the best one
    #[arg(long, value_name = "CLASS=LIMIT", value_parser = given::class_and_limit)]
    pub blocking: Vec<(String, ClassLimit)>,
    /// Bytes that the edges of a request keep at most [default: the edges' own bounds]
    #[arg(long, value_name = "MIB")]
    pub memory_mib: Option<usize>,
    /// Cancel the run after so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub deadline: Option<u64>,
    /// The devices that it may compute on: those of the environment unless others are given
    #[arg(skip)]
    pub devices: Arc<LazyDevices>,
}

impl Options {
    /// The slots to compute on.
    pub(crate) fn topology(&self) -> Topology {
        let detected = Topology::detect();
        self.workers.map_or_else(|| detected.clone(), |workers| detected.first(workers as usize))
    }
}

/// How a run ended; the command's exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All is well.
    Ok = 0,
    /// It ran, and some items of its input had problems; or a pipeline has faults.
    Problems = 1,
    /// The call was wrong.
    Usage = 2,
    /// The run failed.
    Failed = 3,
    /// Somebody pressed Ctrl-C.
    Interrupted = 130,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Cancelled by Ctrl-C; a second one ends the process at once.
static INTERRUPTS: LazyLock<Cancellation> = LazyLock::new(Cancellation::new);

/// Listens for Ctrl-C and SIGTERM, and returns what says when the work of a command must stop: then, or after
/// `--deadline`.
pub(crate) fn cancellation(options: Option<&Options>) -> Cancellation {
    listen_for_interrupts();
    let seconds = options.and_then(|options| options.deadline);
    INTERRUPTS.clone().until(seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds)))
}

/// Says why the work of a command stopped before its end.
pub(crate) fn stopped() -> Exit {
    if is_interrupted() {
        eprintln!("{INTERRUPTED}");
        return Exit::Interrupted;
    }
    eprintln!("error: the deadline has passed: nothing was left half-written");
    Exit::Failed
}

pub(crate) fn listen_for_interrupts() {
    // A second run in one process finds its handler there already.
    let _ = ctrlc::set_handler(|| {
        if INTERRUPTS.is_asked() {
            std::process::exit(Exit::Interrupted as i32);
        }
        INTERRUPTS.cancel();
    });
}

/// Whether somebody pressed Ctrl-C since [`listen_for_interrupts`].
pub(crate) fn is_interrupted() -> bool {
    INTERRUPTS.is_asked()
}

/// Prepares and runs a pipeline with the values given, and says on stderr what there is to say.
pub fn run(loaded: &Loaded, catalog: &Catalog, given: &BTreeMap<String, Value>, options: &Options) -> Exit {
    listen_for_interrupts();
    let begun = Instant::now();
    let bound = match options.metrics.map(outputs::listen).transpose() {
        Ok(bound) => bound,
        Err(exit) => return exit,
    };
    let topology = options.topology();
    let deadline = options.deadline.map(|seconds| begun + Duration::from_secs(seconds));
    let cancellation = INTERRUPTS.clone().until(deadline);
    let devices = Arc::clone(&options.devices);
    let environment =
        Environment { slots: topology.slots_count(), cancellation, devices: Arc::clone(&devices) };
    let prepared = match Prepared::new(&loaded.declaration, catalog, given, &environment) {
        Ok(prepared) => Arc::new(prepared),
        Err(error) => return refuse(loaded, error),
    };
    let (pin, trace) = (options.pin, options.trace.is_some());
    let mut config = Config { pin, trace, sampler: true, devices, ..Config::new(topology) };
    config.blocking.extend(options.blocking.iter().cloned());
    let runtime = match Runtime::start(config) {
        Ok(runtime) => Arc::new(runtime),
        Err(error) => {
            eprintln!("error: the system refused a thread: {error}; try fewer --workers");
            return Exit::Failed;
        }
    };
    let server = bound.map(|bound| metrics::serve(bound, &runtime)).transpose();
    if let Err(error) = &server {
        eprintln!("error: the system refused the thread of --metrics: {error}");
        return Exit::Failed;
    }
    let mut run = Run { runtime, prepared, options, deadline, bar: Bar::new(begun), ended: Vec::new() };
    let submitted = Instant::now();
    let failure = run.requests();
    let elapsed = submitted.elapsed();
    run.bar.clear();
    let exit = run.conclude(loaded, failure);
    if options.stats {
        let (scheduler, devices) = (run.runtime.statistics(), options.devices.statistics());
        eprint!("{}", report::statistics(&run.ended, &scheduler, &devices, begun.elapsed()));
    }
    run.write_files(loaded, elapsed, exit)
}

/// Says why a pipeline cannot be prepared.
fn refuse(loaded: &Loaded, error: PrepareError) -> Exit {
    match error {
        PrepareError::Values(faults) => {
            for (_, message) in faults {
                eprintln!("error: {message}");
            }
            Exit::Usage
        }
        PrepareError::Faults(faults) => {
            let diagnostics: Vec<Diagnostic> = faults.iter().map(|fault| loaded.diagnose(fault)).collect();
            crate::command::print_diagnostics(&diagnostics);
            Exit::Problems
        }
        PrepareError::Cancelled => {
            eprintln!("{INTERRUPTED}");
            Exit::Interrupted
        }
        other => {
            eprintln!("error: {other}");
            Exit::Failed
        }
    }
}

struct Run<'a> {
    runtime: Arc<Runtime>,
    prepared: Arc<Prepared>,
    options: &'a Options,
    deadline: Option<Instant>,
    bar: Bar,
    ended: Vec<Outcome>,
}

/// Why a run ended before its requests did.
enum Failure {
    Prepare(PrepareError),
    Request(RequestError),
    Interrupted,
}

impl Run<'_> {
    /// The values of each request: more queries than one request answers make more requests.
    fn parts(&self) -> Vec<BTreeMap<String, Value>> {
        let most = self.prepared.plan().queries;
        let batched = self.prepared.batched().and_then(|name| match self.prepared.values().get(name) {
            Some(Value::List(values)) if values.len() > most => Some((name, values)),
            _ => None,
        });
        match batched {
            None => vec![BTreeMap::new()],
            Some((name, values)) => {
                let part =
                    |values: &[Value]| BTreeMap::from([(name.to_owned(), Value::List(values.to_vec()))]);
                values.chunks(most).map(part).collect()
            }
        }
    }

    fn requests(&mut self) -> Option<Failure> {
        let parts = self.parts();
        let count = parts.len();
        let mut under_way: VecDeque<Request> = VecDeque::new();
        let mut waiting = parts.into_iter().enumerate();
        loop {
            while under_way.len() < REQUESTS_IN_FLIGHT {
                let Some((idx, values)) = waiting.next() else { break };
                let submission = Submission {
                    values,
                    part: Part { idx, count },
                    memory_bytes: self.options.memory_mib.map(|mib| mib << 20),
                    deadline: self.deadline,
                    ..Submission::default()
                };
                match self.runtime.submit(&self.prepared, &submission) {
                    Ok(request) => under_way.push_back(request),
                    Err(error) => {
                        self.cancel(under_way);
                        return Some(Failure::Prepare(error));
                    }
                }
            }
            let oldest = under_way.front()?;
            if is_interrupted() {
                // Before it is said: who reads it may give a request what it waits for, and it must not end well.
                for request in &under_way {
                    request.cancel();
                }
                self.bar.clear();
                eprintln!("interrupted: stopping (press Ctrl-C again to stop at once)");
                self.cancel(under_way);
                return Some(Failure::Interrupted);
            }
            match oldest.wait_timeout(POLL) {
                None => self.bar.show(oldest),
                Some(outcome) => {
                    under_way.pop_front();
                    let result = outcome.result.clone();
                    self.ended.push(outcome);
                    if let Err(error) = result {
                        self.cancel(under_way);
                        return Some(Failure::Request(error));
                    }
                }
            }
        }
    }

    fn cancel(&mut self, requests: VecDeque<Request>) {
        for request in &requests {
            request.cancel();
        }
        self.ended.extend(requests.iter().map(Request::wait));
    }

    fn conclude(&self, loaded: &Loaded, failure: Option<Failure>) -> Exit {
        for warning in self.options.devices.take_warnings() {
            eprintln!("warning: {warning}");
        }
        let count: u64 = self.ended.iter().map(|outcome| outcome.problems_count).sum();
        let problems = self.ended.iter().flat_map(|outcome| &outcome.problems);
        for problem in problems.take(PROBLEMS_LISTED_MAX) {
            eprintln!("skipped: {}: {}", problem.subject, problem.message);
        }
        if count > PROBLEMS_LISTED_MAX as u64 {
            eprintln!("... and {} more", count - PROBLEMS_LISTED_MAX as u64);
        }
        if count > 0 {
            eprintln!(
                "{count} item{} had problems and {} left out",
                plural(count),
                if count == 1 { "was" } else { "were" }
            );
        }
        match failure {
            None if count > 0 => Exit::Problems,
            None => Exit::Ok,
            Some(Failure::Interrupted) => {
                eprintln!("{INTERRUPTED}");
                Exit::Interrupted
            }
            Some(Failure::Prepare(error)) => refuse(loaded, error),
            Some(Failure::Request(error)) => {
                eprintln!("error: {error}");
                Exit::Failed
            }
        }
    }
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}
