//! `boxwork index`: the index of a store, by `pipelines/index.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;

use super::{Space, path_value, whole};
use crate::run::{Exit, Options};
use crate::{run, shipped};

/// Makes the index of a store, by which searches leave out most distances
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The store to index
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// The index to write, such as photos.pivots.arrow
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// How many objects all others are measured against
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=128))]
    pivots: u32,
    /// How they are chosen
    #[arg(long, default_value = "random", value_parser = ["random", "maxmin", "incremental"])]
    select: String,
    /// The seed of that choice
    #[arg(long, default_value_t = 1)]
    seed: u32,
    #[command(flatten)]
    space: Space,
    #[command(flatten)]
    options: Options,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let mut values = BTreeMap::from([
        ("store".to_owned(), path_value(&arguments.store)),
        ("out".to_owned(), path_value(&arguments.out)),
        ("count".to_owned(), whole(arguments.pivots)),
        ("select".to_owned(), Value::Text(arguments.select.clone())),
        ("seed".to_owned(), whole(arguments.seed)),
    ]);
    arguments.space.give(&mut values);
    let exit = run::run(&shipped::INDEX.load(), catalog, &values, &arguments.options);
    if exit == Exit::Ok {
        eprintln!("wrote {}", arguments.out.display());
    }
    exit
}
