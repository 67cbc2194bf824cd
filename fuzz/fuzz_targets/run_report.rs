//! A text as the report of a run: refused with the file's name, or drawn on a pipeline in every language.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use boxwork::drawing::{self, Drawing};
use boxwork::pipeline::read_text;
use boxwork::run_report::RunReport;
use boxwork::shipped;
use boxwork_fuzz::folder;
use libfuzzer_sys::fuzz_target;

static DRAWN: LazyLock<Drawing> = LazyLock::new(|| {
    let shipped = shipped::ALL.iter().find(|shipped| shipped.name() == "search");
    let loaded = read_text("search.yaml", shipped.expect("a shipped pipeline").text);
    drawing::draw(&loaded, &boxwork_operators::catalog(), &loaded.declaration.defaults())
});

fuzz_target!(|text: &str| {
    let path = folder().join("report.json");
    fs::write(&path, text).expect("a folder that can be written to");
    let report = match RunReport::read(&path) {
        Ok(report) => report,
        Err(error) => {
            assert!(error.contains("report.json"), "{error}");
            return;
        }
    };
    let mut drawn = DRAWN.clone();
    drawn.measure(&report);
    for drawing in [drawing::mermaid(&drawn), drawing::dot(&drawn), drawing::svg(&drawn)] {
        assert!(!drawing.contains(|c: char| c.is_control() && c != '\n'));
    }
});
