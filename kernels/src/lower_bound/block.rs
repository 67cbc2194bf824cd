//! The loops over a block of objects, compiled for each instruction set.
//!
//! Plain loops over arrays of one length, which the compiler turns into vector instructions; the doors below compile
//! the same loops for AVX2 and AVX-512. All hold [`LANES`] objects in registers and go through the columns. Memory is
//! the limit: whoever bounds block after block tells the next one, which is asked for in the order in which it lies while
//! this one is computed with. It is asked for into the second level: both together are more than the first level holds.

use super::query::BoundQuery;
use super::{Bound, PACKED_OBJECTS};
use crate::CodePath;

/// Objects that are held in registers: four vectors of AVX-512 for the lower bounds and four for the upper ones.
const LANES: usize = 64;
const _: () = assert!(PACKED_OBJECTS.is_multiple_of(LANES));

/// A block of a pivot table: columns of [`PACKED_OBJECTS`] numbers, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// Distances to the pivots, a column each.
    pub distances: &'a [f32],
    /// Apexes, a column each coordinate, the altitude last.
    pub apexes: &'a [f32],
}

/// Lower and upper bounds of the objects of a block; of places without an object, anything.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Distances are not below these.
    pub lower: [f32; PACKED_OBJECTS],
    /// Distances are not above these.
    pub upper: [f32; PACKED_OBJECTS],
}

impl Default for Bounds {
    fn default() -> Self {
        Self { lower: [0.0; PACKED_OBJECTS], upper: [f32::INFINITY; PACKED_OBJECTS] }
    }
}

/// Bounds blocks with the instructions of one code path.
#[derive(Clone, Copy, Debug)]
pub struct Evaluator {
    path: CodePath,
}

impl Evaluator {
    /// An evaluator that uses the instructions of `path`.
    ///
    /// # Panics
    /// When this machine lacks them, see [`CodePath::is_available`].
    pub fn new(path: CodePath) -> Self {
        assert!(path.is_available(), "this machine has no {path} instructions");
        Self { path }
    }

    /// Bounds the distance of a query to each object of a block.
    ///
    /// # Panics
    /// When the block has another number of columns than the query has numbers.
    pub fn bounds(&self, query: &BoundQuery, block: Block<'_>, bounds: &mut Bounds) {
        self.bounds_before(query, block, None, bounds);
    }

    /// The same, when another block comes next: it is brought nearer meanwhile.
    ///
    /// # Panics
    /// As [`Evaluator::bounds`].
    pub fn bounds_before(
        &self,
        query: &BoundQuery,
        block: Block<'_>,
        next: Option<Block<'_>>,
        bounds: &mut Bounds,
    ) {
        let (columns, next) = match query.bound {
            Bound::Simplex => (block.apexes, next.map_or(&[][..], |next| next.apexes)),
            _ => (block.distances, next.map_or(&[][..], |next| next.distances)),
        };
        assert_eq!(
            columns.len(),
            query.numbers.len() * PACKED_OBJECTS,
            "a column for each of the query's numbers"
        );
        match self.path {
            CodePath::Portable => run(query, columns, next, bounds),
            #[cfg(target_arch = "x86_64")]
            CodePath::Avx2 => x86::run_avx2(query, columns, next, bounds),
            #[cfg(target_arch = "x86_64")]
            CodePath::Avx512 => x86::run_avx512(query, columns, next, bounds),
            #[cfg(not(target_arch = "x86_64"))]
            CodePath::Avx2 | CodePath::Avx512 => unreachable!("Evaluator::new refuses it"),
        }
    }
}

#[inline(always)]
fn run(query: &BoundQuery, columns: &[f32], next: &[f32], bounds: &mut Bounds) {
    match query.bound {
        Bound::Simplex => apexes(query, columns, next, bounds),
        Bound::Triangular => triangles(query, columns, next, bounds),
        Bound::Ptolemaic => {
            // For the upper bounds.
            triangles(query, columns, next, bounds);
            bounds.lower = [0.0; PACKED_OBJECTS];
            quadrilaterals(query, columns, bounds);
        }
        Bound::Combined => {
            triangles(query, columns, next, bounds);
            quadrilaterals(query, columns, bounds);
        }
    }
}

/// The objects from `first` on in a column.
#[inline(always)]
fn column(columns: &[f32], number: usize, first: usize) -> &[f32; LANES] {
    columns[number * PACKED_OBJECTS + first..].first_chunk().expect("a whole chunk of a column")
}

/// The bounds of as many objects.
#[inline(always)]
fn chunk(bounds: &mut [f32; PACKED_OBJECTS], first: usize) -> &mut [f32; LANES] {
    bounds[first..].first_chunk_mut().expect("a whole chunk")
}

// Not f32::max: what that does with a NaN costs instructions, and there is none.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

#[inline(always)]
fn triangles(query: &BoundQuery, columns: &[f32], next: &[f32], bounds: &mut Bounds) {
    // As much of the next block for each piece of this one.
    let mut ahead = next.chunks_exact(LANES);
    for first in (0..PACKED_OBJECTS).step_by(LANES) {
        let (mut largest, mut least) = ([0.0; LANES], [f32::INFINITY; LANES]);
        for (number, &q) in query.numbers.iter().enumerate() {
            if let Some(piece) = ahead.next() {
                fetch(piece);
            }
            let column = column(columns, number, first);
            for lane in 0..LANES {
                let o = column[lane];
                largest[lane] = larger((q - o).abs(), largest[lane]);
                least[lane] = -larger(-(q + o), -least[lane]);
            }
        }
        let (lower, upper) = (chunk(&mut bounds.lower, first), chunk(&mut bounds.upper, first));
        for lane in 0..LANES {
            lower[lane] = larger(largest[lane] - query.slack, 0.0);
            upper[lane] = least[lane] + query.slack;
        }
    }
}

/// Raises the lower bounds to what pairs of pivots say.
#[inline(always)]
fn quadrilaterals(query: &BoundQuery, columns: &[f32], bounds: &mut Bounds) {
    for first in (0..PACKED_OBJECTS).step_by(LANES) {
        let mut largest = [0.0; LANES];
        for pair in &query.pairs {
            let p = column(columns, pair.p as usize, first);
            let s = column(columns, pair.s as usize, first);
            for lane in 0..LANES {
                let difference = pair.query_p * s[lane] - pair.query_s * p[lane];
                largest[lane] = larger(difference.abs() - pair.slack, largest[lane]);
            }
        }
        let lower = chunk(&mut bounds.lower, first);
        for lane in 0..LANES {
            lower[lane] = larger(largest[lane] - query.pairs_slack, lower[lane]);
        }
    }
}

#[inline(always)]
fn apexes(query: &BoundQuery, columns: &[f32], next: &[f32], bounds: &mut Bounds) {
    let altitude = query.numbers.last().copied().unwrap_or(0.0);
    // As much of the next block for each piece of this one.
    let mut ahead = next.chunks_exact(LANES);
    for first in (0..PACKED_OBJECTS).step_by(LANES) {
        let mut squared = [0.0; LANES];
        for (number, &q) in query.numbers.iter().enumerate() {
            if let Some(piece) = ahead.next() {
                fetch(piece);
            }
            let column = column(columns, number, first);
            for lane in 0..LANES {
                let difference = q - column[lane];
                squared[lane] += difference * difference;
            }
        }
        let column = column(columns, query.numbers.len() - 1, first);
        let (lower, upper) = (chunk(&mut bounds.lower, first), chunk(&mut bounds.upper, first));
        for lane in 0..LANES {
            lower[lane] = larger(squared[lane].sqrt() - query.slack, 0.0);
            upper[lane] = (squared[lane] + 4.0 * altitude * column[lane]).sqrt() + query.slack;
        }
    }
}

/// Asks for numbers that will be read soon.
#[inline(always)]
fn fetch(numbers: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    x86::fetch(numbers);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = numbers;
}

/// The same loops, compiled for wider vectors.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions beyond the target's are called where the machine has them")]
mod x86 {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

    use super::{BoundQuery, Bounds, CodePath, run};

    /// Numbers of a line of the cache, on every processor of this kind.
    const LINE: usize = 16;

    #[inline(always)]
    pub(super) fn fetch(numbers: &[f32]) {
        for line in numbers.chunks(LINE) {
            // SAFETY: every processor of this kind has the instruction, and it reads nothing: any address will do.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
        }
    }

    pub(super) fn run_avx2(query: &BoundQuery, columns: &[f32], next: &[f32], bounds: &mut Bounds) {
        #[target_feature(enable = "avx2,fma")]
        fn door(query: &BoundQuery, columns: &[f32], next: &[f32], bounds: &mut Bounds) {
            run(query, columns, next, bounds);
        }
        assert!(CodePath::Avx2.is_available());
        // SAFETY: the line above asked for both features.
        unsafe { door(query, columns, next, bounds) }
    }

    pub(super) fn run_avx512(query: &BoundQuery, columns: &[f32], next: &[f32], bounds: &mut Bounds) {
        #[target_feature(enable = "avx2,fma,avx512f,avx512dq")]
        fn door(query: &BoundQuery, columns: &[f32], next: &[f32], bounds: &mut Bounds) {
            run(query, columns, next, bounds);
        }
        assert!(CodePath::Avx512.is_available());
        // SAFETY: the line above asked for all four features.
        unsafe { door(query, columns, next, bounds) }
    }
}
