//! Makes a graph, or adds to one the objects that its store has gained.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeBinaryArray};
use arrow_buffer::Buffer;
use boxwork_kernels::interrupt::Interrupt;
use boxwork_kernels::memory::filled;
use boxwork_kernels::vector::VectorMeasure;

use super::super::object_store::real_path;
use super::super::packed_file::{PackedError, PackedWriter};
use super::graph::Graph;
use super::layout::{self, Head, PIECE, PIECES};
use super::reader::{Covered, read};
use super::{GraphNumbers, HnswError, HnswOptions, Shape, check_built, measure, rows};
use crate::space::Space;

/// Vectors whose numbers are measured between two questions whether to stop.
const ROWS_AT_ONCE: u64 = 4096;
/// The largest number of an i8.
const I8_MAX: f32 = 127.0;
/// The largest finite number of 16 bits.
const F16_MAX: f32 = 65_504.0;

/// The most neighbours of a vector on an upper level of a graph.
pub const CONNECTIVITY_MAX: usize = 256;
/// The most vectors that a walk keeps.
pub const EXPANSION_MAX: usize = 1 << 16;

/// A graph that is not written yet; dropping it leaves nothing.
///
/// Several threads may [add](HnswBuilder::add) at once. The order in which vectors come shows in the graph: one thread that adds
/// ids in their order gives the same bytes again, on machines with as many processors and the same instructions.
#[derive(Debug)]
pub struct HnswBuilder {
    space: Arc<dyn Space>,
    shape: Shape,
    graph: Graph,
    /// Ids below it were there when a graph was read.
    first: u64,
}

impl HnswBuilder {
    /// A graph without vectors, to which at most `threads` threads add at once. Reads the vectors if their numbers become
    /// bytes, and asks `interrupt` meanwhile.
    ///
    /// # Errors
    /// When this build has no graphs, the space has none, the options are out of range, a vector cannot be read, the system has no
    /// memory, or the caller interrupts.
    pub fn new(
        path: &Path,
        space: &Arc<dyn Space>,
        options: HnswOptions,
        threads: usize,
        interrupt: Interrupt<'_>,
    ) -> Result<Self, HnswError> {
        check_built(path)?;
        let (measure, dimensions) = measure(&**space)?;
        let is_allowed = (2..=CONNECTIVITY_MAX).contains(&options.connectivity)
            && (1..=EXPANSION_MAX).contains(&options.expansion);
        if !is_allowed {
            return Err(HnswError::Options(format!(
                "a connectivity of {} and an expansion of {}: take 2 to {CONNECTIVITY_MAX}, and 1 to {EXPANSION_MAX}",
                options.connectivity, options.expansion
            )));
        }
        let mut shape = Shape { dimensions, measure, options, middle: 0.0, steps: 1.0 };
        if options.numbers != GraphNumbers::F32 {
            let (least, largest) = extent(&shape, space, interrupt)?;
            shape.fit(least, largest)?;
        }
        let library = |reason| HnswError::Library { path: path.to_owned(), reason };
        let graph = Graph::new(&shape, space.store().objects_count(), threads).map_err(library)?;
        Ok(Self { space: Arc::clone(space), shape, graph, first: 0 })
    }

    /// The graph in a file of an earlier content of the store, for the ids from [`HnswBuilder::first`] on. Bytes keep the steps of
    /// the file: numbers beyond them become the last step.
    ///
    /// # Errors
    /// As [`Hnsw::open`](super::Hnsw::open), except that the store may have grown.
    pub fn of_file(path: &Path, space: &Arc<dyn Space>, threads: usize) -> Result<Self, HnswError> {
        let Covered { shape, graph, ids, .. } = read(path, space, threads, true)?;
        Ok(Self { space: Arc::clone(space), shape, graph, first: ids })
    }

    /// The first id that was not there when the graph was read; 0 for a new graph.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The number of vectors so far.
    pub fn objects(&self) -> u64 {
        self.graph.len()
    }

    /// Adds some objects, which are in memory. Asks `interrupt` for each.
    ///
    /// # Errors
    /// When one cannot be read, is there already, or the caller interrupts.
    pub fn add(&self, path: &Path, ids: &[u64], interrupt: Interrupt<'_>) -> Result<(), HnswError> {
        let vectors = rows(&self.shape, self.space.store(), ids)?;
        for (id, vector) in ids.iter().zip(vectors.chunks_exact(self.shape.dimensions)) {
            if interrupt() {
                return Err(HnswError::Cancelled);
            }
            let library = |reason| HnswError::Library { path: path.to_owned(), reason };
            self.graph.add(*id, vector).map_err(library)?;
        }
        Ok(())
    }

    /// Writes the graph, whole or not at all. Asks `interrupt` for each batch.
    ///
    /// # Errors
    /// When not all objects were added, the store has changed, the file cannot be written, the system has no memory, or the caller
    /// interrupts.
    pub fn write(&self, path: &Path, interrupt: Interrupt<'_>) -> Result<(), HnswError> {
        let store = self.space.store();
        let added = store.count(self.first..store.ids_count());
        if self.graph.len() < added {
            return Err(HnswError::Options(format!(
                "`{}` was not written: {} of {added} objects were added",
                path.display(),
                self.graph.len()
            )));
        }
        store.confirm()?;
        let whole = real_path(path);
        let of = |error: PackedError| HnswError::of(error, self.shape.measure, store.path(), path);
        let library = |reason| HnswError::Library { path: path.to_owned(), reason };
        let what = || format!("the graph `{}` while it is written", path.display());
        let bytes = self.graph.bytes();
        let buffer = filled(bytes, 0, what, "free memory, or make it of smaller numbers")?;
        let graph = self.graph.to_bytes(buffer).map_err(library)?;
        let head = Head { shape: self.shape, objects: self.graph.len(), bytes: bytes as u64 };
        let schema = layout::schema(head.metadata(store.fingerprint()));
        let mut file = PackedWriter::create(&whole, &whole, &schema).map_err(of)?;
        for batch in graph.chunks(PIECE * PIECES) {
            if interrupt() {
                return Err(HnswError::Cancelled);
            }
            let mut batch = batch.to_vec();
            batch.resize(batch.len().next_multiple_of(PIECE), 0);
            let pieces = FixedSizeBinaryArray::try_new(PIECE as i32, Buffer::from_vec(batch), None);
            let pieces: ArrayRef = Arc::new(pieces.expect("whole pieces"));
            file.write(vec![pieces]).map_err(of)?;
        }
        file.finish([]).map_err(of)
    }
}

impl Shape {
    /// Sets the steps of bytes by the least and the largest number of all vectors, and checks that 16 bits suffice.
    fn fit(&mut self, least: f32, largest: f32) -> Result<(), HnswError> {
        let extreme = largest.abs().max(least.abs());
        match self.options.numbers {
            GraphNumbers::F32 => {}
            GraphNumbers::F16 if extreme > F16_MAX => {
                return Err(HnswError::Options(format!(
                    "the vectors have numbers up to {extreme}, and f16 ends at {F16_MAX}: take f32 or i8"
                )));
            }
            GraphNumbers::F16 => {}
            GraphNumbers::I8 => {
                // Products depend on the number that is 0, differences do not.
                let (middle, half) = match self.measure {
                    VectorMeasure::InnerProduct => (0.0, extreme),
                    _ => (least / 2.0 + largest / 2.0, largest / 2.0 - least / 2.0),
                };
                let steps = I8_MAX / half;
                self.middle = middle;
                self.steps = if steps.is_finite() && steps > 0.0 { steps } else { 1.0 };
            }
        }
        Ok(())
    }
}

/// The least and the largest number of all vectors. Blocks on the disk.
fn extent(shape: &Shape, space: &Arc<dyn Space>, interrupt: Interrupt<'_>) -> Result<(f32, f32), HnswError> {
    let store = space.store();
    let (mut least, mut largest) = (f32::INFINITY, f32::NEG_INFINITY);
    for first in (0..store.ids_count()).step_by(ROWS_AT_ONCE as usize) {
        if interrupt() {
            return Err(HnswError::Cancelled);
        }
        let ids: Vec<u64> = store.among(first..store.ids_count().min(first + ROWS_AT_ONCE)).collect();
        if ids.is_empty() {
            continue;
        }
        store.bring_in(&ids)?;
        for x in rows(shape, store, &ids)? {
            least = least.min(x);
            largest = largest.max(x);
        }
    }
    Ok((least, largest))
}
