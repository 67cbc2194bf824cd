//! The figures of a run on drawings of a shipped pipeline.

use std::collections::BTreeMap;

use super::{Drawing, dot, draw, mermaid, svg};
use crate::run_report::{BoxReport, EdgeReport, RunReport};
use crate::shipped;

fn drawing() -> Drawing {
    let loaded = shipped::SEARCH.load();
    let catalog = boxwork_operators::catalog();
    draw(&loaded, &catalog, &loaded.declaration.defaults())
}

/// A report in which `distance` is the busiest box, and the edge to it was full and grown.
fn report(drawing: &Drawing) -> RunReport {
    let boxes = drawing.boxes.iter().map(|drawn| BoxReport {
        name: drawn.name.clone(),
        copies: if drawn.name == "distance" { 4 } else { 1 },
        rows_in: 500,
        rows_out: 123_450,
        busy_seconds: if drawn.name == "distance" { 36.0 } else { 1.0 },
        blocked_seconds: if drawn.name == "query" { 5.0 } else { 0.0 },
        ..BoxReport::default()
    });
    let edges = drawing.arrows.iter().map(|arrow| {
        let (from, to) = (&drawing.boxes[arrow.from], &drawing.boxes[arrow.to]);
        let full = from.outputs[arrow.output].name == "candidates";
        EdgeReport {
            from: format!("{}.{}", from.name, from.outputs[arrow.output].name),
            to: format!("{}.{}", to.name, to.inputs[arrow.input].name),
            rows: 123_450,
            envelopes_high: 16,
            envelopes_max: full.then_some(16),
            bytes_high: 3 << 20,
            refusals: if full { 1_312 } else { 0 },
            grown: usize::from(full),
            ..EdgeReport::default()
        }
    });
    RunReport {
        boxwork_report: 1,
        seconds: 10.0,
        requests: 1,
        boxes: boxes.collect(),
        edges: edges.collect(),
        ..RunReport::default()
    }
}

fn measured() -> Drawing {
    let mut drawing = drawing();
    let report = report(&drawing);
    assert_eq!(drawing.measure(&report), Vec::<String>::new());
    drawing
}

#[test]
fn rates_and_marks_stand_in_all_three_languages() {
    let drawing = measured();
    for text in [dot(&drawing), svg(&drawing), mermaid(&drawing)] {
        for expected in [
            "12.3 k rows/s",
            "50 rows/s",
            "busy 90 % of 4 copies",
            "blocked 50 %",
            "most 16 of 16, 3 MiB",
            "full 1.31 k times",
            "grown once",
            "#fbd38d",
            "#dd6b20",
        ] {
            assert!(text.contains(expected), "{expected} is not in {text}");
        }
        assert_eq!(text.matches("full 1.31 k times").count(), 1);
    }
    let busiest = dot(&drawing)
        .lines()
        .filter(|line| line.contains("fillcolor"))
        .map(str::to_owned)
        .collect::<Vec<_>>();
    assert!(busiest.len() == 1 && busiest[0].contains("distance"), "{busiest:?}");
    assert_eq!(mermaid(&drawing).matches(":::busiest").count(), 1);
}

#[test]
fn a_drawing_without_a_report_says_nothing_of_runs() {
    for text in [dot(&drawing()), svg(&drawing()), mermaid(&drawing())] {
        for strange in ["rows/s", "busiest", "#fbd38d", "#dd6b20"] {
            assert!(!text.contains(strange), "{strange} is in {text}");
        }
    }
}

#[test]
fn a_report_of_another_pipeline_is_noticed() {
    let mut drawing = drawing();
    let mut report = report(&drawing);
    report.boxes[1].name = "else".to_owned();
    report.edges.remove(1);
    let strange = drawing.measure(&report).join("; ");
    for expected in ["has no box `scan`", "a box `else`", "no edge scan.candidates -> distance.candidates"] {
        assert!(strange.contains(expected), "{expected} is not in {strange}");
    }
    let report = RunReport { seconds: 0.0, ..report };
    drawing.measure(&report);
    assert!(svg(&drawing).contains("123450 rows"), "a run without a time has no rates");
}

#[test]
fn texts_of_a_measured_picture_do_not_overlap() {
    let picture = svg(&measured());
    let mut texts: Vec<(f64, f64, f64, f64, String)> = Vec::new();
    for line in picture.lines().filter(|line| line.starts_with("<text")) {
        let attributes: BTreeMap<&str, &str> = line
            .split('"')
            .collect::<Vec<_>>()
            .chunks(2)
            .filter_map(|pair| match pair {
                [name, value] => {
                    Some((name.trim_start_matches("<text").trim().trim_end_matches('='), *value))
                }
                _ => None,
            })
            .collect();
        let number = |name: &str| attributes[name].parse::<f64>().expect("a number");
        let content = line.split_once('>').and_then(|(_, rest)| rest.split_once('<')).expect("a text").0;
        let (px, x, y) = (number("font-size"), number("x"), number("y"));
        let width = svg::text_width(content, px);
        let left = match attributes["text-anchor"] {
            "start" => x,
            "middle" => x - width / 2.0,
            _ => x - width,
        };
        texts.push((left, left + width, y - 0.75 * px, y + 0.2 * px, content.to_owned()));
    }
    assert!(texts.len() > 30, "{}", texts.len());
    for (nth, a) in texts.iter().enumerate() {
        for b in &texts[nth + 1..] {
            assert!(a.0 >= b.1 || b.0 >= a.1 || a.2 >= b.3 || b.2 >= a.3, "{} and {} overlap", a.4, b.4);
        }
    }
}
