//! The contract of a store: objects of one kind, by id, with their names and batches.
//!
//! An object's id is its row; ids of removed objects stay unused. A store keeps its objects in batches;
//! [`Store::bring_in`] reads and checks each once. Bytes of a mapped file count only if [`Store::confirm`] afterwards
//! finds the file unchanged.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, make_array};
use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, DataType};
use boxwork_kernels::interrupt::{Interrupt, never};

use crate::store_error::StoreError;

/// Objects of one kind.
pub trait Store: Any + Debug + Send + Sync {
    /// The file.
    fn path(&self) -> &Path;

    /// Unique in this process, also over time: caches and devices know the store by it.
    fn number(&self) -> u64;

    /// A text unique to this content, by which an index recognises its store.
    fn fingerprint(&self) -> &str;

    /// The number of ids that the store had when it had this fingerprint; `None` if it never had it, as far as it
    /// knows.
    fn ids_at(&self, fingerprint: &str) -> Option<u64> {
        (fingerprint == self.fingerprint()).then(|| self.ids_count())
    }

    /// The objects' name in the plural, such as `vectors`.
    fn kind(&self) -> &'static str;

    /// The distance by default.
    fn usual_distance(&self) -> &'static str;

    /// The Arrow type of an object.
    fn object_type(&self) -> DataType;

    /// Number of ids, at least 1. Equals the number of objects unless some were removed.
    fn ids_count(&self) -> u64;

    /// Number of objects, at least 1.
    fn objects_count(&self) -> u64 {
        self.ids_count()
    }

    /// Whether this id has an object.
    fn has(&self, id: u64) -> bool {
        id < self.ids_count()
    }

    /// The id of the `nth` object, counted from 0 without removed ones.
    ///
    /// # Panics
    /// When there are no more than `nth` objects.
    fn nth(&self, nth: u64) -> u64 {
        assert!(nth < self.ids_count(), "object {nth} of {}", self.ids_count());
        nth
    }

    /// The number of objects before an id: the inverse of [`Store::nth`].
    fn rank(&self, id: u64) -> u64 {
        id
    }

    /// Number of batches.
    fn batches(&self) -> usize;

    /// The ids of a batch.
    ///
    /// # Panics
    /// When there is no such batch.
    fn batch_ids(&self, batch: usize) -> Range<u64>;

    /// The batch of an object, and its row there.
    ///
    /// # Errors
    /// When there is no such id.
    fn locate(&self, id: u64) -> Result<(usize, usize), StoreError>;

    /// NUMA nodes to which batches are copied; 0 if they are not.
    fn nodes(&self) -> usize {
        0
    }

    /// The node of a batch, if batches are copied.
    fn node(&self, _batch: usize) -> Option<usize> {
        None
    }

    /// Whether all these objects have been read and checked, so that using them does not block.
    fn is_in(&self, _ids: &[u64]) -> bool {
        true
    }

    /// Reads and checks the batches of these objects. Blocks on the disk: boxes call it within `detached`.
    ///
    /// # Errors
    /// When a batch is damaged, or there is no such object.
    fn bring_in(&self, ids: &[u64]) -> Result<(), StoreError> {
        self.bring_in_until(ids, &never)
    }

    /// As [`Store::bring_in`], but the caller may interrupt it between two batches.
    ///
    /// # Errors
    /// As [`Store::bring_in`], and when the caller interrupts.
    fn bring_in_until(&self, _ids: &[u64], _interrupt: Interrupt<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    /// Asks the system to read the batches of some ids that will be used soon, and does not wait for them. Ids beyond the last are
    /// left out.
    ///
    /// Returns whether [`Store::bring_in`] of these ids mostly computes, so that slots may call it; false if it reads the
    /// file by itself.
    fn read_ahead(&self, _ids: Range<u64>) -> bool {
        true
    }

    /// Takes the batches of some ids out of the process's memory, if the system reads the file: they will not be used soon. Any use
    /// brings them back.
    fn let_go(&self, _ids: Range<u64>) {}

    /// Confirms that the file is unchanged since it was opened. Results of earlier reads count only after that.
    ///
    /// # Errors
    /// When the file was truncated or overwritten.
    fn confirm(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The name of an object. May block on the disk.
    ///
    /// # Errors
    /// When there is no such object, or its batch is damaged.
    fn name(&self, id: u64) -> Result<String, StoreError>;

    /// Calls `f` with the name of each of some objects, in their order. May block on the disk.
    ///
    /// # Errors
    /// As [`Store::name`].
    fn names(&self, ids: &mut dyn Iterator<Item = u64>, f: &mut dyn FnMut(&str)) -> Result<(), StoreError> {
        for id in ids {
            f(&self.name(id)?);
        }
        Ok(())
    }

    /// The object of a name. May block on the disk.
    ///
    /// # Errors
    /// When a batch is damaged.
    fn find(&self, name: &str) -> Result<Option<u64>, StoreError> {
        self.find_until(name, &never)
    }

    /// As [`Store::find`], but the caller may interrupt it while it reads names.
    ///
    /// # Errors
    /// As [`Store::find`], and when the caller interrupts.
    fn find_until(&self, name: &str, interrupt: Interrupt<'_>) -> Result<Option<u64>, StoreError>;

    /// Calls `f` with every id of a batch and its name, including removed objects. May block on the disk.
    ///
    /// # Errors
    /// When the batch is damaged.
    fn each_name(&self, batch: usize, f: &mut dyn FnMut(u64, &str)) -> Result<(), StoreError>;

    /// Copies objects into an array of [`Store::object_type`], in the order of `ids`.
    ///
    /// # Errors
    /// When there is no such object, or its batch is damaged.
    fn objects(&self, ids: &[u64]) -> Result<ArrayRef, StoreError>;

    /// As [`Store::objects`], with all further columns that the store's kind has beside ids and names; objects come
    /// first.
    ///
    /// # Errors
    /// As [`Store::objects`].
    fn columns(&self, ids: &[u64]) -> Result<Vec<ArrayRef>, StoreError> {
        Ok(vec![self.objects(ids)?])
    }

    /// Parses a text into an array of one object, if objects of this kind can be written as text.
    ///
    /// # Errors
    /// Describes the expected text, if this one is invalid.
    fn parse(&self, _text: &str) -> Result<Option<ArrayRef>, String> {
        Ok(None)
    }

    /// The parameters of the extraction, as JSON, if the objects were extracted and these are known.
    fn parameters(&self) -> Option<&str> {
        None
    }

    /// The alpha of searches that name none, if the objects are signatures and the store keeps one.
    fn alpha(&self) -> Option<f64> {
        None
    }

    /// The folder that contains the images, if the objects are images; names are paths in it.
    fn source(&self) -> Option<&Path> {
        None
    }
}

impl dyn Store {
    /// The ids of a range that have objects.
    pub fn among(&self, ids: Range<u64>) -> impl Iterator<Item = u64> + Clone + '_ {
        let has_all = self.ids_count() == self.objects_count();
        ids.filter(move |id| has_all || self.has(*id))
    }

    /// The number of objects in a range of ids.
    pub fn count(&self, ids: Range<u64>) -> u64 {
        self.rank(ids.end) - self.rank(ids.start)
    }
}

/// Concatenates arrays of one type.
///
/// # Errors
/// When they are of different types, or too long together.
pub fn concatenated(arrays: &[ArrayRef]) -> Result<ArrayRef, ArrowError> {
    let data: Vec<ArrayData> = arrays.iter().map(|array| array.to_data()).collect();
    let Some(first) = data.first() else {
        return Err(ArrowError::InvalidArgumentError("there is no array to begin with".to_owned()));
    };
    if let Some(other) = data.iter().find(|other| other.data_type() != first.data_type()) {
        let (first, other) = (first.data_type(), other.data_type());
        return Err(ArrowError::InvalidArgumentError(format!("an array is of {first}, another of {other}")));
    }
    let rows = data.iter().map(ArrayData::len).sum();
    let mut all = MutableArrayData::new(data.iter().collect(), false, rows);
    data.iter().enumerate().try_for_each(|(idx, data)| all.try_extend(idx, 0, data.len()))?;
    Ok(make_array(all.freeze()))
}

/// A store that boxes share: the value of a resource of the family `store`.
#[derive(Clone, Debug)]
pub struct SharedStore(pub Arc<dyn Store>);
