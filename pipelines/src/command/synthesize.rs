//! `boxwork synthesize`: a large store from a small one, with `pipelines/synthesize.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;

use super::{Replacing, path_value, run_shipped, say, whole};
use crate::shipped;
use crate::terminal::{Exit, Options};

/// Makes a store of any size by mixing and moving the signatures of a store, for measurements
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The store of real signatures
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// The store to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The number of objects to make
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// The seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// The largest share of centroids that come from a second object
    #[arg(long, default_value_t = 0.5)]
    mix: f64,
    /// How far centroids are moved, in standard deviations of their coordinates
    #[arg(long = "move", default_value_t = 0.1)]
    moved: f64,
    #[command(flatten)]
    replacing: Replacing,
    #[command(flatten)]
    options: Options,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    if let Err(exit) = arguments.replacing.admit_store(&arguments.out, Some(&arguments.store)) {
        return exit;
    }
    let values = BTreeMap::from([
        ("store".to_owned(), path_value(&arguments.store)),
        ("out".to_owned(), path_value(&arguments.out)),
        ("count".to_owned(), whole(arguments.count)),
        ("seed".to_owned(), whole(arguments.seed)),
        ("mix".to_owned(), Value::Number(arguments.mix)),
        ("move".to_owned(), Value::Number(arguments.moved)),
    ]);
    let exit = run_shipped("synthesize", shipped::SYNTHESIZE, catalog, &values, &arguments.options).exit;
    if exit == Exit::Ok {
        say(format_args!("wrote {}", arguments.out.display()));
    }
    exit
}
