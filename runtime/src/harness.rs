//! One box without a scheduler, for tests of operators.
//!
//! The harness keeps the promises that `operator.rs` makes, in one thread: it fires the box until it waits with
//! nothing left to do, or is done. Outputs hold as many envelopes as [`Harness::room`] says, and are emptied by the
//! test.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::envelope::Envelope;
use crate::inside::Inside;
use crate::operator::{
    Bind, BoxError, Cancelled, Context, Environment, Flow, Host, Operator, OperatorSpec, Outside, Problem,
    Pushed, Resource,
};
use crate::parameter::{Arguments, Value};
use crate::sync::{AtomicBool, Condvar, Mutex};

/// One box of an operator, its ports held by the test.
pub struct Harness {
    spec: &'static OperatorSpec,
    operator: Box<dyn Operator>,
    ports: Ports,
    done: bool,
    /// Firings so far.
    pub firings: usize,
}

struct Ports {
    arguments: Arguments,
    spec: &'static OperatorSpec,
    inputs: Vec<VecDeque<Envelope>>,
    ended: Vec<bool>,
    closed_inputs: Vec<bool>,
    sides: Vec<Vec<Envelope>>,
    /// With the node that each envelope's data are on, where its push said one.
    outputs: Vec<VecDeque<(Envelope, Option<usize>)>>,
    closed_outputs: Vec<bool>,
    room: usize,
    nodes: usize,
    hints_read: Vec<BTreeMap<u32, f64>>,
    hints_written: Vec<BTreeMap<u32, f64>>,
    cancelled: bool,
    progress: (u64, u64),
    outside: Arc<UnderWay>,
    problems: Vec<Problem>,
    detached: Vec<String>,
    announced: usize,
}

impl Harness {
    /// Makes a box of an operator with these parameters and no resources.
    ///
    /// # Errors
    /// When a parameter is wrong or the operator refuses to be made.
    pub fn new<'a>(
        spec: &'static OperatorSpec,
        parameters: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<Self, BoxError> {
        Self::with_resources(spec, parameters, [])
    }

    /// Makes a box of an operator with these parameters and resources.
    ///
    /// # Errors
    /// When a parameter is wrong or the operator refuses to be made.
    pub fn with_resources<'a>(
        spec: &'static OperatorSpec,
        parameters: impl IntoIterator<Item = (&'a str, Value)>,
        resources: impl IntoIterator<Item = (&'a str, Resource)>,
    ) -> Result<Self, BoxError> {
        let given = parameters.into_iter().map(|(name, value)| (name.to_owned(), value));
        let arguments = Arguments::check(spec.parameters, given).map_err(|faults| {
            BoxError::new(faults.into_iter().map(|(_, message)| message).collect::<Vec<_>>().join("; "))
        })?;
        let resources: BTreeMap<String, Resource> =
            resources.into_iter().map(|(name, resource)| (name.to_owned(), resource)).collect();
        let environment = Environment::of_slots(1);
        let mut bind = Bind::new(spec.name, &arguments, &resources, &environment);
        let shared: Option<Arc<_>> = spec.share.map(|share| share(&bind)).transpose()?;
        bind.shared = shared.as_ref();
        let operator = (spec.make)(&bind)?;
        Ok(Self::around(spec, operator, arguments))
    }

    /// A box of an operator that the test has made itself, with the defaults of its parameters where it has any.
    pub fn of(spec: &'static OperatorSpec, operator: Box<dyn Operator>) -> Self {
        Self::around(spec, operator, Arguments::new(BTreeMap::new()))
    }

    fn around(spec: &'static OperatorSpec, operator: Box<dyn Operator>, arguments: Arguments) -> Self {
        let (inputs, outputs) = (spec.inputs.len(), spec.outputs.len());
        let ports = Ports {
            arguments,
            spec,
            inputs: vec![VecDeque::new(); inputs],
            // As on a graph: one that may stay unconnected is so until it is given something.
            ended: spec.inputs.iter().map(|input| !input.required).collect(),
            closed_inputs: vec![false; inputs],
            sides: vec![Vec::new(); inputs],
            outputs: vec![VecDeque::new(); outputs],
            closed_outputs: vec![false; outputs],
            room: usize::MAX,
            nodes: 1,
            hints_read: vec![BTreeMap::new(); spec.hints_read.len()],
            hints_written: vec![BTreeMap::new(); spec.hints_written.len()],
            cancelled: false,
            progress: (0, 0),
            outside: Arc::new(UnderWay::new()),
            problems: Vec::new(),
            detached: Vec::new(),
            announced: 0,
        };
        Self { spec, operator, ports, done: false, firings: 0 }
    }

    /// Envelopes that each output holds before it has no room.
    pub fn room(&mut self, envelopes: usize) {
        self.ports.room = envelopes;
    }

    /// Lets the box see a machine of so many nodes, of which it runs on the first.
    pub fn nodes(&mut self, nodes: usize) {
        self.ports.nodes = nodes;
    }

    /// Puts an envelope on an input.
    ///
    /// # Panics
    /// When there is no such input, or the envelope does not fit its descriptor.
    pub fn give(&mut self, input: &str, envelope: Envelope) {
        let idx = self.spec.input_idx(input).unwrap_or_else(|| panic!("no input `{input}`"));
        let descriptor = (self.spec.inputs[idx].descriptor)(&self.ports.arguments);
        if let Err(reason) = descriptor.admits(envelope.schema()) {
            panic!("the envelope does not fit the input `{input}`: {reason}");
        }
        if self.spec.inputs[idx].mode == crate::operator::Mode::Side {
            self.ports.sides[idx].push(envelope);
        } else {
            self.ports.ended[idx] &= self.spec.inputs[idx].required;
            self.ports.inputs[idx].push_back(envelope);
        }
    }

    /// Ends an input.
    ///
    /// # Panics
    /// When there is no such input.
    pub fn end(&mut self, input: &str) {
        let idx = self.spec.input_idx(input).unwrap_or_else(|| panic!("no input `{input}`"));
        self.ports.ended[idx] = true;
    }

    /// Closes an output, as a consumer does that needs no more.
    ///
    /// # Panics
    /// When there is no such output.
    pub fn close(&mut self, output: &str) {
        let idx = self.spec.output_idx(output).unwrap_or_else(|| panic!("no output `{output}`"));
        self.ports.closed_outputs[idx] = true;
    }

    /// Sets a hint that the box reads.
    ///
    /// # Panics
    /// When the operator reads no such hint.
    pub fn set_hint(&mut self, hint: &str, query: u32, value: f64) {
        let idx = self.spec.hints_read.iter().position(|spec| spec.name == hint);
        self.ports.hints_read[idx.unwrap_or_else(|| panic!("no hint `{hint}`"))].insert(query, value);
    }

    /// The value of a hint that the box has written, or its bottom.
    ///
    /// # Panics
    /// When the operator writes no such hint.
    pub fn hint(&self, hint: &str, query: u32) -> f64 {
        let idx = self.spec.hints_written.iter().position(|spec| spec.name == hint);
        let idx = idx.unwrap_or_else(|| panic!("no hint `{hint}`"));
        self.ports.hints_written[idx]
            .get(&query)
            .copied()
            .unwrap_or(self.spec.hints_written[idx].join.bottom())
    }

    /// Cancels the box's request.
    pub fn cancel(&mut self) {
        self.ports.cancelled = true;
    }

    /// Fires the box until it waits and a further firing would change nothing, or it is done.
    ///
    /// # Errors
    /// The error of a firing.
    pub fn run(&mut self) -> Result<(), BoxError> {
        /// A box that says `More` this often in a row without an end is broken.
        const FIRINGS_MAX: usize = 1_000_000;
        while !self.done {
            let outputs = self.spec.outputs.len();
            if outputs > 0 && self.ports.closed_outputs.iter().all(|closed| *closed) {
                self.done = true;
            } else if (0..outputs).all(|output| self.ports.has_room(output)) {
                let before = self.ports.state();
                self.firings += 1;
                assert!(self.firings < FIRINGS_MAX, "the box `{}` never waits", self.spec.name);
                match self.operator.process(&mut Context::new(self.spec, &mut self.ports))? {
                    Flow::Done => self.done = true,
                    Flow::More => {}
                    Flow::Wait if self.ports.state() == before && !self.ports.outside.wait() => break,
                    Flow::Wait => {}
                }
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Whether the box has finished.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether the box has closed an input.
    ///
    /// # Panics
    /// When there is no such input.
    pub fn has_closed(&self, input: &str) -> bool {
        self.ports.closed_inputs[self.spec.input_idx(input).unwrap_or_else(|| panic!("no input `{input}`"))]
    }

    /// Takes all envelopes that wait on an output.
    ///
    /// # Panics
    /// When there is no such output.
    pub fn taken(&mut self, output: &str) -> Vec<Envelope> {
        self.taken_near(output).into_iter().map(|(envelope, _)| envelope).collect()
    }

    /// The same, each with the node that its data are on, where its push said one.
    ///
    /// # Panics
    /// When there is no such output.
    pub fn taken_near(&mut self, output: &str) -> Vec<(Envelope, Option<usize>)> {
        let idx = self.spec.output_idx(output).unwrap_or_else(|| panic!("no output `{output}`"));
        self.ports.outputs[idx].drain(..).collect()
    }

    /// The problems reported so far.
    pub fn problems(&self) -> &[Problem] {
        &self.ports.problems
    }

    /// How far the box said that it is: done and total.
    pub fn progress(&self) -> (u64, u64) {
        self.ports.progress
    }

    /// The blocking classes of the closures run so far.
    pub fn detached(&self) -> &[String] {
        &self.ports.detached
    }

    /// How often the box let its neighbours know, within a firing, what it took and pushed.
    pub fn announced(&self) -> usize {
        self.ports.announced
    }
}

/// What the box has begun outside of its firings.
struct UnderWay {
    counts: (Mutex<Counts>, Condvar),
}

#[derive(Clone, Copy, std::default::Default)]
struct Counts {
    begun: usize,
    over: usize,
    /// How many of those that are over a firing has seen.
    seen: usize,
}

impl UnderWay {
    fn new() -> Self {
        Self { counts: (Mutex::new(Counts::default()), Condvar::new()) }
    }

    fn end(&self) {
        self.counts.0.lock().over += 1;
        self.counts.1.notify_all();
    }

    /// Waits until something is over that no firing has seen. False when nothing is under way.
    fn wait(&self) -> bool {
        let mut counts = self.counts.0.lock();
        while counts.over == counts.seen && counts.over < counts.begun {
            self.counts.1.wait(&mut counts);
        }
        let is_news = counts.seen < counts.over;
        counts.seen = counts.over;
        is_news
    }
}

impl Ports {
    /// What tells whether a firing did anything.
    fn state(&self) -> (usize, usize, usize) {
        let waiting = self.inputs.iter().map(VecDeque::len).sum();
        let closed = self.closed_inputs.iter().filter(|closed| **closed).count();
        (waiting, self.outputs.iter().map(VecDeque::len).sum(), closed)
    }
}

impl Host for Ports {
    fn take(&mut self, input: usize) -> Option<Envelope> {
        if self.closed_inputs[input] { None } else { self.inputs[input].pop_front() }
    }

    fn is_ended(&self, input: usize) -> bool {
        self.closed_inputs[input] || (self.ended[input] && self.inputs[input].is_empty())
    }

    fn close(&mut self, input: usize) {
        self.closed_inputs[input] = true;
        self.inputs[input].clear();
    }

    fn side(&self, input: usize) -> &[Envelope] {
        &self.sides[input]
    }

    fn has_room(&self, output: usize) -> bool {
        let unwanted = self.closed_outputs.iter().all(|closed| *closed);
        !unwanted && (self.closed_outputs[output] || self.outputs[output].len() < self.room)
    }

    fn push(&mut self, output: usize, envelope: Envelope, near: Option<usize>) -> Result<Pushed, BoxError> {
        let port = &self.spec.outputs[output];
        (port.descriptor)(&self.arguments).admits(envelope.schema()).map_err(|reason| {
            BoxError::new(format!("an envelope does not fit the output `{}`: {reason}", port.name))
        })?;
        if self.closed_outputs[output] {
            return Ok(Pushed::Closed);
        }
        if !self.has_room(output) {
            return Err(BoxError::new(format!(
                "the output `{}` has no room: ask `has_room` before a second push",
                port.name
            )));
        }
        self.outputs[output].push_back((envelope, near));
        Ok(Pushed::Sent)
    }

    fn nodes(&self) -> usize {
        self.nodes
    }

    fn node(&self) -> usize {
        0
    }

    fn is_closed(&self, output: usize) -> bool {
        self.closed_outputs[output]
    }

    fn hint(&self, hint: usize, query: u32) -> f64 {
        self.hints_read[hint].get(&query).copied().unwrap_or(self.spec.hints_read[hint].join.bottom())
    }

    fn join_hint(&mut self, hint: usize, query: u32, value: f64) {
        let join = self.spec.hints_written[hint].join;
        let entry = self.hints_written[hint].entry(query).or_insert(join.bottom());
        *entry = join.join(*entry, value);
    }

    fn announce(&mut self) {
        self.announced += 1;
    }

    fn detached(&mut self, class: &str, f: &mut dyn FnMut()) -> Result<(), Cancelled> {
        if self.cancelled {
            return Err(Cancelled);
        }
        self.detached.push(class.to_owned());
        f();
        Ok(())
    }

    fn outside(&mut self) -> Outside {
        let under_way = Arc::clone(&self.outside);
        under_way.counts.0.lock().begun += 1;
        Outside::new(move || under_way.end())
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    fn inside(&mut self, f: &mut dyn FnMut(&mut Inside<'_>)) {
        f(&mut Inside::new(None, &AtomicBool::new(self.cancelled)));
    }

    fn progress(&mut self, done: u64, total: u64) {
        self.progress = (done, total);
    }

    fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }
}
