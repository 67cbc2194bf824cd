//! The sketch of a store during its compaction: rows are copied, and nothing is sketched again unless a pivot was removed.

use std::path::Path;
use std::sync::Arc;

use super::{OBJECTS_AT_ONCE, Sketch, SketchError, SketchWriter};
use crate::pivot_table::SideBySide;
use crate::space::Space;

impl Sketch {
    /// Writes the sketch of the compacted store, in the space `after`. If objects are sketched by pivots and some of these were
    /// removed, others replace them, and this sketches all objects again; it returns whether it did.
    ///
    /// # Errors
    /// When the file cannot be written, a foreign file has its name, or the caller cancels it.
    pub(crate) fn write_compacted(
        &self,
        path: &Path,
        after: &Arc<dyn Space>,
        side_by_side: &mut SideBySide<'_>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<bool, SketchError> {
        let (maker, is_other) = self.maker.over(after, path, cancelled)?;
        let maker = Arc::new(maker);
        let mut writer = SketchWriter::replacing(self, path, Arc::clone(&maker))?;
        if is_other {
            let ids: Vec<u64> = (0..after.store().ids_count()).collect();
            for ids in ids.chunks(OBJECTS_AT_ONCE) {
                writer.push(&maker.sketches(ids, side_by_side)?)?;
            }
            return writer.finish().map(|_| true);
        }
        let store = self.maker.space().store();
        let kept: Vec<u64> = store.among(0..store.ids_count()).collect();
        for ids in kept.chunks(OBJECTS_AT_ONCE) {
            if cancelled() {
                return Err(SketchError::Cancelled);
            }
            writer.push(&ids.iter().flat_map(|id| self.at(*id)).collect::<Vec<u16>>())?;
        }
        writer.finish().map(|_| false)
    }
}
