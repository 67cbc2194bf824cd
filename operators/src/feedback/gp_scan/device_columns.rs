//! Exact mode on devices: the columns of distances that no earlier round has left.
//!
//! Invariants: a distance is off by no more than its mark's query declares, whether a device or a slot computed it; a column
//! is kept only if all of its distances are there.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use boxwork_kernels::interrupt::{Interrupt, ask, never};
use boxwork_kernels::similarity::Similarity;
use boxwork_runtime::feeding::Devices;
use boxwork_runtime::operator::{BoxError, Context, Pushed};
use boxwork_stores::chunks::ChunkRun;
use boxwork_stores::space::Scratch;
use boxwork_stores::sqfd_space::SqfdSpace;
use boxwork_stores::store::Store as _;

use crate::devices::stage::{BlockOutcome, DeviceTask, Sizes, Taken};
use crate::feedback::distances::{bring_in, fast_column, greatest, keep_column, known_column};
use crate::feedback::marks::{Fitted, Mark};
use crate::resources::gp_kernel::{Column, GpKernel};
use crate::search::distance::{Criteria, DistanceBlock, Found, OnDevice, compute_sigmas};
use crate::search::queries::Queries;

/// Ids of a column that one slot handles at a time.
const IDS_PER_PIECE: usize = 4096;
/// Ids of a column that slots compute in one firing.
const IDS_PER_FIRING: u64 = 16 * IDS_PER_PIECE as u64;

/// Runs of chunks are whole blocks; slots take one piece of a column a firing.
pub(super) const SIZES: Sizes =
    Sizes { block: [1, 1], block_min: [1, 1], slots: [1, 1], blocks_per_device: 3 };

/// A part of the columns that are missing.
pub(super) enum Item {
    /// Whole chunks for all marks without a column.
    Run(ChunkRun),
    /// Some ids for one of these marks.
    Ids(usize, Range<u64>),
}

/// The columns that are missing, as a task for devices.
pub(super) struct DeviceColumns {
    kernel: Arc<GpKernel>,
    space: Arc<SqfdSpace>,
    on_device: OnDevice,
    /// By mark: its column, if an earlier round has left it.
    known: Vec<Option<Arc<Column>>>,
    /// The marks without a column, and their queries.
    missing: Vec<Mark>,
    queries: Queries,
    /// By query: the distances of all ids.
    distances: Vec<Vec<f32>>,
    items: VecDeque<Item>,
}

/// Parts of columns that slots compute, each in one firing.
fn parts(places: Range<usize>, ids: Range<u64>) -> impl Iterator<Item = Item> {
    let firings = move |place| {
        let part = move |first: u64| Item::Ids(place, first..ids.end.min(first + IDS_PER_FIRING));
        (ids.start..ids.end).step_by(IDS_PER_FIRING as usize).map(part)
    };
    places.flat_map(firings)
}

impl DeviceColumns {
    /// A task that makes the columns of a model's marks, as far as earlier rounds have not left them.
    ///
    /// # Errors
    /// When a mark's object does not fit the space, and when the request is cancelled.
    pub(super) fn new(
        (kernel, space): (&Arc<GpKernel>, Arc<SqfdSpace>),
        model: &Fitted,
        (devices, allowed): (&Arc<Devices>, &Arc<[usize]>),
        interrupt: Interrupt<'_>,
    ) -> Result<Self, BoxError> {
        let known: Vec<_> = model.marks.iter().map(|mark| known_column(kernel, mark)).collect();
        let is_missing = |(mark, known): (&Mark, &Option<Arc<Column>>)| known.is_none().then(|| mark.clone());
        let missing: Vec<Mark> = model.marks.iter().zip(&known).filter_map(is_missing).collect();
        let queries = Queries::of_prepared(missing.iter().map(|mark| {
            let prepared = Arc::clone(&kernel.space).prepare_until(&mark.object, 0, interrupt);
            prepared.map_err(|error| BoxError::new(format!("mark `{}`: {error}", mark.name)))
        }))?;
        let on_device = OnDevice::new(Arc::clone(&space), devices, allowed, Criteria::default());
        let ids = space.store().len();
        let items = match on_device.runs(&(0..missing.len()), &(0..ids)) {
            _ if missing.is_empty() => VecDeque::new(),
            Some(runs) => runs.into_iter().map(Item::Run).collect(),
            None => parts(0..missing.len(), 0..ids).collect(),
        };
        Ok(Self {
            kernel: Arc::clone(kernel),
            space,
            on_device,
            known,
            // Zeros from the system, which slots touch first.
            distances: missing.iter().map(|_| vec![0.0; ids as usize]).collect(),
            missing,
            queries,
            items,
        })
    }

    /// The columns of all marks, once the stage has ended. Keeps the new ones for later rounds.
    ///
    /// # Errors
    /// When the store's file is not as it was, and when the request is cancelled.
    pub(super) fn into_columns(mut self, cx: &mut Context<'_>) -> Result<Vec<Arc<Column>>, BoxError> {
        let store = self.space.store();
        // Distances from mapped bytes count only if the file is as it was.
        store.confirm()?;
        // The errors of this measure alone depend on the objects (`Prepared::see`).
        let ids: Vec<u64> = match self.space.measure().similarity() {
            Similarity::Minus => store.among(0..store.len()).collect(),
            _ => Vec::new(),
        };
        let distances = std::mem::take(&mut self.distances);
        let pieces = distances.iter().enumerate().flat_map(|(place, distances)| {
            distances.chunks(IDS_PER_FIRING as usize).map(move |piece| (place, piece, 0.0_f32))
        });
        let mut pieces: Vec<_> = pieces.collect();
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut pieces, 1, |_, pieces| {
                // Removed objects have the distance 0.
                pieces.iter_mut().for_each(|(_, piece, farthest)| *farthest = greatest(piece));
            });
        });
        let mut farthest = vec![0.0_f32; distances.len()];
        pieces.iter().for_each(|(place, _, of_piece)| farthest[*place] = farthest[*place].max(*of_piece));
        let mut made: Vec<_> = distances.into_iter().zip(farthest).map(|made| (made, None)).collect();
        let queries = &self.queries;
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut made, 1, |first, made| {
                for (place, ((distances, farthest), column)) in (first..).zip(made) {
                    let distances = (std::mem::take(distances), *farthest);
                    *column = Some(fast_column(&*queries.at(place).prepared, &ids, distances));
                }
            });
        });
        ask(&|| cx.is_cancelled())?;
        let mut made = self.missing.iter().zip(made);
        let mut columns = Vec::with_capacity(self.known.len());
        for known in self.known {
            columns.push(match known {
                Some(column) => column,
                None => {
                    let made = made.next().and_then(|(mark, (_, column))| Some((mark, column?)));
                    let (mark, column) = made.expect("a column of each mark that lacked one");
                    let column = Arc::new(column?);
                    keep_column(&self.kernel, mark, &column);
                    column
                }
            });
        }
        Ok(columns)
    }

    /// Writes distances of consecutive ids, by query; slots write pieces side by side.
    fn write(
        &mut self,
        cx: &mut Context<'_>,
        (places, ids): (Range<usize>, Range<u64>),
        piece: impl Fn(usize, Range<u64>, &mut [f32]) -> Result<(), BoxError> + Sync,
    ) -> Result<(), BoxError> {
        let mut pieces = Vec::new();
        for (place, distances) in places.clone().zip(&mut self.distances[places]) {
            let here = &mut distances[ids.start as usize..ids.end as usize];
            let firsts = (ids.start..).step_by(IDS_PER_PIECE);
            pieces.extend(firsts.zip(here.chunks_mut(IDS_PER_PIECE)).map(|(first, out)| (place, first, out)));
        }
        let failed = Mutex::new(None);
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut pieces, 1, |_, pieces| {
                for (place, first, out) in pieces.iter_mut().filter(|_| !cancelled()) {
                    let ids = *first..*first + out.len() as u64;
                    if let Err(error) = piece(*place, ids, out) {
                        // The first error is reported.
                        failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    }
                }
            });
        });
        ask(&|| cx.is_cancelled())?;
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

impl DeviceTask for DeviceColumns {
    type Item = Item;
    type Block = DistanceBlock;
    type Made = Infallible;

    const IS_ORDERED: bool = false;

    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        if self.items.is_empty() || self.space.is_complete() {
            return Ok(());
        }
        let ids: Vec<u64> = self.space.store().among(0..self.space.store().len()).collect();
        if ids.iter().any(|id| !self.space.is_known(*id)) {
            bring_in(cx, &self.kernel, &ids)?;
            compute_sigmas(cx, &self.space, ids)?;
        }
        Ok(())
    }

    fn take(&mut self, _: &mut Context<'_>, _: bool) -> Result<Option<Taken<Item>>, BoxError> {
        Ok(self.items.pop_front().map(|item| match item {
            Item::Run(_) => Taken::Whole(item),
            Item::Ids(..) => Taken::ForSlots(item),
        }))
    }

    fn is_ended(&self, _: &Context<'_>) -> bool {
        self.items.is_empty()
    }

    fn has_items(&self) -> bool {
        !self.items.is_empty()
    }

    fn block(&mut self, cx: &mut Context<'_>, items: Vec<Item>) -> Result<DistanceBlock, BoxError> {
        match items.into_iter().next() {
            Some(Item::Run(run)) => self.on_device.run_block(cx, &self.queries, run),
            _ => unreachable!("a block is a run of chunks"),
        }
    }

    fn home(&self, block: &DistanceBlock) -> Option<usize> {
        block.home()
    }

    fn finish(&mut self, cx: &mut Context<'_>, block: DistanceBlock) -> Result<BlockOutcome<Self>, BoxError> {
        let DistanceBlock::Run(run) = &block else { unreachable!("a block is a run of chunks") };
        let Found::All(sums) = &run.found else {
            return Err(BoxError::new("a block came back without results"));
        };
        let (space, queries) = (Arc::clone(&self.space), self.queries.clone());
        self.write(cx, (run.queries.clone(), run.ids()), |place, ids, out| {
            let query = queries.at(place).sqfd().prepared();
            space.store().read::<_, BoxError>(|objects| {
                run.each(objects, (place, &ids), sums, |id, cross| {
                    out[(id - ids.start) as usize] =
                        space.of_cross(objects, query, (id, cross), &never)? as f32;
                    Ok(())
                })
            })
        })?;
        Ok(BlockOutcome::Made(Vec::new()))
    }

    fn failed(&mut self, block: DistanceBlock, is_served: bool) -> BlockOutcome<Self> {
        let DistanceBlock::Run(mut run) = block else { unreachable!("a block is a run of chunks") };
        // The device that keeps these chunks failed; any other may compute the block.
        if run.home.take().is_some() && is_served {
            return BlockOutcome::Retry(DistanceBlock::Run(run));
        }
        BlockOutcome::Fallback(vec![Item::Run((run.queries.clone(), run.chunks.clone()))])
    }

    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Item>,
    ) -> Result<Vec<Infallible>, BoxError> {
        match left.pop_front() {
            None => {}
            Some(Item::Run((places, chunks))) => left.extend(parts(places, self.on_device.ids(&chunks))),
            Some(Item::Ids(place, ids)) => {
                let objects: Vec<u64> = self.space.store().among(ids.clone()).collect();
                bring_in(cx, &self.kernel, &objects)?;
                let (queries, cancelled) = (self.queries.clone(), cx.cancelled());
                self.write(cx, (place..place + 1, ids), |place, ids, out| {
                    let first = objects.partition_point(|id| *id < ids.start);
                    let objects = &objects[first..objects.partition_point(|id| *id < ids.end)];
                    let mut found = vec![0.0; objects.len()];
                    let query = &queries.at(place).prepared;
                    query.fast_until(&mut Scratch::default(), objects, &mut found, &cancelled)?;
                    let pairs = objects.iter().zip(found);
                    pairs.for_each(|(id, found)| out[(id - ids.start) as usize] = found as f32);
                    Ok(())
                })?;
            }
        }
        Ok(Vec::new())
    }

    fn has_room(&self, _: &Context<'_>) -> bool {
        true
    }

    fn push(&mut self, _: &mut Context<'_>, made: Infallible) -> Result<Pushed, BoxError> {
        match made {}
    }
}

#[cfg(test)]
mod tests;
