//! A store of objects of any kind as a [`Store`].

use std::hint::black_box;
use std::ops::Range;
use std::path::Path;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use boxwork_kernels::interrupt::Interrupt;

use super::part::Part;
use super::{ObjectStore, StoreError};
use crate::kinds::Kind;
use crate::store::Store;

/// Names that are looked up before the first of them is given.
const NAMES_AT_ONCE: usize = 32;

impl<K: Kind> ObjectStore<K> {
    /// The batches of some ids as far as they lie in files: their numbers, their files, and their numbers there.
    fn batches_of(&self, ids: Range<u64>) -> impl Iterator<Item = (usize, &Part, usize)> {
        let upto = ids.end.min(self.len());
        let ends = self.locate(ids.start).and_then(|first| Ok((first.0, self.locate(upto.max(1) - 1)?.0)));
        let batches = ends.map_or(0..0, |(first, last)| first..last + 1);
        batches.filter_map(|idx| {
            let batch = &self.batches[idx];
            Some((idx, &**self.files.parts.get(batch.part)?, batch.idx))
        })
    }
}

impl<K: Kind> Store for ObjectStore<K> {
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

    fn kind(&self) -> &'static str {
        K::NAME
    }

    fn usual_distance(&self) -> &'static str {
        K::USUAL_DISTANCE
    }

    fn object_type(&self) -> DataType {
        self.kind.object_type()
    }

    fn ids_count(&self) -> u64 {
        self.len()
    }

    fn objects_count(&self) -> u64 {
        ObjectStore::objects(self)
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

    fn bring_in_until(&self, ids: &[u64], interrupt: Interrupt<'_>) -> Result<(), StoreError> {
        self.bring_in_until(ids.iter().copied(), interrupt)
    }

    fn read_ahead(&self, ids: Range<u64>) -> bool {
        let mut is_by_system = true;
        for (idx, part, of_part) in self.batches_of(ids) {
            is_by_system &= !part.map.is_read();
            if !self.is_checked(idx) {
                part.read_ahead(of_part);
            }
        }
        is_by_system
    }

    fn let_go(&self, ids: Range<u64>) {
        self.batches_of(ids).for_each(|(_, part, of_part)| part.let_go(of_part));
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

    fn names(&self, ids: &mut dyn Iterator<Item = u64>, f: &mut dyn FnMut(&str)) -> Result<(), StoreError> {
        self.read(|objects| {
            let mut names = [""; NAMES_AT_ONCE];
            loop {
                // Objects lie all over the store: the first bytes of many names come from memory side by side.
                let (mut count, mut touched) = (0, 0);
                for (to, id) in names.iter_mut().zip(&mut *ids) {
                    *to = objects.name(id)?;
                    touched |= to.bytes().next().unwrap_or_default();
                    count += 1;
                }
                black_box(touched);
                names[..count].iter().for_each(|name| f(name));
                if count < NAMES_AT_ONCE {
                    return Ok(());
                }
            }
        })
    }

    fn find_until(&self, name: &str, interrupt: Interrupt<'_>) -> Result<Option<u64>, StoreError> {
        self.find_until(name, interrupt)
    }

    fn each_name(&self, batch: usize, f: &mut dyn FnMut(u64, &str)) -> Result<(), StoreError> {
        self.read(|objects| {
            objects.names(batch)?.zip(self.ids(batch)).for_each(|(name, id)| f(id, name));
            Ok(())
        })
    }

    fn objects(&self, ids: &[u64]) -> Result<ArrayRef, StoreError> {
        self.read(|objects| Ok(objects.columns(ids.iter().copied())?.swap_remove(0)))
    }

    fn columns(&self, ids: &[u64]) -> Result<Vec<ArrayRef>, StoreError> {
        self.read(|objects| objects.columns(ids.iter().copied()))
    }

    fn parse(&self, text: &str) -> Result<Option<ArrayRef>, String> {
        if K::FILLS_LINE {
            return Ok(None);
        }
        let form = || K::TEXT.to_owned();
        let value = K::json_of_text(text).ok_or_else(form)?;
        // With the text's own dimension: a query of another dimension is refused when distances are computed.
        let mut builder = K::of_json(&value).ok_or_else(form)??.builder();
        K::push_json(&mut builder, &value)?;
        Ok(Some(K::finish(&mut builder).swap_remove(0)))
    }

    fn parameters(&self) -> Option<&str> {
        self.parameters()
    }

    fn alpha(&self) -> Option<f64> {
        self.alpha()
    }

    fn source(&self) -> Option<&Path> {
        self.source()
    }
}
