//! The unit of a table: it keeps distances, their squares and their products within f32.

/// Larger distances, in units, do not enter the f32 loops: the sum of more than 1,000 squares up to here is finite.
pub(super) const FAR: f64 = (1u64 << 50) as f64;
/// If the largest distance is in this range, the unit is 1.
const USUAL: std::ops::RangeInclusive<f64> = 1.0 / (1u64 << 30) as f64..=(1u64 << 30) as f64;

/// The unit of a table with about this largest distance: 1 if possible, else the smallest power of two above it.
/// Division by it is exact.
pub(super) fn unit(largest: f64) -> f64 {
    if largest == 0.0 || USUAL.contains(&largest) { 1.0 } else { power_above(largest) }
}

/// The smallest power of two above a distance; 1 for 0.
fn power_above(distance: f64) -> f64 {
    let exponent = distance.to_bits() >> 52;
    match exponent {
        // No normal number: all distances are 0 or nearly so.
        0 => 1.0,
        _ => f64::from_bits((exponent + 1).min(2045) << 52),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_two_above_all() {
        for distance in [1e-300, 1e-30, 1e-10, 1e10, 1e38, 1e300] {
            let unit = unit(distance);
            assert!(unit > distance && unit <= 2.0 * distance, "{distance:e}: {unit:e}");
            assert_eq!(unit.to_bits() & ((1 << 52) - 1), 0);
        }
        for distance in [0.0, 1e-9, 0.3, 1.0, 2.0, 1e9] {
            assert_eq!(unit(distance), 1.0);
        }
    }
}
