//! Vectors in a graph of near neighbours with levels (HNSW): a query walks from vector to nearer vector, so its answer may miss
//! objects.
//!
//! It is the content of `*.hnsw.arrow` (`hnsw/layout.rs`). The graph is the library `usearch`'s, behind the feature `graph`; without
//! it every call that needs one is refused with an error that names the build. Distances within the graph are ours: of f32, f16 or
//! i8 numbers, by `boxwork_kernels::vector::pair`. They choose candidates; exact distances are left to the caller.
//!
//! For the cosine, the graph holds normalised vectors and compares squared distances. All of it is in memory while it is open.
//!
//! Invariants: the library reads no byte before its checksum is verified. A graph belongs to one content of a store, by its
//! fingerprint; any other file is refused with the command that makes it or brings it up. Objects that were removed since stay
//! in the graph as steps of a walk, and are never found.

mod error;
mod layout;
#[cfg(feature = "graph")]
mod graph;
#[cfg(not(feature = "graph"))]
#[path = "hnsw/no_graph.rs"]
mod graph;
mod reader;
mod builder;

use std::path::Path;
use std::sync::Arc;

use boxwork_kernels::vector::VectorMeasure;

pub use builder::{CONNECTIVITY_MAX, EXPANSION_MAX, HnswBuilder};
pub use error::HnswError;
pub(crate) use layout::FORMAT;
pub use reader::Hnsw;

use crate::kinds::{Kind, Vectors};
use crate::lists::{ListsError, vectors_for};
use crate::object_store::ObjectStore;
use crate::space::Space;
use crate::store::Store;

/// The type of the numbers in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphNumbers {
    /// 32 bits of floating point.
    F32,
    /// 16 bits of floating point, up to 65,504.
    F16,
    /// From -127 to 127, in equal steps over the numbers of the store.
    I8,
}

impl GraphNumbers {
    /// The names of all types.
    pub const NAMES: &[&str] = &["f32", "f16", "i8"];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::I8 => "i8",
        }
    }

    /// The type of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::F32, Self::F16, Self::I8].into_iter().find(|numbers| numbers.name() == name)
    }
}

/// How a graph is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HnswOptions {
    /// Neighbours of a vector on the levels above the lowest, which has twice as many.
    pub connectivity: usize,
    /// Vectors that are kept while the neighbours of a new one are searched.
    pub expansion: usize,
    /// The numbers of the vectors.
    pub numbers: GraphNumbers,
}

/// What the library must know of a graph before it reads one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    dimensions: usize,
    measure: VectorMeasure,
    options: HnswOptions,
    /// The number that is 0 as an i8, and the steps of a unit.
    middle: f32,
    steps: f32,
}

/// Refuses a build without graphs, naming the file that it was asked for.
///
/// # Errors
/// In such a build.
pub fn check_built(path: &Path) -> Result<(), HnswError> {
    match graph::IS_BUILT {
        true => Ok(()),
        false => Err(HnswError::NotBuilt { path: path.to_owned() }),
    }
}

/// The measure of a space of vectors and their dimensions.
fn measure(space: &dyn Space) -> Result<(VectorMeasure, usize), HnswError> {
    let vectors = ObjectStore::<Vectors>::of(space.store());
    let Some((vectors, measure)) = vectors.zip(VectorMeasure::named(&space.measure())) else {
        return Err(HnswError::NoGraph { measure: space.measure() });
    };
    Ok((measure, vectors.kind().dimensions()))
}

/// The vectors of some objects that are in memory, as f32, normalised for the cosine.
fn rows(shape: &Shape, store: &Arc<dyn Store>, ids: &[u64]) -> Result<Vec<f32>, HnswError> {
    vectors_for(shape.measure, &**store, ids, shape.dimensions).map_err(|error| match error {
        ListsError::Store(error) => HnswError::Store(error),
        other => HnswError::Options(other.to_string()),
    })
}
