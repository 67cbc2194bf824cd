//! The table of one long pair, in stripes of rows that are cut as parallelograms: a lane of a vector has some successive rows
//! and is one column behind the lane above it, so that all lanes compute at once (R. A. Wagner, M. J. Fischer, "The
//! string-to-string correction problem", J. ACM 21(1), 1974, by antidiagonals).
//!
//! In step `s` lane `t` computes its rows at column `s - t`. Its lowest number goes to the lane below for the next step; that of
//! the last lane is the border of the next stripe.
//!
//! Invariants: before a lane's first column its state stays that of the table's edge; letters that pad the rows and columns of a
//! stripe change no number that is read.

use crate::lanes::steps::{Count, Steps};

/// The most lanes of a vector.
pub(super) const WIDTH_MAX: usize = 16;
/// Rows of a lane.
const ROWS: usize = 8;

/// How the numbers of a table follow from their neighbours. Rows and columns count from 1; those at 0 are the edge.
pub(super) trait Recurrence<N: Count, S: Steps<N>>: Copy {
    /// Whether cells far from the diagonal are outside the table.
    const IS_BANDED: bool = false;
    /// Whether a cell is the largest of that above it, that to its left, and that to its upper left with the gain of its letters added,
    /// and all edges are 0.
    const IS_RISING: bool = false;

    /// The number at a row of the left edge.
    fn left(self, row: usize) -> N;
    /// The number at a column of the upper edge.
    fn top(self, column: usize) -> N;
    /// The cost of two letters, or their gain.
    fn cost(self, s: S, row: S::T, column: S::T) -> S::T;
    /// A cell's number by those to its upper left, above it and to its left.
    fn cell(self, s: S, cost: S::T, corner: S::T, up: S::T, left: S::T) -> S::T;
    /// The number to keep for the whole table, such as the largest.
    #[inline(always)]
    fn keep(self, _s: S, kept: S::T, _cell: S::T) -> S::T {
        kept
    }
    /// The most that a row's and a column's places differ.
    #[inline(always)]
    fn band(self) -> usize {
        usize::MAX
    }
    /// The cost at this number of rows below the diagonal.
    #[inline(always)]
    fn in_band(self, _s: S, cost: S::T, _below: S::T) -> S::T {
        cost
    }
    /// The number outside the band.
    #[inline(always)]
    fn outside(self) -> N {
        N::default()
    }
}

/// The costs of pairs of letters that are numbered: a row for each letter of rows.
pub(super) struct Table<N> {
    pub(super) costs: Vec<N>,
    pub(super) columns: usize,
}

impl<N: Count> Table<N> {
    #[inline(always)]
    pub(super) fn cost(&self, row: N, column: N) -> N {
        self.costs[row.place() * self.columns + column.place()]
    }
}

/// Two texts, neither of them empty.
pub(super) struct Pair<'a, N> {
    pub(super) rows: &'a [N],
    pub(super) columns: &'a [N],
    /// Letters that pad rows and columns.
    pub(super) padding: [N; 2],
    /// The costs of letters, in place of those by [`Recurrence::cost`].
    pub(super) table: Option<&'a Table<N>>,
}

/// The number in the last cell, and the numbers that are kept.
pub(super) struct Filled<N> {
    pub(super) last: N,
    pub(super) kept: [N; WIDTH_MAX],
}

/// Fills the table of a pair.
#[inline(always)]
pub(super) fn fill<N: Count, S: Steps<N>, R: Recurrence<N, S>>(
    s: S,
    recurrence: R,
    pair: &Pair<'_, N>,
) -> Filled<N> {
    match pair.table {
        Some(_) => all_stripes::<N, S, R, true>(s, recurrence, pair),
        None => all_stripes::<N, S, R, false>(s, recurrence, pair),
    }
}

#[inline(always)]
fn all_stripes<N: Count, S: Steps<N>, R: Recurrence<N, S>, const IS_TABLE: bool>(
    s: S,
    recurrence: R,
    pair: &Pair<'_, N>,
) -> Filled<N> {
    if pair.rows.len().abs_diff(pair.columns.len()) > recurrence.band() {
        return Filled { last: recurrence.outside(), kept: [N::default(); WIDTH_MAX] };
    }
    let mut border = Vec::with_capacity(pair.columns.len());
    for column in 1..=pair.columns.len() {
        border.push(recurrence.top(column));
    }
    let (height, mut kept) = (S::WIDTH * ROWS, s.every(N::default()));
    let (mut last, mut first) = (N::default(), 0);
    while first < pair.rows.len() {
        let mut stripe = Stripe::begin(s, recurrence, pair, first);
        stripe.kept = kept;
        stripe.run::<R, IS_TABLE>(s, recurrence, pair, &mut border);
        kept = stripe.kept;
        let mut numbers = [N::default(); WIDTH_MAX];
        let below = (pair.rows.len() - 1 - first).min(height - 1);
        s.put(stripe.left[below % ROWS], &mut numbers);
        last = numbers[below / ROWS];
        first += height;
    }
    let mut filled = Filled { last, kept: [N::default(); WIDTH_MAX] };
    s.put(kept, &mut filled.kept);
    filled
}

/// Rows of the table, `ROWS` a lane, and the numbers at each lane's column.
struct Stripe<N, S: Steps<N>> {
    /// The first row, from 0.
    first: usize,
    /// By row of a lane.
    letters: [S::T; ROWS],
    codes: [[N; WIDTH_MAX]; ROWS],
    left: [S::T; ROWS],
    /// How far each row is below the diagonal in step 0.
    below: [S::T; ROWS],
    /// The letter of each lane's column.
    column: S::T,
    columns: [N; WIDTH_MAX],
    /// The number above the lane at the last column, and the lowest number of each lane.
    corner: S::T,
    bottom: S::T,
    kept: S::T,
}

impl<N: Count, S: Steps<N>> Stripe<N, S> {
    #[inline(always)]
    fn begin<R: Recurrence<N, S>>(s: S, recurrence: R, pair: &Pair<'_, N>, first: usize) -> Self {
        let none = s.every(N::default());
        let mut codes = [[pair.padding[0]; WIDTH_MAX]; ROWS];
        let (mut letters, mut left, mut below) = ([none; ROWS], [none; ROWS], [none; ROWS]);
        for row in 0..ROWS {
            let mut edge = [N::default(); WIDTH_MAX];
            let mut place = [N::default(); WIDTH_MAX];
            for lane in 0..S::WIDTH {
                let at = first + lane * ROWS + row;
                if let Some(letter) = pair.rows.get(at) {
                    codes[row][lane] = *letter;
                }
                // Rows that pad the last stripe have the number of the last row, which fits.
                edge[lane] = recurrence.left((at + 1).min(pair.rows.len()));
                place[lane] = N::of(if R::IS_BANDED { at + lane } else { 0 });
            }
            letters[row] = s.take(&codes[row]);
            left[row] = s.take(&edge);
            below[row] = s.take(&place);
        }
        let column = s.every(pair.padding[1]);
        let bottom = left[ROWS - 1];
        let columns = [pair.padding[1]; WIDTH_MAX];
        Self { first, letters, codes, left, below, column, columns, corner: none, bottom, kept: none }
    }

    /// Goes over the columns, and replaces the border above the stripe by that below it.
    #[inline(always)]
    fn run<R: Recurrence<N, S>, const IS_TABLE: bool>(
        &mut self,
        s: S,
        recurrence: R,
        pair: &Pair<'_, N>,
        border: &mut [N],
    ) {
        let (height, columns) = (S::WIDTH * ROWS, pair.columns.len());
        let rows = height.min(pair.rows.len() - self.first);
        // Columns of which a row is in the band.
        let from = self.first.saturating_sub(recurrence.band()).min(columns);
        let upto = columns.min((self.first + rows).saturating_add(recurrence.band()));
        let is_last = self.first + height >= pair.rows.len();
        let lanes_below = if is_last { (rows - 1) / ROWS } else { S::WIDTH - 1 };
        let steps = upto - from + lanes_below;
        let corner = if from == 0 { recurrence.left(self.first) } else { border[from - 1] };
        self.corner = s.shifted(self.corner, corner);
        let mut chosen = [N::default(); 2 * WIDTH_MAX];
        chosen[..S::WIDTH].fill(N::CHOSEN);
        for step in 0..steps.min(S::WIDTH - 1) {
            let mask = s.take(&chosen[S::WIDTH - 1 - step..]);
            self.step::<R, IS_TABLE, true>(s, recurrence, pair, border, (from, step), mask);
        }
        let all = s.every(N::CHOSEN);
        for step in S::WIDTH - 1..steps {
            self.step::<R, IS_TABLE, false>(s, recurrence, pair, border, (from, step), all);
            let column = from + step + 1 - S::WIDTH;
            if column < upto {
                border[column] = s.last(self.bottom);
            }
        }
    }

    /// One column of each lane. While a lane has no column yet, it is not chosen and stays at the edge.
    #[inline(always)]
    fn step<R: Recurrence<N, S>, const IS_TABLE: bool, const IS_START: bool>(
        &mut self,
        s: S,
        recurrence: R,
        pair: &Pair<'_, N>,
        border: &[N],
        (from, step): (usize, usize),
        chosen: S::T,
    ) {
        let column = from + step;
        let (letter, above) = match pair.columns.get(column) {
            Some(letter) => (*letter, border[column]),
            None => (pair.padding[1], recurrence.top(pair.columns.len())),
        };
        let mut costs = [[N::default(); WIDTH_MAX]; ROWS];
        if let (true, Some(table)) = (IS_TABLE, pair.table) {
            self.columns.copy_within(..WIDTH_MAX - 1, 1);
            self.columns[0] = letter;
            for (costs, codes) in costs.iter_mut().zip(&self.codes) {
                for lane in 0..S::WIDTH {
                    costs[lane] = table.cost(codes[lane], self.columns[lane]);
                }
            }
        } else {
            self.column = s.shifted(self.column, letter);
        }
        let mut up = s.shifted(self.bottom, above);
        let mut corner = self.corner;
        self.corner = up;
        let at = if R::IS_BANDED { s.every(N::of(column)) } else { self.column };
        for (row, costs) in costs.iter().enumerate() {
            let cost = match IS_TABLE {
                true => s.take(costs),
                false => recurrence.cost(s, self.letters[row], self.column),
            };
            let cost = match R::IS_BANDED {
                true => recurrence.in_band(s, cost, s.minus(self.below[row], at)),
                false => cost,
            };
            let left = self.left[row];
            let cell = recurrence.cell(s, cost, corner, up, left);
            let cell = if IS_START { s.choose(chosen, cell, left) } else { cell };
            self.kept = recurrence.keep(s, self.kept, cell);
            (corner, up, self.left[row]) = (left, cell, cell);
        }
        self.bottom = up;
    }
}
