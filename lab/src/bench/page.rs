//! The results as a page: the machine, and for each workload its plots and all figures.

use super::Results;
use super::results::{MeasuredCase, MeasuredWorkload, names, shown};
use crate::page::Page;
use crate::plot::{Bar, Chart, Line, are_far_apart, bars};
use crate::spread::Spread;

/// A figure with this prefix is a point of a curve over the grain: `efficiency_64us`.
const CURVE: &str = "efficiency_";

/// Numbers of workers that are worth a line; two or fewer are bars.
const COURSE: usize = 3;

impl Results {
    /// One self-contained page with plots.
    pub fn html(&self) -> String {
        let mut page = Page::new("Boxwork benches", &self.about());
        for measured in &self.workloads {
            let workload = measured.workload;
            page.section(&format!("{} {}", workload.id, workload.name), workload.question);
            plots(measured).iter().for_each(|plot| page.figure(plot));
            for cases in measured.by_setting() {
                page.table(&cases[0].case.to_string(), &rows(cases));
            }
        }
        page.finish()
    }
}

/// A row for each figure, a column for each number of workers.
fn rows(cases: &[MeasuredCase]) -> Vec<Vec<String>> {
    let row = |name: &str, cell: &dyn Fn(&MeasuredCase) -> String| {
        std::iter::once(name.to_owned()).chain(cases.iter().map(cell)).collect()
    };
    let head = row("workers", &|case| case.workers.to_string());
    let figures = names(cases).into_iter().map(|name| row(name, &|case| shown(case, name)));
    std::iter::once(head).chain(figures).collect()
}

/// The answer of every case once: as lines over the number of workers if that has a course, as bars otherwise; and the
/// curves over the grain. The parts of a workload may have different answers.
fn plots(measured: &MeasuredWorkload) -> Vec<String> {
    let mut plots = Vec::new();
    let mut answers: Vec<&str> = Vec::new();
    for (name, _) in measured.cases.iter().filter_map(answer) {
        if !answers.contains(&name) {
            answers.push(name);
        }
    }
    for name in answers {
        let groups: Vec<Vec<(&MeasuredCase, Spread)>> = measured
            .by_setting()
            .into_iter()
            .map(|cases| {
                let with_answer = cases.iter().filter_map(|case| Some((case, answer(case)?)));
                with_answer.filter(|(_, of)| of.0 == name).map(|(case, of)| (case, of.1)).collect()
            })
            .collect();
        if groups.iter().any(|cases| cases.len() >= COURSE) {
            let line = |cases: &Vec<(&MeasuredCase, Spread)>| Line {
                label: label(measured, cases[0].0, false),
                points: cases.iter().map(|(case, of)| (case.workers.to_string(), *of)).collect(),
            };
            let lines = groups.iter().filter(|cases| !cases.is_empty()).map(line).collect();
            plots.extend(chart(name, "workers", lines));
            continue;
        }
        let bar = |group: usize, (case, spread): &(&MeasuredCase, Spread)| Bar {
            label: label(measured, case, true),
            spread: *spread,
            group,
        };
        let groups = groups.iter().enumerate();
        let all: Vec<Bar> =
            groups.flat_map(|(group, cases)| cases.iter().map(move |case| bar(group, case))).collect();
        plots.push(bars(name, &all));
    }
    let curves = measured.cases.iter().filter_map(|case| curve(measured, case)).collect();
    plots.extend(chart("efficiency", "microseconds per task", curves));
    plots
}

fn answer(case: &MeasuredCase) -> Option<(&str, Spread)> {
    case.figures.first().map(|(name, rounds)| (name.as_str(), Spread::of(rounds)))
}

fn chart(y: &str, x: &str, lines: Vec<Line>) -> Option<String> {
    let heading = format!("{y} by {x}");
    let is_log = are_far_apart(lines.iter().flat_map(|line| &line.points).map(|point| point.1));
    Chart { heading: &heading, x, legend: "", log: (true, is_log), facets: vec![(String::new(), lines)] }
        .svg()
}

/// Efficiency over the grain, if the case has it.
fn curve(measured: &MeasuredWorkload, case: &MeasuredCase) -> Option<Line> {
    let point = |(name, rounds): &(String, Vec<f64>)| {
        let grain = name.strip_prefix(CURVE)?.strip_suffix("us")?;
        Some((grain.to_owned(), Spread::of(rounds)))
    };
    let points: Vec<(String, Spread)> = case.figures.iter().filter_map(point).collect();
    (!points.is_empty()).then(|| Line { label: label(measured, case, true), points })
}

/// The settings that distinguish a case from others of its workload; the tables have all settings.
fn label(measured: &MeasuredWorkload, case: &MeasuredCase, with_workers: bool) -> String {
    let differs = |setting: &(&str, &str)| {
        measured.cases.iter().any(|other| !other.case.iter().any(|of| of == *setting))
    };
    let mut words: Vec<String> =
        case.case.iter().filter(differs).map(|(name, value)| format!("{name}={value}")).collect();
    if words.is_empty() {
        words.push(measured.workload.name.to_owned());
    }
    if with_workers {
        words.push(format!("on {}", case.workers));
    }
    words.join(" ")
}
