//! Coordinates whose differences f32 cannot square or add: `minus`, whose similarities have no bound, still gives the
//! order of the f64 distances, on the processor and on devices.

#[path = "support/command.rs"]
mod command;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sqfd::{Columns, reference};
use boxwork_runtime::feeding::faults::has_device;
use tempfile::TempDir;

/// Objects: a name, and for each centroid its first coordinate and its weight. The second coordinate is 0.
const OBJECTS: [(&str, &[(f32, f32)]); 9] = [
    ("q", &[(0.0, 1.0)]),
    ("near", &[(1e20, 1.0)]),
    ("far", &[(3e20, 1.0)]),
    ("z", &[(1e18, 1.0)]),
    ("half", &[(-2e20, 0.5), (5e19, 0.5)]),
    // Nearly all of its weight is near: the small weight far away decides its place.
    ("light", &[(1.0, 1.0), (1e22, 1e-9)]),
    ("lighter", &[(4.0, 1.0), (3e37, 1e-25)]),
    // Weights below the normal numbers of f32.
    ("faint", &[(2.0, 1.0), (1.5e37, 1e-39)]),
    ("fainter", &[(2.0, 1.0), (1e37, 1e-40)]),
];

fn store() -> TempDir {
    let folder = command::folder();
    let mut lines = String::new();
    for (name, points) in OBJECTS {
        let centroids: Vec<String> = points.iter().map(|(x, _)| format!("[{x:e}, 0]")).collect();
        let weights: Vec<String> = points.iter().map(|(_, weight)| format!("{weight:e}")).collect();
        let (centroids, weights) = (centroids.join(", "), weights.join(", "));
        writeln!(lines, r#"{{"name": "{name}", "centroids": [{centroids}], "weights": [{weights}]}}"#)
            .expect("a line");
    }
    fs::write(folder.path().join("objects.jsonl"), lines).expect("a file of objects");
    command::ok(folder.path(), &["import", "objects.jsonl", "--out", "s.arrow"]);
    folder
}

fn minus_over(ground: &str) -> Measure {
    let ground: Ground = ground.parse().expect("a ground");
    Measure::new(Similarity::Minus, ground, 1.0).expect("a measure")
}

fn names(ranked: &[(f64, &'static str)]) -> Vec<&'static str> {
    ranked.iter().map(|found| found.1).collect()
}

/// The objects by their f64 distances from one object.
fn ranked(measure: &Measure, query: usize) -> Vec<(f64, &'static str)> {
    let columns = OBJECTS.map(|(_, points)| {
        let (x, weights): (Vec<f32>, Vec<f32>) = points.iter().copied().unzip();
        (vec![0.0; x.len()], x, weights)
    });
    let with = |idx: usize, f: &mut dyn FnMut(boxwork_kernels::sqfd::SignatureRef<'_>)| {
        let (y, x, weights) = &columns[idx];
        f(Columns::new(&[x, y], weights).signature(0, weights.len()));
    };
    let mut ranked = Vec::new();
    with(query, &mut |query| {
        for (idx, (name, _)) in OBJECTS.iter().enumerate() {
            with(idx, &mut |object| ranked.push((reference::sqfd(measure, query, object), *name)));
        }
    });
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    ranked
}

/// The names of the objects that a search finds, in order.
fn found(folder: &Path, ground: &str, query: &str, options: &[&str]) -> Vec<String> {
    let search = ["search", "--store", "s.arrow", "--similarity", "minus", "--format", "json"];
    let given = ["--ground", ground, "--query", query];
    let arguments: Vec<&str> = search.iter().chain(&given).chain(options).copied().collect();
    let found = command::json(&command::ok(folder, &arguments));
    let results = found["queries"][0]["results"].as_array().expect("results").iter();
    results.map(|result| result["name"].as_str().expect("a name").to_owned()).collect()
}

/// Checks every k and a range behind every object, for every query and ground.
fn check(devices: &[&str]) {
    let folder = store();
    let at = folder.path();
    for ground in ["l1", "l2", "l2_squared"] {
        let measure = minus_over(ground);
        for (idx, (query, _)) in OBJECTS.iter().enumerate() {
            let ranked = ranked(&measure, idx);
            let names = |count: usize| names(&ranked[..count]);
            for count in [1, 2, 3, 5, OBJECTS.len()] {
                for device in devices {
                    let k = count.to_string();
                    let nearest = found(at, ground, query, &["-k", &k, "--device", device]);
                    assert_eq!(nearest, names(count), "{count} nearest to {query}, {ground}, {device}");
                    let Some(beyond) = ranked.get(count) else { continue };
                    // A range excludes none of several objects at one distance.
                    let range = (ranked[count - 1].0 + beyond.0) / 2.0;
                    if range < beyond.0 {
                        let range = format!("{range:e}");
                        let within = found(at, ground, query, &["--range", &range, "--device", device]);
                        assert_eq!(within, names(count), "within {range} of {query}, {ground}, {device}");
                    }
                }
            }
        }
    }
}

#[test]
fn minus_with_large_coordinates_finds_what_the_f64_distances_say() {
    check(&["cpu"]);
}

#[test]
fn an_index_of_distances_that_f32_cannot_square_loses_nothing() {
    let folder = store();
    let at = folder.path();
    for ground in ["l2", "l2_squared"] {
        let space = ["--similarity", "minus", "--ground", ground];
        let index = ["index", "--store", "s.arrow", "--out", "i.arrow", "--force", "--pivots", "3"];
        command::ok(at, &[&index[..], &space].concat());
        for (idx, (query, _)) in OBJECTS.iter().enumerate() {
            let ranked = ranked(&minus_over(ground), idx);
            for bound in ["triangular", "ptolemaic", "combined", "simplex"] {
                let options = ["-k", "4", "--pivots", "i.arrow", "--bound", bound];
                assert_eq!(
                    found(at, ground, query, &options),
                    names(&ranked[..4]),
                    "{query}, {ground}, {bound}"
                );
            }
        }
    }
}

#[test]
fn minus_with_large_coordinates_finds_the_same_on_devices() {
    if has_device("minus_with_large_coordinates_finds_the_same_on_devices") {
        check(&["gpu"]);
    }
}
