//! The results as one page that needs nothing else: the machine, and for each workload its plots and all figures.

use std::fmt::Write as _;

use super::Results;
use super::plot::{Bar, Line, bars, lines};
use super::results::{MeasuredCase, MeasuredWorkload, names, shown};
use super::spread::Spread;
use crate::page::{STYLE, escape};

/// Figures of this name are a curve over the grain: `efficiency_64us`.
const CURVE: &str = "efficiency_";

/// The whole page.
pub(super) fn page(results: &Results) -> String {
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Boxwork benches</title>\n\
         <style>\n{}</style>\n</head>\n<body>\n<main>\n<h1>Boxwork benches</h1>\n<dl>\n",
        STYLE
    );
    for (name, value) in results.about() {
        let _ = writeln!(text, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(&value));
    }
    text.push_str("</dl>\n");
    results.workloads.iter().for_each(|measured| section(&mut text, measured));
    text.push_str("</main>\n</body>\n</html>\n");
    text
}

fn section(text: &mut String, measured: &MeasuredWorkload) {
    let workload = measured.workload;
    let title = escape(&format!("{} {}", workload.id, workload.name));
    let _ = writeln!(text, "<section>\n<h2>{title}</h2>\n<p>{}</p>", escape(workload.question));
    for plot in plots(measured) {
        let _ = writeln!(text, "<figure>\n{plot}</figure>");
    }
    for cases in measured.by_setting() {
        let _ = write!(
            text,
            "<table>\n<caption>{}</caption>\n<tr><th>workers</th>",
            escape(&cases[0].case.to_string())
        );
        for case in cases {
            let _ = write!(text, "<th>{}</th>", case.workers);
        }
        for name in names(cases) {
            let _ = write!(text, "</tr>\n<tr><th>{}</th>", escape(name));
            for case in cases {
                let _ = write!(text, "<td>{}</td>", escape(&shown(case, name)));
            }
        }
        text.push_str("</tr>\n</table>\n");
    }
    text.push_str("</section>\n");
}

/// The first figure of every case as bars, as parts of a workload may answer in different ones; against workers where
/// there are several; and curves over the grain.
fn plots(measured: &MeasuredWorkload) -> Vec<String> {
    let mut plots = Vec::new();
    let mut answers: Vec<&str> = Vec::new();
    for case in &measured.cases {
        let first = case.figures.first().map(|(name, _)| name.as_str());
        answers.extend(first.filter(|name| !answers.contains(name)).as_slice());
    }
    for answer in answers {
        let with_answer: Vec<(usize, &MeasuredCase, Spread)> = measured
            .by_setting()
            .into_iter()
            .enumerate()
            .flat_map(|(group, cases)| cases.iter().map(move |case| (group, case)))
            .filter(|(_, case)| case.figures.first().is_some_and(|(name, _)| name == answer))
            .map(|(group, case)| (group, case, Spread::of(&case.figures[0].1)))
            .collect();
        let bar = |(group, case, spread): &(usize, &MeasuredCase, Spread)| Bar {
            label: label(measured, case, true),
            spread: *spread,
            group: *group,
        };
        let heading = escape(answer);
        let bars = bars(answer, &with_answer.iter().map(bar).collect::<Vec<_>>());
        plots.push(format!("<figcaption>{heading}</figcaption>\n{bars}"));
        let by_setting: Vec<Line> = with_answer
            .chunk_by(|a, b| a.0 == b.0)
            .filter(|cases| cases.len() > 1)
            .map(|cases| Line {
                label: label(measured, cases[0].1, false),
                points: cases.iter().map(|(_, case, spread)| (case.workers as f64, spread.median)).collect(),
            })
            .collect();
        if !by_setting.is_empty() {
            let lines = lines(answer, "workers", &by_setting);
            plots.push(format!("<figcaption>{heading} by workers</figcaption>\n{lines}"));
        }
    }
    let curves: Vec<Line> = measured.cases.iter().filter_map(|case| curve(measured, case)).collect();
    if !curves.is_empty() {
        let lines = lines("efficiency", "microseconds a task", &curves);
        plots.push(format!("<figcaption>efficiency by grain</figcaption>\n{lines}"));
    }
    plots
}

/// Efficiency over the grain, where a case has it.
fn curve(measured: &MeasuredWorkload, case: &MeasuredCase) -> Option<Line> {
    let point = |(name, rounds): &(String, Vec<f64>)| {
        let grain = name.strip_prefix(CURVE)?.strip_suffix("us")?.parse().ok()?;
        Some((grain, Spread::of(rounds).median))
    };
    let mut points: Vec<(f64, f64)> = case.figures.iter().filter_map(point).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    (!points.is_empty()).then(|| Line { label: label(measured, case, true), points })
}

/// The settings in which a case differs from another one of its workload; the tables have all of them.
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
