//! `boxwork run`: any pipeline.

use std::path::PathBuf;

use boxwork_runtime::operator::Catalog;

use super::say;
use crate::terminal::{self, Exit, Options};
use crate::{given, shipped};

/// Runs a pipeline
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The pipeline: a YAML file, or the name of a shipped pipeline (`boxwork pipelines` lists them)
    pipeline: PathBuf,
    /// Give a parameter of the pipeline its value; lists as [a, b] or by giving it several times
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = given::name_and_value)]
    settings: Vec<(String, String)>,
    #[command(flatten)]
    options: Options,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let loaded = match shipped::load(&arguments.pipeline) {
        Ok(loaded) => loaded,
        Err(flaws) => {
            super::print_diagnostics(&flaws);
            return Exit::Problems;
        }
    };
    match given::parse_settings(&loaded.declaration, &arguments.settings) {
        Ok(values) => terminal::run(&loaded, catalog, &values, &arguments.options),
        Err(faults) => {
            for (_, message) in faults {
                say(format_args!("error: {message}"));
            }
            Exit::Usage
        }
    }
}
