//! Bounds of some of the objects, and conclusions for all of them.
//!
//! The distance of an object lies between its bounds. For the simplex bound, the square of the expected distance is the
//! mean of the squared bounds, if the parts of query and object outside of the span of the pivots point in independent
//! directions.
//!
//! The nearest of few sampled objects lie farther than the nearest of all. There the number of objects within `r` is
//! taken to grow as a power of `r`, with the exponent that the nearest of the sample give (Hill's estimator).

use boxwork_kernels::CodePath;
use boxwork_kernels::lower_bound::{Bound, BoundEvaluator, Bounds};
use boxwork_runtime::operator::BoxError;
use boxwork_stores::pivot_table::PivotTable;

use super::{Probe, rates};

/// Blocks of the table in a sample, spread evenly.
const BLOCKS: usize = 8;
/// Ranks of the sample from which on its distances are taken as they are.
const RANK_SURE: f64 = 8.0;
/// The nearest of the sample, by which the exponent is estimated.
const TAIL: usize = 32;

/// Bounds of the sampled objects for one query.
pub(super) struct Sample {
    bound_ns: f64,
    lowers: Vec<f32>,
    uppers: Vec<f32>,
    /// Expected distances, in no order.
    expected: Vec<f32>,
}

impl Sample {
    /// Bounds the objects of some blocks, those of removed objects left out.
    pub(super) fn of(table: &PivotTable, probe: &Probe<'_>, bound: Bound) -> Result<Self, BoxError> {
        let query = table
            .query(bound, probe.to_pivots, probe.prepared)
            .map_err(|error| BoxError::new(format!("`{}`: {error}", table.path().display())))?;
        let evaluator = BoundEvaluator::new(CodePath::detect());
        let count = BLOCKS.min(table.blocks());
        let mut sample = Self { bound_ns: 0.0, lowers: Vec::new(), uppers: Vec::new(), expected: Vec::new() };
        let (mut found, mut times) = (Bounds::default(), Vec::new());
        for block in (0..count).map(|nth| nth * table.blocks() / count) {
            // The first time may wait for pages of the file, which later requests find in memory.
            evaluator.bounds(&query, table.block(block), &mut found);
            let rows = table.ids(block).count();
            let ((), ns) = rates::timed(rows, || evaluator.bounds(&query, table.block(block), &mut found));
            times.push(ns);
            let bounds = found.lower.iter().zip(&found.upper);
            for (_, (lower, upper)) in
                table.ids(block).zip(bounds).filter(|(id, _)| table.space().store().has(*id))
            {
                sample.lowers.push(*lower);
                sample.uppers.push(*upper);
                sample.expected.push(((lower * lower + upper * upper) / 2.0).sqrt());
            }
        }
        sample.bound_ns = rates::median(times);
        Ok(sample)
    }

    pub(super) fn len(&self) -> usize {
        self.lowers.len()
    }

    /// Nanoseconds of one core to bound an object.
    pub(super) fn bound_ns(&self) -> f64 {
        self.bound_ns
    }

    /// The expected distance within which this share of all objects lies.
    pub(super) fn distance_of(&self, share: f64) -> f64 {
        reach(&self.expected, share)
    }

    /// The upper bound within which this share of all objects lies.
    pub(super) fn upper_of(&self, share: f64) -> f64 {
        reach(&self.uppers, share)
    }

    /// The share of the objects whose lower bounds are within a range; 1 if the sample found removed objects only.
    pub(super) fn share_within(&self, range: f64) -> f64 {
        if self.lowers.is_empty() {
            return 1.0;
        }
        let range = range as f32;
        self.lowers.iter().filter(|lower| **lower <= range).count() as f64 / self.lowers.len() as f64
    }
}

/// The value within which a share of all objects lies, by a sample in any order.
fn reach(sample: &[f32], share: f64) -> f64 {
    if share >= 1.0 || sample.is_empty() {
        return f64::INFINITY;
    }
    let rank = share * sample.len() as f64;
    let tail = TAIL.min(sample.len() / 4);
    let mut sample = sample.to_vec();
    if rank >= RANK_SURE || tail < RANK_SURE as usize {
        let place = (rank.ceil() as usize).clamp(1, sample.len()) - 1;
        return f64::from(*sample.select_nth_unstable_by(place, f32::total_cmp).1);
    }
    let (nearer, last, _) = sample.select_nth_unstable_by(tail - 1, f32::total_cmp);
    let last = f64::from(*last);
    let logarithms = nearer.iter().filter(|near| **near > 0.0).map(|near| (last / f64::from(*near)).ln());
    let (sum, count) = logarithms.fold((0.0, 0.0), |(sum, count), ln| (sum + ln, count + 1.0));
    if sum <= 0.0 {
        return last;
    }
    last * (rank / tail as f64).powf(f64::min(sum / count, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_followed_below_the_nearest_of_the_sample() {
        // Of a million objects whose number grows with the fifth power, every thousandth.
        let sampled: Vec<f32> = (1..=1000).map(|rank| (rank as f32 / 1000.0).powf(0.2)).collect();
        for k in [1.0, 10.0, 1000.0, 20_000.0, 500_000.0] {
            let (found, wanted) = (reach(&sampled, k / 1e6), f64::powf(k / 1e6, 0.2));
            assert!((found / wanted - 1.0).abs() < 0.25, "{k}: {found} for {wanted}");
        }
        assert_eq!(reach(&sampled, 1.0), f64::INFINITY);
        assert_eq!(reach(&[], 0.5), f64::INFINITY);
        assert_eq!(reach(&[0.0; 100], 0.001), 0.0);
        assert_eq!(reach(&[0.5; 100], 0.001), 0.5);
    }
}
