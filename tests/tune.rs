//! `boxwork tune`: settings for a folder of one's own, with a page and the commands to use them.

#[path = "support/command.rs"]
mod command;

use std::fs;

use boxwork_kernels::extract::Preset;
use command::{boxwork, fails, ok};

#[test]
fn settings_are_found_checked_and_usable_as_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    ok(at, &["sample-images", "my photos", "--classes", "3", "--per-class", "6"]);
    let call = ["tune", "--store-of", "my photos", "--most", "18", "--idim-max", "30"];
    let run = || {
        let output = boxwork(at).args(call).output().expect("the command runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    let said = run();
    assert!(said.contains("18 of 18 pictures, in 3 classes"), "{said}");
    assert!(said.contains("mean average precision: ") && said.contains("; on the other half "), "{said}");
    let page = fs::read_to_string(at.join("tune/index.html")).expect("a page");
    let rows = fs::read_to_string(at.join("tune/results.csv")).expect("a table").lines().count();
    assert!(page.contains("quality.map by entropy") && page.contains("boxwork extract"), "{page}");

    // The second call measures nothing: rows are kept, and the answer is the same.
    let again = run();
    assert!(!again.contains("quality.map 0."), "{again}");
    let answer = |said: &str| said[said.find("mean average").expect("an answer")..].to_owned();
    assert_eq!(answer(&again), answer(&said));
    assert_eq!(fs::read_to_string(at.join("tune/results.csv")).expect("a table").lines().count(), rows);

    // The printed commands work as they are.
    let extract = said.lines().find(|line| line.starts_with("boxwork extract ")).expect("a command");
    let flags = extract.strip_prefix("boxwork extract 'my photos' --out 'my photos.signatures.arrow' ");
    let flags: Vec<&str> = flags.expect(extract).split(' ').collect();
    ok(at, &[&["extract", "my photos", "--out", "my photos.signatures.arrow"], &flags[..]].concat());
    assert!(
        said.contains("boxwork search --store 'my photos.signatures.arrow' --query some.jpg -k 10"),
        "{said}"
    );

    fs::remove_file(
        fs::read_dir(at.join("my photos"))
            .expect("classes")
            .next()
            .expect("one")
            .expect("one")
            .path()
            .join("001.jpg"),
    )
    .expect("a picture less");
    let said = fails(at, &call, 2);
    assert!(said.contains("pictures.txt") && said.contains("--out"), "{said}");
    assert!(fails(at, &["tune", "--store-of", "tune"], 2).contains("too few classes of 4 pictures or more"));
    assert!(fails(at, &["tune", "--store-of", "nowhere"], 2).contains("nowhere"));
}

/// The settings at which `tune` begins are the defaults of `extract`.
#[test]
fn the_first_values_are_the_defaults() {
    let sweep = include_str!("../experiments/tune.yaml");
    let first = |axis: &str| -> f64 {
        let values = sweep.lines().find_map(|line| line.trim().strip_prefix(axis)?.trim().strip_prefix('['));
        values.expect(axis).split([',', ']']).next().expect("a value").trim().parse().expect("a number")
    };
    let preset = Preset::ALL[0];
    let [x, y, lightness, a, b, contrast, entropy] = preset.multiplier;
    assert_eq!((x, a), (y, b));
    for (axis, value) in [
        ("place:", x),
        ("lightness:", lightness),
        ("colour:", a),
        ("contrast:", contrast),
        ("entropy:", entropy),
        ("alpha:", preset.alpha),
        ("sigma:", preset.sigma),
        ("grey_levels:", f64::from(preset.grey_levels)),
        ("cluster_min:", f64::from(preset.cluster_weight_min)),
        ("points:", f64::from(preset.points_count)),
        ("seeds:", f64::from(preset.seeds_count)),
        ("iterations:", f64::from(preset.iterations_count)),
    ] {
        assert_eq!(first(axis), value, "{axis}");
    }
}
