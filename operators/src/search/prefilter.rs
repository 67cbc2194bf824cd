//! `prefilter`: candidates in the order in which they are worth computing, as long as they may be answers.
//!
//! Invariants: a candidate is dropped only when its lower bound is above the range at that moment, strictly; every
//! other one goes out once. The range only falls, and may be old: then more goes out than need be.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_runtime::envelope::{ENVELOPE_ROWS_MAX, Envelope, EnvelopeError};
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, HintIn, In, Join, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::columns;

/// The most promising candidates, which go out in the order of their bounds. By their distances the range has fallen to
/// about where it will end.
const SORTED: usize = 4096;
/// Candidates that are looked at to know how far a part reaches: of more, as many spread over all.
const LOOKED_AT: usize = 1 << 14;
/// How many times as many the next part of the candidates is; within it they go out in the order of storage.
const PART_GROWTH: usize = 16;
/// Rows that go out at a time of candidates about which nothing is known, as from `scan`.
const UNKNOWN_ROWS: usize = 1024;
/// Rows of a block that may be large, though little is left for all slots.
const SHARED_ROWS: usize = 128;

const CANDIDATES_IN: In = In::stream(0, "candidates", columns::candidates, "objects with their lower bounds");
const CANDIDATES_OUT: Out = Out::new(0, "candidates", columns::candidates, "those that may be answers");
const RANGE: HintIn =
    HintIn::new(0, "range", Join::Minimum, "a distance that no object of the answer is beyond");

/// Sends candidates on in blocks, the most promising first, until the range rules out the rest.
///
/// `best_first` waits for all candidates and sends those of the least lower bound first; a query is over when the
/// next one's is above the range. Where many are left, the first few thousand have brought the range down, and nothing
/// is gained by the order of the others: they follow in parts that grow, the nearer part first, each in the order in
/// which objects are stored, as neighbours are computed faster than objects picked out one by one. So a search whose
/// index rules out little goes on as a scan of what is left. Candidates whose bounds are all 0 are not waited with.
/// `storage` sends candidates as they come, without those above the range (Algorithm 4.8 of the source, which loses
/// its last block; this one does not).
///
/// Blocks grow from `first` rows to `most`, by the share `growth` from one to the next: small ones soon bring a range
/// and waste little when it has come, large ones cost less to hand over. Towards the end they get smaller again, to half
/// of a slot's share of what is left, so that no slot computes long after the others. Queries take turns, block by block.
///
/// # Inputs
/// `candidates`: objects with their lower bounds, no object twice for one query.
///
/// # Outputs
/// `candidates`: those that may be answers, a query an envelope.
///
/// # Hints
/// `range`, read: a distance that no object of the answer is beyond.
///
/// # Parameters
/// `order`: as above. `first`, `most`: rows of the first block of a query and of the largest. `growth`: by how much of
/// itself a block is surpassed by the next; 1 doubles them. `hold`: candidates that `best_first` keeps at most; when
/// more come it sends on what it has.
pub static PREFILTER: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "order",
            ParameterType::Choice(&["best_first", "storage"]),
            Default::Text("best_first"),
            "the least lower bound first, or as they come",
        ),
        Parameter::new(
            "first",
            ParameterType::Integer { minimum: 1, maximum: ENVELOPE_ROWS_MAX as i64 },
            Default::Integer(64),
            "the first block of a query",
        )
        .unit("rows"),
        Parameter::new(
            "most",
            ParameterType::Integer { minimum: 1, maximum: ENVELOPE_ROWS_MAX as i64 },
            Default::Integer(4096),
            "the largest block of a query",
        )
        .unit("rows"),
        Parameter::new(
            "growth",
            ParameterType::Number { minimum: 0.0, maximum: 16.0 },
            Default::Number(1.0),
            "how much larger each block of a query is than the one before, as a share of it",
        ),
        Parameter::new(
            "hold",
            ParameterType::Integer { minimum: 1, maximum: 1 << 32 },
            Default::Integer(16 << 20),
            "candidates that are kept at most",
        )
        .unit("rows"),
    ],
    inputs: &[CANDIDATES_IN],
    outputs: &[CANDIDATES_OUT],
    hints_read: &[RANGE],
    example: "nearest: {kind: prefilter, order: best_first, first: 64, most: 4096}",
    ..OperatorSpec::new("prefilter", "Orders candidates and drops those out of range.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let (first, most) = (bind.count("first"), bind.count("most"));
    Ok(Box::new(Prefilter {
        best_first: bind.text("order") == "best_first",
        first,
        most: most.max(first),
        growth: bind.number("growth"),
        slots: bind.slots(),
        hold: bind.count("hold"),
        held: 0,
        queries: BTreeMap::new(),
        unknown: VecDeque::new(),
        turn: 0,
        sends: false,
        drains: false,
    }))
}

struct Prefilter {
    best_first: bool,
    first: usize,
    most: usize,
    growth: f64,
    /// Slots of the runtime.
    slots: usize,
    hold: usize,
    /// Candidates kept, of all queries.
    held: usize,
    queries: BTreeMap<u32, Waiting>,
    /// Candidates with bounds of 0, which go out before all others.
    unknown: VecDeque<Envelope>,
    /// The query whose turn it is, or the next one after it.
    turn: u32,
    /// Whether blocks go out before more is taken.
    sends: bool,
    /// Whether they go out until nothing is kept that has a block.
    drains: bool,
}

/// The candidates of one query that wait.
struct Waiting {
    /// As they came. They stay in their envelopes until they go out: of a million of them most never do.
    held: VecDeque<Held>,
    /// How many of them wait.
    left: usize,
    /// Of `best_first`: those that come first, the last of them first. All others have larger bounds.
    first: Vec<(f64, u64)>,
    /// Of `best_first`, after these: those with bounds up to here, as they are stored.
    part: Option<Part>,
    /// How many the next part is to have.
    part_next: usize,
    /// Whether there was one.
    has_begun: bool,
    /// Rows of the next block.
    block: f64,
}

/// Rows of an envelope, all of one query.
struct Held {
    envelope: Envelope,
    rows: Range<usize>,
    /// Those with bounds up to here have gone out.
    above: f64,
    /// Those with bounds beyond are out of range.
    within: f64,
}

/// How far a part has gone out.
struct Part {
    most: f64,
    held: usize,
    row: usize,
}

impl Held {
    fn lowers(&self) -> Result<&[f64], EnvelopeError> {
        Ok(&self.envelope.f64s("lower")?[self.rows.clone()])
    }

    fn ids(&self) -> Result<&[u64], EnvelopeError> {
        Ok(&self.envelope.u64s("id")?[self.rows.clone()])
    }

    fn waits(&self, lower: f64) -> bool {
        self.above < lower && lower <= self.within
    }
}

impl Operator for Prefilter {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        loop {
            while !self.sends {
                let Some(envelope) = cx.take(CANDIDATES_IN) else {
                    if !cx.is_ended(CANDIDATES_IN) {
                        return Ok(Flow::Wait);
                    }
                    (self.sends, self.drains) = (true, true);
                    break;
                };
                // No bound is less than 0: where nothing is known, nothing better can come.
                if self.best_first && envelope.f64s("lower")?.iter().all(|lower| *lower == 0.0) {
                    self.pass_on(&envelope)?;
                    self.sends = true;
                    break;
                }
                self.take(&envelope, cx)?;
                let has_block = |waiting: &Waiting| waiting.left >= waiting.rows();
                self.drains = match self.best_first {
                    true => self.held >= self.hold,
                    false => self.queries.values().any(has_block),
                };
                self.sends = self.drains;
            }
            while let Some(envelope) = self.unknown.front() {
                if !cx.has_room(CANDIDATES_OUT) {
                    return Ok(Flow::Wait);
                }
                if cx.push(CANDIDATES_OUT, envelope.clone())? == Pushed::Closed {
                    return Ok(Flow::Done);
                }
                self.unknown.pop_front();
            }
            let ends = cx.is_ended(CANDIDATES_IN);
            self.drains |= ends;
            while self.drains
                && let Some(number) = self.next_turn(ends)
            {
                if !cx.has_room(CANDIDATES_OUT) {
                    return Ok(Flow::Wait);
                }
                cx.announce();
                let range = cx.hint(RANGE, number);
                if let Some(envelope) = self.block(number, range)?
                    && cx.push(CANDIDATES_OUT, envelope)? == Pushed::Closed
                {
                    return Ok(Flow::Done);
                }
            }
            if ends {
                return Ok(Flow::Done);
            }
            (self.sends, self.drains) = (false, false);
        }
    }
}

impl Prefilter {
    /// Cuts candidates about which nothing is known into blocks, a query a block.
    fn pass_on(&mut self, envelope: &Envelope) -> Result<(), BoxError> {
        let rows_max = self.most.min(UNKNOWN_ROWS);
        let mut first = 0;
        for run in envelope.u32s("query")?.chunk_by(|a, b| a == b) {
            for block in run.chunks(rows_max) {
                self.unknown.push_back(Envelope::new(envelope.batch().slice(first, block.len()))?);
                first += block.len();
            }
        }
        Ok(())
    }

    /// Sorts the rows of an envelope to their queries, without those that are out of range already.
    fn take(&mut self, envelope: &Envelope, cx: &Context<'_>) -> Result<(), BoxError> {
        let (numbers, lowers) = (envelope.u32s("query")?, envelope.f64s("lower")?);
        envelope.u64s("id")?;
        let mut first = 0;
        for run in numbers.chunk_by(|a, b| a == b) {
            let rows = first..first + run.len();
            first = rows.end;
            let range = cx.hint(RANGE, run[0]);
            let block = self.first as f64;
            let count = lowers[rows.clone()].iter().filter(|lower| **lower <= range).count();
            if count == 0 {
                continue;
            }
            let waiting = self.queries.entry(run[0]).or_insert_with(|| Waiting {
                held: VecDeque::new(),
                left: 0,
                first: Vec::new(),
                part: None,
                part_next: SORTED.max(self.first),
                has_begun: false,
                block,
            });
            let envelope = envelope.clone();
            waiting.held.push_back(Held { envelope, rows, above: f64::NEG_INFINITY, within: range });
            waiting.left += count;
            self.held += count;
        }
        Ok(())
    }

    /// The next query that has a block to send, in turn.
    fn next_turn(&self, ends: bool) -> Option<u32> {
        let has_block = |(_, waiting): &(&u32, &Waiting)| {
            let rows = waiting.len();
            rows > 0 && (ends || self.best_first || rows >= waiting.rows())
        };
        let after = self.queries.range(self.turn..).find(has_block);
        after.or_else(|| self.queries.range(..self.turn).find(has_block)).map(|(number, _)| *number)
    }

    /// Takes the next block of a query; nothing when all that waited is out of range.
    fn block(&mut self, number: u32, range: f64) -> Result<Option<Envelope>, BoxError> {
        self.turn = number.wrapping_add(1);
        let Some(waiting) = self.queries.get_mut(&number) else { return Ok(None) };
        let before = waiting.len();
        // By all that waits, as slots do not care whose it is.
        let rows_max = (self.held / (2 * self.slots)).max(SHARED_ROWS.min(self.most));
        let rows = match self.best_first {
            true => waiting.nearest(rows_max, range)?,
            false => waiting.oldest(range)?,
        };
        self.held -= before - waiting.len();
        if waiting.len() == 0 {
            // What is left in its envelopes is out of range.
            waiting.held.clear();
            waiting.part = None;
        }
        if rows.is_empty() {
            return Ok(None);
        }
        waiting.block = (waiting.block * (1.0 + self.growth)).min(self.most as f64);
        let (lowers, ids): (Vec<f64>, Vec<u64>) = rows.into_iter().unzip();
        let columns: [(&str, ArrayRef); 3] = [
            ("query", Arc::new(UInt32Array::from(vec![number; ids.len()]))),
            ("id", Arc::new(UInt64Array::from(ids))),
            ("lower", Arc::new(Float64Array::from(lowers))),
        ];
        Ok(Some(Envelope::from_columns(columns)?))
    }
}

impl Waiting {
    fn len(&self) -> usize {
        self.left + self.first.len()
    }

    /// Rows of the next block.
    fn rows(&self) -> usize {
        self.block as usize
    }

    /// The next block of the most promising part. Drops all when nothing is within the range.
    fn nearest(&mut self, rows_max: usize, range: f64) -> Result<Vec<(f64, u64)>, BoxError> {
        let rows_max = self.rows().min(rows_max);
        let mut rows = Vec::with_capacity(rows_max.min(self.len()));
        while rows.len() < rows_max {
            match self.first.pop() {
                Some(candidate) if candidate.0 <= range => rows.push(candidate),
                Some(_) => {
                    // Those left have no smaller bounds, and the range does not rise.
                    self.first.clear();
                    self.held.clear();
                    self.left = 0;
                }
                None if self.part.is_some() => self.pull(&mut rows, rows_max, range)?,
                None if self.left == 0 => break,
                None => self.choose_part(range)?,
            }
        }
        Ok(rows)
    }

    /// Takes the next part out of the candidates: those of the least bounds. All computing of distances waits for the
    /// first one, so of a million the reach of a part is estimated by some thousand.
    fn choose_part(&mut self, range: f64) -> Result<(), BoxError> {
        let (step, mut looked_at) = (self.left.div_ceil(LOOKED_AT).max(1), Vec::new());
        self.left = 0;
        let mut skip = 0;
        for held in &mut self.held {
            held.within = held.within.min(range);
            let (held, lowers) = (&*held, held.lowers()?);
            self.left += lowers.iter().filter(|lower| held.waits(**lower)).count();
            let some = lowers.iter().skip(skip).step_by(step);
            skip = skip + some.len() * step - lowers.len();
            looked_at.extend(some.filter(|lower| held.waits(**lower)));
        }
        let place = self.part_next / step;
        let most = match self.part_next < self.left && place < looked_at.len() {
            true => *looked_at.select_nth_unstable_by(place, f64::total_cmp).1,
            false => f64::INFINITY,
        };
        self.part_next = self.part_next.saturating_mul(PART_GROWTH);
        self.part = Some(Part { most, held: 0, row: 0 });
        if !std::mem::replace(&mut self.has_begun, true) {
            // Those of one bound are not parted: a part may be larger than it was to be.
            let mut first = Vec::new();
            while self.part.is_some() {
                self.pull(&mut first, usize::MAX, range)?;
            }
            first.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
            self.first = first;
        }
        Ok(())
    }

    /// Takes what comes next of the part, until there are so many rows; ends the part with its last one.
    fn pull(&mut self, to: &mut Vec<(f64, u64)>, rows: usize, range: f64) -> Result<(), BoxError> {
        let Some(part) = &mut self.part else { return Ok(()) };
        while let Some(held) = self.held.get_mut(part.held) {
            let within = held.within.min(part.most);
            let (lowers, ids) = (held.lowers()?, held.ids()?);
            for (lower, id) in lowers[part.row..].iter().zip(&ids[part.row..]) {
                if to.len() == rows {
                    return Ok(());
                }
                part.row += 1;
                if held.above < *lower && *lower <= within {
                    self.left -= 1;
                    if *lower <= range {
                        to.push((*lower, *id));
                    }
                }
            }
            held.above = part.most;
            (part.held, part.row) = (part.held + 1, 0);
        }
        if part.most == f64::INFINITY {
            self.held.clear();
        }
        self.part = None;
        Ok(())
    }

    /// The next block in the order of storage, of those within the range.
    fn oldest(&mut self, range: f64) -> Result<Vec<(f64, u64)>, BoxError> {
        let mut rows = Vec::with_capacity(self.rows().min(self.left));
        while rows.len() < self.rows()
            && let Some(held) = self.held.front_mut()
        {
            let mut seen = 0;
            for (lower, id) in held.lowers()?.iter().zip(held.ids()?) {
                if rows.len() == self.block as usize {
                    break;
                }
                seen += 1;
                if held.waits(*lower) {
                    self.left -= 1;
                    if *lower <= range {
                        rows.push((*lower, *id));
                    }
                }
            }
            held.rows.start += seen;
            if held.rows.is_empty() {
                self.held.pop_front();
            }
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests;
