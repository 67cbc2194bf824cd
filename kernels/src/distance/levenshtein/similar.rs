//! Edit distances of long texts that differ little: first by diagonals, then within a band.
//!
//! By diagonals (E. W. Myers 1986; G. M. Landau and U. Vishkin 1989): for each number of edits and each diagonal of the table, the
//! farthest row that so many edits reach; O(n + d^2) for distance d. Within a band (E. Ukkonen 1985): only cells near the
//! main diagonal are computed, in words of 64 rows, and the band is doubled until the distance fits into it.
//!
//! Invariant: cells outside the band count as reached by insertions and deletions from it. So a number that the band gives is
//! never below the distance, and is the distance if it is at most the band's limit.

use super::{Pattern, WORD, step};

/// Texts of fewer letters are compared by whole columns.
pub(super) const LETTERS_MIN: usize = 512;
/// Diagonals are given up when the distance seems to be above this share of the letters.
const DIAGONALS_SHARE: usize = 32;
/// The band is given up when it is wider than this share of the table: whole columns then take as long.
const BAND_SHARE: usize = 4;
/// Edits between two looks at how far they have reached.
const LOOK: usize = 64;
/// Letters that are compared at once.
const RUN: usize = 16;

/// The result of the search for a small distance.
pub(super) enum Similar {
    /// The distance.
    Found(usize),
    /// It is above the limit.
    Beyond,
    /// The texts differ too much: nothing is known.
    Unknown,
}

/// The distance of a pattern from a text if it is small. Both have at least [`LETTERS_MIN`] letters.
pub(super) fn similar(pattern: &Pattern, text: &[char], limit: usize) -> Similar {
    let longest = pattern.length.max(text.len());
    if let known @ (Similar::Found(_) | Similar::Beyond) = by_diagonals(&pattern.text, text, limit) {
        return known;
    }
    let mut width = (longest / DIAGONALS_SHARE).max(pattern.length.abs_diff(text.len())).max(WORD);
    while width.min(limit) * BAND_SHARE <= longest {
        let within = width.min(limit);
        let found = in_band(pattern, text, within);
        if found <= within {
            return Similar::Found(found);
        }
        if within == limit {
            return Similar::Beyond;
        }
        width *= 2;
    }
    Similar::Unknown
}

/// The farthest row on each diagonal after ever more edits.
fn by_diagonals(pattern: &[char], text: &[char], limit: usize) -> Similar {
    let (rows, columns) = (pattern.len() as isize, text.len() as isize);
    let most = limit.min(pattern.len().max(text.len()) / DIAGONALS_SHARE);
    let last = columns - rows;
    if last.unsigned_abs() > limit {
        return Similar::Beyond;
    }
    let middle = most as isize + 1;
    // A diagonal is a column less a row. Diagonals that nothing reaches have a row before the first.
    const NOWHERE: isize = isize::MIN / 2;
    let mut reached = vec![NOWHERE; 2 * middle as usize + 1];
    let mut next = reached.clone();
    for edits in 0..=most {
        let around = edits as isize;
        for diagonal in (-around).max(-rows)..=around.min(columns) {
            let at = (middle + diagonal) as usize;
            let row = match edits {
                0 => 0,
                _ => (reached[at] + 1).max(reached[at - 1]).max(reached[at + 1] + 1),
            };
            let row = row.min(rows).min(columns - diagonal);
            next[at] = match row < 0 || row + diagonal < 0 {
                true => NOWHERE,
                false => row + equal(&pattern[row as usize..], &text[(row + diagonal) as usize..]) as isize,
            };
        }
        std::mem::swap(&mut reached, &mut next);
        let of_last = (middle + last) as usize;
        if reached.get(of_last).is_some_and(|row| *row == rows) {
            return Similar::Found(edits);
        }
        if edits > 0 && edits.is_multiple_of(LOOK) {
            let farthest = reached.iter().max().copied().unwrap_or(0).max(0) as usize;
            if farthest * most < edits * pattern.len() / 2 {
                return Similar::Unknown;
            }
        }
    }
    if most == limit { Similar::Beyond } else { Similar::Unknown }
}

/// Letters with which both texts begin.
fn equal(a: &[char], b: &[char]) -> usize {
    let runs = a.chunks_exact(RUN).zip(b.chunks_exact(RUN)).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[runs * RUN..], &b[runs * RUN..]);
    runs * RUN + a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The distance if it is at most `within`, which is at least the difference of the lengths; else a number above it.
fn in_band(pattern: &Pattern, text: &[char], within: usize) -> usize {
    let (rows, columns) = (pattern.length, text.len());
    // A path to the last cell that strays farther from the main diagonal needs more edits to come back.
    let below = ((within + rows).saturating_sub(columns) / 2).min(rows);
    let right = ((within + columns).saturating_sub(rows) / 2).min(columns);
    let mut words = vec![(u64::MAX, 0_u64); pattern.words];
    let last_word = |column: usize| ((column + below) / WORD).min(pattern.words - 1);
    let mut last = last_word(0);
    // The number in the lowest row of the last word of the band.
    let mut score = (last + 1) * WORD;
    for (column, letter) in text.iter().enumerate() {
        let first = column.saturating_sub(right) / WORD;
        if last_word(column + 1) > last {
            last += 1;
            words[last] = (u64::MAX, 0);
            score += WORD;
        }
        let masks = &pattern.masks[pattern.first_mask(*letter)..];
        let (mut up, mut down) = (1, 0);
        for ((rises, falls), equal) in words[first..=last].iter_mut().zip(&masks[first..]) {
            let (word_up, word_down) = step(*equal, rises, falls, up, down);
            (up, down) = (word_up >> (WORD - 1), word_down >> (WORD - 1));
        }
        score = score + up as usize - down as usize;
    }
    // From the lowest row of the last word up to the last row of the pattern.
    let padding = pattern.words * WORD - rows;
    let (rises, falls) = words[pattern.words - 1];
    let lowest = |bits: u64| if padding == 0 { 0 } else { (bits >> (WORD - padding)).count_ones() as usize };
    debug_assert_eq!(last, pattern.words - 1, "the band ends in the last cell");
    score + lowest(falls) - lowest(rises)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Levenshtein;
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
        for limit in [0, distance.saturating_sub(1), distance, distance + 1, distance * 2, usize::MAX] {
            let expected = Some(distance).filter(|distance| *distance <= limit);
            assert_eq!(pattern.within(b, limit), expected, "within {limit}");
            match by_diagonals(a, b, limit) {
                Similar::Found(found) => assert_eq!(found, distance, "by diagonals"),
                Similar::Beyond => assert!(distance > limit, "by diagonals, within {limit}"),
                Similar::Unknown => {}
            }
            let within = limit.max(a.len().abs_diff(b.len())).min(a.len().max(b.len()));
            let found = in_band(&pattern, b, within);
            assert!(found >= distance && (found == distance || distance > within), "{found} within {within}");
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
    }
}
