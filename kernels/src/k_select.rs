//! The k least numbers of each of many arrays on a device: constants and sizes for `k_select.cl`, and the reference.
//!
//! Invariant: the answer is the least pairs of number and place, ascending, so equal numbers go by place. What is no number counts
//! as infinity, and -0 as 0. An array of fewer than k numbers ends in infinities at the place [`NOWHERE`].

/// The source of the kernels.
pub const TEXT: &str = include_str!("k_select.cl");

/// The most numbers that are selected from an array.
pub const K_MAX: usize = 2048;
/// The place of a number that is not there.
pub const NOWHERE: u32 = u32::MAX;

/// Items of a warp, which is a work group.
const WARP: usize = 32;
/// Work items of a group that selects by digits.
const ITEMS: usize = 256;
/// Numbers that such a group reads at a time.
const AT_ONCE: usize = 8 * ITEMS;
const DIGITS: usize = 256;
/// Numbers for which there is room after a selection, at least.
const KEPT_MIN: usize = 256;
/// Numbers that are listed between selections, at least.
const LISTED_MIN: usize = 1024;
/// Up to this k warps select, which beyond 100 are no faster (`what=select` of the bench); and from this many arrays on, fewer of
/// which leave the device idle.
const OF_WARPS_MAX: usize = 128;
const ARRAYS_MIN: usize = 1000;

/// How numbers are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By warps, with the least numbers in registers (WarpSelect: Johnson, Douze, Jegou 2017).
    Warps,
    /// By digits of a list in local memory.
    Digits,
}

impl Way {
    /// The way for so many numbers of each of so many arrays.
    pub fn of(k: usize, arrays: usize) -> Self {
        if k <= OF_WARPS_MAX && arrays >= ARRAYS_MIN { Self::Warps } else { Self::Digits }
    }

    /// Work items of a group; an array has one group.
    pub fn items(self) -> usize {
        match self {
            Self::Warps => WARP,
            Self::Digits => ITEMS,
        }
    }

    /// As [`Way::constants`], for arrays whose lengths differ: the buffer `starts` has the place of each array, and of the end.
    ///
    /// # Panics
    /// If `k` is 0 or above [`K_MAX`].
    pub fn constants_of_starts(
        self,
        k: usize,
        array: &'static str,
        starts: &'static str,
    ) -> Vec<(&'static str, String)> {
        let mut constants = self.constants(k, array);
        constants.push(("STARTS", starts.to_owned()));
        constants
    }

    /// The constants to compile the source with, for `k` numbers of arrays in the buffer `array`.
    ///
    /// # Panics
    /// If `k` is 0 or above [`K_MAX`].
    pub fn constants(self, k: usize, array: &'static str) -> Vec<(&'static str, String)> {
        assert!((1..=K_MAX).contains(&k), "1 to {K_MAX} numbers are selected, not {k}");
        let mut constants = vec![("ARRAY", array.to_owned())];
        match self {
            Self::Warps => {
                constants.push(("KEPT", k.div_ceil(WARP).to_string()));
                constants.push(("QUEUED", queued(k).to_string()));
            }
            Self::Digits => {
                // Few different ones, so that most k share a program.
                let k = k.next_power_of_two().max(KEPT_MIN);
                let capacity = (k + AT_ONCE + LISTED_MIN.max(k * 3 / 4)).next_multiple_of(64);
                let sizes =
                    [("ITEMS", ITEMS), ("AT_ONCE", AT_ONCE), ("DIGITS", DIGITS), ("CAPACITY", capacity)];
                constants.extend(sizes.map(|(name, size)| (name, size.to_string())));
            }
        }
        constants
    }
}

// The longest list and the digits fit into the local memory that NVIDIA's OpenCL gives a group.
const _: () = assert!(8 * (K_MAX + AT_ONCE + K_MAX * 3 / 4 + 64) + 4 * (DIGITS + 64) <= 48 << 10);

/// Numbers that a lane gathers, by k.
fn queued(k: usize) -> usize {
    match k {
        0..=32 => 2,
        33..=128 => 3,
        129..=256 => 4,
        _ => 8,
    }
}

/// The k least numbers of an array and their places, as the kernels select them: the reference.
pub fn k_least(array: &[f32], k: usize) -> Vec<(f32, u32)> {
    let compared = |value: f32| if value.is_nan() { f32::INFINITY } else { value + 0.0 };
    let mut all: Vec<(f32, u32)> = array.iter().map(|value| compared(*value)).zip(0..).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all.resize(k, (f32::INFINITY, NOWHERE));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_orders_by_number_and_place() {
        let array = [2.0, f32::NAN, -1.0, 0.0, -0.0, 2.0, f32::NEG_INFINITY];
        let infinity = f32::INFINITY;
        let wanted = [
            (-infinity, 6),
            (-1.0, 2),
            (0.0, 3),
            (0.0, 4),
            (2.0, 0),
            (2.0, 5),
            (infinity, 1),
            (infinity, NOWHERE),
        ];
        assert_eq!(k_least(&array, 8), wanted);
        assert_eq!(k_least(&array, 1), wanted[..1]);
    }

    /// The registers that a number of them lacks of a power of two, as `LACKING` of the kernel.
    fn lacking(count: usize) -> usize {
        count.next_power_of_two() - count
    }

    /// A compare-swap.
    fn swap(bits: &mut [bool], i: usize, j: usize) {
        (bits[i], bits[j]) = (bits[i] & bits[j], bits[i] | bits[j]);
    }

    /// `CONTINUE` of the kernel on registers of 32 lanes, of which `front` are missing before the first.
    fn continue_merge(bits: &mut [bool], front: usize) {
        let registers = bits.len() / WARP;
        for apart in [32, 16, 8, 4, 2, 1] {
            for r in (0..registers).filter(|r| r + apart < registers && (r + front) & apart == 0) {
                (0..WARP).for_each(|lane| swap(bits, r * WARP + lane, (r + apart) * WARP + lane));
            }
        }
        for mask in [16, 8, 4, 2, 1] {
            for at in (0..bits.len()).filter(|at| at & mask == 0) {
                swap(bits, at, at | mask);
            }
        }
    }

    /// `MERGE` of the kernel: `left` sorted registers with sorted ones after them.
    fn merge(bits: &mut [bool], left: usize) {
        let right = bits.len() / WARP - left;
        for i in 0..left.min(right) * WARP {
            swap(bits, left * WARP - 1 - i, left * WARP + i);
        }
        let (left_bits, right_bits) = bits.split_at_mut(left * WARP);
        continue_merge(left_bits, lacking(left));
        continue_merge(right_bits, 0);
    }

    /// Sorted bits, of which so many are zeros.
    fn sorted(len: usize, zeros: usize) -> impl Iterator<Item = bool> {
        (0..len).map(move |at| at >= zeros)
    }

    #[test]
    fn networks_of_any_number_of_registers_merge_all_sorted_zeros_and_ones() {
        // By the 0-1 principle they then merge any sorted numbers.
        for left in 1..=4 {
            for right in left..=4 {
                for zeros in (0..=left * WARP).flat_map(|l| (0..=right * WARP).map(move |r| (l, r))) {
                    let parts = sorted(left * WARP, zeros.0).chain(sorted(right * WARP, zeros.1));
                    let mut bits: Vec<bool> = parts.collect();
                    merge(&mut bits, left);
                    assert!(bits.is_sorted(), "{left} and {right} registers, {zeros:?} zeros");
                }
            }
        }
    }

    #[test]
    fn the_least_of_a_queue_join_any_number_of_registers() {
        // As `TAKE_QUEUES`: the greatest of those kept meet the least of the queue, and only what is kept is sorted on.
        for (kept, queue) in (1..=K_MAX / WARP).map(|kept| (kept, queued(kept * WARP))) {
            let (kept_len, queue_len) = (kept * WARP, queue * WARP);
            // All of the small ones, and a part of the others.
            let steps = if kept <= 4 { (1, 1) } else { (kept_len / 16 + 1, 7) };
            let of_queue = move |l| (0..=queue_len).step_by(steps.1).map(move |r| (l, r));
            for zeros in (0..=kept_len).step_by(steps.0).flat_map(of_queue) {
                let mut bits: Vec<bool> =
                    sorted(kept_len, zeros.0).chain(sorted(queue_len, zeros.1)).collect();
                for i in 0..kept_len.min(queue_len) {
                    swap(&mut bits, kept_len - 1 - i, kept_len + i);
                }
                bits.truncate(kept_len);
                continue_merge(&mut bits, lacking(kept));
                assert!(bits.iter().copied().eq(sorted(kept_len, kept_len.min(zeros.0 + zeros.1))));
            }
        }
    }

    #[test]
    fn lanes_are_sorted_whatever_their_numbers() {
        let mut random = crate::chance::Random::new(9);
        for _ in 0..100_000 {
            let word = random.bits() as u32 & random.bits() as u32 | 1 << random.idx(32);
            let mut bits: Vec<bool> = (0..WARP).map(|lane| word >> lane & 1 != 0).collect();
            // As `SORT_LANES`.
            for size in 1..=5 {
                let whole = (1 << size) - 1;
                for at in (0..WARP).filter(|at| at & 1 << (size - 1) == 0) {
                    swap(&mut bits, at, at ^ whole);
                }
                for mask in (0..size - 1).rev().map(|level| 1 << level) {
                    (0..WARP).filter(|at| at & mask == 0).for_each(|at| swap(&mut bits, at, at | mask));
                }
            }
            assert!(bits.is_sorted(), "{word:032b}");
        }
    }

    #[test]
    fn sizes_hold_what_is_listed() {
        for k in [1, 32, 33, 1000, K_MAX] {
            let constants = Way::Digits.constants(k, "values");
            let capacity = &constants.iter().find(|(name, _)| *name == "CAPACITY").unwrap().1;
            let capacity: usize = capacity.parse().unwrap();
            // After a selection there is room for what is read at a time, and for the sort.
            assert!(capacity >= k + AT_ONCE + LISTED_MIN && capacity >= k.next_power_of_two());
            let registers = &Way::Warps.constants(k, "values")[1].1;
            assert_eq!(registers.parse::<usize>().unwrap(), k.div_ceil(32));
        }
        let ways = [Way::of(10, 10_000), Way::of(10, 1), Way::of(2000, 10_000)];
        assert_eq!(ways, [Way::Warps, Way::Digits, Way::Digits]);
    }
}
