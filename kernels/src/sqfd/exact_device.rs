//! Inputs of the kernel `exact_device.cl`, which computes sums in f64 with the bits of [`super::reference::sigma`].
//!
//! Invariant: the kernel computes only additions, products, quotients and roots of doubles, in the order of the reference.
//! OpenCL rounds these as IEEE 754 does, so the two cannot differ.

use super::columns::SignatureRef;
use crate::elementary::{EXP_MIN, INVERSE_FACTORIAL, LN_2_HIGH, LN_2_LOW, ROUND};
use crate::similarity::{Ground, Measure, Similarity};

/// The kernel's source.
pub const TEXT: &str = include_str!("exact_device.cl");

/// The kernel's name.
pub const KERNEL: &str = "sqfd_exact";

/// Work items of a group, which share nothing: enough to fill the units of a device, and few enough that a group does not
/// wait long for its longest pair.
pub const ITEMS: usize = 64;

/// Units in the last place by which a sum of the kernel may differ from the reference's: none.
///
/// Each of the `n m (2 d + 24)` operations (for signatures of `n` and `m` centroids in `d` dimensions) is rounded correctly
/// and happens in the same order. The exponential is made of such operations too; a driver's own may have an error of 3
/// units. The caller compares some sums of each block with the reference, and stops using a device whose sums differ. So an
/// index does not depend on the device that made it, and the error that [`super::reference::error_squared`] declares for
/// the reference covers it.
pub const UNITS_APART_MAX: u64 = 0;

/// The constants to compile the kernel with, for a measure and a number of dimensions.
pub fn constants(measure: &Measure, dimensions: usize) -> Vec<(&'static str, String)> {
    /// The coefficients of the exponential's series that are not 1.
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
        // As bits, because compilers may read decimal numbers differently.
        constants.extend(
            numbers.into_iter().chain(terms).map(|(name, x)| (name, format!("0x{:016x}UL", x.to_bits()))),
        );
    }
    constants
}

/// The count of numbers that [`lay_out`] writes for a signature.
pub fn numbers_count(signature: SignatureRef<'_>) -> usize {
    signature.len() * (signature.dimensions() + 1)
}

/// Writes a signature in the layout of the kernel: centroid by centroid, the coordinates and then the weight.
///
/// # Panics
/// If the length of `to` is not [`numbers_count`].
pub fn lay_out(signature: SignatureRef<'_>, to: &mut [f32]) {
    assert_eq!(to.len(), numbers_count(signature), "one place per number");
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
    }
}
