//! The tables of one text and many others, a table in each lane of a vector.
//!
//! Columns are taken several at once, so that the numbers between them stay in registers and their chains of dependent operations
//! run side by side.
//!
//! Invariant: letters that pad a text shorter than others change no number that is read.

use super::stripes::{Recurrence, Table, WIDTH_MAX};
use crate::lanes::steps::{Count, Steps};

/// Columns that are taken at once.
const COLUMNS: usize = 4;

/// One text, not empty, and as many others as a vector has lanes.
pub(super) struct Group<'a, N> {
    pub(super) rows: &'a [N],
    /// The letters of the others: all first ones, then all second ones; `WIDTH_MAX` places each.
    pub(super) columns: &'a [[N; WIDTH_MAX]],
    /// The costs of letters, in place of those by [`Recurrence::cost`], and the number of different letters in rows.
    pub(super) table: Option<&'a Table<N>>,
}

/// The numbers of the last row.
pub(super) struct Below<N> {
    /// By column and lane.
    pub(super) numbers: Vec<[N; WIDTH_MAX]>,
    /// The numbers that are kept, by lane.
    pub(super) kept: [N; WIDTH_MAX],
}

/// Fills the tables of a group.
#[inline(always)]
pub(super) fn fill<N: Count, S: Steps<N>, R: Recurrence<N, S>>(
    s: S,
    recurrence: R,
    group: &Group<'_, N>,
) -> Below<N> {
    let mut left = Vec::with_capacity(group.rows.len());
    for row in 1..=group.rows.len() {
        left.push(s.every(recurrence.left(row)));
    }
    let mut filling = Filling {
        left,
        kept: s.every(N::default()),
        below: vec![[recurrence.outside(); WIDTH_MAX]; group.columns.len()],
        costs: Vec::new(),
    };
    let mut first = 0;
    while first < group.columns.len() {
        first += match (group.columns.len() - first, group.table) {
            (COLUMNS.., None) => filling.columns::<R, COLUMNS, false>(s, recurrence, group, first),
            (COLUMNS.., Some(_)) => filling.columns::<R, COLUMNS, true>(s, recurrence, group, first),
            (_, None) => filling.columns::<R, 1, false>(s, recurrence, group, first),
            (_, Some(_)) => filling.columns::<R, 1, true>(s, recurrence, group, first),
        };
    }
    let mut kept = [N::default(); WIDTH_MAX];
    s.put(filling.kept, &mut kept);
    Below { numbers: filling.below, kept }
}

struct Filling<N, S: Steps<N>> {
    /// The numbers of the last column, by row.
    left: Vec<S::T>,
    kept: S::T,
    below: Vec<[N; WIDTH_MAX]>,
    /// The costs of each letter of rows with the letters of the columns.
    costs: Vec<S::T>,
}

impl<N: Count, S: Steps<N>> Filling<N, S> {
    /// Some columns from the top to the bottom; returns their number.
    #[inline(always)]
    fn columns<R: Recurrence<N, S>, const COUNT: usize, const IS_TABLE: bool>(
        &mut self,
        s: S,
        recurrence: R,
        group: &Group<'_, N>,
        first: usize,
    ) -> usize {
        let (rows, band) = (group.rows.len(), recurrence.band());
        let columns = &group.columns[first..first + COUNT];
        let (from, upto) = match R::IS_BANDED {
            true => (first.saturating_sub(band).min(rows), rows.min((first + COUNT).saturating_add(band))),
            false => (0, rows),
        };
        let outside = s.every(recurrence.outside());
        let (mut letters, mut up) = ([outside; COUNT], [outside; COUNT]);
        for column in 0..COUNT {
            letters[column] = s.take(&columns[column]);
            if from == 0 {
                up[column] = s.every(recurrence.top(first + column + 1));
            }
        }
        if let (true, Some(table)) = (IS_TABLE, group.table) {
            self.look_up(s, table, columns);
        }
        let mut corner = if from == 0 { s.every(recurrence.top(first)) } else { self.left[from - 1] };
        for (row, (place, edge)) in
            (from..upto).zip(group.rows[from..upto].iter().zip(&mut self.left[from..upto]))
        {
            let letter = s.every(*place);
            let (mut left, mut diagonal) = (*edge, corner);
            corner = *edge;
            for (column, up) in up.iter_mut().enumerate() {
                let cost = match IS_TABLE {
                    true => self.costs[place.place() * COUNT + column],
                    false => recurrence.cost(s, letter, letters[column]),
                };
                let mut cell = recurrence.cell(s, cost, diagonal, *up, left);
                if R::IS_BANDED && row.abs_diff(first + column) > band {
                    cell = outside;
                }
                self.kept = recurrence.keep(s, self.kept, cell);
                (diagonal, *up, left) = (*up, cell, cell);
            }
            *edge = left;
        }
        if upto == rows {
            for (up, below) in up.iter().zip(&mut self.below[first..]) {
                s.put(*up, below);
            }
        }
        COUNT
    }

    /// Gathers the costs of each letter of rows with each lane's letters.
    #[inline(always)]
    fn look_up(&mut self, s: S, table: &Table<N>, columns: &[[N; WIDTH_MAX]]) {
        self.costs.clear();
        for costs in table.costs.chunks_exact(table.columns) {
            for letters in columns {
                let mut of_lanes = [N::default(); WIDTH_MAX];
                for lane in 0..S::WIDTH {
                    of_lanes[lane] = costs[letters[lane].place()];
                }
                self.costs.push(s.take(&of_lanes));
            }
        }
    }
}
