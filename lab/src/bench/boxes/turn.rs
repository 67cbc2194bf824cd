//! One message in flight: the source sends the next message when the sink has confirmed the last one by a hint.

use std::sync::Arc;

use arrow_array::{ArrayRef, UInt64Array};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    BoxError, Context, Flow, HintIn, HintOut, In, Join, Kind, Operator, OperatorSpec, Out,
};

use super::super::tally::Tally;
use super::{TALLY_PARAMETER, count, numbers};

/// The hint of how many messages have come through.
pub const PASSES: &str = "passes";
const ARRIVED: HintIn = HintIn::new(0, PASSES, Join::Maximum, "messages that have come through");
const COUNTED: HintOut = HintOut::new(0, PASSES, Join::Maximum, ARRIVED.about);

const OUT: Out = Out::new(0, "out", numbers, "a number");

pub static TURN_SOURCE: OperatorSpec = OperatorSpec {
    parameters: &[TALLY_PARAMETER, count("messages", "number of messages")],
    outputs: &[OUT],
    hints_read: &[ARRIVED],
    ..OperatorSpec::new(
        "turn_source",
        "Sends a message when the last one has come through.",
        Kind::Stateful,
        |bind| {
            let column: ArrayRef = Arc::new(UInt64Array::from(vec![7]));
            let message = Envelope::from_columns([("n", column)])?;
            let (tally, messages) = (Tally::bound(bind)?, bind.count("messages") as u64);
            Ok(Box::new(TurnSource { tally, messages, sent: 0, message }))
        },
    )
};

const IN: In = In::stream(0, "in", numbers, "messages");

pub static TURN_SINK: OperatorSpec = OperatorSpec {
    parameters: &[TALLY_PARAMETER],
    inputs: &[IN],
    hints_written: &[COUNTED],
    ..OperatorSpec::new("turn_sink", "Confirms each message to the source.", Kind::Stateful, |bind| {
        Ok(Box::new(TurnSink { tally: Tally::bound(bind)?, arrived: 0 }))
    })
};

struct TurnSource {
    tally: Arc<Tally>,
    messages: u64,
    sent: u64,
    message: Envelope,
}

impl Operator for TurnSource {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        // The hint's bottom, before the first message came through, is below zero.
        if cx.hint(ARRIVED, 0).max(0.0) < self.sent as f64 {
            return Ok(Flow::Wait);
        }
        if self.sent == 0 || self.sent == self.messages {
            self.tally.mark(self.tally.now_ns());
        }
        if self.sent == self.messages {
            return Ok(Flow::Done);
        }
        cx.push(OUT, self.message.clone())?;
        self.sent += 1;
        Ok(Flow::Wait)
    }
}

struct TurnSink {
    tally: Arc<Tally>,
    arrived: u64,
}

impl Operator for TurnSink {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.take(IN).is_some() {
            self.arrived += 1;
            cx.join_hint(COUNTED, 0, self.arrived as f64);
        }
        if !cx.is_ended(IN) {
            return Ok(Flow::Wait);
        }
        self.tally.arrive(self.arrived);
        Ok(Flow::Done)
    }
}
