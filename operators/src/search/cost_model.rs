//! What the ways to search would cost: by rates measured on this machine, and by a sample of the data.
//!
//! Nothing that is found depends on an estimate, and a poor one costs little: bounds are given up beforehand only
//! where they are dear, and what they leave is sent on in an order that is never much slower than a scan
//! (`prefilter`).

mod choices;
mod devices;
mod rates;
mod sample;

use std::sync::{Arc, Mutex, PoisonError};

use boxwork_kernels::interrupt::{Interrupt, never};
use boxwork_kernels::lower_bound::Bound;
use boxwork_runtime::operator::{BoxError, Context};

pub use devices::OnDevices;
pub use rates::Rates;

use self::choices::{Asked, Choices};
use self::rates::RatesBySpace;

use self::sample::{Part, Sample};
use crate::search::head;
use crate::search::queries::{Queries, Query};
use boxwork_stores::pivot_table::PivotTable;
use boxwork_stores::space::{Prepared, Scratch, Space, SpaceError};

/// Nanoseconds to look through a candidate that waits for its turn, on one core: measured once, small beside a distance.
const CANDIDATE_NS: f64 = 6.0;
/// What a search by an index waits for that a scan does not, for each slot of the machine: boxes that follow each
/// other, and slots that fall asleep in between and are woken. On 16 cores a search that computed some tens of 10,000
/// distances took 0.92 ms in all.
const WAITING_NS_PER_SLOT: f64 = 20_000.0;
/// The same for each block of best first, which waits for what the ones before have brought.
const BLOCK_NS_PER_SLOT: f64 = 2_000.0;
/// Rows of its first block, and by how much the next ones grow, as `auto.yaml` says.
const FIRST_ROWS: f64 = 16.0;
const GROWTH: f64 = 0.125;
/// What every search takes beside its distances, whatever way it goes: the query, the boxes, the results.
const ALWAYS_SECONDS: f64 = 1e-3;
/// Of each of the k nearest, f64 distances that rank it.
const RANKED: f64 = 2.0;
/// How many times as long as a scan a search may take that was tried in vain.
const VAIN_MAX: f64 = 1.7;
/// Objects that stand in for queries which are not known yet.
const STAND_INS: u64 = 8;
/// Queries that are looked at; the others of a request are taken to be like them.
const PROBES: usize = 4;
/// Pivots whose fast distances are computed by one closure: some tens of microseconds' worth.
const PIVOTS_PER_PIECE: usize = 8;
/// What a choice takes, about, but for what it takes in distances to the pivots.
const CHOICE_SECONDS: f64 = 1e-4;
/// How many times as long the next best way takes where a choice is clear.
const CLEAR: f64 = 1.25;
/// Steps in which the fall of the range over a store is followed.
const FALL_STEPS: u32 = 64;

/// The search to weigh, and its number of workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// How many objects a query gets; all within the range without it.
    pub k: Option<usize>,
    /// Only objects at most this far.
    pub range: Option<f64>,
    /// How many queries there are.
    pub queries: usize,
    /// Slots that compute.
    pub workers: usize,
    /// The devices that compute distances in their place, if there are any.
    pub devices: Option<OnDevices>,
}

/// A way to search, and what it would take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// The strategy's name.
    pub strategy: &'static str,
    /// The bound that rules objects out; nothing for a scan.
    pub bound: Option<Bound>,
    /// Nanoseconds to bound an object on one core.
    pub bound_ns: f64,
    /// Objects of a query that the bounds leave before any distance is known.
    pub candidates: f64,
    /// Distances of a query that are computed.
    pub distances: f64,
    /// The time of all queries, in seconds.
    pub seconds: f64,
}

/// The times that all ways to search would take.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The search.
    pub search: Search,
    /// Objects of the store.
    pub objects: u64,
    /// Objects of them that were bounded to estimate.
    pub sampled: usize,
    /// The time of a distance.
    pub rates: Rates,
    /// About where the farthest object of the answer lies.
    pub farthest: f64,
    /// The scan, and then the others.
    pub ways: Vec<Way>,
}

/// The way that `auto` takes, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// One of the estimate's ways.
    pub way: Way,
    /// A sentence.
    pub reason: String,
}

/// A query with what is known of it.
#[derive(Clone, Copy)]
struct Probe<'a> {
    prepared: &'a dyn Prepared,
    /// To the pivots.
    distances: &'a [f64],
}

/// Estimates a search by some objects of the store, which stand in for its queries.
///
/// # Errors
/// When the store cannot be read, or the index is of another space.
pub fn estimate(table: &PivotTable, search: Search) -> Result<Estimate, BoxError> {
    let space = Arc::clone(table.space());
    let store = space.store();
    let (count, objects) = (STAND_INS.min(store.objects_count()), store.objects_count());
    let ids: Vec<u64> = (0..count).map(|idx| store.nth(idx * objects / count)).collect();
    store.bring_in(&[&ids, table.pivots()].concat())?;
    let stand_ins = store.objects(&ids)?;
    let prepared = (0..ids.len()).map(|row| Arc::clone(&space).prepare(&stand_ins, row));
    let prepared = prepared.collect::<Result<Vec<_>, SpaceError>>()?;
    let mut distances = vec![vec![0.0; table.pivots().len()]; ids.len()];
    for (query, distances) in prepared.iter().zip(&mut distances) {
        query.exact(table.pivots(), distances)?;
    }
    let probes: Vec<Probe<'_>> = prepared
        .iter()
        .zip(&distances)
        .map(|(prepared, distances)| Probe { prepared: &**prepared, distances })
        .collect();
    let mut run = |parts: &mut [Part], work: &(dyn Fn(&mut Part, Interrupt<'_>) + Sync)| {
        parts.iter_mut().for_each(|part| work(part, &never));
    };
    let bounds: Vec<Bound> = Bound::ALL.into_iter().filter(|bound| table.allow(*bound).is_ok()).collect();
    let samples: Vec<Sample> =
        probes.iter().map(|probe| Sample::of(&mut run, table, probe, &bounds)).collect::<Result<_, _>>()?;
    let Some(first) = probes.first() else {
        return Err(BoxError::new("there is no query to estimate by"));
    };
    let rates = RatesBySpace::default().of_space(&*space, table.pivots(), first.prepared, &never)?;
    let mut estimate = Estimate::empty(table, search, rates);
    estimate.add(&samples, &bounds, true);
    Ok(estimate)
}

/// Measured rates and choices, which one request leaves to the next. A runtime keeps them
/// ([`Memory`](boxwork_runtime::operator::Memory)).
#[derive(Default)]
pub(crate) struct Remembered {
    choices: Mutex<Choices>,
    rates: RatesBySpace,
}

/// What the requests before chose that asked alike, where they did so alike and this one need not choose.
pub(crate) fn known(remembered: &Remembered, table: &PivotTable, search: Search) -> Option<Option<Bound>> {
    remembered.choices.lock().unwrap_or_else(PoisonError::into_inner).known(asked(table, search))
}

fn asked(table: &PivotTable, search: Search) -> Asked {
    let Search { k, range, queries, devices, .. } = search;
    Asked { table: table.number(), k, range, queries, on_devices: devices.is_some() }
}

/// The bound by which a request's queries, of so many centroids, are best bounded; nothing where a scan is faster.
///
/// Whoever bounds needs the queries' f64 distances to the pivots. To choose, the fast ones do, and a search that ends
/// as a scan has not paid for the others. The pivots must be in memory for this not to block.
pub(crate) fn choose(
    cx: &mut Context<'_>,
    remembered: &Remembered,
    table: &PivotTable,
    search: Search,
    queries: &Queries,
) -> Result<Option<Bound>, BoxError> {
    let Some(first) = queries.iter().next() else { return Ok(Some(Bound::Simplex)) };
    let space = Arc::clone(table.space());
    let pivots = table.pivots();
    let rates = remembered.rates.of_space(&*space, pivots, &*first.prepared, &|| cx.is_cancelled())?;
    let mut estimate = Estimate::empty(table, search, rates);
    if estimate.is_small() {
        return Ok(None);
    }
    // While one slot chooses the others wait: what can be done beside each other is.
    let mut run = |parts: &mut [Part], work: &(dyn Fn(&mut Part, Interrupt<'_>) + Sync)| {
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(parts, 1, |_, parts| {
                parts.iter_mut().for_each(|part| work(part, &cancelled));
            });
        });
    };
    let queries: Vec<&Query> = queries.iter().take(PROBES).collect();
    let distances = fast_distances(&mut run, &*space, pivots, &queries)?;
    // The others are looser than these two and dearer than one of them.
    let bounds: Vec<Bound> =
        [Bound::Triangular, Bound::Simplex].into_iter().filter(|bound| table.allow(*bound).is_ok()).collect();
    let mut samples = Vec::new();
    for (query, distances) in queries.iter().zip(&distances) {
        let prepared = &*query.prepared;
        // Of an object in the span of the pivots, or nearly, they may be those of no point.
        let sample = match Sample::of(&mut run, table, &Probe { prepared, distances }, &bounds) {
            Ok(sample) => sample,
            Err(_) => {
                let distances = &query.exact_until(pivots, &never)?;
                Sample::of(&mut run, table, &Probe { prepared, distances }, &bounds)?
            }
        };
        samples.push(sample);
    }
    estimate.add(&samples, &bounds, false);
    let bound = estimate.choice().way.bound;
    remembered.choices.lock().unwrap_or_else(PoisonError::into_inner).learn(
        asked(table, search),
        bound,
        estimate.is_clear(),
    );
    Ok(bound)
}

/// The distances of queries from the pivots by the fast paths.
fn fast_distances(
    run: &mut sample::Run<'_>,
    space: &dyn Space,
    pivots: &[u64],
    queries: &[&Query],
) -> Result<Vec<Vec<f64>>, BoxError> {
    let mut order: Vec<usize> = (0..pivots.len()).collect();
    order.sort_unstable_by_key(|idx| pivots[*idx]);
    let pieces: Vec<&[usize]> = order.chunks(PIVOTS_PER_PIECE).collect();
    let mut parts = Part::list(queries.len() * pieces.len());
    run(&mut parts, &|part, interrupt| {
        let (query, piece) = (queries[part.idx / pieces.len()], pieces[part.idx % pieces.len()]);
        let ids: Vec<u64> = piece.iter().map(|idx| pivots[*idx]).collect();
        part.distances = vec![0.0; ids.len()];
        let computed =
            query.prepared.fast_until(&mut Scratch::default(), &ids, &mut part.distances, interrupt);
        part.error = computed.err().map(BoxError::from);
    });
    space.store().confirm()?;
    let mut distances = vec![vec![0.0; pivots.len()]; queries.len()];
    for mut part in parts {
        if let Some(error) = part.error.take() {
            return Err(error);
        }
        let (query, piece) = (part.idx / pieces.len(), pieces[part.idx % pieces.len()]);
        for (idx, distance) in piece.iter().zip(part.distances) {
            distances[query][*idx] = distance;
        }
    }
    Ok(distances)
}

impl Estimate {
    /// The scan alone.
    fn empty(table: &PivotTable, search: Search, rates: Rates) -> Self {
        let space = Arc::clone(table.space());
        let objects = space.store().objects_count();
        let mut estimate = Self { search, objects, sampled: 0, rates, farthest: 0.0, ways: Vec::new() };
        estimate.ways.push(estimate.scan());
        estimate
    }

    /// Adds what these bounds say of some queries: all ways, or those alone that `auto` chooses from.
    fn add(&mut self, samples: &[Sample], bounds: &[Bound], all_ways: bool) {
        let (search, objects) = (self.search, self.objects);
        let mean = |of: &dyn Fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / samples.len() as f64;
        let of = |search: &Search, sample: &Sample| {
            let kth = search.k.map_or(f64::INFINITY, |k| sample.near(k as f64 / objects as f64));
            kth.min(search.range.unwrap_or(f64::INFINITY))
        };
        self.sampled = samples.iter().map(Sample::len).sum();
        self.farthest = mean(&|sample| of(&search, sample));
        let estimate = self;
        for (idx, bound) in bounds.iter().enumerate() {
            let bound_ns = mean(&|sample| sample.bound_ns(idx));
            let within = mean(&|sample| sample.share_within(idx, of(&search, sample)));
            let promised = |sample: &Sample| match search.k {
                Some(k) => {
                    sample.upper(idx, k as f64 / objects as f64).min(search.range.unwrap_or(f64::INFINITY))
                }
                None => of(&search, sample),
            };
            let left = mean(&|sample| sample.share_within(idx, promised(sample))).max(within);
            let count = objects as f64;
            let at_least = |distances: f64| distances.max(search.k.map_or(0.0, |k| k as f64)).min(count);
            let way = |strategy, left: f64, computed: f64| {
                estimate.indexed(strategy, *bound, bound_ns, at_least(left * count), at_least(computed))
            };
            let mut ways = match search.k {
                Some(_) => vec![way("best_first", left, within * count)],
                None => vec![way("indexed_range", within, within * count)],
            };
            // To choose, what is never chosen need not be known.
            if all_ways && search.k.is_some() {
                let falling = mean(&|sample| {
                    sample.share_while_falling(idx, search.k, search.range, objects, FALL_STEPS)
                });
                ways.push(way("estimated_range", left, left * count));
                let estimation = head::rows_for(search.k.unwrap_or(0)) as f64;
                ways.push(way("two_phase", left, (within * count).max(estimation)));
                ways.push(way("fixed_blocks", 1.0, falling * count));
            }
            estimate.ways.extend(ways);
        }
    }

    /// Whether a scan takes no longer than to choose and to have the distances to the pivots.
    fn is_small(&self) -> bool {
        let pivots = self.seconds(self.pivots_ns(), self.search.workers);
        self.ways[0].seconds <= CHOICE_SECONDS + pivots
    }

    /// Whether the best way is far from the next.
    fn is_clear(&self) -> bool {
        let mut seconds: Vec<f64> =
            self.known().map(|way| way.seconds).chain([self.ways[0].seconds]).collect();
        seconds.sort_by(f64::total_cmp);
        seconds.len() < 2 || seconds[1] > CLEAR * seconds[0]
    }

    /// The ways that `auto` knows beside the scan: best first, or all within a range.
    fn known(&self) -> impl Iterator<Item = &Way> {
        self.ways.iter().filter(|way| ["best_first", "indexed_range"].contains(&way.strategy))
    }

    /// Seconds of all queries at so many nanoseconds of one core for each.
    fn seconds(&self, ns: f64, workers: usize) -> f64 {
        ns * self.search.queries as f64 / workers.max(1) as f64 * 1e-9
    }

    fn scan(&self) -> Way {
        let count = self.objects as f64;
        let seconds = match self.search.devices {
            None => self.seconds(count * self.rates.scan_ns, self.search.workers),
            Some(devices) => devices.scan_seconds(count * self.search.queries as f64),
        };
        Way { strategy: "scan", bound: None, bound_ns: 0.0, candidates: count, distances: count, seconds }
    }

    fn indexed(
        &self,
        strategy: &'static str,
        bound: Bound,
        bound_ns: f64,
        candidates: f64,
        distances: f64,
    ) -> Way {
        let workers = self.search.workers;
        let Rates { scan_ns, picked_ns, .. } = self.rates;
        // Where most are left, they are neighbours.
        let distance_ns = picked_ns + (scan_ns - picked_ns) * distances / self.objects as f64;
        // What one box does with its candidates is not divided among workers.
        let computing = match self.search.devices {
            None => self.seconds(distances * distance_ns, workers),
            Some(devices) => devices.picked_seconds(distances * self.search.queries as f64),
        };
        let seconds = self.seconds(self.certain_ns(bound_ns), workers)
            + computing
            + self.seconds(self.pivots_ns(), workers)
            + self.seconds(candidates * CANDIDATE_NS, 1)
            + waiting_seconds(distances, workers);
        Way { strategy, bound: Some(bound), bound_ns, candidates, distances, seconds }
    }

    fn certain_ns(&self, bound_ns: f64) -> f64 {
        self.objects as f64 * bound_ns
    }

    fn pivots_ns(&self) -> f64 {
        self.rates.exact_ns * self.rates.pivots as f64
    }

    /// Whether a way takes less than a scan; where devices scan, clearly so, as what they take for rows picked out differs
    /// more than what cores do.
    fn pays(&self, way: &Way) -> bool {
        let margin = if self.search.devices.is_some() { CLEAR } else { 1.0 };
        way.seconds * margin < self.ways[0].seconds
    }

    /// Seconds until it is known what the bounds leave.
    fn trying(&self, way: &Way) -> f64 {
        self.seconds(self.certain_ns(way.bound_ns) + self.pivots_ns(), self.search.workers)
            + self.seconds(way.candidates * CANDIDATE_NS, 1)
    }

    /// What every way takes beside its distances.
    fn always(&self) -> f64 {
        let ranked = self.search.k.unwrap_or(0).min(self.objects as usize) as f64 * RANKED;
        ALWAYS_SECONDS + self.seconds(ranked * self.rates.exact_ns, self.search.workers)
    }

    /// How many times as long as a scan a way takes where next to all is left, and how many times as fast it is where
    /// next to nothing is but the answer.
    ///
    /// A sample of some thousand does not show what lies near one object of a million. Where it promises nothing,
    /// bounds are tried all the same if they might gain more than they may lose.
    fn stakes(&self, way: &Way) -> (f64, f64) {
        let (scan, workers) = (self.ways[0].seconds, self.search.workers);
        let (least, most) = (self.search.k.unwrap_or(0) as f64, self.objects as f64);
        let trying = self.trying(way) + self.always();
        let computing = |distances: f64| match self.search.devices {
            None => self.seconds(distances * self.rates.picked_ns, workers),
            Some(devices) => devices.picked_seconds(distances * self.search.queries as f64),
        };
        let all = if self.search.devices.is_some() { computing(most) } else { scan };
        let scan = scan + self.always();
        let worst = (trying + waiting_seconds(most, workers) + all) / scan;
        let best = scan / (trying + waiting_seconds(least, workers) + computing(least));
        (worst, best)
    }

    fn is_worth_trying(&self, way: &Way) -> bool {
        let (worst, best) = self.stakes(way);
        worst <= VAIN_MAX && worst < best
    }

    /// The way of least time among those that `auto` knows: the scan, best first, or all within a range.
    pub fn choice(&self) -> Choice {
        let scan = self.ways[0];
        let best = self.known().min_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let (Some(best), Some(tightest)) = (best.copied(), self.known().last().copied()) else {
            return Choice { way: scan, reason: "there is nothing else".to_owned() };
        };
        // What lies nearer than any of a sample makes the tightest bound better than it looks, and no other as much.
        let is_near = tightest.seconds <= CLEAR * best.seconds;
        let is_worth = self.pays(&tightest) || self.is_worth_trying(&tightest);
        let best = if is_near && is_worth { tightest } else { best };
        let ratio = scan.seconds / best.seconds;
        if self.pays(&best) {
            let reason = format!("{ratio:.1} times as fast as a scan");
            return Choice { way: best, reason };
        }
        if self.is_worth_trying(&best) {
            let (worst, gain) = self.stakes(&best);
            let reason = format!(
                "the sample promises nothing, but objects nearer than any of it would make this up to {gain:.1} times \
                 as fast as a scan, and {worst:.2} times as long it takes at worst"
            );
            return Choice { way: best, reason };
        }
        let reason = format!("bounds would take {:.2} times as long", 1.0 / ratio);
        Choice { way: scan, reason }
    }
}

/// What is waited for until so many distances have gone out in blocks that grow.
fn waiting_seconds(distances: f64, workers: usize) -> f64 {
    let blocks = (1.0 + distances * GROWTH / FIRST_ROWS).ln() / (1.0 + GROWTH).ln();
    (WAITING_NS_PER_SLOT + BLOCK_NS_PER_SLOT * blocks) * workers as f64 * 1e-9
}

#[cfg(test)]
mod tests;
