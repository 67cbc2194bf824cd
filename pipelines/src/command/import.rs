//! `boxwork import`: JSON lines to a signature store, by `pipelines/import.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use boxwork_runtime::operator::Catalog;

use super::path_value;
use crate::shipped;
use crate::terminal::{self, Exit, Options};

/// Imports signatures of any dimension from JSON lines {"name": "...", "centroids": [[...], ...], "weights": [...]}
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The JSON lines
    file: PathBuf,
    /// The store to write, such as objects.signatures.arrow
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    options: Options,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let values = BTreeMap::from([
        ("path".to_owned(), path_value(&arguments.file)),
        ("out".to_owned(), path_value(&arguments.out)),
    ]);
    let exit = terminal::run(&shipped::IMPORT.load(), catalog, &values, &arguments.options);
    if exit == Exit::Ok {
        eprintln!("wrote {}", arguments.out.display());
    }
    exit
}
