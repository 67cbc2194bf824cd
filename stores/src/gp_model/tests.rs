//! Models on disk: read as they were written, and damage that is noticed.

use std::fs;

use boxwork_kernels::covariance::Points;
use boxwork_kernels::gaussian_process::{Jitter, Precision, Settings, Solved, ThisThread};

use super::*;

fn model(count: usize) -> SavedModel {
    let rows: Vec<f64> = (0..2 * count).map(|at| (at as f64 * 0.7).sin() * 3.0).collect();
    let targets: Vec<f64> = (0..count).map(|at| (at as f64).cos()).collect();
    let settings = Settings {
        expression: "1.5 * rbf(l=[0.3, 2 fixed]) + white(0.1 in 1e-3..1)".parse().unwrap(),
        noise: 1e-3,
        jitter: Jitter::None,
        normalize: true,
        precision: Precision::F64,
    };
    let points = Points::of_rows(2, &rows);
    SavedModel {
        regression: Regression::fit(points, targets, &settings, &mut ThisThread).unwrap(),
        names: (0..count).map(|at| format!("sample {at}")).collect(),
        inputs: vec!["left".into(), "right".into()],
        target: "height".into(),
    }
}

#[test]
fn a_model_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gp.arrow");
    for count in [2, ROWS, ROWS + 1] {
        let model = model(count);
        model.write(&path, true).unwrap();
        assert_eq!(SavedModel::open(&path).unwrap(), model);
        model.write(&path, false).unwrap();
        let means = SavedModel::open(&path).unwrap();
        assert!(!means.regression.has_factor() && means.regression.weights == model.regression.weights);
        assert_eq!(means.names, model.names);
    }
    for solved in [
        Solved::Refined(3),
        Solved::ByGradients(17),
        Solved::AgainNotPositiveDefinite,
        Solved::AgainNotConverged,
    ] {
        let mut model = model(4);
        (model.regression.precision, model.regression.solved) = (Precision::Mixed, solved);
        model.write(&path, true).unwrap();
        assert_eq!(SavedModel::open(&path).unwrap(), model);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn no_damage_of_a_model_goes_unnoticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gp.arrow");
    model(3).write(&path, true).unwrap();
    let sound = fs::read(&path).unwrap();
    assert!(SavedModel::open(&path).is_ok());
    for place in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[place] ^= 1 << (place % 8);
        fs::write(&path, bytes).unwrap();
        let error = SavedModel::open(&path).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("m.gp.arrow"), "byte {place}: {error}");
    }
    for length in (0..sound.len()).step_by(7) {
        fs::write(&path, &sound[..length]).unwrap();
        assert!(SavedModel::open(&path).is_err(), "{length} bytes");
    }
}

#[test]
fn files_that_are_no_models_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gp.arrow");
    fs::write(&path, "x,y\n1,2\n").unwrap();
    let error = SavedModel::open(&path).unwrap_err().to_string();
    assert!(
        error.contains("is no model of a Gaussian process") && error.contains("boxwork gp fit"),
        "{error}"
    );
    let schema = |format: &str, version: &str| {
        let texts = [(FORMAT_KEY, format), (VERSION_KEY, version), (MODEL_KEY, "{}")];
        let metadata = texts.into_iter().map(|(key, text)| (key.to_owned(), text.to_owned()));
        Schema::new_with_metadata(columns(), metadata.collect::<HashMap<_, _>>())
    };
    for (format, version, part) in [
        ("gp", "2", "of version 2, and this program reads version 1"),
        ("sketch", "1", "is no model"),
        ("gp", "1", "its numbers have no"),
    ] {
        let mut writer = PackedWriter::create(&path, &path, &schema(format, version)).unwrap();
        let batch = model(2).batches(true).next().unwrap();
        writer.write(batch.columns().to_vec()).unwrap();
        writer.finish([]).unwrap();
        let error = SavedModel::open(&path).unwrap_err().to_string();
        assert!(error.contains(part) || version == "1" && error.contains("covariance"), "{error}");
    }
}
