//! `scan_lists`: the objects of some lists that may be nearest to each query.
//!
//! Lists are read once for all queries that look into them. Invariant: the candidates do not depend on the number of workers
//! nor on the code path.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use boxwork_kernels::panels::Shortlist;
use boxwork_kernels::pieces::collect;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::kinds::as_f32;
use boxwork_stores::lists::{Coding, ListQueries, Lists};
use boxwork_stores::subset::Subset;

use crate::columns;
use crate::resources::{get_range, range_parameter};
use crate::search::queries::K;
use crate::search::subset::{Among, CLASS, IDS, SUBSET, is_few};

/// The most rows of an envelope.
const ENVELOPE_ROWS: usize = 4096;

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
/// only these objects.
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
    ],
    inputs: &[PROBES, QUERY],
    outputs: &[CANDIDATES],
    example: "scan: {kind: scan_lists, lists: lists, k: 10}",
    ..OperatorSpec::new(
        "scan_lists",
        "Finds the objects of some lists that may be nearest to each query.",
        Kind::Stateful,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let lists = bind.resource::<Lists>("lists")?;
    let (k, refine) = (bind.count("k"), bind.count("refine"));
    let kept = if lists.quantizers().coding() == Coding::Rows { k } else { k.saturating_mul(refine) };
    let range = get_range(bind, &**lists.space())?.unwrap_or(f64::INFINITY);
    let (among, slots) = (Among::new(bind), bind.slots());
    Ok(Box::new(ScanLists { lists, kept, range, among, slots, probes: Vec::new(), found: None }))
}

struct ScanLists {
    lists: Arc<Lists>,
    /// Objects that the shortlist of a query is for.
    kept: usize,
    range: f64,
    among: Among,
    slots: usize,
    /// Lists and queries.
    probes: Vec<(u32, u32)>,
    /// The candidates of all queries, once found.
    found: Option<Found>,
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
        if self.found.is_none() {
            self.found = self.find(cx)?.map(Found::new);
        }
        self.found.as_mut().map_or(Ok(Flow::Done), |found| found.give(cx, CANDIDATES))
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
            let columns: [(&str, ArrayRef); 3] = [
                ("query", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0)))),
                ("id", Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.1)))),
                ("lower", Arc::new(Float64Array::from(vec![columns::NO_BOUND; rows.len()]))),
            ];
            self.next += rows.len();
            if cx.push(to, Envelope::from_columns(columns)?)? == Pushed::Closed {
                break;
            }
        }
        Ok(Flow::Done)
    }
}

impl ScanLists {
    /// The candidates by query; `None` if the request is being cancelled.
    fn find(&mut self, cx: &mut Context<'_>) -> Result<Option<Vec<(u32, u64)>>, BoxError> {
        let subset = self.among.read(cx, &**self.lists.space().store())?;
        let subset = subset.as_deref();
        let (numbers, mut vectors) = query_vectors(cx.side(QUERY), self.lists.quantizers().dimensions())?;
        self.lists.prepare(&mut vectors);
        if let Some(few) = subset.filter(|subset| is_few(subset, &**self.lists.space().store())) {
            let each = numbers.iter().flat_map(|number| few.ids().map(move |id| (*number, id)));
            return Ok(Some(each.collect()));
        }
        let probes = self.placed(&numbers)?;
        let lists = &*self.lists;
        let mut wanted: Vec<u32> = probes.iter().map(|probe| probe.list).collect();
        wanted.sort_unstable();
        wanted.dedup();
        if !lists.has(&wanted) {
            let cancelled = cx.cancelled();
            match cx.detached("disk", || lists.bring_in(&wanted, &cancelled))? {
                Err(error) if error.is_cancelled() => return Ok(None),
                brought => brought?,
            }
        }
        let dimensions = lists.quantizers().dimensions();
        let shortlist = |query| lists.shortlist(query, self.kept, self.range);
        let empty: Vec<Shortlist> = vectors.chunks_exact(dimensions).map(shortlist).collect();
        let queries = lists.queries(vectors);
        let mut side_by_side = |count: usize, f: &(dyn Fn(usize) + Sync)| {
            cx.inside(|inside| inside.for_each_chunk(count, 1, |pieces| pieces.for_each(f)));
            !cx.is_cancelled()
        };
        let mut merged: Vec<Option<Shortlist>> = vec![None; numbers.len()];
        for round in probes.chunk_by(|a, b| a.is_later == b.is_later) {
            let groups: Vec<_> = round.chunk_by(|a, b| a.list == b.list).collect();
            // A row beyond what an earlier round found for a query is not among its nearest.
            let limited = |(empty, found): (&Shortlist, &Option<Shortlist>)| match found {
                Some(found) => empty.clone().within(found.limit()),
                None => empty.clone(),
            };
            let start: Vec<Shortlist> = empty.iter().zip(&merged).map(limited).collect();
            let per_piece = groups.len().div_ceil(self.slots).max(1);
            let pieces = collect(&mut side_by_side, groups.len().div_ceil(per_piece), |piece| {
                let mut shortlists: Vec<Option<Shortlist>> = vec![None; numbers.len()];
                for group in &groups[piece * per_piece..groups.len().min((piece + 1) * per_piece)] {
                    scan(lists, group, subset, &queries, &mut shortlists, &start);
                }
                shortlists
            });
            let Some(pieces) = pieces else { return Ok(None) };
            for (to, from) in pieces.into_iter().flat_map(|piece| piece.into_iter().enumerate()) {
                match (&mut merged[to], from) {
                    (Some(to), Some(from)) => {
                        from.kept().iter().for_each(|(score, row)| to.offer(*score, *row));
                    }
                    (to @ None, from) => *to = from,
                    (Some(_), None) => {}
                }
            }
            merged.iter_mut().flatten().for_each(Shortlist::tighten);
        }
        let is_exact = lists.quantizers().coding() == Coding::Rows;
        let mut found = Vec::new();
        for (number, shortlist) in numbers.iter().zip(merged) {
            let Some(shortlist) = shortlist else { continue };
            let places: Vec<u32> = if is_exact {
                shortlist.kept().iter().map(|(_, place)| *place).collect()
            } else {
                shortlist.by_score().into_iter().map(|(_, place)| place).collect()
            };
            let mut ids: Vec<u64> = places.into_iter().map(|place| lists.id(place)).collect();
            // A shortlist that takes all rows has others too, and removed ones.
            let store = lists.space().store();
            ids.retain(|id| subset.map_or_else(|| store.has(*id), |subset| subset.has(*id)));
            // In the order of the store, as boxes that compute distances read it.
            ids.sort_unstable();
            found.extend(ids.into_iter().map(|id| (*number, id)));
        }
        Ok(Some(found))
    }
}

/// A list that a query looks into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Probe {
    /// Whether it waits for what the nearest lists of all queries give.
    is_later: bool,
    list: u32,
    /// The query among those of the request.
    place: usize,
}

impl ScanLists {
    /// The lists to look into, in the order of the scan. Codes of the nearest list of each query are scanned first: they limit
    /// how many of the others are worth a look. Rows of a list are read once, for all its queries.
    fn placed(&mut self, numbers: &[u32]) -> Result<Vec<Probe>, BoxError> {
        let has_rows = self.lists.quantizers().coding() == Coding::Rows;
        let mut has_nearest = vec![has_rows; numbers.len()];
        let mut probes = Vec::with_capacity(self.probes.len());
        for (list, query) in self.probes.drain(..) {
            let place = numbers.binary_search(&query).ok();
            let place = place.filter(|_| (list as usize) < self.lists.count()).ok_or_else(|| {
                BoxError::new(format!("there is no query {query} or no list {list} to look into"))
            })?;
            // The lists of a query come with the nearest first.
            let is_later = !has_rows && std::mem::replace(&mut has_nearest[place], true);
            probes.push(Probe { is_later, list, place });
        }
        probes.sort_unstable();
        Ok(probes)
    }
}

/// Scans one list, or those of its objects that are in a subset, for the queries of its probes. Shortlists begin as those in
/// `empty`.
fn scan(
    lists: &Lists,
    probes: &[Probe],
    subset: Option<&Subset>,
    queries: &ListQueries,
    shortlists: &mut [Option<Shortlist>],
    empty: &[Shortlist],
) {
    let mask = subset.map(|subset| lists.mask(probes[0].list, subset));
    if mask == Some(None) {
        return;
    }
    let places: Vec<usize> = probes.iter().map(|probe| probe.place).collect();
    let take = |place: &usize| shortlists[*place].take().unwrap_or_else(|| empty[*place].clone());
    let mut taken: Vec<Shortlist> = places.iter().map(take).collect();
    lists.scan(probes[0].list, queries, &places, mask.flatten().as_deref(), &mut taken);
    for (place, shortlist) in places.into_iter().zip(taken) {
        shortlists[place] = Some(shortlist);
    }
}

/// The numbers of queries within the request, ascending, and their vectors.
pub(super) fn query_vectors(
    envelopes: &[Envelope],
    dimensions: usize,
) -> Result<(Vec<u32>, Vec<f32>), BoxError> {
    let mut found: Vec<(u32, Vec<f32>)> = Vec::new();
    for envelope in envelopes {
        let objects = as_f32(envelope.column("object")?);
        for (row, number) in envelope.u32s("query")?.iter().enumerate() {
            let vector = objects
                .as_ref()
                .and_then(|objects| objects.as_list_opt::<i32>())
                .map(|lists| lists.value(row))
                .and_then(|vector| Some(vector.as_primitive_opt::<Float32Type>()?.values().to_vec()));
            let length = vector.as_ref().map_or(0, Vec::len);
            match vector {
                Some(vector) if length == dimensions && vector.iter().all(|x| x.is_finite()) => {
                    found.push((*number, vector));
                }
                _ => {
                    return Err(BoxError::new(format!(
                        "query {number} is no vector of {dimensions} finite numbers (it has {length})"
                    )));
                }
            }
        }
    }
    found.sort_by_key(|(number, _)| *number);
    let numbers = found.iter().map(|(number, _)| *number).collect();
    Ok((numbers, found.into_iter().flat_map(|(_, vector)| vector).collect()))
}
