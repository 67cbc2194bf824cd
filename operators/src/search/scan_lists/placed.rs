//! What devices scan: the segments of lists, those that each query looks into, and the numbers with which their sums begin.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use boxwork_kernels::CodePath;
use boxwork_kernels::pieces::collect;
use boxwork_kernels::product::device::Segment;
use boxwork_kernels::vector::inner_product;
use boxwork_runtime::operator::{BoxError, Context};
use boxwork_stores::lists::Lists;
use boxwork_stores::subset::Subset;

use super::slots::bring_in;

/// Queries that a slot takes at a time: each reads the centroids of its lists, from all over memory.
const QUERIES_AT_ONCE: usize = 16;
/// Panels of a segment at most: a chunk has whole segments.
const SEGMENT_PANELS: usize = 1 << 13;

/// What requests share.
pub(super) struct Shared {
    pub(super) lists: Arc<Lists>,
    /// Empty if devices cannot scan the lists.
    pub(super) segments: Vec<Segment>,
    /// The segments of each list.
    of_list: Vec<Vec<u32>>,
    /// All of them, for devices that keep all codes.
    pub(super) whole: Arc<[Chunk]>,
    alive: OnceLock<Vec<u32>>,
    /// The largest norm of a centroid, and of what a code stands for.
    pub(super) norm_max: f64,
}

/// Segments whose codes lie in one buffer on a device.
pub(super) struct Chunk {
    /// Their numbers.
    pub(super) numbers: Range<u32>,
    /// Their panels.
    pub(super) panels: Range<usize>,
    /// The segments, with the numbers of panels within the chunk.
    pub(super) segments: Vec<Segment>,
}

impl Chunk {
    /// Cuts segments into chunks of so many panels at most, or of one segment that has more.
    pub(super) fn cut(segments: &[Segment], panels_max: usize) -> Arc<[Self]> {
        let (mut chunks, mut first) = (Vec::new(), 0);
        while first < segments.len() {
            let start = segments[first].groups.start;
            let fits = |segment: &&Segment| (segment.groups.end - start) as usize <= panels_max;
            let count = segments[first..].iter().take_while(fits).count().max(1);
            let of_chunk = &segments[first..first + count];
            let shifted = |segment: &Segment| {
                let groups = segment.groups.start - start..segment.groups.end - start;
                Segment { list: segment.list, groups }
            };
            chunks.push(Self {
                numbers: first as u32..(first + count) as u32,
                panels: start as usize..of_chunk[count - 1].groups.end as usize,
                segments: of_chunk.iter().map(shifted).collect(),
            });
            first += count;
        }
        chunks.into()
    }
}

impl Shared {
    /// For some lists.
    pub(super) fn new(lists: &Arc<Lists>) -> Self {
        Self::of_segments(lists, SEGMENT_PANELS)
    }

    /// For some lists, in segments of so many panels at most.
    pub(super) fn of_segments(lists: &Arc<Lists>, panels_max: usize) -> Self {
        let (lists, mut of_list) = (Arc::clone(lists), vec![Vec::new(); lists.count()]);
        let Some(codebook) = lists.quantizers().codebook() else {
            let whole = Chunk::cut(&[], usize::MAX);
            return Self {
                lists,
                segments: Vec::new(),
                of_list,
                whole,
                alive: OnceLock::new(),
                norm_max: 0.0,
            };
        };
        let norm = |vector: &[f32]| inner_product(vector, vector).sqrt();
        let largest = |vectors: &[f32], size: usize| vectors.chunks_exact(size).map(norm).fold(0.0, f64::max);
        let of_lists = largest(lists.quantizers().centroids(), lists.quantizers().dimensions());
        let of_parts = codebook.numbers().chunks_exact(codebook.width() * codebook.bits().centroids());
        let of_code = of_parts.map(|part| largest(part, codebook.width()).powi(2)).sum::<f64>().sqrt();
        let cut = |segment: Segment| {
            let Segment { list, groups } = segment;
            let firsts = groups.clone().step_by(panels_max);
            firsts
                .map(move |first| Segment { list, groups: first..groups.end.min(first + panels_max as u32) })
        };
        let segments: Vec<Segment> = lists.segments().into_iter().flat_map(cut).collect();
        for (number, segment) in (0..).zip(&segments) {
            of_list[segment.list as usize].push(number);
        }
        let (alive, whole) = (OnceLock::new(), Chunk::cut(&segments, usize::MAX));
        Self { segments, of_list, whole, alive, norm_max: of_lists + of_code, lists }
    }

    /// By panel, the objects that are there still. All lists were brought in.
    pub(super) fn alive(&self) -> &[u32] {
        self.alive.get_or_init(|| self.lists.alive())
    }
}

/// The segments of all queries.
#[derive(Default)]
pub(super) struct Placed {
    /// Query after query, ascending.
    segments: Vec<u32>,
    /// By segment of a query: the number with which its sums begin.
    bases: Vec<f32>,
    /// By query, the place of its first segment; and one more.
    firsts: Vec<usize>,
    /// By query: the rows of its segments, with those that fill the last group.
    sums: Vec<usize>,
    /// The largest norm of a query.
    pub(super) norm_max: f64,
    /// By panel, the objects of the subset, if there is one.
    pub(super) alive: Option<Vec<u32>>,
}

impl Placed {
    /// Finds the segments of the lists that queries look into. `probes` are lists and places of queries, by place. `None` if the
    /// request is being cancelled.
    ///
    /// # Errors
    /// When there is a subset, and one of the lists is damaged.
    pub(super) fn new(
        cx: &mut Context<'_>,
        shared: &Shared,
        vectors: &[f32],
        probes: &[(u32, u32)],
        subset: Option<&Arc<Subset>>,
    ) -> Result<Option<Self>, BoxError> {
        let lists = &shared.lists;
        let (mut alive, mut has_some) = (None, Vec::new());
        if let Some(subset) = subset {
            let mut words = vec![0; lists.panels()];
            let mut wanted: Vec<u32> = probes.iter().map(|(list, _)| *list).collect();
            wanted.sort_unstable();
            wanted.dedup();
            if !bring_in(cx, lists, &wanted)? {
                return Ok(None);
            }
            has_some.resize(lists.count(), false);
            for list in wanted {
                has_some[list as usize] = lists.mark(list, subset, &mut words);
            }
            alive = Some(words);
        }
        let dimensions = lists.quantizers().dimensions();
        let queries = vectors.len() / dimensions;
        let mut side_by_side = |count: usize, f: &(dyn Fn(usize) + Sync)| {
            cx.inside(|inside| inside.for_each_chunk(count, 1, |pieces| pieces.for_each(f)));
            !cx.is_cancelled()
        };
        let parts = collect(&mut side_by_side, queries.div_ceil(QUERIES_AT_ONCE), |piece| {
            let (mut part, path) = (Self::default(), CodePath::detect());
            let mut of_query: Vec<(u32, f32)> = Vec::new();
            for query in piece * QUERIES_AT_ONCE..queries.min((piece + 1) * QUERIES_AT_ONCE) {
                let first = probes.partition_point(|(_, place)| (*place as usize) < query);
                let of_place = probes[first..].iter().take_while(|(_, place)| *place as usize == query);
                let vector = &vectors[query * dimensions..][..dimensions];
                part.norm_max = part.norm_max.max(inner_product(vector, vector).sqrt());
                of_query.clear();
                for (list, _) in of_place.filter(|(list, _)| has_some.get(*list as usize) != Some(&false)) {
                    let segments = &shared.of_list[*list as usize];
                    if !segments.is_empty() {
                        let base = lists.base(path, vector, *list);
                        of_query.extend(segments.iter().map(|segment| (*segment, base)));
                    }
                }
                of_query.sort_unstable_by_key(|(segment, _)| *segment);
                let rows = of_query.iter().map(|(segment, _)| shared.segments[*segment as usize].rows());
                part.sums.push(rows.sum());
                part.firsts.push(part.segments.len());
                part.segments.extend(of_query.iter().map(|(segment, _)| *segment));
                part.bases.extend(of_query.iter().map(|(_, base)| *base));
            }
            part
        });
        let Some(parts) = parts else { return Ok(None) };
        let mut all = Self { alive, ..Self::default() };
        for part in parts {
            let before = all.segments.len();
            all.firsts.extend(part.firsts.into_iter().map(|first| before + first));
            all.segments.extend(part.segments);
            all.bases.extend(part.bases);
            all.sums.extend(part.sums);
            all.norm_max = all.norm_max.max(part.norm_max);
        }
        all.firsts.push(all.segments.len());
        Ok(Some(all))
    }

    /// The segments of a query, and the numbers with which their sums begin.
    pub(super) fn of(&self, query: usize) -> (&[u32], &[f32]) {
        let range = self.firsts[query]..self.firsts[query + 1];
        (&self.segments[range.clone()], &self.bases[range])
    }

    /// As [`Placed::of`], for the segments of a chunk.
    pub(super) fn of_chunk(&self, query: usize, chunk: &Chunk) -> (&[u32], &[f32]) {
        let (segments, bases) = self.of(query);
        let place = |number: u32| segments.partition_point(|segment| *segment < number);
        let range = place(chunk.numbers.start)..place(chunk.numbers.end);
        (&segments[range.clone()], &bases[range])
    }

    /// The sums of a query.
    pub(super) fn sums(&self, query: usize) -> usize {
        self.sums[query]
    }
}
