//! `boxwork search`: the objects most similar to each query, by `pipelines/search.yaml` (or `range.yaml`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::{DeviceChoice, Value};

use super::{Space, path_value, whole};
use crate::run::{Exit, Options};
use crate::{run, shipped};

/// Finds the objects most similar to each query
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The store to search
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// An image, or the name of an object in the store; may be given many times
    #[arg(long = "query", value_name = "IMAGE_OR_NAME", required = true)]
    queries: Vec<String>,
    /// How many objects to find [default: 10, or all when a range is given]
    #[arg(short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    k: Option<u32>,
    /// Only objects at most this far away
    #[arg(long, value_name = "R")]
    range: Option<f64>,
    #[command(flatten)]
    space: Space,
    /// Where to compute distances: auto, cpu, gpu, or gpu: and the numbers of `boxwork devices`
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = device)]
    device: String,
    /// What the results look like
    #[arg(long, default_value = "table", value_parser = ["table", "json", "csv", "html"])]
    format: String,
    /// The file to write; - is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    #[command(flatten)]
    options: Options,
}

/// Refuses what `device:` would.
fn device(text: &str) -> Result<String, String> {
    text.parse::<DeviceChoice>().map(|choice| choice.to_string())
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let queries = arguments.queries.iter().cloned().map(Value::Text).collect();
    let mut values = BTreeMap::from([
        ("store".to_owned(), path_value(&arguments.store)),
        ("queries".to_owned(), Value::List(queries)),
        ("format".to_owned(), Value::Text(arguments.format.clone())),
        ("out".to_owned(), path_value(&arguments.out)),
        ("device".to_owned(), Value::Text(arguments.device.clone())),
    ]);
    arguments.space.give(&mut values);
    values.extend(arguments.range.map(|range| ("range".to_owned(), Value::Number(range))));
    let pipeline = match (arguments.k, arguments.range) {
        (None, Some(_)) => shipped::RANGE,
        (k, _) => {
            values.insert("k".to_owned(), whole(k.unwrap_or(10)));
            shipped::SEARCH
        }
    };
    let exit = run::run(&pipeline.load(), catalog, &values, &arguments.options);
    if exit == Exit::Ok && arguments.out.as_os_str() != "-" {
        eprintln!("wrote {}", arguments.out.display());
    }
    exit
}
