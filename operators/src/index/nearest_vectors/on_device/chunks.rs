//! A store cut into chunks, each of which is a buffer on a device, and the terms of their rows.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use boxwork_kernels::interrupt::ask;
use boxwork_kernels::vector::VectorMeasure;
use boxwork_kernels::vector::device::{self, ABSENT, HalfError, padded};
use boxwork_runtime::feeding::{Devices, Residence};
use boxwork_runtime::operator::{BoxError, Context};
use boxwork_stores::kinds::{Kind as _, Vectors};
use boxwork_stores::object_store::ObjectStore;
use boxwork_stores::store_error::StoreError;

use crate::index::nearest_vectors::Shared;

/// The bytes of a chunk on a device.
const CHUNK_BYTES: u64 = 1 << 30;
/// The rows of a chunk at most: a block has a number for each group of rows and queries.
const CHUNK_ROWS: u64 = 1 << 23;

/// A store cut into chunks, and what is known of their rows.
pub(in crate::index::nearest_vectors) struct Chunks {
    /// By chunk: its batches.
    batches: Vec<Range<usize>>,
    terms: Vec<OnceLock<Terms>>,
}

/// The terms of a chunk's rows, and their largest norm.
pub(in crate::index::nearest_vectors) struct Terms {
    pub(in crate::index::nearest_vectors) terms: Vec<[f32; 2]>,
    pub(super) norm_max: f64,
    /// The norms that rounding to halves takes.
    pub(super) halved: HalfError,
}

impl Chunks {
    /// Cuts a store.
    pub(in crate::index::nearest_vectors) fn new(vectors: &ObjectStore<Vectors>) -> Self {
        Self::of_bytes(vectors, CHUNK_BYTES)
    }

    pub(super) fn of_bytes(vectors: &ObjectStore<Vectors>, bytes_max: u64) -> Self {
        let bytes_of_row = (vectors.kind().dimensions() * vectors.kind().number_type().bytes()) as u64;
        let rows_max = (bytes_max / bytes_of_row.max(1)).clamp(1, CHUNK_ROWS);
        let (mut batches, mut first) = (Vec::new(), 0);
        for batch in 0..vectors.batches() {
            let begin = vectors.ids(first).start;
            if batch > first && vectors.ids(batch).end - begin > rows_max {
                batches.push(first..batch);
                first = batch;
            }
        }
        batches.push(first..vectors.batches());
        let terms = batches.iter().map(|_| OnceLock::new()).collect();
        Self { batches, terms }
    }

    pub(super) fn count(&self) -> usize {
        self.batches.len()
    }

    /// The rows of a chunk.
    pub(in crate::index::nearest_vectors) fn rows(
        &self,
        vectors: &ObjectStore<Vectors>,
        chunk: usize,
    ) -> Range<u64> {
        let batches = &self.batches[chunk];
        vectors.ids(batches.start).start..vectors.ids(batches.end - 1).end
    }

    /// The terms of a chunk, which the task has computed.
    pub(in crate::index::nearest_vectors) fn terms(&self, chunk: usize) -> &Terms {
        self.terms[chunk].get().expect("a task begins with the terms of all chunks")
    }

    pub(super) fn residence(
        &self,
        vectors: &ObjectStore<Vectors>,
        devices: &Devices,
        allowed: &Arc<[usize]>,
    ) -> Residence {
        self.residence_of(vectors, devices, allowed, 0)
    }

    /// As [`Chunks::residence`], if halves of the rows lie beside them.
    pub(super) fn residence_of_both(
        &self,
        vectors: &ObjectStore<Vectors>,
        devices: &Devices,
        allowed: &Arc<[usize]>,
    ) -> Residence {
        let halves = padded(vectors.kind().dimensions()) * size_of::<u16>();
        self.residence_of(vectors, devices, allowed, halves)
    }

    fn residence_of(
        &self,
        vectors: &ObjectStore<Vectors>,
        devices: &Devices,
        allowed: &Arc<[usize]>,
        more_bytes: usize,
    ) -> Residence {
        let bytes_of_row = (vectors.kind().dimensions() * vectors.kind().number_type().bytes()
            + size_of::<[f32; 2]>()
            + more_bytes) as u64;
        let bytes = (0..self.count()).map(|chunk| {
            let rows = self.rows(vectors, chunk);
            (rows.end - rows.start) * bytes_of_row
        });
        Residence::new(devices, Arc::clone(allowed), bytes)
    }

    /// Computes the terms that are missing, on slots.
    pub(super) fn fill(&self, cx: &mut Context<'_>, shared: &Shared) -> Result<(), BoxError> {
        let (vectors, measure) = (&shared.vectors, shared.measure);
        for (batches, terms) in self.batches.iter().zip(&self.terms) {
            if terms.get().is_some() {
                continue;
            }
            let fresh: Vec<u64> = batches
                .clone()
                .filter(|batch| !vectors.is_checked(*batch))
                .map(|batch| vectors.ids(batch).start)
                .collect();
            if !fresh.is_empty() {
                let cancelled = cx.cancelled();
                cx.detached("disk", || vectors.bring_in_until(fresh, &cancelled))??;
            }
            let mut parts: Vec<_> = batches.clone().map(|batch| (batch, None)).collect();
            cx.inside(|inside| {
                let cancelled = inside.cancelled();
                inside.for_each_chunk_of(&mut parts, 1, |_, parts| {
                    for (batch, terms) in parts.iter_mut().filter(|_| !cancelled()) {
                        *terms = Some(terms_of(vectors, measure, *batch));
                    }
                });
            });
            ask(&|| cx.is_cancelled())?;
            let (mut all, mut norm_max, mut halved) = (Vec::new(), 0.0_f64, HalfError::default());
            for (_, part) in parts {
                let (terms, norm, error) = part.expect("no part was left out")?;
                all.extend(terms);
                halved = halved.max(error);
                norm_max = if norm <= norm_max { norm_max } else { norm };
            }
            // Another request may have been first, with equal terms.
            let _ = terms.set(Terms { terms: all, norm_max, halved });
        }
        Ok(())
    }
}

/// The terms of a batch's rows; removed ones are absent.
fn terms_of(
    vectors: &ObjectStore<Vectors>,
    measure: VectorMeasure,
    batch: usize,
) -> Result<(Vec<[f32; 2]>, f64, HalfError), StoreError> {
    let dimensions = vectors.kind().dimensions();
    let (mut terms, norm, halved) = vectors.read::<_, StoreError>(|objects| {
        Ok(device::terms(measure, dimensions, objects.batch(batch)?.all()))
    })?;
    for (row, term) in vectors.ids(batch).zip(&mut terms) {
        if !vectors.has(row) {
            *term = ABSENT;
        }
    }
    Ok((terms, norm, halved))
}
