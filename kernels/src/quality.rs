//! Measures of how good a ranking is: average precision, its mean, precision at k, and intrinsic dimensionality.
//!
//! A ranking lists the objects by ascending distance from a query, **without the query itself**. It is given as one
//! `bool` per object: whether the object belongs to the query's class. A measure that has no value (for a class of one
//! image, or for equal distances) is `None`, never a number that could be taken for one.

/// Mean, over the `relevant` objects of the query's class, of the precision at the place where each is found.
///
/// `relevant` counts the class without the query. A ranking may be cut short: missing objects count as not found.
/// `None` if the query is alone in its class.
///
/// ```
/// use boxwork_kernels::quality::average_precision;
/// assert_eq!(average_precision([true, false, true], 2), Some((1.0 + 2.0 / 3.0) / 2.0));
/// ```
pub fn average_precision(ranking: impl IntoIterator<Item = bool>, relevant: usize) -> Option<f64> {
    let hits = ranking.into_iter().enumerate().filter(|(_, hit)| *hit);
    average_precision_of_places(hits.map(|(before, _)| before as u64), relevant)
}

/// As [`average_precision`], from the places of the objects of the query's class: ascending, counted from 0.
///
/// ```
/// use boxwork_kernels::quality::{average_precision, average_precision_of_places};
/// assert_eq!(average_precision_of_places([0, 2], 2), average_precision([true, false, true], 2));
/// ```
pub fn average_precision_of_places(places: impl IntoIterator<Item = u64>, relevant: usize) -> Option<f64> {
    let mut found = 0usize;
    let mut precisions = 0.0;
    for place in places {
        found += 1;
        precisions += found as f64 / (place + 1) as f64;
    }
    assert!(found <= relevant, "a ranking holds no more of a class than the class has");
    (relevant > 0).then(|| precisions / relevant as f64)
}

/// Mean of the average precisions of all queries. Skips queries without one (from a class of one image).
///
/// `None` if no query has an average precision.
///
/// ```
/// use boxwork_kernels::quality::mean_average_precision;
/// assert_eq!(mean_average_precision([Some(1.0), None, Some(0.5)]), Some(0.75));
/// ```
pub fn mean_average_precision(average_precisions: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let (sum, count) = average_precisions
        .into_iter()
        .flatten()
        .fold((0.0, 0usize), |(sum, count), ap| (sum + ap, count + 1));
    (count > 0).then(|| sum / count as f64)
}

/// Share of the first `k` objects that belong to the query's class. The divisor is `k` even if the ranking is shorter.
///
/// `None` if `k` is 0.
///
/// ```
/// use boxwork_kernels::quality::precision_at;
/// assert_eq!(precision_at([true, false, true, true], 2), Some(0.5));
/// ```
pub fn precision_at(ranking: impl IntoIterator<Item = bool>, k: usize) -> Option<f64> {
    let hits = ranking.into_iter().take(k).filter(|&hit| hit).count();
    (k > 0).then(|| hits as f64 / k as f64)
}

/// The mean and the variance of the distances of distinct pairs, and how far they may be off, gathered pair by pair.
///
/// Parts that were gathered apart merge into the whole. The last bits depend on the order of pairs and of merges, so a
/// caller that wants the same bits each time merges in one order.
///
/// ```
/// use boxwork_kernels::quality::DistanceMoments;
/// let mut moments = DistanceMoments::default();
/// [2.0, 4.0, 2.0, 4.0].into_iter().for_each(|distance| moments.add(distance, 0.0));
/// assert_eq!(moments.intrinsic_dimensionality().map(|idim| (idim.value, idim.error)), Some((4.5, 0.0)));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct DistanceMoments {
    count: f64,
    mean: f64,
    /// Sum of the squared differences from the mean.
    squares: f64,
    /// Mean of the errors, and of their squares.
    error_mean: f64,
    error_squares_mean: f64,
}

/// An intrinsic dimensionality.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IntrinsicDimensionality {
    /// `mean^2 / (2 variance)` of the distances that were computed.
    pub value: f64,
    /// How far the value may be from that of the exact distances; infinite where nothing bounds it. Roundings in f64 are
    /// left out: a few units in the last places.
    pub error: f64,
}

impl DistanceMoments {
    /// Adds the distance of a pair, which may differ from the exact one by `error`.
    pub fn add(&mut self, distance: f64, error: f64) {
        self.merge(&Self {
            count: 1.0,
            mean: distance,
            squares: 0.0,
            error_mean: error,
            error_squares_mean: error * error,
        });
    }

    /// Adds other pairs.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0.0 {
            return;
        }
        let before = self.count;
        self.count += other.count;
        // The update of Chan, Golub and LeVeque; of one pair it is Welford's. A plain sum of squares would cancel when the
        // distances are close together.
        let share = other.count / self.count;
        let from_old = other.mean - self.mean;
        self.mean += from_old * share;
        self.squares += other.squares + from_old * from_old * before * share;
        // Each sum is a weighted mean, since a difference of infinite errors would be no number.
        let kept = before / self.count;
        let mean = |own: f64, others: f64| if before == 0.0 { others } else { own * kept + others * share };
        self.error_mean = mean(self.error_mean, other.error_mean);
        self.error_squares_mean = mean(self.error_squares_mean, other.error_squares_mean);
    }

    /// `mean^2 / (2 variance)` with the population variance. The lower it is, the better an index can prune.
    ///
    /// `None` if there are no distances, or all are equal.
    pub fn intrinsic_dimensionality(&self) -> Option<IntrinsicDimensionality> {
        if self.squares.is_nan() || self.squares <= 0.0 {
            return None;
        }
        let variance = self.squares / self.count;
        let value = self.mean * self.mean / (2.0 * variance);
        // The mean of the exact distances is no farther than the mean of the errors. Standard deviation is a seminorm, so
        // the exact one is no farther than that of the differences, which is at most the root of their mean square.
        let (of_mean, of_deviation) = (self.error_mean, self.error_squares_mean.sqrt());
        let deviation = variance.sqrt();
        let of = |mean: f64, deviation: f64| mean * mean / (2.0 * deviation * deviation);
        let error = if of_mean == 0.0 {
            0.0
        } else if of_deviation < deviation {
            let least = of((self.mean - of_mean).max(0.0), deviation + of_deviation);
            let most = of(self.mean + of_mean, deviation - of_deviation);
            (value - least).max(most - value)
        } else {
            f64::INFINITY
        };
        Some(IntrinsicDimensionality { value, error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranking(marks: &str) -> impl Iterator<Item = bool> {
        marks.bytes().map(|mark| mark == b'x')
    }

    fn check(found: Option<f64>, expected: f64) {
        let found = found.expect("a value");
        assert!((found - expected).abs() < 1e-15, "{found}, not {expected}");
    }

    #[test]
    fn average_precision_by_hand() {
        check(average_precision(ranking("xxx..."), 3), 1.0);
        check(average_precision(ranking("x.x..x"), 3), (1.0 + 2.0 / 3.0 + 3.0 / 6.0) / 3.0);
        check(average_precision(ranking("...x"), 1), 0.25);
        check(average_precision(ranking("...."), 2), 0.0);
    }

    #[test]
    fn a_ranking_cut_short_counts_the_rest_as_missing() {
        check(average_precision(ranking("x.x"), 4), (1.0 + 2.0 / 3.0) / 4.0);
    }

    #[test]
    fn a_class_of_one_image_is_skipped() {
        assert_eq!(average_precision(ranking("..."), 0), None);
        check(mean_average_precision([Some(0.5), None, Some(1.0)]), 0.75);
        assert_eq!(mean_average_precision([None]), None);
        assert_eq!(mean_average_precision([]), None);
    }

    #[test]
    fn precision_at_k_by_hand() {
        check(precision_at(ranking("xx.x.x"), 4), 0.75);
        check(precision_at(ranking("xx"), 10), 0.2);
        assert_eq!(precision_at(ranking("xx"), 0), None);
    }

    fn moments(distances: &[f64], error: f64) -> DistanceMoments {
        let mut moments = DistanceMoments::default();
        distances.iter().for_each(|distance| moments.add(*distance, error));
        moments
    }

    fn idim(distances: &[f64]) -> Option<f64> {
        moments(distances, 0.0).intrinsic_dimensionality().map(|idim| idim.value)
    }

    #[test]
    fn intrinsic_dimensionality_by_hand() {
        // Mean 2, variance 2/3.
        check(idim(&[1.0, 2.0, 3.0]), 3.0);
        // Mean 3, variance 1.
        check(idim(&[2.0, 4.0, 2.0, 4.0]), 4.5);
    }

    #[test]
    fn equal_distances_have_no_intrinsic_dimensionality() {
        assert_eq!(idim(&[]), None);
        assert_eq!(idim(&[0.5]), None);
        assert_eq!(idim(&[0.5, 0.5, 0.5]), None);
    }

    #[test]
    fn merged_moments_are_those_of_all_pairs() {
        // The distances are close together, so a plain sum of squares would keep few of their digits.
        let distances: Vec<f64> =
            (0..1000).map(|pair| 1e4 + f64::from(pair * 7919 % 1000) / 1000.0).collect();
        let mut merged = DistanceMoments::default();
        distances.chunks(37).for_each(|part| merged.merge(&moments(part, 0.25)));
        merged.merge(&DistanceMoments::default());
        let mean = 1e4 + 999.0 / 2000.0;
        let variance = (1e6 - 1.0) / 12.0 / 1e6;
        let expected = mean * mean / (2.0 * variance);
        let found = merged.intrinsic_dimensionality().expect("distances that differ").value;
        assert!((found - expected).abs() < 1e-11 * expected, "{found}, not {expected}");
        assert!((merged.error_mean - 0.25).abs() < 1e-12);
        assert!((merged.error_squares_mean - 0.0625).abs() < 1e-12);
    }

    #[test]
    fn the_error_holds_for_any_distances_within_the_errors() {
        let exact = [1.0, 2.0, 2.5, 4.0, 1.5];
        let expected = idim(&exact).expect("distances that differ");
        for seed in 0..200u32 {
            let off = |place: usize| f64::from((seed * 31 + place as u32 * 17) % 21) / 10.0 - 1.0;
            let fast: Vec<f64> = (0..5).map(|place| exact[place] + 0.1 * off(place)).collect();
            let found = moments(&fast, 0.1).intrinsic_dimensionality().expect("distances that differ");
            assert!((found.value - expected).abs() <= found.error, "{found:?} of {fast:?}, not {expected}");
            assert!(found.error < 2.0, "{found:?}");
        }
        let unknown =
            moments(&exact, f64::INFINITY).intrinsic_dimensionality().expect("distances that differ");
        assert_eq!((unknown.value, unknown.error), (expected, f64::INFINITY));
    }
}
