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
//! This file knows no scheduler: [`Host`] is what a scheduler (or [`Harness`](crate::harness::Harness)) offers.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::descriptor::Descriptor;
use crate::envelope::Envelope;
use crate::inside::Inside;
use crate::parameter::{Arguments, DeviceChoice, Parameter, Value};

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

/// Something of a box that is under way outside of its firings, such as a block on a device: until this is dropped the
/// request does not end and is not taken for stalled, and then the box is fired again.
///
/// Whoever works for the box holds it, never the operator: a box that kept its own would wait for itself.
pub struct Outside {
    over: Option<Box<dyn FnOnce() + Send>>,
    lender: Option<Arc<dyn Lend>>,
}

/// What lends slots to threads that are not a scheduler's own.
pub(crate) trait Lend: Send + Sync {
    /// Withholds a slot from tasks; none where too few are left.
    fn withhold(&self) -> Option<Computing>;
}

/// A slot withheld from tasks while this lives: see [`Outside::computing`].
pub struct Computing(Option<Box<dyn FnOnce() + Send>>);

impl Computing {
    pub(crate) fn new(give_back: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(give_back)))
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        if let Some(give_back) = self.0.take() {
            give_back();
        }
    }
}

impl Outside {
    /// One that calls `over` when it is dropped; schedulers and harnesses make it.
    pub fn new(over: impl FnOnce() + Send + 'static) -> Self {
        Self { over: Some(Box::new(over)), lender: None }
    }

    /// The same, of a scheduler that lends slots.
    pub(crate) fn lent_by(mut self, lender: Arc<dyn Lend>) -> Self {
        self.lender = Some(lender);
        self
    }

    /// Says that a thread which is none of the scheduler's computes for the box, as long as what is given lives: one slot
    /// is then withheld from tasks, from the end of one on, so that the thread has a core. Nothing where that would leave
    /// no slot.
    pub fn computing(&self) -> Option<Computing> {
        self.lender.as_ref()?.withhold()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        if let Some(over) = self.over.take() {
            over();
        }
    }
}

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outside").finish_non_exhaustive()
    }
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
}

impl<'a> Context<'a> {
    /// A context over a host; schedulers and harnesses make it.
    pub fn new(spec: &'static OperatorSpec, host: &'a mut dyn Host) -> Self {
        Self { spec, host }
    }

    #[inline]
    fn input(&self, name: &str) -> usize {
        self.spec
            .input_idx(name)
            .unwrap_or_else(|| panic!("operator `{}` has no input `{name}`", self.spec.name))
    }

    #[inline]
    fn output(&self, name: &str) -> usize {
        self.spec
            .output_idx(name)
            .unwrap_or_else(|| panic!("operator `{}` has no output `{name}`", self.spec.name))
    }

    /// The next envelope of a stream or merge input, or nothing when none waits.
    #[inline]
    pub fn take(&mut self, input: &str) -> Option<Envelope> {
        let input = self.input(input);
        self.host.take(input)
    }

    /// Whether nothing waits on an input and nothing will come.
    #[inline]
    pub fn is_ended(&self, input: &str) -> bool {
        self.host.is_ended(self.input(input))
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
    #[inline]
    pub fn has_room(&self, output: &str) -> bool {
        self.host.has_room(self.output(output))
    }

    /// Puts an envelope on an output.
    ///
    /// # Errors
    /// When the output has no room, or the envelope's columns are not those of the output's descriptor: bugs of the
    /// operator, which end the request with its name.
    #[inline]
    pub fn push(&mut self, output: &str, envelope: Envelope) -> Result<Pushed, BoxError> {
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

/// How an input port receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One edge; each envelope goes to one free copy of the box.
    Stream,
    /// One edge, unbounded; every copy gets all of it, complete before the first firing.
    Side,
    /// Any number of edges, a few envelopes from each in turn; it ends when all have.
    Merge,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stream => "stream",
            Self::Side => "side",
            Self::Merge => "merge",
        })
    }
}

/// Whether a box may have copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Copies allowed; the order of the output may change.
    Stateless,
    /// Copies allowed; each firing takes one envelope, and the order of the output is restored by it.
    Ordered,
    /// One copy only.
    Stateful,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stateless => "stateless",
            Self::Ordered => "ordered",
            Self::Stateful => "stateful",
        })
    }
}

/// An input port in an operator's table.
#[derive(Clone, Copy)]
pub struct Input {
    /// The name.
    pub name: &'static str,
    /// How it receives.
    pub mode: Mode,
    /// Whether it must be connected.
    pub required: bool,
    /// The least envelopes that must fit on its edge, for the box to make progress; 1 for nearly all.
    pub envelopes_min: usize,
    /// The columns; may depend on the parameters.
    pub descriptor: fn(&Arguments) -> Descriptor,
    /// One line on what comes in.
    pub about: &'static str,
}

impl Input {
    /// A required stream input.
    pub const fn stream(
        name: &'static str,
        descriptor: fn(&Arguments) -> Descriptor,
        about: &'static str,
    ) -> Self {
        Self { name, mode: Mode::Stream, required: true, envelopes_min: 1, descriptor, about }
    }

    /// A required side input.
    pub const fn side(
        name: &'static str,
        descriptor: fn(&Arguments) -> Descriptor,
        about: &'static str,
    ) -> Self {
        Self { name, mode: Mode::Side, required: true, envelopes_min: 1, descriptor, about }
    }

    /// A required merge input.
    pub const fn merge(
        name: &'static str,
        descriptor: fn(&Arguments) -> Descriptor,
        about: &'static str,
    ) -> Self {
        Self { name, mode: Mode::Merge, required: true, envelopes_min: 1, descriptor, about }
    }

    /// The same, which may stay unconnected; it has then ended from the start.
    pub const fn optional(mut self) -> Self {
        self.required = false;
        self
    }
}

/// An output port in an operator's table. One that feeds no edge is closed from the start.
#[derive(Clone, Copy)]
pub struct Output {
    /// The name.
    pub name: &'static str,
    /// The columns; may depend on the parameters.
    pub descriptor: fn(&Arguments) -> Descriptor,
    /// One line on what goes out.
    pub about: &'static str,
}

impl Output {
    /// An output of this name and descriptor.
    pub const fn new(
        name: &'static str,
        descriptor: fn(&Arguments) -> Descriptor,
        about: &'static str,
    ) -> Self {
        Self { name, descriptor, about }
    }
}

/// How the values of a hint join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// The least value; the bottom is infinity.
    Minimum,
    /// The greatest value; the bottom is minus infinity.
    Maximum,
}

impl Join {
    /// The value of a hint that nobody has written.
    pub const fn bottom(self) -> f64 {
        match self {
            Self::Minimum => f64::INFINITY,
            Self::Maximum => f64::NEG_INFINITY,
        }
    }

    /// The join of two values.
    pub fn join(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Minimum => a.min(b),
            Self::Maximum => a.max(b),
        }
    }
}

/// A hint that an operator reads or writes: one value per query of the request.
#[derive(Clone, Copy, Debug)]
pub struct Hint {
    /// The name.
    pub name: &'static str,
    /// How values join; both ends of a hint's edge must agree.
    pub join: Join,
    /// One line on what it means.
    pub about: &'static str,
}

/// Everything that is known of an operator but its code: the table that the catalogue lists.
pub struct OperatorSpec {
    /// The name, as in `kind: NAME`.
    pub name: &'static str,
    /// One line on what it does.
    pub about: &'static str,
    /// Whether a box of it may have copies.
    pub kind: Kind,
    /// The parameters.
    pub parameters: &'static [Parameter],
    /// The input ports; an edge that names no port means the first.
    pub inputs: &'static [Input],
    /// The output ports; an edge that names no port means the first.
    pub outputs: &'static [Output],
    /// The hints that it reads; the box is planned when one changes.
    pub hints_read: &'static [Hint],
    /// The hints that it writes.
    pub hints_written: &'static [Hint],
    /// The blocking class whose permit is taken before each firing starts, or nothing.
    pub blocking: Option<&'static str>,
    /// A box in YAML, as an example.
    pub example: &'static str,
    /// Makes the operator of a box (of each copy, for each request).
    pub make: fn(&Bind<'_>) -> Result<Box<dyn Operator>, BoxError>,
    /// Makes what all requests of a box share (an output file, say), once, when the pipeline is prepared.
    pub share: Option<Share>,
    /// Which code runs (`AVX2`, say), for `explain`.
    pub code_path: Option<fn(&Arguments) -> String>,
}

impl OperatorSpec {
    /// A table with nothing but a name, to be filled in with `..OperatorSpec::new(..)`.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        kind: Kind,
        make: fn(&Bind<'_>) -> Result<Box<dyn Operator>, BoxError>,
    ) -> Self {
        Self {
            name,
            about,
            kind,
            parameters: &[],
            inputs: &[],
            outputs: &[],
            hints_read: &[],
            hints_written: &[],
            blocking: None,
            example: "",
            make,
            share: None,
            code_path: None,
        }
    }

    /// The place of an input in the table.
    // An operator names its ports with the literals of its table, which the compiler keeps once: their addresses tell.
    #[inline]
    pub fn input_idx(&self, name: &str) -> Option<usize> {
        match self.inputs {
            [first, ..] if std::ptr::eq(first.name, name) => Some(0),
            inputs => inputs.iter().position(|port| port.name == name),
        }
    }

    /// The place of an output in the table.
    #[inline]
    pub fn output_idx(&self, name: &str) -> Option<usize> {
        match self.outputs {
            [first, ..] if std::ptr::eq(first.name, name) => Some(0),
            outputs => outputs.iter().position(|port| port.name == name),
        }
    }
}

impl fmt::Debug for OperatorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorSpec").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A loaded resource: a snapshot that boxes share.
pub type Resource = Arc<dyn Any + Send + Sync>;
/// Makes what all requests of a box share.
pub type Share = fn(&Bind<'_>) -> Result<Resource, BoxError>;
/// Checks arguments with no file opened; the text says what is wrong.
pub type Check = fn(&Arguments) -> Result<(), String>;

/// A kind of resource: something loaded once and shared by requests.
pub struct ResourceSpec {
    /// The name, as in `kind: NAME`.
    pub name: &'static str,
    /// One line on what it is.
    pub about: &'static str,
    /// The parameters; those of type [`ParameterType::Resource`](crate::parameter::ParameterType::Resource) name
    /// resources that are loaded before.
    pub parameters: &'static [Parameter],
    /// An example in YAML.
    pub example: &'static str,
    /// Checks what can be checked with no file opened: parameters that exclude each other, say.
    pub check: Option<Check>,
    /// Opens or builds it.
    pub load: fn(&Bind<'_>) -> Result<Resource, BoxError>,
}

impl fmt::Debug for ResourceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceSpec").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Which part of a run a request is: queries beyond [`QUERIES_MAX`](crate::parameter::QUERIES_MAX) make more
/// requests, and sinks restore their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The place of this request among the run's.
    pub idx: usize,
    /// How many requests the run has.
    pub count: usize,
}

impl Part {
    /// The only request of a run.
    pub const WHOLE: Self = Self { idx: 0, count: 1 };
}

/// What a box or a resource is made from: its checked parameters and the resources.
///
/// The typed getters panic when the table has no such parameter, or one of another type: a bug of the operator.
pub struct Bind<'a> {
    /// The box's or resource's name in the pipeline.
    pub name: &'a str,
    /// The parameters' values.
    pub arguments: &'a Arguments,
    /// The loaded resources by name.
    pub resources: &'a BTreeMap<String, Resource>,
    /// Which part of a run the request is.
    pub part: Part,
    /// What `share` made, where the operator has it.
    pub shared: Option<&'a Resource>,
}

impl Bind<'_> {
    fn wrong(&self, name: &str, wanted: &str) -> ! {
        panic!("`{}` asked for the parameter `{name}` as {wanted}, which its table does not say", self.name)
    }

    /// A whole number, where given.
    pub fn get_integer(&self, name: &str) -> Option<i64> {
        match self.arguments.get(name)? {
            Value::Integer(value) => Some(*value),
            _ => self.wrong(name, "a whole number"),
        }
    }

    /// A whole number that is at least zero.
    pub fn count(&self, name: &str) -> usize {
        match self.get_integer(name).map(usize::try_from) {
            Some(Ok(value)) => value,
            _ => self.wrong(name, "a count"),
        }
    }

    /// A number, where given.
    pub fn get_number(&self, name: &str) -> Option<f64> {
        match self.arguments.get(name)? {
            Value::Number(value) => Some(*value),
            _ => self.wrong(name, "a number"),
        }
    }

    /// A number.
    pub fn number(&self, name: &str) -> f64 {
        self.get_number(name).unwrap_or_else(|| self.wrong(name, "a number"))
    }

    /// `true` or `false`.
    pub fn boolean(&self, name: &str) -> bool {
        match self.arguments.get(name) {
            Some(Value::Boolean(value)) => *value,
            _ => self.wrong(name, "true or false"),
        }
    }

    /// Text, where given.
    pub fn get_text(&self, name: &str) -> Option<&str> {
        match self.arguments.get(name)? {
            Value::Text(value) => Some(value),
            _ => self.wrong(name, "text"),
        }
    }

    /// Text.
    pub fn text(&self, name: &str) -> &str {
        self.get_text(name).unwrap_or_else(|| self.wrong(name, "text"))
    }

    /// Where to compute.
    pub fn device(&self, name: &str) -> DeviceChoice {
        self.text(name).parse().unwrap_or_else(|_| self.wrong(name, "a device"))
    }

    /// A path.
    pub fn path(&self, name: &str) -> PathBuf {
        Path::new(self.text(name)).to_path_buf()
    }

    /// A list of texts.
    pub fn texts(&self, name: &str) -> Vec<String> {
        let Some(Value::List(values)) = self.arguments.get(name) else { self.wrong(name, "a list") };
        values
            .iter()
            .map(|value| match value {
                Value::Text(text) => text.clone(),
                _ => self.wrong(name, "a list of texts"),
            })
            .collect()
    }

    /// A list of numbers.
    pub fn numbers(&self, name: &str) -> Vec<f64> {
        let Some(Value::List(values)) = self.arguments.get(name) else { self.wrong(name, "a list") };
        values
            .iter()
            .map(|value| match value {
                Value::Number(number) => *number,
                _ => self.wrong(name, "a list of numbers"),
            })
            .collect()
    }

    /// The resource that a parameter names, where given.
    ///
    /// # Errors
    /// When the resource is of another kind.
    pub fn get_resource<T: Any + Send + Sync>(&self, name: &str) -> Result<Option<Arc<T>>, BoxError> {
        let Some(resource_name) = self.get_text(name) else { return Ok(None) };
        let resource = self.resources.get(resource_name).ok_or_else(|| {
            BoxError::new(format!("`{}` uses the resource `{resource_name}`, which is not there", self.name))
        })?;
        Arc::clone(resource).downcast().map(Some).map_err(|_| {
            BoxError::new(format!(
                "the resource `{resource_name}` is of another kind than `{}` needs",
                self.name
            ))
        })
    }

    /// The resource that a parameter names.
    ///
    /// # Errors
    /// When the resource is of another kind.
    pub fn resource<T: Any + Send + Sync>(&self, name: &str) -> Result<Arc<T>, BoxError> {
        Ok(self.get_resource(name)?.unwrap_or_else(|| self.wrong(name, "a resource")))
    }

    /// What [`OperatorSpec::share`] made.
    pub fn shared<T: Any + Send + Sync>(&self) -> Arc<T> {
        let shared = self.shared.cloned().and_then(|shared| shared.downcast().ok());
        shared.unwrap_or_else(|| panic!("`{}` shares nothing of this type", self.name))
    }
}

/// The operators and resources that pipelines can name.
#[derive(Clone, Default)]
pub struct Catalog {
    operators: Vec<&'static OperatorSpec>,
    resources: Vec<&'static ResourceSpec>,
}

impl Catalog {
    /// A catalogue of these.
    ///
    /// # Panics
    /// When two operators or two resources have one name.
    pub fn new(
        operators: impl IntoIterator<Item = &'static OperatorSpec>,
        resources: impl IntoIterator<Item = &'static ResourceSpec>,
    ) -> Self {
        let mut catalog = Self::default();
        for spec in operators {
            catalog = catalog.with(spec);
        }
        for spec in resources {
            catalog = catalog.with_resource(spec);
        }
        catalog
    }

    /// The same with one more operator.
    ///
    /// # Panics
    /// When an operator of that name is there already.
    #[must_use]
    pub fn with(mut self, spec: &'static OperatorSpec) -> Self {
        assert!(self.operator(spec.name).is_none(), "two operators are named `{}`", spec.name);
        self.operators.push(spec);
        self
    }

    /// The same with one more kind of resource.
    ///
    /// # Panics
    /// When a kind of that name is there already.
    #[must_use]
    pub fn with_resource(mut self, spec: &'static ResourceSpec) -> Self {
        assert!(self.resource(spec.name).is_none(), "two kinds of resource are named `{}`", spec.name);
        self.resources.push(spec);
        self
    }

    /// All operators, in the order they were added.
    pub fn operators(&self) -> &[&'static OperatorSpec] {
        &self.operators
    }

    /// All kinds of resource, in the order they were added.
    pub fn resources(&self) -> &[&'static ResourceSpec] {
        &self.resources
    }

    /// The operator of a name.
    pub fn operator(&self, name: &str) -> Option<&'static OperatorSpec> {
        self.operators.iter().copied().find(|spec| spec.name == name)
    }

    /// The kind of resource of a name.
    pub fn resource(&self, name: &str) -> Option<&'static ResourceSpec> {
        self.resources.iter().copied().find(|spec| spec.name == name)
    }
}
