//! The reference pages of the guide, made from the tables behind `boxwork boxes` and from the flags of the command.
//!
//! Pages are Markdown. They depend on the catalogue and the command line alone: each machine makes equal ones.

use std::fmt::Write as _;

use boxwork_runtime::descriptor::Descriptor;
use boxwork_runtime::operator::{Catalog, Join, Kind, OperatorEntry, ResourceSpec};
use boxwork_runtime::parameter::{Default, Parameter};

use crate::catalogue;

const NOTE: &str = "<!-- Made by `boxwork reference FOLDER`; do not edit. -->";

/// The page of all operators and kinds of resource.
pub fn boxes(catalog: &Catalog) -> String {
    let mut page = format!(
        "{NOTE}\n\n# Boxes and resources\n\nEvery operator and every kind of resource, with ports, columns and \
         parameters. `boxwork boxes NAME` prints one of them. Columns are those of the default values: a few operators \
         give others if a parameter such as `holds` is set.\n"
    );
    let mut operators: Vec<_> = catalog.operators().iter().collect();
    operators.sort_by(|a, b| a.name.cmp(&b.name));
    page += "\n## Operators\n\n| kind | use |\n|---|---|\n";
    for spec in &operators {
        let _ = writeln!(page, "| [`{0}`](#{0}) | {1} |", spec.name, in_table(&spec.about));
    }
    operators.into_iter().for_each(|spec| operator(&mut page, spec));
    let mut resources: Vec<_> = catalog.resources().iter().collect();
    resources.sort_by_key(|spec| spec.name);
    page += "\n## Kinds of resource\n\n| kind | use |\n|---|---|\n";
    for spec in &resources {
        let anchor = anchor(catalog, spec.name);
        let _ = writeln!(page, "| [`{}`](#{anchor}) | {} |", spec.name, in_table(spec.about));
    }
    resources.into_iter().for_each(|spec| resource(&mut page, spec));
    page
}

/// The anchor of a kind of resource. An operator of equal name comes first, and the second of equal titles has a number.
fn anchor(catalog: &Catalog, resource: &str) -> String {
    if catalog.operator(resource).is_some() { format!("{resource}-1") } else { resource.to_owned() }
}

fn operator(page: &mut String, spec: &OperatorEntry) {
    let copies = match spec.kind {
        Kind::Stateless => "It may have copies, which may change the order of its rows.",
        Kind::Ordered => "It may have copies, and they keep the order of its rows.",
        Kind::Stateful => "It has one copy.",
    };
    let _ = writeln!(page, "\n### `{}`\n\n{} {copies}", spec.name, escaped(&spec.about));
    if let Some(class) = &spec.blocking {
        let _ = writeln!(page, "It takes a permit of the blocking class `{class}` before it starts.");
    }
    let defaults = catalogue::defaults(&spec.parameters);
    for port in &spec.inputs {
        let mut details = vec![port.mode.to_string()];
        details.extend((!port.required).then(|| "optional".to_owned()));
        let least = port.envelopes_min;
        details.extend((least > 1).then(|| format!("at least {least} envelopes on its edge")));
        let _ = writeln!(page, "\nInput `{}` ({}): {}", port.name, details.join(", "), escaped(&port.about));
        columns(page, &(port.descriptor)(&defaults));
    }
    for port in &spec.outputs {
        let _ = writeln!(page, "\nOutput `{}`: {}", port.name, escaped(&port.about));
        columns(page, &(port.descriptor)(&defaults));
    }
    parameters(page, &spec.parameters);
    let mut hint = |verb: &str, name: &str, join, about: &str| {
        let join = match join {
            Join::Minimum => "minimum",
            Join::Maximum => "maximum",
        };
        let _ = writeln!(page, "\nHint: {verb} `{name}` ({join}): {}", escaped(about));
    };
    spec.hints_read.iter().for_each(|read| hint("reads", &read.name, read.join, &read.about));
    spec.hints_written.iter().for_each(|written| hint("writes", &written.name, written.join, &written.about));
    example(page, &spec.example);
}

fn resource(page: &mut String, spec: &ResourceSpec) {
    let _ = writeln!(page, "\n### `{}`\n\nA kind of resource. {}", spec.name, escaped(spec.about));
    parameters(page, spec.parameters);
    example(page, spec.example);
}

fn columns(page: &mut String, descriptor: &Descriptor) {
    if descriptor.columns().is_empty() {
        return;
    }
    *page += "\n| column | type | meaning |\n|---|---|---|\n";
    for column in descriptor.columns() {
        let kind = in_table(&format!("`{}`", column.kind));
        let _ = writeln!(page, "| `{}` | {kind} | {} |", column.name, in_table(column.about));
    }
}

fn parameters(page: &mut String, parameters: &[Parameter]) {
    if parameters.is_empty() {
        return;
    }
    *page += "\n| parameter | type and range | default | meaning |\n|---|---|---|---|\n";
    for parameter in parameters {
        let unit = if parameter.unit.is_empty() { String::new() } else { format!(", in {}", parameter.unit) };
        let batched = if parameter.batched { "; many are split over requests" } else { "" };
        let default = match (parameter.default, parameter.default.value()) {
            (Default::Required, _) => "required".to_owned(),
            (_, None) => "none".to_owned(),
            (_, Some(value)) => format!("`{value}`"),
        };
        let kind = in_table(&format!("{}{unit}{batched}", parameter.kind));
        let about = in_table(parameter.about);
        let _ = writeln!(page, "| `{}` | {kind} | {} | {about} |", parameter.name, in_table(&default));
    }
}

fn example(page: &mut String, example: &str) {
    if !example.is_empty() {
        // A part of a pipeline: the test of the guide checks whole ones.
        let _ = writeln!(page, "\n```yaml,part\n{}\n```", example.trim_end());
    }
}

/// The page of all commands with their arguments and options.
pub fn commands(command: &clap::Command) -> String {
    let mut command = command.clone();
    command.build();
    let mut page = format!("{NOTE}\n\n# Commands\n\n{}.\n\n", sentence(command.get_about()));
    page += "| command | use |\n|---|---|\n";
    let shown: Vec<_> = command.get_subcommands().filter(|found| found.get_name() != "help").collect();
    for found in &shown {
        let (name, about) = (found.get_name(), sentence(found.get_about()));
        let _ = writeln!(page, "| [`boxwork {name}`](#boxwork-{name}) | {} |", in_table(&about));
    }
    if let Some(status) = command.get_after_help() {
        let _ = writeln!(page, "\n{}", escaped(&status.to_string()));
    }
    shown.into_iter().for_each(|found| one_command(&mut page, "boxwork", found));
    page
}

fn one_command(page: &mut String, above: &str, command: &clap::Command) {
    let path = format!("{above} {}", command.get_name());
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let paragraphs = about.split("\n\n").map(one_line).filter(|paragraph| !paragraph.is_empty());
    let _ = writeln!(page, "\n## `{path}`");
    for paragraph in paragraphs {
        // The first line of a help has no full stop.
        let stop = if paragraph.ends_with(['.', ':', '?']) { "" } else { "." };
        let _ = writeln!(page, "\n{}{stop}", escaped(&paragraph));
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    let _ = writeln!(page, "\n```text\n{usage}\n```");
    let is_shown = |found: &&clap::Arg| !found.is_hide_set() && found.get_id() != "help";
    let arguments = command.get_arguments().filter(is_shown);
    let (positional, options): (Vec<_>, Vec<_>) = arguments.partition(|found| found.is_positional());
    for (title, list) in [("argument", positional), ("option", options)] {
        if !list.is_empty() {
            let _ = writeln!(page, "\n| {title} | meaning |\n|---|---|");
        }
        for found in list {
            let _ =
                writeln!(page, "| {} | {} |", in_table(&format!("`{}`", spelling(found))), meaning(found));
        }
    }
    if let Some(help) = command.get_after_help() {
        let _ = writeln!(page, "\n```text\n{}\n```", help.to_string().trim());
    }
    for below in command.get_subcommands().filter(|found| found.get_name() != "help") {
        one_command(page, &path, below);
    }
}

/// An argument as it is typed.
fn spelling(found: &clap::Arg) -> String {
    let names: Vec<String> = found.get_value_names().into_iter().flatten().map(ToString::to_string).collect();
    let values = if found.get_action().takes_values() { names.join(" ") } else { String::new() };
    if found.is_positional() {
        return values;
    }
    let short = found.get_short().map(|short| format!("-{short}"));
    let long = found.get_long().map(|long| format!("--{long}"));
    let flags: Vec<String> = short.into_iter().chain(long).collect();
    format!("{} {values}", flags.join(", ")).trim_end().to_owned()
}

/// The help of an argument with its values and its default, as a cell of a table.
fn meaning(found: &clap::Arg) -> String {
    let mut text = sentence(found.get_help());
    let values = found.get_possible_values();
    if !values.is_empty() && found.get_action().takes_values() {
        let values: Vec<_> = values.iter().map(|value| format!("`{}`", value.get_name())).collect();
        let _ = write!(text, "; one of {}", values.join(", "));
    }
    let defaults: Vec<_> =
        found.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if !defaults.is_empty() && found.get_action().takes_values() {
        let _ = write!(text, "; default {}", defaults.join(", "));
    }
    in_table(&text)
}

/// A help text on one line.
fn sentence(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(|text| one_line(&text.to_string())).unwrap_or_default()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text in which Markdown sees no HTML; parts between backticks stay.
fn escaped(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(nth, part)| match nth % 2 {
        0 => part.replace('<', "&lt;").replace('*', "\\*").replace('_', "\\_").replace('[', "\\["),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("`")
}

/// A text as a cell of a table.
fn in_table(text: &str) -> String {
    escaped(text).replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::{boxes, commands, escaped, in_table};

    #[test]
    fn a_cell_has_no_markup_but_code() {
        assert_eq!(in_table("a <b> `<c>|d` x_y"), "a &lt;b> `<c>\\|d` x\\_y");
        assert_eq!(escaped("[x](y)"), "\\[x](y)");
    }

    #[test]
    fn every_operator_and_command_has_its_part() {
        let catalog = boxwork_operators::catalog();
        let page = boxes(&catalog);
        for spec in catalog.operators() {
            assert!(page.contains(&format!("\n### `{}`\n", spec.name)), "{}", spec.name);
        }
        let command = clap::Command::new("boxwork").subcommand(
            clap::Command::new("look").about("Looks").arg(
                clap::Arg::new("at")
                    .long("at")
                    .short('a')
                    .value_name("PLACE")
                    .default_value("here")
                    .help("Aim"),
            ),
        );
        let page = commands(&command);
        assert!(
            page.contains("## `boxwork look`") && page.contains("| `-a, --at PLACE` | Aim; default `here` |")
        );
    }
}
