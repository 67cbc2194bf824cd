//! Exponential, logarithm and roots, made of `+ - * /` alone so that every machine gives the same bits.
//!
//! IEEE 754 fixes the results of these four operations, and the compiler neither contracts nor reorders them. The `exp`,
//! `ln`, `cbrt` and `pow` of a platform may differ in the last bit. All functions here also run at compile time.

const MANTISSA: u64 = (1 << 52) - 1;
const ONE: u64 = 1023 << 52;

/// `exp` of a smaller number is 0: its value would be a subnormal number.
pub(crate) const EXP_MIN: f64 = -708.0;

/// Adding this rounds a number below 2^51 to a whole number, halves to even, and leaves it in the lowest bits.
pub(crate) const ROUND: f64 = (3u64 << 51) as f64;

/// ln 2 in two parts. The first has 32 bits, so that its products with whole numbers below 2^21 are exact.
pub(crate) const LN_2_HIGH: f64 = f64::from_bits(std::f64::consts::LN_2.to_bits() & !0x1f_ffff);
pub(crate) const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// `e^x` for `x` of at most 0, within one unit in the last place; 0 below -708.
///
/// It has no branch and no table, so that the compiler turns a loop over it into vector instructions.
#[inline(always)]
pub(crate) const fn exp(x: f64) -> f64 {
    let clamped = if x < EXP_MIN { EXP_MIN } else { x };
    let rounded = clamped * std::f64::consts::LOG2_E + ROUND;
    let whole = rounded - ROUND;
    let r = (clamped - whole * LN_2_HIGH) - whole * LN_2_LOW;
    // The Taylor series to r^13. The first omitted term is below 4e-18 at |r| = ln 2 / 2. Odd and even powers are summed
    // separately, which halves the chain of dependent operations.
    let square = r * r;
    let odd = INVERSE_FACTORIAL[13];
    let odd = odd * square + INVERSE_FACTORIAL[11];
    let odd = odd * square + INVERSE_FACTORIAL[9];
    let odd = odd * square + INVERSE_FACTORIAL[7];
    let odd = odd * square + INVERSE_FACTORIAL[5];
    let odd = odd * square + INVERSE_FACTORIAL[3];
    let even = INVERSE_FACTORIAL[12];
    let even = even * square + INVERSE_FACTORIAL[10];
    let even = even * square + INVERSE_FACTORIAL[8];
    let even = even * square + INVERSE_FACTORIAL[6];
    let even = even * square + INVERSE_FACTORIAL[4];
    let even = even * square + INVERSE_FACTORIAL[2];
    let power = 1.0 + (r + square * (odd * r + even));
    // Adds the whole number to the exponent bits. The shift drops its upper bits.
    let scaled = f64::from_bits(power.to_bits().wrapping_add(rounded.to_bits() << 52));
    if x < EXP_MIN { 0.0 } else { scaled }
}

pub(crate) const INVERSE_FACTORIAL: [f64; 14] = {
    let mut inverse = [1.0; 14];
    let (mut n, mut factorial) = (1, 1.0);
    while n < 14 {
        factorial *= n as f64;
        inverse[n] = 1.0 / factorial;
        n += 1;
    }
    inverse
};

/// The natural logarithm of a positive normal `x`, within 1e-15 of its value.
pub(crate) const fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits((bits & MANTISSA) | ONE);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    // ln m = 2 atanh s with |s| < 0.1716. The first omitted term, s^24 / 25, is below 2e-20.
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
pub(crate) const fn cbrt(x: f64) -> f64 {
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
pub(crate) const fn fifth_root(x: f64) -> f64 {
    // Newton's method from above falls monotonically. 64 steps suffice for the smallest argument of the sRGB table.
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
        for i in 0..200_000 {
            // Dense where similarities lie, then out to where they end.
            let x = -f64::from(i) * if i < 100_000 { 1e-4 } else { 0.003_54 };
            let (ours, theirs) = (exp(x), x.exp());
            assert!(ours.to_bits().abs_diff(theirs.to_bits()) <= 1, "exp({x}) is {ours:e}, not {theirs:e}");
        }
        assert_eq!([exp(0.0), exp(-0.0), exp(-708.5), exp(f64::NEG_INFINITY)], [1.0, 1.0, 0.0, 0.0]);
        check(ln(1e300), 1e300_f64.ln(), 1e-15);
        check(ln(1e-300), 1e-300_f64.ln(), 1e-15);
        assert_eq!(ln(1.0), 0.0);
    }
}
