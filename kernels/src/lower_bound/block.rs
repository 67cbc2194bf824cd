//! The loops over a block of objects, compiled for each instruction set.
//!
//! These are plain loops over arrays of fixed length, which the compiler turns into vector instructions. The entry points
//! below compile the same loops for AVX2 and AVX-512. Each loop holds [`LANES`] objects in registers and goes through the
//! columns. Memory bandwidth is the limit, so a caller that bounds many blocks names the next one, and the loops prefetch it
//! in the order of its addresses. They prefetch into the second-level cache, since two blocks do not fit the first level.

use super::query::BoundQuery;
use super::{Bound, PACKED_OBJECTS};
use crate::CodePath;

/// Objects that are in registers at a time: four AVX-512 vectors of lower bounds and four of upper bounds.
const LANES: usize = 64;
const _: () = assert!(PACKED_OBJECTS.is_multiple_of(LANES));

/// A block of a pivot table: columns of [`PACKED_OBJECTS`] numbers one after the other.
#[derive(Clone, Copy, Debug)]
pub struct PackedBlock<'a> {
    /// Distances to the pivots, one column per pivot.
    pub distances: &'a [f32],
    /// Apexes, one column per coordinate; the altitude is the last.
    pub apexes: &'a [f32],
}

/// Lower and upper bounds of the objects of a block. Those of places without an object are unspecified.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// No distance is below its lower bound.
    pub lower: [f32; PACKED_OBJECTS],
    /// No distance is above its upper bound.
    pub upper: [f32; PACKED_OBJECTS],
}

impl Default for Bounds {
    fn default() -> Self {
        Self { lower: [0.0; PACKED_OBJECTS], upper: [f32::INFINITY; PACKED_OBJECTS] }
    }
}

/// Bounds blocks with the instructions of one code path.
#[derive(Clone, Copy, Debug)]
pub struct BoundEvaluator {
    path: CodePath,
}

impl BoundEvaluator {
    /// An evaluator that uses the instructions of `path`.
    ///
    /// # Panics
    /// If this machine lacks them, see [`CodePath::is_available`].
    pub fn new(path: CodePath) -> Self {
        assert!(path.is_available(), "this machine has no {path} instructions");
        Self { path }
    }

    /// Bounds the distance of a query to each object of a block.
    ///
    /// # Panics
    /// If the number of columns of the block is not the number of the query's numbers.
    pub fn bounds(&self, query: &BoundQuery, block: PackedBlock<'_>, bounds: &mut Bounds) {
        self.bounds_before(query, block, None, bounds);
    }

    /// As [`BoundEvaluator::bounds`], and prefetches the block that the caller will bound next.
    ///
    /// # Panics
    /// As [`BoundEvaluator::bounds`].
    pub fn bounds_before(
        &self,
        query: &BoundQuery,
        block: PackedBlock<'_>,
        next: Option<PackedBlock<'_>>,
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
            CodePath::Avx2 | CodePath::AvxVnni => x86::run_avx2(query, columns, next, bounds),
            #[cfg(target_arch = "x86_64")]
            CodePath::Avx512 => x86::run_avx512(query, columns, next, bounds),
            #[cfg(not(target_arch = "x86_64"))]
            CodePath::Avx2 | CodePath::AvxVnni | CodePath::Avx512 => {
                unreachable!("Evaluator::new refuses it")
            }
        }
    }
}

#[inline(always)]
fn run(query: &BoundQuery, columns: &[f32], next: &[f32], bounds: &mut Bounds) {
    match query.bound {
        Bound::Simplex => apexes(query, columns, next, bounds),
        Bound::Triangular => triangles(query, columns, next, bounds),
        Bound::Ptolemaic => {
            // Computes the upper bounds.
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

/// The numbers of [`LANES`] objects from `first` on in a column.
#[inline(always)]
fn column(columns: &[f32], number: usize, first: usize) -> &[f32; LANES] {
    columns[number * PACKED_OBJECTS + first..].first_chunk().expect("a whole chunk of a column")
}

/// The bounds of the same objects.
#[inline(always)]
fn chunk(bounds: &mut [f32; PACKED_OBJECTS], first: usize) -> &mut [f32; LANES] {
    bounds[first..].first_chunk_mut().expect("a whole chunk")
}

// Not f32::max, which spends instructions on NaNs. There are none.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

#[inline(always)]
fn triangles(query: &BoundQuery, columns: &[f32], next: &[f32], bounds: &mut Bounds) {
    // Prefetches a chunk of the next block for each chunk of this one.
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

/// Raises the lower bounds to those by pairs of pivots.
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
    // Prefetches a chunk of the next block for each chunk of this one.
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

/// Prefetches numbers.
#[inline(always)]
fn fetch(numbers: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    x86::fetch(numbers);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = numbers;
}

/// The loops above, compiled for wider vectors.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions beyond the target's are called where the machine has them")]
mod x86 {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

    use super::{BoundQuery, Bounds, CodePath, run};

    /// Numbers in a cache line of x86-64 processors.
    const LINE: usize = 16;

    #[inline(always)]
    pub(super) fn fetch(numbers: &[f32]) {
        for line in numbers.chunks(LINE) {
            // SAFETY: every x86-64 processor has this instruction, and it may name any address.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
        }
    }

    pub(super) fn run_avx2(query: &BoundQuery, columns: &[f32], next: &[f32], bounds: &mut Bounds) {
        #[target_feature(enable = "avx2,fma")]
        fn entry(query: &BoundQuery, columns: &[f32], next: &[f32], bounds: &mut Bounds) {
            run(query, columns, next, bounds);
        }
        assert!(CodePath::Avx2.is_available());
        // SAFETY: the line above checked both features.
        unsafe { entry(query, columns, next, bounds) }
    }

    pub(super) fn run_avx512(query: &BoundQuery, columns: &[f32], next: &[f32], bounds: &mut Bounds) {
        #[target_feature(enable = "avx2,fma,avx512f,avx512dq")]
        fn entry(query: &BoundQuery, columns: &[f32], next: &[f32], bounds: &mut Bounds) {
            run(query, columns, next, bounds);
        }
        assert!(CodePath::Avx512.is_available());
        // SAFETY: the line above checked all four features.
        unsafe { entry(query, columns, next, bounds) }
    }
}
