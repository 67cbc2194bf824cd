//! The automatic limit of a class: the number of operations at once with the best throughput of a device.
//!
//! The controller gets the times at which operations begin and end, and sets the limit. It uses no clock, lock or
//! thread, and equal input gives equal output.
//!
//! It compares **throughputs**: operations ended per time while the limit makes operations wait. A *batch* is as many
//! ends as the limit. A window of whole batches that begins with the limit counts every operation under way at most
//! once a round, so it is exact for operations that run side by side, at any offsets, and needs no time to settle.
//! Latencies would show saturation sooner (they grow with the limit without a gain). But they need the latency of the
//! idle device for comparison, which a changing device does not show, and the latencies of the first operations after a
//! change depend on the device's queue. Throughput is also the goal.
//!
//! The search, from [`START`]:
//! - *Down first.* The controller tries half the limit: on a device that concurrency slows down (a spinning disk) each
//!   step up costs more than all steps below, and on other devices a step down costs one small batch. No loss means
//!   that the device was saturated: the search continues downwards, because larger limits cannot gain. A loss means
//!   that the limit goes back, and then up, doubling while that gains.
//! - *Then in small steps* (1, 2, 3, 4, 6, 8, 12, ...), down and up.
//! - *One step of margin.* It settles one step above the smallest limit without a loss, if that costs nothing: the next
//!   operation is there when one ends, and a device that gets faster shows it at once, which one operation at a time
//!   cannot.
//! - *At rest* it watches the throughput, and searches again when that changes. It also tries small steps, at intervals
//!   that grow while they gain nothing.
//!
//! Invariants: the limit is at least 1 and at most the given one; it changes only when an operation ends; a window in
//! which no operation waited counts for nothing.

#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;

/// The first limit, as the fixed limit of disks: a compromise between disks that serve one operation best, and the
/// others.
const START: usize = 4;
/// The least ends of a window, which also has at least two batches: noise of a fifth in each averages to a few percent.
const WINDOW_ENDS_MIN: usize = 8;
/// The least gain that is worth more operations at once.
const GAIN: f64 = 1.05;
/// The greatest loss that does not count.
const LOSS: f64 = 0.97;
/// Above this gain, or below this loss, the first batch decides.
const GAIN_CLEAR: f64 = 1.25;
const LOSS_CLEAR: f64 = 0.8;
/// The device has changed when a window differs by this factor from the windows before.
const CHANGED: f64 = 1.35;
/// Windows of rest between two tries: the first number, and the largest.
const REST_MIN: u32 = 4;
const REST_MAX: u32 = 32;
/// The weight of a new window in the mean at rest.
const WEIGHT: f64 = 0.25;

/// The steps of the search, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Halve,
    Double,
    Below,
    Above,
}

impl Step {
    fn is_up(self) -> bool {
        matches!(self, Self::Double | Self::Above)
    }

    fn opposite(self) -> Self {
        match self {
            Self::Halve => Self::Double,
            Self::Double => Self::Halve,
            Self::Below => Self::Above,
            Self::Above => Self::Below,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Measures the throughput at the base, for a search.
    Measure,
    /// Tries another limit than the base.
    Try(Step),
    /// Tries nothing for this many windows.
    Rest(u32),
}

/// Ends since a moment, while the limit made operations wait.
struct Window {
    begun_ns: u64,
    ended: usize,
}

/// See the module.
pub(crate) struct Auto {
    max: usize,
    /// The limit in force.
    limit: usize,
    /// The best known limit, and its operations per nanosecond.
    base: usize,
    rate: f64,
    phase: Phase,
    /// The steps still to try, last one first.
    steps: Vec<Step>,
    /// Whether a step down without a loss led to the base.
    has_margin: bool,
    /// Windows until the next try.
    rest: u32,
    window: Option<Window>,
}

impl Auto {
    /// A controller whose limit is at most `max`.
    pub(crate) fn new(max: usize) -> Self {
        let start = START.min(max).max(1);
        Self {
            max: max.max(1),
            limit: start,
            base: start,
            rate: 0.0,
            phase: Phase::Measure,
            steps: Vec::new(),
            has_margin: false,
            rest: REST_MIN,
            window: None,
        }
    }

    /// Operations that may be under way now.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// An operation has begun; `in_flight` counts it too.
    pub(crate) fn begin(&mut self, now_ns: u64, in_flight: usize) {
        debug_assert!(in_flight > 0, "an operation has begun and none is under way");
        debug_assert!(in_flight <= self.limit, "more operations are under way than the limit allows");
        if in_flight == self.limit && self.window.is_none() {
            self.window = Some(Window { begun_ns: now_ns, ended: 0 });
        }
    }

    /// An operation has ended; `in_flight` are left under way.
    pub(crate) fn end(&mut self, now_ns: u64, in_flight: usize, waiting: bool) {
        // A step up also counts if fewer operations ask than it allows, but more than before.
        let held_back = waiting || matches!(self.phase, Phase::Try(_)) && in_flight >= self.base;
        if !held_back {
            self.window = None;
            return;
        }
        match &mut self.window {
            // After a step down the surplus ends first.
            None if in_flight >= self.limit => {}
            None => self.window = Some(Window { begun_ns: now_ns, ended: 0 }),
            Some(window) => {
                window.ended += 1;
                if window.ended.is_multiple_of(self.limit) && now_ns > window.begun_ns {
                    let rate = window.ended as f64 / (now_ns - window.begun_ns) as f64;
                    let full = window.ended >= WINDOW_ENDS_MIN.max(2 * self.limit);
                    self.judge(rate, full, now_ns);
                }
            }
        }
    }

    /// Some batches have ended at this rate.
    fn judge(&mut self, rate: f64, full: bool, now_ns: u64) {
        debug_assert!(rate.is_finite() && rate > 0.0, "operations ended at no rate that could be compared");
        match self.phase {
            // One batch is enough: an error costs another try.
            Phase::Measure => {
                self.rate = rate;
                self.steps = vec![Step::Above, Step::Below, Step::Double, Step::Halve];
                self.next_step(now_ns);
            }
            Phase::Try(step) => {
                debug_assert!(self.rate > 0.0, "a limit is tried before the rate at the base is known");
                debug_assert_ne!(self.limit, self.base, "the tried limit is the base itself");
                let gain = rate / self.rate;
                if full || !(LOSS_CLEAR..=GAIN_CLEAR).contains(&gain) {
                    if gain > GAIN || !step.is_up() && gain > LOSS {
                        self.accept(step, gain, rate, now_ns);
                    } else {
                        if step == Step::Halve && gain < LOSS_CLEAR {
                            // Half the limit loses so much that a smaller step down gains nothing.
                            self.steps.retain(|step| *step != Step::Below);
                        }
                        self.next_step(now_ns);
                    }
                }
            }
            Phase::Rest(_) if !full => {}
            Phase::Rest(_) if rate > self.rate * CHANGED || rate * CHANGED < self.rate => {
                self.rest = REST_MIN;
                self.enter(Phase::Measure, self.base, now_ns);
            }
            Phase::Rest(left) => {
                self.rate += WEIGHT * (rate - self.rate);
                self.window = Some(Window { begun_ns: now_ns, ended: 0 });
                self.phase = Phase::Rest(left.saturating_sub(1));
                if left <= 1 {
                    self.steps = vec![Step::Above, Step::Below];
                    self.next_step(now_ns);
                }
            }
        }
    }

    /// The tried limit becomes the base, and the search tries this step again.
    fn accept(&mut self, step: Step, gain: f64, rate: f64, now_ns: u64) {
        debug_assert_eq!(
            step.is_up(),
            self.limit > self.base,
            "a step up led to a lower limit, or a step down to a higher limit"
        );
        (self.base, self.rate) = (self.limit, rate);
        self.has_margin = !step.is_up() && gain <= GAIN;
        // Throughput has one maximum: the other direction needs no try.
        self.steps.retain(|other| *other != step.opposite());
        if !self.has_margin {
            self.rest = REST_MIN;
        }
        self.steps.push(if step == Step::Above { Step::Double } else { step });
        self.next_step(now_ns);
    }

    fn next_step(&mut self, now_ns: u64) {
        while let Some(step) = self.steps.pop() {
            let target = self.target(step);
            if target != self.base {
                self.enter(Phase::Try(step), target, now_ns);
                return;
            }
        }
        if std::mem::take(&mut self.has_margin) {
            self.base = self.target(Step::Above);
        }
        let rest = self.rest;
        debug_assert!(
            (REST_MIN..=REST_MAX).contains(&rest),
            "a rest is shorter than the least or longer than the most"
        );
        self.rest = (rest * 2).min(REST_MAX);
        self.enter(Phase::Rest(rest), self.base, now_ns);
    }

    fn enter(&mut self, phase: Phase, limit: usize, now_ns: u64) {
        debug_assert!(
            (1..=self.max).contains(&limit),
            "a limit of none, or above the bound, is put in force"
        );
        // After a step down the window begins when the surplus has ended.
        let down = limit < self.limit;
        self.phase = phase;
        self.limit = limit;
        self.window = (!down).then_some(Window { begun_ns: now_ns, ended: 0 });
    }

    fn target(&self, step: Step) -> usize {
        match step {
            Step::Halve => (self.base / 2).max(1),
            Step::Double => (self.base * 2).min(self.max),
            Step::Below => below(self.base),
            Step::Above => above(self.base).min(self.max),
        }
    }
}

/// The largest of 1, 2, 3, 4, 6, 8, 12, ... below `limit`.
fn below(limit: usize) -> usize {
    let power = limit.max(2).next_power_of_two() / 2;
    let between = power + power / 2;
    let found = if between < limit { between.max(1) } else { power.min(limit.max(2) - 1) };
    debug_assert!(found < limit || limit <= 1, "a step down does not lead down");
    found
}

/// The smallest of these numbers above `limit`.
fn above(limit: usize) -> usize {
    let power = (limit + 1).next_power_of_two();
    let between = power / 4 * 3;
    let found = if between > limit { between } else { power };
    debug_assert!(found > limit, "a step up does not lead up");
    found
}
