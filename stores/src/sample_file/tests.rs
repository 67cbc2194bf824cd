//! Samples of each format, and files that do not fit.

use std::fs;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::FileWriter;

use super::*;

fn asked(inputs: &[&str], target: Option<&str>) -> SampleColumns {
    SampleColumns {
        inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
        target: target.map(str::to_owned),
        ..SampleColumns::default()
    }
}

fn read(path: &Path, asked: &SampleColumns) -> Result<SampleRows, SampleError> {
    let mut file = SampleFile::open(path, asked)?;
    let mut all = SampleRows::default();
    while let Some(rows) = file.next(2)? {
        all.names.extend(rows.names);
        all.inputs.extend(rows.inputs);
        all.targets.extend(rows.targets);
    }
    assert!(file.next(2)?.is_none());
    Ok(all)
}

#[test]
fn samples_are_the_same_from_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let [csv, arrow, npy] = ["s.csv", "s.arrow", "s.npy"].map(|name| folder.path().join(name));
    fs::write(&csv, "id,x,y,z\na, 1.5,2,3e0\n\"b,c\",0.1,-4,5\n d,7,8,9\n").unwrap();
    let columns: [(&str, ArrayRef); 4] = [
        ("id", Arc::new(StringArray::from(vec!["a", "b,c", "d"]))),
        ("x", Arc::new(Float64Array::from(vec![1.5, 0.1, 7.0]))),
        ("y", Arc::new(Int64Array::from(vec![2, -4, 8]))),
        ("z", Arc::new(Float32Array::from(vec![3.0, 5.0, 9.0]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = FileWriter::try_new(File::create(&arrow).unwrap(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    let head = format!("{:<117}\n", "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 3), }");
    bytes.extend((head.len() as u16).to_le_bytes());
    bytes.extend(head.bytes());
    [1.5, 2.0, 3.0, 0.1, -4.0, 5.0, 7.0, 8.0, 9.0].iter().for_each(|x: &f64| bytes.extend(x.to_le_bytes()));
    fs::write(&npy, bytes).unwrap();

    let named = SampleColumns { names: Some("id".into()), ..asked(&["z", "x"], Some("y")) };
    let rows = read(&csv, &named).unwrap();
    assert_eq!(rows.names, ["a", "b,c", "d"]);
    assert_eq!(rows.inputs, [3.0, 1.5, 5.0, 0.1, 9.0, 7.0]);
    assert_eq!(rows.targets, [2.0, -4.0, 8.0]);
    assert_eq!(read(&arrow, &named).unwrap(), rows);
    let mut row = 7;
    assert_eq!(samples_of(&batch, &named, "rows", &mut row).unwrap(), (rows.clone(), 0));
    let error = samples_of(&batch, &asked(&["w"], None), "given rows", &mut row).unwrap_err().to_string();
    assert!(row == 10 && error.contains("`given rows`: it has no column `w`"), "{error}");
    let numbered = read(&npy, &asked(&["2", "0"], Some("1"))).unwrap();
    assert_eq!((numbered.inputs, numbered.targets), (rows.inputs, rows.targets));
    assert_eq!(numbered.names, ["row 0", "row 1", "row 2"]);
    let without = read(&csv, &asked(&["x"], None)).unwrap();
    assert_eq!(without.names, ["line 2", "line 3", "line 4"]);
    assert!(without.targets.iter().all(|y| y.is_nan()));
}

#[test]
fn faults_name_the_file_the_place_and_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.csv");
    let xy = asked(&["x"], Some("y"));
    for (text, parts) in [
        ("x,y\n1,2\n3,abc\n", &["line 3", "column `y`", "`abc` is no number"][..]),
        ("x,y\n1,\n", &["line 2", "column `y` has no number", "missing: drop"]),
        ("x,y\nNaN,2\n", &["line 2", "column `x` is NaN", "missing: drop"]),
        ("x,y\n1,2\n-inf,2\n", &["line 3", "column `x` is -inf"]),
        ("x,y\n1,2,3\n", &["line 2", "3 fields, and the header 2"]),
        ("x,yy\n1,2\n", &["no column `y`", "did you mean `yy`"]),
        ("x,x,y\n1,2,3\n", &["two columns `x`"]),
        ("", &["no column `x`"]),
    ] {
        fs::write(&path, text).unwrap();
        let error = read(&path, &xy).unwrap_err().to_string();
        assert!(
            error.contains("bad.csv") && parts.iter().all(|part| error.contains(part)),
            "{text:?}: {error}"
        );
    }
    fs::write(&path, b"x,y\n1,\xff\n").unwrap();
    assert!(read(&path, &xy).unwrap_err().to_string().contains("UTF-8"));
    fs::write(&path, "x,y\n1,2\n").unwrap();
    for (columns, part) in [
        (asked(&[], Some("y")), "no inputs are named"),
        (asked(&["x", "x"], Some("y")), "named twice"),
        (asked(&["x"], Some("x")), "as an input and as the target"),
    ] {
        assert!(read(&path, &columns).unwrap_err().to_string().contains(part));
    }
    let other = folder.path().join("bad.arrow");
    fs::write(&other, "x,y\n1,2\n").unwrap();
    assert!(read(&other, &xy).unwrap_err().to_string().contains("name a CSV file `.csv`"));
    let none = read(&folder.path().join("none.csv"), &xy).unwrap_err().to_string();
    assert!(none.contains("cannot read") && none.contains("none.csv"), "{none}");
}

#[test]
fn rows_without_numbers_are_left_out_if_that_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("some.csv");
    fs::write(&path, "x,y\n1,2\n,3\n4,nan\n5,inf\n6,7\n").unwrap();
    let asked = SampleColumns { drops_missing: true, ..asked(&["x"], Some("y")) };
    let mut file = SampleFile::open(&path, &asked).unwrap();
    let rows = file.next(100).unwrap().unwrap();
    assert_eq!((rows.inputs, rows.targets), (vec![1.0, 6.0], vec![2.0, 7.0]));
    assert_eq!((rows.names.as_slice(), file.dropped()), (&["line 2".to_owned(), "line 6".to_owned()][..], 3));
}
