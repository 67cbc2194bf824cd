//! The shortlist of a pass: the objects with the largest upper bounds.
//!
//! Invariant: the shortlist is that of the bounds in f64, ties by the lower id, whatever errors within the declared one the
//! fast bounds have, and whatever order they come in.

/// The mean of an object's score and an upper bound of the score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Upper {
    /// The mean.
    pub mean: f64,
    /// The bound.
    pub upper: f64,
}

/// Collects fast bounds, and keeps the objects that may be among the largest.
#[derive(Clone, Debug)]
pub struct Shortlist {
    size: usize,
    /// Twice the error of a fast bound.
    margin: f32,
    /// Objects with their fast bounds: all above `least`, and perhaps more.
    kept: Vec<(u64, f32)>,
    /// Objects with smaller bounds are not among the largest.
    least: f32,
    /// So many kept objects are cut next. Many may be within the margin, and those stay: the number doubles then, so that no
    /// cut is for a few new ones.
    cut_at: usize,
}

/// Objects that are cut at first, for each object of the list.
const CUT_FIRST: usize = 4;

impl Shortlist {
    /// A shortlist of the `size` largest, from fast bounds with at most this error.
    pub fn new(size: usize, error: f64) -> Self {
        // Rounded up, and once more for the subtraction.
        let margin = (2.0 * error * (1.0 + 1e-6) + f64::from(f32::MIN_POSITIVE)) as f32;
        let cut_at = CUT_FIRST * size.max(256);
        Self { size, margin, kept: Vec::new(), least: f32::NEG_INFINITY, cut_at }
    }

    /// Objects whose fast bound is smaller than this need not be offered.
    #[inline]
    pub fn least(&self) -> f32 {
        self.least
    }

    /// Whether an object of this fast bound is kept when it is offered.
    #[inline]
    pub fn takes(&self, upper: f32) -> bool {
        // A NaN, from a pass with infinite error, is kept.
        upper >= self.least || upper.is_nan()
    }

    /// Takes the fast bound of an object.
    #[inline]
    pub fn offer(&mut self, id: u64, upper: f32) {
        if self.takes(upper) {
            self.kept.push((id, upper));
            if self.kept.len() >= self.cut_at && self.margin.is_finite() {
                self.cut();
                self.cut_at = self.cut_at.max(2 * self.kept.len());
            }
        }
    }

    /// The objects that are kept at the moment, with their fast bounds.
    pub fn offered(&self) -> &[(u64, f32)] {
        &self.kept
    }

    /// Number of objects that are kept at the moment.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether no object is kept.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Takes the objects of another list of the same pass.
    pub fn merge(&mut self, other: Self) {
        self.least = self.least.max(other.least);
        for (id, upper) in other.kept {
            self.offer(id, upper);
        }
    }

    /// Drops the objects that cannot be among the largest.
    fn cut(&mut self) {
        if self.size == 0 {
            self.kept.clear();
            return;
        }
        if self.kept.len() <= self.size || !self.margin.is_finite() {
            return;
        }
        let nth = self.size - 1;
        self.kept.select_nth_unstable_by(nth, |a, b| b.1.total_cmp(&a.1));
        let threshold = self.kept[nth].1;
        let least = threshold - self.margin;
        // The next smaller number, as the subtraction may have been rounded up.
        self.least = self.least.max(least - least.abs() * f32::EPSILON);
        let least = self.least;
        self.kept.retain(|(_, upper)| *upper >= least);
    }

    /// The objects that may be among the largest, by id.
    pub fn candidates(mut self) -> Vec<u64> {
        self.cut();
        let mut ids: Vec<u64> = self.kept.into_iter().map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids
    }

    /// The objects with the largest bounds in f64, the largest first, ties by the lower id.
    pub fn ranked(self, mut upper: impl FnMut(u64) -> Upper) -> Vec<(u64, Upper)> {
        let size = self.size;
        let mut ranked: Vec<(u64, Upper)> = self.candidates().into_iter().map(|id| (id, upper(id))).collect();
        ranked.sort_by(|a, b| b.1.upper.total_cmp(&a.1.upper).then(a.0.cmp(&b.0)));
        ranked.truncate(size);
        ranked
    }
}
