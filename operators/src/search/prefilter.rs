//! `prefilter`: orders candidates, the most promising first, and drops those that cannot be in the answer.
//!
//! Invariants: a candidate is dropped only if its lower bound is strictly above the range at that moment; every other
//! candidate leaves once. The range only falls, and may be stale: then more candidates leave than necessary.

mod permuted;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_runtime::envelope::{ENVELOPE_ROWS_MAX, Envelope, EnvelopeError};
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, HintIn, In, Join, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use self::permuted::Permuted;
use crate::columns;

/// The most promising candidates, which leave in the order of their bounds. After their distances the range is close to
/// its final value.
const SORTED: usize = 4096;
/// Candidates sampled to determine how far a part reaches; of more, as many spread over all.
const LOOKED_AT: usize = 1 << 14;
/// Each further part is this many times as large; it leaves in the order of storage.
const PART_GROWTH: usize = 16;
/// Rows of an envelope of candidates without bounds, as from `scan`.
const UNKNOWN_ROWS: usize = 1024;
/// A block may have as many rows even if little is left for all slots.
const SHARED_ROWS: usize = 128;

const CANDIDATES_IN: In = In::stream(0, "candidates", columns::candidates, "objects with their lower bounds");
const CANDIDATES_OUT: Out =
    Out::new(0, "candidates", columns::candidates, "objects that may be in the answer");
const RANGE: HintIn = HintIn::new(0, "range", Join::Minimum, "a distance that contains the whole answer");

/// Sends candidates in blocks, the most promising first, until the range excludes the rest.
///
/// `best_first` waits for all candidates and sends those with the smallest lower bounds first; a query ends when the
/// next bound is above the range. After the first few thousand the range has fallen, and a strict order of the others
/// gains nothing: they follow in growing parts, the nearer part first, each in the order of storage, as neighbours are
/// computed faster than scattered objects. So a search whose index excludes little continues as a scan of the rest.
/// Candidates whose bounds are all 0 do not wait. `storage` sends candidates as they come, without those above the
/// range (Algorithm 4.8 of the source, which loses its last block; this one does not).
///
/// `permutation` is as `best_first`, but objects that see some pivots in the most similar order leave before all others: where bounds say
/// little, these give a small range at once. The range still decides what is dropped, so answers are exact.
///
/// Blocks grow from `first` rows to `most`, each by the share `growth`: small ones soon give a range and waste little,
/// large ones cost less overhead. Towards the end they shrink to half of a slot's share of the rest, so that no slot
/// computes long after the others. Queries take turns, block by block.
///
/// # Inputs
/// `candidates`: objects with their lower bounds, no object twice for one query. `queries` (side, optional): the queries, which the
/// order `permutation` needs.
///
/// # Outputs
/// `candidates`: objects that may be in the answer, one query per envelope.
///
/// # Hints
/// `range`, read: a distance that contains the whole answer.
///
/// # Parameters
/// `order`: as above. `permutations`: of the store, for the order `permutation`. `first`, `most`: rows of a query's first and largest block. `growth`: the growth from one block
/// to the next, as a share; 1 doubles them. `hold`: the most candidates that `best_first` keeps; if more come, it sends
/// those it has.
pub static PREFILTER: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "order",
            ParameterType::Choice(&["best_first", "storage", "permutation"]),
            Default::Text("best_first"),
            "the smallest lower bound first, in the order of arrival, or the most similar permutations first",
        ),
        permuted::PERMUTATIONS,
        Parameter::new(
            "first",
            ParameterType::Integer { minimum: 1, maximum: ENVELOPE_ROWS_MAX as i64 },
            Default::Integer(64),
            "rows of a query's first block",
        )
        .unit("rows"),
        Parameter::new(
            "most",
            ParameterType::Integer { minimum: 1, maximum: ENVELOPE_ROWS_MAX as i64 },
            Default::Integer(4096),
            "rows of a query's largest block",
        )
        .unit("rows"),
        Parameter::new(
            "growth",
            ParameterType::Number { minimum: 0.0, maximum: 16.0 },
            Default::Number(1.0),
            "growth from one block of a query to the next, as a share",
        ),
        Parameter::new(
            "hold",
            ParameterType::Integer { minimum: 1, maximum: 1 << 32 },
            Default::Integer(16 << 20),
            "the most candidates to keep",
        )
        .unit("rows"),
    ],
    inputs: &[CANDIDATES_IN, permuted::QUERIES],
    outputs: &[CANDIDATES_OUT],
    hints_read: &[RANGE],
    example: "nearest: {kind: prefilter, order: best_first, first: 64, most: 4096}",
    ..OperatorSpec::new("prefilter", "Orders candidates and drops those out of range.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let (first, most) = (bind.count("first"), bind.count("most"));
    Ok(Box::new(Prefilter {
        best_first: bind.text("order") != "storage",
        permuted: Permuted::of(bind)?,
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
    permuted: Option<Permuted>,
    first: usize,
    most: usize,
    growth: f64,
    /// Slots of the runtime.
    slots: usize,
    hold: usize,
    /// Candidates kept, of all queries.
    held: usize,
    queries: BTreeMap<u32, Waiting>,
    /// Candidates with bounds of 0, which leave before all others.
    unknown: VecDeque<Envelope>,
    /// The query number from which the next turn is searched.
    turn: u32,
    /// Whether blocks leave before more input is taken.
    sends: bool,
    /// Whether they leave until no query has a block left.
    drains: bool,
}

/// The waiting candidates of one query.
struct Waiting {
    /// In the order of arrival. They stay in their envelopes until they leave, as most of a million never do.
    held: VecDeque<Held>,
    /// The number that wait.
    left: usize,
    /// For `best_first`: the first part, in reverse order. All others have larger bounds.
    first: Vec<(f64, u64)>,
    /// For `permutation`: candidates that leave before all others, in reverse order.
    promising: Vec<(f64, u64)>,
    /// Those that have been among them; they count as waiting until their part leaves.
    promised: HashSet<u64>,
    /// For `best_first`, after the first part: candidates with bounds up to a limit, in the order of storage.
    part: Option<Part>,
    /// The size of the next part.
    part_next: usize,
    /// Whether a part was chosen before.
    has_begun: bool,
    /// Rows of the next block.
    block: f64,
}

/// Rows of an envelope, all of one query.
struct Held {
    envelope: Envelope,
    rows: Range<usize>,
    /// Rows with bounds up to here have left.
    above: f64,
    /// Rows with bounds beyond are out of range.
    within: f64,
}

/// The part that is leaving, and its position.
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
        if let Some(permuted) = &mut self.permuted {
            permuted.find(cx)?;
        }
        loop {
            while !self.sends {
                let Some(envelope) = cx.take(CANDIDATES_IN) else {
                    if !cx.is_ended(CANDIDATES_IN) {
                        return Ok(Flow::Wait);
                    }
                    (self.sends, self.drains) = (true, true);
                    break;
                };
                // A bound is 0 or minus infinity where nothing is known: no better candidate can come.
                if self.best_first && envelope.f64s("lower")?.iter().all(|lower| *lower <= 0.0) {
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
    /// Cuts candidates without bounds into blocks, one query per block.
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

    /// Sorts the rows of an envelope by query, without those already out of range.
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
                promising: Vec::new(),
                promised: HashSet::new(),
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

    /// The next query in turn that has a block to send.
    fn next_turn(&self, ends: bool) -> Option<u32> {
        let has_block = |(_, waiting): &(&u32, &Waiting)| {
            let rows = waiting.len();
            rows > 0 && (ends || self.best_first || rows >= waiting.rows())
        };
        let after = self.queries.range(self.turn..).find(has_block);
        after.or_else(|| self.queries.range(..self.turn).find(has_block)).map(|(number, _)| *number)
    }

    /// Takes the next block of a query; `None` if all waiting candidates are out of range.
    fn block(&mut self, number: u32, range: f64) -> Result<Option<Envelope>, BoxError> {
        self.turn = number.wrapping_add(1);
        let Some(waiting) = self.queries.get_mut(&number) else { return Ok(None) };
        if let Some(permuted) = &mut self.permuted
            && let Some(ids) = permuted.take(number)
        {
            waiting.promise(&ids)?;
        }
        let before = waiting.len();
        // From all queries' candidates, as slots serve all queries.
        let rows_max = (self.held / (2 * self.slots)).max(SHARED_ROWS.min(self.most));
        let rows = match self.best_first {
            true => waiting.nearest(rows_max, range)?,
            false => waiting.oldest(range)?,
        };
        self.held -= before - waiting.len();
        if waiting.len() == 0 {
            // Candidates left in the envelopes are out of range.
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

    /// The next block of the most promising part. Drops all if nothing is within the range.
    fn nearest(&mut self, rows_max: usize, range: f64) -> Result<Vec<(f64, u64)>, BoxError> {
        let rows_max = self.rows().min(rows_max);
        let mut rows = Vec::with_capacity(rows_max.min(self.len()));
        while rows.len() < rows_max
            && let Some(candidate) = self.promising.pop()
        {
            // Their bounds are in no order, so a later one may be within the range.
            rows.extend(Some(candidate).filter(|candidate| candidate.0 <= range));
        }
        while rows.len() < rows_max {
            match self.first.pop() {
                Some(candidate) if candidate.0 <= range => rows.push(candidate),
                Some(_) => {
                    // The rest have no smaller bounds, and the range does not rise.
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

    /// Takes the next part out of the candidates: those with the smallest bounds. All distances wait for the first
    /// part, so a sample of some thousand determines its reach.
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
            // Equal bounds stay together, so a part may exceed its size.
            let mut first = Vec::new();
            while self.part.is_some() {
                self.pull(&mut first, usize::MAX, range)?;
            }
            first.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
            self.first = first;
        }
        Ok(())
    }

    /// Takes rows of the part until there are `rows`; ends the part after its last row.
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
                    if *lower <= range && !self.promised.contains(id) {
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

    /// The next block of candidates within the range, in the order of storage.
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
