//! The scan of `scan_lists` on slots. Lists are read once for all queries that look into them.

use boxwork_kernels::panels::Shortlist;
use boxwork_kernels::pieces::collect;
use boxwork_runtime::operator::{BoxError, Context};
use boxwork_stores::lists::{Coding, ListQueries, Lists};
use boxwork_stores::subset::Subset;

/// What is looked for.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) lists: &'a Lists,
    /// Objects that the shortlist of a query is for.
    pub(super) kept: usize,
    pub(super) range: f64,
    pub(super) subset: Option<&'a Subset>,
    pub(super) slots: usize,
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

impl Wanted<'_> {
    /// The candidates of some queries, by query: its number and an id. `probes` are lists and the places of queries; `None` if the
    /// request is being cancelled.
    pub(super) fn find(
        self,
        cx: &mut Context<'_>,
        probes: &[(u32, u32)],
        numbers: &[u32],
        vectors: Vec<f32>,
    ) -> Result<Option<Vec<(u32, u64)>>, BoxError> {
        let Self { lists, kept, range, subset, slots } = self;
        let probes = self.placed(probes, numbers.len());
        let mut wanted: Vec<u32> = probes.iter().map(|probe| probe.list).collect();
        wanted.sort_unstable();
        wanted.dedup();
        if !bring_in(cx, lists, &wanted)? {
            return Ok(None);
        }
        let dimensions = lists.quantizers().dimensions();
        let shortlist = |query| lists.shortlist(query, kept, range);
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
            let per_piece = groups.len().div_ceil(slots).max(1);
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
        let mut found = Vec::new();
        for (number, shortlist) in numbers.iter().zip(merged) {
            let Some(shortlist) = shortlist else { continue };
            found.extend(self.ids_of(shortlist).into_iter().map(|id| (*number, id)));
        }
        lists.confirm()?;
        Ok(Some(found))
    }

    /// The objects of a shortlist that are searched, in the order of the store, as boxes that compute distances read it.
    fn ids_of(self, shortlist: Shortlist) -> Vec<u64> {
        let places: Vec<u32> = if self.lists.quantizers().coding() == Coding::Rows {
            shortlist.kept().iter().map(|(_, place)| *place).collect()
        } else {
            shortlist.by_score().into_iter().map(|(_, place)| place).collect()
        };
        self.ids(places.into_iter())
    }

    /// The objects at some places that are searched, in the order of the store.
    pub(super) fn ids(self, places: impl Iterator<Item = u32>) -> Vec<u64> {
        let mut ids: Vec<u64> = places.map(|place| self.lists.id(place)).collect();
        // A shortlist that takes all rows has others too, and removed ones.
        let store = self.lists.space().store();
        ids.retain(|id| self.subset.map_or_else(|| store.has(*id), |subset| subset.has(*id)));
        ids.sort_unstable();
        ids
    }

    /// The lists to look into, in the order of the scan. Codes of the nearest list of each query are scanned first: they limit
    /// how many of the others are worth a look. Rows of a list are read once, for all its queries.
    fn placed(self, probes: &[(u32, u32)], queries: usize) -> Vec<Probe> {
        let has_rows = self.lists.quantizers().coding() == Coding::Rows;
        let mut has_nearest = vec![has_rows; queries];
        let placed = |(list, place): &(u32, u32)| {
            let place = *place as usize;
            // The lists of a query come with the nearest first.
            let is_later = !has_rows && std::mem::replace(&mut has_nearest[place], true);
            Probe { is_later, list: *list, place }
        };
        let mut placed: Vec<Probe> = probes.iter().map(placed).collect();
        placed.sort_unstable();
        placed
    }
}

/// Checks some lists in their files, if that was not done before. Returns false if the request is being cancelled.
pub(super) fn bring_in(cx: &mut Context<'_>, lists: &Lists, wanted: &[u32]) -> Result<bool, BoxError> {
    if !lists.has(wanted) {
        let cancelled = cx.cancelled();
        // A request that is being cancelled begins nothing.
        let Ok(brought) = cx.detached("disk", || lists.bring_in(wanted, &cancelled)) else {
            return Ok(false);
        };
        match brought {
            Err(error) if error.is_cancelled() => return Ok(false),
            brought => brought?,
        }
    }
    Ok(true)
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
