//! One box without a scheduler, for tests of operators.
//!
//! The box has the edges and ports of a box in a request ([`Ports`]); the test is its producers and its consumers. The
//! harness keeps the promises of `operator.rs`, in one thread: it fires the box until the box waits with nothing left
//! to do, or is done. An output holds [`Harness::room`] envelopes, the last of which is staged.

mod progress;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray};

use crate::edge::{Edge, EdgeShape, Ledger, PortEdges, PortList};
use crate::envelope::Envelope;
use crate::inside::Inside;
use crate::operator::{
    Bind, BoxError, Cancelled, Connections, Context, Environment, Flow, HintCell, HintIn, HintOut, In, Join,
    Mode, Operator, OperatorEntry, Out, Outside, PortShape, PortState, Ports, Problem, Resource, Services,
};
use crate::parameter::{Arguments, QUERIES_MAX, Value};
use crate::sync::{AtomicBool, Condvar, Mutex, Ordering};

/// The box's place in its edges; the other places are the test's.
const BOX: usize = 0;

/// One box of an operator, its ports held by the test.
pub struct Harness {
    operator: Box<dyn Operator>,
    arguments: Arguments,
    at: Connections,
    state: PortState,
    /// It has no budget.
    ledger: Ledger,
    services: TestServices,
    stopping: Arc<AtomicBool>,
    room: usize,
    nodes: usize,
    filler: Envelope,
    done: bool,
    /// Firings so far.
    pub firings: usize,
}

/// The services of a scheduler for a firing, as far as a test needs them.
struct TestServices {
    stopping: Arc<AtomicBool>,
    outside: Arc<UnderWay>,
    problems: Vec<Problem>,
    notes: Vec<String>,
    detached: Vec<String>,
    announced: usize,
}

/// An edge between the test and the box.
fn edge(idx: usize, producer: usize, consumers: &[usize], lanes: usize, envelopes_max: usize) -> Arc<Edge> {
    let shape = EdgeShape {
        plan_edge: idx,
        producers: Arc::new([producer]),
        consumers: consumers.into(),
        lanes,
        envelopes_max,
        bytes_max: usize::MAX,
    };
    Arc::new(Edge::new(idx, &shape))
}

/// The edge into an input.
fn input_edge(input: usize) -> PortEdges {
    PortEdges::new([edge(input, BOX + 1, &[BOX], 0, usize::MAX)])
}

/// The edges out of the box of an operator on a machine with this many nodes. Each holds one envelope less than the
/// room of the output, so that the last envelope is staged and the firing sees no room. An empty edge takes any
/// envelope: for a room of one it holds the filler.
fn output_edges(spec: &OperatorEntry, room: usize, nodes: usize, filler: &Envelope) -> PortList {
    let output = |idx| {
        // An edge to copies has a lane for each node.
        let (consumers, lanes): (&[usize], usize) =
            if nodes == 1 { (&[BOX + 1], 0) } else { (&[BOX + 1, BOX + 2], nodes) };
        let edge = edge(idx, BOX, consumers, lanes, room.saturating_sub(1).max(1));
        if room == 1 {
            offer(&edge, filler.clone(), &Ledger::new(None));
        }
        PortEdges::new([edge])
    };
    (0..spec.outputs.len()).map(|idx| output(spec.inputs.len() + idx)).collect()
}

/// Takes up the room of an edge.
fn filler() -> Envelope {
    let column: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
    Envelope::from_columns([("filler", column)]).unwrap_or_else(|error| panic!("{error}"))
}

/// A hint that no other box joins.
fn hint_cell(join: Join) -> Arc<HintCell> {
    Arc::new(HintCell::new(join, Arc::new([]), QUERIES_MAX))
}

impl Harness {
    /// Makes a box of an operator with these parameters and no resources.
    ///
    /// # Errors
    /// When a parameter is wrong or the operator cannot be made.
    pub fn new<'a>(
        operator: impl Into<Arc<OperatorEntry>>,
        parameters: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<Self, BoxError> {
        Self::with_resources(operator, parameters, [])
    }

    /// Makes a box of an operator with these parameters and resources.
    ///
    /// # Errors
    /// When a parameter is wrong or the operator cannot be made.
    pub fn with_resources<'a>(
        operator: impl Into<Arc<OperatorEntry>>,
        parameters: impl IntoIterator<Item = (&'a str, Value)>,
        resources: impl IntoIterator<Item = (&'a str, Resource)>,
    ) -> Result<Self, BoxError> {
        let spec = operator.into();
        let given = parameters.into_iter().map(|(name, value)| (name.to_owned(), value));
        let arguments = Arguments::check(&spec.parameters, given).map_err(|faults| {
            BoxError::new(faults.into_iter().map(|(_, message)| message).collect::<Vec<_>>().join("; "))
        })?;
        let resources: BTreeMap<String, Resource> =
            resources.into_iter().map(|(name, resource)| (name.to_owned(), resource)).collect();
        let environment = Environment::of_slots(1);
        let mut bind = Bind::new(&spec.name, &arguments, &resources, &environment);
        let shared: Option<Arc<_>> = spec.share.as_ref().map(|share| share(&bind)).transpose()?;
        bind.shared = shared.as_ref();
        let operator = (spec.make)(&bind)?;
        Ok(Self::around(spec, operator, arguments))
    }

    /// A box of an operator that the test has made itself, with the defaults of its parameters.
    pub fn of(spec: impl Into<Arc<OperatorEntry>>, operator: Box<dyn Operator>) -> Self {
        Self::around(spec.into(), operator, Arguments::new(BTreeMap::new()))
    }

    fn around(spec: Arc<OperatorEntry>, operator: Box<dyn Operator>, arguments: Arguments) -> Self {
        let filler = filler();
        let input = |(idx, port): (usize, &crate::operator::InputPort)| {
            // As in a pipeline: an optional input is unconnected until it gets an envelope.
            if port.required { input_edge(idx) } else { PortEdges::default() }
        };
        let inputs = spec.inputs.iter().enumerate().map(input).collect();
        let outputs = output_edges(&spec, usize::MAX, 1, &filler);
        let (inputs_count, outputs_count) = (spec.inputs.len(), spec.outputs.len());
        let descriptors = spec.outputs.iter().map(|port| (port.descriptor)(&arguments)).collect();
        let shape = Arc::new(PortShape { spec: Arc::clone(&spec), descriptors });
        let at = Connections {
            place: BOX,
            hints_read: spec.hints_read.iter().map(|hint| vec![hint_cell(hint.join)]).collect(),
            hints_written: spec.hints_written.iter().map(|hint| hint_cell(hint.join)).collect(),
            ..Connections::new(shape, inputs, outputs)
        };
        let stopping = Arc::new(AtomicBool::new(false));
        Self {
            operator,
            arguments,
            at,
            state: PortState::new(inputs_count, outputs_count),
            ledger: Ledger::new(None),
            services: TestServices {
                stopping: Arc::clone(&stopping),
                outside: Arc::new(UnderWay::new()),
                problems: Vec::new(),
                notes: Vec::new(),
                detached: Vec::new(),
                announced: 0,
            },
            stopping,
            room: usize::MAX,
            nodes: 1,
            filler,
            done: false,
            firings: 0,
        }
    }

    /// Sets the number of envelopes that each output holds. Call it before the box runs.
    pub fn room(&mut self, envelopes: usize) {
        self.room = envelopes;
        self.at.outputs = output_edges(&self.at.shape.spec, self.room, self.nodes, &self.filler);
    }

    /// Lets the box see a machine with this many nodes; it runs on the first. Call it before the box runs.
    pub fn nodes(&mut self, nodes: usize) {
        self.nodes = nodes;
        self.at.outputs = output_edges(&self.at.shape.spec, self.room, self.nodes, &self.filler);
    }

    /// The place of an input.
    fn input(&self, input: In) -> usize {
        let spec = &self.at.shape.spec;
        let name = spec.inputs.get(input.place).map(|port| &*port.name);
        self.check("input", name, input.name);
        input.place
    }

    /// The place of an output.
    fn output(&self, output: Out) -> usize {
        let spec = &self.at.shape.spec;
        let name = spec.outputs.get(output.place).map(|port| &*port.name);
        self.check("output", name, output.name);
        output.place
    }

    /// Checks that a handle is one of this operator, as far as it names its port or hint ([`In::nth`] does not).
    fn check(&self, what: &str, found: Option<&str>, named: &str) {
        let is_own = found.is_some_and(|found| named.is_empty() || found == named);
        assert!(is_own, "the operator `{}` has no {what} `{named}` at its place", self.at.shape.spec.name);
    }

    /// Puts an envelope on an input.
    ///
    /// # Panics
    /// When the operator has no such input, or the envelope does not fit its descriptor.
    pub fn give(&mut self, input: In, envelope: Envelope) {
        let idx = self.input(input);
        let descriptor = (self.at.shape.spec.inputs[idx].descriptor)(&self.arguments);
        if let Err(reason) = descriptor.admits(envelope.schema()) {
            panic!("the envelope does not fit the input `{}`: {reason}", self.at.shape.spec.inputs[idx].name);
        }
        if self.at.inputs[idx].is_empty() {
            self.at.inputs[idx] = input_edge(idx);
        }
        let Some(edge) = self.at.inputs[idx].first() else { return };
        offer(edge, envelope, &self.ledger);
    }

    /// Ends an input.
    ///
    /// # Panics
    /// When there is no such input.
    pub fn end(&mut self, input: In) {
        let edges = self.at.inputs[self.input(input)].iter();
        // A test may end an input at each of its steps; a producer ends once.
        edges.filter(|edge| !edge.has_end()).for_each(|edge| _ = edge.end());
    }

    /// Closes an output, like a consumer that needs no more.
    ///
    /// # Panics
    /// When there is no such output.
    #[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
    pub fn close(&mut self, output: Out) {
        for edge in self.at.outputs[self.output(output)].iter() {
            for consumer in &*edge.consumers {
                // SAFETY: the test is this consumer, and no firing runs meanwhile: the harness is borrowed exclusively.
                unsafe { edge.close(*consumer, &self.ledger) };
            }
        }
        self.at.closing.store(true, Ordering::Release);
    }

    /// Joins a value into a hint that the box reads.
    ///
    /// # Panics
    /// When the operator reads no such hint.
    pub fn set_hint(&mut self, hint: HintIn, query: u32, value: f64) {
        let name = self.at.shape.spec.hints_read.get(hint.place).map(|spec| &*spec.name);
        self.check("hint that it reads", name, hint.name);
        let cell = &self.at.hints_read[hint.place][0];
        assert!(cell.join(query, value).is_some(), "no query {query}");
    }

    /// The value of a hint that the box has written, or its bottom.
    ///
    /// # Panics
    /// When the operator writes no such hint.
    pub fn hint(&self, hint: HintOut, query: u32) -> f64 {
        let name = self.at.shape.spec.hints_written.get(hint.place).map(|spec| &*spec.name);
        self.check("hint that it writes", name, hint.name);
        let cell = &self.at.hints_written[hint.place];
        cell.get(query).unwrap_or_else(|| panic!("no query {query}"))
    }

    /// Cancels the box's request.
    pub fn cancel(&mut self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Fires the box until it waits and a further firing would change nothing, or it is done.
    ///
    /// # Errors
    /// The error of a firing.
    pub fn run(&mut self) -> Result<(), BoxError> {
        /// A box that says `More` this often in a row without an end is broken.
        const FIRINGS_MAX: usize = 1_000_000;
        while self.make_ready() {
            let before = self.counts();
            self.firings += 1;
            assert!(self.firings < FIRINGS_MAX, "the box `{}` never waits", self.at.shape.spec.name);
            match self.fire()? {
                Flow::Done => self.done = true,
                Flow::More => {}
                Flow::Wait if self.counts() == before && !self.services.outside.wait() => break,
                Flow::Wait => {}
            }
        }
        Ok(())
    }

    /// Before a firing: drops envelopes staged for closed edges, and checks that side inputs are complete. False when
    /// the box cannot be fired, because it is done or an output is full.
    #[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
    fn make_ready(&mut self) -> bool {
        let (inputs, outputs) = (&self.at.inputs, &self.at.outputs);
        if self.at.closing.swap(false, Ordering::Acquire) {
            self.done |= outputs.iter().flat_map(PortEdges::iter).all(Edge::is_closed);
            self.state.staged.retain(|staged| !outputs[staged.edge - inputs.len()].all(Edge::is_closed));
        }
        for (idx, edges) in inputs.iter().enumerate() {
            for edge in edges.iter().filter(|_| self.at.shape.spec.inputs[idx].mode == Mode::Side) {
                // SAFETY: the harness is borrowed exclusively, so no other thread fires the box.
                while let Some(popped) = unsafe { edge.pop(0, &self.ledger) } {
                    self.state.add_side(idx, popped.envelope);
                }
            }
        }
        !self.done && self.state.staged.is_empty()
    }

    #[expect(unsafe_code, reason = "the ports of a firing trust its turn")]
    fn fire(&mut self) -> Result<Flow, BoxError> {
        let is_plain = !self.state.has_closed;
        // SAFETY: the harness is borrowed exclusively, so no other thread fires the box, or uses the test's ends of its
        // edges.
        let ports = unsafe { Ports::new(&self.at, &mut self.state, &self.ledger, 0, is_plain, 0) };
        let mut context = Context::new(ports, &mut self.services, &self.stopping, self.nodes);
        let flow = self.operator.process(&mut context);
        let mut firing = context.into_firing();
        // There is no other box to notify.
        firing.each_notice(&mut self.state, drop);
        match firing.unknown_query.get() {
            Some(query) => Err(BoxError::new(format!("there is no query {query}"))),
            None => flow,
        }
    }

    /// The counts that change if a firing did anything.
    fn counts(&self) -> (usize, usize, usize) {
        let waiting = |ports: &PortList| -> usize {
            ports.iter().flat_map(PortEdges::iter).map(|edge| edge.state().envelopes).sum()
        };
        let closed = self.state.closed_inputs.iter().filter(|closed| **closed).count();
        (waiting(&self.at.inputs), waiting(&self.at.outputs) + self.state.staged.len(), closed)
    }

    /// Whether the box has finished.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether the box has closed an input.
    ///
    /// # Panics
    /// When there is no such input.
    pub fn has_closed(&self, input: In) -> bool {
        self.state.closed_inputs[self.input(input)]
    }

    /// Takes all envelopes that wait on an output.
    ///
    /// # Panics
    /// When there is no such output.
    pub fn taken(&mut self, output: Out) -> Vec<Envelope> {
        self.taken_near(output).into_iter().map(|(envelope, _)| envelope).collect()
    }

    /// Takes all envelopes that wait on an output, each with the node of its data, if its push named one.
    ///
    /// # Panics
    /// When there is no such output.
    #[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
    pub fn taken_near(&mut self, output: Out) -> Vec<(Envelope, Option<usize>)> {
        let output = self.output(output);
        let mut taken = Vec::new();
        for edge in self.at.outputs[output].iter() {
            // SAFETY: the test is the consumer, and no firing runs meanwhile: the harness is borrowed exclusively.
            while let Some(popped) = unsafe { edge.pop(0, &self.ledger) } {
                taken.push((popped.envelope, popped.near));
            }
            let (staged, others) = std::mem::take(&mut self.state.staged)
                .into_iter()
                .partition::<Vec<_>, _>(|staged| staged.edge == edge.idx);
            self.state.staged = others.into();
            taken.extend(staged.into_iter().map(|staged| (staged.envelope, staged.near)));
            let filler = self.filler.schema();
            taken.retain(|(envelope, _)| !Arc::ptr_eq(envelope.schema(), filler));
            if self.room == 1 {
                offer(edge, self.filler.clone(), &self.ledger);
            }
        }
        taken
    }

    /// The problems reported so far.
    pub fn problems(&self) -> &[Problem] {
        &self.services.problems
    }

    /// The notes so far.
    pub fn notes(&self) -> &[String] {
        &self.services.notes
    }

    /// The blocking classes of the closures run so far.
    pub fn detached(&self) -> &[String] {
        &self.services.detached
    }

    /// The number of times that the box has announced within a firing.
    pub fn announced(&self) -> usize {
        self.services.announced
    }
}

/// Puts an envelope on an edge of a harness, between two firings.
#[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
fn offer(edge: &Edge, envelope: Envelope, ledger: &Ledger) {
    // SAFETY: the harness that owns the edge is borrowed exclusively, so this thread is its only producer.
    drop(unsafe { edge.offer(envelope, None, ledger, |_| ()) });
}

/// The work that the box has begun outside of its firings.
struct UnderWay {
    counts: (Mutex<Counts>, Condvar),
}

#[derive(Clone, Copy, std::default::Default)]
struct Counts {
    begun: usize,
    over: usize,
    /// Ended work that a firing has seen.
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

    /// Waits until some work has ended that no firing has seen. False when no work is under way.
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

impl Services for TestServices {
    fn announce(&mut self, _: &mut Ports<'_>) {
        self.announced += 1;
    }

    fn detached(&mut self, _: &mut Ports<'_>, class: &str, f: &mut dyn FnMut()) -> Result<(), Cancelled> {
        if self.stopping.load(Ordering::Acquire) {
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

    fn inside(&mut self, _: &mut Ports<'_>, f: &mut dyn FnMut(&mut Inside<'_>)) {
        f(&mut Inside::new(None, &self.stopping));
    }

    fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    fn note(&mut self, note: String) {
        self.notes.push(note);
    }
}
