//! `boxwork index`: the index of a store, by `pipelines/index.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use boxwork_kernels::codes::Levels;
use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;

use clap::builder::PossibleValuesParser;

use super::bring_up::bring_up;
use super::{Replacing, Space, device, path_value, run_shipped, say, whole};
use crate::shipped;
use crate::terminal::{Exit, Options};

/// Makes the index of a store, with which searches skip most distances, or updates it after the store has grown
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The store to index
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// The index to write, such as photos.pivots.arrow
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Update the index, or codes: compute distances or code vectors only for objects added since
    #[arg(long, conflicts_with_all = ["pivots", "select", "seed", "distance", "p", "root", "similarity", "ground", "alpha", "insert", "delete", "replace", "matrix", "band", "device", "force"])]
    append: bool,
    /// Make codes of vectors in place of an index of pivots: planes (8 bits a number in two planes of 4), sq8, pca (4 bits on average along principal directions), sq4, or product codes of 16, 32 or 64 bytes
    #[arg(long, value_name = "LEVELS", value_parser = PossibleValuesParser::new(Levels::NAMES), conflicts_with_all = ["append", "pivots", "select", "seed", "p", "root", "similarity", "ground", "alpha", "insert", "delete", "replace", "matrix", "band", "device"])]
    codes: Option<String>,
    /// The number of pivots, the objects from which all others are measured
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=128))]
    pivots: u32,
    /// The method of choosing them
    #[arg(long, default_value = "random", value_parser = ["random", "maxmin", "incremental"])]
    select: String,
    /// The seed for choosing them
    #[arg(long, default_value_t = 1)]
    seed: u32,
    #[command(flatten)]
    space: Space,
    /// Where to compute: auto, cpu, gpu, or gpu: and the numbers of `boxwork devices`; the bits of the index do not change
    #[arg(long, value_name = "DEVICE", default_value = "cpu", value_parser = device)]
    device: String,
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
    if let Some(levels) = &arguments.codes {
        return codes(catalog, arguments, levels);
    }
    let mut values = BTreeMap::from([
        ("store".to_owned(), path_value(&arguments.store)),
        ("out".to_owned(), path_value(&arguments.out)),
        ("count".to_owned(), whole(arguments.pivots)),
        ("select".to_owned(), Value::Text(arguments.select.clone())),
        ("seed".to_owned(), whole(arguments.seed)),
        ("device".to_owned(), Value::Text(arguments.device.clone())),
    ]);
    arguments.space.give(&mut values);
    let summary = run_shipped("index", shipped::INDEX, catalog, &values, &arguments.options);
    // A faulty device is a problem, but the index is sound.
    if summary.is_done() {
        say(format_args!("wrote {}", arguments.out.display()));
    }
    summary.exit
}

/// Makes the codes of a store of vectors.
fn codes(catalog: &Catalog, arguments: &Arguments, levels: &str) -> Exit {
    let mut values = BTreeMap::from([
        ("store".to_owned(), path_value(&arguments.store)),
        ("out".to_owned(), path_value(&arguments.out)),
        ("levels".to_owned(), Value::Text(levels.to_owned())),
    ]);
    arguments.space.give(&mut values);
    let exit = run_shipped("index", shipped::INDEX_CODES, catalog, &values, &arguments.options).exit;
    if exit == Exit::Ok {
        say(format_args!("wrote {}", arguments.out.display()));
    }
    exit
}
