//! Points that a fitted Gaussian process cannot predict, by the command: each is told with its place and a fix.

#[path = "support/command.rs"]
mod command;

use std::fs;

use command::{fails, folder, ok};

#[test]
fn bad_points_are_told_with_their_place_and_fix() {
    let folder = folder();
    let at = folder.path();
    let write = |name: &str, text: &str| fs::write(at.join(name), text).expect("a file");
    write("hill.csv", "x1,x2,y\n1,2,3\n4,5,6\n7,9,8\n");
    let fit =
        ["gp", "fit", "--samples", "hill.csv", "--inputs", "x1,x2", "--target", "y", "--out", "m.gp.arrow"];
    ok(at, &fit);
    let predict = ["gp", "predict", "--model", "m.gp.arrow", "--samples", "new.csv", "--format", "csv"];
    for (points, parts) in [
        ("x1,x2\n1,2\nNaN,2\n", &["new.csv", "line 3", "column `x1` is NaN", "missing: drop"][..]),
        ("x1,x2\n1,-inf\n", &["line 2", "column `x2` is -inf"]),
        ("x1,x3\n1,2\n", &["no column `x2`", "did you mean `x"]),
    ] {
        write("new.csv", points);
        let said = fails(at, &predict, 3);
        assert!(parts.iter().all(|part| said.contains(part)), "{parts:?}: {said}");
    }
    // Rows without numbers may be left out, and no row at all is no fault.
    write("new.csv", "x1,x2\nNaN,2\n1,2\n");
    assert_eq!(ok(at, &[&predict[..], &["--missing", "drop"]].concat()).lines().count(), 2);
    write("new.csv", "x1,x2\n");
    assert!(ok(at, &predict).lines().count() <= 1);
    write("new.csv", "x1,x2\n1,2\n");
    let said = fails(at, &[&predict[..], &["--device", "gpu:77"]].concat(), 3);
    assert!(said.contains("device: gpu:77"), "{said}");
    let said = fails(at, &["gp", "predict", "--model", "none.gp.arrow", "--samples", "new.csv"], 3);
    assert!(said.contains("none.gp.arrow"), "{said}");
}
