//! `boxwork export`: a store to JSON lines, by `pipelines/export.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;
use boxwork_stores::any_kind;

use super::{Replacing, path_value, run_shipped};
use crate::shipped;
use crate::terminal::{ACCESS, Exit, Options};

/// Exports the objects of a store as JSON lines, which `boxwork import` reads back
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The store
    store: PathBuf,
    /// The file to write; - is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    #[command(flatten)]
    replacing: Replacing,
    #[command(flatten)]
    options: Options,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    if let Err(exit) = arguments.replacing.admit(&arguments.out, Some(&arguments.store)) {
        return exit;
    }
    let mut values = BTreeMap::from([
        ("store".to_owned(), path_value(&arguments.store)),
        ("out".to_owned(), path_value(&arguments.out)),
    ]);
    // If the store cannot be opened, the run fails, and its message says more.
    if let Ok(store) = any_kind::open_by(&arguments.store, ACCESS, None) {
        values.insert("holds".to_owned(), Value::Text(store.kind().to_owned()));
    }
    run_shipped("export", shipped::EXPORT, catalog, &values, &arguments.options).exit
}
