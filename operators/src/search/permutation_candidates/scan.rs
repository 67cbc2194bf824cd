//! The candidates of all queries, as a task for devices and slots: some queries are a block.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_kernels::permutation::{Comparison, reference};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{BoxError, Context, Pushed};
use boxwork_stores::permutations::{PermutationError, Permutations};

use super::block::{MeasuresBlock, Scanned};
use super::{CANDIDATES, QUERIES};
use crate::columns;
use crate::devices::stage::{BlockOutcome, DeviceTask, Sizes, Taken};
use crate::search::queries::Queries;

/// Queries that each slot takes in a firing.
const QUERIES_PER_SLOT: usize = 4;
/// Queries of a block, one object of which is compared again.
const CHECKED: usize = 4;

/// Items are whole blocks; slots take an item a firing.
pub(super) const SIZES: Sizes =
    Sizes { block: [1, 1], block_min: [1, 1], slots: [1, 1], blocks_per_device: 2 };

/// A query's number and its list.
struct Asked {
    number: u32,
    list: Vec<u16>,
}

/// The candidates of all queries.
pub(super) struct CandidatesScan {
    permutations: Arc<Permutations>,
    comparison: Comparison,
    count: usize,
    /// A note for the run.
    note: Option<String>,
    slots: usize,
    /// None if slots compute all.
    scanned: Option<Arc<Scanned>>,
    /// Set by the first firing.
    asked: Vec<Asked>,
    /// The first query that no item has.
    next: usize,
    /// Queries whose candidates devices have found.
    pub(super) on_devices: u64,
}

impl CandidatesScan {
    pub(super) fn new(
        permutations: Arc<Permutations>,
        (comparison, count): (Comparison, usize),
        slots: usize,
        scanned: Option<Scanned>,
        note: Option<String>,
    ) -> Self {
        let (asked, scanned) = (Vec::new(), scanned.map(Arc::new));
        Self { permutations, comparison, count, note, slots, scanned, asked, next: 0, on_devices: 0 }
    }

    /// The lists of queries, which slots make side by side.
    fn lists(&self, cx: &mut Context<'_>, queries: &Queries) -> Result<Vec<Asked>, BoxError> {
        let maker = self.permutations.maker();
        crate::resources::bring_in(cx, &**maker.space().store(), maker.pivots())?;
        let each = queries.iter().map(|query| (query, Asked { number: query.number, list: Vec::new() }));
        let mut asked: Vec<_> = each.collect();
        let failed: OnceLock<PermutationError> = OnceLock::new();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut asked, 1, |_, asked| {
                for (query, asked) in asked {
                    match maker.list(&*query.prepared, &cancelled) {
                        Ok(list) => asked.list = list,
                        // The first error is reported.
                        Err(error) => drop(failed.set(error)),
                    }
                }
            });
        });
        match failed.into_inner().filter(|_| !cx.is_cancelled()) {
            Some(error) => Err(error.into()),
            None => Ok(asked.into_iter().map(|(_, asked)| asked).collect()),
        }
    }

    /// The candidates of queries at some places, on slots.
    fn on_slots(&self, cx: &mut Context<'_>, places: &[usize]) -> Vec<Found> {
        let mut found: Vec<(usize, Vec<u64>)> = places.iter().map(|place| (*place, Vec::new())).collect();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut found, 1, |_, found| {
                for (place, ids) in found.iter_mut().filter(|_| !cancelled()) {
                    *ids = self.permutations.candidates_of(
                        &self.asked[*place].list,
                        self.comparison,
                        self.count,
                    );
                    ids.sort_unstable();
                }
            });
        });
        found.into_iter().map(|(place, ids)| (self.asked[place].number, ids)).collect()
    }

    /// The candidates among objects with small measures, ids ascending; nothing if there are too few.
    fn candidates(&self, mut found: Vec<(u32, u32)>) -> Option<Vec<u64>> {
        if found.len() < self.count {
            return None;
        }
        if found.len() > self.count {
            found.select_nth_unstable(self.count - 1);
            found.truncate(self.count);
        }
        let mut ids: Vec<u64> = found.into_iter().map(|(_, id)| u64::from(id)).collect();
        ids.sort_unstable();
        Some(ids)
    }

    /// Whether the first object of some queries has the measure that slots compute.
    fn is_as_reference(&self, block: &MeasuresBlock, found: &[Option<Vec<(u32, u32)>>]) -> bool {
        let apart = found.len().div_ceil(CHECKED).max(1);
        found.iter().zip(&block.places).step_by(apart).all(|(found, place)| {
            found.as_ref().and_then(|found| found.first()).is_none_or(|(measure, id)| {
                let lists = block.scanned.lists();
                let list = lists.list(*id as usize);
                reference(self.comparison, lists.pivots(), &self.asked[*place].list, &list)
                    == u64::from(*measure)
            })
        })
    }
}

/// The number of a query, and its candidates.
type Found = (u32, Vec<u64>);

impl DeviceTask for CandidatesScan {
    /// Consecutive queries.
    type Item = Range<usize>;
    type Block = MeasuresBlock;
    type Made = Found;

    const IS_ORDERED: bool = true;

    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        self.note.take().into_iter().for_each(|note| cx.note(note));
        let space = self.permutations.maker().space();
        let queries = Queries::of_side(cx, QUERIES, space)?;
        self.asked = self.lists(cx, &queries)?;
        space.store().confirm()?;
        let queries = queries.len() as u64;
        cx.count("objects compared by permutations", space.store().objects_count() * queries);
        cx.count("candidates", self.count as u64 * queries);
        Ok(())
    }

    fn take(&mut self, _: &mut Context<'_>, device: bool) -> Result<Option<Taken<Range<usize>>>, BoxError> {
        let most = match &self.scanned {
            Some(scanned) if device => scanned.queries(),
            _ => QUERIES_PER_SLOT * self.slots,
        };
        let queries = self.next..self.asked.len().min(self.next + most);
        self.next = queries.end;
        Ok((!queries.is_empty()).then_some(Taken::Whole(queries)))
    }

    fn is_ended(&self, _: &Context<'_>) -> bool {
        !self.has_items()
    }

    fn has_items(&self) -> bool {
        self.next < self.asked.len()
    }

    fn block(&mut self, _: &mut Context<'_>, items: Vec<Range<usize>>) -> Result<MeasuresBlock, BoxError> {
        let Some(scanned) = &self.scanned else { unreachable!("a block without a scan on devices") };
        let places: Vec<usize> = items.into_iter().flatten().collect();
        let lists: Vec<&[u16]> = places.iter().map(|place| &*self.asked[*place].list).collect();
        Ok(MeasuresBlock::new(scanned, places, lists.into_iter()))
    }

    fn finish(&mut self, cx: &mut Context<'_>, block: MeasuresBlock) -> Result<BlockOutcome<Self>, BoxError> {
        let found: Vec<_> = (0..block.places.len()).map(|nth| block.found(nth)).collect();
        if !self.is_as_reference(&block, &found) {
            let problem =
                "its measures differ from the processor's: permutations are compared without devices";
            cx.report(block.device.clone(), problem);
            return Ok(BlockOutcome::Untrusted(runs(&block.places)));
        }
        let found: Vec<_> =
            found.into_iter().map(|found| found.and_then(|found| self.candidates(found))).collect();
        // There was no room for all objects at the last measure.
        let without = block.places.iter().zip(&found).filter(|(_, found)| found.is_none());
        let left: Vec<usize> = without.map(|(place, _)| *place).collect();
        self.on_devices += (block.places.len() - left.len()) as u64;
        let mut of_slots = self.on_slots(cx, &left).into_iter();
        let of_query = |(place, found): (&usize, Option<Vec<u64>>)| {
            found.map(|ids| (self.asked[*place].number, ids)).or_else(|| of_slots.next())
        };
        let made = block.places.iter().zip(found).filter_map(of_query).collect();
        Ok(BlockOutcome::Made(if cx.is_cancelled() { Vec::new() } else { made }))
    }

    fn failed(&mut self, block: MeasuresBlock, _: bool) -> BlockOutcome<Self> {
        BlockOutcome::Fallback(runs(&block.places))
    }

    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Range<usize>>,
    ) -> Result<Vec<Found>, BoxError> {
        let Some(queries) = left.pop_front() else { return Ok(Vec::new()) };
        let upto = queries.end.min(queries.start + QUERIES_PER_SLOT * self.slots);
        if upto < queries.end {
            left.push_front(upto..queries.end);
        }
        let found = self.on_slots(cx, &(queries.start..upto).collect::<Vec<_>>());
        Ok(if cx.is_cancelled() { Vec::new() } else { found })
    }

    fn has_room(&self, cx: &Context<'_>) -> bool {
        cx.has_room(CANDIDATES)
    }

    fn push(&mut self, cx: &mut Context<'_>, (query, ids): Found) -> Result<Pushed, BoxError> {
        let count = ids.len();
        let columns: [(&str, ArrayRef); 3] = [
            ("query", Arc::new(UInt32Array::from(vec![query; count]))),
            ("id", Arc::new(UInt64Array::from(ids))),
            ("lower", Arc::new(Float64Array::from(vec![columns::NO_BOUND; count]))),
        ];
        cx.push(CANDIDATES, Envelope::from_columns(columns)?)
    }
}

/// Places as runs of consecutive ones.
fn runs(places: &[usize]) -> Vec<Range<usize>> {
    places.chunk_by(|a, b| a + 1 == *b).map(|run| run[0]..run[0] + run.len()).collect()
}

#[cfg(test)]
mod tests;
