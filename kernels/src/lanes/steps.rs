//! Vectors of one kind of number for tables of costs: 16-bit and 32-bit whole numbers, and f32.
//!
//! Invariant: every operation has the same results on every path.

use super::Portable;

/// A number of a table of costs.
pub(crate) trait Count: Copy + Default + PartialOrd {
    /// Chooses the first operand of [`Steps::choose`] in its lane; the default of the type chooses the second.
    const CHOSEN: Self;

    /// The whole number, which must fit.
    fn of(count: usize) -> Self;

    /// A whole number as a place.
    fn place(self) -> usize;
}

impl Count for u16 {
    const CHOSEN: Self = Self::MAX;

    #[inline(always)]
    fn of(count: usize) -> Self {
        count as Self
    }
    #[inline(always)]
    fn place(self) -> usize {
        self as usize
    }
}

impl Count for u32 {
    const CHOSEN: Self = Self::MAX;

    #[inline(always)]
    fn of(count: usize) -> Self {
        count as Self
    }
    #[inline(always)]
    fn place(self) -> usize {
        self as usize
    }
}

impl Count for f32 {
    const CHOSEN: Self = Self::from_bits(u32::MAX);

    #[inline(always)]
    fn of(count: usize) -> Self {
        count as Self
    }
    #[inline(always)]
    fn place(self) -> usize {
        self as usize
    }
}

/// The vector operations of a table of costs. A value proves that the machine has the instructions.
pub(crate) trait Steps<N>: Copy {
    /// Numbers in a vector.
    const WIDTH: usize;
    /// A vector.
    type T: Copy;

    /// The number in every lane.
    fn every(self, x: N) -> Self::T;
    /// The first `WIDTH` numbers of a slice, which must have as many.
    fn take(self, from: &[N]) -> Self::T;
    /// Writes the first `WIDTH` numbers of a slice, which must have as many.
    fn put(self, x: Self::T, to: &mut [N]);
    /// `a + b`: of 16 bits at most 65,535; of 32 bits without a carry.
    fn plus(self, a: Self::T, b: Self::T) -> Self::T;
    /// `a - b`, of whole numbers at least 0.
    fn minus(self, a: Self::T, b: Self::T) -> Self::T;
    /// The smaller of numbers that are no NaN.
    fn lesser(self, a: Self::T, b: Self::T) -> Self::T;
    /// The larger of numbers that are no NaN.
    fn greater(self, a: Self::T, b: Self::T) -> Self::T;
    /// `x` where `a` and `b` differ in any bit, else 0.
    fn unequal(self, a: Self::T, b: Self::T, x: Self::T) -> Self::T;
    /// `a` in the lanes where `mask` is [`Count::CHOSEN`], and `b` in those where it is 0.
    fn choose(self, mask: Self::T, a: Self::T, b: Self::T) -> Self::T;
    /// Each number in the place of the next one, and `first` in the first place.
    fn shifted(self, a: Self::T, first: N) -> Self::T;
    /// In each place the largest of the numbers up to it, none of which is below the default of the type or a NaN.
    #[inline(always)]
    fn greatest_so_far(self, mut a: Self::T) -> Self::T
    where
        N: Default,
    {
        let mut shifted = a;
        for _ in 1..Self::WIDTH {
            shifted = self.shifted(shifted, N::default());
            a = self.greater(a, shifted);
        }
        a
    }
    /// The last number.
    fn last(self, a: Self::T) -> N;
}

/// Sixteen bytes in plain Rust.
macro_rules! portable {
    ($number:ty, $width:literal, $plus:expr, $minus:expr, $bits:expr) => {
        impl Steps<$number> for Portable {
            const WIDTH: usize = $width;
            type T = [$number; $width];

            #[inline(always)]
            fn every(self, x: $number) -> Self::T {
                [x; $width]
            }
            #[inline(always)]
            fn take(self, from: &[$number]) -> Self::T {
                *from.first_chunk().expect("a whole vector")
            }
            #[inline(always)]
            fn put(self, x: Self::T, to: &mut [$number]) {
                *to.first_chunk_mut().expect("a whole vector") = x;
            }
            #[inline(always)]
            fn plus(self, mut a: Self::T, b: Self::T) -> Self::T {
                for lane in 0..$width {
                    a[lane] = $plus(a[lane], b[lane]);
                }
                a
            }
            #[inline(always)]
            fn minus(self, mut a: Self::T, b: Self::T) -> Self::T {
                for lane in 0..$width {
                    a[lane] = $minus(a[lane], b[lane]);
                }
                a
            }
            #[inline(always)]
            fn lesser(self, mut a: Self::T, b: Self::T) -> Self::T {
                for lane in 0..$width {
                    a[lane] = if a[lane] < b[lane] { a[lane] } else { b[lane] };
                }
                a
            }
            #[inline(always)]
            fn greater(self, mut a: Self::T, b: Self::T) -> Self::T {
                for lane in 0..$width {
                    a[lane] = if a[lane] > b[lane] { a[lane] } else { b[lane] };
                }
                a
            }
            #[inline(always)]
            fn unequal(self, a: Self::T, b: Self::T, mut x: Self::T) -> Self::T {
                for lane in 0..$width {
                    x[lane] = if $bits(a[lane]) != $bits(b[lane]) { x[lane] } else { <$number>::default() };
                }
                x
            }
            #[inline(always)]
            fn choose(self, mask: Self::T, mut a: Self::T, b: Self::T) -> Self::T {
                for lane in 0..$width {
                    a[lane] = if $bits(mask[lane]) != 0 { a[lane] } else { b[lane] };
                }
                a
            }
            #[inline(always)]
            fn shifted(self, mut a: Self::T, first: $number) -> Self::T {
                a.copy_within(..$width - 1, 1);
                a[0] = first;
                a
            }
            #[inline(always)]
            fn last(self, a: Self::T) -> $number {
                a[$width - 1]
            }
        }
    };
}
portable!(u16, 8, u16::saturating_add, u16::saturating_sub, std::convert::identity);
portable!(u32, 4, u32::wrapping_add, u32::saturating_sub, std::convert::identity);
portable!(f32, 4, |a: f32, b: f32| a + b, |a: f32, b: f32| a - b, f32::to_bits);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CodePath;
    use crate::chance::Random;
    use crate::lanes::{Lanes, Work, run};

    /// Applies every operation to random numbers, vector by vector, and returns the results in the order of the lanes.
    fn all<N: Count, S: Steps<N>>(s: S, numbers: &[[N; 32]; 3]) -> Vec<Vec<N>> {
        let mut done = vec![Vec::new(); 7];
        for first in (0..32).step_by(S::WIDTH) {
            let [a, b, mask] = numbers.each_ref().map(|numbers| s.take(&numbers[first..]));
            let found = [
                s.plus(a, b),
                s.minus(a, b),
                s.lesser(a, b),
                s.greater(a, b),
                s.unequal(a, b, s.every(N::of(7))),
                s.choose(mask, a, b),
            ];
            for (done, found) in done.iter_mut().zip(found) {
                let mut numbers = [N::default(); 32];
                s.put(found, &mut numbers);
                done.extend(&numbers[..S::WIDTH]);
            }
            let before = if first == 0 { N::of(9) } else { numbers[0][first - 1] };
            let mut shifted = [N::default(); 32];
            s.put(s.shifted(a, before), &mut shifted);
            done[6].extend(&shifted[..S::WIDTH]);
            // Vectors differ in length, so each is compared with the definition.
            let (mut so_far, mut largest) = ([N::default(); 32], N::default());
            s.put(s.greatest_so_far(s.greater(a, s.every(largest))), &mut so_far);
            for (lane, found) in so_far[..S::WIDTH].iter().enumerate() {
                let number = numbers[0][first + lane];
                largest = if number > largest { number } else { largest };
                assert!(*found == largest, "the largest number up to lane {lane}");
            }
            assert!(s.last(a) == numbers[0][first + S::WIDTH - 1], "the last lane");
        }
        done
    }

    struct Operations(u64);

    impl Work for Operations {
        type Done = (Vec<Vec<u16>>, Vec<Vec<u32>>, Vec<Vec<u32>>);

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> Self::Done {
            let mut random = Random::new(self.0);
            let mut halves = [[0_u16; 32]; 3];
            let mut words = [[0_u32; 32]; 3];
            let mut floats = [[0_f32; 32]; 3];
            for lane in 0..32 {
                let is_chosen = random.below(2) == 1;
                for number in 0..2 {
                    // Equal numbers, and numbers whose sum does not fit into 16 bits.
                    let kind = random.below(3);
                    halves[number][lane] = if kind == 0 { 3 } else { random.bits() as u16 };
                    words[number][lane] =
                        if kind == 0 { 70_000 } else { (random.bits() as u32) >> random.idx(32) };
                    floats[number][lane] = if kind == 0 { -1.5 } else { random.below(2000) as f32 / 7.0 };
                }
                if is_chosen {
                    (halves[2][lane], words[2][lane], floats[2][lane]) =
                        (u16::CHOSEN, u32::CHOSEN, f32::CHOSEN);
                }
            }
            let floats = all::<f32, L>(lanes, &floats);
            let bits = floats.into_iter().map(|numbers| numbers.into_iter().map(f32::to_bits).collect());
            (all::<u16, L>(lanes, &halves), all::<u32, L>(lanes, &words), bits.collect())
        }
    }

    #[test]
    fn operations_on_costs_agree_on_all_paths() {
        for seed in 0..20 {
            let expected = run(CodePath::Portable, Operations(seed));
            for path in CodePath::available() {
                assert!(run(path, Operations(seed)) == expected, "{path}, seed {seed}");
            }
        }
        let [a, b]: [<Portable as Steps<u16>>::T; 2] = [60_000_u16, 10_000].map(|x| Portable.every(x));
        let (sum, difference) =
            (<Portable as Steps<u16>>::plus(Portable, a, b), <Portable as Steps<u16>>::minus(Portable, b, a));
        assert_eq!([sum[0], difference[0]], [65_535, 0]);
    }
}
