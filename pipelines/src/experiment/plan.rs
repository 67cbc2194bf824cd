//! Every combination of the axes' values, bound to the steps' pipelines: what would fail is found here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use boxwork_lab::sample_images::{CLASSES_COUNT_MAX, PER_CLASS_DEFAULT, PER_CLASS_MAX};
use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::{ParameterType, Value, did_you_mean, nearest};
use boxwork_runtime::plan::ParameterDeclaration;

use super::sweep::{Given, Piece, Step, Sweep, Template, fingerprint};
use crate::diagnostic::Diagnostic;
use crate::document::Flaw;
use crate::document::span::Span;
use crate::given::parse_setting;
use crate::pipeline::{self, Loaded};
use crate::shipped;

/// A value that begins so is a file among the experiment's data.
pub(super) const DATA: char = '\u{0}';
/// Of a step itself, and of no pipeline.
const SAMPLE: &str = "sample";
const BATCH: &str = "batch";
const WORKERS: &str = "workers";
/// Combinations that are looked at for more faults once one has some.
const ROWS_WITH_FAULTS: usize = 100;
/// What a pipeline gets from here.
const OURS: [&str; 3] = ["out", "queries", "format"];

/// A row before it is measured.
#[derive(Debug)]
pub(super) struct Planned {
    /// By axis.
    pub(super) values: BTreeMap<String, String>,
    /// In the order of the sweep's steps.
    pub(super) steps: Vec<PlannedStep>,
}

/// A step with its values.
#[derive(Debug)]
pub(super) struct PlannedStep {
    pub(super) task: Task,
    pub(super) values: BTreeMap<String, Value>,
    /// Like no other step's with other values.
    pub(super) key: String,
    /// Steps whose files it reads.
    pub(super) uses: BTreeSet<usize>,
    /// Objects of the store that are its queries.
    pub(super) sample: usize,
    /// Queries of a request.
    pub(super) batch: usize,
    /// Slots; all of the machine's without it.
    pub(super) workers: Option<usize>,
}

/// What a step does.
#[derive(Clone, Debug)]
pub(super) enum Task {
    /// Draws labelled pictures into a folder.
    Images,
    /// Counts the objects whose signatures have some number of centroids.
    Sizes,
    /// Searches within the distance of the k-th answer, which a scan has found.
    Divine,
    /// Runs a pipeline that answers queries.
    Ask(Arc<Loaded>),
    /// Runs a pipeline that tells how good the order is.
    Evaluate(Arc<Loaded>),
    /// Runs a pipeline that makes a file.
    Make(Arc<Loaded>),
}

impl PlannedStep {
    fn new(task: Task) -> Self {
        let (values, uses) = (BTreeMap::new(), BTreeSet::new());
        Self { task, values, key: String::new(), uses, sample: 0, batch: 1, workers: None }
    }
}

impl Planned {
    /// The values that vary, in a line.
    pub(super) fn label(&self, sweep: &Sweep) -> String {
        let varies = sweep.axes.iter().filter(|axis| axis.values.len() > 1);
        let words: Vec<String> =
            varies.map(|axis| format!("{}={}", axis.name, self.values[&axis.name])).collect();
        if words.is_empty() { "the only row".to_owned() } else { words.join(" ") }
    }
}

/// What there is to do, by its name.
struct Known {
    task: Task,
    parameters: Vec<ParameterDeclaration>,
}

/// Faults, each place and sentence once however many combinations have it.
struct Faults<'s> {
    sweep: &'s Sweep,
    seen: BTreeSet<(usize, String)>,
    found: Vec<Diagnostic>,
}

impl Faults<'_> {
    fn add(&mut self, span: Span, code: &'static str, message: String, help: Option<String>) {
        if self.seen.insert((span.start, message.clone())) {
            let flaw = Flaw::error(span, code, message, "here").help_maybe(help);
            self.found.push(Diagnostic::of_flaw(flaw, &self.sweep.source));
        }
    }
}

/// All rows; what is wrong with any goes to `faults`.
pub(super) fn rows(
    sweep: &Sweep,
    folder: &Path,
    catalog: &Catalog,
    faults: &mut Vec<Diagnostic>,
) -> Vec<Planned> {
    let mut all = Faults { sweep, seen: BTreeSet::new(), found: Vec::new() };
    let mut known: BTreeMap<String, Option<Arc<Known>>> = BTreeMap::new();
    let combinations = combinations(sweep);
    // A setting that one strategy has and another has not is the former's alone.
    let mut taken: BTreeMap<(usize, &str), bool> = BTreeMap::new();
    let mut rows = Vec::new();
    for values in combinations {
        let mut planned = Planned { values, steps: Vec::new() };
        for (idx, step) in sweep.steps.iter().enumerate() {
            let name = step.task.filled(&|name| planned.values.get(name).cloned().unwrap_or_default());
            let found = known
                .entry(name.clone())
                .or_insert_with(|| look_up(&name, folder, catalog, step.task.span, &mut all).map(Arc::new));
            let bound = found.clone().and_then(|found| {
                for (key, _, _) in &step.settings {
                    *taken.entry((idx, key)).or_default() |= takes(&found, key);
                }
                bind(sweep, step, &found, &planned, &mut all)
            });
            // What follows from a fault is no fault of its own.
            planned.steps.push(bound.unwrap_or_else(|| PlannedStep::new(Task::Images)));
        }
        rows.push(planned);
        if !all.found.is_empty() && rows.len() >= ROWS_WITH_FAULTS {
            break;
        }
    }
    for ((idx, key), _) in taken.iter().filter(|(_, taken)| !**taken) {
        let step = &sweep.steps[*idx];
        let span =
            step.settings.iter().find(|(name, _, _)| name == key).map_or(step.span, |(_, span, _)| *span);
        let names =
            known.values().flatten().flat_map(|known| &known.parameters).map(|known| known.name.as_str());
        let near =
            nearest(key, names.chain([SAMPLE, BATCH, WORKERS])).map(|near| format!("did you mean `{near}`?"));
        let help = near.unwrap_or_else(|| {
            "`boxwork explain` of the pipeline lists its parameters; `sample`, `batch` and `workers` are a step's own".into()
        });
        let message = format!("what the step `{}` does has no parameter `{key}`", step.name);
        all.add(span, "unknown-setting", message, Some(help));
    }
    faults.append(&mut all.found);
    rows
}

/// The last axis varies fastest.
fn combinations(sweep: &Sweep) -> Vec<BTreeMap<String, String>> {
    sweep.axes.iter().fold(vec![BTreeMap::new()], |rows, axis| {
        let with = |row: &BTreeMap<String, String>, value: &String| {
            let mut row = row.clone();
            row.insert(axis.name.clone(), value.clone());
            row
        };
        rows.iter().flat_map(|row| axis.values.iter().map(move |value| with(row, value))).collect()
    })
}

fn integer(name: &str, minimum: i64, maximum: i64, default: Option<i64>) -> ParameterDeclaration {
    ParameterDeclaration {
        name: name.to_owned(),
        kind: ParameterType::Integer { minimum, maximum },
        one_of: Vec::new(),
        default: default.map(Value::Integer),
        optional: false,
        about: String::new(),
    }
}

fn look_up(
    name: &str,
    folder: &Path,
    catalog: &Catalog,
    span: Span,
    faults: &mut Faults<'_>,
) -> Option<Known> {
    let of_shipped = |shipped: &shipped::Shipped| {
        let name = shipped.path.trim_start_matches("pipelines/").trim_end_matches(".yaml");
        (name, *shipped)
    };
    let shipped = shipped::ALL.iter().map(of_shipped).find(|(known, _)| *known == name);
    let loaded = match (name, shipped) {
        ("sample_images", _) => {
            let classes = integer("classes", 1, CLASSES_COUNT_MAX as i64, Some(CLASSES_COUNT_MAX as i64));
            let per_class = integer("per_class", 1, PER_CLASS_MAX as i64, Some(PER_CLASS_DEFAULT as i64));
            let parameters = vec![classes, per_class, integer("seed", 0, i64::MAX, Some(1))];
            return Some(Known { task: Task::Images, parameters });
        }
        ("sizes", _) => {
            let mut parameters =
                vec![integer("from", 0, 1 << 20, None), integer("width", 1, 1 << 20, Some(1))];
            parameters.push(ParameterDeclaration {
                kind: ParameterType::Path,
                default: None,
                ..integer("store", 0, 0, None)
            });
            return Some(Known { task: Task::Sizes, parameters });
        }
        ("divine", _) => {
            let mut parameters = shipped::AUTO.load().declaration.parameters;
            parameters.retain(|parameter| parameter.name != "range");
            return Some(Known { task: Task::Divine, parameters });
        }
        (_, Some((_, shipped))) => shipped.load(),
        (path, None) if path.ends_with(".yaml") || path.ends_with(".yml") => {
            match pipeline::load(&folder.join(path)) {
                Ok(loaded) => loaded,
                Err(of_file) => {
                    let message = format!("the pipeline {path} cannot be used");
                    faults.add(span, "unknown-pipeline", message, None);
                    faults.found.extend(of_file);
                    return None;
                }
            }
        }
        _ => {
            let names = shipped::ALL.iter().map(|shipped| of_shipped(shipped).0);
            let names: Vec<&str> = names.chain(["sample_images", "sizes", "divine"]).collect();
            let near = did_you_mean(name, names.iter().copied());
            let help = match near.trim_start_matches("; ") {
                "" => format!("there are {}, and paths of YAML files", names.join(", ")),
                near => near.to_owned(),
            };
            faults.add(span, "unknown-pipeline", format!("there is no pipeline `{name}`"), Some(help));
            return None;
        }
    };
    let (_, diagnostics) = loaded.check(catalog, &loaded.declaration.defaults());
    if diagnostics.iter().any(Diagnostic::is_error) {
        faults.add(span, "unknown-pipeline", format!("the pipeline {name} has faults"), None);
        faults.found.extend(diagnostics.into_iter().filter(Diagnostic::is_error));
        return None;
    }
    let parameters = loaded.declaration.parameters.clone();
    let has = |name: &str| parameters.iter().any(|parameter| parameter.name == name);
    let (asks, judges) = (has("queries") && has("store"), name == "evaluate");
    let loaded = Arc::new(loaded);
    let task = match () {
        () if asks => Task::Ask(loaded),
        () if judges => Task::Evaluate(loaded),
        () => Task::Make(loaded),
    };
    Some(Known { task, parameters })
}

fn takes(known: &Known, key: &str) -> bool {
    let is_own = key == WORKERS || ([SAMPLE, BATCH].contains(&key) && known.asks());
    is_own || known.parameters.iter().any(|parameter| parameter.name == key)
}

impl Known {
    fn asks(&self) -> bool {
        matches!(self.task, Task::Ask(_) | Task::Divine)
    }
}

/// A step's settings as values of its pipeline's parameters.
fn bind(
    sweep: &Sweep,
    step: &Step,
    known: &Known,
    row: &Planned,
    faults: &mut Faults<'_>,
) -> Option<PlannedStep> {
    let before = faults.found.len();
    let mut bound = PlannedStep::new(known.task.clone());
    for (key, span, given) in &step.settings {
        if let own @ (SAMPLE | BATCH | WORKERS) = key.as_str() {
            let text = text_of(sweep, given.templates().first(), row, &mut bound.uses).unwrap_or_default();
            let most = if own == BATCH { boxwork_runtime::parameter::QUERIES_MAX } else { 4096 };
            match (text.parse::<usize>(), own) {
                (Ok(count), _) if count == 0 || count > most => {
                    faults.add(*span, "wrong-value", format!("`{own}` is a number from 1 to {most}"), None);
                }
                (Ok(count), SAMPLE) => bound.sample = count,
                (Ok(count), BATCH) => bound.batch = count,
                (Ok(count), _) => bound.workers = Some(count),
                (Err(_), _) => {
                    faults.add(*span, "wrong-value", format!("`{own}` is a number from 1 to {most}"), None)
                }
            }
            continue;
        }
        let Some(parameter) = known.parameters.iter().find(|parameter| parameter.name == *key) else {
            continue;
        };
        if OURS.contains(&key.as_str()) {
            let message = format!("`{key}` is given by the experiment");
            let help =
                (key == "queries").then(|| "write `sample: 20`: so many objects of the store".to_owned());
            faults.add(*span, "wrong-setting", message, help);
            continue;
        }
        match value(sweep, parameter, given, row, &mut bound.uses) {
            Ok(value) => drop(bound.values.insert(key.clone(), value)),
            Err(message) => faults.add(*span, "wrong-value", message, None),
        }
    }
    for parameter in &known.parameters {
        let is_missing = parameter.default.is_none() && !parameter.optional;
        if is_missing
            && !OURS.contains(&parameter.name.as_str())
            && !step.settings.iter().any(|given| given.0 == parameter.name)
        {
            let message = format!("the step `{}` gives no `{}`", step.name, parameter.name);
            let help = format!("it is {}: {}", parameter.kind, parameter.about);
            faults.add(step.span, "missing-setting", message, Some(help));
        }
    }
    if known.asks() && bound.sample == 0 {
        let message = format!("the step `{}` has no queries", step.name);
        faults.add(
            step.span,
            "missing-setting",
            message,
            Some("write `sample: 20`: so many objects of the store".into()),
        );
    }
    for used in &bound.uses {
        let task = row.steps.get(*used).map(|step| &step.task);
        if !matches!(task, Some(Task::Images | Task::Make(_)) | None) {
            let message =
                format!("the step `{}` makes no file that another could use", sweep.steps[*used].name);
            faults.add(step.span, "wrong-setting", message, None);
        }
    }
    if faults.found.len() > before {
        return None;
    }
    let task = step.task.filled(&|name| row.values.get(name).cloned().unwrap_or_default());
    let mut text = format!("{task} {} {} {:?}", bound.sample, bound.batch, bound.workers);
    bound.values.iter().for_each(|(name, value)| text += &format!("\u{1}{name}={value}"));
    bound.key = fingerprint(&text);
    Some(bound)
}

/// The file that a step makes, below the experiment's data.
pub(super) fn file(step: &Step, planned: &PlannedStep) -> String {
    let ending = if matches!(planned.task, Task::Images) { "" } else { ".arrow" };
    format!("{}-{}{ending}", step.name, planned.key)
}

fn text_of(
    sweep: &Sweep,
    template: Option<&Template>,
    row: &Planned,
    uses: &mut BTreeSet<usize>,
) -> Option<String> {
    let template = template?;
    for name in template.names() {
        uses.extend(sweep.step(name));
    }
    Some(template.filled(&|name| match (row.values.get(name), sweep.step(name)) {
        (Some(value), _) => value.clone(),
        (None, Some(idx)) => match row.steps.get(idx) {
            Some(planned) => format!("{DATA}{}", file(&sweep.steps[idx], planned)),
            None => String::new(),
        },
        (None, None) => String::new(),
    }))
}

fn value(
    sweep: &Sweep,
    parameter: &ParameterDeclaration,
    given: &Given,
    row: &Planned,
    uses: &mut BTreeSet<usize>,
) -> Result<Value, String> {
    let mut list = Vec::new();
    for template in given.templates() {
        let has_step = template.names().any(|name| sweep.step(name).is_some());
        if has_step && (template.pieces.len() != 1 || !matches!(template.pieces[0], Piece::Name(_))) {
            return Err(format!("`{}`: a step's file stands alone, as \"${{store}}\"", parameter.name));
        }
        let text = text_of(sweep, Some(template), row, uses).unwrap_or_default();
        match (parse_setting(parameter, &text)?, given) {
            (Value::List(items), _) => list.extend(items),
            (value, Given::One(_)) => return Ok(value),
            (_, Given::Many(_)) => return Err(format!("`{}` is one value and no list", parameter.name)),
        }
    }
    Ok(Value::List(list))
}
