//! The letters of texts as numbers, and the table of the definition.

use super::matrix::LetterMatrix;
use super::stripes::Table;
use crate::interrupt::{Interrupt, Interrupted, ask};
use crate::lanes::steps::Count;

/// The first of 2,048 numbers that no letter has.
const FREE: u32 = 0xd800;
/// A letter above 16 bits that the first text does not have.
const OTHER: u32 = 0xdfff;
/// Letters that pad rows and columns.
const PADDING: [u32; 2] = [0xdffe, 0xdffd];
/// Letters above 16 bits that have a free number.
const LARGE_MAX: usize = (PADDING[1] - FREE) as usize;
/// The most letters of a table in numbers of 16 bits.
const TABLE_MAX: usize = 60_000;

/// A number of a table that also numbers letters.
pub(super) trait Coded: Count {
    /// Whether every letter has a number of its own.
    const IS_WIDE: bool;
}

impl Coded for u16 {
    const IS_WIDE: bool = false;
}

impl Coded for u32 {
    const IS_WIDE: bool = true;
}

/// The letters of a text with numbers for them, and for those of texts that it is compared with.
pub(super) struct Alphabet<'a> {
    text: &'a [char],
    /// Letters above 16 bits of the text, in order.
    large: Vec<char>,
    /// With a matrix: the different letters of the text, in order, and those of the text and the matrix.
    tabled: Option<[Vec<char>; 2]>,
}

impl<'a> Alphabet<'a> {
    pub(super) fn of(text: &'a [char], matrix: Option<&LetterMatrix>) -> Self {
        let sorted = |mut letters: Vec<char>| {
            letters.sort_unstable();
            letters.dedup();
            letters
        };
        let large = sorted(text.iter().copied().filter(|letter| *letter as u32 > 0xffff).collect());
        let tabled = matrix.map(|matrix| {
            let rows = sorted(text.to_vec());
            let columns = sorted(rows.iter().chain(matrix.letters()).copied().collect());
            [rows, columns]
        });
        Self { text, large, tabled }
    }

    /// The number of letters of the text.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether numbers of this kind are enough for the letters.
    pub(super) fn fits<N: Coded>(&self) -> bool {
        let tabled = self.tabled.as_ref().map_or(0, |[_, columns]| columns.len());
        N::IS_WIDE || (self.large.len() <= LARGE_MAX && tabled <= TABLE_MAX)
    }

    pub(super) fn rows<N: Coded>(&self) -> Vec<N> {
        let number = |letter: &char| match &self.tabled {
            Some([rows, _]) => N::of(rows.binary_search(letter).expect("a letter of the text")),
            None => self.number(*letter),
        };
        self.text.iter().map(number).collect()
    }

    /// The letters of texts one after the other, and their lengths.
    pub(super) fn columns<N: Coded>(&self, texts: &[&[char]]) -> (Vec<N>, Vec<usize>) {
        let mut numbers = Vec::with_capacity(texts.iter().map(|text| text.len()).sum());
        for text in texts {
            match &self.tabled {
                // The number behind those of the letters is for all other ones.
                Some([_, columns]) => numbers.extend(
                    text.iter().map(|letter| N::of(columns.binary_search(letter).unwrap_or(columns.len()))),
                ),
                None => numbers.extend(text.iter().map(|letter| self.number::<N>(*letter))),
            }
        }
        (numbers, texts.iter().map(|text| text.len()).collect())
    }

    fn number<N: Coded>(&self, letter: char) -> N {
        let code = letter as u32;
        let code = match code > 0xffff && !N::IS_WIDE {
            true => self.large.binary_search(&letter).map_or(OTHER, |place| FREE + place as u32),
            false => code,
        };
        N::of(code as usize)
    }

    /// The letters that pad rows and columns.
    pub(super) fn padding<N: Coded>(&self) -> [N; 2] {
        match &self.tabled {
            Some([rows, columns]) => [N::of(rows.len()), N::of(columns.len() + 1)],
            None => PADDING.map(|code| N::of(code as usize)),
        }
    }

    /// The numbers of pairs of letters if there is a matrix; `other` for a letter that is in neither the text nor the matrix, and
    /// `padding`.
    pub(super) fn table<N: Coded>(
        &self,
        pair: impl Fn(char, char) -> N,
        other: N,
        padding: N,
    ) -> Option<Table<N>> {
        let [rows, columns] = self.tabled.as_ref()?;
        let width = columns.len() + 2;
        let mut costs = Vec::with_capacity((rows.len() + 1) * width);
        for row in rows {
            costs.extend(columns.iter().map(|column| pair(*row, *column)));
            costs.extend([other, padding]);
        }
        costs.resize((rows.len() + 1) * width, padding);
        Some(Table { costs, columns: width })
    }
}

/// Computes the number of each text by itself.
pub(super) fn one_by_one(
    texts: &[&[char]],
    out: &mut [f64],
    interrupt: Interrupt<'_>,
    number: impl Fn(&[char]) -> f64,
) -> Result<(), Interrupted> {
    for (text, out) in texts.iter().zip(out) {
        ask(interrupt)?;
        *out = number(text);
    }
    Ok(())
}

/// The last number of the table of a definition, one row at a time. `cell` takes two objects and the numbers to the upper left of
/// their cell, above it, and to its left.
pub(super) fn reference<T: Copy>(
    [rows, columns]: [&[T]; 2],
    left: impl Fn(usize) -> f64,
    top: impl Fn(usize) -> f64,
    mut cell: impl FnMut(T, T, [f64; 3]) -> f64,
) -> f64 {
    let mut numbers: Vec<f64> = (0..=columns.len()).map(top).collect();
    for (row, x) in rows.iter().enumerate() {
        let mut corner = numbers[0];
        numbers[0] = left(row + 1);
        for (column, y) in columns.iter().enumerate() {
            let up = numbers[column + 1];
            numbers[column + 1] = cell(*x, *y, [corner, up, numbers[column]]);
            corner = up;
        }
    }
    numbers[columns.len()]
}
