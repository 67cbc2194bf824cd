//! The chunks of a store: runs of batches that lie on a device together.

use std::ops::Range;

use boxwork_kernels::sqfd::StoreColumns;

use crate::domain::signature_store::{Objects, SignatureStore, StoreError};

/// What a chunk takes on a device, about. Small enough to be brought in on the way, large enough that a kernel over it
/// takes many times as long as its start.
const CHUNK_BYTES: usize = 64 << 20;

/// Columns on a device begin at multiples of so many numbers.
const COLUMN_ALIGNMENT: usize = 32;

/// How a store is cut.
#[derive(Clone, Debug)]
pub(super) struct Chunks {
    batches_per_chunk: usize,
}

/// One chunk as it lies on a device.
pub(super) struct Chunk {
    batches: Range<usize>,
    /// Where each batch's centroids begin in the columns, and its first centroid in the batch.
    bases: Vec<(usize, usize)>,
    /// Length of a column.
    pub(super) stride: usize,
}

impl Chunks {
    pub(super) fn new(store: &SignatureStore) -> Self {
        let largest = (0..store.batches()).map(|batch| store.batch_bytes(batch)).max().unwrap_or(1);
        Self { batches_per_chunk: (CHUNK_BYTES / largest.max(1)).max(1) }
    }

    /// Number of chunks.
    pub(super) fn count(&self, store: &SignatureStore) -> usize {
        store.batches().div_ceil(self.batches_per_chunk)
    }

    /// The chunk that an object lies in.
    pub(super) fn of(&self, store: &SignatureStore, id: u64) -> Result<usize, StoreError> {
        Ok(store.locate(id)?.0 / self.batches_per_chunk)
    }

    /// The batches of a chunk.
    pub(super) fn batches(&self, store: &SignatureStore, chunk: usize) -> Range<usize> {
        let first = chunk * self.batches_per_chunk;
        first..store.batches().min(first + self.batches_per_chunk)
    }

    /// The objects of a chunk.
    pub(super) fn ids(&self, store: &SignatureStore, chunk: usize) -> Range<u64> {
        let batches = self.batches(store, chunk);
        store.ids(batches.start).start..store.ids(batches.end - 1).end
    }

    /// Where everything of a chunk lies; reads its batches.
    pub(super) fn chunk(&self, objects: Objects<'_>, chunk: usize) -> Result<Chunk, StoreError> {
        let batches = self.batches(objects.store(), chunk);
        let (mut bases, mut total) = (Vec::with_capacity(batches.len()), 0);
        for batch in batches.clone() {
            let columns = objects.batch(batch)?.columns();
            let (first, _) = columns.range(0);
            let (last, len) = columns.range(columns.rows() - 1);
            bases.push((total, first));
            total += last + len - first;
        }
        Ok(Chunk { batches, bases, stride: total.next_multiple_of(COLUMN_ALIGNMENT) })
    }
}

impl Chunk {
    /// Whether no centroid of the chunk is farther from any of some points (one after the other) than the root of
    /// `most`, both multiplied by a factor. Judged by the box that the chunk lies in.
    pub(super) fn is_near(
        &self,
        objects: Objects<'_>,
        points: &[f32],
        factor: f32,
        most: f32,
    ) -> Result<bool, StoreError> {
        for batch in self.batches.clone() {
            let extents = objects.batch(batch)?.extents();
            for point in points.chunks_exact(extents.len()) {
                let farthest = extents.iter().zip(point).map(|((least, greatest), x)| {
                    f64::from((x - least).abs().max((greatest - x).abs()) * factor).powi(2)
                });
                // Not a number where a coordinate is none, and then not near.
                let is_near = farthest.sum::<f64>() < f64::from(most);
                if !is_near {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Where the centroids of some objects of the chunk lie in the columns, and how many they are; ids ascend.
    pub(super) fn places(&self, objects: Objects<'_>, ids: &[u64]) -> Result<Vec<(u32, u32)>, StoreError> {
        let mut places = Vec::with_capacity(ids.len());
        for_each_batch(objects, ids, |batch, rows, columns| {
            let (base, first) = self.bases[batch - self.batches.start];
            places.extend(rows.map(|row| {
                let (start, len) = columns.range(row);
                ((base + start - first) as u32, len as u32)
            }));
        })?;
        Ok(places)
    }

    /// Copies all columns, coordinates first, weights last.
    pub(super) fn copy(&self, objects: Objects<'_>, to: &mut [f32]) -> Result<(), StoreError> {
        let ends = self.bases.iter().skip(1).map(|(base, _)| *base).map(Some).chain([None]);
        for ((batch, (base, first)), end) in self.batches.clone().zip(&self.bases).zip(ends) {
            let columns = objects.batch(batch)?.columns().columns();
            let all = columns.coordinates().iter().copied().chain([columns.weights()]);
            for (from, to) in all.zip(to.chunks_exact_mut(self.stride)) {
                let len = end.map_or(from.len() - first, |end| end - base);
                to[*base..base + len].copy_from_slice(&from[*first..first + len]);
            }
        }
        Ok(())
    }
}

/// The columns of some objects, gathered one after the other: as a chunk of their own.
pub(super) struct Gathered {
    pub(super) places: Vec<(u32, u32)>,
    pub(super) stride: usize,
}

impl Gathered {
    pub(super) fn new(objects: Objects<'_>, ids: &[u64]) -> Result<Self, StoreError> {
        let (mut places, mut total) = (Vec::with_capacity(ids.len()), 0);
        for_each_batch(objects, ids, |_, rows, columns| {
            places.extend(rows.map(|row| {
                let (_, len) = columns.range(row);
                total += len;
                ((total - len) as u32, len as u32)
            }));
        })?;
        Ok(Self { places, stride: total.next_multiple_of(COLUMN_ALIGNMENT) })
    }

    pub(super) fn copy(&self, objects: Objects<'_>, ids: &[u64], to: &mut [f32]) -> Result<(), StoreError> {
        for (id, (at, len)) in ids.iter().zip(&self.places) {
            let signature = objects.signature(*id)?;
            let range = *at as usize..(at + len) as usize;
            for (d, column) in to.chunks_exact_mut(self.stride).enumerate() {
                let from =
                    if d < signature.dimensions() { signature.coordinate(d) } else { signature.weights() };
                column[range.clone()].copy_from_slice(from);
            }
        }
        Ok(())
    }
}

/// Visits the batches that some objects lie in, with the rows of those in each; ids ascend. A batch is looked up once for
/// all its rows.
fn for_each_batch(
    objects: Objects<'_>,
    ids: &[u64],
    mut visit: impl FnMut(usize, &mut dyn Iterator<Item = usize>, &StoreColumns<'_>),
) -> Result<(), StoreError> {
    let (store, mut rest) = (objects.store(), ids);
    while let Some(first) = rest.first() {
        let (batch, _) = store.locate(*first)?;
        let range = store.ids(batch);
        let (here, beyond) = rest.split_at(rest.partition_point(|id| *id < range.end));
        let mut rows = here.iter().map(|id| (id - range.start) as usize);
        visit(batch, &mut rows, &objects.batch(batch)?.columns());
        rest = beyond;
    }
    Ok(())
}
