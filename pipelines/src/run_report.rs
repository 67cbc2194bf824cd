//! The statistics of a run as JSON: written by `--report`, read by `graph --with`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use boxwork_runtime::feeding::DeviceStatistics;
use boxwork_runtime::request::{BoxStatistics, EdgeStatistics, Outcome};
use boxwork_runtime::statistics::SchedulerStatistics;
use boxwork_runtime::topology::Distance;
use serde::{Deserialize, Serialize};

use crate::numbers::seconds;

/// The version of the format.
const VERSION: u32 = 1;
/// Larger than the report of the largest pipeline on the largest machine.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The statistics of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// The version of the format.
    pub boxwork_report: u32,
    /// The pipeline's file, or the name of a shipped pipeline.
    pub pipeline: String,
    /// The time of its requests together, without preparation.
    pub seconds: f64,
    /// The number of requests.
    pub requests: usize,
    /// The costs of each request, in order.
    #[serde(default)]
    pub by_request: Vec<RequestReport>,
    /// By box, summed over the requests.
    pub boxes: Vec<BoxReport>,
    /// By edge, summed over the requests.
    pub edges: Vec<EdgeReport>,
    /// By slot.
    pub slots: Vec<SlotReport>,
    /// By blocking class.
    pub classes: Vec<ClassReport>,
    /// The number of threads.
    pub threads: usize,
    /// By device that computed.
    #[serde(default)]
    pub devices: Vec<DeviceReport>,
}

/// The work of one device in the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// Its number and its name.
    pub name: String,
    /// Blocks that came back with results.
    pub blocks: u64,
    /// Blocks that failed.
    pub failures: u64,
    /// Time in kernels; overlapping kernels count twice.
    pub kernel_seconds: f64,
    /// Time of feeding threads for gathering and enqueuing.
    pub feed_seconds: f64,
    /// Time for gathering alone.
    pub gather_seconds: f64,
    /// Bytes gathered.
    pub gathered_bytes: u64,
}

/// The costs of one request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestReport {
    /// From submission to end.
    pub seconds: f64,
    /// Time in the firings of all boxes, without blocking.
    pub busy_seconds: f64,
    /// Bytes that passed all edges.
    pub bytes_moved: u64,
}

/// The work of one box; times are summed over its copies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BoxReport {
    /// The box.
    pub name: String,
    /// Its operator.
    pub operator: String,
    /// Its copies.
    pub copies: usize,
    /// Its firings.
    pub firings: u64,
    /// Rows taken.
    pub rows_in: u64,
    /// Rows made.
    pub rows_out: u64,
    /// Time in firings, without blocking.
    pub busy_seconds: f64,
    /// Time from being planned to being fired.
    pub waiting_seconds: f64,
    /// Time detached.
    pub blocked_seconds: f64,
    /// Time off the CPU without a declaration of blocking.
    #[serde(default)]
    pub undeclared_blocking_seconds: f64,
    /// The most of that time in one firing.
    #[serde(default)]
    pub undeclared_blocking_seconds_max: f64,
    /// Its operator's counts, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
    /// Its operator's figures, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
}

/// The traffic of one edge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EdgeReport {
    /// `box.port` of the producer.
    pub from: String,
    /// `box.port` of the consumer.
    pub to: String,
    /// Envelopes that passed.
    pub envelopes: u64,
    /// Rows that passed.
    pub rows: u64,
    /// Their bytes.
    #[serde(default)]
    pub bytes: u64,
    /// The most envelopes that waited at once.
    pub envelopes_high: usize,
    /// The most envelopes that it may hold; `None` without a bound.
    pub envelopes_max: Option<usize>,
    /// The most bytes that waited at once.
    pub bytes_high: usize,
    /// The most bytes that it may hold; `None` without a bound.
    pub bytes_max: Option<usize>,
    /// How often a producer found it full.
    pub refusals: u64,
    /// How often it was grown to end a stall.
    pub grown: usize,
}

/// The work of one slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SlotReport {
    /// Tasks run.
    pub tasks: u64,
    /// Tasks stolen, by distance, nearest first: same core, shared cache, same node, other node.
    pub steals: [u64; Distance::ALL.len()],
    /// How often it became idle.
    pub parks: u64,
    /// How often it was woken.
    pub wakes: u64,
    /// How often it was given away to block.
    pub hand_overs: u64,
    /// Its idle time.
    pub rest_seconds: f64,
}

/// The operations of one blocking class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassReport {
    /// The class.
    pub name: String,
    /// Operations that may be under way at once, at the end of the run.
    pub limit: usize,
    /// Whether the runtime adapted the limit.
    #[serde(default)]
    pub auto: bool,
    /// The most operations under way at once.
    pub in_flight_high: usize,
    /// The number of operations.
    pub operations: u64,
    /// Operations that had to wait for a permit.
    pub waited: u64,
}

impl DeviceReport {
    fn new((name, device): (String, DeviceStatistics)) -> Self {
        Self {
            name,
            blocks: device.blocks,
            failures: device.failures,
            kernel_seconds: seconds(device.kernel_ns),
            feed_seconds: seconds(device.feed_ns),
            gather_seconds: seconds(device.gather_ns),
            gathered_bytes: device.gathered_bytes,
        }
    }
}

impl RunReport {
    /// The report of a run that has ended.
    pub fn new(
        pipeline: &str,
        outcomes: &[Outcome],
        scheduler: &SchedulerStatistics,
        devices: Vec<(String, DeviceStatistics)>,
        elapsed: Duration,
    ) -> Self {
        let slots = scheduler.slots.iter().map(|slot| SlotReport {
            tasks: slot.tasks,
            steals: slot.steals,
            parks: slot.parks,
            wakes: slot.wakes,
            hand_overs: slot.hand_overs,
            rest_seconds: seconds(slot.rested_ns),
        });
        let classes = scheduler.classes.iter().map(|class| ClassReport {
            name: class.name.clone(),
            limit: class.limit,
            auto: class.auto,
            in_flight_high: class.in_flight_high,
            operations: class.operations,
            waited: class.waited,
        });
        Self {
            boxwork_report: VERSION,
            pipeline: pipeline.to_owned(),
            seconds: elapsed.as_secs_f64(),
            requests: outcomes.len(),
            by_request: outcomes.iter().map(RequestReport::new).collect(),
            boxes: boxes(outcomes).iter().map(BoxReport::new).collect(),
            edges: edges(outcomes),
            slots: slots.collect(),
            classes: classes.collect(),
            threads: scheduler.threads,
            devices: devices.into_iter().map(DeviceReport::new).collect(),
        }
    }

    /// Reads a report.
    ///
    /// # Errors
    /// The reason if the file is not a report.
    pub fn read(path: &Path) -> Result<Self, String> {
        let of_file = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let bytes = std::fs::metadata(path).map_err(|error| of_file(&error))?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(of_file(&"too large for a report"));
        }
        let text = std::fs::read_to_string(path).map_err(|error| of_file(&error))?;
        let report: Self = serde_json::from_str(&text)
            .map_err(|error| of_file(&format!("no report of a run ({error}); `run --report` writes one")))?;
        if report.boxwork_report != VERSION {
            let version = report.boxwork_report;
            return Err(of_file(&format!("a report of version {version}, and {VERSION} is known here")));
        }
        Ok(report)
    }
}

impl RequestReport {
    fn new(outcome: &Outcome) -> Self {
        Self {
            seconds: outcome.duration.as_secs_f64(),
            busy_seconds: seconds(outcome.busy_ns),
            bytes_moved: outcome.bytes_moved,
        }
    }
}

impl BoxReport {
    fn new(of_box: &BoxStatistics) -> Self {
        Self {
            name: of_box.name.clone(),
            operator: of_box.kind.to_string(),
            copies: of_box.copies,
            firings: of_box.firings,
            rows_in: of_box.rows_in,
            rows_out: of_box.rows_out,
            busy_seconds: seconds(of_box.busy_ns),
            waiting_seconds: seconds(of_box.waiting_ns),
            blocked_seconds: seconds(of_box.blocked_ns),
            undeclared_blocking_seconds: seconds(of_box.undeclared_blocking_ns),
            undeclared_blocking_seconds_max: seconds(of_box.undeclared_blocking_ns_max),
            counts: of_box.counts.iter().map(|(what, amount)| ((*what).to_owned(), *amount)).collect(),
            figures: of_box.figures.iter().map(|(what, number)| ((*what).to_owned(), *number)).collect(),
        }
    }
}

/// The boxes' statistics, summed over all requests of a run.
pub(crate) fn boxes(outcomes: &[Outcome]) -> Vec<BoxStatistics> {
    let mut sums: Vec<BoxStatistics> = Vec::new();
    for outcome in outcomes {
        for of_box in &outcome.boxes {
            match sums.iter_mut().find(|sum| sum.name == of_box.name) {
                None => sums.push(of_box.clone()),
                Some(sum) => {
                    sum.firings += of_box.firings;
                    sum.rows_in += of_box.rows_in;
                    sum.rows_out += of_box.rows_out;
                    sum.busy_ns += of_box.busy_ns;
                    sum.waiting_ns += of_box.waiting_ns;
                    sum.blocked_ns += of_box.blocked_ns;
                    sum.undeclared_blocking_ns += of_box.undeclared_blocking_ns;
                    sum.undeclared_blocking_ns_max =
                        sum.undeclared_blocking_ns_max.max(of_box.undeclared_blocking_ns_max);
                    sum.add_counts(&of_box.counts);
                    sum.set_figures(&of_box.figures);
                }
            }
        }
    }
    sums
}

/// The edges over all requests of a run: traffic is summed; for high marks and bounds, the largest counts.
fn edges(outcomes: &[Outcome]) -> Vec<EdgeReport> {
    let mut sums: Vec<EdgeReport> = Vec::new();
    for outcome in outcomes {
        for (idx, edge) in one_for_copies(&outcome.edges).into_iter().enumerate() {
            let bound = |bound: usize| (bound != usize::MAX).then_some(bound);
            if sums.len() == idx {
                sums.push(EdgeReport { from: edge.from, to: edge.to, ..EdgeReport::default() });
            }
            let (sum, state) = (&mut sums[idx], &edge.state);
            sum.envelopes += state.envelopes_total;
            sum.rows += state.rows_total;
            sum.bytes += state.bytes_total;
            sum.envelopes_high = sum.envelopes_high.max(state.envelopes_high);
            sum.envelopes_max = sum.envelopes_max.max(bound(state.envelopes_max));
            sum.bytes_high = sum.bytes_high.max(state.bytes_high);
            sum.bytes_max = sum.bytes_max.max(bound(state.bytes_max));
            sum.refusals += state.refusals;
            sum.grown += state.grown;
        }
    }
    sums
}

/// A request's edges, with one for all edges to the copies of a side input's box: all carry the same envelopes, and the
/// longest queue counts.
pub(crate) fn one_for_copies(edges: &[EdgeStatistics]) -> Vec<EdgeStatistics> {
    let mut ones: Vec<EdgeStatistics> = Vec::new();
    for edge in edges {
        // They are adjacent.
        match ones.last_mut().filter(|last| (&last.from, &last.to) == (&edge.from, &edge.to)) {
            None => ones.push(edge.clone()),
            Some(last) => {
                let (one, other) = (&mut last.state, &edge.state);
                one.envelopes = one.envelopes.max(other.envelopes);
                one.bytes = one.bytes.max(other.bytes);
                one.envelopes_high = one.envelopes_high.max(other.envelopes_high);
                one.bytes_high = one.bytes_high.max(other.bytes_high);
                one.envelopes_total = one.envelopes_total.max(other.envelopes_total);
                one.rows_total = one.rows_total.max(other.rows_total);
                one.bytes_total = one.bytes_total.max(other.bytes_total);
            }
        }
    }
    ones
}
