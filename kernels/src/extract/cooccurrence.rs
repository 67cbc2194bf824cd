//! The fast path of texture, for many windows of one image.
//!
//! Data that windows share is computed once per image: the matrix cell of each of a sub-window's four pairs, and running sums
//! of the squared differences, from which four corners give the contrast of any window. Each window then counts its cells
//! and updates the sum of c ln c with each count, so no matrix is read afterwards.

use super::lanes::{Simd, Task};
use super::parameters::ExtractParameters;
use super::sites::Site;
use super::texture::{ANY_U16, EntropyTable, PAIRS, Window};
use super::{ImageRef, colour};

/// Matrices up to this many cells are cleared as a whole, larger ones cell by cell as they were touched.
const CELLS_CLEARED: usize = 1024;

/// Windows that are counted alternately. A read of a count that was just written waits for the write, and in smooth places the
/// next pair often falls into the same cell.
const ABREAST: usize = 4;

/// Scratch space for the texture of one image after the other.
#[derive(Debug)]
pub(super) struct Textures {
    radius: usize,
    grey_max: u8,
    table: EntropyTable,
    grey: Vec<u16>,
    /// The cell of each pair, by the upper left pixel of the sub-window.
    cells: Vec<[u16; PAIRS]>,
    /// At (x, y): the sum of squared differences of all sub-windows above and to the left, modulo 2^32. A
    /// window's own sum is below 2^32, so differences of corners give it exactly.
    squares: Vec<u32>,
    /// The co-occurrence matrix: all zeros between windows. Any `u16` is an index, so no access needs a check.
    /// Several windows lie side by side.
    counts: Box<[[u16; ABREAST]; ANY_U16]>,
    /// Cells that the grey scale can reach.
    cells_count: usize,
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
            counts: vec![[0; ABREAST]; ANY_U16].try_into().expect("as many as are asked for"),
            cells_count: levels * levels,
            features: Vec::new(),
        }
    }

    /// Contrast and entropy of each site, in the order of `sites`.
    pub(super) fn compute<S: Simd>(&mut self, simd: S, image: ImageRef<'_>, sites: &[Site]) -> &[[f64; 2]] {
        simd.vectorize(Compute { textures: self, image, sites });
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

    /// The sum of squared differences in a window.
    #[inline(always)]
    fn squares(&self, width: usize, window: Window) -> u32 {
        let corner = |x: usize, y: usize| self.squares[y * width + x];
        corner(window.right, window.bottom)
            .wrapping_sub(corner(window.left, window.bottom))
            .wrapping_sub(corner(window.right, window.top))
            .wrapping_add(corner(window.left, window.top))
    }

    /// The sums of c ln c over the cells of each of `windows`, which must have one shape.
    #[inline(always)]
    fn terms<const N: usize>(&mut self, width: usize, windows: [Window; N]) -> [u64; N] {
        let Self { cells, counts, table, .. } = self;
        let gains = table.gains();
        let Window { left, right, top, bottom } = windows[0];
        let (columns, rows) = (right - left, bottom - top);
        let mut terms = [0; N];
        for y in 0..rows {
            let mut row: [&[u16]; N] = [&[]; N];
            for (row, window) in row.iter_mut().zip(&windows) {
                *row = cells[(window.top + y) * width + window.left..][..columns].as_flattened();
            }
            for i in 0..columns * PAIRS {
                for lane in 0..N {
                    let count = &mut counts[usize::from(row[lane][i])][lane];
                    terms[lane] += gains[usize::from(*count)];
                    *count += 1;
                }
            }
        }
        if self.cells_count <= CELLS_CLEARED {
            counts[..self.cells_count].fill([0; ABREAST]);
        } else {
            for window in windows {
                for y in window.top..window.bottom {
                    for &cell in cells[y * width..][window.left..window.right].as_flattened() {
                        counts[usize::from(cell)] = [0; ABREAST];
                    }
                }
            }
        }
        terms
    }

    /// Fills `features`, the whole windows in groups.
    #[inline(always)]
    fn windows(&mut self, width: usize, height: usize, sites: &[Site]) {
        let whole_pairs_count = PAIRS * (2 * self.radius) * (2 * self.radius);
        let mut waiting = [(0, Window::default()); ABREAST];
        let mut waiting_count = 0;
        self.features.clear();
        self.features.resize(sites.len(), [0.0; 2]);
        for (idx, site) in sites.iter().enumerate() {
            let window = Window::about(site.x as usize, site.y as usize, self.radius, width, height);
            // Without a difference all pairs are equal and, as the window is connected, there is one grey, one cell
            // and no entropy. An empty window has neither.
            if window.pairs_count() == 0 || self.squares(width, window) == 0 {
                continue;
            }
            if window.pairs_count() < whole_pairs_count {
                let [terms] = self.terms(width, [window]);
                self.finish(width, idx, window, terms);
                continue;
            }
            waiting[waiting_count] = (idx, window);
            waiting_count += 1;
            if waiting_count == ABREAST {
                waiting_count = 0;
                let terms = self.terms(width, waiting.map(|(_, window)| window));
                for ((idx, window), terms) in waiting.into_iter().zip(terms) {
                    self.finish(width, idx, window, terms);
                }
            }
        }
        for &(idx, window) in &waiting[..waiting_count] {
            let [terms] = self.terms(width, [window]);
            self.finish(width, idx, window, terms);
        }
    }

    #[inline(always)]
    fn finish(&mut self, width: usize, idx: usize, window: Window, terms: u64) {
        self.features[idx] = self.table.features(window.pairs_count(), self.squares(width, window), terms);
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
        self.textures.windows(width, height, self.sites);
    }
}
