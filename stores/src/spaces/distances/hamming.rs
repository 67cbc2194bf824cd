//! The Hamming distance of bit codes.

use boxwork_kernels::distance::{DistanceError, Properties, Slack};

use crate::kinds::Codes;
use crate::spaces::Constants;
use crate::spaces::column_space::{ColumnDistance, ColumnDistanceSpec};

/// The number of bits that differ.
pub(in crate::spaces) static HAMMING: ColumnDistanceSpec<Hamming> =
    ColumnDistanceSpec { name: "hamming", constants: Constants::None, make: |_| Ok(Hamming) };

/// The Hamming distance.
#[derive(Clone, Copy, Debug)]
pub(in crate::spaces) struct Hamming;

impl ColumnDistance for Hamming {
    type Kind = Codes;
    type Query = Vec<u64>;

    fn properties(&self) -> Properties {
        // It is L1 of the bits, whose root is a Hilbert distance.
        Properties { negative_type: true, ..Properties::metric("hamming") }
    }

    fn slack(&self, _dimensions: usize) -> Slack {
        Slack::EXACT
    }

    fn query(&self, object: &[u64]) -> Result<Vec<u64>, DistanceError> {
        Ok(object.to_vec())
    }

    fn to(&self, query: &Vec<u64>, object: &[u64]) -> f64 {
        self.between(query, object)
    }

    fn between(&self, a: &[u64], b: &[u64]) -> f64 {
        let bits: u64 = a.iter().zip(b).map(|(a, b)| u64::from((a ^ b).count_ones())).sum();
        bits as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_that_differ_are_counted_over_all_words() {
        assert_eq!(Hamming.between(&[0, u64::MAX], &[0, u64::MAX]), 0.0);
        assert_eq!(Hamming.between(&[1, u64::MAX], &[2, 0]), 66.0);
        let one_by_one =
            |a: u64, b: u64| (0..64).filter(|bit| (a >> bit) & 1 != (b >> bit) & 1).count() as f64;
        for (a, b) in [(0x0f3a, 0xf0a3), (u64::MAX - 5, 77), (1 << 63, 1)] {
            assert_eq!(Hamming.between(&[a], &[b]), one_by_one(a, b));
        }
    }
}
