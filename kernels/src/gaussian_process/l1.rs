//! Columns of L1 distances over long vectors: of all objects from some marks, for covariances of the form `exp(-d / l)`.
//!
//! The source of the feedback uses the mean absolute difference of 4,096 numbers as the similarity itself; divided by the
//! number of dimensions, a distance here is that mean, and [`Covariance`](super::Covariance) makes a covariance of it.
//!
//! The loop goes by blocks of [`BLOCK`] dimensions; each lane adds up its numbers in f32, and the lanes are added up at the
//! end. `l1.cl` is the device twin.

use crate::CodePath;
use crate::lanes::{Lanes, Work, run};

/// The kernel's source.
pub const TEXT: &str = include_str!("l1.cl");

/// Dimensions whose differences are added in registers. The marks' part of a block fits the second-level cache.
pub const BLOCK: usize = 512;

/// Objects that the inner loop processes together.
const OBJECTS: usize = 4;
/// Marks that the inner loop processes together, with 16 and with 32 registers.
const MARKS: usize = 2;
const MARKS_OF_AVX512: usize = 4;

/// Objects, and marks, of the square of distances that a work group of the device computes.
const GROUP: usize = 128;
/// Quadruples of objects, and of marks, of a work item. A quadruple is read from local memory at once.
const QUADS: usize = 2;
/// Dimensions that a work group holds in local memory at once.
const DEPTH: usize = 16;
/// Work items of a group along each side.
const SIDE: usize = GROUP / (4 * QUADS);
/// Work items of a group.
pub const ITEMS: usize = SIDE * SIDE;
const _: () = assert!(ITEMS == 256);

/// Marks as the loop reads them.
#[derive(Clone, Debug)]
pub struct Marks {
    dimensions: usize,
    count: usize,
    /// Block after block of dimensions, mark after mark in each; zeros fill the last block, and the last marks.
    blocks: Vec<[f32; BLOCK]>,
}

impl Marks {
    /// Vectors one after the other.
    ///
    /// # Panics
    /// When there are no dimensions, or these are not whole vectors.
    pub fn new(vectors: &[f32], dimensions: usize) -> Self {
        assert!(dimensions > 0 && vectors.len().is_multiple_of(dimensions), "whole vectors");
        let count = vectors.len() / dimensions;
        let padded = count.next_multiple_of(MARKS_OF_AVX512);
        let mut blocks = vec![[0.0; BLOCK]; padded * dimensions.div_ceil(BLOCK)];
        for (mark, vector) in vectors.chunks_exact(dimensions).enumerate() {
            for (block, numbers) in vector.chunks(BLOCK).enumerate() {
                blocks[block * padded + mark][..numbers.len()].copy_from_slice(numbers);
            }
        }
        Self { dimensions, count, blocks }
    }

    /// Number of marks.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no mark.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The largest relative error of a distance, on every path and on devices: the roundings of one difference and of a
    /// sum, which all have one sign.
    pub fn relative_error(&self) -> f64 {
        // A device adds all numbers one after the other; a lane adds fewer, and then there are up to 16 lanes to add.
        (self.dimensions + 18) as f64 * f64::from(f32::EPSILON) / 2.0
    }

    /// Writes the distances of objects from all marks to `out`, object by object.
    ///
    /// # Panics
    /// When this machine lacks the instructions, these are not whole vectors, or `out` has another length.
    pub fn distances(&self, path: CodePath, objects: &[f32], out: &mut [f32]) {
        assert!(path.is_available(), "this machine has no {path} instructions");
        assert!(objects.len().is_multiple_of(self.dimensions), "whole vectors");
        assert_eq!(out.len(), objects.len() / self.dimensions * self.count, "a distance for each pair");
        if !self.is_empty() {
            run(path, Columns { marks: self, objects, out });
        }
    }
}

/// The distance in f64.
pub fn reference(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).fold(0.0, |sum, (a, b)| sum + (f64::from(*a) - f64::from(*b)).abs())
}

/// The constants to compile the kernel with.
pub fn constants() -> Vec<(&'static str, String)> {
    let numbers = [("GROUP", GROUP), ("QUADS", QUADS), ("SIDE", SIDE), ("DEPTH", DEPTH)];
    numbers.into_iter().map(|(name, value)| (name, value.to_string())).collect()
}

/// Work groups for so many objects and marks.
pub fn groups(objects: usize, marks: usize) -> [usize; 2] {
    [objects.div_ceil(GROUP), marks.div_ceil(GROUP)]
}

struct Columns<'a> {
    marks: &'a Marks,
    objects: &'a [f32],
    out: &'a mut [f32],
}

impl Work for Columns<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        match L::COUNT {
            16 => columns::<L, MARKS_OF_AVX512>(lanes, self),
            _ => columns::<L, MARKS>(lanes, self),
        }
    }
}

#[inline(always)]
fn columns<L: Lanes, const TOGETHER: usize>(lanes: L, work: Columns<'_>) {
    let Columns { marks, objects, out } = work;
    let padded = marks.count.next_multiple_of(MARKS_OF_AVX512);
    // Lanes are added up once all blocks are: by group of marks, by object, by mark.
    let mut parts = vec![[[[0.0; 16]; TOGETHER]; OBJECTS]; padded / TOGETHER];
    let rows = objects.chunks(OBJECTS * marks.dimensions).zip(out.chunks_mut(OBJECTS * marks.count));
    for (objects, out) in rows {
        for (idx, block) in marks.blocks.chunks_exact(padded).enumerate() {
            // Missing objects of the last tile, and missing numbers of the last block, are zeros.
            let mut tile = [[0.0; BLOCK]; OBJECTS];
            for (tile, object) in tile.iter_mut().zip(objects.chunks_exact(marks.dimensions)) {
                let numbers = &object[idx * BLOCK..marks.dimensions.min((idx + 1) * BLOCK)];
                tile[..numbers.len()].copy_from_slice(numbers);
            }
            for (parts, together) in parts.iter_mut().zip(block.as_chunks::<TOGETHER>().0) {
                add::<L, TOGETHER>(lanes, &tile, together, parts, idx == 0);
            }
        }
        for (object, out) in out.chunks_exact_mut(marks.count).enumerate() {
            let of_object = parts.iter().flat_map(|parts| &parts[object]);
            for (out, part) in out.iter_mut().zip(of_object) {
                *out = total(lanes, lanes.load(part));
            }
        }
    }
}

/// Adds the differences of a block of dimensions to the lanes of each pair, which it clears before if the block is the first.
#[inline(always)]
fn add<L: Lanes, const TOGETHER: usize>(
    lanes: L,
    objects: &[[f32; BLOCK]; OBJECTS],
    marks: &[[f32; BLOCK]; TOGETHER],
    parts: &mut [[[f32; 16]; TOGETHER]; OBJECTS],
    is_first: bool,
) {
    let mut sums = [[lanes.splat(0.0); TOGETHER]; OBJECTS];
    if !is_first {
        for (sum, part) in sums.iter_mut().flatten().zip(parts.iter().flatten()) {
            *sum = lanes.load(part);
        }
    }
    for at in (0..BLOCK).step_by(L::COUNT) {
        let mut near = [lanes.splat(0.0); TOGETHER];
        for (near, mark) in near.iter_mut().zip(marks) {
            *near = lanes.load(&mark[at..]);
        }
        for (sums, object) in sums.iter_mut().zip(objects) {
            let x = lanes.load(&object[at..]);
            for (sum, y) in sums.iter_mut().zip(near) {
                *sum = lanes.add(*sum, lanes.abs(lanes.sub(x, y)));
            }
        }
    }
    for (sum, part) in sums.iter().flatten().zip(parts.iter_mut().flatten()) {
        lanes.store(*sum, part);
    }
}

/// The sum of all lanes.
#[inline(always)]
fn total<L: Lanes>(lanes: L, sum: L::V) -> f32 {
    let mut numbers = [0.0; 16];
    lanes.store(sum, &mut numbers);
    let mut width = L::COUNT / 2;
    while width > 0 {
        for lane in 0..width {
            numbers[lane] += numbers[lane + width];
        }
        width /= 2;
    }
    numbers[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Random;

    #[test]
    fn distances_are_within_their_error_on_all_paths_and_shapes() {
        let mut random = Random::mixed(1);
        for (dimensions, objects, count) in [(1, 1, 1), (7, 5, 3), (512, 4, 4), (513, 9, 5), (1100, 3, 13)] {
            let mut vectors = |count: usize| -> Vec<f32> {
                (0..count * dimensions).map(|_| 4.0 * random.unit_f32() - 2.0).collect()
            };
            let (objects, marks) = (vectors(objects), vectors(count));
            let prepared = Marks::new(&marks, dimensions);
            for path in CodePath::available() {
                let mut out = vec![f32::NAN; objects.len() / dimensions * count];
                prepared.distances(path, &objects, &mut out);
                let pairs = objects
                    .chunks(dimensions)
                    .flat_map(|a| marks.chunks(dimensions).map(move |b| reference(a, b)).collect::<Vec<_>>());
                for (found, exact) in out.iter().zip(pairs) {
                    let error = (f64::from(*found) - exact).abs();
                    assert!(
                        error <= exact * prepared.relative_error(),
                        "{path} {dimensions}: {found} {exact}"
                    );
                }
            }
        }
        Marks::new(&[], 3).distances(CodePath::Portable, &[0.0; 6], &mut []);
    }
}
