//! Sound stores, and everything that a reader can do with a file.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::interrupt::never;
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sqfd::{Columns, Evaluator, SignatureRef};
use boxwork_stores::signature_store::{
    Objects, SignatureStore, StoreChange, StoreError, StoreInfo, StoreWriter,
};
use boxwork_stores::sqfd_space::SqfdSpace;

/// A store of this many objects of 1 to 3 centroids, in the folder of temporary files.
pub fn write(path: &Path, objects: usize) -> SignatureStore {
    let info = StoreInfo {
        parameters: Some("{\"seed\":1}".to_owned()),
        alpha: Some(1.28),
        source: Some("/pictures".into()),
    };
    let mut writer = StoreWriter::create(path, &["x", "y"], &info).expect("a folder that can be written to");
    (0..objects).for_each(|object| {
        with_object(object, |name, signature, width| writer.push(name, signature, width, 7));
    });
    writer.finish().expect("a folder that can be written to");
    SignatureStore::open(path).expect("the store just written")
}

/// Makes an object, whose numbers depend on its place.
fn with_object(object: usize, push: impl FnOnce(&str, SignatureRef<'_>, u32) -> Result<(), StoreError>) {
    let n = object % 3 + 1;
    let x: Vec<f32> = (0..n).map(|idx| object as f32 + idx as f32 / 8.0).collect();
    let y: Vec<f32> = x.iter().map(|x| -x).collect();
    let columns: [&[f32]; 2] = [&x, &y];
    let weights = vec![1.0 / n as f32; n];
    let signature = Columns::new(&columns, &weights).signature(0, n);
    push(&format!("object {object}"), signature, object as u32).expect("a sound object");
}

/// Adds objects to a store, and removes some.
pub fn grow(path: &Path, added: Range<usize>, removed: &[u64]) {
    let mut change = StoreChange::begin(path).expect("a sound store");
    for id in removed {
        assert!(change.remove(*id).expect("an object that is there"));
    }
    added.for_each(|object| {
        with_object(object, |name, signature, width| change.push(name, signature, width, 7));
    });
    change.write().and_then(|pending| pending.commit()).expect("a folder that can be written to");
}

/// The bytes of such a store.
pub fn bytes(objects: usize) -> Vec<u8> {
    let path = crate::folder().join(format!("sound-{objects}"));
    write(&path, objects);
    fs::read(&path).expect("the store just written")
}

/// One object, its numbers as bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    name: String,
    size: (u32, u32),
    coordinates: Vec<Vec<u32>>,
    weights: Vec<u32>,
}

/// All that a store says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    coordinates: Vec<String>,
    parameters: Option<String>,
    source: Option<String>,
    objects: Vec<Object>,
}

/// Reads everything in a file, in every way there is, ending at its first error.
pub fn read(path: &Path) -> Result<Content, StoreError> {
    let store = SignatureStore::open(path)?;
    assert_eq!(store.coordinates().len(), store.dimensions());
    assert!((0..store.batches()).all(|batch| !store.ids(batch).is_empty()) && store.len() > 0);
    // The names first: they are checked apart from the centroids.
    store.read(|objects| {
        for batch in 0..store.batches() {
            let names = objects.names(batch)?.count() as u64;
            assert_eq!(names, store.ids(batch).end - store.ids(batch).start);
        }
        Ok::<(), StoreError>(())
    })?;
    store.find("object 1")?;
    store.verify()?;
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let object = |objects: Objects<'_>, id| {
        let (signature, name) = (objects.signature(id)?, objects.name(id)?);
        assert!(!signature.is_empty());
        // A text that is not UTF-8 would be undefined behaviour from here on.
        assert!(std::str::from_utf8(name.as_bytes()).is_ok());
        Ok::<_, StoreError>(Object {
            name: name.to_owned(),
            size: objects.size(id)?,
            coordinates: (0..store.dimensions()).map(|axis| bits(signature.coordinate(axis))).collect(),
            weights: bits(signature.weights()),
        })
    };
    let objects = store.read(|objects| {
        store.among(0..store.len()).map(|id| object(objects, id)).collect::<Result<Vec<_>, StoreError>>()
    })?;
    assert!(objects.len() as u64 == store.objects() && store.objects() > 0);
    for object in &objects {
        assert!(store.find(&object.name)?.is_some());
    }
    assert!(store.read(|objects| objects.signature(store.len()).map(drop)).is_err());
    Ok(Content {
        coordinates: store.coordinates().to_vec(),
        parameters: store.parameters().map(str::to_owned),
        source: store.source().map(|path| path.display().to_string()),
        objects,
    })
}

/// Distances in a store, exact and fast ones: the vector code reads the columns straight from the map.
pub fn search(path: &Path) -> Result<(), StoreError> {
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, 0.2).expect("a sound measure");
    let space = SqfdSpace::new(Arc::new(SignatureStore::open(path)?), measure);
    let store = space.store();
    store.read(|objects| {
        let signature = objects.signature(0)?;
        let query = space.prepare(signature);
        for path in CodePath::available() {
            let mut evaluator = Evaluator::new(path);
            for batch in 0..store.batches() {
                let rows: Vec<u32> = (0..objects.batch(batch)?.rows() as u32).collect();
                let mut distances = vec![0.0; rows.len()];
                space.fast(objects, &mut evaluator, &query, (batch, &rows), &mut distances, &never)?;
            }
        }
        (0..store.len()).try_for_each(|id| space.exact(objects, signature, query.sigma_self(), id).map(drop))
    })
}
