//! Small stores of objects, each made from a number.

use std::path::Path;

use boxwork_kernels::chance::Random;
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sqfd::Columns;
use boxwork_stores::signature_store::{StoreError, StoreInfo, StoreWriter};

pub const COORDINATES: [&str; 2] = ["x", "y"];

/// An object: its name, and the seed that alone determines its signature.
pub type Object = (String, u64);

pub fn push(
    object: &Object,
    f: impl FnOnce(&str, boxwork_kernels::sqfd::SignatureRef<'_>) -> Result<(), StoreError>,
) {
    let mut random = Random::new(object.1 ^ 0xb0c5);
    let count = 1 + random.idx(4);
    let columns = [0; 2].map(|_| (0..count).map(|_| 3.0 * random.unit_f32()).collect::<Vec<f32>>());
    let weights: Vec<f32> = (0..count).map(|_| 0.1 + random.unit_f32()).collect();
    let columns = columns.each_ref().map(Vec::as_slice);
    f(&object.0, Columns::new(&columns, &weights).signature(0, count)).expect("a sound object");
}

pub fn write_store(path: &Path, objects: &[Object]) {
    let mut writer =
        StoreWriter::create(path, &COORDINATES, &StoreInfo::default()).expect("the store can be written");
    for object in objects {
        push(object, |name, signature| writer.push(name, signature, 0, 0));
    }
    writer.finish().expect("the store can be written");
}

pub fn gaussian() -> Measure {
    Measure::new(Similarity::Gaussian, Ground::L2, 0.2).expect("a sound measure")
}
