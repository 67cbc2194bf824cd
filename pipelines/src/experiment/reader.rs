//! From YAML to a sweep: shapes, names and keys, all faults at once, each with its place.

use std::collections::BTreeSet;
use std::sync::Arc;

use boxwork_runtime::parameter::nearest;

use super::sweep::{Axis, Compare, Given, Piece, Plot, Step, Sweep, Template};
use crate::diagnostic::{Diagnostic, Source};
use crate::document::node::{self, Node};
use crate::document::span::{Marked, Span};
use crate::document::{Flaw, is_name};

/// The version of the language that this reader reads.
const VERSION: i64 = 1;
/// Combinations of all values at most.
const ROWS_COUNT_MAX: usize = 10_000;
/// Measurements of a row at most.
const ROUNDS_MAX: i64 = 1000;

const KEYS: [&str; 9] =
    ["experiment", "about", "axes", "rounds", "warmup", "steps", "measure", "plots", "compare"];
const COMPARE_KEYS: [&str; 3] = ["axis", "value", "figure"];
const PLOT_KEYS: [&str; 6] = ["title", "x", "y", "series", "facets", "log"];
const NAMES: &str = "names are made of letters, digits, `_` and `-`";

/// Reads a sweep; nothing where it cannot be told what is meant.
pub(super) fn read(name: &str, text: &str, given: &[(String, String)]) -> (Option<Sweep>, Vec<Diagnostic>) {
    let source = Arc::new(Source { name: name.to_owned(), text: text.to_owned() });
    let mut reader = Reader { text, flaws: Vec::new() };
    let sweep = match node::read(text) {
        Ok(node) => reader.sweep(&node, &source, given),
        Err(flaw) => {
            reader.flaws.push(flaw);
            None
        }
    };
    let faults = reader.flaws.into_iter().map(|flaw| Diagnostic::of_flaw(flaw, &source)).collect();
    (sweep, faults)
}

struct Reader<'t> {
    text: &'t str,
    flaws: Vec<Flaw>,
}

type Field<'n> = (Marked<String>, &'n Marked<Node>);

impl Reader<'_> {
    fn flaw(&mut self, span: Span, code: &'static str, message: String, help: &str) {
        let flaw = Flaw::error(span, code, message, "here");
        self.flaws.push(if help.is_empty() { flaw } else { flaw.help(help) });
    }

    fn sweep(
        &mut self,
        node: &Marked<Node>,
        source: &Arc<Source>,
        given: &[(String, String)],
    ) -> Option<Sweep> {
        let fields = self.fields(node, "a sweep", Some(&KEYS))?;
        let field = |key: &str| fields.iter().find(|(name, _)| name.value == key).map(|(_, node)| *node);
        let help = "a sweep begins with the line `experiment: 1`";
        match field("experiment") {
            None => {
                let span = fields.first().map_or(node.span, |(key, _)| key.span);
                self.flaw(
                    span,
                    "missing-version",
                    "this is no sweep: it does not say `experiment: 1`".into(),
                    help,
                );
            }
            Some(version) if version.value != Node::Integer(VERSION) => {
                let message = format!("this boxwork reads version {VERSION} of sweeps");
                self.flaw(version.span, "wrong-version", message, help);
                return None;
            }
            Some(_) => {}
        }
        let about = field("about").and_then(|node| self.scalar(node, "about")).unwrap_or_default();
        let mut axes = field("axes").map(|node| self.axes(node)).unwrap_or_default();
        self.give(&mut axes, given, node.span);
        let rows = axes.iter().try_fold(1usize, |rows, axis| rows.checked_mul(axis.values.len()));
        if rows.is_none_or(|rows| rows > ROWS_COUNT_MAX) {
            let span = field("axes").map_or(node.span, |node| node.span);
            let message = format!("the axes have more than {ROWS_COUNT_MAX} combinations");
            self.flaw(span, "too-large", message, "give fewer values, or make two sweeps");
            return None;
        }
        let rounds = self.count(field("rounds"), "rounds", 3, 1);
        let warmup = self.count(field("warmup"), "warmup", 1, 0);
        let Some(steps) = field("steps") else {
            let span = fields.first().map_or(node.span, |(key, _)| key.span);
            self.flaw(
                span,
                "missing-key",
                "the sweep has no `steps`".into(),
                "write `steps:` and what is run",
            );
            return None;
        };
        let steps = self.steps(steps, &axes);
        let mut sweep = Sweep {
            about,
            source: Arc::clone(source),
            axes,
            rounds,
            warmup,
            steps,
            measured: Vec::new(),
            plots: Vec::new(),
            compare: None,
        };
        self.measured(&mut sweep, field("measure"));
        if let Some(node) = field("plots") {
            self.plots(&mut sweep, node);
        }
        if let Some(node) = field("compare") {
            sweep.compare = self.compare(&sweep, node, given);
        }
        self.unused(&sweep);
        Some(sweep)
    }

    /// The entries of a map by name, none twice.
    fn fields<'n>(
        &mut self,
        node: &'n Marked<Node>,
        what: &str,
        known: Option<&[&str]>,
    ) -> Option<Vec<Field<'n>>> {
        let Node::Map(entries) = &node.value else {
            let message = format!("{what} is a map, and this is {}", node.value.what());
            self.flaw(node.span, "wrong-shape", message, "");
            return None;
        };
        let (mut fields, mut seen) = (Vec::new(), BTreeSet::new());
        for (key, value) in entries {
            let Some(name) = key.span.of(self.text).map(|name| name.trim_matches(['"', '\'']).to_owned())
            else {
                continue;
            };
            let unknown = known.filter(|known| !known.contains(&name.as_str()));
            if let Some(known) = unknown {
                let help = match nearest(&name, known.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the keys: {}", known.join(", ")),
                };
                self.flaw(key.span, "unknown-key", format!("{what} has no key `{name}`"), &help);
            } else if !is_name(&name) {
                self.flaw(key.span, "wrong-name", format!("`{name}` is no name"), NAMES);
            } else if !seen.insert(name.clone()) {
                self.flaw(
                    key.span,
                    "repeated-key",
                    format!("`{name}` stands twice in {what}"),
                    "remove one of the two",
                );
            } else {
                fields.push((Marked::new(name, key.span), value));
            }
        }
        Some(fields)
    }

    /// A value as it is written.
    fn scalar(&mut self, node: &Marked<Node>, what: &str) -> Option<String> {
        match &node.value {
            Node::Text(text) => Some(text.clone()),
            Node::Boolean(value) => Some(value.to_string()),
            Node::Integer(value) => Some(value.to_string()),
            // As it is written: 1e-3 keeps its shape in the table.
            Node::Number(_) => node.span.of(self.text).map(str::to_owned),
            other => {
                let message = format!("`{what}` is one value, and this is {}", other.what());
                self.flaw(node.span, "wrong-shape", message, "");
                None
            }
        }
    }

    fn count(&mut self, node: Option<&Marked<Node>>, what: &str, default: usize, least: i64) -> usize {
        match node.map(|node| (&node.value, node.span)) {
            None => default,
            Some((Node::Integer(count), _)) if (least..=ROUNDS_MAX).contains(count) => *count as usize,
            Some((_, span)) => {
                let message = format!("`{what}` is a whole number from {least} to {ROUNDS_MAX}");
                self.flaw(span, "wrong-shape", message, "");
                default
            }
        }
    }

    fn axes(&mut self, node: &Marked<Node>) -> Vec<Axis> {
        let mut axes = Vec::new();
        for (name, node) in self.fields(node, "`axes`", None).unwrap_or_default() {
            let one = std::slice::from_ref(node);
            let items = if let Node::List(items) = &node.value { items.as_slice() } else { one };
            if items.is_empty() {
                let message = format!("the axis `{}` has no values", name.value);
                self.flaw(name.span, "wrong-shape", message, "write `name: [1, 2, 3]`, or one value");
            }
            let mut values: Vec<String> = Vec::new();
            for item in items {
                let Some(value) = self.scalar(item, &name.value) else { continue };
                if values.contains(&value) {
                    let message = format!("the axis `{}` has the value `{value}` twice", name.value);
                    self.flaw(item.span, "repeated-value", message, "remove one of the two");
                } else {
                    values.push(value);
                }
            }
            axes.push(Axis { name: name.value, values, span: name.span });
        }
        axes
    }

    /// Puts values of the command line in the place of those of the text.
    fn give(&mut self, axes: &mut [Axis], given: &[(String, String)], whole: Span) {
        for (name, text) in given {
            let names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
            let near = nearest(name, names.iter().copied()).map(|near| format!("did you mean `{near}`?"));
            let help = near.unwrap_or_else(|| format!("the axes: {}", names.join(", ")));
            let Some(axis) = axes.iter_mut().find(|axis| axis.name == *name) else {
                self.flaw(
                    whole,
                    "unknown-axis",
                    format!("--set {name}: the sweep has no axis `{name}`"),
                    &help,
                );
                continue;
            };
            axis.values = values_of(text);
            if axis.values.is_empty() {
                self.flaw(axis.span, "wrong-shape", format!("--set {name} gives no value"), "");
            }
        }
    }

    fn steps(&mut self, node: &Marked<Node>, axes: &[Axis]) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for (name, node) in self.fields(node, "`steps`", None).unwrap_or_default() {
            if axes.iter().any(|axis| axis.name == name.value) {
                let message = format!("`{}` is an axis already", name.value);
                self.flaw(name.span, "repeated-key", message, "give the step another name");
            }
            let what = format!("the step `{}`", name.value);
            let Some(fields) = self.fields(node, &what, None) else { continue };
            let known: Vec<String> = axes.iter().map(|axis| axis.name.clone()).collect();
            let earlier = steps.iter().map(|step| step.name.clone());
            let known: Vec<String> = known.into_iter().chain(earlier).collect();
            let (mut task, mut settings) = (None, Vec::new());
            for (key, node) in fields {
                let given = match &node.value {
                    Node::List(items) => {
                        let items = items.iter().map(|item| self.template(item, &key.value, &known));
                        Given::Many(items.collect::<Vec<_>>().into_iter().flatten().collect())
                    }
                    _ => match self.template(node, &key.value, &known) {
                        Some(template) => Given::One(template),
                        None => continue,
                    },
                };
                match (key.value.as_str(), given) {
                    ("do", Given::One(template)) => task = Some(template),
                    ("do", Given::Many(_)) => {
                        let message = "`do` is one pipeline".to_owned();
                        self.flaw(
                            node.span,
                            "wrong-shape",
                            message,
                            "make an axis of several: `do: \"${strategy}\"`",
                        );
                    }
                    (_, given) => settings.push((key.value, node.span, given)),
                }
            }
            let Some(task) = task else {
                let message = format!("{what} has no `do`");
                let help = "write `do:` with the name of a shipped pipeline, or the path of one";
                self.flaw(name.span, "missing-key", message, help);
                continue;
            };
            steps.push(Step { name: name.value, task, settings, span: name.span });
        }
        steps
    }

    /// A text with `${names}` of axes, and of steps before.
    fn template(&mut self, node: &Marked<Node>, what: &str, known: &[String]) -> Option<Template> {
        let text = self.scalar(node, what)?;
        let (mut pieces, mut rest) = (Vec::new(), text.as_str());
        while let Some(at) = rest.find("${") {
            let Some(length) = rest[at..].find('}') else {
                self.flaw(node.span, "malformed-interpolation", "`${` has no `}`".into(), "write ${name}");
                return None;
            };
            let name = &rest[at + 2..at + length];
            if !known.iter().any(|known| known == name) {
                let near = nearest(name, known.iter().map(String::as_str));
                let help = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if known.is_empty() => "there are no axes, and no step before this one".to_owned(),
                    None => format!("axes and steps before this one: {}", known.join(", ")),
                };
                let message = format!("`${{{name}}}` is neither an axis nor a step before this one");
                self.flaw(node.span, "unknown-name", message, &help);
                return None;
            }
            if at > 0 {
                pieces.push(Piece::Text(rest[..at].to_owned()));
            }
            pieces.push(Piece::Name(name.to_owned()));
            rest = &rest[at + length + 1..];
        }
        if !rest.is_empty() || pieces.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Some(Template { pieces, span: node.span })
    }

    /// The steps that are measured: those that are named, or those that no other step uses.
    fn measured(&mut self, sweep: &mut Sweep, node: Option<&Marked<Node>>) {
        let Some(node) = node else {
            let used = |step: &Step| {
                let mut templates = sweep.steps.iter().flat_map(|step| &step.settings);
                templates.any(|(_, _, given)| {
                    given.templates().iter().any(|template| template.names().any(|name| name == step.name))
                })
            };
            sweep.measured = (0..sweep.steps.len()).filter(|idx| !used(&sweep.steps[*idx])).collect();
            return;
        };
        let one = std::slice::from_ref(node);
        let items = if let Node::List(items) = &node.value { items.as_slice() } else { one };
        for item in items {
            let Some(name) = self.scalar(item, "measure") else { continue };
            match sweep.step(&name) {
                Some(idx) => sweep.measured.push(idx),
                None => {
                    let names = sweep.steps.iter().map(|step| step.name.as_str());
                    let near = nearest(&name, names).map(|near| format!("did you mean `{near}`?"));
                    let message = format!("there is no step `{name}` to measure");
                    self.flaw(item.span, "unknown-name", message, &near.unwrap_or_default());
                }
            }
        }
    }

    fn plots(&mut self, sweep: &mut Sweep, node: &Marked<Node>) {
        for (name, node) in self.fields(node, "`plots`", None).unwrap_or_default() {
            let what = format!("the plot `{}`", name.value);
            let Some(fields) = self.fields(node, &what, Some(&PLOT_KEYS)) else { continue };
            let field = |key: &str| fields.iter().find(|(name, _)| name.value == key).map(|(_, node)| *node);
            let axes: Vec<String> = sweep.axes.iter().map(|axis| axis.name.clone()).collect();
            let plot = (what.as_str(), name.span);
            let x = self.of_table(field("x"), "x", plot, &axes, sweep, true);
            let y = self.of_table(field("y"), "y", plot, &[], sweep, true);
            let series = field("series")
                .and_then(|node| self.of_table(Some(node), "series", plot, &axes, sweep, false));
            let facets = field("facets")
                .and_then(|node| self.of_table(Some(node), "facets", plot, &axes, sweep, false));
            let title = field("title").and_then(|node| self.scalar(node, "title"));
            let mut log = Vec::new();
            if let Some(node) = field("log") {
                let one = std::slice::from_ref(node);
                let items = if let Node::List(items) = &node.value { items.as_slice() } else { one };
                for item in items {
                    match self.scalar(item, "log") {
                        Some(axis) if axis == "x" || axis == "y" => log.push(axis),
                        _ => self.flaw(item.span, "wrong-shape", "`log` lists `x`, `y` or both".into(), ""),
                    }
                }
            }
            let (Some(x), Some(y)) = (x, y) else { continue };
            let is_log = |axis: &str| log.iter().any(|log| log == axis);
            sweep.plots.push(Plot {
                title: title.unwrap_or_else(|| name.value.clone()),
                name: name.value,
                x,
                y,
                series,
                facets,
                log_x: is_log("x"),
                log_y: is_log("y"),
            });
        }
    }

    /// What is compared. A value that another call's `--set` left out is compared with nothing.
    fn compare(&mut self, sweep: &Sweep, node: &Marked<Node>, given: &[(String, String)]) -> Option<Compare> {
        let what = "`compare`";
        let fields = self.fields(node, what, Some(&COMPARE_KEYS))?;
        let field = |key: &str| fields.iter().find(|(name, _)| name.value == key).map(|(_, node)| *node);
        let axes: Vec<String> = sweep.axes.iter().map(|axis| axis.name.clone()).collect();
        let axis = self.of_table(field("axis"), "axis", (what, node.span), &axes, sweep, false);
        let figure = self.of_table(field("figure"), "figure", (what, node.span), &[], sweep, true);
        let Some(of_value) = field("value") else {
            let help = "write `value:` and the value of the axis that is compared with the others";
            self.flaw(node.span, "missing-key", format!("{what} has no `value`"), help);
            return None;
        };
        let value = self.scalar(of_value, "value")?;
        let (axis, figure) = (sweep.axis(&axis?)?, figure?);
        if !axis.values.contains(&value) {
            if !given.iter().any(|(name, _)| *name == axis.name) {
                let near = nearest(&value, axis.values.iter().map(String::as_str));
                let help = near.map(|near| format!("did you mean `{near}`?"));
                let message = format!("the axis `{}` has no value `{value}`", axis.name);
                self.flaw(of_value.span, "unknown-name", message, &help.unwrap_or_default());
            }
            return None;
        }
        Some(Compare { axis: axis.name.clone(), value, figure })
    }

    /// The name of an axis, or, where it may be, of a figure: `step.figure`.
    fn of_table(
        &mut self,
        node: Option<&Marked<Node>>,
        key: &str,
        (what, span): (&str, Span),
        axes: &[String],
        sweep: &Sweep,
        may_be_figure: bool,
    ) -> Option<String> {
        let Some(node) = node else {
            let help =
                "`x` is an axis or a figure, `y` and `figure` are figures (`search.ms`), the others are axes";
            self.flaw(span, "missing-key", format!("{what} has no `{key}`"), help);
            return None;
        };
        let name = self.scalar(node, key)?;
        if axes.contains(&name) {
            return Some(name);
        }
        let is_measured = |step: &str| sweep.measured.iter().any(|idx| sweep.steps[*idx].name == step);
        if may_be_figure
            && name.split_once('.').is_some_and(|(step, figure)| is_measured(step) && is_name(figure))
        {
            return Some(name);
        }
        let figures: Vec<String> =
            sweep.measured.iter().map(|idx| format!("{}.ms", sweep.steps[*idx].name)).collect();
        let mut known: Vec<&str> = axes.iter().map(String::as_str).collect();
        if may_be_figure {
            known.extend(figures.iter().map(String::as_str));
        }
        let help = match nearest(&name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are: {}", known.join(", ")),
        };
        let message =
            format!("`{key}: {name}` is no {}", if may_be_figure { "axis and no figure" } else { "axis" });
        self.flaw(node.span, "unknown-name", message, &help);
        None
    }

    /// Axes that change nothing: each row would be measured as often as they have values.
    fn unused(&mut self, sweep: &Sweep) {
        if !self.flaws.is_empty() {
            return;
        }
        for axis in &sweep.axes {
            let given = sweep.steps.iter().flat_map(|step| step.settings.iter().map(|(_, _, given)| given));
            let mut templates =
                given.flat_map(Given::templates).chain(sweep.steps.iter().map(|step| &step.task));
            if !templates.any(|template| template.names().any(|name| name == axis.name)) {
                let message = format!("no step uses the axis `{}`", axis.name);
                self.flaw(axis.span, "unused-axis", message, "use it as ${NAME}, or remove it");
            }
        }
    }
}

/// The values of a `--set NAME=VALUE` or `--set NAME=[VALUE, ...]`; one with a comma of its own stands in quotes.
fn values_of(text: &str) -> Vec<String> {
    let text = text.trim();
    let items = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let mut is_quoted = false;
    let parts = items.unwrap_or(text).split(|letter| {
        is_quoted ^= letter == '"';
        letter == ',' && !is_quoted && items.is_some()
    });
    let bare = |part: &str| {
        let part = part.trim();
        part.strip_prefix('"').and_then(|part| part.strip_suffix('"')).unwrap_or(part).to_owned()
    };
    parts.map(bare).filter(|value| !value.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::values_of;

    #[test]
    fn values_of_the_command_line() {
        for (text, values) in [
            ("0.2", &["0.2"][..]),
            (" [1, 10 ,100] ", &["1", "10", "100"]),
            ("[cpu, \"gpu:0,1\"]", &["cpu", "gpu:0,1"]),
            ("gpu:0,1", &["gpu:0,1"]),
            ("\"gpu:0,1\"", &["gpu:0,1"]),
            ("[]", &[]),
            ("", &[]),
            ("[,]", &[]),
        ] {
            assert_eq!(values_of(text), values, "{text}");
        }
    }
}
