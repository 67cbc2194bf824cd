//! The numbering of the tasks of a factorisation by tiles, and the tasks that depend on each.
//!
//! Tile (i, j) of T rows of tiles, j <= i < T, has the tasks k = 0..=j: for k < j it loses the product of column k; the last one factors it
//! (i = j) or solves it with the factor of its column's diagonal tile. Task (i, j, k) has the number `base[k]` + the place of tile (i - k,
//! j - k) in a lower half of T - k rows, packed by columns. So tasks are numbered by k first, T (T + 1) (T + 2) / 6 in all. Within a step
//! the diagonal tile comes first, then its column, then the rest: the order of the numbers is one that the dependences allow.

/// One task, by its tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Factors the diagonal tile k.
    Factor {
        /// The column and row of the tile.
        k: usize,
    },
    /// Solves tile (i, k) with the factor of tile (k, k).
    Solve {
        /// The row.
        i: usize,
        /// The column.
        k: usize,
    },
    /// Subtracts from tile (i, i) the product of tile (i, k) with its transpose.
    Square {
        /// The row, and the column.
        i: usize,
        /// The column of the factor.
        k: usize,
    },
    /// Subtracts from tile (i, j) the product of tile (i, k) with the transpose of tile (j, k).
    Product {
        /// The row.
        i: usize,
        /// The column.
        j: usize,
        /// The column of the factors.
        k: usize,
    },
}

/// The tasks of T rows of tiles.
pub struct Steps {
    rows: usize,
    /// The number of the first task of each step k, and the number of all tasks.
    base: Vec<usize>,
}

impl Steps {
    /// The tasks of a matrix of `rows` rows of tiles.
    pub fn new(rows: usize) -> Self {
        let mut base = vec![0];
        for k in 0..rows {
            base.push(base[k] + packed(rows - k));
        }
        Self { rows, base }
    }

    /// The number of tasks.
    pub fn count(&self) -> usize {
        self.base[self.rows]
    }

    /// The task of a number.
    ///
    /// # Panics
    /// When there is no such task.
    pub fn step(&self, task: usize) -> Step {
        let (i, j, k) = self.place(task);
        match (i == j, j == k) {
            (true, true) => Step::Factor { k },
            (false, true) => Step::Solve { i, k },
            (true, false) => Step::Square { i, k },
            (false, false) => Step::Product { i, j, k },
        }
    }

    /// The operations of a task, in thirds of the cube of a tile's rows.
    pub fn work(&self, task: usize) -> u64 {
        match self.step(task) {
            Step::Factor { .. } => 1,
            Step::Solve { .. } | Step::Square { .. } => 3,
            Step::Product { .. } => 6,
        }
    }

    /// The operations of all tasks, as of one.
    pub fn work_of_all(&self) -> u64 {
        (self.rows as u64).pow(3)
    }

    /// The number of tasks that come before a task.
    pub fn predecessors(&self, task: usize) -> u32 {
        let own = |k: usize| u32::from(k > 0);
        match self.step(task) {
            Step::Factor { k } => own(k),
            Step::Solve { k, .. } | Step::Square { k, .. } => own(k) + 1,
            Step::Product { k, .. } => own(k) + 2,
        }
    }

    /// Calls `each` with the tasks that wait for a task.
    pub fn successors(&self, task: usize, mut each: impl FnMut(usize)) {
        match self.step(task) {
            Step::Factor { k } => (k + 1..self.rows).for_each(|i| each(self.number(i, k, k))),
            Step::Solve { i, k } => {
                (k + 1..=i).for_each(|j| each(self.number(i, j, k)));
                (i + 1..self.rows).for_each(|below| each(self.number(below, i, k)));
            }
            Step::Square { i, k } => each(self.number(i, i, k + 1)),
            Step::Product { i, j, k } => each(self.number(i, j, k + 1)),
        }
    }

    /// The place of a task among those that are ready; of equal ones the lowest number comes first. The products of a step come before those of
    /// the next one: products that share a tile follow each other, and each tile is written once a step. A column, for which all later ones wait,
    /// comes before the products of the step before it.
    pub fn priority(&self, task: usize) -> u32 {
        let (_, j, k) = self.place(task);
        let is_of_column = j == k;
        (2 * (self.rows - k) + if is_of_column { 3 } else { 0 }) as u32
    }

    fn number(&self, i: usize, j: usize, k: usize) -> usize {
        let (row, column, rows) = (i - k, j - k, self.rows - k);
        // By columns, so that a step's column comes before the tiles that lose its products.
        self.base[k] + packed(rows) - packed(rows - column) + (row - column)
    }

    fn place(&self, task: usize) -> (usize, usize, usize) {
        assert!(task < self.count(), "task {task} of {}", self.count());
        let k = self.base.partition_point(|base| *base <= task) - 1;
        let rows = self.rows - k;
        // From the end the columns have 1, 2, 3, ... tiles.
        let from_end = packed(rows) - 1 - (task - self.base[k]);
        let columns_after = ((8 * from_end + 1).isqrt() - 1) / 2;
        let column = rows - 1 - columns_after;
        let row = column + columns_after - (from_end - packed(columns_after));
        (row + k, column + k, k)
    }
}

/// The number of tiles in the lower half of so many rows.
pub(super) fn packed(rows: usize) -> usize {
    rows * (rows + 1) / 2
}
