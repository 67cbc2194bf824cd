//! One text against many others: which of them are computed abreast, and which by themselves, by a profile or in stripes.

use super::letters::{Alphabet, Coded};
use super::profile::{Numbered, Numbering};
use super::stripes::{Pair, Recurrence, Table, WIDTH_MAX};
use super::{abreast, profile, stripes};
use crate::CodePath;
use crate::interrupt::{Interrupt, Interrupted, ask};
use crate::lanes::steps::{Count, Steps};
use crate::lanes::{Work, run};

/// Stripes take so many times as long for a vector of cells: their chains of dependent operations are longer.
const STRIPES_SLOWER: usize = 3;
/// Columns of numbers of longer texts leave the second-level cache.
const ROWS_ABREAST_MAX: usize = 16_384;

/// A text and others, by the numbers of their letters.
pub(super) struct Compared<'a, N> {
    pub(super) rows: &'a [N],
    /// The others one after the other, and their lengths.
    pub(super) columns: &'a [N],
    pub(super) lengths: &'a [usize],
    /// Letters that pad rows and columns.
    pub(super) padding: [N; 2],
    pub(super) table: Option<&'a Table<N>>,
}

/// The comparison of texts by a recurrence.
pub(super) struct Compare<'a, 'b, N, R> {
    pub(super) recurrence: R,
    pub(super) compared: Compared<'a, N>,
    /// Takes the place of a text among the others, the number in its last cell, and the largest number that is kept.
    pub(super) give: &'a mut (dyn FnMut(usize, N, N) + 'b),
    pub(super) interrupt: Interrupt<'a>,
}

impl<N, R> Compare<'_, '_, N, R>
where
    Self: Work<Done = Result<(), Interrupted>>,
{
    /// Compares the texts.
    ///
    /// # Errors
    /// When the caller interrupts.
    pub(super) fn run(self, path: CodePath) -> Result<(), Interrupted> {
        run(path, self)
    }
}

/// Compares a text with others by the numbers that its alphabet gives their letters; `give` is as in [`Compare`].
///
/// # Errors
/// When the caller interrupts.
pub(super) fn letters<N: Coded, R>(
    path: CodePath,
    recurrence: R,
    (alphabet, table): (&Alphabet<'_>, Option<&Table<N>>),
    texts: &[&[char]],
    give: &mut dyn FnMut(usize, N, N),
    interrupt: Interrupt<'_>,
) -> Result<(), Interrupted>
where
    for<'a, 'b> Compare<'a, 'b, N, R>: Work<Done = Result<(), Interrupted>>,
{
    let (columns, lengths) = alphabet.columns::<N>(texts);
    let rows = alphabet.rows::<N>();
    let compared =
        Compared { rows: &rows, columns: &columns, lengths: &lengths, padding: alphabet.padding(), table };
    Compare { recurrence, compared, give, interrupt }.run(path)
}

/// Implements the comparison by a recurrence over a kind of number.
macro_rules! work {
    ($number:ty, $recurrence:ty) => {
        impl $crate::lanes::Work
            for $crate::distance::alignment::compare::Compare<'_, '_, $number, $recurrence>
        {
            type Done = Result<(), $crate::interrupt::Interrupted>;

            #[inline(always)]
            fn run<L: $crate::lanes::Lanes>(self, lanes: L) -> Self::Done {
                $crate::distance::alignment::compare::each::<$number, L, $recurrence>(lanes, self)
            }
        }
    };
}
pub(super) use work;

/// Compares the texts, with the operations of a path.
#[inline(always)]
pub(super) fn each<N: Count, S: Steps<N>, R: Recurrence<N, S>>(
    s: S,
    work: Compare<'_, '_, N, R>,
) -> Result<(), Interrupted> {
    let Compare { recurrence, compared, give, interrupt } = work;
    let Compared { rows, columns, lengths, padding, table } = compared;
    let mut starts = Vec::with_capacity(lengths.len());
    let mut start = 0;
    for length in lengths {
        starts.push(start);
        start += length;
    }
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|text| lengths[*text]);
    let mut places: Vec<[N; WIDTH_MAX]> = Vec::new();
    let (mut numbering, mut numbered) = (Numbering::default(), Vec::new());
    for texts in order.chunks(S::WIDTH) {
        ask(interrupt)?;
        let pair =
            |text: usize| Pair { rows, columns: &columns[starts[text]..][..lengths[text]], padding, table };
        numbered.clear();
        numbered.resize_with(texts.len(), || None);
        // Letters are counted only if few of them would make a profile the best.
        let has_profile = R::IS_RISING && profile::is_for(rows.len(), table.is_some());
        if has_profile && !is_abreast::<N, S>(rows.len(), texts, lengths, |_| Some(0)) {
            for (numbered, text) in numbered.iter_mut().zip(texts) {
                *numbered = numbering.of(&pair(*text));
            }
        }
        let letters = |place: usize| numbered[place].as_ref().map(Numbered::letters);
        if rows.is_empty() {
            for text in texts {
                give(*text, recurrence.top(lengths[*text]), N::default());
            }
        } else if is_abreast::<N, S>(rows.len(), texts, lengths, letters) {
            let longest = texts.last().map_or(0, |text| lengths[*text]);
            places.clear();
            places.resize(longest, [padding[1]; WIDTH_MAX]);
            for (lane, text) in texts.iter().enumerate() {
                let letters = &columns[starts[*text]..][..lengths[*text]];
                for (place, letter) in places.iter_mut().zip(letters) {
                    place[lane] = *letter;
                }
            }
            let group = abreast::Group { rows, columns: &places, table };
            let below = abreast::fill(s, recurrence, &group);
            for (lane, text) in texts.iter().enumerate() {
                let last = match lengths[*text].checked_sub(1) {
                    Some(column) => below.numbers[column][lane],
                    None => recurrence.left(rows.len()),
                };
                give(*text, last, below.kept[lane]);
            }
        } else {
            for (text, numbered) in texts.iter().zip(&numbered) {
                ask(interrupt)?;
                let pair = pair(*text);
                if pair.columns.is_empty() {
                    give(*text, recurrence.left(rows.len()), N::default());
                    continue;
                }
                if let Some(numbered) = numbered {
                    let last = profile::fill(s, recurrence, (&pair, numbered), interrupt)?;
                    give(*text, last, N::default());
                    continue;
                }
                let filled = stripes::fill(s, recurrence, &pair);
                let mut largest = N::default();
                for kept in filled.kept {
                    largest = if kept > largest { kept } else { largest };
                }
                give(*text, filled.last, largest);
            }
        }
    }
    Ok(())
}

/// Whether texts in order of their lengths take less time abreast than one by one. `letters` gives the different letters of a text by its
/// place in that order if a profile takes it.
#[inline(always)]
fn is_abreast<N, S: Steps<N>>(
    rows: usize,
    texts: &[usize],
    lengths: &[usize],
    letters: impl Fn(usize) -> Option<usize>,
) -> bool {
    let longest = texts.last().map_or(0, |text| lengths[*text]);
    let vectors = rows.div_ceil(S::WIDTH);
    let mut alone = 0;
    for (place, text) in texts.iter().enumerate() {
        alone += match letters(place) {
            Some(letters) => profile::time(vectors, lengths[*text], letters),
            None => STRIPES_SLOWER * vectors * (lengths[*text] + S::WIDTH),
        };
    }
    rows <= ROWS_ABREAST_MAX && longest * rows <= alone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Portable;

    #[test]
    fn texts_go_by_profiles_only_if_their_letters_are_few() {
        let (texts, lengths): (Vec<usize>, Vec<usize>) = ((0..8).collect(), vec![60; 8]);
        let is_abreast =
            |rows, letters: Option<usize>| is_abreast::<u16, Portable>(rows, &texts, &lengths, |_| letters);
        assert_eq!([Some(4), None].map(|letters| is_abreast(4096, letters)), [false, true]);
        assert_eq!([Some(4), None].map(|letters| is_abreast(300, letters)), [true, true]);
        let pair = |columns: &[u16]| {
            let (rows, padding) = (&[1; 300][..], [0xdffe, 0xdffd]);
            Numbering::default()
                .of(&Pair { rows, columns, padding, table: None })
                .map(|found| found.letters())
        };
        let letters =
            |count: usize| -> Vec<u16> { (0..60).map(|place| (place % count) as u16 * 500).collect() };
        assert_eq!([15, 16].map(|count| pair(&letters(count))), [Some(15), None]);
        assert_eq!([pair(&[7; 4]), pair(&[7; 3]), pair(&[])], [Some(1), None, None]);
        // Letters of one pair are not those of the next.
        let mut numbering = Numbering::default();
        for count in [16, 15, 3, 15] {
            let (columns, rows) = (letters(count), [1; 300]);
            let pair = Pair { rows: &rows, columns: &columns, padding: [0xdffe, 0xdffd], table: None };
            let found = numbering.of(&pair).map(|found| found.letters());
            assert_eq!(found, (count < 16).then_some(count));
        }
    }
}
