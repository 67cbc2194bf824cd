//! The permutations of a store during its compaction: lists are copied, and none is made again unless a pivot was removed.

use std::path::Path;
use std::sync::Arc;

use boxwork_kernels::interrupt::never;

use super::{PermutationError, PermutationMaker, PermutationWriter, Permutations, write_lists};
use crate::pivot_table::SideBySide;
use crate::space::Space;

/// The seed by which pivots are chosen in place of removed ones.
const SEED: u64 = 1;
/// Objects whose lists are copied between two looks at `cancelled`.
const OBJECTS_AT_ONCE: usize = 4096;

impl Permutations {
    /// Writes the permutations of the compacted store, in the space `after`. If pivots were removed, others are chosen, and this makes
    /// all lists again; it returns whether it did. There are no more pivots than objects.
    ///
    /// # Errors
    /// When the file cannot be written, a foreign file has its name, or the caller cancels it.
    pub(crate) fn write_compacted(
        &self,
        path: &Path,
        after: &Arc<dyn Space>,
        side_by_side: &mut SideBySide<'_>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<bool, PermutationError> {
        let (store, length) = (self.maker.space().store(), self.maker.length());
        let pivots = self.maker.pivots();
        if pivots.iter().any(|pivot| !store.has(*pivot)) {
            let objects = after.store().objects_count();
            let count = pivots.len().min(usize::try_from(objects).unwrap_or(usize::MAX));
            let maker = PermutationMaker::choose(after, count, length.min(count), SEED, &never)?;
            let writer = PermutationWriter::replacing(self, path, &maker)?;
            let ids: Vec<u64> = (0..after.store().ids_count()).collect();
            write_lists(&maker, &ids, writer, side_by_side)?;
            return Ok(true);
        }
        let ranks = pivots.iter().map(|pivot| store.rank(*pivot)).collect();
        let maker = PermutationMaker::of(after, ranks, length, &never)?;
        let mut writer = PermutationWriter::replacing(self, path, &maker)?;
        let kept: Vec<u64> = store.among(0..store.ids_count()).collect();
        for ids in kept.chunks(OBJECTS_AT_ONCE) {
            if cancelled() {
                return Err(PermutationError::Cancelled);
            }
            ids.iter().try_for_each(|id| writer.push(&self.list(*id)))?;
        }
        writer.finish().map(|_| false)
    }
}
