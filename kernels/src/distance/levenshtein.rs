//! The Levenshtein distance of texts: the least number of letters to insert, delete or replace.
//!
//! A letter is a Unicode scalar value. The fast path represents 64 rows of a column of the table by two words of bits: the
//! rows where the numbers rise, and the rows where they fall (G. Myers, "A fast bit-vector algorithm
//! for approximate string matching based on dynamic programming", J. ACM 46(3), 1999; for longer patterns and for the
//! distance of whole texts H. Hyyrö, "A bit-vector algorithm for computing Levenshtein and Damerau edit distances",
//! Nordic J. of Computing 10(1), 2003).

mod sliced;
mod block;
mod numbered;
mod wavefront;
mod strips;
mod diagonals;
mod similar;
mod tiles;
mod planes;
mod pair_planes;
pub mod device;
pub mod long;

pub use self::block::TextBlock;
use self::numbered::Numbered;
pub use self::pair_planes::PairPlanes;
pub use self::planes::TextPlanes;
pub(in crate::distance) use self::planes::{Alphabet, Letters};
pub use self::tiles::{Long, TILED_LETTERS_MIN, Tiles};
use super::{Distance, DistanceError, Properties, Slack};
use crate::CodePath;

/// Letters per word of bits.
const WORD: usize = u64::BITS as usize;
/// Letters with an entry in the table, which include ASCII. Others are searched for.
const TABLE: usize = 128;
/// The most bytes of a pattern.
const BYTES_MAX: usize = 1 << 29;
/// The patterns of texts up to this length never take more bytes than that.
const LETTERS_FREE: usize = 65_000;
const _: () = assert!(bytes_of(LETTERS_FREE, LETTERS_FREE) <= BYTES_MAX);

/// The Levenshtein distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levenshtein;

impl Distance for Levenshtein {
    type Object<'a> = &'a [char];

    fn properties(&self) -> Properties {
        Properties::metric("levenshtein")
    }

    fn slack(&self, _dimensions: usize, _extent: f64) -> Slack {
        // An f64 holds these whole numbers exactly.
        Slack::EXACT
    }

    fn check(&self, object: &[char]) -> Result<(), DistanceError> {
        let letters = object.len();
        if letters <= LETTERS_FREE {
            return Ok(());
        }
        // A bit for each Unicode scalar value.
        let mut is_there = vec![0_u64; (char::MAX as usize + 1) / WORD];
        object.iter().for_each(|letter| is_there[*letter as usize / WORD] |= 1 << (*letter as usize % WORD));
        let different = is_there.iter().map(|bits| bits.count_ones() as usize).sum();
        match bytes_of(letters, different) {
            bytes if bytes > BYTES_MAX => {
                Err(DistanceError::TooManyLetters { letters, different, bytes, most: BYTES_MAX })
            }
            _ => Ok(()),
        }
    }

    fn distance(&self, a: &[char], b: &[char]) -> f64 {
        // The shorter text needs fewer words.
        let (a, b) = if a.len() <= b.len() { (a, b) } else { (b, a) };
        Pattern::new(a).distance(b) as f64
    }

    fn reference(&self, a: &[char], b: &[char]) -> f64 {
        // The table of the definition, one row at a time.
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, x) in a.iter().enumerate() {
            let mut diagonal = row[0];
            row[0] = i + 1;
            for (j, y) in b.iter().enumerate() {
                let exchanged = diagonal + usize::from(x != y);
                diagonal = row[j + 1];
                row[j + 1] = exchanged.min(row[j] + 1).min(diagonal + 1);
            }
        }
        row[b.len()] as f64
    }
}

/// Bytes of the masks of a pattern: one mask per different letter, and one for all letters that the text does not contain.
const fn bytes_of(letters: usize, different: usize) -> usize {
    letters.div_ceil(WORD) * (different + 1) * size_of::<u64>()
}

/// A text that is prepared for comparisons with many others.
#[derive(Clone, Debug)]
pub struct Pattern {
    length: usize,
    text: Vec<char>,
    words: usize,
    /// By letter of the table and word: where in the pattern the letter stands; no letter has the place 0.
    table: [u32; TABLE],
    /// The letters without an entry in the table, in order, with the places of their masks.
    others: Vec<(char, u32)>,
    masks: Vec<u64>,
}

impl Pattern {
    /// Prepares a text.
    pub fn new(text: &[char]) -> Self {
        let words = text.len().div_ceil(WORD).max(1);
        // The first masks belong to letters that the text does not contain.
        let mut pattern = Self {
            length: text.len(),
            text: text.to_vec(),
            words,
            table: [0; TABLE],
            others: Vec::new(),
            masks: vec![0; words],
        };
        let mut others: Vec<char> = text.iter().copied().filter(|letter| *letter as usize >= TABLE).collect();
        others.sort_unstable();
        others.dedup();
        pattern.others = others.into_iter().zip(1..).collect();
        let mut known = pattern.others.len() as u32;
        for letter in text.iter().filter(|letter| (**letter as usize) < TABLE) {
            let place = &mut pattern.table[*letter as usize];
            if *place == 0 {
                known += 1;
                *place = known;
            }
        }
        pattern.masks.resize((known as usize + 1) * words, 0);
        for (place, letter) in text.iter().enumerate() {
            let first = pattern.first_mask(*letter);
            pattern.masks[first + place / WORD] |= 1 << (place % WORD);
        }
        pattern
    }

    /// The place of a letter among those of the text; 0 for one that is not there.
    fn place(&self, letter: char) -> u32 {
        match self.table.get(letter as usize) {
            Some(place) => *place,
            None => match self.others.binary_search_by_key(&letter, |other| other.0) {
                Ok(place) => self.others[place].1,
                Err(_) => 0,
            },
        }
    }

    fn first_mask(&self, letter: char) -> usize {
        self.place(letter) as usize * self.words
    }

    /// The distance to another text.
    pub fn distance(&self, text: &[char]) -> usize {
        self.within(text, usize::MAX).unwrap_or(usize::MAX)
    }

    /// The distance to another text, or `None` if it is above `limit`, which is noticed early.
    pub fn within(&self, text: &[char], limit: usize) -> Option<usize> {
        if self.length.abs_diff(text.len()) > limit {
            return None;
        }
        if self.length == 0 {
            return Some(text.len());
        }
        // A text of the store that is searched is often a query.
        if self.text == text {
            return Some(0);
        }
        if self.length.min(text.len()) >= similar::LETTERS_MIN
            && let Some(texts) = Numbered::new(self, text)
        {
            return similar::within(CodePath::detect(), &texts, limit);
        }
        match self.words {
            1 => self.one_word(text, limit),
            _ => self.many_words(text, limit),
        }
    }

    fn one_word(&self, text: &[char], limit: usize) -> Option<usize> {
        let (mut rises, mut falls, mut score) = (u64::MAX, 0, self.length);
        let last = 1 << (self.length - 1);
        for (column, letter) in text.iter().enumerate() {
            let equal = self.masks[self.first_mask(*letter)];
            let (up, down) = step(equal, &mut rises, &mut falls, 1, 0);
            score = score + usize::from(up & last != 0) - usize::from(down & last != 0);
            if is_beyond(score, text.len() - column - 1, limit) {
                return None;
            }
        }
        Some(score).filter(|score| *score <= limit)
    }

    fn many_words(&self, text: &[char], limit: usize) -> Option<usize> {
        let mut columns = vec![(u64::MAX, 0_u64); self.words];
        let mut score = self.length;
        let last = 1 << ((self.length - 1) % WORD);
        for (column, letter) in text.iter().enumerate() {
            let first = self.first_mask(*letter);
            // The row above the pattern rises by one with each letter of the other text.
            let (mut up, mut down) = (1, 0);
            let (mut last_up, mut last_down) = (0, 0);
            for ((rises, falls), equal) in columns.iter_mut().zip(&self.masks[first..]) {
                (last_up, last_down) = step(*equal, rises, falls, up, down);
                (up, down) = (last_up >> (WORD - 1), last_down >> (WORD - 1));
            }
            score = score + usize::from(last_up & last != 0) - usize::from(last_down & last != 0);
            if is_beyond(score, text.len() - column - 1, limit) {
                return None;
            }
        }
        Some(score).filter(|score| *score <= limit)
    }
}

/// Whether the distance must be above the limit: each letter that is left lowers it by at most one.
fn is_beyond(score: usize, left: usize, limit: usize) -> bool {
    score.saturating_sub(left) > limit
}

/// One column for 64 letters of the pattern. `up_in` and `down_in` say whether the row above rises or falls. Returns the rows
/// that rise and the rows that fall, before they are shifted down by one.
#[inline(always)]
fn step(equal: u64, rises: &mut u64, falls: &mut u64, up_in: u64, down_in: u64) -> (u64, u64) {
    let vertical = equal | *falls;
    let equal = equal | down_in;
    let horizontal = ((equal & *rises).wrapping_add(*rises) ^ *rises) | equal;
    let up = *falls | !(horizontal | *rises);
    let down = *rises & horizontal;
    let (up_shifted, down_shifted) = (up << 1 | up_in, down << 1 | down_in);
    *rises = down_shifted | !(vertical | up_shifted);
    *falls = up_shifted & vertical;
    (up, down)
}
