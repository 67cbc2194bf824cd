//! The means and variances of many objects under a model, and the choice of the next ones by their upper confidence bounds.
//!
//! The choice of a batch is GP-BUCB (Desautels, Krause and Burdick 2014): take the object of the largest bound, count it as
//! marked for the variances alone, and repeat. So the objects of a batch differ from each other.
//!
//! Invariant: each object's numbers come from one order of operations, whatever the other objects are.

/// Objects that are updated together: their part of all rows stays in the cache.
const TILE: usize = 256;

/// The means and variances of objects, in the order in which their covariances are given.
#[derive(Clone, Debug)]
pub struct Posterior {
    objects: usize,
    means: Vec<f64>,
    variances: Vec<f64>,
    /// L^-1 k of each object, by mark: row i has the i-th number of every object.
    solved: Vec<Vec<f64>>,
}

impl Posterior {
    /// Objects under a model without marks: mean 0, variance 1.
    pub fn new(objects: usize) -> Self {
        Self { objects, means: vec![0.0; objects], variances: vec![1.0; objects], solved: Vec::new() }
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.objects
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.objects == 0
    }

    /// The number of marks that the variances know, hallucinated ones included.
    pub fn marks(&self) -> usize {
        self.solved.len()
    }

    /// The mean of an object.
    pub fn mean(&self, object: usize) -> f64 {
        self.means[object]
    }

    /// The variance of an object, at least 0.
    pub fn variance(&self, object: usize) -> f64 {
        self.variances[object].max(0.0)
    }

    /// The upper confidence bound of an object: its mean, and `explore` times its deviation.
    pub fn upper(&self, object: usize, explore: f64) -> f64 {
        self.means[object] + explore * self.variance(object).sqrt()
    }

    /// Takes the next mark into the variances: its row of the factor, and its covariances with all objects.
    ///
    /// # Panics
    /// When the row has not a number for each mark so far and a pivot, or there is not a covariance for each object.
    pub fn push(&mut self, factor_row: &[f64], covariances: &[f64]) {
        assert_eq!(covariances.len(), self.objects, "a covariance for each object");
        let (pivot, factors) = factor_row.split_last().expect("a row of a factor ends with its pivot");
        assert_eq!(factors.len(), self.solved.len(), "a factor for each mark");
        let mut row = covariances.to_vec();
        for (tile, (row, variances)) in row.chunks_mut(TILE).zip(self.variances.chunks_mut(TILE)).enumerate()
        {
            let tile = tile * TILE..tile * TILE + row.len();
            for (factor, solved) in factors.iter().zip(&self.solved) {
                row.iter_mut().zip(&solved[tile.clone()]).for_each(|(sum, v)| *sum -= factor * v);
            }
            for (v, variance) in row.iter_mut().zip(variances) {
                *v /= pivot;
                *variance -= *v * *v;
            }
        }
        self.solved.push(row);
    }

    /// Takes an object into the variances as if it had been marked: GP-BUCB's hallucination. `covariances` are its
    /// covariances with all objects, 1 with itself.
    ///
    /// # Panics
    /// As [`Posterior::push`].
    pub fn hallucinate(&mut self, object: usize, covariances: &[f64], noise: f64) {
        let row = self.factor_row(object, noise);
        self.push(&row, covariances);
    }

    /// The row that the factor would get if an object were marked: the bits are those of
    /// [`Model::push`](super::Model::push).
    pub fn factor_row(&self, object: usize, noise: f64) -> Vec<f64> {
        let mut row: Vec<f64> = self.solved.iter().map(|solved| solved[object]).collect();
        let squares = row.iter().fold(1.0 + noise, |rest, v| rest - v * v);
        row.push(squares.max(super::PIVOT_SQUARED_MIN).sqrt());
        row
    }

    /// Forgets marks from `marks` on, hallucinated ones among them.
    pub fn truncate(&mut self, marks: usize) {
        if marks >= self.solved.len() {
            return;
        }
        self.solved.truncate(marks);
        // Made again from the start: taking squares away from the end would leave other bits.
        self.variances.fill(1.0);
        for solved in &self.solved {
            self.variances.iter_mut().zip(solved).for_each(|(variance, v)| *variance -= v * v);
        }
    }

    /// Sets the means: `weights` are the model's, and `covariances` gives those of a mark with all objects.
    ///
    /// # Panics
    /// When there are not covariances for all objects.
    pub fn set_means<K: AsRef<[f64]>>(&mut self, weights: &[f64], mut covariances: impl FnMut(usize) -> K) {
        self.means.fill(0.0);
        for (mark, weight) in weights.iter().enumerate() {
            let covariances = covariances(mark);
            assert_eq!(covariances.as_ref().len(), self.objects, "a covariance for each object");
            let covariances = covariances.as_ref().iter();
            self.means.iter_mut().zip(covariances).for_each(|(mean, k)| *mean += weight * k);
        }
    }

    /// The object of the largest upper confidence bound among those that may be picked; the first if several have it.
    pub fn pick(&self, explore: f64, mut may: impl FnMut(usize) -> bool) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        for object in (0..self.objects).filter(|object| may(*object)) {
            let upper = self.upper(object, explore);
            if best.is_none_or(|(most, _)| upper > most) {
                best = Some((upper, object));
            }
        }
        best.map(|(_, object)| object)
    }
}
