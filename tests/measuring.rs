//! The measuring subcommands: `boxwork bench` and `boxwork experiment`.

#[path = "support/command.rs"]
mod command;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use command::{boxwork, fails, folder, json, ok, run};

#[test]
fn bench_writes_what_it_measured_and_checks_it() {
    let folder = folder();
    let at = folder.path();
    let bench = ["bench", "B1", "--quick", "--set", "messages=5", "--rounds", "2", "--format", "json"];
    let measured = json(&ok(at, &[&bench[..], &["--out", "r.json", "--html", "r.html"]].concat()));
    let case = &measured["workloads"][0]["cases"][0];
    assert_eq!((&measured["workloads"][0]["id"], &case["settings"]["messages"]), (&"B1".into(), &5.0.into()));
    let hop = &case["figures"]["hop_ns"];
    assert!(hop["median"].as_f64().expect("a median") > 0.0);
    assert_eq!(hop["rounds"].as_array().map(Vec::len), Some(2));
    let written = json(&fs::read_to_string(at.join("r.json")).expect("the results"));
    assert_eq!(written, measured);
    let page = fs::read_to_string(at.join("r.html")).expect("the page");
    assert!(page.contains("<svg") && page.contains("hop_ns") && page.ends_with("</html>\n"));
    assert!(!page.contains("http"), "the page needs nothing else");
}

#[test]
fn bench_runs_every_workload_on_a_machine_made_up() {
    let folder = folder();
    let smallest = ["side=4", "messages=8", "tasks=6", "scale=0.001", "kib=1", "seconds=0.01", "times=3"];
    let more = ["requests=20", "most_us=2", "spin_us=1", "folder=."];
    let mut call = vec!["bench", "--topology", "numa:2 core:1", "--workers", "2", "--rounds", "1"];
    call.extend(smallest.iter().chain(&more).flat_map(|setting| ["--set", *setting]));
    let told = ok(folder.path(), &call);
    for figure in
        ["hop_ns", "tasks_per_s", "copy_us", "overhead_hop_ns", "makespan_ms", "wake_p50_us", "request_ns"]
    {
        assert!(told.contains(figure), "{figure} is missing: {told}");
    }
    assert!(told.contains("2 NUMA nodes, made up"), "{told}");
    let left = fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(left, 0, "files of the blocking workload are removed");
}

#[test]
fn bench_refuses_what_it_has_not() {
    let folder = folder();
    let at = folder.path();
    assert!(fails(at, &["bench", "chian"], 2).contains("did you mean `chain`"));
    assert!(fails(at, &["bench", "B9"], 2).contains("B8 grain"), "it lists what there is");
    let said = fails(at, &["bench", "B1", "--set", "boxs=3"], 2);
    assert!(said.contains("did you mean `boxes`"), "{said}");
    assert!(fails(at, &["bench", "B1", "--quick", "--set", "boxes=many"], 2).contains("boxes=many"));
    assert!(fails(at, &["bench", "B7", "--set", "part=sleep"], 2).contains("part=sleep"));
    assert!(fails(at, &["bench", "B1", "--topology", "numa"], 2).contains("numa"));
    fails(at, &["bench", "--serve"], 2);
    fails(at, &["bench", "B1", "--quick", "--rounds", "1", "--out", "nowhere/r.json"], 3);
}

#[test]
fn bench_serves_a_case_line_by_line() {
    let folder = folder();
    let mut command = boxwork(folder.path());
    command.args(["bench", "B5", "--serve", "--quick", "--workers", "1", "--set", "messages=20"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the command starts");
    let mut questions = child.stdin.take().expect("its input");
    let mut answers = BufReader::new(child.stdout.take().expect("its output"));
    let mut answer = || {
        let mut line = String::new();
        answers.read_line(&mut line).expect("a line");
        json(&line)
    };
    assert!(answer()["name"].as_str().is_some_and(|name| name.starts_with("Boxwork")));
    for _ in 0..2 {
        questions.write_all(b"again\n").expect("the command reads");
        assert!(answer()["envelopes_per_s"].as_f64().is_some_and(|figure| figure > 0.0));
    }
    drop(questions);
    assert!(child.wait().expect("the command ends").success());
}

const SWEEP: &str = "\
experiment: 1
about: Points against quality and speed.

axes:
  points: [150, 300]
  strategy: [auto, oracle]
rounds: 1
warmup: 0

steps:
  photos:  {do: sample_images, classes: 3, per_class: 5}
  store:   {do: extract, paths: \"${photos}\", points: \"${points}\", seeds: 40}
  index:   {do: index, store: \"${store}\", count: 4}
  search:  {do: \"${strategy}\", store: \"${store}\", pivots: \"${index}\", k: 3, sample: 4}
  quality: {do: evaluate, store: \"${store}\"}
measure: [store, search, quality]

plots:
  quality: {x: points, y: quality.map, series: strategy}
";

#[test]
fn a_sweep_from_pictures_to_a_plot() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("sweep.yaml"), SWEEP).expect("the sweep is written");
    let checked = run(path, &["experiment", "sweep.yaml", "--check"]);
    assert!(
        checked.status.success() && String::from_utf8_lossy(&checked.stderr).contains("4 rows, no problems")
    );
    assert!(!path.join("sweep").exists(), "a check leaves nothing behind");

    // One value first, then all: the rows of the first run are kept.
    let call = ["experiment", "sweep.yaml", "--out", "out"];
    ok(path, &[&call[..], &["--set", "points=150"]].concat());
    let again = run(path, &call);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(
        again.status.success() && said.contains("wrote out: 4 rows, 2 of them from before, 1 plots"),
        "{said}"
    );
    let table = fs::read_to_string(path.join("out/results.csv")).expect("a table");
    let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().expect("names");
    let rows: Vec<Vec<&str>> = lines.collect();
    assert_eq!(rows.len(), 4);
    let of = |row: &[&str], name: &str| -> f64 {
        let place =
            head.iter().position(|known| *known == name).unwrap_or_else(|| panic!("no {name} in {head:?}"));
        row[place].parse().unwrap_or_else(|_| panic!("{name} of {row:?}"))
    };
    for row in &rows {
        assert_eq!(of(row, "store.objects"), 15.0);
        assert!(of(row, "store.per_second") > 0.0 && of(row, "store.centroids") > 1.0);
        assert!(of(row, "quality.map") > 0.3 && of(row, "quality.idim") > 0.0);
        assert!((3.0..=15.0).contains(&of(row, "search.distances")), "{row:?}");
        assert!(of(row, "search.ms") > 0.0);
    }
    assert!(fs::read_to_string(path.join("out/quality.svg")).expect("a plot").starts_with("<svg"));

    let wrong = SWEEP.replace("points: [150, 300]", "points: [150, many]").replace("do: index", "do: indx");
    fs::write(path.join("wrong.yaml"), wrong).expect("the sweep is written");
    let said = fails(path, &["experiment", "wrong.yaml"], 1);
    for expected in [
        "wrong.yaml:12:",
        "\"many\" is not a whole number",
        "wrong.yaml:13:",
        "did you mean `index`?",
        "2 errors",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let said = fails(path, &["experiment", "sweep.yaml", "--out", "out", "--set", "pionts=1"], 1);
    assert!(said.contains("did you mean `points`?"), "{said}");
    fs::write(path.join("other.yaml"), SWEEP.replace("k: 3", "k: 4")).expect("the sweep is written");
    let said = fails(path, &["experiment", "other.yaml", "--out", "out"], 3);
    assert!(said.contains("holds the rows of another sweep"), "{said}");
}

#[test]
fn the_shipped_sweeps_have_no_faults() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    let entries = fs::read_dir(&folder).expect("the sweeps").map(|entry| entry.expect("a file").path());
    let sweeps: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "yaml")).collect();
    assert!(sweeps.len() >= 14, "{sweeps:?}");
    for sweep in &sweeps {
        let mut call = vec!["experiment", sweep.to_str().expect("a name"), "--check"];
        if sweep.ends_with("tune.yaml") {
            // Its axes are varied one at a time; all combinations are too many.
            let said = fails(&folder, &call, 1);
            assert!(said.contains("more than 10000 combinations"), "{said}");
            for fixed in ["entropy=0.5", "contrast=0.04", "place=1", "alpha=2", "seeds=200", "points=1500"] {
                call.extend(["--set", fixed]);
            }
        }
        let checked = run(&folder, &call);
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}
