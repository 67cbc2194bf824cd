//! The parts of an index file that only an index has.

use boxwork_kernels::lower_bound::PACKED_OBJECTS;

use super::super::packed_file::{PackedBatch, PackedError, PackedFile};
use super::{Extremes, PivotTable, layout};
use crate::space::Extent;

impl PackedFile {
    /// Whether the columns fit this number of pivots and coordinates.
    pub(super) fn has_columns(&self, pivots: usize, apex_columns: usize) -> bool {
        *self.fields() == *layout::schema(pivots, apex_columns, Default::default()).fields()
    }

    /// The extremes of the objects so far.
    pub(super) fn extremes(&self) -> Result<Extremes, PackedError> {
        let extremes = self.numbers(self.noted(layout::EXTREMES_KEY))?;
        let [distance_max, spread_max, sigma, len] = extremes[..] else {
            return Err(self.unclear());
        };
        Ok(Extremes { distance_max, spread_max, extent: Extent { sigma, len: len as usize } })
    }

    /// The unit of the distances.
    pub(super) fn unit(&self) -> Result<f64, PackedError> {
        match self.said(layout::UNIT_KEY) {
            "" => Ok(1.0),
            text => {
                let unit = text.parse().ok().filter(|unit: &f64| unit.is_finite() && *unit > 0.0);
                unit.ok_or_else(|| self.unclear())
            }
        }
    }

    /// Copies all rows into a table, from row `first` on; the table has room for them.
    pub(super) fn fill(self, table: &mut PivotTable, first: u64) -> Result<(), PackedError> {
        self.each_batch(PACKED_OBJECTS, &mut |batch| table.fill(first as usize + batch.first, batch))
    }

    pub(super) fn unclear(&self) -> PackedError {
        self.damaged("its metadata", "the pivots do not fit together")
    }
}

impl PivotTable {
    /// Copies the columns of a batch; `None` if it has too few or too many numbers.
    fn fill(&mut self, first: usize, batch: PackedBatch<'_>) -> Option<()> {
        let (pivots, apex_columns) = (self.pivots.count(), self.apex_columns);
        for (idx, bytes) in batch.columns(pivots + apex_columns, size_of::<f32>())?.into_iter().enumerate() {
            // The offset of a block's column in the table.
            let (table, of_block, column) = match idx.checked_sub(pivots) {
                None => (&mut self.distances, pivots, idx),
                Some(coordinate) => (&mut self.apexes, apex_columns, coordinate),
            };
            for (id, word) in (first..).zip(bytes.as_chunks::<4>().0) {
                let number = f32::from_le_bytes(*word);
                if !number.is_finite() || (idx < pivots && number < 0.0) {
                    return None;
                }
                let (block, row) = (id / PACKED_OBJECTS, id % PACKED_OBJECTS);
                table[(block * of_block + column) * PACKED_OBJECTS + row] = number;
            }
        }
        Some(())
    }
}
