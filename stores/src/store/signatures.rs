//! A store of signatures as a [`Store`].

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use super::Store;
use crate::object_store::{SignatureStore, StoreError};
use crate::signature::{SignatureBuilder, SignatureError, signature_type};

impl Store for SignatureStore {
    fn path(&self) -> &Path {
        self.path()
    }

    fn number(&self) -> u64 {
        self.number()
    }

    fn fingerprint(&self) -> &str {
        self.fingerprint()
    }

    fn ids_at(&self, fingerprint: &str) -> Option<u64> {
        self.ids_at(fingerprint)
    }

    fn object_type(&self) -> DataType {
        signature_type(self.coordinates())
    }

    fn ids_count(&self) -> u64 {
        self.len()
    }

    fn objects_count(&self) -> u64 {
        SignatureStore::objects(self)
    }

    fn has(&self, id: u64) -> bool {
        self.has(id)
    }

    fn nth(&self, nth: u64) -> u64 {
        self.nth(nth)
    }

    fn rank(&self, id: u64) -> u64 {
        self.rank(id)
    }

    fn batches(&self) -> usize {
        self.batches()
    }

    fn batch_ids(&self, batch: usize) -> Range<u64> {
        self.ids(batch)
    }

    fn locate(&self, id: u64) -> Result<(usize, usize), StoreError> {
        self.locate(id)
    }

    fn nodes(&self) -> usize {
        self.nodes()
    }

    fn node(&self, batch: usize) -> Option<usize> {
        self.node(batch)
    }

    fn is_in(&self, ids: &[u64]) -> bool {
        self.is_in(ids.iter().copied())
    }

    fn bring_in(&self, ids: &[u64]) -> Result<(), StoreError> {
        self.bring_in(ids.iter().copied())
    }

    fn confirm(&self) -> Result<(), StoreError> {
        match self.is_whole() {
            true => Ok(()),
            false => Err(StoreError::Changed { path: self.path().to_owned() }),
        }
    }

    fn name(&self, id: u64) -> Result<String, StoreError> {
        self.name(id)
    }

    fn find(&self, name: &str) -> Result<Option<u64>, StoreError> {
        self.find(name)
    }

    fn each_name(&self, batch: usize, f: &mut dyn FnMut(u64, &str)) -> Result<(), StoreError> {
        self.read(|objects| {
            objects.names(batch)?.zip(self.ids(batch)).for_each(|(name, id)| f(id, name));
            Ok(())
        })
    }

    fn objects(&self, ids: &[u64]) -> Result<ArrayRef, StoreError> {
        let refused = |source: SignatureError| StoreError::Damaged {
            path: self.path().to_owned(),
            place: "a signature".to_owned(),
            reason: source.to_string(),
        };
        let mut builder = SignatureBuilder::new(self.coordinates()).map_err(refused)?;
        self.read(|objects| {
            ids.iter().try_for_each(|id| builder.push_signature(objects.signature(*id)?).map_err(refused))
        })?;
        Ok(Arc::new(builder.finish()))
    }

    fn source(&self) -> Option<&Path> {
        self.source()
    }

    fn as_signatures(self: Arc<Self>) -> Option<Arc<SignatureStore>> {
        Some(self)
    }
}
