//! `sqfd_pairs`: the distances of pairs of objects, by the fastest path of the machine.
//!
//! Invariant: rows keep their order.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use boxwork_kernels::CodePath;
use boxwork_kernels::sqfd::Evaluator;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, Input, Kind, Operator, OperatorSpec, Output, Pushed,
};

use crate::domain::columns;
use crate::domain::space::SqfdSpace;
use crate::queries::SPACE;
use crate::sqfd::Gather;

/// Computes the distances of pairs of objects.
///
/// # Inputs
/// `pairs`: two objects a row; neighbouring rows that share one are computed together.
///
/// # Outputs
/// `distances`: a distance a pair, in 32-bit arithmetic.
///
/// # Parameters
/// `space`: the measure and the store.
pub static SQFD_PAIRS: OperatorSpec = OperatorSpec {
    parameters: &[SPACE],
    inputs: &[Input::stream("pairs", columns::pairs, "two objects a row")],
    outputs: &[Output::new("distances", columns::pair_distances, "a distance a pair")],
    example: "distances: {kind: sqfd_pairs, space: space, copies: auto}",
    code_path: Some(|_| CodePath::detect().to_string()),
    ..OperatorSpec::new("sqfd_pairs", "Computes distances of pairs of objects.", Kind::Stateless, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let gather = Gather::new(Evaluator::new(CodePath::detect()));
    Ok(Box::new(SqfdPairs { space: bind.resource("space")?, gather }))
}

struct SqfdPairs {
    space: Arc<SqfdSpace>,
    gather: Gather,
}

impl Operator for SqfdPairs {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(pairs) = cx.take("pairs") else {
            return Ok(if cx.is_ended("pairs") { Flow::Done } else { Flow::Wait });
        };
        let (a, b) = (pairs.u64s("a")?, pairs.u64s("b")?);
        let store = self.space.store();
        let ids = || a.iter().chain(b).copied();
        if !store.is_in(ids()) {
            cx.detached("disk", || store.bring_in(ids()))??;
        }
        let mut distances = vec![0.0; a.len()];
        store.read::<_, BoxError>(|objects| {
            let mut start = 0;
            while start < a.len() {
                let same = |side: &[u64]| side[start..].iter().take_while(|id| **id == side[start]).count();
                let (with_a, with_b) = (same(a), same(b));
                let (fixed, others, length) = if with_a >= with_b { (a, b, with_a) } else { (b, a, with_b) };
                let query = self.space.prepare(objects.signature(fixed[start])?);
                let mut run: Vec<u32> = (start as u32..(start + length) as u32).collect();
                run.sort_unstable_by_key(|idx| others[*idx as usize]);
                self.gather.distances(&self.space, objects, &query, &run, others, &mut distances)?;
                start += length;
            }
            Ok(())
        })?;
        let columns: [(&str, ArrayRef); 3] = [
            ("a", Arc::clone(pairs.column("a")?)),
            ("b", Arc::clone(pairs.column("b")?)),
            ("distance", Arc::new(Float64Array::from(distances))),
        ];
        let pushed = cx.push("distances", Envelope::from_columns(columns)?)?;
        Ok(if pushed == Pushed::Closed { Flow::Done } else { Flow::Wait })
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::UInt64Array;
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use crate::testing;

    #[test]
    fn distances_of_pairs_are_near_the_exact_ones() {
        let folder = tempfile::tempdir().unwrap();
        let space = testing::space(testing::store(folder.path(), 30));
        let (a, b): (Vec<u64>, Vec<u64>) =
            [(0, 3), (0, 9), (0, 1), (2, 7), (5, 7), (4, 4), (29, 8)].into_iter().unzip();
        let columns: [(&str, ArrayRef); 2] =
            [("a", Arc::new(UInt64Array::from(a.clone()))), ("b", Arc::new(UInt64Array::from(b.clone())))];
        let resource: Resource = Arc::clone(&space) as Resource;
        let given = [("space", Value::Text("s".into()))];
        let mut harness = Harness::with_resources(&SQFD_PAIRS, given, [("s", resource)]).unwrap();
        harness.give("pairs", Envelope::from_columns(columns).unwrap());
        harness.end("pairs");
        harness.run().unwrap();
        assert!(harness.is_done());
        let envelopes = harness.taken("distances");
        assert_eq!(envelopes[0].u64s("a").unwrap(), a);
        for (row, found) in envelopes[0].f64s("distance").unwrap().iter().enumerate() {
            let exact = space.store().read(|objects| space.between(objects, a[row], b[row])).unwrap();
            assert!((found - exact).abs() < 1e-3, "{found}, not {exact}");
        }
    }
}
