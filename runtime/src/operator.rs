//! The operator contract: what a person writes to make a new kind of box.
//!
//! An operator is one method, [`Operator::process`], and one table, [`OperatorSpec`]. The method takes what waits on
//! the inputs, puts what fits on the outputs and returns; it never sleeps or spins, and is never run by two threads
//! at once. A *firing* is one call of it.
//!
//! What the runtime promises to a firing:
//! - every open output has room for one envelope ([`Context::has_room`] tells whether it has for another);
//! - all envelopes of the side inputs are there;
//! - it comes again when an input arrives or ends, an output has room again, a hint that it reads changes, or something
//!   that it has begun [outside](Outside) is over;
//! - a box whose outputs are all closed is not fired any more: nobody wants what it makes.
//!
//! This file knows no scheduler: [`Host`] is what a scheduler (or `Harness`, in tests) offers.

mod memory;
mod bind;
mod caller;
mod catalog;
mod environment;
mod table;

pub use bind::{Bind, Part};
pub use caller::{BatchWriter, CALLER, Collected, InputReader, OutputWriter, RequestInput, RequestOutput};
pub use catalog::Catalog;
pub use environment::{Cancellation, Environment};
pub use memory::Memory;
pub use table::{
    BoxCheck, Check, Hint, Input, Join, Kind, Mode, OperatorSpec, Output, Resource, ResourceSpec, Share,
};

pub use crate::outside::{Computing, Outside};

use std::fmt;
use std::ops::Range;

use crate::edge::Direct;
use crate::envelope::Envelope;
use crate::inside::Inside;

/// The serial code in a box.
pub trait Operator: Send {
    /// Takes what waits on the inputs, puts what fits on the outputs, and returns.
    ///
    /// # Errors
    /// An error ends the request, with the box's name before the message.
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError>;
}

/// What a box does after a firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It waits for an event: an input, room on an output, a hint.
    Wait,
    /// It has more to do at once and gives the others a turn first.
    More,
    /// It has finished: its outputs end, its inputs close.
    Done,
}

/// What ends a request: a message with its causes, written for the person who runs the pipeline.
pub struct BoxError {
    message: String,
}

impl BoxError {
    /// An error of this message, which names the file, the place and the fix where there are any.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for BoxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for BoxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

// `BoxError` is no `std::error::Error` itself, so that any error can become one by `?`.
impl<E: std::error::Error> From<E> for BoxError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(deeper) = cause {
            let text = deeper.to_string();
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = deeper.source();
        }
        Self { message }
    }
}

/// The request was cancelled (or its deadline passed) while a task waited to block; return it by `?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request was cancelled")]
pub struct Cancelled;

/// A fault in one item of the input (a truncated image, say) that does not end the request: it is counted and
/// listed at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What it is about: a file, a line of a file.
    pub subject: String,
    /// What is wrong, and what to do.
    pub message: String,
}

/// What became of a pushed envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is on its way.
    Sent,
    /// Every consumer has closed its input: the envelope was dropped.
    Closed,
}

/// What a scheduler offers to a firing; ports are given by their place in the operator's table.
///
/// Operators use [`Context`], which wraps this with port names.
pub trait Host {
    /// The next envelope of a stream or merge input.
    fn take(&mut self, input: usize) -> Option<Envelope>;
    /// Whether nothing waits on an input and nothing will come.
    fn is_ended(&self, input: usize) -> bool;
    /// Closes an input: its producer sees its output closed.
    fn close(&mut self, input: usize);
    /// All envelopes of a side input.
    fn side(&self, input: usize) -> &[Envelope];
    /// Whether an output takes one more envelope in this firing.
    fn has_room(&self, output: usize) -> bool;
    /// Puts an envelope on an output; `near` is the node that its data are on, where they are on one.
    fn push(&mut self, output: usize, envelope: Envelope, near: Option<usize>) -> Result<Pushed, BoxError>;
    /// How many nodes the machine has.
    fn nodes(&self) -> usize;
    /// The node that the firing runs on.
    fn node(&self) -> usize;
    /// Whether every consumer of an output has closed its input.
    fn is_closed(&self, output: usize) -> bool;
    /// The value of a hint that the box reads; may be stale.
    fn hint(&self, hint: usize, query: u32) -> f64;
    /// Joins a value into a hint that the box writes.
    fn join_hint(&mut self, hint: usize, query: u32, value: f64);
    /// Runs a blocking closure without holding a slot; see [`Context::detached`].
    fn detached(&mut self, class: &str, f: &mut dyn FnMut()) -> Result<(), Cancelled>;
    /// As [`Context::announce`].
    fn announce(&mut self);
    /// As [`Context::outside`].
    fn outside(&mut self) -> Outside;
    /// Whether the request is being cancelled.
    fn is_cancelled(&self) -> bool;
    /// As [`Context::inside`].
    fn inside(&mut self, f: &mut dyn FnMut(&mut Inside<'_>));
    /// Sets how far the box is.
    fn progress(&mut self, done: u64, total: u64);
    /// Records a problem that does not end the request.
    fn report(&mut self, problem: Problem);
}

/// A firing's door to its box's ports, hints and the scheduler.
///
/// Ports are named as in the operator's table; a name that is not there is a bug in the operator and panics.
pub struct Context<'a> {
    spec: &'static OperatorSpec,
    host: &'a mut dyn Host,
    /// What answers without a call of the host, where it can.
    direct: Option<&'a Direct<'a>>,
}

impl<'a> Context<'a> {
    /// A context over a host; schedulers and harnesses make it.
    pub fn new(spec: &'static OperatorSpec, host: &'a mut dyn Host) -> Self {
        Self { spec, host, direct: None }
    }

    /// The same with a direct way to the edges, whose state the host shares.
    #[inline]
    pub(crate) fn with_direct(
        spec: &'static OperatorSpec,
        host: &'a mut dyn Host,
        direct: &'a Direct<'a>,
    ) -> Self {
        Self { spec, host, direct: Some(direct) }
    }

    #[inline(never)]
    fn input(&self, name: &str) -> usize {
        self.spec
            .input_idx(name)
            .unwrap_or_else(|| panic!("operator `{}` has no input `{name}`", self.spec.name))
    }

    #[inline(never)]
    fn output(&self, name: &str) -> usize {
        self.spec
            .output_idx(name)
            .unwrap_or_else(|| panic!("operator `{}` has no output `{name}`", self.spec.name))
    }

    /// The next envelope of a stream or merge input, or nothing when none waits.
    #[inline(always)]
    pub fn take(&mut self, input: &str) -> Option<Envelope> {
        match self.direct.and_then(|direct| direct.take(input)) {
            Some(taken) => taken,
            None => self.host.take(self.input(input)),
        }
    }

    /// Whether nothing waits on an input and nothing will come.
    #[inline(always)]
    pub fn is_ended(&self, input: &str) -> bool {
        match self.direct.and_then(|direct| direct.is_ended(input)) {
            Some(is_ended) => is_ended,
            None => self.host.is_ended(self.input(input)),
        }
    }

    /// Closes an input that the box needs no more; its producer learns of it, and what waits is dropped.
    pub fn close(&mut self, input: &str) {
        let input = self.input(input);
        self.host.close(input);
    }

    /// All envelopes of a side input, which has ended before the first firing.
    pub fn side(&self, input: &str) -> &[Envelope] {
        self.host.side(self.input(input))
    }

    /// Whether an output takes one more envelope in this firing. True at the start of each; false once all outputs are
    /// closed, as the box is over then.
    #[inline(always)]
    pub fn has_room(&self, output: &str) -> bool {
        self.direct.is_some_and(|direct| direct.has_room(output)) || self.host.has_room(self.output(output))
    }

    /// Puts an envelope on an output.
    ///
    /// # Errors
    /// When the output has no room, or the envelope's columns are not those of the output's descriptor: bugs of the
    /// operator, which end the request with its name.
    #[inline(always)]
    pub fn push(&mut self, output: &str, envelope: Envelope) -> Result<Pushed, BoxError> {
        let envelope = match self.direct {
            None => envelope,
            Some(direct) => match direct.push(output, envelope) {
                Ok(()) => return Ok(Pushed::Sent),
                Err(envelope) => envelope,
            },
        };
        let output = self.output(output);
        self.host.push(output, envelope, None)
    }

    /// The same for an envelope whose data (of a store, say, which it names objects of) are on one node: a copy of the
    /// consumer takes it there, where one is free, and elsewhere rather than not at all. A consumer without copies, or
    /// an ordered one, takes it in turn.
    ///
    /// # Errors
    /// As [`Context::push`].
    pub fn push_near(&mut self, output: &str, envelope: Envelope, node: usize) -> Result<Pushed, BoxError> {
        let output = self.output(output);
        self.host.push(output, envelope, Some(node))
    }

    /// How many nodes the machine has that the runtime runs on.
    pub fn nodes(&self) -> usize {
        self.host.nodes()
    }

    /// The node that the firing runs on; a call that blocks may bring it to another one.
    pub fn node(&self) -> usize {
        self.host.node()
    }

    /// Whether every consumer of an output has closed its input.
    pub fn is_closed(&self, output: &str) -> bool {
        self.host.is_closed(self.output(output))
    }

    /// The value of a hint that the box reads, for one query of the request; it may be stale, and is the hint's
    /// bottom where nobody has written.
    pub fn hint(&self, hint: &str, query: u32) -> f64 {
        let place = self.spec.hints_read.iter().position(|spec| spec.name == hint);
        let idx = place.unwrap_or_else(|| panic!("operator `{}` reads no hint `{hint}`", self.spec.name));
        self.host.hint(idx, query)
    }

    /// Joins a value into a hint that the box writes (the lesser value wins, where the join is the minimum).
    pub fn join_hint(&mut self, hint: &str, query: u32, value: f64) {
        let place = self.spec.hints_written.iter().position(|spec| spec.name == hint);
        let idx = place.unwrap_or_else(|| panic!("operator `{}` writes no hint `{hint}`", self.spec.name));
        self.host.join_hint(idx, query, value);
    }

    /// Runs a closure that blocks (reads a file, say) without holding a slot: another thread computes meanwhile.
    ///
    /// At most as many closures of a class run at once as its limit says; the rest wait, holding no slot either.
    /// Outputs made so far are published first. Never hold a lock across this call.
    ///
    /// # Errors
    /// When the request is cancelled before the closure starts. A running closure is not interrupted.
    pub fn detached<R>(&mut self, class: &str, f: impl FnOnce() -> R) -> Result<R, Cancelled> {
        let (mut f, mut result) = (Some(f), None);
        self.host.detached(class, &mut || {
            if let Some(f) = f.take() {
                result = Some(f());
            }
        })?;
        result.ok_or(Cancelled)
    }

    /// Lets neighbours know now what this firing has pushed, and where it has made room by taking, instead of at its end:
    /// for a box that computes for a millisecond or more once it has taken what it needs, as neighbours could go on
    /// meanwhile.
    pub fn announce(&mut self) {
        self.host.announce();
    }

    /// Begins something outside of the box's firings, such as a block on a device. See [`Outside`].
    pub fn outside(&mut self) -> Outside {
        self.host.outside()
    }

    /// Gives a firing its inside, where closures may run beside each other. See [`Inside`].
    pub fn inside<R>(&mut self, f: impl FnOnce(&mut Inside<'_>) -> R) -> R {
        let (mut f, mut result) = (Some(f), None);
        self.host.inside(&mut |inside| result = f.take().map(|f| f(inside)));
        // The host calls the closure once, by its contract; a panic in it has left this function already.
        result.unwrap_or_else(|| panic!("operator `{}` ran on a host that skips insides", self.spec.name))
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

    /// Whether the request is being cancelled: a long firing asks now and then, and returns early.
    pub fn is_cancelled(&self) -> bool {
        self.host.is_cancelled()
    }

    /// Tells how far the box is, for progress bars; a total of 0 means that it is not known.
    pub fn progress(&mut self, done: u64, total: u64) {
        self.host.progress(done, total);
    }

    /// Records a fault in one item of the input; the request goes on.
    pub fn report(&mut self, subject: impl Into<String>, message: impl Into<String>) {
        self.host.report(Problem { subject: subject.into(), message: message.into() });
    }
}
