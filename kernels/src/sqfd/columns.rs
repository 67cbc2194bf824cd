//! Signatures as the columns of one batch: one coordinate column per dimension, a weight column, and offsets.
//!
//! Only what keeps indexing in bounds is checked: all columns have one length, and offsets ascend.

/// The most dimensions that a signature may have.
pub const DIMENSIONS_MAX: usize = 64;

/// Centroids of many signatures, column by column.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    coordinates: &'a [&'a [f32]],
    weights: &'a [f32],
}

impl<'a> Columns<'a> {
    /// One column per dimension, and the weights. The weights of each signature sum to 1.
    ///
    /// # Panics
    /// If there are no dimensions, more than [`DIMENSIONS_MAX`], or columns of different lengths.
    pub fn new(coordinates: &'a [&'a [f32]], weights: &'a [f32]) -> Self {
        assert!((1..=DIMENSIONS_MAX).contains(&coordinates.len()), "1 to {DIMENSIONS_MAX} dimensions");
        assert!(coordinates.iter().all(|column| column.len() == weights.len()), "columns of one length");
        Self { coordinates, weights }
    }

    /// Number of coordinate columns.
    pub fn dimensions(&self) -> usize {
        self.coordinates.len()
    }

    /// Coordinate columns, in dimension order.
    pub fn coordinates(&self) -> &'a [&'a [f32]] {
        self.coordinates
    }

    /// Weights of all centroids.
    pub fn weights(&self) -> &'a [f32] {
        self.weights
    }

    /// The signature of `len` centroids from `start` on.
    ///
    /// # Panics
    /// If the signature ends beyond the columns.
    pub fn signature(&self, start: usize, len: usize) -> SignatureRef<'a> {
        assert!(start + len <= self.weights.len(), "a signature lies within its columns");
        SignatureRef { columns: *self, start, len }
    }
}

/// One signature: a range of [`Columns`].
#[derive(Clone, Copy, Debug)]
pub struct SignatureRef<'a> {
    columns: Columns<'a>,
    start: usize,
    len: usize,
}

impl<'a> SignatureRef<'a> {
    /// Number of centroids.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no centroid.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of coordinates of a centroid.
    pub fn dimensions(&self) -> usize {
        self.columns.dimensions()
    }

    /// Coordinates of this signature's centroids in one dimension.
    pub fn coordinate(&self, dimension: usize) -> &'a [f32] {
        &self.columns.coordinates[dimension][self.start..self.start + self.len]
    }

    /// Weights of this signature's centroids.
    pub fn weights(&self) -> &'a [f32] {
        &self.columns.weights[self.start..self.start + self.len]
    }
}

/// The signatures of one batch: row `i` is centroids `offsets[i]..offsets[i + 1]` of the columns.
#[derive(Clone, Copy, Debug)]
pub struct StoreColumns<'a> {
    columns: Columns<'a>,
    offsets: &'a [i32],
}

impl<'a> StoreColumns<'a> {
    /// Columns with the offsets of an Arrow list. The first offset need not be 0.
    ///
    /// # Panics
    /// If there is no offset, the first is negative, or the last lies beyond the columns.
    pub fn new(columns: Columns<'a>, offsets: &'a [i32]) -> Self {
        let (Some(&first), Some(&last)) = (offsets.first(), offsets.last()) else {
            panic!("offsets hold one number more than there are rows");
        };
        assert!(first >= 0 && last as usize <= columns.weights.len(), "offsets lie within the columns");
        Self { columns, offsets }
    }

    /// Number of signatures.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The columns that the offsets divide.
    pub fn columns(&self) -> Columns<'a> {
        self.columns
    }

    /// First centroid and number of centroids of one row.
    #[inline]
    pub fn range(&self, row: usize) -> (usize, usize) {
        let start = self.offsets[row];
        (start as usize, (self.offsets[row + 1] - start) as usize)
    }

    /// The signature of one row.
    pub fn signature(&self, row: usize) -> SignatureRef<'a> {
        let (start, len) = self.range(row);
        self.columns.signature(start, len)
    }
}
