//! The exponential of covariances, by fused operations where the code path has them.
//!
//! Invariant: equal bits on all machines with AVX2, whatever the width of their vectors; others round twice, as
//! [`exp`](crate::elementary::exp) does.

use std::f64::consts::LOG2_E;

use crate::elementary::{EXP_MIN, INVERSE_FACTORIAL, LN_2_HIGH, LN_2_LOW, ROUND};
use crate::lanes::Lanes;

/// `e^x` for `x` of at most 0, within one unit in the last place; 0 below -708.
///
/// The operations are those of [`exp`](crate::elementary::exp). Fused they are half as many, in a chain of half the length: a
/// processor's schedulers hold the operations of two or three vectors, so the chain decides as much as their number.
#[inline(always)]
pub(super) fn exp<L: Lanes>(lanes: L, x: f64) -> f64 {
    let clamped = if x < EXP_MIN { EXP_MIN } else { x };
    let rounded = lanes.fused(clamped, LOG2_E, ROUND);
    let whole = rounded - ROUND;
    let r = lanes.fused(whole, -LN_2_LOW, lanes.fused(whole, -LN_2_HIGH, clamped));
    let square = r * r;
    let odd = lanes.fused(INVERSE_FACTORIAL[13], square, INVERSE_FACTORIAL[11]);
    let odd = lanes.fused(odd, square, INVERSE_FACTORIAL[9]);
    let odd = lanes.fused(odd, square, INVERSE_FACTORIAL[7]);
    let odd = lanes.fused(odd, square, INVERSE_FACTORIAL[5]);
    let odd = lanes.fused(odd, square, INVERSE_FACTORIAL[3]);
    let even = lanes.fused(INVERSE_FACTORIAL[12], square, INVERSE_FACTORIAL[10]);
    let even = lanes.fused(even, square, INVERSE_FACTORIAL[8]);
    let even = lanes.fused(even, square, INVERSE_FACTORIAL[6]);
    let even = lanes.fused(even, square, INVERSE_FACTORIAL[4]);
    let even = lanes.fused(even, square, INVERSE_FACTORIAL[2]);
    let power = 1.0 + lanes.fused(square, lanes.fused(odd, r, even), r);
    // Adds the whole number to the exponent bits. The shift drops its upper bits.
    let scaled = f64::from_bits(power.to_bits().wrapping_add(rounded.to_bits() << 52));
    if x < EXP_MIN { 0.0 } else { scaled }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CodePath;
    use crate::elementary;
    use crate::lanes::{Work, run};

    struct All<'a>(&'a [f64]);

    impl Work for All<'_> {
        type Done = Vec<f64>;

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> Vec<f64> {
            let mut all = vec![0.0; self.0.len()];
            for (to, x) in all.iter_mut().zip(self.0) {
                *to = exp(lanes, *x);
            }
            all
        }
    }

    #[test]
    fn paths_agree_with_the_platform() {
        // Dense where covariances lie, then out to where they end.
        let x: Vec<f64> = (0..200_000)
            .map(|i| -f64::from(i) * if i < 100_000 { 1e-4 } else { 0.003_54 })
            .chain([0.0, -0.0, -708.5, f64::NEG_INFINITY])
            .collect();
        let mut fused: Option<Vec<f64>> = None;
        for path in CodePath::available() {
            let found = run(path, All(&x));
            for (x, found) in x.iter().zip(&found) {
                let expected = if *x < -708.0 { 0.0 } else { x.exp() };
                assert!(found.to_bits().abs_diff(expected.to_bits()) <= 1, "{path}: exp({x}) is {found:e}");
            }
            if path == CodePath::Portable {
                assert!(found.iter().zip(&x).all(|(found, x)| *found == elementary::exp(*x)));
                continue;
            }
            assert!(fused.get_or_insert_with(|| found.clone()) == &found, "{path} has other bits");
        }
    }
}
