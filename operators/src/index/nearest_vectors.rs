//! `nearest_vectors`: the k nearest vectors of a block of queries, exactly, by a scan or by codes.
//!
//! Invariant: the answer is the k least (f64 distance, id), whatever the codes, the instructions and the number of slots. The
//! slots bound pieces of the store side by side; each piece begins with the ranges that the pieces before it have left.

pub(super) mod numbers;
mod asked;
mod sums;
mod block;
pub(super) mod candidates;
mod first;
mod ranking;
mod source;
pub(super) mod on_device;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::codes::{CodeNearest, CodeQueries};
use boxwork_kernels::vector::device::Plan;
use boxwork_kernels::vector::{ByteQueries, FlatQueries, Nearest, VectorMeasure, VectorRef};
use boxwork_runtime::feeding::Picked;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Pushed};
use boxwork_runtime::parameter::{Default, DeviceChoice, Parameter, ParameterType, Value};
use boxwork_stores::kinds::{Kind as _, Vectors};
use boxwork_stores::object_store::ObjectStore;
use boxwork_stores::space::Space;
use boxwork_stores::store_error::StoreError;
use boxwork_stores::subset::Subset;
use boxwork_stores::vector_codes::vectors_of;

use self::asked::Asked;
use self::numbers::Numbers;
use self::on_device::{Chunks, DEVICE_ROWS_MIN, Sized, VectorScan};
use self::source::Source;
use super::metric_search::{INPUTS as QUERIES, OUTPUTS};
use crate::devices::code_path;
use crate::devices::stage::DeviceStage;
use crate::resources::{self, SPACE, check_range, device_parameter, get_range, range_parameter};
use crate::search::answers::Answers;
use crate::search::queries::K;
use crate::search::subset::{Among, CLASS, IDS, SUBSET, is_few};

const INPUTS: &[In] = &[QUERIES[0], first::CANDIDATES];
/// Rows of a piece of work: a multiple of a group of codes.
const PIECE_ROWS: u64 = 16_384;

/// Finds the nearest vectors of a block of queries.
///
/// All queries take a block of rows while it is in the cache, and their limits are compared where the distances are computed.
/// With codes, most rows are excluded by bounds that hold with certainty. What remains is ranked by f64 distances.
///
/// # Inputs
/// `queries` (side): the queries. `candidates` (side, may be left out): objects whose distances are computed first, such as those that
/// `scan_lists` finds. The answer is the same with any; with near ones, fewer distances are computed. Devices do without.
///
/// # Outputs
/// `nearest`: the objects found, by query, then distance, then id.
///
/// # Parameters
/// `space`: the vectors and their distance: l2, ip or cosine. `codes`: a file that `write_codes` made for them, or the levels of
/// codes that are made in memory when the pipeline is prepared; with auto, a file beside the store that fits it, once 64 queries
/// were asked; without it, or with none, all distances are computed. `k`: the number of objects. `range`: only objects at most this
/// far. `device`: where to scan rows; the answer is the same everywhere. Slots search by codes that are named, among few of the
/// objects, and for more than 2,048 objects.
pub static NEAREST_VECTORS: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        K,
        range_parameter(Default::Absent, "only objects at most this far"),
        Parameter::new(
            "codes",
            ParameterType::Path,
            Default::Absent,
            "the codes of the vectors, made by `boxwork index --codes`; or planes, sq8, pca, sq4, product16, product32 or product64: \
             codes of these levels are made in memory; auto: a file beside the store whose name ends in .codes.arrow, if one \
             fits; or none",
        ),
        CLASS,
        SUBSET,
        IDS,
        device_parameter("auto"),
    ],
    inputs: INPUTS,
    outputs: OUTPUTS,
    check: Some(|arguments, resources| {
        resources::check_measure(arguments, resources)?;
        check_range(arguments, resources)
    }),
    code_path: Some(|arguments, devices| match arguments.get("codes") {
        Some(Value::Text(codes)) if !["none", "auto"].contains(&codes.as_str()) => {
            format!("{}, by codes: devices scan rows", CodePath::detect())
        }
        _ => code_path::of_device(arguments, devices, DEVICE_ROWS_MIN),
    }),
    example: "nearest: {kind: nearest_vectors, space: space, codes: base.codes.arrow, k: 10}",
    share: Some(|bind| {
        let cancelled = || bind.cancellation().is_asked();
        Ok(Arc::new(Shared::of_space(&resources::space(bind)?, bind.get_text("codes"), &cancelled)?))
    }),
    ..OperatorSpec::new("nearest_vectors", "Finds the nearest vectors of many queries.", Kind::Stateful, make)
};

/// The vectors and codes that requests share.
pub(super) struct Shared {
    space: Arc<dyn Space>,
    vectors: Arc<ObjectStore<Vectors>>,
    measure: VectorMeasure,
    codes: Source,
    chunks: Chunks,
}

impl Shared {
    /// The vectors of a space, to scan.
    pub(super) fn of_space(
        space: &Arc<dyn Space>,
        codes: Option<&str>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, BoxError> {
        let (vectors, measure) = vectors_of(&**space)?;
        let codes = Source::of_name(codes, &**space, cancelled)?;
        if vectors.len() > u64::from(u32::MAX) {
            return Err(BoxError::new(format!("`{}` has more than 2^32 rows", vectors.path().display())));
        }
        let chunks = Chunks::new(&vectors);
        Ok(Self { space: Arc::clone(space), vectors, measure, codes, chunks })
    }
}

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let shared: Arc<Shared> = bind.shared();
    let picked = bind.pick_devices("device", Some(shared.vectors.len()), DEVICE_ROWS_MIN)?;
    Ok(Box::new(NearestVectors {
        range: get_range(bind, &*shared.space)?.unwrap_or(f64::INFINITY),
        shared,
        k: bind.count("k"),
        among: Among::new(bind),
        picked,
        is_asked: bind.device("device") != DeviceChoice::Auto,
        plan: None,
        slots: bind.slots() as u64,
        search: None,
        answers: VecDeque::new(),
    }))
}

struct NearestVectors {
    shared: Arc<Shared>,
    k: usize,
    range: f64,
    among: Among,
    /// The devices that may scan rows.
    picked: Picked,
    /// Whether the user asks for these devices.
    is_asked: bool,
    /// Sizes other than the usual ones, in tests.
    plan: Option<Sized>,
    slots: u64,
    search: Option<Search>,
    /// Answers to send.
    answers: VecDeque<Answers>,
}

/// A request under way.
struct Search {
    queries: Asked,
    packed: Packed,
    found: Found,
    /// The objects to search among, if not all.
    subset: Option<Arc<Subset>>,
    /// Devices scan rows.
    on_devices: Option<Box<DeviceStage<VectorScan>>>,
    /// The next row to bound.
    next: u64,
    /// The next query to rank.
    ranked: usize,
    /// Distances of candidates that were computed before the first row was bounded.
    ranked_first: u64,
    /// Answers that come before those of earlier queries: by the first query, the number of queries and their answers.
    early: BTreeMap<usize, (usize, Answers)>,
}

/// Queries packed for the way in which rows are bounded.
enum Packed {
    /// The scan on devices has packed them.
    OnDevices,
    Codes(CodeQueries),
    Bytes(ByteQueries),
    Flat(FlatQueries),
}

/// The rows that are left of each query.
enum Found {
    Codes(Vec<CodeNearest>),
    Values(Vec<Nearest>),
    /// Those of a small subset, for each query.
    All(Arc<[(f64, u32)]>),
}

impl Operator for NearestVectors {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(search) = &mut self.search else {
            self.search = Some(self.begin(cx)?);
            return Ok(Flow::More);
        };
        if cx.is_cancelled() {
            return Ok(Flow::Done);
        }
        if search.on_devices.is_some() {
            let flow = search.process_on_devices(cx, &self.shared, (self.k, self.range))?;
            self.answers.extend(search.in_order());
            if flow == Flow::Done && !cx.is_cancelled() {
                search.on_devices = None;
                return Ok(Flow::More);
            }
            return Ok(match self.send(cx)? {
                Some(Pushed::Closed) => Flow::Done,
                _ => flow,
            });
        }
        let count = self.shared.vectors.len();
        if search.next < count && search.queries.len() > 0 {
            search.bound(cx, &self.shared, self.k, self.slots)?;
            cx.progress(search.next, count);
            return Ok(Flow::More);
        }
        if search.ranked < search.queries.len() {
            search.count(cx, count);
            let lefts = search.take_left();
            let found = search.rank(cx, &self.shared, 0, lefts, (self.k, self.range))?;
            search.ranked = search.queries.len();
            self.answers.push_back(found);
            return Ok(Flow::More);
        }
        Ok(match self.send(cx)? {
            Some(_) => Flow::Done,
            None => Flow::Wait,
        })
    }
}

impl NearestVectors {
    /// Sends the answers that are there; nothing if some wait for room.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<Option<Pushed>, BoxError> {
        while let Some(answers) = self.answers.front_mut() {
            match answers.send(cx, OUTPUTS[0])? {
                Some(Pushed::Sent) => self.answers.pop_front(),
                other => return Ok(other),
            };
        }
        Ok(Some(Pushed::Sent))
    }

    fn begin(&self, cx: &mut Context<'_>) -> Result<Search, BoxError> {
        let Shared { space, vectors, measure, codes, .. } = &*self.shared;
        let subset = self.among.read(cx, &**space.store())?;
        let dimensions = vectors.kind().dimensions();
        let (queries, numbers) = Asked::read(cx, space, dimensions)?;
        let numbers = Numbers::new(dimensions, Arc::new(numbers));
        let few = subset.as_ref().filter(|subset| is_few(subset, &**space.store()));
        let mut search = Search {
            queries,
            packed: Packed::OnDevices,
            found: Found::Values(Vec::new()),
            on_devices: None,
            next: vectors.len(),
            ranked: 0,
            ranked_first: 0,
            early: BTreeMap::new(),
            subset: subset.clone(),
        };
        if let Some(few) = few {
            search.found = Found::All(few.ids().map(|id| (0.0, id as u32)).collect());
            return Ok(search);
        }
        if codes.is_given() && self.is_asked && self.picked.devices.is_some() {
            cx.note("vectors are searched by codes on slots: devices scan rows, with `codes` none");
        }
        if !codes.is_given() && on_device::can_scan(self.k, &self.picked) && !numbers.is_empty() {
            let sized = self.plan.unwrap_or_else(|| Sized::new(Plan::new(self.k)));
            let sizes = (self.k, self.range, self.slots, sized);
            let stage = on_device::stage(&self.shared, numbers, sizes, subset.as_ref(), &self.picked);
            search.on_devices = stage.map(Box::new);
            return Ok(search);
        }
        let sizes = (self.k, self.range);
        let queries = search.queries.prepared(cx, space)?;
        let (ranges, ranked_first) = first::ranges(cx, queries, &**space.store(), subset.as_deref(), sizes)?;
        let (numbers, path) = (numbers.each(0..numbers.len()), CodePath::detect());
        let bytes = || ByteQueries::new(path, *measure, vectors.kind().number_type(), dimensions, &numbers);
        // Products of bytes are as fast as bounds by 8 bits, and leave no more than the answer.
        let bytes = if codes.is_given() { None } else { bytes() };
        let codes = match &bytes {
            None => codes.for_queries(numbers.len(), &**space, cx)?,
            Some(_) => None,
        };
        let values = |value_of: &dyn Fn(usize) -> f64| {
            Found::Values((0..numbers.len()).map(|query| Nearest::new(self.k, value_of(query))).collect())
        };
        (search.packed, search.found) = match (codes, bytes) {
            (Some(codes), _) => {
                let found = ranges.iter().map(|range| CodeNearest::new(self.k, *range)).collect();
                (Packed::Codes(CodeQueries::new(path, codes, &numbers)), Found::Codes(found))
            }
            (None, Some(bytes)) => {
                let found = values(&|query| bytes.value_of(query, ranges[query]));
                (Packed::Bytes(bytes), found)
            }
            (None, None) => {
                let flat = FlatQueries::new(path, *measure, dimensions, &numbers);
                let found = values(&|query| flat.value_of(query, ranges[query]));
                (Packed::Flat(flat), found)
            }
        };
        (search.next, search.ranked_first) = (0, ranked_first);
        Ok(search)
    }
}

impl Search {
    /// Counts the rows that were bounded for each query, and what a first plane has left of them.
    fn count(&self, cx: &mut Context<'_>, rows: u64) {
        let pairs = rows * self.queries.len() as u64;
        match (&self.packed, &self.found) {
            (_, Found::All(_)) => (),
            (Packed::Codes(queries), Found::Codes(found)) => {
                cx.count("rows bounded", pairs);
                if queries.has_two_levels() {
                    let left = found.iter().map(CodeNearest::left_by_first_plane).sum();
                    cx.count(ranking::left_by_first(queries.levels()), left);
                }
            }
            _ => cx.count("rows compared", pairs),
        }
        if self.ranked_first > 0 {
            cx.count("ranked first", self.ranked_first);
        }
    }

    /// Bounds the next rows, some pieces for each slot.
    fn bound(&mut self, cx: &mut Context<'_>, shared: &Shared, k: usize, slots: u64) -> Result<(), BoxError> {
        let count = shared.vectors.len();
        let pieces = (count - self.next).div_ceil(PIECE_ROWS).min(2 * slots);
        let (next, packed, found, subset) = (self.next, &self.packed, &self.found, self.subset.as_deref());
        let mut parts: Vec<Option<Result<Found, StoreError>>> = (0..pieces).map(|_| None).collect();
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut parts, 1, |piece, part| {
                let first = next + piece as u64 * PIECE_ROWS;
                part[0] = Some(scan(shared, packed, first..count.min(first + PIECE_ROWS), subset, found, k));
            });
        });
        for part in parts.into_iter().flatten() {
            match (&mut self.found, part?) {
                (Found::Codes(all), Found::Codes(part)) => {
                    all.iter_mut().zip(part).for_each(|(all, part)| all.join(part));
                }
                (Found::Values(all), Found::Values(part)) => {
                    all.iter_mut().zip(part).for_each(|(all, part)| all.join(part));
                }
                _ => unreachable!("all pieces are bounded in one way"),
            }
        }
        self.next = count.min(next + pieces * PIECE_ROWS);
        Ok(())
    }
}

/// Bounds the rows of a piece, or those in a subset, beginning with the ranges found so far.
fn scan(
    shared: &Shared,
    packed: &Packed,
    rows: Range<u64>,
    subset: Option<&Subset>,
    found: &Found,
    k: usize,
) -> Result<Found, StoreError> {
    let vectors = &shared.vectors;
    let is_removed = |row: u32| !vectors.has(u64::from(row));
    let is_outside = |row: u32| subset.is_some_and(|subset| !subset.has(u64::from(row)));
    let skips: Option<&dyn Fn(u32) -> bool> = match subset {
        Some(_) => Some(&is_outside),
        None if vectors.objects() < vectors.len() => Some(&is_removed),
        None => None,
    };
    match (packed, found) {
        (Packed::Codes(queries), Found::Codes(found)) => {
            let mut nearest: Vec<CodeNearest> =
                found.iter().map(|found| CodeNearest::new(k, found.range())).collect();
            if let Some(codes) = shared.codes.get() {
                queries.scan(codes, rows.start as usize..rows.end as usize, skips, &mut nearest);
            }
            Ok(Found::Codes(nearest))
        }
        (packed, Found::Values(found)) => {
            let mut nearest: Vec<Nearest> = found.iter().map(|found| Nearest::new(k, found.kth())).collect();
            nearest.iter_mut().zip(found).for_each(|(nearest, found)| nearest.raise_error(found.error()));
            vectors.read::<_, StoreError>(|objects| {
                let mut first = rows.start;
                while first < rows.end {
                    let (batch, at) = vectors.locate(first)?;
                    let upto = rows.end.min(vectors.ids(batch).end);
                    let all = objects.batch(batch)?.all();
                    let part = part(all, vectors.kind().dimensions(), at..at + (upto - first) as usize);
                    match packed {
                        Packed::Bytes(queries) => queries.scan(part, first as u32, skips, &mut nearest),
                        Packed::Flat(queries) => queries.scan(part, first as u32, skips, &mut nearest),
                        Packed::Codes(_) | Packed::OnDevices => {
                            unreachable!("slots have queries as values take them")
                        }
                    }
                    first = upto;
                }
                Ok(())
            })?;
            Ok(Found::Values(nearest))
        }
        _ => unreachable!("queries of codes find rows by bounds"),
    }
}

/// Some rows of a batch.
fn part(all: VectorRef<'_>, dimensions: usize, rows: Range<usize>) -> VectorRef<'_> {
    let at = rows.start * dimensions..rows.end * dimensions;
    match all {
        VectorRef::F32(all) => VectorRef::F32(&all[at]),
        VectorRef::F16(all) => VectorRef::F16(&all[at]),
        VectorRef::U8(all) => VectorRef::U8(&all[at]),
        VectorRef::I8(all) => VectorRef::I8(&all[at]),
    }
}
