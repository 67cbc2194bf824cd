//! Inputs of the kernel `device.cl`: its constants, and the layout of candidates and queries.
//!
//! A tile is the candidate centroids that one work group processes. A piece is a signature, or a part of one, in a tile.
//!
//! Invariants: a piece has at most [`PIECE`] centroids and lies within one tile; tiles and pieces cover every centroid of the
//! rows once; pieces follow the order of the rows, so the sum of a row is that of a range of pieces.

use std::ops::Range;

use super::stream::ROWS as ROWS_PER_GROUP;
use crate::similarity::{Ground, Measure, Similarity};

/// The kernel's source.
pub const TEXT: &str = include_str!("device.cl");

/// Work items of a group.
const ITEMS: usize = 256;

/// The most centroids of a piece. They are added up in `LANES` sums, whose depth is part of the declared error.
pub const PIECE: usize = 128;
const LANES: usize = 8;

/// Terms that are added up before their sum is added to the total.
const PARTIAL: usize = 16;

/// Rows of a query that are in local memory at a time: 8 KiB in seven dimensions.
const LOCAL_ROWS: usize = 256;

/// Rows in local memory on matrix units, by the number of steps of eight numbers in a row: 8 KiB.
const MATRIX_ROWS: [usize; 2] = [128, 64];

/// Bands of sixteen candidates whose products a work item holds at a time, by the number of steps in a row.
const MATRIX_BATCH: [usize; 2] = [2, 1];

/// Work items of a group on matrix units: half as many with twice the centroids each, so that tiles stay the same.
const MATRIX_ITEMS: usize = 128;

/// Query centroids whose terms are added up on matrix units before their sum is added to the total: two of eight in each
/// work item.
const MATRIX_PARTIAL: usize = 128;

/// The largest coordinate of a query that is multiplied as a half, and the least `query_end`: see `device.cl`.
pub(super) const HALVES_NUMBER_MAX: f32 = 1e4;
pub(super) const HALVES_END_MIN: f32 = -1e8;

/// Centroids up to which signatures are short, measured on an H200: a query's products are then too few for
/// matrix units to pay, and tiles of half the size, which have fewer pieces to add up, are faster.
const SHORT: usize = 36;

/// Work items that multiply matrices together, and candidates of a band.
const WARP: usize = 32;
const BAND: usize = 16;

/// Registers of a work item that may hold coordinates.
const HELD_NUMBERS_MAX: usize = 64;

/// The largest squared norm of a moved and scaled centroid that may be multiplied in at the end. Until then the terms are
/// too large by a factor of two to this power, and their sum must not overflow.
pub const APART_NORM_MAX: f32 = 100.0;

/// Marks a tile whose centroids are not consecutive in the columns.
pub const GATHERED: u32 = u32::MAX;

const _: () = assert!(PARTIAL.is_multiple_of(ROWS_PER_GROUP) && LOCAL_ROWS.is_multiple_of(PARTIAL));
const _: () = assert!(PIECE.is_multiple_of(LANES));

/// The depth of the sum of a term on a device, for a query of this many centroids. It includes the candidate's weight and
/// the tree of its piece.
pub(super) fn depth(centroids: usize) -> usize {
    let tree = PIECE / LANES + LANES.ilog2() as usize;
    PARTIAL + centroids.div_ceil(PARTIAL) + 1 + tree
}

/// The depth of the sum on matrix units.
pub(super) fn depth_of_matrices(centroids: usize) -> usize {
    let tree = PIECE / LANES + LANES.ilog2() as usize;
    let partial = 2 * centroids.min(MATRIX_PARTIAL).div_ceil(8);
    partial + centroids.div_ceil(MATRIX_PARTIAL.min(MATRIX_ROWS[1])) + 2 + 1 + tree
}

/// How the kernel is compiled, for a measure and a number of dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    dimensions: usize,
    /// Numbers of a query's row, a multiple of four.
    row: usize,
    /// Work items of a group.
    items: usize,
    /// Centroids that a work item holds.
    held: usize,
    /// Whether a candidate's norm is left out of the exponents and multiplied in at the end.
    apart: bool,
    matrices: Option<Matrices>,
    measure: &'static [&'static str],
}

/// How matrix units compute the exponents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Matrices {
    /// Bands of candidates at a time.
    batch: usize,
    /// Bands of which every fourth power is computed by multiplication, because the unit for powers is the bottleneck.
    by_product: usize,
}

impl Shape {
    /// The shape for a measure.
    pub fn new(measure: &Measure, dimensions: usize) -> Self {
        let held = (HELD_NUMBERS_MAX / (dimensions + 1)).clamp(1, 8);
        // A power of two, so that tiles have few sizes.
        let held = 1 << held.ilog2();
        let measure: &[&str] = match (measure.similarity(), measure.ground()) {
            (Similarity::Gaussian, _) => &["GAUSSIAN"],
            (Similarity::Heuristic, Ground::L1) => &["HEURISTIC", "L1"],
            (Similarity::Heuristic, Ground::L2) => &["HEURISTIC_L2"],
            (Similarity::Heuristic, _) => &["HEURISTIC"],
            (Similarity::Minus, Ground::L1) => &["MINUS", "L1"],
            (Similarity::Minus, Ground::L2) => &["MINUS_L2"],
            (Similarity::Minus, _) => &["MINUS"],
        };
        let row = (dimensions + 1).next_multiple_of(4);
        Self { dimensions, row, items: ITEMS, held, apart: false, matrices: None, measure }
    }

    /// The constants to compile the source with.
    pub fn constants(&self) -> Vec<(&'static str, String)> {
        let rows = self.matrices.map_or(LOCAL_ROWS, |_| MATRIX_ROWS[self.steps() - 1]);
        let mut numbers = vec![
            ("DIMENSIONS", self.dimensions),
            ("ROW", self.row),
            ("ITEMS", self.items),
            ("HELD", self.held),
            ("ROWS", rows),
            ("PARTIAL", PARTIAL),
            ("APART", usize::from(self.apart)),
            ("TENSOR", usize::from(self.matrices.is_some())),
        ];
        if let Some(Matrices { batch, by_product }) = self.matrices {
            numbers.extend([("BATCH", batch), ("PRODUCTS", by_product)]);
        }
        let numbers = numbers.into_iter().map(|(name, value)| (name, value.to_string()));
        let named = self.measure.iter().map(|name| (*name, "1".to_owned()));
        numbers.chain([("GATHERED", format!("{GATHERED}u"))]).chain(named).collect()
    }

    /// Whether the kernel must be compiled so that it keeps subnormal numbers.
    ///
    /// A weight may be subnormal, and the terms of `minus` have no bound: a weight of 1e-40 matters at a distance of 1e38.
    pub fn needs_subnormals(&self) -> bool {
        self.measure[0].starts_with("MINUS")
    }

    /// Coordinates of a centroid.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Numbers in a row of a query.
    pub fn row(&self) -> usize {
        self.row
    }

    /// The most centroids of a tile.
    pub fn tile(&self) -> usize {
        self.items * self.held
    }

    /// Work items of a group.
    pub fn items(&self) -> usize {
        self.items
    }

    /// Changes the split of the work, for benchmarks.
    ///
    /// # Panics
    /// If a group could not hold a piece.
    #[must_use]
    pub fn split(self, items: usize, held: usize) -> Self {
        assert!(held > 0 && items * held >= PIECE, "a group that holds a piece");
        Self { items, held, ..self }
    }

    /// Steps of eight numbers that a row has in a product of matrices: its coordinates and one more number.
    fn steps(&self) -> usize {
        (self.dimensions + 1).div_ceil(8)
    }

    /// Moves the products to NVIDIA's matrix units (PTX `mma`, compute capability 8.0 and above), if the measure is Gaussian and rows
    /// are short enough. Devices without these units emulate them slowly.
    #[must_use]
    pub fn matrices(self) -> Self {
        let batch = MATRIX_BATCH.get(self.steps() - 1).copied().unwrap_or(0);
        let (items, tile) = (self.items, self.tile());
        let made = self.clone().split(MATRIX_ITEMS, tile / MATRIX_ITEMS).matrices_of(batch, 0);
        if made.matrices.is_some() { made } else { Self { items, ..self } }
    }

    /// Like [`matrices`](Self::matrices), with `batch` bands of sixteen candidates at a time, of which `by_product` compute every
    /// fourth power by multiplication; for benchmarks.
    #[must_use]
    pub fn matrices_of(self, batch: usize, by_product: usize) -> Self {
        let bands = self.tile() / (self.items / WARP).max(1) / BAND;
        let fits = self.measure == ["GAUSSIAN"]
            && self.steps() <= MATRIX_ROWS.len()
            && self.items.is_multiple_of(WARP)
            && self.tile().is_multiple_of(self.items / WARP * BAND)
            && batch > 0
            && bands.is_multiple_of(batch);
        let matrices = fits.then_some(Matrices { batch, by_product: by_product.min(batch) });
        Self { apart: self.apart && matrices.is_none(), matrices, ..self }
    }

    /// The shape for objects of so many centroids on average. All blocks over these objects need tiles of one size.
    #[must_use]
    pub fn for_objects(self, centroids_mean: usize) -> Self {
        let items = if centroids_mean <= SHORT { ITEMS / 2 } else { ITEMS };
        if items * self.held < PIECE { self } else { Self { items, ..self } }
    }

    /// Whether matrix units are the faster way for queries whose rows begin, and end, at these offsets.
    pub fn is_for_matrices(row_offsets: &[u32]) -> bool {
        row_offsets.windows(2).any(|rows| (rows[1] - rows[0]) as usize > SHORT)
    }

    /// If `apart`, the same for candidates within [`APART_NORM_MAX`] of every query's centre: a candidate's norm is then
    /// multiplied in once instead of being added to each exponent.
    #[must_use]
    pub fn apart(self, apart: bool) -> Self {
        Self { apart: apart && self.measure == ["GAUSSIAN"], ..self }
    }
}

/// The tiles and pieces of some signatures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The tiles in the layout of the kernel.
    pub tiles: Vec<[u32; 4]>,
    /// The pieces in the layout of the kernel.
    pub pieces: Vec<[u32; 4]>,
    /// The first piece of each signature, and the number of pieces.
    firsts: Vec<u32>,
}

impl Layout {
    /// Lays out signatures, each given by the place of its first centroid in the columns and its number of centroids.
    pub fn new(shape: &Shape, signatures: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let (tile_max, mut layout) = (shape.tile() as u32, Self::default());
        for (start, len) in signatures {
            layout.firsts.push(layout.pieces.len() as u32);
            for from in (0..len).step_by(PIECE) {
                layout.add((start + from, (len - from).min(PIECE as u32)), tile_max);
            }
        }
        layout.firsts.push(layout.pieces.len() as u32);
        layout
    }

    fn add(&mut self, (start, len): (u32, u32), tile_max: u32) {
        let piece = self.pieces.len() as u32;
        match self.tiles.last_mut() {
            Some([_, pieces, base, used]) if *used + len <= tile_max => {
                if *base != GATHERED && *base + *used != start {
                    *base = GATHERED;
                }
                self.pieces.push([start, *used, len, 0]);
                *pieces += 1;
                *used += len;
            }
            _ => {
                self.tiles.push([piece, 1, start, len]);
                self.pieces.push([start, 0, len, 0]);
            }
        }
    }

    /// The pieces of the `idx`-th signature.
    ///
    /// # Panics
    /// If there is no such signature.
    pub fn of_signature(&self, idx: usize) -> Range<usize> {
        self.firsts[idx] as usize..self.firsts[idx + 1] as usize
    }

    /// Whether every signature is one piece, so that the sums of pieces are the sums of signatures.
    pub fn is_whole(&self) -> bool {
        self.firsts.windows(2).all(|firsts| firsts[1] == firsts[0] + 1)
    }

    /// Number of signatures.
    pub fn signatures(&self) -> usize {
        self.firsts.len().saturating_sub(1)
    }

    /// The sum of the `idx`-th signature, from the sums of all pieces.
    pub fn sum(&self, idx: usize, sums: &[f32]) -> f64 {
        sums[self.of_signature(idx)].iter().map(|sum| f64::from(*sum)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dimensions: usize) -> Shape {
        Shape::new(&Measure::new(Similarity::Gaussian, Ground::L2, 0.2).unwrap(), dimensions)
    }

    /// Every centroid of every signature once, in order, within its tile.
    fn check(dimensions: usize, signatures: &[(u32, u32)]) {
        let shape = shape(dimensions);
        let layout = Layout::new(&shape, signatures.iter().copied());
        assert_eq!(layout.signatures(), signatures.len());
        for (idx, (start, len)) in signatures.iter().enumerate() {
            let pieces = &layout.pieces[layout.of_signature(idx)];
            let found: Vec<u32> = pieces.iter().flat_map(|[start, _, len, _]| *start..start + len).collect();
            assert_eq!(found, Vec::from_iter(*start..start + len));
            assert!(pieces.iter().all(|piece| (1..=PIECE as u32).contains(&piece[2])));
        }
        let mut next = 0;
        for [first, count, base, used] in &layout.tiles {
            assert_eq!(*first, next);
            next += count;
            let mut from = 0;
            for [start, slot, len, _] in &layout.pieces[*first as usize..next as usize] {
                assert_eq!(*slot, from);
                assert!(*base == GATHERED || *start == base + slot);
                from += len;
            }
            assert!(from == *used && *used as usize <= shape.tile());
        }
        assert_eq!(next as usize, layout.pieces.len());
    }

    #[test]
    fn tiles_cover_every_centroid_once() {
        check(7, &[]);
        check(7, &[(5, 1)]);
        check(7, &[(0, 0), (0, 75), (75, 0), (75, 2048), (2123, 1), (2124, 4000)]);
        check(64, &[(0, 300), (1000, 17), (300, 128), (0, 256), (256, 129)]);
        let flat: Vec<(u32, u32)> = (0..1000).map(|idx| (75 * idx, 75)).collect();
        check(7, &flat);
        let layout = Layout::new(&shape(7), flat);
        assert!(layout.tiles.iter().all(|tile| tile[2] != GATHERED));
        // 27 of them in a tile of 2048: one centroid in a hundred is wasted.
        assert_eq!((shape(7).tile(), layout.tiles.len()), (2048, 38));
        assert!(Layout::new(&shape(7), [(0, 75), (100, 75)]).tiles[0][2] == GATHERED);
    }

    #[test]
    fn matrices_have_the_same_tiles() {
        for dimensions in [1, 2, 7, 8, 12, 15] {
            let (plain, matrices) = (shape(dimensions), shape(dimensions).matrices());
            assert!(matrices.matrices.is_some() && matrices.tile() == plain.tile(), "D = {dimensions}");
        }
        // Rows of three steps, and other measures, go the other way.
        assert_eq!(shape(16).matrices(), shape(16));
        let minus = Shape::new(&Measure::new(Similarity::Minus, Ground::L2, 1.0).unwrap(), 7);
        assert_eq!(minus.clone().matrices(), minus);
    }

    #[test]
    fn a_signatures_sum_is_that_of_its_pieces() {
        let layout = Layout::new(&shape(2), [(0, 300), (300, 0), (300, 1)]);
        assert_eq!(layout.pieces.len(), 4);
        let sums = [1.0, 2.0, 4.0, 8.0];
        assert_eq!([0, 1, 2].map(|idx| layout.sum(idx, &sums)), [7.0, 0.0, 8.0]);
        assert!(!layout.is_whole() && Layout::new(&shape(2), [(0, 128), (128, 1)]).is_whole());
        assert!(
            !Layout::new(&shape(2), [(0, 129)]).is_whole() && !Layout::new(&shape(2), [(0, 0)]).is_whole()
        );
    }
}
