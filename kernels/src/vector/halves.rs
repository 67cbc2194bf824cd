//! Numbers rounded to halves, some at a time, by the processor's instruction where it has one.

use half::f16;
use half::slice::{HalfBitsSliceExt as _, HalfFloatSliceExt as _};

use super::held::padded;
use crate::numbers::Number;

/// Numbers that are rounded to halves at a time.
pub(crate) const AT_ONCE: usize = 64;

/// Some numbers as f32.
pub(super) fn widened<N: Number>(numbers: &[N]) -> [f32; AT_ONCE] {
    let mut widened = [0.0; AT_ONCE];
    widened.iter_mut().zip(numbers).for_each(|(to, from)| *to = from.widened());
    widened
}

/// The halves that are nearest to some numbers, as numbers.
///
/// # Panics
/// If these are more than [`AT_ONCE`].
pub(crate) fn halved(numbers: &[f32]) -> [f32; AT_ONCE] {
    let (mut halves, mut rounded) = ([f16::ZERO; AT_ONCE], [0.0; AT_ONCE]);
    halves[..numbers.len()].convert_from_f32_slice(numbers);
    halves.convert_to_f32_slice(&mut rounded);
    rounded
}

/// The norm of a vector, and that of what rounding to halves takes from it.
pub(crate) fn halved_norms(vector: &[f32]) -> (f64, f64) {
    let (mut square, mut lost) = (0.0, 0.0);
    for numbers in vector.chunks(AT_ONCE) {
        for (number, rounded) in numbers.iter().zip(halved(numbers)) {
            square += f64::from(*number).powi(2);
            lost += (f64::from(*number) - f64::from(rounded)).powi(2);
        }
    }
    (square.sqrt(), lost.sqrt())
}

/// Numbers as words of two halves, vector by vector, each padded with zeros.
pub fn halves<N: Number>(dimensions: usize, numbers: &[N], to: &mut [u16]) {
    let padded = padded(dimensions);
    for (to, from) in to.chunks_exact_mut(padded).zip(numbers.chunks_exact(dimensions)) {
        let (of_numbers, rest) = to.split_at_mut(dimensions);
        for (to, from) in of_numbers.chunks_mut(AT_ONCE).zip(from.chunks(AT_ONCE)) {
            let to: &mut [f16] = to.reinterpret_cast_mut();
            to.convert_from_f32_slice(&widened(from)[..from.len()]);
        }
        rest.fill(0);
    }
}
