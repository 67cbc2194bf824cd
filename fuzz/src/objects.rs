//! Stores of every kind: sound ones, and everything that a reader can do with any.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use boxwork_kernels::interrupt::never;
use boxwork_stores::any_kind;
use boxwork_stores::object_store::StoreInfo;
use boxwork_stores::space::{Scratch, Space, SpaceError};
use boxwork_stores::spaces::{self, Constants, DISTANCES, Distance, DistanceOptions};
use boxwork_stores::store::Store;
use boxwork_stores::store_error::StoreError;
use serde_json::Value;

/// Kinds that are written in JSON, with three objects each. [`crate::store`] writes signatures.
pub const KINDS: [(&str, [&str; 3]); 4] = [
    ("vectors", ["[1, 2.5]", "[-3e7, 0.125]", "[0, -0.0]"]),
    ("texts", ["\"naïve\"", "\"a\"", "\"two\\nlines\""]),
    ("sets", ["[3, 1, 3]", "[]", "[4294967295]"]),
    ("codes", ["\"0f3a\"", "\"ffffffffffffffff\"", "\"0\""]),
];

/// Writes a store of the three objects of a kind.
pub fn write(path: &Path, (kind, objects): (&str, [&str; 3])) {
    let kind = any_kind::named(kind).expect("a kind");
    let objects = objects.map(|object| serde_json::from_str::<Value>(object).expect("JSON"));
    let mut rows = kind.rows_of_json(&objects[0]).expect("an object of this kind").expect("a sound object");
    for (number, object) in objects.iter().enumerate() {
        rows.push_json(&format!("object {number}"), object).expect("a sound object");
    }
    let (names, columns) = rows.take();
    let info = StoreInfo { source: Some("/pictures".into()), ..StoreInfo::default() };
    let writer = kind.create(path, &columns, &info).expect("columns of this kind");
    let mut writer = writer.expect("a folder that can be written to");
    writer.push_rows(&names, &columns).expect("sound objects");
    writer.finish().expect("a folder that can be written to");
}

/// All that a store says. Numbers are compared by their bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    kind: &'static str,
    source: Option<String>,
    /// The names of the objects that there are.
    pub names: Vec<String>,
    /// Their columns.
    pub columns: Vec<ArrayRef>,
}

/// Reads everything in a file, ending at its first error.
pub fn read(path: &Path) -> Result<Content, StoreError> {
    content(&any_kind::open(path, None)?)
}

/// Reads everything in a store, ending at its first error.
pub fn content(store: &Arc<dyn Store>) -> Result<Content, StoreError> {
    let ids: Vec<u64> = store.among(0..store.ids_count()).collect();
    assert!(!ids.is_empty() && ids.len() as u64 == store.objects_count());
    for (nth, id) in ids.iter().enumerate() {
        assert!(store.nth(nth as u64) == *id && store.rank(*id) == nth as u64 && store.has(*id));
    }
    // The names first: they are checked apart from the objects.
    for batch in 0..store.batches() {
        let mut expected = store.batch_ids(batch);
        store.each_name(batch, &mut |id, name| {
            assert_eq!(Some(id), expected.next());
            // A text that is not UTF-8 would be undefined behaviour from here on.
            assert!(std::str::from_utf8(name.as_bytes()).is_ok());
        })?;
        assert_eq!(expected.next(), None);
    }
    let names = ids.iter().map(|id| store.name(*id)).collect::<Result<Vec<_>, _>>()?;
    for name in &names {
        let found = store.find(name)?.expect("an object of this name");
        assert_eq!(store.name(found)?, *name);
    }
    store.bring_in(&ids)?;
    assert!(store.is_in(&ids));
    let columns = store.columns(&ids)?;
    for column in &columns {
        assert_eq!(column.len(), ids.len());
        column.to_data().validate_full().expect("a sound column");
    }
    assert_eq!(*columns[0].data_type(), store.object_type());
    assert!(store.objects(&[store.ids_count()]).is_err());
    store.confirm()?;
    let source = store.source().map(|path| path.display().to_string());
    Ok(Content { kind: store.kind(), source, names, columns })
}

/// Searches a store by every distance of its kind: fast distances are as near to the exact ones as they promise.
pub fn search(store: &Arc<dyn Store>) -> Result<(), SpaceError> {
    for distance in DISTANCES.iter().filter(|distance| distance.of() == store.kind()) {
        match search_by(*distance, store) {
            // The numbers of signatures are checked when they are written: a distance may refuse those of a damaged file.
            Err(SpaceError::Object(_) | SpaceError::Query(_)) if store.kind() == "signatures" => {}
            result => result?,
        }
    }
    Ok(())
}

fn search_by(distance: &dyn Distance, store: &Arc<dyn Store>) -> Result<(), SpaceError> {
    let ids: Vec<u64> = store.among(0..store.ids_count()).collect();
    let (mut fast, mut exact) = (vec![0.0; ids.len()], vec![0.0; ids.len()]);
    let p = (distance.constants() == Constants::Exponent).then_some(3.0);
    let options = DistanceOptions { p, ..DistanceOptions::named(distance.name()) };
    let space: Arc<dyn Space> = spaces::open(&options, Arc::clone(store))?;
    let query = Arc::clone(&space).prepare(&store.objects(&ids[..1])?, 0)?;
    query.fast(&mut Scratch::default(), &ids, &mut fast)?;
    query.see(&ids, &never)?;
    query.exact(&ids, &mut exact)?;
    let ends = [ids[0], ids[ids.len() - 1]];
    let mut between = [0.0; 2];
    space.between(&[ends, [ends[1], ends[0]]], &mut between)?;
    assert_eq!(between[0].to_bits(), between[1].to_bits(), "{}", space.measure());
    if store.kind() != "signatures" {
        assert_eq!(exact[0], 0.0, "{}", space.measure());
        for (fast, exact) in fast.iter().zip(&exact) {
            assert!(*fast <= query.widened(*exact), "{}: {fast} for {exact}", space.measure());
        }
    }
    Ok(())
}
