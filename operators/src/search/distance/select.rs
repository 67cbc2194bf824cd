//! Selection on a device: drops rows if the consumer keeps the nearest objects only.
//!
//! Invariants: a row is dropped only if its f64 distance is strictly beyond the range, or strictly beyond that of k
//! other rows of its query in this launch. So no answer is dropped, and ties stay. The bounds come from the similarity,
//! the error that its query declares, and the rounding to f32 (`selection.cl`).

use std::sync::atomic::{AtomicBool, Ordering};

use boxwork_kernels::selection::{self, Bounded};
use boxwork_runtime::feeding::{Back, DeviceError, Feed, Grid, ProgramSource, Value};

use crate::devices::device_kernels::selection_program;
use crate::search::queries::Queries;

/// A launch must have this many objects for a selection: fewer are copied back faster than selected.
const OBJECTS_MIN: usize = 4096;
/// And this many objects for each one wanted.
const OBJECTS_PER_WANTED: usize = 16;
/// Entries of the result buffer for each object wanted, and at least.
const ENTRIES_PER_WANTED: usize = 4;
const ENTRIES_MIN: usize = 1024;
/// Entries of the result buffer if a range alone decides.
const ENTRIES_OF_RANGE: usize = 8192;

/// The criteria by which the consumer keeps objects; a selection may drop all others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Criteria {
    /// The `k` nearest.
    pub(super) k: Option<usize>,
    /// Those within this distance.
    pub(super) range: Option<f64>,
    /// A selection needs a launch of this many objects; `None`: as many as make it worthwhile.
    pub(super) objects_min: Option<usize>,
}

impl Criteria {
    /// Whether any row may be dropped.
    pub(super) fn may_drop(&self) -> bool {
        self.k.is_some() || self.range.is_some()
    }
}

/// The selection of a box's blocks.
pub(super) struct Select {
    program: ProgramSource,
    k: usize,
    objects_min: usize,
    /// The square of the range.
    limit: f32,
    /// Once more rows passed than the buffer holds, later blocks would overflow too.
    is_given_up: AtomicBool,
    /// By query: its similarity to itself, and the possible error of a squared distance.
    queries: Vec<(f32, f32)>,
}

/// One launch of the distance kernel: a similarity for each query and object, in this order.
pub(super) struct Part {
    pub(super) objects: usize,
    pub(super) sums_first: usize,
    pub(super) queries_first: usize,
    pub(super) queries_count: usize,
}

/// A row that was kept.
pub(super) struct Kept {
    pub(super) row: u32,
    pub(super) cross: f32,
}

impl Select {
    /// `None` if every row is wanted, or if a bound would exclude nothing.
    pub(super) fn new(queries: &Queries, criteria: Criteria) -> Option<Self> {
        if !criteria.may_drop() {
            return None;
        }
        // Rounded up to f32.
        let up = |number: f64| (number * (1.0 + 2f64.powi(-20))) as f32;
        let of_query = |query: &crate::search::queries::Query| {
            (query.sqfd().prepared().sigma_self() as f32, up(query.sqfd().error_squared(f64::INFINITY)))
        };
        let of_queries: Vec<(f32, f32)> = queries.iter().map(of_query).collect();
        of_queries.iter().all(|(own, error)| own.is_finite() && error.is_finite()).then(|| Self {
            program: selection_program(Bounded::Similarities),
            k: criteria.k.unwrap_or(0),
            objects_min: criteria.objects_min.unwrap_or(OBJECTS_MIN),
            limit: criteria.range.map_or(f32::INFINITY, |range| up(range * range)),
            queries: of_queries,
            is_given_up: AtomicBool::new(false),
        })
    }

    /// Whether a selection among this many objects is worthwhile.
    pub(super) fn is_worth(&self, objects: usize) -> bool {
        let is_worth = objects >= self.objects_min && objects >= OBJECTS_PER_WANTED * self.k;
        is_worth && !self.is_given_up.load(Ordering::Relaxed)
    }

    fn capacity(&self) -> usize {
        match self.k {
            0 => ENTRIES_OF_RANGE,
            k => (ENTRIES_PER_WANTED * k).max(ENTRIES_MIN),
        }
    }

    /// Enqueues the selection among all `sums`; the buffer `sigmas` has the objects' similarities to themselves, part
    /// after part.
    pub(super) fn enqueue(
        &self,
        feed: &mut Feed<'_>,
        parts: &[Part],
        sums: usize,
    ) -> Result<(), DeviceError> {
        let places: usize = parts.iter().map(|part| part.queries_count).sum();
        let (capacity, limit) = (self.capacity(), self.limit);
        feed.write("ranges", places, |to: &mut [f32]| {
            to.fill(limit);
            Ok(())
        })?;
        feed.write("counts", places, |to: &mut [u32]| {
            to.fill(0);
            Ok(())
        })?;
        let kept = |part: &Part| selection::kept(selection::groups(part.objects), self.k);
        let most = parts.iter().map(|part| selection::groups(part.objects) * kept(part)).max().unwrap_or(0);
        feed.output::<f32>("minima", most)?;
        feed.output::<f32>("lowers", sums)?;
        feed.output::<u32>("entries", places * capacity * selection::ENTRY)?;
        let number = |value: usize| Value::of(value as u32);
        let (mut place, mut sigmas_first) = (0, 0);
        for part in parts {
            let (groups, kept) = (selection::groups(part.objects), kept(part));
            for query in 0..part.queries_count {
                let (own, error) = self.queries[part.queries_first + query];
                let first = part.sums_first + query * part.objects;
                let values = [
                    ("sums_first", number(first)),
                    ("objects", number(part.objects)),
                    ("sigmas_first", number(sigmas_first)),
                    ("own", Value::of(own)),
                    ("error", Value::of(error)),
                    ("minima_first", number(0)),
                    ("kept", number(kept)),
                ];
                feed.launch(&self.program, "straddle", Grid::of([groups], [selection::ITEMS]), &values)?;
                if self.k > 0 {
                    let values = [
                        ("minima_first", number(0)),
                        ("minima_count", number(groups * kept)),
                        ("wanted", number(self.k)),
                        ("query", number(place)),
                    ];
                    feed.launch(&self.program, "kth", Grid::of([1], [selection::ITEMS]), &values)?;
                }
                let values = [
                    ("first", number(first)),
                    ("objects", number(part.objects)),
                    ("query", number(place)),
                    ("capacity", number(capacity)),
                ];
                feed.launch(&self.program, "winnow", Grid::of([groups], [selection::ITEMS]), &values)?;
                place += 1;
            }
            sigmas_first += part.objects;
        }
        feed.read::<u32>("counts", places)?;
        feed.read::<u32>("entries", places * capacity * selection::ENTRY)
    }

    /// The kept rows, in no order; `row` maps a part, a query and an object to a row. `None` if the buffer was too
    /// small.
    pub(super) fn collect(
        &self,
        back: &Back<'_>,
        parts: &[Part],
        row: impl Fn(usize, usize, usize) -> u32,
    ) -> Option<Vec<Kept>> {
        let capacity = self.capacity();
        let counts: &[u32] = back.numbers("counts");
        if counts.iter().any(|count| *count as usize > capacity) {
            self.is_given_up.store(true, Ordering::Relaxed);
            return None;
        }
        let mut entries =
            back.numbers::<u32>("entries").chunks_exact(capacity * selection::ENTRY).zip(counts);
        let mut kept = Vec::with_capacity(counts.iter().sum::<u32>() as usize);
        for (part, queries) in parts.iter().map(|part| part.queries_count).enumerate() {
            for (query, (entries, count)) in (0..queries).zip(entries.by_ref()) {
                let entries = entries.chunks_exact(selection::ENTRY).take(*count as usize);
                kept.extend(entries.map(|entry| Kept {
                    row: row(part, query, entry[0] as usize),
                    cross: f32::from_bits(entry[2]),
                }));
            }
        }
        Some(kept)
    }
}
