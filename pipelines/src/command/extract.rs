//! `boxwork extract`: images to a signature store, by `pipelines/extract.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use boxwork_kernels::extract::Preset;
use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;

use super::{Replacing, device, path_value, run_shipped, say, whole, wrote};
use crate::shipped;
use crate::terminal::{Exit, Options};

/// Extracts the signatures of images (jpeg, png, bmp, gif, tiff, webp) into a store
///
/// Pictures that cannot be read (other kinds such as heic, damaged files, files of a folder without an ending) are
/// skipped and counted; the store is written, and the exit status is 1. Hidden files and files that are no pictures are
/// counted too, and do not change the status. A file that is named itself is read whatever its ending.
///
/// If a run is interrupted, the same call continues it: what it has done is in FILE.partial until the store is written.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folders, searched with all subfolders, or images
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The store to write, such as photos.signatures.arrow
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Sampling points per image [default: of the transform]
    #[arg(long)]
    points: Option<u32>,
    /// The distribution of the points: gaussian, uniform or grid
    #[arg(long, default_value = "gaussian")]
    distribution: String,
    /// Standard deviation of gaussian points, in image sides [default: of the transform]
    #[arg(long)]
    sigma: Option<f64>,
    /// The seed for the points
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Width and height of the scaled images, in pixels
    #[arg(long, default_value_t = 150)]
    size: u32,
    /// Grey levels that texture distinguishes [default: of the transform]
    #[arg(long)]
    grey_levels: Option<u32>,
    /// Half a texture window, in pixels
    #[arg(long, default_value_t = 3)]
    radius: u32,
    /// The preset: the weights of the features, all settings that are not given, and alpha
    #[arg(long, value_name = "PRESET", default_value = Preset::NAMES[0], value_parser = Preset::NAMES)]
    transform: String,
    /// Factors of x, y, L, a, b, contrast and entropy, instead of the transform's
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    multiplier: Vec<f64>,
    /// Samples that seed the clusters [default: of the transform]
    #[arg(long)]
    seeds: Option<u32>,
    /// Rounds of clustering [default: of the transform]
    #[arg(long)]
    iterations: Option<u32>,
    /// Samples that a cluster must hold, times the round's number [default: of the transform]
    #[arg(long)]
    cluster_min: Option<u32>,
    /// Clusters nearer than this are joined
    #[arg(long, default_value_t = 0.2)]
    join_distance: f64,
    /// The distance of the clustering: l1, l2 or linf
    #[arg(long, default_value = "l2")]
    ground: String,
    /// The most centroids of a signature
    #[arg(long, default_value_t = 768)]
    cap: u32,
    /// The alpha that the store keeps: searches, indexes and evaluations use it unless they name another [default: of the transform]
    #[arg(long, value_name = "A")]
    alpha: Option<f64>,
    /// Where to extract: auto, cpu, gpu, or gpu: and the numbers of `boxwork devices`
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = device)]
    device: String,
    /// Start anew, if an interrupted extraction into this file has left a part of its work
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    replacing: Replacing,
    #[command(flatten)]
    options: Options,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    if let Err(exit) = arguments.replacing.admit_store(&arguments.out, None) {
        return exit;
    }
    let paths = arguments.paths.iter().map(|path| path_value(path)).collect();
    let mut values = BTreeMap::from([
        ("paths".to_owned(), Value::List(paths)),
        ("out".to_owned(), path_value(&arguments.out)),
        ("distribution".to_owned(), Value::Text(arguments.distribution.clone())),
        ("transform".to_owned(), Value::Text(arguments.transform.clone())),
        ("ground".to_owned(), Value::Text(arguments.ground.clone())),
        ("device".to_owned(), Value::Text(arguments.device.clone())),
        ("join_distance".to_owned(), Value::Number(arguments.join_distance)),
    ]);
    for (name, value) in [
        ("points", arguments.points),
        ("seed", Some(arguments.seed)),
        ("size", Some(arguments.size)),
        ("grey_levels", arguments.grey_levels),
        ("radius", Some(arguments.radius)),
        ("seeds", arguments.seeds),
        ("iterations", arguments.iterations),
        ("cluster_min", arguments.cluster_min),
        ("cap", Some(arguments.cap)),
    ] {
        values.extend(value.map(|value| (name.to_owned(), whole(value))));
    }
    for (name, value) in [("sigma", arguments.sigma), ("alpha", arguments.alpha)] {
        values.extend(value.map(|value| (name.to_owned(), Value::Number(value))));
    }
    if !arguments.multiplier.is_empty() {
        let numbers = arguments.multiplier.iter().copied().map(Value::Number).collect();
        values.insert("multiplier".to_owned(), Value::List(numbers));
    }
    // Signatures depend on these, on the numbers of the preset, and on the program.
    let device_free = values.iter().filter(|(name, _)| !["paths", "out", "device"].contains(&name.as_str()));
    let settings: Vec<String> = device_free.map(|(name, value)| format!("{name}={value:?}")).collect();
    let preset = Preset::named(&arguments.transform);
    let settings = format!("boxwork {}: {}; {preset:?}", env!("CARGO_PKG_VERSION"), settings.join(", "));
    values.insert("settings".to_owned(), Value::Text(settings));
    values.insert("restart".to_owned(), Value::Boolean(arguments.restart));
    // One folder: the names are paths in it, so that a page can show the pictures.
    if let [folder] = &arguments.paths[..]
        && folder.is_dir()
    {
        values.insert("source".to_owned(), path_value(folder));
    }
    let summary = run_shipped("extract", shipped::EXTRACT, catalog, &values, &arguments.options);
    if summary.is_done() {
        wrote(&arguments.out, "image", &summary);
    }
    let mut partial = arguments.out.clone().into_os_string();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    if summary.exit == Exit::Interrupted && partial.exists() {
        say(format_args!("what is done is in {}: the same call continues", partial.display()));
    }
    summary.exit
}
