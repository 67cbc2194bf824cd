//! `boxwork boxes`: the operators and kinds of resource, or one of them.

use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::nearest;

use super::{Format, data, data_json, say};
use crate::catalogue;
use crate::terminal::Exit;

/// Lists the operators and kinds of resource, or describes one: ports, columns, parameters, an example
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The operator or kind of resource
    name: Option<String>,
    /// The form of the answer
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let Some(name) = &arguments.name else {
        return match arguments.format {
            Format::Text => data(&catalogue::list_text(catalog)),
            Format::Json => data_json(&catalogue::list_json(catalog)),
        };
    };
    let Some(found) = catalogue::find(catalog, name) else {
        let operators = catalog.operators().iter().map(|spec| &*spec.name);
        let names = operators.chain(catalog.resources().iter().map(|spec| spec.name));
        let help = match nearest(name, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`boxwork boxes` lists all".to_owned(),
        };
        say(format_args!("error: there is no operator or kind of resource `{name}`; {help}"));
        return Exit::Usage;
    };
    match arguments.format {
        Format::Text => data(&found.text()),
        Format::Json => data_json(&found.json()),
    }
}
