//! The unit of a table: what f32 holds of its distances, of their squares and of their products.

/// Distances up to this many units enter the loops of f32: the squares of more than 1,000 of them have a sum.
pub(super) const FAR: f64 = (1u64 << 50) as f64;
/// Where the largest distance lies between these, a table's unit is 1.
const USUAL: std::ops::RangeInclusive<f64> = 1.0 / (1u64 << 30) as f64..=(1u64 << 30) as f64;

/// The unit of a table whose largest distance is this one, or about: 1 where that serves, else the least power of two
/// above. Dividing by it rounds nothing.
pub(super) fn unit(largest: f64) -> f64 {
    if largest == 0.0 || USUAL.contains(&largest) { 1.0 } else { power_above(largest) }
}

/// The least power of two above a distance; 1 for 0.
fn power_above(distance: f64) -> f64 {
    let exponent = distance.to_bits() >> 52;
    match exponent {
        // No normal number: all distances are 0, or as good as that.
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
