//! The one nearest row by whole numbers of a byte: products of them have no error, and cost a quarter of those of f32, or with AVX2
//! alone a half.
//!
//! A row less the centre is `s c + r`: whole numbers `c` from -127 to 127, a step `s` of its own, and a rest `r`. So is a query, with
//! whole numbers from -31 to 31 where AVX2 adds products in 16 bits; and the distance of both is that of their whole parts but for the norms of both rests, by the triangle inequality. Rows
//! beyond the least distance of whole parts by more than these norms, twice, are not nearest.
//!
//! Invariant: the nearest row by f64 distance is among the candidates. A score is half the squared distance of the whole parts,
//! less the query's part of it, in f32; a slack covers its roundings.

#[cfg(target_arch = "x86_64")]
mod x86;
#[cfg(test)]
mod tests;

use super::nearest::collect;
use super::{Candidate, UNIT};
use crate::CodePath;
use crate::lanes::{Lanes, ROUND, Work, run};

/// Rows of a panel.
const PANEL: usize = 64;
/// Queries of a tile: sums of a panel fill the registers.
const QUERIES: usize = 6;
/// Panels that all tiles take one after the other; the scores of a tile lie in memory.
const PANELS_AT_ONCE: usize = 4;
/// The largest whole number of a row.
const WHOLE_MAX: i32 = 127;
/// That of a query if sums of four products are held in 16 bits.
const FEW_MAX: i32 = 31;
const _: () = assert!(4 * (2 * FEW_MAX + 1) * WHOLE_MAX < 1 << 15);
/// Sums of as many products of whole numbers are whole numbers of f32.
pub(crate) const DIMENSIONS_MAX: usize = 1024;
const _: () = assert!(DIMENSIONS_MAX * 127 * 127 < 1 << 24);
/// Largest numbers of rows whose squares are normal numbers.
const SIZES: std::ops::RangeInclusive<f32> = 1e-15..=1e15;
/// A sum of squares in f32 is off by less than this part, and so is its root.
const SUM_OFF: f64 = 1e-4;

/// The instructions of products of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Products {
    /// Plain loops.
    #[cfg(not(target_arch = "x86_64"))]
    Plain,
    /// Pairs of products in 16 bits.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    #[cfg(target_arch = "x86_64")]
    Vnni,
}

/// The whole part of a row or query.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// The step; NaN if the numbers have no whole parts.
    step: f32,
    /// The squared norm of the whole part.
    square: f64,
    /// The norm of the rest, from above.
    rest: f64,
}

/// Rows as whole numbers.
#[derive(Clone, Debug)]
pub(crate) struct Coded {
    products: Products,
    dimensions: usize,
    rows: usize,
    centre: Vec<f32>,
    /// Panel by panel, word by word, one for each row: four numbers each.
    words: Vec<i32>,
    /// For each row: what a query's shift adds to its sum, with the sign turned.
    offsets: Vec<i32>,
    steps: Vec<f32>,
    /// Half the squared norm of the whole part of each row; infinite where there is no row.
    halves: Vec<f32>,
    norm_max: f64,
    rest_max: f64,
}

/// Queries as whole numbers, and what is left of the rows for each.
#[derive(Debug, Default)]
pub(crate) struct CodedQueries {
    words: Vec<i32>,
    parts: Vec<Part>,
    least: Vec<f32>,
    limits: Vec<f32>,
    scores: Vec<f32>,
}

/// Between a byte and a signed byte.
const SIGN: i32 = 128;

impl Products {
    /// Those of a path; `None` if f32 is faster.
    fn of(path: CodePath) -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        {
            match path {
                CodePath::Avx512 if path.is_available() && x86::has_products() => Some(Self::Vnni),
                CodePath::AvxVnni if path.is_available() => Some(Self::AvxVnni),
                CodePath::Portable => None,
                _ => CodePath::Avx2.is_available().then_some(Self::Avx2),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            (path != CodePath::Portable && path.is_available()).then_some(Self::Plain)
        }
    }

    /// The largest whole number of a query.
    fn query_max(self) -> i32 {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => FEW_MAX,
            _ => WHOLE_MAX,
        }
    }

    /// Taken off a query's numbers, which are bytes without a sign.
    fn shift(self) -> i32 {
        self.query_max() + 1
    }
}

impl Coded {
    /// Whether a path has the instructions that make whole numbers worth it.
    pub(crate) fn is_fast(path: CodePath) -> bool {
        Products::of(path).is_some()
    }

    /// The whole parts of some rows for a path; `None` if it is not fast, one has none, or there are more than [`DIMENSIONS_MAX`]
    /// dimensions.
    pub(crate) fn new(path: CodePath, rows: &[f32], dimensions: usize, centre: &[f32]) -> Option<Self> {
        let products = Products::of(path)?;
        if dimensions > DIMENSIONS_MAX {
            return None;
        }
        let (mut codes, mut parts) = (Vec::new(), Vec::new());
        let whole_max = WHOLE_MAX as f32;
        run(path, Whole { rows, dimensions, centre, whole_max, codes: &mut codes, parts: &mut parts });
        if parts.iter().any(|part| part.step.is_nan()) {
            return None;
        }
        let (count, per_row) = (parts.len(), dimensions.div_ceil(4));
        let padded = count.next_multiple_of(PANEL);
        let mut coded = Self {
            products,
            dimensions,
            rows: count,
            centre: centre.to_vec(),
            words: vec![0; padded * per_row],
            offsets: vec![0; padded],
            steps: vec![0.0; padded],
            halves: vec![f32::INFINITY; padded],
            norm_max: 0.0,
            rest_max: 0.0,
        };
        for (row, (part, words)) in parts.iter().zip(codes.chunks_exact(per_row)).enumerate() {
            let to = &mut coded.words[row / PANEL * PANEL * per_row + row % PANEL..];
            for (place, word) in words.iter().enumerate() {
                to[place * PANEL] = *word;
            }
            let bytes = words.iter().flat_map(|word| word.to_le_bytes());
            coded.offsets[row] =
                -products.shift() * bytes.map(|byte| i32::from(byte.cast_signed())).sum::<i32>();
            coded.steps[row] = part.step;
            coded.halves[row] = (part.square * 0.5) as f32;
            coded.norm_max = coded.norm_max.max(part.square.sqrt());
            coded.rest_max = coded.rest_max.max(part.rest);
        }
        Some(coded)
    }

    /// The rows that may be nearest to each query, query by query, each with ascending rows; at least one for each if there
    /// is a row. `known` has a distance for each query within which there is a row, or is empty.
    ///
    /// # Panics
    /// If this machine has not the instructions.
    pub(crate) fn nearest(
        &self,
        path: CodePath,
        queries: &[f32],
        known: &[f64],
        of: &mut CodedQueries,
        found: &mut Vec<Candidate>,
    ) {
        found.clear();
        of.set(path, queries, self);
        for ((limit, part), range) in of.limits.iter_mut().zip(&of.parts).zip(known) {
            *limit = self.limit(part, *range);
        }
        let (count, per_row) = (of.parts.len(), self.dimensions.div_ceil(4));
        let mut chunk = 0;
        while chunk * PANEL < self.rows {
            let upto = (chunk + PANELS_AT_ONCE).min(self.rows.div_ceil(PANEL));
            let stride = (upto - chunk) * PANEL;
            of.scores.resize(QUERIES * PANELS_AT_ONCE * PANEL, 0.0);
            for first in (0..count).step_by(QUERIES) {
                let mut steps = [0.0; QUERIES];
                let known = QUERIES.min(count - first);
                steps.iter_mut().zip(&of.parts[first..]).for_each(|(step, part)| *step = part.step);
                let words = &of.words[first * per_row..][..QUERIES * per_row];
                let least = self.scores(chunk..upto, words, &steps, &mut of.scores);
                for (place, least) in least.into_iter().enumerate().take(known) {
                    let query = first + place;
                    if least < of.least[query] {
                        of.least[query] = least;
                        let limit = self.limit(&of.parts[query], self.range(&of.parts[query], least));
                        of.limits[query] = if limit < of.limits[query] { limit } else { of.limits[query] };
                    }
                    if least <= of.limits[query] {
                        let scores = &of.scores[place * stride..][..stride];
                        let (limit, first) = (of.limits[query], chunk * PANEL);
                        run(path, Collect { scores, limit, query, first, found });
                    }
                }
            }
            chunk = upto;
        }
        found.retain(|candidate| candidate.score <= of.limits[candidate.query as usize]);
        for query in (0..count as u32).filter(|query| of.parts[*query as usize].step.is_nan()) {
            found.extend((0..self.rows as u32).map(|row| Candidate { query, row, score: f32::NEG_INFINITY }));
        }
        found.sort_unstable_by_key(|candidate| (candidate.query, candidate.row));
    }

    /// The largest score of a row within a distance of a query.
    pub(crate) fn limit_within(&self, of: &CodedQueries, query: u32, range: f64) -> f32 {
        self.limit(&of.parts[query as usize], range)
    }

    /// The distance within which there is a row, by the least score.
    fn range(&self, query: &Part, least: f32) -> f64 {
        let square = query.square + 2.0 * (f64::from(least) + self.slack(query));
        square.max(0.0).sqrt() + query.rest + self.rest_max
    }

    fn limit(&self, query: &Part, range: f64) -> f32 {
        let reach = (range + query.rest + self.rest_max) * (1.0 + 1e-9);
        (((reach * reach - query.square) * 0.5 + self.slack(query)) as f32).next_up()
    }

    /// Bound on the error of a score: its products are exact, and it is rounded four times.
    fn slack(&self, query: &Part) -> f64 {
        8.0 * UNIT * self.norm_max * (self.norm_max + query.square.sqrt())
    }

    /// Writes the scores of a tile of queries and some panels, query after query, and returns the least of each query.
    fn scores(
        &self,
        panels: std::ops::Range<usize>,
        words: &[i32],
        steps: &[f32; QUERIES],
        scores: &mut [f32],
    ) -> [f32; QUERIES] {
        match self.products {
            #[cfg(not(target_arch = "x86_64"))]
            Products::Plain => self.plain_scores(panels, words, steps, scores),
            #[cfg(target_arch = "x86_64")]
            Products::Avx2 => x86::scores_avx2(self, panels, words, steps, scores),
            #[cfg(target_arch = "x86_64")]
            Products::AvxVnni => x86::scores_avx_vnni(self, panels, words, steps, scores),
            #[cfg(target_arch = "x86_64")]
            Products::Vnni => x86::scores_vnni(self, panels, words, steps, scores),
        }
    }

    /// [`Coded::scores`] in plain loops.
    #[cfg(any(test, not(target_arch = "x86_64")))]
    fn plain_scores(
        &self,
        panels: std::ops::Range<usize>,
        words: &[i32],
        steps: &[f32; QUERIES],
        scores: &mut [f32],
    ) -> [f32; QUERIES] {
        let (per_row, stride) = (self.dimensions.div_ceil(4), panels.len() * PANEL);
        let mut least = [f32::INFINITY; QUERIES];
        for (query, words) in words.chunks_exact(per_row).enumerate() {
            for (place, row) in (panels.start * PANEL..panels.end * PANEL).enumerate() {
                let mut sum = self.offsets[row];
                for (word, own) in words.iter().enumerate() {
                    let other =
                        self.words[(row / PANEL * per_row + word) * PANEL + row % PANEL].to_le_bytes();
                    let pairs = own.to_le_bytes().into_iter().zip(other);
                    sum += pairs.map(|(a, b)| i32::from(a) * i32::from(b.cast_signed())).sum::<i32>();
                }
                let score = (-steps[query]).mul_add(sum as f32 * self.steps[row], self.halves[row]);
                scores[query * stride + place] = score;
                least[query] = if score < least[query] { score } else { least[query] };
            }
        }
        least
    }
}

impl CodedQueries {
    fn set(&mut self, path: CodePath, queries: &[f32], coded: &Coded) {
        let Coded { products, dimensions, centre, .. } = coded;
        self.words.clear();
        self.parts.clear();
        let work = Whole {
            rows: queries,
            dimensions: *dimensions,
            centre,
            whole_max: products.query_max() as f32,
            codes: &mut self.words,
            parts: &mut self.parts,
        };
        run(path, work);
        // From whole numbers to bytes without a sign: adding 128 to each never carries, nor does taking some of it off again.
        let excess = i32::from_ne_bytes([(SIGN - products.shift()) as u8; 4]);
        let sign = i32::from_ne_bytes([SIGN as u8; 4]);
        self.words.iter_mut().for_each(|word| *word = (*word ^ sign).wrapping_sub(excess));
        let count = self.parts.len();
        self.words.resize(count.next_multiple_of(QUERIES) * dimensions.div_ceil(4), 0);
        self.least.clear();
        self.least.resize(count, f32::INFINITY);
        self.limits.clear();
        // Without whole parts a query has no scores.
        let limit = |part: &Part| if part.step.is_nan() { f32::NAN } else { f32::INFINITY };
        self.limits.extend(self.parts.iter().map(limit));
    }
}

/// Appends the rows with scores within the limit.
struct Collect<'a> {
    scores: &'a [f32],
    limit: f32,
    query: usize,
    /// The first row.
    first: usize,
    found: &'a mut Vec<Candidate>,
}

impl Work for Collect<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { scores, limit, query, first, found } = self;
        collect(lanes, scores, limit, query, first, found);
    }
}

/// Splits rows into whole parts and rests.
struct Whole<'a> {
    rows: &'a [f32],
    dimensions: usize,
    centre: &'a [f32],
    whole_max: f32,
    /// Words of four whole numbers, row after row; zeros fill the last one.
    codes: &'a mut Vec<i32>,
    parts: &'a mut Vec<Part>,
}

impl Work for Whole<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { rows, dimensions, centre, whole_max, codes, parts } = self;
        let padded = dimensions.next_multiple_of(16);
        let mut moved = vec![0.0f32; padded];
        let mut whole = vec![0.0f32; padded];
        for row in rows.chunks_exact(dimensions) {
            for ((to, x), centre) in moved.iter_mut().zip(row).zip(centre) {
                *to = x - centre;
            }
            let mut largest = lanes.splat(0.0);
            for numbers in moved.chunks_exact(L::COUNT) {
                largest = lanes.max(lanes.abs(lanes.load(numbers)), largest);
            }
            let largest = most(lanes, largest);
            let step = largest / whole_max;
            let inverse = if largest > 0.0 { 1.0 / step } else { 0.0 };
            let (mut square, mut rest) = (lanes.splat(0.0), lanes.splat(0.0));
            for (numbers, whole) in moved.chunks_exact(L::COUNT).zip(whole.chunks_exact_mut(L::COUNT)) {
                let x = lanes.load(numbers);
                let scaled = lanes.mul(x, lanes.splat(inverse));
                let near = lanes.sub(lanes.add(scaled, lanes.splat(ROUND)), lanes.splat(ROUND));
                let near = lanes.max(lanes.min(near, lanes.splat(whole_max)), lanes.splat(-whole_max));
                square = lanes.mul_add(near, near, square);
                let left = lanes.sub(x, lanes.mul(near, lanes.splat(step)));
                rest = lanes.mul_add(left, left, rest);
                // The lowest byte of this is the whole number.
                lanes.store(lanes.add(near, lanes.splat(ROUND)), whole);
            }
            for four in whole[..dimensions.next_multiple_of(4)].as_chunks::<4>().0 {
                let byte = |x: f32| x.to_bits() as u8;
                codes.push(i32::from_le_bytes([byte(four[0]), byte(four[1]), byte(four[2]), byte(four[3])]));
            }
            let square = f64::from(sum(lanes, square)) * f64::from(step) * f64::from(step);
            let rest = f64::from(sum(lanes, rest)).sqrt() * (1.0 + SUM_OFF);
            // Less the centre, times the step and less the whole part: three roundings of each number.
            let rest = rest + 4.0 * UNIT * (square.sqrt() + rest);
            let is_whole = largest == 0.0 || (SIZES.contains(&largest) && rest.is_finite());
            parts.push(Part { step: if is_whole { step } else { f32::NAN }, square, rest });
        }
    }
}

/// The sum of the numbers of a vector.
#[inline(always)]
fn sum<L: Lanes>(lanes: L, vector: L::V) -> f32 {
    let mut numbers = [0.0; 16];
    lanes.store(vector, &mut numbers);
    let mut sum = 0.0;
    for number in numbers {
        sum += number;
    }
    sum
}

/// The largest number of a vector; NaN if there is one.
#[inline(always)]
fn most<L: Lanes>(lanes: L, vector: L::V) -> f32 {
    let mut numbers = [0.0; 16];
    lanes.store(vector, &mut numbers);
    let mut most = 0.0;
    for number in numbers {
        most = if number <= most { most } else { number };
    }
    most
}
