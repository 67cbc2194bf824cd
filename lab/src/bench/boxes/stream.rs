//! Boxes of streams: a source, boxes that work on envelopes, and a sink that counts them.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Mode, Operator, OperatorSpec, Out, Pushed,
};

use super::super::spin::{SEED, spin};
use super::super::tally::Tally;
use super::{TALLY_PARAMETER, count, numbers};

const OUT: Out = Out::new(0, "out", numbers, "envelopes of numbers");

pub static SOURCE: OperatorSpec = OperatorSpec {
    parameters: &[
        TALLY_PARAMETER,
        count("messages", "number of envelopes"),
        count("rows", "numbers in each"),
        count("stamped", "whether each is a new one, with the time in its first row"),
    ],
    outputs: &[OUT],
    ..OperatorSpec::new("source", "Sends envelopes.", Kind::Stateful, make_source)
};

const IN: In = In::stream(0, "in", numbers, "envelopes");

pub static STAGE: OperatorSpec = OperatorSpec {
    parameters: &[
        TALLY_PARAMETER,
        count("iterations", "steps of work for each envelope"),
        count("long", "steps from which it announces each envelope before the work; 0 for never"),
    ],
    inputs: &[IN],
    outputs: &[Out { about: "the same", ..OUT }],
    ..OperatorSpec::new(
        "stage",
        "Works on each envelope for a while, and passes it on.",
        Kind::Stateless,
        |bind| {
            let (iterations, long) = (bind.count("iterations") as u64, bind.count("long") as u64);
            let announces = long > 0 && iterations >= long;
            Ok(Box::new(Stage { tally: Tally::bound(bind)?, iterations, announces, sum: 0 }))
        },
    )
};

pub static COPY_ADD: OperatorSpec = OperatorSpec {
    parameters: &[TALLY_PARAMETER],
    inputs: &[IN],
    outputs: &[Out { about: "envelopes of numbers one greater", ..OUT }],
    ..OperatorSpec::new("copy_add", "Makes a new envelope from each.", Kind::Stateful, |_| {
        Ok(Box::new(CopyAdd))
    })
};

pub static SINK: OperatorSpec = OperatorSpec {
    parameters: &[TALLY_PARAMETER, count("stamped", "whether the first row is the time of sending")],
    inputs: &[In { mode: Mode::Merge, ..IN }],
    ..OperatorSpec::new("sink", "Counts arrivals.", Kind::Stateful, |bind| {
        let stamped = bind.count("stamped") > 0;
        Ok(Box::new(Sink {
            tally: Tally::bound(bind)?,
            stamped,
            arrived: 0,
            sum: 0,
            latencies_ns: Vec::new(),
        }))
    })
};

struct Source {
    tally: Arc<Tally>,
    left: u64,
    rows: usize,
    schema: SchemaRef,
    /// Sent repeatedly, if the cost of making an envelope is not measured.
    message: Option<Envelope>,
}

fn make_source(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::UInt64, false)]));
    let rows = bind.count("rows").max(1);
    let (tally, left) = (Tally::bound(bind)?, bind.count("messages") as u64);
    let message = match bind.count("stamped") {
        0 => Some(envelope(&schema, (0..rows as u64).collect())?),
        _ => None,
    };
    Ok(Box::new(Source { tally, left, rows, schema, message }))
}

fn envelope(schema: &SchemaRef, numbers: Vec<u64>) -> Result<Envelope, BoxError> {
    let column: ArrayRef = Arc::new(UInt64Array::from(numbers));
    Ok(Envelope::new(RecordBatch::try_new(Arc::clone(schema), vec![column])?)?)
}

impl Operator for Source {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(OUT) {
            if self.left == 0 {
                return Ok(Flow::Done);
            }
            let message = match &self.message {
                Some(message) => message.clone(),
                None => envelope(&self.schema, vec![self.tally.now_ns(); self.rows])?,
            };
            if cx.push(OUT, message)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
            self.left -= 1;
        }
        Ok(Flow::Wait)
    }
}

struct Stage {
    tally: Arc<Tally>,
    iterations: u64,
    announces: bool,
    sum: u64,
}

impl Operator for Stage {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(OUT) {
            let Some(message) = cx.take(IN) else {
                if !cx.is_ended(IN) {
                    return Ok(Flow::Wait);
                }
                self.tally.add(self.sum);
                return Ok(Flow::Done);
            };
            if self.announces {
                cx.announce();
            }
            self.sum = self.sum.wrapping_add(u64::from(spin(self.iterations, SEED)));
            cx.push(OUT, message)?;
        }
        Ok(Flow::Wait)
    }
}

struct CopyAdd;

impl Operator for CopyAdd {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(OUT) {
            let Some(message) = cx.take(IN) else {
                return Ok(if cx.is_ended(IN) { Flow::Done } else { Flow::Wait });
            };
            let greater = message.u64s("n")?.iter().map(|number| number.wrapping_add(1)).collect();
            cx.push(OUT, envelope(message.schema(), greater)?)?;
        }
        Ok(Flow::Wait)
    }
}

struct Sink {
    tally: Arc<Tally>,
    stamped: bool,
    arrived: u64,
    sum: u64,
    latencies_ns: Vec<u64>,
}

impl Operator for Sink {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(message) = cx.take(IN) {
            let numbers = message.u64s("n")?;
            self.arrived += 1;
            if self.stamped {
                self.latencies_ns.push(self.tally.now_ns().saturating_sub(numbers[0]));
            } else {
                // The ends show that it was copied whole; adding all rows would cost time.
                self.sum = self.sum.wrapping_add(numbers[0]).wrapping_add(numbers[numbers.len() - 1]);
            }
        }
        if !cx.is_ended(IN) {
            return Ok(Flow::Wait);
        }
        self.tally.arrive(self.arrived);
        self.tally.add(self.sum);
        self.tally.add_latencies(&self.latencies_ns);
        Ok(Flow::Done)
    }
}
