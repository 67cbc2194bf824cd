//! The simplex that pivots span, and the apex of an object over it.
//!
//! In a Hilbert space the first pivot can be put at the origin, and each further pivot adds at most one dimension. So the
//! pivots are the rows of a triangular matrix. A Cholesky decomposition computes it; it takes the farthest pivot first and
//! leaves out pivots that add no dimension. The distances of an object to the pivots then determine its place over their
//! span, except for the side.
//!
//! All of this is f64. The numbers from which the error of an apex follows are here too: see [`Apex::spread`].

use super::BoundError;

/// A pivot is left out if its distance to the others' span is below this part of the largest distance: it would add only
/// rounding errors.
const TAU_RELATIVE: f64 = 1e-4;
/// A pivot is left out if its distance to the others' span is below this many times the error of a distance.
const TAU_NOISES: f64 = 64.0;

/// The simplex of some pivots, over which apexes stand.
#[derive(Clone, Debug, PartialEq)]
pub struct Simplex {
    /// The pivots that span it with the first one, in the order in which they were taken.
    kept: Vec<usize>,
    /// Rows of the lower triangular matrix, the `i`-th of `i + 1` numbers.
    rows: Vec<f64>,
    /// The distance of the first pivot to each kept one.
    first: Vec<f64>,
    tau: f64,
    /// How much an error of the right side can grow in the solution, in the Euclidean norm.
    growth: f64,
}

/// The place of a query or an object over a [`Simplex`].
#[derive(Clone, Debug, PartialEq)]
pub struct Apex {
    /// One coordinate per kept pivot, and the altitude.
    pub coordinates: Vec<f64>,
    /// The sum of its absolute barycentric coordinates over the pivots. An error `u` of squared distances becomes an error of
    /// at most `1.5 u spread^2` of the squared altitude, by the derivatives of the Cayley-Menger determinant.
    pub spread: f64,
}

impl Simplex {
    /// The simplex of pivots whose distances among themselves `between` holds row by row. `noise_squared` is the largest
    /// error of a squared distance.
    ///
    /// One thing differs from the published algorithm: tau, the altitude below which a pivot is left out, depends on the
    /// distances among the pivots and their errors, not on the objects. So an index is made in one pass.
    ///
    /// ```
    /// use boxwork_kernels::lower_bound::Simplex;
    ///
    /// // Two pivots 3 apart, and an object 4 from the first and 5 from the second: a right angle at the first pivot.
    /// let simplex = Simplex::new(&[0.0, 3.0, 3.0, 0.0], 0.0)?;
    /// let apex = simplex.apex(&[4.0, 5.0], 0.0)?;
    /// assert_eq!(apex.coordinates, [0.0, 4.0]);
    /// # Ok::<(), boxwork_kernels::lower_bound::BoundError>(())
    /// ```
    ///
    /// # Errors
    /// If a number is no distance.
    ///
    /// # Panics
    /// If `between` is not square.
    pub fn new(between: &[f64], noise_squared: f64) -> Result<Self, BoundError> {
        let count = between.len().isqrt();
        assert_eq!(count * count, between.len(), "a distance for every two pivots");
        if let Some(wrong) = between.iter().find(|distance| !(distance.is_finite() && **distance >= 0.0)) {
            return Err(BoundError::NotADistance(*wrong));
        }
        let largest = between.iter().fold(0.0, |largest: f64, distance| largest.max(*distance));
        let tau = (TAU_RELATIVE * largest).max(TAU_NOISES * noise_squared.max(0.0).sqrt());
        let squared = |i: usize, j: usize| between[i * count + j] * between[i * count + j];
        let gram = |i: usize, j: usize| (squared(0, i) + squared(0, j) - squared(i, j)) / 2.0;
        // Per pivot: its squared distance from the span so far, and its row so far.
        let mut rest: Vec<f64> = (0..count).map(|i| gram(i, i)).collect();
        let mut partial: Vec<Vec<f64>> = vec![Vec::new(); count];
        let mut left: Vec<usize> = (1..count).collect();
        let (mut kept, mut rows) = (Vec::new(), Vec::new());
        // The farthest pivot first; the first one among equally far pivots.
        while let Some(place) =
            (0..left.len()).reduce(|a, b| if rest[left[b]] > rest[left[a]] { b } else { a })
        {
            let i = left[place];
            if rest[i] <= tau * tau || largest == 0.0 {
                break;
            }
            left.remove(place);
            let height = rest[i].sqrt();
            for &j in &left {
                let product: f64 = partial[j].iter().zip(&partial[i]).map(|(a, b)| a * b).sum();
                let entry = (gram(j, i) - product) / height;
                rest[j] = (rest[j] - entry * entry).max(0.0);
                partial[j].push(entry);
            }
            rows.append(&mut partial[i]);
            rows.push(height);
            kept.push(i);
        }
        let first = kept.iter().map(|&i| between[i]).collect();
        Ok(Self::of(kept, rows, first, tau))
    }

    /// A simplex from its parts, as an index stores them. `None` if they do not fit together.
    pub fn from_parts(
        kept: Vec<usize>,
        rows: Vec<f64>,
        between: &[f64],
        pivots: usize,
        tau: f64,
    ) -> Option<Self> {
        let m = kept.len();
        let fits = pivots * pivots == between.len()
            && rows.len() == m * (m + 1) / 2
            && kept.iter().all(|&i| (1..pivots).contains(&i))
            && rows.iter().all(|number| number.is_finite())
            && (0..m).all(|i| rows[i * (i + 1) / 2 + i] > 0.0);
        let first = kept.iter().map(|&i| between.get(i).copied().unwrap_or(f64::NAN)).collect();
        fits.then(|| Self::of(kept, rows, first, tau))
    }

    fn of(kept: Vec<usize>, rows: Vec<f64>, first: Vec<f64>, tau: f64) -> Self {
        let mut simplex = Self { kept, rows, first, tau, growth: 0.0 };
        simplex.growth = simplex.growth_bound();
        simplex
    }

    /// The pivots that span it with the first one.
    pub fn kept(&self) -> &[usize] {
        &self.kept
    }

    /// The triangular matrix, row by row.
    pub fn rows(&self) -> &[f64] {
        &self.rows
    }

    /// Pivots nearer than this to the others' span were left out.
    pub fn tau(&self) -> f64 {
        self.tau
    }

    /// How much an error of squared distances can grow in the coordinates of an apex.
    pub fn growth(&self) -> f64 {
        self.growth
    }

    /// Numbers of an apex: one coordinate per kept pivot, and the altitude.
    pub fn dimensions(&self) -> usize {
        self.kept.len() + 1
    }

    /// The apex of a query or an object, from its f64 distances to all pivots.
    ///
    /// # Errors
    /// If a number is no distance, or no point has these distances and `noise_squared` does not explain it.
    pub fn apex(&self, distances: &[f64], noise_squared: f64) -> Result<Apex, BoundError> {
        if let Some(wrong) = distances.iter().find(|distance| !(distance.is_finite() && **distance >= 0.0)) {
            return Err(BoundError::NotADistance(*wrong));
        }
        let m = self.kept.len();
        let origin = distances[0] * distances[0];
        let mut coordinates = Vec::with_capacity(m + 1);
        for (i, (&pivot, first)) in self.kept.iter().zip(&self.first).enumerate() {
            let row = self.row(i);
            let right = (origin + first * first - distances[pivot] * distances[pivot]) / 2.0;
            let known: f64 = row.iter().zip(&coordinates).map(|(a, y): (&f64, &f64)| a * y).sum();
            coordinates.push((right - known) / row[i]);
        }
        let spread = self.spread(&coordinates);
        let squared: f64 = coordinates.iter().map(|y| y * y).sum();
        let altitude_squared = origin - squared;
        let largest = distances.iter().fold(0.0, |largest: f64, distance| largest.max(*distance));
        let explained = 1e-6 * largest * largest + 4.0 * noise_squared * spread * spread;
        if altitude_squared < -explained {
            return Err(BoundError::NotHilbert { altitude_squared });
        }
        coordinates.push(altitude_squared.max(0.0).sqrt());
        Ok(Apex { coordinates, spread })
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.rows[i * (i + 1) / 2..][..=i]
    }

    /// The sum of the absolute barycentric coordinates of the point of the span at `coordinates`.
    fn spread(&self, coordinates: &[f64]) -> f64 {
        // Solves with the transpose, from the last row up.
        let mut weights = coordinates.to_vec();
        for i in (0..weights.len()).rev() {
            let row = self.row(i);
            weights[i] /= row[i];
            for (j, entry) in row[..i].iter().enumerate() {
                weights[j] -= entry * weights[i];
            }
        }
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight.abs()).sum::<f64>() + (1.0 - sum).abs()
    }

    /// The Euclidean norm of the row sums of the inverse, each number of it taken as positive.
    fn growth_bound(&self) -> f64 {
        let m = self.kept.len();
        let mut sums = vec![0.0; m];
        // One column of the inverse at a time, by forward substitution of a unit vector.
        for column in 0..m {
            let mut inverse = vec![0.0; m];
            for i in column..m {
                let row = self.row(i);
                let known: f64 = (column..i).map(|j| row[j] * inverse[j]).sum();
                inverse[i] = (f64::from(u8::from(i == column)) - known) / row[i];
                sums[i] += inverse[i].abs();
            }
        }
        sums.iter().map(|sum| sum * sum).sum::<f64>().sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(points: &[[f64; 3]]) -> Vec<f64> {
        let distance =
            |a: &[f64; 3], b: &[f64; 3]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
        points.iter().flat_map(|a| points.iter().map(move |b| distance(a, b))).collect()
    }

    #[test]
    fn a_simplex_by_hand() {
        // The fourth pivot lies on the line of the first two, the fifth is the second again.
        let points = [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 3.0, 0.0], [2.0, 0.0, 0.0], [4.0, 0.0, 0.0]];
        let simplex = Simplex::new(&between(&points), 0.0).unwrap();
        assert_eq!(simplex.kept(), [1, 2]);
        assert_eq!(simplex.rows(), [4.0, 0.0, 3.0]);
        let distances: Vec<f64> = between(&[points.as_slice(), &[[1.0, 1.0, 2.0]]].concat())[30..35].to_vec();
        let apex = simplex.apex(&distances, 0.0).unwrap();
        for (found, expected) in apex.coordinates.iter().zip([1.0, 1.0, 2.0]) {
            assert!((found - expected).abs() < 1e-12, "{:?}", apex.coordinates);
        }
        // 5/12 of the first pivot, a quarter of the second, a third of the third.
        assert!((apex.spread - 1.0).abs() < 1e-12);
        assert_eq!(simplex.dimensions(), 3);
        let again = Simplex::from_parts(
            simplex.kept().to_vec(),
            simplex.rows().to_vec(),
            &between(&points),
            5,
            simplex.tau(),
        );
        assert_eq!(again, Some(simplex));
    }

    #[test]
    fn pivots_at_one_place_keep_none_and_no_point_is_told() {
        let simplex = Simplex::new(&[0.0; 9], 0.0).unwrap();
        assert_eq!(simplex.dimensions(), 1);
        assert_eq!(simplex.apex(&[2.0; 3], 0.0).unwrap().coordinates, [2.0]);
        let simplex = Simplex::new(&between(&[[0.0; 3], [10.0, 0.0, 0.0]]), 0.0).unwrap();
        let error = simplex.apex(&[1.0, 1.0], 0.0).unwrap_err();
        assert!(matches!(error, BoundError::NotHilbert { altitude_squared } if altitude_squared < 0.0));
        assert!(simplex.apex(&[f64::NAN, 1.0], 0.0).is_err() && simplex.apex(&[1.0, -1.0], 0.0).is_err());
        assert!(Simplex::new(&[0.0, f64::NAN, f64::NAN, 0.0], 0.0).is_err());
    }
}
