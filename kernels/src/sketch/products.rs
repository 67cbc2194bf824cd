//! Sums of products of features over a sample: some rows of the matrix from which the principal directions come.
//!
//! Products are added in f32 over [`BLOCK`] signatures, and these sums in f64, in the order of the sample.

use crate::lanes::{Lanes, Work, load_two};

/// Signatures whose products are added in f32.
const BLOCK: usize = 32;
/// Columns that are copied together, so that the loop reads one run of memory.
const PANEL: usize = 32;
/// Rows that the inner loop processes together.
const TILE: usize = 4;
/// Vectors of columns that the inner loop processes together.
const VECTORS: usize = 2;

/// Rows of the matrix, to add up.
pub(super) struct Products<'a> {
    /// Signature after signature, `width` features each.
    pub(super) features: &'a [f32],
    pub(super) width: usize,
    /// The first row.
    pub(super) first: usize,
    /// Complete rows of `width` numbers, 0 at first. Only columns up to the end of the panel that holds the last row's own
    /// column are computed: the matrix is symmetric.
    pub(super) out: &'a mut [f64],
}

impl Work for Products<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { features, width, first, out } = self;
        let rows = out.len() / width;
        let columns = (first + rows).next_multiple_of(PANEL).min(width);
        let (mut left, mut right) = (vec![0.0; BLOCK * rows], vec![0.0; BLOCK * PANEL]);
        for block in features.chunks(BLOCK * width) {
            let signatures = block.len() / width;
            copy(block, width, first..first + rows, &mut left);
            for panel in (0..columns).step_by(PANEL) {
                copy(block, width, panel..panel + PANEL, &mut right);
                for row in (0..rows).step_by(TILE) {
                    for column in (0..PANEL).step_by(VECTORS * L::COUNT) {
                        let (left, right) = (&left[row..], &right[column..]);
                        let sums = tile(lanes, signatures, (left, rows), right);
                        let out = &mut out[row * width + panel + column..];
                        for (tile_row, sums) in sums.iter().enumerate() {
                            for (v, sum) in sums.iter().enumerate() {
                                add(lanes, *sum, &mut out[tile_row * width + v * L::COUNT..]);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Copies some columns of a block, signature after signature.
#[inline(always)]
fn copy(block: &[f32], width: usize, columns: std::ops::Range<usize>, to: &mut [f32]) {
    for (from, to) in block.chunks_exact(width).zip(to.chunks_exact_mut(columns.len())) {
        to.copy_from_slice(&from[columns.clone()]);
    }
}

#[inline(always)]
fn tile<L: Lanes>(
    lanes: L,
    signatures: usize,
    (left, rows): (&[f32], usize),
    right: &[f32],
) -> [[L::V; VECTORS]; TILE] {
    let mut sums = [[lanes.splat(0.0); VECTORS]; TILE];
    for signature in 0..signatures {
        let right: [L::V; VECTORS] = load_two(lanes, &right[signature * PANEL..]);
        let left: &[f32; TILE] = left[signature * rows..].first_chunk().expect("a whole tile");
        for (sums, left) in sums.iter_mut().zip(left) {
            let left = lanes.splat(*left);
            for v in 0..VECTORS {
                sums[v] = lanes.add(sums[v], lanes.mul(left, right[v]));
            }
        }
    }
    sums
}

#[inline(always)]
fn add<L: Lanes>(lanes: L, sums: L::V, to: &mut [f64]) {
    let mut numbers = [0.0; PANEL];
    lanes.store(sums, &mut numbers);
    for (to, number) in to[..L::COUNT].iter_mut().zip(numbers) {
        *to += f64::from(number);
    }
}
