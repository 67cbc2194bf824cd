//! The model: the boxes and edges of one request, instantiated from a plan.
//!
//! A box with copies has a cell for each copy. A side edge into a box with copies exists once for each copy, a stream
//! edge once for all. Invariants:
//! - one thread at a time runs a box's processing method (`box_state.rs`);
//! - `live` counts the tokens of the request: one for each task (queued, running, detached, waiting for a permit or to
//!   attach), one for each piece of work that a box has begun outside (a block on a device), and one for the submission
//!   until its tasks are planned. Tokens move and are never dropped and retaken, so `live == 0` means exactly that
//!   nothing can happen any more: the request is finished, or stalled;
//! - the model never calls the scheduler: a firing fills a [`NewTasks`] list, and the worker plans these tasks.

#[cfg(test)]
pub(crate) mod alone;
pub(crate) mod box_state;
mod clock;
mod reorder;
mod reported;
mod notify;
mod services;
mod firing;
mod stall;
mod statistics;

use std::sync::Arc;
use std::time::{Duration, Instant};

use self::box_state::{BoxState, Notified};
pub(crate) use self::firing::After;
use self::firing::Running;
pub(crate) use self::notify::{NewTasks, TaskKind};
use self::reorder::Reorder;
use self::reported::Reported;
pub(crate) use self::services::Detacher;
use self::statistics::busy_ns;
use crate::edge::{Edge, Ledger, PortEdges, PortList};
use crate::operator::{Bind, Connections, Environment, HintCell, Mode, OperatorEntry, Problem};
use crate::panic_message::panic_message;
use crate::prepare::{HintShape, PrepareError, Prepared, Shape};
use crate::request::{EdgeState, Outcome, RequestError, RequestId, Submission};
use crate::sync::{AtomicBool, AtomicUsize, Condvar, Counter, Mutex, Ordering, now};

/// The home node of a request that has none yet.
pub(crate) const HOMELESS: usize = usize::MAX;

/// A request that was moved to another node stays there at least this long: a move pays only once its data have
/// followed.
const MOVE_PAUSE_NS: u64 = 1_000_000;

/// One copy of a box.
pub(crate) struct BoxCell {
    /// Its operator and what else it keeps between firings, until the request is over.
    state: BoxState<Option<Running>>,
    /// Its edges and hints.
    at: Connections,
    plan_box: usize,
    /// Whether it has no inputs.
    is_source: bool,
    /// Its only edge, side inputs left out; none if it takes from several.
    only_stream: Option<Arc<Edge>>,
    /// Whether its firings need permits of a class.
    blocks: bool,
    /// Whether its next firing is timed.
    timed: AtomicBool,
    /// The order of an ordered box with copies.
    reorder: Option<usize>,
    /// A permit of the box's blocking class was taken for its next firing.
    pub(crate) permit: AtomicBool,
    planned_ns: Counter,
    /// The node that its tasks are planned on, where the data of the last notification lie; [`HOMELESS`] for the
    /// request's home.
    near: AtomicUsize,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    firings: Counter,
    busy_ns: Counter,
    waiting_ns: Counter,
    blocked_ns: Counter,
    /// The sampler writes both.
    undeclared_ns: Counter,
    undeclared_ns_max: Counter,
    /// When its task began to wait for a permit, and got one, since the request's start; 0 for not. For traces.
    permit_begun_ns: Counter,
    permit_ended_ns: Counter,
}

impl BoxCell {
    /// Whether it takes from several edges: they fill up while it waits.
    fn merges(&self) -> bool {
        self.only_stream.is_none() && !self.is_source
    }

    /// The input ports: how each receives, and its edges.
    fn ports(&self) -> impl Iterator<Item = (Mode, &PortEdges)> {
        self.at.shape.spec.inputs.iter().map(|port| port.mode).zip(self.at.inputs.iter())
    }
}

/// The boxes and edges of one request.
pub(crate) struct Model {
    id: RequestId,
    prepared: Arc<Prepared>,
    boxes: Vec<BoxCell>,
    /// The connections between boxes.
    shape: Shape,
    edges: Vec<Arc<Edge>>,
    reorders: Vec<Mutex<Reorder>>,
    ledger: Ledger,
    live: AtomicUsize,
    /// The number of nodes of the machine.
    nodes: usize,
    /// The node whose queues hold the request's tasks.
    pub(crate) home: AtomicUsize,
    /// When it was moved there from another one; 0 for never.
    moved_ns: Counter,
    stopping: AtomicBool,
    failure: Mutex<Option<RequestError>>,
    reported: Mutex<Reported>,
    started: Instant,
    ended: (Mutex<End>, Condvar),
}

/// Called with the outcome of a request when it has ended.
type OnEnd = Box<dyn FnOnce(Outcome) + Send>;

/// The end of a request: its results and the callbacks.
#[derive(Default)]
struct End {
    ended: Option<Ended>,
    /// Empty once it has ended.
    callbacks: Vec<OnEnd>,
}

/// The results of a request that has ended, without its counters.
struct Ended {
    result: Result<(), RequestError>,
    reported: Reported,
    /// By edge, before its remaining envelopes were dropped.
    edges: Vec<EdgeState>,
    duration: Duration,
    memory_bytes_high: usize,
}

impl Model {
    /// Instantiates a prepared plan on a machine. It holds the submission's token.
    pub(crate) fn new(
        id: RequestId,
        prepared: Arc<Prepared>,
        submission: &Submission,
        runtime: &Environment,
    ) -> Result<Arc<Self>, PrepareError> {
        let machine = &*runtime.machine;
        let (started, nodes) = (now(), machine.nodes().len());
        let plan = prepared.plan();
        let environment = runtime.until(submission.deadline);
        let arguments = prepared.arguments(&submission.values)?;
        let shape = Shape::new(plan, (machine.slots_count(), nodes));
        let edges: Vec<Arc<Edge>> =
            shape.edges.iter().enumerate().map(|(idx, edge)| Arc::new(Edge::new(idx, edge))).collect();
        let port = |fed: &Vec<usize>| PortEdges::new(fed.iter().map(|edge| Arc::clone(&edges[*edge])));
        let ports = |fed: &[Vec<usize>]| fed.iter().map(port).collect::<PortList>();
        let hint_cell =
            |hint: &HintShape| Arc::new(HintCell::new(hint.join, Arc::clone(&hint.readers), plan.queries));
        let hints: Vec<Arc<HintCell>> = shape.hints.iter().map(hint_cell).collect();
        let hint = |place: &usize| Arc::clone(&hints[*place]);
        let mut boxes = Vec::with_capacity(shape.boxes.len());
        for cell in &shape.boxes {
            let planned = &plan.boxes[cell.plan_box];
            let arguments = arguments.of(cell.plan_box);
            let bind = Bind {
                part: submission.part,
                input: submission.inputs.get(&planned.name),
                output: submission.outputs.get(&planned.name),
                ..prepared.bind(cell.plan_box, arguments, &environment)
            };
            let operator = prepared.make(cell.plan_box, &bind)?;
            let (inputs, outputs) = (ports(&cell.inputs), ports(&cell.outputs));
            let is_source = inputs.iter().all(PortEdges::is_empty);
            // Neither an order nor a budget is kept.
            let is_plain = cell.reorder.is_none() && submission.memory_bytes.is_none();
            boxes.push(BoxCell {
                state: BoxState::new(Some(Running::new(operator, inputs.len(), outputs.len(), is_plain))),
                plan_box: cell.plan_box,
                is_source,
                only_stream: only_stream(&planned.spec, &inputs),
                blocks: planned.blocking.is_some(),
                timed: AtomicBool::new(true),
                at: Connections {
                    place: boxes.len(),
                    hints_read: cell.hints_read.iter().map(|fed| fed.iter().map(hint).collect()).collect(),
                    hints_written: cell.hints_written.iter().map(hint).collect(),
                    is_ordered: cell.reorder.is_some(),
                    ..Connections::new(Arc::clone(&cell.ports), inputs, outputs)
                },
                reorder: cell.reorder,
                permit: AtomicBool::new(false),
                planned_ns: Counter::new(0),
                near: AtomicUsize::new(HOMELESS),
                counters: Counters::default(),
            });
        }
        submission.is_taken(plan)?;
        let reorders = shape.reorders.iter().map(|copies| Mutex::new(Reorder::new(*copies)));
        Ok(Arc::new(Self {
            id,
            boxes,
            edges,
            reorders: reorders.collect(),
            shape,
            ledger: Ledger::new(submission.memory_bytes),
            live: AtomicUsize::new(1),
            nodes,
            home: AtomicUsize::new(HOMELESS),
            moved_ns: Counter::new(0),
            stopping: AtomicBool::new(false),
            failure: Mutex::new(None),
            reported: Mutex::default(),
            started,
            ended: (Mutex::new(End::default()), Condvar::new()),
            prepared,
        }))
    }

    pub(crate) fn id(&self) -> RequestId {
        self.id
    }

    /// The node that a box's tasks are planned on, if that is not the request's home.
    #[inline]
    pub(crate) fn near(&self, cell: usize) -> Option<usize> {
        // Relaxed: the task was handed to the caller through a queue, and the node with it.
        Some(self.boxes[cell].near.load(Ordering::Relaxed)).filter(|node| *node != HOMELESS)
    }

    /// The name of a box.
    pub(crate) fn box_name(&self, cell: usize) -> &str {
        &self.planned(cell).name
    }

    /// Whether a box's firings need permits of a class.
    #[inline]
    pub(crate) fn blocks(&self, cell: usize) -> bool {
        self.boxes[cell].blocks
    }

    /// The blocking class whose permit a firing of a box needs.
    pub(crate) fn blocking(&self, cell: usize) -> Option<&str> {
        self.planned(cell).blocking.as_deref()
    }

    /// Whether a permit was taken for the next firing of a box.
    pub(crate) fn permit(&self, cell: usize) -> &AtomicBool {
        &self.boxes[cell].permit
    }

    /// For a trace: the task of a box begins to wait for a permit, unless it gets one at once.
    pub(crate) fn begin_permit_wait(&self, cell: usize) {
        let counters = &self.boxes[cell].counters;
        counters.permit_begun_ns.store(self.now_ns().max(1), Ordering::Relaxed);
        counters.permit_ended_ns.store(0, Ordering::Relaxed);
    }

    /// For a trace: the task has a permit. The permit orders this before the thread that runs the task.
    pub(crate) fn end_permit_wait(&self, cell: usize) {
        self.boxes[cell].counters.permit_ended_ns.store(self.now_ns().max(1), Ordering::Relaxed);
    }

    /// Takes the beginning and the end of a wait that is over.
    pub(crate) fn take_permit_wait(&self, cell: usize) -> Option<(Instant, Instant)> {
        let counters = &self.boxes[cell].counters;
        let at = |ns: u64| Some(self.started + Duration::from_nanos(ns)).filter(|_| ns > 0);
        let begun = at(counters.permit_begun_ns.swap(0, Ordering::Relaxed))?;
        Some((begun, at(counters.permit_ended_ns.load(Ordering::Relaxed))?))
    }

    /// The edges of a box, and the envelopes that wait there.
    pub(crate) fn depths(&self, cell: usize) -> Vec<(usize, usize)> {
        let cell = &self.boxes[cell];
        let inputs = cell.at.inputs.iter().flat_map(PortEdges::iter);
        let edges = inputs.chain(cell.at.outputs.iter().flat_map(PortEdges::iter));
        edges.map(|edge| (edge.idx, edge.state().envelopes)).collect()
    }

    fn planned(&self, cell: usize) -> &crate::plan::PlanBox {
        &self.prepared.plan().boxes[self.boxes[cell].plan_box]
    }

    fn now_ns(&self) -> u64 {
        now().saturating_duration_since(self.started).as_nanos() as u64
    }

    /// Notifies a box that work which it began outside is over. True when that makes a task, which the caller plans.
    pub(crate) fn notify_of_outside(&self, cell_idx: usize) -> bool {
        debug_assert!(
            self.live.load(Ordering::Relaxed) > 0,
            "work outside ends after its request has ended: its token was lost"
        );
        self.notify(cell_idx, TaskKind::Immediate, &mut NewTasks::default()) == Notified::Plan
    }

    /// Notifies every source once, so that it starts.
    pub(crate) fn start(&self, new_tasks: &mut NewTasks) {
        let planned_ns = self.now_ns();
        new_tasks.has_read(self.id, planned_ns);
        for (idx, cell) in self.boxes.iter().enumerate().filter(|(_, cell)| cell.is_source) {
            cell.planned_ns.store(planned_ns, Ordering::Relaxed);
            if cell.state.notify() == Notified::Plan {
                new_tasks.push(idx, TaskKind::Regular);
            }
        }
    }

    /// Takes tokens for tasks that are about to be planned. The caller holds one, or has just settled the request.
    #[inline]
    pub(crate) fn take_tokens(&self, count: usize) {
        if count > 0 {
            self.live.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Gives one token back. True when it was the last: the caller settles the request.
    pub(crate) fn release(&self) -> bool {
        // AcqRel: the last thread to release sees everything that the others did.
        let before = self.live.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "more tokens were given back than taken: the request would never end");
        before == 1
    }

    /// Whether the request has been at home long enough to be moved.
    pub(crate) fn may_move(&self) -> bool {
        let moved_ns = self.moved_ns.load(Ordering::Relaxed);
        moved_ns == 0 || self.now_ns().saturating_sub(moved_ns) > MOVE_PAUSE_NS
    }

    /// Gives the request a new home.
    pub(crate) fn move_home(&self, node: usize) {
        self.home.store(node, Ordering::Relaxed);
        self.moved_ns.store(self.now_ns().max(1), Ordering::Relaxed);
    }

    /// Whether the request ends without results.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Ends the request with an error; the first one counts.
    pub(crate) fn fail(&self, error: RequestError) {
        self.failure.lock().get_or_insert(error);
        self.stopping.store(true, Ordering::Release);
    }

    /// The request has no token left: it is finished, or stalled. If growing an edge ends the stall, the request
    /// continues with the tasks that come back.
    pub(crate) fn settle(&self) -> Option<NewTasks> {
        if self.is_stopping() || self.boxes.iter().all(|cell| cell.state.is_done()) {
            return None;
        }
        match stall::grow(self) {
            Ok(new_tasks) => Some(new_tasks),
            Err(report) => {
                self.fail(RequestError::Stalled { report });
                None
            }
        }
    }

    /// Frees everything and notifies the owner. The scheduler has removed the request from its lists before, so an
    /// owner that asks then does not find it.
    #[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
    pub(crate) fn conclude(&self) {
        for cell in &self.boxes {
            // No box of the request has a task any more.
            let claimed = cell.state.claim();
            debug_assert!(claimed.is_some(), "a request ends while one of its boxes has a task");
            let Some(mut turn) = claimed else { continue };
            if let Err(cause) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| *turn = None)) {
                let name = self.prepared.plan().boxes[cell.plan_box].name.clone();
                self.fail(RequestError::Panicked { name, cause: panic_message(cause.as_ref()) });
            }
        }
        let edges = self.edges.iter().map(|edge| edge.state()).collect();
        for edge in &self.edges {
            // SAFETY: the request is over, and the thread that released its last token concludes it.
            unsafe { edge.clear(&self.ledger) };
        }
        let result = match self.failure.lock().take() {
            Some(error) => Err(error),
            None => Ok(()),
        };
        let reported = std::mem::take(&mut *self.reported.lock());
        let (duration, memory_bytes_high) =
            (now().saturating_duration_since(self.started), self.ledger.bytes_high());
        let ended = Ended { result, reported, edges, duration, memory_bytes_high };
        let callbacks = {
            let mut end = self.ended.0.lock();
            end.ended = Some(ended);
            std::mem::take(&mut end.callbacks)
        };
        self.ended.1.notify_all();
        callbacks.into_iter().for_each(|callback| self.call(callback));
    }

    /// Calls a function with the outcome when the request has ended, which may be now.
    pub(crate) fn on_end(&self, callback: OnEnd) {
        {
            let mut end = self.ended.0.lock();
            if end.ended.is_none() {
                end.callbacks.push(callback);
                return;
            }
        }
        self.call(callback);
    }

    /// Calls a callback with the outcome of the request, which has ended. A panic of the callback stays here: the
    /// thread is a worker's, and the request is over.
    fn call(&self, callback: OnEnd) {
        if let Some(outcome) = self.wait(None) {
            // The hook has printed the panic.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| callback(outcome)));
        }
    }

    /// Waits for the end.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> Option<Outcome> {
        // A limit beyond the clock's range is none.
        let until = limit.and_then(|limit| now().checked_add(limit));
        let (ended, changed) = &self.ended;
        let mut end = ended.lock();
        while end.ended.is_none() {
            match until {
                None => changed.wait(&mut end),
                Some(until) => {
                    if changed.wait_until(&mut end, until).timed_out() {
                        break;
                    }
                }
            }
        }
        end.ended.as_ref().map(|ended| self.outcome(ended))
    }

    /// The outcome. Names and figures are gathered here and not when the request ends, because few callers ask for
    /// them.
    fn outcome(&self, ended: &Ended) -> Outcome {
        let of_edge = self.edges.iter().zip(&ended.edges);
        let edges: Vec<_> = of_edge.map(|(edge, state)| self.statistics_of(edge, *state)).collect();
        let boxes = self.box_statistics();
        Outcome {
            result: ended.result.clone(),
            problems: ended.reported.problems.clone(),
            problems_count: ended.reported.items,
            notes: ended.reported.notes.clone(),
            busy_ns: busy_ns(&boxes),
            boxes,
            bytes_moved: self.bytes_moved(&edges),
            edges,
            duration: ended.duration,
            memory_bytes_high: ended.memory_bytes_high,
        }
    }

    fn report(&self, problem: Problem) {
        self.reported.lock().report(problem);
    }

    fn note(&self, note: String) {
        self.reported.lock().note(note);
    }

    pub(crate) fn problems_count(&self) -> u64 {
        self.reported.lock().items
    }
}

/// The only edge that a box takes from, side inputs left out.
fn only_stream(spec: &OperatorEntry, inputs: &PortList) -> Option<Arc<Edge>> {
    let streams = spec.inputs.iter().zip(inputs.iter()).filter(|(port, _)| port.mode != Mode::Side);
    let mut edges = streams.flat_map(|(_, edges)| edges.shared());
    let only = edges.next()?;
    edges.next().is_none().then(|| Arc::clone(only))
}

#[cfg(all(test, not(loom)))]
mod tests;
