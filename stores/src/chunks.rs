//! The chunks of a store: runs of batches that lie on a device together, and the layout of their signatures for its
//! kernel.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use boxwork_kernels::sqfd::StoreColumns;
use boxwork_kernels::sqfd::device::{Layout, Shape};
use boxwork_runtime::feeding::{Devices, Residence, SharedKey};

use super::signature_store::{Objects, SignatureStore, StoreError};

/// The approximate size of a chunk on a device: small enough to be loaded on demand, large enough that a kernel over it
/// takes many times as long as its start.
const CHUNK_BYTES: u64 = 128 << 20;
/// The size of a chunk in tests.
const CHUNK_BYTES_SMALL: u64 = 64 << 10;

/// Columns on a device begin at multiples of this many numbers.
const COLUMN_ALIGNMENT: usize = 32;

/// The most rows (objects for queries) that a device computes at once: each similarity takes four bytes.
const ROWS_MAX: u64 = 1 << 22;
/// The most rows in tests.
const ROWS_SMALL: u64 = 5000;

/// The fewest runs of chunks per device at once, if there are as many chunks: one for each end point.
const RUNS_PER_DEVICE: usize = 2;

/// The cut of a store into chunks.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    batches_per_chunk: usize,
    count: usize,
}

/// A cut store, and the layouts known so far.
#[derive(Debug)]
pub struct Chunks {
    /// The cut.
    pub cut: Cut,
    layouts: Vec<OnceLock<ChunkLayout>>,
}

/// Consecutive queries, and a run of chunks: the work of one block.
pub type ChunkRun = (Range<usize>, Range<usize>);

/// The layout of a whole chunk on a device, as far as the host needs it: sizes, and the pieces of each object.
#[derive(Debug)]
pub struct ChunkLayout {
    /// Length of a column.
    pub stride: usize,
    /// Number of tiles.
    pub tiles: usize,
    /// Number of pieces of signatures.
    pub pieces: usize,
    first: u64,
    /// The objects' ids, if some after `first` were removed.
    ids: Option<Vec<u64>>,
    signatures: usize,
    /// The place at which each object's pieces begin, and the last object's end; `None` if each object is one piece.
    pieces_of: Option<Vec<u32>>,
}

/// The content of one of a chunk's buffers.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// The coordinates and weights, column by column.
    Columns,
    /// The pieces that each work group computes.
    Tiles,
    /// The place of each piece of a signature.
    Pieces,
}

/// One chunk as it lies on a device.
pub struct Chunk {
    batches: Range<usize>,
    /// By batch: the place in the columns at which its centroids begin, and its first centroid in the batch.
    bases: Vec<(usize, usize)>,
    /// Length of a column.
    pub stride: usize,
}

impl Cut {
    /// Cuts a store.
    pub fn new(store: &SignatureStore) -> Self {
        let largest = (0..store.batches()).map(|batch| store.batch_bytes(batch)).max().unwrap_or(1);
        let bytes = crate::limit(CHUNK_BYTES, CHUNK_BYTES_SMALL) as usize;
        let batches_per_chunk = (bytes / largest.max(1)).max(1);
        Self { batches_per_chunk, count: store.batches().div_ceil(batches_per_chunk) }
    }

    /// Number of chunks.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The devices' key for a part of a chunk.
    pub fn key(store: &SignatureStore, form: Form, chunk: usize) -> SharedKey {
        SharedKey { resource: store.number(), form: form as u64, part: chunk as u64 }
    }

    /// The home device of each chunk, and whether the chunk stays there.
    ///
    /// # Panics
    /// When there is no device.
    pub fn residence(&self, store: &SignatureStore, devices: &Devices, allowed: &Arc<[usize]>) -> Residence {
        let bytes =
            |chunk| self.batches(store, chunk).map(|batch| store.batch_bytes(batch) as u64).sum::<u64>();
        Residence::new(devices, Arc::clone(allowed), (0..self.count).map(bytes))
    }

    /// Cuts chunks for queries to suit the devices: chunks that lie on a device form few long runs, all others run one
    /// by one.
    pub fn runs(
        &self,
        store: &SignatureStore,
        devices: &Devices,
        allowed: &Arc<[usize]>,
        (queries, chunks): ChunkRun,
    ) -> Vec<ChunkRun> {
        let residence = self.residence(store, devices, allowed);
        let is_held = |chunk: usize| {
            devices.list()[residence.home(chunk)].holds(Self::key(store, Form::Columns, chunk))
        };
        let rows_max = crate::limit(ROWS_MAX, ROWS_SMALL);
        let chunks_max = self.count().div_ceil(RUNS_PER_DEVICE * allowed.len()).max(1);
        let rows = |run: Range<usize>| {
            (self.ids(store, run.end - 1).end - self.ids(store, run.start).start)
                .saturating_mul(queries.len() as u64)
        };
        let fits = |run: Range<usize>| run.len() <= chunks_max && rows(run) <= rows_max;
        let runs = residence.runs(chunks, is_held, fits);
        let few_queries = |run: Range<usize>| {
            let of_all = rows(run.clone());
            let most = match of_all <= rows_max {
                true => queries.len(),
                false => (u128::from(rows_max) * queries.len() as u128 / u128::from(of_all)) as usize,
            };
            let (most, end) = (most.max(1), queries.end);
            queries.clone().step_by(most).map(move |first| (first..end.min(first + most), run.clone()))
        };
        runs.into_iter().flat_map(few_queries).collect()
    }

    /// The run of whole chunks that consecutive ids cover; `None` if they cover no such run.
    pub fn run_of(&self, store: &SignatureStore, ids: &Range<u64>) -> Option<Range<usize>> {
        if ids.is_empty() || ids.end > store.len() {
            return None;
        }
        let (first, last) = (self.of(store, ids.start).ok()?, self.of(store, ids.end - 1).ok()?);
        let is_whole = self.ids(store, first).start == ids.start && self.ids(store, last).end == ids.end;
        is_whole.then_some(first..last + 1)
    }

    /// The chunk that an object lies in.
    pub fn of(&self, store: &SignatureStore, id: u64) -> Result<usize, StoreError> {
        Ok(store.locate(id)?.0 / self.batches_per_chunk)
    }

    /// The batches of a chunk.
    pub fn batches(&self, store: &SignatureStore, chunk: usize) -> Range<usize> {
        let first = chunk * self.batches_per_chunk;
        first..store.batches().min(first + self.batches_per_chunk)
    }

    /// The objects of a chunk.
    pub fn ids(&self, store: &SignatureStore, chunk: usize) -> Range<u64> {
        let batches = self.batches(store, chunk);
        store.ids(batches.start).start..store.ids(batches.end - 1).end
    }
}

impl Chunks {
    /// Cuts a store; nothing is laid out yet.
    pub fn new(store: &SignatureStore) -> Self {
        let cut = Cut::new(store);
        Self { layouts: (0..cut.count).map(|_| OnceLock::new()).collect(), cut }
    }

    /// The layout of a chunk for the host; the first call reads the chunk.
    pub fn chunk_layout(
        &self,
        objects: Objects<'_>,
        shape: &Shape,
        chunk: usize,
    ) -> Result<&ChunkLayout, StoreError> {
        if let Some(known) = self.layouts[chunk].get() {
            return Ok(known);
        }
        let (lies, layout) = self.layout(objects, shape, chunk)?;
        let (store, all) = (objects.store(), self.cut.ids(objects.store(), chunk));
        let has_all = store.count(all.clone()) == all.end - all.start;
        let chunk_layout = ChunkLayout {
            stride: lies.stride,
            tiles: layout.tiles.len(),
            pieces: layout.pieces.len(),
            first: all.start,
            ids: (!has_all).then(|| store.among(all).collect()),
            signatures: layout.signatures(),
            pieces_of: (!layout.is_whole()).then(|| {
                let firsts = (0..layout.signatures()).map(|idx| layout.of_signature(idx).start as u32);
                firsts.chain([layout.pieces.len() as u32]).collect()
            }),
        };
        Ok(self.layouts[chunk].get_or_init(|| chunk_layout))
    }

    /// A chunk and its layout for the kernel, for all objects in it.
    pub fn layout(
        &self,
        objects: Objects<'_>,
        shape: &Shape,
        chunk: usize,
    ) -> Result<(Chunk, Layout), StoreError> {
        let lies = self.chunk(objects, chunk)?;
        let ids: Vec<u64> = objects.store().among(self.cut.ids(objects.store(), chunk)).collect();
        let layout = Layout::new(shape, lies.places(objects, &ids)?);
        Ok((lies, layout))
    }

    /// The places of all batches in a chunk's columns; reads the batches.
    pub fn chunk(&self, objects: Objects<'_>, chunk: usize) -> Result<Chunk, StoreError> {
        let batches = self.cut.batches(objects.store(), chunk);
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

impl ChunkLayout {
    /// Number of objects.
    #[expect(clippy::len_without_is_empty, reason = "a chunk is never empty")]
    pub fn len(&self) -> usize {
        self.signatures
    }

    /// The object at a place.
    pub fn id(&self, idx: usize) -> u64 {
        self.ids.as_ref().map_or(self.first + idx as u64, |ids| ids[idx])
    }

    /// The places of the objects among these ids.
    pub fn places_of(&self, ids: &Range<u64>) -> Range<usize> {
        match &self.ids {
            Some(known) => {
                known.partition_point(|id| *id < ids.start)..known.partition_point(|id| *id < ids.end)
            }
            None => {
                let place = |id: u64| (id.saturating_sub(self.first) as usize).min(self.signatures);
                place(ids.start)..place(ids.end)
            }
        }
    }

    /// Whether each object is one piece, so that a piece's sum is its object's.
    pub fn is_whole(&self) -> bool {
        self.pieces_of.is_none()
    }

    /// The sum of an object, from the sums of all pieces.
    pub fn sum(&self, idx: usize, sums: &[f32]) -> f64 {
        let range = match &self.pieces_of {
            Some(firsts) => firsts[idx] as usize..firsts[idx + 1] as usize,
            None => idx..idx + 1,
        };
        sums[range].iter().map(|sum| f64::from(*sum)).sum()
    }
}

impl Chunk {
    /// Whether all centroids of the chunk are within the root of `most` of all given points (point after point), after
    /// multiplication by a factor. The chunk's bounding box decides.
    pub fn is_near(
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
                // NaN if a coordinate is NaN; that counts as not near.
                let is_near = farthest.sum::<f64>() < f64::from(most);
                if !is_near {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The place and number of the centroids of some objects in the chunk's columns; ids ascend.
    pub fn places(&self, objects: Objects<'_>, ids: &[u64]) -> Result<Vec<(u32, u32)>, StoreError> {
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

    /// Copies a column: a coordinate's, or the weights after the last coordinate.
    pub fn copy_column(&self, objects: Objects<'_>, column: usize, to: &mut [f32]) -> Result<(), StoreError> {
        let ends = self.bases.iter().skip(1).map(|(base, _)| *base).map(Some).chain([None]);
        for ((batch, (base, first)), end) in self.batches.clone().zip(&self.bases).zip(ends) {
            let columns = objects.batch(batch)?.columns().columns();
            let from = columns.coordinates().get(column).copied().unwrap_or(columns.weights());
            let len = end.map_or(from.len() - first, |end| end - base);
            to[*base..base + len].copy_from_slice(&from[*first..first + len]);
        }
        Ok(())
    }
}

/// The columns of some objects, gathered in sequence like a chunk.
pub struct Gathered {
    /// By signature: the place in a column at which it begins, and its length.
    pub places: Vec<(u32, u32)>,
    /// Length of a column.
    pub stride: usize,
}

impl Gathered {
    /// Computes the places of some signatures of a store.
    ///
    /// # Errors
    /// When there is no such object, or its batch is damaged.
    pub fn new(objects: Objects<'_>, ids: &[u64]) -> Result<Self, StoreError> {
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

    /// Copies the signatures, column by column.
    ///
    /// # Errors
    /// As [`Gathered::new`].
    pub fn copy(&self, objects: Objects<'_>, ids: &[u64], to: &mut [f32]) -> Result<(), StoreError> {
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

/// Visits the batches of some objects with the objects' rows; ids ascend. A batch is looked up once for all its rows.
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
