//! `boxwork export`: a signature store to JSON lines, by `pipelines/export.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use boxwork_runtime::operator::Catalog;

use super::path_value;
use crate::shipped;
use crate::terminal::{self, Exit, Options};

/// Exports a store's signatures as JSON lines
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The store
    store: PathBuf,
    /// The file to write; - is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    #[command(flatten)]
    options: Options,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let values = BTreeMap::from([
        ("store".to_owned(), path_value(&arguments.store)),
        ("out".to_owned(), path_value(&arguments.out)),
    ]);
    terminal::run(&shipped::EXPORT.load(), catalog, &values, &arguments.options)
}
