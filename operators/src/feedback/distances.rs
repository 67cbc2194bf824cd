//! Exact distances between marks and objects, and columns of distances from one object to all.
//!
//! Invariant: a distance of two objects of the store has the bits of `Space::between`, from wherever it is taken.

use std::sync::{Arc, Mutex, PoisonError};

use boxwork_kernels::interrupt::Interrupt;
use boxwork_runtime::operator::{BoxError, Context};
use boxwork_stores::space::{Prepared, Scratch, Space, SpaceError};

use super::marks::{Mark, is_stored};
use crate::resources::gp_kernel::{Column, GpKernel};

/// Exact distances of a piece for one slot: about a tenth of a millisecond.
const EXACT_PER_PIECE: usize = 32;
/// Fast distances of a piece for one slot.
const FAST_PER_PIECE: usize = 256;
/// Ids of a column that one firing computes.
const IDS_PER_FIRING: usize = 8192;

/// An object from which distances are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    id: u64,
    /// For an object that is not in the store.
    foreign: Option<Arc<dyn Prepared>>,
}

impl Origin {
    /// An object of the store.
    pub(crate) fn of_id(id: u64) -> Self {
        Self { id, foreign: None }
    }

    /// A mark's object.
    pub(crate) fn of_mark(
        space: &Arc<dyn Space>,
        mark: &Mark,
        interrupt: Interrupt<'_>,
    ) -> Result<Self, BoxError> {
        if mark.is_stored() {
            return Ok(Self::of_id(mark.id));
        }
        let prepared = Arc::clone(space).prepare_until(&mark.object, 0, interrupt);
        let prepared = prepared.map_err(|error| BoxError::new(format!("mark `{}`: {error}", mark.name)))?;
        Ok(Self { id: mark.id, foreign: Some(prepared) })
    }
}

/// The exact distances from an origin to objects of the store, from the cache as far as they are there. The objects must be
/// in memory.
pub(crate) fn exact(
    kernel: &GpKernel,
    origin: &Origin,
    ids: &[u64],
    out: &mut [f64],
    interrupt: Interrupt<'_>,
) -> Result<(), SpaceError> {
    if let Some(prepared) = &origin.foreign {
        return prepared.exact_until(ids, out, interrupt);
    }
    if let Some(column) = kernel.cache.column(origin.id)
        && let Column::Exact(distances) = &*column
    {
        out.iter_mut().zip(ids).for_each(|(out, id)| *out = distances[*id as usize]);
        return Ok(());
    }
    let pairs: Vec<[u64; 2]> = ids.iter().map(|id| [origin.id.min(*id), origin.id.max(*id)]).collect();
    let missing = kernel.cache.pairs(&pairs, out);
    let wanted: Vec<[u64; 2]> = missing.iter().map(|place| pairs[*place]).collect();
    let mut found = vec![0.0; wanted.len()];
    kernel.space.between_until(&wanted, &mut found, interrupt)?;
    missing.iter().zip(&found).for_each(|(place, distance)| out[*place] = *distance);
    kernel.cache.keep_pairs(wanted.into_iter().zip(found));
    Ok(())
}

/// The exact distance of two marks' objects; `object` is that of the second.
pub(crate) fn between_marks(
    kernel: &GpKernel,
    (a, b): (&Origin, &Origin),
    (mark_a, mark_b): (&Mark, &Mark),
    interrupt: Interrupt<'_>,
) -> Result<f64, SpaceError> {
    let mut distance = [0.0];
    match (&a.foreign, &b.foreign) {
        (_, None) => exact(kernel, a, &[b.id], &mut distance, interrupt)?,
        (None, Some(_)) => exact(kernel, b, &[a.id], &mut distance, interrupt)?,
        // One order for both, as the bits may depend on it.
        (Some(first), Some(_)) if mark_a.id > mark_b.id => {
            return first.to_object(&mark_b.object, 0, interrupt);
        }
        (Some(_), Some(first)) => return first.to_object(&mark_a.object, 0, interrupt),
    }
    Ok(distance[0])
}

/// Reads objects from the disk unless they are in memory.
pub(crate) fn bring_in(cx: &mut Context<'_>, kernel: &GpKernel, ids: &[u64]) -> Result<(), BoxError> {
    let store = kernel.space.store();
    if !store.is_in(ids) {
        cx.detached("disk", || store.bring_in(ids))??;
    }
    Ok(())
}

/// The column of a mark, if an earlier round has left it.
pub(crate) fn known_column(kernel: &GpKernel, mark: &Mark) -> Option<Arc<Column>> {
    if mark.is_stored() { kernel.cache.column(mark.id) } else { kernel.cache.foreign(&mark.object) }
}

/// Keeps the column of a mark for later rounds.
pub(crate) fn keep_column(kernel: &GpKernel, mark: &Mark, column: &Arc<Column>) {
    if mark.is_stored() {
        kernel.cache.keep(mark.id, column);
    } else {
        kernel.cache.keep_foreign(&mark.object, column);
    }
}

/// The greatest of some distances, or 0.
pub(crate) fn greatest(distances: &[f32]) -> f32 {
    // Side by side, as the maximum of one sequence waits for itself.
    let mut lanes = [0.0_f32; 16];
    let (sixteens, rest) = distances.as_chunks::<16>();
    for sixteen in sixteens {
        for (lane, distance) in lanes.iter_mut().zip(sixteen) {
            *lane = if *distance > *lane { *distance } else { *lane };
        }
    }
    lanes.iter().chain(rest).copied().fold(0.0, f32::max)
}

/// A column of fast distances of a query from all ids, and the greatest of them; `ids` are those of the objects.
pub(crate) fn fast_column(
    prepared: &dyn Prepared,
    ids: &[u64],
    (distances, farthest): (Vec<f32>, f32),
) -> Result<Column, SpaceError> {
    prepared.see(ids, &|| false)?;
    // The error of a distance shrinks with it, and that of its square grows; both also from rounding to f32.
    let rounding = f64::from(f32::EPSILON);
    let farthest = f64::from(farthest) * (1.0 + rounding);
    let widened = |range: f64| prepared.widened(range) + range * rounding;
    let (near, far) = (widened(0.0), widened(farthest));
    let change = near.max(far - farthest);
    let change_squared = (far * far - farthest * farthest).max(near * near);
    Ok(Column::Fast { distances, change, change_squared })
}

/// Makes the columns of a list of objects, some of one at each call.
#[derive(Debug)]
pub(crate) struct ColumnMaker {
    kernel: Arc<GpKernel>,
    /// The objects whose columns are to be made, the last first; marks have their objects.
    waiting: Vec<(Origin, Option<Mark>)>,
    under_way: Option<UnderWay>,
    made: Vec<Arc<Column>>,
}

/// A column that is being computed.
#[derive(Debug)]
struct UnderWay {
    /// Fast distances come from it; without it they are exact.
    prepared: Option<Arc<dyn Prepared>>,
    distances: Vec<f64>,
    next: usize,
}

impl ColumnMaker {
    /// Makes the columns of marks, or takes them from the cache.
    pub(crate) fn new(
        kernel: &Arc<GpKernel>,
        marks: &[Mark],
        interrupt: Interrupt<'_>,
    ) -> Result<Self, BoxError> {
        let origin = |mark: &Mark| Origin::of_mark(&kernel.space, mark, interrupt);
        let waiting = marks.iter().rev().map(|mark| Ok((origin(mark)?, Some(mark.clone()))));
        let waiting = waiting.collect::<Result<_, BoxError>>()?;
        Ok(Self {
            kernel: Arc::clone(kernel),
            waiting,
            under_way: None,
            made: Vec::with_capacity(marks.len()),
        })
    }

    /// Makes the column of an object of a small store.
    pub(crate) fn of_id(kernel: &Arc<GpKernel>, id: u64) -> Self {
        debug_assert!(kernel.is_small() && is_stored(id), "exact columns are of small stores");
        let waiting = vec![(Origin::of_id(id), None)];
        Self { kernel: Arc::clone(kernel), waiting, under_way: None, made: Vec::new() }
    }

    /// Makes some of a column; returns all columns once they are there.
    pub(crate) fn step(&mut self, cx: &mut Context<'_>) -> Result<Option<Vec<Arc<Column>>>, BoxError> {
        let kernel = Arc::clone(&self.kernel);
        while let Some((origin, mark)) = self.waiting.last() {
            let known = match mark {
                Some(mark) => known_column(&kernel, mark),
                None => kernel.cache.column(origin.id),
            };
            if let Some(column) = known.filter(|_| self.under_way.is_none()) {
                self.made.push(column);
                self.waiting.pop();
                continue;
            }
            let under_way = match &mut self.under_way {
                Some(under_way) => under_way,
                None => self.under_way.insert(UnderWay::begin(&kernel, origin, mark.as_ref(), cx)?),
            };
            under_way.step(cx, &kernel, origin)?;
            if under_way.next < under_way.distances.len() {
                return Ok(None);
            }
            let Some(done) = self.under_way.take() else { return Ok(None) };
            let column = Arc::new(done.finish(&kernel)?);
            match mark {
                Some(mark) => keep_column(&kernel, mark, &column),
                None => kernel.cache.keep(origin.id, &column),
            }
            self.made.push(column);
            self.waiting.pop();
            if !self.waiting.is_empty() {
                return Ok(None);
            }
        }
        Ok(Some(std::mem::take(&mut self.made)))
    }
}

impl UnderWay {
    fn begin(
        kernel: &GpKernel,
        origin: &Origin,
        mark: Option<&Mark>,
        cx: &Context<'_>,
    ) -> Result<Self, BoxError> {
        let prepared = match mark {
            Some(mark) if !kernel.is_small() => Some(match &origin.foreign {
                Some(prepared) => Arc::clone(prepared),
                None => Arc::clone(&kernel.space).prepare_until(&mark.object, 0, &|| cx.is_cancelled())?,
            }),
            _ => None,
        };
        let ids = kernel.space.store().ids_count() as usize;
        Ok(Self { prepared, distances: vec![0.0; ids], next: 0 })
    }

    /// Computes the distances of the next ids.
    fn step(&mut self, cx: &mut Context<'_>, kernel: &GpKernel, origin: &Origin) -> Result<(), BoxError> {
        let store = kernel.space.store();
        let end = self.distances.len().min(self.next + IDS_PER_FIRING);
        let ids: Vec<u64> = store.among(self.next as u64..end as u64).collect();
        bring_in(cx, kernel, &ids)?;
        let (prepared, first) = (&self.prepared, self.next);
        let failed = Mutex::new(None);
        let piece = if prepared.is_some() { FAST_PER_PIECE } else { EXACT_PER_PIECE };
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut self.distances[first..end], piece, |at, out| {
                let range = (first + at) as u64..(first + at + out.len()) as u64;
                let ids: Vec<u64> = store.among(range.clone()).collect();
                let mut found = vec![0.0; ids.len()];
                let done = match prepared {
                    Some(prepared) => {
                        prepared.fast_until(&mut Scratch::default(), &ids, &mut found, &cancelled)
                    }
                    None => exact(kernel, origin, &ids, &mut found, &cancelled),
                };
                match done {
                    Ok(()) => {
                        ids.iter()
                            .zip(found)
                            .for_each(|(id, found)| out[(id - range.start) as usize] = found);
                    }
                    // The first error is reported.
                    Err(error) => {
                        failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    }
                }
            });
        });
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error.into());
        }
        self.next = end;
        Ok(())
    }

    fn finish(self, kernel: &GpKernel) -> Result<Column, BoxError> {
        let store = kernel.space.store();
        // Distances from mapped bytes count only if the file is as it was.
        store.confirm()?;
        let Some(prepared) = self.prepared else { return Ok(Column::Exact(self.distances)) };
        let ids: Vec<u64> = store.among(0..store.ids_count()).collect();
        let distances: Vec<f32> = self.distances.iter().map(|distance| *distance as f32).collect();
        // Removed objects have the distance 0.
        let farthest = greatest(&distances);
        Ok(fast_column(&*prepared, &ids, (distances, farthest))?)
    }
}
