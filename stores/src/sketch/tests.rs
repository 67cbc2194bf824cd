//! Sketches on disk: what they hold, how they follow their store, and which files are refused.

use std::fs;

use super::*;
use crate::any_kind;
use crate::any_kind::named;
use crate::object_store::Access;
use crate::pivot_table::PivotTable;
use crate::pivot_table::{in_threads, in_threads_until};
use crate::signature_store::{SignatureStore, StoreChange};
use crate::spaces;
use crate::sqfd_space::SqfdSpace;
use crate::testing::{self, FREQUENCIES};
use crate::upkeep;
use boxwork_kernels::interrupt::never;
use boxwork_kernels::lower_bound::Simplex;
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sketch::{apex_error, coordinate, reference};
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

fn measured(path: &Path, measure: &str) -> Arc<dyn Space> {
    spaces::open(&DistanceOptions::parse(measure).unwrap(), any_kind::open(path, None).unwrap()).unwrap()
}

fn norm(numbers: &[f64; COORDINATES]) -> f64 {
    numbers.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The numbers of a sketch, as distances.
fn numbers(sketch: &Sketch, id: u64) -> [f64; COORDINATES] {
    sketch.at(id).map(|bits| f64::from(coordinate(bits)) * sketch.unit())
}

/// Checks sketches by pivots: each is the apex in f64, within the error that is declared, and their distances are lower
/// bounds. Returns the mean ratio of these to the distances.
fn check_apexes(sketch: &Sketch, space: &Arc<dyn Space>) -> f64 {
    let (store, pivots) = (space.store(), sketch.maker().pivots());
    let distances = |from: &[u64], id: u64| {
        let pairs: Vec<[u64; 2]> = from.iter().map(|other| [*other, id]).collect();
        let mut distances = vec![0.0; pairs.len()];
        space.between(&pairs, &mut distances).unwrap();
        distances
    };
    let between: Vec<f64> = pivots.iter().flat_map(|pivot| distances(pivots, *pivot)).collect();
    let largest = between.iter().fold(0.0, |largest: f64, x| largest.max(*x));
    let simplex = Simplex::new(&between, 1e-12 * largest * largest).unwrap();
    let ids: Vec<u64> = store.among(0..store.ids_count()).collect();
    // The kept pivots of the two may differ where one of them barely spans a dimension.
    let error = |a: u64| apex_error(norm(&numbers(sketch, a)) / sketch.unit()) * sketch.unit() * 1.001;
    for id in ids.iter().copied().step_by(3) {
        let exact = reference::apex(&simplex.apex(&distances(pivots, id), 1e-9).unwrap().coordinates);
        let found = numbers(sketch, id);
        let away = norm(&std::array::from_fn(|place| found[place] - exact[place]));
        assert!(away <= error(id) + 1e-6 * largest, "object {id} is {away:e} away");
        assert!(found[COORDINATES - 1] >= 0.0);
    }
    let (mut ratios, mut pairs) = (0.0, 0.0);
    for (nth, a) in ids.iter().enumerate().step_by(5) {
        let others: Vec<u64> = (1..20).map(|step| ids[(nth * 7 + step * 31) % ids.len()]).collect();
        for (b, exact) in others.iter().zip(distances(&others, *a)) {
            let (a_numbers, b_numbers) = (numbers(sketch, *a), numbers(sketch, *b));
            let lower = norm(&std::array::from_fn(|place| a_numbers[place] - b_numbers[place]));
            assert!(
                lower <= exact + error(*a) + error(*b) + 1e-6 * largest,
                "{a} and {b}: {lower} of {exact}"
            );
            if exact > 0.01 * largest {
                (ratios, pairs) = (ratios + lower / exact, pairs + 1.0);
            }
        }
    }
    ratios / pairs
}

#[test]
fn sketches_by_pivots_follow_their_store_and_bound_distances_from_below() {
    let folder = tempfile::tempdir().unwrap();
    let store = testing::store(folder.path(), 700).path().to_owned();
    let path = folder.path().join("a.sketch.arrow");
    let space_of = |measure: &str| measured(&store, measure);
    let pivots = [3, 40, 177, 300, 512, 699];
    for measure in ["gaussian similarity over l2 at alpha 0.2", "minus similarity over l2 at alpha 1.0"] {
        let space = space_of(measure);
        assert_eq!(testing::write_sketch_of_pivots(&space, &pivots, &path).unwrap(), 700);
        let sketch = Sketch::open(&path, &space).unwrap();
        assert_eq!((sketch.maker().pivots(), sketch.len()), (&pivots[..], 700));
        let ratio = check_apexes(&sketch, &space);
        assert!((0.5..=1.0).contains(&ratio), "{measure}: {ratio}");
        // 5 coordinates over 6 pivots, and the altitude.
        assert!((0..700).all(|id| sketch.at(id)[6..].iter().all(|bits| *bits == 0)));
        assert!((0..700).any(|id| sketch.at(id)[5] != 0) && sketch.norm_max() > 0.1);
    }
    // Additions and removals.
    let minus = "minus similarity over l2 at alpha 1.0";
    let first = names_and_sketches(&path, &space_of(minus));
    add(&store, &path, 10_000..10_300);
    testing::without(&SignatureStore::open(&store).unwrap(), [0, 77, 800].into_iter());
    add(&store, &path, 10_300..10_301);
    let grown = space_of(minus);
    let changed = names_and_sketches(&path, &grown);
    let sketch = Sketch::open(&path, &grown).unwrap();
    assert_eq!((sketch.len(), changed.len()), (1001, 998));
    assert!(first.iter().skip(1).take(76).all(|old| changed.contains(old)), "old sketches changed");
    check_apexes(&sketch, &grown);
    // An object that is not in the store is sketched as an equal one that is.
    for id in [5, 177, 1000] {
        let object = grown.store().objects(&[id]).unwrap();
        assert_eq!(sketch.maker().of_object(&object, 0, &never).unwrap(), sketch.at(id));
    }
    assert!(
        sketch
            .maker()
            .of_object(&grown.store().objects(&[5]).unwrap(), 0, &|| true)
            .unwrap_err()
            .is_cancelled()
    );
    // A compaction copies rows, until a pivot is removed.
    let kept = [path.clone()];
    let compact =
        || upkeep::compact(&store, &kept, Access::Map, &mut in_threads(2), &|| false).unwrap().remade;
    assert!(compact().is_empty());
    let compacted = space_of(minus);
    assert_eq!(names_and_sketches(&path, &compacted), changed);
    let pivots = Sketch::open(&path, &compacted).unwrap().maker().pivots().to_vec();
    assert_eq!(pivots, [2, 39, 175, 298, 510, 697]);
    testing::without(&SignatureStore::open(&store).unwrap(), [175, 3].into_iter());
    add(&store, &path, 10_301..10_302);
    check_apexes(&Sketch::open(&path, &space_of(minus)).unwrap(), &space_of(minus));
    assert_eq!(compact(), kept);
    let compacted = space_of(minus);
    let sketch = Sketch::open(&path, &compacted).unwrap();
    assert_eq!((sketch.len(), sketch.maker().pivots()), (997, &[2, 38, 296, 508, 695, 174][..]));
    check_apexes(&sketch, &compacted);
    let left = fs::read_dir(folder.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("a.sketch.arrow."));
    assert_eq!(left.count(), 0, "parts of the old sketch are left");
}

#[test]
fn objects_of_other_kinds_have_sketches_by_pivots_at_any_scale() {
    let folder = tempfile::tempdir().unwrap();
    let stored = |kind: &str, line: &dyn Fn(u64) -> String| {
        let lines = (0..300).map(|id| format!("{{\"object\": {}}}\n", line(id)));
        let path = folder.path().join(format!("{kind}.jsonl"));
        fs::write(&path, lines.collect::<String>()).unwrap();
        crate::object_column::open(&path, None, "name", Some(named(kind).unwrap())).unwrap()
    };
    let path = folder.path().join("a.sketch.arrow");
    for scale in [1e-18, 1.0, 300.0, 1e15] {
        let vectors = stored("vectors", &|i| {
            let number = |j: u64| scale * ((i * 7919 + j * 104_729) * 2_654_435_761 % 1009) as f64 / 100.0;
            format!("[{:e}, {:e}, {:e}]", number(0), number(1), number(2))
        });
        let space = spaces::open(&DistanceOptions::named("l2"), vectors).unwrap();
        testing::write_sketch_of_pivots(&space, &[0, 9, 77, 130, 299], &path).unwrap();
        let sketch = Sketch::open(&path, &space).unwrap();
        // Four pivots span the space of three numbers, so that nothing but rounding is lost.
        let ratio = check_apexes(&sketch, &space);
        assert!((0.999..=1.001).contains(&ratio), "{scale:e}: {ratio}");
    }
    let sets = stored("sets", &|i| format!("[{}, {}, {}]", i % 7, 7 + i % 5, 12 + i % 3));
    let root = DistanceOptions { root: true, ..DistanceOptions::named("jaccard") };
    let space = spaces::open(&root, Arc::clone(&sets)).unwrap();
    testing::write_sketch_of_pivots(&space, &[0, 9, 77, 130], &path).unwrap();
    assert!(check_apexes(&Sketch::open(&path, &space).unwrap(), &space) > 0.3);
    // The triangle inequality alone makes an index, and no sketch.
    let space = spaces::open(&DistanceOptions::named("jaccard"), sets).unwrap();
    let error = testing::write_sketch_of_pivots(&space, &[0, 9], &path).unwrap_err().to_string();
    assert!(
        error.contains("jaccard is no Hilbert distance") && error.contains("boxwork index --root"),
        "{error}"
    );
    let error = Sketch::open(&path, &space).unwrap_err().to_string();
    assert!(error.contains("boxwork index --store") || error.contains("boxwork index --root"), "{error}");
    let texts = stored("texts", &|i| format!("\"{}\"", "ab".repeat(1 + i as usize % 9)));
    let space = spaces::open(&DistanceOptions::default(), texts).unwrap();
    let error = testing::write_sketch_of_pivots(&space, &[0, 1], &path).unwrap_err().to_string();
    assert!(
        error.contains("levenshtein is no Hilbert distance") && error.contains("leave the sketch out"),
        "{error}"
    );
}

#[test]
fn a_damaged_sketch_names_the_commands_for_the_kind_that_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let store = testing::store(folder.path(), 60).path().to_owned();
    // A space that has sketches of both kinds gets those that the file had.
    let both_kinds = space(&store, 0.2);
    for (is_of_pivots, name) in [(true, "p.sketch.arrow"), (false, "g.sketch.arrow")] {
        let path = folder.path().join(name);
        let written = match is_of_pivots {
            true => testing::write_sketch_of_pivots(&both_kinds, &[1, 7, 20], &path),
            false => testing::write_sketch(&both_kinds, &path),
        };
        assert_eq!(written.unwrap(), 60);
        let whole = fs::read(&path).unwrap();
        let cut = whole.len() - 1;
        let mut damaged = whole.clone();
        damaged[whole.len() / 2] ^= 1;
        for bytes in [damaged, whole[..cut].to_vec()] {
            fs::write(&path, bytes).unwrap();
            let error = Sketch::open(&path, &both_kinds).unwrap_err().to_string();
            assert!(error.contains("is damaged"), "{error}");
            assert_eq!(error.contains("--pivots INDEX"), is_of_pivots, "{error}");
            assert_eq!(error.contains("boxwork index --store"), is_of_pivots, "{error}");
        }
    }
}

#[test]
fn a_sketch_by_pivots_that_does_not_fit_is_refused_with_the_commands_that_make_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = testing::store(folder.path(), 60).path().to_owned();
    let path = folder.path().join("a.sketch.arrow");
    let fits = measured(&store, "heuristic similarity over l2 at alpha 0.5");
    let minus = measured(&store, "minus similarity over l2 at alpha 1.0");
    let kind = if fits.properties().hilbert { &fits } else { &minus };
    testing::write_sketch_of_pivots(kind, &[1, 7, 20], &path).unwrap();
    let refused = |path: &Path, space: &Arc<dyn Space>, words: &[&str]| {
        let error = Sketch::open(path, space).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    let both = ["boxwork index --store ", "boxwork sketch --store ", "--pivots INDEX --out ", "--force`"];
    refused(&path, &space(&store, 0.2), &both);
    refused(&path, &space(&store, 0.2), &["is a sketch for", "--alpha 0.2 --out INDEX"]);
    // One by features is no sketch of this space either.
    let features = folder.path().join("f.sketch.arrow");
    testing::write_sketch(&space(&store, 0.2), &features).unwrap();
    refused(&features, kind, &both);
    let bytes = fs::read(&path).unwrap();
    let damaged = folder.path().join("b.sketch.arrow");
    for place in (0..bytes.len()).step_by(41) {
        let mut bytes = bytes.clone();
        bytes[place] ^= 4;
        fs::write(&damaged, bytes).unwrap();
        refused(&damaged, kind, &["b.sketch.arrow"]);
    }
    for length in [0, 3, 1000, bytes.len() - 1] {
        fs::write(&damaged, &bytes[..length]).unwrap();
        refused(&damaged, kind, &["boxwork sketch "]);
    }
    // The layout of programs to come.
    let file = FORMAT.open(&path).unwrap();
    assert_eq!(file.said(layout::VERSION_KEY), "2");
    assert_eq!(FORMAT.open(&features).unwrap().said(layout::VERSION_KEY), "1");
    // The store grows without the sketch, which catches up; a compaction needs it in step.
    let mut change = StoreChange::begin(&store).unwrap();
    change.push("late", Columns::new(&[&[0.5], &[0.5]], &[1.0]).signature(0, 1), 1, 1).unwrap();
    change.write().unwrap().commit().unwrap();
    let measure = kind.measure();
    let grown = measured(&store, &measure);
    refused(&path, &grown, &["covers 60 of the 61 objects", "boxwork sketch --append"]);
    let cancelled = upkeep::bring_up(&store, &path, Access::Map, &mut in_threads_until(1, &|| true));
    assert!(cancelled.unwrap_err().is_cancelled());
    assert_eq!(upkeep::bring_up(&store, &path, Access::Map, &mut in_threads(1)).unwrap(), 1);
    check_apexes(&Sketch::open(&path, &grown).unwrap(), &grown);
    // The index of a store that has changed gives no sketch.
    let index = folder.path().join("i.pivots.arrow");
    testing::write_index_of(&grown, &[1, 2], &index).unwrap();
    testing::without(&SignatureStore::open(&store).unwrap(), [5].into_iter());
    let compacted = [path.clone()];
    upkeep::compact(&store, &compacted, Access::Map, &mut in_threads(1), &|| false).unwrap();
    let after = measured(&store, &measure);
    assert!(PivotTable::open(&index, Arc::clone(&after)).is_err());
    fs::remove_file(&store).unwrap();
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let other = testing::store(&other, 60).path().to_owned();
    refused(
        &path,
        &measured(&other, &measure),
        &["is the sketch of another store", both[0], both[1], both[2]],
    );
}
