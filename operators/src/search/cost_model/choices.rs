//! Choices that one request leaves to the next: to choose takes a tenth of a small search or more.

use boxwork_kernels::lower_bound::Bound;
use boxwork_stores::pivot_table::PivotTable;

use super::Search;

/// Requests that take a choice before one of them chooses anew.
const TAKEN_MAX: u32 = 31;
/// Choices that are kept.
const KEPT_MAX: usize = 256;

/// The settings of requests that share a choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Key {
    table: u64,
    k: Option<usize>,
    range: Option<f64>,
    queries: usize,
    is_on_devices: bool,
}

impl Key {
    pub(super) fn of(table: &PivotTable, search: Search) -> Self {
        let Search { k, range, queries, devices, .. } = search;
        Self { table: table.number(), k, range, queries, is_on_devices: devices.is_some() }
    }
}

/// The choices of a runtime, the oldest first.
#[derive(Default)]
pub(super) struct Choices(Vec<Kept>);

struct Kept {
    key: Key,
    bound: Option<Bound>,
    taken: u32,
}

impl Choices {
    /// The kept choice; `None` if there is none, or enough requests have taken it.
    pub(super) fn take(&mut self, key: Key) -> Option<Option<Bound>> {
        let kept = self.0.iter_mut().find(|kept| kept.key == key && kept.taken < TAKEN_MAX)?;
        kept.taken += 1;
        Some(kept.bound)
    }

    /// Keeps a choice in the place of the last one for this key, or of the oldest one.
    pub(super) fn keep(&mut self, key: Key, bound: Option<Bound>) {
        self.0.retain(|kept| kept.key != key);
        if self.0.len() == KEPT_MAX {
            self.0.remove(0);
        }
        self.0.push(Kept { key, bound, taken: 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(table: u64) -> Key {
        Key { table, k: Some(10), range: None, queries: 1, is_on_devices: false }
    }

    #[test]
    fn a_choice_is_taken_until_a_request_chooses_anew() {
        let mut choices = Choices::default();
        assert_eq!(choices.take(key(1)), None);
        for bound in [Some(Bound::Simplex), None] {
            choices.keep(key(1), bound);
            for _ in 0..TAKEN_MAX {
                assert_eq!(choices.take(key(1)), Some(bound));
            }
            assert_eq!(choices.take(key(1)), None);
        }
        assert_eq!(choices.0.len(), 1);
        choices.keep(key(1), None);
        assert_eq!(choices.take(Key { k: Some(11), ..key(1) }), None, "another k");
        assert_eq!(choices.take(key(2)), None, "another table");
    }

    #[test]
    fn too_many_choices_push_out_the_oldest() {
        let mut choices = Choices::default();
        for table in 0..2 * KEPT_MAX as u64 {
            choices.keep(key(table), None);
        }
        assert_eq!(choices.0.len(), KEPT_MAX);
        assert_eq!(choices.take(key(0)), None);
        assert_eq!(choices.take(key(2 * KEPT_MAX as u64 - 1)), Some(None));
    }
}
