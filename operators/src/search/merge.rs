//! `merge`: distances from several boxes become one stream.

use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};

use crate::columns;

const INPUTS: In = In::merge(0, "inputs", columns::distances, "distances from any number of boxes");
const DISTANCES: Out = Out::new(0, "distances", columns::distances, "all of them");

/// Joins streams of distances.
///
/// Envelopes pass by pointer, in the order of their arrival.
///
/// # Inputs
/// `inputs` (merge): distances from any number of boxes.
///
/// # Outputs
/// `distances`: all of them.
///
/// # Parameters
/// None.
pub static MERGE: OperatorSpec = OperatorSpec {
    inputs: &[INPUTS],
    outputs: &[DISTANCES],
    example: "all: {kind: merge}",
    ..OperatorSpec::new("merge", "Joins streams of distances into one.", Kind::Stateful, make)
};

fn make(_: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(Merge))
}

struct Merge;

impl Operator for Merge {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(DISTANCES) {
            let Some(envelope) = cx.take(INPUTS) else {
                return Ok(if cx.is_ended(INPUTS) { Flow::Done } else { Flow::Wait });
            };
            if cx.push(DISTANCES, envelope)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
    use boxwork_runtime::envelope::Envelope;
    use boxwork_runtime::harness::Harness;

    use super::*;

    fn distances(id: u64) -> Envelope {
        let columns: [(&str, ArrayRef); 3] = [
            ("query", Arc::new(UInt32Array::from(vec![0]))),
            ("id", Arc::new(UInt64Array::from(vec![id]))),
            ("distance", Arc::new(Float64Array::from(vec![0.5]))),
        ];
        Envelope::from_columns(columns).unwrap()
    }

    #[test]
    fn passes_all_on_and_ends_with_its_inputs() {
        let mut harness = Harness::new(&MERGE, []).unwrap();
        harness.room(2);
        let mut found = Vec::new();
        for id in 0..5 {
            harness.give(INPUTS, distances(id));
        }
        harness.run().unwrap();
        assert!(!harness.is_done());
        harness.end(INPUTS);
        while !harness.is_done() {
            found.extend(harness.taken(DISTANCES).iter().map(|envelope| envelope.u64s("id").unwrap()[0]));
            harness.run().unwrap();
        }
        found.extend(harness.taken(DISTANCES).iter().map(|envelope| envelope.u64s("id").unwrap()[0]));
        assert_eq!(found, [0, 1, 2, 3, 4]);
    }
}
