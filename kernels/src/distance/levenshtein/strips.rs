//! The number in the last cell of a table of two texts, from the cells of a band around the diagonal: in a window of words that moves along with
//! the band, or, if the band is wide, in strips from its upper edge to its lower one.
//!
//! Invariant: cells outside the band count as reached by insertions and deletions from it. So the number is never below the distance,
//! and is the distance if it is at most the edits for which the band is made (E. Ukkonen 1985).

use std::ops::Range;

use super::WORD;
use super::numbered::Numbered;
use super::wavefront::{FALLS, RISES, State, Steps, strip_words, vector_words};
use crate::CodePath;

/// The first rows and columns of two texts, neither of them none, and the band of cells that a path of some edits to the last one may touch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Band {
    rows: usize,
    columns: usize,
    /// Rows below the diagonal, and columns to the right of it.
    below: usize,
    right: usize,
}

/// Words that go over some columns together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Strip {
    /// The first word, and how many there are.
    pub(super) words: [usize; 2],
    /// The columns of the first word; those of each word below begin and end one to the left.
    pub(super) columns: Range<usize>,
}

impl Strip {
    /// The lowest lane.
    pub(super) fn lane(&self) -> usize {
        self.words[1] - 1
    }

    /// The steps of the strip: at step `s` word `w` is at column `s - w`.
    pub(super) fn steps(&self) -> Range<usize> {
        self.columns.start + self.words[0]..self.columns.end + self.words[0]
    }
}

impl Band {
    /// The band of texts of these lengths for so many edits, which are at least the difference of the lengths.
    pub(super) fn new([rows, columns]: [usize; 2], edits: usize) -> Self {
        debug_assert!(rows > 0 && columns > 0 && rows.abs_diff(columns) <= edits);
        // A path to the last cell that strays farther from the main diagonal needs more edits to come back.
        let edits = edits.min(rows + columns);
        let below = ((edits + rows).saturating_sub(columns) / 2).min(rows);
        // A column at least, so that the columns of two strips meet.
        let right = ((edits + columns).saturating_sub(rows) / 2).clamp(1, columns);
        Self { rows, columns, below, right }
    }

    fn words(&self) -> usize {
        self.rows.div_ceil(WORD)
    }

    /// The number in the last cell.
    pub(super) fn last(&self, path: CodePath, texts: &Numbered) -> usize {
        let most = strip_words(path, texts);
        let width = vector_words(path);
        let fits = |words: &usize| self.right + self.below <= (WORD + 1) * (words - 1);
        let last = match (width..=most).step_by(width).find(fits) {
            Some(words) if words < self.words() => self.by_window(path, texts, words),
            _ => self.by_strips(path, texts),
        };
        usize::try_from(last).expect("differences of a table lead to a distance")
    }

    /// The number in the last cell, by so many words, fewer than there are, which move down a word every 64 columns.
    fn by_window(&self, path: CodePath, texts: &Numbered, count: usize) -> i64 {
        let mut state = State::new(self.words());
        let (mut border, mut first, mut step) = (Vec::new(), 0, 0);
        // A word is a column behind the one above it, so the window moves every 65 steps. A word leaves it when it is at the band's right
        // edge, and then all words down to the band's lower edge are in the window.
        let (last, end) = (self.words() - count, self.columns + self.words() - 1);
        // The number in the lowest row of the window at its last column, at first to the left of the table.
        let mut number = (WORD * count + count - 1) as i64;
        while step < end {
            let next = if first == last { end } else { ((WORD + 1) * (first + 1) + self.right).min(end) };
            border.clear();
            border.resize(next - step, RISES);
            if first > 0 {
                border[0] = state.lowest(first - 1);
            }
            let (words, column) = ([first, count], step - first);
            Steps { texts, words, column, state: &mut state, place: first, border: &mut border }.run(path);
            number = moved(number, &border);
            step = next;
            if first < last {
                // The rows of the next word rise from the column before the last one.
                number += WORD as i64 - moved(0, &border[border.len() - 1..]);
                first += 1;
            }
        }
        self.above_padding(number, &state, self.words() - 1)
    }

    /// The number in the last cell, strip by strip.
    fn by_strips(&self, path: CodePath, texts: &Numbered) -> i64 {
        let strips = self.strips(strip_words(path, texts));
        let (mut border, mut number) = (self.border(), 0);
        for (place, strip) in strips.iter().enumerate() {
            let mut state = State::new(strip.words[1]);
            let border = &mut border[self.place(&strips, place)];
            let (words, column) = (strip.words, strip.columns.start);
            Steps { texts, words, column, state: &mut state, place: 0, border }.run(path);
            number = moved(self.begin(number, strip), &border[..self.counted(&strips, place)]);
            if place + 1 == strips.len() {
                number = self.above_padding(number, &state, strip.lane());
            }
        }
        number
    }

    /// The band in strips of so many words, the highest first.
    pub(super) fn strips(&self, most: usize) -> Vec<Strip> {
        let strip = |first: usize| {
            let count = most.min(self.words() - first);
            let (begin, end) = (WORD * first, WORD * (first + count) + self.right);
            let columns = begin.saturating_sub(self.below + 1)..end.min(self.columns) + count - 1;
            Strip { words: [first, count], columns }
        };
        (0..self.words()).step_by(most).map(strip).collect()
    }

    /// Differences along a row, by column and then with room for the words: that above the first strip.
    fn border(&self) -> Vec<u8> {
        vec![RISES; self.columns + self.words()]
    }

    /// The part of a border over which a strip goes. Lanes are one column behind each other, so the differences along the lowest row of
    /// a strip lie farther to the right than those above it.
    fn place(&self, strips: &[Strip], place: usize) -> Range<usize> {
        let steps = strips[place].steps();
        steps.start - place..steps.end - place
    }

    /// The number in the lowest row of a strip before its first column, from that in the row above its first column.
    pub(super) fn begin(&self, above: i64, strip: &Strip) -> i64 {
        // The rows rise on the left of the first column of each lane, which is to the left of that of the lane above it.
        above + ((WORD + 1) * strip.lane() + WORD) as i64
    }

    /// The differences along the lowest row of a strip that lead to the number above the next strip, or to the last column.
    pub(super) fn counted(&self, strips: &[Strip], place: usize) -> usize {
        let strip = &strips[place];
        let end = strips.get(place + 1).map_or(self.columns, |next| next.columns.start);
        end - strip.columns.start + strip.lane()
    }

    /// The number in the last row, from that in the lowest row of the last word, at the last column.
    pub(super) fn above_padding(&self, number: i64, state: &State, word: usize) -> i64 {
        let padding = self.words() * WORD - self.rows;
        let count =
            |bits: u64| if padding == 0 { 0 } else { i64::from((bits >> (WORD - padding)).count_ones()) };
        let [rises, falls] = state.vertical(word).map(count);
        number + falls - rises
    }
}

/// The number after some differences.
pub(super) fn moved(number: i64, differences: &[u8]) -> i64 {
    let count = |wanted: u8| differences.iter().filter(|difference| **difference == wanted).count() as i64;
    number + count(RISES) - count(FALLS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Levenshtein, Pattern};
    use super::*;
    use crate::chance::Random;
    use crate::distance::Distance;

    /// Compares what bands of several widths give, on all paths, with the distance of the definition.
    fn check(a: &[char], b: &[char], edits: &[usize]) {
        let distance = Levenshtein.reference(a, b) as usize;
        let texts = Numbered::new(&Pattern::new(a), b).expect("few letters");
        let difference = a.len().abs_diff(b.len());
        for path in CodePath::available() {
            for edits in edits.iter().copied().chain([distance, usize::MAX]) {
                let edits = edits.max(difference);
                let found = Band::new(texts.size(), edits).last(path, &texts);
                let is_right = found >= distance && (found == distance || distance > edits);
                assert!(is_right, "{path}: {found} with a band for {edits}, and not {distance}");
            }
        }
    }

    fn text(random: &mut Random, count: usize, letters: usize) -> Vec<char> {
        let alphabet: Vec<char> = ('!'..).take(letters).collect();
        (0..count).map(|_| alphabet[random.idx(letters)]).collect()
    }

    /// The text with some edits.
    fn edited(random: &mut Random, text: &[char], edits: usize) -> Vec<char> {
        let mut other = text.to_vec();
        for _ in 0..edits {
            let (at, letter) = (random.idx(other.len()), other[random.idx(other.len())]);
            match random.below(3) {
                0 => other[at] = letter,
                1 => other.insert(at, letter),
                _ => drop(other.remove(at)),
            }
        }
        other
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn bands_give_the_distance_if_it_fits(
            seed in any::<u64>(),
            rows in 1usize..1400,
            columns in 1usize..700,
            letters in 1usize..300,
            edits in 0usize..900,
        ) {
            let mut random = Random::new(seed);
            let a = text(&mut random, rows, letters);
            // The text has a letter that the pattern does not have.
            let b = text(&mut random, columns, letters + 1);
            check(&a, &b, &[0, edits]);
            let b = edited(&mut random, &a, edits.min(rows / 4));
            check(&a, &b, &[0, edits]);
        }
    }

    #[test]
    fn words_that_begin_and_end_at_edges() {
        let mut random = Random::new(8);
        for rows in [1, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1024, 1025, 2047, 2049] {
            for columns in [1, 2, 7, 8, 9, 255, 256, 257, 600] {
                let (a, b) = (text(&mut random, rows, 4), text(&mut random, columns, 4));
                check(&a, &b, &[0, 64]);
            }
        }
    }

    #[test]
    fn windows_and_strips_of_long_texts() {
        let mut random = Random::new(9);
        for (rows, edits) in [(3000, 40), (5000, 200), (4096, 700)] {
            let a = text(&mut random, rows, 4);
            let b = edited(&mut random, &a, edits);
            check(&a, &b, &[20, 100, 300, 900, 1500, 2100, 2600]);
            check(&b, &a, &[200, 1000]);
        }
        // More letters than fit into one vector's planes, and texts that share nothing.
        let (a, b) = (text(&mut random, 1500, 700), text(&mut random, 1400, 900));
        check(&a, &b, &[100, 1000]);
        check(&vec!['x'; 1200], &vec!['y'; 1300], &[100, 700]);
        check(&vec!['x'; 1300], &vec!['x'; 1000], &[300, 700]);
    }
}
