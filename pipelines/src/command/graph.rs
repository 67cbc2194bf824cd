//! `boxwork graph`: a drawing of a pipeline, even of a broken one.

use std::path::PathBuf;

use boxwork_runtime::operator::Catalog;
use clap::ValueEnum;

use super::{data, read_with_values, say};
use crate::run_report::RunReport;
use crate::terminal::Exit;
use crate::{diagnostic, drawing, given};

/// The language of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Language {
    /// For Markdown files
    Mermaid,
    /// For Graphviz
    Dot,
    /// For browsers
    Svg,
}

/// Draws a pipeline, missing and wrong parts in red
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The pipeline: a YAML file, or the name of a shipped pipeline (`boxwork pipelines` lists them)
    pipeline: PathBuf,
    /// The language of the drawing
    #[arg(long, value_enum, default_value_t = Language::Mermaid)]
    format: Language,
    /// Add a run's figures: a file that `boxwork run --report` wrote
    #[arg(long = "with", value_name = "REPORT")]
    report: Option<PathBuf>,
    /// Give a parameter of the pipeline its value, such as one that is a box's kind
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = given::name_and_value)]
    settings: Vec<(String, String)>,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let (loaded, values) = match read_with_values(&arguments.pipeline, &arguments.settings) {
        Ok(read) => read,
        Err(exit) => return exit,
    };
    let mut drawn = drawing::draw(&loaded, catalog, &values);
    if let Some(path) = &arguments.report {
        match RunReport::read(path) {
            Ok(report) => {
                for strange in drawn.measure(&report) {
                    say(format_args!("warning: {strange}"));
                }
            }
            Err(error) => {
                say(format_args!("error: {error}"));
                return Exit::Usage;
            }
        }
    }
    let written = data(&match arguments.format {
        Language::Mermaid => drawing::mermaid(&drawn),
        Language::Dot => drawing::dot(&drawn),
        Language::Svg => drawing::svg(&drawn),
    });
    let (_, diagnostics) = loaded.check(catalog, &values);
    let (errors, _) = diagnostic::counts(&diagnostics);
    if errors == 0 {
        return written;
    }
    for diagnostic in diagnostics.iter().filter(|diagnostic| diagnostic.is_error()) {
        say(format_args!("{diagnostic}"));
    }
    say(format_args!("drawn with {}; `boxwork check` tells more", diagnostic::summary(&diagnostics)));
    Exit::Problems
}
