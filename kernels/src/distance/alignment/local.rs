//! The score of the best local alignment of two texts: the most similar parts of both (T. F. Smith, M. S. Waterman, "Identification of
//! common molecular subsequences", J. Molecular Biology 147, 1981), with gaps that cost the same for each letter.
//!
//! It is a score and no distance: larger is more similar, and a text's score with itself depends on the text.

use std::sync::Arc;

use super::compare::{self, Compare, work};
use super::edit::{COST_MAX, CostError, NUMBER_MAX};
use super::letters::{self, Alphabet, Coded};
use super::matrix::LetterMatrix;
use super::stripes::Recurrence;
use crate::CodePath;
use crate::interrupt::{Interrupt, Interrupted};
use crate::lanes::Work;
use crate::lanes::steps::{Count, Steps};

/// Numbers that letters of an alignment add to its score, and take from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalScores {
    equal: u32,
    replace: u32,
    insert: u32,
    delete: u32,
    matrix: Option<Arc<LetterMatrix>>,
}

impl LocalScores {
    /// `equal` is added for a pair of equal letters. A pair of different ones takes `replace` away, a letter of the other text alone
    /// `insert`, and one of the first text alone `delete`.
    ///
    /// # Errors
    /// When a number is 0 or above [`COST_MAX`].
    pub fn new(equal: u32, replace: u32, insert: u32, delete: u32) -> Result<Self, CostError> {
        let named = [("equal", equal), ("replace", replace), ("insert", insert), ("delete", delete)];
        match named.into_iter().find(|(_, cost)| *cost == 0 || *cost > COST_MAX) {
            Some((name, cost)) => Err(CostError::Cost { name, cost }),
            None => Ok(Self { equal, replace, insert, delete, matrix: None }),
        }
    }

    /// Adds a score for each pair of the letters of a matrix, which counts as it is; other pairs keep theirs.
    #[must_use]
    pub fn with_matrix(self, matrix: Arc<LetterMatrix>) -> Self {
        Self { matrix: Some(matrix), ..self }
    }

    /// The numbers `equal`, `replace`, `insert` and `delete`.
    pub(super) fn numbers(&self) -> [u32; 4] {
        [self.equal, self.replace, self.insert, self.delete]
    }

    /// The scores of pairs of letters, if there are such.
    pub(super) fn matrix(&self) -> Option<&LetterMatrix> {
        self.matrix.as_deref()
    }

    /// No number of a table of so many rows and columns is larger.
    pub(super) fn most(&self, rows: usize, columns: usize) -> u64 {
        // Each pair adds at most the largest number; a cell has a score more, and the number by which all are raised.
        (rows.min(columns) + 3) as u64 * u64::from(self.largest())
    }

    /// The largest number that is added or taken away.
    fn largest(&self) -> u32 {
        let of_matrix =
            self.matrix.iter().flat_map(|matrix| matrix.pairs()).map(|pair| pair.2.unsigned_abs());
        self.numbers().into_iter().chain(of_matrix).fold(0, u32::max)
    }

    pub(super) fn score(&self, a: char, b: char) -> i64 {
        let of_matrix = self.matrix.as_ref().and_then(|matrix| matrix.number(a, b)).map(i64::from);
        of_matrix.unwrap_or(if a == b { i64::from(self.equal) } else { -i64::from(self.replace) })
    }

    /// The scores of a text with each of some texts.
    ///
    /// # Errors
    /// When the caller interrupts; `out` is then unspecified.
    ///
    /// # Panics
    /// When `texts` and `out` differ in length.
    pub fn to_each(
        &self,
        path: CodePath,
        from: &[char],
        texts: &[&[char]],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), Interrupted> {
        assert_eq!(texts.len(), out.len(), "a score a text");
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        let most = self.most(from.len(), longest);
        let alphabet = Alphabet::of(from, self.matrix.as_deref());
        if most < u64::from(u16::MAX) && alphabet.fits::<u16>() {
            self.each::<u16>(path, &alphabet, texts, out, interrupt)
        } else if most < NUMBER_MAX {
            self.each::<u32>(path, &alphabet, texts, out, interrupt)
        } else {
            letters::one_by_one(texts, out, interrupt, |to| self.reference(from, to))
        }
    }

    fn each<N: Coded>(
        &self,
        path: CodePath,
        alphabet: &Alphabet<'_>,
        texts: &[&[char]],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), Interrupted>
    where
        for<'a, 'b> Compare<'a, 'b, N, Scores<N>>: Work<Done = Result<(), Interrupted>>,
    {
        // Scores are raised to be at least 0. Those with padding are the lowest, so padding never adds to a score.
        let lowest = self.matrix.iter().flat_map(|matrix| matrix.pairs()).map(|pair| i64::from(-pair.2));
        let raised = lowest.fold(i64::from(self.replace), i64::max);
        let number = |score: i64| N::of((score + raised) as usize);
        let table =
            alphabet.table(|a, b| number(self.score(a, b)), number(-i64::from(self.replace)), N::default());
        let [insert, delete] = [self.insert, self.delete].map(|cost| N::of(cost as usize));
        let recurrence =
            Scores { equal: number(i64::from(self.equal)), raised: N::of(raised as usize), insert, delete };
        let give = &mut |text: usize, _, largest: N| out[text] = largest.place() as f64;
        compare::letters(path, recurrence, (alphabet, table.as_ref()), texts, give, interrupt)
    }

    /// The score of two texts by the table of the definition, one row at a time.
    pub fn reference(&self, from: &[char], to: &[char]) -> f64 {
        let mut largest = 0.0_f64;
        letters::reference(
            [from, to],
            |_| 0.0,
            |_| 0.0,
            |a, b, [corner, up, left]| {
                let paired = corner + self.score(a, b) as f64;
                let cell =
                    paired.max(up - f64::from(self.delete)).max(left - f64::from(self.insert)).max(0.0);
                largest = largest.max(cell);
                cell
            },
        );
        largest
    }
}

/// The recurrence H(i, j) = max(0, H(i-1, j-1) + score, H(i-1, j) - delete, H(i, j-1) - insert).
#[derive(Clone, Copy)]
pub(super) struct Scores<N> {
    /// The score of equal letters, raised.
    equal: N,
    /// The number by which scores are raised, so that none is negative.
    raised: N,
    insert: N,
    delete: N,
}

work!(u16, Scores<u16>);
work!(u32, Scores<u32>);

impl<N: Count, S: Steps<N>> Recurrence<N, S> for Scores<N> {
    #[inline(always)]
    fn left(self, _row: usize) -> N {
        N::default()
    }
    #[inline(always)]
    fn top(self, _column: usize) -> N {
        N::default()
    }
    #[inline(always)]
    fn cost(self, s: S, row: S::T, column: S::T) -> S::T {
        // Without a matrix the raised score of different letters is 0.
        let equal = s.every(self.equal);
        s.minus(equal, s.unequal(row, column, equal))
    }
    #[inline(always)]
    fn cell(self, s: S, cost: S::T, corner: S::T, up: S::T, left: S::T) -> S::T {
        let paired = s.minus(s.plus(corner, cost), s.every(self.raised));
        let along = s.greater(paired, s.minus(left, s.every(self.insert)));
        s.greater(along, s.minus(up, s.every(self.delete)))
    }
    #[inline(always)]
    fn keep(self, s: S, kept: S::T, cell: S::T) -> S::T {
        s.greater(kept, cell)
    }
}
