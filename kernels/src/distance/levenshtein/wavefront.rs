//! Some steps through a strip of the table of two texts: the lanes of vectors are successive words of 64 rows, and each is a column behind
//! the lane above it, so that all lanes compute at once.
//!
//! A word hands down whether its lowest row rises or falls, and the word below needs this a step later. So a step of a word depends
//! on the last step of two words, and not on the other words of its step. Up to four vectors take turns: while one waits for its numbers,
//! the others compute.
//!
//! Invariant: a word that has not begun has vertical differences of +1 and, on its left, a row that falls ([`State::new`]). This is what
//! an unbounded table has to the left of its first column, whatever the letters there. So lanes that are not there yet compute like the others.
//! Beyond the last column they compute numbers that reach no column before it.

use super::numbered::{Numbered, PLANES_MAX};
use crate::CodePath;
use crate::bits::WORDS;
use crate::lanes::{Lanes, Work, run};

/// A horizontal difference: the number rises, falls, or (0) stays.
pub(super) const RISES: u8 = 1;
pub(super) const FALLS: u8 = 2;

/// The most vectors of a strip.
const VECTORS: usize = 4;
/// Steps whose letters are spread over words at a time.
const CHUNK: usize = 256;
/// Those letters, and those of the columns at which the lower lanes are.
const SPREAD: usize = CHUNK + VECTORS * WORDS;
/// The highest bit of a word by the difference: whether it rises, and whether it falls.
static UP: [u64; 4] = [0, 1 << 63, 0, 0];
static DOWN: [u64; 4] = [0, 0, 1 << 63, 0];

/// Rises and falls that words know: by row of bits, then by word.
#[derive(Debug)]
pub(super) struct State {
    /// Rows that rise down the word's last column, those that fall, and the rows that rise and fall from the column before it.
    rows: [Vec<u64>; 4],
}

impl State {
    /// Words that have not begun.
    pub(super) fn new(words: usize) -> Self {
        let all = |bits| vec![bits; words + WORDS];
        Self { rows: [all(u64::MAX), all(0), all(0), all(u64::MAX)] }
    }

    /// The vertical differences of a word that rise, and those that fall.
    pub(super) fn vertical(&self, word: usize) -> [u64; 2] {
        [self.rows[0][word], self.rows[1][word]]
    }

    /// The difference of the lowest row of a word at its last column.
    pub(super) fn lowest(&self, word: usize) -> u8 {
        let [up, down] = [2, 3].map(|row| (self.rows[row][word] >> 63) as u8);
        up * RISES + down * FALLS
    }
}

/// Words of a vector of a path.
pub(super) fn vector_words(path: CodePath) -> usize {
    struct Width;
    impl Work for Width {
        type Done = usize;

        #[inline(always)]
        fn run<L: Lanes>(self, _: L) -> usize {
            L::BIT_WORDS
        }
    }
    run(path, Width)
}

/// The most words of a strip.
pub(super) fn strip_words(path: CodePath, texts: &Numbered) -> usize {
    // Many planes leave no registers for the state of several vectors.
    vector_words(path) * if texts.planes > WORDS { 1 } else { VECTORS }
}

/// Some steps of a strip.
pub(super) struct Steps<'a> {
    pub(super) texts: &'a Numbered,
    /// The first word of the strip, and how many it has: whole vectors, unless it ends with the last word of the table.
    pub(super) words: [usize; 2],
    /// The column of the first word at the first step.
    pub(super) column: usize,
    pub(super) state: &'a mut State,
    /// The first word of the strip in the state.
    pub(super) place: usize,
    /// By step: the difference along the row above the first word, and afterwards that along the lowest row of the last word.
    pub(super) border: &'a mut [u8],
}

impl Steps<'_> {
    /// Computes them.
    pub(super) fn run(self, path: CodePath) {
        run(path, self);
    }
}

impl Work for Steps<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        // A loop for each number of planes and vectors, so that the compiler keeps them in registers.
        match self.texts.planes {
            1 | 2 => self.vectors::<L, 2>(lanes),
            3 => self.vectors::<L, 3>(lanes),
            4 | 5 => self.vectors::<L, 5>(lanes),
            6..=WORDS => self.vectors::<L, WORDS>(lanes),
            _ => self.chunks::<L, PLANES_MAX, 1>(lanes),
        }
    }
}

impl Steps<'_> {
    #[inline(always)]
    fn vectors<L: Lanes, const PLANES: usize>(self, lanes: L) {
        match self.words[1].div_ceil(L::BIT_WORDS) {
            1 => self.chunks::<L, PLANES, 1>(lanes),
            2 => self.chunks::<L, PLANES, 2>(lanes),
            3 => self.chunks::<L, PLANES, 3>(lanes),
            _ => self.chunks::<L, PLANES, VECTORS>(lanes),
        }
    }

    #[inline(always)]
    fn chunks<L: Lanes, const PLANES: usize, const COUNT: usize>(self, lanes: L) {
        let [first, count] = self.words;
        let last = COUNT - 1;
        debug_assert!(count.div_ceil(L::BIT_WORDS) == COUNT, "the last word is in the last vector");
        let lowest = (count - 1) % L::BIT_WORDS;
        let mut vectors = Vectors::<L, PLANES, COUNT>::load(lanes, self.texts, first, self.state, self.place);
        let mut letters = [[0; SPREAD]; PLANES];
        let mut column = self.column;
        for border in self.border.chunks_mut(CHUNK) {
            spread(self.texts, column, COUNT * L::BIT_WORDS, border.len(), &mut letters);
            for (step, border) in border.iter_mut().enumerate() {
                // The letter of the first lane; those of the lower lanes follow.
                vectors.step(lanes, &letters, CHUNK - 1 - step, *border);
                let [rise, fall] =
                    [vectors.up[last], vectors.down[last]].map(|bits| (lanes.tops(bits) >> lowest & 1) as u8);
                *border = rise * RISES + fall * FALLS;
            }
            column += border.len();
        }
        vectors.store(lanes, self.state, self.place);
    }
}

/// Spreads the letters of some steps over words, in reverse: that of the first lane at a step `s` is at place `CHUNK - 1 - s`.
#[inline(always)]
fn spread<const PLANES: usize>(
    texts: &Numbered,
    column: usize,
    lanes: usize,
    steps: usize,
    letters: &mut [[u64; SPREAD]; PLANES],
) {
    let mut numbers = [0; SPREAD];
    // Outside the table there are any letters.
    let end = (column + steps).min(texts.columns.len());
    let begin = (column + 1).saturating_sub(lanes).min(end);
    let last = CHUNK + column - end;
    let inside = &mut numbers[last..last + end - begin];
    for (to, number) in inside.iter_mut().zip(texts.columns[begin..end].iter().rev()) {
        *to = *number;
    }
    let numbers = &numbers[CHUNK - steps..CHUNK - 1 + lanes];
    for (plane, letters) in letters.iter_mut().enumerate() {
        for (letter, number) in letters[CHUNK - steps..].iter_mut().zip(numbers) {
            *letter = u64::from(number >> plane & 1).wrapping_neg();
        }
    }
}

/// The vectors of a strip.
struct Vectors<L: Lanes, const PLANES: usize, const COUNT: usize> {
    planes: [[L::B; PLANES]; COUNT],
    /// The differences down each word's column.
    rises: [L::B; COUNT],
    falls: [L::B; COUNT],
    /// The rows of each word that rise and fall from one column to the next.
    up: [L::B; COUNT],
    down: [L::B; COUNT],
}

impl<L: Lanes, const PLANES: usize, const COUNT: usize> Vectors<L, PLANES, COUNT> {
    #[inline(always)]
    fn load(lanes: L, texts: &Numbered, first: usize, state: &State, place: usize) -> Self {
        let none = [lanes.all(false); COUNT];
        let planes = [[lanes.all(false); PLANES]; COUNT];
        let mut vectors = Self { planes, rises: none, falls: none, up: none, down: none };
        for vector in 0..COUNT {
            let word = vector * L::BIT_WORDS;
            for plane in 0..PLANES.min(texts.planes) {
                vectors.planes[vector][plane] = lanes.bits(texts.plane(plane, first + word));
            }
            let [rises, falls, up, down] = &state.rows;
            vectors.rises[vector] = lanes.bits(&rises[place + word..]);
            vectors.falls[vector] = lanes.bits(&falls[place + word..]);
            vectors.up[vector] = lanes.bits(&up[place + word..]);
            vectors.down[vector] = lanes.bits(&down[place + word..]);
        }
        vectors
    }

    #[inline(always)]
    fn store(self, lanes: L, state: &mut State, place: usize) {
        for vector in 0..COUNT {
            let word = place + vector * L::BIT_WORDS;
            let [rises, falls, up, down] = &mut state.rows;
            lanes.store_bits(self.rises[vector], &mut rises[word..]);
            lanes.store_bits(self.falls[vector], &mut falls[word..]);
            lanes.store_bits(self.up[vector], &mut up[word..]);
            lanes.store_bits(self.down[vector], &mut down[word..]);
        }
    }

    /// The next column of each lane.
    #[inline(always)]
    fn step(&mut self, lanes: L, letters: &[[u64; SPREAD]; PLANES], letter: usize, difference: u8) {
        let difference = usize::from(difference) % UP.len();
        let [first_up, first_down] = [lanes.word(&UP[difference]), lanes.word(&DOWN[difference])];
        // The lowest vector first: it needs what the one above it has handed down in the step before.
        for vector in (0..COUNT).rev() {
            let (above_up, above_down) = match vector {
                0 => (first_up, first_down),
                _ => (self.up[vector - 1], self.down[vector - 1]),
            };
            let up_in = lanes.top_bits(lanes.next_lane(self.up[vector], above_up));
            let down_in = lanes.top_bits(lanes.next_lane(self.down[vector], above_down));
            let mut unequal = lanes.all(false);
            for plane in 0..PLANES {
                let letters = lanes.bits(&letters[plane][letter + vector * L::BIT_WORDS..]);
                unequal = lanes.or(unequal, lanes.xor(letters, self.planes[vector][plane]));
            }
            let ones = lanes.all(true);
            let (rises, falls) = (self.rises[vector], self.falls[vector]);
            let equal = lanes.and_not(unequal, ones);
            let vertical = lanes.or(equal, falls);
            let equal = lanes.or(equal, down_in);
            let sum = lanes.add_words(lanes.and(equal, rises), rises);
            let horizontal = lanes.or(lanes.xor(sum, rises), equal);
            let rising = lanes.or(falls, lanes.and_not(lanes.or(horizontal, rises), ones));
            let falling = lanes.and(rises, horizontal);
            (self.up[vector], self.down[vector]) = (rising, falling);
            let rising_in = lanes.or(lanes.add_words(rising, rising), up_in);
            let falling_in = lanes.or(lanes.add_words(falling, falling), down_in);
            self.rises[vector] = lanes.or(falling_in, lanes.and_not(lanes.or(vertical, rising_in), ones));
            self.falls[vector] = lanes.and(rising_in, vertical);
        }
    }
}
