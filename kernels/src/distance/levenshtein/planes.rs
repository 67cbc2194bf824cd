//! Texts as a device compares them with queries: the bits of their letters, 32 texts to a word.
//!
//! Texts are sorted by length and cut into bundles of 1,024. A bundle has a row of 32 words for each place and bit of a letter, and, from
//! the first place on that is beyond the end of one of its texts, a row with the texts that are longer. A word has the bits of 32
//! neighbouring texts in such an order that eight planes of distances become their bytes by few operations: that of text
//! `4 w + b` of 32 is bit `8 b + w`.
//!
//! Invariant: letters beyond the end of a text have any bits, and nothing reads their distances.

use std::collections::BTreeSet;

use super::sliced::LETTERS_MAX;
use crate::pieces::{Pieces, collect};

/// Work items of a group: a warp, each with a word of 32 texts.
pub const ITEMS: usize = 32;
/// The letter that no text has.
pub const NEVER: u16 = u16::MAX;
/// The most bits of a letter.
const PLANES_MAX: usize = 9;

/// Texts of a word.
pub(super) const LANES: usize = u32::BITS as usize;
/// Texts of a bundle.
pub(super) const BUNDLE: usize = LANES * ITEMS;
/// Letters with an entry in a table, which include ASCII. Others are searched for.
const TABLE: usize = 128;

/// The bit of the nth of 32 texts.
pub(super) const fn lane(nth: usize) -> usize {
    nth % 4 * 8 + nth / 4
}

/// Some texts as a device compares them with queries.
#[derive(Debug)]
pub struct TextPlanes {
    alphabet: Alphabet,
    planes: usize,
    longest: usize,
    /// By position, the number of the text.
    order: Vec<u32>,
    rest: Vec<u32>,
    bundles: Vec<Bundle>,
}

/// The words of up to 1,024 texts of similar length.
#[derive(Debug)]
pub(super) struct Bundle {
    pub(super) places: usize,
    /// Places that all texts have.
    pub(super) full: usize,
    words: Vec<u32>,
}

/// The different letters of some texts, each with a code.
#[derive(Debug)]
pub(in crate::distance) struct Alphabet {
    table: [u16; TABLE],
    others: Vec<(char, u16)>,
    len: usize,
}

/// The letters that some texts have.
pub(in crate::distance) struct Letters {
    table: [bool; TABLE],
    others: BTreeSet<char>,
}

impl TextPlanes {
    /// Prepares texts, of which there are fewer than 2^32. `None` if they have more than 512 different letters, or if the caller
    /// cancels.
    pub fn new(texts: &[&[char]], pieces: &mut Pieces<'_>) -> Option<Self> {
        let parts: Vec<&[&[char]]> = texts.chunks(BUNDLE).collect();
        let of_parts = collect(pieces, parts.len(), |part| Letters::of(short(parts[part])))?;
        let alphabet = Alphabet::of(of_parts)?;
        let (order, rest) = sorted(texts.len(), |idx| [texts[idx].len()]);
        let longest = order.last().map_or(0, |last| texts[*last as usize].len());
        let planes = alphabet.planes();
        let runs: Vec<&[u32]> = order.chunks(BUNDLE).collect();
        let bundles = collect(pieces, runs.len(), |run| {
            let texts: Vec<&[char]> = runs[run].iter().map(|idx| texts[*idx as usize]).collect();
            Bundle::new(&texts, &alphabet, planes)
        })?;
        Some(Self { alphabet, planes, longest, order, rest, bundles })
    }

    /// The bits of a letter.
    pub fn planes(&self) -> usize {
        self.planes
    }

    /// Letters of the longest text in a bundle.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// The number of the text at each position; position `p` is text `p % 1024` of bundle `p / 1024`.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Texts of more than 1,024 letters, which are in no bundle.
    pub fn rest(&self) -> &[u32] {
        &self.rest
    }

    /// The number of bundles.
    pub fn bundles(&self) -> usize {
        self.bundles.len()
    }

    /// Positions with those that fill up the last bundle.
    pub fn positions(&self) -> usize {
        self.bundles.len() * BUNDLE
    }

    /// Four numbers for each bundle: the row where its words begin, its places, the places that all texts have, and 0.
    pub fn descriptors(&self) -> Vec<[u32; 4]> {
        let mut next = 0;
        let of_bundle =
            |bundle: &Bundle| [bundle.row(&mut next), bundle.places as u32, bundle.full as u32, 0];
        self.bundles.iter().map(of_bundle).collect()
    }

    /// The number of words of all bundles.
    pub fn words(&self) -> usize {
        words(&self.bundles)
    }

    /// Copies the words of all bundles, one after the other.
    ///
    /// # Panics
    /// When there is no room for as many.
    pub fn copy_to(&self, to: &mut [u32]) {
        copy_to(&self.bundles, to);
    }

    /// The codes of a query's letters.
    pub fn codes<'a>(&'a self, query: &'a [char]) -> impl Iterator<Item = u16> + 'a {
        query.iter().map(|letter| self.alphabet.code(*letter))
    }
}

/// The numbers of what bundles take, sorted by the lengths of its texts, and of what has a text that is too long.
///
/// # Panics
/// When there are 2^32 or more.
pub(super) fn sorted<const SIDES: usize>(
    count: usize,
    lengths: impl Fn(usize) -> [usize; SIDES],
) -> (Vec<u32>, Vec<u32>) {
    let count = u32::try_from(count).expect("fewer than 2^32 texts");
    let lengths = |idx: &u32| lengths(*idx as usize);
    let (mut order, rest): (Vec<u32>, Vec<u32>) =
        (0..count).partition(|idx| lengths(idx).iter().all(|length| *length <= LETTERS_MAX));
    order.sort_by_key(lengths);
    (order, rest)
}

/// The number of words of some bundles.
pub(super) fn words<'a>(bundles: impl IntoIterator<Item = &'a Bundle>) -> usize {
    bundles.into_iter().map(|bundle| bundle.words.len()).sum()
}

/// Copies the words of some bundles, one after the other.
pub(super) fn copy_to<'a>(bundles: impl IntoIterator<Item = &'a Bundle>, mut to: &mut [u32]) {
    for bundle in bundles {
        let (of_bundle, rest) = to.split_at_mut(bundle.words.len());
        of_bundle.copy_from_slice(&bundle.words);
        to = rest;
    }
}

/// The texts that bundles take.
fn short<'a, 'b>(texts: &'b [&'a [char]]) -> impl Iterator<Item = &'a [char]> + 'b {
    texts.iter().copied().filter(|text| text.len() <= LETTERS_MAX)
}

impl Letters {
    /// Those of some texts; of far too many, some.
    pub(in crate::distance) fn of<'a>(texts: impl Iterator<Item = &'a [char]>) -> Self {
        let (mut table, mut others) = ([false; TABLE], BTreeSet::new());
        for letter in texts.flatten() {
            match table.get_mut(*letter as usize) {
                Some(is_used) => *is_used = true,
                None if others.len() <= 1 << PLANES_MAX => {
                    others.insert(*letter);
                }
                None => {}
            }
        }
        Self { table, others }
    }
}

impl Alphabet {
    /// The alphabet of some letters; nothing if they are too many.
    pub(in crate::distance) fn of(parts: Vec<Letters>) -> Option<Self> {
        let (mut is_used, mut others) = ([false; TABLE], BTreeSet::new());
        for part in parts {
            is_used.iter_mut().zip(part.table).for_each(|(all, part)| *all |= part);
            others.extend(part.others);
        }
        let (mut table, mut len) = ([NEVER; TABLE], 0);
        for (code, _) in table.iter_mut().zip(is_used).filter(|(_, is_used)| *is_used) {
            (*code, len) = (len as u16, len + 1);
        }
        let first = len as u16;
        len += others.len();
        (len <= 1 << PLANES_MAX).then(|| Self {
            table,
            others: others.into_iter().zip(first..).collect(),
            len,
        })
    }

    /// The bits of a code.
    pub(super) fn planes(&self) -> usize {
        (self.len.next_power_of_two().ilog2() as usize).max(1)
    }

    /// The letters in the order of their codes, which begin at 0.
    pub(in crate::distance) fn letters(&self) -> Vec<char> {
        let of_table = ('\0'..).zip(self.table).filter(|(_, code)| *code != NEVER).map(|(letter, _)| letter);
        of_table.chain(self.others.iter().map(|other| other.0)).collect()
    }

    /// The code of a letter; [`NEVER`] if no text has it.
    pub(in crate::distance) fn code(&self, letter: char) -> u16 {
        match self.table.get(letter as usize) {
            Some(code) => *code,
            None => match self.others.binary_search_by_key(&letter, |other| other.0) {
                Ok(place) => self.others[place].1,
                Err(_) => NEVER,
            },
        }
    }
}

impl Bundle {
    /// The row where the words begin if the next ones do at `next`, which moves behind them.
    pub(super) fn row(&self, next: &mut usize) -> u32 {
        let row = *next;
        *next += self.words.len() / ITEMS;
        row as u32
    }

    /// The bundle of texts that begin at one place.
    pub(super) fn new(texts: &[&[char]], alphabet: &Alphabet, planes: usize) -> Self {
        Self::of(texts, alphabet, planes, |_, _| 0)
    }

    /// The bundle of texts that end at one place.
    pub(super) fn ending(texts: &[&[char]], alphabet: &Alphabet, planes: usize) -> Self {
        Self::of(texts, alphabet, planes, |places, length| places - length)
    }

    /// The bundle of texts that begin at places of their own, by the bundle's places and the text's length. The rows of texts that are
    /// there follow for the places that only some have: these are the last ones, or the first ones if texts end at one place.
    fn of(
        texts: &[&[char]],
        alphabet: &Alphabet,
        planes: usize,
        begin: impl Fn(usize, usize) -> usize,
    ) -> Self {
        let places = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        let full = texts.iter().map(|text| text.len()).min().filter(|_| texts.len() == BUNDLE).unwrap_or(0);
        let is_ending = begin(places, full) > 0;
        let marked = if is_ending { 0..places - full } else { full..places };
        let mut words = vec![0; (places * planes + marked.len()) * ITEMS];
        for (item, texts) in texts.chunks(LANES).enumerate() {
            for place in 0..places {
                // The code of each lane, which is 0 where there is no letter.
                let (mut codes, mut is_there) = ([0_u32; LANES], 0_u32);
                for (nth, text) in texts.iter().enumerate() {
                    let letter = place.checked_sub(begin(places, text.len())).and_then(|at| text.get(at));
                    if let Some(letter) = letter {
                        codes[lane(nth)] = u32::from(alphabet.code(*letter));
                        is_there |= 1 << lane(nth);
                    }
                }
                for plane in 0..planes {
                    let bits = codes.iter().zip(0..).map(|(code, lane)| (code >> plane & 1) << lane);
                    words[(place * planes + plane) * ITEMS + item] = bits.fold(0, |all, bit| all | bit);
                }
                if marked.contains(&place) {
                    words[(places * planes + place - marked.start) * ITEMS + item] = is_there;
                }
            }
        }
        Self { places, full, words }
    }
}
