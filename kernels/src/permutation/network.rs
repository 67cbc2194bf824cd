//! The least numbers of many lists in order, by a bitonic network: lane `j` of every vector belongs to list `j`, so a step orders two
//! numbers of each list by one minimum and one maximum.
//!
//! Runs of the wanted length are sorted one after the other; of two sorted runs the least numbers are the minima of one with the other
//! turned around (K. E. Batcher, "Sorting networks and their applications", AFIPS 1968), which a few more steps sort.

use crate::lanes::Lanes;
use crate::panels::PANEL;

/// The shortest run: its numbers fill half of the registers of AVX-512.
pub(super) const RUN_MIN: usize = 16;

/// The least numbers of some lists, and the least of the others.
pub(super) struct Least<V> {
    kept: Vec<V>,
    run: Vec<V>,
    /// The least number of each list that was not kept.
    dropped: V,
}

impl<V: Copy> Least<V> {
    /// Room for `length` numbers of each list, a power of two from [`RUN_MIN`] on.
    #[inline(always)]
    pub(super) fn new<L: Lanes<V = V>>(lanes: L, length: usize) -> Self {
        assert!(length.is_power_of_two() && length >= RUN_MIN, "a run of {length} numbers");
        let none = lanes.splat(f32::INFINITY);
        Self { kept: vec![none; length], run: vec![none; length], dropped: none }
    }

    /// Keeps the least of `count` numbers of each list, a multiple of the length, in ascending order. The numbers of a place lie side by
    /// side, [`PANEL`] after those of the place before; none is a NaN. A number has only the bits of `kept_bits`, and those of its
    /// place.
    #[inline(always)]
    pub(super) fn find<L: Lanes<V = V>>(&mut self, lanes: L, numbers: &[f32], count: usize, kept_bits: u32) {
        let Self { kept, run, dropped } = self;
        *dropped = lanes.splat(f32::INFINITY);
        load(lanes, kept, numbers, 0, kept_bits);
        let mut first = kept.len();
        while first < count {
            load(lanes, run, &numbers[first * PANEL..], first, kept_bits);
            merge(lanes, kept, run, dropped);
            first += kept.len();
        }
    }

    /// The least numbers, ascending.
    #[inline(always)]
    pub(super) fn kept(&self) -> &[V] {
        &self.kept
    }

    /// The least number of each list that is not kept; infinite if there is none.
    #[inline(always)]
    pub(super) fn dropped(&self) -> V {
        self.dropped
    }
}

/// Loads a run, and sorts it.
#[inline(always)]
fn load<L: Lanes>(lanes: L, run: &mut [L::V], numbers: &[f32], first: usize, kept_bits: u32) {
    for (part, to) in run.as_chunks_mut::<RUN_MIN>().0.iter_mut().enumerate() {
        let mut x = [lanes.splat(0.0); RUN_MIN];
        let mut i = 0;
        while i < RUN_MIN {
            let place = part * RUN_MIN + i;
            x[i] = lanes.tagged(lanes.load(&numbers[place * PANEL..]), kept_bits, (first + place) as u32);
            i += 1;
        }
        turned::<L, 2>(lanes, &mut x);
        turned::<L, 4>(lanes, &mut x);
        apart::<L, 1>(lanes, &mut x);
        turned::<L, 8>(lanes, &mut x);
        apart::<L, 2>(lanes, &mut x);
        apart::<L, 1>(lanes, &mut x);
        turned::<L, 16>(lanes, &mut x);
        apart::<L, 4>(lanes, &mut x);
        apart::<L, 2>(lanes, &mut x);
        apart::<L, 1>(lanes, &mut x);
        *to = x;
    }
    let mut size = 2 * RUN_MIN;
    while size <= run.len() {
        for block in run.chunks_exact_mut(size) {
            let mut i = 0;
            while i < size / 2 {
                let (a, b) = (block[i], block[size - 1 - i]);
                (block[i], block[size - 1 - i]) = (lanes.min(a, b), lanes.max(a, b));
                i += 1;
            }
            sort_bitonic(lanes, &mut block[..size / 2]);
            sort_bitonic(lanes, &mut block[size / 2..]);
        }
        size *= 2;
    }
}

/// The least of two sorted runs of one length.
#[inline(always)]
fn merge<L: Lanes>(lanes: L, kept: &mut [L::V], run: &[L::V], dropped: &mut L::V) {
    let mut least = *dropped;
    for (a, b) in kept.iter_mut().zip(run.iter().rev()) {
        least = lanes.min(lanes.max(*a, *b), least);
        *a = lanes.min(*a, *b);
    }
    *dropped = least;
    sort_bitonic(lanes, kept);
}

/// Sorts numbers that ascend and then descend, or are such a sequence moved around.
#[inline(always)]
fn sort_bitonic<L: Lanes>(lanes: L, x: &mut [L::V]) {
    let mut stride = x.len() / 2;
    while stride >= RUN_MIN {
        for block in x.chunks_exact_mut(2 * stride) {
            let (low, high) = block.split_at_mut(stride);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (lanes.min(*a, *b), lanes.max(*a, *b));
            }
        }
        stride /= 2;
    }
    for to in x.as_chunks_mut::<RUN_MIN>().0 {
        let mut x = *to;
        apart::<L, 8>(lanes, &mut x);
        apart::<L, 4>(lanes, &mut x);
        apart::<L, 2>(lanes, &mut x);
        apart::<L, 1>(lanes, &mut x);
        *to = x;
    }
}

/// Orders the first with the last number of each `SIZE` numbers, the second with the last but one, and so on.
#[inline(always)]
fn turned<L: Lanes, const SIZE: usize>(lanes: L, x: &mut [L::V; RUN_MIN]) {
    let mut pair = 0;
    while pair < RUN_MIN / 2 {
        let (block, i) = (pair / (SIZE / 2) * SIZE, pair % (SIZE / 2));
        order(lanes, x, block + i, block + SIZE - 1 - i);
        pair += 1;
    }
}

/// Orders numbers that are `STRIDE` apart.
#[inline(always)]
fn apart<L: Lanes, const STRIDE: usize>(lanes: L, x: &mut [L::V; RUN_MIN]) {
    let mut pair = 0;
    while pair < RUN_MIN / 2 {
        let i = pair / STRIDE * 2 * STRIDE + pair % STRIDE;
        order(lanes, x, i, i + STRIDE);
        pair += 1;
    }
}

#[inline(always)]
fn order<L: Lanes>(lanes: L, x: &mut [L::V; RUN_MIN], low: usize, high: usize) {
    let (a, b) = (x[low], x[high]);
    x[low] = lanes.min(a, b);
    x[high] = lanes.max(a, b);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CodePath;
    use crate::chance::Random;
    use crate::lanes::{Work, run};

    /// The least numbers of each list, list after list, and the least of the others.
    struct Find<'a> {
        numbers: &'a [f32],
        length: usize,
    }

    const KEPT_BITS: u32 = !0 << 11;

    impl Work for Find<'_> {
        type Done = Vec<f32>;

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> Vec<f32> {
            let Self { numbers, length } = self;
            let (mut least, mut found) = (Least::new(lanes, length), vec![0.0; PANEL * (length + 1)]);
            for first in (0..PANEL).step_by(L::COUNT) {
                least.find(lanes, &numbers[first..], numbers.len() / PANEL, KEPT_BITS);
                let mut of_place = vec![0.0; L::COUNT];
                for place in 0..=length {
                    let vector = if place < length { least.kept()[place] } else { least.dropped() };
                    lanes.store(vector, &mut of_place);
                    for (lane, number) in of_place.iter().enumerate() {
                        found[(first + lane) * (length + 1) + place] = *number;
                    }
                }
            }
            found
        }
    }

    #[test]
    fn the_network_keeps_the_least_numbers_in_order() {
        let mut random = Random::new(11);
        for (length, count) in [(16, 16), (16, 128), (32, 96), (64, 64), (128, 512), (1024, 2048)] {
            for values in [3, 1 << 20] {
                let numbers: Vec<f32> = (0..count * PANEL).map(|_| random.below(values) as f32).collect();
                for path in CodePath::available() {
                    let found = run(path, Find { numbers: &numbers, length });
                    for (list, found) in found.chunks_exact(length + 1).enumerate() {
                        let of_list = numbers.iter().skip(list).step_by(PANEL);
                        let tagged = of_list
                            .zip(0..)
                            .map(|(x, place)| f32::from_bits(x.to_bits() & KEPT_BITS | place));
                        let mut all: Vec<f32> = tagged.chain([f32::INFINITY]).collect();
                        all.sort_by(f32::total_cmp);
                        assert_eq!(found, &all[..=length], "{path}, {length} of {count}");
                    }
                }
            }
        }
    }
}
