//! `pair_distances`: the distances of pairs of objects, by the fastest path of the machine, or on devices; of few pairs the
//! exact ones.
//!
//! Invariants: rows keep their order within an envelope; the exact distance of each pair is within the error that stands
//! beside the computed one.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use boxwork_kernels::interrupt::{Interrupt, ask};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{Access, Back, Block, DeviceError, Feed, Picked};
use boxwork_runtime::operator::{Bind, BoxError, Context, In, Kind, Operator, OperatorSpec, Out, Pushed};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::columns;
use crate::devices::code_path::of_device;
use crate::devices::stage::{BlockOutcome, DeviceStage, DeviceTask, Sizes, Taken};
use crate::quality::all_pairs::pairs_count;
use crate::resources::{self, SPACE, device_parameter};
use crate::search::distance::pairs::{DevicePairs, SqfdBlock};
use crate::search::exact_distance::pairs::ExactPairs;
use crate::search::exact_distance::{ExactBlock, UNEQUAL};
use boxwork_stores::space::{DeviceForm, Prepared, Scratch, Space};

const PAIRS: In = In::stream(0, "pairs", columns::pairs, "two objects a row");
const DISTANCES: Out = Out::new(0, "distances", columns::pair_distances, "a distance a pair");

/// Computes the distances of pairs of objects.
///
/// # Inputs
/// `pairs`: two objects a row; neighbouring rows that share one are computed together.
///
/// # Outputs
/// `distances`: a distance a pair, and how far it may be from the exact one: 0 where it is exact.
///
/// # Parameters
/// `space`: the objects and their distance. `device`: where to compute. On devices envelopes may overtake each other.
/// `exact_pairs`: if the objects of the store make no more pairs than this, the distances are the exact ones, in 64 bits, with
/// the same bits on slots and devices; for the signature quadratic form distance of large signatures these take some 30 times
/// as long as the fast ones. Of more pairs the last bits differ from device to device, as nothing behind this box computes
/// again in 64 bits.
pub static PAIR_DISTANCES: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        device_parameter("cpu"),
        Parameter::new(
            "exact_pairs",
            ParameterType::Integer { minimum: 0, maximum: i64::MAX },
            Default::Integer(EXACT_PAIRS),
            "compute in 64 bits if the objects make no more pairs than this",
        )
        .unit("pairs"),
    ],
    inputs: &[PAIRS],
    outputs: &[DISTANCES],
    example: "distances: {kind: pair_distances, space: space, copies: auto}",
    code_path: Some(|arguments, devices| of_device(arguments, devices, BLOCK_PAIRS)),
    ..OperatorSpec::new("pair_distances", "Computes distances of pairs of objects.", Kind::Stateless, make)
};

/// Pairs whose exact distances take a few seconds of a core.
const EXACT_PAIRS: i64 = 1 << 15;

/// Pairs from which on a block is worth its way, as for candidates.
const BLOCK_PAIRS: u64 = 1 << 16;

/// The slots take an envelope at a time.
const SIZES: Sizes =
    Sizes { block: [BLOCK_PAIRS, u64::MAX], block_min: [0; 2], slots: [0; 2], blocks_per_device: 6 };

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let space = resources::space(bind)?;
    let pairs = pairs_count(space.store().objects_count());
    let picked = bind.pick_devices("device", Some(pairs), BLOCK_PAIRS)?;
    let is_exact = pairs <= bind.count("exact_pairs") as u64;
    Ok(Box::new(stage(space, picked, is_exact)))
}

fn stage(space: Arc<dyn Space>, picked: Picked, is_exact: bool) -> DeviceStage<PairDistances> {
    let form = Arc::clone(&space).device_form();
    let (devices, picked) = match (form, picked.devices) {
        (Some(DeviceForm::Sqfd(sqfd)), Some((devices, allowed))) => {
            let pairs = if is_exact {
                OnDevices::Exact(ExactPairs::new(sqfd))
            } else {
                OnDevices::Fast(DevicePairs::new(sqfd, &devices, &allowed))
            };
            (Some(pairs), Some((devices, allowed)))
        }
        _ => (None, None),
    };
    let sizes = if is_exact && devices.is_some() { ExactPairs::SIZES } else { SIZES };
    DeviceStage::new(PairDistances { space, is_exact, scratch: Scratch::default(), devices }, sizes, picked)
}

/// What devices compute.
enum OnDevices {
    Fast(DevicePairs),
    Exact(ExactPairs),
}

/// A block of pairs.
enum PairBlock {
    Fast(SqfdBlock),
    Exact(ExactBlock),
}

impl PairBlock {
    fn inner(&self) -> &dyn Block {
        match self {
            Self::Fast(block) => block,
            Self::Exact(block) => block,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn Block {
        match self {
            Self::Fast(block) => block,
            Self::Exact(block) => block,
        }
    }

    fn into_envelopes(self) -> Vec<Envelope> {
        match self {
            Self::Fast(block) => block.envelopes,
            Self::Exact(block) => block.envelopes,
        }
    }
}

impl Block for PairBlock {
    fn size(&self) -> u64 {
        self.inner().size()
    }

    fn kind(&self) -> &'static str {
        self.inner().kind()
    }

    fn residents(&self) -> Vec<Access> {
        self.inner().residents()
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        self.inner_mut().feed(feed)
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.inner_mut().collect(back);
    }
}

struct PairDistances {
    space: Arc<dyn Space>,
    /// The distances are exact.
    is_exact: bool,
    scratch: Scratch,
    /// Nothing where the slots compute everything.
    devices: Option<OnDevices>,
}

impl PairDistances {
    fn devices(&self) -> &OnDevices {
        self.devices.as_ref().expect("there are blocks only where there are devices")
    }

    /// An object as a query.
    fn query(&self, id: u64, interrupt: Interrupt<'_>) -> Result<Arc<dyn Prepared>, BoxError> {
        // An envelope may have a query for each row, and one takes some ten microseconds.
        ask(interrupt)?;
        let object = self.space.store().objects(&[id])?;
        Ok(Arc::clone(&self.space).prepare_until(&object, 0, interrupt)?)
    }
}

/// How far fast distances from a query may be from the exact ones.
fn errors_of(
    query: &dyn Prepared,
    ids: &[u64],
    distances: &[f64],
    interrupt: Interrupt<'_>,
) -> Result<Vec<f64>, BoxError> {
    query.see(ids, interrupt)?;
    // Twice, as `widened` starts from an exact distance.
    Ok(distances.iter().map(|distance| 2.0 * (query.widened(*distance) - distance)).collect())
}

/// Neighbouring rows that share an object.
struct Run<'a> {
    rows: Range<usize>,
    fixed: u64,
    others: &'a [u64],
}

/// The rows of pairs in runs, each as long as it can be.
fn runs<'a>(a: &'a [u64], b: &'a [u64]) -> impl Iterator<Item = Run<'a>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let same = |side: &[u64]| side[start..].iter().take_while(|id| **id == side[start]).count();
        let (with_a, with_b) = (same(a), same(b));
        let (fixed, others, length) = if with_a >= with_b { (a, b, with_a) } else { (b, a, with_b) };
        let rows = start..start + length;
        start = rows.end;
        (length > 0).then(|| Run { fixed: fixed[rows.start], others: &others[rows.clone()], rows })
    })
}

impl DeviceTask for PairDistances {
    type Item = Envelope;
    type Block = PairBlock;
    type Made = Envelope;

    const IS_ORDERED: bool = false;

    fn take(&mut self, cx: &mut Context<'_>, device: bool) -> Result<Option<Taken<Envelope>>, BoxError> {
        let Some(pairs) = cx.take(PAIRS) else { return Ok(None) };
        let weight = match &self.devices {
            Some(OnDevices::Exact(exact)) if device => exact.weight(cx, &pairs)?,
            _ => [pairs.rows() as u64, 0],
        };
        Ok(Some(Taken::Piece(pairs, weight)))
    }

    fn is_ended(&self, cx: &Context<'_>) -> bool {
        cx.is_ended(PAIRS)
    }

    fn block(&mut self, cx: &mut Context<'_>, envelopes: Vec<Envelope>) -> Result<PairBlock, BoxError> {
        Ok(match self.devices() {
            OnDevices::Fast(pairs) => PairBlock::Fast(pairs.block(cx, envelopes)?),
            OnDevices::Exact(pairs) => PairBlock::Exact(pairs.block(cx, envelopes)?),
        })
    }

    fn finish(&mut self, cx: &mut Context<'_>, block: PairBlock) -> Result<BlockOutcome<Self>, BoxError> {
        let cancelled = cx.cancelled();
        let mut made = Vec::new();
        let found = match (self.devices(), block) {
            (OnDevices::Fast(pairs), PairBlock::Fast(block)) => pairs.distances(block, &cancelled)?,
            (OnDevices::Exact(pairs), PairBlock::Exact(block)) => {
                let Some(distances) = pairs.distances(&block, &cancelled)? else {
                    cx.report(block.device, UNEQUAL);
                    return Ok(BlockOutcome::Untrusted(block.envelopes));
                };
                for (pairs, distances) in block.envelopes.iter().zip(distances) {
                    let errors = vec![0.0; distances.len()];
                    made.push(with_distances(pairs, distances, errors)?);
                }
                return Ok(BlockOutcome::Made(made));
            }
            _ => unreachable!("the blocks are made by the same devices"),
        };
        for (pairs, distances) in found {
            let (a, b) = (pairs.u64s("a")?, pairs.u64s("b")?);
            let mut errors = Vec::with_capacity(distances.len());
            for run in runs(a, b) {
                let query = self.query(run.fixed, &cancelled)?;
                errors.extend(errors_of(&*query, run.others, &distances[run.rows], &cancelled)?);
            }
            made.push(with_distances(&pairs, distances, errors)?);
        }
        Ok(BlockOutcome::Made(made))
    }

    fn failed(&mut self, block: PairBlock, _: bool) -> BlockOutcome<Self> {
        BlockOutcome::Fallback(block.into_envelopes())
    }

    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Envelope>,
    ) -> Result<Vec<Envelope>, BoxError> {
        let Some(pairs) = left.pop_front() else { return Ok(Vec::new()) };
        // The box that sends pairs continues while these are computed.
        cx.announce();
        let (a, b) = (pairs.u64s("a")?, pairs.u64s("b")?);
        let store = self.space.store();
        for ids in [a, b] {
            resources::bring_in(cx, &**store, ids)?;
        }
        let (mut distances, mut errors) = (vec![0.0; a.len()], Vec::with_capacity(a.len()));
        let interrupt = cx.cancelled();
        if self.is_exact {
            let pairs: Vec<[u64; 2]> = a.iter().zip(b).map(|(a, b)| [*a, *b]).collect();
            self.space.between_until(&pairs, &mut distances, &interrupt)?;
            errors.resize(a.len(), 0.0);
        } else {
            for run in runs(a, b) {
                let query = self.query(run.fixed, &interrupt)?;
                let mut order: Vec<usize> = (0..run.others.len()).collect();
                order.sort_unstable_by_key(|row| run.others[*row]);
                let ids: Vec<u64> = order.iter().map(|row| run.others[*row]).collect();
                let mut found = vec![0.0; ids.len()];
                query.fast_until(&mut self.scratch, &ids, &mut found, &interrupt)?;
                for (row, distance) in order.into_iter().zip(found) {
                    distances[run.rows.start + row] = distance;
                }
                errors.extend(errors_of(&*query, run.others, &distances[run.rows], &interrupt)?);
            }
        }
        store.confirm()?;
        Ok(vec![with_distances(&pairs, distances, errors)?])
    }

    fn has_room(&self, cx: &Context<'_>) -> bool {
        cx.has_room(DISTANCES)
    }

    fn push(&mut self, cx: &mut Context<'_>, made: Envelope) -> Result<Pushed, BoxError> {
        cx.push(DISTANCES, made)
    }
}

fn with_distances(pairs: &Envelope, distances: Vec<f64>, errors: Vec<f64>) -> Result<Envelope, BoxError> {
    let columns: [(&str, ArrayRef); 4] = [
        ("a", Arc::clone(pairs.column("a")?)),
        ("b", Arc::clone(pairs.column("b")?)),
        ("distance", Arc::new(Float64Array::from(distances))),
        ("error", Arc::new(Float64Array::from(errors))),
    ];
    Ok(Envelope::from_columns(columns)?)
}

#[cfg(test)]
mod tests {
    use arrow_array::UInt64Array;
    use boxwork_runtime::feeding::Options;
    use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use crate::quality::all_pairs::pair;
    use boxwork_stores::sqfd_space::SqfdSpace;
    use boxwork_stores::testing;

    /// All pairs of a store's objects, in envelopes of so many, on devices that may fail at a call.
    fn check_on_devices(space: &Arc<SqfdSpace>, plan: Plan, rows: usize, is_exact: bool) {
        let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
        let (is_lost, is_sound) = (plan.for_good, plan.call == 0);
        let (driver, devices) = Faulty::devices(plan, Options { cache, ..Options::default() });
        let Ok(devices) = devices else { return };
        let objects = space.store().objects();
        let all: Vec<(u64, u64)> = (0..pairs_count(objects)).map(|group| pair(group, objects)).collect();
        let allowed: Arc<[usize]> = (0..devices.list().len()).collect();
        let picked = Picked {
            devices: Some((Arc::clone(&devices), allowed)),
            reason: "the test has picked".to_owned(),
        };
        let mut harness =
            Harness::of(&PAIR_DISTANCES, Box::new(stage(testing::any_space(space), picked, is_exact)));
        harness.room(2);
        for rows in all.chunks(rows) {
            let column = |of: fn(&(u64, u64)) -> u64| -> ArrayRef {
                Arc::new(UInt64Array::from_iter_values(rows.iter().map(of)))
            };
            let columns = [("a", column(|pair| pair.0)), ("b", column(|pair| pair.1))];
            harness.give(PAIRS, Envelope::from_columns(columns).unwrap());
        }
        harness.end(PAIRS);
        let mut found = std::collections::BTreeMap::new();
        while !harness.is_done() {
            harness.run().unwrap();
            for envelope in harness.taken(DISTANCES) {
                let ids = envelope.u64s("a").unwrap().iter().zip(envelope.u64s("b").unwrap());
                let errors = envelope.f64s("error").unwrap();
                for (((a, b), distance), error) in ids.zip(envelope.f64s("distance").unwrap()).zip(errors) {
                    assert_eq!(found.insert((*a, *b), (*distance, *error)), None, "{a} and {b} came twice");
                }
            }
        }
        assert_eq!(found.len(), all.len());
        for ((a, b), (found, error)) in found {
            let exact = space.store().read(|objects| space.between(objects, a, b)).unwrap();
            assert!((found - exact).abs() <= error, "{a} and {b}: {found} within {error}, not {exact}");
            assert!(if is_exact { error == 0.0 } else { error < 1e-3 }, "{a} and {b}: within {error}");
        }
        // The box gives up the buffers of a silent device, which may still write to them.
        drop(harness);
        if is_sound {
            let computed: u64 = devices.statistics().iter().map(|of_device| of_device.size).sum();
            let terms = |(a, b): &(u64, u64)| {
                let centroids =
                    |id| space.store().read(|objects| objects.signature(id).map(|found| found.len()));
                (centroids(*a).unwrap() * centroids(*b).unwrap()) as u64
            };
            let all = if is_exact { all.iter().map(terms).sum() } else { all.len() as u64 };
            assert_eq!((computed, devices.take_warnings()), (all, Vec::new()), "all on devices");
        }
        drop(devices);
        assert!(is_lost || driver.left().is_empty(), "{:?} are left", driver.left());
    }

    #[test]
    fn distances_of_pairs_come_from_devices_or_in_spite_of_them() {
        if !has_device("distances_of_pairs_come_from_devices_or_in_spite_of_them") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let space = testing::space(testing::store(folder.path(), 90));
        for (rows, appears_as) in [(5000, 1), (100, 2)] {
            for is_exact in [false, true] {
                check_on_devices(&space, Plan { appears_as, ..Plan::default() }, rows, is_exact);
            }
        }
        for call in (6..80).step_by(5) {
            for for_good in [false, true] {
                for is_exact in [false, true] {
                    let plan = Plan { call, for_good, appears_as: 1, ..Plan::default() };
                    check_on_devices(&space, plan, 1000, is_exact);
                }
            }
        }
    }

    #[test]
    fn distances_of_few_pairs_are_exact_and_others_within_their_errors() {
        let folder = tempfile::tempdir().unwrap();
        let space = testing::space(testing::store(folder.path(), 30));
        let (a, b): (Vec<u64>, Vec<u64>) =
            [(0, 3), (0, 9), (0, 1), (2, 7), (5, 7), (4, 4), (29, 8)].into_iter().unzip();
        // The objects make 435 pairs.
        for (exact_pairs, is_exact) in [(435, true), (434, false)] {
            let columns: [(&str, ArrayRef); 2] = [
                ("a", Arc::new(UInt64Array::from(a.clone()))),
                ("b", Arc::new(UInt64Array::from(b.clone()))),
            ];
            let resource: Resource = testing::shared_space(&space);
            let given = [("space", Value::Text("s".into())), ("exact_pairs", Value::Integer(exact_pairs))];
            let mut harness = Harness::with_resources(&PAIR_DISTANCES, given, [("s", resource)]).unwrap();
            harness.give(PAIRS, Envelope::from_columns(columns).unwrap());
            harness.end(PAIRS);
            harness.run().unwrap();
            assert!(harness.is_done());
            let envelopes = harness.taken(DISTANCES);
            assert_eq!(envelopes[0].u64s("a").unwrap(), a);
            let (found, errors) =
                (envelopes[0].f64s("distance").unwrap(), envelopes[0].f64s("error").unwrap());
            for row in 0..a.len() {
                let exact = space.store().read(|objects| space.between(objects, a[row], b[row])).unwrap();
                let (found, error) = (found[row], errors[row]);
                assert!((found - exact).abs() <= error, "{found} within {error}, not {exact}");
                assert_eq!(error == 0.0, is_exact, "{error}");
            }
        }
    }

    #[test]
    fn a_cancelled_request_computes_no_pair_of_small_signatures() {
        let folder = tempfile::tempdir().unwrap();
        let space = testing::space(testing::store(folder.path(), 30));
        space.store().bring_in(0..30).unwrap();
        for exact_pairs in [435, 0] {
            let columns: [(&str, ArrayRef); 2] = [
                ("a", Arc::new(UInt64Array::from(vec![0, 2]))),
                ("b", Arc::new(UInt64Array::from(vec![1, 3]))),
            ];
            let resource: Resource = testing::shared_space(&space);
            let given = [("space", Value::Text("s".into())), ("exact_pairs", Value::Integer(exact_pairs))];
            let mut harness = Harness::with_resources(&PAIR_DISTANCES, given, [("s", resource)]).unwrap();
            harness.give(PAIRS, Envelope::from_columns(columns).unwrap());
            harness.end(PAIRS);
            harness.cancel();
            let error = harness.run().unwrap_err().to_string();
            assert!(error.contains("interrupted"), "{error}");
        }
    }

    #[test]
    fn runs_of_rows_share_an_object() {
        let (a, b) = ([0, 0, 1, 5, 4], [1, 2, 2, 2, 4]);
        let found: Vec<_> = runs(&a, &b).map(|run| (run.rows, run.fixed, run.others.to_vec())).collect();
        assert_eq!(found, [(0..2, 0, vec![1, 2]), (2..4, 2, vec![1, 5]), (4..5, 4, vec![4])]);
        assert_eq!(runs(&[], &[]).count(), 0);
    }
}
