//! Objects `o0`, `o1` and so on, with one centroid each.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Writes this many objects as lines of JSON.
pub fn write_objects(path: &Path, objects: usize) {
    let lines = (0..objects).fold(String::new(), |mut lines, n| {
        let _ = writeln!(lines, r#"{{"name": "o{n}", "centroids": [[{n}, 0.5]], "weights": [1]}}"#);
        lines
    });
    fs::write(path, lines).expect("the folder can be written to");
}
