//! An index is what was put in, or it is refused by the name of what is wrong.

use std::fs;
use std::path::PathBuf;

use boxwork_kernels::CodePath;
use boxwork_kernels::lower_bound::{Bounds, Evaluator};
use boxwork_kernels::similarity::{Ground, Measure, Similarity};

use super::*;
use crate::signature_store::SignatureStore;
use crate::testing;

struct Made {
    folder: tempfile::TempDir,
    space: Arc<SqfdSpace>,
    path: PathBuf,
}

fn made(objects: usize, pivots: &[u64]) -> Made {
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), objects));
    let path = folder.path().join("test.pivots.arrow");
    testing::write_index(&space, pivots, &path).unwrap();
    Made { folder, space, path }
}

#[test]
fn holds_the_distances_and_bounds_them() {
    let Made { folder: _folder, space, path } = made(600, &[5, 17, 599, 17]);
    let table = PivotTable::open(&path, Arc::clone(&space)).unwrap();
    assert_eq!((table.len(), table.blocks(), table.pivots()), (600, 3, [5, 17, 599, 17].as_slice()));
    assert_eq!(table.ids(2), 512..600);
    // The second 17 adds nothing to the simplex.
    assert_eq!(table.simplex().dimensions(), 3);
    let between = |a, b| space.store().read(|objects| space.between(objects, a, b)).unwrap();
    for id in [0, 255, 256, 599] {
        for (idx, pivot) in table.pivots().iter().enumerate() {
            let (block, row) = ((id / 256) as usize, (id % 256) as usize);
            assert_eq!(table.block(block).distances[idx * 256 + row], between(*pivot, id) as f32);
        }
    }
    for query in [3, 17, 400] {
        let distances: Vec<f64> = table.pivots().iter().map(|pivot| between(*pivot, query)).collect();
        for bound in Bound::ALL {
            let prepared = table.query(bound, &distances, 1.0, 4).unwrap();
            let mut bounds = Bounds::default();
            for block in 0..table.blocks() {
                Evaluator::new(CodePath::detect()).bounds(&prepared, table.block(block), &mut bounds);
                for (row, id) in table.ids(block).enumerate() {
                    let distance = between(query, id);
                    assert!(
                        f64::from(bounds.lower[row]) <= distance && f64::from(bounds.upper[row]) >= distance
                    );
                }
            }
        }
    }
}

#[test]
fn every_byte_is_under_a_checksum() {
    let Made { folder: _folder, space, path } = made(300, &[0, 7, 200]);
    let sound = fs::read(&path).unwrap();
    for place in (0..sound.len()).step_by(37).chain(sound.len() - 64..sound.len()) {
        let mut bytes = sound.clone();
        bytes[place] ^= 1 << (place % 8);
        fs::write(&path, bytes).unwrap();
        let error = PivotTable::open(&path, Arc::clone(&space)).err();
        let error = error.unwrap_or_else(|| panic!("byte {place} went unnoticed")).to_string();
        assert!(error.contains("test.pivots.arrow"), "{error}");
    }
    for length in (0..sound.len()).step_by(101) {
        fs::write(&path, &sound[..length]).unwrap();
        assert!(PivotTable::open(&path, Arc::clone(&space)).is_err(), "{length} bytes pass");
    }
    fs::write(&path, &sound).unwrap();
    assert!(PivotTable::open(&path, space).is_ok());
}

#[test]
fn an_index_of_something_else_is_refused_with_the_way_out() {
    let Made { folder, space, path } = made(40, &[0, 7]);
    let refused = |path: &Path, space: &Arc<SqfdSpace>, words: &[&str]| {
        let error = PivotTable::open(path, Arc::clone(space)).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, 0.3).unwrap();
    let other = Arc::new(SqfdSpace::new(Arc::clone(space.store()), measure));
    refused(&path, &other, &["alpha 0.2", "alpha 0.3", "search with gaussian", "or make another index"]);
    // The same name, one object more.
    let grown = testing::space(testing::store(folder.path(), 41));
    refused(&path, &grown, &["index of another store", "was changed", "boxwork index --store"]);
    let store = space.store().path().to_owned();
    refused(&store, &space, &["is no index", "make one with `boxwork index`"]);
    refused(&folder.path().join("none"), &space, &["cannot open", "none"]);
    let error = SignatureStore::open(&path).unwrap_err().to_string();
    assert!(error.contains("is no signature store"), "{error}");

    // Another version, with its checksum put right.
    let mut bytes = fs::read(&path).unwrap();
    let key = b"boxwork.version";
    let places: Vec<usize> =
        (0..bytes.len() - key.len()).filter(|at| bytes[*at..].starts_with(key)).collect();
    assert_eq!(places.len(), 2, "in the head and in the footer");
    let value = places[1] - 12..places[1] + 40;
    let digit = value.clone().find(|at| bytes[*at] == b'1' && bytes[*at - 4..*at] == [1, 0, 0, 0]).unwrap();
    bytes[digit] = b'7';
    let trailer: [u8; layout::TRAILER_BYTES] = *bytes.last_chunk().unwrap();
    let footer = arrow_ipc::reader::read_footer_length(trailer).unwrap();
    let start = bytes.len() - layout::TRAILER_BYTES - footer - layout::END_OF_STREAM_BYTES;
    let digits = layout::tail_digits(&bytes[start..]).unwrap();
    let checksum = layout::tail_checksum(&bytes[start..], &digits);
    bytes[start..][digits].copy_from_slice(checksum.as_bytes());
    fs::write(&path, bytes).unwrap();
    refused(&path, &space, &["version 7", "reads version 1", "boxwork index"]);
}

#[test]
fn an_index_appears_whole_or_not_at_all() {
    let Made { folder, space, path } = made(300, &[1]);
    let sound = fs::read(&path).unwrap();
    let left = || fs::read_dir(folder.path()).unwrap().count();
    let before = left();
    let mut writer = PivotTableWriter::create(&path, Arc::clone(&space), &[2], &[0.0]).unwrap();
    (0..299).for_each(|_| writer.push(&[0.5]).unwrap());
    assert_eq!((writer.len(), writer.is_empty()), (299, false));
    assert_eq!(left(), before + 1);
    let error = writer.finish().unwrap_err().to_string();
    assert!(error.contains("299 of 300 objects"), "{error}");
    assert_eq!((left(), fs::read(&path).unwrap()), (before, sound));

    let refused = |pivots: &[u64], between: &[f64], words: &str| {
        let error = PivotTableWriter::create(&path, Arc::clone(&space), pivots, between).err().unwrap();
        assert!(error.to_string().contains(words), "{error}");
    };
    refused(&[0, 1], &[0.0, f64::NAN, f64::NAN, 0.0], "NaN is no distance");
    let few = testing::space(testing::store(folder.path(), 1));
    let error = PivotTableWriter::create(&path, few, &[0, 0], &[0.0; 4]).err().unwrap().to_string();
    assert!(error.contains("2 pivots") && error.contains("ask for at most 1"), "{error}");
}

#[test]
fn distances_of_no_point_are_told() {
    let Made { folder: _folder, space, path } = made(300, &[1]);
    let mut writer =
        PivotTableWriter::create(&path, Arc::clone(&space), &[1, 2], &[0.0, 10.0, 10.0, 0.0]).unwrap();
    let error = (0..300).find_map(|_| writer.push(&[1.0, 1.0]).err()).unwrap().to_string();
    assert!(error.contains("object 0") && error.contains("no Hilbert distance"), "{error}");
}
