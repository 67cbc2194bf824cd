//! Stores of signatures, and what only they have.

use std::path::Path;
use std::sync::Arc;

use boxwork_kernels::sqfd::SignatureRef;

use crate::kinds::signatures::{Signatures, SizedSignature};
use crate::object_store::{self, ObjectStore};
use crate::store::Store;

pub use crate::kinds::signatures::SignaturesBatch;
pub use crate::object_store::{StoreInfo, TemporaryFile};
pub use crate::store_error::{StoreError, way_out};

/// A store of signatures.
pub type SignatureStore = ObjectStore<Signatures>;
/// The objects of a store of signatures, lent.
pub type Objects<'a> = object_store::Objects<'a, Signatures>;
/// An unfinished store of signatures.
pub type StoreWriter = object_store::StoreWriter<Signatures>;
/// A change of a store of signatures.
pub type StoreChange = object_store::StoreChange<Signatures>;

impl dyn Store {
    /// The store as a store of signatures, if it is one.
    pub fn as_signatures(self: Arc<Self>) -> Option<Arc<SignatureStore>> {
        SignatureStore::of(&self)
    }
}

impl ObjectStore<Signatures> {
    /// Number of coordinates of a centroid.
    pub fn dimensions(&self) -> usize {
        self.coordinates().len()
    }

    /// The mean number of centroids in the first batches, by their bytes: the names count, too, so it is too large rather than
    /// too small. Objects that come from no file count as long.
    pub fn centroids_mean(&self) -> usize {
        const BATCHES: usize = 16;
        let (mut bytes, mut objects) = (0, 0);
        for batch in 0..self.batches().min(BATCHES) {
            bytes += self.batch_bytes(batch);
            objects += (self.ids(batch).end - self.ids(batch).start) as usize;
        }
        let centroid = size_of::<f32>() * (self.dimensions() + 1);
        if bytes == 0 { usize::MAX } else { bytes / (centroid * objects.max(1)) }
    }

    /// Names of the coordinates, in their order.
    pub fn coordinates(&self) -> &[String] {
        self.kind().coordinates()
    }

    /// Refuses signatures whose coordinates differ from the store's.
    ///
    /// # Errors
    /// Names both.
    pub fn check_coordinates<S: AsRef<str>>(&self, wanted: &[S]) -> Result<(), StoreError> {
        let wanted: Vec<&str> = wanted.iter().map(AsRef::as_ref).collect();
        if self.coordinates() == wanted {
            return Ok(());
        }
        Err(StoreError::OtherShape {
            path: self.path().to_owned(),
            kind: "signatures",
            found: format!("{:?}", self.coordinates()),
            wanted: format!("{wanted:?}"),
        })
    }
}

impl<'a> object_store::Objects<'a, Signatures> {
    /// The signature of an object.
    ///
    /// # Errors
    /// When there is no such object, or its batch is damaged.
    pub fn signature(self, id: u64) -> Result<SignatureRef<'a>, StoreError> {
        let (batch, row) = self.store().locate(id)?;
        Ok(self.batch(batch)?.columns().signature(row))
    }

    /// Width and height of an object's image in pixels; 0 without an image.
    ///
    /// # Errors
    /// As [`Objects::signature`].
    pub fn size(self, id: u64) -> Result<(u32, u32), StoreError> {
        let (batch, row) = self.store().locate(id)?;
        Ok(self.batch(batch)?.size(row))
    }
}

impl object_store::StoreWriter<Signatures> {
    /// Starts a store of signatures with these coordinates and the final name `path`.
    ///
    /// # Errors
    /// When the folder cannot be written to, or the coordinates are none or too many.
    pub fn create<S: AsRef<str>>(
        path: &Path,
        coordinates: &[S],
        info: &StoreInfo,
    ) -> Result<Self, StoreError> {
        let kind = Signatures::new(coordinates)
            .map_err(|error| StoreError::Metadata { path: path.to_owned(), reason: error.to_string() })?;
        Self::of(path, &kind, info)
    }

    /// Appends an object; its id is its index. A size of 0 x 0 means that there is no image.
    ///
    /// # Errors
    /// When the signature is invalid, its name is taken, or the file cannot be written.
    ///
    /// # Panics
    /// When the signature has another number of coordinates than the store.
    pub fn push(
        &mut self,
        name: &str,
        signature: SignatureRef<'_>,
        width: u32,
        height: u32,
    ) -> Result<(), StoreError> {
        self.push_item(name, SizedSignature { signature, width, height })
    }
}

impl object_store::StoreChange<Signatures> {
    /// Adds a signature. It may have the name of an object that this change removes.
    ///
    /// # Errors
    /// When the signature is invalid, its name is taken, or the file cannot be written.
    ///
    /// # Panics
    /// When the signature has another number of coordinates than the store.
    pub fn push(
        &mut self,
        name: &str,
        signature: SignatureRef<'_>,
        width: u32,
        height: u32,
    ) -> Result<(), StoreError> {
        self.push_item(name, SizedSignature { signature, width, height })
    }
}
