//! The context of a firing: access to its box's ports and to the scheduler.
//!
//! [`Ports`], a concrete type over the box's edges, serves ports and hints and is inlined into the operator's code.
//! Only [`Services`] is virtual: its five methods are rare and take long, and a scheduler and a test harness implement
//! them differently.

use std::ops::Range;

use super::ports::{FiringState, Ports};
use super::{BoxError, Cancelled, HintIn, HintOut, In, Out, Problem, Pushed, Work};
use crate::envelope::Envelope;
use crate::inside::Inside;
use crate::outside::Outside;
use crate::sync::{AtomicBool, Ordering};

/// The services of the scheduler for a firing.
pub(crate) trait Services {
    /// As [`Context::announce`]: notifies the boxes that the ports' notices name.
    fn announce(&mut self, ports: &mut Ports<'_>);
    /// As [`Context::detached`], and says on which node the firing continues. `f` runs at most once.
    fn detached(&mut self, ports: &mut Ports<'_>, class: &str, f: &mut dyn FnMut()) -> Result<(), Cancelled>;
    /// As [`Context::outside`].
    fn outside(&mut self) -> Outside;
    /// As [`Context::inside`]. `f` runs exactly once.
    fn inside(&mut self, ports: &mut Ports<'_>, f: &mut dyn FnMut(&mut Inside<'_>));
    /// As [`Context::report`].
    fn report(&mut self, problem: Problem);
    /// As [`Context::note`].
    fn note(&mut self, note: String);
}

/// Access for a firing to its box's ports, its hints and the scheduler.
///
/// The handles in the operator's table name the ports and hints.
pub struct Context<'a> {
    ports: Ports<'a>,
    services: &'a mut dyn Services,
    stopping: &'a AtomicBool,
    nodes: usize,
}

impl<'a> Context<'a> {
    /// The context of one firing, on a machine with this many nodes; `stopping` says that the request is being
    /// cancelled.
    #[inline(always)]
    pub(crate) fn new(
        ports: Ports<'a>,
        services: &'a mut dyn Services,
        stopping: &'a AtomicBool,
        nodes: usize,
    ) -> Self {
        Self { ports, services, stopping, nodes }
    }

    /// The state of the firing at its ports, after the operator has returned.
    #[inline(always)]
    pub(crate) fn into_firing(self) -> FiringState {
        self.ports.firing().clone()
    }

    /// The next envelope of a stream or merge input, or nothing when none waits.
    #[inline(always)]
    pub fn take(&mut self, input: In) -> Option<Envelope> {
        self.ports.take(input.place)
    }

    /// Whether nothing waits on an input and nothing will come.
    #[inline(always)]
    pub fn is_ended(&self, input: In) -> bool {
        self.ports.is_ended(input.place)
    }

    /// Closes an input that the box needs no more: its producer is notified, and waiting envelopes are dropped.
    pub fn close(&mut self, input: In) {
        self.ports.close(input.place);
    }

    /// All envelopes of a side input, which has ended before the first firing.
    pub fn side(&self, input: In) -> &[Envelope] {
        self.ports.side(input.place)
    }

    /// Whether an output takes one more envelope in this firing. True at the start of each firing; false once all
    /// outputs are closed, because the box is finished then.
    #[inline(always)]
    pub fn has_room(&self, output: Out) -> bool {
        self.ports.has_room(output.place)
    }

    /// Puts an envelope on an output.
    ///
    /// # Errors
    /// When the output has no room, or the envelope's columns are not those of the output's descriptor: bugs of the
    /// operator, which end the request with its name.
    #[inline(always)]
    pub fn push(&mut self, output: Out, envelope: Envelope) -> Result<Pushed, BoxError> {
        self.ports.push(output.place, envelope)
    }

    /// Puts an envelope on an output. Its data, such as the part of a store that it refers to, are on one node: a copy
    /// of the consumer takes it on that node if one is free there, otherwise on any node. A consumer without copies, or
    /// an ordered one, takes it in turn.
    ///
    /// # Errors
    /// As [`Context::push`].
    pub fn push_near(&mut self, output: Out, envelope: Envelope, node: usize) -> Result<Pushed, BoxError> {
        self.ports.push_to_all(output.place, envelope, Some(node))
    }

    /// The number of nodes of the runtime's machine.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The node that the firing runs on; a call that blocks may move it to another node.
    pub fn node(&self) -> usize {
        self.ports.node()
    }

    /// Whether every consumer of an output has closed its input.
    pub fn is_closed(&self, output: Out) -> bool {
        self.ports.is_closed(output.place)
    }

    /// The value of a hint that the box reads, for one query of the request. It may be stale, and is the hint's
    /// bottom if no box has written it.
    pub fn hint(&self, hint: HintIn, query: u32) -> f64 {
        self.ports.hint(hint.place, query)
    }

    /// Joins a value into a hint that the box writes (the lesser value wins if the join is the minimum).
    pub fn join_hint(&mut self, hint: HintOut, query: u32, value: f64) {
        self.ports.join_hint(hint.place, query, value);
    }

    /// Runs a closure that blocks (reads a file, say) without holding a slot: another thread computes meanwhile.
    ///
    /// The class's limit bounds the closures that run at once; the others wait, without a slot too. Outputs made so far
    /// are published first. Never hold a lock across this call.
    ///
    /// # Errors
    /// When the request is cancelled before the closure starts. A running closure is not interrupted: a long one asks
    /// [`Context::cancelled`] at intervals.
    pub fn detached<R>(&mut self, class: &str, f: impl FnOnce() -> R) -> Result<R, Cancelled> {
        let (mut f, mut result) = (Some(f), None);
        self.services.detached(&mut self.ports, class, &mut || {
            if let Some(f) = f.take() {
                result = Some(f());
            }
        })?;
        result.ok_or(Cancelled)
    }

    /// Notifies neighbours now of what this firing has pushed, and of the room that it has made by taking, instead of
    /// at its end. A box that computes for 5 µs or more for each envelope calls it after taking an envelope and before
    /// computing, so that neighbours continue meanwhile.
    pub fn announce(&mut self) {
        self.services.announce(&mut self.ports);
    }

    /// Begins work outside of the box's firings, such as a block on a device. See [`Outside`].
    pub fn outside(&mut self) -> Outside {
        self.services.outside()
    }

    /// Runs a closure with the inside of the firing, where closures may run beside each other. See [`Inside`].
    pub fn inside<R>(&mut self, f: impl FnOnce(&mut Inside<'_>) -> R) -> R {
        let (mut f, mut result) = (Some(f), None);
        self.services.inside(&mut self.ports, &mut |inside| result = f.take().map(|f| f(inside)));
        // The closure is called once, by contract; a panic in it has left this function already.
        result.unwrap_or_else(|| panic!("a scheduler skipped the inside of a firing"))
    }

    /// Runs two closures, beside each other if another slot is free: [`Inside::join`].
    pub fn join<A, B: Send>(
        &mut self,
        a: impl FnOnce(&mut Inside<'_>) -> A,
        b: impl FnOnce(&mut Inside<'_>) -> B + Send,
    ) -> (A, B) {
        self.inside(|inside| inside.join(a, b))
    }

    /// Runs a closure for pieces of `0..count`, beside each other as slots are free: [`Inside::for_each_chunk`].
    ///
    /// # Panics
    /// When `chunk` is 0, and with the panic of a piece.
    pub fn for_each_chunk(&mut self, count: usize, chunk: usize, f: impl Fn(Range<usize>) + Sync) {
        self.inside(|inside| inside.for_each_chunk(count, chunk, f));
    }

    /// Whether the request is being cancelled: a long firing checks this at intervals, and returns early.
    pub fn is_cancelled(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// [`Context::is_cancelled`] as a function that closures take along, such as that of [`Context::detached`].
    pub fn cancelled(&self) -> impl Fn() -> bool + Copy + Send + Sync + use<'a> {
        let stopping = self.stopping;
        move || stopping.load(Ordering::Acquire)
    }

    /// Reports the progress of the box in items of its input, for progress bars; a total of 0 means that it is unknown.
    pub fn progress(&mut self, done: u64, total: u64) {
        self.ports.progress(done, total);
    }

    /// The counts of the box's work, for the progress bar of a firing that takes long: the firing says how much it has to do, and its
    /// closures add what they have done. The units are the box's choice, such as rows or pixels. An addition is one relaxed
    /// atomic operation; closures that take microseconds may make one each.
    ///
    /// ```
    /// use boxwork_runtime::operator::Context;
    ///
    /// /// Halves the levels of a picture, 16 rows at a time.
    /// fn darken(cx: &mut Context<'_>, levels: &mut [u8], width: usize) {
    ///     let work = cx.work();
    ///     work.expect(levels.len() as u64);
    ///     cx.inside(|inside| {
    ///         inside.for_each_chunk_of(levels, 16 * width, |_, some| {
    ///             some.iter_mut().for_each(|level| *level /= 2);
    ///             work.add(some.len() as u64);
    ///         });
    ///     });
    /// }
    /// ```
    pub fn work(&self) -> Work<'a> {
        self.ports.work()
    }

    /// Adds to a count of the box that statistics show, such as rows that a bound has left. The box's first count is of the
    /// whole, and the statistics show the others as shares of it too.
    pub fn count(&mut self, what: &'static str, amount: u64) {
        self.ports.count(what, amount);
    }

    /// Sets a figure of the box that statistics show, such as the rounds that an iteration took. It replaces an earlier one of its
    /// name, and is no share of anything.
    pub fn figure(&mut self, what: &'static str, number: f64) {
        self.ports.figure(what, number);
    }

    /// Records a fault in one item of the input; the request continues.
    pub fn report(&mut self, subject: impl Into<String>, message: impl Into<String>) {
        self.report_all(Problem { subject: subject.into(), message: message.into(), items: 1 });
    }

    /// Records a fault that several items of the input have in common; the request continues.
    pub fn report_all(&mut self, problem: Problem) {
        debug_assert!(
            problem.items > 0,
            "no item has the fault `{}`: a note says what is none",
            problem.message
        );
        self.services.report(problem);
    }

    /// Records a sentence for the user that is no fault, such as what the box left alone.
    pub fn note(&mut self, note: impl Into<String>) {
        self.services.note(note.into());
    }
}
