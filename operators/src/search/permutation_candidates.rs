//! `permutation_candidates`: the objects whose permutations are most similar to each query's.
//!
//! Invariant: candidates are the same for any number of workers, and on devices. They need not have the nearest objects among them: the sinks of
//! such a search mark its results as not exact.

mod block;
mod scan;

use std::sync::{Arc, OnceLock};

use boxwork_kernels::permutation::{Comparison, LENGTH_MAX, Measure};
use boxwork_runtime::operator::{Bind, BoxError, Context, In, Kind, Operator, OperatorSpec, Out};
use boxwork_runtime::parameter::{Default, DeviceChoice, Parameter, ParameterType};
use boxwork_stores::permutations::{Layout, PermutationError, Permutations};

use self::block::Scanned;
use self::scan::CandidatesScan;
use crate::columns;
use crate::devices::code_path;
use crate::devices::stage::DeviceStage;
use crate::resources::device_parameter;
use crate::search::queries::{K, Queries};

/// Candidates for each object to find, if the parameter does not say.
const PER_OBJECT: u64 = 20;
/// One of so many objects is a candidate, if that is more.
pub(super) const SHARE: u64 = 50;
/// From this many objects on `auto` takes GPUs.
const DEVICE_OBJECTS_MIN: u64 = 1 << 18;

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
/// of the first pivots of a query count, 0 for all. `max_shift`: the largest difference of positions of a pivot that counts. `device`: where lists are
/// scanned; inverted ones are read by slots.
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
        device_parameter("auto"),
    ],
    inputs: &[QUERIES],
    outputs: &[CANDIDATES],
    code_path: Some(|arguments, devices| code_path::of_device(arguments, devices, DEVICE_OBJECTS_MIN)),
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
    let count = wanted.max(k).min(objects) as usize;
    let comparison = Comparison {
        measure: bind.text("measure").parse().map_err(|error: String| BoxError::new(error))?,
        query_pivots: match bind.count("query_pivots") {
            0 => usize::MAX,
            pivots => pivots,
        },
        max_shift: bind.count("max_shift"),
    };
    let picked = bind.pick_devices("device", Some(objects), DEVICE_OBJECTS_MIN)?;
    let scanned = picked.devices.as_ref().and_then(|_| Scanned::new(&permutations, comparison, count));
    let is_asked = !matches!(bind.device("device"), DeviceChoice::Auto | DeviceChoice::Cpu);
    let note = if given > 0 && given < k {
        Some(format!("{given} candidates are too few for the {k} objects to find: {k} are taken"))
    } else if is_asked && scanned.is_none() {
        Some(match permutations.layout() {
            Layout::Inverted => {
                "permutations are inverted, which slots read: devices scan them, with `layout: scan`"
                    .to_owned()
            }
            _ => "measures of such permutations are too large for devices: slots compare them".to_owned(),
        })
    } else {
        None
    };
    let devices = picked.devices.filter(|_| scanned.is_some());
    let task = CandidatesScan::new(permutations, (comparison, count), bind.slots(), scanned, note);
    Ok(Box::new(DeviceStage::new(task, scan::SIZES, devices)))
}

/// The objects with the most similar permutations of each query, the most similar first.
pub(super) fn find(
    cx: &mut Context<'_>,
    queries: In,
    permutations: &Permutations,
    comparison: Comparison,
    count: usize,
) -> Result<Vec<(u32, Vec<u64>)>, BoxError> {
    let space = permutations.maker().space();
    let queries = Queries::of_side(cx, queries, space)?;
    let store = space.store();
    crate::resources::bring_in(cx, &**store, permutations.maker().pivots())?;
    let mut found: Vec<(u32, Vec<u64>)> = queries.iter().map(|query| (query.number, Vec::new())).collect();
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
