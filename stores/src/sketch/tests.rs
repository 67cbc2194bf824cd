//! Sketches on disk: what they hold, how they follow their store, and which files are refused.

use std::fs;

use super::*;
use crate::any_kind;
use crate::object_store::Access;
use crate::pivot_table::{in_threads, in_threads_until};
use crate::signature_store::{SignatureStore, StoreChange};
use crate::sqfd_space::SqfdSpace;
use crate::testing::{self, FREQUENCIES};
use crate::upkeep;
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sketch::coordinate;
use boxwork_kernels::sqfd::Columns;

fn space(path: &Path, alpha: f64) -> Arc<dyn Space> {
    let store = Arc::new(SignatureStore::open(path).unwrap());
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, alpha).unwrap();
    Arc::new(SqfdSpace::new(store, measure))
}

fn add(store: &Path, sketch: &Path, seeds: std::ops::Range<u64>) {
    let mut change = StoreChange::begin(store).unwrap();
    for seed in seeds {
        let ([x, y], weights) = testing::centroids(seed);
        let columns: [&[f32]; 2] = [&x, &y];
        let columns = Columns::new(&columns, &weights);
        change.push(&format!("new/{seed}"), columns.signature(0, weights.len()), 1, 1).unwrap();
    }
    upkeep::commit(change.write().unwrap(), &[sketch.to_owned()], &mut in_threads(2)).unwrap();
}

fn names_and_sketches(path: &Path, space: &Arc<dyn Space>) -> Vec<(String, [u16; COORDINATES])> {
    let (sketch, store) = (Sketch::open(path, space).unwrap(), space.store());
    store.among(0..store.ids_count()).map(|id| (store.name(id).unwrap(), sketch.at(id))).collect()
}

#[test]
fn sketches_follow_their_store_through_additions_removals_and_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let store = testing::store(folder.path(), 5000).path().to_owned();
    let path = folder.path().join("test.sketch.arrow");
    assert_eq!(testing::write_sketch(&space(&store, 0.2), &path).unwrap(), 5000);
    let first = names_and_sketches(&path, &space(&store, 0.2));
    let before = fs::read(&path).unwrap();
    testing::write_sketch(&space(&store, 0.2), &path).unwrap();
    assert!(fs::read(&path).unwrap() == before, "the same store has another sketch");
    // 128 bytes an object, and the directions.
    let directions = (2 * FREQUENCIES + 1) * COORDINATES * 8;
    assert!(before.len() < 5000 * 130 + directions + 20_000, "{}", before.len());

    add(&store, &path, 10_000..10_300);
    testing::without(&SignatureStore::open(&store).unwrap(), [0, 77, 5001].into_iter());
    add(&store, &path, 10_300..10_301);
    let grown = space(&store, 0.2);
    let changed = names_and_sketches(&path, &grown);
    let sketch = Sketch::open(&path, &grown).unwrap();
    assert_eq!((sketch.len(), changed.len()), (5301, 5298));
    assert!(first.iter().skip(1).take(76).all(|old| changed.contains(old)), "old sketches changed");
    let maker = sketch.maker();
    for (id, (_, found)) in grown.store().among(0..5301).zip(&changed).step_by(97) {
        let expected = maker.sketches(&[id], &mut in_threads(1)).unwrap();
        assert_eq!(expected, found, "object {id}");
        let norm = found.iter().map(|bits| f64::from(coordinate(*bits)).powi(2)).sum::<f64>().sqrt();
        assert!(norm <= sketch.norm_max());
    }
    assert!(sketch.norm_max() < 1.5 && sketch.tiles().len() == 5301usize.div_ceil(TILE) * TILE_NUMBERS);

    let kept = [path.clone()];
    upkeep::compact(&store, &kept, Access::Map, &mut in_threads(2), &|| false).unwrap();
    let compacted = space(&store, 0.2);
    assert_eq!(names_and_sketches(&path, &compacted), changed);
    assert_eq!(Sketch::open(&path, &compacted).unwrap().len(), 5298);
    let left = fs::read_dir(folder.path()).unwrap().filter(|entry| {
        entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("test.sketch.arrow.")
    });
    assert_eq!(left.count(), 0, "parts of the old sketch are left");
}

#[test]
fn a_sketch_that_does_not_fit_is_refused_with_the_command_that_makes_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = testing::store(folder.path(), 60).path().to_owned();
    let path = folder.path().join("a.sketch.arrow");
    let fits = space(&store, 0.2);
    testing::write_sketch(&fits, &path).unwrap();
    let refused = |path: &Path, space: &Arc<dyn Space>, words: &str| {
        let error = Sketch::open(path, space).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("`boxwork sketch "), "{error}");
    };
    refused(&path, &space(&store, 0.5), "is a sketch for");
    refused(&store, &fits, "is no sketch");
    let index = folder.path().join("i.pivots.arrow");
    testing::write_index_of(&fits, &[1, 2], &index).unwrap();
    refused(&index, &fits, "is no sketch");
    let bytes = fs::read(&path).unwrap();
    let damaged = folder.path().join("b.sketch.arrow");
    for place in [2, 100, bytes.len() / 4, bytes.len() / 2, bytes.len() - 300, bytes.len() - 5] {
        let mut bytes = bytes.clone();
        bytes[place] ^= 4;
        fs::write(&damaged, bytes).unwrap();
        refused(&damaged, &fits, "");
    }
    for length in [0, 3, 1000, bytes.len() - 1] {
        fs::write(&damaged, &bytes[..length]).unwrap();
        refused(&damaged, &fits, "");
    }
    // The store grows without the sketch, which catches up.
    let mut change = StoreChange::begin(&store).unwrap();
    change.push("late", Columns::new(&[&[0.5], &[0.5]], &[1.0]).signature(0, 1), 1, 1).unwrap();
    change.write().unwrap().commit().unwrap();
    let grown = space(&store, 0.2);
    refused(&path, &grown, "covers 60 of the 61 objects");
    let cancelled = upkeep::bring_up(&store, &path, Access::Map, &mut in_threads_until(1, &|| true));
    assert!(cancelled.unwrap_err().is_cancelled());
    refused(&path, &grown, "covers 60");
    assert_eq!(upkeep::bring_up(&store, &path, Access::Map, &mut in_threads(1)).unwrap(), 1);
    assert_eq!(upkeep::bring_up(&store, &path, Access::Map, &mut in_threads(1)).unwrap(), 0);
    assert_eq!(Sketch::open(&path, &grown).unwrap().len(), 61);
    // Another store of that name.
    fs::remove_file(&store).unwrap();
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let other = testing::store(&other, 61).path().to_owned();
    refused(&path, &space(&other, 0.2), "is the sketch of another store");
    let minus = Measure::new(Similarity::Minus, Ground::L2, 1.0).unwrap();
    let minus: Arc<dyn Space> =
        Arc::new(SqfdSpace::new(Arc::new(SignatureStore::open(&other).unwrap()), minus));
    let error = testing::write_sketch(&minus, &path).unwrap_err().to_string();
    assert!(error.contains("gaussian similarity over l2"), "{error}");
    assert!(any_kind::open(&path, None).is_err());
}
