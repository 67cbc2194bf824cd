//! `pair_distances`: the distances of pairs of objects, by the fastest path of the machine, or on devices.
//!
//! Invariant: rows keep their order within an envelope.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::Picked;
use boxwork_runtime::operator::{Bind, BoxError, Context, In, Kind, Operator, OperatorSpec, Out, Pushed};

use crate::columns;
use crate::devices::code_path::of_device;
use crate::devices::stage::{Came, DeviceStage, DeviceTask, Sizes, Taken};
use crate::quality::all_pairs::pairs_count;
use crate::resources::{self, SPACE, device_parameter};
use crate::search::distance::pairs::{DevicePairs, SqfdBlock};
use boxwork_stores::space::{DeviceForm, Scratch, Space};

const PAIRS: In = In::stream(0, "pairs", columns::pairs, "two objects a row");
const DISTANCES: Out = Out::new(0, "distances", columns::pair_distances, "a distance a pair");

/// Computes the distances of pairs of objects.
///
/// # Inputs
/// `pairs`: two objects a row; neighbouring rows that share one are computed together.
///
/// # Outputs
/// `distances`: a distance a pair, by the fast path.
///
/// # Parameters
/// `space`: the objects and their distance. `device`: where to compute; the last bits differ from device to device, as nothing
/// behind this box computes again in 64 bits. On devices envelopes may overtake each other.
pub static PAIR_DISTANCES: OperatorSpec = OperatorSpec {
    parameters: &[SPACE, device_parameter("cpu")],
    inputs: &[PAIRS],
    outputs: &[DISTANCES],
    example: "distances: {kind: pair_distances, space: space, copies: auto}",
    code_path: Some(|arguments, devices| of_device(arguments, devices, BLOCK_PAIRS)),
    ..OperatorSpec::new("pair_distances", "Computes distances of pairs of objects.", Kind::Stateless, make)
};

/// Pairs from which on a block is worth its way, as for candidates.
const BLOCK_PAIRS: u64 = 1 << 16;

/// The slots take an envelope at a time.
const SIZES: Sizes =
    Sizes { block: [BLOCK_PAIRS, u64::MAX], block_min: [0; 2], slots: [0; 2], blocks_per_device: 6 };

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let space = resources::space(bind)?;
    let pairs = pairs_count(space.store().objects_count());
    let picked = bind.pick_devices("device", Some(pairs), BLOCK_PAIRS)?;
    Ok(Box::new(stage(space, picked)))
}

fn stage(space: Arc<dyn Space>, picked: Picked) -> DeviceStage<PairDistances> {
    let form = Arc::clone(&space).device_form();
    let (devices, picked) = match (form, picked.devices) {
        (Some(DeviceForm::Sqfd(sqfd)), Some((devices, allowed))) => {
            (Some(DevicePairs::new(sqfd, &devices, &allowed)), Some((devices, allowed)))
        }
        _ => (None, None),
    };
    DeviceStage::new(PairDistances { space, scratch: Scratch::default(), devices }, SIZES, picked)
}

struct PairDistances {
    space: Arc<dyn Space>,
    scratch: Scratch,
    /// Nothing where the slots compute everything.
    devices: Option<DevicePairs>,
}

impl PairDistances {
    fn devices(&self) -> &DevicePairs {
        self.devices.as_ref().expect("there are blocks only where there are devices")
    }
}

impl DeviceTask for PairDistances {
    type Item = Envelope;
    type Block = SqfdBlock;
    type Made = Envelope;

    const IS_ORDERED: bool = false;

    fn take(&mut self, cx: &mut Context<'_>, _: bool) -> Result<Option<Taken<Envelope>>, BoxError> {
        Ok(Taken::next(cx, PAIRS, |pairs| [pairs.rows() as u64, 0]))
    }

    fn is_ended(&self, cx: &Context<'_>) -> bool {
        cx.is_ended(PAIRS)
    }

    fn block(&mut self, cx: &mut Context<'_>, envelopes: Vec<Envelope>) -> Result<SqfdBlock, BoxError> {
        self.devices().block(cx, envelopes)
    }

    fn finish(&mut self, _: &mut Context<'_>, block: SqfdBlock) -> Result<Came<Self>, BoxError> {
        let found = self.devices().distances(block)?.into_iter();
        let made = found.map(|(pairs, distances)| with_distances(&pairs, distances));
        Ok(Came::Made(made.collect::<Result<_, _>>()?))
    }

    fn failed(&mut self, block: SqfdBlock, _: bool) -> Came<Self> {
        Came::Left(block.envelopes)
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
            if !store.is_in(ids) {
                cx.detached("disk", || store.bring_in(ids))??;
            }
        }
        let mut distances = vec![0.0; a.len()];
        let mut start = 0;
        while start < a.len() {
            let same = |side: &[u64]| side[start..].iter().take_while(|id| **id == side[start]).count();
            let (with_a, with_b) = (same(a), same(b));
            let (fixed, others, length) = if with_a >= with_b { (a, b, with_a) } else { (b, a, with_b) };
            let query = store.objects(&[fixed[start]])?;
            let interrupt = || cx.is_cancelled();
            let query = Arc::clone(&self.space).prepare_until(&query, 0, &interrupt)?;
            let mut order: Vec<usize> = (start..start + length).collect();
            order.sort_unstable_by_key(|row| others[*row]);
            let ids: Vec<u64> = order.iter().map(|row| others[*row]).collect();
            let mut found = vec![0.0; length];
            query.fast_until(&mut self.scratch, &ids, &mut found, &interrupt)?;
            for (row, distance) in order.into_iter().zip(found) {
                distances[row] = distance;
            }
            start += length;
        }
        store.confirm()?;
        Ok(vec![with_distances(&pairs, distances)?])
    }

    fn has_room(&self, cx: &Context<'_>) -> bool {
        cx.has_room(DISTANCES)
    }

    fn push(&mut self, cx: &mut Context<'_>, made: Envelope) -> Result<Pushed, BoxError> {
        cx.push(DISTANCES, made)
    }
}

fn with_distances(pairs: &Envelope, distances: Vec<f64>) -> Result<Envelope, BoxError> {
    let columns: [(&str, ArrayRef); 3] = [
        ("a", Arc::clone(pairs.column("a")?)),
        ("b", Arc::clone(pairs.column("b")?)),
        ("distance", Arc::new(Float64Array::from(distances))),
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
    fn check_on_devices(space: &Arc<SqfdSpace>, plan: Plan, rows: usize) {
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
        let mut harness = Harness::of(&PAIR_DISTANCES, Box::new(stage(testing::any_space(space), picked)));
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
                for ((a, b), distance) in ids.zip(envelope.f64s("distance").unwrap()) {
                    assert_eq!(found.insert((*a, *b), *distance), None, "{a} and {b} came twice");
                }
            }
        }
        assert_eq!(found.len(), all.len());
        for ((a, b), found) in found {
            let exact = space.store().read(|objects| space.between(objects, a, b)).unwrap();
            assert!((found - exact).abs() < 1e-3, "{a} and {b}: {found}, not {exact}");
        }
        // The box gives up the buffers of a silent device, which may still write to them.
        drop(harness);
        if is_sound {
            let computed: u64 = devices.statistics().iter().map(|of_device| of_device.size).sum();
            assert_eq!((computed, devices.take_warnings()), (all.len() as u64, Vec::new()), "all on devices");
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
            check_on_devices(&space, Plan { appears_as, ..Plan::default() }, rows);
        }
        for call in (6..80).step_by(5) {
            for for_good in [false, true] {
                check_on_devices(&space, Plan { call, for_good, appears_as: 1, ..Plan::default() }, 1000);
            }
        }
    }

    #[test]
    fn distances_of_pairs_are_near_the_exact_ones() {
        let folder = tempfile::tempdir().unwrap();
        let space = testing::space(testing::store(folder.path(), 30));
        let (a, b): (Vec<u64>, Vec<u64>) =
            [(0, 3), (0, 9), (0, 1), (2, 7), (5, 7), (4, 4), (29, 8)].into_iter().unzip();
        let columns: [(&str, ArrayRef); 2] =
            [("a", Arc::new(UInt64Array::from(a.clone()))), ("b", Arc::new(UInt64Array::from(b.clone())))];
        let resource: Resource = testing::shared_space(&space);
        let given = [("space", Value::Text("s".into()))];
        let mut harness = Harness::with_resources(&PAIR_DISTANCES, given, [("s", resource)]).unwrap();
        harness.give(PAIRS, Envelope::from_columns(columns).unwrap());
        harness.end(PAIRS);
        harness.run().unwrap();
        assert!(harness.is_done());
        let envelopes = harness.taken(DISTANCES);
        assert_eq!(envelopes[0].u64s("a").unwrap(), a);
        for (row, found) in envelopes[0].f64s("distance").unwrap().iter().enumerate() {
            let exact = space.store().read(|objects| space.between(objects, a[row], b[row])).unwrap();
            assert!((found - exact).abs() < 1e-3, "{found}, not {exact}");
        }
    }
}
