//! `boxwork pipelines`: the shipped pipelines, or the text of one.

use boxwork_runtime::parameter::nearest;

use super::{Format, data, data_json};
use crate::shipped::{self, Shipped};
use crate::terminal::{Exit, say};

/// Lists the shipped pipelines, which run by their names from any folder, or prints one
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// The form of the list
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Prints the text of a shipped pipeline, to read it or to change a copy
    Show {
        /// Its name
        name: String,
    },
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Exit {
    match (&arguments.action, arguments.format) {
        (Some(Action::Show { name }), _) => show(name),
        (None, Format::Text) => data(&shipped::list_text()),
        (None, Format::Json) => data_json(&shipped::list_json()),
    }
}

fn show(name: &str) -> Exit {
    if let Some(shipped) = shipped::find(name) {
        return data(shipped.text);
    }
    let help = match nearest(name, shipped::ALL.iter().map(Shipped::name)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`boxwork pipelines` lists all".to_owned(),
    };
    say(format_args!("error: there is no shipped pipeline `{name}`; {help}"));
    Exit::Usage
}
