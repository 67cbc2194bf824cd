//! The sketch of a store during its compaction: rows are copied, and nothing is sketched again.

use std::path::Path;
use std::sync::Arc;

use super::{OBJECTS_AT_ONCE, Sketch, SketchError, SketchWriter};
use crate::space::Space;

impl Sketch {
    /// Writes the sketch of the compacted store, in the space `after`.
    ///
    /// # Errors
    /// When the file cannot be written, a foreign file has its name, or the caller cancels it.
    pub(crate) fn write_compacted(
        &self,
        path: &Path,
        after: &Arc<dyn Space>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(), SketchError> {
        let maker = Arc::new(self.maker.over(after)?);
        let mut writer = SketchWriter::replacing(self, path, maker)?;
        let store = self.maker.space().store();
        let kept: Vec<u64> = store.among(0..store.ids_count()).collect();
        for ids in kept.chunks(OBJECTS_AT_ONCE) {
            if cancelled() {
                return Err(SketchError::Cancelled);
            }
            writer.push(&ids.iter().flat_map(|id| self.at(*id)).collect::<Vec<u16>>())?;
        }
        writer.finish().map(drop)
    }
}
