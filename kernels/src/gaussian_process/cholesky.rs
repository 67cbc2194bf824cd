//! The Cholesky factor of a matrix that grows and shrinks at its end.
//!
//! Invariant: row i is made from the rows before it by one order of operations, so a factor has equal bits whether its rows
//! were made one by one, in blocks, or again after a cut.

/// The least square of a pivot. With a positive noise no sound covariance comes near it.
pub const PIVOT_SQUARED_MIN: f64 = 1e-18;

/// Rows that are solved side by side: independent chains hide the latency of each.
const BLOCK: usize = 8;

/// A lower triangular matrix L, row by row without the zeros.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cholesky {
    rows: usize,
    /// Row i has i + 1 numbers, of which the last is the pivot.
    packed: Vec<f64>,
}

/// The place of row `i` of a packed triangle.
pub(super) const fn start(i: usize) -> usize {
    i * (i + 1) / 2
}

impl Cholesky {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Row `i` up to its pivot.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.packed[start(i)..start(i + 1)]
    }

    /// Drops all rows from `rows` on.
    pub fn truncate(&mut self, rows: usize) {
        self.rows = self.rows.min(rows);
        self.packed.truncate(start(self.rows));
    }

    /// Appends the next row of the matrix: its numbers left of the diagonal, and the diagonal.
    ///
    /// # Panics
    /// When the matrix is not positive definite, or the row is of another length.
    pub fn push(&mut self, left: &[f64], diagonal: f64) {
        assert_eq!(left.len(), self.rows, "a number for each earlier row");
        let first = self.packed.len();
        self.packed.extend_from_slice(left);
        let (done, solved) = self.packed.split_at_mut(first);
        solve(done, solved);
        let squares = solved.iter().fold(diagonal, |rest, v| rest - v * v);
        self.close(squares);
    }

    /// Appends several rows of a matrix, given packed with their diagonals; the bits are those of [`Cholesky::push`].
    ///
    /// # Panics
    /// As [`Cholesky::push`].
    pub fn extend(&mut self, rows: &[&[f64]]) {
        if let Err(row) = self.try_extend(rows) {
            panic!("pivot {row} is not above 0: the matrix is not positive definite");
        }
    }

    /// As [`Cholesky::extend`], for matrices that may not be positive definite.
    ///
    /// # Errors
    /// The first row whose pivot has a square below [`PIVOT_SQUARED_MIN`]; the rows before it are appended.
    ///
    /// # Panics
    /// When a row is of another length.
    pub fn try_extend(&mut self, rows: &[&[f64]]) -> Result<(), usize> {
        for block in rows.chunks(BLOCK) {
            let known = self.rows;
            // The part of each new row left of the block, all of them side by side: lane after lane within a column.
            let mut lanes = vec![[0.0; BLOCK]; known];
            for (lane, row) in block.iter().enumerate() {
                assert_eq!(row.len(), known + lane + 1, "a number for each earlier row, and the diagonal");
                lanes.iter_mut().zip(*row).for_each(|(column, value)| column[lane] = *value);
            }
            for i in 0..known {
                let (before, at) = lanes.split_at_mut(i);
                let row = &self.packed[start(i)..start(i + 1)];
                let mut sums = at[0];
                for (factor, column) in row.iter().zip(before.iter()) {
                    sums.iter_mut().zip(column).for_each(|(sum, v)| *sum -= factor * v);
                }
                at[0] = sums.map(|sum| sum / row[i]);
            }
            for (lane, row) in block.iter().enumerate() {
                let mut left: Vec<f64> = lanes.iter().map(|column| column[lane]).collect();
                left.extend_from_slice(&row[known..known + lane]);
                for i in known..known + lane {
                    let factors = &self.packed[start(i)..start(i + 1)];
                    let sum = factors.iter().zip(&left[..i]).fold(left[i], |sum, (l, v)| sum - l * v);
                    left[i] = sum / factors[i];
                }
                let squares = left.iter().fold(row[known + lane], |rest, v| rest - v * v);
                if !(squares >= PIVOT_SQUARED_MIN && squares.is_finite()) {
                    return Err(self.rows);
                }
                self.packed.extend_from_slice(&left);
                self.close(squares);
            }
        }
        Ok(())
    }

    /// The factor whose rows are these, one after the other up to their pivots.
    ///
    /// # Panics
    /// When the last row is not whole.
    pub fn of_rows(packed: Vec<f64>) -> Self {
        let rows = ((8 * packed.len() + 1).isqrt() - 1) / 2;
        assert_eq!(start(rows), packed.len(), "whole rows");
        Self { rows, packed }
    }

    /// Ends a row with its pivot.
    fn close(&mut self, squared: f64) {
        assert!(
            squared >= PIVOT_SQUARED_MIN,
            "pivot {} has the square {squared}: the matrix is not positive definite",
            self.rows
        );
        self.packed.push(squared.sqrt());
        self.rows += 1;
    }

    /// Solves L^T x = z in place.
    ///
    /// # Panics
    /// When `z` is of another length.
    pub fn solve_transposed(&self, z: &mut [f64]) {
        assert_eq!(z.len(), self.rows, "a number a row");
        for i in (0..self.rows).rev() {
            let row = self.row(i);
            let (before, at) = z.split_at_mut(i);
            at[0] /= row[i];
            let x = at[0];
            before.iter_mut().zip(row).for_each(|(z, l)| *z -= l * x);
        }
    }

    /// Solves L x = k in place.
    ///
    /// # Panics
    /// When `k` is of another length.
    pub fn solve(&self, k: &mut [f64]) {
        assert_eq!(k.len(), self.rows, "a number a row");
        solve(&self.packed, k);
    }
}

/// Solves L x = k in place, for as many packed rows of L as `k` has numbers.
fn solve(packed: &[f64], k: &mut [f64]) {
    for i in 0..k.len() {
        let row = &packed[start(i)..start(i + 1)];
        let (before, at) = k.split_at_mut(i);
        let sum = row.iter().zip(before.iter()).fold(at[0], |sum, (l, v)| sum - l * v);
        at[0] = sum / row[i];
    }
}
