//! `boxwork add`: adds objects to a store, with `pipelines/add.yaml` or `add_from.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;
use boxwork_stores::any_kind;

use super::{path_value, run_shipped, say};
use crate::shipped;
use crate::terminal::{Exit, Options};

/// Adds images, or the objects of another store, to a store without making it again
///
/// Pictures whose names are there already are left out and not read, unless they replace others. As `extract`, it skips and
/// counts pictures that cannot be read: the others are added, and the exit status is 1.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folders, searched with all subfolders, or images, extracted with the store's parameters
    #[arg(value_name = "PATH", required_unless_present = "from", conflicts_with = "from")]
    paths: Vec<PathBuf>,
    /// The store to add to
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// A store whose objects are added, made with the same extraction
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// An index of the store to update; may be given many times
    #[arg(long, value_name = "FILE")]
    pivots: Vec<PathBuf>,
    /// A sketch of the store to update; may be given many times
    #[arg(long, value_name = "FILE")]
    sketch: Vec<PathBuf>,
    /// Codes of the vectors of the store to update; may be given many times
    #[arg(long, value_name = "FILE")]
    codes: Vec<PathBuf>,
    /// Lists of the vectors of the store to update; may be given many times
    #[arg(long, value_name = "FILE")]
    lists: Vec<PathBuf>,
    /// Permutations of the store to update; may be given many times
    #[arg(long, value_name = "FILE")]
    permutations: Vec<PathBuf>,
    /// Lists of the store --from, made with `boxwork lists --like`: --lists takes them in as they are; may be given many times
    #[arg(long, value_name = "FILE", requires = "from", requires = "lists")]
    merge: Vec<PathBuf>,
    /// Objects replace those of equal names; without it, a picture whose name is there is left out, and another object
    /// of --from is refused
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    options: Options,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let list = |paths: &[PathBuf]| Value::List(paths.iter().map(|path| path_value(path)).collect());
    let mut values = BTreeMap::from([
        ("store".to_owned(), path_value(&arguments.store)),
        ("replace".to_owned(), Value::Boolean(arguments.replace)),
    ]);
    let kept = [
        &arguments.pivots[..],
        &arguments.sketch,
        &arguments.codes,
        &arguments.lists,
        &arguments.permutations,
    ]
    .concat();
    if !kept.is_empty() {
        values.insert("pivots".to_owned(), list(&kept));
    }
    let pipeline = match &arguments.from {
        Some(from) => {
            values.insert("from".to_owned(), path_value(from));
            if !arguments.merge.is_empty() {
                values.insert("merge".to_owned(), list(&arguments.merge));
            }
            // If the store cannot be opened, the run reports it in more detail.
            if let Ok(store) = any_kind::open(&arguments.store, None) {
                let holds = Value::Text(store.kind().to_owned());
                values.insert("from_holds".to_owned(), holds.clone());
                values.insert("holds".to_owned(), holds);
            }
            shipped::ADD_FROM
        }
        None => {
            values.insert("paths".to_owned(), list(&arguments.paths));
            shipped::ADD
        }
    };
    let summary = run_shipped("add", pipeline, catalog, &values, &arguments.options);
    if summary.is_done() {
        say(format_args!("{}; done {summary}", super::state_of(&arguments.store)));
    }
    summary.exit
}
