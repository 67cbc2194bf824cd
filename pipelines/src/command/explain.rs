//! `boxwork explain`: the plan of a pipeline, without running it, and without opening a file except for an estimate.

use std::path::PathBuf;

use boxwork_runtime::feeding::LazyDevices;
use boxwork_runtime::operator::Catalog;
use boxwork_runtime::printable::printable_lines;
use boxwork_runtime::topology::Topology;

use super::{Format, data, data_json, print_diagnostics, read_with_values, say};
use crate::terminal::Exit;
use crate::{estimate, explain, given};

/// Shows what a pipeline would do: boxes, copies, columns of every edge, limits, what is bound when
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The pipeline: a YAML file, or the name of a shipped pipeline (`boxwork pipelines` lists them)
    pipeline: PathBuf,
    /// Give a parameter of the pipeline its value; lists as [a, b] or by giving it several times
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = given::name_and_value)]
    settings: Vec<(String, String)>,
    /// Slots to compute on [default: all logical cores that this process may use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    workers: Option<u32>,
    /// A synthetic machine with these levels, such as "pack:2 numa:1 l3:2 core:4 pu:2"
    #[arg(long, value_name = "LEVELS")]
    topology: Option<String>,
    /// Also open the store and its index, and estimate the cost of every strategy and bound
    #[arg(long)]
    estimate: bool,
    /// The form of the answer
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let topology = match arguments.topology.as_deref().map(Topology::synthetic) {
        None => Topology::detect(),
        Some(Ok(topology)) => topology,
        Some(Err(error)) => {
            say(format_args!("error: {error}"));
            return Exit::Usage;
        }
    };
    let topology = arguments.workers.map_or_else(|| topology.clone(), |count| topology.first(count as usize));
    let (loaded, values) = match read_with_values(&arguments.pipeline, &arguments.settings) {
        Ok(read) => read,
        Err(exit) => return exit,
    };
    let (plan, diagnostics) = loaded.check(catalog, &values);
    print_diagnostics(&diagnostics);
    let Some(plan) = plan else { return Exit::Problems };
    let devices = LazyDevices::of_environment();
    let (about, devices) = (&loaded.about, &devices);
    let explained = explain::Explained { about, plan: &plan, values: &values, topology: &topology, devices };
    let estimated = match arguments.estimate {
        true => estimate::estimate(&plan, &values, topology.slots_count(), devices),
        false => Ok(None),
    };
    let estimated = match estimated {
        Ok(None) if arguments.estimate => {
            say(format_args!(
                "error: there is nothing to estimate: no box of kind lower_bounds whose store, space and index are \
                 known; give them by --set"
            ));
            return Exit::Usage;
        }
        Ok(estimated) => estimated,
        Err(error) => {
            say(format_args!("error: {error}"));
            return Exit::Failed;
        }
    };
    match arguments.format {
        Format::Text => {
            let text = explained.text() + &estimated.as_ref().map(estimate::text_of).unwrap_or_default();
            data(&printable_lines(&text))
        }
        Format::Json => {
            let mut json = explained.json();
            if let (Some(estimated), Some(page)) = (&estimated, json.as_object_mut()) {
                page.insert("estimate".to_owned(), estimate::json_of(estimated));
            }
            data_json(&json)
        }
    }
}
