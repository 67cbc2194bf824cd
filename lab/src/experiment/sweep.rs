//! The text of a sweep: axes, steps and plots, read from YAML, and every fault in it with its line.

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;

use boxwork_runtime::parameter::{did_you_mean, nearest};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// The version of the language.
const VERSION: u32 = 1;
/// The most combinations of all values.
const ROWS_COUNT_MAX: usize = 10_000;
/// The most measurements of a row.
const ROUNDS_MAX: usize = 1000;
/// Bytes of a name that becomes a part of a file's name.
const NAME_BYTES_MAX: usize = 100;

/// A text with its place.
pub(super) type Text = Spanned<String>;

/// A sweep.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    experiment: u32,
    /// The purpose, in its author's words.
    #[serde(default)]
    pub about: String,
    /// In the order of the text: the last one varies fastest.
    #[serde(default)]
    pub(super) axes: Ordered<Vec<Text>>,
    #[serde(default = "three")]
    pub(super) rounds: usize,
    #[serde(default = "one")]
    pub(super) warmup: usize,
    /// A step has `do`, which names its task, and the task's settings.
    pub(super) steps: Ordered<Ordered<Text>>,
    #[serde(default)]
    measure: Vec<Text>,
    #[serde(default)]
    pub(super) plots: Ordered<Plot>,
    pub(super) compare: Option<Compare>,
}

fn three() -> usize {
    3
}

fn one() -> usize {
    1
}

/// A chart of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plot {
    pub(super) title: Option<String>,
    /// An axis or a figure.
    pub(super) x: Text,
    /// A figure.
    pub(super) y: Text,
    /// An axis: a line for each of its values.
    pub(super) series: Option<Text>,
    /// An axis: a picture for each of its values.
    pub(super) facets: Option<Text>,
    #[serde(default)]
    pub(super) log: Vec<Scale>,
}

/// A logarithmic scale.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Scale {
    X,
    Y,
}

/// One value of an axis, to compare with the best of the others.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Compare {
    pub(super) axis: Text,
    pub(super) value: Text,
    pub(super) figure: Text,
}

/// A map in the order of the text.
#[derive(Clone, Debug)]
pub(super) struct Ordered<T>(pub(super) Vec<(String, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Ordered<T> {
    pub(super) fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Ordered<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// A fault at one place of a sweep.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct Fault {
    line: u64,
    column: u64,
    message: String,
}

impl Fault {
    pub(super) fn at(text: &Text, message: impl Into<String>) -> Self {
        // For an alias, the place of its anchor, where the value can be corrected.
        let place = if text.defined == Location::UNKNOWN { text.referenced } else { text.defined };
        Self { line: place.line(), column: place.column(), message: message.into() }
    }

    fn whole(message: impl Into<String>) -> Self {
        Self { line: 1, column: 1, message: message.into() }
    }
}

impl Sweep {
    /// Reads a sweep; `given` replaces the values of axes.
    ///
    /// # Errors
    /// The first fault of the syntax, or else every name that is wrong.
    pub(super) fn read(text: &str, given: &[(String, String)]) -> Result<Self, Vec<Fault>> {
        let (sweep, mut faults) = Self::parse(text, given)?;
        sweep.check(given, &mut faults);
        faults.sort();
        if faults.is_empty() { Ok(sweep) } else { Err(faults) }
    }

    /// Reads a sweep that may have any number of combinations, with the faults of `given`.
    ///
    /// # Errors
    /// The first fault of the syntax.
    pub(super) fn parse(text: &str, given: &[(String, String)]) -> Result<(Self, Vec<Fault>), Vec<Fault>> {
        let mut sweep: Self = serde_saphyr::from_str(text).map_err(|error| vec![fault(&error)])?;
        if sweep.experiment != VERSION {
            return Err(vec![Fault::whole(format!(
                "this boxwork reads sweeps with `experiment: {VERSION}`"
            ))]);
        }
        let faults = sweep.give(given);
        Ok((sweep, faults))
    }

    /// Replaces values of axes by those of the command line.
    fn give(&mut self, given: &[(String, String)]) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (name, text) in given {
            let near = did_you_mean(name, self.axes.names());
            match self.axes.0.iter_mut().find(|(known, _)| known == name) {
                None => {
                    faults.push(Fault::whole(format!("--set {name}: the sweep has no axis `{name}`{near}")));
                }
                Some((_, values)) => {
                    let value = |value| Spanned::new(value, Location::UNKNOWN, Location::UNKNOWN);
                    *values = values_of(text).into_iter().map(value).collect();
                }
            }
        }
        faults
    }

    fn check(&self, given: &[(String, String)], faults: &mut Vec<Fault>) {
        let rows = self.axes.0.iter().try_fold(1_usize, |rows, (_, values)| rows.checked_mul(values.len()));
        match rows {
            Some(0) => faults.push(Fault::whole("an axis has no values")),
            Some(1..=ROWS_COUNT_MAX) => {}
            _ => faults.push(Fault::whole(format!("the axes have more than {ROWS_COUNT_MAX} combinations"))),
        }
        if !(1..=ROUNDS_MAX).contains(&self.rounds) || self.warmup > ROUNDS_MAX {
            faults.push(Fault::whole(format!("`rounds` is from 1 to {ROUNDS_MAX}, `warmup` from 0")));
        }
        let mut used = BTreeSet::new();
        let mut known: Vec<&str> = self.axes.names().collect();
        for (name, step) in &self.steps.0 {
            if step.get("do").is_none() {
                faults.push(Fault::whole(format!("the step `{name}` has no `do`, which names a pipeline")));
            }
            faults.extend(fault_of_name("step", name));
            for (_, text) in &step.0 {
                let filled = fill(&text.value, &mut |name| {
                    let found = known.contains(&name);
                    used.extend(found.then(|| name.to_owned()));
                    found.then(String::new)
                });
                if let Err(message) = filled {
                    let near = missing(&text.value, &known);
                    faults.push(Fault::at(text, message + &near));
                }
            }
            if known.contains(&name.as_str()) {
                faults.push(Fault::whole(format!("`{name}` names both an axis and a step")));
            }
            known.push(name);
        }
        faults.extend(self.plots.names().filter_map(|name| fault_of_name("plot", name)));
        for (name, values) in &self.axes.0 {
            if let (false, Some(value)) = (used.contains(name), values.first()) {
                faults.push(Fault::at(value, format!("no step uses the axis `{name}`")));
            }
        }
        self.check_names(given, faults);
    }

    /// The names in `measure`, `plots` and `compare`.
    fn check_names(&self, given: &[(String, String)], faults: &mut Vec<Fault>) {
        for name in self.measure.iter().filter(|name| self.steps.get(&name.value).is_none()) {
            let near = did_you_mean(&name.value, self.steps.names());
            faults.push(Fault::at(name, format!("there is no step `{}` to measure{near}", name.value)));
        }
        let axes: Vec<&str> = self.axes.names().collect();
        let mut wrong = |name: &Text, what: &str, is_right: bool, known: &[&str]| {
            if !is_right {
                let near = did_you_mean(&name.value, known.iter().copied());
                faults.push(Fault::at(name, format!("`{}` is no {what}{near}", name.value)));
            }
        };
        let is_figure = |name: &Text| {
            let step = name.value.split_once('.').map(|(step, _)| step);
            step.is_some_and(|step| self.measured().any(|measured| self.steps.0[measured].0 == step))
        };
        let figures: Vec<String> = self.measured().map(|step| self.steps.0[step].0.clone() + ".ms").collect();
        let figures: Vec<&str> = figures.iter().map(String::as_str).collect();
        for (_, plot) in &self.plots.0 {
            let is_axis = axes.contains(&plot.x.value.as_str());
            wrong(&plot.x, "axis and no figure", is_axis || is_figure(&plot.x), &axes);
            wrong(&plot.y, "figure", is_figure(&plot.y), &figures);
            for name in plot.series.iter().chain(&plot.facets) {
                wrong(name, "axis", axes.contains(&name.value.as_str()), &axes);
            }
        }
        if let Some(Compare { axis, value, figure }) = &self.compare {
            wrong(axis, "axis", axes.contains(&axis.value.as_str()), &axes);
            wrong(figure, "figure", is_figure(figure), &figures);
            let values: Vec<&str> = self.values(&axis.value).collect();
            // A value that `--set` left out is compared with nothing.
            let is_given = given.iter().any(|(name, _)| *name == axis.value);
            wrong(value, "value of this axis", is_given || values.contains(&value.value.as_str()), &values);
        }
    }

    pub(super) fn values(&self, axis: &str) -> impl Iterator<Item = &str> {
        self.axes.get(axis).into_iter().flatten().map(|value| value.value.as_str())
    }

    /// The steps that are measured: those in `measure`, or else those that no other step uses.
    pub(super) fn measured(&self) -> impl Iterator<Item = usize> {
        let is_used = |name: &str| {
            let texts = self.steps.0.iter().flat_map(|(_, step)| &step.0);
            texts.into_iter().any(|(_, text)| text.value.contains(&format!("${{{name}}}")))
        };
        self.steps.0.iter().enumerate().filter_map(move |(idx, (name, _))| {
            let is_listed = self.measure.iter().any(|listed| listed.value == *name);
            (is_listed || self.measure.is_empty() && !is_used(name)).then_some(idx)
        })
    }

    /// The parts of the sweep that all rows depend on. When it changes, old rows say nothing about the new sweep.
    pub(super) fn identity(&self) -> String {
        let mut text = format!("{} {} {:?}", self.rounds, self.warmup, self.measured().collect::<Vec<_>>());
        for (name, step) in &self.steps.0 {
            let settings = step.0.iter().map(|(name, text)| format!(" {name}={:?}", text.value));
            text += &format!("\n{name}:{}", settings.collect::<String>());
        }
        text
    }
}

/// The fault of a name that cannot begin the name of a file: files would lie in other folders, or nowhere.
fn fault_of_name(what: &str, name: &str) -> Option<Fault> {
    let fits = |letter: char| letter.is_alphanumeric() || ['_', '-', ' '].contains(&letter);
    let is_sound = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(fits);
    let message = || {
        format!(
            "a file is called after the {what} `{}`: name it with letters, digits, `_` and `-`, {NAME_BYTES_MAX} bytes at \
             most",
            name.escape_debug()
        )
    };
    (!is_sound).then(|| Fault::whole(message()))
}

/// A fault of the syntax.
fn fault(error: &serde_saphyr::Error) -> Fault {
    let error = error.without_snippet();
    let (line, column) = error.location().map_or((1, 1), |place| (place.line(), place.column()));
    let mut message = error.render();
    // The fault has its place already.
    message.truncate(message.rfind(" at line ").unwrap_or(message.len()));
    Fault { line, column, message }
}

/// The text with the value of each `${name}`.
///
/// # Errors
/// A name that has no value.
pub(super) fn fill(text: &str, value: &mut dyn FnMut(&str) -> Option<String>) -> Result<String, String> {
    let mut parts = text.split("${");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').ok_or_else(|| format!("`${{{part}` has no `}}`"))?;
        let value = value(name)
            .ok_or_else(|| format!("`${{{name}}}` is neither an axis nor a step before this one"))?;
        filled += &(value + rest);
    }
    Ok(filled)
}

/// A proposal for the first name of a text that is not known.
fn missing(text: &str, known: &[&str]) -> String {
    let names = text.split("${").skip(1).filter_map(|part| Some(part.split_once('}')?.0));
    let near =
        names.filter(|name| !known.contains(name)).find_map(|name| nearest(name, known.iter().copied()));
    near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

/// The values of a `--set NAME=VALUE` or `--set NAME=[VALUE, ...]`; a value with a comma stands in quotes.
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
