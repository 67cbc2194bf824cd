//! `boxwork lists`: the vectors of a store in lists, by `pipelines/vector_lists.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;

use super::bring_up::bring_up;
use super::{Replacing, device, path_value, run_shipped, say, whole};
use crate::shipped;
use crate::terminal::{Exit, Options};

/// Arranges the vectors of a store in lists, for searches that look into few of them, or updates them after the store has grown
///
/// Such a search is fast, and may miss objects: `boxwork search --lists` says so in its results.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The store, whose objects are vectors
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// The lists to write, such as vectors.lists.arrow
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Update the lists: put the vectors added since into the same lists
    #[arg(long, conflicts_with_all = ["distance", "lists", "codes", "parts", "bits", "iterations", "seed", "start", "spherical", "keep", "like", "rotate", "rotate_start", "device", "force"])]
    append: bool,
    /// The distance of searches in the lists
    #[arg(long, value_name = "NAME", default_value = "l2", value_parser = ["l2", "ip", "cosine"])]
    distance: String,
    /// The number of lists [default: about the square root of the number of vectors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    lists: Option<u32>,
    /// Contents of the lists: the vectors (rows), codes of 8 (product) or 4 bits (fast) a part, or of 1 to 4 bits a number (rabitq)
    #[arg(long, value_name = "CODES", default_value = "rows", value_parser = ["rows", "product", "fast", "rabitq"])]
    codes: String,
    /// Parts of a code [default: one for 8 numbers of a vector (product) or for 4 (fast)]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    parts: Option<u32>,
    /// Bits of a number in codes rabitq [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4))]
    bits: Option<u32>,
    /// Turn vectors before they are coded, so that codes lose less: to N numbers, or to as many as vectors have
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "0")]
    rotate: Option<u32>,
    /// The rotation that training begins with: principal components, or random directions
    #[arg(long, value_name = "START", requires = "rotate", value_parser = ["principal", "random"])]
    rotate_start: Option<String>,
    /// The most rounds of k-means
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// The seed of all random choices
    #[arg(long, default_value_t = 1234)]
    seed: u32,
    /// The first centroids of k-means: random vectors, or vectors that are far from each other (k-means++)
    #[arg(long, value_name = "START", default_value = "random", value_parser = ["random", "spread"])]
    start: String,
    /// Scale the centroids to length 1 in each round of k-means, as for cosine: for ip, if vectors differ little in length
    #[arg(long)]
    spherical: bool,
    /// Lists whose centroids come first and stay as they are
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Lists of other vectors whose centroids and codebook are taken as they are, without training: `boxwork add --merge` joins such lists
    #[arg(long, value_name = "FILE", conflicts_with_all = ["lists", "codes", "parts", "bits", "iterations", "seed", "start", "spherical", "keep", "rotate", "rotate_start", "device"])]
    like: Option<PathBuf>,
    /// Devices that find the nearest centroids of vectors: auto, cpu, gpu, or gpu: and the numbers of `boxwork devices`
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = device)]
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
    let mut values = BTreeMap::from([
        ("store".to_owned(), path_value(&arguments.store)),
        ("out".to_owned(), path_value(&arguments.out)),
        ("distance".to_owned(), Value::Text(arguments.distance.clone())),
        ("codes".to_owned(), Value::Text(arguments.codes.clone())),
        ("iterations".to_owned(), whole(arguments.iterations)),
        ("seed".to_owned(), whole(arguments.seed)),
        ("start".to_owned(), Value::Text(arguments.start.clone())),
        ("device".to_owned(), Value::Text(arguments.device.clone())),
        ("spherical".to_owned(), Value::Boolean(arguments.spherical)),
    ]);
    values.extend(arguments.lists.map(|lists| ("lists".to_owned(), whole(lists))));
    values.extend(arguments.parts.map(|parts| ("parts".to_owned(), whole(parts))));
    values.extend(arguments.bits.map(|bits| ("bits".to_owned(), whole(bits))));
    values.extend(arguments.rotate.map(|to| ("rotate".to_owned(), whole(to))));
    let start = arguments.rotate_start.as_ref();
    values.extend(start.map(|start| ("rotate_start".to_owned(), Value::Text(start.clone()))));
    values.extend(arguments.keep.as_ref().map(|path| ("keep".to_owned(), path_value(path))));
    values.extend(arguments.like.as_ref().map(|path| ("like".to_owned(), path_value(path))));
    let exit = run_shipped("lists", shipped::VECTOR_LISTS, catalog, &values, &arguments.options).exit;
    if matches!(exit, Exit::Ok) {
        say(format_args!("wrote {}", arguments.out.display()));
    }
    exit
}
