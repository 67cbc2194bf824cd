//! Distances of a block of queries from many rows in f32, with selection in the same loop.
//!
//! The lanes of a vector are queries: a number of a row is broadcast and multiplied with the numbers of a panel of queries,
//! which lie side by side. So rows stay as they lie in a store, and each vector of results is compared with the limits of
//! its queries while it is in a register: almost all are dropped there.
//!
//! A value is `base - factor * <q, x>` of a row: the squared distance less the query's squared norm, twice the opposite of
//! the inner product, or the opposite of the cosine. [`FlatQueries::error`] bounds its error by the norms.

use super::measure::{VectorMeasure, inner_product};
use super::nearest::Nearest;
use crate::CodePath;
use crate::lanes::{Lanes, Work, run};
use crate::numbers::{Number, VectorRef};
use crate::with_numbers;

/// The unit roundoff of f32.
const UNIT: f64 = 1.0 / (1 << 24) as f64;
/// Rows of smaller squared norms, and those of norms as large as these are small, have no cosines in f32.
const SQUARE_MIN: f64 = 1.0 / (1_u128 << 100) as f64 / (1_u128 << 100) as f64;
/// From this square of norms on, products and squares may leave f32.
const SQUARE_MAX: f64 = 1e37;
/// Rows that all panels take while they are in the cache.
const BLOCK_ROWS: usize = 96;

/// Some queries, packed for the instructions of one path.
#[derive(Debug)]
pub struct FlatQueries {
    path: CodePath,
    measure: VectorMeasure,
    dimensions: usize,
    panels: Vec<Panel>,
    /// Norms; for the cosine, for which queries are normalised, 1, or 0 for a query of zeros.
    norms: Vec<f64>,
}

/// Queries side by side: `vectors` vectors of them for each dimension.
#[derive(Debug)]
struct Panel {
    first: usize,
    count: usize,
    vectors: usize,
    numbers: Vec<f32>,
}

/// Lanes, vectors of a full panel, and rows of the inner loop of a path: their products are held in registers.
const fn shape(path: CodePath) -> (usize, usize) {
    match path {
        CodePath::Avx512 => (16, 4),
        CodePath::Avx2 | CodePath::AvxVnni => (8, 2),
        _ => (4, 2),
    }
}

/// The norm of a query: for the cosine, for which queries are normalised, 1, or 0 for a query of zeros.
pub(super) fn norm_of(measure: VectorMeasure, norm: f64) -> f64 {
    if measure == VectorMeasure::Cosine && norm > 0.0 { 1.0 } else { norm }
}

/// The largest error of a value in f32, for a query of this norm among rows of at most this norm.
pub(super) fn error_of(measure: VectorMeasure, dimensions: usize, norm: f64, norm_max: f64) -> f64 {
    let steps = dimensions as f64 + 8.0;
    let relative = 1.01 * steps * UNIT / (1.0 - steps * UNIT);
    // Products that are too small for normal numbers are off by 2^-149 each.
    let tiny = dimensions as f64 * 2.0_f64.powi(-148);
    // Numbers whose products leave f32 have no values: every row is ranked.
    let is_large = !((norm + norm_max).powi(2) < SQUARE_MAX);
    match measure {
        VectorMeasure::Cosine => relative + tiny.max(1e-30),
        _ if is_large => f64::INFINITY,
        VectorMeasure::InnerProduct => 2.0 * relative * norm * norm_max + tiny,
        VectorMeasure::L2 => {
            // Ids decide among distances that differ less than f64 tells, so roundings of the distance are errors too.
            let ranked = steps * f64::EPSILON * (norm + norm_max).powi(2);
            let square = 4.0 * UNIT * norm_max * norm_max;
            2.0 * relative * norm * norm_max + square + ranked + tiny
        }
    }
}

impl FlatQueries {
    /// Packs queries.
    ///
    /// # Panics
    /// If this machine lacks the instructions, or a query has other than `dimensions` numbers.
    pub fn new(path: CodePath, measure: VectorMeasure, dimensions: usize, queries: &[&[f32]]) -> Self {
        assert!(path.is_available(), "this machine has no {path} instructions");
        let (lanes, vectors) = shape(path);
        let (mut panels, mut norms) = (Vec::new(), Vec::new());
        for (idx, group) in queries.chunks(lanes * vectors).enumerate() {
            let vectors = if group.len() <= lanes { 1 } else { vectors };
            let width = lanes * vectors;
            let mut numbers = vec![0.0; width * dimensions];
            for (lane, query) in group.iter().enumerate() {
                assert_eq!(query.len(), dimensions, "numbers of a query");
                let norm = inner_product(query, query).sqrt();
                let is_scaled = measure == VectorMeasure::Cosine && norm > 0.0;
                for (place, number) in query.iter().enumerate() {
                    let number = f64::from(*number);
                    numbers[place * width + lane] = if is_scaled { number / norm } else { number } as f32;
                }
                norms.push(norm_of(measure, norm));
            }
            panels.push(Panel { first: idx * lanes * shape(path).1, count: group.len(), vectors, numbers });
        }
        Self { path, measure, dimensions, panels, norms }
    }

    /// Number of queries.
    pub fn len(&self) -> usize {
        self.norms.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.norms.is_empty()
    }

    /// The value of a row at a distance from a query, from above: [`Nearest`] begins with it where farther rows do not matter.
    pub fn value_of(&self, query: usize, distance: f64) -> f64 {
        self.measure.value_of(self.norms[query], distance)
    }

    /// The largest error of a value, among rows of at most this norm.
    pub fn error(&self, query: usize, norm_max: f64) -> f64 {
        error_of(self.measure, self.dimensions, self.norms[query], norm_max)
    }

    /// Adds rows to the nearest of each query. The first row is element `first`; rows that `skips` names are left out.
    ///
    /// # Panics
    /// If the numbers are not whole rows, or there are not as many lists as queries.
    pub fn scan(
        &self,
        rows: VectorRef<'_>,
        first: u32,
        skips: Option<&dyn Fn(u32) -> bool>,
        nearest: &mut [Nearest],
    ) {
        assert_eq!(nearest.len(), self.len(), "a list for each query");
        assert!(rows.len().is_multiple_of(self.dimensions), "whole rows");
        with_numbers!(rows, rows => self.scan_rows(rows, first, skips, nearest));
    }

    fn scan_rows<N: Number>(
        &self,
        rows: &[N],
        first: u32,
        skips: Option<&dyn Fn(u32) -> bool>,
        nearest: &mut [Nearest],
    ) {
        let (mut wide, mut terms, mut norm_max) = (Vec::new(), Vec::new(), -1.0_f64);
        let mut limits: Vec<f32> = Vec::new();
        for (block, rows) in rows.chunks(BLOCK_ROWS * self.dimensions).enumerate() {
            terms.clear();
            let mut norm = norm_max;
            for row in rows.chunks_exact(self.dimensions) {
                let square = inner_product(row, row);
                norm = if square.sqrt() <= norm { norm } else { square.sqrt() };
                terms.push(row_terms(self.measure, square));
            }
            if norm != norm_max || limits.is_empty() {
                norm_max = norm;
                for (query, nearest) in nearest.iter_mut().enumerate() {
                    nearest.raise_error(self.error(query, norm_max));
                }
                limits = nearest.iter().map(Nearest::limit_f32).collect();
            }
            let numbers = as_f32(rows, &mut wide);
            let first = first + (block * BLOCK_ROWS) as u32;
            for panel in &self.panels {
                let queries = panel.first..panel.first + panel.count;
                let (limits, nearest) = (&mut limits[queries.clone()], &mut nearest[queries]);
                let sink = Sink { first, skips, limits, nearest };
                run(self.path, Scan { panel, dimensions: self.dimensions, numbers, terms: &terms, sink });
            }
        }
    }
}

/// The base and the factor of a row of this squared norm.
pub(super) fn row_terms(measure: VectorMeasure, square: f64) -> (f32, f32) {
    match measure {
        VectorMeasure::L2 => (square as f32, 2.0),
        VectorMeasure::InnerProduct => (0.0, 2.0),
        VectorMeasure::Cosine if square == 0.0 => (0.0, 0.0),
        VectorMeasure::Cosine if (SQUARE_MIN..=1.0 / SQUARE_MIN).contains(&square) => {
            (0.0, (1.0 / square.sqrt()) as f32)
        }
        // Products of such numbers leave f32: the row is ranked whatever its value.
        VectorMeasure::Cosine => (f32::NAN, 0.0),
    }
}

/// The numbers as f32: themselves, or widened into `wide`.
fn as_f32<'a, N: Number>(numbers: &'a [N], wide: &'a mut Vec<f32>) -> &'a [f32] {
    if let Some(numbers) = N::as_f32(numbers) {
        return numbers;
    }
    wide.clear();
    wide.extend(numbers.iter().map(|number| number.widened()));
    wide
}

/// The place of a panel's results.
struct Sink<'a> {
    first: u32,
    skips: Option<&'a dyn Fn(u32) -> bool>,
    limits: &'a mut [f32],
    nearest: &'a mut [Nearest],
}

impl Sink<'_> {
    #[cold]
    #[inline(never)]
    fn take(&mut self, queries: usize, mut mask: u32, row: usize, values: &[f32]) {
        let element = self.first + row as u32;
        if self.skips.is_some_and(|skips| skips(element)) {
            return;
        }
        while mask != 0 {
            let lane = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let Some(nearest) = self.nearest.get_mut(queries + lane) else { return };
            if nearest.push(f64::from(values[lane]), element) {
                self.limits[queries + lane] = nearest.limit_f32();
            }
        }
    }
}

/// A panel of queries and a block of rows.
struct Scan<'a> {
    panel: &'a Panel,
    dimensions: usize,
    numbers: &'a [f32],
    terms: &'a [(f32, f32)],
    sink: Sink<'a>,
}

impl Work for Scan<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        match (L::COUNT, self.panel.vectors) {
            (16, 4) => self.all::<L, 4, 6>(lanes),
            (16, _) => self.all::<L, 1, 12>(lanes),
            (8, 2) => self.all::<L, 2, 6>(lanes),
            (8, _) => self.all::<L, 1, 6>(lanes),
            (_, 2) => self.all::<L, 2, 2>(lanes),
            _ => self.all::<L, 1, 4>(lanes),
        }
    }
}

impl Scan<'_> {
    #[inline(always)]
    fn all<L: Lanes, const V: usize, const R: usize>(mut self, lanes: L) {
        let mut first = 0;
        while first < self.terms.len() {
            self.rows::<L, V, R>(lanes, first);
            first += R;
        }
    }

    /// Some rows, from `first` on; the last one stands for those that are missing.
    #[inline(always)]
    fn rows<L: Lanes, const V: usize, const R: usize>(&mut self, lanes: L, first: usize) {
        let (dimensions, count) = (self.dimensions, self.terms.len());
        let mut rows = [&self.numbers[..0]; R];
        let mut r = 0;
        while r < R {
            let row = (first + r).min(count - 1);
            rows[r] = &self.numbers[row * dimensions..(row + 1) * dimensions];
            r += 1;
        }
        let mut sums = [[lanes.splat(0.0); V]; R];
        let width = V * L::COUNT;
        for (place, queries) in self.panel.numbers.chunks_exact(width).enumerate() {
            let mut loaded = [lanes.splat(0.0); V];
            let mut v = 0;
            while v < V {
                loaded[v] = lanes.load(&queries[v * L::COUNT..]);
                v += 1;
            }
            let mut r = 0;
            while r < R {
                let number = lanes.splat(rows[r][place]);
                let mut v = 0;
                while v < V {
                    sums[r][v] = lanes.mul_add(number, loaded[v], sums[r][v]);
                    v += 1;
                }
                r += 1;
            }
        }
        let mut r = 0;
        while r < R && first + r < count {
            let (base, factor) = self.terms[first + r];
            let mut v = 0;
            while v < V {
                let queries = v * L::COUNT;
                let value = lanes.mul_add(lanes.splat(-factor), sums[r][v], lanes.splat(base));
                let mut limits = [f32::NEG_INFINITY; 16];
                let known = self.sink.limits.len().saturating_sub(queries).min(L::COUNT);
                let from = queries.min(self.sink.limits.len());
                limits[..known].copy_from_slice(&self.sink.limits[from..from + known]);
                let mask = lanes.not_above(value, lanes.load(&limits)) & ((1_u32 << known) - 1);
                if mask != 0 {
                    let mut values = [0.0; 16];
                    lanes.store(value, &mut values);
                    self.sink.take(queries, mask, first + r, &values);
                }
                v += 1;
            }
            r += 1;
        }
    }
}
