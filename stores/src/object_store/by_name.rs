//! The objects of a store by their names: hashes in buckets, so that work on one bucket takes little time.
//!
//! Invariant: bucket `b` has the hashes whose leading bits are `b`, in ascending order.

use std::hash::{DefaultHasher, Hash, Hasher};

use boxwork_kernels::interrupt::{Interrupt, Interrupted, ask};
use boxwork_kernels::memory::{MemoryRefused, more};

/// Hashes of a bucket, about: sorting them takes a fraction of a millisecond.
const BUCKET_LEN: u64 = 1 << 12;

/// The hash of each object's name, and its id.
pub(super) struct ByName {
    /// The leading bits that number a bucket.
    bits: u32,
    buckets: Vec<Vec<(u64, u64)>>,
    /// The objects of the store.
    objects: u64,
}

impl ByName {
    /// An empty list for so many objects.
    pub(super) fn new(objects: u64) -> Self {
        let bits = (objects / BUCKET_LEN).max(1).ilog2();
        Self { bits, buckets: vec![Vec::new(); 1 << bits], objects }
    }

    fn bucket(&self, hash: u64) -> usize {
        // Shifted twice, as a shift by all bits is none.
        (hash >> 1 >> (u64::BITS - 1 - self.bits)) as usize
    }

    /// Adds an object.
    ///
    /// # Errors
    /// When memory is refused.
    pub(super) fn add(&mut self, name: &str, id: u64) -> Result<(), MemoryRefused> {
        let (hash, objects) = (hash(name), self.objects);
        let bucket = self.bucket(hash);
        let bucket = &mut self.buckets[bucket];
        let what = || format!("finding one of {objects} objects by its name");
        more(bucket, 1, what, "search by images, or free memory")?;
        bucket.push((hash, id));
        Ok(())
    }

    /// Sorts the list, when all objects have been added.
    ///
    /// # Errors
    /// When the caller interrupts.
    pub(super) fn sort(&mut self, interrupt: Interrupt<'_>) -> Result<(), Interrupted> {
        for bucket in &mut self.buckets {
            ask(interrupt)?;
            bucket.sort_unstable();
        }
        Ok(())
    }

    /// The objects whose names may be this one.
    pub(super) fn candidates(&self, name: &str) -> impl Iterator<Item = u64> + '_ {
        let wanted = hash(name);
        let bucket = &self.buckets[self.bucket(wanted)];
        let from = bucket.partition_point(|(hash, _)| *hash < wanted);
        bucket[from..].iter().take_while(move |(hash, _)| *hash == wanted).map(|(_, id)| *id)
    }
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn every_name_is_found_in_any_number_of_buckets() {
        for objects in [0, 1, 5, 2 * BUCKET_LEN, 9 * BUCKET_LEN] {
            let mut list = ByName::new(objects);
            assert!(list.buckets.len() as u64 <= (objects / BUCKET_LEN).max(1));
            // Each name twice, as a store that changed may have it.
            for id in 0..objects {
                list.add(&(id / 2).to_string(), id).unwrap();
            }
            let asked = Cell::new(0);
            let asks = |limit: usize| {
                asked.set(asked.get() + 1);
                asked.get() >= limit
            };
            let buckets = list.buckets.len();
            assert_eq!(list.sort(&|| asks(buckets)), Err(Interrupted));
            asked.set(0);
            list.sort(&|| asks(usize::MAX)).unwrap();
            assert_eq!(asked.get(), buckets);
            for id in 0..objects / 2 {
                assert_eq!(list.candidates(&id.to_string()).collect::<Vec<_>>(), [2 * id, 2 * id + 1]);
            }
            assert_eq!(list.candidates("none").count(), 0);
        }
    }
}
