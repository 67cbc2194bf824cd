//! What was chosen for searches of a table, so that not every request pays for a choice.
//!
//! A choice costs as much as hundreds of distances, and on many workers that is much of a search. Once several requests
//! in a row that ask alike have chosen alike, the next ones take the same, and now and then one of them chooses
//! again. What is found does not depend on it.

use boxwork_kernels::lower_bound::Bound;

/// Choices in a row that must be alike.
const ALIKE: u32 = 3;
/// Requests that take what was chosen until one chooses again.
const TAKEN_MAX: u32 = 31;
/// Searches that are remembered.
const KEPT_MAX: usize = 256;

/// What requests must have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Asked {
    /// The table's number.
    pub(super) table: u64,
    pub(super) k: Option<usize>,
    pub(super) range: Option<f64>,
    pub(super) queries: usize,
    /// Whether distances are computed on devices.
    pub(super) on_devices: bool,
}

/// The choices of a runtime.
#[derive(Default)]
pub(super) struct Choices(Vec<Kept>);

struct Kept {
    asked: Asked,
    bound: Option<Bound>,
    alike: u32,
    taken: u32,
}

impl Choices {
    /// What a request takes without choosing; nothing when it is to choose.
    pub(super) fn known(&mut self, asked: Asked) -> Option<Option<Bound>> {
        let kept = self.0.iter_mut().find(|kept| kept.asked == asked)?;
        if kept.alike < ALIKE {
            return None;
        }
        kept.taken += 1;
        if kept.taken > TAKEN_MAX {
            kept.taken = 0;
            return None;
        }
        Some(kept.bound)
    }

    /// Learns of a choice. One that hardly matters is like any other, and the newest of those is taken.
    pub(super) fn learn(&mut self, asked: Asked, bound: Option<Bound>, is_clear: bool) {
        if let Some(kept) = self.0.iter_mut().find(|kept| kept.asked == asked) {
            if kept.bound == bound || !is_clear {
                kept.alike += 1;
            } else {
                (kept.alike, kept.taken) = (1, 0);
            }
            kept.bound = bound;
            return;
        }
        if self.0.len() == KEPT_MAX {
            self.0.remove(0);
        }
        self.0.push(Kept { asked, bound, alike: 1, taken: 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(table: u64) -> Asked {
        Asked { table, k: Some(10), range: None, queries: 1, on_devices: false }
    }

    #[test]
    fn choices_that_are_alike_are_taken_and_made_again_now_and_then() {
        let mut choices = Choices::default();
        for _ in 0..ALIKE {
            assert_eq!(choices.known(asked(1)), None);
            choices.learn(asked(1), Some(Bound::Simplex), true);
        }
        for bound in [Some(Bound::Simplex), None, Some(Bound::Triangular)] {
            choices.learn(asked(1), bound, false);
            for _ in 0..TAKEN_MAX {
                assert_eq!(choices.known(asked(1)), Some(bound));
            }
            assert_eq!(choices.known(asked(1)), None);
        }
        // Another search, and another table, are others.
        assert_eq!(choices.known(Asked { k: Some(11), ..asked(1) }), None);
        assert_eq!(choices.known(asked(2)), None);
        // A clear choice of something else begins anew.
        choices.learn(asked(1), None, true);
        assert_eq!(choices.known(asked(1)), None);
        (1..ALIKE).for_each(|_| choices.learn(asked(1), None, true));
        assert_eq!(choices.known(asked(1)), Some(None));
    }

    #[test]
    fn choices_that_differ_are_made_each_time() {
        let mut choices = Choices::default();
        for nth in 0..20 {
            assert_eq!(choices.known(asked(1)), None);
            choices.learn(asked(1), (nth % 2 == 0).then_some(Bound::Triangular), true);
        }
    }

    #[test]
    fn the_oldest_of_too_many_are_forgotten() {
        let mut choices = Choices::default();
        for table in 0..2 * KEPT_MAX as u64 {
            (0..ALIKE).for_each(|_| choices.learn(asked(table), None, true));
        }
        assert_eq!(choices.0.len(), KEPT_MAX);
        assert_eq!(choices.known(asked(0)), None);
        assert_eq!(choices.known(asked(2 * KEPT_MAX as u64 - 1)), Some(None));
    }
}
