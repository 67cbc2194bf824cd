//! The ports of a firing, over the real edges of its box.
//!
//! The usual case is here and is inlined into the operator: a port with one edge between two boxes, in a request
//! without a budget, with nothing staged. Everything else (several edges, copies, a budget, closed inputs, an order, an
//! envelope that finds no room) is in `ports/general.rs`.
//!
//! Invariants:
//! - the ports live within one firing, so they are the only producer of the box's outputs and the only consumer of its
//!   inputs ([`Ports::new`]);
//! - they notify no other box. They note the boxes to notify ([`Notice`]), and the model notifies these when the firing
//!   ends, announces or detaches;
//! - an envelope that finds no room is staged, one for each edge. The model offers it again when the firing has ended.

mod general;

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use arrow_schema::SchemaRef;

pub(crate) use self::general::close_edge;
use super::hint_cell::HintCell;
use super::{BoxError, OperatorEntry, Pushed, Work};
use crate::descriptor::Descriptor;
use crate::edge::{Edge, Ledger, PortList, Single};
use crate::envelope::Envelope;
use crate::sync::{AtomicBool, Counter, Mutex, Ordering, add};

/// Stands for no box in [`FiringState::consumer`].
const NO_BOX: usize = usize::MAX;

/// The ports of a box, as all its copies and requests have them. Each of these counts one reference to it.
pub(crate) struct PortShape {
    pub(crate) spec: Arc<OperatorEntry>,
    /// By output port: its columns.
    pub(crate) descriptors: Box<[Descriptor]>,
}

/// The edges and hints that a box is connected to, and the counts of what passes.
pub(crate) struct Connections {
    pub(crate) shape: Arc<PortShape>,
    /// The box's place in its model.
    pub(crate) place: usize,
    /// By input port: the edges that feed it; several for a merge, none for an optional input that nothing feeds.
    pub(crate) inputs: PortList,
    /// By output port: the edges that it feeds.
    pub(crate) outputs: PortList,
    /// By the hints that the box reads: the cells that feed it.
    pub(crate) hints_read: Box<[Vec<Arc<HintCell>>]>,
    /// By the hints that the box writes.
    pub(crate) hints_written: Box<[Arc<HintCell>]>,
    /// Whether it is a copy of a box whose results keep the order of its inputs.
    pub(crate) is_ordered: bool,
    /// An output may have been closed since the last firing looked.
    pub(crate) closing: AtomicBool,
    pub(crate) rows_in: Counter,
    pub(crate) rows_out: Counter,
    pub(crate) progress_done: Counter,
    pub(crate) progress_total: Counter,
    /// As [`super::Context::work`].
    pub(crate) work_done: Counter,
    pub(crate) work_expected: Counter,
    /// As [`super::Context::count`].
    pub(crate) counts: Mutex<Vec<(&'static str, u64)>>,
    /// As [`super::Context::figure`].
    pub(crate) figures: Mutex<Vec<(&'static str, f64)>>,
}

/// The state of a box's ports between firings.
pub(crate) struct PortState {
    /// Envelopes that found an edge full.
    pub(crate) staged: VecDeque<Staged>,
    pub(crate) closed_inputs: Box<[bool]>,
    /// Whether any input is closed.
    pub(crate) has_closed: bool,
    /// By input: the envelopes of side inputs; empty if there are none.
    pub(crate) sides: Vec<Vec<Envelope>>,
    /// The input that an ordered copy has taken in this firing.
    pub(crate) sequence: Option<u64>,
    /// The results of an ordered copy for that input, by edge.
    pub(crate) results: VecDeque<(usize, Envelope)>,
    /// The edge that a merge tries first, and the number of envelopes taken there in a row.
    merge_turn: usize,
    merge_run: usize,
    /// By output: the last schema that fitted.
    schemas: Box<[Option<SchemaRef>]>,
    notices: Vec<Notice>,
}

/// An envelope that found an edge full.
pub(crate) struct Staged {
    pub(crate) edge: usize,
    pub(crate) envelope: Envelope,
    /// The node that its data are on.
    pub(crate) near: Option<usize>,
}

/// Boxes that the model has to notify after a firing. An edge is given by its place in the model.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    /// The consumer that an envelope was pushed to.
    Consumer(usize),
    /// One consumer of an edge with copies that an envelope was pushed to; its data may be on a node.
    OneConsumer(usize, Option<usize>),
    /// The producers of an edge with copies have room.
    Producers(usize),
    /// The request's budget has room again.
    Budget,
    /// A hint that the box writes has changed; by its place among the hints written.
    Hint(usize),
    /// All consumers have closed an edge; `freed`: the budget has room again.
    Closed { edge: usize, freed: bool },
}

impl Connections {
    /// A box with these edges, at place 0 of its model, without hints.
    pub(crate) fn new(shape: Arc<PortShape>, inputs: PortList, outputs: PortList) -> Self {
        Self {
            shape,
            place: 0,
            inputs,
            outputs,
            hints_read: Box::new([]),
            hints_written: Box::new([]),
            is_ordered: false,
            closing: AtomicBool::new(false),
            rows_in: Counter::new(0),
            rows_out: Counter::new(0),
            progress_done: Counter::new(0),
            progress_total: Counter::new(0),
            work_done: Counter::new(0),
            work_expected: Counter::new(0),
            counts: Mutex::new(Vec::new()),
            figures: Mutex::new(Vec::new()),
        }
    }
}

/// Adds to a count, which the first amount makes.
pub(crate) fn add_count(counts: &mut Vec<(&'static str, u64)>, what: &'static str, amount: u64) {
    match counts.iter_mut().find(|(name, _)| *name == what) {
        Some((_, count)) => *count += amount,
        None => counts.push((what, amount)),
    }
}

/// Sets a figure.
pub(crate) fn set_figure(figures: &mut Vec<(&'static str, f64)>, what: &'static str, number: f64) {
    match figures.iter_mut().find(|(name, _)| *name == what) {
        Some((_, figure)) => *figure = number,
        None => figures.push((what, number)),
    }
}

impl PortState {
    pub(crate) fn new(inputs: usize, outputs: usize) -> Self {
        Self {
            staged: VecDeque::new(),
            closed_inputs: vec![false; inputs].into(),
            has_closed: false,
            sides: Vec::new(),
            sequence: None,
            results: VecDeque::new(),
            merge_turn: 0,
            merge_run: 0,
            schemas: vec![None; outputs].into(),
            notices: Vec::new(),
        }
    }

    /// Adds an envelope of a side input.
    pub(crate) fn add_side(&mut self, input: usize, envelope: Envelope) {
        self.sides.resize_with(self.sides.len().max(input + 1), Vec::new);
        self.sides[input].push(envelope);
    }
}

/// The ports of a firing. See the module.
pub(crate) struct Ports<'a> {
    at: &'a Connections,
    state: &'a mut PortState,
    ledger: &'a Ledger,
    node: usize,
    firing: FiringState,
}

/// The state of one firing at the ports of its box: the envelopes it has moved, and the boxes it has to notify.
#[derive(Clone, Debug)]
pub(crate) struct FiringState {
    /// The address of the last schema that fitted the first output; 0 for none.
    pub(crate) schema: usize,
    /// Whether the usual case holds: nothing is staged, no input is closed, no budget counts, no order is kept.
    pub(crate) is_plain: bool,
    /// Whether the last stream that the firing tried was empty, and has not been closed since.
    pub(crate) drained: bool,
    /// Whether there are notices beside the consumer.
    has_notices: bool,
    /// A box that got an envelope and is not yet notified, or [`NO_BOX`].
    consumer: usize,
    /// Envelopes that the firing took, and envelopes that it pushed.
    took: u32,
    made: u32,
    /// A query number that the request does not have, if the box asked for its hint.
    pub(crate) unknown_query: Cell<Option<u32>>,
}

impl FiringState {
    /// Whether the firing took anything.
    #[inline(always)]
    pub(crate) fn took(&self) -> bool {
        self.took > 0
    }

    /// Whether it took or pushed anything, or closed an input.
    #[inline(always)]
    pub(crate) fn progressed(&self) -> bool {
        self.took | self.made > 0
    }

    /// Takes the boxes to notify, in the order of the firing's actions.
    #[inline(always)]
    pub(crate) fn each_notice(&mut self, state: &mut PortState, mut notify: impl FnMut(Notice)) {
        if std::mem::take(&mut self.has_notices) {
            state.notices.drain(..).for_each(&mut notify);
        }
        let consumer = std::mem::replace(&mut self.consumer, NO_BOX);
        if consumer != NO_BOX {
            notify(Notice::Consumer(consumer));
        }
    }
}

impl<'a> Ports<'a> {
    /// The ports of a firing on a node. `is_plain`: the box allows the usual case; `schema`: [`FiringState::schema`] of the
    /// last firing, or 0.
    ///
    /// # Safety
    /// The caller fires the box, holding its task, for as long as the ports live. The state is that of this box.
    #[expect(unsafe_code, reason = "edges without locks trust the firing of their box")]
    #[inline(always)]
    pub(crate) unsafe fn new(
        at: &'a Connections,
        state: &'a mut PortState,
        ledger: &'a Ledger,
        node: usize,
        is_plain: bool,
        schema: usize,
    ) -> Self {
        debug_assert!(!is_plain || state.staged.is_empty(), "a box was fired with envelopes staged");
        let firing = FiringState {
            schema,
            is_plain,
            drained: false,
            has_notices: false,
            consumer: NO_BOX,
            took: 0,
            made: 0,
            unknown_query: Cell::new(None),
        };
        Self { at, state, ledger, node, firing }
    }

    /// The only edge of an input, in the usual case.
    #[inline(always)]
    fn plain_input(&self, input: usize) -> Option<&'a Single> {
        self.at.inputs[input].single().filter(|_| self.firing.is_plain)
    }

    /// As [`super::Context::take`].
    #[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
    #[inline(always)]
    pub(crate) fn take(&mut self, input: usize) -> Option<Envelope> {
        let Some(single) = self.plain_input(input) else { return self.take_any(input) };
        // SAFETY: the ports live within a firing of the edge's consumer.
        let Some((_, envelope)) = (unsafe { single.take() }) else {
            self.firing.drained = true;
            return None;
        };
        self.firing.drained = false;
        self.firing.took += 1;
        single.crossing().count(self.node, None, &envelope);
        add(&self.at.rows_in, envelope.rows() as u64);
        Some(envelope)
    }

    /// As [`super::Context::is_ended`].
    #[inline(always)]
    pub(crate) fn is_ended(&self, input: usize) -> bool {
        match self.plain_input(input) {
            // Only this box closes the edge, and no input is closed in the usual case.
            Some(single) => single.has_end() && !single.has_waiting(),
            None => self.state.closed_inputs[input] || self.at.inputs[input].all(Edge::is_ended),
        }
    }

    /// As [`super::Context::has_room`].
    #[inline(always)]
    pub(crate) fn has_room(&self, output: usize) -> bool {
        self.is_clear() || self.has_room_beside_staged(output)
    }

    /// Whether another push is possible in the usual case.
    #[inline(always)]
    fn is_clear(&self) -> bool {
        self.firing.is_plain && !self.at.closing.load(Ordering::Relaxed)
    }

    /// As [`super::Context::push`].
    #[expect(unsafe_code, reason = "an edge without locks trusts its two boxes")]
    #[inline(always)]
    pub(crate) fn push(&mut self, output: usize, envelope: Envelope) -> Result<Pushed, BoxError> {
        let port = &self.at.outputs[output];
        let Some(single) = port.single() else { return self.push_to_all(output, envelope, None) };
        if output != 0
            || !self.is_clear()
            || self.firing.schema != address_of(&envelope)
            || (self.firing.consumer != NO_BOX && self.firing.consumer != port.consumer())
        {
            return self.push_to_all(output, envelope, None);
        }
        let rows = envelope.rows() as u64;
        single.crossing().made_on(self.node);
        // SAFETY: the ports live within a firing of the edge's producer.
        if let Err(envelope) = unsafe { single.try_offer(envelope) } {
            return self.push_to_all(output, envelope, None);
        }
        self.firing.consumer = port.consumer();
        self.firing.made += 1;
        add(&self.at.rows_out, rows);
        Ok(Pushed::Sent)
    }

    /// As [`super::Context::side`].
    pub(crate) fn side(&self, input: usize) -> &[Envelope] {
        self.state.sides.get(input).map_or(&[], Vec::as_slice)
    }

    /// As [`super::Context::is_closed`].
    pub(crate) fn is_closed(&self, output: usize) -> bool {
        self.at.outputs[output].all(Edge::is_closed)
    }

    /// As [`super::Context::hint`].
    pub(crate) fn hint(&self, hint: usize, query: u32) -> f64 {
        let join = self.at.shape.spec.hints_read[hint].join;
        self.at.hints_read[hint].iter().fold(join.bottom(), |joined, cell| match cell.get(query) {
            Some(value) => join.join(joined, value),
            None => {
                self.firing.unknown_query.set(Some(query));
                joined
            }
        })
    }

    /// As [`super::Context::join_hint`].
    pub(crate) fn join_hint(&mut self, hint: usize, query: u32, value: f64) {
        match self.at.hints_written[hint].join(query, value) {
            Some(false) => {}
            // The notification of the readers releases the value to them.
            Some(true) if matches!(self.state.notices.last(), Some(Notice::Hint(last)) if *last == hint) => {}
            Some(true) => self.note(Notice::Hint(hint)),
            None => self.firing.unknown_query.set(Some(query)),
        }
    }

    /// As [`super::Context::count`].
    pub(crate) fn count(&self, what: &'static str, amount: u64) {
        let mut counts = self.at.counts.lock();
        add_count(&mut counts, what, amount);
    }

    /// As [`super::Context::figure`].
    pub(crate) fn figure(&self, what: &'static str, number: f64) {
        set_figure(&mut self.at.figures.lock(), what, number);
    }

    /// As [`super::Context::progress`].
    pub(crate) fn progress(&self, done: u64, total: u64) {
        self.at.progress_done.store(done, Ordering::Relaxed);
        self.at.progress_total.store(total, Ordering::Relaxed);
    }

    /// As [`super::Context::work`].
    pub(crate) fn work(&self) -> Work<'a> {
        Work::new(&self.at.work_done, &self.at.work_expected)
    }

    /// Remembers to notify a consumer. A firing that gives one consumer many envelopes notifies it once.
    fn notify_later(&mut self, consumer: usize) {
        let before = std::mem::replace(&mut self.firing.consumer, consumer);
        if before != consumer && before != NO_BOX {
            self.note(Notice::Consumer(before));
        }
    }

    fn note(&mut self, notice: Notice) {
        self.firing.has_notices = true;
        self.state.notices.push(notice);
    }

    /// The state of the firing and of its box, for the model to notify other boxes.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> (&mut FiringState, &mut PortState) {
        (&mut self.firing, self.state)
    }

    /// The state of the firing so far.
    #[inline(always)]
    pub(crate) fn firing(&self) -> &FiringState {
        &self.firing
    }

    /// The node that the firing runs on.
    #[inline(always)]
    pub(crate) fn node(&self) -> usize {
        self.node
    }

    /// The firing continues on another node.
    pub(crate) fn continue_on(&mut self, node: usize) {
        self.node = node;
    }
}

#[inline(always)]
fn address_of(envelope: &Envelope) -> usize {
    Arc::as_ptr(envelope.schema()).addr()
}

#[cfg(all(test, not(loom)))]
mod tests;
