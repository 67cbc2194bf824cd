//! `boxwork expand`: a pipeline with its values filled in.

use std::path::PathBuf;

use boxwork_runtime::operator::Catalog;

use super::{data, print_diagnostics, read_with_values, talk};
use crate::terminal::Exit;
use crate::{expand, given};

/// Prints a pipeline with the values of its parameters filled in: the defaults, and those given by --set
///
/// Parameters without a value stay parameters; comments are not kept.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The pipeline: a YAML file, or the name of a shipped pipeline (`boxwork pipelines` lists them)
    pipeline: PathBuf,
    /// Give a parameter of the pipeline its value; lists as [a, b] or by giving it several times
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = given::name_and_value)]
    settings: Vec<(String, String)>,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let (loaded, values) = match read_with_values(&arguments.pipeline, &arguments.settings) {
        Ok(read) => read,
        Err(exit) => return exit,
    };
    let (plan, diagnostics) = loaded.check(catalog, &values);
    print_diagnostics(&diagnostics);
    if plan.is_none() {
        return Exit::Problems;
    }
    match expand::text(&loaded.about, &expand::fill(&loaded.declaration, &values)) {
        Ok(text) => data(&text),
        Err(error) => {
            talk(&format!("error: {error}\n"));
            Exit::Failed
        }
    }
}
