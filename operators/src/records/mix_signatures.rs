//! `mix_signatures`: as many signatures as wanted that lie as real ones do, for measuring on large stores.
//!
//! Invariant: equal stores, seeds, `mix` and `move` give equal objects, and the first of a larger count are those
//! of a smaller one.

use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray, UInt32Array};
use boxwork_kernels::chance::Random;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out, Pushed};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::columns;
use crate::images::extract::with_alpha;
use boxwork_stores::signature::SignatureBuilder;
use boxwork_stores::signature_store::{Objects, SignatureStore};
use boxwork_stores::store::Store as _;

/// Rows of an envelope: a few megabytes at the usual number of centroids.
const ROWS: u64 = 1024;
/// Objects that the coordinates' deviations are taken from.
const DEVIATION_SAMPLE: usize = 1024;

const SIGNATURES: Out = Out::new(0, "signatures", columns::signatures, "the objects made");

/// Makes signatures by mixing and moving those of a store.
///
/// Each takes the centroids of an object of the store, replaces a share of them by centroids of a second one, moves
/// every coordinate by normal chance, and changes each weight by up to a fifth: so sizes, clusters and intrinsic
/// dimensionality stay near those of the store. An object is named `OBJECT+SECOND/NUMBER`.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `signatures`: the objects made.
///
/// # Parameters
/// `store`: the real ones. `count`, `seed`: how many, and the seed of all chance. `mix`: the largest share of a second
/// object. `move`: the deviation of the moves, in deviations of each coordinate over the store.
pub static MIX_SIGNATURES: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "store",
            ParameterType::Resource("store"),
            Default::Required,
            "the store of real signatures",
        ),
        Parameter::new("count", ParameterType::integer_from(1), Default::Required, "how many to make")
            .unit("objects"),
        Parameter::new("seed", ParameterType::integer_from(0), Default::Integer(1), "the seed of all chance"),
        Parameter::new(
            "mix",
            ParameterType::Number { minimum: 0.0, maximum: 1.0 },
            Default::Number(0.5),
            "the largest share of centroids that come from a second object",
        ),
        Parameter::new(
            "move",
            ParameterType::Number { minimum: 0.0, maximum: 10.0 },
            Default::Number(0.1),
            "how far centroids are moved, in standard deviations of their coordinates",
        ),
    ],
    outputs: &[SIGNATURES],
    example: "objects: {kind: mix_signatures, store: signatures, count: 1000000}",
    ..OperatorSpec::new("mix_signatures", "Makes signatures out of those of a store.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(MixSignatures {
        store: crate::resources::signatures(bind)?,
        count: bind.count("count") as u64,
        seed: bind.count("seed") as u64,
        mix: bind.number("mix") as f32,
        moved: bind.number("move") as f32,
        deviations: Vec::new(),
        sent: 0,
    }))
}

struct MixSignatures {
    store: Arc<SignatureStore>,
    count: u64,
    seed: u64,
    mix: f32,
    moved: f32,
    /// The standard deviation of each coordinate over the store.
    deviations: Vec<f32>,
    sent: u64,
}

impl Operator for MixSignatures {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.deviations.is_empty() {
            let store = &self.store;
            // A batch at a time: a cancelled request gets no further permit.
            for batch in 0..store.batches() {
                cx.detached("disk", || store.bring_in(store.batch_ids(batch)))??;
            }
            self.deviations = store.read(deviations)?;
            return Ok(Flow::More);
        }
        while self.sent < self.count {
            if !cx.has_room(SIGNATURES) {
                return Ok(Flow::Wait);
            }
            cx.announce();
            let numbers = self.sent..self.count.min(self.sent + ROWS);
            let rows = (numbers.end - numbers.start) as usize;
            let mut signatures = SignatureBuilder::new(self.store.coordinates())?;
            let names = self.store.read::<_, BoxError>(|objects| {
                numbers
                    .clone()
                    .take_while(|_| !cx.is_cancelled())
                    .map(|number| self.push(objects, number, &mut signatures))
                    .collect::<Result<Vec<_>, _>>()
            })?;
            // Signatures may be so large that one of them takes a while.
            if names.len() < rows {
                return Ok(Flow::Done);
            }
            let zeros: ArrayRef = Arc::new(UInt32Array::from(vec![0; rows]));
            let columns: [(&str, ArrayRef); 4] = [
                ("name", Arc::new(StringArray::from(names))),
                ("signature", Arc::new(signatures.finish())),
                ("width", Arc::clone(&zeros)),
                ("height", zeros),
            ];
            self.sent = numbers.end;
            cx.progress(self.sent, self.count);
            // The objects lie as those of the store do, so they are searched as those are.
            let envelope = with_alpha(Envelope::from_columns(columns)?, self.store.alpha());
            if cx.push(SIGNATURES, envelope)? == Pushed::Closed {
                break;
            }
        }
        Ok(Flow::Done)
    }
}

impl MixSignatures {
    /// Makes one object and gives its name.
    fn push(&self, objects: Objects<'_>, number: u64, to: &mut SignatureBuilder) -> Result<String, BoxError> {
        let mut random = Random::mixed(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number);
        let (a, b) = (
            self.store.nth(random.below(self.store.objects())),
            self.store.nth(random.below(self.store.objects())),
        );
        let (first, second) = (objects.signature(a)?, objects.signature(b)?);
        let share = self.mix * random.unit_f32();
        let dimensions = first.dimensions();
        let mut columns: Vec<Vec<f32>> = vec![Vec::with_capacity(first.len()); dimensions];
        let mut weights = Vec::with_capacity(first.len());
        for centroid in 0..first.len() {
            let (from, place) = match random.unit_f32() < share {
                true => (second, random.idx(second.len())),
                false => (first, centroid),
            };
            for (coordinate, column) in columns.iter_mut().enumerate() {
                let step = self.moved * self.deviations[coordinate] * random.normal_f32();
                column.push(from.coordinate(coordinate)[place] + step);
            }
            weights.push(from.weights()[place] * (0.8 + 0.4 * random.unit_f32()));
        }
        let columns: Vec<&[f32]> = columns.iter().map(Vec::as_slice).collect();
        to.push(&columns, &weights)?;
        Ok(format!("{a}+{b}/{number}"))
    }
}

/// The standard deviation of each coordinate over all centroids of some objects.
fn deviations(objects: Objects<'_>) -> Result<Vec<f32>, BoxError> {
    let store = objects.store();
    let mut sums = vec![[0.0_f64; 3]; store.dimensions()];
    for nth in Random::mixed(0).distinct(store.objects(), DEVIATION_SAMPLE) {
        let signature = objects.signature(store.nth(nth))?;
        for (coordinate, [count, sum, squares]) in sums.iter_mut().enumerate() {
            for x in signature.coordinate(coordinate) {
                let x = f64::from(*x);
                *count += 1.0;
                *sum += x;
                *squares += x * x;
            }
        }
    }
    let deviation = |[count, sum, squares]: [f64; 3]| {
        let mean = sum / count;
        (squares / count - mean * mean).max(0.0).sqrt() as f32
    };
    Ok(sums.into_iter().map(deviation).collect())
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use boxwork_stores::signature::SignatureColumns;
    use boxwork_stores::testing;

    fn made(store: &Arc<SignatureStore>, count: i64, mix: f64, moved: f64) -> Vec<(String, Vec<f32>)> {
        let resource: Resource = testing::shared_store(store);
        let given = [
            ("store", Value::Text("s".into())),
            ("count", Value::Integer(count)),
            ("mix", Value::Number(mix)),
            ("move", Value::Number(moved)),
        ];
        let mut harness = Harness::with_resources(&MIX_SIGNATURES, given, [("s", resource)]).unwrap();
        harness.run().unwrap();
        assert!(harness.is_done() && harness.progress() == (count as u64, count as u64));
        let rows = |envelope: &Envelope| -> Vec<(String, Vec<f32>)> {
            let columns = SignatureColumns::new(envelope.lists("signature").unwrap()).unwrap();
            let names = envelope.texts("name").unwrap();
            (0..envelope.rows())
                .map(|row| (names.value(row).to_owned(), columns.signature(row).coordinate(0).to_vec()))
                .collect()
        };
        harness.taken(SIGNATURES).iter().flat_map(rows).collect()
    }

    #[test]
    fn the_same_objects_again_and_no_two_alike() {
        let folder = tempfile::tempdir().unwrap();
        let store = testing::store(folder.path(), 20);
        let all = made(&store, 1500, 0.5, 0.1);
        assert_eq!(all.len(), 1500);
        assert_eq!(all[..40], made(&store, 40, 0.5, 0.1));
        let mut columns: Vec<Vec<u32>> =
            all.iter().map(|(_, column)| column.iter().map(|x| x.to_bits()).collect()).collect();
        columns.sort();
        columns.dedup();
        assert_eq!(columns.len(), 1500);
    }

    #[test]
    fn nothing_mixed_and_nothing_moved_is_the_object() {
        let folder = tempfile::tempdir().unwrap();
        let store = testing::store(folder.path(), 20);
        for (name, column) in made(&store, 30, 0.0, 0.0) {
            let id: u64 = name.split('+').next().unwrap().parse().unwrap();
            let same =
                store.read(|objects| Ok::<_, BoxError>(objects.signature(id)?.coordinate(0) == column));
            assert!(same.unwrap(), "{name}");
        }
    }

    #[test]
    fn a_cancelled_request_makes_no_further_signatures() {
        let folder = tempfile::tempdir().unwrap();
        let resource: Resource = testing::shared_store(&testing::store(folder.path(), 5));
        let given = [("store", Value::Text("s".into())), ("count", Value::Integer(100_000))];
        let mut harness = Harness::with_resources(&MIX_SIGNATURES, given, [("s", resource)]).unwrap();
        harness.room(1);
        harness.run().unwrap();
        harness.taken(SIGNATURES);
        harness.cancel();
        harness.run().unwrap();
        assert!(harness.is_done() && harness.taken(SIGNATURES).is_empty());
    }
}
