//! `permutation_candidates`: the objects whose permutations are most similar to each query's.
//!
//! Invariant: candidates are the same for any number of workers. They need not have the nearest objects among them: the sinks of
//! such a search mark its results as not exact.

use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_kernels::permutation::{Comparison, LENGTH_MAX, Measure};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::permutations::{PermutationError, Permutations};

use crate::columns;
use crate::search::queries::{K, Queries};

/// Candidates for each object to find, if the parameter does not say.
const PER_OBJECT: u64 = 20;
/// One of so many objects is a candidate, if that is more.
pub(super) const SHARE: u64 = 50;

const QUERIES: In = In::side(0, "queries", columns::queries, "the queries");
const CANDIDATES: Out =
    Out::new(0, "candidates", columns::candidates, "the objects with the most similar permutations");

/// Emits the objects whose permutations of pivots are most similar to each query's.
///
/// # Inputs
/// `queries` (side): the queries.
///
/// # Outputs
/// `candidates`: for each query its candidates, ids ascending, with the lower bound minus infinity.
///
/// # Parameters
/// `permutations`: of the store that is searched. `candidates`: how many a query gets, and at least `k`; 0 for the larger of 20 `k`
/// and 2 % of the objects. `k`: the number of objects that a query returns. `measure`: how permutations are compared. `query_pivots`: how many
/// of the first pivots of a query count, 0 for all. `max_shift`: the largest difference of positions of a pivot that counts.
pub(crate) static PERMUTATION_CANDIDATES: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "permutations",
            ParameterType::Resource("permutation_table"),
            Default::Required,
            "the permutations of the store that is searched",
        ),
        K,
        Parameter::new(
            "candidates",
            ParameterType::integer_from(0),
            Default::Integer(0),
            "objects whose distances are computed, for each query; 0: the larger of 20 k and 2 % of all",
        )
        .unit("objects"),
        Parameter::new(
            "measure",
            ParameterType::Choice(Measure::NAMES),
            Default::Text("footrule"),
            "footrule: the sum of the differences of positions; rho: of their squares",
        ),
        Parameter::new(
            "query_pivots",
            ParameterType::Integer { minimum: 0, maximum: LENGTH_MAX as i64 },
            Default::Integer(0),
            "only so many of the first pivots of a query count as shared with an object: faster, and less is found; 0: all",
        ),
        Parameter::new(
            "max_shift",
            ParameterType::Integer { minimum: 0, maximum: LENGTH_MAX as i64 },
            Default::Integer(LENGTH_MAX as i64),
            "a pivot counts as shared only if its positions in both lists differ by at most this: faster, and less is found",
        ),
    ],
    inputs: &[QUERIES],
    outputs: &[CANDIDATES],
    example: "nearest: {kind: permutation_candidates, permutations: permutations, k: 10}",
    ..OperatorSpec::new(
        "permutation_candidates",
        "Emits the objects that see the pivots in the most similar order.",
        Kind::Stateful,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let permutations: Arc<Permutations> = bind.resource("permutations")?;
    let (k, given) = (bind.count("k") as u64, bind.count("candidates") as u64);
    let objects = permutations.maker().space().store().objects_count();
    let wanted = if given == 0 { (PER_OBJECT * k).max(objects / SHARE) } else { given };
    Ok(Box::new(Candidates {
        permutations,
        raised: (given > 0 && given < k).then_some((given, k)),
        count: wanted.max(k).min(objects) as usize,
        comparison: Comparison {
            measure: bind.text("measure").parse().map_err(|error: String| BoxError::new(error))?,
            query_pivots: match bind.count("query_pivots") {
                0 => usize::MAX,
                pivots => pivots,
            },
            max_shift: bind.count("max_shift"),
        },
        found: None,
    }))
}

/// The number of a query, and its candidates.
type Found = (u32, Vec<u64>);

struct Candidates {
    permutations: Arc<Permutations>,
    count: usize,
    /// The candidates asked for and the larger number that a query gets, if that is `k`.
    raised: Option<(u64, u64)>,
    comparison: Comparison,
    /// Those that have not left yet, the last query first; set by the first firing.
    found: Option<Vec<Found>>,
}

/// The objects with the most similar permutations of each query, the most similar first.
pub(super) fn find(
    cx: &mut Context<'_>,
    queries: In,
    permutations: &Permutations,
    comparison: Comparison,
    count: usize,
) -> Result<Vec<Found>, BoxError> {
    let space = permutations.maker().space();
    let queries = Queries::of_side(cx, queries, space)?;
    let store = space.store();
    crate::resources::bring_in(cx, &**store, permutations.maker().pivots())?;
    let mut found: Vec<Found> = queries.iter().map(|query| (query.number, Vec::new())).collect();
    let failed: OnceLock<PermutationError> = OnceLock::new();
    cx.inside(|inside| {
        let cancelled = inside.cancelled();
        inside.for_each_chunk_of(&mut found, 1, |first, found| {
            for (place, (_, ids)) in (first..).zip(found) {
                match permutations.candidates(&*queries.at(place).prepared, comparison, count, &cancelled) {
                    Ok(candidates) => *ids = candidates,
                    // The first error is reported.
                    Err(error) => drop(failed.set(error)),
                }
            }
        });
    });
    if let Some(error) = failed.into_inner().filter(|_| !cx.is_cancelled()) {
        return Err(error.into());
    }
    store.confirm()?;
    cx.count("objects compared by permutations", store.objects_count() * queries.len() as u64);
    Ok(found)
}

impl Candidates {
    fn find(&self, cx: &mut Context<'_>) -> Result<Vec<Found>, BoxError> {
        let mut found = find(cx, QUERIES, &self.permutations, self.comparison, self.count)?;
        found.iter_mut().for_each(|(_, ids)| ids.sort_unstable());
        cx.count("candidates", (self.count * found.len()) as u64);
        found.reverse();
        Ok(found)
    }
}

impl Operator for Candidates {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.found.is_none() {
            if let Some((given, k)) = self.raised {
                cx.note(format!("{given} candidates are too few for the {k} objects to find: {k} are taken"));
            }
            self.found = Some(self.find(cx)?);
        }
        while let Some((query, ids)) = self.found.as_mut().and_then(Vec::pop) {
            if !cx.has_room(CANDIDATES) {
                if let Some(found) = &mut self.found {
                    found.push((query, ids));
                }
                return Ok(Flow::Wait);
            }
            let count = ids.len();
            let columns: [(&str, ArrayRef); 3] = [
                ("query", Arc::new(UInt32Array::from(vec![query; count]))),
                ("id", Arc::new(UInt64Array::from(ids))),
                ("lower", Arc::new(Float64Array::from(vec![columns::NO_BOUND; count]))),
            ];
            if cx.push(CANDIDATES, Envelope::from_columns(columns)?)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Done)
    }
}
