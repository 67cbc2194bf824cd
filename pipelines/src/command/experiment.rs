//! `boxwork experiment`: pipelines over every combination of some values, into a table and plots.

mod pipelines;

use std::path::{Path, PathBuf};

use boxwork_lab::experiment::{self, Experiment, ExperimentError};
use boxwork_runtime::operator::Catalog;
use boxwork_runtime::printable::printable_lines;

pub(super) use self::pipelines::Pipelines;
use super::{print_diagnostics, say, talk};
use crate::terminal::{Exit, Stop};
use crate::{given, pipeline};

/// Runs a sweep: pipelines over every combination of values, into a table, plots and a page
#[derive(Debug, clap::Args)]
#[command(after_help = "A stopped run continues after its last row, if the sweep's steps are unchanged.")]
pub struct Arguments {
    /// The sweep, a YAML file
    sweep: PathBuf,
    /// The folder for results.csv, the plots and the page [default: the sweep's name, without its ending]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Give an axis other values, such as k=10 or alpha=[0.1, 1]
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = given::name_and_value)]
    settings: Vec<(String, String)>,
    /// Check the sweep and all its combinations, and run nothing
    #[arg(long)]
    check: bool,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let name = arguments.sweep.display().to_string();
    let text = match pipeline::read_file(&arguments.sweep, &name) {
        Ok(text) => text,
        Err(fault) => {
            print_diagnostics(&[*fault]);
            return Exit::Problems;
        }
    };
    let folder = arguments.sweep.parent().unwrap_or(Path::new("."));
    let stop = Stop::listen(None);
    let mut pipelines = Pipelines::new(catalog, folder, &stop.cancellation());
    let experiment = match experiment::load(&name, &text, &arguments.settings, &mut pipelines) {
        Ok(experiment) => experiment,
        Err(faults) => {
            faults.iter().for_each(|fault| say(format_args!("{name}:{fault}")));
            let count = faults.len();
            say(format_args!("{count} error{}", if count == 1 { "" } else { "s" }));
            return Exit::Problems;
        }
    };
    if arguments.check {
        say(format_args!("{} rows, no problems", experiment.rows()));
        return Exit::Ok;
    }
    let named =
        || arguments.sweep.file_stem().map(PathBuf::from).unwrap_or_else(|| PathBuf::from("experiment"));
    measure(&experiment, &arguments.out.clone().unwrap_or_else(named), &mut pipelines)
}

fn measure(experiment: &Experiment, out: &Path, pipelines: &mut Pipelines<'_>) -> Exit {
    match experiment.run(out, pipelines, &mut |row| say(format_args!("{row}"))) {
        Ok(summary) => {
            let kept = match summary.kept {
                0 => String::new(),
                kept => format!(", {kept} of them from before"),
            };
            if let Some(comparison) = &summary.comparison {
                talk(&printable_lines(&comparison.to_string()));
            }
            say(format_args!(
                "wrote {}: {} rows{kept}, {} plots",
                out.display(),
                summary.rows,
                summary.plots
            ));
            Exit::Ok
        }
        Err(error @ ExperimentError::Interrupted) => {
            say(format_args!("{error}"));
            Exit::Interrupted
        }
        Err(error) => {
            say(format_args!("error: {error}"));
            Exit::Failed
        }
    }
}
