//! The request: what it is submitted with, how it ends, and what it did.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

pub use crate::edge::EdgeState;
use crate::operator::{BoxError, Part, Problem, RequestInput, RequestOutput, Text};
use crate::parameter::Value;
use crate::plan::Plan;
use crate::prepare::PrepareError;

/// Requests are numbered in the order of their submission: a smaller number is an older request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a request is submitted with.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Values of parameters that differ from those of the prepared pipeline.
    pub values: BTreeMap<String, Value>,
    /// Which part of a run it is.
    pub part: Part,
    /// The most bytes that its edges keep; nothing means that only the edges' own bounds hold.
    pub memory_bytes: Option<usize>,
    /// When it is cancelled at the latest.
    pub deadline: Option<Instant>,
    /// By box: record batches for it, such as a box of the kind `read_arrow`.
    pub inputs: BTreeMap<String, RequestInput>,
    /// By box: where its record batches go, such as those of a box of the kind `write_arrow`.
    pub outputs: BTreeMap<String, RequestOutput>,
}

impl Submission {
    /// An error if an input or an output was given to a box that is not there, or that has left it alone.
    pub(crate) fn is_taken(&self, plan: &Plan) -> Result<(), PrepareError> {
        let inputs = self.inputs.iter().map(|(name, input)| (name, input.is_taken(), "input"));
        let outputs = self.outputs.iter().map(|(name, output)| (name, output.is_taken(), "output"));
        for (name, is_taken, what) in inputs.chain(outputs) {
            if is_taken {
                continue;
            }
            let cause = match plan.box_idx(name) {
                None => format!("the request gives it an {what}, and the pipeline has no such box"),
                Some(idx) => {
                    let kind = &plan.boxes[idx].spec.name;
                    format!("the request gives it an {what}, and a box of the kind `{kind}` takes none")
                }
            };
            return Err(PrepareError::Box { name: name.clone(), cause: BoxError::new(cause) });
        }
        Ok(())
    }
}

impl Default for Submission {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
            part: Part::WHOLE,
            memory_bytes: None,
            deadline: None,
            inputs: BTreeMap::new(),
            outputs: BTreeMap::new(),
        }
    }
}

/// Why a request ended without its results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A box returned an error.
    #[error("box `{name}`: {cause}")]
    Failed {
        /// The box.
        name: String,
        /// The operator's message.
        cause: String,
    },
    /// A box panicked.
    #[error("box `{name}` panicked: {cause}; this is a bug in its operator")]
    Panicked {
        /// The box.
        name: String,
        /// The panic's message.
        cause: String,
    },
    /// Somebody cancelled it.
    #[error("the request was cancelled")]
    Cancelled,
    /// Its deadline passed.
    #[error("the request's deadline passed")]
    DeadlinePassed,
    /// The system refused the thread that watches deadlines.
    #[error("no thread could be started to watch the request's deadline: {cause}")]
    DeadlineUnwatched {
        /// What the system said.
        cause: String,
    },
    /// No box can go on, and larger edges would not help.
    #[error("the pipeline has stalled:\n{report}")]
    Stalled {
        /// Which boxes wait on which full or empty edges.
        report: String,
    },
}

/// What one box of a request did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoxStatistics {
    /// The box.
    pub name: String,
    /// The operator.
    pub kind: Text,
    /// Copies that it had.
    pub copies: usize,
    /// Calls of its processing method.
    pub firings: u64,
    /// Rows taken from its inputs.
    pub rows_in: u64,
    /// Rows put on its outputs.
    pub rows_out: u64,
    /// Time in firings, blocking left out, in nanoseconds; summed over the copies.
    pub busy_ns: u64,
    /// Time from being planned to being fired, in nanoseconds.
    pub waiting_ns: u64,
    /// Time detached (waiting for a permit, blocking, and attaching), in nanoseconds.
    pub blocked_ns: u64,
    /// Time off the CPU in firings that neither detached nor declared a blocking class, in nanoseconds; found by
    /// samples ([`Config::sampler`](crate::Config::sampler)), so somewhat less than it was.
    pub undeclared_blocking_ns: u64,
    /// The most of it in one firing.
    pub undeclared_blocking_ns_max: u64,
}

/// What went through one edge of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeStatistics {
    /// `box.port` of the producer.
    pub from: String,
    /// `box.port` of the consumer.
    pub to: String,
    /// Its counts and marks.
    pub state: EdgeState,
}

/// How a request ended, and what it did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Whether it has delivered.
    pub result: Result<(), RequestError>,
    /// Faults in items of the input, the first [`PROBLEMS_KEPT_MAX`] of them.
    pub problems: Vec<Problem>,
    /// How many there were.
    pub problems_count: u64,
    /// By box, in the plan's order.
    pub boxes: Vec<BoxStatistics>,
    /// By edge, in the plan's order; the edges of a side input's copies follow each other.
    pub edges: Vec<EdgeStatistics>,
    /// Time in the firings of all boxes, blocking left out, in nanoseconds.
    pub busy_ns: u64,
    /// Bytes that came through all edges. Those to the copies of a side input's box, which share them, count once.
    pub bytes_moved: u64,
    /// From submission to end.
    pub duration: Duration,
    /// The most bytes that its edges kept at once; 0 for a request without a budget.
    pub memory_bytes_high: usize,
}

/// What a request has done so far.
#[derive(Clone, Debug)]
pub struct RequestStatistics {
    /// Its number.
    pub id: RequestId,
    /// As in an [`Outcome`].
    pub boxes: Vec<BoxStatistics>,
    /// As in an [`Outcome`].
    pub edges: Vec<EdgeStatistics>,
    /// As in an [`Outcome`].
    pub busy_ns: u64,
    /// As in an [`Outcome`].
    pub bytes_moved: u64,
}

/// Problems that an outcome keeps; the others are counted only.
pub const PROBLEMS_KEPT_MAX: usize = 1000;

/// How far a box is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The box.
    pub name: String,
    /// How much is done.
    pub done: u64,
    /// Of how much; 0 when it is not known.
    pub total: u64,
}
