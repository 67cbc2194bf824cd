//! A text as a pipeline: read, checked, its faults printed in every form, drawn, explained.
#![no_main]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use boxwork::diagnostic::{self, Diagnostic};
use boxwork::explain::Explained;
use boxwork::pipeline::{FAULTS_COUNT_MAX, Loaded, load_text, read_text};
use boxwork::{drawing, given};
use boxwork_runtime::feeding::LazyDevices;
use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::topology::Topology;
use libfuzzer_sys::fuzz_target;

static CATALOG: LazyLock<Catalog> = LazyLock::new(boxwork_operators::catalog);
static MACHINE: LazyLock<Topology> =
    LazyLock::new(|| Topology::synthetic("pack:2 numa:1 core:2 pu:2").expect("a machine"));

fuzz_target!(|text: &str| {
    let loaded = read_text("fuzz.yaml", text);
    assert_eq!(load_text("fuzz.yaml", text).is_err(), loaded.flaws().iter().any(Diagnostic::is_error));
    show(&loaded, text, &loaded.declaration.defaults());

    // With values as on a command line: the text's last line for every parameter.
    let value = text.lines().last().unwrap_or_default();
    let settings: Vec<(String, String)> = loaded
        .declaration
        .parameters
        .iter()
        .map(|parameter| (parameter.name.clone(), value.to_owned()))
        .collect();
    match given::parse_settings(&loaded.declaration, &settings) {
        Ok(given) if !given.is_empty() => {
            let mut values = loaded.declaration.defaults();
            values.extend(given);
            show(&loaded, text, &values);
        }
        Ok(_) => {}
        Err(faults) => {
            for (name, message) in faults {
                told(&[loaded.diagnose_value(&name, &message)], text);
            }
        }
    }
});

/// All that `check`, `graph` and `explain` show.
fn show(loaded: &Loaded, text: &str, values: &BTreeMap<String, Value>) {
    let (plan, diagnostics) = loaded.check(&CATALOG, values);
    assert_eq!(plan.is_none(), diagnostics.iter().any(Diagnostic::is_error), "a plan, or a reason");
    assert!(diagnostics.len() <= 2 * FAULTS_COUNT_MAX + 1);
    told(&diagnostics, text);

    let drawn = drawing::draw(loaded, &CATALOG, values);
    let [mermaid, dot, svg] = [drawing::mermaid(&drawn), drawing::dot(&drawn), drawing::svg(&drawn)];
    for drawing in [&mermaid, &dot, &svg] {
        assert!(!drawing.contains(|c: char| c.is_control() && c != '\n'));
    }
    // No name starts a new line, element or statement.
    let (boxes, arrows) = (drawn.boxes.len(), drawn.arrows.len());
    assert_eq!(dot.lines().count(), 5 + boxes + arrows);
    assert!((1 + boxes + arrows..=3 + boxes + 2 * arrows).contains(&mermaid.lines().count()));
    for element in ["text", "g", "title", "svg", "defs", "marker"] {
        let opened =
            svg.matches(&format!("<{element}>")).count() + svg.matches(&format!("<{element} ")).count();
        assert_eq!(opened, svg.matches(&format!("</{element}>")).count(), "{element}");
    }
    assert!(!svg.contains("NaN") || text.contains("NaN"));

    if let Some(plan) = plan {
        let devices = &LazyDevices::none();
        let explained = Explained { about: &loaded.about, plan: &plan, values, topology: &MACHINE, devices };
        assert!(!explained.text().is_empty());
        assert!(explained.json().is_object());
    }
}

fn told(diagnostics: &[Diagnostic], text: &str) {
    for diagnostic in diagnostics {
        if let Some(place) = &diagnostic.place {
            assert!(text.get(place.span.start..place.span.end).is_some(), "a place within the text");
            assert!(place.line >= 1 && place.column >= 1);
            assert!((place.line, place.column) <= (place.end_line, place.end_column));
        }
        assert!(!diagnostic.to_string().contains(|c: char| c.is_control() && c != '\n'));
    }
    let plain = diagnostic::render(diagnostics, false);
    assert!(!plain.contains(|c: char| c.is_control() && c != '\n'), "{plain:?}");
    let coloured = diagnostic::render(diagnostics, true);
    assert!(!coloured.contains(|c: char| c.is_control() && c != '\n' && c != '\u{1b}'));
    let json = diagnostic::to_json(diagnostics);
    assert_eq!(json["diagnostics"].as_array().map(Vec::len), Some(diagnostics.len()));
    assert!(!diagnostic::summary(diagnostics).is_empty());
}
