//! The results of a measurement, as text and as JSON.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use super::spin::Spin;
use super::{Case, Workload};
use crate::machine::Machine;
use crate::number::significant;
use crate::spread::Spread;
use crate::turns::{Figures, Rounds};

/// All measurements, and their machine.
pub struct Results {
    pub(super) machine: Machine,
    pub(super) spin: Spin,
    /// The share of the cores that plain threads got, before the first case and after the last.
    pub(super) cores_free: [f64; 2],
    pub(super) warmup: usize,
    pub(super) rounds: usize,
    pub(super) workloads: Vec<MeasuredWorkload>,
}

/// The cases of one workload.
pub(super) struct MeasuredWorkload {
    pub(super) workload: &'static Workload,
    pub(super) cases: Vec<MeasuredCase>,
}

/// One case on one number of workers.
pub(super) struct MeasuredCase {
    pub(super) case: Case,
    pub(super) workers: usize,
    pub(super) figures: Rounds,
}

impl MeasuredCase {
    fn json(&self) -> Json {
        let number = |text: &str| text.parse::<f64>().map_or_else(|_| json!(text), |number| json!(number));
        let settings: Map<String, Json> =
            self.case.iter().map(|(name, value)| (name.to_owned(), number(value))).collect();
        let figure = |rounds: &[f64]| {
            let spread = Spread::of(rounds);
            json!({"median": spread.median, "low": spread.low, "high": spread.high, "rounds": rounds})
        };
        let figures: Map<String, Json> =
            self.figures.iter().map(|(name, rounds)| (name.clone(), figure(rounds))).collect();
        json!({"settings": settings, "workers": self.workers, "figures": figures})
    }
}

impl MeasuredWorkload {
    /// The cases of one setting, on all numbers of workers.
    pub(super) fn by_setting(&self) -> Vec<&[MeasuredCase]> {
        self.cases.chunk_by(|a, b| a.case == b.case).collect()
    }

    fn text(&self, text: &mut String) {
        let workload = self.workload;
        let _ = writeln!(text, "\n{} {}: {}", workload.id, workload.name, workload.question);
        for cases in self.by_setting() {
            let _ = writeln!(text, "\n  {}", cases[0].case);
            let mut lines = vec![("workers", cases.iter().map(|case| case.workers.to_string()).collect())];
            lines.extend(names(cases).into_iter().map(|name| {
                let cells: Vec<String> = cases.iter().map(|case| shown(case, name)).collect();
                (name, cells)
            }));
            let width = lines.iter().flat_map(|(_, cells)| cells).map(String::len).max().unwrap_or(0) + 2;
            for (name, cells) in lines {
                let cells: String = cells.iter().map(|cell| format!("{cell:width$}")).collect();
                let _ = writeln!(text, "  {name:24}{}", cells.trim_end());
            }
        }
    }
}

/// The names of the figures of some cases, each once.
pub(super) fn names(cases: &[MeasuredCase]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in cases.iter().flat_map(|case| &case.figures) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// A figure's median with its middle half.
pub(super) fn shown(case: &MeasuredCase, name: &str) -> String {
    let Some((_, rounds)) = case.figures.iter().find(|(known, _)| known == name) else {
        return "-".to_owned();
    };
    let Spread { median, low, high } = Spread::of(rounds);
    if rounds.len() < 3 || low == high {
        return significant(median);
    }
    format!("{} ({} to {})", significant(median), significant(low), significant(high))
}

impl Results {
    /// The lines about the machine, by name.
    pub(super) fn about(&self) -> Vec<(&'static str, String)> {
        let machine = &self.machine;
        let [before, after] = self.cores_free.map(significant);
        let load =
            machine.load.map_or_else(|| "unknown".to_owned(), |load| format!("{load} before the start"));
        vec![
            ("machine", machine.processor.clone()),
            ("topology", machine.shape()),
            ("load", load),
            ("free", format!("{before} cores before, {after} after, by plain threads")),
            ("work", format!("{:.3} ns per step", self.spin.ns_per_iteration)),
            ("rounds", format!("{} after {}; median (middle half)", self.rounds, self.warmup)),
        ]
    }

    /// For users.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.about() {
            let _ = writeln!(text, "{name:12}{value}");
        }
        self.workloads.iter().for_each(|measured| measured.text(&mut text));
        text
    }

    /// For programs: every round's figures, and their medians.
    pub fn json(&self) -> Json {
        let workloads: Vec<Json> = self
            .workloads
            .iter()
            .map(|measured| {
                let workload = measured.workload;
                let cases: Vec<Json> = measured.cases.iter().map(MeasuredCase::json).collect();
                json!({"id": workload.id, "name": workload.name, "question": workload.question, "cases": cases})
            })
            .collect();
        json!({
            "boxwork": env!("CARGO_PKG_VERSION"), "machine": self.machine.json(),
            "cores_free": self.cores_free,
            "spin_ns_per_iteration": self.spin.ns_per_iteration, "warmup": self.warmup, "rounds": self.rounds,
            "workloads": workloads,
        })
    }
}

/// Figures of one round as a JSON object, in their order.
pub(super) fn round_json(figures: Figures) -> Json {
    figures.into_iter().map(|(name, figure)| (name, json!(figure))).collect::<Map<_, _>>().into()
}
