//! `boxwork import`: JSON lines to a store, by `pipelines/import.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;

use super::path_value;
use crate::shipped;
use crate::terminal::{self, Exit, Options};

/// Imports signatures of any dimension from JSON lines {"name": "...", "centroids": [[...], ...], "weights": [...]}, or
/// objects of another kind from lines {"name": "...", "object": ...}
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The JSON lines
    file: PathBuf,
    /// The store to write, such as objects.signatures.arrow
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The kind of the objects, such as signatures, vectors, texts or sets
    #[arg(long, value_name = "KIND", default_value = "signatures")]
    holds: String,
    /// The key of the object in a line, of all kinds but signatures
    #[arg(long, value_name = "KEY", default_value = "object")]
    column: String,
    /// The key of its name, of all kinds but signatures
    #[arg(long, value_name = "KEY", default_value = "name")]
    name: String,
    #[command(flatten)]
    options: Options,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let values = BTreeMap::from([
        ("path".to_owned(), path_value(&arguments.file)),
        ("out".to_owned(), path_value(&arguments.out)),
        ("holds".to_owned(), Value::Text(arguments.holds.clone())),
        ("column".to_owned(), Value::Text(arguments.column.clone())),
        ("name".to_owned(), Value::Text(arguments.name.clone())),
    ]);
    let exit = terminal::run(&shipped::IMPORT.load(), catalog, &values, &arguments.options);
    if exit == Exit::Ok {
        eprintln!("wrote {}", arguments.out.display());
    }
    exit
}
