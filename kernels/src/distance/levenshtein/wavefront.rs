//! The edit distance of two long texts: the lanes of a vector are successive words of 64 rows, and lane `t` is `t` columns behind the
//! first, so that all lanes compute at once.
//!
//! A lane hands down to the next whether its lowest row rises or falls; the next one needs this a step later. A stripe of lanes
//! goes over all columns; its lowest row, two bits a column, is the border of the next stripe. The letters of the pattern are numbered,
//! and each bit of the numbers is a plane of bits, so that a step finds the equal letters without a look-up.
//!
//! A part of the table is computed in the same way from the borders above it and to its left, which then are those below it and to its right.
//!
//! Invariant: a lane's state before its first column is that of the left border, whatever it computes until then.

use super::{Pattern, WORD};
use crate::CodePath;
use crate::bits::WORDS;
use crate::lanes::{Lanes, Work, run};

/// The most planes of letters; patterns of more different letters are compared word by word.
const PLANES_MAX: usize = 8;

/// Two texts by the numbers of their letters.
#[derive(Debug)]
pub(super) struct Numbered {
    /// The number of each letter of the pattern, not 0.
    pub(super) rows: Vec<u8>,
    /// The number of each letter of the text; 0 for letters that the pattern does not have.
    pub(super) columns: Vec<u8>,
    /// Bits of a number.
    pub(super) planes: usize,
}

impl Numbered {
    /// Numbers the letters; nothing if the pattern has too many different ones.
    pub(super) fn new(pattern: &Pattern, text: &[char]) -> Option<Self> {
        // Number 0 belongs to letters that the pattern does not have.
        let different = pattern.masks.len() / pattern.words;
        let planes = different.next_power_of_two().ilog2().max(1) as usize;
        if planes > PLANES_MAX {
            return None;
        }
        let number = |letter: &char| (pattern.first_mask(*letter) / pattern.words) as u8;
        let (rows, columns) = (pattern.text.iter().map(number).collect(), text.iter().map(number).collect());
        Some(Self { rows, columns, planes })
    }
}

/// The distance of a pattern from a text, neither of them empty; `None` if the pattern has too many different letters.
pub(super) fn distance(path: CodePath, pattern: &Pattern, text: &[char]) -> Option<usize> {
    let Numbered { rows, columns, planes } = Numbered::new(pattern, text)?;
    let (mut above, mut left) = (vec![RISES; columns.len()], vec![[u64::MAX, 0]; pattern.words]);
    part(path, &rows, &columns, planes, &mut above, &mut left);
    Some(below(rows.len(), &above))
}

/// The number in the last cell of a table, by the differences along its last row.
pub(super) fn below(rows: usize, last: &[u8]) -> usize {
    let rises = last.iter().filter(|difference| **difference == RISES).count();
    let falls = last.iter().filter(|difference| **difference == FALLS).count();
    rows + rises - falls
}

/// Differences along a row: whether the number rises, falls, or stays.
pub(super) const RISES: u8 = 1;
const FALLS: u8 = 2;

/// Computes a part of a table. `above` has the differences along the row above it, by column, and then those along its last row; `left` has
/// those along the column to its left, 64 rows in two words of bits that rise and that fall, and then those along its last column.
pub(super) fn part(
    path: CodePath,
    rows: &[u8],
    columns: &[u8],
    planes: usize,
    above: &mut [u8],
    left: &mut [[u64; 2]],
) {
    run(path, Part { rows, columns, planes, above, left });
}

struct Part<'a> {
    rows: &'a [u8],
    columns: &'a [u8],
    planes: usize,
    above: &'a mut [u8],
    left: &'a mut [[u64; 2]],
}

impl Work for Part<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        // A loop for each number of planes, so that the compiler keeps them in registers.
        match self.planes {
            1 | 2 => self.stripes::<L, 2>(lanes),
            3 => self.stripes::<L, 3>(lanes),
            4 | 5 => self.stripes::<L, 5>(lanes),
            _ => self.stripes::<L, PLANES_MAX>(lanes),
        }
    }
}

impl Part<'_> {
    #[inline(always)]
    fn stripes<L: Lanes, const PLANES: usize>(self, lanes: L) {
        let height = L::BIT_WORDS * WORD;
        for (rows, left) in self.rows.chunks(height).zip(self.left.chunks_mut(L::BIT_WORDS)) {
            stripe::<L, PLANES>(lanes, rows, self.columns, self.above, left);
        }
    }
}

/// One stripe over all columns.
#[inline(always)]
fn stripe<L: Lanes, const PLANES: usize>(
    lanes: L,
    rows: &[u8],
    columns: &[u8],
    border: &mut [u8],
    left: &mut [[u64; 2]],
) {
    let count = L::BIT_WORDS;
    let mut words = [[0; WORDS]; PLANES];
    for (row, number) in rows.iter().enumerate() {
        for (plane, words) in words.iter_mut().enumerate() {
            words[row / WORD] |= u64::from(number >> plane & 1) << (row % WORD);
        }
    }
    let zero = lanes.all(false);
    let mut planes = [zero; PLANES];
    for (plane, words) in planes.iter_mut().zip(&words) {
        *plane = lanes.bits(words);
    }
    let mut begin = [[0; WORDS]; 2];
    for (lane, [rises, falls]) in left.iter().enumerate() {
        (begin[0][lane], begin[1][lane]) = (*rises, *falls);
    }
    // The letter of each lane's column, each bit spread over a word.
    let mut state = State {
        rises: lanes.bits(&begin[0]),
        falls: lanes.bits(&begin[1]),
        up: zero,
        down: zero,
        letters: [zero; PLANES],
    };
    let (last_lane, last_row) = ((rows.len() - 1) / WORD, (rows.len() - 1) % WORD);
    let is_whole = rows.len() == count * WORD;
    for step in 0..columns.len() + last_lane {
        let (number, difference) = match columns.get(step) {
            Some(number) => (*number, border[step]),
            None => (0, 0),
        };
        let [rising, falling] = state.step(lanes, &planes, number, difference);
        if step < last_lane {
            state.hold(lanes, &begin, step + 1);
        }
        if let Some(lane) = (step + 1).checked_sub(columns.len()) {
            // This lane was at its last column.
            let [mut rises, mut falls] = [[0; WORDS]; 2];
            lanes.store_bits(state.rises, &mut rises);
            lanes.store_bits(state.falls, &mut falls);
            left[lane] = [rises[lane], falls[lane]];
        }
        let Some(column) = step.checked_sub(last_lane) else { continue };
        border[column] = if is_whole {
            (lanes.last_lane(state.up) | lanes.last_lane(state.down) << 1) as u8
        } else {
            let [mut rises, mut falls] = [[0; WORDS]; 2];
            lanes.store_bits(rising, &mut rises);
            lanes.store_bits(falling, &mut falls);
            let bit = |words: &[u64; WORDS]| (words[last_lane] >> last_row & 1) as u8;
            bit(&rises) | bit(&falls) << 1
        };
    }
}

/// The lanes of a stripe.
struct State<L: Lanes, const PLANES: usize> {
    /// The differences down each lane's column.
    rises: L::B,
    falls: L::B,
    /// Whether the lowest row of each lane rises or falls.
    up: L::B,
    down: L::B,
    letters: [L::B; PLANES],
}

impl<L: Lanes, const PLANES: usize> State<L, PLANES> {
    /// The next column of each lane; returns the rows that rise and those that fall.
    #[inline(always)]
    fn step(&mut self, lanes: L, planes: &[L::B; PLANES], number: u8, difference: u8) -> [L::B; 2] {
        let ones = lanes.all(true);
        let mut unequal = lanes.all(false);
        for (bit, (letters, plane)) in self.letters.iter_mut().zip(planes).enumerate() {
            let spread = u64::from(number >> bit & 1).wrapping_neg();
            *letters = lanes.next_lane(*letters, spread);
            unequal = lanes.or(unequal, lanes.xor(*letters, *plane));
        }
        let (rises, falls) = (self.rises, self.falls);
        let equal = lanes.and_not(unequal, ones);
        let up_in = lanes.next_lane(self.up, u64::from(difference & RISES));
        let down_in = lanes.next_lane(self.down, u64::from(difference / FALLS));
        let vertical = lanes.or(equal, falls);
        let equal = lanes.or(equal, down_in);
        let sum = lanes.add_words(lanes.and(equal, rises), rises);
        let horizontal = lanes.or(lanes.xor(sum, rises), equal);
        let rising = lanes.or(falls, lanes.and_not(lanes.or(horizontal, rises), ones));
        let falling = lanes.and(rises, horizontal);
        (self.up, self.down) = (lanes.top_bits(rising), lanes.top_bits(falling));
        let rising_in = lanes.or(lanes.add_words(rising, rising), up_in);
        let falling_in = lanes.or(lanes.add_words(falling, falling), down_in);
        self.rises = lanes.or(falling_in, lanes.and_not(lanes.or(vertical, rising_in), ones));
        self.falls = lanes.and(rising_in, vertical);
        [rising, falling]
    }

    /// Puts the lanes from this one on, which have no column yet, back to where they begin.
    #[inline(always)]
    fn hold(&mut self, lanes: L, begin: &[[u64; WORDS]; 2], from: usize) {
        for (bits, begin) in [&mut self.rises, &mut self.falls].into_iter().zip(begin) {
            let mut words = [0; WORDS];
            lanes.store_bits(*bits, &mut words);
            words[from..].copy_from_slice(&begin[from..]);
            *bits = lanes.bits(&words);
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

    /// Cuts a table into parts, and computes each from the borders of its neighbours.
    fn check_parts(a: &[char], b: &[char], [height, width]: [usize; 2]) {
        let pattern = Pattern::new(a);
        let expected = Levenshtein.reference(a, b) as usize;
        for path in CodePath::available() {
            let Numbered { rows, columns, planes } = Numbered::new(&pattern, b).expect("few letters");
            let mut above = vec![RISES; columns.len()];
            for rows in rows.chunks(height) {
                let mut left = vec![[u64::MAX, 0]; rows.len().div_ceil(WORD)];
                for (columns, above) in columns.chunks(width).zip(above.chunks_mut(width)) {
                    part(path, rows, columns, planes, above, &mut left);
                }
            }
            assert_eq!(below(rows.len(), &above), expected, "{path}, parts of {height} x {width}");
        }
    }

    #[test]
    fn parts_of_a_table_meet_at_their_borders() {
        let mut random = Random::new(12);
        for [height, width] in [[64, 1], [64, 64], [128, 7], [512, 100], [704, 300], [4096, 4096]] {
            for [rows, columns] in [[1, 1], [64, 9], [513, 200], [1400, 701], [705, 900]] {
                let mut text =
                    |count| (0..count).map(|_| ['A', 'C', 'G', 'T'][random.idx(4)]).collect::<Vec<_>>();
                check_parts(&text(rows), &text(columns), [height, width]);
            }
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
