//! Some queries and the lists that they look into, on their way to a device and back.
//!
//! The host waits once: tables, sums, selection and what comes back are one sequence of commands.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::k_select::Way;
use boxwork_kernels::panels::PANEL;
use boxwork_kernels::product::device::{ITEMS, NOWHERE, Pairs, Shape, Terms};
use boxwork_runtime::feeding::{
    Back, Block, DeviceError, Feed, Grid, Plain, ProgramSource, SharedKey, Value,
};
use boxwork_stores::new_number;
use boxwork_stores::subset::Subset;

use super::placed::{Chunk, Placed, Shared};
use crate::devices::device_kernels::{lists_program, select_of_queries};

/// Panels whose codes one thread arranges at a time, and lists whose tables it computes.
const PART_PANELS: usize = 1024;
const PART_LISTS: usize = 64;
/// The content of the buffers that lists keep on a device.
const CODES: u64 = 0;
const ALIVE: u64 = 1;
const TERMS: u64 = 2;
const CODEBOOK: u64 = 3;
const CENTROIDS: u64 = 4;
/// Bits that these take; the size of a chunk is above them.
const FORM_BITS: u64 = 3;

/// The parts that all blocks of a request share.
pub(super) struct Request {
    /// The numbers of the queries, ascending.
    pub(super) numbers: Vec<u32>,
    vectors: Vec<f32>,
    /// The same as the codebook takes them, if there is a rotation.
    turned: Option<Vec<f32>>,
    /// Lists and the places of their queries, by place.
    probes: Vec<(u32, u32)>,
    pub(super) placed: Placed,
    /// The parts of the lists: one, if devices keep all codes.
    pub(super) chunks: Arc<[Chunk]>,
    pub(super) subset: Option<Arc<Subset>>,
    /// Candidates of a query.
    pub(super) k: usize,
    dimensions: usize,
    shape: Shape,
    program: ProgramSource,
    /// Unique to this request within the process.
    version: u64,
}

impl Request {
    pub(super) fn new(
        shared: &Shared,
        (numbers, vectors, probes): (&[u32], Vec<f32>, Vec<(u32, u32)>),
        (placed, chunks): (Placed, Arc<[Chunk]>),
        k: usize,
        terms: Terms,
        subset: Option<&Arc<Subset>>,
    ) -> Self {
        let quantizers = shared.lists.quantizers();
        let codebook = quantizers.codebook().expect("devices scan product codes");
        let shape = Shape::new(codebook, terms);
        Self {
            numbers: numbers.to_vec(),
            turned: quantizers.rotation().map(|rotation| rotation.turn(CodePath::detect(), &vectors)),
            vectors,
            probes,
            placed,
            chunks,
            subset: subset.cloned(),
            k,
            dimensions: quantizers.dimensions(),
            shape,
            program: lists_program(shape),
            version: new_number(),
        }
    }

    /// Words of a row's code.
    pub(super) fn words(&self) -> usize {
        self.shape.words()
    }

    /// The vector of a query.
    pub(super) fn vector(&self, query: usize) -> &[f32] {
        &self.vectors[query * self.dimensions..][..self.dimensions]
    }

    /// The lists of some queries, and the places of these among them.
    pub(super) fn probes_of(&self, queries: Range<usize>) -> impl Iterator<Item = (u32, u32)> + '_ {
        let first = self.probes.partition_point(|(_, place)| (*place as usize) < queries.start);
        let of_queries =
            self.probes[first..].iter().take_while(move |(_, place)| (*place as usize) < queries.end);
        of_queries.map(move |(list, place)| (*list, place - queries.start as u32))
    }
}

fn number(value: usize) -> Value {
    Value::of(value as u32)
}

/// Sends numbers; a buffer has at least one.
fn write<T: Plain + Default>(
    feed: &mut Feed<'_>,
    name: &'static str,
    numbers: &[T],
) -> Result<(), DeviceError> {
    feed.write(name, numbers.len().max(1), |to| {
        to[0] = T::default();
        to[..numbers.len()].copy_from_slice(numbers);
        Ok(())
    })
}

/// Some queries, and what a device has found for them.
pub(super) struct ListBlock {
    shared: Arc<Shared>,
    request: Arc<Request>,
    /// The part of the lists, and the number of the group of queries.
    pub(super) chunk: usize,
    pub(super) group: usize,
    pub(super) queries: Range<usize>,
    pairs: Pairs,
    /// The device that keeps the chunk, unless all do or it has failed.
    pub(super) home: Option<usize>,
    is_kept: bool,
    /// A device has failed to compute the block.
    pub(super) is_again: bool,
    brings: bool,
    /// The device that computed it last.
    pub(super) device: String,
    /// By query, as many as it keeps: the sums and the places of its candidates.
    pub(super) least: Vec<f32>,
    pub(super) found: Vec<u32>,
}

impl ListBlock {
    /// A block of the queries of a group and a part of the lists, which stays on its home if that keeps it.
    pub(super) fn new(
        shared: &Arc<Shared>,
        request: &Arc<Request>,
        (chunk, group): (usize, usize),
        (queries, pairs): (Range<usize>, Option<Pairs>),
        (home, is_kept): (Option<usize>, bool),
    ) -> Self {
        let placed = &request.placed;
        let pairs = match (pairs, &*request.chunks) {
            (Some(pairs), _) => pairs,
            (None, [whole]) => Pairs::new(&whole.segments, queries.clone().map(|query| placed.of(query))),
            (None, chunks) => {
                let chunk = &chunks[chunk];
                let mut numbers = Vec::new();
                let each = queries.clone().map(|query| placed.of_chunk(query, chunk));
                let each: Vec<(Range<usize>, &[f32])> = each
                    .map(|(segments, bases)| {
                        let first = numbers.len();
                        numbers.extend(segments.iter().map(|segment| segment - chunk.numbers.start));
                        (first..numbers.len(), bases)
                    })
                    .collect();
                let each = each.iter().map(|(range, bases)| (&numbers[range.clone()], *bases));
                Pairs::new(&chunk.segments, each)
            }
        };
        Self {
            shared: Arc::clone(shared),
            request: Arc::clone(request),
            chunk,
            group,
            queries,
            pairs,
            home,
            is_kept,
            is_again: false,
            brings: false,
            device: String::new(),
            least: Vec::new(),
            found: Vec::new(),
        }
    }

    /// The key of what the chunk keeps on a device.
    fn key(&self, form: u64) -> SharedKey {
        let panels = &self.request.chunks[self.chunk].panels;
        let form = (panels.len() as u64) << FORM_BITS | form;
        SharedKey { resource: self.shared.lists.number(), form, part: panels.start as u64 }
    }

    /// Binds the codes of the chunk, and the rows that are searched.
    fn bind_codes(&self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let (lists, shape, panels) =
            (&*self.shared.lists, self.request.shape, self.request.chunks[self.chunk].panels.clone());
        let of_panel = PANEL * shape.words();
        let fill = |part: usize, to: &mut [u32]| {
            let first = panels.start + part * PART_PANELS;
            lists.arrange(shape, first..first + to.len() / of_panel, to);
            Ok(())
        };
        let (len, part_len) = (panels.len() * of_panel, PART_PANELS * of_panel);
        match self.is_kept {
            true => feed.shared_in_parts("codes", self.key(CODES), len, part_len, fill)?,
            false => feed.pinned_in_parts("codes", self.key(CODES), len, part_len, fill)?,
        }
        let words = self.request.placed.alive.as_deref().unwrap_or_else(|| self.shared.alive());
        let copy = |to: &mut [u32]| {
            to.copy_from_slice(&words[panels.clone()]);
            Ok(())
        };
        match (&self.request.placed.alive, self.request.chunks.len()) {
            (Some(_), 1) => feed.replicated("alive", self.request.version, panels.len(), copy),
            (None, _) if self.is_kept => feed.shared("alive", self.key(ALIVE), panels.len(), copy),
            _ => feed.write("alive", panels.len(), copy),
        }
    }

    /// Binds what lists keep on the device, and sends it if it is not there.
    fn bind_lists(&self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let (lists, shape) = (&*self.shared.lists, self.request.shape);
        let quantizers = lists.quantizers();
        let codebook = quantizers.codebook().expect("devices scan product codes");
        let key = |form| SharedKey { resource: lists.number(), form, part: 0 };
        self.bind_codes(feed)?;
        feed.shared("codebook", key(CODEBOOK), codebook.turned().len(), |to: &mut [f32]| {
            to.copy_from_slice(codebook.turned());
            Ok(())
        })?;
        let (size, dimensions) = (shape.tables_len(), codebook.dimensions());
        let turned = |list: usize| {
            let centroid =
                &quantizers.centroids()[list * quantizers.dimensions()..][..quantizers.dimensions()];
            match quantizers.rotation() {
                Some(rotation) => Cow::Owned(rotation.turn(CodePath::detect(), centroid)),
                None => Cow::Borrowed(centroid),
            }
        };
        match shape.terms() {
            Terms::None => Ok(()),
            Terms::Kept => {
                let (len, part_len) = (lists.count() * size, PART_LISTS * size);
                feed.shared_in_parts("terms", key(TERMS), len, part_len, |part, to: &mut [f32]| {
                    for (list, to) in (part * PART_LISTS..).zip(to.chunks_exact_mut(size)) {
                        codebook.terms(CodePath::detect(), &turned(list), to);
                    }
                    Ok(())
                })
            }
            Terms::Computed => {
                let (len, part_len) = (lists.count() * dimensions, PART_LISTS * dimensions);
                feed.shared_in_parts("centroids", key(CENTROIDS), len, part_len, |part, to: &mut [f32]| {
                    for (list, to) in (part * PART_LISTS..).zip(to.chunks_exact_mut(dimensions)) {
                        to.copy_from_slice(&turned(list));
                    }
                    Ok(())
                })
            }
        }
    }

    fn enqueue(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let request = Arc::clone(&self.request);
        let (shape, k, count) = (request.shape, request.k, self.queries.len());
        self.brings = !feed.device().holds(self.key(CODES));
        self.bind_lists(feed)?;
        let (vectors, size) = match &request.turned {
            Some(turned) => (turned, turned.len() / request.numbers.len()),
            None => (&request.vectors, request.dimensions),
        };
        write(feed, "queries", &vectors[self.queries.start * size..self.queries.end * size])?;
        write(feed, "jobs", &self.pairs.jobs)?;
        write(feed, "pairs", &self.pairs.pairs)?;
        write(feed, "starts", &self.pairs.starts)?;
        feed.output::<f32>("products", count * shape.tables_len())?;
        feed.output::<f32>("scores", self.pairs.sums())?;
        feed.output::<u32>("groups", self.pairs.sums() / PANEL)?;
        feed.output::<f32>("least", count * k)?;
        feed.output::<u32>("least_places", count * k)?;
        feed.output::<u32>("found", count * k)?;
        let program = &request.program;
        let grid = Grid::of(shape.products_groups(count), [ITEMS, 1]);
        feed.launch(program, "list_products", grid, &[("queries_count", number(count))])?;
        for first in shape.first_parts() {
            let grid = Grid::of([self.pairs.jobs.len()], [ITEMS]);
            feed.launch(program, "list_sums", grid, &[("parts_first", number(first))])?;
        }
        let way = Way::of(k, count);
        let select = select_of_queries(way, k);
        feed.launch(&select, "k_least", Grid::of([count], [way.items()]), &[("k", number(k))])?;
        let values = [("k", number(k)), ("count", number(count * k))];
        feed.launch(program, "list_places", Grid::covering([count * k], [ITEMS]), &values)?;
        feed.read::<f32>("least", count * k)?;
        feed.read::<u32>("found", count * k)
    }
}

impl Block for ListBlock {
    fn size(&self) -> u64 {
        self.pairs.sums() as u64
    }

    fn kind(&self) -> &'static str {
        if self.brings { "lists and codes" } else { "codes" }
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        self.device = feed.device().info().to_string();
        self.enqueue(feed)
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.least = back.numbers::<f32>("least").to_vec();
        // Places within the chunk become those of the lists.
        let first = (self.request.chunks[self.chunk].panels.start * PANEL) as u32;
        let found = back.numbers::<u32>("found").iter();
        self.found = found.map(|place| if *place == NOWHERE { NOWHERE } else { first + place }).collect();
    }
}
