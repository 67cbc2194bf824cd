//! `boxwork evaluate`: the quality of a labelled store's order, by `pipelines/evaluate.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;

use super::{Space, device, path_value, run_shipped, whole};
use crate::shipped;
use crate::terminal::{Exit, Options};

/// Measures how well distances separate the classes of a store: MAP, precision at 10, intrinsic dimensionality
///
/// All come from fast distances, in 32 bits, unless the objects make few pairs. The error of the intrinsic dimensionality
/// stands beside it.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The store; an object's class is the folder in its name
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    #[command(flatten)]
    space: Space,
    /// Objects at most: the time grows with their square, the memory does not
    #[arg(long, default_value_t = 100_000)]
    most: u32,
    /// Pairs of objects up to which distances are computed in 64 bits
    #[arg(long, default_value_t = 32_768)]
    exact_pairs: u32,
    /// Where to compute: auto, cpu, gpu, or gpu: and the numbers of `boxwork devices`; last digits differ between them
    #[arg(long, value_name = "DEVICE", default_value = "cpu", value_parser = device)]
    device: String,
    /// The format of the results
    #[arg(long, default_value = "table", value_parser = ["table", "json"])]
    format: String,
    #[command(flatten)]
    options: Options,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let mut values = BTreeMap::from([
        ("store".to_owned(), path_value(&arguments.store)),
        ("format".to_owned(), Value::Text(arguments.format.clone())),
        ("device".to_owned(), Value::Text(arguments.device.clone())),
        ("exact_pairs".to_owned(), whole(arguments.exact_pairs)),
        ("most".to_owned(), whole(arguments.most)),
    ]);
    arguments.space.give(&mut values);
    run_shipped("evaluate", shipped::EVALUATE, catalog, &values, &arguments.options).exit
}
