//! Runs a pipeline for a user at a terminal: progress, problems, files beside the results, the exit status.

mod outputs;
mod progress;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use boxwork_runtime::feeding::LazyDevices;
use boxwork_runtime::operator::{Cancellation, Catalog};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::PrepareError;
use boxwork_runtime::statistics::ClassLimit;
use boxwork_runtime::topology::Topology;
use boxwork_stores::object_store::Access;

use self::progress::Bar;
use crate::diagnostic::{self, Diagnostic};
use crate::engine::{Builder, Ended, Engine, Event, Failure, Interrupts, Limits};
use crate::pipeline::Loaded;
use crate::{given, metrics, report};

/// How the command brings files of stores into memory.
pub(crate) const ACCESS: Access = Access::Map;

/// The most problems listed one by one.
const PROBLEMS_LISTED_MAX: usize = 20;

/// The message after Ctrl-C has ended a run.
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
    /// Cancel the run after this many seconds
    #[arg(long, value_name = "SECONDS")]
    pub deadline: Option<u64>,
    /// The devices that it may use; by default those of the environment
    #[arg(skip)]
    pub devices: Arc<LazyDevices>,
}

impl Options {
    /// The slots to compute on.
    pub(crate) fn topology(&self) -> Topology {
        let detected = Topology::detect();
        self.workers.map_or_else(|| detected.clone(), |workers| detected.first(workers as usize))
    }

    /// The engine of a command: it listens to Ctrl-C and maps files.
    fn engine(&self) -> Builder {
        let builder = Engine::builder().topology(self.topology()).pin(self.pin).trace(self.trace.is_some());
        let builder = builder
            .sampler(true)
            .devices(Arc::clone(&self.devices))
            .maps(ACCESS == Access::Map)
            .signals(true);
        self.blocking.iter().fold(builder, |builder, (class, limit)| builder.blocking(class, *limit))
    }
}

/// The end of a run, as the command's exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// There was no problem.
    Ok = 0,
    /// It ran, and some items of its input had problems; or a pipeline has faults.
    Problems = 1,
    /// The call was wrong.
    Usage = 2,
    /// The run failed.
    Failed = 3,
    /// The user pressed Ctrl-C.
    Interrupted = 130,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Listens to Ctrl-C and SIGTERM during work of a command outside the engine.
pub(crate) struct Stop {
    interrupts: Interrupts,
    deadline: Option<Instant>,
}

impl Stop {
    /// Begins to listen; `--deadline` counts from here.
    pub(crate) fn listen(options: Option<&Options>) -> Self {
        let seconds = options.and_then(|options| options.deadline);
        let deadline = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        Self { interrupts: Interrupts::listen(), deadline }
    }

    /// Says when the work must stop.
    pub(crate) fn cancellation(&self) -> Cancellation {
        self.interrupts.cancellation().clone().until(self.deadline)
    }

    /// Prints why the work has stopped before its end.
    pub(crate) fn report(&self) -> Exit {
        if self.interrupts.cancellation().is_asked() {
            eprintln!("{INTERRUPTED}");
            return Exit::Interrupted;
        }
        eprintln!("error: the deadline has passed: nothing was left half-written");
        Exit::Failed
    }
}

/// Prepares and runs a pipeline with the given values, and prints messages to stderr.
pub fn run(loaded: &Loaded, catalog: &Catalog, given: &BTreeMap<String, Value>, options: &Options) -> Exit {
    let begun = Instant::now();
    let bound = match options.metrics.map(outputs::listen).transpose() {
        Ok(bound) => bound,
        Err(exit) => return exit,
    };
    let engine = match options.engine().start() {
        Ok(engine) => engine,
        Err(error) => {
            eprintln!("error: the system refused a thread: {error}; try fewer --workers");
            return Exit::Failed;
        }
    };
    let deadline = options.deadline.map(|seconds| begun + Duration::from_secs(seconds));
    let prepared = match engine.prepare(loaded, catalog, given, deadline) {
        Ok(prepared) => prepared,
        Err(error) => return refuse(loaded, &error),
    };
    let server = bound.map(|bound| metrics::serve(bound, engine.runtime())).transpose();
    if let Err(error) = &server {
        eprintln!("error: the system refused the thread of --metrics: {error}");
        return Exit::Failed;
    }
    let mut bar = Bar::new(begun);
    let limits = Limits { memory_bytes: options.memory_mib.map(|mib| mib << 20), deadline };
    let ended = engine.run(&prepared, limits, &mut |event| match event {
        Event::UnderWay(request) => bar.show(request),
        Event::Cancelled => {
            bar.clear();
            eprintln!("interrupted: stopping (press Ctrl-C again to stop at once)");
        }
    });
    bar.clear();
    let run = Run { engine, options, ended };
    let exit = run.conclude(loaded);
    if options.stats {
        let (scheduler, devices) = (run.engine.runtime().statistics(), options.devices.statistics());
        eprint!("{}", report::statistics(&run.ended.outcomes, &scheduler, &devices, begun.elapsed()));
    }
    run.write_files(loaded, exit)
}

/// Prints why a pipeline cannot be prepared.
fn refuse(loaded: &Loaded, error: &PrepareError) -> Exit {
    match error {
        PrepareError::Values(faults) => {
            for (_, message) in faults {
                eprintln!("error: {message}");
            }
            Exit::Usage
        }
        PrepareError::Faults(faults) => {
            let diagnostics: Vec<Diagnostic> = faults.iter().map(|fault| loaded.diagnose(fault)).collect();
            print_diagnostics(&diagnostics);
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

/// An ended run, with all that is needed to print and write its reports.
struct Run<'a> {
    engine: Engine,
    options: &'a Options,
    ended: Ended,
}

impl Run<'_> {
    fn conclude(&self, loaded: &Loaded) -> Exit {
        for warning in self.options.devices.take_warnings() {
            eprintln!("warning: {warning}");
        }
        let count: u64 = self.ended.outcomes.iter().map(|outcome| outcome.problems_count).sum();
        let problems = self.ended.outcomes.iter().flat_map(|outcome| &outcome.problems);
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
        match &self.ended.failure {
            None if count > 0 => Exit::Problems,
            None => Exit::Ok,
            Some(Failure::Cancelled) => {
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

/// Whether a stream supports colours.
pub(crate) fn coloured(stream: &impl IsTerminal) -> bool {
    let unset = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
    stream.is_terminal() && unset("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Prints diagnostics for users.
pub(crate) fn print_diagnostics(diagnostics: &[Diagnostic]) {
    talk(&diagnostic::render(diagnostics, coloured(&io::stderr())));
}

/// Writes messages to standard error, which may be closed.
pub(crate) fn talk(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
