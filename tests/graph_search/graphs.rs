//! Graphs beside exact distances: what they find, what they never find, and files that are refused.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use boxwork_kernels::chance::Random;
use boxwork_kernels::interrupt::never;
use boxwork_kernels::vector::VectorMeasure;

use boxwork_stores::hnsw::{GraphNumbers, Hnsw, HnswBuilder, HnswOptions};
use boxwork_stores::lists::vectors;
use boxwork_stores::space::Space;
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::Store;
use boxwork_stores::subset::Subset;
use boxwork_stores::{any_kind, object_column};

const DIMENSIONS: usize = 20;
const THREADS: usize = 4;
const OPTIONS: HnswOptions = HnswOptions { connectivity: 12, expansion: 80, numbers: GraphNumbers::F32 };

/// Vectors around many centres; each tenth is a copy of the one before.
fn lines(rows: std::ops::Range<usize>) -> String {
    let mut text = String::new();
    for row in rows {
        let mut of = Random::mixed(if row % 10 == 9 { row - 1 } else { row } as u64);
        let mut centre = Random::mixed(1000 + of.below(60));
        let vector: Vec<f32> = (0..DIMENSIONS).map(|_| 2.0 * centre.normal_f32() + of.normal_f32()).collect();
        writeln!(text, "{{\"name\": \"c{}/v{row}\", \"object\": {vector:?}}}", row % 7).unwrap();
    }
    text
}

fn import(path: &Path, rows: std::ops::Range<usize>) -> Arc<dyn Store> {
    fs::write(path, lines(rows)).unwrap();
    object_column::open(path, None, "name", Some(any_kind::named("vectors").unwrap())).unwrap()
}

/// A store of so many vectors, as `v.arrow`.
fn store(folder: &Path, count: usize) {
    let rows = import(&folder.join("v.jsonl"), 0..count);
    any_kind::copy(&rows, &folder.join("v.arrow"), &never).unwrap();
}

fn space(folder: &Path, measure: VectorMeasure) -> Arc<dyn Space> {
    let store = any_kind::open(&folder.join("v.arrow"), None).unwrap();
    let options = DistanceOptions { distance: measure.name().to_owned(), ..Default::default() };
    spaces::open(&options, store).unwrap()
}

/// Adds all objects that a graph lacks, on some threads.
fn fill(builder: &HnswBuilder, space: &Arc<dyn Space>, threads: usize) {
    let ids: Vec<u64> = space.store().among(builder.first()..space.store().ids_count()).collect();
    let at = Path::new("g.hnsw.arrow");
    std::thread::scope(|scope| {
        for part in 0..threads {
            let ids: Vec<u64> = ids.iter().copied().skip(part).step_by(threads).collect();
            scope.spawn(move || ids.chunks(16).for_each(|ids| builder.add(at, ids, &never).unwrap()));
        }
    });
}

fn write(folder: &Path, space: &Arc<dyn Space>, options: HnswOptions, threads: usize) -> PathBuf {
    let path = folder.join("g.hnsw.arrow");
    let builder = HnswBuilder::new(&path, space, options, threads, &never).unwrap();
    fill(&builder, space, threads);
    builder.write(&path, &never).unwrap();
    path
}

/// The share of the `k` nearest by exact distances that a walk finds, over queries that are objects moved a little.
fn recall(graph: &Hnsw, expansion: usize, k: usize, subset: Option<&Subset>) -> f64 {
    let (space, store) = (graph.space(), graph.space().store());
    let measure = VectorMeasure::named(&space.measure()).unwrap();
    let all: Vec<u64> = store.among(0..store.ids_count()).collect();
    let rows = vectors(&**store, &all).unwrap();
    let (mut random, mut hits, mut count) = (Random::mixed(77), 0, 0);
    for nth in (0..all.len()).step_by(all.len() / 60 + 1) {
        let query: Vec<f32> =
            rows[nth * DIMENSIONS..][..DIMENSIONS].iter().map(|x| x + 0.3 * random.normal_f32()).collect();
        let mut exact: Vec<(f64, u64)> = all
            .iter()
            .zip(rows.chunks_exact(DIMENSIONS))
            .filter(|(id, _)| subset.is_none_or(|subset| subset.has(**id)))
            .map(|(id, row)| (measure.between(&query, row), *id))
            .collect();
        exact.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        // Copies are as near as each other.
        let limit = exact[k.min(exact.len()) - 1].0;
        let mut prepared = query.clone();
        graph.prepare(&mut prepared);
        let found = graph.nearest(&prepared, (expansion, 2 * k), subset).unwrap();
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len(), "each object once");
        assert!(found.iter().all(|id| store.has(*id) && subset.is_none_or(|subset| subset.has(*id))));
        let mut near: Vec<f64> = found
            .iter()
            .map(|id| {
                let nth = store.rank(*id) as usize;
                measure.between(&query, &rows[nth * DIMENSIONS..][..DIMENSIONS])
            })
            .filter(|distance| *distance <= limit)
            .collect();
        near.truncate(k);
        hits += near.len();
        count += k.min(exact.len());
    }
    hits as f64 / count as f64
}

const MEASURES: [VectorMeasure; 3] = [VectorMeasure::L2, VectorMeasure::InnerProduct, VectorMeasure::Cosine];

#[test]
fn walks_find_nearly_all_of_the_nearest_by_every_distance_and_type_of_number() {
    let folder = tempfile::tempdir().unwrap();
    store(folder.path(), 3000);
    for measure in MEASURES {
        let space = space(folder.path(), measure);
        for name in GraphNumbers::NAMES {
            let numbers = GraphNumbers::named(name).unwrap();
            for threads in [1, THREADS] {
                let path = write(folder.path(), &space, HnswOptions { numbers, ..OPTIONS }, threads);
                let graph = Hnsw::open(&path, &space, THREADS).unwrap();
                assert_eq!((graph.objects(), graph.options().numbers), (3000, numbers));
                let (few, many) = (recall(&graph, 20, 10, None), recall(&graph, 120, 10, None));
                assert!(many >= 0.95, "{measure:?} {name} {threads}: {many}");
                assert!(few <= many + 0.01, "{measure:?} {name} {threads}: {few} {many}");
            }
        }
    }
}

#[test]
fn one_thread_makes_the_same_file_again_and_several_threads_search_as_one() {
    let folder = tempfile::tempdir().unwrap();
    store(folder.path(), 700);
    let space = space(folder.path(), VectorMeasure::L2);
    let bytes = |threads| fs::read(write(folder.path(), &space, OPTIONS, threads)).unwrap();
    assert!(bytes(1) == bytes(1), "the same graph");
    let graph = Hnsw::open(&folder.path().join("g.hnsw.arrow"), &space, THREADS).unwrap();
    let queries: Vec<Vec<f32>> = (0..200).map(|id| vectors(&**space.store(), &[id * 3]).unwrap()).collect();
    let one: Vec<_> = queries.iter().map(|query| graph.nearest(query, (30, 9), None).unwrap()).collect();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for (query, one) in queries.iter().zip(&one) {
                    assert_eq!(graph.nearest(query, (30, 9), None).unwrap(), *one);
                }
            });
        }
    });
}

#[test]
fn subsets_and_removed_objects_are_respected_and_few_objects_all_come() {
    let folder = tempfile::tempdir().unwrap();
    store(folder.path(), 1500);
    let before = space(folder.path(), VectorMeasure::L2);
    let path = write(folder.path(), &before, OPTIONS, THREADS);
    let graph = Hnsw::open(&path, &before, THREADS).unwrap();
    let class = Subset::of_class(&**before.store(), "c3").unwrap();
    let found = recall(&graph, 100, 10, Some(&class));
    assert!(found >= 0.95, "one of seven: {found}");
    let few = Subset::of_ids(&**before.store(), &[3, 700, 701]).unwrap();
    let query = vectors(&**before.store(), &[5]).unwrap();
    assert_eq!(graph.nearest(&query, (1, 10), Some(&few)).unwrap(), [3, 700, 701]);
    let none = few.and(&Subset::of_ids(&**before.store(), &[9]).unwrap());
    assert!(graph.nearest(&query, (1, 10), Some(&none)).unwrap().is_empty());
    let all: Vec<u64> = (0..1500).collect();
    assert_eq!(graph.nearest(&query, (64, 5000), None).unwrap(), all, "more than there are");

    // Removed objects are never found, and the file serves on.
    let mut change = any_kind::change(&folder.path().join("v.arrow")).unwrap();
    (0..1500).filter(|id| id % 3 == 0).for_each(|id| assert!(change.remove(id).unwrap()));
    change.write().unwrap().commit().unwrap();
    let after = space(folder.path(), VectorMeasure::L2);
    let graph = Hnsw::open(&path, &after, THREADS).unwrap();
    let found = recall(&graph, 100, 10, None);
    assert!(found >= 0.95, "with removed objects: {found}");
    assert_eq!(graph.nearest(&query, (64, 5000), None).unwrap().len(), 1000);
}

#[test]
fn a_graph_takes_the_objects_that_its_store_has_gained() {
    let folder = tempfile::tempdir().unwrap();
    store(folder.path(), 600);
    for numbers in [GraphNumbers::F32, GraphNumbers::I8] {
        store(folder.path(), 600);
        let before = space(folder.path(), VectorMeasure::L2);
        let path = write(folder.path(), &before, HnswOptions { numbers, ..OPTIONS }, THREADS);
        let new = import(&folder.path().join("w.jsonl"), 600..900);
        let ids: Vec<u64> = (0..300).collect();
        let names: Vec<String> = ids.iter().map(|id| new.name(*id).unwrap()).collect();
        let columns: Vec<ArrayRef> = new.columns(&ids).unwrap();
        let mut change = any_kind::change(&folder.path().join("v.arrow")).unwrap();
        change.push_rows(&StringArray::from(names), &columns, false).unwrap();
        assert!(change.remove(17).unwrap());
        change.write().unwrap().commit().unwrap();
        let after = space(folder.path(), VectorMeasure::L2);
        let refused = Hnsw::open(&path, &after, THREADS).unwrap_err().to_string();
        assert!(refused.contains("g.hnsw.arrow` covers 600 of the 900 objects"), "{refused}");
        assert!(refused.contains("boxwork hnsw --append --store"), "{refused}");

        let builder = HnswBuilder::of_file(&path, &after, THREADS).unwrap();
        assert_eq!((builder.first(), builder.objects()), (600, 600));
        fill(&builder, &after, THREADS);
        builder.write(&path, &never).unwrap();
        let graph = Hnsw::open(&path, &after, THREADS).unwrap();
        assert_eq!(graph.objects(), 900, "the removed one stays a step of walks");
        let found = recall(&graph, 100, 10, None);
        assert!(found >= 0.95, "{numbers:?}: {found}");
    }
}

#[test]
fn damaged_files_are_refused_at_every_place_before_the_library_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    store(folder.path(), 300);
    let space = space(folder.path(), VectorMeasure::L2);
    let path = write(folder.path(), &space, OPTIONS, 1);
    let bytes = fs::read(&path).unwrap();
    let refused = |content: &[u8], place: usize| {
        fs::write(&path, content).unwrap();
        let error = Hnsw::open(&path, &space, 1).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("g.hnsw.arrow`"), "{place}: {error}");
        assert!(error.contains("boxwork hnsw --store"), "{place}: {error}");
        assert!(!error.contains("its graph"), "{place}: a checksum finds it: {error}");
    };
    for place in (0..bytes.len()).step_by(97) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        refused(&damaged, place);
    }
    for length in (0..bytes.len()).step_by(bytes.len() / 40) {
        refused(&bytes[..length], length);
    }
    // Nothing, another file, and the whole one again.
    refused(b"", 0);
    fs::write(&path, fs::read(folder.path().join("v.arrow")).unwrap()).unwrap();
    let other = Hnsw::open(&path, &space, 1).unwrap_err().to_string();
    assert!(other.contains("holds no graph") || other.contains("damaged"), "{other}");
    fs::write(&path, &bytes).unwrap();
    assert_eq!(Hnsw::open(&path, &space, 1).unwrap().objects(), 300);
}

#[test]
fn graphs_of_another_store_distance_or_shape_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    store(folder.path(), 100);
    let by_l2 = space(folder.path(), VectorMeasure::L2);
    let path = write(folder.path(), &by_l2, OPTIONS, 1);
    let refused = |space: &Arc<dyn Space>| Hnsw::open(&path, space, 1).unwrap_err().to_string();
    let said = refused(&space(folder.path(), VectorMeasure::Cosine));
    assert!(said.contains("has a graph for l2") && said.contains("--distance cosine"), "{said}");
    let by_l1 = spaces::open(&DistanceOptions::named("l1"), Arc::clone(by_l2.store())).unwrap();
    assert!(refused(&by_l1).contains("the distance here is l1"));
    store(folder.path(), 101);
    assert!(refused(&space(folder.path(), VectorMeasure::L2)).contains("another store"));
    let wrong = HnswOptions { connectivity: 1, ..OPTIONS };
    let said = HnswBuilder::new(&path, &by_l2, wrong, 1, &never).unwrap_err().to_string();
    assert!(said.contains("connectivity of 1"), "{said}");
    let unfinished = HnswBuilder::new(&path, &by_l2, OPTIONS, 1, &never).unwrap();
    unfinished.add(&path, &[0, 1], &never).unwrap();
    let said = unfinished.write(&path, &never).unwrap_err().to_string();
    assert!(said.contains("2 of 100 objects"), "{said}");
    let twice = unfinished.add(&path, &[1], &never).unwrap_err().to_string();
    assert!(twice.contains("cannot be made"), "{twice}");
}

#[test]
fn numbers_beyond_16_bits_are_refused_and_equal_numbers_become_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let line = |name: &str, x: f32| format!("{{\"name\": \"{name}\", \"object\": [{x:?}, {x:?}]}}\n");
    fs::write(folder.path().join("v.jsonl"), line("a", 7e4) + &line("b", 7e4)).unwrap();
    let rows = object_column::open(
        &folder.path().join("v.jsonl"),
        None,
        "name",
        Some(any_kind::named("vectors").unwrap()),
    );
    any_kind::copy(&rows.unwrap(), &folder.path().join("v.arrow"), &never).unwrap();
    let space = space(folder.path(), VectorMeasure::L2);
    let path = folder.path().join("g.hnsw.arrow");
    let halves = HnswOptions { numbers: GraphNumbers::F16, ..OPTIONS };
    let said = HnswBuilder::new(&path, &space, halves, 1, &never).unwrap_err().to_string();
    assert!(said.contains("70000") && said.contains("take f32 or i8"), "{said}");
    let path = write(folder.path(), &space, HnswOptions { numbers: GraphNumbers::I8, ..OPTIONS }, 1);
    let graph = Hnsw::open(&path, &space, 1).unwrap();
    assert_eq!(graph.nearest(&[7e4, 7e4], (1, 1), None).unwrap().len(), 1);
}
