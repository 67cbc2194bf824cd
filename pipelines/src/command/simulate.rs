//! `boxwork simulate`: how much feedback finds for simulated users, with `pipelines/simulate.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;

use super::{Space, device, path_value, run_shipped, whole};
use crate::command::feedback::{KERNELS, Sketches};
use crate::shipped;
use crate::terminal::{Exit, Options};

/// Measures how much feedback finds for simulated users, who each look for one class of a labelled store
///
/// A user likes one object of the class to begin with, or begins with a first screen, and then judges each object of each
/// round by its class. Every method meets the same users. Sessions are the same for any number of workers.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The store; an object's class is the folder in its name
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// Whom to simulate: users who look for one class
    #[arg(long, default_value = "class", value_parser = ["class"])]
    protocol: String,
    /// The methods to compare
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "random,nearest,gp_mean,gp_bucb",
        value_parser = ["random", "nearest", "gp_mean", "gp_ucb", "gp_bucb"]
    )]
    methods: Vec<String>,
    /// Users of each class
    #[arg(long, value_name = "N", default_value_t = 100)]
    seeds: u32,
    /// Rounds of a session
    #[arg(long, value_name = "N", default_value_t = 15)]
    rounds: u32,
    /// Objects of a round
    #[arg(long, value_name = "N", default_value_t = 12)]
    batch: u32,
    /// From 0, more like these, to 2, surprise me
    #[arg(long, value_name = "B", default_value_t = 0.25)]
    explore: f64,
    /// The beginning: a liked object of the class, or a first screen of random or of spread objects
    #[arg(long, default_value = "query", value_parser = ["query", "random", "spread"])]
    first: String,
    /// The share of judgements that are wrong
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    flips: f64,
    /// The share of relevant objects that are liked; below 1 no object is disliked
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    clicks: f64,
    /// What it means that an object was shown and not judged: probably not relevant (weak), or nothing (ignore)
    #[arg(long, default_value = "weak", value_parser = ["weak", "ignore"])]
    unmarked: String,
    /// Members that the class has for its users [default: all]
    #[arg(long, value_name = "N")]
    rare: Option<u32>,
    /// The classes [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    classes: Vec<String>,
    /// The users
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
    #[command(flatten)]
    space: Space,
    /// Where to compute the distances of all pairs: auto, cpu, gpu, or gpu: and device numbers
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
    let text = |text: &str| Value::Text(text.to_owned());
    let texts = |texts: &[String]| Value::List(texts.iter().cloned().map(Value::Text).collect());
    let mut values = BTreeMap::from([
        ("store".to_owned(), path_value(&arguments.store)),
        ("methods".to_owned(), texts(&arguments.methods)),
        ("seeds".to_owned(), whole(arguments.seeds)),
        ("rounds".to_owned(), whole(arguments.rounds)),
        ("batch".to_owned(), whole(arguments.batch)),
        ("explore".to_owned(), Value::Number(arguments.explore)),
        ("first".to_owned(), text(&arguments.first)),
        ("flips".to_owned(), Value::Number(arguments.flips)),
        ("clicks".to_owned(), Value::Number(arguments.clicks)),
        ("unmarked".to_owned(), text(&arguments.unmarked)),
        ("classes".to_owned(), texts(&arguments.classes)),
        ("seed".to_owned(), whole(arguments.seed)),
        ("kernel".to_owned(), text(&arguments.kernel)),
        ("device".to_owned(), text(&arguments.device)),
        ("format".to_owned(), text(&arguments.format)),
    ]);
    values.extend(arguments.rare.map(|rare| ("rare".to_owned(), whole(rare))));
    values.extend(arguments.length.map(|length| ("length".to_owned(), Value::Number(length))));
    arguments.sketches.give(&mut values);
    arguments.space.give(&mut values);
    run_shipped("simulate", shipped::SIMULATE, catalog, &values, &arguments.options).exit
}
