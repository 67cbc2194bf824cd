//! The index of a store during its compaction.
//!
//! It is written as `NAME.next` before the compaction takes effect, and `settle` renames it to `NAME` afterwards. In
//! between, readers take the file that fits the store in effect, so the index fits at every moment.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array};
use boxwork_kernels::lower_bound::PACKED_OBJECTS;

use super::super::object_store::real_path;
use super::super::packed_file::{PackedWriter, next_path};
use super::chain::{SideBySide, measure};
use super::error::IndexError;
use super::writer::{PivotTableWriter, Purpose, head};
use super::{PivotTable, layout};
use crate::space::Space;

/// Candidates tried as replacement of a removed pivot.
const STAND_INS_TRIED: usize = 64;

impl PivotTable {
    /// Writes the index of the compacted store, in the space `after`. If pivots were removed, other objects replace
    /// them, and this computes all distances again; it returns whether it did.
    ///
    /// # Errors
    /// When the file cannot be written, a foreign file has its name, or the caller cancels it.
    pub(crate) fn write_compacted(
        &self,
        path: &Path,
        after: &Arc<dyn Space>,
        side_by_side: &mut SideBySide<'_>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<bool, IndexError> {
        let index = real_path(path);
        let next = next_path(&index);
        if next.symlink_metadata().is_ok() {
            return Err(IndexError::InTheWay { path: next, index });
        }
        let store = self.space.store();
        if self.pivots.iter().all(|pivot| store.has(*pivot)) {
            self.write_without_removed(&index, &**after, cancelled)?;
            return Ok(false);
        }
        let pivots = self.pivots_in(&**after, cancelled)?;
        let pairs: Vec<[u64; 2]> = pivots.iter().flat_map(|a| pivots.iter().map(move |b| [*a, *b])).collect();
        let mut between = vec![0.0; pairs.len()];
        after.between_until(&pairs, &mut between, cancelled)?;
        let purpose = Purpose::Replacement { of: self.fingerprint.clone() };
        let mut writer = PivotTableWriter::new(&index, Arc::clone(after), &pivots, &between, purpose)?;
        let ids: Vec<u64> = (0..after.store().ids_count()).collect();
        measure(after, &pivots, &ids, &mut writer, side_by_side)?;
        writer.finish()?;
        Ok(true)
    }

    /// Copies the rows of the remaining objects.
    fn write_without_removed(
        &self,
        index: &Path,
        after: &dyn Space,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(), IndexError> {
        let store = self.space.store();
        let pivots: Vec<u64> = self.pivots.iter().map(|pivot| store.rank(*pivot)).collect();
        let mut head = head(after, &pivots, self.unit, &self.between, &self.simplex);
        head.insert(layout::REPLACES_KEY, self.fingerprint.clone());
        let apex_columns = self.apex_columns;
        let schema = layout::schema(pivots.len(), apex_columns, head);
        let mut file = PackedWriter::create(index, &next_path(index), &schema)?;
        let kept: Vec<u64> = store.among(0..store.ids_count()).collect();
        for ids in kept.chunks(PACKED_OBJECTS) {
            if cancelled() {
                return Err(IndexError::Cancelled);
            }
            let column = |table: &[f32], of_block: usize, column: usize| -> ArrayRef {
                let place = |id: u64| {
                    let (block, row) = (id as usize / PACKED_OBJECTS, id as usize % PACKED_OBJECTS);
                    (block * of_block + column) * PACKED_OBJECTS + row
                };
                Arc::new(Float32Array::from_iter_values(ids.iter().map(|id| table[place(*id)])))
            };
            let distances = (0..pivots.len()).map(|idx| column(&self.distances, pivots.len(), idx));
            let apexes = (0..apex_columns).map(|idx| column(&self.apexes, apex_columns, idx));
            file.write(distances.chain(apexes).collect())?;
        }
        Ok(file.finish([self.extremes.note()])?)
    }

    /// The pivots as objects of the compacted store. An object behind a removed pivot replaces it, unless it has
    /// distance 0 from another pivot and would bound nothing more. So there may be fewer pivots.
    fn pivots_in(&self, after: &dyn Space, cancelled: &dyn Fn() -> bool) -> Result<Vec<u64>, IndexError> {
        let (before, objects_count) = (self.space.store(), after.store().ids_count());
        let (kept, removed): (Vec<u64>, Vec<u64>) =
            self.pivots.iter().copied().partition(|pivot| before.has(*pivot));
        let mut pivots: Vec<u64> = kept.iter().map(|pivot| before.rank(*pivot)).collect();
        for removed in removed {
            let first = before.rank(removed);
            let candidates = (0..objects_count).map(|nth| (first + nth) % objects_count);
            for id in candidates.filter(|id| !pivots.contains(id)).take(STAND_INS_TRIED).collect::<Vec<_>>() {
                if cancelled() {
                    return Err(IndexError::Cancelled);
                }
                let pairs: Vec<[u64; 2]> = pivots.iter().map(|pivot| [*pivot, id]).collect();
                let mut distances = vec![0.0; pairs.len()];
                after.between_until(&pairs, &mut distances, cancelled)?;
                if distances.iter().all(|distance| *distance > 0.0) {
                    pivots.push(id);
                    break;
                }
            }
        }
        Ok(pivots)
    }
}
