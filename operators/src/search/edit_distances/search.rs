//! The search of some texts on slots, piece by piece, and what queries know of their nearest texts so far.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use boxwork_runtime::operator::{BoxError, Context};
use boxwork_stores::space::{PreparedMany, Space, SpaceError};

use super::QUERIES;

/// Texts that a slot compares with all queries before it takes others: as many as texts compares at once.
pub(super) const PIECE_ROWS: u64 = 1024;
/// Queries that a slot compares with some texts at a time: their distances take half a megabyte.
const QUERIES_TOGETHER: usize = 64;
/// Distances of which the smallest is compared with the limit first.
const GLANCE: usize = 64;

/// The queries, and their texts found so far.
pub(super) struct Asked {
    pub(super) numbers: Vec<u32>,
    pub(super) prepared: Arc<dyn PreparedMany>,
    /// By query: the k smallest distances so far, in order.
    pub(super) nearest: Vec<Vec<f64>>,
    /// Queries that are compared with a block at once, and those with distances that slots share.
    pub(super) together: Vec<Range<usize>>,
    pub(super) long: Vec<usize>,
    /// The letters of queries that devices compare, and the others among `together`. Nothing without devices.
    pub(super) of_devices: Option<OfDevices>,
}

/// Queries as devices take them.
pub(super) struct OfDevices {
    /// Their places, ascending.
    pub(super) places: Vec<usize>,
    pub(super) letters: Vec<Vec<char>>,
    /// Queries that have too many letters.
    pub(super) rest: Vec<Range<usize>>,
}

/// Consecutive ids of one batch, the rows found there, and queries and ids whose distances slots share afterwards.
pub(super) struct Piece {
    pub(super) ids: Range<u64>,
    pub(super) rows: Vec<(u32, u64, f64)>,
    pub(super) long: Vec<(usize, u64)>,
}

impl Piece {
    pub(super) fn new(ids: Range<u64>) -> Self {
        Self { ids, rows: Vec::new(), long: Vec::new() }
    }
}

impl Asked {
    /// The queries; with devices, they compare those of up to `of_devices_max` letters.
    pub(super) fn new(
        cx: &Context<'_>,
        space: &Arc<dyn Space>,
        of_devices_max: Option<usize>,
    ) -> Result<Self, BoxError> {
        let mut objects: Vec<(u32, (ArrayRef, usize))> = Vec::new();
        for envelope in cx.side(QUERIES) {
            let column = envelope.column("object")?;
            let numbers = envelope.u32s("query")?.iter().enumerate();
            objects.extend(numbers.map(|(row, number)| (*number, (Arc::clone(column), row))));
        }
        objects.sort_by_key(|object| object.0);
        let (numbers, objects): (Vec<u32>, Vec<_>) = objects.into_iter().unzip();
        let prepared = Arc::clone(space).prepare_many(&objects, &|| cx.is_cancelled());
        let prepared =
            prepared.map_err(|(query, error)| BoxError::new(format!("query {}: {error}", numbers[query])))?;
        let nearest = vec![Vec::new(); numbers.len()];
        let (long, short): (Vec<usize>, Vec<usize>) =
            (0..numbers.len()).partition(|query| prepared.has_long(*query));
        let together = runs(&short);
        let of_devices = of_devices_max.map(|most| OfDevices::new(&objects, &short, most));
        Ok(Self { numbers, prepared, nearest, together, long, of_devices })
    }

    /// Keeps the k smallest distances of each query.
    pub(super) fn learn(&mut self, rows: &[(u32, u64, f64)], k: usize) {
        for (query, _, distance) in rows {
            let Ok(query) = self.numbers.binary_search(query) else { continue };
            let nearest = &mut self.nearest[query];
            let place = nearest.partition_point(|near| near <= distance);
            if place < k {
                nearest.insert(place, *distance);
                nearest.truncate(k);
            }
        }
    }
}

/// Ascending places as runs of queries that are compared together.
fn runs(places: &[usize]) -> Vec<Range<usize>> {
    let runs = places.chunk_by(|a, b| a + 1 == *b).flat_map(|run| run.chunks(QUERIES_TOGETHER));
    runs.map(|run| run[0]..run[0] + run.len()).collect()
}

impl OfDevices {
    fn new(objects: &[(ArrayRef, usize)], short: &[usize], most: usize) -> Self {
        let (mut places, mut letters, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for place in short {
            let (object, row) = &objects[*place];
            let text =
                object.as_string_opt::<i32>().map(|texts| texts.value(*row).chars().collect::<Vec<char>>());
            match text.filter(|text| text.len() <= most) {
                Some(text) => {
                    places.push(*place);
                    letters.push(text);
                }
                None => rest.push(*place),
            }
        }
        Self { places, letters, rest: runs(&rest) }
    }
}

/// The smallest of some distances, none of which is a NaN. Eight chains of comparisons, which the compiler turns into vectors.
fn least_of(distances: &[f64]) -> f64 {
    let mut least = [f64::INFINITY; 8];
    let (eights, rest) = distances.as_chunks::<8>();
    for distances in eights {
        for (least, distance) in least.iter_mut().zip(distances) {
            *least = if distance < least { *distance } else { *least };
        }
    }
    least.iter().chain(rest).fold(f64::INFINITY, |least, distance| least.min(*distance))
}

/// The search of one firing, which slots share.
pub(super) struct Search<'a> {
    pub(super) space: &'a dyn Space,
    pub(super) asked: &'a Asked,
    pub(super) k: Option<usize>,
    pub(super) range: f64,
}

impl Search<'_> {
    /// Finds the rows of a piece, for queries that are compared together.
    pub(super) fn find(
        &self,
        together: &[Range<usize>],
        piece: &mut Piece,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(), SpaceError> {
        let count = (piece.ids.end - piece.ids.start) as usize;
        let mut found = vec![0.0; count * self.asked.numbers.len().min(QUERIES_TOGETHER)];
        for queries in together {
            let found = &mut found[..count * queries.len()];
            self.asked.prepared.fast_until(queries.clone(), piece.ids.clone(), found, cancelled)?;
            for (query, found) in queries.clone().zip(found.chunks_exact(count)) {
                self.select(query, piece.ids.start, found, &mut piece.rows);
            }
        }
        Ok(())
    }

    /// Finds the rows of a piece for long queries, and the texts whose distances slots are to share.
    pub(super) fn find_for_long(
        &self,
        piece: &mut Piece,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(), SpaceError> {
        for query in &self.asked.long {
            for id in piece.ids.clone().filter(|id| self.space.store().has(*id)) {
                if self.asked.prepared.is_long(*query, id)? {
                    piece.long.push((*query, id));
                    continue;
                }
                let found = self.asked.prepared.distance(*query, id, cancelled)?;
                self.select(*query, id, &[found], &mut piece.rows);
            }
        }
        Ok(())
    }

    /// Adds the texts that may be in the answer of a query.
    pub(super) fn select(&self, query: usize, first: u64, found: &[f64], rows: &mut Vec<(u32, u64, f64)>) {
        let store = self.space.store();
        // Texts at the distance of the k-th so far have larger ids than that, so they are not among the k nearest.
        let mut kth =
            self.k.and_then(|k| self.asked.nearest[query].get(k - 1)).map_or(f64::INFINITY, |kth| *kth);
        let (number, begun) = (self.asked.numbers[query], rows.len());
        for (glance, place) in found.chunks(GLANCE).zip((first..).step_by(GLANCE)) {
            let least = least_of(glance);
            if least >= kth || least > self.range {
                continue;
            }
            for (distance, id) in glance.iter().zip(place..) {
                if *distance < kth && *distance <= self.range && store.has(id) {
                    rows.push((number, id, *distance));
                }
            }
            // The texts that follow have larger ids too.
            if let Some(k) = self.k.filter(|k| rows.len() - begun >= k + GLANCE) {
                kth = keep_nearest(rows, begun, k).map_or(kth, |found| kth.min(found));
            }
        }
        if let Some(k) = self.k.filter(|k| rows.len() - begun > *k) {
            keep_nearest(rows, begun, k);
        }
    }
}

/// Keeps the k nearest of the rows from `begun` on, which are of one query, in no particular order; returns the largest distance if there are
/// at least k.
fn keep_nearest(rows: &mut Vec<(u32, u64, f64)>, begun: usize, k: usize) -> Option<f64> {
    let of_query = &mut rows[begun..];
    if of_query.len() < k {
        return None;
    }
    let order = |a: &(u32, u64, f64), b: &(u32, u64, f64)| a.2.total_cmp(&b.2).then(a.1.cmp(&b.1));
    let kth = of_query.select_nth_unstable_by(k - 1, order).1.2;
    rows.truncate(begun + k);
    Some(kth)
}
