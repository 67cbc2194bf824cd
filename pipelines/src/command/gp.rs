//! `boxwork gp`: regression by Gaussian processes, with the pipelines `gp_fit`, `gp_predict`, `gp_append` and `gp_score`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;

use super::{Replacing, device, path_value, run_shipped, say, whole};
use crate::shipped::{self, Shipped};
use crate::terminal::{Exit, Options};

/// Regression by Gaussian processes: fits samples, predicts points with deviations
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Fits a Gaussian process to samples
    Fit(Fit),
    /// Predicts points: means, deviations and intervals
    Predict(Predict),
    /// Appends samples to a fitted process; its parameters stay
    Append(Append),
    /// Scores a fitted process by samples that it has not seen
    Score(Score),
}

/// The samples of all subcommands.
#[derive(Debug, clap::Args)]
struct Samples {
    /// The samples: CSV with a header, .npy, or Arrow
    #[arg(long, value_name = "FILE")]
    samples: PathBuf,
    /// The columns of the inputs, divided by commas; those of a .npy file are numbered from 0 [default: those of the model]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    inputs: Vec<String>,
    /// Rows with a number that is missing, NaN or infinite: error ends the run, drop leaves them out
    #[arg(long, default_value = "error", value_parser = ["error", "drop"])]
    missing: String,
}

impl Samples {
    fn values(&self) -> BTreeMap<String, Value> {
        let mut values = BTreeMap::from([
            ("samples".to_owned(), path_value(&self.samples)),
            ("missing".to_owned(), Value::Text(self.missing.clone())),
        ]);
        if !self.inputs.is_empty() {
            let inputs = self.inputs.iter().cloned().map(Value::Text).collect();
            values.insert("inputs".to_owned(), Value::List(inputs));
        }
        values
    }
}

#[derive(Debug, clap::Args)]
struct Fit {
    #[command(flatten)]
    samples: Samples,
    /// The column of the target
    #[arg(long, value_name = "COLUMN")]
    target: String,
    /// The column of the samples' names [default: their lines or rows]
    #[arg(long, value_name = "COLUMN")]
    names: Option<String>,
    /// The covariance of two samples, such as "1 * rbf(l=[1, 1]) + white(0.1)"
    #[arg(long, value_name = "KERNEL", default_value = "1 * rbf() + white(0.1)")]
    kernel: String,
    /// The variance of the targets' noise, beside that of white
    #[arg(long, value_name = "VARIANCE", default_value_t = 0.0)]
    noise: f64,
    /// The term added to the diagonal if covariances are not positive definite: none, a number, or auto
    #[arg(long, value_name = "JITTER", default_value = "auto")]
    jitter: String,
    /// Scale targets to mean 0 and deviation 1
    #[arg(long)]
    normalize: bool,
    /// Find the parameters of the greatest likelihood first
    #[arg(long)]
    optimise: bool,
    /// Random starts of the search beside the given one
    #[arg(long, value_name = "N", default_value_t = 0, requires = "optimise")]
    restarts: u32,
    /// The seed of random starts
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u32,
    /// The numbers of the factor: f64, f32 with weights refined in f64 (mixed), or f32 alone
    #[arg(long, default_value = "f64", value_parser = ["f64", "mixed", "f32"])]
    precision: String,
    /// The most MiB that the matrices may take [default: what is free]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    memory: Option<u32>,
    /// The place where factors and derivatives are computed: auto, cpu, gpu, or gpu: and device numbers
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = device)]
    device: String,
    /// How the matrix comes to a device: in place (map), by copies, or in place if the device shares the host's memory (auto)
    #[arg(long, default_value = "auto", value_parser = ["auto", "map", "copy"])]
    device_memory: String,
    /// Whether slots take some columns of a device's factor: auto: if a GPU shares the host's memory, and they gain more than a twentieth
    #[arg(long, default_value = "auto", value_parser = ["auto", "always", "never"])]
    device_slots: String,
    /// Keep the factor for deviations and appended samples, or alpha alone, for means
    #[arg(long, default_value = "factor", value_parser = ["factor", "alpha"])]
    keep: String,
    /// The model to write, such as hill.gp.arrow
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    replacing: Replacing,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, clap::Args)]
struct Predict {
    /// The model, made by `boxwork gp fit`
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    #[command(flatten)]
    samples: Samples,
    /// The column of the points' names [default: their lines or rows]
    #[arg(long, value_name = "COLUMN")]
    names: Option<String>,
    /// Means alone, which take less time
    #[arg(long)]
    means: bool,
    /// The deviation of the function, or of an observation, which has noise too
    #[arg(long, default_value = "function", value_parser = ["function", "observation"])]
    of: String,
    /// The probability of the interval
    #[arg(long, value_name = "P", default_value_t = 0.95)]
    level: f64,
    /// The place where points are predicted: auto, cpu, gpu, or gpu: and device numbers
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = device)]
    device: String,
    /// The form; html is a page with a plot of mean, interval and data
    #[arg(long, default_value = "table", value_parser = ["table", "csv", "json", "html"])]
    format: String,
    /// The input of the page's horizontal axis, from 1
    #[arg(long, value_name = "N", default_value_t = 1)]
    axis: u32,
    /// The file to write; - is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, clap::Args)]
struct Append {
    /// The model, made by `boxwork gp fit`
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    #[command(flatten)]
    samples: Samples,
    /// The column of the target
    #[arg(long, value_name = "COLUMN")]
    target: String,
    /// The column of the samples' names [default: their lines or rows]
    #[arg(long, value_name = "COLUMN")]
    names: Option<String>,
    /// The model to write [default: the one that is read]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    replacing: Replacing,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, clap::Args)]
struct Score {
    /// The model, made by `boxwork gp fit`
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    #[command(flatten)]
    samples: Samples,
    /// The column of the target
    #[arg(long, value_name = "COLUMN")]
    target: String,
    /// The probability of the intervals whose coverage is counted
    #[arg(long, value_name = "P", default_value_t = 0.95)]
    level: f64,
    /// The place where samples are predicted: auto, cpu, gpu, or gpu: and device numbers
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = device)]
    device: String,
    /// The form of the scores
    #[arg(long, default_value = "table", value_parser = ["table", "json"])]
    format: String,
    /// The file to write; - is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    #[command(flatten)]
    options: Options,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    match &arguments.what {
        What::Fit(fit) => fit.run(catalog),
        What::Predict(predict) => predict.run(catalog),
        What::Append(append) => append.run(catalog),
        What::Score(score) => score.run(catalog),
    }
}

/// Runs a pipeline of `boxwork gp` with these values; says what it wrote, if that is a model.
fn finish(
    pipeline: Shipped,
    catalog: &Catalog,
    values: &BTreeMap<String, Value>,
    options: &Options,
    model: Option<&PathBuf>,
) -> Exit {
    let exit = run_shipped("gp", pipeline, catalog, values, options).exit;
    if let (Exit::Ok, Some(path)) = (exit, model) {
        say(format_args!("wrote {}", path.display()));
    }
    exit
}

fn text(name: &str, text: &str) -> (String, Value) {
    (name.to_owned(), Value::Text(text.to_owned()))
}

impl Fit {
    fn run(&self, catalog: &Catalog) -> Exit {
        if self.samples.inputs.is_empty() {
            say(format_args!("error: --inputs: name the columns of the inputs, such as --inputs x1,x2"));
            return Exit::Usage;
        }
        if let Err(exit) = self.replacing.admit_store(&self.out, Some(&self.samples.samples)) {
            return exit;
        }
        let mut values = self.samples.values();
        values.extend([
            text("target", &self.target),
            text("kernel", &self.kernel),
            text("jitter", &self.jitter),
            text("keep", &self.keep),
            text("precision", &self.precision),
            text("device", &self.device),
            text("device_memory", &self.device_memory),
            text("device_slots", &self.device_slots),
            ("noise".to_owned(), Value::Number(self.noise)),
            ("normalize".to_owned(), Value::Boolean(self.normalize)),
            ("optimise".to_owned(), Value::Boolean(self.optimise)),
            ("restarts".to_owned(), whole(self.restarts)),
            ("seed".to_owned(), whole(self.seed)),
            ("out".to_owned(), path_value(&self.out)),
        ]);
        values.extend(self.names.as_ref().map(|names| text("names", names)));
        values.extend(self.memory.map(|mebibytes| ("memory".to_owned(), whole(mebibytes))));
        finish(shipped::GP_FIT, catalog, &values, &self.options, Some(&self.out))
    }
}

impl Predict {
    fn run(&self, catalog: &Catalog) -> Exit {
        let mut values = self.samples.values();
        values.extend([
            ("model".to_owned(), path_value(&self.model)),
            ("deviation".to_owned(), Value::Boolean(!self.means)),
            text("of", &self.of),
            ("level".to_owned(), Value::Number(self.level)),
            text("device", &self.device),
            text("format", &self.format),
            ("axis".to_owned(), whole(self.axis)),
            ("out".to_owned(), path_value(&self.out)),
        ]);
        values.extend(self.names.as_ref().map(|names| text("names", names)));
        finish(shipped::GP_PREDICT, catalog, &values, &self.options, None)
    }
}

impl Append {
    fn run(&self, catalog: &Catalog) -> Exit {
        let out = self.out.as_ref().unwrap_or(&self.model);
        if self.out.is_some()
            && let Err(exit) = self.replacing.admit_store(out, Some(&self.samples.samples))
        {
            return exit;
        }
        let mut values = self.samples.values();
        values.extend([
            ("model".to_owned(), path_value(&self.model)),
            text("target", &self.target),
            ("out".to_owned(), path_value(out)),
        ]);
        values.extend(self.names.as_ref().map(|names| text("names", names)));
        finish(shipped::GP_APPEND, catalog, &values, &self.options, Some(out))
    }
}

impl Score {
    fn run(&self, catalog: &Catalog) -> Exit {
        let mut values = self.samples.values();
        values.extend([
            ("model".to_owned(), path_value(&self.model)),
            text("target", &self.target),
            ("level".to_owned(), Value::Number(self.level)),
            text("device", &self.device),
            text("format", &self.format),
            ("out".to_owned(), path_value(&self.out)),
        ]);
        finish(shipped::GP_SCORE, catalog, &values, &self.options, None)
    }
}
