//! The parts of a scan on devices: groups of queries that share blocks, and the chunks of lists that each of them needs.

use std::collections::VecDeque;
use std::ops::Range;

use boxwork_kernels::panels::Shortlist;
use boxwork_kernels::pieces::collect;
use boxwork_kernels::product::device::Pairs;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::Context;

use super::super::block::Request;
use super::super::placed::Placed;
use super::Sized;
use crate::pieces::side_by_side;

/// A part of the scan: a chunk of the lists, for a group of queries.
#[derive(Clone, Copy)]
pub(in crate::search::scan_lists) struct Item {
    pub(super) chunk: usize,
    pub(super) group: usize,
}

/// The pairs of each group, made side by side if there is one chunk; blocks of more chunks make their own.
pub(super) fn pairs_of(
    cx: &mut Context<'_>,
    request: &Request,
    groups: &[Group],
) -> Option<Vec<Option<Pairs>>> {
    let [whole] = &*request.chunks else { return Some(groups.iter().map(|_| None).collect()) };
    let mut pieces = |count: usize, f: &(dyn Fn(usize) + Sync)| side_by_side(cx, count, f);
    collect(&mut pieces, groups.len(), |group| {
        let queries = groups[group].queries.clone();
        Some(Pairs::new(&whole.segments, queries.map(|query| request.placed.of(query))))
    })
}

/// The items of a scan: all groups take a chunk before the next one. Queries that look into no list of a chunk do without it.
pub(super) fn items(request: &Request, groups: &mut [Group]) -> VecDeque<Item> {
    let (chunks, count) = (&request.chunks, groups.len());
    let mut has = vec![false; chunks.len() * count];
    for (number, group) in groups.iter_mut().enumerate() {
        for query in group.queries.clone() {
            let segments = request.placed.of(query).0;
            // One segment says it of a single chunk.
            for segment in segments.iter().take(if chunks.len() == 1 { 1 } else { segments.len() }) {
                let chunk = chunks.partition_point(|chunk| chunk.numbers.end <= *segment);
                has[chunk * count + number] = true;
                (group.last, group.made) = (group.last.max(chunk), None);
            }
        }
    }
    let each = (0..chunks.len()).flat_map(|chunk| (0..count).map(move |group| Item { chunk, group }));
    each.zip(has).filter_map(|(item, has)| has.then_some(item)).collect()
}

/// Queries that share blocks.
pub(super) struct Group {
    pub(super) queries: Range<usize>,
    /// The last chunk that they need.
    pub(super) last: usize,
    /// By query, the least of the chunks so far; empty if there is one chunk.
    pub(super) least: Vec<Shortlist>,
    /// The candidates that slots have found for all chunks once a block has failed, and the next query.
    pub(super) on_slots: Option<(Vec<(u32, u64)>, usize)>,
    /// The candidates, once the last chunk is done, until those of the groups before have left.
    pub(super) made: Option<Vec<Envelope>>,
}

impl Group {
    /// Cuts queries into groups, none of which has more of them or of their sums than a block may have.
    pub(super) fn cut(placed: &Placed, count: usize, sized: Sized) -> Vec<Self> {
        let (mut groups, mut first, mut sums) = (Vec::new(), 0, 0);
        let group =
            |queries| Self { queries, last: 0, least: Vec::new(), on_slots: None, made: Some(Vec::new()) };
        for query in 0..count {
            let of_query = placed.sums(query);
            if query > first && (query - first == sized.queries || sums + of_query > sized.sums) {
                groups.push(group(first..query));
                (first, sums) = (query, 0);
            }
            sums += of_query;
        }
        groups.push(group(first..count));
        groups
    }
}
