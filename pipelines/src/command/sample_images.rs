//! `boxwork sample-images`: a labelled set of procedural pictures to try retrieval on.

use std::path::PathBuf;

use boxwork_lab::sample_images::{CLASSES_COUNT_MAX, PER_CLASS_DEFAULT, SampleSet};
use indicatif::{ProgressBar, ProgressStyle};

use super::say;
use crate::terminal::Exit;

/// Draws a folder of labelled pictures to try retrieval on; equal seeds give equal bytes
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The folder, which is created if needed, with one folder per class in it
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The number of classes
    #[arg(long, value_name = "N", default_value_t = CLASSES_COUNT_MAX)]
    classes: usize,
    /// The number of pictures per class
    #[arg(long, value_name = "M", default_value_t = PER_CLASS_DEFAULT)]
    per_class: usize,
    /// Another seed gives other pictures of these classes
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Exit {
    let set = match SampleSet::new(arguments.classes, arguments.per_class, arguments.seed) {
        Ok(set) => set,
        Err(error) => {
            say(format_args!("error: {error}"));
            return Exit::Usage;
        }
    };
    let bar = ProgressBar::new((set.classes * set.per_class) as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} pictures, {eta} left") {
        bar.set_style(style);
    }
    let written = set.write(&arguments.folder, &mut |done, _| bar.set_position(done as u64));
    bar.finish_and_clear();
    match written {
        Ok(summary) => {
            let mebibytes = summary.bytes as f64 / f64::from(1 << 20);
            let folder = arguments.folder.display();
            say(format_args!(
                "wrote {} pictures in {} classes ({mebibytes:.1} MiB) below {folder}",
                summary.images, summary.classes
            ));
            Exit::Ok
        }
        Err(error) => {
            say(format_args!("error: {error}"));
            Exit::Failed
        }
    }
}
