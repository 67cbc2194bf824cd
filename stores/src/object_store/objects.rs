//! What a store lends to a reader.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use boxwork_kernels::sqfd::SignatureRef;

use super::batch::copied;
use super::{SignatureStore, StoreBatch, StoreError};

/// The objects of a store, within a [`SignatureStore::read`].
///
/// All of it borrows the map, so that a reader's closure can return only copies.
#[derive(Clone, Copy, Debug)]
pub struct Objects<'a> {
    store: &'a SignatureStore,
}

impl<'a> Objects<'a> {
    pub(crate) fn new(store: &'a SignatureStore) -> Self {
        Self { store }
    }

    /// The store.
    pub fn store(self) -> &'a SignatureStore {
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
    pub fn batch(self, batch: usize) -> Result<&'a StoreBatch, StoreError> {
        self.store.batch(batch)
    }

    /// The signature of an object.
    ///
    /// # Errors
    /// When there is no such object, or its batch is damaged.
    pub fn signature(self, id: u64) -> Result<SignatureRef<'a>, StoreError> {
        let (batch, row) = self.store.locate(id)?;
        Ok(self.batch(batch)?.columns().signature(row))
    }

    /// Width and height of an object's image in pixels, 0 where there is none.
    ///
    /// # Errors
    /// As [`Objects::signature`].
    pub fn size(self, id: u64) -> Result<(u32, u32), StoreError> {
        let (batch, row) = self.store.locate(id)?;
        Ok(self.batch(batch)?.size(row))
    }

    /// The name of an object.
    ///
    /// # Errors
    /// As [`Objects::signature`].
    pub fn name(self, id: u64) -> Result<&'a str, StoreError> {
        let (batch, row) = self.store.locate(id)?;
        Ok(self.store.names(batch)?.value(row))
    }

    /// The names of a batch's objects; checked at their first use, without the centroids.
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

    /// The columns name, signature, width and height of some rows of a batch, copied, those of removed objects too.
    ///
    /// # Errors
    /// When the batch is damaged.
    ///
    /// # Panics
    /// When there is no such batch or row.
    pub fn copied(self, batch: usize, rows: Range<usize>) -> Result<RecordBatch, StoreError> {
        let damaged = |error: arrow_schema::ArrowError| self.store.damaged(batch, error.to_string());
        let mut columns: Vec<ArrayRef> = vec![copied(self.store.names(batch)?, &rows).map_err(damaged)?];
        columns.extend(self.batch(batch)?.copied(&rows).map_err(damaged)?);
        let schema = self.store.parts[0].schema.project(&[1, 2, 3, 4]).map_err(damaged)?;
        RecordBatch::try_new(Arc::new(schema), columns).map_err(damaged)
    }
}
