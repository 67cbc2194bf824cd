//! Small stores and envelopes for the operators' tests.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{ArrayRef, Float64Array, StringArray, UInt32Array, UInt64Array};
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_runtime::envelope::Envelope;

use crate::pivot_table::{IndexError, PivotTable, PivotTableWriter, in_threads};
use crate::signature::{SignatureBuilder, SignatureColumns};
use crate::signature_store::{SignatureStore, StoreChange, StoreInfo, StoreWriter};
use crate::sketch::{SketchError, SketchMaker, SketchSample, SketchWriter};
use crate::space::{SharedSpace, Space};
use crate::sqfd_space::SqfdSpace;
use crate::store::SharedStore;

/// Whether limits are small, so that tests reach them. A function sets it, as other programs may contain this module.
static HAS_SMALL_LIMITS: AtomicBool = AtomicBool::new(false);

/// Makes the limits of this process small: bytes of a line, bytes and rows of a chunk on a device.
pub fn use_small_limits() {
    HAS_SMALL_LIMITS.store(true, Ordering::Relaxed);
}

/// Whether [`use_small_limits`] was called.
pub(crate) fn has_small_limits() -> bool {
    HAS_SMALL_LIMITS.load(Ordering::Relaxed)
}

/// The coordinates of the test stores' centroids.
pub const COORDINATES: [&str; 2] = ["x", "y"];

/// Centroids (two columns) and weights that depend on the seed alone; one to a few of them.
pub fn centroids(seed: u64) -> ([Vec<f32>; 2], Vec<f32>) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32
    };
    let n = 1 + (next() * 4.0) as usize;
    let x: Vec<f32> = (0..n).map(|_| 4.0 * next()).collect();
    let y: Vec<f32> = (0..n).map(|_| 4.0 * next()).collect();
    let weights = (0..n).map(|_| 0.1 + next()).collect();
    ([x, y], weights)
}

/// A store with an object for each name, whose signature comes from the seed beside it.
pub fn store_of(folder: &Path, objects: &[(&str, u64)], info: &StoreInfo) -> Arc<SignatureStore> {
    use_small_limits();
    let path = folder.join("test.signatures.arrow");
    let mut writer = StoreWriter::create(&path, &COORDINATES, info).unwrap();
    let array = signatures(objects.iter().map(|(_, seed)| *seed));
    let columns = SignatureColumns::new(&array).unwrap();
    for (row, (name, _)) in objects.iter().enumerate() {
        writer.push(name, columns.signature(row), 640, 480).unwrap();
    }
    writer.finish().unwrap();
    Arc::new(SignatureStore::open(&path).unwrap())
}

/// A store of objects named `CLASS/NUMBER` in three classes.
pub fn store(folder: &Path, objects: usize) -> Arc<SignatureStore> {
    let names: Vec<String> =
        (0..objects).map(|idx| format!("{}/{idx:03}.png", ["cats", "dogs", "owls"][idx % 3])).collect();
    let objects: Vec<(&str, u64)> =
        names.iter().enumerate().map(|(idx, name)| (name.as_str(), idx as u64)).collect();
    store_of(folder, &objects, &StoreInfo::default())
}

/// The store after some of its objects were removed.
pub fn without(store: &SignatureStore, removed: impl Iterator<Item = u64>) -> Arc<SignatureStore> {
    let mut change = StoreChange::begin(store.path()).unwrap();
    removed.for_each(|id| assert!(change.remove(id).unwrap()));
    change.write().unwrap().commit().unwrap();
    Arc::new(SignatureStore::open(store.path()).unwrap())
}

fn signatures(seeds: impl IntoIterator<Item = u64>) -> arrow_array::ListArray {
    let mut builder = SignatureBuilder::new(&COORDINATES).unwrap();
    for seed in seeds {
        let ([x, y], weights) = centroids(seed);
        builder.push(&[&x, &y], &weights).unwrap();
    }
    builder.finish()
}

/// Queries numbered from 0: their names, and the seeds of their signatures.
pub fn queries(queries: &[(&str, u64)]) -> Envelope {
    let columns: [(&str, ArrayRef); 3] = [
        ("query", Arc::new(UInt32Array::from_iter_values(0..queries.len() as u32))),
        ("name", Arc::new(StringArray::from_iter_values(queries.iter().map(|(name, _)| name)))),
        ("object", Arc::new(signatures(queries.iter().map(|(_, seed)| *seed)))),
    ];
    Envelope::from_columns(columns).unwrap()
}

/// Rows of (query, id, lower bound).
pub fn candidates(rows: &[(u32, u64)]) -> Envelope {
    let columns: [(&str, ArrayRef); 3] = [
        ("query", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0)))),
        ("id", Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.1)))),
        ("lower", Arc::new(Float64Array::from(vec![0.0; rows.len()]))),
    ];
    Envelope::from_columns(columns).unwrap()
}

/// Rows of (query, id, distance).
pub fn distances(rows: &[(u32, u64, f64)]) -> Envelope {
    let columns: [(&str, ArrayRef); 3] = [
        ("query", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0)))),
        ("id", Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.1)))),
        ("distance", Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.2)))),
    ];
    Envelope::from_columns(columns).unwrap()
}

/// The rows of envelopes of distances.
pub fn distance_rows(envelopes: &[Envelope]) -> Vec<(u32, u64, f64)> {
    let rows = |envelope: &Envelope| -> Vec<(u32, u64, f64)> {
        let (queries, ids, distances) = (
            envelope.u32s("query").unwrap(),
            envelope.u64s("id").unwrap(),
            envelope.f64s("distance").unwrap(),
        );
        (0..envelope.rows()).map(|row| (queries[row], ids[row], distances[row])).collect()
    };
    envelopes.iter().flat_map(rows).collect()
}

/// A store as the resource that boxes name.
pub fn shared_store(store: &Arc<SignatureStore>) -> Arc<SharedStore> {
    Arc::new(SharedStore(Arc::<SignatureStore>::clone(store)))
}

/// A space as the resource that boxes name.
pub fn shared_space(space: &Arc<SqfdSpace>) -> Arc<SharedSpace> {
    Arc::new(SharedSpace(any_space(space)))
}

/// A space as a `Space`.
pub fn any_space(space: &Arc<SqfdSpace>) -> Arc<dyn Space> {
    Arc::<SqfdSpace>::clone(space)
}

/// The space of the Gaussian at alpha 0.2.
pub fn space(store: Arc<SignatureStore>) -> Arc<SqfdSpace> {
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, 0.2).unwrap();
    Arc::new(SqfdSpace::new(store, measure))
}

/// Writes the index of a space with these objects as pivots, without boxes.
pub fn write_index(space: &Arc<SqfdSpace>, pivots: &[u64], path: &Path) -> Result<(), IndexError> {
    let space: Arc<dyn Space> = Arc::<SqfdSpace>::clone(space);
    write_index_of(&space, pivots, path)
}

/// As [`write_index`], for any space.
pub fn write_index_of(space: &Arc<dyn Space>, pivots: &[u64], path: &Path) -> Result<(), IndexError> {
    let to_pivots = |id: u64| {
        let pairs: Vec<[u64; 2]> = pivots.iter().map(|pivot| [*pivot, id]).collect();
        let mut distances = vec![0.0; pairs.len()];
        space.between(&pairs, &mut distances).map(|()| distances)
    };
    let between: Vec<Vec<f64>> = pivots.iter().map(|pivot| to_pivots(*pivot)).collect::<Result<_, _>>()?;
    let mut writer = PivotTableWriter::create(path, Arc::clone(space), pivots, &between.concat())?;
    for id in space.store().among(0..space.store().ids_count()) {
        writer.push(&to_pivots(id)?)?;
    }
    writer.finish().map(drop)
}

/// Frequencies of [`write_sketch`].
pub const FREQUENCIES: usize = 256;

/// Writes the sketch of a space, without boxes, and returns the number of its objects.
pub fn write_sketch(space: &Arc<dyn Space>, path: &Path) -> Result<u64, SketchError> {
    let sample = SketchSample::new(space, 1, FREQUENCIES)?;
    let mut features = vec![0.0; sample.ids().len() * sample.width()];
    sample.features(0, &mut features)?;
    let basis = sample.basis(&features, &mut in_threads(2))?.expect("it was not cancelled");
    let numbers: Vec<f32> = basis.numbers().collect();
    let maker = Arc::new(SketchMaker::of_parts(space, 1, FREQUENCIES, &numbers)?);
    let mut writer = SketchWriter::create(path, Arc::clone(&maker))?;
    let store = space.store();
    for ids in store.among(0..store.ids_count()).collect::<Vec<_>>().chunks(7) {
        writer.push(&maker.sketches(ids, &mut in_threads(1))?)?;
    }
    writer.finish()
}

/// Writes the sketch of a space by an index of these pivots, without boxes, and returns the number of its objects. The index
/// is removed.
pub fn write_sketch_of_pivots(
    space: &Arc<dyn Space>,
    pivots: &[u64],
    path: &Path,
) -> Result<u64, SketchError> {
    let index = path.with_extension("pivots.arrow");
    write_index_of(space, pivots, &index)?;
    let table = PivotTable::open(&index, Arc::clone(space))?;
    std::fs::remove_file(&index).expect("an index that was just read");
    let maker = Arc::new(SketchMaker::of_table(&table)?);
    let mut writer = SketchWriter::create(path, Arc::clone(&maker))?;
    let ids: Vec<u64> = space.store().among(0..space.store().ids_count()).collect();
    let mut sketches = vec![0; ids.len() * boxwork_kernels::sketch::COORDINATES];
    maker.write_rows(&table, &ids, &mut sketches);
    writer.push(&sketches)?;
    writer.finish()
}

/// Writes the index of a space, and reads it.
pub fn pivot_table(space: &Arc<SqfdSpace>, pivots: &[u64], folder: &Path) -> Arc<PivotTable> {
    let path = folder.join("test.pivots.arrow");
    write_index(space, pivots, &path).unwrap();
    Arc::new(PivotTable::open(&path, Arc::<SqfdSpace>::clone(space)).unwrap())
}
