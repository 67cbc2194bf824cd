//! Pairs of texts as a device compares them: the bits of their letters, 32 pairs to a word.
//!
//! Pairs are sorted by the lengths of both texts and cut into bundles of 1,024. The first texts of a bundle end at one row of their tables,
//! so that the last row is that of all; the second ones begin at one place (`planes.rs`).

use super::planes::{Alphabet, BUNDLE, Bundle, Letters, copy_to, sorted, words};
use super::sliced::LETTERS_MAX;
use crate::pieces::{Pieces, collect};

/// Pairs of texts as a device compares them.
#[derive(Debug)]
pub struct PairPlanes {
    planes: usize,
    longest: [usize; 2],
    /// By position, the number of the pair.
    order: Vec<u32>,
    rest: Vec<u32>,
    bundles: Vec<[Bundle; 2]>,
}

impl PairPlanes {
    /// Prepares pairs, of which there are fewer than 2^32. `None` if the texts have more than 512 different letters, or if the caller
    /// cancels.
    pub fn new(pairs: &[[&[char]; 2]], pieces: &mut Pieces<'_>) -> Option<Self> {
        let longer = |pair: &[&[char]; 2]| pair[0].len().max(pair[1].len());
        let parts: Vec<&[[&[char]; 2]]> = pairs.chunks(BUNDLE).collect();
        let of_parts = collect(pieces, parts.len(), |part| {
            let short = parts[part].iter().filter(|pair| longer(pair) <= LETTERS_MAX);
            Letters::of(short.flatten().copied())
        })?;
        let alphabet = Alphabet::of(of_parts)?;
        let (order, rest) = sorted(pairs.len(), |idx| pairs[idx].map(<[char]>::len));
        let planes = alphabet.planes();
        let runs: Vec<&[u32]> = order.chunks(BUNDLE).collect();
        let bundles = collect(pieces, runs.len(), |run| {
            let side = |side: usize| -> Vec<&[char]> {
                runs[run].iter().map(|idx| pairs[*idx as usize][side]).collect()
            };
            [Bundle::ending(&side(0), &alphabet, planes), Bundle::new(&side(1), &alphabet, planes)]
        })?;
        let longest = [0, 1].map(|side| bundles.iter().map(|bundle| bundle[side].places).max().unwrap_or(0));
        Some(Self { planes, longest, order, rest, bundles })
    }

    /// The bits of a letter.
    pub fn planes(&self) -> usize {
        self.planes
    }

    /// Letters of the longest first text in a bundle, and of the longest second one.
    pub fn longest(&self) -> [usize; 2] {
        self.longest
    }

    /// The number of the pair at each position.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Pairs with a text of more than 1,024 letters, which are in no bundle.
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

    /// Whether tables of all bundles have whole strips of so many rows.
    pub(super) fn fills(&self, rows: usize) -> bool {
        self.bundles.iter().all(|[first, _]| first.places == first.full && first.places.is_multiple_of(rows))
    }

    /// Eight numbers for each bundle: the row where the words of its first texts begin, their rows, and the rows that not all have; such numbers
    /// of its second texts, with the places that all have; and two zeros.
    pub fn descriptors(&self) -> Vec<[u32; 8]> {
        let mut next = 0;
        let of_bundle = |[first, second]: &[Bundle; 2]| {
            let (of_first, of_second) = (first.row(&mut next), second.row(&mut next));
            let missing = first.places - first.full;
            let numbers = [first.places, missing].map(|number| number as u32);
            [of_first, numbers[0], numbers[1], of_second, second.places as u32, second.full as u32, 0, 0]
        };
        self.bundles.iter().map(of_bundle).collect()
    }

    /// The number of words of all bundles.
    pub fn words(&self) -> usize {
        words(self.bundles.iter().flatten())
    }

    /// Copies the words of all bundles, one after the other.
    ///
    /// # Panics
    /// When there is no room for as many.
    pub fn copy_to(&self, to: &mut [u32]) {
        copy_to(self.bundles.iter().flatten(), to);
    }
}
