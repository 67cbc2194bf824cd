//! `boxwork denoise`: pictures without their noise, by `pipelines/denoise.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use boxwork_kernels::denoise::{FRAMES_MAX, Profile, StackTransform, Transform};
use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;

use super::{device, path_value, run_shipped, say, whole};
use crate::shipped;
use crate::terminal::{Exit, Options};

/// Removes noise from pictures (jpeg, png, bmp, tiff, webp) and writes them below a folder
///
/// Names, depth and alpha stay. JPEG and TIFF keep their format, others become PNG. Pictures that cannot be read, and
/// animations, are skipped and counted; the exit status is then 1. The results have the same bytes on every machine.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folders, searched with all subfolders, or images
    #[arg(required = true, value_name = "IN")]
    paths: Vec<PathBuf>,
    /// The folder to write, which must not lie in IN
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// The noise's standard deviation in grey levels of 0 to 255, or auto: estimated for each picture
    #[arg(long, value_name = "S", default_value = "auto", value_parser = deviation)]
    sigma: Sigma,
    /// The settings: default, fast, high (best), strong (noise), or seed (a published program's)
    #[arg(long, value_name = "NAME", default_value = Profile::NAMES[0], value_parser = Profile::NAMES)]
    profile: String,
    /// The transform of patches in the first phase [default: the profile's]
    #[arg(long, value_name = "NAME", value_parser = Transform::NAMES)]
    transform_1: Option<String>,
    /// The transform of patches in the second phase [default: the profile's]
    #[arg(long, value_name = "NAME", value_parser = Transform::NAMES)]
    transform_2: Option<String>,
    /// The transform along stacks of patches
    #[arg(long, value_name = "NAME", default_value = StackTransform::NAMES[0], value_parser = StackTransform::NAMES)]
    stack_transform: String,
    /// The phases to run: 1 takes a third of the time of 2
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    phases: u32,
    /// Whether colours share the patches that are similar in brightness: together or apart
    #[arg(long, value_name = "HOW", default_value = "together", value_parser = ["together", "apart"])]
    colour: String,
    /// Where to denoise: auto, cpu, gpu, or gpu: and the numbers of `boxwork devices`
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = device)]
    device: String,
    /// The pictures are the frames of one video in the order of their names: patches of N frames before and after a frame
    /// take part, such as 4; 0 for pictures by themselves
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=FRAMES_MAX as i64))]
    frames: u32,
    /// The format of the files: auto, png, jpeg or tiff
    #[arg(long, value_name = "FORMAT", default_value = "auto", value_parser = ["auto", "png", "jpeg", "tiff"])]
    format: String,
    /// The quality of JPEG
    #[arg(long, value_name = "Q", default_value_t = 95, value_parser = clap::value_parser!(u32).range(1..=100))]
    quality: u32,
    /// Fail, skip or replace, if a file is there already
    #[arg(long, value_name = "HOW", default_value = "fail", value_parser = ["fail", "skip", "replace"])]
    exists: String,
    /// A page that shows the pictures before and after, such as page.html
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

/// The deviation; nothing if it is to be estimated.
type Sigma = Option<f64>;

fn deviation(text: &str) -> Result<Sigma, String> {
    if text == "auto" {
        return Ok(None);
    }
    match text.parse::<f64>() {
        Ok(sigma) if sigma > 0.0 && sigma.is_finite() => Ok(Some(sigma)),
        _ => Err("the deviation of noise is a number above 0, such as 25, or auto".to_owned()),
    }
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let paths = arguments.paths.iter().map(|path| path_value(path)).collect();
    let text = |text: &String| Value::Text(text.clone());
    let mut values = BTreeMap::from([
        ("in".to_owned(), Value::List(paths)),
        ("out".to_owned(), path_value(&arguments.out)),
        ("profile".to_owned(), text(&arguments.profile)),
        ("stack_transform".to_owned(), text(&arguments.stack_transform)),
        ("phases".to_owned(), whole(arguments.phases)),
        ("colour".to_owned(), text(&arguments.colour)),
        ("device".to_owned(), text(&arguments.device)),
        ("frames".to_owned(), whole(arguments.frames)),
        ("format".to_owned(), text(&arguments.format)),
        ("quality".to_owned(), whole(arguments.quality)),
        ("exists".to_owned(), text(&arguments.exists)),
    ]);
    values.extend(arguments.sigma.map(|sigma| ("sigma".to_owned(), Value::Number(sigma))));
    values.extend(arguments.transform_1.as_ref().map(|name| ("transform_1".to_owned(), text(name))));
    values.extend(arguments.transform_2.as_ref().map(|name| ("transform_2".to_owned(), text(name))));
    let pipeline = match &arguments.page {
        Some(page) => {
            values.insert("page".to_owned(), path_value(page));
            shipped::DENOISE_PAGE
        }
        None => shipped::DENOISE,
    };
    let summary = run_shipped("denoise", pipeline, catalog, &values, &arguments.options);
    if summary.is_done() {
        say(format_args!("wrote pictures below {} {summary}", arguments.out.display()));
    }
    summary.exit
}
