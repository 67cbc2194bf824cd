//! Points of D numbers.

/// Points of D numbers, dimension by dimension.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points {
    count: usize,
    columns: Vec<Vec<f64>>,
}

impl Points {
    /// No points, of `dimensions` numbers.
    pub fn new(dimensions: usize) -> Self {
        Self { count: 0, columns: vec![Vec::new(); dimensions] }
    }

    /// Points that are given one after the other, `dimensions` numbers each.
    ///
    /// # Panics
    /// When the numbers are no whole points.
    pub fn of_rows(dimensions: usize, rows: &[f64]) -> Self {
        let mut points = Self::new(dimensions);
        assert!(dimensions > 0 && rows.len().is_multiple_of(dimensions), "{} numbers", rows.len());
        rows.chunks_exact(dimensions).for_each(|row| points.push(row));
        points
    }

    /// Appends a point.
    ///
    /// # Panics
    /// When it has another number of dimensions.
    pub fn push(&mut self, point: &[f64]) {
        assert_eq!(point.len(), self.columns.len(), "a number for each dimension");
        self.columns.iter_mut().zip(point).for_each(|(column, x)| column.push(*x));
        self.count += 1;
    }

    /// The number of points.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no point.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The numbers of a point.
    pub fn dimensions(&self) -> usize {
        self.columns.len()
    }

    /// A point.
    ///
    /// # Panics
    /// When there is no such point.
    pub fn point(&self, idx: usize) -> Vec<f64> {
        self.columns.iter().map(|column| column[idx]).collect()
    }

    /// Copies a point.
    ///
    /// # Panics
    /// When there is no such point, or it has another number of dimensions.
    pub fn copy_point(&self, idx: usize, to: &mut [f64]) {
        assert_eq!(to.len(), self.columns.len(), "a number for each dimension");
        to.iter_mut().zip(&self.columns).for_each(|(x, column)| *x = column[idx]);
    }

    /// The numbers of a dimension.
    ///
    /// # Panics
    /// When there is no such dimension.
    pub fn dimension(&self, idx: usize) -> &[f64] {
        &self.columns[idx]
    }
}
