//! The operations on bits in plain Rust.

use super::Portable;
use crate::bits::Bits;

impl Bits for Portable {
    const BIT_WORDS: usize = 4;
    const BIT_ROWS: usize = 4;
    type B = [u64; 4];

    #[inline(always)]
    fn bits(self, from: &[u64]) -> Self::B {
        *from.first_chunk().expect("a whole vector")
    }
    #[inline(always)]
    fn store_bits(self, x: Self::B, to: &mut [u64]) {
        *to.first_chunk_mut().expect("a whole vector") = x;
    }
    #[inline(always)]
    fn and(self, a: Self::B, b: Self::B) -> Self::B {
        std::array::from_fn(|word| a[word] & b[word])
    }
    #[inline(always)]
    fn or(self, a: Self::B, b: Self::B) -> Self::B {
        std::array::from_fn(|word| a[word] | b[word])
    }
    #[inline(always)]
    fn xor(self, a: Self::B, b: Self::B) -> Self::B {
        std::array::from_fn(|word| a[word] ^ b[word])
    }
    #[inline(always)]
    fn and_not(self, a: Self::B, b: Self::B) -> Self::B {
        std::array::from_fn(|word| !a[word] & b[word])
    }
    #[inline(always)]
    fn add_words(self, a: Self::B, b: Self::B) -> Self::B {
        std::array::from_fn(|word| a[word].wrapping_add(b[word]))
    }
    #[inline(always)]
    fn top_bits(self, a: Self::B) -> Self::B {
        std::array::from_fn(|word| a[word] >> 63)
    }
    #[inline(always)]
    fn tops(self, [a, b, c, d]: Self::B) -> u32 {
        (a >> 63 | b >> 63 << 1 | c >> 63 << 2 | d >> 63 << 3) as u32
    }
    #[inline(always)]
    fn next_lane(self, [a, b, c, _]: Self::B, [.., before]: Self::B) -> Self::B {
        [before, a, b, c]
    }
    #[inline(always)]
    fn word(self, word: &u64) -> Self::B {
        [*word; 4]
    }
    #[inline(always)]
    fn equal(self, bytes: &[u8; 64], code: u8) -> u64 {
        let mut bits = 0;
        for (lane, byte) in bytes.iter().enumerate() {
            bits |= u64::from(*byte == code) << lane;
        }
        bits
    }
    #[inline(always)]
    fn add_planes(self, planes: &[u64], to: &mut [u32; 64]) {
        for (lane, to) in to.iter_mut().enumerate() {
            for (plane, bits) in planes.iter().enumerate() {
                *to += ((bits >> lane) as u32 & 1) << plane;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::CodePath;
    use crate::bits::WORDS;
    use crate::chance::Random;
    use crate::lanes::{Lanes, Work, run};

    /// Applies every operation to random bits.
    struct Operations(u64);

    impl Work for Operations {
        type Done = Vec<u64>;

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> Vec<u64> {
            let mut random = Random::new(self.0);
            let mut done = Vec::new();
            let mut words = [[0; WORDS]; 5];
            for word in words.as_flattened_mut() {
                *word = random.bits();
            }
            for part in (0..WORDS).step_by(L::BIT_WORDS) {
                let mut x = [lanes.all(false); 5];
                for (x, words) in x.iter_mut().zip(&words) {
                    *x = lanes.bits(&words[part..]);
                }
                let [a, b, c, d, e] = x;
                // A difference does not rise and fall at once.
                let (vertical, horizontal) =
                    lanes.cell(a, [lanes.and_not(b, c), b], [lanes.and_not(d, e), d]);
                let [sum, carry] = lanes.full_add(a, b, c);
                let found = [
                    vertical[0],
                    vertical[1],
                    horizontal[0],
                    horizontal[1],
                    sum,
                    carry,
                    lanes.all(true),
                    lanes.and(a, b),
                    lanes.or(a, b),
                    lanes.xor(a, b),
                    lanes.and_not(a, b),
                    lanes.add_words(a, b),
                    lanes.top_bits(a),
                ];
                for found in found {
                    let mut words = [0; WORDS];
                    lanes.store_bits(found, &mut words);
                    done.extend(words.into_iter().take(L::BIT_WORDS));
                }
            }
            // In the order of the words, whatever the width.
            let (parts, rows) = (WORDS / L::BIT_WORDS, 13);
            let mut sorted = Vec::new();
            for row in 0..rows {
                for part in 0..parts {
                    let first = (part * rows + row) * L::BIT_WORDS;
                    sorted.extend(done[first..first + L::BIT_WORDS].iter().copied());
                }
            }
            let mut bytes = [0u8; 64];
            for byte in &mut bytes {
                *byte = random.below(4) as u8;
            }
            sorted.push(lanes.equal(&bytes, 2));
            let mut numbers = [7; 64];
            lanes.add_planes(&words[0][..5], &mut numbers);
            sorted.extend(numbers.into_iter().map(u64::from));
            sorted
        }
    }

    #[test]
    fn operations_on_bits_agree_on_all_paths() {
        for seed in 0..20 {
            let expected = run(CodePath::Portable, Operations(seed));
            for path in CodePath::available() {
                assert_eq!(run(path, Operations(seed)), expected, "{path}");
            }
        }
    }

    /// Compares the operations that move words with their definitions.
    struct Moves([[u64; WORDS]; 2]);

    impl Work for Moves {
        type Done = ();

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) {
            let [a, b] = [lanes.bits(&self.0[0]), lanes.bits(&self.0[1])];
            let (mut moved, mut word) = ([0; WORDS], [0; WORDS]);
            lanes.store_bits(lanes.next_lane(a, b), &mut moved);
            lanes.store_bits(lanes.word(&self.0[0][1]), &mut word);
            let (words, [a, b]) = (L::BIT_WORDS, self.0);
            assert_eq!((moved[0], &moved[1..words]), (b[words - 1], &a[..words - 1]));
            assert_eq!(word[..words], [a[1]; WORDS][..words]);
            let tops = (0..words).map(|word| (a[word] >> 63 << word) as u32).sum::<u32>();
            assert_eq!(lanes.tops(lanes.bits(&a)), tops);
        }
    }

    #[test]
    fn words_move_on_all_paths() {
        let mut random = Random::new(3);
        for path in CodePath::available() {
            run(path, Moves([[0; WORDS]; 2].map(|words| words.map(|_| random.bits()))));
        }
    }
}
