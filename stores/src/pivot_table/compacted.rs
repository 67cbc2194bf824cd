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
use super::{PivotTable, Pivots, layout};
use crate::space::Space;

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
        if let Some(pivots) = self.pivots.ranked(&*self.space) {
            self.write_without_removed(&index, &pivots, &**after, cancelled)?;
            return Ok(false);
        }
        let (pivots, between) = self.pivots.stand_ins(&*self.space, &**after, cancelled)?;
        let purpose = Purpose::Replacement { of: self.fingerprint.clone() };
        let mut writer = PivotTableWriter::new(&index, Arc::clone(after), &pivots, &between, purpose)?;
        let ids: Vec<u64> = (0..after.store().ids_count()).collect();
        measure(after, &pivots, &ids, side_by_side, &mut |distances| writer.push(distances))?;
        writer.finish()?;
        Ok(true)
    }

    /// Copies the rows of the remaining objects.
    fn write_without_removed(
        &self,
        index: &Path,
        pivots: &Pivots,
        after: &dyn Space,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(), IndexError> {
        let store = self.space.store();
        let mut head = head(after, pivots);
        head.insert(layout::REPLACES_KEY, self.fingerprint.clone());
        let apex_columns = self.apex_columns;
        let schema = layout::schema(pivots.count(), apex_columns, head);
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
            let distances = (0..pivots.count()).map(|idx| column(&self.distances, pivots.count(), idx));
            let apexes = (0..apex_columns).map(|idx| column(&self.apexes, apex_columns, idx));
            file.write(distances.chain(apexes).collect())?;
        }
        Ok(file.finish([self.extremes.note()])?)
    }
}
