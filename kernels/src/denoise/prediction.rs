//! The similar patches of the frames of a video around one: in each frame, small windows around the best patches of the frame next to
//! it, on the side of the reference patch.
//!
//! Source: Dabov, Foi, Egiazarian, "Video denoising by sparse 3D transform-domain collaborative filtering", EUSIPCO 2007.
//!
//! Invariant: differences are exact as in `matching.rs`, and matches are ordered by (difference, frames away, displacement, the later
//! frame first), so all paths find the same ones.

use crate::CodePath;
use crate::lanes::{self, Lanes, Work};

use super::matching::{Matches, Pixels, difference_max, insert, search};
use super::parameters::{Phase, STACK_MAX};

/// Pixels from the middle of a window in another frame to its edge.
pub(crate) const HALF: usize = 2;
/// Patches of a frame around whose places the next frame is searched.
pub(crate) const FOLLOWED: usize = 2;

/// The frames around one. The planes have frames below each other, each with a row from which it begins.
pub(crate) struct Around<'a> {
    /// By matched plane: its pixels as `matching::pixel` gives them.
    pub pixels: &'a [Vec<f32>],
    /// Rows of a frame.
    pub height: usize,
    /// The first row of the frame itself.
    pub own: usize,
    /// The first rows of the later frames and of the earlier ones, the nearest first.
    pub sides: [Vec<usize>; 2],
}

impl Around<'_> {
    /// The first rows of all frames: the frame itself, the later ones, the earlier ones.
    pub fn tops(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.own).chain(self.sides.iter().flatten().copied())
    }
}

/// A match as a number, by which the matches of a reference patch are ordered.
#[derive(Clone, Copy)]
struct Key {
    difference: u64,
    /// Frames away.
    away: usize,
    /// 1 for an earlier frame.
    side: usize,
    dy: i32,
    dx: i32,
}

impl Key {
    #[inline(always)]
    fn packed(self) -> u64 {
        let Self { difference, away, side, dy, dx } = self;
        let magnitudes =
            (away as u64) << 16 | u64::from(dy.unsigned_abs()) << 8 | u64::from(dx.unsigned_abs());
        let signs = u64::from(dy > 0) << 2 | u64::from(dx > 0) << 1 | side as u64;
        difference << 24 | magnitudes << 3 | signs
    }

    #[inline(always)]
    fn of(packed: u64) -> Self {
        let sign = |bit: u32| if packed >> bit & 1 == 1 { 1 } else { -1 };
        let byte = |from: u32| (packed >> from & 0xff) as i32;
        Self {
            difference: packed >> 24,
            away: (packed >> 19 & 0x1f) as usize,
            side: (packed & 1) as usize,
            dy: sign(2) * byte(11),
            dx: sign(1) * byte(3),
        }
    }
}

/// The matches of reference patches in their own frame and around it, by rows; rows of places are those of the planes. As for
/// `matching::matches` with the frame itself; the plane is that of the pixels.
pub(crate) fn matches(
    path: CodePath,
    pixels: &Pixels,
    ys: &[usize],
    xs: &[usize],
    phase: &Phase,
    displacements: &[(i32, i32)],
    (around, plane): (&Around<'_>, usize),
) -> Vec<Matches> {
    let own = search(path, pixels, ys, xs, phase, displacements, &|best, y, x| {
        let key = |(difference, rank): (u64, usize)| {
            let (dy, dx) = displacements[rank];
            Key { difference, away: 0, side: 0, dy, dx }.packed()
        };
        Reference { y, x, own: best.found().map(key).collect() }
    });
    let own = own.into_iter().flatten().collect();
    let prediction = Prediction { phase, around, pixels: &around.pixels[plane], width: pixels.width(), own };
    match phase.patch {
        8 => lanes::run(path, Sized::<8>(&prediction)),
        _ => lanes::run(path, Sized::<11>(&prediction)),
    }
}

/// A reference patch and its matches in its own frame.
struct Reference {
    y: usize,
    x: usize,
    own: Vec<u64>,
}

struct Prediction<'a> {
    phase: &'a Phase,
    around: &'a Around<'a>,
    pixels: &'a [f32],
    width: usize,
    own: Vec<Reference>,
}

/// A prediction for patches of `P` by `P` pixels.
struct Sized<'a, const P: usize>(&'a Prediction<'a>);

impl<const P: usize> Work for Sized<'_, P> {
    type Done = Vec<Matches>;

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> Vec<Matches> {
        let mut found = Vec::with_capacity(self.0.own.len());
        for reference in &self.0.own {
            found.push(self.0.of_reference::<P>(reference));
        }
        found
    }
}

impl Prediction<'_> {
    #[inline(always)]
    fn of_reference<const P: usize>(&self, reference: &Reference) -> Matches {
        let Reference { y, x, own } = reference;
        let patch: [&[f32; P]; P] = std::array::from_fn(|i| self.row(self.around.own + y + i, *x));
        let mut best = [u64::MAX; STACK_MAX];
        let best = &mut best[..self.phase.stack];
        best[..own.len()].copy_from_slice(own);
        for (side, tops) in self.around.sides.iter().enumerate() {
            let mut followed = [u64::MAX; FOLLOWED];
            followed.iter_mut().zip(own).for_each(|(followed, own)| *followed = *own);
            for (nth, top) in tops.iter().enumerate() {
                followed = self.of_frame(reference, &patch, (nth + 1, side, *top), followed, best);
                // Nothing similar leads further.
                if followed[0] == u64::MAX {
                    break;
                }
            }
        }
        let count = best.iter().take_while(|key| **key != u64::MAX).count();
        // The patch itself differs by nothing and comes first.
        let kept = 1 << count.max(1).ilog2();
        let place = |key: &u64| {
            let Key { away, side, dy, dx, .. } = Key::of(*key);
            let top = if away == 0 { self.around.own } else { self.around.sides[side][away - 1] };
            ((top as i32 + *y as i32 + dy) as u32, (*x as i32 + dx) as u32)
        };
        Matches { places: best[..kept].iter().map(place).collect() }
    }

    /// Searches a frame, so far away on a side, that begins at row `top`, around some matches of the frame before it. Returns its best
    /// matches, and inserts all into the best of all frames.
    #[inline(always)]
    fn of_frame<const P: usize>(
        &self,
        Reference { y, x, .. }: &Reference,
        patch: &[&[f32; P]; P],
        (away, side, top): (usize, usize, usize),
        followed: [u64; FOLLOWED],
        best: &mut [u64],
    ) -> [u64; FOLLOWED] {
        let limit = difference_max(self.phase) as f32;
        let middles = followed.map(|key| {
            let Key { dy, dx, .. } = Key::of(key);
            (y.wrapping_add_signed(dy as isize), x.wrapping_add_signed(dx as isize))
        });
        let window = |middle: usize, side: usize| middle.saturating_sub(HALF)..=(middle + HALF).min(side - P);
        let mut found = [u64::MAX; FOLLOWED];
        for (nth, (middle_y, middle_x)) in middles.iter().enumerate() {
            if followed[nth] == u64::MAX {
                break;
            }
            for row in window(*middle_y, self.around.height) {
                for column in window(*middle_x, self.width) {
                    let is_in =
                        |(y, x): &(usize, usize)| y.abs_diff(row) <= HALF && x.abs_diff(column) <= HALF;
                    if middles[..nth].iter().any(is_in) {
                        continue;
                    }
                    let difference = self.difference(patch, top + row, column);
                    if difference <= limit {
                        let (dy, dx) = (row as i32 - *y as i32, column as i32 - *x as i32);
                        let key = Key { difference: difference as u64, away, side, dy, dx }.packed();
                        insert(&mut found, key);
                        insert(best, key);
                    }
                }
            }
        }
        found
    }

    #[inline(always)]
    fn row<const P: usize>(&self, y: usize, x: usize) -> &[f32; P] {
        self.pixels[y * self.width + x..].first_chunk().expect("the patch lies inside")
    }

    /// The sum of squared differences from the patch with this corner.
    #[inline(always)]
    fn difference<const P: usize>(&self, patch: &[&[f32; P]; P], y: usize, x: usize) -> f32 {
        let mut sums = [0f32; P];
        for (i, row) in patch.iter().enumerate() {
            let other: &[f32; P] = self.row(y + i, x);
            for (sum, (a, b)) in sums.iter_mut().zip(row.iter().zip(other)) {
                *sum += (a - b) * (a - b);
            }
        }
        let mut sum = 0.0;
        for part in sums {
            sum += part;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_and_are_ordered_by_their_parts() {
        let mut keys = Vec::new();
        for difference in [0, 1, (1 << 24) - 1] {
            for away in [0, 1, 8] {
                for (dy, dx) in [(0, 0), (0, -1), (0, 1), (-1, 0), (1, 0), (-1, -80), (1, 80)] {
                    for side in 0..=usize::from(away > 0) {
                        keys.push((difference, away, dy, dx, side));
                    }
                }
            }
        }
        let parts = |(difference, away, dy, dx, side): &(u64, usize, i32, i32, usize)| {
            (*difference, *away, dy.abs(), dx.abs(), *dy, *dx, *side)
        };
        keys.sort_by_key(parts);
        let packed: Vec<u64> = keys
            .iter()
            .map(|&(difference, away, dy, dx, side)| Key { difference, away, side, dy, dx }.packed())
            .collect();
        assert!(packed.is_sorted_by(|a, b| a < b));
        for (packed, expected) in packed.into_iter().zip(keys) {
            let Key { difference, away, side, dy, dx } = Key::of(packed);
            assert_eq!((difference, away, dy, dx, side), expected);
        }
    }
}
