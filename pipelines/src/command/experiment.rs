//! `boxwork experiment`: pipelines over every combination of some values, into a table and plots.

use std::path::PathBuf;

use boxwork_runtime::operator::Catalog;

use super::{print_diagnostics, talk};
use crate::run::{Exit, listen_for_interrupts};
use crate::{diagnostic, experiment, given};

/// Runs a sweep: pipelines over every combination of values, into a table, plots and a page
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A run that was stopped goes on after the rows that it has; the sweep's steps must be the same."
)]
pub struct Arguments {
    /// The sweep, a YAML file
    sweep: PathBuf,
    /// The folder of results.csv, the plots and the page [default: the sweep's name, without its ending]
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
    let experiment = match experiment::load(&arguments.sweep, catalog, &arguments.settings) {
        Ok(experiment) => experiment,
        Err(faults) => {
            print_diagnostics(&faults);
            talk(&format!("{}\n", diagnostic::summary(&faults)));
            return Exit::Problems;
        }
    };
    if arguments.check {
        talk(&format!("{} rows, no problems\n", experiment.rows()));
        return Exit::Ok;
    }
    let named =
        || arguments.sweep.file_stem().map(PathBuf::from).unwrap_or_else(|| PathBuf::from("experiment"));
    let out = arguments.out.clone().unwrap_or_else(named);
    listen_for_interrupts();
    match experiment.run(&out, catalog, &mut |row| talk(&format!("{row}\n"))) {
        Ok(summary) => {
            let kept = if summary.kept > 0 {
                format!(", {} of them from before", summary.kept)
            } else {
                String::new()
            };
            if let Some(comparison) = &summary.comparison {
                talk(&comparison.to_string());
            }
            talk(&format!("wrote {}: {} rows{kept}, {} plots\n", out.display(), summary.rows, summary.plots));
            Exit::Ok
        }
        Err(experiment::ExperimentError::Interrupted) => {
            talk(&format!("{}\n", experiment::ExperimentError::Interrupted));
            Exit::Interrupted
        }
        Err(error) => {
            talk(&format!("error: {error}\n"));
            Exit::Failed
        }
    }
}
