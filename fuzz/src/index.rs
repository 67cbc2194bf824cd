//! Sound indexes, and all that they say.

use std::path::Path;
use std::sync::Arc;

use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_stores::pivot_table::{PivotTable, PivotTableWriter, in_threads};
use boxwork_stores::signature_store::{SignatureStore, StoreError};
use boxwork_stores::sqfd_space::SqfdSpace;

/// The space of the Gaussian over a store.
pub fn space(store: &Path) -> Arc<SqfdSpace> {
    let store = SignatureStore::open(store).expect("the store just written");
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, 0.2).expect("a sound measure");
    Arc::new(SqfdSpace::new(Arc::new(store), measure))
}

/// Writes the index of a space.
pub fn write(space: &Arc<SqfdSpace>, pivots: &[u64], path: &Path) {
    let store = space.store();
    let row = |id: u64| -> Vec<f64> {
        let distances = store.read(|objects| {
            pivots.iter().map(|pivot| space.between(objects, *pivot, id)).collect::<Result<_, StoreError>>()
        });
        distances.expect("a sound store")
    };
    let between: Vec<f64> = pivots.iter().flat_map(|pivot| row(*pivot)).collect();
    let mut writer =
        PivotTableWriter::create(path, Arc::clone(space), pivots, &between).expect("a sound index");
    (0..store.len()).for_each(|id| writer.push(&row(id)).expect("a sound index"));
    writer.finish().expect("a folder that can be written to");
}

/// Brings an index up to its space.
pub fn append(space: &Arc<SqfdSpace>, path: &Path) {
    PivotTable::append(path, space, &mut in_threads(2)).expect("an index that is behind");
}

/// All numbers of a table, as bits.
pub fn content(table: &PivotTable) -> Vec<u32> {
    let blocks = (0..table.blocks()).map(|block| table.block(block));
    let numbers = blocks.flat_map(|block| block.distances.iter().chain(block.apexes));
    numbers.map(|number| number.to_bits()).collect()
}
