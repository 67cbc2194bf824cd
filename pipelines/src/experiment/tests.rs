//! The language of sweeps: what is refused, with its place; and that a run goes on where it stopped.

use std::path::Path;

use boxwork_operators::catalog;

use super::{Experiment, ExperimentError, load_text};
use crate::diagnostic::Diagnostic;

fn load(text: &str, given: &[(&str, &str)]) -> Result<Experiment, Vec<Diagnostic>> {
    let given: Vec<(String, String)> =
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    load_text("s.yaml", text, Path::new("."), &catalog(), &given)
}

/// `line:column: message; help` of each fault.
fn faults(text: &str, given: &[(&str, &str)]) -> Vec<String> {
    let faults = load(text, given).expect_err("the sweep has faults");
    let line = |fault: &Diagnostic| {
        let place = fault.place.as_ref().map_or((0, 0), |place| (place.line, place.column));
        format!("{}:{}: {}; {}", place.0, place.1, fault.message, fault.help.as_deref().unwrap_or(""))
    };
    faults.iter().map(line).collect()
}

const SOUND: &str = "\
experiment: 1
axes:
  alpha: [0.2, 1]
  strategy: [scan_all, best_first]
  block: [16, 64]
rounds: 1
steps:
  store: {do: import, path: v.jsonl}
  index: {do: index, store: \"${store}\", alpha: \"${alpha}\", count: 3}
  search: {do: \"${strategy}\", store: \"${store}\", pivots: \"${index}\", alpha: \"${alpha}\", sample: 2, first: \"${block}\"}
plots:
  time: {x: block, y: search.ms, series: strategy, facets: alpha, log: [x, y]}
";

#[test]
fn all_faults_are_told_with_their_places() {
    let wrong = SOUND
        .replace("do: import", "do: imports")
        .replace("${alpha}\", count: 3", "${alhpa}\", counts: 3")
        .replace("series: strategy", "series: stratgy")
        .replace("y: search.ms", "y: serch.ms")
        .replace("rounds: 1", "runds: 1");
    let found = faults(&wrong, &[]);
    assert_eq!(
        found,
        [
            "6:1: a sweep has no key `runds`; did you mean `rounds`?",
            "9:48: `${alhpa}` is neither an axis nor a step before this one; did you mean `alpha`?",
            "12:23: `y: serch.ms` is no axis and no figure; did you mean `search.ms`?",
            "12:41: `series: stratgy` is no axis; did you mean `strategy`?",
        ]
    );
}

#[test]
fn what_a_pipeline_does_not_take_is_told_before_anything_runs() {
    let wrong = SOUND
        .replace("scan_all", "scann")
        .replace("count: 3", "counts: 3")
        .replace("[0.2, 1]", "[0.2, steep]")
        .replace("sample: 2, ", "")
        .replace(", path: v.jsonl", "");
    let found = faults(&wrong, &[("block", "0")]).join("\n");
    for expected in [
        "there is no pipeline `scann`",
        "what the step `index` does has no parameter `counts`; did you mean `count`?",
        "`alpha`: \"steep\" is not a number",
        "the step `search` has no queries; write `sample: 20`",
        "`first`: 0 is not a whole number from 1 to 65536",
        "the step `store` gives no `path`",
    ] {
        assert!(found.contains(expected), "{expected} is missing in\n{found}");
    }
    assert!(faults("a: [", &[])[0].contains("this is no YAML"));
    assert!(faults("- 1", &[])[0].contains("a sweep is a map"));
    assert!(faults("experiment: 2\nsteps: {}", &[])[0].contains("reads version 1"));
    let given = faults(SOUND, &[("alhpa", "1")]);
    assert!(given[0].contains("--set alhpa") && given[0].contains("did you mean `alpha`?"), "{given:?}");
    let many = format!("experiment: 1\naxes:\n  a: [{0}]\n  b: [{0}]\nsteps: {{}}\n", numbers(200));
    assert!(faults(&many, &[])[0].contains("more than 10000 combinations"));
    let unused = "experiment: 1\naxes: {a: [1, 2]}\nsteps: {s: {do: sample_images}}\n";
    assert!(faults(unused, &[])[0].contains("no step uses the axis `a`"));
}

fn numbers(count: usize) -> String {
    (0..count).map(|number| number.to_string()).collect::<Vec<_>>().join(", ")
}

/// Points of one centroid, near each other.
fn lines() -> String {
    let line = |n: u32| {
        let (x, y) = (f64::from(n * 7 % 40) / 10.0, f64::from(n * 13 % 40) / 10.0);
        format!(
            "{{\"name\": \"c{}/{n}\", \"coordinates\": [\"x\", \"y\"], \"centroids\": [[{x}, {y}]], \"weights\": [1]}}\n",
            n % 2
        )
    };
    (0..40).map(line).collect()
}

#[test]
fn a_run_goes_on_where_it_stopped_and_makes_no_file_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let points = folder.path().join("v.jsonl");
    std::fs::write(&points, lines()).expect("the lines are written");
    let text = SOUND
        .replace("scan_all", "search")
        .replace("path: v.jsonl", &format!("path: \"{}\"", points.display()));
    let out = folder.path().join("out");
    let run = |given: &[(&str, &str)]| {
        let mut told = Vec::new();
        let experiment = load(&text, given).unwrap_or_else(|faults| panic!("{faults:?}"));
        let summary = experiment.run(&out, &catalog(), &mut |row| told.push(row.to_owned()));
        (summary.unwrap_or_else(|error| panic!("{error}")), told)
    };
    let (first, told) = run(&[("alpha", "1")]);
    assert_eq!((first.rows, first.kept, first.plots, told.len()), (4, 0, 1, 4));
    let files = |ending: &str| {
        let entries = std::fs::read_dir(out.join("data")).expect("a folder");
        entries
            .filter(|entry| {
                entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().ends_with(ending))
            })
            .count()
    };
    // The store, its index, and the objects' similarities to themselves.
    assert_eq!(files(".arrow"), 2);
    let (second, told) = run(&[]);
    assert_eq!((second.rows, second.kept, told.len()), (8, 4, 4), "{told:?}");
    assert_eq!(files(".arrow"), 3, "one index more, and the store again");
    assert_eq!(files(".json"), 0, "no answers stay behind");
    let csv = std::fs::read_to_string(out.join("results.csv")).expect("a table");
    let head = csv.lines().next().expect("a first line");
    assert!(head.starts_with("alpha,strategy,block,search.ms,"), "{head}");
    assert_eq!(csv.lines().count(), 9);
    // The scan computes all distances, whatever the block: measured once, told in both rows.
    let scans: Vec<&str> = csv.lines().filter(|line| line.starts_with("0.2,search,")).collect();
    let figures = |line: &str| line.splitn(4, ',').nth(3).map(str::to_owned);
    assert_eq!((scans.len(), figures(scans[0])), (2, figures(scans[1])));
    assert!(scans[0].contains(",40,1,"), "{}", scans[0]);
    let plot = std::fs::read_to_string(out.join("time.svg")).expect("a plot");
    assert!(plot.contains("alpha 0.2") && plot.matches("<polyline").count() == 4, "{plot}");
    assert!(!plot.contains("NaN") && !plot.contains("inf"), "{plot}");
    let page = std::fs::read_to_string(out.join("index.html")).expect("a page");
    assert!(page.contains("<svg") && page.matches("<tr>").count() == 9);

    // Another sweep does not write into this one's table.
    let other =
        load(&text.replace("sample: 2", "sample: 3"), &[]).unwrap_or_else(|faults| panic!("{faults:?}"));
    let refused = other.run(&out, &catalog(), &mut |_| {}).expect_err("another sweep");
    assert!(matches!(&refused, ExperimentError::OtherSweep { .. }), "{refused}");
}

#[test]
fn one_value_is_compared_with_the_best_of_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let points = folder.path().join("v.jsonl");
    std::fs::write(&points, lines()).expect("the lines are written");
    let compare = "compare: {axis: strategy, value: best_first, figure: search.distances}\n";
    let text = SOUND
        .replace("[scan_all, best_first]", "[search, best_first, fixed_blocks]")
        .replace("path: v.jsonl", &format!("path: \"{}\"", points.display()))
        + compare;
    let out = folder.path().join("out");
    let run = |given: &[(&str, &str)]| {
        let experiment = load(&text, given).unwrap_or_else(|faults| panic!("{faults:?}"));
        experiment.run(&out, &catalog(), &mut |_| {}).unwrap_or_else(|error| panic!("{error}"))
    };
    let comparison = run(&[]).comparison.expect("the sweep asks for it");
    let csv = std::fs::read_to_string(out.join("comparison.csv")).expect("a table");
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("alpha,block,best_first,best,least,ratio"));
    let (mut most, mut count): (f64, usize) = (0.0, 0);
    let table = std::fs::read_to_string(out.join("results.csv")).expect("a table");
    let head = table.lines().next().expect("a first line").split(',');
    let column = head.into_iter().position(|name| name == "search.distances").expect("the figure");
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let of = |strategy: &str| -> f64 {
            let key = format!("{},{strategy},{},", cells[0], cells[1]);
            let row = table.lines().find(|row| row.starts_with(&key)).expect("a row");
            row.split(',').nth(column).and_then(|figure| figure.parse().ok()).expect("a number")
        };
        let least = of("search").min(of("fixed_blocks"));
        let number = |cell: &str| -> f64 { cell.parse().expect("a number") };
        assert_eq!((number(cells[2]), number(cells[4])), (of("best_first"), least), "{line}");
        assert_eq!(of(cells[3]), least);
        assert!((number(cells[5]) - of("best_first") / least).abs() < 1e-3, "{line}");
        (most, count) = (most.max(of("best_first") / least), count + 1);
    }
    assert_eq!(count, 4);
    assert!((comparison.worst().0 - most).abs() < 1e-9 && comparison.worst().1.starts_with("alpha="));
    let told = comparison.to_string();
    assert!(told.contains("search.distances, strategy best_first") && told.lines().count() == 7, "{told}");
    let page = std::fs::read_to_string(out.join("index.html")).expect("a page");
    assert!(page.contains("beside the best of the others"));
    // Without the value there is nothing to compare.
    assert_eq!(run(&[("strategy", "[search, adaptive_blocks]")]).comparison, None);

    let wrong =
        |from: &str, to: &str| faults(&text.replace(compare, &compare.replace(from, to)), &[]).join("\n");
    assert!(wrong("best_first", "best_frist").contains("no value `best_frist`; did you mean `best_first`?"));
    assert!(wrong("axis: strategy", "axis: stratgy").contains("did you mean `strategy`?"));
    assert!(wrong("search.distances", "serch.ms").contains("`figure: serch.ms` is no axis and no figure"));
    assert!(wrong(", value: best_first", "").contains("`compare` has no `value`"));
}

#[test]
fn a_step_that_fails_is_named_with_its_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = SOUND.replace("scan_all", "search").replace("path: v.jsonl", "path: nowhere.jsonl");
    let experiment = load(&text, &[("alpha", "1")]).unwrap_or_else(|faults| panic!("{faults:?}"));
    let error = experiment.run(folder.path(), &catalog(), &mut |_| {}).expect_err("there is no such file");
    let said = error.to_string();
    assert!(
        said.starts_with("step `store` of the row strategy=search block=16") && said.contains("nowhere"),
        "{said}"
    );
}

#[test]
fn the_shipped_sweeps_have_no_faults() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the sweeps") {
        let path = entry.expect("a file").path();
        if path.extension().is_some_and(|ending| ending == "yaml") {
            let loaded = super::load(&path, &catalog(), &[]);
            assert!(loaded.is_ok(), "{}: {:?}", path.display(), loaded.err());
            count += 1;
        }
    }
    assert!(count >= 5);
}
