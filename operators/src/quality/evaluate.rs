//! `evaluate`: how well the distances find images of the same class.
//!
//! Invariants: every object is a query once, and is not in its own ranking; objects at one distance stand by their
//! ids; a class of one image is no query, since there is nothing to find; the figures have the same bits in whatever order the
//! envelopes arrive. The memory grows with the objects, not with their pairs.
//!
//! The box walks over the pairs in the order in which `class_pairs` gives them. An envelope that overtook others waits, and
//! those that wait are few: each is computed beside the one that is missing.

mod ranks;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use boxwork_kernels::memory::filled;
use boxwork_kernels::quality::DistanceMoments;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, CALLER, Context, Flow, In, Kind, Operator, OperatorSpec, OutputWriter, Part,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use self::ranks::Ranks;
use self::report::{Class, Report};
use crate::columns;
use crate::quality::query_blocks::{MATES_MAX, Place, QueryBlocks, Walk};
use crate::resources::{self, store_parameter};
use crate::results::sink::{OUT, OrderedWriter, share_writer};
use boxwork_stores::space::SharedSpace;
use boxwork_stores::spaces;
use boxwork_stores::store::Store;

/// Distances that are counted or sorted in one firing, about: a millisecond's worth, or a few if the memory is slow.
const DISTANCES_PER_FIRING: usize = 1 << 13;

const DISTANCES: In =
    In::stream(0, "distances", columns::pair_distances, "the distances of the pairs of `class_pairs`");

/// Measures the quality of a search over a store whose names begin with their classes.
///
/// An object's class is the folder that its name ends in. Every object is a query.
///
/// The intrinsic dimensionality is that of the distances as they come, in `f64`. If they are not exact, the box adds up
/// their errors and gives a bound on the difference to the intrinsic dimensionality of the exact ones. Distances that may be
/// negative have none. The rankings compare the distances as `f32`.
///
/// # Inputs
/// `distances`: the distances of the pairs that `class_pairs` gives, by `pair_distances`. Envelopes may overtake each other.
///
/// # Outputs
/// None. A request's caller may take a row for each class, and one for all (`Submission::outputs`); nothing is written
/// then. The metadata of these rows has `distance`, `idim` and `idim_error`.
///
/// # Parameters
/// `store`: the store, for the names. `space`: the space of the distances, which is then named, with the origin of its
/// alpha. `out`: the file to write, or `-` for standard output. `format`: `table` for people or `json`: `{"distance",
/// "map", "precision_at_10", "idim", "classes": {"NAME": {"map", "precision_at_10", "objects"}}}`; a figure without a
/// value is `null`.
pub static EVALUATE: OperatorSpec = OperatorSpec {
    parameters: &[
        store_parameter("the store whose objects the distances are of"),
        Parameter::new(
            "space",
            ParameterType::Resource("space"),
            Default::Absent,
            "the space of the distances, to name it",
        ),
        OUT,
        Parameter::new(
            "format",
            ParameterType::Choice(&["table", "json"]),
            Default::Text("table"),
            "what is written",
        ),
    ],
    inputs: &[DISTANCES],
    gives: Some(columns::qualities),
    example: "quality: {kind: evaluate, store: signatures, format: json}",
    share: Some(share_writer),
    ..OperatorSpec::new("evaluate", "Measures how well images of a class are found.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let space = bind.get_resource::<SharedSpace>("space")?;
    Ok(Box::new(Evaluate {
        store: resources::store(bind)?,
        is_signed: space.as_ref().is_some_and(|space| space.0.properties().signed),
        distance: space.map(|space| spaces::in_words(&*space.0)),
        mates_max: MATES_MAX,
        writer: bind.shared(),
        output: bind.take_output()?,
        part: bind.part,
        is_json: bind.text("format") == "json",
        ranking: None,
    }))
}

struct Evaluate {
    store: Arc<dyn Store>,
    /// The distance in words, if the space is given.
    distance: Option<String>,
    /// Whether distances may be negative.
    is_signed: bool,
    mates_max: u64,
    writer: Arc<OrderedWriter>,
    /// Takes the rows, if the request's caller wants them.
    output: Option<OutputWriter>,
    part: Part,
    is_json: bool,
    ranking: Option<Ranking>,
}

/// The step of a block of queries. The numbers are positions of queries.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The queries get room.
    Room,
    /// The queries meet the objects of their classes.
    Mates,
    Sort(u32),
    /// The queries meet the objects of other classes.
    Others,
    SumUp(u32),
}

/// The state of the walk over the pairs.
struct Ranking {
    blocks: QueryBlocks,
    walk: Walk,
    expected: Option<Place>,
    block: u32,
    step: Step,
    ranks: Ranks,
    /// Envelopes that wait for earlier ones, by their first pairs.
    early: BTreeMap<Place, Envelope>,
    /// The envelope that is counted, its next row, and its moments so far.
    current: Option<(Envelope, usize, DistanceMoments)>,
    /// The moments of all envelopes before, merged in the order of the pairs, as merging rounds.
    moments: DistanceMoments,
    seen: u64,
    total: u64,
    /// By position.
    average_precisions: Vec<f64>,
    precisions: Vec<f64>,
}

impl Operator for Evaluate {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if cx.is_cancelled() {
            return Ok(Flow::Done);
        }
        let ranking = match &mut self.ranking {
            Some(ranking) => ranking,
            None => {
                let (store, mates_max) = (&self.store, self.mates_max);
                let cancelled = cx.cancelled();
                let blocks = cx.detached("disk", || QueryBlocks::new(&**store, mates_max, &cancelled))??;
                self.ranking.insert(Ranking::new(blocks)?)
            }
        };
        let mut left = DISTANCES_PER_FIRING;
        loop {
            cx.progress(ranking.seen, ranking.total);
            if let Some(work) = ranking.advance(&*self.store, left)? {
                left = left.saturating_sub(work);
                if left == 0 {
                    return Ok(Flow::More);
                }
            } else if let Some(envelope) = cx.take(DISTANCES) {
                ranking.keep(&*self.store, envelope)?;
            } else if !cx.is_ended(DISTANCES) {
                return Ok(Flow::Wait);
            } else if ranking.block < ranking.blocks.blocks() {
                return Err(ranking.missing());
            } else {
                break;
            }
        }
        let (report, cancelled) = (ranking.report(self.is_signed), cx.cancelled());
        let (distance, is_json) = (self.distance.as_deref(), self.is_json);
        if let Some(output) = &mut self.output {
            let rows = report.rows(distance)?;
            cx.detached(CALLER, || output.writer.write(rows).and_then(|_| output.writer.finish()))??;
            return Ok(Flow::Done);
        }
        let (writer, part) = (&self.writer, self.part);
        cx.detached("disk", || -> Result<(), BoxError> {
            let text = if is_json {
                report.json(distance, &cancelled)?
            } else {
                report.table(distance, &cancelled)?
            };
            writer.write(part, text.into_bytes())
        })??;
        Ok(Flow::Done)
    }
}

fn unexpected(a: u64, b: u64) -> BoxError {
    BoxError::new(format!(
        "the distance of {a} and {b} came twice or out of order: connect class_pairs and pair_distances over the same \
         store"
    ))
}

const ADVICE: &str = "evaluate a smaller store, or free memory";

impl Ranking {
    fn new(blocks: QueryBlocks) -> Result<Self, BoxError> {
        let objects = blocks.objects() as usize;
        let of_queries =
            || filled(objects, f64::NAN, || format!("the qualities of {objects} queries"), ADVICE);
        let (mut walk, mut ranks) = (Walk::new(&blocks), Ranks::default());
        ranks.begin(&blocks, 0)?;
        Ok(Self {
            expected: walk.next(&blocks),
            walk,
            block: 0,
            step: Step::Room,
            ranks,
            early: BTreeMap::new(),
            current: None,
            moments: DistanceMoments::default(),
            seen: 0,
            total: blocks.pairs_count(),
            average_precisions: of_queries()?,
            precisions: of_queries()?,
            blocks,
        })
    }

    /// The position of an object and another.
    fn place(&self, store: &dyn Store, a: u64, b: u64) -> Result<Place, BoxError> {
        if a == b || !store.has(a) || !store.has(b) {
            return Err(BoxError::new(format!(
                "the distance of {a} and {b} is none of two objects of the store, which has {}",
                self.blocks.objects()
            )));
        }
        let position = |id: u64| self.blocks.position(store.rank(id) as u32);
        Ok(self.blocks.place(position(a), position(b)))
    }

    /// Keeps an envelope until all earlier pairs are counted.
    fn keep(&mut self, store: &dyn Store, envelope: Envelope) -> Result<(), BoxError> {
        let (a, b) = (envelope.u64s("a")?, envelope.u64s("b")?);
        let (Some(&a), Some(&b)) = (a.first(), b.first()) else { return Ok(()) };
        let first = self.place(store, a, b)?;
        let is_late = self.expected.is_none_or(|expected| first < expected);
        if is_late || self.early.insert(first, envelope).is_some() {
            return Err(unexpected(a, b));
        }
        Ok(())
    }

    /// Does a piece of work, of about `left` distances; `None` if the next distances are not there, or all are counted.
    fn advance(&mut self, store: &dyn Store, left: usize) -> Result<Option<usize>, BoxError> {
        if self.block == self.blocks.blocks() {
            return Ok(None);
        }
        let queries = self.blocks.block(self.block);
        let is_in_step = |is_between| {
            self.expected.is_some_and(|next| (next.block, next.is_between) == (self.block, is_between))
        };
        match self.step {
            Step::Room => match self.ranks.make_room(&self.blocks) {
                Some(work) => return Ok(Some(work)),
                None => self.step = Step::Mates,
            },
            Step::Mates if is_in_step(false) => return self.meet(store, left),
            Step::Others if is_in_step(true) => return self.meet(store, left),
            Step::Mates => self.step = Step::Sort(queries.start),
            Step::Others => self.step = Step::SumUp(queries.start),
            Step::Sort(query) if query < queries.end => {
                self.ranks.sort(query);
                self.step = Step::Sort(query + 1);
                return Ok(Some(self.ranks.work(query)));
            }
            Step::Sort(_) => self.step = Step::Others,
            Step::SumUp(query) if query < queries.end => {
                if let Some((average_precision, precision)) = self.ranks.quality(query) {
                    self.average_precisions[query as usize] = average_precision;
                    self.precisions[query as usize] = precision;
                }
                self.step = Step::SumUp(query + 1);
                return Ok(Some(self.ranks.work(query)));
            }
            Step::SumUp(_) => {
                self.block += 1;
                self.step = Step::Room;
                if self.block < self.blocks.blocks() {
                    self.ranks.begin(&self.blocks, self.block)?;
                }
            }
        }
        Ok(Some(1))
    }

    /// Counts distances of the step, from the envelope whose turn it is.
    fn meet(&mut self, store: &dyn Store, left: usize) -> Result<Option<usize>, BoxError> {
        let current = match self.current.take() {
            Some(current) => Some(current),
            None => {
                let envelope = self.expected.and_then(|place| self.early.remove(&place));
                envelope.map(|envelope| (envelope, 0, DistanceMoments::default()))
            }
        };
        let Some((envelope, first, mut moments)) = current else { return Ok(None) };
        let (a, b) = (envelope.u64s("a")?, envelope.u64s("b")?);
        let (distances, errors) = (envelope.f64s("distance")?, envelope.f64s("error")?);
        let start = self.blocks.block(self.block).start;
        let is_between = matches!(self.step, Step::Others);
        let upto = envelope.rows().min(first.saturating_add(left));
        let mut row = first;
        while row < upto {
            let Place { query, other, .. } = match self.expected {
                Some(place) if (place.block, place.is_between) == (self.block, is_between) => place,
                // The next rows are of the next step.
                Some(_) => break,
                None => return Err(unexpected(a[row], b[row])),
            };
            let (of_query, of_other) = (self.blocks.rank(query), self.blocks.rank(other));
            let id = |rank: u32| store.nth(u64::from(rank));
            if (a[row], b[row]) != (id(of_query), id(of_other)) {
                return Err(unexpected(a[row], b[row]));
            }
            let distance = distances[row];
            if distance.is_nan() {
                return Err(BoxError::new(format!(
                    "the distance of objects {} and {} is not a number",
                    a[row], b[row]
                )));
            }
            if is_between {
                self.ranks.count_other(query, distance, of_other);
                self.ranks.count_other(other, distance, of_query);
            } else {
                self.ranks.add_mate(query, distance, of_other);
                self.ranks.add_mate(other, distance, of_query);
            }
            // A pair of two blocks counts in the first.
            if other >= start {
                moments.add(distance, errors[row]);
            }
            row += 1;
            self.expected = self.walk.next(&self.blocks);
        }
        self.seen += (row - first) as u64;
        if row < envelope.rows() {
            if self.expected.is_none() {
                return Err(unexpected(a[row], b[row]));
            }
            self.current = Some((envelope, row, moments));
        } else {
            self.moments.merge(&moments);
        }
        Ok(Some((row - first).max(1)))
    }

    fn missing(&self) -> BoxError {
        let early: usize = self.early.values().map(Envelope::rows).sum();
        BoxError::new(format!(
            "{} distances came in, but the {} objects of the store make {} pairs: connect class_pairs and \
             pair_distances over the same store",
            self.seen + early as u64,
            self.blocks.objects(),
            self.total
        ))
    }

    fn report(&self, is_signed: bool) -> Report<'_> {
        let class = |number: usize| {
            let positions = self.blocks.of_class(number);
            let queries = if positions.len() > 1 { positions.clone() } else { 0..0 };
            let queries = queries.start as usize..queries.end as usize;
            Class {
                name: &self.blocks.names()[number],
                objects: positions.len(),
                average_precisions: &self.average_precisions[queries.clone()],
                precisions: &self.precisions[queries],
            }
        };
        Report {
            classes: (0..self.blocks.names().len()).map(class).collect(),
            objects: self.blocks.objects() as usize,
            idim: if is_signed { None } else { self.moments.intrinsic_dimensionality() },
        }
    }
}
