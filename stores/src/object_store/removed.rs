//! The ids of removed objects, and their files.
//!
//! ```text
//! boxwork removed 1, a line feed
//! the ids, ascending, 8 bytes each, little end first
//! the checksum of all that, 4 bytes
//! ```

use std::fs;
use std::path::Path;

use super::StoreError;

const HEAD: &[u8] = b"boxwork removed 1\n";

/// The ids of removed objects.
#[derive(Clone, Debug, Default)]
pub(super) struct Removed {
    /// Ascending.
    ids: Vec<u64>,
}

impl Removed {
    /// Adds ids, ascending, of a store with `rows` rows. Returns whether each was the id of an object.
    #[must_use]
    pub(super) fn add(&mut self, ids: Vec<u64>, rows: u64) -> bool {
        debug_assert!(ids.is_sorted_by(|a, b| a < b), "the ids of a file ascend");
        let are_new = ids.iter().all(|id| *id < rows && !self.contains(*id));
        if self.ids.is_empty() {
            self.ids = ids;
        } else {
            self.ids.extend(ids);
            self.ids.sort_unstable();
        }
        are_new
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn len(&self) -> u64 {
        self.ids.len() as u64
    }

    #[inline]
    pub(super) fn contains(&self, id: u64) -> bool {
        !self.ids.is_empty() && self.ids.binary_search(&id).is_ok()
    }

    /// The number of removed ids below an id.
    pub(super) fn before(&self, id: u64) -> u64 {
        self.ids.partition_point(|removed| *removed < id) as u64
    }

    /// The `nth` id that is not removed.
    pub(super) fn nth_kept(&self, nth: u64) -> u64 {
        // Before the i-th removed id, `id - i` ids are kept, and this number never falls from one to the next.
        let (mut low, mut high) = (0, self.ids.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.ids[middle] - middle as u64 <= nth {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        nth + low as u64
    }
}

/// The content of a file of ids, and its fingerprint.
pub(super) fn text(ids: &[u64]) -> (Vec<u8>, String) {
    let mut bytes = HEAD.to_vec();
    bytes.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
    let checksum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    let fingerprint = format!("{:x}-{checksum:08x}", bytes.len());
    (bytes, fingerprint)
}

/// Reads the fingerprint and the ids of a file.
pub(super) fn read(path: &Path) -> Result<(String, Vec<u64>), StoreError> {
    let bytes = fs::read(path);
    let bytes = bytes.map_err(|source| StoreError::Io { path: path.to_owned(), action: "open", source })?;
    parse(&bytes).ok_or_else(|| StoreError::Damaged {
        path: path.to_owned(),
        place: "its numbers".to_owned(),
        reason: "the checksum differs from the one written".to_owned(),
    })
}

fn parse(bytes: &[u8]) -> Option<(String, Vec<u64>)> {
    let (content, checksum) = bytes.split_last_chunk::<4>()?;
    let checksum = u32::from_le_bytes(*checksum);
    let (ids, rest) = content.strip_prefix(HEAD)?.as_chunks::<8>();
    let ids: Vec<u64> = ids.iter().map(|id| u64::from_le_bytes(*id)).collect();
    let is_sound = rest.is_empty()
        && !ids.is_empty()
        && ids.is_sorted_by(|a, b| a < b)
        && crc32fast::hash(content) == checksum;
    is_sound.then(|| (format!("{:x}-{checksum:08x}", bytes.len()), ids))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_is_kept() {
        let mut removed = Removed::default();
        assert!(removed.add(vec![3, 4, 9], 10) && removed.add(vec![0, 7], 10));
        assert!(!removed.clone().add(vec![4], 10) && !removed.clone().add(vec![10], 10));
        let kept: Vec<u64> = (0..20).filter(|id| !removed.contains(*id)).collect();
        assert_eq!(kept[..5], [1, 2, 5, 6, 8]);
        for (nth, id) in kept.iter().enumerate() {
            assert_eq!(removed.nth_kept(nth as u64), *id);
            assert_eq!(id - removed.before(*id), nth as u64);
        }
        assert_eq!((removed.len(), Removed::default().nth_kept(5)), (5, 5));
    }

    #[test]
    fn every_byte_of_a_file_counts() {
        let (sound, fingerprint) = text(&[2, 5, 1 << 40]);
        assert_eq!(parse(&sound), Some((fingerprint, vec![2, 5, 1 << 40])));
        for place in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[place] ^= 1;
            assert_eq!(parse(&bytes), None, "byte {place} went unnoticed");
            assert_eq!(parse(&sound[..place]), None, "{place} bytes pass");
        }
        for ids in [&[][..], &[2, 2], &[3, 2]] {
            assert_eq!(parse(&text(ids).0), None);
        }
    }
}
