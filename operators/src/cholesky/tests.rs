//! The boxes of a chain by themselves: tiles out of turn, and a factor that is wrong.

use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::{In, Out};
use boxwork_runtime::parameter::Value;

use super::tiles::{Tile, envelope};
use super::*;

fn whole(number: i64) -> Value {
    Value::Integer(number)
}

fn panel(column: i64, tiles: &[(usize, usize, [f64; 4])]) -> Result<Vec<Tile>, String> {
    let mut harness = Harness::new(&cholesky_panel::CHOLESKY_PANEL, [("column", whole(column))]).unwrap();
    for (i, j, numbers) in tiles {
        harness.give(In::nth(0), envelope(*i, *j, numbers.to_vec()).unwrap());
    }
    harness.end(In::nth(0));
    harness.run().map_err(|error| error.to_string())?;
    Ok(harness.taken(Out::nth(0)).iter().map(|tile| Tile::of(tile).unwrap()).collect())
}

#[test]
fn a_panel_factors_its_column_and_takes_no_more() {
    let diagonal = (1, 1, [4.0, 2.0, f64::NAN, 5.0]);
    let below = (2, 1, [2.0, 4.0, 5.0, 4.0]);
    let made = panel(1, &[diagonal, below, (2, 2, [1.0; 4])]).unwrap();
    assert_eq!(made.len(), 2);
    assert_eq!((made[0].numbers[0], made[0].numbers[1], made[0].numbers[3]), (2.0, 1.0, 2.0));
    assert_eq!(made[1].numbers[..], [1.0, 2.0, 2.0, 1.0]);
    for tiles in [&[below, diagonal][..], &[(2, 2, [1.0; 4])]] {
        let error = panel(1, tiles).err().unwrap();
        assert!(error.contains("came to the stage of column 1"), "{error}");
    }
    let error = panel(0, &[(0, 0, [1.0, 2.0, 0.0, 1.0])]).err().unwrap();
    assert!(error.contains("row 1 of the matrix"), "{error}");
    assert!(panel(3, &[]).unwrap().is_empty());
}

#[test]
fn an_update_subtracts_the_products_of_its_panel() {
    let make = || {
        let mut harness = Harness::new(&cholesky_update::CHOLESKY_UPDATE, [("column", whole(0))]).unwrap();
        for (i, numbers) in [(0, [2.0, 1.0, 0.0, 2.0]), (1, [1.0, 2.0, 2.0, 1.0])] {
            harness.give(In::nth(1), envelope(i, 0, numbers.to_vec()).unwrap());
        }
        harness.end(In::nth(1));
        harness
    };
    let mut harness = make();
    for (i, j) in [(0, 0), (1, 0), (1, 1)] {
        harness.give(In::nth(0), envelope(i, j, vec![10.0; 4]).unwrap());
    }
    harness.end(In::nth(0));
    while !harness.is_done() {
        harness.run().unwrap();
    }
    let rest: Vec<Tile> = harness.taken(Out::nth(0)).iter().map(|tile| Tile::of(tile).unwrap()).collect();
    assert_eq!((rest.len(), rest[0].i, rest[0].j), (1, 1, 1));
    // [1 2; 2 1] [1 2; 2 1]^T = [5 4; 4 5].
    assert_eq!((rest[0].numbers[0], rest[0].numbers[1], rest[0].numbers[3]), (5.0, 6.0, 5.0));
    let mut harness = make();
    harness.give(In::nth(0), envelope(2, 1, vec![10.0; 4]).unwrap());
    harness.end(In::nth(0));
    assert!(harness.run().unwrap_err().to_string().contains("tile (2, 1) came to the stage of column 0"));
}

#[test]
fn a_wrong_factor_fails_the_check() {
    let given = || {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("line").to_str().unwrap().to_owned();
        let kernel = Value::Text("4 * white(1)".to_owned());
        (folder, [("rows", whole(3)), ("tile", whole(2)), ("kernel", kernel), ("out", Value::Text(out))])
    };
    let check = |tiles: &[(usize, usize, [f64; 4])]| {
        let (folder, given) = given();
        let mut harness = Harness::new(&cholesky_check::CHOLESKY_CHECK, given).unwrap();
        for (i, j, numbers) in tiles {
            harness.give(In::nth(0), envelope(*i, *j, numbers.to_vec()).unwrap());
        }
        harness.end(In::nth(0));
        harness.run().map_err(|error| error.to_string())?;
        Ok::<String, String>(std::fs::read_to_string(folder.path().join("line")).unwrap())
    };
    let (first, below, last) = ((0, 0, [2.0, 0.0, 0.0, 2.0]), (1, 0, [0.0; 4]), (1, 1, [2.0, 0.0, 0.0, 1.0]));
    let line = check(&[last, first, below]).unwrap();
    assert!(line.starts_with("3 rows in tiles of 2, 2 columns of tiles: 6 entries within 0.000"), "{line}");
    for (tiles, part) in [
        (&[first, below][..], "2 tiles came, and a factor of 2 rows of tiles has 3"),
        (&[first, below, last, last], "came twice"),
        (&[first, below, (1, 1, [2.0 + 1e-9, 0.0, 0.0, 1.0])], "the factor is wrong"),
        (&[first, below, (1, 1, [f64::NAN, 0.0, 0.0, 1.0])], "the factor is wrong"),
    ] {
        let error = check(tiles).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
}
