//! Regression by Gaussian processes by the command: the numbers of scikit-learn, appended samples, and bad input.

#[path = "support/command.rs"]
mod command;

use std::fs;
use std::path::Path;

use command::{fails, folder, json, ok, run};

/// Samples on a surface; `rows` of 24.
fn hill(rows: std::ops::Range<usize>) -> String {
    let line = |i: usize| {
        let (x1, x2) = ((i * 7 % 24) as f64 / 8.0, (i * 5 % 24) as f64 / 6.0);
        let y = (2.0 * x1).sin() + 0.5 * x2 * x2 - 0.3 * x1 * x2;
        format!("p{i},{x1},{x2},{y:.6}\n")
    };
    format!("name,x1,x2,y\n{}", rows.map(line).collect::<String>())
}

const NEW: &str = "x1,x2\n0.1,0.2\n1.5,2.5\n3.0,0.7\n10,10\n";
const KERNEL: &str = "1.5 * rbf(l=[0.8, 1.7]) + white(0.01)";
const FIT: [&str; 11] = [
    "gp",
    "fit",
    "--samples",
    "hill.csv",
    "--inputs",
    "x1,x2",
    "--target",
    "y",
    "--names",
    "name",
    "--kernel",
];

fn write(at: &Path, name: &str, text: &str) {
    fs::write(at.join(name), text).expect("a file");
}

/// Fits, and returns what the command says.
fn fit(at: &Path, kernel: &str, out: &str, more: &[&str]) -> String {
    let output = run(at, &[&FIT[..], &[kernel, "--out", out], more].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

/// The means and deviations of the new points.
fn predictions(at: &Path, model: &str, of: &str) -> Vec<[f64; 2]> {
    let call = ["gp", "predict", "--model", model, "--samples", "new.csv", "--of", of, "--format", "json"];
    let lines = ok(at, &call);
    let numbers = |line: &str| ["mean", "deviation"].map(|name| json(line)[name].as_f64().expect("a number"));
    lines.lines().map(numbers).collect()
}

fn near(found: f64, expected: f64, relative: f64) -> bool {
    (found - expected).abs() <= relative * expected.abs().max(1e-3)
}

#[test]
fn fits_and_predictions_are_those_of_scikit_learn() {
    let folder = folder();
    let at = folder.path();
    write(at, "hill.csv", &hill(0..24));
    write(at, "new.csv", NEW);
    let said = fit(at, KERNEL, "hill.gp.arrow", &[]);
    assert!(said.contains("log likelihood -29.098927"), "{said}");
    // scikit-learn 1.9, GaussianProcessRegressor(alpha=0) of ConstantKernel(1.5) * RBF([0.8, 1.7]) + WhiteKernel(0.01), whose
    // deviations are those of observations.
    let expected = [
        [0.229_838_981_010_104_47, 0.163_668_601_730_509_1],
        [2.334_264_879_628_34, 0.155_877_379_497_191_96],
        [-0.629_241_627_897_059_4, 0.287_013_845_700_858_4],
        [-1.772_738_433_031_611e-22, 1.228_820_572_744_450_8],
    ];
    for (found, expected) in predictions(at, "hill.gp.arrow", "observation").iter().zip(expected) {
        assert!(
            near(found[0], expected[0], 1e-8) && near(found[1], expected[1], 1e-8),
            "{found:?} {expected:?}"
        );
    }
    // Its optimum with normalize_y: the noise lies at its bound.
    let said = fit(at, KERNEL, "best.gp.arrow", &["--normalize", "--optimise"]);
    let likelihood: f64 =
        said.split("log likelihood ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(near(likelihood, 35.456_613_922_192_19, 1e-6), "{said}");
    assert!(said.contains("v = 1e-5 lies at its bound"), "{said}");
    for (found, expected) in
        predictions(at, "best.gp.arrow", "observation").iter().zip([0.2416, 2.1627, -0.6863])
    {
        assert!((found[0] - expected).abs() < 2e-3, "{found:?} {expected}");
    }
}

#[test]
fn a_model_has_the_same_bytes_on_any_number_of_slots() {
    let folder = folder();
    let at = folder.path();
    let line = |i: usize| {
        format!("{},{},{}\n", (i * 7 % 300) as f64 / 30.0, (i * 11 % 300) as f64 / 40.0, (i % 13) as f64)
    };
    write(at, "hill.csv", &format!("x1,x2,y\n{}", (0..300).map(line).collect::<String>()));
    let mut files = Vec::new();
    for workers in ["1", "2", "7"] {
        let out = format!("{workers}.gp.arrow");
        let call = [
            "gp",
            "fit",
            "--samples",
            "hill.csv",
            "--inputs",
            "x1,x2",
            "--target",
            "y",
            "--optimise",
            "--restarts",
            "1",
            "--kernel",
            "rbf(l=2 in 1..4) + white(1 in 0.5..20)",
            "--workers",
            workers,
            "--out",
            &out,
        ];
        ok(at, &call);
        files.push(fs::read(at.join(out)).expect("a model"));
    }
    assert!(files[0] == files[1] && files[1] == files[2]);
}

#[test]
fn appended_samples_give_the_model_of_all() {
    let folder = folder();
    let at = folder.path();
    write(at, "new.csv", NEW);
    write(at, "hill.csv", &hill(0..24));
    fit(at, KERNEL, "all.gp.arrow", &[]);
    write(at, "hill.csv", &hill(0..20));
    fit(at, KERNEL, "hill.gp.arrow", &[]);
    write(at, "more.csv", &hill(20..24));
    ok(
        at,
        &[
            "gp",
            "append",
            "--model",
            "hill.gp.arrow",
            "--samples",
            "more.csv",
            "--target",
            "y",
            "--names",
            "name",
        ],
    );
    let (whole, appended) =
        (predictions(at, "all.gp.arrow", "function"), predictions(at, "hill.gp.arrow", "function"));
    for (a, b) in whole.iter().flatten().zip(appended.iter().flatten()) {
        assert!((a - b).abs() < 1e-10, "{a} {b}");
    }
    let scores = [
        "gp",
        "score",
        "--model",
        "hill.gp.arrow",
        "--samples",
        "more.csv",
        "--target",
        "y",
        "--format",
        "json",
    ];
    let scores = json(&ok(at, &scores));
    assert!(scores["samples"] == 4 && scores["rmse"].as_f64().unwrap() < 0.1, "{scores}");
    // By the pipeline's file too, and as a page.
    let page = [
        "run",
        "gp_predict",
        "--set",
        "model=hill.gp.arrow",
        "--set",
        "samples=new.csv",
        "--set",
        "format=html",
    ];
    let page = ok(at, &page);
    assert!(page.contains("<svg") && page.matches("class=\"data\"").count() == 24, "{page}");
}

/// A fit of `bad.csv`.
const BAD: [&str; 10] =
    ["gp", "fit", "--samples", "bad.csv", "--inputs", "x1,x2", "--target", "y", "--out", "bad.gp.arrow"];

/// Fits samples that must be refused with these words, and leave no model.
fn refused(at: &Path, samples: &str, more: &[&str], status: i32, parts: &[&str]) {
    write(at, "bad.csv", samples);
    let said = fails(at, &[&BAD[..], more].concat(), status);
    assert!(parts.iter().all(|part| said.contains(part)), "{parts:?}: {said}");
    assert!(!at.join("bad.gp.arrow").exists(), "{parts:?}");
}

#[test]
fn bad_samples_are_told_with_file_place_and_fix() {
    let folder = folder();
    let at = folder.path();
    for (samples, parts) in [
        ("x1,x2,y\n", &["there are no samples to fit", "no row"][..]),
        ("x1,x2,y\n1,2,3\n4,NaN,6\n", &["bad.csv", "line 3", "column `x2` is NaN", "missing: drop"]),
        ("x1,x2,y\n1,2,inf\n", &["bad.csv", "line 2", "column `y` is inf"]),
        ("x1,x2,y\n1,,3\n", &["line 2", "column `x2` has no number"]),
        ("x1,x2,y\n1,two,3\n", &["line 2", "`two` is no number"]),
        ("x1,x3,y\n1,2,3\n", &["bad.csv", "no column `x2`", "did you mean `x"]),
    ] {
        refused(at, samples, &[], 3, parts);
    }
    let flat = "x1,x2,y\n1,2,5\n3,4,5\n";
    refused(at, flat, &["--normalize"], 3, &["all targets are 5", "leave out `normalize`"]);
    let twice = "x1,x2,y\n1,2,3\n4,5,6\n1,2,3\n";
    let none = ["--kernel", "rbf()", "--jitter", "none"];
    refused(at, twice, &none, 3, &["sample `line 4`", "`line 2`", "jitter: auto"]);
    let many: String = (0..600).map(|i| format!("{i},0,1\n")).collect();
    let many = format!("x1,x2,y\n{many}");
    refused(at, &many, &["--memory", "1"], 3, &["MiB for their matrices", "samples at most"]);
    // One sample is fitted, and rows without numbers may be left out.
    write(at, "bad.csv", "x1,x2,y\n1,2,3\n");
    ok(at, &BAD);
    write(at, "bad.csv", "x1,x2,y\n1,2,3\nNaN,1,1\n3,4,\n7,8,9\n");
    let output = run(at, &[&BAD[..], &["--missing", "drop", "--force"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("2 rows without a number were left out"), "{said}");
}

#[test]
fn bad_parameters_are_told_with_their_place_and_fix() {
    let folder = folder();
    let at = folder.path();
    write(at, "bad.csv", "x1,x2,y\n1,2,3\n4,5,6\n");
    for (flag, value, part) in [
        ("--kernel", "rbf(l=0)", "character 7: a length is a finite number above 0"),
        ("--kernel", "rbf(l=1 in 3..2)", "the bounds cross"),
        ("--kernel", "rfb()", "character 1: there is no form `rfb`: did you mean `rbf`"),
        ("--kernel", "rbf(k=1)", "no parameter `k`"),
        ("--kernel", "rbf(l=[1, 2, 3])", "3 lengths or periods in a list, and samples have 2 inputs"),
        ("--jitter", "some", "neither none, auto, nor a number"),
        ("--noise", "-1", "noise"),
    ] {
        let output = run(at, &[&BAD[..], &[flag, value]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let joined = said.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
        assert!(!output.status.success() && joined.contains(part), "{value}: {said}");
        assert!(!said.contains("panicked") && !at.join("bad.gp.arrow").exists(), "{value}: {said}");
    }
}

#[test]
fn models_that_do_not_fit_are_refused() {
    let folder = folder();
    let at = folder.path();
    write(at, "hill.csv", &hill(0..24));
    write(at, "new.csv", NEW);
    fit(at, KERNEL, "hill.gp.arrow", &[]);
    let predict = ["gp", "predict", "--model", "hill.gp.arrow", "--samples", "new.csv"];
    let said = fails(at, &[&predict[..], &["--inputs", "x1"]].concat(), 3);
    assert!(said.contains("has 1 inputs") && said.contains("was fitted to 2: x1, x2"), "{said}");
    let sound = fs::read(at.join("hill.gp.arrow")).expect("a model");
    fs::write(at.join("hill.gp.arrow"), &sound[..sound.len() - 100]).expect("a file");
    let said = fails(at, &predict, 3);
    assert!(said.contains("hill.gp.arrow") && said.contains("cut short"), "{said}");
    write(at, "hill.gp.arrow", NEW);
    let said = fails(at, &predict, 3);
    assert!(said.contains("is no model of a Gaussian process") && said.contains("boxwork gp fit"), "{said}");
    fit(at, KERNEL, "means.gp.arrow", &["--keep", "alpha"]);
    let means = ["gp", "predict", "--model", "means.gp.arrow", "--samples", "new.csv"];
    assert!(fails(at, &means, 3).contains("without its factor"));
    assert!(
        ok(at, &[&means[..], &["--means", "--format", "csv"]].concat()).starts_with("name,mean,deviation")
    );
}

#[test]
fn many_points_stream_through_a_few_envelopes() {
    let folder = folder();
    let at = folder.path();
    write(at, "hill.csv", &hill(0..24));
    fit(at, KERNEL, "hill.gp.arrow", &[]);
    let points: String = (0..20_000).map(|i| format!("{},{}\n", i % 100, i % 77)).collect();
    write(at, "many.csv", &format!("x1,x2\n{points}"));
    let call = ["gp", "predict", "--model", "hill.gp.arrow", "--samples", "many.csv", "--format", "csv"];
    let one = ok(at, &[&call[..], &["--workers", "1", "--report", "r.json"]].concat());
    assert_eq!(one.lines().count(), 20_001);
    // Every edge holds a few envelopes of 256 points, however many pass.
    let report = json(&fs::read_to_string(at.join("r.json")).expect("a report"));
    let edges = report["edges"].as_array().expect("edges");
    for edge in edges {
        let (passed, high) = (edge["envelopes"].as_u64().unwrap(), edge["envelopes_high"].as_u64().unwrap());
        assert!(passed == 79 && (1..=16).contains(&high) && edge["envelopes_max"] == 16, "{edge}");
    }
    assert_eq!(edges.len(), 2);
    assert!(one.lines().nth(1).unwrap().starts_with("line 2,"));
    assert!(one == ok(at, &[&call[..], &["--workers", "3"]].concat()));
}

#[test]
fn a_chain_of_boxes_has_the_factor_of_the_graph() {
    let folder = folder();
    let at = folder.path();
    for (rows, tile) in
        ["1 8", "64 8", "65 16", "500 64", "300 300"].map(|case| case.split_once(' ').unwrap())
    {
        let mut lines = Vec::new();
        for (pipeline, workers) in
            [("cholesky", "1"), ("cholesky", "4"), ("cholesky_graph", "1"), ("cholesky_graph", "4")]
        {
            let (rows, tile) = (format!("rows={rows}"), format!("tile={tile}"));
            let call = ["run", pipeline, "--workers", workers, "--set", &rows, "--set", &tile];
            lines.push(ok(at, &call));
        }
        assert!(lines[0].contains("checksum") && lines.iter().all(|line| *line == lines[0]), "{lines:?}");
    }
    let said = fails(at, &["run", "cholesky", "--set", "rows=100", "--set", "tile=8"], 3);
    assert!(said.contains("behind the last stage") && said.contains("larger tiles"), "{said}");
    let bad = ["run", "cholesky", "--set", "rows=50", "--set", "tile=8", "--set", "kernel=linear(1)"];
    assert!(fails(at, &bad, 3).contains("not positive definite"));
}

/// Samples on a wave in one dimension.
fn wave(rows: usize) -> String {
    let line = |i: usize| {
        let x = (i * 37 % rows) as f64 * 6.0 / rows as f64;
        format!("{x},{}\n", x.sin() + 0.05 * (i % 3) as f64)
    };
    format!("x,y\n{}", (0..rows).map(line).collect::<String>())
}

const WAVE: [&str; 9] = ["gp", "fit", "--samples", "wave.csv", "--inputs", "x", "--target", "y", "--kernel"];

#[test]
#[expect(unsafe_code, reason = "a signal is sent to a child of this test")]
fn a_fit_that_is_interrupted_writes_nothing() {
    let folder = folder();
    let at = folder.path();
    write(at, "wave.csv", &wave(1500));
    // A thousand starts take minutes.
    let more = ["rbf() + white(0.1)", "--optimise", "--restarts", "1000", "--out", "w.gp.arrow"];
    let mut command = command::boxwork(at);
    let mut child = command
        .args([&WAVE[..], &more].concat())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut said = String::new();
    // The process computes once it has read its samples.
    let status = format!("/proc/{}/stat", child.id());
    let ticks = || -> u64 {
        let text = fs::read_to_string(&status).expect("the process runs");
        let fields = text.rsplit(')').next().expect("fields behind the name").split_whitespace();
        fields.skip(11).take(1).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
    };
    while ticks() < 100 {
        std::thread::yield_now();
    }
    let id = i32::try_from(child.id()).expect("an id");
    // SAFETY: the child has not been waited for, so the id is its own.
    assert_eq!(unsafe { libc::kill(id, libc::SIGINT) }, 0);
    std::io::Read::read_to_string(&mut child.stderr.take().expect("a pipe"), &mut said).expect("text");
    assert_eq!(child.wait().expect("a status").code(), Some(130), "{said}");
    assert!(said.contains("nothing was left half-written"), "{said}");
    let left: Vec<_> =
        fs::read_dir(at).expect("the folder").map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["wave.csv"]);
}

#[test]
fn a_factor_in_f32_says_what_it_costs_and_is_refused_where_it_costs_too_much() {
    let folder = folder();
    let at = folder.path();
    write(at, "wave.csv", &wave(200));
    write(at, "new.csv", "x\n0.1\n3.3\n");
    let fit = |kernel: &str, precision: &str, more: &[&str]| {
        let out = ["--precision", precision, "--force", "--out", "w.gp.arrow"];
        let output = run(at, &[&WAVE[..], &[kernel], &out, more].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let means = || {
        let call = ["gp", "predict", "--model", "w.gp.arrow", "--samples", "new.csv", "--format", "json"];
        let lines = ok(at, &call);
        lines.lines().map(|line| json(line)["mean"].as_f64().unwrap()).collect::<Vec<f64>>()
    };
    let kernel = "rbf() + white(0.01)";
    assert_eq!(fit(kernel, "f64", &[]).0, Some(0));
    let exact = means();
    let (status, said) = fit(kernel, "mixed", &[]);
    assert!(status == Some(0) && said.contains("weights were refined in f64"), "{said}");
    assert!(said.contains("the error of the log likelihood is about"), "{said}");
    assert!(means().iter().zip(&exact).all(|(a, b)| near(*a, *b, 1e-9)));
    let (status, said) = fit(kernel, "f32", &[]);
    assert!(status == Some(0) && said.contains("the factor is one of f32"), "{said}");
    assert!(means().iter().zip(&exact).all(|(a, b)| near(*a, *b, 1e-2)));
    let (status, said) = fit("rbf() + white(1e-9 fixed)", "mixed", &[]);
    assert!(status == Some(0) && said.contains("so the factor was made again in f64"), "{said}");
    // Without noise there is no factor in f32 at the start of a search.
    let (status, said) = fit("rbf() + white(1e-9 fixed)", "mixed", &["--optimise"]);
    assert!(status == Some(3) && said.contains("precision: f64"), "{said}");
}

#[test]
fn samples_without_inputs_are_refused() {
    let folder = folder();
    let at = folder.path();
    write(at, "wave.csv", &wave(10));
    let call = ["gp", "fit", "--samples", "wave.csv", "--target", "y", "--out", "w.gp.arrow"];
    assert!(fails(at, &call, 2).contains("--inputs: name the columns"));
    let call = ["run", "gp_fit", "--set", "samples=wave.csv", "--set", "inputs=", "--set", "target=y"];
    let said = fails(at, &[&call[..], &["--set", "out=w.gp.arrow"]].concat(), 3);
    assert!(said.contains("no column ``") && said.contains("there are x, y"), "{said}");
    assert!(!at.join("w.gp.arrow").exists());
}

const OBJECTS: [&str; 8] =
    ["run", "gp_objects", "--set", "store=points.jsonl", "--set", "targets=known.csv", "--set", "target=y"];

#[test]
fn a_process_over_objects_is_the_one_over_their_coordinates() {
    let folder = folder();
    let at = folder.path();
    let place = |i: usize| [(i * 7 % 24) as f64 / 8.0, (i * 5 % 24) as f64 / 4.0];
    let object = |i: usize| format!("{{\"name\": \"p{i}\", \"object\": {:?}}}\n", place(i));
    write(at, "points.jsonl", &(0..24).map(object).collect::<String>());
    let y = |i: usize| (i * i % 7) as f64 + 40.0;
    // Names and ids, in any order.
    let known = |i: usize| {
        format!("{},{}\n", if i.is_multiple_of(2) { format!("p{i}") } else { format!("#{i}") }, y(i))
    };
    write(at, "known.csv", &format!("name,y\n{}", [3, 0, 8, 5, 2, 7, 11].map(known).concat()));
    let row = |i: usize| format!("{},{},{}\n", place(i)[0], place(i)[1], y(i));
    write(at, "same.csv", &format!("a,b,y\n{}", [3, 0, 8, 5, 2, 7, 11].map(row).concat()));
    write(at, "all.csv", &format!("a,b,y\n{}", (0..24).map(row).collect::<String>()));
    let call =
        "gp fit --samples same.csv --inputs a,b --target y --normalize --noise 0.2 --kernel rbf(l=1.5)";
    let call = format!("{call} --out same.gp.arrow");
    ok(at, &call.split(' ').collect::<Vec<_>>());
    let call = ["gp", "predict", "--model", "same.gp.arrow", "--samples", "all.csv", "--format", "json"];
    let expected = ok(at, &call);
    let more = ["--set", "distance=l2", "--set", "length=1.5", "--set", "noise=0.2", "--set", "format=json"];
    let found = ok(at, &[&OBJECTS[..], &more].concat());
    assert_eq!(found.lines().count(), 24);
    for (i, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        let (found, expected) = (json(found), json(expected));
        assert_eq!(found["name"], format!("p{i}"));
        for part in ["mean", "deviation", "lower", "upper"] {
            let (found, expected) = (found[part].as_f64().unwrap(), expected[part].as_f64().unwrap());
            assert!(near(found, expected, 1e-9), "p{i}: {part} {found} {expected}");
        }
    }
    let two = ok(at, &[&OBJECTS[..], &more, &["--workers", "3"]].concat());
    assert!(two == found);
}

#[test]
fn a_distance_that_is_no_hilbert_distance_is_refused_before_a_run() {
    let folder = folder();
    let at = folder.path();
    write(
        at,
        "points.jsonl",
        "{\"name\": \"a\", \"object\": [1, 2]}\n{\"name\": \"b\", \"object\": [3, 4]}\n",
    );
    write(at, "known.csv", "name,y\na,1\n");
    let refused = |more: &[&str], status: i32| {
        let said = fails(at, &[&OBJECTS[..], more].concat(), status);
        said.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ")
    };
    let said = refused(&["--set", "distance=l1"], 1);
    assert!(said.contains("l1 is no Hilbert distance") && said.contains("`root: true`"), "{said}");
    ok(at, &[&OBJECTS[..], &["--set", "distance=l1", "--set", "root=true"]].concat());
    ok(at, &[&OBJECTS[..], &["--set", "distance=l1", "--set", "kernel=laplacian"]].concat());
    let said = refused(&["--set", "distance=linf"], 1);
    assert!(said.contains("linf is no Hilbert distance") && said.contains("a distance such as"), "{said}");
    for (known, part) in [
        ("name,y\nc,1\n", "`c`"),
        ("name,y\na,1\n#0,2\n", "has two numbers"),
        ("name,y\na,one\n", "line 2"),
        ("name,z\na,1\n", "no column `y`"),
        ("name,y\n", "no row"),
    ] {
        write(at, "known.csv", known);
        let said = refused(&[], 3);
        assert!(said.contains(part), "{known}: {said}");
    }
}
