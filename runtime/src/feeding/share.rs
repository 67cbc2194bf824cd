//! The choice of a device for a block: devices of unequal speed finish together.
//!
//! All devices take from one queue, so a device that is twice as fast takes twice as much. Only the end needs a
//! decision: a slow device must not take a block that the others would finish earlier.

use std::collections::BTreeMap;

/// Weight of the newest measurement of a device's rate.
const NEWEST: f64 = 0.3;

/// The rate of a device, from its blocks so far: mean size and mean seconds, the newest with most weight; 0 if unknown.
/// So a short block, which is mostly transfer, counts little beside long ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rate {
    size: f64,
    seconds: f64,
}

impl Rate {
    /// Counts a block of a size that took these seconds.
    pub(super) fn measure(&mut self, size: u64, seconds: f64) {
        debug_assert!(seconds.is_finite() && seconds >= 0.0, "a block took no valid time");
        self.size += NEWEST * (size as f64 - self.size);
        self.seconds += NEWEST * (seconds.max(1e-9) - self.seconds);
    }

    /// Blocks' sizes per second.
    pub(super) fn get(self) -> f64 {
        if self.seconds == 0.0 { 0.0 } else { self.size / self.seconds }
    }
}

/// The rates of a device, by the kind of its blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates(BTreeMap<&'static str, Rate>);

impl Rates {
    pub(super) fn of(&self, kind: &str) -> Rate {
        self.0.get(kind).copied().unwrap_or_default()
    }

    pub(super) fn measure(&mut self, kind: &'static str, size: u64, seconds: f64) {
        debug_assert!(
            self.0.values().all(|rate| rate.get().is_finite()),
            "the rate of a device is not a number: it would take all blocks, or none"
        );
        self.0.entry(kind).or_default().measure(size, seconds);
    }
}

/// Whether a device takes a block. It does not if the other devices would finish all waiting blocks, this block
/// included, before it finishes this block. They share the waiting blocks, but a block is not divided; so the fastest
/// device takes any block, and no block waits for ever. A device without a known rate takes a block, to get one.
pub(super) fn takes(size: u64, own: Rate, waiting: u64, others: &[Rate]) -> bool {
    if own.get() == 0.0 || others.iter().any(|other| other.get() == 0.0) {
        return true;
    }
    debug_assert!(size <= waiting, "the waiting sizes do not include the block itself");
    let together: f64 = others.iter().map(|rate| rate.get()).sum();
    let fastest = others.iter().map(|rate| rate.get()).fold(0.0, f64::max);
    let own_seconds = size as f64 / own.get();
    together == 0.0 || own_seconds <= waiting as f64 / together || own_seconds <= size as f64 / fastest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_second: f64) -> Rate {
        let mut rate = Rate::default();
        rate.measure(per_second as u64, 1.0);
        rate
    }

    #[test]
    fn a_rate_follows_the_measurements() {
        let mut rate = Rate::default();
        rate.measure(100, 1.0);
        assert_eq!(rate.get(), 100.0);
        for _ in 0..40 {
            rate.measure(100, 0.5);
        }
        assert!((rate.get() - 200.0).abs() < 1.0);
        rate.measure(100, 0.0);
        assert!(rate.get().is_finite());
    }

    #[test]
    fn rates_of_different_kinds_are_apart() {
        let mut rates = Rates::default();
        rates.measure("bounds", 1_000_000, 1.0);
        rates.measure("distances", 100, 1.0);
        assert_eq!((rates.of("bounds").get(), rates.of("distances").get()), (1e6, 100.0));
        assert_eq!(rates.of("pictures").get(), 0.0, "not known");
    }

    #[test]
    fn the_slow_one_leaves_the_last_blocks_to_the_fast_one() {
        let (slow, fast) = (rate(1.0), rate(10.0));
        // Eleven blocks of ten: the fast device needs eleven seconds for all, the slow device ten for one.
        assert!(takes(10, slow, 110, &[fast]));
        assert!(!takes(10, slow, 90, &[fast]));
        assert!(takes(10, fast, 10, &[slow]));
    }

    #[test]
    fn a_device_that_is_alone_or_unknown_takes() {
        assert!(takes(10, rate(1.0), 10, &[]));
        assert!(takes(10, Rate::default(), 10, &[rate(1e9)]));
        assert!(takes(10, rate(1.0), 10, &[Rate::default()]), "the other may be slower");
    }

    #[test]
    fn some_device_takes_at_any_rates_and_any_waiting_size() {
        let sets: [&[f64]; 6] =
            [&[5.0; 3], &[5.0; 4], &[5.0; 16], &[1.0, 2.0, 3.0, 4.0], &[1e-9, 1e9, 1e9], &[3.0, 3.0, 1.0]];
        for rates in sets {
            for (size, waiting) in [(1, 1), (10, 10), (10, 20), (10, 25), (7, 1000)] {
                let takers = (0..rates.len()).filter(|own| {
                    let others = (0..rates.len()).filter(|other| other != own);
                    let others: Vec<Rate> = others.map(|other| rate(rates[other])).collect();
                    takes(size, rate(rates[*own]), waiting, &others)
                });
                assert!(takers.count() > 0, "{rates:?}: no device takes {size} of {waiting}");
            }
        }
    }

    #[test]
    fn a_thousand_blocks_are_shared_by_speed() {
        // A simulation: each device takes when it is free, and the clock jumps to the next device that becomes free.
        let rates = [rate(300.0), rate(100.0), rate(7.0)];
        let (mut left, mut free_at, mut done) = (1000, [0.0f64; 3], [0; 3]);
        while left > 0 {
            let mut order = [0, 1, 2];
            order.sort_by(|a, b| free_at[*a].total_cmp(&free_at[*b]));
            let taker = order.into_iter().find(|idx| {
                let others: Vec<Rate> =
                    (0..3).filter(|other| other != idx).map(|other| rates[other]).collect();
                takes(1, rates[*idx], left, &others)
            });
            let taker = taker.expect("a device takes");
            free_at[taker] += 1.0 / rates[taker].get();
            done[taker] += 1;
            left -= 1;
        }
        let ideal = 1000.0 / 407.0;
        let last = free_at.into_iter().fold(0.0, f64::max);
        assert!(last < ideal * 1.1, "{last} s, where {ideal} s would do; blocks {done:?}");
        assert!(done[0] > 2 * done[1] && done[1] > 10 * done[2], "{done:?}");
    }
}
