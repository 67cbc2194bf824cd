//! A block of candidates whose sums a device computes in f64.
//!
//! Invariant: once the block has come back, `sums` has a number for each row of the envelopes, in their order.

use std::sync::Arc;

use boxwork_kernels::sqfd::exact_device::{ITEMS, KERNEL, UNITS_APART_MAX, lay_out, numbers_count};
use boxwork_kernels::sqfd::reference;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{Back, Block, DeviceError, Feed, Grid, ProgramSource, Value};
use boxwork_runtime::operator::BoxError;

use crate::devices::device_kernels::exact_program;
use crate::devices::reading::{block_error, feed_of};
use crate::search::queries::Queries;
use boxwork_stores::new_number;
use boxwork_stores::signature_store::Objects;
use boxwork_stores::sqfd_space::SqfdSpace;

/// Shared by all blocks of a box.
pub(super) struct Common {
    space: Arc<SqfdSpace>,
    queries: Arc<Queries>,
    program: ProgramSource,
    /// The queries as the kernel reads them, and the offset of each.
    numbers: Vec<f32>,
    offsets: Vec<u32>,
    /// Unique to these queries within the process.
    version: u64,
}

impl Common {
    pub(super) fn new(space: &Arc<SqfdSpace>, queries: &Arc<Queries>) -> Result<Self, BoxError> {
        let (mut numbers, mut offsets, mut centroids) = (Vec::new(), vec![0], 0);
        for query in queries.iter() {
            query.sqfd().with_signature(|signature| {
                let from = numbers.len();
                numbers.resize(from + numbers_count(signature), 0.0);
                lay_out(signature, &mut numbers[from..]);
                centroids += signature.len() as u32;
            })?;
            offsets.push(centroids);
        }
        Ok(Self {
            program: exact_program(&space.measure(), space.store().dimensions()),
            space: Arc::clone(space),
            queries: Arc::clone(queries),
            numbers,
            offsets,
            version: new_number(),
        })
    }

    /// Centroids of a query.
    pub(super) fn centroids(&self, query: usize) -> u64 {
        u64::from(self.offsets[query + 1] - self.offsets[query])
    }
}

/// Candidates of several envelopes.
pub(crate) struct ExactBlock {
    common: Arc<Common>,
    pub(crate) envelopes: Vec<Envelope>,
    /// The place of the query and the object of each row, one envelope after the other.
    pub(super) rows: Vec<(u32, u64)>,
    /// Pairs of centroids.
    terms: u64,
    /// Weighted similarities, by row.
    pub(super) sums: Vec<f64>,
    /// The device that computed it last.
    pub(crate) device: String,
}

impl ExactBlock {
    pub(super) fn new(
        common: &Arc<Common>,
        envelopes: Vec<Envelope>,
        rows: Vec<(u32, u64)>,
        terms: u64,
    ) -> Self {
        let common = Arc::clone(common);
        Self { common, envelopes, rows, terms, sums: Vec::new(), device: String::new() }
    }

    fn enqueue(&self, objects: Objects<'_>, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        fn copy<T: Copy>(from: &[T]) -> impl FnOnce(&mut [T]) -> Result<(), DeviceError> + '_ {
            |to| {
                to.copy_from_slice(from);
                Ok(())
            }
        }
        let common = &*self.common;
        feed.replicated("queries", common.version, common.numbers.len(), copy(&common.numbers))?;
        feed.replicated("query_offsets", common.version, common.offsets.len(), copy(&common.offsets))?;
        // Each object once, even if several queries want it.
        let mut ids: Vec<u64> = self.rows.iter().map(|(_, id)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        let (mut offsets, mut count) = (vec![0], 0);
        for id in &ids {
            let signature = objects.signature(*id).map_err(block_error)?;
            count += numbers_count(signature);
            offsets.push(offsets[offsets.len() - 1] + signature.len() as u32);
        }
        feed.write("objects", count, |to: &mut [f32]| {
            let mut rest = to;
            for id in &ids {
                let signature = objects.signature(*id).map_err(block_error)?;
                let (here, beyond) = rest.split_at_mut(numbers_count(signature));
                lay_out(signature, here);
                rest = beyond;
            }
            Ok(())
        })?;
        feed.write("object_offsets", offsets.len(), copy(&offsets))?;
        feed.write("pairs", 2 * self.rows.len(), |to: &mut [u32]| {
            for (to, (query, id)) in to.chunks_exact_mut(2).zip(&self.rows) {
                let place = ids.partition_point(|known| known < id);
                to.copy_from_slice(&[*query, place as u32]);
            }
            Ok(())
        })?;
        feed.output::<f64>("sums", self.rows.len())?;
        let values = [
            ("pairs_count", Value::of(self.rows.len() as u32)),
            ("alpha", Value::of(common.space.measure().alpha())),
        ];
        feed.launch(&common.program, KERNEL, Grid::covering([self.rows.len()], [ITEMS]), &values)?;
        feed.read::<f64>("sums", self.rows.len())
    }

    /// Whether sums that came back equal the reference's, checked on `count` evenly spread rows.
    pub(super) fn is_as_reference(&self, count: usize) -> Result<bool, BoxError> {
        let Common { space, queries, .. } = &*self.common;
        let apart = self.rows.len().div_ceil(count.max(1)).max(1);
        space.store().read(|objects| {
            for ((query, id), sum) in self.rows.iter().zip(&self.sums).step_by(apart) {
                let object = objects.signature(*id)?;
                let query = queries.at(*query as usize);
                let expected =
                    query.sqfd().with_signature(|query| reference::sigma(&space.measure(), query, object))?;
                if sum.to_bits().abs_diff(expected.to_bits()) > UNITS_APART_MAX {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// The distances of all rows.
    pub(super) fn distances(&self) -> Result<Vec<f64>, BoxError> {
        let Common { space, queries, .. } = &*self.common;
        space.store().read(|objects| {
            let rows = self.rows.iter().zip(&self.sums);
            rows.map(|((query, id), sum)| {
                let of_query = queries.at(*query as usize).sqfd().prepared().sigma_self();
                Ok(reference::distance(of_query, space.sigma_self(objects, *id)?, *sum))
            })
            .collect()
        })
    }
}

impl Block for ExactBlock {
    fn size(&self) -> u64 {
        self.terms
    }

    fn kind(&self) -> &'static str {
        "exact distances"
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        self.device = feed.device().info().to_string();
        if self.rows.is_empty() {
            return Ok(());
        }
        let common = Arc::clone(&self.common);
        feed_of(common.space.store(), |objects| self.enqueue(objects, feed))
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.sums = if self.rows.is_empty() { Vec::new() } else { back.numbers("sums").to_vec() };
    }
}
