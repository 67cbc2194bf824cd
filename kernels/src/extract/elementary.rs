//! Logarithm and roots from `+ - * /` alone, so that every machine gives the same bits.
//!
//! IEEE 754 fixes the four operations and the compiler neither contracts nor reorders them; a platform's `ln`,
//! `cbrt` and `pow` are free to differ in the last bit. All of it also runs at compile time.

const MANTISSA: u64 = (1 << 52) - 1;
const ONE: u64 = 1023 << 52;

/// The natural logarithm of a positive normal `x`, within 1e-15 of its value.
pub(super) const fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits((bits & MANTISSA) | ONE);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    // ln m = 2 atanh s with |s| < 0.1716: the first term left out, s^24 / 25, is below 2e-20.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    let mut odd = 23;
    while odd >= 1 {
        sum = sum * square + 1.0 / odd as f64;
        odd -= 2;
    }
    2.0 * s * sum + exponent as f64 * std::f64::consts::LN_2
}

/// The cube root of `x` in [1e-30, 1e30], within 1e-13 of its value.
#[inline(always)]
pub(super) const fn cbrt(x: f64) -> f64 {
    // Dividing the exponent bits by three gives a guess within 4 %; a Halley step cubes the error.
    let guess = f32::from_bits((x as f32).to_bits() / 3 + 0x2a51_19f2) as f64;
    let guess = cbrt_step(guess, x);
    cbrt_step(guess, x)
}

#[inline(always)]
const fn cbrt_step(y: f64, x: f64) -> f64 {
    let cube = y * y * y;
    y * (cube + 2.0 * x) / (2.0 * cube + x)
}

/// The fifth root of `x` in (0, 1], within 1e-15 of its value.
pub(super) const fn fifth_root(x: f64) -> f64 {
    // Newton from above falls monotonically; 64 steps suffice for the smallest argument of the sRGB table.
    let mut y = 1.0;
    let mut step = 0;
    while step < 64 {
        y -= (y - x / (y * y * y * y)) / 5.0;
        step += 1;
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ours: f64, theirs: f64, tolerance: f64) {
        assert!((ours - theirs).abs() <= tolerance * theirs.abs().max(1e-3), "{ours} against {theirs}");
    }

    #[test]
    fn agree_with_the_platform() {
        for i in 1..20_000 {
            let x = f64::from(i) * 0.0007;
            check(ln(x), x.ln(), 1e-14);
            check(cbrt(x), x.cbrt(), 1e-13);
            if x <= 1.0 {
                check(fifth_root(x), x.powf(0.2), 2e-15);
            }
        }
        check(ln(1e300), 1e300_f64.ln(), 1e-15);
        check(ln(1e-300), 1e-300_f64.ln(), 1e-15);
        assert_eq!(ln(1.0), 0.0);
    }
}
