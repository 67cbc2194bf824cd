//! The patches that are similar to reference patches: all displacements of a window, for many references of a row at once.
//!
//! Invariants: pixels are whole numbers, and every sum up to the largest that is similar is exact in f32 in any order; sums
//! beyond it stay beyond it. So all paths find the same matches. They are ordered by (difference, rank of the displacement), so
//! the order of the search does not matter.

use crate::CodePath;
use crate::lanes::{self, Lanes, Work};
use crate::pieces::{Pieces, fill};

use super::parameters::{EXACT_BELOW, Phase, STACK_MAX, STEPS};
use super::picture::rows_at_once;

/// Grey levels from 0 in each direction that are told apart.
pub(crate) const LEVELS_MAX: f64 = 1024.0;

/// Numbers that are computed at once for reference patches of a row, a multiple of all lanes.
const WIDTH: usize = 64;
/// Rows of reference patches that are compared at once, which share the squares of their pixels.
pub(crate) const ROWS: usize = 8;
/// The largest patch, and so the largest step.
const STEP_MAX: usize = 11;
/// A row of sums, with what the sums of the last columns read.
type Sums = [f32; WIDTH + 16];
const _: () = assert!(STEP_MAX <= 16, "the sums of the last column end within a row");
/// Bits of a key below the difference.
const RANK_BITS: u32 = 16;

/// The pixels of a plane as patches are compared: of each row first every `step`th pixel, then the pixels after these, and so
/// on. So the pixels at one place of consecutive reference patches lie side by side.
pub(crate) struct Pixels {
    height: usize,
    width: usize,
    step: usize,
    /// Numbers of a row.
    stride: usize,
    /// Numbers of a row that are `step` pixels apart from each other.
    part: usize,
    margin: usize,
    values: Vec<f32>,
}

/// A pixel in steps, a whole number.
pub(crate) fn pixel(level: f32) -> f32 {
    (f64::from(level).clamp(-LEVELS_MAX, LEVELS_MAX) * STEPS).round_ties_even() as f32
}

impl Pixels {
    /// Pixels of a row of the plane.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The pixels of a plane of rows of `width`, for the search of a phase; nothing if `pieces` was cancelled.
    pub fn new(plane: &[f32], width: usize, phase: &Phase, pieces: &mut Pieces<'_>) -> Option<Self> {
        let (height, margin, step) = (plane.len() / width, phase.half_window, phase.step);
        let part = (width + 2 * margin) / step + 2 + WIDTH;
        let stride = part * step;
        let mut values = vec![0.0; stride * height];
        let rows_at_once = rows_at_once(width);
        let arrange = |block: usize, rows: &mut [&mut [f32]]| {
            let levels = plane[block * rows_at_once * width..].chunks_exact(width);
            for (row, levels) in rows[0].chunks_exact_mut(stride).zip(levels) {
                for (x, level) in levels.iter().enumerate() {
                    row[(margin + x) % step * part + (margin + x) / step] = pixel(*level);
                }
            }
        };
        fill(pieces, &mut [&mut values], rows_at_once * stride, arrange).then_some(Self {
            height,
            width,
            step,
            stride,
            part,
            margin,
            values,
        })
    }

    /// The place in a row of the pixels from column `x` on, which may lie left of the plane by up to the margin.
    #[inline(always)]
    fn place(&self, x: isize) -> usize {
        let at = (self.margin as isize + x) as usize;
        at % self.step * self.part + at / self.step
    }

    #[inline(always)]
    fn numbers(&self, y: usize, place: usize) -> &[f32; WIDTH] {
        self.values[y * self.stride + place..].first_chunk().expect("parts of rows end with a width")
    }
}

/// All displacements of a window, in the order of their ranks.
pub(crate) fn displacements(half_window: usize) -> Vec<(i32, i32)> {
    let half = half_window as i32;
    let mut all: Vec<_> = (-half..=half).flat_map(|dy| (-half..=half).map(move |dx| (dy, dx))).collect();
    all.sort_by_key(|(dy, dx)| (dy.abs(), dx.abs(), *dy, *dx));
    debug_assert!(all.len() < 1 << RANK_BITS);
    all
}

/// The largest sum of squared differences that is still similar.
pub(crate) fn difference_max(phase: &Phase) -> u32 {
    let limit = phase.tau * STEPS * STEPS * (phase.patch * phase.patch) as f64;
    debug_assert!(limit < EXACT_BELOW);
    (limit.ceil() - 1.0) as u32
}

/// The places of the patches that are similar to a reference patch, itself first: a power of two of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Matches {
    /// Row and column of each patch's corner.
    pub places: Vec<(u32, u32)>,
}

/// The matches of reference patches with their corners in rows `ys` and columns `xs`, by rows. As for [`search`].
pub(crate) fn matches(
    path: CodePath,
    pixels: &Pixels,
    ys: &[usize],
    xs: &[usize],
    phase: &Phase,
    displacements: &[(i32, i32)],
) -> Vec<Vec<Matches>> {
    search(path, pixels, ys, xs, phase, displacements, &|best, y, x| best.matches(y, x, displacements))
}

/// By rows: what `make` makes of the best matches of a reference patch, its row and its column. The corners are in rows `ys` and
/// columns `xs`, which grow by the step, the last one by less.
pub(crate) fn search<T>(
    path: CodePath,
    pixels: &Pixels,
    ys: &[usize],
    xs: &[usize],
    phase: &Phase,
    displacements: &[(i32, i32)],
    make: &dyn Fn(&Best, usize, usize) -> T,
) -> Vec<Vec<T>> {
    let mut found = Vec::with_capacity(ys.len());
    for rows in ys.chunk_by(|a, b| a + phase.step == *b).flat_map(|rows| rows.chunks(ROWS)) {
        let mut of_rows: Vec<Vec<T>> = rows.iter().map(|_| Vec::with_capacity(xs.len())).collect();
        let most = columns_at_once(phase);
        for columns in xs.chunk_by(|a, b| a + phase.step == *b).flat_map(|columns| columns.chunks(most)) {
            let tile = Tile { pixels, rows, columns, phase, displacements };
            // Constants for the default profile, so that its loops are unrolled.
            match (phase.patch, phase.step) {
                (8, 3) => lanes::run(path, Search::<T, 8, 3, 3>(&tile, &mut of_rows, make)),
                (8, _) => lanes::run(path, Search::<T, 8, 0, STEP_MAX>(&tile, &mut of_rows, make)),
                _ => lanes::run(path, Search::<T, 11, 0, STEP_MAX>(&tile, &mut of_rows, make)),
            }
        }
        found.extend(of_rows);
    }
    found
}

/// Reference patches of a row that are compared at once.
pub(crate) fn columns_at_once(phase: &Phase) -> usize {
    WIDTH - phase.patch / phase.step
}

/// Reference patches of some rows that are compared at once; rows and columns grow by the step.
struct Tile<'a> {
    pixels: &'a Pixels,
    rows: &'a [usize],
    columns: &'a [usize],
    phase: &'a Phase,
    displacements: &'a [(i32, i32)],
}

impl Tile<'_> {
    /// The rows, or columns, of the tile whose patch lies within the plane if it is displaced.
    fn within(&self, corners: &[usize], side: usize, by: i32) -> (usize, usize) {
        let last = side as isize - self.phase.patch as isize;
        let lies = |corner: &usize| (0..=last).contains(&(*corner as isize + by as isize));
        let begin = corners.iter().position(lies).unwrap_or(corners.len());
        (begin, begin + corners[begin..].iter().take_while(|corner| lies(corner)).count())
    }
}

/// The best matches of a reference patch so far, as keys of difference and rank.
#[derive(Clone)]
pub(crate) struct Best {
    keys: [u64; STACK_MAX],
    stack: usize,
}

impl Best {
    /// Inserts a difference; returns the one above which nothing is kept from now on. Ranks grow from call to call, so an equal
    /// difference is not kept later: in flat parts of a picture most are equal.
    #[inline(always)]
    fn insert(&mut self, difference: f32, rank: usize, limit: f32) -> f32 {
        let (last, key) = (self.stack - 1, (difference as u64) << RANK_BITS | rank as u64);
        if key >= self.keys[last] {
            return limit;
        }
        insert(&mut self.keys[..self.stack], key);
        let worst = self.keys[last];
        if worst == u64::MAX { limit } else { (worst >> RANK_BITS) as f32 - 1.0 }
    }

    /// The difference and the rank of each match, the best first.
    pub fn found(&self) -> impl ExactSizeIterator<Item = (u64, usize)> {
        let count = self.keys[..self.stack].iter().take_while(|key| **key != u64::MAX).count();
        let parts = |key: &u64| (key >> RANK_BITS, (key & ((1 << RANK_BITS) - 1)) as usize);
        self.keys[..count].iter().map(parts)
    }

    fn matches(&self, y: usize, x: usize, displacements: &[(i32, i32)]) -> Matches {
        let found = self.found();
        // The patch itself differs by nothing and has rank 0.
        let kept = 1 << found.len().max(1).ilog2();
        let place = |(_, rank): (u64, usize)| {
            let (dy, dx) = displacements[rank];
            ((y as i32 + dy) as u32, (x as i32 + dx) as u32)
        };
        Matches { places: found.take(kept).map(place).collect() }
    }
}

/// Inserts a key into sorted ones, of which the last one leaves; a larger key is left out.
#[inline(always)]
pub(crate) fn insert(keys: &mut [u64], key: u64) {
    let mut place = keys.len() - 1;
    if key >= keys[place] {
        return;
    }
    while place > 0 && keys[place - 1] > key {
        keys[place] = keys[place - 1];
        place -= 1;
    }
    keys[place] = key;
}

/// The search of a tile with patches of `P` by `P` pixels and a step of `S`, or of the phase's for 0; `M` is at least the step.
struct Search<'a, T, const P: usize, const S: usize, const M: usize>(
    &'a Tile<'a>,
    &'a mut [Vec<T>],
    &'a dyn Fn(&Best, usize, usize) -> T,
);

impl<T, const P: usize, const S: usize, const M: usize> Work for Search<'_, T, P, S, M> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self(tile, found, make) = self;
        let (pixels, columns) = (tile.pixels, tile.columns);
        let step = if S == 0 { pixels.step } else { S };
        let (left, half) = (columns[0] as isize, tile.phase.half_window as i32);
        let empty = Best { keys: [u64::MAX; STACK_MAX], stack: tile.phase.stack };
        let mut best = vec![empty; tile.rows.len() * columns.len()];
        // No sum is below that of a column without a reference patch.
        let mut limits = [[-1f32; WIDTH]; ROWS];
        limits.iter_mut().for_each(|row| row[..columns.len()].fill(difference_max(tile.phase) as f32));
        let spans: Vec<_> = (-half..=half).map(|dx| tile.within(columns, pixels.width, dx)).collect();
        let mut reference = [0; M];
        for (shift, place) in reference[..step].iter_mut().enumerate() {
            *place = pixels.place(left + shift as isize);
        }
        let mut groups = [[[0f32; WIDTH + 16]; 4]; ROWS + STEP_MAX];
        let mut sums = [0f32; WIDTH];
        for (rank, (dy, dx)) in tile.displacements.iter().enumerate() {
            let (begin, end) = spans[(dx + half) as usize];
            let (first, last) = tile.within(tile.rows, pixels.height, *dy);
            if begin == end || first == last {
                continue;
            }
            let mut other = [0; M];
            for (shift, place) in other[..step].iter_mut().enumerate() {
                *place = pixels.place(left + *dx as isize + shift as isize);
            }
            let pair = Pair { pixels, dy: *dy as isize, reference, other, count: columns.len() };
            pair.groups::<L, P>(lanes, step, tile.rows[first], last - first, &mut groups);
            for row in first..last {
                patches::<L, P>(lanes, step, &groups[row - first..], columns.len(), &mut sums);
                let (limits, best) = (&mut limits[row], &mut best[row * columns.len()..]);
                for from in (0..columns.len()).step_by(L::COUNT) {
                    let mut near = lanes.at_most(lanes.load(&sums[from..]), lanes.load(&limits[from..]));
                    while near != 0 {
                        let column = from + near.trailing_zeros() as usize;
                        near &= near - 1;
                        if (begin..end).contains(&column) {
                            limits[column] = best[column].insert(sums[column], rank, limits[column]);
                        }
                    }
                }
            }
        }
        for ((found, y), best) in found.iter_mut().zip(tile.rows).zip(best.chunks(columns.len())) {
            let of_row = best.iter().zip(columns);
            found.extend(of_row.map(|(best, x)| make(best, *y, *x)));
        }
    }
}

/// The pixels of a tile and the same displaced, by the places of their columns in a row.
struct Pair<'a, const M: usize> {
    pixels: &'a Pixels,
    dy: isize,
    reference: [usize; M],
    other: [usize; M],
    /// Reference patches of a row.
    count: usize,
}

impl<const M: usize> Pair<'_, M> {
    /// The sums of squared differences of squares of `step` by `step` pixels, of which patches consist: `rows` rows of reference
    /// patches from row `y` on. A patch ends within a square, so each square has four sums: all of it, its left columns, its
    /// upper rows, and what both share.
    #[inline(always)]
    fn groups<L: Lanes, const P: usize>(
        &self,
        lanes: L,
        step: usize,
        y: usize,
        rows: usize,
        into: &mut [[Sums; 4]],
    ) {
        let (whole, rest) = (P / step, P % step);
        let columns = (self.count + whole).next_multiple_of(L::COUNT);
        // The last group has only the rest of the last row of patches, if there is one.
        let full = rows + whole - 1;
        for (group, into) in into[..full + usize::from(rest > 0)].iter_mut().enumerate() {
            let height = if group == full { rest } else { step };
            let mut pixels = [[(&[0f32; WIDTH], &[0f32; WIDTH]); M]; M];
            for (r, row) in pixels[..height].iter_mut().enumerate() {
                let at = y + group * step + r;
                let there = (at as isize + self.dy) as usize;
                let places = self.reference[..step].iter().zip(&self.other);
                for (pair, (reference, other)) in row.iter_mut().zip(places) {
                    *pair = (self.pixels.numbers(at, *reference), self.pixels.numbers(there, *other));
                }
            }
            for from in (0..columns).step_by(L::COUNT) {
                let (mut corner, mut upper) = (lanes.splat(0.0), lanes.splat(0.0));
                for row in &pixels[..rest.min(height)] {
                    corner = squares(lanes, &row[..rest], from, corner);
                    upper = squares(lanes, &row[rest..step], from, upper);
                }
                let (mut left, mut all) = (corner, lanes.add(corner, upper));
                for row in &pixels[rest.min(height)..height] {
                    let some = squares(lanes, &row[..rest], from, lanes.splat(0.0));
                    left = lanes.add(left, some);
                    all = lanes.add(all, squares(lanes, &row[rest..step], from, some));
                }
                let sums = [all, left, lanes.add(corner, upper), corner];
                for (sum, into) in sums.into_iter().zip(&mut *into) {
                    lanes.store(sum, &mut into[from..]);
                }
            }
        }
    }
}

/// Adds the squared differences at some places.
#[inline(always)]
fn squares<L: Lanes>(
    lanes: L,
    places: &[(&[f32; WIDTH], &[f32; WIDTH])],
    from: usize,
    mut sum: L::V,
) -> L::V {
    for (reference, other) in places {
        let difference = lanes.sub(lanes.load(&reference[from..]), lanes.load(&other[from..]));
        sum = lanes.add(sum, lanes.mul(difference, difference));
    }
    sum
}

/// The sums of squared differences of the patches of a row, from the groups of that row on.
#[inline(always)]
fn patches<L: Lanes, const P: usize>(
    lanes: L,
    step: usize,
    groups: &[[Sums; 4]],
    count: usize,
    into: &mut [f32; WIDTH],
) {
    let (whole, rest) = (P / step, P % step);
    for from in (0..count).step_by(L::COUNT) {
        let mut sum = lanes.splat(0.0);
        for [all, left, _, _] in &groups[..whole] {
            for column in from..from + whole {
                sum = lanes.add(sum, lanes.load(&all[column..]));
            }
            if rest > 0 {
                sum = lanes.add(sum, lanes.load(&left[from + whole..]));
            }
        }
        if rest > 0 {
            let [_, _, upper, corner] = &groups[whole];
            for column in from..from + whole {
                sum = lanes.add(sum, lanes.load(&upper[column..]));
            }
            sum = lanes.add(sum, lanes.load(&corner[from + whole..]));
        }
        lanes.store(sum, &mut into[from..]);
    }
}
