//! Scans of lists of product codes on a device: constants and sizes for `device.cl`, codes and pairs as it takes them, and its twin.
//!
//! A pair is a query and some groups of rows of one list that lie side by side, a segment. The device computes the sums of all
//! rows of all pairs; the sums of a query lie side by side, in the order of its segments. Then `k_select.cl` finds the k least
//! of each query, and `list_places` says which rows these are.
//!
//! Invariants: sums have the bits of [`Scanner`](super::Scanner)'s: the same operations on f32 in the same order. If the
//! segments of a query ascend, equal sums go by the number of their row, as in a shortlist.

use std::ops::Range;

use super::{Bits, Codebook, Codes, GROUP};
use crate::CodePath;

/// The source of the kernels.
pub const TEXT: &str = include_str!("device.cl");

/// Work items of a group of `list_products` and of `list_sums`.
pub const ITEMS: usize = 256;
/// The place of a row that is not there.
pub const NOWHERE: u32 = u32::MAX;

/// Queries that share the numbers of the codebook in `list_products`.
const PRODUCTS_QUERIES: usize = 4;
/// Queries of a job at most: they share the part of the tables that the list has.
const JOB_QUERIES: usize = 8;
/// Groups of rows of a job at most.
const JOB_GROUPS: u32 = 128;
/// Bytes of tables in local memory, which leaves room for several work groups on a multiprocessor.
const NEAR_BYTES: usize = 32 << 10;

/// The part of the tables that lists have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terms {
    /// None, as for inner products.
    None,
    /// In memory, as [`Codebook::terms`] gives them.
    Kept,
    /// Computed for each job.
    Computed,
}

/// What a program is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    dimensions: usize,
    parts: usize,
    bits: Bits,
    terms: Terms,
}

impl Shape {
    /// For the codes of a codebook.
    pub fn new(codebook: &Codebook, terms: Terms) -> Self {
        let (dimensions, parts, bits) = (codebook.dimensions(), codebook.parts(), codebook.bits());
        Self { dimensions, parts, bits, terms }
    }

    /// The part of the tables that lists have.
    pub fn terms(self) -> Terms {
        self.terms
    }

    fn bits_count(self) -> usize {
        match self.bits {
            Bits::Four => 4,
            Bits::Eight => 8,
        }
    }

    /// Codes in a word.
    fn codes_of_word(self) -> usize {
        32 / self.bits_count()
    }

    /// Words of a row's code.
    pub fn words(self) -> usize {
        self.parts.div_ceil(self.codes_of_word())
    }

    /// Numbers of the tables of a query.
    pub fn tables_len(self) -> usize {
        self.parts * self.bits.centroids()
    }

    /// Parts whose tables lie in local memory at a time, and launches of `list_sums` for all parts.
    fn launches(self) -> (usize, usize) {
        let most = NEAR_BYTES / size_of::<f32>() / self.bits.centroids();
        let launches = self.parts.div_ceil(most);
        match launches {
            1 => (self.parts, 1),
            _ => (self.parts.div_ceil(launches).next_multiple_of(self.codes_of_word()), launches),
        }
    }

    /// The first part of each launch of `list_sums`.
    pub fn first_parts(self) -> impl Iterator<Item = usize> {
        let (at_once, launches) = self.launches();
        (0..launches).map(move |launch| launch * at_once)
    }

    /// The constants to compile the source with.
    pub fn constants(self) -> Vec<(&'static str, String)> {
        let (at_once, launches) = self.launches();
        let sizes = [
            ("ITEMS", ITEMS),
            ("QUERIES", PRODUCTS_QUERIES),
            ("GROUP", GROUP),
            ("DIMENSIONS", self.dimensions),
            ("PARTS", self.parts),
            ("WIDTH", self.dimensions.div_ceil(self.parts)),
            ("BITS", self.bits_count()),
            ("AT_ONCE", at_once),
            ("LAUNCHES", launches),
        ];
        let mut constants: Vec<_> = sizes.map(|(name, size)| (name, size.to_string())).into();
        let terms = match self.terms {
            Terms::None => "NO_TERMS",
            Terms::Kept => "KEPT_TERMS",
            Terms::Computed => "COMPUTED_TERMS",
        };
        constants.push((terms, "1".to_owned()));
        constants
    }

    /// Work groups of `list_products` for some queries, in two dimensions.
    pub fn products_groups(self, queries: usize) -> [usize; 2] {
        [self.tables_len().div_ceil(ITEMS), queries.div_ceil(PRODUCTS_QUERIES)]
    }

    /// Arranges whole groups of codes as the device reads them: word `w` of row `r` of group `g` is at `(g * words + w) * 32 + r`,
    /// and the parts of a word begin with its lowest bits.
    ///
    /// # Panics
    /// If these are codes of another shape, or there is not room for whole groups.
    pub fn arrange(self, codes: Codes<'_>, to: &mut [u32]) {
        assert!(codes.parts == self.parts && codes.bits == self.bits, "codes of this shape");
        codes.check();
        let words = self.words();
        assert_eq!(to.len(), codes.rows.div_ceil(GROUP) * words * GROUP, "room for whole groups");
        for (at, to) in to.iter_mut().enumerate() {
            let (row, word) = (at / GROUP / words * GROUP + at % GROUP, at / GROUP % words);
            let parts = word * self.codes_of_word()..self.parts.min((word + 1) * self.codes_of_word());
            let bit = |part: usize| part % self.codes_of_word() * self.bits_count();
            *to = parts.fold(0, |sum, part| sum | (codes.at(row, part) as u32) << bit(part));
        }
    }
}

/// Groups of rows of one list that lie side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The list.
    pub list: u32,
    /// Groups of rows.
    pub groups: Range<u32>,
}

impl Segment {
    /// The rows of its groups, with those that fill the last one.
    pub fn rows(&self) -> usize {
        self.groups.len() * GROUP
    }
}

/// The pairs of some queries as the device takes them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairs {
    /// The first group of rows, their number, the list, the first pair, the number of pairs, and the rows of the segment
    /// before these.
    pub jobs: Vec<[u32; 6]>,
    /// By segment: the query, the place of the segment's first sum, and the bits of the number that sums begin with.
    pub pairs: Vec<[u32; 3]>,
    /// By query, the place of its first sum; and one more.
    pub starts: Vec<u32>,
}

impl Pairs {
    /// Arranges queries: for each, the numbers of its segments, ascending, and the number that each segment's sums begin with.
    ///
    /// # Panics
    /// If there is no such segment, or there are 2^32 sums.
    pub fn new<'a>(
        segments: &[Segment],
        queries: impl Iterator<Item = (&'a [u32], &'a [f32])> + Clone,
    ) -> Self {
        let mut next = vec![0u32; segments.len() + 1];
        queries.clone().flat_map(|(numbers, _)| numbers).for_each(|number| next[*number as usize] += 1);
        // The place of each segment's first pair.
        let mut count = 0;
        for next in &mut next {
            count += std::mem::replace(next, count);
        }
        let firsts = next.clone();
        let mut made = Self { jobs: Vec::new(), pairs: vec![[0; 3]; count as usize], starts: Vec::new() };
        let mut start = 0u32;
        for (query, (numbers, bases)) in (0..).zip(queries) {
            made.starts.push(start);
            for (number, base) in numbers.iter().zip(bases) {
                let next = &mut next[*number as usize];
                made.pairs[*next as usize] = [query, start, base.to_bits()];
                *next += 1;
                let rows = segments[*number as usize].rows() as u32;
                start = start.checked_add(rows).expect("fewer than 2^32 sums");
            }
        }
        made.starts.push(start);
        for (segment, firsts) in segments.iter().zip(firsts.windows(2)) {
            for first in (firsts[0]..firsts[1]).step_by(JOB_QUERIES) {
                let count = (firsts[1] - first).min(JOB_QUERIES as u32);
                for group in segment.groups.clone().step_by(JOB_GROUPS as usize) {
                    let groups = (segment.groups.end - group).min(JOB_GROUPS);
                    let before = (group - segment.groups.start) * GROUP as u32;
                    made.jobs.push([group, groups, segment.list, first, count, before]);
                }
            }
        }
        made
    }

    /// Sums of all queries.
    pub fn sums(&self) -> usize {
        self.starts.last().map_or(0, |end| *end as usize)
    }
}

/// What the twin of the device reads.
#[derive(Clone, Copy, Debug)]
pub struct Scanned<'a> {
    /// The codebook.
    pub codebook: &'a Codebook,
    /// The shape of the codes.
    pub shape: Shape,
    /// Codes, as [`Shape::arrange`] gives them.
    pub codes: &'a [u32],
    /// By group of rows, a bit for each row that is searched.
    pub alive: &'a [u32],
    /// The centroids of the lists, as the codebook takes them.
    pub centroids: &'a [f32],
    /// Queries, as the codebook takes them.
    pub queries: &'a [f32],
}

impl Scanned<'_> {
    /// The sums of all pairs as `list_sums` computes them, and the group of each group of rows: the reference, in plain loops.
    pub fn sums(&self, pairs: &Pairs) -> (Vec<f32>, Vec<u32>) {
        let (shape, path) = (self.shape, CodePath::Portable);
        let (size, dimensions, count) = (shape.tables_len(), shape.dimensions, shape.bits.centroids());
        let mut sums = vec![0.0; pairs.sums()];
        let mut groups = vec![0; pairs.sums() / GROUP];
        let (mut terms, mut tables) = (vec![0.0; size], vec![0.0; size]);
        for [first, job_groups, list, first_pair, pairs_count, before] in pairs.jobs.iter().copied() {
            if shape.terms != Terms::None {
                let centroid = &self.centroids[list as usize * dimensions..][..dimensions];
                self.codebook.terms(path, centroid, &mut terms);
            }
            for [query, start, base] in &pairs.pairs[first_pair as usize..][..pairs_count as usize] {
                let query = &self.queries[*query as usize * dimensions..][..dimensions];
                self.codebook.products(path, query, &mut tables);
                tables.iter_mut().zip(&terms).for_each(|(x, y)| *x += y);
                for row in 0..job_groups as usize * GROUP {
                    let (group, place) = (first as usize + row / GROUP, row % GROUP);
                    let mut sum = f32::from_bits(*base);
                    for part in 0..shape.parts {
                        let word = part / shape.codes_of_word();
                        let word = self.codes[(group * shape.words() + word) * GROUP + place];
                        let shift = part % shape.codes_of_word() * shape.bits_count();
                        sum += tables[part * count + (word >> shift) as usize % count];
                    }
                    let at = (start + before) as usize + row;
                    sums[at] = if self.alive[group] >> place & 1 == 0 { f32::INFINITY } else { sum };
                    groups[at / GROUP] = group as u32;
                }
            }
        }
        (sums, groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Random;
    use crate::k_select::k_least;
    use crate::panels::Shortlist;
    use crate::pieces::one_by_one;
    use crate::product::{Scanner, group_bytes, pack};

    fn numbers(random: &mut Random, count: usize, levels: u64) -> Vec<f32> {
        let number = |random: &mut Random| match levels {
            0 => random.normal_f32(),
            _ => random.below(levels) as f32,
        };
        (0..count).map(|_| number(random)).collect()
    }

    #[test]
    fn launches_hold_every_part_once_and_their_tables_fit() {
        for (bits, parts) in
            [Bits::Four, Bits::Eight].into_iter().flat_map(|bits| (1..=256).map(move |parts| (bits, parts)))
        {
            let shape = Shape { dimensions: 300, parts, bits, terms: Terms::None };
            let (at_once, launches) = shape.launches();
            assert!(at_once * bits.centroids() * 4 <= NEAR_BYTES, "{bits:?}, {parts} parts");
            assert!(
                (launches - 1) * at_once < parts && parts <= launches * at_once,
                "{bits:?}, {parts} parts"
            );
            assert!(launches == 1 || at_once.is_multiple_of(shape.codes_of_word()));
            assert_eq!(shape.first_parts().count(), launches);
        }
    }

    #[test]
    fn jobs_hold_every_group_of_every_pair_once() {
        let segments: Vec<Segment> = [0..3, 3..4, 4..304, 304..305]
            .into_iter()
            .zip([0, 1, 2, 1])
            .map(|(groups, list)| Segment { list, groups })
            .collect();
        let queries: Vec<(Vec<u32>, Vec<f32>)> = (0..21)
            .map(|query| {
                let numbers: Vec<u32> =
                    (0..4).filter(|number| (query + number) % 3 > 0 || query == 5).collect();
                let bases = numbers.iter().map(|number| (query * 10 + number) as f32).collect();
                (numbers, bases)
            })
            .collect();
        let made = Pairs::new(&segments, queries.iter().map(|(numbers, bases)| (&numbers[..], &bases[..])));
        let mut seen = vec![Vec::new(); queries.len()];
        for [group, groups, list, first, count, before] in made.jobs.iter().copied() {
            assert!(count as usize <= JOB_QUERIES && groups <= JOB_GROUPS && groups > 0 && count > 0);
            for [query, start, base] in &made.pairs[first as usize..][..count as usize] {
                for g in 0..groups {
                    let at = start + before + g * GROUP as u32;
                    seen[*query as usize].push((at, group + g, list, f32::from_bits(*base)));
                }
            }
        }
        for (query, mut seen) in seen.into_iter().enumerate() {
            seen.sort_by_key(|seen| seen.0);
            let (numbers, bases) = &queries[query];
            let of = |(number, base): (&u32, &f32)| {
                let (segment, base) = (segments[*number as usize].clone(), *base);
                segment.groups.map(move |group| (group, segment.list, base))
            };
            let wanted: Vec<_> = numbers.iter().zip(bases).flat_map(of).collect();
            let found: Vec<_> = seen.iter().map(|seen| (seen.1, seen.2, seen.3)).collect();
            assert_eq!(found, wanted, "query {query}");
            let places: Vec<u32> = seen.iter().map(|seen| seen.0).collect();
            let all = made.starts[query]..made.starts[query + 1];
            assert_eq!(places, all.step_by(GROUP).collect::<Vec<_>>(), "query {query}");
        }
    }

    /// Lists of codes, of which the last has two segments.
    struct Made {
        bytes: Vec<u8>,
        codes: Vec<u32>,
        alive: Vec<u32>,
        segments: Vec<Segment>,
    }

    /// Objects of each segment.
    const ROWS: [usize; 6] = [31, 0, 33, 1, 200, 32];

    fn made(random: &mut Random, codebook: &Codebook, shape: Shape, levels: u64) -> Made {
        let Shape { dimensions, parts, bits, .. } = shape;
        let mut made = Made { bytes: Vec::new(), codes: Vec::new(), alive: Vec::new(), segments: Vec::new() };
        for (place, count) in ROWS.into_iter().enumerate() {
            let of_rows = numbers(random, count * dimensions, levels);
            let packed = pack(&codebook.encoder().encode(CodePath::detect(), &of_rows), parts, bits);
            let first = made.alive.len() as u32;
            for row in (0..count).step_by(GROUP) {
                let whole = if count - row >= 32 { u32::MAX } else { (1 << (count - row)) - 1 };
                let removed = random.bits() as u32 & random.bits() as u32 & random.bits() as u32;
                made.alive.push(whole & !removed);
            }
            let list = place.min(4) as u32;
            made.segments.push(Segment { list, groups: first..made.alive.len() as u32 });
            let mut to = vec![0; count.div_ceil(GROUP) * shape.words() * GROUP];
            shape.arrange(Codes { parts, bits, rows: count, bytes: &packed }, &mut to);
            made.codes.extend(to);
            made.bytes.extend(packed);
        }
        made
    }

    /// The shortlist of the scan on slots of some segments, with the numbers with which their sums begin.
    fn on_slots(
        made: &Made,
        (codebook, shape): (&Codebook, Shape),
        (query, centroids): (&[f32], &[f32]),
        (numbers, bases): (&[u32], &[f32]),
    ) -> Shortlist {
        let (path, Shape { dimensions, parts, bits, .. }) = (CodePath::detect(), shape);
        let mut list = Shortlist::new(40, 0.0);
        let (mut terms, mut tables) = (vec![0.0; shape.tables_len()], vec![0.0; shape.tables_len()]);
        for (number, base) in numbers.iter().zip(bases) {
            let Segment { list: of_list, groups } = made.segments[*number as usize].clone();
            codebook.products(path, query, &mut tables);
            if shape.terms != Terms::None {
                let centroid = &centroids[of_list as usize * dimensions..][..dimensions];
                codebook.terms(path, centroid, &mut terms);
                tables.iter_mut().zip(&terms).for_each(|(x, y)| *x += y);
            }
            let (first, end) = (groups.start as usize, groups.end as usize);
            let size = group_bytes(parts, bits);
            let bytes = &made.bytes[first * size..end * size];
            let codes = Codes { parts, bits, rows: ROWS[*number as usize], bytes };
            let (mask, first_row) = (Some(&made.alive[first..end]), (first * GROUP) as u32);
            Scanner::new(path).scan(codes, &tables, *base, mask, &mut list, first_row);
        }
        list
    }

    /// The segments of each of nine queries, and the numbers with which their sums begin.
    fn of_queries() -> Vec<(Vec<u32>, Vec<f32>)> {
        let of_query = |query: u32| {
            let has = |number: &u32| query == 8 || !(query * 7 + number).is_multiple_of(3);
            let numbers: Vec<u32> = (0..6).filter(has).collect();
            let bases = numbers.iter().map(|number| [2.5, -1.0][*number as usize % 2]).collect();
            (numbers, bases)
        };
        (0..9).map(of_query).collect()
    }

    /// The k least sums of the twin are the shortlist of the scan on slots, ties and rows that are left out included.
    #[test]
    fn the_twin_selects_what_the_scan_does() {
        let mut random = Random::mixed(12);
        let sizes = [
            (1, 1, Bits::Eight),
            (3, 2, Bits::Four),
            (16, 5, Bits::Eight),
            (33, 4, Bits::Four),
            (128, 16, Bits::Eight),
            (129, 32, Bits::Four),
            (130, 65, Bits::Eight),
        ];
        let kinds = [(0, Terms::Kept), (3, Terms::Computed), (2, Terms::None)];
        for ((dimensions, parts, bits), (levels, terms)) in
            sizes.into_iter().flat_map(|size| kinds.map(|kind| (size, kind)))
        {
            let sample = numbers(&mut random, 300 * dimensions, levels);
            let (path, mut pieces) = (CodePath::detect(), one_by_one());
            let codebook = Codebook::train(&sample, dimensions, parts, bits, 1, path, &mut pieces);
            let codebook = codebook.unwrap().unwrap();
            let shape = Shape::new(&codebook, terms);
            let made = made(&mut random, &codebook, shape, levels);
            let centroids = numbers(&mut random, 5 * dimensions, levels);
            let queries = numbers(&mut random, 9 * dimensions, levels);
            let of_queries = of_queries();
            let each = of_queries.iter().map(|(numbers, bases)| (&numbers[..], &bases[..]));
            let pairs = Pairs::new(&made.segments, each.clone());
            let scanned = Scanned {
                codebook: &codebook,
                shape,
                codes: &made.codes,
                alive: &made.alive,
                centroids: &centroids,
                queries: &queries,
            };
            let (sums, groups) = scanned.sums(&pairs);
            for (query, of_query) in each.enumerate() {
                let vector = &queries[query * dimensions..][..dimensions];
                let list = on_slots(&made, (&codebook, shape), (vector, &centroids), of_query);
                let range = pairs.starts[query] as usize..pairs.starts[query + 1] as usize;
                let found = k_least(&sums[range.clone()], 40).into_iter();
                let place = |(sum, at): (f32, u32)| {
                    let at = range.start + at as usize;
                    (sum, groups[at / GROUP] * GROUP as u32 + (at % GROUP) as u32)
                };
                let found: Vec<(f32, u32)> =
                    found.filter(|(sum, _)| *sum < f32::INFINITY).map(place).collect();
                assert_eq!(
                    found,
                    list.by_score(),
                    "{dimensions} numbers, {parts} parts, {bits:?}, {terms:?}"
                );
            }
        }
    }
}
