//! The edit distance of two long texts: the lanes of a vector are successive words of 64 rows, and lane `t` is `t` columns behind the
//! first, so that all lanes compute at once.
//!
//! A lane hands down to the next whether its lowest row rises or falls; the next one needs this a step later. A stripe of lanes
//! goes over all columns; its lowest row, two bits a column, is the border of the next stripe. The letters of the pattern are numbered,
//! and each bit of the numbers is a plane of bits, so that a step finds the equal letters without a look-up.
//!
//! Invariant: before its first column a lane meets a letter that is nowhere and a border that neither rises nor falls, which leave its
//! state as it begins.

use super::{Pattern, WORD};
use crate::CodePath;
use crate::bits::WORDS;
use crate::lanes::{Lanes, Work, run};

/// The most planes of letters; patterns of more different letters are compared word by word.
const PLANES_MAX: usize = 8;

/// The distance of a pattern from a text, neither of them empty; `None` if the pattern has too many different letters.
pub(super) fn distance(path: CodePath, pattern: &Pattern, text: &[char]) -> Option<usize> {
    // Number 0 belongs to letters that the pattern does not have.
    let different = pattern.masks.len() / pattern.words;
    let planes = different.next_power_of_two().ilog2().max(1) as usize;
    if planes > PLANES_MAX {
        return None;
    }
    let number = |letter: &char| (pattern.first_mask(*letter) / pattern.words) as u8;
    let rows: Vec<u8> = pattern.text.iter().map(number).collect();
    let columns: Vec<u8> = text.iter().map(number).collect();
    let (rows, columns) = (&rows[..], &columns[..]);
    let work = Wavefront { rows, columns, planes };
    Some(run(path, work))
}

struct Wavefront<'a> {
    /// The number of each letter of the pattern, not 0.
    rows: &'a [u8],
    /// The number of each letter of the text.
    columns: &'a [u8],
    /// Bits of a number.
    planes: usize,
}

/// Whether the lowest row of a stripe rises or falls at each column: 1 or 0.
struct Border {
    rises: Vec<u8>,
    falls: Vec<u8>,
}

impl Work for Wavefront<'_> {
    type Done = usize;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> usize {
        // A loop for each number of planes, so that the compiler keeps them in registers.
        match self.planes {
            1 | 2 => self.stripes::<L, 2>(lanes),
            3 => self.stripes::<L, 3>(lanes),
            4 | 5 => self.stripes::<L, 5>(lanes),
            _ => self.stripes::<L, PLANES_MAX>(lanes),
        }
    }
}

impl Wavefront<'_> {
    #[inline(always)]
    fn stripes<L: Lanes, const PLANES: usize>(&self, lanes: L) -> usize {
        let columns = self.columns.len();
        // The row above the pattern rises with each letter of the text.
        let mut border = Border { rises: vec![1; columns], falls: vec![0; columns] };
        let rows_of_stripe = L::BIT_WORDS * WORD;
        let mut distance = self.rows.len();
        let mut first = 0;
        while self.rows.len() - first > rows_of_stripe {
            self.stripe::<L, PLANES>(lanes, &self.rows[first..first + rows_of_stripe], &mut border, None);
            first += rows_of_stripe;
        }
        self.stripe::<L, PLANES>(lanes, &self.rows[first..], &mut border, Some(&mut distance));
        distance
    }

    /// One stripe over all columns. Of the last stripe, adds up the differences along the last row of the pattern; else replaces the
    /// border by that below the stripe.
    #[inline(always)]
    fn stripe<L: Lanes, const PLANES: usize>(
        &self,
        lanes: L,
        rows: &[u8],
        border: &mut Border,
        mut distance: Option<&mut usize>,
    ) {
        let count = L::BIT_WORDS;
        let mut words = [[0; WORDS]; PLANES];
        for (row, number) in rows.iter().enumerate() {
            for (plane, words) in words.iter_mut().enumerate() {
                words[row / WORD] |= u64::from(number >> plane & 1) << (row % WORD);
            }
        }
        let (zero, ones) = (lanes.all(false), lanes.all(true));
        let mut planes = [zero; PLANES];
        for (plane, words) in planes.iter_mut().zip(&words) {
            *plane = lanes.bits(words);
        }
        // The letter of each lane's column, each bit spread over a word.
        let mut letters = [zero; PLANES];
        let (mut rises, mut falls, mut up, mut down) = (ones, zero, zero, zero);
        let (last_lane, last_row) = ((rows.len() - 1) / WORD, (rows.len() - 1) % WORD);
        for step in 0..self.columns.len() + count - 1 {
            let (number, is_rising, is_falling) = match self.columns.get(step) {
                Some(number) => (*number, border.rises[step], border.falls[step]),
                None => (0, 0, 0),
            };
            let mut unequal = zero;
            for (bit, (letters, plane)) in letters.iter_mut().zip(&planes).enumerate() {
                let spread = u64::from(number >> bit & 1).wrapping_neg();
                *letters = lanes.next_lane(*letters, spread);
                unequal = lanes.or(unequal, lanes.xor(*letters, *plane));
            }
            let equal = lanes.and_not(unequal, ones);
            let up_in = lanes.next_lane(up, u64::from(is_rising));
            let down_in = lanes.next_lane(down, u64::from(is_falling));
            let vertical = lanes.or(equal, falls);
            let equal = lanes.or(equal, down_in);
            let sum = lanes.add_words(lanes.and(equal, rises), rises);
            let horizontal = lanes.or(lanes.xor(sum, rises), equal);
            let rising = lanes.or(falls, lanes.and_not(lanes.or(horizontal, rises), ones));
            let falling = lanes.and(rises, horizontal);
            (up, down) = (lanes.top_bits(rising), lanes.top_bits(falling));
            let rising_in = lanes.or(lanes.add_words(rising, rising), up_in);
            let falling_in = lanes.or(lanes.add_words(falling, falling), down_in);
            rises = lanes.or(falling_in, lanes.and_not(lanes.or(vertical, rising_in), ones));
            falls = lanes.and(rising_in, vertical);
            match &mut distance {
                None if step + 1 >= count => {
                    let column = step + 1 - count;
                    border.rises[column] = lanes.last_lane(up) as u8;
                    border.falls[column] = lanes.last_lane(down) as u8;
                }
                Some(distance) if (last_lane..last_lane + self.columns.len()).contains(&step) => {
                    let mut bits = [[0; WORDS]; 2];
                    lanes.store_bits(rising, &mut bits[0]);
                    lanes.store_bits(falling, &mut bits[1]);
                    let bit = |words: &[u64; WORDS]| (words[last_lane] >> last_row & 1) as usize;
                    **distance = **distance + bit(&bits[0]) - bit(&bits[1]);
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Levenshtein;
    use super::*;
    use crate::chance::Random;
    use crate::distance::Distance;

    fn check(a: &[char], b: &[char]) {
        let (pattern, expected) = (Pattern::new(a), Levenshtein.reference(a, b) as usize);
        for path in CodePath::available() {
            assert_eq!(distance(path, &pattern, b), Some(expected), "{path}");
        }
        assert_eq!(pattern.distance(b), expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn wavefronts_give_the_distance_of_the_definition(
            seed in any::<u64>(),
            rows in 1usize..1400,
            columns in 1usize..700,
            letters in 1usize..255,
        ) {
            let mut random = Random::new(seed);
            let alphabet: Vec<char> = ('a'..).take(letters + 1).collect();
            // The text has a letter that the pattern does not have.
            let mut text = |count: usize, letters: usize| -> Vec<char> {
                (0..count).map(|_| alphabet[random.idx(letters)]).collect()
            };
            let (pattern, text) = (text(rows, letters), text(columns, letters + 1));
            check(&pattern, &text);
        }
    }

    #[test]
    fn stripes_that_end_at_the_edges_of_words() {
        let mut random = Random::new(8);
        for rows in [1, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1024, 1025] {
            for columns in [1, 2, 7, 8, 9, 600] {
                let mut text =
                    |count| (0..count).map(|_| ['A', 'C', 'G', 'T'][random.idx(4)]).collect::<Vec<_>>();
                check(&text(rows), &text(columns));
            }
        }
        let many: Vec<char> = ('\u{4e00}'..).take(700).collect();
        assert_eq!(distance(CodePath::Portable, &Pattern::new(&many), &many), None);
        assert_eq!(Pattern::new(&many).distance(&many[1..]), 1);
    }
}
