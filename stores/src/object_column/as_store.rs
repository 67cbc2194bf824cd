//! A column of objects as a [`Store`].

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{Float32Builder, ListBuilder, StringBuilder, UInt32Builder};
use arrow_schema::{DataType, Field};

use super::{Item, Items, List, ObjectColumn, ObjectKind, OwnedItem};
use crate::object_store::StoreError;
use crate::store::Store;

/// Objects of a batch.
const BATCH_ROWS: u64 = 4096;
/// Bytes whose checksum is taken at once.
const HASHED_BYTES: usize = 1 << 16;

impl ObjectColumn {
    /// The store as a column, where it is one.
    pub fn of(store: &Arc<dyn Store>) -> Option<Arc<Self>> {
        let any: Arc<dyn std::any::Any + Send + Sync> = Arc::<dyn Store>::clone(store);
        any.downcast().ok()
    }

    fn no_object(&self, id: u64) -> StoreError {
        StoreError::NoObject { path: self.path.clone(), id, count: self.len() }
    }

    fn checksum(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        for name in &self.names {
            hasher.update(&(name.len() as u64).to_le_bytes());
            hasher.update(name.as_bytes());
        }
        match &self.items {
            Items::Vectors(list) => list.hash(&mut hasher, |number| number.to_le_bytes()),
            Items::Texts(list) => list.hash(&mut hasher, |letter| u32::from(letter).to_le_bytes()),
            Items::Sets(list) => list.hash(&mut hasher, u32::to_le_bytes),
        }
        hasher.finalize()
    }
}

impl<T: Copy> List<T> {
    fn hash(&self, hasher: &mut crc32fast::Hasher, bytes: impl Fn(T) -> [u8; 4]) {
        let mut hashed = Vec::with_capacity(HASHED_BYTES);
        for numbers in self.numbers.chunks(HASHED_BYTES / 4) {
            hashed.clear();
            hashed.extend(numbers.iter().flat_map(|number| bytes(*number)));
            hasher.update(&hashed);
        }
        self.ends.iter().for_each(|end| hasher.update(&(*end as u64).to_le_bytes()));
    }
}

/// The field of a list's elements.
fn element(kind: DataType) -> Arc<Field> {
    Arc::new(Field::new("item", kind, false))
}

impl Store for ObjectColumn {
    fn path(&self) -> &Path {
        self.path()
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn fingerprint(&self) -> &str {
        self.fingerprint
            .get_or_init(|| format!("{}-{:x}-{:08x}", self.kind().name(), self.len(), self.checksum()))
    }

    fn object_type(&self) -> DataType {
        match self.kind() {
            ObjectKind::Vectors => DataType::List(element(DataType::Float32)),
            ObjectKind::Texts => DataType::Utf8,
            ObjectKind::Sets => DataType::List(element(DataType::UInt32)),
        }
    }

    fn ids_count(&self) -> u64 {
        self.len()
    }

    fn batches(&self) -> usize {
        self.len().div_ceil(BATCH_ROWS) as usize
    }

    fn batch_ids(&self, batch: usize) -> Range<u64> {
        assert!(batch < self.batches(), "batch {batch} of {}", self.batches());
        let first = batch as u64 * BATCH_ROWS;
        first..self.len().min(first + BATCH_ROWS)
    }

    fn locate(&self, id: u64) -> Result<(usize, usize), StoreError> {
        match id < self.len() {
            true => Ok(((id / BATCH_ROWS) as usize, (id % BATCH_ROWS) as usize)),
            false => Err(self.no_object(id)),
        }
    }

    fn name(&self, id: u64) -> Result<String, StoreError> {
        self.name(id).map(str::to_owned).ok_or_else(|| self.no_object(id))
    }

    fn find(&self, name: &str) -> Result<Option<u64>, StoreError> {
        Ok(self.find(name))
    }

    fn each_name(&self, batch: usize, f: &mut dyn FnMut(u64, &str)) -> Result<(), StoreError> {
        self.batch_ids(batch).for_each(|id| f(id, &self.names[id as usize]));
        Ok(())
    }

    fn objects(&self, ids: &[u64]) -> Result<ArrayRef, StoreError> {
        ids.iter().try_for_each(|id| self.locate(*id).map(drop))?;
        Ok(array(self.kind(), ids.iter().map(|id| self.item(*id))))
    }

    fn parse(&self, text: &str) -> Result<Option<ArrayRef>, String> {
        let object = match self.kind() {
            ObjectKind::Texts => OwnedItem::Text(text.chars().collect()),
            kind => {
                let value = serde_json::from_str(text).map_err(|_| "a list such as [1, 2]".to_owned())?;
                OwnedItem::of_json(&value, Some(kind))?
            }
        };
        Ok(Some(array(self.kind(), std::iter::once(object.item()))))
    }
}

/// Objects of one kind as an array, in their order.
fn array<'a>(kind: ObjectKind, items: impl Iterator<Item = Item<'a>>) -> ArrayRef {
    match kind {
        ObjectKind::Vectors => {
            let mut builder = ListBuilder::new(Float32Builder::new()).with_field(element(DataType::Float32));
            for item in items {
                let Item::Vector(vector) = item else { continue };
                builder.values().append_slice(vector);
                builder.append(true);
            }
            Arc::new(builder.finish())
        }
        ObjectKind::Texts => {
            let mut builder = StringBuilder::new();
            for item in items {
                let Item::Text(text) = item else { continue };
                builder.append_value(text.iter().collect::<String>());
            }
            Arc::new(builder.finish())
        }
        ObjectKind::Sets => {
            let mut builder = ListBuilder::new(UInt32Builder::new()).with_field(element(DataType::UInt32));
            for item in items {
                let Item::Set(set) = item else { continue };
                builder.values().append_slice(set);
                builder.append(true);
            }
            Arc::new(builder.finish())
        }
    }
}
