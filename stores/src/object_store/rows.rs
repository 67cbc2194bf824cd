//! Objects that come one by one and stay in memory: the batches of a store, or the columns of envelopes.

use std::path::Path;
use std::sync::OnceLock;

use arrow_array::{Array, ArrayRef, StringArray};
use boxwork_runtime::operator::BoxError;

use super::files::Files;
use super::map::Access;
use super::removed::{self, Removed};
use super::writer::BATCH_ROWS;
use super::{Batch, ObjectStore, StoreInfo};
use crate::kinds::Kind;
use crate::kinds::lists::ListsBuilder;
use crate::new_number;

/// Objects of one kind with their names, being collected.
///
/// Its lists request their memory, so that a file that is too large is refused and the process continues.
pub struct Rows<K: Kind> {
    kind: K,
    builder: K::Builder,
    names: ListsBuilder<u8>,
    rows: usize,
    batches: Vec<Batch<K>>,
    len: u64,
    checksum: Checksum,
}

/// The checksums of all names, all numbers and all places where objects end.
struct Checksum {
    names: crc32fast::Hasher,
    numbers: crc32fast::Hasher,
    ends: crc32fast::Hasher,
    end: u64,
}

impl<K: Kind> Rows<K> {
    /// No objects yet.
    pub fn new(kind: K) -> Self {
        let checksum = Checksum {
            names: crc32fast::Hasher::new(),
            numbers: crc32fast::Hasher::new(),
            ends: crc32fast::Hasher::new(),
            end: 0,
        };
        let (builder, names) = (kind.builder(), ListsBuilder::new());
        Self { kind, builder, names, rows: 0, batches: Vec::new(), len: 0, checksum }
    }

    /// Number of objects so far, except those that were taken.
    pub fn len(&self) -> u64 {
        self.len + self.rows as u64
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends an object that `push` adds to the builder.
    ///
    /// # Errors
    /// The fault that `push` finds in it.
    pub fn push(
        &mut self,
        name: &str,
        push: impl FnOnce(&mut K::Builder) -> Result<(), String>,
    ) -> Result<(), String> {
        push(&mut self.builder)?;
        self.names.push(name.as_bytes())?;
        self.rows += 1;
        Ok(())
    }

    /// Appends a batch of objects in the columns of their kind, whose numbers stay where they are, after those so far.
    ///
    /// # Errors
    /// When the columns are of another kind, hold no sound objects, or differ in length from the names.
    pub fn append(&mut self, names: StringArray, columns: &[ArrayRef]) -> Result<(), String> {
        self.keep_all()?;
        if columns.iter().any(|column| column.len() != names.len()) || names.null_count() > 0 {
            return Err("each object has a name, and each name an object".to_owned());
        }
        match names.is_empty() {
            true => Ok(()),
            false => self.keep_batch(names, columns),
        }
    }

    /// Whether there are enough objects to [take](Rows::take) them.
    pub fn is_full(&self, rows: usize) -> bool {
        self.rows >= rows || K::is_full(&self.builder)
    }

    /// Takes out the names and columns of the objects so far.
    pub fn take(&mut self) -> (StringArray, Vec<ArrayRef>) {
        self.rows = 0;
        (self.names.finish_texts(), K::finish(&mut self.builder))
    }

    /// Moves the objects so far into a batch, if they fill one.
    ///
    /// # Errors
    /// When the system gives no memory for them.
    pub fn keep(&mut self) -> Result<(), String> {
        if self.is_full(BATCH_ROWS) { self.keep_all() } else { Ok(()) }
    }

    fn keep_all(&mut self) -> Result<(), String> {
        if self.rows == 0 {
            return Ok(());
        }
        let (names, columns) = self.take();
        self.keep_batch(names, &columns)
    }

    fn keep_batch(&mut self, names: StringArray, columns: &[ArrayRef]) -> Result<(), String> {
        let whole = self.kind.batch(columns)?;
        let bytes = columns.iter().map(|column| column.get_buffer_memory_size()).sum();
        let rows = names.len();
        self.checksum.add::<K>(&names, &whole, rows);
        let (idx, first) = (self.batches.len(), self.len);
        let (names, whole) = (OnceLock::from(names), OnceLock::from(whole));
        self.batches.push(Batch { part: 0, idx, first, rows: rows as u64, bytes, names, whole });
        self.len += rows as u64;
        Ok(())
    }

    /// The store of all objects, at least one, named after the file from which they came. `alpha` is that of the file, if
    /// it says one.
    ///
    /// # Errors
    /// When there is no object, or no memory.
    pub fn finish(self, path: &Path, alpha: Option<f64>) -> Result<ObjectStore<K>, BoxError> {
        self.finish_without(Vec::new(), path, alpha)
    }

    /// As [`Rows::finish`], with some objects removed: their ids, ascending, have no objects, and those of the others stay.
    ///
    /// # Errors
    /// As [`Rows::finish`], and when an id is not that of an object, or all objects are removed.
    pub fn finish_without(
        mut self,
        removed: Vec<u64>,
        path: &Path,
        alpha: Option<f64>,
    ) -> Result<ObjectStore<K>, BoxError> {
        let refused = |reason: &str| BoxError::new(format!("`{}` {reason}", path.display()));
        self.keep_all().map_err(|reason| refused(&reason))?;
        if self.is_empty() {
            return Err(refused("holds no objects"));
        }
        let Self { kind, batches, len, checksum, .. } = self;
        let mut history = vec![(format!("{}-{len:x}-{:08x}", K::NAME, checksum.finish()), len)];
        let mut of_store = Removed::default();
        if !removed.is_empty() {
            history.push((removed::text(&removed).1, len));
            if !removed.is_sorted_by(|a, b| a < b) || !of_store.add(removed, len) {
                return Err(refused("lacks an object that is to be removed"));
            }
            if of_store.len() == len {
                return Err(refused("would have no objects left"));
            }
        }
        let files = Files {
            path: path.to_owned(),
            parts: Vec::new(),
            removed: of_store,
            history,
            access: Access::Read,
            info: StoreInfo { alpha, ..StoreInfo::default() },
        };
        let (number, by_name) = (new_number(), OnceLock::new());
        Ok(ObjectStore { files, kind, batches, len, number, by_name, machine: None })
    }
}

impl Checksum {
    fn add<K: Kind>(&mut self, names: &StringArray, batch: &K::Batch, rows: usize) {
        let mut bytes = Vec::new();
        for row in 0..rows {
            let name = names.value(row);
            self.names.update(&(name.len() as u64).to_le_bytes());
            self.names.update(name.as_bytes());
            bytes.clear();
            self.end += K::append_bytes(K::item(batch, row), &mut bytes) as u64;
            self.numbers.update(&bytes);
            self.ends.update(&self.end.to_le_bytes());
        }
    }

    /// The checksum of all three in sequence.
    fn finish(mut self) -> u32 {
        self.names.combine(&self.numbers);
        self.names.combine(&self.ends);
        self.names.finalize()
    }
}

#[cfg(test)]
mod tests {
    use boxwork_kernels::vector::VectorRef;

    use super::*;
    use crate::kinds::Vectors;

    #[test]
    fn objects_are_located_in_batches_of_any_sizes() {
        for sizes in [vec![4], vec![5, 5, 5, 2], vec![3, 5, 5, 1, 9], vec![7, 1, 1, 1], vec![1, 6, 2]] {
            let mut rows = Rows::new(Vectors::new(1));
            for size in &sizes {
                for row in 0..*size {
                    rows.push(&row.to_string(), |to| Vectors::push(to, VectorRef::F32(&[1.0]))).unwrap();
                }
                let (names, columns) = rows.take();
                rows.append(names, &columns).unwrap();
            }
            let store = rows.finish_without(Vec::new(), Path::new("rows"), None).unwrap();
            let places =
                sizes.iter().enumerate().flat_map(|(batch, size)| (0..*size).map(move |at| (batch, at)));
            let found: Vec<(usize, usize)> = (0..store.len()).map(|id| store.locate(id).unwrap()).collect();
            assert_eq!(found, places.collect::<Vec<_>>(), "{sizes:?}");
            assert!(store.locate(store.len()).is_err());
        }
    }
}
