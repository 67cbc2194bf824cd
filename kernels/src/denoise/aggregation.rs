//! Sums of overlapping estimates.
//!
//! Invariant: both sums are whole numbers, so they do not depend on the order in which estimates are added.

/// Units of a grey level in which weighted estimates are summed.
pub(crate) const ESTIMATE_UNITS: f64 = (1 << 20) as f64;
/// Units in which weights are summed: a weight may be as small as 1e-4, so its units are finer than an estimate's.
pub(crate) const WEIGHT_UNITS: f64 = (1 << 30) as f64;

/// The sums of some rows of one plane.
#[derive(Clone)]
pub(crate) struct Sums {
    /// The first row.
    pub top: usize,
    pub width: usize,
    pub estimates: Vec<i64>,
    pub weights: Vec<i64>,
}

impl Sums {
    /// Sums of nothing for `rows` rows from `top` on.
    pub fn new(top: usize, rows: usize, width: usize) -> Self {
        Self { top, width, estimates: vec![0; rows * width], weights: vec![0; rows * width] }
    }

    /// The row after the last one.
    pub fn bottom(&self) -> usize {
        self.top + self.estimates.len() / self.width
    }

    /// Adds the rows of another that both have.
    pub fn add(&mut self, other: &Self) {
        let (from, upto) = (self.top.max(other.top), self.bottom().min(other.bottom()));
        if from >= upto {
            return;
        }
        let own = (from - self.top) * self.width..(upto - self.top) * self.width;
        let theirs = (from - other.top) * self.width..(upto - other.top) * self.width;
        for (sums, added) in [(&mut self.estimates, &other.estimates), (&mut self.weights, &other.weights)] {
            sums[own.clone()].iter_mut().zip(&added[theirs.clone()]).for_each(|(sum, term)| *sum += term);
        }
    }

    /// The weighted means.
    pub fn means(&self) -> Vec<f32> {
        let mean = |(estimate, weight): (&i64, &i64)| {
            (*estimate as f64 * (WEIGHT_UNITS / ESTIMATE_UNITS) / (*weight).max(1) as f64) as f32
        };
        self.estimates.iter().zip(&self.weights).map(mean).collect()
    }
}
