//! Texture of many windows of one image, the fast way.
//!
//! What windows share is computed once per image: the matrix cell of each of a sub-window's four pairs, and running
//! sums of the squared differences, which give any window's contrast from four corners. A window then counts its
//! cells, and follows the sum of c ln c by its growth: each count is touched once, and no matrix is read afterwards.

use super::lanes::{Simd, Task};
use super::parameters::ExtractParameters;
use super::sites::Site;
use super::texture::{EntropyTable, PAIRS, Window};
use super::{ImageRef, colour};

/// Matrices up to this many cells are cleared as a whole, larger ones cell by cell as they were touched.
const CELLS_CLEARED: usize = 1024;

/// Scratch space for the texture of one image after the other.
#[derive(Debug)]
pub(super) struct Textures {
    radius: usize,
    grey_max: u8,
    table: EntropyTable,
    grey: Vec<u16>,
    /// The cell of each pair, by the upper left pixel of the sub-window.
    cells: Vec<[u16; PAIRS]>,
    /// Of row y at x: the sum of squared differences of all sub-windows above and to the left, modulo 2^32. A
    /// window's own sum is below 2^32, so differences of corners give it exactly.
    squares: Vec<u32>,
    /// The co-occurrence matrix: all zeros between windows.
    counts: Vec<u16>,
    /// Contrast and entropy of each site.
    features: Vec<[f64; 2]>,
}

impl Textures {
    pub(super) fn new(parameters: &ExtractParameters) -> Self {
        let radius = parameters.window_radius as usize;
        let levels = usize::from(parameters.grey_max) + 1;
        let table = EntropyTable::new(radius);
        Self {
            radius,
            grey_max: parameters.grey_max,
            table,
            grey: Vec::new(),
            cells: Vec::new(),
            squares: Vec::new(),
            counts: vec![0; levels * levels],
            features: Vec::new(),
        }
    }

    /// Contrast and entropy of each site, in the order of `sites`.
    pub(super) fn compute<S: Simd>(&mut self, simd: S, image: ImageRef<'_>, sites: &[Site]) -> &[[f64; 2]] {
        self.features.clear();
        if self.radius == 0 {
            self.features.resize(sites.len(), [0.0; 2]);
        } else {
            simd.vectorize(Compute { textures: self, image, sites });
        }
        &self.features
    }

    #[inline(always)]
    fn prepare(&mut self, image: ImageRef<'_>) {
        let (width, height) = (image.width, image.height);
        self.grey.clear();
        self.grey.extend(
            image.rgb.chunks_exact(3).map(|p| u16::from(colour::grey([p[0], p[1], p[2]], self.grey_max))),
        );
        // The last row and column start no sub-window; keeping them makes one index serve all three arrays.
        self.cells.resize(width * height, [0; PAIRS]);
        self.squares.resize(width * height, 0);
        self.squares[..width].fill(0);
        let levels = u16::from(self.grey_max) + 1;
        for y in 0..height - 1 {
            let (upper, lower) = self.grey[y * width..][..2 * width].split_at(width);
            let (above, below) = self.squares[y * width..][..2 * width].split_at_mut(width);
            below[0] = 0;
            let corners =
                upper[..width - 1].iter().zip(&upper[1..]).zip(lower[..width - 1].iter().zip(&lower[1..]));
            let cells = &mut self.cells[y * width..][..width - 1];
            let squares = &mut below[1..];
            for ((((&a, &b), (&c, &d)), cells), squares) in corners.zip(cells).zip(&mut *squares) {
                let cell = |i: u16, j: u16| i.max(j).wrapping_mul(levels).wrapping_add(i.min(j));
                *cells = [cell(a, b), cell(a, c), cell(a, d), cell(b, c)];
                let square = |i: u16, j: u16| u32::from(i.abs_diff(j)) * u32::from(i.abs_diff(j));
                *squares = square(a, b) + square(a, c) + square(a, d) + square(b, c);
            }
            let mut row = 0_u32;
            for (square, above) in squares.iter_mut().zip(&above[1..]) {
                row = row.wrapping_add(*square);
                *square = row.wrapping_add(*above);
            }
        }
    }

    #[inline(always)]
    fn window(&mut self, width: usize, window: Window) -> [f64; 2] {
        let pairs_count = window.pairs_count();
        if pairs_count == 0 {
            return [0.0; 2];
        }
        let corner = |x: usize, y: usize| self.squares[y * width + x];
        let squares = corner(window.right, window.bottom)
            .wrapping_sub(corner(window.left, window.bottom))
            .wrapping_sub(corner(window.right, window.top))
            .wrapping_add(corner(window.left, window.top));
        if squares == 0 {
            // All pairs are equal and the window is connected: one grey, one cell, entropy 0.
            return [0.0; 2];
        }
        let gains = self.table.gains();
        let row = |y: usize| y * width + window.left..y * width + window.right;
        let mut terms = 0;
        for y in window.top..window.bottom {
            for &cell in self.cells[row(y)].as_flattened() {
                let count = &mut self.counts[usize::from(cell)];
                terms += gains[usize::from(*count)];
                *count += 1;
            }
        }
        if self.counts.len() <= CELLS_CLEARED {
            self.counts.fill(0);
        } else {
            for y in window.top..window.bottom {
                for &cell in self.cells[row(y)].as_flattened() {
                    self.counts[usize::from(cell)] = 0;
                }
            }
        }
        self.table.features(pairs_count, squares, terms)
    }
}

struct Compute<'a> {
    textures: &'a mut Textures,
    image: ImageRef<'a>,
    sites: &'a [Site],
}

impl Task for Compute<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let (width, height) = (self.image.width, self.image.height);
        self.textures.prepare(self.image);
        for site in self.sites {
            let (x, y) = (site.x as usize, site.y as usize);
            let window = Window::about(x, y, self.textures.radius, width, height);
            let features = self.textures.window(width, window);
            self.textures.features.push(features);
        }
    }
}
