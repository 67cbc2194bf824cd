//! The parts of lists, as their files say them: which panels each list has.

use boxwork_kernels::panels::PANEL;

use super::super::packed_file::{MappedBatches, PackedError};
use std::ops::Range;

/// Panels of a list that lie side by side in one batch; all but the last of a file are full.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) panels: Range<usize>,
    pub(super) rows: usize,
}

/// Parts of lists that are being read.
pub(super) struct Filling {
    pub(super) parts: Vec<Vec<Part>>,
    /// The first panel of the file under way.
    pub(super) first: usize,
    /// Vectors so far.
    pub(super) rows: u64,
}

impl Filling {
    /// No parts yet, of so many lists.
    pub(super) fn new(lists: usize) -> Self {
        Self { parts: vec![Vec::new(); lists], first: 0, rows: 0 }
    }

    /// Takes the lists and the counts of all panels of a file, whose columns have these widths, and leaves all else where it is.
    /// Returns the number of its vectors and the checksum of what was read.
    pub(super) fn take(
        &mut self,
        batches: &MappedBatches,
        widths: &[usize],
    ) -> Result<(u64, u32), PackedError> {
        let (before, mut checksum) = (self.rows, crc32fast::Hasher::new());
        for idx in 0..batches.len() {
            let [lists, counts] = batches.first_columns(idx, widths)?;
            checksum.update(&lists);
            checksum.update(&counts);
            self.take_panels((idx * batches.rows_each(), batches.rows(idx)), [&lists, &counts])
                .ok_or_else(|| batches.damaged(idx, "they are not panels of lists"))?;
        }
        batches.confirm()?;
        self.first += batches.len().saturating_sub(1) * batches.rows_each()
            + batches.len().checked_sub(1).map_or(0, |last| batches.rows(last));
        Ok((self.rows - before, checksum.finalize()))
    }

    /// Takes the lists and the counts of a batch's panels, of which the first is this one of the file; `None` if they are not
    /// panels of lists in order.
    fn take_panels(&mut self, (first, rows): (usize, usize), [lists, counts]: [&[u8]; 2]) -> Option<()> {
        let word = |bytes: &[u8], row: usize| -> Option<usize> {
            Some(u32::from_le_bytes(*bytes[row * 4..].first_chunk()?) as usize)
        };
        for row in 0..rows {
            let (list, count) = (word(lists, row)?, word(counts, row)?);
            let panel = self.first + first + row;
            if list >= self.parts.len() || !(1..=PANEL).contains(&count) {
                return None;
            }
            // Every panel of a list in a file but its last is full, and lists have theirs side by side.
            let parts = &mut self.parts[list];
            match parts.last() {
                Some(part) if part.panels.start >= self.first => {
                    if part.panels.end != panel || !part.rows.is_multiple_of(PANEL) {
                        return None;
                    }
                    if part.panels.start < self.first + first {
                        parts.push(Part { panels: panel..panel, rows: 0 });
                    }
                }
                _ => parts.push(Part { panels: panel..panel, rows: 0 }),
            }
            let part = parts.last_mut()?;
            part.panels.end = panel + 1;
            part.rows += count;
            self.rows += count as u64;
        }
        Some(())
    }
}
