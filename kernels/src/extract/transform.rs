//! From features to the samples that are clustered: f' = multiplier f + offset, rounded once to a multiple of 2^-16.
//!
//! With fixed-point samples, sums are integers and do not depend on their order.

/// Features of a sample: x, y, L, a, b, contrast, entropy.
pub const FEATURES: usize = 7;

/// A sample's coordinate must stay below this, so that it is exact in an `f32`.
pub(super) const COORDINATE_MAX: f64 = 128.0;

/// Value of one unit of a fixed-point coordinate.
pub(super) const UNIT: f64 = 1.0 / 65_536.0;

const _: () = assert!(COORDINATE_MAX / UNIT <= (1 << 24) as f64, "an f32 has 24 bits");

/// The scaling of the feature space before clustering; it decides how much each feature counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeatureTransform {
    /// Factors of x, y, L, a, b, contrast and entropy.
    pub multiplier: [f64; FEATURES],
    /// Offsets that are added afterwards. Distances do not depend on them.
    pub offset: [f64; FEATURES],
}

impl FeatureTransform {
    /// Factors without an offset.
    pub const fn scaling(multiplier: [f64; FEATURES]) -> Self {
        Self { multiplier, offset: [0.0; FEATURES] }
    }

    /// The fixed-point sample of `features`, in units of 2^-16.
    #[inline(always)]
    pub(super) fn apply(&self, features: [f64; FEATURES]) -> [i32; FEATURES] {
        std::array::from_fn(|d| self.apply_one(d, features[d]))
    }

    /// One coordinate of [`apply`](Self::apply).
    #[inline(always)]
    pub(super) fn apply_one(&self, d: usize, feature: f64) -> i32 {
        fixed(self.multiplier[d] * feature + self.offset[d])
    }
}

/// `value` in units of 2^-16, halves to even, for |value| below 2^15.
#[inline(always)]
fn fixed(value: f64) -> i32 {
    // Adding 1.5 * 2^52 leaves the rounded integer in the low bits: no call to a rounding function, and it vectorises.
    const ROUND: f64 = 1.5 * (1_u64 << 52) as f64;
    (value * (1.0 / UNIT) + ROUND).to_bits() as i32
}

/// A fixed-point coordinate as a number: exact.
#[inline(always)]
pub(super) fn coordinate(fixed: i32) -> f32 {
    fixed as f32 * UNIT as f32
}

/// The mean of `weight` samples of which `sum` is the fixed-point sum.
#[inline(always)]
pub(super) fn mean(sum: i64, weight: u32) -> f32 {
    (sum as f64 / f64::from(weight) * UNIT) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_half_to_even() {
        for (units, expected) in
            [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2), (-2.6, -3), (8388607.0, 8388607)]
        {
            assert_eq!(fixed(units * UNIT), expected, "{units}");
        }
        assert_eq!(coordinate(-3), -3.0 / 65536.0);
        assert_eq!(mean(7, 2), 3.5 / 65536.0);
    }
}
