//! Writes stores of synthetic signatures.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_stores::signature::PCT_COORDINATES;
use boxwork_stores::signature_store::{StoreInfo, StoreWriter};
use boxwork_stores::space::{DeviceForm, SharedSpace};
use boxwork_stores::sqfd_space::SqfdSpace;

use super::signatures::{Random, Signatures};

/// Centroids of a synthetic signature: 75 on average.
const CENTROIDS: std::ops::RangeInclusive<usize> = 50..=100;

/// Writes a store of this many signatures and returns its size in bytes.
pub fn write_store(path: &Path, objects: usize) -> u64 {
    let info = StoreInfo::default();
    let mut writer =
        StoreWriter::create(path, &PCT_COORDINATES, &info).unwrap_or_else(|error| panic!("{error}"));
    let (mut random, mut signature) = (Random::new(2), Signatures::default());
    for object in 0..objects {
        signature.clear();
        let centroids = random.count(CENTROIDS);
        signature.push_random(&mut random, centroids);
        signature
            .with(|columns| writer.push(&name(object), columns.signature(0), 0, 0))
            .unwrap_or_else(|error| panic!("{error}"));
    }
    writer.finish().unwrap_or_else(|error| panic!("{error}"));
    std::fs::metadata(path).expect("it was just written").len()
}

/// The parameters of a search of a store, without queries.
pub fn search_values(store: &Path, out: &Path, k: usize) -> BTreeMap<String, Value> {
    BTreeMap::from([
        ("store".to_owned(), path_value(store)),
        ("out".to_owned(), path_value(out)),
        ("queries".to_owned(), Value::List(Vec::new())),
        ("k".to_owned(), Value::Integer(k as i64)),
        ("format".to_owned(), Value::Text("json".to_owned())),
    ])
}

/// A path as a value.
pub fn path_value(path: &Path) -> Value {
    Value::Text(path.to_str().expect("a path in UTF-8").to_owned())
}

/// The name of an object.
pub fn name(object: usize) -> String {
    format!("class{:03}/{object:08}.jpg", object % 1000)
}

/// The SQFD space of a prepared pipeline.
pub fn sqfd_space(prepared: &Prepared) -> Arc<SqfdSpace> {
    let space = Arc::clone(prepared.resource("space").expect("the pipeline has a space"));
    let space: Arc<SharedSpace> = space.downcast().expect("a space is shared");
    let Some(DeviceForm::Sqfd(space)) = Arc::clone(&space.0).device_form() else {
        panic!("the pipeline's space is one of signatures");
    };
    space
}
