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
    let mut found = 0usize;
    let mut precisions = 0.0;
    for (before, hit) in ranking.into_iter().enumerate() {
        if hit {
            found += 1;
            precisions += found as f64 / (before + 1) as f64;
        }
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

/// `mean^2 / (2 variance)` of the distances of distinct pairs. The lower it is, the better an index can prune.
///
/// The variance is the population variance. `None` if there are no distances, or all are equal.
///
/// ```
/// use boxwork_kernels::quality::intrinsic_dimensionality;
/// assert_eq!(intrinsic_dimensionality([2.0, 4.0, 2.0, 4.0]), Some(4.5));
/// ```
pub fn intrinsic_dimensionality(distances: impl IntoIterator<Item = f64>) -> Option<f64> {
    // Welford's update: a plain sum of squares would cancel when the distances are close together.
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    for distance in distances {
        count += 1.0;
        let from_old = distance - mean;
        mean += from_old / count;
        squares += from_old * (distance - mean);
    }
    (squares > 0.0).then(|| mean * mean / (2.0 * squares / count))
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

    #[test]
    fn intrinsic_dimensionality_by_hand() {
        // Mean 2, variance 2/3.
        check(intrinsic_dimensionality([1.0, 2.0, 3.0]), 3.0);
        // Mean 3, variance 1.
        check(intrinsic_dimensionality([2.0, 4.0, 2.0, 4.0]), 4.5);
    }

    #[test]
    fn equal_distances_have_no_intrinsic_dimensionality() {
        assert_eq!(intrinsic_dimensionality([]), None);
        assert_eq!(intrinsic_dimensionality([0.5]), None);
        assert_eq!(intrinsic_dimensionality([0.5, 0.5, 0.5]), None);
    }
}
