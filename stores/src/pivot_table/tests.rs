//! An index returns what was put in, or is refused with the reason.

use std::fs;
use std::path::PathBuf;

use boxwork_kernels::CodePath;
use boxwork_kernels::lower_bound::{BoundEvaluator, Bounds};
use boxwork_kernels::similarity::{Ground, Measure, Similarity};

use super::*;
use crate::any_kind::named;
use crate::object_column;
use crate::signature_store::SignatureStore;
use crate::spaces::{self, DistanceOptions};
use crate::sqfd_space::SqfdSpace;
use crate::store::Store;
use crate::testing;

struct Made {
    folder: tempfile::TempDir,
    space: Arc<SqfdSpace>,
    path: PathBuf,
}

fn shared(space: &Arc<SqfdSpace>) -> Arc<dyn Space> {
    Arc::<SqfdSpace>::clone(space)
}

/// An object as a query.
fn query(space: &Arc<dyn Space>, id: u64) -> Arc<dyn Prepared> {
    Arc::clone(space).prepare(&space.store().objects(&[id]).unwrap(), 0).unwrap()
}

/// Checks that the bounds hold for all distances of some queries; returns, by bound, the share of the objects that a
/// range of the nearest tenth excludes.
fn bounded(table: &PivotTable, queries: &[u64]) -> Vec<(Bound, f64)> {
    let (space, store) = (table.space(), table.space().store());
    let ids: Vec<u64> = store.among(0..store.ids_count()).collect();
    let bounds = Bound::ALL.into_iter().filter(|bound| table.allow(*bound).is_ok());
    bounds
        .map(|bound| {
            let mut left_out = 0;
            for query_id in queries {
                let query = query(space, *query_id);
                let mut distances = vec![0.0; ids.len()];
                query.exact(&ids, &mut distances).unwrap();
                let mut sorted = distances.clone();
                sorted.sort_by(f64::total_cmp);
                let range = sorted[ids.len() / 10];
                let mut from_pivots = vec![0.0; table.pivots().len()];
                query.exact(table.pivots(), &mut from_pivots).unwrap();
                let prepared = table.query(bound, &from_pivots, &*query).unwrap();
                let mut bounds = Bounds::default();
                for (id, distance) in ids.iter().zip(&distances) {
                    let (block, row) = (*id as usize / PACKED_OBJECTS, *id as usize % PACKED_OBJECTS);
                    BoundEvaluator::new(CodePath::detect()).bounds(
                        &prepared,
                        table.block(block),
                        &mut bounds,
                    );
                    let of = |bound: f32| f64::from(bound) * table.unit();
                    let (lower, upper) = (of(bounds.lower[row]), of(bounds.upper[row]));
                    assert!(lower <= *distance && upper >= *distance, "{bound}: {lower} {distance} {upper}");
                    left_out += usize::from(lower > range);
                }
            }
            (bound, left_out as f64 / (ids.len() * queries.len()) as f64)
        })
        .collect()
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
    let table = PivotTable::open(&path, shared(&space)).unwrap();
    assert_eq!((table.len(), table.blocks(), table.pivots()), (600, 3, [5, 17, 599, 17].as_slice()));
    assert_eq!(table.ids(2), 512..600);
    // The second 17 adds no dimension to the simplex.
    assert_eq!(table.simplex().dimensions(), 3);
    let between = |a, b| space.store().read(|objects| space.between(objects, a, b)).unwrap();
    for id in [0, 255, 256, 599] {
        for (idx, pivot) in table.pivots().iter().enumerate() {
            let (block, row) = ((id / 256) as usize, (id % 256) as usize);
            assert_eq!(table.block(block).distances[idx * 256 + row], between(*pivot, id) as f32);
        }
    }
    assert_eq!(bounded(&table, &[3, 17, 400]).len(), 4);
}
#[test]
fn every_byte_is_under_a_checksum() {
    let Made { folder: _folder, space, path } = made(300, &[0, 7, 200]);
    let sound = fs::read(&path).unwrap();
    for place in (0..sound.len()).step_by(37).chain(sound.len() - 64..sound.len()) {
        let mut bytes = sound.clone();
        bytes[place] ^= 1 << (place % 8);
        fs::write(&path, bytes).unwrap();
        let error = PivotTable::open(&path, shared(&space)).err();
        let error = error.unwrap_or_else(|| panic!("byte {place} went unnoticed")).to_string();
        assert!(error.contains("test.pivots.arrow"), "{error}");
    }
    for length in (0..sound.len()).step_by(101) {
        fs::write(&path, &sound[..length]).unwrap();
        assert!(PivotTable::open(&path, shared(&space)).is_err(), "{length} bytes pass");
    }
    fs::write(&path, &sound).unwrap();
    assert!(PivotTable::open(&path, space).is_ok());
}

#[test]
fn an_index_of_something_else_is_refused_with_the_way_out() {
    let Made { folder, space, path } = made(40, &[0, 7]);
    let refused = |path: &Path, space: &Arc<SqfdSpace>, words: &[&str]| {
        let error = PivotTable::open(path, shared(space)).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, 0.3).unwrap();
    let other = Arc::new(SqfdSpace::new(Arc::clone(space.store()), measure));
    refused(
        &path,
        &other,
        &["alpha 0.2", "alpha 0.3", "search with `--alpha 0.2`", "or make the index for this search"],
    );
    // A store of this name with one more object.
    let grown = testing::space(testing::store(folder.path(), 41));
    refused(&path, &grown, &["index of another store", "has changed", "boxwork index --store"]);
    let store = space.store().path().to_owned();
    refused(&store, &space, &["is no index", "make one with `boxwork index`"]);
    refused(&folder.path().join("none"), &space, &["cannot open", "none"]);
    let error = SignatureStore::open(&path).unwrap_err().to_string();
    assert!(error.contains("is no store"), "{error}");

    // Another version, with a valid checksum.
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
    let mut writer = PivotTableWriter::create(&path, shared(&space), &[2], &[0.0]).unwrap();
    (0..299).for_each(|_| writer.push(&[0.5]).unwrap());
    assert_eq!((writer.len(), writer.is_empty()), (299, false));
    assert_eq!(left(), before + 1);
    let error = writer.finish().unwrap_err().to_string();
    assert!(error.contains("299 of 300 objects"), "{error}");
    assert_eq!((left(), fs::read(&path).unwrap()), (before, sound));

    let refused = |pivots: &[u64], between: &[f64], words: &str| {
        let error = PivotTableWriter::create(&path, shared(&space), pivots, between).err().unwrap();
        assert!(error.to_string().contains(words), "{error}");
    };
    refused(&[0, 1], &[0.0, f64::NAN, f64::NAN, 0.0], "NaN is no distance");
    let few = shared(&testing::space(testing::store(folder.path(), 1)));
    let error = PivotTableWriter::create(&path, few, &[0, 0], &[0.0; 4]).err().unwrap().to_string();
    assert!(error.contains("2 pivots") && error.contains("ask for at most 1"), "{error}");
}

#[test]
fn distances_of_no_point_are_told() {
    let Made { folder: _folder, space, path } = made(300, &[1]);
    let mut writer =
        PivotTableWriter::create(&path, shared(&space), &[1, 2], &[0.0, 10.0, 10.0, 0.0]).unwrap();
    let error = (0..300).find_map(|_| writer.push(&[1.0, 1.0]).err()).unwrap().to_string();
    assert!(error.contains("object 0") && error.contains("no Hilbert distance"), "{error}");
}

/// A store in which each of 700 objects is one column value.
fn column(folder: &Path, kind: &str, line: &dyn Fn(u64) -> String) -> Arc<dyn Store> {
    let path = folder.join(format!("{kind}.jsonl"));
    let lines = (0..700).map(|id| format!("{{\"object\": {}}}\n", line(id)));
    fs::write(&path, lines.collect::<String>()).unwrap();
    object_column::open(&path, None, "name", Some(named(kind).unwrap())).unwrap()
}

/// Vectors whose numbers are `scale` times those from 0 to 10.
fn vectors(folder: &Path, scale: f64) -> Arc<dyn Store> {
    column(folder, "vectors", &|i| {
        let number = |j: u64| scale * ((i * 7919 + j * 104_729) * 2_654_435_761 % 1009) as f64 / 100.0;
        format!("[{:e}, {:e}, {:e}]", number(0), number(1), number(2))
    })
}

#[test]
fn tables_of_every_space_bound_its_distances_in_memory_and_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let texts = column(folder.path(), "texts", &|i| {
        let letters = (0..2 + i % 13).map(|j| ['a', 'b', 'é', 'd'][((i * 31 + j * 17) % 11 % 4) as usize]);
        format!("\"{}\"", letters.collect::<String>())
    });
    let sets = column(folder.path(), "sets", &|i| {
        let elements = (0..i % 9).map(|j| ((i * 5 + j * j * 3) % 23).to_string());
        format!("[{}]", elements.collect::<Vec<_>>().join(", "))
    });
    let signatures = testing::store(folder.path(), 300);
    let signatures: Arc<dyn Store> = testing::without(&signatures, (0..300).filter(|id| id % 7 == 1));
    let vectors = vectors(folder.path(), 1.0);
    for (distance, store) in [
        ("l1", &vectors),
        ("l2", &vectors),
        ("linf", &vectors),
        ("levenshtein", &texts),
        ("jaccard", &sets),
        ("hausdorff", &signatures),
        ("emd", &signatures),
        ("sqfd", &signatures),
    ] {
        for root in [false, true] {
            let options = DistanceOptions { root, ..DistanceOptions::named(distance) };
            let space = spaces::open(&options, Arc::clone(store)).unwrap();
            let table = PivotTable::of_space(Arc::clone(&space), 6, 1, &|| false).unwrap();
            assert_eq!(table.unit(), 1.0);
            let sound =
                Bound::ALL.into_iter().filter(|bound| space.properties().allow(*bound).is_ok()).count();
            let bounded = bounded(&table, &[0, 3, 299]);
            assert_eq!(bounded.len(), sound, "{}", space.measure());
            assert!(bounded.iter().any(|(_, share)| *share > 0.05), "{}: {bounded:?}", space.measure());

            // The table of a file with equal pivots.
            let path = folder.path().join("one.pivots.arrow");
            testing::write_index_of(&space, table.pivots(), &path).unwrap();
            let read = PivotTable::open(&path, Arc::clone(&space)).unwrap();
            assert_eq!((read.pivots(), read.between()), (table.pivots(), table.between()));
            for block in 0..table.blocks() {
                let (a, b) = (table.block(block), read.block(block));
                assert_eq!((a.distances, a.apexes.len()), (b.distances, b.apexes.len()));
            }
            assert_eq!(PivotTable::measure_of(&path).unwrap().text(), options.text());
            let other = DistanceOptions { root: !root, ..options.clone() };
            let error = PivotTable::open(&path, spaces::open(&other, Arc::clone(store)).unwrap());
            let error = error.unwrap_err().to_string();
            assert!(error.contains(&options.text()) && error.contains("make the index for this"), "{error}");
            let flag = format!("{} --pivots 6 --out ", if root { "" } else { " --root" });
            assert!(error.contains(&flag), "{error}");
        }
    }
}

#[test]
fn distances_that_f32_cannot_square_are_bounded_in_another_unit() {
    let folder = tempfile::tempdir().unwrap();
    for scale in [1e-30, 1e-12, 1e12, 1e36] {
        let space = spaces::open(&DistanceOptions::named("l2"), vectors(folder.path(), scale)).unwrap();
        let table = PivotTable::of_space(Arc::clone(&space), 6, 1, &|| false).unwrap();
        assert!(table.unit() > scale && table.unit() < 1e3 * scale, "{} of {scale}", table.unit());
        for (bound, share) in bounded(&table, &[0, 400]) {
            assert!(share > 0.3, "{bound} leaves out {share} at {scale:e}");
        }
        // A single pivot has no distances to other pivots: some objects give the unit.
        for pivots in [table.pivots(), &table.pivots()[..1]] {
            let path = folder.path().join("scaled.pivots.arrow");
            testing::write_index_of(&space, pivots, &path).unwrap();
            let read = PivotTable::open(&path, Arc::clone(&space)).unwrap();
            assert!(read.unit() > scale && read.unit() < 1e3 * scale, "{} of {scale}", read.unit());
            // A single pivot gives no bound on pairs of pivots.
            assert!(bounded(&read, &[0, 400]).iter().any(|(_, share)| *share > 0.05));
        }
    }
}

#[test]
fn a_query_too_far_away_is_bounded_by_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let space = spaces::open(&DistanceOptions::named("l2"), vectors(folder.path(), 1.0)).unwrap();
    let table = PivotTable::of_space(Arc::clone(&space), 6, 1, &|| false).unwrap();
    let query = query(&space, 0);
    for bound in Bound::ALL {
        let prepared = table.query(bound, &[1e30; 6], &*query).unwrap();
        let mut bounds = Bounds::default();
        for path in [CodePath::Portable, CodePath::detect()] {
            BoundEvaluator::new(path).bounds(&prepared, table.block(1), &mut bounds);
            assert!(bounds.lower.iter().all(|lower| *lower == 0.0));
            assert!(bounds.upper.iter().all(|upper| *upper == f32::INFINITY));
        }
        assert!(table.query(bound, &[f64::NAN; 6], &*query).is_err());
    }
}

#[test]
fn an_object_too_far_from_the_pivots_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = vectors(folder.path(), 1.0);
    let space = spaces::open(&DistanceOptions::named("l2"), store).unwrap();
    let path = folder.path().join("far.pivots.arrow");
    let mut writer = PivotTableWriter::create(&path, space, &[0, 1], &[0.0, 2.0, 2.0, 0.0]).unwrap();
    writer.push(&[0.0, 2.0]).unwrap();
    let error = writer.push(&[1e30, 1e30]).unwrap_err().to_string();
    assert!(error.contains("object 1 of") && error.contains("choose other pivots"), "{error}");
}

#[test]
fn a_table_in_memory_is_of_what_is_asked_for_or_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let same = column(folder.path(), "texts", &|_| "\"a\"".to_owned());
    let space = spaces::open(&DistanceOptions::default(), same).unwrap();
    let table = PivotTable::of_space(Arc::clone(&space), 9, 1, &|| false).unwrap();
    assert_eq!((table.pivots().len(), table.unit(), table.len()), (1, 1.0, 700));
    assert!(table.allow(Bound::Triangular).is_ok());
    let error = table.allow(Bound::Simplex).unwrap_err().to_string();
    assert!(error.contains("levenshtein is no Hilbert distance"), "{error}");
    let asked = std::cell::Cell::new(0);
    let cancelled = || {
        asked.set(asked.get() + 1);
        asked.get() > 100
    };
    let error = PivotTable::of_space(space, 9, 1, &cancelled).unwrap_err().to_string();
    assert!(error.contains("cancelled") && asked.get() < 10_000, "{error}");
}
