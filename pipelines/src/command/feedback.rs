//! `boxwork feedback`: the objects to show next, by judgements of some, with `pipelines/feedback.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;

use super::{Space, device, path_value, run_shipped, say, whole};
use crate::shipped;
use crate::terminal::{Exit, Options};

/// Finds the objects to show next, by judgements of those shown before
///
/// The answer to one round: objects that are probably liked, and a few of which little is known. Without a judgement they
/// are spread over the store. Objects that were shown and not judged count as probably not liked.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The store to search
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// An object that is liked: a name, # and an id, or an image; may be given many times
    #[arg(long = "like", value_name = "OBJECT")]
    likes: Vec<String>,
    /// An object that is not; may be given many times
    #[arg(long = "dislike", value_name = "OBJECT")]
    dislikes: Vec<String>,
    /// A judgement between: an object, =, and a relevance from 0 to 1; may be given many times
    #[arg(long = "mark", value_name = "OBJECT=RELEVANCE")]
    marks: Vec<String>,
    /// An object that was shown: it is not shown again; may be given many times
    #[arg(long, value_name = "OBJECT")]
    seen: Vec<String>,
    /// What it means that an object was shown and not judged: probably not relevant (weak), or nothing (ignore)
    #[arg(long, default_value = "weak", value_parser = ["weak", "ignore"])]
    unmarked: String,
    /// The number of objects to show
    #[arg(long, value_name = "N", default_value_t = 12)]
    batch: u32,
    /// From 0, more like these, to 2, surprise me
    #[arg(long, value_name = "B", default_value_t = 0.25)]
    explore: f64,
    /// Only objects whose last folder has this name, or whose names begin with it if it ends in /
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    /// The choice of the first object where there is no judgement
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u32,
    /// The covariance of two objects
    #[arg(long, default_value = "inverse_multiquadric", value_parser = KERNELS)]
    kernel: String,
    /// The length of the covariance [default: by the median distance of random pairs]
    #[arg(long, value_name = "L")]
    length: Option<f64>,
    #[command(flatten)]
    sketches: Sketches,
    /// The place that bounds sketches, or computes exact distances of large stores: auto, cpu, gpu, or gpu: and the numbers of `boxwork devices`
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = device)]
    device: String,
    #[command(flatten)]
    space: Space,
    /// The format of the results
    #[arg(long, default_value = "table", value_parser = ["table", "json", "csv", "html"])]
    format: String,
    /// The file to write; - is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    #[command(flatten)]
    options: Options,
}

/// Where the bounds of objects come from.
#[derive(Debug, clap::Args)]
pub(super) struct Sketches {
    /// The sketches of the store, made by `boxwork sketch`: they bound objects, if there are more than 4096
    #[arg(long, value_name = "FILE")]
    sketch: Option<PathBuf>,
    /// Bounds from exact distances or from sketches; auto: by the number of objects
    #[arg(long, default_value = "auto", value_parser = ["auto", "exact", "sketch"])]
    mode: String,
    /// The objects among which the choice is made by exact distances, if sketches bound them
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=32_768))]
    rerank: u32,
}

impl Sketches {
    /// Gives the values to a pipeline.
    pub(super) fn give(&self, values: &mut BTreeMap<String, Value>) {
        values.extend(self.sketch.as_deref().map(|path| ("sketch".to_owned(), path_value(path))));
        values.insert("mode".to_owned(), Value::Text(self.mode.clone()));
        values.insert("rerank".to_owned(), whole(self.rerank));
    }
}

/// The covariances.
pub(super) const KERNELS: [&str; 4] = ["inverse_multiquadric", "gaussian", "exponential", "laplacian"];

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let marked = |objects: &[String], relevance: u32| {
        objects.iter().map(move |object| format!("{object}={relevance}")).collect::<Vec<_>>()
    };
    let marks =
        [marked(&arguments.likes, 1), marked(&arguments.dislikes, 0), arguments.marks.clone()].concat();
    let texts = |texts: Vec<String>| Value::List(texts.into_iter().map(Value::Text).collect());
    let text = |text: &str| Value::Text(text.to_owned());
    let mut values = BTreeMap::from([
        ("store".to_owned(), path_value(&arguments.store)),
        ("marks".to_owned(), texts(marks)),
        ("seen".to_owned(), texts(arguments.seen.clone())),
        ("unmarked".to_owned(), text(&arguments.unmarked)),
        ("batch".to_owned(), whole(arguments.batch)),
        ("explore".to_owned(), Value::Number(arguments.explore)),
        ("seed".to_owned(), whole(arguments.seed)),
        ("kernel".to_owned(), text(&arguments.kernel)),
        ("format".to_owned(), text(&arguments.format)),
        ("device".to_owned(), text(&arguments.device)),
        ("out".to_owned(), path_value(&arguments.out)),
    ]);
    arguments.sketches.give(&mut values);
    values.extend(arguments.class.as_deref().map(|class| ("class".to_owned(), text(class))));
    values.extend(arguments.length.map(|length| ("length".to_owned(), Value::Number(length))));
    arguments.space.give(&mut values);
    let exit = run_shipped("feedback", shipped::FEEDBACK, catalog, &values, &arguments.options).exit;
    if exit == Exit::Ok && arguments.out.as_os_str() != "-" {
        say(format_args!("wrote {}", arguments.out.display()));
    }
    exit
}
