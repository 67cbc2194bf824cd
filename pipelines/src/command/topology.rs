//! `boxwork topology`: the machine as the scheduler sees it, or a synthetic one.

use boxwork_runtime::topology::Topology;

use super::{Format, data, data_json, say};
use crate::terminal::Exit;
use crate::topology_page;

/// Shows the machine as the scheduler sees it: nodes, caches, cores, slots and the order of stealing
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A synthetic machine with these levels, such as "pack:2 numa:1 l3:2 core:4 pu:2"
    #[arg(long, value_name = "LEVELS")]
    synthetic: Option<String>,
    /// The form of the answer
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Exit {
    let topology = match arguments.synthetic.as_deref().map(Topology::synthetic) {
        None => Topology::detect(),
        Some(Ok(topology)) => topology,
        Some(Err(error)) => {
            say(format_args!("error: {error}"));
            return Exit::Usage;
        }
    };
    match arguments.format {
        Format::Text => data(&topology.to_string()),
        Format::Json => data_json(&topology_page::json(&topology)),
    }
}
