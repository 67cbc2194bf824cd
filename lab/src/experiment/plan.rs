//! Every combination of the axes' values as calls of tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use boxwork_runtime::parameter::did_you_mean;

use super::sweep::{Fault, Sweep, fill};
use super::{Call, Task, Work};

/// The values of a row by axis.
pub(super) type Values = BTreeMap<String, String>;

/// One row: the values of its axes, and a call for each step.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) values: Values,
    pub(super) calls: Vec<PlannedCall>,
}

/// A call and what it depends on.
#[derive(Debug)]
pub(super) struct PlannedCall {
    pub(super) call: Call,
    /// Calls with equal keys do equal work.
    pub(super) key: String,
    /// Steps whose files it reads.
    pub(super) uses: BTreeSet<usize>,
    makes_file: bool,
}

impl Row {
    /// The varying values, in a line.
    pub(super) fn label(&self, sweep: &Sweep) -> String {
        let varies = sweep.axes.0.iter().filter(|(_, values)| values.len() > 1);
        let words: Vec<String> = varies.map(|(name, _)| format!("{name}={}", self.values[name])).collect();
        if words.is_empty() { "the only row".to_owned() } else { words.join(" ") }
    }

    /// The steps whose files a step reads, directly or indirectly, each after its own inputs.
    pub(super) fn needs(&self, step: usize) -> Vec<usize> {
        let mut needs = Vec::new();
        for used in &self.calls[step].uses {
            for before in self.needs(*used).into_iter().chain([*used]) {
                if !needs.contains(&before) {
                    needs.push(before);
                }
            }
        }
        needs
    }
}

/// All rows, with the files of their steps below a folder.
///
/// # Errors
/// Every fault of any combination, once.
pub(super) fn rows(sweep: &Sweep, data: &Path, work: &mut dyn Work) -> Result<Vec<Row>, Vec<Fault>> {
    let mut planner = Planner { sweep, data, work, taken: BTreeMap::new(), faults: BTreeSet::new() };
    let rows: Vec<Row> = combinations(sweep).into_iter().map(|values| planner.row(values)).collect();
    planner.add_unused_settings();
    if planner.faults.is_empty() { Ok(rows) } else { Err(planner.faults.into_iter().collect()) }
}

/// The rows; the last axis varies fastest.
fn combinations(sweep: &Sweep) -> Vec<Values> {
    sweep.axes.0.iter().fold(vec![Values::new()], |rows, (axis, _)| {
        let with = |row: &Values, value: &str| {
            let mut row = row.clone();
            row.insert(axis.clone(), value.to_owned());
            row
        };
        rows.iter().flat_map(|row| sweep.values(axis).map(move |value| with(row, value))).collect()
    })
}

struct Planner<'a> {
    sweep: &'a Sweep,
    data: &'a Path,
    work: &'a mut dyn Work,
    /// Settings by step and name, and whether any task of the step accepts them. A setting of one strategy that another
    /// lacks is no fault.
    taken: BTreeMap<(usize, String), Taken>,
    faults: BTreeSet<Fault>,
}

#[derive(Default)]
struct Taken {
    is_taken: bool,
    known: BTreeSet<String>,
}

impl Planner<'_> {
    fn row(&mut self, values: Values) -> Row {
        let mut row = Row { values, calls: Vec::new() };
        for step in 0..self.sweep.steps.0.len() {
            let call = self.call(step, &row);
            row.calls.push(call);
        }
        row
    }

    fn call(&mut self, step: usize, row: &Row) -> PlannedCall {
        let (name, texts) = &self.sweep.steps.0[step];
        let (mut uses, mut settings) = (BTreeSet::new(), BTreeMap::new());
        for (setting, text) in &texts.0 {
            let filled = fill(&text.value, &mut |name| {
                row.values.get(name).cloned().or_else(|| {
                    let used = self.sweep.steps.names().position(|known| known == name)?;
                    uses.insert(used);
                    Some(row.calls[used].call.file.to_string_lossy().into_owned())
                })
            });
            settings.extend(filled.ok().map(|value| (setting.clone(), value)));
        }
        let task = settings.remove("do").unwrap_or_default();
        let known = self.work.task(&task);
        let Task { settings: known, makes } = match known {
            Ok(known) => known,
            Err(message) => {
                self.fault(step, "do", message);
                // An unknown task has no further faults.
                Task { settings: settings.keys().cloned().collect(), makes: Some("") }
            }
        };
        for setting in settings.keys() {
            let taken = self.taken.entry((step, setting.clone())).or_default();
            taken.is_taken |= known.contains(setting);
            taken.known.extend(known.iter().cloned());
        }
        settings.retain(|setting, _| known.contains(setting));
        let key = key(&task, &settings, self.data);
        let file = self.data.join(format!("{name}-{key}{}", makes.unwrap_or_default()));
        let call = Call { task, settings, file };
        for (setting, message) in self.work.check(&call) {
            self.fault(step, &setting, message);
        }
        for used in &uses {
            if !row.calls[*used].makes_file {
                let other = &self.sweep.steps.0[*used].0;
                self.fault(
                    step,
                    "do",
                    format!("the step `{other}` makes no file that another step could use"),
                );
            }
        }
        PlannedCall { call, key, uses, makes_file: makes.is_some() }
    }

    /// Notes a fault at a setting of a step, or at its task.
    fn fault(&mut self, step: usize, setting: &str, message: String) {
        let texts = &self.sweep.steps.0[step].1;
        let place = texts.get(setting).or_else(|| texts.get("do"));
        self.faults.extend(place.map(|place| Fault::at(place, message)));
    }

    /// Reports settings that no task of their step accepts.
    fn add_unused_settings(&mut self) {
        for ((step, setting), taken) in std::mem::take(&mut self.taken) {
            if !taken.is_taken {
                let near = did_you_mean(&setting, taken.known.iter().map(String::as_str));
                let name = &self.sweep.steps.0[step].0;
                self.fault(step, &setting, format!("the task of the step `{name}` has no `{setting}`{near}"));
            }
        }
    }
}

/// A short name for a call. The folder of the data may move, so it does not count.
fn key(task: &str, settings: &BTreeMap<String, String>, data: &Path) -> String {
    let data = data.to_string_lossy();
    let settings = settings.iter().map(|(name, value)| format!("\u{1}{name}={}", value.replace(&*data, "")));
    // FNV-1a: two calls of a sweep do not collide by chance, and sweeps are not adversarial.
    let hash = settings
        .fold(task.to_owned(), |text, setting| text + &setting)
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    format!("{hash:016x}")
}
