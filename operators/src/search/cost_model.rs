//! The choice between a scan and a search by an index: from rates measured on this machine, and from a sample of the
//! bounds.
//!
//! A search by an index bounds every object and computes the distances that the bounds leave. Three numbers decide: the
//! time to bound all objects, the share that a sample of the bounds leaves, and the times of a distance in a scan and of
//! one picked out. All work that the model counts is divided among the slots or the devices alike, so their number only
//! scales the times. The model knows no time of waiting: decision 055 has the measurements by which it, and more than
//! twenty other constants, went.
//!
//! The answer does not depend on the choice, and a poor one costs little: bounds are given up beforehand only where they
//! are dear, and the objects that they leave go on in an order that is never much slower than a scan (`prefilter`).

mod choices;
mod devices;
mod rates;
mod sample;

use std::sync::{Arc, Mutex, PoisonError};

use boxwork_kernels::interrupt::{Interrupt, never};
use boxwork_kernels::lower_bound::Bound;
use boxwork_runtime::operator::BoxError;
use boxwork_stores::pivot_table::PivotTable;
use boxwork_stores::space::{Prepared, SpaceError};

pub use devices::OnDevices;
pub use rates::Rates;

use self::choices::{Choices, Key};
use self::rates::RatesBySpace;
use self::sample::Sample;
use crate::search::queries::Queries;

/// Queries of a request that are sampled, or objects of the store that stand in for them. The others are taken to be
/// like them.
const PROBES: u64 = 4;
/// The search to weigh, and the machine that runs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// Objects that each query asks for; without it, all objects within the range.
    pub k: Option<usize>,
    /// The largest distance of an answer.
    pub range: Option<f64>,
    /// The number of queries.
    pub queries: usize,
    /// Slots that compute.
    pub workers: usize,
    /// The devices that compute distances instead of the slots.
    pub devices: Option<OnDevices>,
}

/// A way to search, and its estimated work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// The strategy's name: `scan`, `best_first`, or `indexed_range`.
    pub strategy: &'static str,
    /// The bound that excludes objects; `None` for a scan.
    pub bound: Option<Bound>,
    /// Nanoseconds of one core to bound an object.
    pub bound_ns: f64,
    /// Objects of a query that remain by their bounds before any distance is known.
    pub candidates: f64,
    /// Computed distances of a query.
    pub distances: f64,
    /// Seconds to compute bounds and distances of all queries.
    pub seconds: f64,
}

/// The estimated work of each way to search.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The search.
    pub search: Search,
    /// Objects of the store.
    pub objects: u64,
    /// Rows of the index: objects, and removed ones, which are bounded, too.
    pub rows: u64,
    /// Bounds in the sample.
    pub sampled: usize,
    /// The times of a distance.
    pub rates: Rates,
    /// An estimate of the distance of the answer's last object.
    pub farthest: f64,
    /// The scan, and then one way for each bound.
    pub ways: Vec<Way>,
}

/// The way that `auto` takes, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// One of the estimate's ways.
    pub way: Way,
    /// A sentence for users.
    pub reason: String,
}

/// A query and its f64 distances to the pivots.
struct Probe<'a> {
    prepared: &'a dyn Prepared,
    to_pivots: &'a [f64],
}

/// Estimates a search by every sound bound. Some objects of the store stand in for its queries.
///
/// # Errors
/// When the store is empty or cannot be read, or the index is of another space.
pub fn estimate(table: &PivotTable, search: Search) -> Result<Estimate, BoxError> {
    let space = Arc::clone(table.space());
    let store = space.store();
    let (count, objects) = (PROBES.min(store.objects_count()), store.objects_count());
    let ids: Vec<u64> = (0..count).map(|idx| store.nth(idx * objects / count)).collect();
    store.bring_in(&[&ids, table.pivots()].concat())?;
    let stand_ins = store.objects(&ids)?;
    let prepared = (0..ids.len()).map(|row| Arc::clone(&space).prepare(&stand_ins, row));
    let prepared = prepared.collect::<Result<Vec<_>, SpaceError>>()?;
    let mut to_pivots = vec![vec![0.0; table.pivots().len()]; ids.len()];
    for (query, distances) in prepared.iter().zip(&mut to_pivots) {
        query.exact(table.pivots(), distances)?;
    }
    let probes: Vec<Probe<'_>> = prepared
        .iter()
        .zip(&to_pivots)
        .map(|(prepared, to_pivots)| Probe { prepared: &**prepared, to_pivots })
        .collect();
    let bounds: Vec<Bound> = Bound::ALL.into_iter().filter(|bound| table.allow(*bound).is_ok()).collect();
    weigh(table, search, &RatesBySpace::default(), &probes, &bounds, &never)
}

/// Measured rates and choices, which one request leaves to the next. A runtime keeps them
/// ([`Memory`](boxwork_runtime::operator::Memory)).
#[derive(Default)]
pub(crate) struct Remembered {
    choices: Mutex<Choices>,
    rates: RatesBySpace,
}

impl Remembered {
    /// The choice of an earlier request with the same settings, unless this request has to choose anew.
    pub(crate) fn choice(&self, table: &PivotTable, search: Search) -> Option<Option<Bound>> {
        self.choices.lock().unwrap_or_else(PoisonError::into_inner).take(Key::of(table, search))
    }

    /// Chooses the bound for a request's queries, by their f64 distances to the pivots; `None` if a scan is faster. The
    /// pivots must be in memory, so that this does not block.
    pub(crate) fn choose(
        &self,
        table: &PivotTable,
        search: Search,
        queries: &Queries,
        to_pivots: &[Vec<f64>],
        interrupt: Interrupt<'_>,
    ) -> Result<Option<Bound>, BoxError> {
        let bound = bound_of_auto(|bound| table.allow(bound).is_ok());
        let probes = queries.iter().zip(to_pivots).take(PROBES as usize);
        let probes: Vec<Probe<'_>> =
            probes.map(|(query, to_pivots)| Probe { prepared: &*query.prepared, to_pivots }).collect();
        if probes.is_empty() {
            return Ok(Some(bound));
        }
        let bound = weigh(table, search, &self.rates, &probes, &[bound], interrupt)?.choice().way.bound;
        self.choices.lock().unwrap_or_else(PoisonError::into_inner).keep(Key::of(table, search), bound);
        Ok(bound)
    }
}

/// The bound that `auto` weighs against a scan: the tightest, or the cheapest if that one is not sound.
fn bound_of_auto(is_sound: impl Fn(Bound) -> bool) -> Bound {
    if is_sound(Bound::Simplex) { Bound::Simplex } else { Bound::Triangular }
}

/// Samples these bounds for some queries, and estimates a scan and the search by each bound.
fn weigh(
    table: &PivotTable,
    search: Search,
    rates: &RatesBySpace,
    probes: &[Probe<'_>],
    bounds: &[Bound],
    interrupt: Interrupt<'_>,
) -> Result<Estimate, BoxError> {
    let space = table.space();
    let Some(first) = probes.first() else {
        return Err(BoxError::new("there is no query to estimate by"));
    };
    let rates = rates.of_space(&**space, table.pivots(), first.prepared, interrupt)?;
    let objects = space.store().objects_count();
    let rows = table.len();
    let mut estimate = Estimate { search, objects, rows, sampled: 0, rates, farthest: 0.0, ways: Vec::new() };
    estimate.ways.push(estimate.scan());
    for bound in bounds {
        let samples = probes.iter().map(|probe| Sample::of(table, probe, *bound));
        estimate.add(*bound, &samples.collect::<Result<Vec<_>, _>>()?);
    }
    Ok(estimate)
}

impl Estimate {
    /// Adds the search by a bound of which there are samples, one for each probe.
    fn add(&mut self, bound: Bound, samples: &[Sample]) {
        let Self { search, objects, .. } = *self;
        let mean = |of: &dyn Fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / samples.len() as f64;
        let range = search.range.unwrap_or(f64::INFINITY);
        let share = search.k.map_or(1.0, |k| k as f64 / objects as f64);
        let farthest = |sample: &Sample| sample.distance_of(share).min(range);
        let computed = mean(&|sample| sample.share_within(farthest(sample)));
        let left = mean(&|sample| sample.share_within(sample.upper_of(share).min(range))).max(computed);
        let count = |share: f64| (share * objects as f64).max(self.least());
        let way = self.by_bound(bound, mean(&Sample::bound_ns), count(left), count(computed));
        // The last bound is the tightest, and its middle the nearest to the distances.
        (self.sampled, self.farthest) = (samples.iter().map(Sample::len).sum(), mean(&farthest));
        self.ways.push(way);
    }

    fn scan(&self) -> Way {
        let count = self.objects as f64;
        let seconds = match self.search.devices {
            None => self.seconds(count * self.rates.scan_ns),
            Some(devices) => count * self.search.queries as f64 / devices.rate,
        };
        Way { strategy: "scan", bound: None, bound_ns: 0.0, candidates: count, distances: count, seconds }
    }

    fn by_bound(&self, bound: Bound, bound_ns: f64, candidates: f64, distances: f64) -> Way {
        let strategy = if self.search.k.is_some() { "best_first" } else { "indexed_range" };
        let seconds = self.bounding(bound_ns) + self.picked(distances);
        Way { strategy, bound: Some(bound), bound_ns, candidates, distances, seconds }
    }

    /// Seconds of the slots for all queries, by nanoseconds of one core for each.
    fn seconds(&self, ns: f64) -> f64 {
        ns * self.search.queries as f64 / self.search.workers.max(1) as f64 * 1e-9
    }

    /// Seconds to bound all objects, the queries' distances to the pivots included.
    fn bounding(&self, bound_ns: f64) -> f64 {
        self.seconds(self.rows as f64 * bound_ns + self.rates.pivots as f64 * self.rates.exact_ns)
    }

    /// Seconds to compute so many distances of each query, picked out by their bounds.
    fn picked(&self, distances: f64) -> f64 {
        match self.search.devices {
            None => self.seconds(distances * self.rates.picked_ns),
            Some(devices) => devices.picked_seconds(distances * self.search.queries as f64),
        }
    }

    /// Distances of a query that no bound saves.
    fn least(&self) -> f64 {
        self.search.k.map_or(0.0, |k| (k as f64).min(self.objects as f64))
    }

    /// The faster of a scan and the search by the bound of `auto`.
    pub fn choice(&self) -> Choice {
        let scan = self.ways[0];
        let is_sampled = |bound: Bound| self.ways.iter().any(|way| way.bound == Some(bound));
        let bound = bound_of_auto(is_sampled);
        match self.ways.iter().find(|way| way.bound == Some(bound)) {
            Some(way) if way.seconds < scan.seconds => {
                let reason = format!("{:.1} times as fast as a scan", scan.seconds / way.seconds);
                Choice { way: *way, reason }
            }
            Some(way) => {
                let reason = format!("bounds would take {:.2} times as long", way.seconds / scan.seconds);
                Choice { way: scan, reason }
            }
            None => Choice { way: scan, reason: "no bound is sound".to_owned() },
        }
    }
}

#[cfg(test)]
mod tests;
