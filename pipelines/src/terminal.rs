//! Runs a pipeline for a user at a terminal: progress, problems, files beside the results, the exit status.

mod outputs;
mod progress;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use boxwork_runtime::feeding::LazyDevices;
use boxwork_runtime::operator::{Cancellation, Catalog, Problem};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::PrepareError;
use boxwork_runtime::printable::{printable, printable_lines};
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
/// The most reasons of further problems.
const REASONS_LISTED_MAX: usize = 10;

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
            say(format_args!("{INTERRUPTED}"));
            return Exit::Interrupted;
        }
        say(format_args!("error: the deadline has passed: nothing was left half-written"));
        Exit::Failed
    }
}

/// The result of a command that makes or changes a store, which the command prints at its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    /// The end of the run.
    pub exit: Exit,
    /// The items left out, as they had problems.
    pub skipped: u64,
    /// The time of the whole run.
    pub elapsed: Duration,
}

impl Summary {
    /// Whether the pipeline has run to its end, perhaps with problems.
    pub(crate) fn is_done(&self) -> bool {
        // A pipeline that is refused has problems too, and none of its items has one.
        self.exit == Exit::Ok || self.exit == Exit::Problems && self.skipped > 0
    }
}

impl fmt::Display for Summary {
    /// `in 3.2 s; 2 skipped`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in {:.1} s", self.elapsed.as_secs_f64())?;
        if self.skipped > 0 { write!(f, "; {} skipped", self.skipped) } else { Ok(()) }
    }
}

/// Prepares and runs a pipeline with the given values, and prints messages to stderr.
pub fn run(loaded: &Loaded, catalog: &Catalog, given: &BTreeMap<String, Value>, options: &Options) -> Exit {
    let mut skipped = 0;
    run_counting(loaded, catalog, given, options, &mut skipped)
}

/// As [`run`], and returns what there is to say of it.
pub(crate) fn run_summed(
    loaded: &Loaded,
    catalog: &Catalog,
    given: &BTreeMap<String, Value>,
    options: &Options,
) -> Summary {
    let (begun, mut skipped) = (Instant::now(), 0);
    let exit = run_counting(loaded, catalog, given, options, &mut skipped);
    Summary { exit, skipped, elapsed: begun.elapsed() }
}

fn run_counting(
    loaded: &Loaded,
    catalog: &Catalog,
    given: &BTreeMap<String, Value>,
    options: &Options,
    skipped: &mut u64,
) -> Exit {
    let begun = Instant::now();
    let bound = match options.metrics.map(outputs::listen).transpose() {
        Ok(bound) => bound,
        Err(exit) => return exit,
    };
    let engine = match options.engine().start() {
        Ok(engine) => engine,
        Err(error) => {
            say(format_args!("error: the system refused a thread: {error}; try fewer --workers"));
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
        say(format_args!("error: the system refused the thread of --metrics: {error}"));
        return Exit::Failed;
    }
    let mut bar = Bar::new(begun);
    let limits = Limits { memory_bytes: options.memory_mib.map(|mib| mib << 20), deadline };
    let ended = engine.run(&prepared, limits, &mut |event| match event {
        Event::UnderWay(request) => bar.show(request),
        Event::Cancelled => {
            bar.clear();
            say(format_args!("interrupted: stopping (press Ctrl-C again to stop at once)"));
        }
    });
    bar.clear();
    let run = Run { engine, options, ended };
    *skipped = run.problems_count();
    let exit = run.conclude(loaded);
    if options.stats {
        let (scheduler, devices) = (run.engine.runtime().statistics(), options.devices.statistics());
        talk(&printable_lines(&report::statistics(
            &run.ended.outcomes,
            &scheduler,
            &devices,
            begun.elapsed(),
        )));
    }
    run.write_files(loaded, exit)
}

/// Prints why a pipeline cannot be prepared.
fn refuse(loaded: &Loaded, error: &PrepareError) -> Exit {
    match error {
        PrepareError::Values(faults) => {
            for (_, message) in faults {
                say(format_args!("error: {message}"));
            }
            Exit::Usage
        }
        PrepareError::Faults(faults) => {
            let diagnostics = faults.iter().map(|fault| loaded.diagnose(fault)).collect();
            let diagnostics = diagnostic::distinct(diagnostics);
            if loaded.is_shipped {
                diagnostics.iter().for_each(say_without_place);
            } else {
                print_diagnostics(&diagnostics);
            }
            Exit::Problems
        }
        PrepareError::Cancelled => {
            say(format_args!("{INTERRUPTED}"));
            Exit::Interrupted
        }
        other => {
            say(format_args!("error: {other}"));
            Exit::Failed
        }
    }
}

/// Prints a fault of a pipeline that the user never saw: without its line.
fn say_without_place(fault: &Diagnostic) {
    let help = fault.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
    say(format_args!("error: {}{help}", fault.message));
}

/// An ended run, with all that is needed to print and write its reports.
struct Run<'a> {
    engine: Engine,
    options: &'a Options,
    ended: Ended,
}

impl Run<'_> {
    /// The items of the input that had problems.
    fn problems_count(&self) -> u64 {
        self.ended.outcomes.iter().map(|outcome| outcome.problems_count).sum()
    }

    fn conclude(&self, loaded: &Loaded) -> Exit {
        for warning in self.options.devices.take_warnings() {
            say(format_args!("warning: {warning}"));
        }
        for note in self.ended.outcomes.iter().flat_map(|outcome| &outcome.notes) {
            say(format_args!("{note}"));
        }
        let count = self.problems_count();
        let problems = self.ended.outcomes.iter().flat_map(|outcome| &outcome.problems);
        talk(&list_problems(problems, count));
        if count > 0 {
            say(format_args!(
                "{count} item{} had problems and {} left out",
                plural(count),
                if count == 1 { "was" } else { "were" }
            ));
        }
        match &self.ended.failure {
            None if count > 0 => Exit::Problems,
            None => Exit::Ok,
            Some(Failure::Cancelled) => {
                say(format_args!("{INTERRUPTED}"));
                Exit::Interrupted
            }
            Some(Failure::Prepare(error)) => refuse(loaded, error),
            Some(Failure::Request(error)) => {
                say(format_args!("error: {error}"));
                Exit::Failed
            }
        }
    }
}

/// The first problems one by one, and the others counted by their reasons. `count` is the number of items of all,
/// more than are kept.
fn list_problems<'a>(problems: impl Iterator<Item = &'a Problem>, count: u64) -> String {
    let (mut text, mut told) = (String::new(), 0);
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for (idx, problem) in problems.enumerate() {
        if idx < PROBLEMS_LISTED_MAX {
            let _ =
                writeln!(text, "skipped: {}: {}", printable(&problem.subject), printable(&problem.message));
            told += problem.items;
        } else {
            *reasons.entry(&problem.message).or_default() += problem.items;
        }
    }
    let mut reasons: Vec<(&str, u64)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, items)| Reverse(*items));
    for (reason, items) in reasons.iter().take(REASONS_LISTED_MAX) {
        let _ = writeln!(text, "skipped: {items} more: {}", printable(reason));
        told += items;
    }
    if count > told {
        let _ = writeln!(text, "skipped: {} more", count - told);
    }
    text
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

/// Prints a message to standard error. What could control the terminal is replaced, and a further line is indented, so
/// that no name in the message poses as a message of ours.
pub(crate) fn say(message: fmt::Arguments<'_>) {
    talk(&(printable_lines(&message.to_string()).replace('\n', "\n  ") + "\n"));
}

/// Writes lines that are [`printable_lines`] to standard error, which may be closed.
pub(crate) fn talk(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_beyond_the_listed_ones_are_counted_by_reason() {
        let problem = |idx: usize| Problem {
            subject: format!("{idx}.jpg"),
            message: if idx.is_multiple_of(3) { "it is cut" } else { "it is empty" }.to_owned(),
            items: if idx == 1 { 5 } else { 1 },
        };
        let problems: Vec<Problem> = (0..26).map(problem).collect();
        // 30 items of 26 problems, and 4 that were not kept.
        let told = list_problems(problems.iter(), 34);
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines[0], "skipped: 0.jpg: it is cut");
        assert_eq!(lines.len(), 23);
        assert_eq!(
            lines[20..],
            ["skipped: 4 more: it is empty", "skipped: 2 more: it is cut", "skipped: 4 more"]
        );
        assert_eq!(list_problems([].iter(), 0), "");
    }
}
