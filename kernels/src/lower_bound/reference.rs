//! The published formulas of the bounds, with corrections: in f64, for one object, without slack.
//!
//! The distances of a query and of an object to the pivots have the order of the pivots. `between` holds the distances
//! among the pivots, row by row.

/// `max_p |d(q,p) - d(o,p)|` (section 4.2.2 of the source).
pub fn triangular(query: &[f64], object: &[f64]) -> f64 {
    query.iter().zip(object).fold(0.0, |largest: f64, (q, o)| largest.max((q - o).abs()))
}

/// `max_{p<s} |d(q,p) d(o,s) - d(q,s) d(o,p)| / d(p,s)` (section 4.2.6 of the source). Skips two pivots at distance 0, for
/// which the printed formula is infinite.
pub fn ptolemaic(query: &[f64], object: &[f64], between: &[f64]) -> f64 {
    let count = query.len();
    let mut largest = 0.0_f64;
    for s in 1..count {
        for p in 0..s {
            let apart = between[p * count + s];
            if apart > 0.0 {
                largest = largest.max((query[p] * object[s] - query[s] * object[p]).abs() / apart);
            }
        }
    }
    largest
}

/// The larger of [`triangular`] and [`ptolemaic`].
pub fn combined(query: &[f64], object: &[f64], between: &[f64]) -> f64 {
    triangular(query, object).max(ptolemaic(query, object, between))
}

/// `min_p d(q,p) + d(o,p)`: the upper bound by triangles. Infinite without pivots.
pub fn triangular_upper(query: &[f64], object: &[f64]) -> f64 {
    query.iter().zip(object).fold(f64::INFINITY, |least: f64, (q, o)| least.min(q + o))
}

/// Lower and upper bound by two apexes. The object may lie on the query's side of the pivots' span or on the other side.
///
/// The lower bound is the distance of the two apexes. The upper bound is the distance of the query's apex from the mirror
/// image of the object's (Connor, Vadicamo, Rabitti, "High-dimensional simplexes for supermetric search", SISAP 2017).
pub fn simplex(query: &[f64], object: &[f64]) -> (f64, f64) {
    let squared: f64 = query.iter().zip(object).map(|(q, o)| (q - o) * (q - o)).sum();
    let altitudes = query.last().zip(object.last()).map_or(0.0, |(q, o)| q * o);
    (squared.sqrt(), (squared + 4.0 * altitudes).sqrt())
}
