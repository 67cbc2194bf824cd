//! The loops of the pass in f32.
//!
//! The multiply-adds of 64 coordinates take almost all time. Their loop holds the sums of two vectors of objects with all
//! marks of a panel in registers: each number of an object is loaded once for a panel, each number of a mark once for two
//! vectors.

use super::super::Form;
use super::fast::{BASES, COLUMN_ONE, Column, FastPass, ROWS, SHARES, WEIGHTS};
use super::{TILE, TILE_NUMBERS};
use crate::CodePath;
use crate::lanes::{Lanes, Work, load_two, run};
use crate::sketch::COORDINATES;

/// Vectors of objects that the inner loop processes together.
const VECTORS: usize = 2;
/// Objects whose means are held in the first-level cache while columns are added to them.
const FOLDED: usize = 512;
const _: () = assert!(FOLDED.is_multiple_of(TILE));
/// Columns that are added together.
const COLUMNS: usize = 4;

impl FastPass {
    /// Writes the means and the upper bounds of all objects of some tiles, both within [`Pass::error`](super::Pass::error).
    ///
    /// # Panics
    /// If there are not as many numbers as the tiles have objects.
    pub fn uppers(&self, tiles: &[u16], means: &mut [f32], out: &mut [f32]) {
        assert!(tiles.len().is_multiple_of(TILE_NUMBERS), "whole tiles");
        assert_eq!(out.len(), tiles.len() / COORDINATES, "a bound for each object");
        assert_eq!(out.len(), means.len(), "a mean for each object");
        run(self.path, Uppers { pass: self, tiles, means, out });
    }

    /// Writes the columns of all marks for the objects of some tiles to `out`, one list for each mark.
    ///
    /// # Panics
    /// If there is not a list for each mark, with as many numbers as the tiles have objects.
    pub fn columns(&self, tiles: &[u16], out: &mut [&mut [u16]]) {
        assert!(tiles.len().is_multiple_of(TILE_NUMBERS), "whole tiles");
        assert_eq!(out.len(), self.marks, "a column for each mark");
        assert!(out.iter().all(|out| out.len() == tiles.len() / COORDINATES), "a number for each object");
        run(self.path, ColumnsOf { pass: self, tiles, out });
    }

    /// Writes the means and the upper bounds of consecutive objects, from the columns of all marks, both within
    /// [`Pass::error_of_columns`](super::Pass::error_of_columns).
    ///
    /// # Panics
    /// If a column or `out` is of another length than the others, or that is not a multiple of [`TILE`].
    pub fn fold(path: CodePath, columns: &[Column<'_>], explore: f64, means: &mut [f32], out: &mut [f32]) {
        assert!(path.is_available(), "this machine has no {path} instructions");
        assert!(out.len().is_multiple_of(TILE) && out.len() == means.len(), "whole tiles");
        assert!(columns.iter().all(|column| column.covariances.len() == out.len()), "columns of one length");
        run(path, Fold { columns, explore: explore as f32, means, out });
    }
}

/// The upper bounds of all objects of some tiles.
struct Uppers<'a> {
    pass: &'a FastPass,
    tiles: &'a [u16],
    means: &'a mut [f32],
    out: &'a mut [f32],
}

/// The columns of all marks for the objects of some tiles.
struct ColumnsOf<'a, 'b> {
    pass: &'a FastPass,
    tiles: &'a [u16],
    out: &'a mut [&'b mut [u16]],
}

/// The upper bounds of objects from columns.
struct Fold<'a> {
    columns: &'a [Column<'a>],
    explore: f32,
    means: &'a mut [f32],
    out: &'a mut [f32],
}

/// The covariance of a scaled square, for the forms of covariance.
trait Term: Copy {
    /// Whether the square is expanded into norms and a product; otherwise it is a sum of squared differences, not scaled.
    const EXPANDS: bool;

    fn of<L: Lanes>(self, lanes: L, squares: [L::V; 4]) -> [L::V; 4];
}

#[derive(Clone, Copy)]
struct InverseMultiquadric;

impl Term for InverseMultiquadric {
    const EXPANDS: bool = true;

    #[inline(always)]
    fn of<L: Lanes>(self, lanes: L, mut squares: [L::V; 4]) -> [L::V; 4] {
        for square in &mut squares {
            *square = lanes.inverse_root(lanes.max(*square, lanes.splat(1.0)));
        }
        squares
    }
}

#[derive(Clone, Copy)]
struct Gaussian;

impl Term for Gaussian {
    const EXPANDS: bool = true;

    #[inline(always)]
    fn of<L: Lanes>(self, lanes: L, mut squares: [L::V; 4]) -> [L::V; 4] {
        let zero = lanes.splat(0.0);
        for square in &mut squares {
            *square = lanes.sub(zero, lanes.max(*square, zero));
        }
        lanes.exp2(squares)
    }
}

/// With the root of the scale, negative.
#[derive(Clone, Copy)]
struct Exponential(f32);

impl Term for Exponential {
    const EXPANDS: bool = false;

    #[inline(always)]
    fn of<L: Lanes>(self, lanes: L, mut squares: [L::V; 4]) -> [L::V; 4] {
        for square in &mut squares {
            *square = lanes.mul(lanes.sqrt(*square), lanes.splat(self.0));
        }
        lanes.exp2(squares)
    }
}

/// Receives the covariances of two vectors of objects with one mark after the other.
trait Sink<L: Lanes> {
    /// Covariances with mark `number`, at `place` of its panel.
    fn take(
        &mut self,
        lanes: L,
        panel: &[f32],
        width: usize,
        place: usize,
        number: usize,
        covariances: [L::V; VECTORS],
    );
}

/// Adds up means, and keeps the largest squares.
struct Bounds<L: Lanes> {
    mean: [L::V; VECTORS],
    largest: [L::V; VECTORS],
}

impl<L: Lanes> Sink<L> for Bounds<L> {
    #[inline(always)]
    fn take(
        &mut self,
        lanes: L,
        panel: &[f32],
        width: usize,
        place: usize,
        _: usize,
        covariances: [L::V; VECTORS],
    ) {
        let weight = lanes.splat(panel[WEIGHTS * width + place]);
        let share = lanes.splat(panel[SHARES * width + place]);
        for (v, k) in covariances.into_iter().enumerate() {
            self.mean[v] = lanes.mul_add(weight, k, self.mean[v]);
            self.largest[v] = lanes.max(lanes.mul(lanes.mul(k, k), share), self.largest[v]);
        }
    }
}

/// Writes columns from object `first` on.
struct Write<'a, 'b> {
    out: &'a mut [&'b mut [u16]],
    first: usize,
}

impl<L: Lanes> Sink<L> for Write<'_, '_> {
    #[inline(always)]
    fn take(&mut self, lanes: L, _: &[f32], _: usize, _: usize, number: usize, covariances: [L::V; VECTORS]) {
        let Some(out) = self.out.get_mut(number) else { return };
        for (v, k) in covariances.into_iter().enumerate() {
            let count = lanes
                .min(lanes.mul(k, lanes.splat(f32::from(COLUMN_ONE))), lanes.splat(f32::from(COLUMN_ONE)));
            lanes.store_counts(count, &mut out[self.first + v * L::COUNT..]);
        }
    }
}

/// A tile in f32: the objects in groups of two vectors, coordinate after coordinate in each.
struct Group {
    numbers: [f32; TILE_NUMBERS],
    /// The scaled squared norms of the objects.
    norms: [f32; TILE],
}

impl Group {
    #[inline(always)]
    fn load<L: Lanes>(&mut self, lanes: L, tile: &[u16], scale: f32) {
        let width = VECTORS * L::COUNT;
        for first in (0..TILE).step_by(L::COUNT) {
            let (mut norm, place) = (lanes.splat(0.0), first / width * width * COORDINATES + first % width);
            for (number, line) in tile.chunks_exact(TILE).enumerate() {
                let x = lanes.load_halves(&line[first..]);
                norm = lanes.mul_add(x, x, norm);
                lanes.store(x, &mut self.numbers[place + number * width..]);
            }
            lanes.store(lanes.mul(norm, lanes.splat(scale)), &mut self.norms[first..]);
        }
    }
}

/// Passes the covariances of a group of objects with all marks to a sink.
#[inline(always)]
fn group<L: Lanes, T: Term, S: Sink<L>, const MARKS: usize>(
    lanes: L,
    term: T,
    panels: &[f32],
    (numbers, norms): (&[f32], &[f32]),
    sink: &mut S,
) {
    let norms: [L::V; VECTORS] = load_two(lanes, norms);
    for (panel_idx, panel) in panels.chunks_exact(MARKS * ROWS).enumerate() {
        let mut sums = [[lanes.splat(0.0); VECTORS]; MARKS];
        if T::EXPANDS {
            for (mark, sums) in sums.iter_mut().enumerate() {
                let base = lanes.splat(panel[BASES * MARKS + mark]);
                *sums = [lanes.add(norms[0], base), lanes.add(norms[1], base)];
            }
        }
        let (rows, _) = panel.as_chunks::<MARKS>();
        for (x, row) in numbers.chunks_exact(VECTORS * L::COUNT).zip(&rows[..COORDINATES]) {
            let x: [L::V; VECTORS] = load_two(lanes, x);
            for (sums, y) in sums.iter_mut().zip(row) {
                let y = lanes.splat(*y);
                for v in 0..VECTORS {
                    sums[v] = if T::EXPANDS {
                        lanes.mul_add(x[v], y, sums[v])
                    } else {
                        let difference = lanes.sub(x[v], y);
                        lanes.mul_add(difference, difference, sums[v])
                    };
                }
            }
        }
        for mark in (0..MARKS).step_by(2) {
            let [[a, b], [c, d]] = [sums[mark], sums[mark + 1]];
            let [a, b, c, d] = term.of(lanes, [a, b, c, d]);
            sink.take(lanes, panel, MARKS, mark, panel_idx * MARKS + mark, [a, b]);
            sink.take(lanes, panel, MARKS, mark + 1, panel_idx * MARKS + mark + 1, [c, d]);
        }
    }
}

/// Calls `f` with the pass's form of covariance, and the marks of a panel.
macro_rules! with_form {
    ($pass:expr, $lanes:expr, |$term:ident, $marks:ident| $body:expr) => {{
        const WIDE: usize = 12;
        const NARROW: usize = 6;
        macro_rules! of_width {
            ($value:expr) => {{
                let $term = $value;
                if L::COUNT == 16 {
                    const $marks: usize = WIDE;
                    $body
                } else {
                    const $marks: usize = NARROW;
                    $body
                }
            }};
        }
        match $pass.form {
            Form::InverseMultiquadric => of_width!(InverseMultiquadric),
            Form::Gaussian => of_width!(Gaussian),
            Form::Exponential | Form::Laplacian => of_width!(Exponential(-$pass.scale.sqrt())),
        }
    }};
}

impl Work for Uppers<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        with_form!(self.pass, lanes, |term, MARKS| uppers::<L, _, MARKS>(lanes, term, self));
    }
}

#[inline(always)]
fn uppers<L: Lanes, T: Term, const MARKS: usize>(lanes: L, term: T, work: Uppers<'_>) {
    let Uppers { pass, tiles, means, out } = work;
    let width = VECTORS * L::COUNT;
    let mut tile = Group { numbers: [0.0; TILE_NUMBERS], norms: [0.0; TILE] };
    let (zero, one, explore) = (lanes.splat(0.0), lanes.splat(1.0), lanes.splat(pass.explore));
    let places = means.chunks_exact_mut(TILE).zip(out.chunks_exact_mut(TILE));
    for (numbers, (means, out)) in tiles.chunks_exact(TILE_NUMBERS).zip(places) {
        tile.load(lanes, numbers, pass.scale);
        let groups = tile.numbers.chunks_exact(width * COORDINATES).zip(tile.norms.chunks_exact(width));
        let places = means.chunks_exact_mut(width).zip(out.chunks_exact_mut(width));
        for (objects, (means, out)) in groups.zip(places) {
            let mut bounds: Bounds<L> = Bounds { mean: [zero; VECTORS], largest: [zero; VECTORS] };
            group::<L, T, _, MARKS>(lanes, term, &pass.panels, objects, &mut bounds);
            for v in 0..VECTORS {
                let deviation = lanes.sqrt(lanes.max(lanes.sub(one, bounds.largest[v]), zero));
                let upper = lanes.mul_add(explore, deviation, bounds.mean[v]);
                lanes.store(bounds.mean[v], &mut means[v * L::COUNT..]);
                lanes.store(upper, &mut out[v * L::COUNT..]);
            }
        }
    }
}

impl Work for ColumnsOf<'_, '_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        with_form!(self.pass, lanes, |term, MARKS| columns::<L, _, MARKS>(lanes, term, self));
    }
}

#[inline(always)]
fn columns<L: Lanes, T: Term, const MARKS: usize>(lanes: L, term: T, work: ColumnsOf<'_, '_>) {
    let ColumnsOf { pass, tiles, out } = work;
    let width = VECTORS * L::COUNT;
    let mut tile = Group { numbers: [0.0; TILE_NUMBERS], norms: [0.0; TILE] };
    for (idx, numbers) in tiles.chunks_exact(TILE_NUMBERS).enumerate() {
        tile.load(lanes, numbers, pass.scale);
        let groups = tile.numbers.chunks_exact(width * COORDINATES).zip(tile.norms.chunks_exact(width));
        for (group_idx, objects) in groups.enumerate() {
            let mut write = Write { out: &mut *out, first: idx * TILE + group_idx * width };
            group::<L, T, _, MARKS>(lanes, term, &pass.panels, objects, &mut write);
        }
    }
}

impl Work for Fold<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { columns, explore, means: all_means, out } = self;
        let one = f64::from(COLUMN_ONE);
        let (zero, explore) = (lanes.splat(0.0), lanes.splat(explore));
        for (block, (all_means, out)) in all_means.chunks_mut(FOLDED).zip(out.chunks_mut(FOLDED)).enumerate()
        {
            let (mut means, mut largest) = ([0.0; FOLDED], [0.0; FOLDED]);
            for columns in columns.chunks(COLUMNS) {
                // Columns that are missing in the last group are the last column with weight and share 0.
                let mut parts: [(&[u16], L::V, L::V); COLUMNS] = [(&[], zero, zero); COLUMNS];
                for (idx, part) in parts.iter_mut().enumerate() {
                    let column = &columns[idx.min(columns.len() - 1)];
                    let is_there = if idx < columns.len() { 1.0 } else { 0.0 };
                    let (weight, share) = (column.weight / one, 1.0 / (1.0 + column.noise) / (one * one));
                    let numbers = &column.covariances[block * FOLDED..][..out.len()];
                    *part = (
                        numbers,
                        lanes.splat((is_there * weight) as f32),
                        lanes.splat((is_there * share) as f32),
                    );
                }
                for first in (0..out.len()).step_by(L::COUNT) {
                    let (mut mean, mut most) = (lanes.load(&means[first..]), lanes.load(&largest[first..]));
                    for (numbers, weight, share) in parts {
                        let k = lanes.load_counts(&numbers[first..]);
                        mean = lanes.mul_add(weight, k, mean);
                        most = lanes.max(lanes.mul(lanes.mul(k, k), share), most);
                    }
                    lanes.store(mean, &mut means[first..]);
                    lanes.store(most, &mut largest[first..]);
                }
            }
            for first in (0..out.len()).step_by(L::COUNT) {
                let rest = lanes.sub(lanes.splat(1.0), lanes.load(&largest[first..]));
                let deviation = lanes.sqrt(lanes.max(rest, zero));
                let upper = lanes.mul_add(explore, deviation, lanes.load(&means[first..]));
                lanes.store(upper, &mut out[first..]);
            }
            all_means.copy_from_slice(&means[..all_means.len()]);
        }
    }
}
