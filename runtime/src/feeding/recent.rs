//! A bounded list of the most recently used entries.

use std::collections::VecDeque;

/// Entries in the order of their last use, the latest last.
#[derive(Debug)]
pub(super) struct Recent<T> {
    entries: VecDeque<T>,
    most: usize,
}

impl<T> Recent<T> {
    /// An empty list that keeps at most `most` entries.
    pub(super) fn new(most: usize) -> Self {
        assert!(most > 0, "a list without room for an entry");
        Self { entries: VecDeque::new(), most }
    }

    /// Finds an entry, which becomes the latest.
    pub(super) fn find(&mut self, is_it: impl Fn(&T) -> bool) -> Option<&T> {
        // The latest first: most calls look for it again.
        let at = self.entries.iter().rposition(is_it)?;
        if at + 1 < self.entries.len()
            && let Some(entry) = self.entries.remove(at)
        {
            self.entries.push_back(entry);
        }
        self.entries.back()
    }

    /// Adds an entry as the latest. If there is no room, returns the least recently used entry.
    pub(super) fn add(&mut self, entry: T) -> Option<T> {
        self.entries.push_back(entry);
        let is_full = self.entries.len() > self.most;
        let dropped = if is_full { self.entries.pop_front() } else { None };
        debug_assert!(self.entries.len() <= self.most);
        dropped
    }

    /// The entries, the latest first.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_that_was_used_least_recently_makes_room() {
        let mut recent = Recent::new(3);
        for number in 0..3 {
            assert_eq!(recent.add(number), None);
        }
        assert_eq!(recent.find(|number| *number == 0), Some(&0));
        assert_eq!(recent.find(|number| *number == 9), None);
        assert_eq!(recent.add(3), Some(1), "0 was used since");
        assert_eq!(recent.iter().copied().collect::<Vec<_>>(), [3, 0, 2]);
    }
}
