//! A block of candidates on its way to a device and back.
//!
//! Invariants: once the block has come back, `crosses` has a number for each row of the envelopes, in their order. Each
//! number depends on its row alone, up to the error that its query declares. The device reads objects of chunks that it
//! keeps; all others are gathered for it. Devices may keep different chunks, and the numbers still agree. If the
//! consumer keeps the nearest only, a block may drop rows that bounds exclude (`select.rs`).

use std::sync::Arc;

use boxwork_kernels::sqfd::device::{APART_NORM_MAX, Layout, Shape};
use boxwork_kernels::sqfd::{Arithmetic, PreparedQuery};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{
    Back, Block, Device, DeviceError, Devices, Feed, Grid, ProgramSource, Residence, SharedKey, Value,
};

use super::select::{Criteria, Kept, Part, Select};
use crate::devices::device_kernels::distances_program;
use crate::devices::reading::{block_error, feed_of};
use crate::search::queries::Queries;
use boxwork_stores::chunks::{Cut, Form, Gathered};
use boxwork_stores::new_number;
use boxwork_stores::signature_store::{Objects, StoreError};
use boxwork_stores::sqfd_space::SqfdSpace;

/// A chunk is brought to the device if a block wants at least one in this many of its objects; else its rows are
/// gathered.
const DENSE_SHARE: usize = 16;

/// Shared by all blocks of a box.
pub(super) struct Common {
    pub(super) space: Arc<SqfdSpace>,
    /// How much of the store devices keep.
    pub(super) residence: Residence,
    pub(super) shape: Shape,
    program: ProgramSource,
    /// `program` for candidates near every query's centre.
    program_near: ProgramSource,
    /// `program` on matrix units.
    program_matrices: ProgramSource,
    items_of_matrices: usize,
    /// Whether the matrix units can represent the queries' numbers.
    fits_matrices: bool,
    /// The queries as the kernel reads them.
    rows: Vec<f32>,
    row_offsets: Vec<u32>,
    centres: Vec<f32>,
    pub(super) factor: f32,
    /// Drops rows that cannot be in the answer; `None` if every row is wanted.
    pub(super) select: Option<Select>,
    /// Unique to these queries within the process.
    version: u64,
}

/// The first generation of NVIDIA devices whose matrix units accept the kernel's operands.
const MATRICES_FROM: (u32, u32) = (8, 0);

/// Computes the exponents of pairs on this device.
fn arithmetic(device: &Device) -> Arithmetic {
    match device.info().compute_capability {
        Some(capability) if capability >= MATRICES_FROM => Arithmetic::Matrices,
        _ => Arithmetic::Single,
    }
}

/// Tells a space whether any of these devices computes by matrix units: its queries declare their errors accordingly.
pub(super) fn tell_arithmetic(space: &SqfdSpace, devices: &Devices, allowed: &[usize]) {
    let is_of_matrices = |idx: &usize| arithmetic(&devices.list()[*idx]) == Arithmetic::Matrices;
    if allowed.iter().any(is_of_matrices) {
        // Errors are asked for when distances come, and none has yet.
        let _ = space.arithmetic().set(Arithmetic::Matrices);
    }
}

impl Common {
    pub(super) fn new(
        space: &Arc<SqfdSpace>,
        residence: Residence,
        queries: &Queries,
        criteria: Criteria,
    ) -> Self {
        let prepared = queries.iter().map(|query| query.sqfd().prepared());
        Self::of(space, residence, prepared, Select::new(queries, criteria))
    }

    pub(super) fn of<'a>(
        space: &Arc<SqfdSpace>,
        residence: Residence,
        queries: impl Iterator<Item = &'a PreparedQuery> + Clone,
        select: Option<Select>,
    ) -> Self {
        let shape = Shape::new(&space.measure(), space.store().dimensions())
            .for_objects(space.store().centroids_mean());
        let (mut rows, mut row_offsets, mut centres, mut factor) = (Vec::new(), vec![0], Vec::new(), 1.0);
        for query in queries.clone() {
            let count = query.device_rows(&shape, &mut rows) as u32;
            row_offsets.push(row_offsets[row_offsets.len() - 1] + count);
            let (centre, scale) = query.device_frame();
            centres.extend_from_slice(centre);
            factor = scale;
        }
        let program_near = distances_program(&shape.clone().apart(true));
        let is_for_matrices = Shape::is_for_matrices(&row_offsets);
        let of_matrices = shape.clone().matrices();
        let program_matrices = distances_program(&of_matrices);
        let version = new_number();
        Self {
            space: Arc::clone(space),
            residence,
            program: distances_program(&shape),
            shape,
            rows,
            row_offsets,
            centres,
            factor,
            select,
            version,
            program_near,
            program_matrices,
            items_of_matrices: of_matrices.items(),
            fits_matrices: is_for_matrices && { queries }.all(PreparedQuery::fits_matrices),
        }
    }
}

/// Candidates of several envelopes.
pub(crate) struct SqfdBlock {
    common: Arc<Common>,
    pub(crate) envelopes: Vec<Envelope>,
    /// The rows of all envelopes as (query's place, id), one envelope after the other.
    wanted: Vec<(u32, u64)>,
    /// Weighted similarities, by row; if some rows were dropped, of the rows in `kept`.
    pub(super) crosses: Vec<f64>,
    /// The rows that were kept, in order; `None` means all.
    pub(super) kept: Option<Vec<u32>>,
    /// Whether rows may be dropped.
    may_select: bool,
    /// Whether the selection runs in this block.
    selects: bool,
    /// Whether it brought anything to a device that stays there.
    pub(super) brings: bool,
    /// The launches, which say where each row's sums are.
    launches: Vec<Launch>,
}

/// Consecutive queries that want equal sets of objects.
struct Wanted {
    queries_first: usize,
    queries_count: usize,
    ids: Vec<u64>,
    /// By query, then by id: the row.
    rows: Vec<u32>,
}

/// One launch of the kernel.
struct Launch {
    layout: Layout,
    tiles_first: usize,
    pieces_first: usize,
    sums_first: usize,
    queries_first: usize,
    queries_count: usize,
    /// By query, then by signature: the row.
    rows: Vec<u32>,
    source: Source,
}

enum Source {
    Chunk { chunk: usize, stride: usize, is_near: bool },
    Gathered { gathered: Gathered, ids: Vec<u64> },
}

impl SqfdBlock {
    /// A block of the rows of some envelopes; `wanted` lists them all.
    pub(super) fn new(common: &Arc<Common>, envelopes: Vec<Envelope>, wanted: Vec<(u32, u64)>) -> Self {
        let (crosses, launches) = (Vec::new(), Vec::new());
        let common = Arc::clone(common);
        Self {
            common,
            envelopes,
            wanted,
            crosses,
            kept: None,
            may_select: true,
            selects: false,
            brings: false,
            launches,
        }
    }

    /// The place of a row's query, and its object.
    pub(super) fn row(&self, row: u32) -> (u32, u64) {
        self.wanted[row as usize]
    }

    /// Whether more rows passed the selection than the buffer holds: then the whole block must be computed again.
    pub(super) fn is_missing(&mut self) -> bool {
        let is_missing = self.selects && self.kept.is_none();
        self.may_select &= !is_missing;
        is_missing
    }

    /// The selection for this block; `None` unless every signature is one piece and enough rows can be dropped.
    fn select(&self) -> Option<&Select> {
        let select = self.common.select.as_ref().filter(|_| self.may_select)?;
        let is_worth =
            |launch: &Launch| launch.layout.is_whole() && select.is_worth(launch.layout.signatures());
        (!self.launches.is_empty() && self.launches.iter().all(is_worth)).then_some(select)
    }

    /// Groups the rows by query and object; queries that want equal sets of objects (those of a scan) share a group.
    fn group(&self) -> Vec<Wanted> {
        let mut order: Vec<u32> = (0..self.wanted.len() as u32).collect();
        order.sort_unstable_by_key(|row| self.wanted[*row as usize]);
        let mut groups: Vec<Wanted> = Vec::new();
        for of_query in order.chunk_by(|a, b| self.wanted[*a as usize].0 == self.wanted[*b as usize].0) {
            let query = self.wanted[of_query[0] as usize].0 as usize;
            let ids = || of_query.iter().map(|row| self.wanted[*row as usize].1);
            match groups.last_mut() {
                Some(last)
                    if last.queries_first + last.queries_count == query
                        && last.ids.iter().copied().eq(ids()) =>
                {
                    last.queries_count += 1;
                    last.rows.extend_from_slice(of_query);
                }
                _ => groups.push(Wanted {
                    queries_first: query,
                    queries_count: 1,
                    ids: ids().collect(),
                    rows: of_query.to_vec(),
                }),
            }
        }
        groups
    }

    /// Splits the rows by the memory in which their objects are read, and lays them out.
    fn plan(&mut self, objects: Objects<'_>, feed: &Feed<'_>) -> Result<(), StoreError> {
        self.launches.clear();
        self.brings = false;
        let (common, mut launches) = (Arc::clone(&self.common), Vec::new());
        let (chunks, store) = (common.space.chunks(), objects.store());
        for wanted in self.group() {
            let (mut strewn, mut from) = (Vec::new(), 0);
            while from < wanted.ids.len() {
                let chunk = chunks.cut.of(store, wanted.ids[from])?;
                let all = chunks.cut.ids(store, chunk);
                let end = from + wanted.ids[from..].partition_point(|id| *id < all.end);
                let dense = (end - from) * DENSE_SHARE >= (all.end - all.start) as usize;
                let is_held = feed.device().holds(common.key(chunk));
                if common.residence.is_whole() && (is_held || dense) {
                    self.brings |= !is_held;
                    let lies = chunks.chunk(objects, chunk)?;
                    let places = lies.places(objects, &wanted.ids[from..end])?;
                    let layout = Layout::new(&common.shape, places);
                    let is_near = lies.is_near(objects, &common.centres, common.factor, APART_NORM_MAX)?;
                    let source = Source::Chunk { chunk, stride: lies.stride, is_near };
                    launches.push(wanted.launch(from..end, layout, source));
                } else {
                    strewn.extend(from..end);
                }
                from = end;
            }
            if !strewn.is_empty() {
                let ids: Vec<u64> = strewn.iter().map(|at| wanted.ids[*at]).collect();
                let gathered = Gathered::new(objects, &ids)?;
                let layout = Layout::new(&common.shape, gathered.places.iter().copied());
                launches.push(wanted.launch(strewn, layout, Source::Gathered { gathered, ids }));
            }
        }
        let (mut tiles, mut pieces, mut sums) = (0, 0, 0);
        for launch in &mut launches {
            (launch.tiles_first, launch.pieces_first, launch.sums_first) = (tiles, pieces, sums);
            tiles += launch.layout.tiles.len();
            pieces += launch.layout.pieces.len();
            sums += launch.layout.pieces.len() * launch.queries_count;
        }
        self.launches = launches;
        Ok(())
    }

    fn enqueue(&mut self, objects: Objects<'_>, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let common = Arc::clone(&self.common);
        common.send_queries(feed)?;
        let sums = self.write_layouts(feed)?;
        for launch in self.launches.iter().filter(|launch| !launch.layout.pieces.is_empty()) {
            launch.enqueue(&common, objects, feed)?;
        }
        let selects = self.write_select(objects, feed, sums)?;
        if !selects && sums > 0 {
            feed.read::<f32>("sums", sums)?;
        }
        self.selects = selects;
        Ok(())
    }

    /// Writes where the kernel finds the numbers of all launches, and makes room for their sums: how many there are.
    fn write_layouts(&self, feed: &mut Feed<'_>) -> Result<usize, DeviceError> {
        let count = self.launches.iter().map(|launch| launch.layout.tiles.len()).sum();
        feed.write("tiles", count, |to: &mut [[u32; 4]]| {
            let tiles = self.launches.iter().flat_map(|launch| {
                // A tile numbers its pieces through all launches.
                let first = launch.pieces_first as u32;
                launch
                    .layout
                    .tiles
                    .iter()
                    .map(move |[piece, pieces, base, used]| [piece + first, *pieces, *base, *used])
            });
            to.iter_mut().zip(tiles).for_each(|(to, tile)| *to = tile);
            Ok(())
        })?;
        let count = self.launches.iter().map(|launch| launch.layout.pieces.len()).sum();
        feed.write("pieces", count, |to: &mut [[u32; 4]]| {
            for launch in &self.launches {
                let pieces = &launch.layout.pieces;
                to[launch.pieces_first..][..pieces.len()].copy_from_slice(pieces);
            }
            Ok(())
        })?;
        let sums: usize =
            self.launches.iter().map(|launch| launch.layout.pieces.len() * launch.queries_count).sum();
        feed.output::<f32>("sums", sums)?;
        Ok(sums)
    }

    /// Has rows left out where they may be, and says whether any are.
    fn write_select(
        &self,
        objects: Objects<'_>,
        feed: &mut Feed<'_>,
        sums: usize,
    ) -> Result<bool, DeviceError> {
        let Some(select) = self.select() else { return Ok(false) };
        let parts: Vec<Part> = self.launches.iter().map(Launch::part).collect();
        let sigmas = |to: &mut [f32]| {
            let ids = self.launches.iter().flat_map(|launch| {
                let rows = &launch.rows[..launch.layout.signatures()];
                rows.iter().map(|row| self.wanted[*row as usize].1)
            });
            for (to, id) in to.iter_mut().zip(ids) {
                *to = self.common.space.sigma_self(objects, id).map_err(block_error)? as f32;
            }
            Ok(())
        };
        let count = parts.iter().map(|part| part.objects).sum();
        feed.write("sigmas", count, sigmas)?;
        select.enqueue(feed, &parts, sums)?;
        Ok(true)
    }
}

impl Launch {
    /// Brings the columns that it reads, and starts the kernel.
    fn enqueue(&self, common: &Common, objects: Objects<'_>, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let columns = common.shape.dimensions() + 1;
        let (stride, is_near) = match &self.source {
            Source::Chunk { chunk, stride, is_near } => {
                let key = Cut::key(objects.store(), Form::Columns, *chunk);
                feed.shared_in_parts("columns", key, columns * stride, *stride, |column, to| {
                    let lies = common.space.chunks().chunk(objects, *chunk).map_err(block_error)?;
                    lies.copy_column(objects, column, to).map_err(block_error)
                })?;
                (*stride, *is_near)
            }
            Source::Gathered { gathered, ids } => {
                feed.write("columns", columns * gathered.stride, |to| {
                    gathered.copy(objects, ids, to).map_err(block_error)
                })?;
                (gathered.stride, false)
            }
        };
        let number = |value: usize| Value::of(value as u32);
        let values = [
            ("stride", number(stride)),
            ("tiles_first", number(self.tiles_first)),
            ("pieces_first", number(self.pieces_first)),
            ("pieces_count", number(self.layout.pieces.len())),
            ("queries_first", number(self.queries_first)),
            ("queries_count", number(self.queries_count)),
            ("factor", Value::of(common.factor)),
            ("alpha", Value::of(common.space.measure().alpha() as f32)),
            ("sums_first", number(self.sums_first)),
        ];
        let groups = self.layout.tiles.len() * self.queries_count;
        let (program, items) = common.kernel(feed.device(), is_near);
        feed.launch(program, "sqfd", Grid::of([groups], [items]), &values)
    }

    fn part(&self) -> Part {
        Part {
            objects: self.layout.signatures(),
            sums_first: self.sums_first,
            queries_first: self.queries_first,
            queries_count: self.queries_count,
        }
    }
}

impl Wanted {
    /// A launch over some of the objects, by their places.
    fn launch(&self, places: impl IntoIterator<Item = usize>, layout: Layout, source: Source) -> Launch {
        let places: Vec<usize> = places.into_iter().collect();
        let rows = self
            .rows
            .chunks_exact(self.ids.len())
            .flat_map(|of_query| places.iter().map(move |place| of_query[*place]));
        Launch {
            layout,
            tiles_first: 0,
            pieces_first: 0,
            sums_first: 0,
            queries_first: self.queries_first,
            queries_count: self.queries_count,
            rows: rows.collect(),
            source,
        }
    }
}

impl Common {
    pub(super) fn key(&self, chunk: usize) -> SharedKey {
        Cut::key(self.space.store(), Form::Columns, chunk)
    }

    /// The kernel for a device, and the work items of a group; `is_near` if all candidates are near every query's
    /// centre.
    pub(super) fn kernel(&self, device: &Device, is_near: bool) -> (&ProgramSource, usize) {
        match arithmetic(device) {
            Arithmetic::Matrices if self.fits_matrices => (&self.program_matrices, self.items_of_matrices),
            _ if is_near => (&self.program_near, self.shape.items()),
            _ => (&self.program, self.shape.items()),
        }
    }

    /// Sends the queries to an end point that has other queries, or none.
    pub(super) fn send_queries(&self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        fn copy<T: Copy>(to: &mut [T], from: &[T]) -> Result<(), DeviceError> {
            to.copy_from_slice(from);
            Ok(())
        }
        feed.replicated("rows", self.version, self.rows.len(), |to| copy(to, &self.rows))?;
        feed.replicated("row_offsets", self.version, self.row_offsets.len(), |to| {
            copy(to, &self.row_offsets)
        })?;
        feed.replicated("centres", self.version, self.centres.len(), |to| copy(to, &self.centres))
    }
}

impl Block for SqfdBlock {
    fn size(&self) -> u64 {
        self.wanted.len() as u64
    }

    fn kind(&self) -> &'static str {
        "distances"
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let common = Arc::clone(&self.common);
        feed_of(common.space.store(), |objects| {
            self.plan(objects, feed).map_err(block_error)?;
            self.enqueue(objects, feed)
        })
    }

    fn collect(&mut self, back: &Back<'_>) {
        (self.crosses, self.kept) = (Vec::new(), None);
        if let Some(select) = self.common.select.as_ref().filter(|_| self.selects) {
            let parts: Vec<Part> = self.launches.iter().map(Launch::part).collect();
            let kept = select.collect(back, &parts, |part, query, object| {
                let launch = &self.launches[part];
                launch.rows[query * launch.layout.signatures() + object]
            });
            if let Some(mut kept) = kept {
                kept.sort_unstable_by_key(|kept| kept.row);
                self.crosses = kept.iter().map(|kept| f64::from(kept.cross)).collect();
                self.kept = Some(kept.iter().map(|Kept { row, .. }| *row).collect());
            }
            self.launches.clear();
            return;
        }
        self.crosses = vec![0.0; self.wanted.len()];
        let any = self.launches.iter().any(|launch| !launch.layout.pieces.is_empty());
        let sums: &[f32] = if any { back.numbers("sums") } else { &[] };
        for launch in &self.launches {
            let (pieces, signatures) = (launch.layout.pieces.len(), launch.layout.signatures());
            for (query, rows) in launch.rows.chunks(signatures.max(1)).enumerate() {
                let sums = &sums[launch.sums_first + query * pieces..][..pieces];
                for (idx, row) in rows.iter().enumerate() {
                    self.crosses[*row as usize] = launch.layout.sum(idx, sums);
                }
            }
        }
        self.launches.clear();
    }
}
