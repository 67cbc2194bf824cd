//! `boxwork bench`: the scheduling workloads, to compare machines, settings and versions.

mod factor;

use std::fs;
use std::io;
use std::path::PathBuf;

use boxwork_lab::bench::{self, Results, Settings, WORKLOADS, Workload};
use boxwork_runtime::topology::Topology;

use super::{Format, data, data_json, say};
use crate::given;
use crate::terminal::Exit;
use crate::topology_page;

/// Rounds by default.
const ROUNDS: usize = 11;
const ROUNDS_QUICK: usize = 3;

/// Measures the cost of scheduling on this machine: hops, backpressure, blocking, waking, the smallest task
#[derive(Debug, clap::Args)]
#[command(after_help = workloads())]
pub struct Arguments {
    /// Workloads, such as B1 or chain; `all` is all of them [default: all, as with --quick]
    #[arg(value_name = "WORKLOAD", value_parser = choice)]
    workloads: Vec<Choice>,
    /// Numbers of workers, such as 1,2,4 [default: 1 and all logical cores that this process may use]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    workers: Vec<u32>,
    /// Rounds of measuring; all numbers of workers take turns in each [default: 11, or 3 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: Option<u32>,
    /// Uncounted rounds before these
    #[arg(long, value_name = "N", default_value_t = 1)]
    warmup: u32,
    /// Small sizes and few rounds: seconds in all
    #[arg(long)]
    quick: bool,
    /// Give a setting of the workloads another value, such as boxes=256; `part` chooses one part of a workload
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = given::name_and_value)]
    settings: Vec<(String, String)>,
    /// A synthetic machine with these levels, such as "numa:2 core:2"
    #[arg(long, value_name = "LEVELS")]
    topology: Option<String>,
    /// Pin each worker to its core
    #[arg(long)]
    pin: bool,
    /// The form of the answer
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Also write the answer as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Also write a page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Measure one case round by round: answer each line of the input with a line of JSON (for scripts that let it take
    /// turns with other programs)
    #[arg(long, conflicts_with_all = ["format", "out", "html", "rounds", "warmup"], requires = "workloads")]
    serve: bool,
}

/// A word for workloads.
#[derive(Clone, Copy, Debug)]
enum Choice {
    All,
    One(&'static Workload),
}

/// The workloads of the lab, and those of boxes that it does not know.
fn all() -> Vec<&'static Workload> {
    WORKLOADS.into_iter().chain([&factor::FACTOR]).collect()
}

fn choice(word: &str) -> Result<Choice, String> {
    if word == "all" { Ok(Choice::All) } else { Workload::find(word, &all()).map(Choice::One) }
}

fn workloads() -> String {
    let line =
        |workload: &&Workload| format!("  {:4}{:12}{}\n", workload.id, workload.name, workload.question);
    format!("Workloads:\n{}", all().iter().map(line).collect::<String>())
}

impl Arguments {
    fn settings(&self) -> Result<Settings, String> {
        let topology = match &self.topology {
            None => Topology::detect(),
            Some(levels) => Topology::synthetic(levels).map_err(|error| error.to_string())?,
        };
        let is_quick = self.quick || self.workloads.is_empty();
        let rounds =
            self.rounds.map_or(if is_quick { ROUNDS_QUICK } else { ROUNDS }, |rounds| rounds as usize);
        let mut workloads: Vec<&'static Workload> = Vec::new();
        for choice in self.workloads.iter().chain(self.workloads.is_empty().then_some(&Choice::All)) {
            match choice {
                Choice::All => workloads.extend(all()),
                Choice::One(workload) => workloads.push(workload),
            }
        }
        Ok(Settings {
            workloads,
            is_quick,
            workers: self.workers.iter().map(|count| *count as usize).collect(),
            topology,
            pin: self.pin,
            warmup: self.warmup as usize,
            rounds,
            given: self.settings.clone(),
        })
    }
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Exit {
    let settings = match arguments.settings() {
        Ok(settings) => settings,
        Err(message) => {
            say(format_args!("error: {message}"));
            return Exit::Usage;
        }
    };
    let measured = if arguments.serve {
        bench::serve(&settings, &mut io::stdin().lock(), &mut io::stdout().lock()).map(|()| None)
    } else {
        bench::run(&settings, &mut |what| say(format_args!("{what}"))).map(Some)
    };
    match measured {
        Ok(None) => Exit::Ok,
        Ok(Some(results)) => tell(arguments, &results, &settings.topology),
        Err(error) => {
            say(format_args!("error: {error}"));
            if error.is_of_usage() { Exit::Usage } else { Exit::Failed }
        }
    }
}

/// Writes the requested files, and returns the answer.
fn tell(arguments: &Arguments, results: &Results, topology: &Topology) -> Exit {
    let mut as_json = results.json();
    as_json["machine"]["topology"] = topology_page::json(topology);
    let json = arguments.out.as_ref().map(|path| (path, format!("{as_json:#}\n")));
    let page = arguments.html.as_ref().map(|path| (path, results.html()));
    for (path, text) in json.into_iter().chain(page) {
        if let Err(error) = fs::write(path, text) {
            say(format_args!("error: {}: {error}", path.display()));
            return Exit::Failed;
        }
        say(format_args!("wrote {}", path.display()));
    }
    match arguments.format {
        Format::Text => data(&results.text()),
        Format::Json => data_json(&as_json),
    }
}
