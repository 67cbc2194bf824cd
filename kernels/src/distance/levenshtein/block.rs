//! Texts that are prepared for comparison with many others at once.

use std::collections::BTreeSet;
use std::ops::Range;

use super::Pattern;
use super::sliced::{LANES, LETTERS_MAX, Letters, distances};
use crate::CodePath;
use crate::bits::WORDS;
use crate::interrupt::{Interrupt, Interrupted, ask};

/// The code of a letter that is not in the alphabet of a block, and of places beyond the end of a text.
const OTHER: u8 = u8::MAX;
/// Letters with an entry in a table, which include ASCII. Others are searched for.
const TABLE: usize = 128;
/// Fewer texts are compared one by one.
const TEXTS_MIN: usize = 64;
/// Cells of tables, of 512 pairs each, between two questions whether to stop: some milliseconds. Counted as if patterns had
/// the most letters, so of short texts all patterns share the bits of letters.
const CELLS_TOGETHER: usize = 1 << 22;

/// Texts that are compared with many others: the distances are those of [`Pattern::distance`].
///
/// Texts of similar length lie together, 512 at a time, with the bytes of one place side by side. Texts that are too long, too
/// few, too different in length, or of more than 255 different letters are compared one by one.
///
/// ```
/// use boxwork_kernels::CodePath;
/// use boxwork_kernels::distance::{Pattern, TextBlock};
///
/// let texts: Vec<Vec<char>> = ["sitting", "mitten", ""].iter().map(|text| text.chars().collect()).collect();
/// let block = TextBlock::new(texts.len(), |text| &texts[text]);
/// let kitten = Pattern::new(&"kitten".chars().collect::<Vec<_>>());
/// let mut found = [0_u32; 3];
/// block.distances(CodePath::detect(), &[&kitten], |text| &texts[text], &mut found, &|| false)?;
/// assert_eq!(found, [3, 1, 6]);
/// # Ok::<(), boxwork_kernels::interrupt::Interrupted>(())
/// ```
#[derive(Debug)]
pub struct TextBlock {
    texts: usize,
    alphabet: Alphabet,
    groups: Vec<Group>,
    /// Texts that are compared one by one.
    rest: Vec<u32>,
}

/// The different letters of some texts, each with a code.
#[derive(Debug)]
struct Alphabet {
    table: [u8; TABLE],
    /// The letters without an entry in the table, in order, with their codes.
    others: Vec<(char, u8)>,
}

/// Up to 512 texts of similar length.
#[derive(Debug)]
struct Group {
    /// The number of the text in each lane.
    texts: Vec<u32>,
    /// The numbers of the texts if they are consecutive.
    consecutive: Option<Range<usize>>,
    codes: Vec<[u8; LANES]>,
    longer: Vec<[u64; WORDS]>,
    lengths: [u32; LANES],
}

impl TextBlock {
    /// Prepares `count` texts.
    ///
    /// # Panics
    /// When there are more than 2^32.
    pub fn new<'a>(count: usize, text: impl Fn(usize) -> &'a [char]) -> Self {
        let count_u32 = u32::try_from(count).expect("fewer than 2^32 texts");
        let (mut short, mut rest): (Vec<u32>, Vec<u32>) =
            (0..count_u32).partition(|idx| text(*idx as usize).len() <= LETTERS_MAX);
        let letters = short.iter().flat_map(|idx| text(*idx as usize));
        let Some(alphabet) = Alphabet::of(letters) else {
            let (alphabet, groups) = (Alphabet::empty(), Vec::new());
            return Self { texts: count, alphabet, groups, rest: (0..count_u32).collect() };
        };
        short.sort_by_key(|idx| text(*idx as usize).len());
        let mut groups = Vec::new();
        for texts in short.chunks(LANES) {
            let places = texts.last().map_or(0, |last| text(*last as usize).len());
            let letters: usize = texts.iter().map(|idx| text(*idx as usize).len()).sum();
            // Padding may waste 60 % of the table.
            let is_wasteful = texts.len() < TEXTS_MIN || 5 * letters < 2 * places * texts.len();
            match is_wasteful || places == 0 {
                true => rest.extend_from_slice(texts),
                false => groups.push(Group::new(texts, places, &alphabet, &text)),
            }
        }
        Self { texts: count, alphabet, groups, rest }
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.texts
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.texts == 0
    }

    /// The distance of each pattern from each text: all texts for the first pattern, then all for the second, in any numbers
    /// that hold those of 32 bits. `text` gives the texts that the block was made of.
    ///
    /// # Errors
    /// When the caller interrupts; `out` is then unspecified.
    ///
    /// # Panics
    /// When `out` has not a number for each pattern and text.
    pub fn distances<'a, T: From<u32>>(
        &self,
        path: CodePath,
        patterns: &[&Pattern],
        text: impl Fn(usize) -> &'a [char],
        out: &mut [T],
        interrupt: Interrupt<'_>,
    ) -> Result<(), Interrupted> {
        assert_eq!(out.len(), patterns.len() * self.texts, "a number for each pattern and text");
        let (mut coded, mut numbers) = (Vec::new(), Vec::new());
        for (number, pattern) in patterns.iter().enumerate() {
            let found = &mut out[number * self.texts..(number + 1) * self.texts];
            let short = pattern.length > 0 && pattern.length <= LETTERS_MAX && !self.groups.is_empty();
            if short {
                coded.push(pattern.coded(&self.alphabet));
                numbers.push(number);
            } else {
                let texts = self.groups.iter().flat_map(|group| &group.texts);
                one_by_one(pattern, texts, &text, found, interrupt)?;
            }
            one_by_one(pattern, &self.rest, &text, found, interrupt)?;
        }
        let coded: Vec<&[u8]> = coded.iter().map(Vec::as_slice).collect();
        for group in self.groups.iter().filter(|_| !coded.is_empty()) {
            let together = (CELLS_TOGETHER / (group.codes.len() * LETTERS_MAX)).max(1);
            for (coded, numbers) in coded.chunks(together).zip(numbers.chunks(together)) {
                ask(interrupt)?;
                distances(path, group.letters(), coded, &mut |number, found| {
                    let out = &mut out[numbers[number] * self.texts..][..self.texts];
                    match &group.consecutive {
                        Some(texts) => {
                            let out = &mut out[texts.clone()];
                            out.iter_mut().zip(found).for_each(|(out, found)| *out = T::from(*found));
                        }
                        None => {
                            for (text, found) in group.texts.iter().zip(found) {
                                out[*text as usize] = T::from(*found);
                            }
                        }
                    }
                });
            }
        }
        Ok(())
    }
}

impl Alphabet {
    const fn empty() -> Self {
        Self { table: [OTHER; TABLE], others: Vec::new() }
    }

    /// The alphabet of these letters; nothing if there are too many different ones.
    fn of<'a>(letters: impl Iterator<Item = &'a char>) -> Option<Self> {
        let (mut alphabet, mut others, mut known) = (Self::empty(), BTreeSet::new(), 0);
        for letter in letters {
            match alphabet.table.get_mut(*letter as usize) {
                Some(code) if *code == OTHER => {
                    *code = known;
                    known += 1;
                }
                Some(_) => {}
                None => {
                    others.insert(*letter);
                }
            }
            if usize::from(known) + others.len() > usize::from(OTHER) {
                return None;
            }
        }
        alphabet.others = others.into_iter().zip(known..).collect();
        Some(alphabet)
    }

    fn code(&self, letter: char) -> u8 {
        match self.table.get(letter as usize) {
            Some(code) => *code,
            None => match self.others.binary_search_by_key(&letter, |other| other.0) {
                Ok(place) => self.others[place].1,
                Err(_) => OTHER,
            },
        }
    }
}

impl Group {
    fn new<'a>(
        texts: &[u32],
        places: usize,
        alphabet: &Alphabet,
        text: &impl Fn(usize) -> &'a [char],
    ) -> Self {
        let (mut codes, mut longer) = (vec![[OTHER; LANES]; places], vec![[0; WORDS]; places]);
        let mut lengths = [0; LANES];
        for (lane, idx) in texts.iter().enumerate() {
            let letters = text(*idx as usize);
            lengths[lane] = letters.len() as u32;
            for ((letter, codes), longer) in letters.iter().zip(&mut codes).zip(&mut longer) {
                codes[lane] = alphabet.code(*letter);
                longer[lane / 64] |= 1 << (lane % 64);
            }
        }
        let first = texts.first().map_or(0, |first| *first as usize);
        let is_consecutive = (first..).zip(texts).all(|(number, text)| number == *text as usize);
        let consecutive = is_consecutive.then_some(first..first + texts.len());
        Self { texts: texts.to_vec(), consecutive, codes, longer, lengths }
    }

    fn letters(&self) -> Letters<'_> {
        Letters { codes: &self.codes, longer: &self.longer, lengths: &self.lengths }
    }
}

impl Pattern {
    /// The text in the codes of an alphabet.
    fn coded(&self, alphabet: &Alphabet) -> Vec<u8> {
        self.text.iter().map(|letter| alphabet.code(*letter)).collect()
    }
}

fn one_by_one<'a, 'b, T: From<u32>>(
    pattern: &Pattern,
    texts: impl IntoIterator<Item = &'b u32>,
    text: &impl Fn(usize) -> &'a [char],
    found: &mut [T],
    interrupt: Interrupt<'_>,
) -> Result<(), Interrupted> {
    for idx in texts {
        ask(interrupt)?;
        // A distance is at most the length of the longer text, which fits into memory at four bytes a letter.
        found[*idx as usize] = T::from(pattern.distance(text(*idx as usize)) as u32);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Levenshtein;
    use super::*;
    use crate::chance::Random;
    use crate::distance::Distance;
    use crate::interrupt::never;

    /// Compares patterns with texts on every path, and with the definition.
    fn check(patterns: &[Vec<char>], texts: &[Vec<char>]) {
        let block = TextBlock::new(texts.len(), |text| &texts[text]);
        assert_eq!((block.len(), block.is_empty()), (texts.len(), texts.is_empty()));
        let prepared: Vec<Pattern> = patterns.iter().map(|pattern| Pattern::new(pattern)).collect();
        let prepared: Vec<&Pattern> = prepared.iter().collect();
        let expected: Vec<u32> = patterns
            .iter()
            .flat_map(|pattern| texts.iter().map(|text| Levenshtein.reference(pattern, text) as u32))
            .collect();
        for path in CodePath::available() {
            let mut found = vec![u32::MAX; expected.len()];
            block.distances(path, &prepared, |text| &texts[text], &mut found, &never).unwrap();
            assert_eq!(found, expected, "{path}");
            let stopped = block.distances(path, &prepared, |text| &texts[text], &mut found, &|| true);
            assert_eq!(stopped.is_err(), !texts.is_empty(), "an interruption is obeyed");
        }
    }

    /// Texts of random letters of an alphabet.
    fn texts(
        random: &mut Random,
        count: usize,
        lengths: std::ops::RangeInclusive<usize>,
        alphabet: &[char],
    ) -> Vec<Vec<char>> {
        let mut text = || {
            let length = lengths.start() + random.idx(lengths.end() - lengths.start() + 1);
            (0..length).map(|_| alphabet[random.idx(alphabet.len())]).collect()
        };
        (0..count).map(|_| text()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn many_at_once_are_those_of_the_definition(
            seed in any::<u64>(),
            count in 0usize..700,
            longest in 0usize..40,
            letters in 1usize..300,
            patterns in 1usize..6,
        ) {
            let mut random = Random::new(seed);
            let alphabet: Vec<char> = ('a'..).take(letters).collect();
            let (some, shorter) = (texts(&mut random, count, 0..=longest, &alphabet), longest / 2);
            let mut asked = texts(&mut random, patterns, shorter..=longest + 3, &alphabet);
            asked.push("a letter of no text: \u{1f600}\u{ff}".chars().collect());
            check(&asked, &some);
        }
    }

    #[test]
    fn long_texts_and_odd_ones() {
        let mut random = Random::new(5);
        let dna: Vec<char> = "ACGT".chars().collect();
        // As many rows as registers hold, one less and one more, and texts up to the most letters.
        for length in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 63, 64, 65, 300] {
            let asked = texts(&mut random, 2, length..=length, &dna);
            check(&asked, &texts(&mut random, 70, length..=length, &dna));
        }
        // Consecutive texts in two groups.
        check(&texts(&mut random, 2, 8..=8, &dna), &texts(&mut random, 600, 8..=8, &dna));
        let mut some = texts(&mut random, 66, LETTERS_MAX - 9..=LETTERS_MAX, &dna);
        some.extend(texts(&mut random, 1, LETTERS_MAX + 1..=LETTERS_MAX + 1, &dna));
        some.push(Vec::new());
        check(&texts(&mut random, 1, LETTERS_MAX..=LETTERS_MAX, &dna), &some);
        check(&texts(&mut random, 1, LETTERS_MAX + 1..=LETTERS_MAX + 1, &dna), &some[60..]);
        // Texts all of which are empty, and patterns that are.
        check(&[Vec::new(), dna.clone()], &vec![Vec::new(); 80]);
        check(&[Vec::new(), dna], &[]);
    }

    #[test]
    fn patterns_of_many_letters_share_no_table() {
        let mut random = Random::new(6);
        let letters: Vec<char> = (' '..).take(200).collect();
        check(&texts(&mut random, 3, 150..=200, &letters), &texts(&mut random, 600, 150..=200, &letters));
    }
}
