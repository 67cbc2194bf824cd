//! What the device's kernel of exact sums (`exact_device.cl`) is given: sums in f64, the bits of
//! [`super::reference::sigma`].
//!
//! Invariant: all that the kernel computes is additions, products, quotients and roots of doubles in the reference's
//! order, which OpenCL rounds as IEEE 754 does; so there is nothing for the two to differ in.

use super::columns::SignatureRef;
use crate::elementary::{EXP_MIN, INVERSE_FACTORIAL, LN_2_HIGH, LN_2_LOW, ROUND};
use crate::similarity::{Ground, Measure, Similarity};

/// The kernel's text.
pub const TEXT: &str = include_str!("exact_device.cl");

/// The kernel.
pub const KERNEL: &str = "sqfd_exact";

/// Work items of a group, which have nothing in common: enough for each of a processor's units, and few enough that a
/// group of unlike pairs does not wait long for its longest one.
pub const ITEMS: usize = 64;

/// Units in the last place by which a sum of the kernel may differ from the reference's: none.
///
/// Each of its `n m (2 d + 24)` operations (for signatures of `n` and `m` centroids of `d` dimensions) is rounded
/// correctly, in the same order; the exponential, which a driver's own would be free to give within 3 units, is made of
/// such operations too. Whoever computes by the kernel compares some sums of each block with the reference and takes no
/// more from a device that differs: then an index says nothing of where it was made, and the slack of its bounds, which
/// [`super::reference::error_squared`] declares for the reference, covers it.
pub const UNITS_APART_MAX: u64 = 0;

/// Constants that the kernel is compiled with for signatures of some dimensions under a measure.
pub fn constants(measure: &Measure, dimensions: usize) -> Vec<(&'static str, String)> {
    /// The terms of the exponential's series that are not 1.
    const TERMS: [&str; 12] = [
        "EXP_TERM_2",
        "EXP_TERM_3",
        "EXP_TERM_4",
        "EXP_TERM_5",
        "EXP_TERM_6",
        "EXP_TERM_7",
        "EXP_TERM_8",
        "EXP_TERM_9",
        "EXP_TERM_10",
        "EXP_TERM_11",
        "EXP_TERM_12",
        "EXP_TERM_13",
    ];
    let names: &[&str] = match (measure.similarity(), measure.ground()) {
        (Similarity::Gaussian, _) => &["GAUSSIAN"],
        (Similarity::Heuristic, Ground::L2) => &["HEURISTIC_L2"],
        (Similarity::Heuristic, Ground::SquaredL2) => &["HEURISTIC"],
        (Similarity::Heuristic, _) => &["HEURISTIC", "ABSOLUTE"],
        (Similarity::Minus, Ground::L2) => &["MINUS_L2"],
        (Similarity::Minus, Ground::SquaredL2) => &["MINUS"],
        (Similarity::Minus, _) => &["MINUS", "ABSOLUTE"],
    };
    let mut constants = vec![("DIMENSIONS", dimensions.to_string()), ("ITEMS", ITEMS.to_string())];
    constants.extend(names.iter().map(|name| (*name, "1".to_owned())));
    if measure.similarity() == Similarity::Gaussian {
        let numbers = [
            ("EXP_MIN", EXP_MIN),
            ("EXP_LOG2_E", std::f64::consts::LOG2_E),
            ("EXP_ROUND", ROUND),
            ("EXP_LN_2_HIGH", LN_2_HIGH),
            ("EXP_LN_2_LOW", LN_2_LOW),
        ];
        let terms = TERMS.into_iter().zip(INVERSE_FACTORIAL.into_iter().skip(2));
        // As bits: no compiler reads decimals for us.
        constants.extend(
            numbers.into_iter().chain(terms).map(|(name, x)| (name, format!("0x{:016x}UL", x.to_bits()))),
        );
    }
    constants
}

/// The two words of alpha, the lower one first.
pub fn alpha_words(measure: &Measure) -> [u32; 2] {
    let bits = measure.alpha().to_bits();
    [bits as u32, (bits >> 32) as u32]
}

/// Numbers that a signature takes in [`lay_out`].
pub fn numbers_count(signature: SignatureRef<'_>) -> usize {
    signature.len() * (signature.dimensions() + 1)
}

/// A signature as the kernel reads it: centroid by centroid, coordinates and then the weight.
///
/// # Panics
/// When `to` has not [`numbers_count`] places.
pub fn lay_out(signature: SignatureRef<'_>, to: &mut [f32]) {
    assert_eq!(to.len(), numbers_count(signature), "a place for each number");
    let (dimensions, row) = (signature.dimensions(), signature.dimensions() + 1);
    for d in 0..row {
        let column = if d < dimensions { signature.coordinate(d) } else { signature.weights() };
        to.iter_mut().skip(d).step_by(row).zip(column).for_each(|(to, from)| *to = *from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqfd::testing::{Store, every_measure};

    #[test]
    fn a_signature_lies_centroid_by_centroid() {
        Store::random(3, 2, &[3, 2], 1.0).with(|columns| {
            let signature = columns.signature(1);
            let mut numbers = vec![0.0; numbers_count(signature)];
            lay_out(signature, &mut numbers);
            let (x, y, weights) = (signature.coordinate(0), signature.coordinate(1), signature.weights());
            assert_eq!(numbers, [x[0], y[0], weights[0], x[1], y[1], weights[1]]);
        });
    }

    #[test]
    fn the_kernel_is_told_of_every_measure_apart_and_of_all_numbers() {
        let all: Vec<_> = every_measure(0.3).iter().map(|measure| constants(measure, 7)).collect();
        for (nth, of_one) in all.iter().enumerate() {
            assert!(all[..nth].iter().all(|other| other != of_one), "{of_one:?} twice");
            assert!(of_one.iter().all(|(name, _)| TEXT.contains(name) || *name == "MINUS"), "{of_one:?}");
        }
        let [low, high] = alpha_words(&every_measure(0.3)[0]);
        assert_eq!(f64::from_bits(u64::from(high) << 32 | u64::from(low)), 0.3);
    }
}
