//! Sketches by apexes: the place of an object over the simplex of a few pivots, in half precision.
//!
//! In a Hilbert space the Euclidean distance of two apexes is a lower bound of the distance of their objects
//! (`lower_bound::Simplex`). An apex of more than [`COORDINATES`] numbers is *folded*: the last number of the sketch is the
//! norm of all numbers that do not fit. That is the apex over the pivots that were taken first, so the bound stays one.
//!
//! Invariant: a sketch follows from the f32 numbers of the apex alone, with the same bits on every machine.

use half::f16;

use super::COORDINATES;

/// The largest distance in the unit of a sketch that is usual: far below the largest half-precision number, 65,504.
const USUAL_MAX: f64 = 256.0;
/// The largest part of a number that rounding to f32 and then to half precision changes.
const RELATIVE: f64 = 1.0 / (1 << 11) as f64 + 1.0 / (1 << 23) as f64;
/// The largest change of a number near 0: half the step of the smallest half-precision numbers.
const LEAST: f64 = 1.0 / (1 << 25) as f64;

/// The sketch of an object by its apex, whose numbers are multiples of `unit`. Numbers too large for half precision become
/// its largest number, which brings no two sketches farther apart.
pub fn of_apex(apex: &[f32], unit: f64) -> [u16; COORDINATES] {
    let largest = f64::from(f16::MAX);
    let mut numbers = [0.0; COORDINATES];
    fold(apex.iter().map(|number| f64::from(*number) * unit), &mut numbers);
    numbers.map(|number| f16::from_f64(number.clamp(-largest, largest)).to_bits())
}

/// Writes the numbers of an apex to `out`, and the norm of those that do not fit to its end.
pub(super) fn fold(apex: impl ExactSizeIterator<Item = f64>, out: &mut [f64; COORDINATES]) {
    let fits = apex.len() <= COORDINATES;
    let mut rest = 0.0;
    for (place, number) in apex.enumerate() {
        match fits || place < COORDINATES - 1 {
            true => out[place] = number,
            false => rest += number * number,
        }
    }
    if !fits {
        out[COORDINATES - 1] = f64::sqrt(rest);
    }
}

/// The largest Euclidean distance of a sketch from its folded apex, if that has this norm and no number of it is too large for
/// half precision. So the distance of two sketches is at most that of their objects and both these errors together.
pub fn apex_error(norm: f64) -> f64 {
    RELATIVE * norm + LEAST * (COORDINATES as f64).sqrt()
}

/// The unit in which half precision holds distances up to about `largest`: 1 if it is usual, else a power of two.
pub fn apex_unit(largest: f64) -> f64 {
    if largest == 0.0 || (1.0 / USUAL_MAX..=USUAL_MAX).contains(&largest) {
        return 1.0;
    }
    // The power of two at or below it, by its exponent; numbers that are not normal count as the least normal one.
    let power = f64::from_bits(largest.max(f64::MIN_POSITIVE).to_bits() & !((1 << 52) - 1));
    (power / (USUAL_MAX / 2.0)).max(f64::MIN_POSITIVE)
}
