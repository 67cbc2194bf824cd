//! Operators that misbehave, for tests of the runtime; the shipped catalogue does not list them.
//!
//! All take or give distances, so that they fit anywhere in a search.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Catalog, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::columns;

/// The operators of this file.
pub fn fault_catalog() -> Catalog {
    Catalog::new([&PANICS, &STALLS, &FLOODS, &SLOW, &FAILS_ON_DROP], [])
}

const DISTANCES: In = In::stream(0, "distances", columns::distances, "any distances");
const PASSED: Out = Out::new(0, "passed", columns::distances, "the input");
const INPUTS: &[In] = &[DISTANCES];
const OUTPUTS: &[Out] = &[PASSED];

/// Passes distances, then panics.
///
/// # Inputs
/// `distances`: any.
///
/// # Outputs
/// `passed`: the input before the panic.
///
/// # Parameters
/// `after`: rows that pass before it panics.
pub static PANICS: OperatorSpec = OperatorSpec {
    parameters: &[Parameter::new(
        "after",
        ParameterType::integer_from(0),
        Default::Integer(0),
        "rows that pass before it panics",
    )],
    inputs: INPUTS,
    outputs: OUTPUTS,
    example: "broken: {kind: panics, after: 100}",
    ..OperatorSpec::new("panics", "Panics after some rows.", Kind::Stateless, |bind| {
        Ok(Box::new(Panics { left: bind.count("after") }))
    })
};

struct Panics {
    left: usize,
}

impl Operator for Panics {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        pass(cx, |envelope| {
            assert!(envelope.rows() <= self.left, "this box panics by design");
            self.left -= envelope.rows();
        })
    }
}

/// Passes the input, after calling `look` on it.
fn pass(cx: &mut Context<'_>, mut look: impl FnMut(&Envelope)) -> Result<Flow, BoxError> {
    let Some(envelope) = cx.take(DISTANCES) else {
        return Ok(if cx.is_ended(DISTANCES) { Flow::Done } else { Flow::Wait });
    };
    look(&envelope);
    let pushed = cx.push(PASSED, envelope)?;
    Ok(if pushed == Pushed::Closed { Flow::Done } else { Flow::Wait })
}

/// Takes nothing and waits forever, so that its request stalls.
///
/// # Inputs
/// `distances`: any; they stay on the edge.
///
/// # Outputs
/// `passed`: nothing.
///
/// # Parameters
/// None.
pub static STALLS: OperatorSpec = OperatorSpec {
    inputs: INPUTS,
    outputs: OUTPUTS,
    example: "stuck: {kind: stalls}",
    ..OperatorSpec::new("stalls", "Waits forever.", Kind::Stateful, |_: &Bind<'_>| Ok(Box::new(Stalls)))
};

struct Stalls;

impl Operator for Stalls {
    fn process(&mut self, _: &mut Context<'_>) -> Result<Flow, BoxError> {
        Ok(Flow::Wait)
    }
}

const ZEROS: Out = Out::new(0, "distances", columns::distances, "zeros");

/// Pushes as long as there is room; its progress is the bytes so far.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `distances`: zeros.
///
/// # Parameters
/// `rows`: rows of an envelope. `envelopes`: the number after which it ends; without it never.
pub static FLOODS: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "rows",
            ParameterType::Integer { minimum: 1, maximum: 65_536 },
            Default::Integer(4096),
            "rows of an envelope",
        ),
        Parameter::new(
            "envelopes",
            ParameterType::integer_from(0),
            Default::Absent,
            "ends after so many envelopes; without it never",
        ),
    ],
    outputs: &[ZEROS],
    example: "flood: {kind: floods, rows: 65536}",
    ..OperatorSpec::new("floods", "Pushes as long as there is room.", Kind::Stateful, |bind| {
        let envelopes = bind.get_integer("envelopes").map(|count| count as u64);
        Ok(Box::new(Floods { rows: bind.count("rows"), envelopes, sent: 0, bytes: 0 }))
    })
};

struct Floods {
    rows: usize,
    envelopes: Option<u64>,
    sent: u64,
    bytes: u64,
}

impl Operator for Floods {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(ZEROS) {
            if self.envelopes == Some(self.sent) {
                return Ok(Flow::Done);
            }
            if cx.is_cancelled() {
                return Ok(Flow::Done);
            }
            // New arrays each time: shared ones would cost no memory.
            let columns: [(&str, ArrayRef); 3] = [
                ("query", Arc::new(UInt32Array::from(vec![0; self.rows]))),
                ("id", Arc::new(UInt64Array::from_iter_values(0..self.rows as u64))),
                ("distance", Arc::new(Float64Array::from(vec![0.0; self.rows]))),
            ];
            let envelope = Envelope::from_columns(columns)?;
            self.bytes += envelope.bytes() as u64;
            self.sent += 1;
            cx.progress(self.bytes, 0);
            if cx.push(ZEROS, envelope)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }
}

/// Takes an envelope now and then, and holds its slot meanwhile.
///
/// # Inputs
/// `distances`: any; they are dropped.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `milliseconds`: time for each envelope.
pub static SLOW: OperatorSpec = OperatorSpec {
    parameters: &[Parameter::new(
        "milliseconds",
        ParameterType::Integer { minimum: 0, maximum: 60_000 },
        Default::Integer(10),
        "time for each envelope",
    )
    .unit("ms")],
    inputs: INPUTS,
    example: "slow: {kind: slow, milliseconds: 100}",
    ..OperatorSpec::new("slow", "Is slow with each envelope.", Kind::Stateful, |bind| {
        Ok(Box::new(Slow { pause: Duration::from_millis(bind.count("milliseconds") as u64), rows: 0 }))
    })
};

struct Slow {
    pause: Duration,
    rows: u64,
}

impl Operator for Slow {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(envelope) = cx.take(DISTANCES) else {
            return Ok(if cx.is_ended(DISTANCES) { Flow::Done } else { Flow::Wait });
        };
        std::thread::sleep(self.pause);
        self.rows += envelope.rows() as u64;
        cx.progress(self.rows, 0);
        Ok(Flow::Wait)
    }
}

/// Passes distances, and panics when it is dropped.
///
/// # Inputs
/// `distances`: any.
///
/// # Outputs
/// `passed`: the input.
///
/// # Parameters
/// None.
pub static FAILS_ON_DROP: OperatorSpec = OperatorSpec {
    inputs: INPUTS,
    outputs: OUTPUTS,
    example: "late: {kind: fails_on_drop}",
    ..OperatorSpec::new("fails_on_drop", "Panics when it is dropped.", Kind::Stateful, |_: &Bind<'_>| {
        Ok(Box::new(FailsOnDrop))
    })
};

struct FailsOnDrop;

impl Operator for FailsOnDrop {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        pass(cx, |_| {})
    }
}

impl Drop for FailsOnDrop {
    fn drop(&mut self) {
        // A second panic while one unwinds would abort the process, which is not tested here.
        if !std::thread::panicking() {
            panic!("this box panics when it is dropped, by design");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::parameter::Value;

    use super::*;

    fn flood(rows: i64, envelopes: i64) -> Vec<Envelope> {
        let given = [("rows", Value::Integer(rows)), ("envelopes", Value::Integer(envelopes))];
        let mut harness = Harness::new(&FLOODS, given).unwrap();
        harness.run().unwrap();
        assert!(harness.is_done());
        assert_eq!(harness.progress(), (20 * (rows * envelopes) as u64, 0));
        harness.taken(ZEROS)
    }

    #[test]
    fn each_fails_as_it_says() {
        let mut harness = Harness::new(&PANICS, [("after", Value::Integer(4))]).unwrap();
        for envelope in flood(2, 3) {
            harness.give(DISTANCES, envelope);
        }
        assert!(catch_unwind(AssertUnwindSafe(|| harness.run())).is_err());
        assert_eq!(harness.taken(PASSED).len(), 2);

        let mut harness = Harness::new(&STALLS, []).unwrap();
        harness.give(DISTANCES, flood(2, 1).remove(0));
        harness.end(DISTANCES);
        harness.run().unwrap();
        assert!(!harness.is_done());

        let harness = Harness::new(&FAILS_ON_DROP, []).unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| drop(harness))).is_err());

        let mut harness = Harness::new(&SLOW, [("milliseconds", Value::Integer(0))]).unwrap();
        harness.give(DISTANCES, flood(5, 1).remove(0));
        harness.end(DISTANCES);
        harness.run().unwrap();
        assert!(harness.is_done());
        assert_eq!(harness.progress(), (5, 0));
        assert_eq!(fault_catalog().operators().len(), 5);
    }
}
