//! The placement of a resource's parts on devices: the home device of each part, and whether that device keeps the
//! part.
//!
//! Any store can be cut into parts. A part is brought to a device at once and has a [`SharedKey`](super::SharedKey).
//! Consecutive parts have one home, and each device keeps the first parts of its share, as many as fit. The other parts
//! pass through, from pinned memory if there is some: see [`Feed::part`](super::Feed::part).

use std::ops::Range;
use std::sync::Arc;

use super::pool::Devices;

/// The share of a device's memory for parts that stay there: the rest is for the blocks' own buffers.
const KEPT_SHARE: f64 = 0.75;

/// The most parts that pass through a device at once: one for each lane, and one more that is brought in.
const PASSING: u64 = 5;

/// The home of each part of a resource, and whether the part stays there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Residence {
    allowed: Arc<[usize]>,
    count: usize,
    is_whole: bool,
    /// Parts that each device keeps of its share.
    kept: usize,
}

impl Residence {
    /// Spreads parts over devices; `bytes` are the bytes of each part on a device.
    ///
    /// # Panics
    /// When there is no device.
    pub fn new(devices: &Devices, allowed: Arc<[usize]>, bytes: impl IntoIterator<Item = u64>) -> Self {
        let budgets = allowed.iter().map(|idx| devices.list()[*idx].memory_budget_bytes());
        let budget = budgets.min().expect("a resource lies on at least one device");
        Self::within(budget, allowed, bytes)
    }

    /// For devices that may each use `budget` bytes.
    fn within(budget: u64, allowed: Arc<[usize]>, bytes: impl IntoIterator<Item = u64>) -> Self {
        let (mut count, mut all, mut largest) = (0, 0u64, 1);
        for part in bytes {
            (count, all, largest) = (count + 1, all.saturating_add(part), part.max(largest));
        }
        let kept_bytes = (budget as f64 * KEPT_SHARE) as u64;
        let kept = match all.div_ceil(allowed.len().max(1) as u64) <= kept_bytes {
            true => count,
            false => {
                (kept_bytes.min(budget.saturating_sub(PASSING.saturating_mul(largest))) / largest) as usize
            }
        };
        debug_assert!(
            all > kept_bytes || kept == count,
            "a device could keep all parts and does not keep all of its share"
        );
        debug_assert!(
            allowed.iter().enumerate().all(|(place, idx)| !allowed[..place].contains(idx)),
            "one device has two shares: it would keep more than its memory holds"
        );
        Self { allowed, count, is_whole: all <= kept_bytes, kept }
    }

    /// Whether each device can keep all parts, so that any device can compute any block.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The device that a part is kept on, by its number.
    pub fn home(&self, part: usize) -> usize {
        self.allowed[self.share_of(part)]
    }

    /// Whether a part stays on its device.
    pub fn is_kept(&self, part: usize) -> bool {
        let first = (self.share_of(part) * self.count).div_ceil(self.allowed.len());
        debug_assert!(first <= part, "a part lies before the first one of its share");
        part - first < self.kept
    }

    /// Cuts consecutive parts into runs for one block each. Parts of one home that are there already (`is_held`) go
    /// together while `fits` accepts the run. Any other part is a run of its own, so that the next is brought in while
    /// the device computes.
    pub fn runs(
        &self,
        parts: Range<usize>,
        is_held: impl Fn(usize) -> bool,
        fits: impl Fn(Range<usize>) -> bool,
    ) -> Vec<Range<usize>> {
        let parts_count = parts.len();
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut was_held = false;
        for part in parts {
            let held = is_held(part);
            match runs.last_mut() {
                Some(run)
                    if held
                        && was_held
                        && self.share_of(run.start) == self.share_of(part)
                        && fits(run.start..part + 1) =>
                {
                    run.end = part + 1;
                }
                _ => runs.push(part..part + 1),
            }
            was_held = held;
        }
        debug_assert_eq!(
            runs.iter().map(Range::len).sum::<usize>(),
            parts_count,
            "a part is in no run, or in two"
        );
        debug_assert!(
            runs.windows(2).all(|pair| pair[0].end == pair[1].start),
            "runs do not follow each other"
        );
        runs
    }

    /// The place of a part's home among the devices.
    fn share_of(&self, part: usize) -> usize {
        debug_assert!(part < self.count, "there are {} parts", self.count);
        debug_assert!(!self.allowed.is_empty(), "parts without a device to lie on");
        part * self.allowed.len() / self.count.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_and_the_first_parts_of_each_are_kept() {
        // Ten parts of 100 bytes on two devices that may keep 750 and 300.
        let of = |budget| Residence::within(budget, [4, 7].into(), [100; 10]);
        let whole = of(2000);
        assert!(whole.is_whole() && (0..10).all(|part| whole.is_kept(part)));
        let shared = of(1000);
        assert!(!shared.is_whole() && (0..10).all(|part| shared.is_kept(part)));
        let homes: Vec<usize> = (0..10).map(|part| shared.home(part)).collect();
        assert_eq!(homes, [4, 4, 4, 4, 4, 7, 7, 7, 7, 7]);
        // Five parts pass through 600 bytes, so one is kept.
        let kept: Vec<usize> = (0..10).filter(|part| of(600).is_kept(*part)).collect();
        assert_eq!(kept, [0, 5]);
        assert!((0..10).all(|part| !of(500).is_kept(part)));
    }

    #[test]
    fn runs_are_of_one_home_and_of_held_parts() {
        let residence = Residence::within(2000, [0, 1].into(), [100; 10]);
        let runs = residence.runs(1..10, |part| part != 3, |run| run.len() <= 3);
        assert_eq!(runs, [1..3, 3..4, 4..5, 5..8, 8..10]);
        let all: Vec<usize> = runs.into_iter().flatten().collect();
        assert_eq!(all, (1..10).collect::<Vec<_>>());
    }
}
