//! `all_pairs`: every two objects of a store, once.
//!
//! Invariant: the pairs of an envelope stand in runs that share one object, so that a box which computes on them prepares
//! that object once a run.

use std::sync::Arc;

use arrow_array::{ArrayRef, UInt64Array};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out, Pushed};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::columns;
use crate::resources::{self, store_parameter};
use boxwork_stores::store::Store;

/// Rows of an envelope at most.
pub(crate) const ENVELOPE_ROWS: u64 = 4096;

const PAIRS: Out = Out::new(0, "pairs", columns::pairs, "every two objects, once");

/// Emits all pairs of objects.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `pairs`: `a` and `b`, `a < b`.
///
/// # Parameters
/// `store`: the store. `most`: the most objects that are paired, since the time grows with their square.
pub static ALL_PAIRS: OperatorSpec = OperatorSpec {
    parameters: &[store_parameter("the store whose objects are paired"), MOST],
    outputs: &[PAIRS],
    example: "pairs: {kind: all_pairs, store: signatures, most: 20000}",
    ..OperatorSpec::new("all_pairs", "Pairs all objects of a store.", Kind::Stateful, make)
};

/// The most objects of a store whose objects are paired.
pub(crate) const MOST: Parameter = Parameter::new(
    "most",
    ParameterType::Integer { minimum: 1, maximum: 1 << 31 },
    Default::Integer(100_000),
    "refuse a store of more objects than this",
)
.unit("objects");

/// Refuses more objects than [`MOST`] allows.
///
/// # Errors
/// Names the number to allow.
pub(crate) fn refuse_many(bind: &Bind<'_>, objects: u64) -> Result<(), BoxError> {
    let most = bind.count("most") as u64;
    if objects <= most {
        return Ok(());
    }
    Err(BoxError::new(format!(
        "the store has {objects} objects, which make {} pairs, and `most` allows {most} objects: raise `most` to \
         {objects} if you have the time for all these distances; they need no more memory",
        pairs_count(objects)
    )))
}

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let store = resources::store(bind)?;
    let objects = store.objects_count();
    refuse_many(bind, objects)?;
    Ok(Box::new(AllPairs { store, objects, next: 0 }))
}

/// Number of pairs of so many objects.
pub(crate) fn pairs_count(objects: u64) -> u64 {
    // One of the two factors is even; halved first, nothing overflows.
    if objects.is_multiple_of(2) {
        objects / 2 * objects.saturating_sub(1)
    } else {
        objects.saturating_sub(1) / 2 * objects
    }
}

/// The pair of a group's number: Algorithm 4.7 of the source, which folds the triangle into a rectangle.
pub(crate) fn pair(group: u64, objects: u64) -> (u64, u64) {
    let half = objects / 2;
    let (mut i, mut j) = (group / half, group % half + group / half + 1);
    if j >= objects {
        i = i + 1 - objects % 2;
        j -= objects;
    }
    (i.min(j), i.max(j))
}

struct AllPairs {
    store: Arc<dyn Store>,
    objects: u64,
    next: u64,
}

impl Operator for AllPairs {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let total = pairs_count(self.objects);
        while cx.has_room(PAIRS) {
            if self.next == total || cx.is_cancelled() {
                return Ok(Flow::Done);
            }
            cx.announce();
            let upto = total.min(self.next + ENVELOPE_ROWS);
            let pairs = (self.next..upto).map(|group| pair(group, self.objects));
            let (a, b): (Vec<u64>, Vec<u64>) =
                pairs.map(|(a, b)| (self.store.nth(a), self.store.nth(b))).unzip();
            let columns: [(&str, ArrayRef); 2] =
                [("a", Arc::new(UInt64Array::from(a))), ("b", Arc::new(UInt64Array::from(b)))];
            self.next = upto;
            cx.progress(upto, total);
            if cx.push(PAIRS, Envelope::from_columns(columns)?)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use boxwork_stores::testing;

    #[test]
    fn the_folded_triangle_holds_every_pair_once() {
        for objects in 0..60 {
            let mut found: Vec<_> = (0..pairs_count(objects)).map(|group| pair(group, objects)).collect();
            found.sort_unstable();
            let expected: Vec<_> = (0..objects).flat_map(|a| (a + 1..objects).map(move |b| (a, b))).collect();
            assert_eq!(found, expected, "{objects} objects");
        }
        assert_eq!(pairs_count(1 << 31), (1 << 30) * ((1 << 31) - 1));
    }

    fn harness(objects: usize, most: i64) -> Result<Harness, BoxError> {
        let folder = tempfile::tempdir().unwrap();
        let store: Resource = testing::shared_store(&testing::store(folder.path(), objects));
        let given = [("store", Value::Text("s".into())), ("most", Value::Integer(most))];
        Harness::with_resources(&ALL_PAIRS, given, [("s", store)])
    }

    #[test]
    fn emits_blocks_of_pairs() {
        for (objects, envelopes) in [(1, 0), (2, 1), (100, 2)] {
            let mut harness = harness(objects, 100).unwrap();
            harness.run().unwrap();
            assert!(harness.is_done());
            let found = harness.taken(PAIRS);
            assert_eq!(found.len(), envelopes);
            let rows: usize = found.iter().map(Envelope::rows).sum();
            assert_eq!(rows as u64, pairs_count(objects as u64));
        }
    }

    #[test]
    fn too_many_objects_are_refused_with_the_way_out() {
        let error = harness(11, 10).err().unwrap().to_string();
        assert!(error.contains("11 objects") && error.contains("raise `most`"), "{error}");
    }
}
