//! The panels of lists as they come from their files.

use std::ops::Range;

use boxwork_kernels::memory::{MemoryRefused, filled};
use boxwork_kernels::panels::PANEL;
use boxwork_kernels::product::group_bytes;

use super::super::packed_file::{PackedBatch, PackedBatches, PackedError};
use super::{Coding, Quantizers, layout};
use crate::store::Store;

/// Panels of a list that lie side by side; all but the last are full.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) panels: Range<usize>,
    pub(super) rows: usize,
}

/// Lists that are being read.
pub(super) struct Filling {
    /// Bytes that a panel of the file under way holds.
    held_bytes: usize,
    pub(super) parts: Vec<Vec<Part>>,
    pub(super) ids: Vec<u64>,
    /// Bytes of the codes of a panel.
    code_bytes: usize,
    pub(super) bytes: Vec<u8>,
    /// The squares and the scales of directions.
    pub(super) factors: [Vec<f32>; 2],
    /// The first panel of the file under way.
    pub(super) first: usize,
    /// The ids that it may have.
    ids_of_file: Range<u64>,
}

impl Filling {
    /// Room for so many panels of the lists of some quantizers; `what` names them in an error.
    ///
    /// # Errors
    /// When the system has no memory for them.
    pub(super) fn new(
        quantizers: &Quantizers,
        panels: usize,
        what: impl Fn() -> String + Copy,
    ) -> Result<Self, MemoryRefused> {
        let (coding, advice) = (quantizers.coding(), "free memory");
        let mut filling = Self {
            held_bytes: 0,
            parts: vec![Vec::new(); quantizers.lists()],
            ids: filled(panels * PANEL, 0, what, advice)?,
            code_bytes: coding.bits().map_or(0, |bits| group_bytes(quantizers.parts(), bits)),
            bytes: Vec::new(),
            factors: [Vec::new(), Vec::new()],
            first: 0,
            ids_of_file: 0..0,
        };
        filling.bytes = filled(panels * filling.code_bytes, 0, what, advice)?;
        if coding == Coding::Rabitq {
            let factors = || filled(panels * PANEL, 0.0, what, advice);
            filling.factors = [factors()?, factors()?];
        }
        Ok(filling)
    }

    /// Begins the next file of the chain.
    pub(super) fn begin(&mut self, ids: Range<u64>, held_bytes: usize) {
        (self.ids_of_file, self.held_bytes) = (ids, held_bytes);
    }

    /// Takes the panels of a batch of codes; `None` if they are not panels of lists in order, with objects of the store.
    pub(super) fn take(&mut self, batch: PackedBatch<'_>) -> Option<()> {
        let columns = batch.columns_of(&layout::widths(self.held_bytes))?;
        let [lists, counts, ids, held] = columns.as_slice() else { return None };
        self.take_ids((batch.first, batch.rows), [lists, counts, ids])?;
        for row in 0..batch.rows {
            let panel = self.first + batch.first + row;
            let held = &held[row * self.held_bytes..][..self.held_bytes];
            let (codes, factors) = held.split_at(self.code_bytes);
            self.bytes[panel * self.code_bytes..][..self.code_bytes].copy_from_slice(codes);
            for (to, bytes) in self.factors.iter_mut().zip(factors.chunks_exact(PANEL * 4)) {
                // Scales are factors of sums whose bounds need their sign.
                fill(&mut to[panel * PANEL..], bytes, 0.0)?;
            }
        }
        Some(())
    }

    /// Takes the lists, the counts and the ids of all panels of a file, and leaves its vectors where they are. Checksums cover them
    /// only with the vectors.
    pub(super) fn take_all_ids(&mut self, batches: &PackedBatches) -> Result<(), PackedError> {
        let widths = layout::widths(self.held_bytes);
        for idx in 0..batches.len() {
            let [lists, counts, ids] = batches.first_columns(idx, &widths)?;
            self.take_ids((idx * batches.rows_each(), batches.rows(idx)), [&lists, &counts, &ids])
                .ok_or_else(|| batches.damaged(idx, "they are not panels of lists"))?;
        }
        Ok(())
    }

    /// Takes the lists, the counts and the ids of a batch's panels, of which the first is this one of the file; `None` if they are
    /// not panels of lists in order, with objects of the store. The panels of a part are of one batch.
    pub(super) fn take_ids(
        &mut self,
        (first, rows): (usize, usize),
        [lists, counts, ids]: [&[u8]; 3],
    ) -> Option<()> {
        let word = |bytes: &[u8], row: usize| -> Option<u32> {
            Some(u32::from_le_bytes(*bytes[row * 4..].first_chunk()?))
        };
        for row in 0..rows {
            let (list, count) = (word(lists, row)? as usize, word(counts, row)? as usize);
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
            let ids = &ids[row * layout::IDS_BYTES..][..layout::IDS_BYTES];
            for (place, id) in (panel * PANEL..).zip(ids.as_chunks::<8>().0.iter().take(count)) {
                let id = u64::from_le_bytes(*id);
                if !self.ids_of_file.contains(&id) {
                    return None;
                }
                self.ids[place] = id;
            }
        }
        Some(())
    }
}

/// Copies numbers, which are finite and not below the least one; `None` if one is.
pub(super) fn fill(to: &mut [f32], bytes: &[u8], least: f32) -> Option<()> {
    for (to, bytes) in to.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *to = f32::from_le_bytes(*bytes);
        if !to.is_finite() || *to < least {
            return None;
        }
    }
    Some(())
}

/// A word for each panel with a bit for each object that is there still; empty if all are. `None` if lists do not hold each
/// object of the store once.
pub(super) fn alive(store: &dyn Store, parts: &[Vec<Part>], ids: &[u64]) -> Option<Vec<u32>> {
    let mut alive = vec![0u32; ids.len() / PANEL];
    let (mut objects, mut removed) = (0, 0);
    for part in parts.iter().flatten() {
        for (row, id) in ids[part.panels.start * PANEL..][..part.rows].iter().enumerate() {
            let has = store.has(*id);
            alive[part.panels.start + row / PANEL] |= u32::from(has) << (row % PANEL);
            objects += u64::from(has);
            removed += u64::from(!has);
        }
    }
    (objects == store.objects_count()).then(|| if removed > 0 { alive } else { Vec::new() })
}
