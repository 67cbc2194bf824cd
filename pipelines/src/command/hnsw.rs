//! `boxwork hnsw`: the vectors of a store in a graph of near neighbours, by `pipelines/vector_graph.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;

use super::{Replacing, path_value, run_shipped, say, whole};
use crate::shipped;
use crate::terminal::{Exit, Options};

/// Puts the vectors of a store into a graph of near neighbours, for searches that walk through it, or adds those that the store has
/// gained
///
/// Such a search is fast, and may miss objects: `boxwork search --graph` says so in its results. Builds with the feature `graph` run it.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The store, whose objects are vectors
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// The graph to write, such as vectors.hnsw.arrow
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Add the vectors that the store has gained since to the graph; it keeps its settings. Give its distance
    #[arg(long, conflicts_with_all = ["connectivity", "expansion", "numbers", "force"])]
    append: bool,
    /// The distance of searches by the graph
    #[arg(long, value_name = "NAME", default_value = "l2", value_parser = ["l2", "ip", "cosine"])]
    distance: String,
    /// Neighbours of a vector on the upper levels; the lowest has twice as many
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=256))]
    connectivity: u32,
    /// Vectors that are kept while the neighbours of a new one are searched: more make a better graph, and take longer
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    expansion: u32,
    /// The type of the numbers in the graph: i8 are equal steps between the least and the largest number of the store
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = ["f32", "f16", "i8"])]
    numbers: String,
    /// Add the vectors one by one in the order of their ids: the same graph at each run, and one core at work
    #[arg(long)]
    in_order: bool,
    #[command(flatten)]
    replacing: Replacing,
    #[command(flatten)]
    options: Options,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let mut values = BTreeMap::from([
        ("store".to_owned(), path_value(&arguments.store)),
        ("out".to_owned(), path_value(&arguments.out)),
        ("distance".to_owned(), Value::Text(arguments.distance.clone())),
        ("in_order".to_owned(), Value::Boolean(arguments.in_order)),
    ]);
    if arguments.append {
        values.insert("append".to_owned(), path_value(&arguments.out));
    } else if let Err(exit) = arguments.replacing.admit_store(&arguments.out, Some(&arguments.store)) {
        return exit;
    } else {
        values.extend([
            ("connectivity".to_owned(), whole(arguments.connectivity)),
            ("expansion".to_owned(), whole(arguments.expansion)),
            ("numbers".to_owned(), Value::Text(arguments.numbers.clone())),
        ]);
    }
    let exit = run_shipped("hnsw", shipped::VECTOR_GRAPH, catalog, &values, &arguments.options).exit;
    if matches!(exit, Exit::Ok) {
        say(format_args!("wrote {}", arguments.out.display()));
    }
    exit
}
