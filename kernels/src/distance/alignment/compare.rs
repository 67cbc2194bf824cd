//! One text against many others: which of them are computed abreast, and which in stripes of their own.

use super::letters::{Alphabet, Coded};
use super::profile::Numbered;
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
    for texts in order.chunks(S::WIDTH) {
        ask(interrupt)?;
        if rows.is_empty() {
            for text in texts {
                give(*text, recurrence.top(lengths[*text]), N::default());
            }
        } else if is_abreast::<N, S>(
            rows.len(),
            texts,
            lengths,
            R::IS_RISING && profile::is_for(rows.len(), table.is_some()),
        ) {
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
            for text in texts {
                ask(interrupt)?;
                let columns = &columns[starts[*text]..][..lengths[*text]];
                if columns.is_empty() {
                    give(*text, recurrence.left(rows.len()), N::default());
                    continue;
                }
                let pair = Pair { rows, columns, padding, table };
                let numbered = if R::IS_RISING { Numbered::of(&pair) } else { None };
                if let Some(numbered) = numbered {
                    let last = profile::fill(s, recurrence, (&pair, &numbered), interrupt)?;
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

/// Whether texts in order of their lengths take less time abreast.
#[inline(always)]
fn is_abreast<N, S: Steps<N>>(rows: usize, texts: &[usize], lengths: &[usize], has_profile: bool) -> bool {
    let longest = texts.last().map_or(0, |text| lengths[*text]);
    let vectors = rows.div_ceil(S::WIDTH);
    let mut alone = 0;
    for text in texts {
        alone += match has_profile {
            true => profile::time(vectors, lengths[*text]),
            false => STRIPES_SLOWER * vectors * (lengths[*text] + S::WIDTH),
        };
    }
    rows <= ROWS_ABREAST_MAX && longest * rows <= alone
}
