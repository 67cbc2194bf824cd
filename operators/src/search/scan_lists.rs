//! `scan_lists`: the objects of some lists that may be nearest to each query.
//!
//! Product codes are scanned on devices if there are any, other lists on slots. Invariant: the candidates do not depend on the
//! number of workers, the code path or devices.

mod slots;
mod placed;
mod block;
mod on_device;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::Picked;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, DeviceChoice, Parameter, ParameterType};
use boxwork_stores::kinds::as_f32;
use boxwork_stores::lists::{Coding, Lists};

pub(crate) use self::on_device::DEVICE_OBJECTS_MIN;
use self::on_device::{ListScan, Sized};
use self::placed::Shared;
use self::slots::Wanted;
use crate::columns;
use crate::devices::code_path;
use crate::devices::stage::DeviceStage;
use crate::resources::{device_parameter, get_range, range_parameter};
use crate::search::queries::K;
use crate::search::subset::{Among, CLASS, IDS, SUBSET, is_few};

/// The most rows of an envelope.
const ENVELOPE_ROWS: usize = 4096;

/// Numbers of queries that a slot copies at a time, in less time than another slot takes to wake.
const COPIED_AT_ONCE: usize = 1 << 16;

/// The parameter of boxes that use lists.
pub(crate) const LISTS: Parameter =
    Parameter::new("lists", ParameterType::Resource("lists"), Default::Required, "the lists of a store");

const PROBES: In = In::stream(0, "probes", columns::probes, "the lists to look into for each query");
const QUERY: In = In::side(1, "query", columns::queries, "the queries");
const CANDIDATES: Out =
    Out::new(0, "candidates", columns::candidates, "objects that may be among the nearest of these lists");

/// Finds the objects of some lists that may be among the k nearest of them.
///
/// From rows come all objects that may be among the k nearest within the error of their distances. From codes come the
/// `refine` times k objects whose codes are nearest. Distances and order are left to the boxes that follow.
///
/// Objects outside `class`, `subset` and `ids` are passed over before they count. If fewer than one of 100 objects are inside, all of
/// these are candidates, in whatever lists they lie.
///
/// # Inputs
/// `probes`: the lists of each query, from `probe`. `query` (side): the queries.
///
/// # Outputs
/// `candidates`: by query. Their lower bounds are minus infinity.
///
/// # Parameters
/// `lists`: the lists. `k`: the objects that a query asks for. `refine`: candidates for each of them, if lists hold codes.
/// `range`: leaves out rows that are surely farther; codes leave that to their exact distances. `class`, `subset`, `ids`:
/// only these objects. `device`: where to scan product codes; the candidates are the same everywhere. Lists of rows and of
/// directions are scanned on slots.
pub static SCAN_LISTS: OperatorSpec = OperatorSpec {
    parameters: &[
        LISTS,
        K,
        Parameter::new(
            "refine",
            ParameterType::Integer { minimum: 1, maximum: 1 << 20 },
            Default::Integer(10),
            "candidates for each object of an answer, if lists hold codes",
        ),
        range_parameter(Default::Absent, "no objects that are surely farther than this"),
        CLASS,
        SUBSET,
        IDS,
        device_parameter("auto"),
    ],
    inputs: &[PROBES, QUERY],
    outputs: &[CANDIDATES],
    code_path: Some(|arguments, devices| {
        let place = code_path::of_device(arguments, devices, DEVICE_OBJECTS_MIN);
        format!("{place}; lists of rows and of rabitq on slots")
    }),
    share: Some(|bind| Ok(Arc::new(Shared::new(&bind.resource::<Lists>("lists")?)))),
    example: "scan: {kind: scan_lists, lists: lists, k: 10}",
    ..OperatorSpec::new(
        "scan_lists",
        "Finds the objects of some lists that may be nearest to each query.",
        Kind::Stateful,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let shared: Arc<Shared> = bind.shared();
    let lists = &shared.lists;
    let (k, refine) = (bind.count("k"), bind.count("refine"));
    let kept = if lists.quantizers().coding() == Coding::Rows { k } else { k.saturating_mul(refine) };
    let range = get_range(bind, &**lists.space())?.unwrap_or(f64::INFINITY);
    let is_asked = bind.device("device") != DeviceChoice::Auto;
    let picked = match shared.segments.is_empty() && !is_asked {
        true => Picked { devices: None, reason: "auto: devices scan product codes alone".to_owned() },
        false => bind.pick_devices("device", Some(lists.objects()), DEVICE_OBJECTS_MIN)?,
    };
    let (among, slots) = (Among::new(bind), bind.slots());
    let (probes, search, sized) = (Vec::new(), None, None);
    Ok(Box::new(ScanLists { shared, kept, range, among, slots, picked, is_asked, sized, probes, search }))
}

struct ScanLists {
    shared: Arc<Shared>,
    /// Objects that the shortlist of a query is for.
    kept: usize,
    range: f64,
    among: Among,
    slots: usize,
    /// The devices that may scan codes.
    picked: Picked,
    /// Whether the user asks for these devices: they then scan however little there is.
    is_asked: bool,
    /// Sizes other than the usual ones, in tests.
    sized: Option<Sized>,
    /// Lists and queries.
    probes: Vec<(u32, u32)>,
    search: Option<Search>,
}

/// A scan under way.
enum Search {
    Found(Found),
    OnDevices(Box<DeviceStage<ListScan>>),
}

impl Operator for ScanLists {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(PROBES) {
            let pairs = envelope.u32s("list")?.iter().zip(envelope.u32s("query")?);
            self.probes.extend(pairs.map(|(list, query)| (*list, *query)));
        }
        if !cx.is_ended(PROBES) {
            return Ok(Flow::Wait);
        }
        if self.search.is_none() {
            self.search = self.begin(cx)?;
        }
        let flow = match &mut self.search {
            None => Flow::Done,
            Some(Search::OnDevices(stage)) => stage.process(cx)?,
            Some(Search::Found(found)) => found.give(cx, CANDIDATES)?,
        };
        if flow == Flow::Done {
            cx.count("bytes of lists in memory", self.shared.lists.memory_bytes() as u64);
        }
        Ok(flow)
    }
}

/// Candidates of all queries of a request, which leave in envelopes as there is room.
pub(super) struct Found {
    /// Queries and objects.
    rows: Vec<(u32, u64)>,
    /// The first that is not given yet.
    next: usize,
}

impl Found {
    pub(super) fn new(rows: Vec<(u32, u64)>) -> Self {
        Self { rows, next: 0 }
    }

    /// Gives what there is room for.
    pub(super) fn give(&mut self, cx: &mut Context<'_>, to: Out) -> Result<Flow, BoxError> {
        while self.next < self.rows.len() {
            if !cx.has_room(to) {
                return Ok(Flow::Wait);
            }
            let rows = &self.rows[self.next..self.rows.len().min(self.next + ENVELOPE_ROWS)];
            self.next += rows.len();
            if cx.push(to, candidates(rows)?)? == Pushed::Closed {
                break;
            }
        }
        Ok(Flow::Done)
    }
}

/// An envelope of candidates: numbers of queries, and ids.
fn candidates(rows: &[(u32, u64)]) -> Result<Envelope, BoxError> {
    let columns: [(&str, ArrayRef); 3] = [
        ("query", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0)))),
        ("id", Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.1)))),
        ("lower", Arc::new(Float64Array::from(vec![columns::NO_BOUND; rows.len()]))),
    ];
    Ok(Envelope::from_columns(columns)?)
}

impl ScanLists {
    /// Scans on slots, or begins to scan on devices; `None` if the request is being cancelled.
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<Option<Search>, BoxError> {
        let lists = Arc::clone(&self.shared.lists);
        let subset = self.among.read(cx, &**lists.space().store())?;
        let asked = cx.side(QUERY).to_vec();
        let (numbers, mut vectors) = query_vectors(cx, &asked, lists.quantizers().dimensions())?;
        lists.prepare(&mut vectors);
        if let Some(few) = subset.as_ref().filter(|subset| is_few(subset, &**lists.space().store())) {
            let each = numbers.iter().flat_map(|number| few.ids().map(move |id| (*number, id)));
            return Ok(Some(Search::Found(Found::new(each.collect()))));
        }
        let probes = self.placed(&numbers)?;
        let sizes = on_device::Sizes { kept: self.kept, slots: self.slots, is_asked: self.is_asked };
        let (vectors, probes) = match on_device::stage(
            cx,
            &self.shared,
            (numbers.as_slice(), vectors, probes),
            (sizes, self.sized),
            subset.as_ref(),
            &self.picked,
        )? {
            on_device::Begun::Stage(stage) => return Ok(Some(Search::OnDevices(stage))),
            on_device::Begun::Cancelled => return Ok(None),
            on_device::Begun::OnSlots(vectors, probes) => (vectors, probes),
        };
        let (kept, range, slots) = (self.kept, self.range, self.slots);
        let wanted = Wanted { lists: &lists, kept, range, subset: subset.as_deref(), slots };
        Ok(wanted.find(cx, &probes, &numbers, vectors)?.map(|found| Search::Found(Found::new(found))))
    }

    /// The lists to look into and the places of their queries, by place; the lists of a query come as they have come.
    fn placed(&mut self, numbers: &[u32]) -> Result<Vec<(u32, u32)>, BoxError> {
        let mut last = None;
        for (list, query) in &mut self.probes {
            let found = match last {
                Some((number, place)) if number == *query => Some(place),
                _ => numbers.binary_search(query).ok(),
            };
            let found = found.filter(|_| (*list as usize) < self.shared.lists.count());
            let place = found.ok_or_else(|| {
                BoxError::new(format!("there is no query {query} or no list {list} to look into"))
            })?;
            last = Some((*query, place));
            *query = place as u32;
        }
        let mut probes = std::mem::take(&mut self.probes);
        if !probes.is_sorted_by_key(|(_, place)| *place) {
            probes.sort_by_key(|(_, place)| *place);
        }
        Ok(probes)
    }
}

/// The numbers of queries within the request, ascending, and their vectors, which slots copy side by side.
pub(crate) fn query_vectors(
    cx: &mut Context<'_>,
    envelopes: &[Envelope],
    dimensions: usize,
) -> Result<(Vec<u32>, Vec<f32>), BoxError> {
    let objects = envelopes.iter().map(|envelope| Ok(as_f32(envelope.column("object")?)));
    let objects: Vec<Option<ArrayRef>> = objects.collect::<Result<_, BoxError>>()?;
    let fault = |number: u32, length: usize| {
        let has = format!("it has {length}");
        Err(BoxError::new(format!("query {number} is no vector of {dimensions} finite numbers ({has})")))
    };
    let mut found: Vec<(u32, &[f32])> = Vec::new();
    for (envelope, objects) in envelopes.iter().zip(&objects) {
        let vectors = objects.as_ref().and_then(|objects| objects.as_list_opt::<i32>());
        let parts = vectors.and_then(|vectors| {
            Some((vectors.values().as_primitive_opt::<Float32Type>()?.values(), vectors.value_offsets()))
        });
        for (row, number) in envelope.u32s("query")?.iter().enumerate() {
            let vector = parts.map_or(&[][..], |(numbers, offsets)| {
                &numbers[offsets[row] as usize..offsets[row + 1] as usize]
            });
            if vector.len() != dimensions {
                return fault(*number, vector.len());
            }
            found.push((*number, vector));
        }
    }
    found.sort_by_key(|(number, _)| *number);
    let mut vectors = vec![0.0; found.len() * dimensions];
    let at_once = COPIED_AT_ONCE.div_ceil(dimensions);
    let to = vectors.chunks_mut(at_once * dimensions);
    let mut pieces: Vec<_> = found.chunks(at_once).zip(to).map(|piece| (piece, None)).collect();
    cx.inside(|inside| {
        inside.for_each_chunk_of(&mut pieces, 1, |_, pieces| {
            for ((from, to), infinite) in pieces {
                from.iter()
                    .zip(to.chunks_exact_mut(dimensions))
                    .for_each(|((_, x), to)| to.copy_from_slice(x));
                // All numbers are looked at, so that vector units do it.
                let is_infinite = |vector: &[f32]| !vector.iter().fold(true, |all, x| all & x.is_finite());
                *infinite = from.iter().find(|(_, vector)| is_infinite(vector)).map(|(number, _)| *number);
            }
        });
    });
    if let Some(number) = pieces.iter().find_map(|(_, infinite)| *infinite) {
        return fault(number, dimensions);
    }
    Ok((found.iter().map(|(number, _)| *number).collect(), vectors))
}

#[cfg(test)]
mod tests;
