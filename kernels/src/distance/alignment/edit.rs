//! Edit distances whose insertions, deletions and replacements have costs of their own.

use std::sync::Arc;

use thiserror::Error;

use super::compare::{self, Compare, work};
use super::letters::{self, Alphabet, Coded};
use super::matrix::LetterMatrix;
use super::stripes::Recurrence;
use crate::CodePath;
use crate::distance::{Distance, DistanceError, Properties, Slack};
use crate::interrupt::{Interrupt, Interrupted, never};
use crate::lanes::Work;
use crate::lanes::steps::{Count, Steps};

/// The largest cost of an edit.
pub const COST_MAX: u32 = 65_535;
/// Tables of larger numbers are computed in f64, one row at a time: sums of two numbers have a bit to spare in 32.
pub(super) const NUMBER_MAX: u64 = 1 << 30;

/// The costs of edits that turn one text into another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditCosts {
    insert: u32,
    delete: u32,
    replace: u32,
    matrix: Option<Arc<LetterMatrix>>,
}

/// Why there are no such costs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CostError {
    /// A cost is 0 or too large.
    #[error("`{name}` costs {cost}: costs are whole numbers from 1 to {COST_MAX}")]
    Cost {
        /// `insert`, `delete` or `replace`.
        name: &'static str,
        /// The cost.
        cost: u32,
    },
    /// A number of a matrix is no cost.
    #[error(
        "replacing `{a}` by `{b}` costs {cost}: a letter costs 0 by itself, and another one a whole number from 1 to {COST_MAX}"
    )]
    Replace {
        /// The first letter.
        a: char,
        /// The second one.
        b: char,
        /// The number.
        cost: i32,
    },
    /// The distance in the other order would be another one.
    #[error(
        "{what}, so the distance of two texts would depend on their order, and searches take it in either order: {fix}"
    )]
    Directed {
        /// The costs that differ.
        what: String,
        /// The way out.
        fix: &'static str,
    },
}

impl EditCosts {
    /// Costs of inserting a letter, deleting one, and replacing one by another.
    ///
    /// # Errors
    /// When a cost is 0 or above [`COST_MAX`].
    pub fn new(insert: u32, delete: u32, replace: u32) -> Result<Self, CostError> {
        for (name, cost) in [("insert", insert), ("delete", delete), ("replace", replace)] {
            if cost == 0 || cost > COST_MAX {
                return Err(CostError::Cost { name, cost });
            }
        }
        Ok(Self { insert, delete, replace, matrix: None })
    }

    /// Adds a cost for each pair of the letters of a matrix; other pairs keep that of `replace`.
    ///
    /// # Errors
    /// When a number of the matrix is negative, or is 0 for two letters, or is not 0 for one letter.
    pub fn with_matrix(self, matrix: Arc<LetterMatrix>) -> Result<Self, CostError> {
        let wrong = matrix.pairs().find(|(a, b, cost)| (a == b) != (*cost == 0) || *cost < 0);
        match wrong {
            Some((a, b, cost)) => Err(CostError::Replace { a, b, cost }),
            None => Ok(Self { matrix: Some(matrix), ..self }),
        }
    }

    /// Checks that the distance is the same in either order.
    ///
    /// # Errors
    /// The costs that differ.
    pub fn check_symmetric(&self) -> Result<(), CostError> {
        if self.insert != self.delete {
            let what = format!("`insert` costs {} and `delete` {}", self.insert, self.delete);
            return Err(CostError::Directed { what, fix: "give both the same cost" });
        }
        match self.matrix.as_ref().and_then(|matrix| matrix.asymmetry()) {
            Some((a, b)) => {
                let what = format!("replacing `{a}` by `{b}` costs another number than `{b}` by `{a}`");
                Err(CostError::Directed { what, fix: "give both the same cost in the matrix" })
            }
            None => Ok(()),
        }
    }

    /// The costs of inserting a letter, deleting one, and replacing one by another.
    pub fn numbers(&self) -> [u32; 3] {
        [self.insert, self.delete, self.replace]
    }

    /// The costs of pairs of letters, if there are such.
    pub fn matrix(&self) -> Option<&Arc<LetterMatrix>> {
        self.matrix.as_ref()
    }

    /// The cost of replacing a letter by another one, if the matrix has none for them.
    pub(super) fn replace(&self) -> u32 {
        self.replace.min(self.insert + self.delete)
    }

    /// No number of a table of so many rows and columns is larger.
    pub(super) fn most(&self, rows: usize, columns: usize) -> u64 {
        // A cell is at most its row by deletions and its column by insertions; a further cell is looked at beyond.
        (rows + columns + 2) as u64 * u64::from(self.insert.max(self.delete))
    }

    /// The most that edits of so many rows and columns gain over deleting all letters and inserting the others.
    fn most_gained(&self, rows: usize, columns: usize) -> u64 {
        (rows.min(columns) + 1) as u64 * u64::from(self.insert + self.delete)
    }

    /// The cost of replacing a letter, or of deleting it and inserting the other.
    pub(super) fn replaced(&self, a: char, b: char) -> u32 {
        if a == b {
            return 0;
        }
        let of_matrix = self.matrix.as_ref().and_then(|matrix| matrix.number(a, b));
        of_matrix.map_or(self.replace, i32::cast_unsigned).min(self.insert + self.delete)
    }

    /// The least cost of turning `from` into each of some texts.
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
        assert_eq!(texts.len(), out.len(), "a distance a text");
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        let most = self.most_gained(from.len(), longest);
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
        for<'a, 'b> Compare<'a, 'b, N, Gains<N>>: Work<Done = Result<(), Interrupted>>,
    {
        let both = self.insert + self.delete;
        let gained = |replaced: u32| N::of((both - replaced) as usize);
        let of_pair = |a, b| gained(self.replaced(a, b));
        let table = alphabet.table(of_pair, gained(self.replace()), N::default());
        let recurrence = Gains { equal: gained(0), lost: N::of(self.replace() as usize) };
        let rows = alphabet.len();
        let give = &mut |text: usize, gained: N, _| {
            let edits =
                rows as f64 * f64::from(self.delete) + texts[text].len() as f64 * f64::from(self.insert);
            out[text] = edits - gained.place() as f64;
        };
        compare::letters(path, recurrence, (alphabet, table.as_ref()), texts, give, interrupt)
    }

    /// The least cost of turning one text into another, by the table of the definition, one row at a time.
    pub fn reference(&self, from: &[char], to: &[char]) -> f64 {
        letters::reference(
            [from, to],
            |row| f64::from(self.delete) * row as f64,
            |column| f64::from(self.insert) * column as f64,
            |a, b, [corner, up, left]| {
                let replaced = corner + f64::from(self.replaced(a, b));
                replaced.min(up + f64::from(self.delete)).min(left + f64::from(self.insert))
            },
        )
    }
}

/// The gain of edits over deleting all letters of rows and inserting those of columns. The recurrence of edits
///
/// D(i, j) = min(D(i-1, j-1) + replace(i, j), D(i-1, j) + delete, D(i, j-1) + insert)
///
/// becomes, with G(i, j) = i delete + j insert - D(i, j),
///
/// G(i, j) = max(G(i-1, j-1) + delete + insert - replace(i, j), G(i-1, j), G(i, j-1)):
///
/// two additions less, edges that are 0, and smaller numbers. Without a matrix the gain of two letters takes an operation more than their cost.
#[derive(Clone, Copy)]
pub(super) struct Gains<N> {
    /// The gain of equal letters.
    equal: N,
    /// How much less others gain.
    lost: N,
}

work!(u16, Gains<u16>);
work!(u32, Gains<u32>);

impl<N: Count, S: Steps<N>> Recurrence<N, S> for Gains<N> {
    const IS_RISING: bool = true;

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
        s.minus(s.every(self.equal), s.unequal(row, column, s.every(self.lost)))
    }
    #[inline(always)]
    fn cell(self, s: S, cost: S::T, corner: S::T, up: S::T, left: S::T) -> S::T {
        let along = s.greater(s.plus(corner, cost), left);
        // The number above comes last: it is the newest, on the chain of all rows.
        s.greater(along, up)
    }
}

/// The edit distance with costs that are the same in either order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit(EditCosts);

impl Edit {
    /// The distance by these costs.
    ///
    /// # Errors
    /// When the distance would depend on the order of two texts.
    pub fn new(costs: EditCosts) -> Result<Self, CostError> {
        costs.check_symmetric()?;
        Ok(Self(costs))
    }

    /// The costs.
    pub fn costs(&self) -> &EditCosts {
        &self.0
    }
}

impl Distance for Edit {
    type Object<'a> = &'a [char];

    fn properties(&self) -> Properties {
        // Capped costs without a matrix obey the triangle inequality letter by letter, so edits do. Costs of a matrix may
        // not: a letter by way of another one may be cheaper.
        match self.0.matrix {
            None => Properties::metric("edit"),
            Some(_) => Properties::none("edit"),
        }
    }

    fn slack(&self, _dimensions: usize, _extent: f64) -> Slack {
        Slack::EXACT
    }

    fn check(&self, _object: &[char]) -> Result<(), DistanceError> {
        Ok(())
    }

    fn distance(&self, a: &[char], b: &[char]) -> f64 {
        let mut out = [0.0];
        let compared = self.0.to_each(CodePath::detect(), a, &[b], &mut out, &never);
        compared.expect("never interrupted");
        out[0]
    }

    fn reference(&self, a: &[char], b: &[char]) -> f64 {
        self.0.reference(a, b)
    }
}
