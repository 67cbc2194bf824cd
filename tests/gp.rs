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
    let one = ok(at, &[&call[..], &["--workers", "1"]].concat());
    assert_eq!(one.lines().count(), 20_001);
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
