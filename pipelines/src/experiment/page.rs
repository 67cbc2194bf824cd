//! The results as one page that needs nothing else: what was run on, the plots, and all rows.

use std::fmt::Write as _;

use boxwork_lab::bench::Machine;
use boxwork_lab::page::STYLE;
use boxwork_runtime::topology::Topology;

use super::compare::Comparison;
use super::sweep::Sweep;
use super::table::{Row, number};
use crate::drawing::escape;

/// The whole page.
pub(super) fn page(
    sweep: &Sweep,
    rows: &[Row],
    plots: &[(String, String)],
    comparison: Option<&Comparison>,
) -> String {
    let machine = Machine::look(&Topology::detect());
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Boxwork experiment</title>\n\
         <style>\n{}</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n<dl>\n",
        STYLE,
        escape(if sweep.about.is_empty() { "Boxwork experiment" } else { &sweep.about })
    );
    let rounds = format!("{} after {}; medians", sweep.rounds, sweep.warmup);
    for (name, value) in [
        ("sweep", &sweep.source.name),
        ("machine", &machine.processor),
        ("topology", &machine.shape()),
        ("rounds", &rounds),
    ] {
        let _ = writeln!(text, "<dt>{name}</dt><dd>{}</dd>", escape(value));
    }
    text.push_str("</dl>\n");
    for (_, plot) in plots {
        let _ = writeln!(text, "<figure>\n{plot}</figure>");
    }
    if let Some(comparison) = comparison {
        let _ = writeln!(text, "<pre>{}</pre>", escape(&comparison.to_string()));
    }
    let axes: Vec<&String> = sweep.axes.iter().map(|axis| &axis.name).collect();
    let mut figures: Vec<&String> = Vec::new();
    for name in rows.iter().flat_map(|row| row.figures.keys()) {
        if !figures.contains(&name) {
            figures.push(name);
        }
    }
    text.push_str("<table>\n<tr>");
    axes.iter().chain(&figures).for_each(|name| {
        let _ = write!(text, "<th>{}</th>", escape(name));
    });
    for row in rows {
        text.push_str("</tr>\n<tr>");
        for axis in &axes {
            let _ = write!(text, "<td>{}</td>", escape(&row.values[*axis]));
        }
        for name in &figures {
            let _ =
                write!(text, "<td>{}</td>", row.figures.get(*name).copied().map_or(String::new(), number));
        }
    }
    text.push_str("</tr>\n</table>\n</main>\n</body>\n</html>\n");
    text
}
