//! `boxwork sketch`: the sketches of a store, by `pipelines/sketch.yaml`, or `pipelines/sketch_apexes.yaml` for an index.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;
use boxwork_stores::pivot_table::PivotTable;

use super::bring_up::bring_up;
use super::{Replacing, Space, path_value, run_shipped, say, whole};
use crate::shipped;
use crate::terminal::{Exit, Options};

/// Sketches a store, or updates the sketch after the store has grown
///
/// A sketch takes 128 bytes an object: 64 numbers whose plain distances are about those of the signatures. By an index
/// (`--pivots`) objects of other kinds and distances have one too: numbers whose plain distances are lower bounds.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The store to sketch
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// The sketch to write, such as photos.sketch.arrow
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Update the sketch: sketch only objects added since
    #[arg(long, conflicts_with_all = ["frequencies", "seed", "alpha", "pivots", "force"])]
    append: bool,
    /// Make the sketch of this index, and by its distance, without computing any
    #[arg(long, value_name = "INDEX", conflicts_with_all = ["frequencies", "seed", "alpha"])]
    pivots: Option<PathBuf>,
    /// The number of random frequencies, a multiple of 32; with more, distances of sketches vary less
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(64..=2048))]
    frequencies: u32,
    /// The seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Steepness of the similarity [default: the store's]
    #[arg(long)]
    alpha: Option<f64>,
    #[command(flatten)]
    replacing: Replacing,
    #[command(flatten)]
    options: Options,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    if arguments.append {
        return bring_up(&arguments.store, &arguments.out, &arguments.options);
    }
    if let Err(exit) = arguments.replacing.admit_store(&arguments.out, Some(&arguments.store)) {
        return exit;
    }
    if let Some(index) = &arguments.pivots {
        return by_pivots(catalog, arguments, index);
    }
    let mut values = BTreeMap::from([
        ("store".to_owned(), path_value(&arguments.store)),
        ("out".to_owned(), path_value(&arguments.out)),
        ("frequencies".to_owned(), whole(arguments.frequencies)),
        ("seed".to_owned(), whole(arguments.seed)),
    ]);
    if let Some(alpha) = arguments.alpha {
        values.insert("alpha".to_owned(), Value::Number(alpha));
    }
    let exit = run_shipped("sketch", shipped::SKETCH, catalog, &values, &arguments.options).exit;
    if matches!(exit, Exit::Ok) {
        say(format_args!("wrote {}", arguments.out.display()));
    }
    exit
}

/// Makes the sketch of an index, by the distance of which it was made.
fn by_pivots(catalog: &Catalog, arguments: &Arguments, index: &Path) -> Exit {
    let space = match PivotTable::measure_of(index) {
        Ok(options) => Space::of(options),
        Err(error) => {
            say(format_args!("error: {error}"));
            return Exit::Failed;
        }
    };
    let mut values = BTreeMap::from([
        ("store".to_owned(), path_value(&arguments.store)),
        ("pivots".to_owned(), path_value(index)),
        ("out".to_owned(), path_value(&arguments.out)),
    ]);
    space.give(&mut values);
    let exit = run_shipped("sketch", shipped::SKETCH_APEXES, catalog, &values, &arguments.options).exit;
    if matches!(exit, Exit::Ok) {
        say(format_args!("wrote {}", arguments.out.display()));
    }
    exit
}
