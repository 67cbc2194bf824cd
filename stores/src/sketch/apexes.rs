//! Sketches by distances to pivots: the apexes of an index, in half precision.
//!
//! The pivots, their distances and their simplex are part of the sketch, so it needs its index no more. The coordinates are
//! those of the index's rows: an object that was added later, and one that is not in the store, gets them from its own
//! distances to the pivots.

use std::path::Path;
use std::sync::Arc;

use arrow_array::ArrayRef;
use boxwork_kernels::interrupt::Interrupt;
use boxwork_kernels::sketch::{COORDINATES, apex_unit, of_apex};

use super::super::packed_file::PackedFile;
use super::SketchError;
use crate::pivot_table::{PivotTable, Pivots, SideBySide, measure};
use crate::space::{Extent, Space};
use crate::spaces::allow_apexes;

/// Pivots by which objects are sketched.
#[derive(Clone, Debug)]
pub(super) struct Apexes {
    pivots: Pivots,
    /// The size of the largest pivot.
    extent: Extent,
}

impl Apexes {
    pub(super) fn new(space: &dyn Space, pivots: Pivots) -> Result<Self, SketchError> {
        allow_apexes(&space.properties()).map_err(SketchError::NoApexes)?;
        let mut extent = Extent::default();
        for pivot in &pivots.ids {
            extent = extent.max(space.extent(*pivot)?);
        }
        Ok(Self { pivots, extent })
    }

    /// The pivots of a file that covers so many ids.
    pub(super) fn of_file(
        space: &dyn Space,
        file: &PackedFile,
        covered: u64,
        path: &Path,
    ) -> Result<Self, SketchError> {
        let pivots = Pivots::of_file(file, covered);
        Self::new(space, pivots.map_err(|error| SketchError::of(error, space, path, true))?)
    }

    /// The pivots over the compacted store, and whether others had to replace removed ones.
    pub(super) fn over(
        &self,
        before: &dyn Space,
        after: &dyn Space,
        path: &Path,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(Self, bool), SketchError> {
        if let Some(pivots) = self.pivots.ranked(before) {
            return Ok((Self { pivots, extent: self.extent }, false));
        }
        let (ids, between) = self.pivots.stand_ins(before, after, cancelled)?;
        let (pivots, extremes) = Pivots::new(after, &ids, &between, path)?;
        Ok((Self { pivots, extent: extremes.extent }, true))
    }

    /// The pivots, as objects of the store.
    pub(super) fn ids(&self) -> &[u64] {
        &self.pivots.ids
    }

    /// The entries of a head that state the pivots.
    pub(super) fn head(&self) -> Vec<(&'static str, String)> {
        self.pivots.head()
    }

    /// The unit of the sketches: a distance is that of two sketches times this.
    pub(super) fn unit(&self) -> f64 {
        let unit = self.pivots.unit * apex_unit(self.pivots.distance_max());
        // Both are powers of two, whose product may be too small for one.
        unit.max(f64::MIN_POSITIVE)
    }

    /// Writes the sketches of objects by their rows in the index that the pivots are of.
    pub(super) fn write_rows(&self, table: &PivotTable, ids: &[u64], out: &mut [u16]) {
        assert_eq!(*table.spanned(), self.pivots, "the index of these pivots");
        let unit = self.pivots.unit / self.unit();
        let mut apex = Vec::with_capacity(self.pivots.simplex.dimensions());
        for (id, out) in ids.iter().zip(out.as_chunks_mut::<COORDINATES>().0) {
            apex.clear();
            apex.extend(table.apex(*id));
            *out = of_apex(&apex, unit);
        }
    }

    /// The sketch of an object by its f64 distances to the pivots, whose squares have at most this error.
    fn of_distances(&self, distances: &[f64], noise_squared: f64) -> Result<[u16; COORDINATES], SketchError> {
        if let Some(distance) = self.pivots.too_far(distances) {
            return Err(SketchError::Object(format!(
                "it is {distance:e} from a pivot of the sketch, and the pivots are so near each other that half precision \
                 cannot hold both"
            )));
        }
        let apex = self.pivots.apex(distances, noise_squared);
        let apex = apex.map_err(|error| SketchError::Object(error.to_string()))?;
        Ok(of_apex(&apex, self.pivots.unit / self.unit()))
    }

    /// The sketches of objects, whose distances to the pivots are computed side by side.
    pub(super) fn sketches(
        &self,
        space: &Arc<dyn Space>,
        ids: &[u64],
        side_by_side: &mut SideBySide<'_>,
    ) -> Result<Vec<u16>, SketchError> {
        let mut sketches = Vec::with_capacity(ids.len() * COORDINATES);
        measure(space, &self.pivots.ids, ids, side_by_side, &mut |distances| {
            let id = ids[sketches.len() / COORDINATES];
            let extent = self.extent.max(space.extent(id)?);
            let largest = distances.iter().fold(0.0, |largest: f64, distance| largest.max(*distance));
            let sketch = self.of_distances(distances, space.noise_squared(extent, largest));
            sketches.extend(sketch.map_err(|error| match error {
                SketchError::Object(reason) => SketchError::Object(format!("object {id}: {reason}")),
                error => error,
            })?);
            Ok::<_, SketchError>(())
        })?;
        Ok(sketches)
    }

    /// The sketch of an object in a row of an Arrow array; blocks unless the pivots are in memory.
    pub(super) fn of_object(
        &self,
        space: &Arc<dyn Space>,
        object: &ArrayRef,
        row: usize,
        interrupt: Interrupt<'_>,
    ) -> Result<[u16; COORDINATES], SketchError> {
        let query = Arc::clone(space).prepare_until(object, row, interrupt)?;
        let mut distances = vec![0.0; self.pivots.count()];
        query.exact_until(&self.pivots.ids, &mut distances, interrupt)?;
        let largest = distances.iter().fold(0.0, |largest: f64, distance| largest.max(*distance));
        self.of_distances(&distances, query.noise_squared(self.extent, largest))
    }
}
