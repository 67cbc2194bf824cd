//! Bounds of some of the objects, and what they say of all.
//!
//! The distance of an object lies between its bounds; by the simplex, the mean of their squares is the square of the
//! distance that is expected when what the pivots do not span points anywhere. Of few objects among many the nearest
//! of a sample say nothing directly: there the number of objects within `r` is taken to grow as a power of `r`, whose
//! exponent is estimated from the nearest of the sample (Hill's estimator).

use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::interrupt::Interrupt;
use boxwork_kernels::lower_bound::{Bound, BoundEvaluator, BoundQuery, Bounds};
use boxwork_runtime::operator::BoxError;

use super::{Probe, rates};
use boxwork_stores::pivot_table::PivotTable;

/// Blocks that are bounded at least and at most, and their share of all in between: a few hundredths of the time to
/// bound all.
const BLOCKS_MIN: usize = 4;
const BLOCKS_MAX: usize = 32;
const BLOCKS_SHARE: usize = 64;
/// Blocks that one closure bounds: some tens of microseconds' worth.
const BLOCKS_PER_PIECE: usize = 4;
/// How many times as long the bounds of a block take that comes from memory as of one in the cache. Pages that nobody
/// has touched for a while can take a hundred times as long, once.
const COLD: f64 = 4.0;
/// Places among the sampled from which on they are taken as they are.
const RANK_SURE: f64 = 8.0;
/// The nearest of the sample, by which the exponent is estimated.
const TAIL: usize = 32;

/// Bounds of the sampled objects for one query.
pub(super) struct Sample {
    /// Distances that are expected, in no order.
    near: Vec<f32>,
    bounds: Vec<OfBound>,
}

struct OfBound {
    bound_ns: f64,
    lowers: Vec<f32>,
    uppers: Vec<f32>,
}

/// A piece of what is measured, which may be done beside others.
pub(super) struct Part {
    pub(super) idx: usize,
    pub(super) distances: Vec<f64>,
    pub(super) error: Option<BoxError>,
    lowers: Vec<f32>,
    uppers: Vec<f32>,
    times: Vec<f64>,
    times_again: Vec<f64>,
}

impl Part {
    pub(super) fn list(count: usize) -> Vec<Self> {
        let part = |idx| Self {
            idx,
            distances: Vec::new(),
            error: None,
            lowers: Vec::new(),
            uppers: Vec::new(),
            times: Vec::new(),
            times_again: Vec::new(),
        };
        (0..count).map(part).collect()
    }
}

/// Runs pieces in turn or beside each other, and lets them ask whether to stop.
pub(super) type Run<'a> = dyn FnMut(&mut [Part], &(dyn Fn(&mut Part, Interrupt<'_>) + Sync)) + 'a;

impl Sample {
    pub(super) fn of(
        run: &mut Run<'_>,
        table: &PivotTable,
        probe: &Probe<'_>,
        bounds: &[Bound],
    ) -> Result<Self, BoxError> {
        let evaluator = BoundEvaluator::new(CodePath::detect());
        let count = (table.blocks() / BLOCKS_SHARE).clamp(BLOCKS_MIN, BLOCKS_MAX).min(table.blocks()).max(1);
        let sampled: Vec<usize> = (0..count).map(|nth| nth * table.blocks() / count).collect();
        let space = Arc::clone(table.space());
        let store = space.store();
        let queries = bounds.iter().map(|bound| {
            let query = table.query(*bound, probe.distances, probe.prepared);
            query.map_err(|error| BoxError::new(format!("`{}`: {error}", table.path().display())))
        });
        let queries: Vec<BoundQuery> = queries.collect::<Result<_, _>>()?;
        let pieces: Vec<&[usize]> = sampled.chunks(BLOCKS_PER_PIECE).collect();
        let mut parts = Part::list(bounds.len() * pieces.len());
        run(&mut parts, &|part, _| {
            let query = &queries[part.idx / pieces.len()];
            let mut found = Bounds::default();
            for block in pieces[part.idx % pieces.len()] {
                let rows = table.ids(*block).count();
                let ((), ns) =
                    rates::timed(rows, || evaluator.bounds(query, table.block(*block), &mut found));
                part.times.push(ns);
                let ((), ns) =
                    rates::timed(rows, || evaluator.bounds(query, table.block(*block), &mut found));
                part.times_again.push(ns);
                let kept = table.ids(*block).zip(found.lower.iter().zip(&found.upper));
                for (_, (lower, upper)) in kept.filter(|(id, _)| store.has(*id)) {
                    part.lowers.push(*lower);
                    part.uppers.push(*upper);
                }
            }
        });
        let mut sample = Self { near: Vec::new(), bounds: Vec::new() };
        for parts in parts.chunks(pieces.len()) {
            let lowers: Vec<f32> = parts.iter().flat_map(|part| part.lowers.iter().copied()).collect();
            let uppers: Vec<f32> = parts.iter().flat_map(|part| part.uppers.iter().copied()).collect();
            let median = |of: fn(&Part) -> &Vec<f64>| {
                rates::median(parts.iter().flat_map(|part| of(part).iter().copied()).collect())
            };
            let again = median(|part| &part.times_again);
            let bound_ns = median(|part| &part.times).min(COLD * again);
            let expected = |(lower, upper): (&f32, &f32)| ((lower * lower + upper * upper) / 2.0).sqrt();
            // The last bound is the tightest.
            sample.near = lowers.iter().zip(&uppers).map(expected).collect();
            sample.bounds.push(OfBound { bound_ns, lowers, uppers });
        }
        Ok(sample)
    }

    pub(super) fn len(&self) -> usize {
        self.near.len()
    }

    pub(super) fn bound_ns(&self, bound: usize) -> f64 {
        self.bounds[bound].bound_ns
    }

    /// How far this share of all objects reaches.
    pub(super) fn near(&self, share: f64) -> f64 {
        reach(&self.near, share)
    }

    /// How far this share of all objects reaches at most, by their upper bounds.
    pub(super) fn upper(&self, bound: usize, share: f64) -> f64 {
        reach(&self.bounds[bound].uppers, share)
    }

    /// The share of the objects whose lower bounds are within a range.
    pub(super) fn share_within(&self, bound: usize, range: f64) -> f64 {
        let lowers = &self.bounds[bound].lowers;
        let range = range as f32;
        lowers.iter().filter(|lower| **lower <= range).count() as f64 / lowers.len().max(1) as f64
    }

    /// The share of the objects within a range that is the k-th distance of those before, in the order of storage.
    pub(super) fn share_while_falling(
        &self,
        bound: usize,
        k: Option<usize>,
        range: Option<f64>,
        objects: u64,
        steps: u32,
    ) -> f64 {
        let range = range.unwrap_or(f64::INFINITY);
        let Some(k) = k else { return self.share_within(bound, range) };
        let (first, count) = (k as f64, objects as f64);
        if first >= count {
            return 1.0;
        }
        // The first k are all computed; then each step is as much longer than the one before.
        let growth = (count / first).powf(1.0 / f64::from(steps));
        let (mut computed, mut seen) = (first, first);
        for _ in 0..steps {
            let next = seen * growth;
            computed += (next - seen) * self.share_within(bound, self.near(first / seen).min(range));
            seen = next;
        }
        (computed / count).min(1.0)
    }
}

/// How far a share of all goes, by a sample in any order.
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
    fn a_tail_is_followed_below_what_was_sampled() {
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
