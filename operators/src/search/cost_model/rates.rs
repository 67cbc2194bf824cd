//! The times of a distance, measured on this machine and this store.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use boxwork_kernels::interrupt::Interrupt;
use boxwork_runtime::operator::BoxError;
use boxwork_stores::space::{Prepared, Scratch, Space, SpaceError};

/// Distances in a timed piece, and pieces: the median leaves out a disturbed one.
const PIECE: usize = 8;
const PIECES: usize = 3;
/// Timed distances in f64.
const EXACT: usize = 3;
/// Spaces whose rates are kept.
const KEPT_MAX: usize = 64;

/// Rates of a store under a measure.
struct Kept {
    store: u64,
    measure: String,
    /// The size of the measured query: the time of a distance grows with it.
    len: usize,
    rates: Rates,
}

/// Measured rates by space, which later requests on the store use.
#[derive(Default)]
pub(super) struct RatesBySpace(Mutex<Vec<Kept>>);

/// Times of one distance on one core, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// To the next object of a scan.
    pub scan_ns: f64,
    /// To an object picked out of the store.
    pub picked_ns: f64,
    /// In f64, as to the pivots.
    pub exact_ns: f64,
    /// The number of pivots.
    pub pivots: usize,
}

/// The result of some work, and the nanoseconds of each of its units.
pub(super) fn timed<T>(units: usize, work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let made = work();
    (made, start.elapsed().as_nanos() as f64 / units.max(1) as f64)
}

/// The median; 0 without figures.
pub(super) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

impl RatesBySpace {
    /// The rates for a query, measured once for each space and scaled to the query's size.
    pub(super) fn of_space(
        &self,
        space: &dyn Space,
        pivots: &[u64],
        query: &dyn Prepared,
        interrupt: Interrupt<'_>,
    ) -> Result<Rates, BoxError> {
        let (store, measured, len) = (space.store().number(), space.measure(), query.size());
        {
            let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(kept) = kept.iter().find(|kept| kept.store == store && kept.measure == measured) {
                let ratio = len as f64 / kept.len.max(1) as f64;
                let Rates { scan_ns, picked_ns, exact_ns, .. } = kept.rates;
                let [scan_ns, picked_ns, exact_ns] = [scan_ns, picked_ns, exact_ns].map(|ns| ns * ratio);
                return Ok(Rates { scan_ns, picked_ns, exact_ns, pivots: pivots.len() });
            }
        }
        let rates = measure(space, pivots, query, interrupt)?;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT_MAX {
            kept.remove(0);
        }
        kept.push(Kept { store, measure: measured, len, rates });
        Ok(rates)
    }
}

/// Measures distances of objects near the pivots, whose batches are in memory.
fn measure(
    space: &dyn Space,
    pivots: &[u64],
    query: &dyn Prepared,
    interrupt: Interrupt<'_>,
) -> Result<Rates, BoxError> {
    let store = space.store();
    let Some(first) = pivots.first() else { return Err(BoxError::new("the index has no pivots")) };
    let batch = |pivot: u64| store.locate(pivot).map(|(batch, _)| store.batch_ids(batch));
    let near = batch(*first)?;
    let next: Vec<u64> = near.take(PIECE * (PIECES + 1)).collect();
    let mut picked = Vec::with_capacity(PIECE * PIECES);
    for turn in 0..PIECE * PIECES {
        let ids = batch(pivots[turn % pivots.len()])?;
        let place = (turn as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        picked.push(ids.start + place % (ids.end - ids.start));
    }
    let mut scratch = Scratch::default();
    let mut times = |ids: &[u64]| -> Result<Vec<f64>, SpaceError> {
        let mut pieces = Vec::new();
        for ids in ids.chunks(PIECE) {
            // Each object's similarity to itself is computed once for all searches, so it is not timed.
            ids.iter().try_for_each(|id| space.extent_until(*id, interrupt).map(drop))?;
            let mut ids = ids.to_vec();
            ids.sort_unstable();
            let mut distances = vec![0.0; ids.len()];
            let (computed, ns) =
                timed(ids.len(), || query.fast_until(&mut scratch, &ids, &mut distances, interrupt));
            computed?;
            pieces.push(ns);
        }
        store.confirm()?;
        Ok(pieces)
    };
    let mut scanned = times(&next)?;
    if scanned.len() > 1 {
        // The first piece includes one-time work.
        scanned.remove(0);
    }
    let scan_ns = median(scanned);
    let picked_ns = median(times(&picked)?).max(scan_ns);
    let mut exact = Vec::new();
    for id in next.iter().take(EXACT) {
        let (computed, ns) = timed(1, || space.between_until(&[[*first, *id]], &mut [0.0], interrupt));
        computed?;
        exact.push(ns);
    }
    let exact_ns = median(exact);
    Ok(Rates { scan_ns, picked_ns, exact_ns, pivots: pivots.len() })
}
