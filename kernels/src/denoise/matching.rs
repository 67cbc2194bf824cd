//! The patches that are similar to reference patches: all displacements of a window, for many references of a row at once.
//!
//! Invariants: pixels are whole numbers, and every sum up to the largest that is similar is exact in f32 in any order; sums
//! beyond it stay beyond it. So all paths find the same matches. They are ordered by (difference, rank of the displacement), so
//! the order of the search does not matter.

use crate::CodePath;
use crate::lanes::{self, Lanes, Work};

use super::parameters::{EXACT_BELOW, Phase, STACK_MAX, STEPS};

/// Grey levels from 0 in each direction that are told apart.
const LEVELS_MAX: f64 = 1024.0;

/// Columns whose patches are compared at once, a multiple of all lanes.
const TILE: usize = 112;
/// Columns that patches of the last columns have beyond a tile; a multiple of all lanes.
const BEYOND: usize = 16;
/// Bits of a key below the difference.
const RANK_BITS: u32 = 16;

/// Sums of the columns of a tile.
type Sums = [f32; TILE + 2 * BEYOND];

/// The pixels of a plane as patches are compared.
pub(crate) struct Pixels {
    height: usize,
    width: usize,
    stride: usize,
    margin: usize,
    values: Vec<f32>,
}

/// A pixel in steps, a whole number.
pub(crate) fn pixel(level: f32) -> f32 {
    (f64::from(level).clamp(-LEVELS_MAX, LEVELS_MAX) * STEPS).round_ties_even() as f32
}

impl Pixels {
    /// The pixels of a plane of rows of `width`, for windows that reach `half_window` pixels.
    pub fn new(plane: &[f32], width: usize, half_window: usize) -> Self {
        let height = plane.len() / width;
        let (margin, stride) = (half_window, width + 2 * half_window + TILE + BEYOND);
        let mut values = vec![0.0; stride * height];
        for (row, levels) in values.chunks_exact_mut(stride).zip(plane.chunks_exact(width)) {
            row[margin..].iter_mut().zip(levels).for_each(|(value, level)| *value = pixel(*level));
        }
        Self { height, width, stride, margin, values }
    }

    /// The pixels of some rows from a column on, which may lie left of the plane by up to the margin.
    #[inline(always)]
    fn rows<const P: usize>(&self, y: usize, x: isize) -> [&[f32; TILE + BEYOND]; P] {
        let mut rows = [&[0.0; TILE + BEYOND]; P];
        for (idx, row) in rows.iter_mut().enumerate() {
            let at = (y + idx) * self.stride + (self.margin as isize + x) as usize;
            *row = self.values[at..].first_chunk().expect("rows end with a tile");
        }
        rows
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

/// The matches of reference patches with their corners in row `y` and columns `xs`, which grow by at most `patch`.
pub(crate) fn matches(
    path: CodePath,
    pixels: &Pixels,
    y: usize,
    xs: &[usize],
    phase: &Phase,
    displacements: &[(i32, i32)],
) -> Vec<Matches> {
    let mut found = Vec::with_capacity(xs.len());
    let mut rest = xs;
    while let Some(first) = rest.first() {
        let count = rest.iter().take_while(|x| **x + phase.patch - first <= TILE).count();
        let (columns, further) = rest.split_at(count);
        let tile = Tile { pixels, y, columns, phase, displacements };
        match phase.patch {
            8 => lanes::run(path, Search::<8>(&tile, &mut found)),
            _ => lanes::run(path, Search::<11>(&tile, &mut found)),
        }
        rest = further;
    }
    found
}

/// Reference patches of a row that are compared at once.
struct Tile<'a> {
    pixels: &'a Pixels,
    y: usize,
    columns: &'a [usize],
    phase: &'a Phase,
    displacements: &'a [(i32, i32)],
}

impl Tile<'_> {
    /// By horizontal displacement, the columns of the tile whose displaced patch lies within the plane.
    fn spans(&self) -> Vec<(usize, usize)> {
        let (half, patch, width) =
            (self.phase.half_window as isize, self.phase.patch as isize, self.pixels.width as isize);
        let left = self.columns[0] as isize;
        let within = |x: isize| (x - left).clamp(0, TILE as isize) as usize;
        let span = |dx: isize| (within(-dx), within(width - patch - dx + 1));
        (-half..=half).map(span).collect()
    }
}

/// The best matches of a reference patch so far, as keys of difference and rank.
#[derive(Clone)]
struct Best {
    keys: [u64; STACK_MAX],
    stack: usize,
}

impl Best {
    /// Inserts a difference; returns the one above which nothing is kept from now on.
    #[inline(always)]
    fn insert(&mut self, difference: f32, rank: usize, limit: f32) -> f32 {
        let (last, key) = (self.stack - 1, (difference as u64) << RANK_BITS | rank as u64);
        if key >= self.keys[last] {
            return limit;
        }
        let mut place = last;
        while place > 0 && self.keys[place - 1] > key {
            self.keys[place] = self.keys[place - 1];
            place -= 1;
        }
        self.keys[place] = key;
        let worst = self.keys[last];
        if worst == u64::MAX { limit } else { (worst >> RANK_BITS) as f32 }
    }

    fn matches(&self, y: usize, x: usize, displacements: &[(i32, i32)]) -> Matches {
        let found = self.keys[..self.stack].iter().take_while(|key| **key != u64::MAX).count();
        // The patch itself differs by nothing and has rank 0.
        let kept = 1 << found.max(1).ilog2();
        let place = |key: &u64| {
            let (dy, dx) = displacements[(key & ((1 << RANK_BITS) - 1)) as usize];
            ((y as i32 + dy) as u32, (x as i32 + dx) as u32)
        };
        Matches { places: self.keys[..kept].iter().map(place).collect() }
    }
}

/// The search of a tile with patches of `P` by `P` pixels.
struct Search<'a, const P: usize>(&'a Tile<'a>, &'a mut Vec<Matches>);

impl<const P: usize> Work for Search<'_, P> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self(tile, found) = self;
        let (pixels, y, columns) = (tile.pixels, tile.y, tile.columns);
        let (left, half) = (columns[0], tile.phase.half_window as i32);
        let mut best = vec![Best { keys: [u64::MAX; STACK_MAX], stack: tile.phase.stack }; columns.len()];
        // By column of the tile; no sum is below that of a column without a reference patch.
        let mut limits = [-1f32; TILE];
        let mut numbers = [0u8; TILE];
        for (number, x) in columns.iter().enumerate() {
            limits[x - left] = difference_max(tile.phase) as f32;
            numbers[x - left] = number as u8;
        }
        let reference = pixels.rows::<P>(y, left as isize);
        let spans = tile.spans();
        let mut sums = [0f32; TILE + 2 * BEYOND];
        for (rank, (dy, dx)) in tile.displacements.iter().enumerate() {
            let row = y as isize + *dy as isize;
            let (begin, end) = spans[(*dx + half) as usize];
            if row < 0 || row as usize + P > pixels.height || begin >= end {
                continue;
            }
            let x = left as isize + *dx as isize;
            let other = pixels.rows::<P>(row as usize, x);
            differences(lanes, &reference, &other, &mut sums);
            for first in (0..TILE).step_by(L::COUNT) {
                let mut near = lanes.at_most(lanes.load(&sums[first..]), lanes.load(&limits[first..]));
                while near != 0 {
                    let column = first + near.trailing_zeros() as usize;
                    near &= near - 1;
                    if (begin..end).contains(&column) {
                        let best = &mut best[usize::from(numbers[column])];
                        limits[column] = best.insert(sums[column], rank, limits[column]);
                    }
                }
            }
        }
        found.extend(best.iter().zip(columns).map(|(best, x)| best.matches(y, *x, tile.displacements)));
    }
}

/// The sums of squared differences of the patches at each column of a tile.
#[inline(always)]
fn differences<L: Lanes, const P: usize>(
    lanes: L,
    reference: &[&[f32; TILE + BEYOND]; P],
    other: &[&[f32; TILE + BEYOND]; P],
    sums: &mut Sums,
) {
    let mut down = [0f32; TILE + 2 * BEYOND];
    for first in (0..TILE + BEYOND).step_by(L::COUNT) {
        let mut sum = lanes.splat(0.0);
        for row in 0..P {
            let difference =
                lanes.sub(lanes.load(&reference[row][first..]), lanes.load(&other[row][first..]));
            sum = lanes.add(sum, lanes.mul(difference, difference));
        }
        lanes.store(sum, &mut down[first..]);
    }
    let (mut two, mut four) = ([0f32; TILE + 2 * BEYOND], [0f32; TILE + 2 * BEYOND]);
    pairs(lanes, &down, 1, TILE + BEYOND, &mut two);
    pairs(lanes, &two, 2, TILE + BEYOND, &mut four);
    pairs(lanes, &four, 4, TILE, sums);
    if P == 11 {
        for first in (0..TILE).step_by(L::COUNT) {
            let more = lanes.add(lanes.load(&two[first + 8..]), lanes.load(&down[first + 10..]));
            lanes.store(lanes.add(lanes.load(&sums[first..]), more), &mut sums[first..]);
        }
    }
}

/// The sums of each number and the one `apart` places on.
#[inline(always)]
fn pairs<L: Lanes>(lanes: L, from: &Sums, apart: usize, count: usize, into: &mut Sums) {
    for first in (0..count).step_by(L::COUNT) {
        lanes.store(
            lanes.add(lanes.load(&from[first..]), lanes.load(&from[first + apart..])),
            &mut into[first..],
        );
    }
}
