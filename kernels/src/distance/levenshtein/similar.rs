//! How many edits a band around the diagonal is made for: as many as the beginnings of the texts need, and a few more.
//!
//! If the band gives more, that many edits are enough: then a band for so many has the distance. So no table is computed more than twice.

use super::WORD;
use super::diagonals::{Reached, by_diagonals};
use super::numbered::Numbered;
use super::strips::Band;
use crate::CodePath;

/// Texts of fewer letters are compared by whole columns, word by word.
pub(super) const LETTERS_MIN: usize = 512;
/// Texts of fewer letters are short: their distance is guessed from few edits.
const LONG_MIN: usize = 8192;
/// The distance of longer texts is guessed from that of a share of their letters, and of at most so many.
const SAMPLE_SHARE: usize = 4;
const SAMPLE_MAX: usize = 8192;
/// Edits of a narrow band: one for fewer takes as long, since a vector has so many rows.
const NARROW: usize = 448;
/// A band saves nothing of a short table if there is an edit for so few letters.
const DIFFERENT: usize = 4;

/// The edits of a band, or the distance.
#[derive(Clone, Copy, Debug)]
pub(super) enum Guess {
    /// The distance, or that it is above the limit.
    Known(Option<usize>),
    /// The distance is hardly above this.
    Edits(usize),
}

/// The distance of two texts, neither of them empty, if it is at most `limit`.
pub(super) fn within(path: CodePath, texts: &Numbered, limit: usize) -> Option<usize> {
    match guess(path, texts, limit) {
        Guess::Known(distance) => distance,
        Guess::Edits(edits) => by_bands(path, texts, edits, limit),
    }
}

/// The distance if it is at most `limit`, of texts that are guessed to differ by so many edits, at most the limit.
pub(super) fn by_bands(path: CodePath, texts: &Numbered, mut edits: usize, limit: usize) -> Option<usize> {
    loop {
        let found = Band::new(texts.size(), edits).last(path, texts);
        if found <= edits {
            return Some(found);
        }
        if edits == limit {
            return None;
        }
        edits = found.min(limit);
    }
}

/// Guesses how many edits two texts differ by, which are at most `limit`.
pub(super) fn guess(path: CodePath, texts: &Numbered, limit: usize) -> Guess {
    let (edits, row) = match by_diagonals(texts, limit) {
        Reached::Last(distance) => return Guess::Known(Some(distance)),
        Reached::Beyond => return Guess::Known(None),
        Reached::Row { edits, row } => (edits, row),
    };
    let [rows, columns] = texts.size();
    let (shorter, more) = (rows.min(columns), rows.abs_diff(columns));
    // A third more than the edits of few letters make likely, and a sixteenth more than those of many.
    let few = edits * shorter * 4 / (3 * row);
    let edits = if shorter >= LONG_MIN && 2 * few > NARROW {
        let sample = (shorter / SAMPLE_SHARE).min(SAMPLE_MAX).next_multiple_of(WORD);
        let found = Band::new([sample; 2], NARROW).last(path, texts);
        found * shorter.div_ceil(WORD) / (sample / WORD) * 17 / 16
    } else if DIFFERENT * edits > row {
        return Guess::Edits(limit.min(rows + columns));
    } else {
        few.max(NARROW - WORD)
    };
    Guess::Edits((edits + more + WORD).min(limit).min(rows + columns))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Levenshtein, Pattern};
    use super::*;
    use crate::chance::Random;
    use crate::distance::Distance;

    /// A text, and the same with some edits.
    fn pair(seed: u64, letters: usize, edits: usize, alphabet: usize) -> [Vec<char>; 2] {
        let mut random = Random::new(seed);
        let alphabet: Vec<char> = ('a'..).take(alphabet).collect();
        let letter = |random: &mut Random| alphabet[random.idx(alphabet.len())];
        let text: Vec<char> = (0..letters).map(|_| letter(&mut random)).collect();
        let mut other = text.clone();
        for _ in 0..edits {
            let at = random.idx(other.len());
            match random.below(3) {
                0 => other[at] = letter(&mut random),
                1 => other.insert(at, letter(&mut random)),
                _ => drop(other.remove(at)),
            }
        }
        [text, other]
    }

    fn check([a, b]: &[Vec<char>; 2]) {
        let (pattern, distance) = (Pattern::new(a), Levenshtein.reference(a, b) as usize);
        assert_eq!(pattern.distance(b), distance);
        let texts = Numbered::new(&pattern, b).expect("few letters");
        for limit in [0, distance.saturating_sub(1), distance, distance + 1, distance * 2, usize::MAX] {
            let expected = Some(distance).filter(|distance| *distance <= limit);
            assert_eq!(pattern.within(b, limit), expected, "within {limit}");
            for path in CodePath::available() {
                assert_eq!(within(path, &texts, limit), expected, "{path}, within {limit}");
                if limit >= a.len().abs_diff(b.len()) {
                    let edits = a.len().abs_diff(b.len());
                    assert_eq!(
                        by_bands(path, &texts, edits, limit),
                        expected,
                        "{path}, by bands within {limit}"
                    );
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn small_distances_are_those_of_the_definition(
            seed in any::<u64>(),
            letters in 1usize..900,
            edits in 0usize..80,
            alphabet in 1usize..6,
        ) {
            check(&pair(seed, letters + edits, edits, alphabet));
        }
    }

    #[test]
    fn texts_of_other_lengths_and_texts_that_share_nothing() {
        let mut random = Random::new(9);
        for (rows, columns) in [(1, 640), (640, 1), (513, 700), (700, 513), (640, 640), (1500, 1100)] {
            let text = |random: &mut Random, letters: usize| {
                (0..letters).map(|_| ['A', 'C', 'G', 'T'][random.idx(4)]).collect::<Vec<char>>()
            };
            check(&[text(&mut random, rows), text(&mut random, columns)]);
            check(&[vec!['x'; rows], vec!['y'; columns]]);
            check(&[vec!['x'; rows], vec!['x'; columns]]);
        }
        check(&pair(4, 3000, 20, 4));
        check(&pair(5, 3000, 300, 4));
        check(&pair(6, 3000, 300, 900));
    }

    #[test]
    fn distances_of_long_texts_are_guessed_from_their_beginnings() {
        let path = CodePath::detect();
        let guessed = |[a, b]: &[Vec<char>; 2]| {
            let texts = Numbered::new(&Pattern::new(a), b).expect("few letters");
            match guess(path, &texts, usize::MAX) {
                Guess::Edits(edits) => (edits, within(path, &texts, usize::MAX).expect("no limit")),
                Guess::Known(_) => panic!("so many edits are not found by diagonals"),
            }
        };
        let (edits, distance) = guessed(&pair(3, 20_000, 2000, 4));
        assert!((distance..distance + distance / 4).contains(&edits), "{edits} are guessed, not {distance}");
        // Beginnings that are equal, and then texts that are not.
        let [a, mut b] = pair(7, 20_000, 0, 4);
        b[16_000..].reverse();
        let distance = Levenshtein.reference(&a[16_000..], &b[16_000..]) as usize;
        let (edits, found) = guessed(&[a, b]);
        assert!(found <= distance && edits < found, "{edits} are guessed, not {found}");
    }
}
