//! The `boxwork` command: its arguments, and one file for each subcommand.
//!
//! Data goes to standard output, messages to standard error. Every subcommand ends with a status of [`Exit`]. To add
//! one, write a file with `Arguments` and `run`, and a line in each list below.

mod add;
mod bench;
mod boxes;
mod bring_up;
mod check;
mod compact;
mod denoise;
mod devices;
mod evaluate;
mod expand;
mod explain;
mod experiment;
mod export;
mod extract;
mod feedback;
mod flags;
mod generate;
mod gp;
mod graph;
mod hnsw;
mod import;
mod index;
mod lists;
mod new;
mod pipelines;
mod reference;
mod remove;
mod run;
mod sample_images;
mod schema;
mod search;
mod simulate;
mod serve;
mod sketch;
mod synthesize;
mod top;
mod topology;
mod tune;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use boxwork_kernels::distance::COST_MAX;
use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::{DeviceChoice, Value};
use boxwork_stores::any_kind;
use boxwork_stores::spaces::{DISTANCE_NAMES_OR_AUTO, DistanceOptions, EditConstants};
use clap::builder::PossibleValuesParser;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

use crate::pipeline::Loaded;
use crate::shipped::Shipped;
use crate::terminal::{self, Exit, Options, Summary, print_diagnostics, say, talk};
use crate::{given, shipped};

/// From a folder of images to the most similar ones; pipelines of boxes, declared in YAML
#[derive(Debug, Parser)]
#[command(name = "boxwork", version, max_term_width = 100, after_help = EXIT_STATUS)]
struct CommandLine {
    #[command(subcommand)]
    subcommand: Subcommands,
}

const EXIT_STATUS: &str = "Exit status: 0 all is well, 1 problems were found, 2 the call was wrong, 3 the run failed.\n\
                           Data goes to standard output, talk to standard error; NO_COLOR is respected.";

#[derive(Debug, Subcommand)]
enum Subcommands {
    Extract(extract::Arguments),
    Add(add::Arguments),
    Remove(remove::Arguments),
    Compact(compact::Arguments),
    Import(import::Arguments),
    Export(export::Arguments),
    Index(index::Arguments),
    Sketch(sketch::Arguments),
    Lists(lists::Arguments),
    Hnsw(hnsw::Arguments),
    Search(search::Arguments),
    Feedback(feedback::Arguments),
    Simulate(simulate::Arguments),
    Serve(serve::Arguments),
    Gp(gp::Arguments),
    Evaluate(evaluate::Arguments),
    Denoise(denoise::Arguments),
    Run(run::Arguments),
    Check(check::Arguments),
    Explain(explain::Arguments),
    Expand(expand::Arguments),
    Graph(graph::Arguments),
    Pipelines(pipelines::Arguments),
    Boxes(boxes::Arguments),
    New(new::Arguments),
    Schema(schema::Arguments),
    Reference(reference::Arguments),
    Top(top::Arguments),
    Topology(topology::Arguments),
    Devices(devices::Arguments),
    SampleImages(sample_images::Arguments),
    Synthesize(synthesize::Arguments),
    Generate(generate::Arguments),
    Experiment(experiment::Arguments),
    Tune(tune::Arguments),
    Bench(bench::Arguments),
}

impl Subcommands {
    fn run(&self, catalog: &Catalog) -> Exit {
        match self {
            Self::Extract(arguments) => extract::run(catalog, arguments),
            Self::Add(arguments) => add::run(catalog, arguments),
            Self::Remove(arguments) => remove::run(arguments),
            Self::Compact(arguments) => compact::run(arguments),
            Self::Import(arguments) => import::run(catalog, arguments),
            Self::Export(arguments) => export::run(catalog, arguments),
            Self::Index(arguments) => index::run(catalog, arguments),
            Self::Sketch(arguments) => sketch::run(catalog, arguments),
            Self::Lists(arguments) => lists::run(catalog, arguments),
            Self::Hnsw(arguments) => hnsw::run(catalog, arguments),
            Self::Search(arguments) => search::run(catalog, arguments),
            Self::Feedback(arguments) => feedback::run(catalog, arguments),
            Self::Simulate(arguments) => simulate::run(catalog, arguments),
            Self::Serve(arguments) => serve::run(catalog, arguments),
            Self::Gp(arguments) => gp::run(catalog, arguments),
            Self::Evaluate(arguments) => evaluate::run(catalog, arguments),
            Self::Denoise(arguments) => denoise::run(catalog, arguments),
            Self::Run(arguments) => run::run(catalog, arguments),
            Self::Check(arguments) => check::run(catalog, arguments),
            Self::Explain(arguments) => explain::run(catalog, arguments),
            Self::Expand(arguments) => expand::run(catalog, arguments),
            Self::Graph(arguments) => graph::run(catalog, arguments),
            Self::Pipelines(arguments) => pipelines::run(arguments),
            Self::Boxes(arguments) => boxes::run(catalog, arguments),
            Self::New(arguments) => new::run(catalog, arguments),
            Self::Schema(arguments) => schema::run(catalog, arguments),
            Self::Reference(arguments) => reference::run(catalog, arguments),
            Self::Top(arguments) => top::run(arguments),
            Self::Topology(arguments) => topology::run(arguments),
            Self::Devices(arguments) => devices::run(arguments),
            Self::SampleImages(arguments) => sample_images::run(arguments),
            Self::Generate(arguments) => generate::run(catalog, arguments),
            Self::Synthesize(arguments) => synthesize::run(catalog, arguments),
            Self::Experiment(arguments) => experiment::run(catalog, arguments),
            Self::Tune(arguments) => tune::run(catalog, arguments),
            Self::Bench(arguments) => bench::run(arguments),
        }
    }
}

/// The whole command with a catalogue of operators. The `main` of a binary calls it.
///
/// A binary with its own operators adds them to the catalogue; its pipelines, pages, drawings and schema then include
/// them.
pub fn main_with(catalog: Catalog) -> ExitCode {
    boxwork_stores::limits::report_files_too_large();
    let matches = command_line().get_matches();
    match CommandLine::from_arg_matches(&matches) {
        Ok(call) => call.subcommand.run(&catalog).into(),
        Err(error) => error.exit(),
    }
}

/// The command line, in which an option takes a negative number, and a list whose first number is negative: whether they
/// fit is for the option to say.
fn command_line() -> clap::Command {
    let takes_numbers = |arg: clap::Arg| {
        let is_option = !arg.is_positional() && arg.get_action().takes_values();
        let is_list = arg.get_value_delimiter().is_some();
        if is_option { arg.allow_negative_numbers(true).allow_hyphen_values(is_list) } else { arg }
    };
    CommandLine::command().mut_subcommands(move |subcommand| {
        // `gp` and `generate` have subcommands of their own.
        subcommand.mut_args(takes_numbers).mut_subcommands(move |inner| inner.mut_args(takes_numbers))
    })
}

/// Runs a shipped pipeline, if each flag of the command has a value that its boxes take.
fn run_shipped(
    command: &str,
    pipeline: Shipped,
    catalog: &Catalog,
    values: &BTreeMap<String, Value>,
    options: &Options,
) -> Summary {
    let loaded = pipeline.load();
    if let Err(exit) = check_flags(command, &loaded, catalog, values) {
        return Summary { exit, skipped: 0, elapsed: Duration::ZERO };
    }
    terminal::run_summed(&loaded, catalog, values, options)
}

/// Prints the flags of a command whose values no box of its pipeline takes.
fn check_flags(
    command: &str,
    loaded: &Loaded,
    catalog: &Catalog,
    values: &BTreeMap<String, Value>,
) -> Result<(), Exit> {
    let faults = flags::faults(command, &loaded.declaration, catalog, values);
    faults.iter().for_each(|fault| say(format_args!("error: {fault}")));
    if faults.is_empty() { Ok(()) } else { Err(Exit::Usage) }
}

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For machines
    Json,
}

/// The distance and its constants: the options of all subcommands that compute distances.
#[derive(Clone, Debug, clap::Args)]
struct Space {
    /// The distance [default: the usual one for the objects]
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(DISTANCE_NAMES_OR_AUTO))]
    distance: Option<String>,
    /// The exponent of lp
    #[arg(long, value_name = "P")]
    p: Option<f64>,
    /// Take the distance's square root: it keeps the order, and more bounds are sound
    #[arg(long)]
    root: bool,
    /// The similarity of two centroids
    #[arg(long, value_name = "NAME", value_parser = ["gaussian", "heuristic", "minus"])]
    similarity: Option<String>,
    /// The distance of two centroids
    #[arg(long, value_name = "NAME", value_parser = ["l1", "l2", "linf", "l2_squared"])]
    ground: Option<String>,
    /// The steepness of the similarity [default: the store's, or 0.2 if it keeps none]
    #[arg(long, value_name = "A")]
    alpha: Option<f64>,
    /// The cost of a letter that only the object has, for edit [default: 1]
    #[arg(long, value_name = "COST", value_parser = cost())]
    insert: Option<u32>,
    /// The cost of a letter that only the query has, for edit [default: 1]
    #[arg(long, value_name = "COST", value_parser = cost())]
    delete: Option<u32>,
    /// The cost of a letter in place of another one, for edit [default: 1]
    #[arg(long, value_name = "COST", value_parser = cost())]
    replace: Option<u32>,
    /// A file with the costs of pairs of letters, for edit
    #[arg(long, value_name = "FILE")]
    matrix: Option<PathBuf>,
    /// The most that places of series differ that dtw compares [default: any]
    #[arg(long, value_name = "PLACES")]
    band: Option<u32>,
}

/// A cost of an edit.
fn cost() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(COST_MAX))
}

impl Space {
    /// The options that give a distance.
    fn of(options: DistanceOptions) -> Self {
        let DistanceOptions { distance, p, root, similarity, ground, alpha, costs, band } = options;
        let (distance, similarity, ground) = (Some(distance), Some(similarity), Some(ground));
        let EditConstants { insert, delete, replace, matrix } = costs;
        let (matrix, band) = (matrix.map(PathBuf::from), band.and_then(|band| u32::try_from(band).ok()));
        Self { distance, p, root, similarity, ground, alpha, insert, delete, replace, matrix, band }
    }

    /// Whether distances may be negative.
    fn is_signed(&self) -> bool {
        let named = self.distance.as_deref().map(DistanceOptions::named);
        let properties = named.and_then(|options| options.properties().ok().flatten());
        properties.is_some_and(|properties| properties.signed)
    }

    /// Adds the given values; the pipelines have the defaults.
    fn give(&self, values: &mut BTreeMap<String, Value>) {
        let text = |text: &String| Value::Text(text.clone());
        values.extend(self.distance.as_ref().map(|name| ("distance".to_owned(), text(name))));
        values.extend(self.p.map(|p| ("p".to_owned(), Value::Number(p))));
        values.extend(self.root.then(|| ("root".to_owned(), Value::Boolean(true))));
        values.extend(self.similarity.as_ref().map(|name| ("similarity".to_owned(), text(name))));
        values.extend(self.ground.as_ref().map(|name| ("ground".to_owned(), text(name))));
        values.extend(self.alpha.map(|alpha| ("alpha".to_owned(), Value::Number(alpha))));
        let counts = [
            ("insert", self.insert),
            ("delete", self.delete),
            ("replace", self.replace),
            ("band", self.band),
        ];
        for (name, count) in counts {
            values.extend(count.map(|count| (name.to_owned(), whole(count))));
        }
        values.extend(self.matrix.as_ref().map(|file| ("matrix".to_owned(), path_value(file))));
    }
}

/// Whether a command may replace the file that it makes: the option of all that make a store, an index or an export.
/// Those are not replaced by mistake, as they may have taken hours; pages, reports and traces are.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Replacing {
    /// Replace the file that --out names, if there is one
    #[arg(long)]
    force: bool,
}

impl Replacing {
    /// [`admit`](Self::admit) for a store or an index, which is a file: its parts are not written in their order.
    fn admit_store(self, out: &Path, input: Option<&Path>) -> Result<(), Exit> {
        if out.as_os_str() == "-" {
            say(format_args!("error: --out: a store is no stream: name a file, or ./- for one called -"));
            return Err(Exit::Usage);
        }
        self.admit(out, input)
    }

    /// Prints why the command must not write `out`: a file is there, or a device or pipe, which the finished file would
    /// replace, or it is the file that the command reads. `-` is standard output.
    fn admit(self, out: &Path, input: Option<&Path>) -> Result<(), Exit> {
        let path = out.display();
        let is_input = |input: &Path| input.canonicalize().ok() == out.canonicalize().ok();
        match out.metadata() {
            Ok(_) if out.as_os_str() == "-" => return Ok(()),
            Ok(_) if input.is_some_and(is_input) => {
                say(format_args!("error: `{path}` is the file to read: name another one"))
            }
            Ok(found) if !found.is_file() => {
                say(format_args!("error: `{path}` is no file: name another one"))
            }
            Ok(_) if !self.force => {
                say(format_args!(
                    "error: `{path}` is there already: name another file, or replace it with --force"
                ));
            }
            Ok(_) | Err(_) => return Ok(()),
        }
        Err(Exit::Usage)
    }
}

/// Refuses the values that `device:` would refuse.
fn device(text: &str) -> Result<String, String> {
    text.parse::<DeviceChoice>().map(|choice| choice.to_string())
}

/// Says that a command has made a store, with the number of its objects, its time and what it left out.
fn wrote(store: &Path, what: &str, summary: &Summary) {
    let count = match any_kind::open(store, None) {
        Ok(store) => {
            let count = store.objects_count();
            format!(": {count} {what}{}", if count == 1 { "" } else { "s" })
        }
        // Another process has moved it since.
        Err(_) => String::new(),
    };
    say(format_args!("wrote {}{count} {summary}", store.display()));
}

/// Describes the contents of a store for users.
fn state_of(store: &Path) -> String {
    let path = store.display();
    match any_kind::open(store, None) {
        Ok(store) => format!("{path} holds {}", objects(store.objects_count())),
        Err(error) => error.to_string(),
    }
}

fn objects(count: u64) -> String {
    format!("{count} object{}", if count == 1 { "" } else { "s" })
}

fn path_value(path: &Path) -> Value {
    Value::Text(path.to_string_lossy().into_owned())
}

fn whole(count: u32) -> Value {
    Value::Integer(i64::from(count))
}

/// Reads a pipeline, even with flaws, and the known values of its parameters: the defaults and the given ones. Prints
/// the reason if that fails.
fn read_with_values(
    path: &Path,
    settings: &[(String, String)],
) -> Result<(Loaded, BTreeMap<String, Value>), Exit> {
    let loaded = shipped::read(path).map_err(|faults| {
        print_diagnostics(&faults);
        Exit::Problems
    })?;
    let given = given::parse_settings(&loaded.declaration, settings).map_err(|faults| {
        for (_, message) in faults {
            say(format_args!("error: {message}"));
        }
        Exit::Usage
    })?;
    let mut values = loaded.declaration.defaults();
    values.extend(given);
    Ok((loaded, values))
}

/// Writes data to standard output. A reader that has closed it (`boxwork boxes | head`) is no failure.
fn data(text: &str) -> Exit {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Exit::Ok,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Ok,
        Err(error) => {
            say(format_args!("error: standard output cannot be written: {error}"));
            Exit::Failed
        }
    }
}

/// Writes JSON as data, readable by users too.
fn data_json(json: &serde_json::Value) -> Exit {
    data(&format!("{json:#}\n"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command_line().debug_assert();
    }
}
