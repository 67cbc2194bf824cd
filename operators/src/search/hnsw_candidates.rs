//! `hnsw_candidates`: the objects nearest to each query that walks through a graph of near neighbours find.
//!
//! Invariant: candidates are the same for any number of workers, given the file. They need not have the nearest objects among
//! them: the sinks of such a search mark its results as not exact.

use std::sync::{Arc, OnceLock};

use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::hnsw::{EXPANSION_MAX, Hnsw, HnswError};

use crate::columns;
use crate::search::queries::K;
use crate::search::scan_lists::{Found, query_vectors};
use crate::search::subset::{Among, CLASS, IDS, SUBSET, is_few};

const QUERIES: In = In::side(0, "queries", columns::queries, "the queries");
const CANDIDATES: Out =
    Out::new(0, "candidates", columns::candidates, "objects that may be among the nearest to each query");

/// Finds objects near each query by a walk through a graph of near neighbours.
///
/// A walk keeps the `expansion` nearest vectors that it has met; the `refine` times k nearest of them by the numbers of the graph
/// are candidates. Distances and order are left to the boxes that follow. If there are no more objects than a walk keeps, all are
/// candidates.
///
/// Walks pass through objects outside `class`, `subset` and `ids`, and keep those inside. If fewer than one of 100 objects are inside,
/// all of these are candidates.
///
/// Only builds with the feature `graph` run it.
///
/// # Inputs
/// `queries` (side): vectors.
///
/// # Outputs
/// `candidates`: by query, ids ascending. Their lower bounds are minus infinity.
///
/// # Parameters
/// `graph`: the graph of the store that is searched. `k`: the objects that a query asks for. `expansion`: vectors that a walk keeps; more
/// find more of the answer. `refine`: candidates for each object of an answer. `class`, `subset`, `ids`: only these objects.
pub static HNSW_CANDIDATES: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "graph",
            ParameterType::Resource("hnsw"),
            Default::Required,
            "the graph of the store that is searched",
        ),
        K,
        Parameter::new(
            "expansion",
            ParameterType::Integer { minimum: 1, maximum: EXPANSION_MAX as i64 },
            Default::Integer(64),
            "vectors that a walk keeps, at least the candidates",
        )
        .unit("vectors"),
        Parameter::new(
            "refine",
            ParameterType::Integer { minimum: 1, maximum: 1 << 20 },
            Default::Integer(2),
            "candidates for each object of an answer",
        ),
        CLASS,
        SUBSET,
        IDS,
    ],
    inputs: &[QUERIES],
    outputs: &[CANDIDATES],
    example: "near: {kind: hnsw_candidates, graph: graph, k: 10, expansion: 64}",
    ..OperatorSpec::new(
        "hnsw_candidates",
        "Finds objects near each query by a graph of near neighbours.",
        Kind::Stateful,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let kept = bind.count("k").saturating_mul(bind.count("refine"));
    Ok(Box::new(Candidates {
        graph: bind.resource::<Hnsw>("graph")?,
        kept,
        expansion: bind.count("expansion"),
        among: Among::new(bind),
        found: None,
    }))
}

struct Candidates {
    graph: Arc<Hnsw>,
    /// Candidates of a query.
    kept: usize,
    /// Vectors that a walk keeps.
    expansion: usize,
    among: Among,
    /// The candidates of all queries, once found.
    found: Option<Found>,
}

impl Candidates {
    /// The candidates by query; `None` if the request is being cancelled.
    fn find(&self, cx: &mut Context<'_>) -> Result<Option<Vec<(u32, u64)>>, BoxError> {
        let (graph, store) = (&*self.graph, self.graph.space().store());
        let subset = self.among.read(cx, &**store)?;
        let subset = subset.as_deref();
        let asked = cx.side(QUERIES).to_vec();
        let (numbers, mut vectors) = query_vectors(cx, &asked, graph.dimensions())?;
        graph.prepare(&mut vectors);
        if let Some(few) = subset.filter(|subset| is_few(subset, &**store)) {
            let each = numbers.iter().flat_map(|number| few.ids().map(move |id| (*number, id)));
            return Ok(Some(each.collect()));
        }
        let mut found: Vec<Vec<u64>> = vec![Vec::new(); numbers.len()];
        let failed: OnceLock<HnswError> = OnceLock::new();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut found, 1, |place, found| {
                if cancelled() || failed.get().is_some() {
                    return;
                }
                let query = &vectors[place * graph.dimensions()..][..graph.dimensions()];
                match graph.nearest(query, (self.expansion, self.kept), subset) {
                    Ok(ids) => found[0] = ids,
                    // The first error is reported.
                    Err(error) => drop(failed.set(error)),
                }
                // In the order of the store, as boxes that compute distances read it.
                found[0].sort_unstable();
            });
        });
        if cx.is_cancelled() {
            return Ok(None);
        }
        if let Some(error) = failed.into_inner() {
            return Err(error.into());
        }
        let each = numbers.into_iter().zip(found);
        let found: Vec<(u32, u64)> =
            each.flat_map(|(number, ids)| ids.into_iter().map(move |id| (number, id))).collect();
        cx.count("candidates", found.len() as u64);
        Ok(Some(found))
    }
}

impl Operator for Candidates {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.found.is_none() {
            self.found = self.find(cx)?.map(Found::new);
        }
        self.found.as_mut().map_or(Ok(Flow::Done), |found| found.give(cx, CANDIDATES))
    }
}
