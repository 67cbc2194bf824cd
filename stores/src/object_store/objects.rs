//! A store's objects, as lent to a reader.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_schema::Schema;

use super::{ObjectStore, StoreError, layout};
use crate::kinds::Kind;

/// The objects of a store, within an [`ObjectStore::read`].
///
/// It borrows the map, so that a reader's closure can return only copies.
#[derive(Debug)]
pub struct Objects<'a, K: Kind> {
    store: &'a ObjectStore<K>,
}

impl<K: Kind> Clone for Objects<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Kind> Copy for Objects<'_, K> {}

impl<'a, K: Kind> Objects<'a, K> {
    pub(crate) fn new(store: &'a ObjectStore<K>) -> Self {
        Self { store }
    }

    /// The store.
    pub fn store(self) -> &'a ObjectStore<K> {
        self.store
    }

    /// A batch; checked at its first use, which reads all of it.
    ///
    /// # Errors
    /// When the batch is damaged.
    ///
    /// # Panics
    /// When there is no such batch.
    #[inline]
    pub fn batch(self, batch: usize) -> Result<&'a K::Batch, StoreError> {
        self.store.batch(batch)
    }

    /// An object.
    ///
    /// # Errors
    /// When there is no such object, or its batch is damaged.
    #[inline]
    pub fn item(self, id: u64) -> Result<K::Item<'a>, StoreError> {
        let (batch, row) = self.store.locate(id)?;
        Ok(K::item(self.batch(batch)?, row))
    }

    /// The name of an object.
    ///
    /// # Errors
    /// As [`Objects::item`].
    pub fn name(self, id: u64) -> Result<&'a str, StoreError> {
        let (batch, row) = self.store.locate(id)?;
        Ok(self.store.names(batch)?.value(row))
    }

    /// The names of a batch's objects; their first use checks them, but not the objects.
    ///
    /// # Errors
    /// When they are damaged.
    ///
    /// # Panics
    /// When there is no such batch.
    pub fn names(self, batch: usize) -> Result<impl Iterator<Item = &'a str>, StoreError> {
        let names = self.store.names(batch)?;
        Ok((0..names.len()).map(|row| names.value(row)))
    }

    /// The names and columns of some rows of a batch, copied, including removed objects.
    ///
    /// # Errors
    /// When the batch is damaged.
    ///
    /// # Panics
    /// When there is no such batch or row.
    pub fn copied(self, batch: usize, rows: Range<usize>) -> Result<RecordBatch, StoreError> {
        let first = self.store.ids(batch).start;
        let names = self.store.names(batch)?;
        let names = StringArray::from_iter_values(rows.clone().map(|row| names.value(row)));
        let mut columns: Vec<ArrayRef> = vec![Arc::new(names)];
        columns.extend(self.columns(rows.map(|row| first + row as u64))?);
        let fields = layout::schema(&self.store.kind, Default::default()).fields;
        let schema = Arc::new(Schema::new(fields.iter().skip(1).map(Arc::clone).collect::<Vec<_>>()));
        let damaged = |error: arrow_schema::ArrowError| self.damaged(error.to_string());
        RecordBatch::try_new(schema, columns).map_err(damaged)
    }

    /// The [columns](Kind::columns) of some objects, copied.
    ///
    /// # Errors
    /// As [`Objects::item`]; and when the system gives no memory for them.
    pub fn columns(self, ids: impl IntoIterator<Item = u64>) -> Result<Vec<ArrayRef>, StoreError> {
        let mut builder = self.store.kind.builder();
        for id in ids {
            K::push(&mut builder, self.item(id)?).map_err(|reason| self.damaged(reason))?;
        }
        Ok(K::finish(&mut builder))
    }

    fn damaged(self, reason: String) -> StoreError {
        StoreError::Damaged { path: self.store.path().to_owned(), place: "an object".to_owned(), reason }
    }
}
