//! The request: its submission, its end and its statistics.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

pub use crate::edge::EdgeState;
use crate::operator::{BoxError, Part, Problem, RequestInput, RequestOutput, Text, add_count, set_figure};
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

/// A submission: the values, limits, inputs and outputs of one request.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Values of parameters that differ from those of the prepared pipeline.
    pub values: BTreeMap<String, Value>,
    /// Its place in the run.
    pub part: Part,
    /// The most bytes that its edges may hold; `None`: only the edges' own bounds apply.
    pub memory_bytes: Option<usize>,
    /// The time at which it is cancelled if it has not ended.
    pub deadline: Option<Instant>,
    /// By box: its record batches, for kinds such as `read_arrow`.
    pub inputs: BTreeMap<String, RequestInput>,
    /// By box: the destination of its record batches, for kinds such as `write_arrow`.
    pub outputs: BTreeMap<String, RequestOutput>,
}

impl Submission {
    /// Checks that each input and output was given to a box of the plan, and that this box has taken it.
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

/// The error of a request that ended without its results.
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
    /// It was cancelled.
    #[error("the request was cancelled")]
    Cancelled,
    /// Its deadline passed.
    #[error("the request's deadline passed")]
    DeadlinePassed,
    /// The system refused the thread that watches deadlines.
    #[error("no thread could be started to watch the request's deadline: {cause}")]
    DeadlineUnwatched {
        /// The system's message.
        cause: String,
    },
    /// No box can continue, and larger edges would not help.
    #[error("the pipeline has stalled:\n{report}")]
    Stalled {
        /// The boxes that wait, each with its full or empty edge.
        report: String,
    },
}

/// The counters of one box of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BoxStatistics {
    /// The box.
    pub name: String,
    /// The operator.
    pub kind: Text,
    /// Its copies.
    pub copies: usize,
    /// Calls of its processing method.
    pub firings: u64,
    /// Rows taken from its inputs.
    pub rows_in: u64,
    /// Rows put on its outputs.
    pub rows_out: u64,
    /// Time in firings, blocking left out, in nanoseconds; summed over the copies.
    pub busy_ns: u64,
    /// Time from the planning of its tasks to their firings, in nanoseconds.
    pub waiting_ns: u64,
    /// Time detached (waiting for a permit, blocking, and attaching), in nanoseconds.
    pub blocked_ns: u64,
    /// Time off the CPU in firings that neither detached nor declared a blocking class, in nanoseconds; found by
    /// samples ([`Config::sampler`](crate::Config::sampler)), so somewhat less than the real time.
    pub undeclared_blocking_ns: u64,
    /// The most such time in one firing, in nanoseconds.
    pub undeclared_blocking_ns_max: u64,
    /// The operator's counts by [`Context::count`](crate::operator::Context::count), in the order of first use.
    pub counts: Vec<(&'static str, u64)>,
    /// The operator's figures by [`Context::figure`](crate::operator::Context::figure), in the order of first use.
    pub figures: Vec<(&'static str, f64)>,
}

impl BoxStatistics {
    /// Adds to [`BoxStatistics::counts`].
    pub fn add_counts(&mut self, counts: &[(&'static str, u64)]) {
        counts.iter().for_each(|(what, amount)| add_count(&mut self.counts, what, *amount));
    }

    /// Puts later figures in the place of those of the same names in [`BoxStatistics::figures`].
    pub fn set_figures(&mut self, figures: &[(&'static str, f64)]) {
        figures.iter().for_each(|(what, number)| set_figure(&mut self.figures, what, *number));
    }
}

/// The counters of one edge of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeStatistics {
    /// `box.port` of the producer.
    pub from: String,
    /// `box.port` of the consumer.
    pub to: String,
    /// Its counts and high-water marks.
    pub state: EdgeState,
}

/// The end of a request, and its statistics.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Whether it has delivered its results, or the error.
    pub result: Result<(), RequestError>,
    /// Faults in items of the input: the first [`PROBLEMS_KEPT_MAX`] of them.
    pub problems: Vec<Problem>,
    /// The number of all items with such faults.
    pub problems_count: u64,
    /// Sentences for the user that are no faults: the first [`PROBLEMS_KEPT_MAX`] of them.
    pub notes: Vec<String>,
    /// By box, in the plan's order.
    pub boxes: Vec<BoxStatistics>,
    /// By edge, in the plan's order; the edges of a side input's copies follow each other.
    pub edges: Vec<EdgeStatistics>,
    /// Time in the firings of all boxes, blocking left out, in nanoseconds.
    pub busy_ns: u64,
    /// Bytes that came through all edges. Envelopes of a side input count once, because the box's copies share them.
    pub bytes_moved: u64,
    /// The time from submission to end.
    pub duration: Duration,
    /// The most bytes that its edges kept at once; 0 for a request without a budget.
    pub memory_bytes_high: usize,
}

/// The statistics of a request so far.
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

/// Problems that an outcome keeps, and notes; further problems are only counted.
pub const PROBLEMS_KEPT_MAX: usize = 1000;

/// The progress of a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The box.
    pub name: String,
    /// The items done.
    pub done: u64,
    /// The items in all; 0 if it is unknown.
    pub total: u64,
    /// The units done of the work that the box has begun: see [`Context::work`](crate::operator::Context::work).
    pub work_done: u64,
    /// The units of that work; 0 if the box counts none.
    pub work_total: u64,
}
