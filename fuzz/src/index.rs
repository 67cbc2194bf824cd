//! Sound indexes, and all that they say.

use std::path::Path;
use std::sync::Arc;

use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_stores::pivot_table::{PivotTable, in_threads};
use boxwork_stores::signature_store::SignatureStore;
use boxwork_stores::space::Space;
use boxwork_stores::sqfd_space::SqfdSpace;
use boxwork_stores::testing;

/// The space of the Gaussian over a store.
pub fn space(store: &Path) -> Arc<dyn Space> {
    let store = SignatureStore::open(store).expect("the store just written");
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, 0.2).expect("a sound measure");
    Arc::new(SqfdSpace::new(Arc::new(store), measure))
}

/// Writes the index of a space.
pub fn write(space: &Arc<dyn Space>, pivots: &[u64], path: &Path) {
    testing::write_index_of(space, pivots, path).expect("a sound index");
}

/// Brings an index up to its space.
pub fn append(space: &Arc<dyn Space>, path: &Path) {
    PivotTable::append(path, space, &mut in_threads(2)).expect("an index that is behind");
}

/// All numbers of a table, as bits.
pub fn content(table: &PivotTable) -> Vec<u32> {
    let blocks = (0..table.blocks()).map(|block| table.block(block));
    let numbers = blocks.flat_map(|block| block.distances.iter().chain(block.apexes));
    numbers.map(|number| number.to_bits()).collect()
}
