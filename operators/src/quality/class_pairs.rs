//! `class_pairs`: the pairs that rank every object of a labelled store, in an order that `evaluate` can count in little
//! memory.

use std::sync::Arc;

use arrow_array::{ArrayRef, UInt64Array};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out, Pushed};

use crate::columns;
use crate::quality::all_pairs::{ENVELOPE_ROWS, MOST, refuse_many};
use crate::quality::query_blocks::{MATES_MAX, QueryBlocks, Walk};
use crate::resources::{self, store_parameter};
use boxwork_stores::store::Store;

const PAIRS: Out = Out::new(0, "pairs", columns::pairs, "a query and another object");

/// Emits the pairs of every object and all others, the objects of its class first.
///
/// An object's class is the folder that its name ends in. If the classes have so many objects that the distances within
/// them need several blocks of queries, a pair of two blocks comes twice: once for the query of each.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `pairs`: `a`, the query, and `b`; pairs of a class before others, block by block.
///
/// # Parameters
/// `store`: the store, whose names have folders. `most`: the most objects that are paired, since the time grows with their
/// square.
pub static CLASS_PAIRS: OperatorSpec = OperatorSpec {
    parameters: &[store_parameter("the store whose objects are paired"), MOST],
    outputs: &[PAIRS],
    example: "pairs: {kind: class_pairs, store: signatures, most: 20000}",
    ..OperatorSpec::new(
        "class_pairs",
        "Pairs all objects of a store, by their classes.",
        Kind::Stateful,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let store = resources::store(bind)?;
    refuse_many(bind, store.objects_count())?;
    Ok(Box::new(ClassPairs { store, mates_max: MATES_MAX, walk: None, sent: 0, total: 0 }))
}

struct ClassPairs {
    store: Arc<dyn Store>,
    mates_max: u64,
    walk: Option<(QueryBlocks, Walk)>,
    sent: u64,
    total: u64,
}

impl Operator for ClassPairs {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if cx.is_cancelled() {
            return Ok(Flow::Done);
        }
        if self.walk.is_none() {
            let (store, mates_max) = (&self.store, self.mates_max);
            let cancelled = cx.cancelled();
            let blocks = cx.detached("disk", || QueryBlocks::new(&**store, mates_max, &cancelled))??;
            self.total = blocks.pairs_count();
            let walk = Walk::new(&blocks);
            self.walk = Some((blocks, walk));
        }
        let Some((blocks, walk)) = &mut self.walk else { return Ok(Flow::Done) };
        while cx.has_room(PAIRS) {
            if cx.is_cancelled() {
                return Ok(Flow::Done);
            }
            cx.announce();
            let places = std::iter::from_fn(|| walk.next(blocks)).take(ENVELOPE_ROWS as usize);
            let id = |position: u32| self.store.nth(u64::from(blocks.rank(position)));
            let (a, b): (Vec<u64>, Vec<u64>) = places.map(|place| (id(place.query), id(place.other))).unzip();
            if a.is_empty() {
                return Ok(Flow::Done);
            }
            self.sent += a.len() as u64;
            cx.progress(self.sent, self.total);
            let columns: [(&str, ArrayRef); 2] =
                [("a", Arc::new(UInt64Array::from(a))), ("b", Arc::new(UInt64Array::from(b)))];
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
    use boxwork_stores::signature_store::StoreInfo;

    use super::*;
    use boxwork_stores::testing;

    fn harness(names: &[&str], most: i64) -> Result<Harness, BoxError> {
        let folder = tempfile::tempdir().unwrap();
        let objects: Vec<(&str, u64)> = names.iter().map(|name| (*name, 1)).collect();
        let store: Resource =
            testing::shared_store(&testing::store_of(folder.path(), &objects, &StoreInfo::default()));
        let given = [("store", Value::Text("s".into())), ("most", Value::Integer(most))];
        Harness::with_resources(&CLASS_PAIRS, given, [("s", store)])
    }

    fn pairs(names: &[&str]) -> Vec<(u64, u64)> {
        let mut harness = harness(names, 100).unwrap();
        harness.run().unwrap();
        assert!(harness.is_done());
        let of = |envelope: &Envelope| -> Vec<(u64, u64)> {
            let (a, b) = (envelope.u64s("a").unwrap(), envelope.u64s("b").unwrap());
            a.iter().copied().zip(b.iter().copied()).collect()
        };
        harness.taken(PAIRS).iter().flat_map(of).collect()
    }

    #[test]
    fn pairs_of_a_class_come_first() {
        assert_eq!(pairs(&["b/0", "a/1", "b/2", "a/3"]), [(1, 3), (0, 2), (1, 0), (1, 2), (3, 0), (3, 2)]);
        assert_eq!(pairs(&["a/0"]), []);
        assert_eq!(pairs(&["a/0", "b/1"]), [(0, 1)]);
    }

    #[test]
    fn too_many_objects_and_no_classes_are_refused_with_the_way_out() {
        let error = harness(&["a/0", "a/1", "b/2"], 2).err().unwrap().to_string();
        assert!(error.contains("3 objects") && error.contains("raise `most` to 3"), "{error}");
        let error = harness(&["0", "1"], 2).unwrap().run().unwrap_err().to_string();
        assert!(error.contains("no classes") && error.contains("CLASS/NAME"), "{error}");
    }

    #[test]
    fn a_cancelled_request_gets_no_more_pairs() {
        let mut harness = harness(&["a/0", "a/1", "b/2"], 9).unwrap();
        harness.cancel();
        harness.run().unwrap();
        assert!(harness.is_done() && harness.taken(PAIRS).is_empty());
    }
}
