//! Distances that feedback has computed: columns from one object to all, and single pairs.
//!
//! Invariants: a distance that is kept has the bits that computing it again would give; both parts have a fixed size at
//! most.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arrow_array::{Array, ArrayRef};
use boxwork_kernels::chance::mix;
use boxwork_stores::space::Space;

/// The most bytes of columns of one space.
const COLUMN_BYTES_MAX: usize = 256 << 20;
/// Columns of objects that are not in the store.
const FOREIGN_MAX: usize = 64;
/// Pairs of each of two generations: about 40 MiB together.
const PAIRS_MAX: usize = 1 << 19;

/// The distances of one object from all ids of a store; those of removed objects have no meaning.
#[derive(Debug)]
pub(crate) enum Column {
    /// Exact distances, for a small store.
    Exact(Vec<f64>),
    /// Fast distances, with the most by which a distance and its square may be off.
    Fast { distances: Vec<f32>, change: f64, change_squared: f64 },
}

impl Column {
    fn bytes(&self) -> usize {
        match self {
            Self::Exact(distances) => 8 * distances.len(),
            Self::Fast { distances, .. } => 4 * distances.len(),
        }
    }
}

/// The distances of one space.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    columns: Mutex<Columns>,
    pairs: Mutex<Pairs>,
}

#[derive(Debug, Default)]
struct Columns {
    /// With the time of their last use.
    of_ids: HashMap<u64, (u64, Arc<Column>)>,
    foreign: Vec<(u64, ArrayRef, Arc<Column>)>,
    bytes: usize,
    now: u64,
}

/// Two generations: the young one replaces the old one when it is full.
#[derive(Debug, Default)]
struct Pairs {
    young: Generation,
    old: Generation,
}

type Generation = HashMap<u64, f64, BuildHasherDefault<PairHasher>>;

/// A pair as one number; nothing for ids above 32 bits, whose distances are not kept.
fn key([a, b]: [u64; 2]) -> Option<u64> {
    Some(u64::from(u32::try_from(a).ok()?) << 32 | u64::from(u32::try_from(b).ok()?))
}

/// Hashes the number of a pair: a round looks up tens of thousands, and nobody outside chooses ids.
#[derive(Debug, Default)]
struct PairHasher(u64);

impl Hasher for PairHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number);
    }
}

impl Cache {
    /// The column of an object of the store.
    pub(crate) fn column(&self, id: u64) -> Option<Arc<Column>> {
        let mut columns = self.columns();
        columns.now += 1;
        let now = columns.now;
        let (used, column) = columns.of_ids.get_mut(&id)?;
        *used = now;
        Some(Arc::clone(column))
    }

    /// The column of an object that is not in the store: the only one of an array.
    pub(crate) fn foreign(&self, object: &ArrayRef) -> Option<Arc<Column>> {
        let mut columns = self.columns();
        columns.now += 1;
        let (now, data) = (columns.now, object.to_data());
        let (used, _, column) = columns.foreign.iter_mut().find(|(_, known, _)| known.to_data() == data)?;
        *used = now;
        Some(Arc::clone(column))
    }

    /// Keeps a column of an object of the store; the columns that were used longest ago make room.
    pub(crate) fn keep(&self, id: u64, column: &Arc<Column>) {
        let mut columns = self.columns();
        columns.make_room(column.bytes());
        columns.now += 1;
        let entry = (columns.now, Arc::clone(column));
        columns.bytes += column.bytes();
        if let Some((_, before)) = columns.of_ids.insert(id, entry) {
            columns.bytes -= before.bytes();
        }
    }

    /// Keeps a column of an object that is not in the store.
    pub(crate) fn keep_foreign(&self, object: &ArrayRef, column: &Arc<Column>) {
        let mut columns = self.columns();
        if columns.foreign.len() >= FOREIGN_MAX {
            columns.drop_foreign();
        }
        columns.make_room(column.bytes());
        columns.now += 1;
        let entry = (columns.now, Arc::clone(object), Arc::clone(column));
        columns.bytes += column.bytes();
        columns.foreign.push(entry);
    }

    /// Fills in the distances of pairs that are known, and returns the places of the others.
    pub(crate) fn pairs(&self, pairs: &[[u64; 2]], out: &mut [f64]) -> Vec<usize> {
        let known = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut missing = Vec::new();
        for (place, (pair, out)) in pairs.iter().zip(out).enumerate() {
            let key = key(*pair);
            match key.and_then(|key| known.young.get(&key).or_else(|| known.old.get(&key))) {
                Some(distance) => *out = *distance,
                None => missing.push(place),
            }
        }
        missing
    }

    /// Keeps the distances of pairs.
    pub(crate) fn keep_pairs(&self, pairs: impl Iterator<Item = ([u64; 2], f64)>) {
        let mut known = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        for (pair, distance) in pairs {
            if known.young.len() >= PAIRS_MAX {
                known.old = std::mem::take(&mut known.young);
            }
            if let Some(key) = key(pair) {
                known.young.insert(key, distance);
            }
        }
    }

    fn columns(&self) -> MutexGuard<'_, Columns> {
        self.columns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Columns {
    fn make_room(&mut self, bytes: usize) {
        while self.bytes + bytes > COLUMN_BYTES_MAX {
            let oldest = self.of_ids.iter().min_by_key(|(_, (used, _))| *used).map(|(id, _)| *id);
            match oldest.and_then(|id| self.of_ids.remove(&id)) {
                Some((_, column)) => self.bytes -= column.bytes(),
                None if self.foreign.is_empty() => return,
                None => self.drop_foreign(),
            }
        }
    }

    fn drop_foreign(&mut self) {
        let oldest = self.foreign.iter().enumerate().min_by_key(|(_, (used, ..))| *used);
        if let Some(place) = oldest.map(|(place, _)| place) {
            let (.., column) = self.foreign.swap_remove(place);
            self.bytes -= column.bytes();
        }
    }
}

/// The caches of all spaces that resources of a runtime use now.
#[derive(Debug, Default)]
pub(crate) struct Caches(Mutex<Vec<(String, Weak<Cache>)>>);

impl Caches {
    /// The cache of a space: that of another resource if it has the same store and distance.
    pub(crate) fn of(&self, space: &dyn Space) -> Arc<Cache> {
        let key = format!("{} {}", space.store().fingerprint(), space.measure());
        let mut caches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        caches.retain(|(_, cache)| cache.strong_count() > 0);
        let known = caches.iter().find(|(known, _)| *known == key).and_then(|(_, cache)| cache.upgrade());
        known.unwrap_or_else(|| {
            let made = Arc::<Cache>::default();
            caches.push((key, Arc::downgrade(&made)));
            made
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::StringArray;

    use super::*;

    #[test]
    fn columns_used_longest_ago_make_room() {
        let cache = Cache::default();
        let column = |fill: f64| Arc::new(Column::Exact(vec![fill; COLUMN_BYTES_MAX / 8 / 4]));
        for id in 0..4 {
            cache.keep(id, &column(id as f64));
        }
        assert!(cache.column(0).is_some());
        cache.keep(4, &column(4.0));
        let kept: Vec<u64> = (0..5).filter(|id| cache.column(*id).is_some()).collect();
        assert_eq!(kept, [0, 2, 3, 4]);
        let object: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
        cache.keep_foreign(&object, &column(9.0));
        let equal: ArrayRef = Arc::new(StringArray::from(vec!["a", "x"]).slice(1, 1));
        assert!(matches!(&*cache.foreign(&equal).unwrap(), Column::Exact(values) if values[0] == 9.0));
        let other: ArrayRef = Arc::new(StringArray::from(vec!["y"]));
        assert!(cache.foreign(&other).is_none());
        for _ in 0..2 * FOREIGN_MAX {
            cache.keep_foreign(&other, &Arc::new(Column::Exact(vec![0.0])));
        }
        assert!(cache.columns().foreign.len() <= FOREIGN_MAX && cache.columns().bytes <= COLUMN_BYTES_MAX);
    }

    #[test]
    fn pairs_are_kept_for_a_generation() {
        let cache = Cache::default();
        let pair = |idx: u64| [idx, idx + 1];
        for first in 0..3 {
            let from = first * PAIRS_MAX as u64;
            cache.keep_pairs((from..from + PAIRS_MAX as u64).map(|idx| (pair(idx), idx as f64)));
        }
        let last = 3 * PAIRS_MAX as u64 - 1;
        let beyond = [1, 1 << 32];
        cache.keep_pairs([(beyond, 7.0)].into_iter());
        let mut out = [0.0; 3];
        assert_eq!(cache.pairs(&[pair(last), pair(0), beyond], &mut out), [1, 2]);
        assert_eq!(out[0], last as f64);
        assert!(cache.pairs.lock().unwrap().old.len() <= PAIRS_MAX);
    }
}
