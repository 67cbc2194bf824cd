//! Checks the flags of a command against the shipped pipeline that it runs.
//!
//! A value that no box takes is a fault of the call, so the message names the flag and the values that fit, and no line of
//! a pipeline that the user never saw.

use std::collections::BTreeMap;

use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::{Parameter, Value};
use boxwork_runtime::plan::{Declaration, Setting};
use clap::{Arg, CommandFactory as _};

use super::CommandLine;

/// Parameters of pipelines whose flags have other names.
const OTHER_NAMES: [(&str, &str); 4] =
    [("queries", "query"), ("count", "pivots"), ("path", "file"), ("from", "file")];

/// The faults of the values that a command gives to its pipeline, each with its flag.
pub(super) fn faults(
    command: &str,
    declaration: &Declaration,
    catalog: &Catalog,
    values: &BTreeMap<String, Value>,
) -> Vec<String> {
    let fault = |(name, value): (&String, &Value)| {
        let declared = declaration.parameters.iter().find(|parameter| parameter.name == *name)?;
        // The box's range first, as it is the narrower one.
        let admitted = takers(declaration, catalog, values, name)
            .try_for_each(|parameter| parameter.kind.admit(value).map(drop))
            .and_then(|()| declared.admit(value).map(drop));
        admitted.err().map(|message| format!("{}: {message}", flag(command, name)))
    };
    values.iter().filter_map(fault).collect()
}

/// The parameters of boxes and resources that take the value of a pipeline's parameter as it is.
fn takers<'a>(
    declaration: &'a Declaration,
    catalog: &'a Catalog,
    values: &'a BTreeMap<String, Value>,
    name: &'a str,
) -> impl Iterator<Item = &'a Parameter> {
    let kind = |kind: &Setting| match kind.resolve(values) {
        Some(Value::Text(kind)) => Some(kind),
        _ => None,
    };
    let resources = declaration.resources.iter().filter_map(move |resource| {
        Some((catalog.resource(&kind(&resource.kind)?)?.parameters, &resource.settings))
    });
    let boxes = declaration.boxes.iter().filter_map(move |of_box| {
        Some((&catalog.operator(&kind(&of_box.kind)?)?.parameters[..], &of_box.settings))
    });
    resources.chain(boxes).flat_map(move |(table, settings)| {
        let given =
            settings.iter().filter(move |(_, setting)| *setting == Setting::Parameter(name.to_owned()));
        given.filter_map(move |(key, _)| table.iter().find(|parameter| parameter.name == key))
    })
}

/// The flag of a pipeline's parameter, as the user writes it.
fn flag(command: &str, name: &str) -> String {
    let command_line = CommandLine::command();
    let of_command = command_line.find_subcommand(command);
    let long = name.replace('_', "-");
    let find = |wanted: &str| {
        of_command?.get_arguments().find(|arg| arg.get_long() == Some(wanted) || arg.get_id() == wanted)
    };
    let other = || OTHER_NAMES.iter().find(|(parameter, _)| *parameter == name).and_then(|(_, id)| find(id));
    find(&long).or_else(|| find(name)).or_else(other).map_or_else(|| format!("`{name}`"), written)
}

fn written(arg: &Arg) -> String {
    match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => arg.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped::{self, Shipped};

    fn check(command: &str, pipeline: Shipped, name: &str, value: Value, expected: &[&str]) {
        let declaration = pipeline.load().declaration;
        let mut values = declaration.defaults();
        values.insert(name.to_owned(), value);
        assert_eq!(faults(command, &declaration, &boxwork_operators::catalog(), &values), expected);
    }

    #[test]
    fn a_value_that_no_box_takes_is_a_fault_of_its_flag() {
        let number = Value::Number;
        check("search", shipped::SEARCH, "alpha", number(0.5), &[]);
        check("search", shipped::SEARCH, "alpha", number(-1.0), &["--alpha: -1 is not a number above zero"]);
        check(
            "search",
            shipped::INDEXED_RANGE,
            "range",
            number(-2.0),
            &["--range: -2 is not a number of at least 0"],
        );
        check(
            "search",
            shipped::AUTO,
            "k",
            Value::Integer(0),
            &["-k: 0 is not a whole number of at least 1"],
        );
        let cluster = ["--cluster-min: -1 is not a whole number from 0 to 65536"];
        check("extract", shipped::EXTRACT, "cluster_min", Value::Integer(-1), &cluster);
    }

    #[test]
    fn every_parameter_that_a_command_gives_has_its_flag() {
        for (command, name, expected) in [
            ("search", "queries", "--query"),
            ("search", "k", "-k"),
            ("index", "count", "--pivots"),
            ("synthesize", "count", "--count"),
            ("synthesize", "move", "--move"),
            ("extract", "join_distance", "--join-distance"),
            ("evaluate", "exact_pairs", "--exact-pairs"),
        ] {
            assert_eq!(flag(command, name), expected);
        }
        assert!(flag("extract", "paths").contains("PATH"));
    }
}
