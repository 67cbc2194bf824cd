//! A listed kind as a value, and its rows, writers and changes.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use arrow_schema::DataType;
use boxwork_runtime::operator::BoxError;
use boxwork_runtime::topology::Topology;
use serde_json::Value;

use super::{AnyChange, AnyKind, AnyRows, AnyWriter, Head, of_another_form, unknown};
use crate::json_lines::write_line;
use crate::kinds::{Kind, OBJECT};
use crate::object_store::{
    Access, Compaction, Files, ObjectStore, PendingChange, Rows, StoreChange, StoreInfo, StoreWriter, copied,
};
use crate::store::Store;
use crate::store_error::StoreError;

/// A listed kind.
pub(super) struct Of<K>(PhantomData<fn() -> K>);

impl<K> Of<K> {
    pub(super) const NEW: Self = Self(PhantomData);
}

impl<K: Kind> Debug for Of<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(K::NAME)
    }
}

impl<K: Kind> AnyKind for Of<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn fills_line(&self) -> bool {
        K::FILLS_LINE
    }

    fn arrow_types(&self) -> &'static str {
        K::ARROW_TYPES
    }

    fn is_type(&self, kind: &DataType) -> bool {
        K::is_type(kind)
    }

    fn column_names(&self) -> &'static [&'static str] {
        K::COLUMN_NAMES
    }

    fn rows_of_json(&self, value: &Value) -> Option<Result<Box<dyn AnyRows>, String>> {
        Some(K::of_json(value)?.map(|kind| Box::new(Rows::new(kind)) as Box<dyn AnyRows>))
    }

    fn rows_of_array(&self, objects: &ArrayRef) -> Option<Box<dyn AnyRows>> {
        Some(Box::new(Rows::new(K::of_array(objects)?)))
    }

    fn write_lines(
        &self,
        names: &StringArray,
        columns: &[ArrayRef],
        head: Option<Head>,
        text: &mut String,
    ) -> Result<(), String> {
        let Some(objects) = columns.first().filter(|objects| !objects.is_empty()) else { return Ok(()) };
        let kind = K::of_array(objects).ok_or_else(|| {
            format!("the objects are {}, where {} are wanted", objects.data_type(), K::NAME)
        })?;
        let batch = kind.batch(columns)?;
        let key = if K::FILLS_LINE { None } else { Some(OBJECT) };
        for row in 0..objects.len() {
            let item = K::item(&batch, row);
            let head = head.filter(|_| row == 0);
            // Only a line that the object fills can say more than its name.
            let alpha = head.and_then(|head| head.alpha).filter(|_| K::FILLS_LINE);
            write_line(text, names.value(row), alpha, key, |text| {
                kind.write_json(item, head.is_some(), text);
            });
        }
        Ok(())
    }

    fn open(&self, files: Files, machine: Option<Topology>) -> Result<Arc<dyn Store>, StoreError> {
        let store = ObjectStore::<K>::of_files(files)?;
        Ok(Arc::new(match machine {
            Some(machine) => store.copied_to(machine),
            None => store,
        }))
    }

    fn create(
        &self,
        path: &Path,
        columns: &[ArrayRef],
        info: &StoreInfo,
    ) -> Option<Result<Box<dyn AnyWriter>, StoreError>> {
        let kind = K::of_array(columns.first()?)?;
        Some(StoreWriter::of(path, &kind, info).map(|writer| Box::new(writer) as Box<dyn AnyWriter>))
    }

    fn change(&self, path: &Path, access: Access) -> Result<Box<dyn AnyChange>, StoreError> {
        Ok(Box::new(StoreChange::<K>::begin_by(path, access)?))
    }

    fn compaction(
        &self,
        path: &Path,
        access: Access,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Compaction, StoreError> {
        Compaction::write::<K>(path, access, cancelled)
    }

    fn copy(
        &self,
        store: &Arc<dyn Store>,
        out: &Path,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<u64, StoreError> {
        let found = ObjectStore::<K>::of(store).ok_or_else(|| unknown(store.path(), store.kind()))?;
        copied(&found, out, out, cancelled)?.finish()
    }
}

impl<K: Kind> AnyRows for Rows<K> {
    fn kind(&self) -> &'static str {
        K::NAME
    }

    fn len(&self) -> u64 {
        self.len()
    }

    fn push_json(&mut self, name: &str, value: &Value) -> Result<(), String> {
        self.push(name, |builder| K::push_json(builder, value)).map_err(|reason| match K::of_json(value) {
            Some(_) => reason,
            None => of_another_form(value, Some(K::NAME)),
        })
    }

    fn push_row(&mut self, name: &str, columns: &[ArrayRef], row: usize) -> Result<(), String> {
        self.push(name, |builder| K::push_row(builder, columns, row))
    }

    fn is_full(&self, rows: usize) -> bool {
        self.is_full(rows)
    }

    fn take(&mut self) -> (StringArray, Vec<ArrayRef>) {
        self.take()
    }

    fn keep(&mut self) -> Result<(), String> {
        self.keep()
    }

    fn finish(self: Box<Self>, path: &Path, alpha: Option<f64>) -> Result<Arc<dyn Store>, BoxError> {
        Ok(Arc::new((*self).finish(path, alpha)?))
    }
}

impl<K: Kind> AnyWriter for StoreWriter<K> {
    fn len(&self) -> u64 {
        self.len()
    }

    fn push_rows(&mut self, names: &StringArray, columns: &[ArrayRef]) -> Result<(), StoreError> {
        self.check_kind(&kind_of(self.path(), columns)?)?;
        (0..columns[0].len()).try_for_each(|row| self.push_row(names.value(row), columns, row))
    }

    fn finish(self: Box<Self>) -> Result<u64, StoreError> {
        (*self).finish()
    }
}

impl<K: Kind> AnyChange for StoreChange<K> {
    fn store(&self) -> Arc<dyn Store> {
        Arc::<ObjectStore<K>>::clone(self.store())
    }

    fn check_kind(&self, columns: &[ArrayRef]) -> Result<(), StoreError> {
        let store = self.store();
        store.check_kind(&kind_of(store.path(), columns)?)
    }

    fn push_rows(
        &mut self,
        names: &StringArray,
        columns: &[ArrayRef],
        replaces: bool,
    ) -> Result<(), StoreError> {
        AnyChange::check_kind(self, columns)?;
        (0..columns[0].len()).try_for_each(|row| {
            let name = names.value(row);
            if replaces {
                self.remove_named(name)?;
            }
            self.push_row(name, columns, row)
        })
    }

    fn has_equal(&self, name: &str, columns: &[ArrayRef], row: usize) -> Result<bool, StoreError> {
        self.has_equal(name, columns, row)
    }

    fn added(&self) -> u64 {
        self.added()
    }

    fn remove(&mut self, id: u64) -> Result<bool, StoreError> {
        self.remove(id)
    }

    fn write(self: Box<Self>) -> Result<PendingChange, StoreError> {
        (*self).write()
    }
}

/// The kind of objects that are to be added to a store; an error if the store's objects are of another kind.
fn kind_of<K: Kind>(store: &Path, columns: &[ArrayRef]) -> Result<K, StoreError> {
    let objects = columns.first().filter(|objects| !objects.is_empty());
    objects.and_then(K::of_array).ok_or_else(|| StoreError::Metadata {
        path: store.to_owned(),
        reason: format!(
            "it holds {}, and the objects that came are {}",
            K::NAME,
            objects.map_or_else(|| "none".to_owned(), |objects| objects.data_type().to_string())
        ),
    })
}
