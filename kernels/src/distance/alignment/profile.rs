//! The table of one long pair, column by column, if each number is the largest of its neighbours' ([`Recurrence::IS_RISING`]).
//!
//! A lane of a vector has a part of the rows, and the next lane those below it; the lanes of the second vector follow those of the first. A
//! profile holds the gains of each letter of columns with all rows (a "query profile": M. Farrar, "Striped Smith-Waterman speeds database
//! searches six times over other SIMD implementations", Bioinformatics 23(2), 2007).
//!
//! No number is lost on the way down a column, so what the rows above a lane add to it is the same for all its rows: the largest of the
//! numbers at the ends of the lanes above and at the border. A column is kept without it, and one more comparison adds it when the next
//! column reads the numbers.
//!
//! Invariant: rows that pad the last lanes gain nothing, so they repeat the number of the last row.

use super::stripes::{Pair, Recurrence, WIDTH_MAX};
use crate::interrupt::{Interrupt, Interrupted, ask};
use crate::lanes::steps::{Count, Steps};

/// Fewer rows take longer than in stripes: each column ends with a chain of operations across lanes.
const ROWS_MIN: usize = 256;
/// Fewer rows take longer than in stripes that look up the costs of a matrix.
const LOOKED_UP_ROWS_MIN: usize = 16;
/// Vectors of lanes, which go down a column side by side: a comparison with the number above takes two clocks on some processors.
const CHAINS: usize = 2;
/// Rows of a lane, at most: with vectors of 256 bits their numbers and a profile of four letters take 20 KiB of the first-level cache.
const LANE_MAX: usize = 64;
/// Letters of a profile, at most: half a megabyte of the second-level cache with vectors of 256 bits.
const LETTERS_MAX: usize = 128;
/// The chain at the end of a column takes as long as so many vectors of cells abreast.
const COLUMN_END: usize = 32;
/// Each letter of a profile takes as long as some columns.
const COLUMNS_OF_LETTER: usize = 4;

/// No place.
const NONE: u8 = u8::MAX;
const _: () = assert!(LETTERS_MAX <= NONE as usize);

/// The letters of columns by their places in a profile.
pub(super) struct Numbered<N> {
    letters: Vec<N>,
    columns: Vec<u8>,
}

/// Whether a pair of so many rows goes by a profile if its letters are few.
pub(super) fn is_for(rows: usize, has_table: bool) -> bool {
    rows >= if has_table { LOOKED_UP_ROWS_MIN } else { ROWS_MIN }
}

/// The time of a pair with so many letters in columns, in that of a vector of cells [abreast](super::abreast).
pub(super) fn time(vectors: usize, columns: usize, letters: usize) -> usize {
    (columns + COLUMNS_OF_LETTER * letters) * (vectors * 2 / 3 + COLUMN_END)
}

impl<N> Numbered<N> {
    /// Different letters of the columns.
    pub(super) fn letters(&self) -> usize {
        self.letters.len()
    }
}

/// Numbers the letters of columns.
#[derive(Default)]
pub(super) struct Numbering {
    /// By letter: its place in a profile, which is `NONE` for all letters between two pairs.
    places: Vec<u8>,
}

impl Numbering {
    /// The columns of a pair, which takes less time by a profile than in stripes. `None` if it has too many different letters.
    pub(super) fn of<N: Count>(&mut self, pair: &Pair<'_, N>) -> Option<Numbered<N>> {
        let most = LETTERS_MAX.min(pair.columns.len() / COLUMNS_OF_LETTER);
        if most == 0 {
            return None;
        }
        let (mut letters, mut columns) = (Vec::new(), Vec::with_capacity(pair.columns.len()));
        for letter in pair.columns {
            if letter.place() >= self.places.len() {
                self.places.resize(letter.place() + 1, NONE);
            }
            let place = &mut self.places[letter.place()];
            if *place == NONE {
                if letters.len() == most {
                    break;
                }
                *place = letters.len() as u8;
                letters.push(*letter);
            }
            columns.push(*place);
        }
        for letter in &letters {
            self.places[letter.place()] = NONE;
        }
        (columns.len() == pair.columns.len()).then_some(Numbered { letters, columns })
    }
}

/// Fills the table of a pair; returns the number in the last cell.
///
/// # Errors
/// When the caller interrupts.
#[inline(always)]
pub(super) fn fill<N: Count, S: Steps<N>, R: Recurrence<N, S>>(
    s: S,
    recurrence: R,
    (pair, numbered): (&Pair<'_, N>, &Numbered<N>),
    interrupt: Interrupt<'_>,
) -> Result<N, Interrupted> {
    assert!(R::IS_RISING, "the numbers of lanes above are added as they are");
    let none = s.every(N::default());
    let mut border = vec![N::default(); numbered.columns.len()];
    let (mut profile, mut numbers) = (Vec::new(), Vec::new());
    for rows in pair.rows.chunks(CHAINS * S::WIDTH * LANE_MAX) {
        ask(interrupt)?;
        let lane = rows.len().div_ceil(CHAINS * S::WIDTH);
        gains(s, recurrence, (pair, rows), &numbered.letters, &mut profile);
        numbers.clear();
        numbers.resize(lane, [none; CHAINS]);
        // At the column before: the largest number of the lanes above and of the border, and the number above the first row.
        let (mut above, mut before) = ([none; CHAINS], N::default());
        for (letter, border) in numbered.columns.iter().zip(&mut border) {
            let gains = &profile[usize::from(*letter) * lane..][..lane];
            let mut corner = numbers[lane - 1];
            for (corner, above) in corner.iter_mut().zip(above) {
                let lowest = s.greater(*corner, above);
                *corner = s.shifted(lowest, before);
                before = s.last(lowest);
            }
            before = *border;
            let mut up = [none; CHAINS];
            for (numbers, gains) in numbers.iter_mut().zip(gains) {
                for chain in 0..CHAINS {
                    let left = s.greater(numbers[chain], above[chain]);
                    let along = s.greater(left, s.plus(corner[chain], gains[chain]));
                    up[chain] = s.greater(up[chain], along);
                    (corner[chain], numbers[chain]) = (left, up[chain]);
                }
            }
            for (above, up) in above.iter_mut().zip(up) {
                let so_far = s.greatest_so_far(s.shifted(up, N::default()));
                *above = s.greater(so_far, s.every(*border));
                *border = s.last(s.greater(up, *above));
            }
        }
    }
    Ok(border.last().copied().unwrap_or_default())
}

/// The gains of letters with rows: by letter, then by row of a lane, a vector for each chain. Rows that pad gain nothing.
#[inline(always)]
fn gains<N: Count, S: Steps<N>, R: Recurrence<N, S>>(
    s: S,
    recurrence: R,
    (pair, rows): (&Pair<'_, N>, &[N]),
    letters: &[N],
    profile: &mut Vec<[S::T; CHAINS]>,
) {
    let lane = rows.len().div_ceil(CHAINS * S::WIDTH);
    profile.clear();
    profile.resize(letters.len() * lane, [s.every(N::default()); CHAINS]);
    for (row, chain) in (0..lane).flat_map(|row| (0..CHAINS).map(move |chain| (row, chain))) {
        let mut codes = [pair.padding[0]; WIDTH_MAX];
        let rows = rows.iter().skip(chain * S::WIDTH * lane + row).step_by(lane).take(S::WIDTH);
        let lanes = rows.len();
        for (code, row) in codes.iter_mut().zip(rows) {
            *code = *row;
        }
        for (place, letter) in letters.iter().enumerate() {
            let mut gains = [N::default(); WIDTH_MAX];
            match pair.table {
                Some(table) => {
                    for (gain, code) in gains[..lanes].iter_mut().zip(&codes) {
                        *gain = table.cost(*code, *letter);
                    }
                }
                None => {
                    s.put(recurrence.cost(s, s.take(&codes), s.every(*letter)), &mut gains);
                    gains[lanes..].fill(N::default());
                }
            }
            profile[place * lane + row][chain] = s.take(&gains);
        }
    }
}
