//! A chunk of vectors for a group of queries, on its way to a device and back.
//!
//! The host waits once for the whole chunk: stages, selections and what comes back are one sequence of commands.

mod sent;

use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::k_select::Way;
use boxwork_kernels::vector::device::{ABSENT, DeviceQueries, Groups, ITEMS, Plan, Products, halves, padded};
use boxwork_kernels::vector::few::{Few, QUERIES_MAX, SLICE_ROWS};
use boxwork_kernels::vector::{NumberType, exact};
use boxwork_kernels::with_numbers;
use boxwork_runtime::feeding::{Back, Block, DeviceError, Feed, Grid, ProgramSource, SharedKey, Value};
use boxwork_stores::kinds::Kind as _;
use boxwork_stores::new_number;
use boxwork_stores::subset::Subset;

use self::sent::{Sent, copy, each_batch};
use super::Shared;
use super::sums::{ExactRows, Sums};
use crate::devices::device_kernels::{Arrays, few_program, select_program, vectors_program};
use crate::devices::reading::block_error;

/// Rows that one thread gathers at a time.
const PART_ROWS: usize = 4096;
/// The content of a chunk's buffers on a device.
const ROWS: u64 = 0;
const HALVES: u64 = 1;
const TERMS: u64 = 2;

/// The parts that all blocks of a group of queries share.
pub(super) struct Request {
    pub(super) queries: DeviceQueries,
    pub(super) plan: Plan,
    pub(super) k: usize,
    /// Work groups of a launch, about.
    work_groups: usize,
    /// The rows to search among, if not all.
    subset: Option<Arc<Subset>>,
    products: Products,
    program: ProgramSource,
    /// The search for a few queries, if they are few.
    few: Option<OfFew>,
    /// The exact distances to compute, if any.
    sums: Option<Sums>,
    /// Entries that come back for a query at most.
    back: usize,
    /// Numbers of a row as the device takes it.
    dimensions: usize,
    /// Unique to these queries within the process.
    version: u64,
}

impl Request {
    pub(super) fn new(
        queries: DeviceQueries,
        products: Products,
        (plan, k, work_groups): (Plan, usize, usize),
        (subset, sums): (Option<Arc<Subset>>, Option<Sums>),
    ) -> Self {
        let version = new_number();
        let dimensions = match products {
            Products::Halves => padded(queries.dimensions()),
            Products::Single(_) => queries.dimensions(),
        };
        let few = (1..=QUERIES_MAX).contains(&queries.len()).then(|| {
            let (few, way) = (Few::new(products, dimensions, queries.len()), Way::of(k, queries.len()));
            let of = |arrays| select_program(way, k, arrays);
            OfFew {
                few,
                program: few_program(few),
                of_values: of(Arrays::Values),
                of_minima: of(Arrays::Minima),
            }
        });
        // A slot ranks the rows of a few queries in less time than a launch takes.
        let sums = sums.filter(|_| few.is_none());
        let back = match &sums {
            Some(sums) if sums.are_ranked => k.clamp(1, plan.found),
            _ => plan.found,
        };
        Self {
            queries,
            plan,
            k,
            work_groups,
            subset,
            products,
            program: vectors_program(products, dimensions),
            few,
            sums,
            back,
            dimensions,
            version,
        }
    }

    /// How many of some rows of a chunk are searched.
    fn count_in(&self, chunk: &Range<u64>, rows: Range<usize>) -> usize {
        let ids = chunk.start + rows.start as u64..chunk.start + rows.end as u64;
        self.subset.as_ref().map_or(rows.len(), |subset| subset.count_in(ids) as usize)
    }

    /// The stages of a chunk's rows.
    fn stages(&self, rows: &Range<u64>, seen: u64) -> Vec<Range<usize>> {
        let count = (rows.end - rows.start) as usize;
        match &self.subset {
            None => self.plan.stages(count, seen),
            Some(_) => self.plan.stages_among(count, seen, |group| self.count_in(rows, group) as u64),
        }
    }
}

/// The programs of the search for a few queries.
struct OfFew {
    few: Few,
    program: ProgramSource,
    of_values: ProgramSource,
    of_minima: ProgramSource,
}

fn number(value: usize) -> Value {
    Value::of(value as u32)
}

/// A chunk, and what a device has found in it.
pub(super) struct VectorBlock {
    shared: Arc<Shared>,
    request: Arc<Request>,
    pub(super) chunk: usize,
    /// The number of the group of queries.
    pub(super) group: usize,
    /// Rows that were searched for them before.
    seen: u64,
    /// By query: no value above it matters.
    limits: Vec<f32>,
    /// By query: twice the error of a value.
    errors: Vec<f32>,
    /// The device that keeps the chunk, unless all do or it has failed.
    pub(super) home: Option<usize>,
    /// A device has failed to compute the block.
    pub(super) is_again: bool,
    is_kept: bool,
    brings: bool,
    /// The device that computed it last.
    pub(super) device: String,
    /// By query: the number of its entries.
    counts: Vec<u32>,
    /// By query, as many as come back: a row of the chunk, and the bits of its value.
    found: Vec<u32>,
    /// By query and entry: the sums of its exact distance, if they are computed.
    sums: Vec<f64>,
}

impl VectorBlock {
    pub(super) fn new(
        shared: &Arc<Shared>,
        request: &Arc<Request>,
        (chunk, group, seen): (usize, usize, u64),
        (limits, errors): (Vec<f32>, Vec<f32>),
        (home, is_kept): (Option<usize>, bool),
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            request: Arc::clone(request),
            chunk,
            group,
            seen,
            limits,
            errors,
            home,
            is_again: false,
            is_kept,
            brings: false,
            device: String::new(),
            counts: Vec::new(),
            found: Vec::new(),
            sums: Vec::new(),
        }
    }

    fn rows(&self) -> Range<u64> {
        self.shared.chunks.rows(&self.shared.vectors, self.chunk)
    }

    /// Entries that come back for a query at most.
    pub(super) fn back(&self) -> usize {
        self.request.back
    }

    /// How many rows may be among the nearest of a query; nothing if its list has overflowed.
    pub(super) fn listed(&self, query: usize) -> Option<u64> {
        let count =
            self.counts.get(query).copied().filter(|count| *count as usize <= self.request.plan.found);
        count.map(u64::from)
    }

    /// The rows that may be among the nearest of a query, or the nearest of them if the device ranks, and their values; nothing if its
    /// list has overflowed.
    pub(super) fn entries(&self, query: usize) -> Option<impl Iterator<Item = (u64, f32)> + '_> {
        let (back, first) = (self.request.back, self.rows().start);
        let count = back.min(self.listed(query)? as usize);
        let entries = self.found[2 * query * back..].chunks_exact(2).take(count);
        Some(entries.map(move |entry| (first + u64::from(entry[0]), f32::from_bits(entry[1]))))
    }

    /// The rows of a query whose exact distances were computed, and their sums.
    pub(super) fn sums(&self, query: usize) -> impl Iterator<Item = (u64, &[f64])> + '_ {
        let of_entry = self.request.sums.as_ref().map_or(1, |sums| sums.count);
        let first = query * self.request.back * of_entry;
        let sums = self.sums.get(first..).unwrap_or_default().chunks_exact(of_entry);
        self.entries(query).into_iter().flatten().map(|(row, _)| row).zip(sums)
    }

    fn enqueue(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let (shared, request) = (Arc::clone(&self.shared), Arc::clone(&self.request));
        let (vectors, rows) = (&shared.vectors, self.rows());
        let key = |form| SharedKey { resource: vectors.number(), form, part: self.chunk as u64 };
        let form = if request.products == Products::Halves { HALVES } else { ROWS };
        self.brings = !feed.device().holds(key(form));
        match (request.products, vectors.kind().number_type()) {
            (Products::Halves, _) => self.send_halves(feed, key(form))?,
            (_, NumberType::F32) => self.send::<f32>(feed, "rows", key(form))?,
            (_, NumberType::F16) => self.send::<u16>(feed, "rows", key(form))?,
            (_, NumberType::U8) => self.send::<u8>(feed, "rows", key(form))?,
            (_, NumberType::I8) => self.send::<i8>(feed, "rows", key(form))?,
        }
        self.send_terms(feed, key(TERMS + shared.measure as u64))?;
        self.send_queries(feed)?;
        let (queries, plan, dimensions) = (&request.queries, request.plan, request.dimensions);
        for (name, numbers) in [("limits", &self.limits), ("errors", &self.errors)] {
            feed.write(name, numbers.len(), |to: &mut [f32]| {
                to.copy_from_slice(numbers);
                Ok(())
            })?;
        }
        let count = queries.len();
        let rows_count = (rows.end - rows.start) as usize;
        let stages = if request.few.is_some() { Vec::new() } else { request.stages(&rows, self.seen) };
        // The first stage keeps all of its values where nothing limits them.
        let keeps_all = self.seen == 0 && request.few.is_none();
        let begins_with = if keeps_all { stages.first().map_or(0, Range::len) } else { 0 };
        feed.write("counts", count, |to: &mut [u32]| {
            to.fill(begins_with as u32);
            Ok(())
        })?;
        feed.output::<[u32; 2]>("entries", count * plan.capacity)?;
        feed.output::<[u32; 2]>("found", count * plan.found)?;
        for (nth, stage) in stages.iter().enumerate() {
            let groups = Groups::new(request.products, dimensions, (stage.len(), count), request.work_groups);
            let of_groups = groups.rows.map(|rows| ("rows_of_group", number(rows)));
            let values = [
                ("rows_first", number(stage.start)),
                ("rows_end", number(stage.end)),
                ("queries_count", number(count)),
                ("dimensions", number(dimensions)),
                ("capacity", number(plan.capacity)),
                ("keeps_all", number(usize::from(keeps_all && nth == 0))),
            ];
            let values: Vec<_> = values.into_iter().chain(of_groups).collect();
            let grid = Grid::of([groups.count], [groups.items]);
            feed.launch(&request.program, "scan", grid, &values)?;
            let values = [("capacity", number(plan.capacity)), ("wanted", number(request.k))];
            feed.launch(&request.program, "shorten", Grid::of([count], [ITEMS]), &values)?;
        }
        let is_concluded = match &request.few {
            Some(few) => self.enqueue_few(feed, few, rows_count)?,
            None => false,
        };
        if !is_concluded {
            let values = [("capacity", number(plan.capacity)), ("most", number(plan.found))];
            feed.launch(&request.program, "hand_over", Grid::of([count], [ITEMS]), &values)?;
        }
        feed.read::<u32>("counts", count)?;
        match &request.sums {
            Some(sums) => self.enqueue_sums(feed, sums, key(ROWS)),
            None => feed.read::<[u32; 2]>("found", count * request.back),
        }
    }

    /// Computes the sums of the exact distances of what was handed over, and leaves the nearest if the device ranks.
    fn enqueue_sums(&self, feed: &mut Feed<'_>, sums: &Sums, key: SharedKey) -> Result<(), DeviceError> {
        let (queries, most) = (&self.request.queries, self.request.plan.found);
        if sums.rows == ExactRows::Beside {
            self.send::<f32>(feed, "wide_rows", key)?;
        }
        let wide = sums.queries.as_ref().unwrap_or(&queries.numbers);
        feed.replicated("wide_queries", self.request.version, wide.len(), |to: &mut [f32]| {
            to.copy_from_slice(wide);
            Ok(())
        })?;
        let numbers = queries.len() * most * sums.count;
        feed.output::<f64>("sums", numbers)?;
        let sizes = [("stride", sums.stride), ("dimensions", queries.dimensions()), ("most", most)];
        let values = sizes.map(|(name, size)| (name, number(size)));
        let grid = Grid::of([queries.len()], [exact::ITEMS]);
        feed.launch(&sums.program, exact::KERNEL, grid, &values)?;
        let back = queries.len() * self.request.back;
        if sums.are_ranked {
            feed.output::<[u32; 2]>("nearest", back)?;
            feed.output::<f64>("nearest_sums", back)?;
            let values = [("most", number(most)), ("wanted", number(self.request.back))];
            feed.launch(&sums.program, exact::RANKS, grid, &values)?;
        }
        let (found, numbers_back) = sums.come_back();
        feed.read::<[u32; 2]>(found, back)?;
        feed.read::<f64>(numbers_back, back * sums.count)
    }

    /// Computes the values of all rows, slice by slice, and lists those that may be among the nearest. Returns whether they are
    /// handed over too.
    fn enqueue_few(&self, feed: &mut Feed<'_>, few: &OfFew, rows: usize) -> Result<bool, DeviceError> {
        let (request, count) = (&self.request, self.request.queries.len());
        let slice = rows.min(SLICE_ROWS);
        feed.output::<f32>("values", count * slice)?;
        feed.output::<f32>("minima", count * few.few.groups(slice))?;
        feed.output::<f32>("least", count * request.k)?;
        feed.output::<u32>("least_places", count * request.k)?;
        let way = Way::of(request.k, count);
        for first in (0..rows).step_by(SLICE_ROWS) {
            let slice = slice.min(rows - first);
            let of_slice = [("rows_first", number(first)), ("rows_end", number(first + slice))];
            let of_queries = [("queries_count", number(count)), ("dimensions", number(request.dimensions))];
            let groups = few.few.groups(slice);
            let grid = Grid::of([groups], [ITEMS]);
            feed.launch(&few.program, "few", grid, &[of_slice, of_queries].concat())?;
            let searched = request.count_in(&self.rows(), first..first + slice);
            let by_groups = few.few.by_groups((slice, searched), request.k);
            let of_lists = [("wanted", number(request.k)), ("capacity", number(request.plan.capacity))];
            if by_groups && few.few.concludes(rows) {
                let most = ("most", number(request.plan.found));
                let values = [&of_slice[..], &of_lists, &[most]].concat();
                feed.launch(&few.program, "conclude", Grid::of([count], [ITEMS]), &values)?;
                return Ok(true);
            }
            let (select, numbers) = match by_groups {
                true => (&few.of_minima, groups),
                false => (&few.of_values, slice),
            };
            let values =
                [("numbers", number(numbers)), ("stride", number(numbers)), ("k", number(request.k))];
            feed.launch(select, "k_least", Grid::of([count], [way.items()]), &values)?;
            let grid = Grid::of([Few::winnow_groups(slice), count], [ITEMS, 1]);
            feed.launch(&few.program, "winnow", grid, &[of_slice, of_lists].concat())?;
            feed.launch(&request.program, "shorten", Grid::of([count], [ITEMS]), &of_lists)?;
        }
        Ok(false)
    }

    /// Sends the queries in the form that the kernels take.
    fn send_queries(&self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let (request, queries) = (&self.request, &self.request.queries);
        let (version, dimensions) = (request.version, request.dimensions);
        let count = queries.len() * dimensions;
        match (&request.few, request.products) {
            (Some(_), _) => feed.replicated("queries", version, count, |to: &mut [f32]| {
                queries.filled_up(dimensions, to);
                Ok(())
            }),
            (None, Products::Halves) => feed.replicated("queries", version, count, |to: &mut [u16]| {
                queries.halves(to);
                Ok(())
            }),
            (None, Products::Single(_)) => {
                feed.replicated("queries", version, queries.numbers.len(), |to: &mut [f32]| {
                    to.copy_from_slice(&queries.numbers);
                    Ok(())
                })
            }
        }
    }

    /// Sends the terms of the chunk's rows. A search among some rows has its own, in which all other rows are absent.
    fn send_terms(&self, feed: &mut Feed<'_>, key: SharedKey) -> Result<(), DeviceError> {
        let terms = &self.shared.chunks.terms(self.chunk).terms;
        match &self.request.subset {
            None => feed.shared("terms", key, terms.len(), |to: &mut [[f32; 2]]| {
                to.copy_from_slice(terms);
                Ok(())
            }),
            Some(subset) => feed.write("terms", terms.len(), |to: &mut [[f32; 2]]| {
                for ((to, term), row) in to.iter_mut().zip(terms).zip(self.rows()) {
                    *to = if subset.has(row) { *term } else { ABSENT };
                }
                Ok(())
            }),
        }
    }

    /// Sends the chunk's rows as halves, which stay on the device if it keeps them.
    fn send_halves(&self, feed: &mut Feed<'_>, key: SharedKey) -> Result<(), DeviceError> {
        let vectors = &self.shared.vectors;
        let (dimensions, rows) = (vectors.kind().dimensions(), self.rows());
        let of_row = padded(dimensions);
        let fill = |part: usize, to: &mut [u16]| {
            let first = rows.start + (part * PART_ROWS) as u64;
            each_batch(vectors, first, to.len() / of_row, |all, numbers, place| {
                let to = &mut to[place * of_row..];
                with_numbers!(all, all => halves(dimensions, &all[numbers], to));
            })
            .map_err(block_error)
        };
        let (count, part) = ((rows.end - rows.start) as usize * of_row, PART_ROWS * of_row);
        match self.is_kept {
            true => feed.shared_in_parts("rows", key, count, part, fill),
            false => feed.pinned_in_parts("rows", key, count, part, fill),
        }
    }

    /// Sends the chunk's rows, which stay on the device if it keeps them.
    fn send<T: Sent>(
        &self,
        feed: &mut Feed<'_>,
        name: &'static str,
        key: SharedKey,
    ) -> Result<(), DeviceError> {
        let vectors = &self.shared.vectors;
        let (dimensions, rows) = (vectors.kind().dimensions(), self.rows());
        let fill = |part: usize, to: &mut [T]| {
            let first = rows.start + (part * PART_ROWS) as u64;
            copy(vectors, first, to).map_err(block_error)
        };
        let (count, part) = ((rows.end - rows.start) as usize * dimensions, PART_ROWS * dimensions);
        match self.is_kept {
            true => feed.shared_in_parts(name, key, count, part, fill),
            false => feed.pinned_in_parts(name, key, count, part, fill),
        }
    }
}

impl Block for VectorBlock {
    fn size(&self) -> u64 {
        let rows = self.rows();
        (rows.end - rows.start) * self.request.queries.len() as u64
    }

    fn kind(&self) -> &'static str {
        if self.brings { "chunks and vectors" } else { "vectors" }
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        self.device = feed.device().info().to_string();
        self.enqueue(feed)
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.counts = back.numbers::<u32>("counts").to_vec();
        let sums = self.request.sums.as_ref().map(Sums::come_back);
        self.found =
            back.numbers::<[u32; 2]>(sums.map_or("found", |(found, _)| found)).as_flattened().to_vec();
        if let Some((_, sums)) = sums {
            self.sums = back.numbers::<f64>(sums).to_vec();
        }
    }
}
