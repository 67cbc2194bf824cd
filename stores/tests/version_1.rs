//! Files written with version 1 of the layouts, before stores of other kinds came: they open, and their content is
//! written again as the same bytes.
//!
//! `version_1/plain` is a store of 40 objects and its index of four pivots; `version_1/changed` is that store after ten
//! objects were added, with the index, and four removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxwork_stores::pivot_table::{PivotTable, PivotTableWriter, in_threads};
use boxwork_stores::signature_store::{SignatureStore, StoreChange, StoreError};
use boxwork_stores::space::Space;
use boxwork_stores::spaces;
use boxwork_stores::store::Store;
use boxwork_stores::upkeep;

/// A folder with the files whose names have these beginnings.
fn copied(beginnings: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/version_1")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if beginnings.iter().any(|beginning| name.starts_with(beginning)) {
            fs::copy(entry.path(), folder.path().join(name)).unwrap();
        }
    }
    folder
}

/// A store, and the space of its index.
fn opened(store: &Path, index: &Path) -> (Arc<SignatureStore>, Arc<dyn Space>) {
    let store = Arc::new(SignatureStore::open(store).unwrap());
    store.verify().unwrap();
    let options = PivotTable::measure_of(index).unwrap();
    assert_eq!(options.text(), "gaussian similarity over l2 at alpha 0.2");
    let shared: Arc<dyn Store> = Arc::<SignatureStore>::clone(&store);
    (store, spaces::open(&options, shared).unwrap())
}

fn files(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    (folder.join(format!("{name}.signatures.arrow")), folder.join(format!("{name}.pivots.arrow")))
}

#[test]
fn an_index_is_written_as_the_same_bytes() {
    let folder = copied(&["plain"]);
    let (store, index) = files(folder.path(), "plain");
    let (_, space) = opened(&store, &index);
    let table = PivotTable::open(&index, Arc::clone(&space)).unwrap();
    assert_eq!((table.len(), table.pivots().len(), table.unit()), (40, 4, 1.0));
    let again = folder.path().join("again.pivots.arrow");
    let mut writer =
        PivotTableWriter::create(&again, Arc::clone(&space), table.pivots(), table.between()).unwrap();
    let pivots = space.store().objects(table.pivots()).unwrap();
    let queries: Vec<_> = (0..4).map(|row| Arc::clone(&space).prepare(&pivots, row).unwrap()).collect();
    for id in 0..40 {
        let mut distances = [0.0; 4];
        for (query, distance) in queries.iter().zip(distances.chunks_mut(1)) {
            query.exact(&[id], distance).unwrap();
        }
        writer.push(&distances).unwrap();
    }
    writer.finish().unwrap();
    assert!(fs::read(&again).unwrap() == fs::read(&index).unwrap(), "the indexes differ");
}

#[test]
fn a_change_is_written_as_the_same_bytes() {
    let folder = copied(&["plain", "changed"]);
    let ((store, index), (changed, changed_index)) =
        (files(folder.path(), "plain"), files(folder.path(), "changed"));
    let (after, space) = opened(&changed, &changed_index);
    assert_eq!((after.len(), after.objects()), (50, 46));
    assert_eq!(PivotTable::open(&changed_index, space).unwrap().len(), 50);

    let mut change = StoreChange::begin(&store).unwrap();
    let added = after.read::<_, StoreError>(|objects| {
        (40..50).try_for_each(|id| {
            let (width, height) = objects.size(id)?;
            change.push(objects.name(id)?, objects.signature(id)?, width, height)
        })
    });
    added.unwrap();
    upkeep::commit(change.write().unwrap(), std::slice::from_ref(&index), &mut in_threads(2)).unwrap();
    let mut change = StoreChange::begin(&store).unwrap();
    (0..50).filter(|id| !after.has(*id)).for_each(|id| assert!(change.remove(id).unwrap()));
    upkeep::commit(change.write().unwrap(), std::slice::from_ref(&index), &mut in_threads(2)).unwrap();

    let mut compared = 0;
    for entry in fs::read_dir(folder.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(ending) = name.strip_prefix("changed.").filter(|ending| ending.contains(".part-")) {
            let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
            assert!(read(&name) == read(&format!("plain.{ending}")), "{ending} differs");
            compared += 1;
        }
    }
    assert_eq!(compared, 4);
}
