//! A Gaussian process with prior mean 0 and variance 1, given scores of marked objects.
//!
//! Invariant: after any order of changes a model has the bits of one that was made anew with the same marks in the same
//! order.

use super::cholesky::{Cholesky, start};

/// Scores of marked objects, and what follows from them: Rasmussen and Williams, "Gaussian Processes for Machine Learning",
/// algorithm 2.1, in a form that changes one mark at a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    scores: Vec<f64>,
    /// Variances.
    noises: Vec<f64>,
    /// The covariances of the marks, packed: row i has those with marks 0 to i - 1, and 1 + noise.
    gram: Vec<f64>,
    /// L with L L^T = K + diag(noises).
    factor: Cholesky,
}

impl Model {
    /// A model without marks.
    pub fn new() -> Self {
        Self::default()
    }

    /// A model of all these marks at once: row i of `covariances` has those of mark i with the marks before it. The bits are
    /// those of marks pushed one by one; many marks are faster.
    ///
    /// # Panics
    /// As [`Model::push`].
    pub fn fit<R: AsRef<[f64]>>(covariances: &[R], scores: &[f64], noises: &[f64]) -> Self {
        let mut model = Self::default();
        model.extend(covariances, scores, noises);
        model
    }

    /// Appends marks: row i of `covariances` has those of the new mark i with all marks before it.
    ///
    /// # Panics
    /// As [`Model::push`].
    pub fn extend<R: AsRef<[f64]>>(&mut self, covariances: &[R], scores: &[f64], noises: &[f64]) {
        assert!(
            covariances.len() == scores.len() && scores.len() == noises.len(),
            "a score and noise a mark"
        );
        let first = self.len();
        for ((row, score), noise) in covariances.iter().zip(scores).zip(noises) {
            self.push_mark(row.as_ref(), *score, *noise);
        }
        self.factor_from(first);
    }

    /// The number of marks.
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Whether there is no mark.
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// The scores.
    pub fn scores(&self) -> &[f64] {
        &self.scores
    }

    /// The variances of the noise of the scores.
    pub fn noises(&self) -> &[f64] {
        &self.noises
    }

    /// Row `mark` of the factor up to its pivot.
    ///
    /// # Panics
    /// When there is no such mark.
    pub fn factor_row(&self, mark: usize) -> &[f64] {
        self.factor.row(mark)
    }

    /// Appends a mark, in O(t^2) for t marks: its covariances with all marks so far, its score, and the variance of the
    /// score's noise.
    ///
    /// # Panics
    /// When a number is not finite, the noise is not above 0, or the covariances are not positive semidefinite.
    pub fn push(&mut self, covariances: &[f64], score: f64, noise: f64) {
        self.push_mark(covariances, score, noise);
        let row = &self.gram[start(self.len() - 1)..];
        let (diagonal, left) = row.split_last().expect("a row ends with its diagonal");
        self.factor.push(left, *diagonal);
    }

    fn push_mark(&mut self, covariances: &[f64], score: f64, noise: f64) {
        assert_eq!(covariances.len(), self.len(), "a covariance with each earlier mark");
        assert!(noise > 0.0 && noise.is_finite() && score.is_finite(), "score {score} with noise {noise}");
        self.gram.extend_from_slice(covariances);
        self.gram.push(1.0 + noise);
        self.scores.push(score);
        self.noises.push(noise);
    }

    /// Changes the score of a mark; its factor stays.
    ///
    /// # Panics
    /// When there is no such mark, or the score is not finite.
    pub fn set_score(&mut self, mark: usize, score: f64) {
        assert!(score.is_finite(), "the score is {score}");
        self.scores[mark] = score;
    }

    /// Changes the noise of a mark: the factor's rows from there on are made again.
    ///
    /// # Panics
    /// When there is no such mark, or the noise is not above 0.
    pub fn set_noise(&mut self, mark: usize, noise: f64) {
        assert!(noise > 0.0 && noise.is_finite(), "the noise is {noise}");
        if self.noises[mark].to_bits() == noise.to_bits() {
            return;
        }
        self.noises[mark] = noise;
        self.gram[start(mark + 1) - 1] = 1.0 + noise;
        self.factor_from(mark);
    }

    /// Takes a mark out: the factor's rows from there on are made again.
    ///
    /// # Panics
    /// When there is no such mark.
    pub fn remove(&mut self, mark: usize) {
        let mut rest = Vec::with_capacity(start(self.len() - 1));
        for i in (0..self.len()).filter(|i| *i != mark) {
            let row = &self.gram[start(i)..start(i + 1)];
            rest.extend(row.iter().enumerate().filter(|(j, _)| *j != mark).map(|(_, value)| *value));
        }
        self.gram = rest;
        self.scores.remove(mark);
        self.noises.remove(mark);
        self.factor_from(mark);
    }

    /// Drops all marks from `marks` on.
    pub fn truncate(&mut self, marks: usize) {
        let marks = marks.min(self.len());
        self.scores.truncate(marks);
        self.noises.truncate(marks);
        self.gram.truncate(start(marks));
        self.factor.truncate(marks);
    }

    /// Makes the factor's rows from `mark` on again.
    fn factor_from(&mut self, mark: usize) {
        self.factor.truncate(mark);
        let rows: Vec<&[f64]> =
            (mark..self.scores.len()).map(|i| &self.gram[start(i)..start(i + 1)]).collect();
        self.factor.extend(&rows);
    }

    /// The weights alpha = (K + diag(noises))^-1 scores: the mean of an object is the sum of its covariances with the marks,
    /// each times the mark's weight.
    pub fn weights(&self) -> Vec<f64> {
        let mut weights = self.scores.clone();
        self.factor.solve(&mut weights);
        self.factor.solve_transposed(&mut weights);
        weights
    }

    /// The variance of an object from its covariances with the marks.
    ///
    /// # Panics
    /// When there are not as many covariances as marks.
    pub fn variance(&self, covariances: &[f64]) -> f64 {
        let mut solved = covariances.to_vec();
        self.factor.solve(&mut solved);
        solved.iter().fold(1.0, |rest: f64, v| rest - v * v).max(0.0)
    }
}
