//! The shipped pipeline `gp_predict` over a file of points.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use boxwork::shipped;
use boxwork_kernels::gaussian_process::Regression;
use boxwork_operators::catalog;
use boxwork_runtime::Runtime;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_stores::gp_model::SavedModel;

/// A model and points in a folder, and where predictions go.
pub struct Files {
    model: PathBuf,
    points: PathBuf,
    out: PathBuf,
}

impl Files {
    /// Writes a model.
    pub fn new(folder: &Path, regression: &Regression) -> Self {
        let dimensions = regression.points.dimensions();
        let saved = SavedModel {
            names: (0..regression.len()).map(|at| format!("s{at}")).collect(),
            inputs: (0..dimensions).map(|d| d.to_string()).collect(),
            target: "y".to_owned(),
            regression: regression.clone(),
        };
        let model = folder.join("model.gp.arrow");
        saved.write(&model, true).expect("the folder can be written to");
        Self { model, points: folder.join("new.npy"), out: folder.join("predictions.csv") }
    }

    /// Writes the points, `dimensions` numbers each.
    pub fn write_points(&self, dimensions: usize, numbers: &[f64]) {
        let rows = numbers.len() / dimensions;
        let mut head =
            format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, {dimensions}), }}");
        // The head ends at a multiple of 64 bytes.
        head += &" ".repeat((64 - (head.len() + 11) % 64) % 64);
        head.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((head.len() as u16).to_le_bytes());
        bytes.extend(head.bytes());
        bytes.extend(numbers.iter().flat_map(|x| x.to_le_bytes()));
        fs::write(&self.points, bytes).expect("the folder can be written to");
    }

    /// The pipeline on a device, with its model read.
    pub fn prepared(&self, runtime: &Runtime, device: &str, deviation: bool) -> Arc<Prepared> {
        let path = |path: &Path| Value::Text(path.display().to_string());
        let values = BTreeMap::from([
            ("model".to_owned(), path(&self.model)),
            ("samples".to_owned(), path(&self.points)),
            ("deviation".to_owned(), Value::Boolean(deviation)),
            ("device".to_owned(), Value::Text(device.to_owned())),
            ("format".to_owned(), Value::Text("csv".to_owned())),
            ("out".to_owned(), path(&self.out)),
        ]);
        let declaration = shipped::GP_PREDICT.load().declaration;
        let prepared = Prepared::new(&declaration, &catalog(), &values, &runtime.environment());
        Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")))
    }

    /// Predicts all points, in seconds.
    pub fn predict(&self, runtime: &Runtime, prepared: &Arc<Prepared>) -> f64 {
        let begun = Instant::now();
        let request = runtime.submit(prepared, &Submission::default());
        let request = request.unwrap_or_else(|error| panic!("{error}"));
        request.wait().result.unwrap_or_else(|error| panic!("{error}"));
        begun.elapsed().as_secs_f64()
    }

    /// The number of predictions that were written.
    pub fn count(&self) -> usize {
        let file = fs::File::open(&self.out).expect("predictions");
        BufReader::new(file).lines().count() - 1
    }

    /// The means and the deviations that were written.
    pub fn predicted(&self) -> Vec<[f64; 2]> {
        let text = fs::read_to_string(&self.out).expect("predictions");
        let mut lines = text.lines();
        let head: Vec<&str> = lines.next().expect("a head").split(',').collect();
        let column = |name: &str| head.iter().position(|known| *known == name).expect("a column");
        let columns = [column("mean"), column("deviation")];
        let row = |line: &str| {
            let cells: Vec<&str> = line.split(',').collect();
            columns.map(|at| cells[at].parse().unwrap_or(f64::NAN))
        };
        lines.map(row).collect()
    }
}
