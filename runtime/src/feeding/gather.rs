//! Gathering into staging memory by several threads, because one is slower than the transfer to the device.
//!
//! One thread copies some 10 GB/s, a device takes 55. The threads live for one gathering, which takes many times as
//! long as starting them. Each takes a slot of the block's scheduler, as the feeding thread does, so that never more
//! threads compute than there are slots; without a lent slot there is no helper.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::error::DeviceError;
use super::plain::Plain;
use crate::outside::Lend;

/// The least work that is worth helpers: some milliseconds of one thread.
const SPLIT_BYTES_MIN: usize = 4 << 20;

/// The threads that gather for a block.
#[derive(Clone)]
pub(super) struct Gatherers {
    /// Threads at once, the feeding thread included.
    pub(super) most: usize,
    /// The lender of their slots; without one they need none.
    pub(super) lender: Option<Arc<dyn Lend>>,
}

impl Gatherers {
    /// Fills parts of `part` numbers each (the last may be shorter); `fill` gets the place of its part.
    ///
    /// # Errors
    /// The first error of `fill`.
    pub(super) fn fill<T: Plain>(
        &self,
        to: &mut [T],
        part: usize,
        fill: &(impl Fn(usize, &mut [T]) -> Result<(), DeviceError> + Sync),
    ) -> Result<(), DeviceError> {
        let (part, bytes) = (part.max(1), size_of_val(to));
        debug_assert!(self.most > 0, "no thread gathers for a block");
        let helpers = match bytes >= SPLIT_BYTES_MIN {
            true => self.most.min(to.len().div_ceil(part)).saturating_sub(1),
            false => 0,
        };
        let (parts, failed) = (Mutex::new(to.chunks_mut(part).enumerate()), OnceLock::new());
        let work = || {
            while failed.get().is_none() {
                // Not within the condition: that would hold the lock while the part is filled.
                let next = parts.lock().next();
                let Some((idx, to)) = next else { break };
                if let Err(error) = fill(idx, to) {
                    // Only the first error is returned.
                    let _ = failed.set(error);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..helpers {
                let slot = self.lender.as_ref().map(|lender| lender.withhold());
                if slot.as_ref().is_some_and(Option::is_none) {
                    break;
                }
                let helper = std::thread::Builder::new().name("gather".to_owned());
                let helped = helper.spawn_scoped(scope, || {
                    let _slot = slot;
                    work();
                });
                if helped.is_err() {
                    // The system gives no more threads; the threads so far do all parts.
                    break;
                }
            }
            work();
        });
        debug_assert!(
            failed.get().is_some() || parts.lock().next().is_none(),
            "a part was left out: the device would compute with what an earlier block has left there"
        );
        failed.into_inner().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::outside::Computing;

    /// Lends `all` slots, and counts those left and the most that were out.
    struct Slots {
        left: AtomicUsize,
        most: AtomicUsize,
        all: usize,
    }

    struct Lender(Arc<Slots>);

    impl Lend for Lender {
        fn number(&self) -> usize {
            0
        }

        fn withhold(&self) -> Option<Computing> {
            let slots = Arc::clone(&self.0);
            let taken = slots.left.try_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            let out = slots.all - taken.ok()? + 1;
            slots.most.fetch_max(out, Ordering::SeqCst);
            Some(Computing::new(move || {
                slots.left.fetch_add(1, Ordering::SeqCst);
            }))
        }
    }

    #[test]
    fn every_part_is_filled_once_by_as_many_as_are_lent() {
        for (lent, most, len) in
            [(0, 8, 3 << 20), (2, 8, 3 << 20), (9, 4, 3 << 20), (9, 8, 100), (9, 1, 3 << 20)]
        {
            let slots = Arc::new(Slots { left: lent.into(), most: 0.into(), all: lent });
            let gatherers = Gatherers { most, lender: Some(Arc::new(Lender(Arc::clone(&slots)))) };
            let mut to = vec![0u32; len];
            let part = len / 7 + 1;
            let fill = |idx: usize, to: &mut [u32]| {
                to.iter_mut().zip(idx * part..).for_each(|(to, at)| *to += 1 + at as u32);
                Ok(())
            };
            gatherers.fill(&mut to, part, &fill).unwrap();
            assert!(to.iter().enumerate().all(|(at, number)| *number == 1 + at as u32));
            assert_eq!(slots.left.load(Ordering::SeqCst), lent, "slots were kept");
            let helpers = if len < 1 << 20 { 0 } else { lent.min(most - 1).min(6) };
            assert_eq!(slots.most.load(Ordering::SeqCst) > 0, helpers > 0);
            assert!(slots.most.load(Ordering::SeqCst) <= helpers);
        }
    }

    #[test]
    fn one_part_that_fails_fails_all() {
        let gatherers = Gatherers { most: 3, lender: None };
        let mut to = vec![0u32; 3 << 20];
        let fill = |idx: usize, _: &mut [u32]| match idx {
            4 => Err(DeviceError::Block("the fifth".to_owned())),
            _ => Ok(()),
        };
        let error = gatherers.fill(&mut to, 1 << 18, &fill).unwrap_err().to_string();
        assert!(error.contains("the fifth"), "{error}");
    }
}
