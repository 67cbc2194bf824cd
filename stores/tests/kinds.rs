//! Store files of every kind: written, read back, changed, compacted, and refused if a byte has changed.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, StringArray};
use boxwork_stores::any_kind::{self, AnyRows};
use boxwork_stores::object_column;
use boxwork_stores::object_store::{Access, StoreInfo};
use boxwork_stores::pivot_table::{PivotTable, PivotTableWriter, in_threads};
use boxwork_stores::space::Scratch;
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::Store;
use boxwork_stores::store_error::StoreError;
use boxwork_stores::upkeep;

/// A kind, and its `nth` object in JSON.
type Case = (&'static str, fn(u64) -> String);

const CASES: [Case; 4] = [
    ("codes", |nth| format!("\"{:x}f{nth:016x}\"", nth * 7919 % 977)),
    ("vectors", |nth| format!("[{}, {}.5, -{nth}]", nth * 7919 % 101, nth * 31 % 17)),
    ("texts", |nth| format!("\"{}é{}\"", "ab".repeat(nth as usize % 5), nth * 7919 % 1000)),
    ("sets", |nth| format!("[{}, {}, {}]", nth % 3, 10 + nth % 7, 100 + nth)),
];

/// The names and columns of objects in a range.
fn objects(case: Case, range: std::ops::Range<u64>) -> (StringArray, Vec<ArrayRef>) {
    let (kind, json) = case;
    let value = |nth: u64| serde_json::from_str(&json(nth)).expect("JSON");
    let kind = any_kind::named(kind).expect("a listed kind");
    let mut rows: Box<dyn AnyRows> = kind.rows_of_json(&value(0)).expect("its form").expect("a kind");
    range.for_each(|nth| rows.push_json(&format!("object {nth}"), &value(nth)).expect("a sound object"));
    rows.take()
}

fn written(case: Case, folder: &Path, count: u64) -> std::path::PathBuf {
    let path = folder.join(format!("s.{}.arrow", case.0));
    let (names, columns) = objects(case, 0..count);
    let kind = any_kind::named(case.0).expect("a listed kind");
    let info = StoreInfo { source: Some("/somewhere".into()), ..StoreInfo::default() };
    let mut writer = kind.create(&path, &columns, &info).expect("its columns").expect("a folder");
    writer.push_rows(&names, &columns).expect("sound objects");
    assert_eq!(writer.finish().expect("a disk"), count);
    path
}

fn opened(path: &Path) -> Arc<dyn Store> {
    any_kind::open(path, None).expect("a sound store")
}

/// All names and objects of a store, as text.
fn content(store: &Arc<dyn Store>) -> Result<Vec<String>, StoreError> {
    let ids: Vec<u64> = store.among(0..store.ids_count()).collect();
    store.bring_in(&ids)?;
    let objects = store.objects(&ids)?;
    let name_of = |id: &u64| {
        let name = store.name(*id)?;
        assert_eq!(store.find(&name)?, Some(*id));
        Ok(name)
    };
    let names: Vec<String> = ids.iter().map(name_of).collect::<Result<_, StoreError>>()?;
    store.confirm()?;
    Ok(names
        .into_iter()
        .enumerate()
        .map(|(row, name)| format!("{name}: {:?}", objects.slice(row, 1)))
        .collect())
}

#[test]
fn stores_of_every_kind_are_read_back_as_the_column_that_they_came_from() {
    let folder = tempfile::tempdir().expect("a folder");
    for case in CASES {
        let path = written(case, folder.path(), 5000);
        let lines = folder.path().join(format!("{}.jsonl", case.0));
        let line = |nth| format!("{{\"name\": \"object {nth}\", \"object\": {}}}\n", case.1(nth));
        fs::write(&lines, (0..5000).map(line).collect::<String>()).expect("a disk");
        let kind = any_kind::named(case.0).expect("a listed kind");
        let column = object_column::open(&lines, None, "name", Some(kind)).expect("sound lines");
        let store = opened(&path);
        assert_eq!((store.kind(), store.ids_count(), store.batches()), (case.0, 5000, 2));
        assert_eq!(store.object_type(), column.object_type());
        assert_eq!(store.source(), Some(Path::new("/somewhere")));
        assert!(!store.is_in(&[0]) && column.is_in(&[0]));
        assert_eq!(content(&store).expect("a sound store"), content(&column).expect("a column"));
        // Equal distances, whether the store or the column holds the objects.
        let ids: Vec<u64> = (0..5000).collect();
        let distances = [&store, &column].map(|store| {
            let space = spaces::open(&DistanceOptions::default(), Arc::clone(store)).expect("a distance");
            let query = space.prepare(&store.objects(&[77]).expect("an object"), 0).expect("a query");
            let mut fast = vec![0.0; ids.len()];
            query.fast(&mut Scratch::default(), &ids, &mut fast).expect("distances");
            let mut exact = vec![0.0; ids.len()];
            query.exact(&ids, &mut exact).expect("distances");
            assert_eq!(fast, exact);
            exact
        });
        assert_eq!(distances[0], distances[1]);
        assert!(distances[0][77] == 0.0 && distances[0].iter().any(|distance| *distance > 0.0));
    }
}

#[test]
fn stores_of_every_kind_change_and_their_indexes_with_them() {
    let folder = tempfile::tempdir().expect("a folder");
    for case in CASES {
        let path = written(case, folder.path(), 60);
        let index = folder.path().join(format!("{}.pivots.arrow", case.0));
        write_index(&path, &index);
        let before = content(&opened(&path)).expect("a sound store");
        // Added: 60 to 69, and 3 again, which replaces the present one. Removed: 10.
        let mut change = any_kind::change(&path).expect("a store");
        let (names, columns) = objects(case, 3..4);
        change.push_rows(&names, &columns, true).expect("a sound object");
        let (names, columns) = objects(case, 60..70);
        change.push_rows(&names, &columns, false).expect("sound objects");
        let again = change.push_rows(&names, &columns, false).unwrap_err().to_string();
        assert!(again.contains("two objects") && again.contains("`object 60`"), "{again}");
        assert!(change.remove(10).expect("an object"));
        assert_eq!(change.added(), 11);
        let pending = change.write().expect("a disk");
        let indexes = [index.clone()];
        assert_eq!(upkeep::commit(pending, &indexes, &mut in_threads(1)).expect("an index"), (11, 2));
        let after = opened(&path);
        assert_eq!(
            (after.ids_count(), after.objects_count(), after.has(10), after.has(3)),
            (71, 69, false, false)
        );
        let mut wanted = before;
        let moved = wanted[3].clone();
        wanted.remove(10);
        wanted.remove(3);
        wanted.push(moved);
        assert_eq!(content(&after).expect("a sound store")[..59], wanted);
        let open_index = |store: &Arc<dyn Store>| {
            let measure = PivotTable::measure_of(&index).expect("an index");
            PivotTable::open(&index, spaces::open(&measure, Arc::clone(store)).expect("its distance"))
        };
        open_index(&after).expect("an index in step");
        // Compacted: the objects numbered anew, in one file.
        let changed = content(&after).expect("a sound store");
        let copy = folder.path().join("copy.arrow");
        assert_eq!(any_kind::copy(&after, &copy, &|| false).expect("a disk"), 69);
        let compacted = upkeep::compact(&path, &indexes, Access::Read, &mut in_threads(1), &|| false);
        let compacted = compacted.expect("a disk");
        assert_eq!((compacted.objects, compacted.forgotten), (69, 2));
        let compacted = opened(&path);
        assert_eq!(content(&compacted).expect("a sound store"), changed);
        assert_eq!(fs::read(&copy).expect("a file"), fs::read(&path).expect("a file"));
        open_index(&compacted).expect("an index in step");
    }
}

fn write_index(store: &Path, index: &Path) {
    let space = spaces::open(&DistanceOptions::default(), opened(store)).expect("a distance");
    let pivots = [1, 20, 41];
    let to_pivots = |id: u64| {
        let mut distances = [0.0; 3];
        space.between(&pivots.map(|pivot| [pivot, id]), &mut distances).expect("distances");
        distances
    };
    let between = pivots.map(to_pivots).concat();
    let mut writer = PivotTableWriter::create(index, Arc::clone(&space), &pivots, &between).expect("a disk");
    (0..60).for_each(|id| writer.push(&to_pivots(id)).expect("a disk"));
    writer.finish().expect("a disk");
}

#[test]
fn every_flipped_byte_of_a_store_of_any_kind_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    for case in CASES {
        let path = written(case, folder.path(), 4);
        let sound = fs::read(&path).expect("a file");
        for place in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[place] ^= 1 << (place % 8);
            fs::write(&path, bytes).expect("a disk");
            let read = any_kind::open(&path, None).and_then(|store| content(&store));
            assert!(read.is_err(), "byte {place} of {} went unnoticed", case.0);
        }
    }
}

#[test]
fn objects_that_do_not_go_together_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let [_, vectors, texts, sets] = CASES;
    let path = written(vectors, folder.path(), 3);
    let mut change = any_kind::change(&path).expect("a store");
    for (other, words) in [
        (objects(sets, 0..1), "it holds vectors, and the objects that came are List(non-null UInt32)"),
        (objects(texts, 0..1), "it holds vectors, and the objects that came are Utf8"),
        (
            objects(("vectors", |_| "[1, 2]".to_owned()), 0..1),
            "holds vectors of 3 numbers, where 2 numbers is wanted",
        ),
    ] {
        let error = change.push_rows(&other.0, &other.1, false).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let error = boxwork_stores::signature_store::SignatureStore::open(&path).unwrap_err().to_string();
    assert!(error.contains("holds vectors, where signatures are wanted"), "{error}");
    let error = any_kind::named("nothing").unwrap_err();
    assert!(error.contains("signatures, vectors, texts, sets, codes"), "{error}");
}
