//! A graph of the library `usearch`, with our distances.
//!
//! The library starts no thread: it computes on the callers'. Invariant: at most as many calls are under way at once as threads were
//! named when the graph was made or read; one more is an error. Bytes come from a file whose checksums fit: the
//! library trusts them.

use boxwork_kernels::CodePath;
use boxwork_kernels::vector::{PairValue, VectorMeasure, pair_bytes, pair_f32, pair_halves};
use half::f16;
use usearch::{Index, IndexOptions, MetricKind, ScalarKind};

use super::{GraphNumbers, Shape};

/// Whether this build has graphs.
pub(super) const IS_BUILT: bool = true;

/// The numbers of an i8 vector.
const I8_MAX: f32 = 127.0;

/// A graph, and the form of its vectors.
pub(super) struct Graph {
    index: Index,
    shape: Shape,
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Graph").field("shape", &self.shape).field("len", &self.len()).finish()
    }
}

/// A vector as the graph keeps it.
enum Kept<'a> {
    F32(&'a [f32]),
    F16(Vec<i16>),
    I8(Vec<i8>),
}

impl Graph {
    /// A graph without vectors, for `capacity` of them, whose calls come from at most `threads` threads at once.
    pub(super) fn new(shape: &Shape, capacity: u64, threads: usize) -> Result<Self, String> {
        let mut graph = Self::empty(shape, threads)?;
        graph.set_distance();
        graph.reserve(capacity, threads)?;
        Ok(graph)
    }

    /// The graph that was written as these bytes, with room for `capacity` vectors.
    pub(super) fn of_bytes(
        shape: &Shape,
        bytes: &[u8],
        capacity: u64,
        threads: usize,
    ) -> Result<Self, String> {
        let mut graph = Self::empty(shape, threads)?;
        graph.index.load_from_buffer(bytes).map_err(what)?;
        let is_as_said = graph.index.dimensions() == shape.dimensions
            && graph.index.metric_kind() == metric(shape)
            && graph.index.scalar_kind() == scalar(shape.options.numbers);
        if !is_as_said {
            return Err("its vectors are of another form than its head says".to_owned());
        }
        // A graph that was read has the library's own distance.
        graph.set_distance();
        graph.index.change_expansion_add(shape.options.expansion);
        graph.reserve(capacity.max(graph.len()), threads)?;
        Ok(graph)
    }

    fn empty(shape: &Shape, threads: usize) -> Result<Self, String> {
        let options = IndexOptions {
            dimensions: shape.dimensions,
            metric: metric(shape),
            quantization: scalar(shape.options.numbers),
            connectivity: shape.options.connectivity,
            expansion_add: shape.options.expansion,
            // Each search asks for as many as it expands to, so that the number is its own.
            expansion_search: 1,
            multi: false,
        };
        let graph = Self { index: Index::new(&options).map_err(what)?, shape: *shape };
        graph.reserve(0, threads)?;
        Ok(graph)
    }

    fn reserve(&self, capacity: u64, threads: usize) -> Result<(), String> {
        let capacity = usize::try_from(capacity).map_err(|error| error.to_string())?;
        self.index.reserve_capacity_and_threads(capacity, threads.max(1)).map_err(what)
    }

    fn set_distance(&mut self) {
        let (path, value, dimensions) = (CodePath::detect(), value(&self.shape), self.shape.dimensions);
        match self.shape.options.numbers {
            GraphNumbers::F32 => {
                self.index.change_metric::<f32>(of_pointers(dimensions, move |a: &[f32], b| {
                    pair_f32(path, value, a, b)
                }));
            }
            GraphNumbers::F16 => {
                self.index.change_metric::<usearch::f16>(of_pointers(dimensions, move |a: &[u16], b| {
                    pair_halves(path, value, a, b)
                }));
            }
            GraphNumbers::I8 => {
                self.index.change_metric::<i8>(of_pointers(dimensions, move |a: &[i8], b| {
                    pair_bytes(path, value, a, b)
                }));
            }
        }
    }

    /// A vector as the graph keeps it; numbers beyond its range become the last of the range.
    fn kept<'a>(&self, vector: &'a [f32]) -> Kept<'a> {
        let Shape { middle, steps, .. } = self.shape;
        let limit = f16::MAX.to_f32();
        match self.shape.options.numbers {
            GraphNumbers::F32 => Kept::F32(vector),
            GraphNumbers::F16 => {
                let halves = vector.iter().map(|x| f16::from_f32(x.clamp(-limit, limit)));
                Kept::F16(halves.map(|half| half.to_bits() as i16).collect())
            }
            GraphNumbers::I8 => {
                let whole = |x: &f32| ((x - middle) * steps).round().clamp(-I8_MAX, I8_MAX) as i8;
                Kept::I8(vector.iter().map(whole).collect())
            }
        }
    }

    /// The number of vectors.
    pub(super) fn len(&self) -> u64 {
        self.index.size() as u64
    }

    /// Adds a vector under a key that no other has.
    pub(super) fn add(&self, key: u64, vector: &[f32]) -> Result<(), String> {
        let added = match self.kept(vector) {
            Kept::F32(vector) => self.index.add(key, vector),
            Kept::F16(vector) => self.index.add(key, usearch::f16::from_i16s(&vector)),
            Kept::I8(vector) => self.index.add(key, &vector),
        };
        added.map_err(what)
    }

    /// The keys of the `count` nearest vectors that a walk finds, of those that pass, the nearest first.
    pub(super) fn nearest(
        &self,
        query: &[f32],
        count: usize,
        passes: Option<&dyn Fn(u64) -> bool>,
    ) -> Result<Vec<u64>, String> {
        let index = &self.index;
        let found = match (self.kept(query), passes) {
            (Kept::F32(query), None) => index.search(query, count),
            (Kept::F32(query), Some(passes)) => index.filtered_search(query, count, passes),
            (Kept::F16(query), None) => index.search(usearch::f16::from_i16s(&query), count),
            (Kept::F16(query), Some(passes)) => {
                index.filtered_search(usearch::f16::from_i16s(&query), count, passes)
            }
            (Kept::I8(query), None) => index.search(&query, count),
            (Kept::I8(query), Some(passes)) => index.filtered_search(&query, count, passes),
        };
        found.map(|found| found.keys).map_err(what)
    }

    /// Writes the graph into a buffer of [`Graph::bytes`] bytes.
    pub(super) fn to_bytes(&self, mut buffer: Vec<u8>) -> Result<Vec<u8>, String> {
        self.index.save_to_buffer(&mut buffer).map_err(what)?;
        Ok(buffer)
    }

    /// The bytes of the graph in a file.
    pub(super) fn bytes(&self) -> usize {
        self.index.serialized_length()
    }
}

/// A distance of vectors as a distance of pointers to their first numbers. `N` and `P` have the same form.
#[expect(unsafe_code, reason = "the library hands pointers to the vectors that it compares")]
fn of_pointers<N: 'static, P: 'static>(
    dimensions: usize,
    distance: impl Fn(&[N], &[N]) -> f32 + Send + Sync + 'static,
) -> Box<dyn Fn(*const P, *const P) -> f32 + Send + Sync> {
    const { assert!(size_of::<N>() == size_of::<P>() && align_of::<N>() == align_of::<P>()) };
    Box::new(move |a, b| {
        // SAFETY: the library calls this for two vectors of its index alone, or for one and a query: each has `dimensions` numbers
        // of the index's type, whose form is `N`'s, at a multiple of their size, and none is changed during the call.
        let (a, b) = unsafe {
            (
                std::slice::from_raw_parts(a.cast::<N>(), dimensions),
                std::slice::from_raw_parts(b.cast::<N>(), dimensions),
            )
        };
        distance(a, b)
    })
}

/// The number by which vectors are compared.
fn value(shape: &Shape) -> PairValue {
    match shape.measure {
        VectorMeasure::L2 | VectorMeasure::Cosine => PairValue::SquaredL2,
        VectorMeasure::InnerProduct => PairValue::Product,
    }
}

fn metric(shape: &Shape) -> MetricKind {
    match value(shape) {
        PairValue::SquaredL2 => MetricKind::L2sq,
        PairValue::Product => MetricKind::IP,
    }
}

fn scalar(numbers: GraphNumbers) -> ScalarKind {
    match numbers {
        GraphNumbers::F32 => ScalarKind::F32,
        GraphNumbers::F16 => ScalarKind::F16,
        GraphNumbers::I8 => ScalarKind::I8,
    }
}

fn what(error: impl std::fmt::Display) -> String {
    error.to_string()
}
