//! The boxes of regression, one after the other and with faulty samples.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::{In, OperatorSpec, Out, Resource};
use boxwork_runtime::parameter::Value;
use boxwork_stores::gp_model::SavedModel;

use super::*;

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn path(path: &Path) -> Value {
    text(path.to_str().expect("a path of text"))
}

/// A file of samples on a wave.
fn wave(folder: &Path, rows: std::ops::Range<usize>) -> std::path::PathBuf {
    let file = folder.join(format!("wave-{}.csv", rows.start));
    let line = |row: usize| {
        let x = row as f64 * 0.37 % 6.0;
        format!("{x},{}\n", x.sin() + 0.02 * (row % 3) as f64)
    };
    fs::write(&file, format!("x,y\n{}", rows.map(line).collect::<String>())).expect("a file");
    file
}

/// Runs a box to its end over what comes in.
fn run(
    spec: &'static OperatorSpec,
    given: Vec<(&'static str, Value)>,
    model: Option<&SavedModel>,
    come: Option<(In, Vec<Envelope>)>,
) -> Result<Harness, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut resources: Vec<(&str, Resource)> = Vec::new();
    if let Some(model) = model {
        let file = folder.path().join("m.gp.arrow");
        model.write(&file, model.regression.has_factor()).expect("a model");
        let given = [("path", path(&file))];
        resources.push(("m", loaded(given)?));
    }
    let mut harness = Harness::with_resources(spec, given, resources).map_err(|error| error.to_string())?;
    if let Some((input, envelopes)) = come {
        envelopes.into_iter().for_each(|envelope| harness.give(input, envelope));
        harness.end(input);
    }
    harness.run().map_err(|error| error.to_string())?;
    assert!(harness.is_done());
    Ok(harness)
}

fn loaded(given: [(&'static str, Value); 1]) -> Result<Resource, String> {
    let [(_, Value::Text(file))] = &given else { unreachable!("a path is a text") };
    let saved = SavedModel::open(Path::new(file)).map_err(|error| error.to_string())?;
    Ok(Arc::new(crate::resources::gp_model::GpModel::of(saved, file.clone())))
}

const FIRST: In = In::nth(0);
const OUT: Out = Out::nth(0);

fn read(file: &Path, target: Option<&str>) -> Result<Vec<Envelope>, String> {
    let mut given = vec![("path", path(file)), ("inputs", Value::List(vec![text("x")]))];
    given.extend(target.map(|target| ("target", text(target))));
    Ok(run(&read_samples::READ_SAMPLES, given, None, None)?.taken(OUT))
}

fn fit(
    samples: Vec<Envelope>,
    given: Vec<(&'static str, Value)>,
) -> Result<(SavedModel, Vec<String>), String> {
    let mut harness = run(&gp_fit_samples::GP_FIT_SAMPLES, given, None, Some((FIRST, samples)))?;
    let notes = harness.notes().to_vec();
    let (done, expected) = harness.work();
    assert_eq!(done, expected, "the operations of a factor are counted");
    Ok((saved(harness.taken(OUT)), notes))
}

fn saved(envelopes: Vec<Envelope>) -> SavedModel {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("m.gp.arrow");
    run(&write_gp_model::WRITE_GP_MODEL, vec![("out", path(&file))], None, Some((FIRST, envelopes)))
        .expect("written");
    SavedModel::open(&file).expect("a model")
}

#[test]
fn samples_are_fitted_appended_predicted_and_scored() {
    let folder = tempfile::tempdir().unwrap();
    let (first, more) = (wave(folder.path(), 0..300), wave(folder.path(), 300..310));
    let kernel = text("1 * rbf(l=1.2) + white(0.01)");
    let samples = read(&first, Some("y")).unwrap();
    assert_eq!(samples.iter().map(Envelope::rows).collect::<Vec<_>>(), [256, 44]);
    let (model, notes) = fit(samples.clone(), vec![("kernel", kernel.clone())]).unwrap();
    assert!(notes.iter().any(|note| note.starts_with("log likelihood")), "{notes:?}");
    assert_eq!((model.names.len(), model.names[0].as_str()), (300, "line 2"));

    // Appended samples have the model of all samples, to the bit where tiles are plain.
    let more = read(&more, Some("y")).unwrap();
    let appended =
        run(&gp_append::GP_APPEND, vec![("model", text("m"))], Some(&model), Some((FIRST, more.clone())));
    let appended = saved(appended.unwrap().taken(OUT));
    let (whole, _) = fit([samples, more.clone()].concat(), vec![("kernel", kernel)]).unwrap();
    assert_eq!(appended.regression.targets, whole.regression.targets);
    let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9 * (1.0 + b.abs());
    assert!(appended.regression.weights.iter().zip(&whole.regression.weights).all(near));

    let given = vec![("model", text("m")), ("of", text("observation"))];
    let predicted =
        run(&gp_predict::GP_PREDICT, given, Some(&model), Some((FIRST, more))).unwrap().taken(OUT);
    let (means, targets) = (predicted[0].f64s("mean").unwrap(), predicted[0].f64s("y").unwrap());
    assert!(means.iter().zip(targets).all(|(mean, target)| (mean - target).abs() < 0.1));
    let out = folder.path().join("score.json");
    let given = vec![("format", text("json")), ("out", path(&out))];
    run(&gp_score::GP_SCORE, given, None, Some((FIRST, predicted.clone()))).unwrap();
    let score: serde_json::Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    assert!(
        score["rmse"].as_f64().unwrap() < 0.1 && score["coverage"] == 1.0 && score["samples"] == 10,
        "{score}"
    );

    let page = folder.path().join("page.html");
    let given = vec![("format", text("html")), ("out", path(&page)), ("model", text("m"))];
    run(&write_predictions::WRITE_PREDICTIONS, given, Some(&model), Some((FIRST, predicted))).unwrap();
    let page = fs::read_to_string(&page).unwrap();
    assert_eq!(page.matches("class=\"data\"").count(), 300);
    assert!(page.contains("class=\"band\"") && page.contains("class=\"mean\"") && !page.contains("<script"));
}

#[test]
fn a_bad_fit_names_samples_and_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("twice.csv");
    fs::write(&file, "x,y\n1,1\n2,2\n1,1\n").unwrap();
    let twice = || read(&file, Some("y")).unwrap();
    let given = |kernel: &str, jitter: &str| vec![("kernel", text(kernel)), ("jitter", text(jitter))];
    let error = fit(twice(), given("rbf()", "none")).unwrap_err();
    assert!(
        error.contains("sample `line 4`")
            && error.contains("nearest to it is `line 2`")
            && error.contains("white"),
        "{error}"
    );
    let (model, notes) = fit(twice(), given("rbf()", "auto")).unwrap();
    assert!(model.regression.jitter > 0.0);
    assert!(notes[0].contains("a jitter of") && notes[0].contains("`line 2` and `line 4`"), "{notes:?}");
    for (kernel, jitter, part) in [
        ("rfb()", "auto", "did you mean `rbf`"),
        ("rbf(l=[1, 2])", "auto", "2 lengths or periods in a list, and samples have 1"),
        ("rbf()", "some", "neither none, auto"),
        ("rbf()", "-1", "neither none, auto"),
    ] {
        let error = fit(twice(), given(kernel, jitter)).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    let error = fit(read(&file, None).unwrap(), vec![]).unwrap_err();
    assert!(error.contains("`line 2` has no target"), "{error}");
    fs::write(&file, "x,y\n").unwrap();
    assert!(fit(twice(), vec![]).unwrap_err().contains("no samples to fit"));
    fs::write(&file, "x,y\n1,2\n2,2\n").unwrap();
    let error = fit(twice(), vec![("normalize", Value::Boolean(true))]).unwrap_err();
    assert!(error.contains("all targets are 2") && error.contains("leave out `normalize`"), "{error}");
    // One sample is enough.
    fs::write(&file, "x,y\n1,2\n").unwrap();
    assert_eq!(fit(twice(), vec![]).unwrap().0.names, ["line 2"]);
}

#[test]
fn a_fit_beyond_its_memory_says_how_many_samples_fit() {
    let folder = tempfile::tempdir().unwrap();
    let samples = read(&wave(folder.path(), 0..600), Some("y")).unwrap();
    let error = fit(samples.clone(), vec![("memory", Value::Integer(2))]).unwrap_err();
    assert!(error.contains("need 3 MiB") && error.contains("2 MiB may be taken"), "{error}");
    let fits: usize = error.split("fit ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((300..512).contains(&fits), "{error}");
    assert!(fit(samples, vec![("memory", Value::Integer(4))]).is_ok());
}

#[test]
fn a_model_without_its_factor_predicts_means_alone() {
    let folder = tempfile::tempdir().unwrap();
    let samples = read(&wave(folder.path(), 0..30), Some("y")).unwrap();
    let (mut model, _) = fit(samples.clone(), vec![]).unwrap();
    model.regression.factor = Default::default();
    let predict = |deviation: bool| {
        let given = vec![("model", text("m")), ("deviation", Value::Boolean(deviation))];
        run(&gp_predict::GP_PREDICT, given, Some(&model), Some((FIRST, samples.clone())))
    };
    let means = predict(false).unwrap().taken(OUT);
    assert!(means[0].f64s("deviation").unwrap().iter().all(|d| d.is_nan()));
    let refused = [
        predict(true).err(),
        run(&gp_append::GP_APPEND, vec![("model", text("m"))], Some(&model), Some((FIRST, samples.clone())))
            .err(),
    ];
    for error in refused {
        assert!(error.as_ref().unwrap().contains("without its factor"), "{error:?}");
    }
    let error = run(&gp_score::GP_SCORE, vec![], None, Some((FIRST, means))).err().unwrap();
    assert!(error.contains("no deviation above 0"), "{error}");
}

#[test]
fn samples_of_other_inputs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (model, _) = fit(read(&wave(folder.path(), 0..10), Some("y")).unwrap(), vec![]).unwrap();
    let file = folder.path().join("plane.csv");
    fs::write(&file, "a,b\n1,2\n").unwrap();
    let inputs = Value::List(vec![text("a"), text("b")]);
    let given = vec![("path", path(&file)), ("inputs", inputs)];
    let plane = run(&read_samples::READ_SAMPLES, given, None, None).unwrap().taken(OUT);
    let given = vec![("model", text("m"))];
    let error = run(&gp_predict::GP_PREDICT, given, Some(&model), Some((FIRST, plane))).err().unwrap();
    assert!(error.contains("`line 2` has 2 inputs") && error.contains("was fitted to 1: x1"), "{error}");
}
