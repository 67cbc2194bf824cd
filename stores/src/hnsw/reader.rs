//! A graph that is searched.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxwork_kernels::vector::VectorMeasure;

use super::super::packed_file::{self, PackedError};
use super::error::command;
use super::graph::Graph;
use super::layout::{FORMAT, Head, MEASURE_KEY, graph_bytes};
use super::{HnswError, HnswOptions, Shape, check_built, measure};
use crate::lists::normalise_for;
use crate::space::Space;
use crate::subset::Subset;

/// The graph of a store.
#[derive(Debug)]
pub struct Hnsw {
    space: Arc<dyn Space>,
    path: PathBuf,
    shape: Shape,
    graph: Graph,
    /// Whether all ids of the store have objects.
    has_all: bool,
}

/// A graph that was read.
pub(super) struct Covered {
    pub(super) shape: Shape,
    pub(super) graph: Graph,
    /// Ids that the store had when the graph was written.
    pub(super) ids: u64,
}

/// Reads the graph of a space, with room for all its objects if it `grows`.
pub(super) fn read(
    path: &Path,
    space: &Arc<dyn Space>,
    threads: usize,
    grows: bool,
) -> Result<Covered, HnswError> {
    check_built(path)?;
    let (store, (measure, dimensions)) = (space.store(), measure(&**space)?);
    let of = |error: PackedError| HnswError::of(error, measure, store.path(), path);
    let (file, _, ids) = packed_file::first(path, FORMAT, &**store).map_err(of)?;
    let command = || command(measure, store.path(), path);
    let Some(ids) = ids else {
        let (path, store) = (path.to_owned(), store.path().to_owned());
        return Err(HnswError::OtherStore { path, store, command: command() });
    };
    let found = file.said(MEASURE_KEY).to_owned();
    if VectorMeasure::named(&found) != Some(measure) {
        let fault = format!("has a graph for {found}, and the distance here is {}", measure.name());
        return Err(HnswError::File { path: path.to_owned(), fault, command: command() });
    }
    let head = Head::of(&file).map_err(of)?;
    if head.shape.dimensions != dimensions {
        return Err(of(file.not("its head does not fit its store")));
    }
    let added = store.count(ids..store.ids_count());
    if added > 0 && !grows {
        let (path, store_path) = (path.to_owned(), store.path().to_owned());
        let objects = store.ids_count();
        return Err(HnswError::Behind { path, store: store_path, found: ids, objects });
    }
    let what = || format!("the graph `{}` while it is read", path.display());
    let bytes = graph_bytes(file, head.bytes, what)?.map_err(of)?;
    let damaged = |reason: String| {
        let (path, place) = (path.to_owned(), "its graph".to_owned());
        of(PackedError::Damaged { path, place, reason })
    };
    let room = head.objects + if grows { added } else { 0 };
    let graph = Graph::of_bytes(&head.shape, &bytes, room, threads).map_err(damaged)?;
    if graph.len() != head.objects || head.objects > ids {
        return Err(damaged("it holds another number of vectors than its head says".to_owned()));
    }
    Ok(Covered { shape: head.shape, graph, ids })
}

impl Hnsw {
    /// Reads the graph of a space, which at most `threads` threads search at once.
    ///
    /// # Errors
    /// When this build has no graphs, the file cannot be read, holds no graph, is cut short, damaged, of another version, of
    /// another store or distance, or lacks objects; or the space has no graph.
    pub fn open(path: &Path, space: &Arc<dyn Space>, threads: usize) -> Result<Self, HnswError> {
        let Covered { shape, graph, .. } = read(path, space, threads, false)?;
        let (space, path) = (Arc::clone(space), path.to_owned());
        let has_all = space.store().objects_count() == space.store().ids_count();
        Ok(Self { space, path, shape, graph, has_all })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The vectors and their distance.
    pub fn space(&self) -> &Arc<dyn Space> {
        &self.space
    }

    /// How the graph was made.
    pub fn options(&self) -> HnswOptions {
        self.shape.options
    }

    /// Numbers of a vector.
    pub fn dimensions(&self) -> usize {
        self.shape.dimensions
    }

    /// Vectors in the graph, with those that were removed since it was written.
    pub fn objects(&self) -> u64 {
        self.graph.len()
    }

    /// Prepares queries: normalises them for the cosine.
    pub fn prepare(&self, queries: &mut [f32]) {
        normalise_for(self.shape.measure, queries, self.shape.dimensions);
    }

    /// The `count` objects nearest to a [prepared](Hnsw::prepare) query that a walk through the graph finds, by the graph's own
    /// distances, the nearest first; of those in `subset` if there is one. The walk keeps `expansion` objects, or `count` if that is more:
    /// the more, the better. If there are no more objects than that, all of them come, in the order of their ids.
    ///
    /// # Errors
    /// When more threads search at once than were named, or the system has no memory.
    pub fn nearest(
        &self,
        query: &[f32],
        (expansion, count): (usize, usize),
        subset: Option<&Subset>,
    ) -> Result<Vec<u64>, HnswError> {
        let store = self.space.store();
        let objects = subset.map_or(store.objects_count(), Subset::count);
        let expansion = expansion.max(count);
        if objects <= expansion as u64 {
            return Ok(match subset {
                Some(subset) => subset.ids().collect(),
                None => store.among(0..store.ids_count()).collect(),
            });
        }
        let library = |reason| HnswError::Library { path: self.path.clone(), reason };
        let found = match subset {
            Some(subset) => self.graph.nearest(query, expansion, Some(&|id| subset.has(id))),
            None if self.has_all => self.graph.nearest(query, expansion, None),
            None => self.graph.nearest(query, expansion, Some(&|id| store.has(id))),
        };
        let mut found = found.map_err(library)?;
        // The keys are the file's.
        found.retain(|id| store.has(*id));
        found.truncate(count);
        Ok(found)
    }
}
