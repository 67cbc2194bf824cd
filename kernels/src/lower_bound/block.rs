//! The loops over a block of objects, compiled for each instruction set.
//!
//! Plain loops over arrays of one length, which the compiler turns into vector instructions; the doors below compile
//! the same loops for AVX2 and AVX-512. A loop holds [`LANES`] objects in registers and goes through the columns, so
//! that a block is read once and in order.

use super::query::{BoundQuery, Pair};
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
        let columns = if query.bound == Bound::Simplex { block.apexes } else { block.distances };
        assert_eq!(
            columns.len(),
            query.numbers.len() * PACKED_OBJECTS,
            "a column for each of the query's numbers"
        );
        match self.path {
            CodePath::Portable => run(query, columns, bounds),
            #[cfg(target_arch = "x86_64")]
            CodePath::Avx2 => x86::run_avx2(query, columns, bounds),
            #[cfg(target_arch = "x86_64")]
            CodePath::Avx512 => x86::run_avx512(query, columns, bounds),
            #[cfg(not(target_arch = "x86_64"))]
            CodePath::Avx2 | CodePath::Avx512 => unreachable!("Evaluator::new refuses it"),
        }
    }
}

#[inline(always)]
fn run(query: &BoundQuery, columns: &[f32], bounds: &mut Bounds) {
    for first in (0..PACKED_OBJECTS).step_by(LANES) {
        let lower: &mut [f32; LANES] = bounds.lower[first..].first_chunk_mut().expect("a whole chunk");
        let upper: &mut [f32; LANES] = bounds.upper[first..].first_chunk_mut().expect("a whole chunk");
        match query.bound {
            Bound::Simplex => apexes(&query.numbers, query.slack, columns, first, lower, upper),
            Bound::Triangular => triangles(&query.numbers, query.slack, columns, first, lower, upper),
            Bound::Ptolemaic => {
                triangles(&query.numbers, query.slack, columns, first, lower, upper);
                *lower = [0.0; LANES];
                quadrilaterals(&query.pairs, query.pairs_slack, columns, first, lower);
            }
            Bound::Combined => {
                triangles(&query.numbers, query.slack, columns, first, lower, upper);
                quadrilaterals(&query.pairs, query.pairs_slack, columns, first, lower);
            }
        }
    }
}

/// The objects from `first` on in a column.
#[inline(always)]
fn column(columns: &[f32], number: usize, first: usize) -> &[f32; LANES] {
    columns[number * PACKED_OBJECTS + first..].first_chunk().expect("a whole chunk of a column")
}

// Not f32::max: what that does with a NaN costs instructions, and there is none.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

#[inline(always)]
fn triangles(
    query: &[f32],
    slack: f32,
    columns: &[f32],
    first: usize,
    lower: &mut [f32; LANES],
    upper: &mut [f32; LANES],
) {
    let (mut largest, mut least) = ([0.0; LANES], [f32::INFINITY; LANES]);
    for (number, &q) in query.iter().enumerate() {
        let column = column(columns, number, first);
        for lane in 0..LANES {
            let o = column[lane];
            largest[lane] = larger((q - o).abs(), largest[lane]);
            least[lane] = -larger(-(q + o), -least[lane]);
        }
    }
    for lane in 0..LANES {
        lower[lane] = larger(largest[lane] - slack, 0.0);
        upper[lane] = least[lane] + slack;
    }
}

#[inline(always)]
fn quadrilaterals(pairs: &[Pair], slack: f32, columns: &[f32], first: usize, lower: &mut [f32; LANES]) {
    let mut largest = [0.0; LANES];
    for pair in pairs {
        let p = column(columns, pair.p as usize, first);
        let s = column(columns, pair.s as usize, first);
        for lane in 0..LANES {
            let difference = pair.query_p * s[lane] - pair.query_s * p[lane];
            largest[lane] = larger(difference.abs() - pair.slack, largest[lane]);
        }
    }
    for lane in 0..LANES {
        lower[lane] = larger(largest[lane] - slack, lower[lane]);
    }
}

#[inline(always)]
fn apexes(
    query: &[f32],
    slack: f32,
    columns: &[f32],
    first: usize,
    lower: &mut [f32; LANES],
    upper: &mut [f32; LANES],
) {
    let mut squared = [0.0; LANES];
    for (number, &q) in query.iter().enumerate() {
        let column = column(columns, number, first);
        for lane in 0..LANES {
            let difference = q - column[lane];
            squared[lane] += difference * difference;
        }
    }
    let altitude = query.last().copied().unwrap_or(0.0);
    let column = column(columns, query.len() - 1, first);
    for lane in 0..LANES {
        lower[lane] = larger(squared[lane].sqrt() - slack, 0.0);
        upper[lane] = (squared[lane] + 4.0 * altitude * column[lane]).sqrt() + slack;
    }
}

/// The same loops, compiled for wider vectors.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions beyond the target's are called where the machine has them")]
mod x86 {
    use super::{BoundQuery, Bounds, CodePath, run};

    pub(super) fn run_avx2(query: &BoundQuery, columns: &[f32], bounds: &mut Bounds) {
        #[target_feature(enable = "avx2,fma")]
        fn door(query: &BoundQuery, columns: &[f32], bounds: &mut Bounds) {
            run(query, columns, bounds);
        }
        assert!(CodePath::Avx2.is_available());
        // SAFETY: the line above asked for both features.
        unsafe { door(query, columns, bounds) }
    }

    pub(super) fn run_avx512(query: &BoundQuery, columns: &[f32], bounds: &mut Bounds) {
        #[target_feature(enable = "avx2,fma,avx512f,avx512dq")]
        fn door(query: &BoundQuery, columns: &[f32], bounds: &mut Bounds) {
            run(query, columns, bounds);
        }
        assert!(CodePath::Avx512.is_available());
        // SAFETY: the line above asked for all four features.
        unsafe { door(query, columns, bounds) }
    }
}
