//! Writes permutations, or a file that follows some, batch by batch, as they come.
//!
//! Nothing exists under the file's name until [`PermutationWriter::finish`] has put all of it on disk; a dropped writer leaves
//! nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt16Array};
use arrow_schema::Metadata;

use super::super::object_store::real_path;
use super::super::packed_file::{PackedWriter, next_part, next_path, remove_parts};
use super::{PermutationError, PermutationMaker, Permutations, layout};
use crate::store::Store;

/// Lists whose places are read again and again while they are in the nearest cache.
const LISTS_AT_ONCE: usize = 64;

/// The lists of a batch of the file, arranged as its columns. Any thread may arrange them.
#[derive(Debug)]
pub struct PermutationBatch {
    /// The id of the first row.
    first: u64,
    columns: Vec<ArrayRef>,
}

impl PermutationBatch {
    /// Ids of a batch: a whole file has batches of the ids from a multiple of it to the next.
    pub const IDS: u64 = layout::ROWS as u64;

    /// The batch of a whole file that begins with the id `first`, from the lists of all its objects in order, in pieces of whole
    /// lists.
    ///
    /// # Panics
    /// When no batch begins with this id, or these are not the lists of its objects.
    pub fn new(store: &dyn Store, first: u64, lists: &[Vec<u16>], length: usize) -> Self {
        assert!(first.is_multiple_of(Self::IDS), "{first} begins no batch");
        let ids = first..store.ids_count().min(first + Self::IDS);
        let (rows, objects) = ((ids.end - ids.start) as usize, store.count(ids.clone()) as usize);
        let numbers: usize = lists.iter().map(Vec::len).sum();
        assert_eq!(numbers, objects * length, "lists of the batch's objects");
        let columns = if objects == rows {
            columns(lists.iter().map(Vec::as_slice), rows, length)
        } else {
            let mut all = Vec::with_capacity(rows * length);
            let mut lists = lists.iter().flat_map(|lists| lists.chunks_exact(length));
            for id in ids {
                if store.has(id) {
                    all.extend_from_slice(lists.next().expect("counted above"));
                } else {
                    all.resize(all.len() + length, 0);
                }
            }
            columns([&all[..]], rows, length)
        };
        Self { first, columns }
    }
}

/// Lists, in pieces of whole ones, as a column for each place.
fn columns<'a>(pieces: impl IntoIterator<Item = &'a [u16]>, rows: usize, length: usize) -> Vec<ArrayRef> {
    let mut columns: Vec<Vec<u16>> = Vec::new();
    columns.resize_with(length, || Vec::with_capacity(rows));
    for lists in pieces.into_iter().flat_map(|piece| piece.chunks(LISTS_AT_ONCE * length)) {
        for (place, column) in columns.iter_mut().enumerate() {
            column.extend(lists.iter().skip(place).step_by(length));
        }
    }
    columns.into_iter().map(|column| Arc::new(UInt16Array::from(column)) as ArrayRef).collect()
}

/// An unfinished file of permutations.
pub struct PermutationWriter {
    path: PathBuf,
    file: PackedWriter,
    store: Arc<dyn Store>,
    length: usize,
    /// Lists of the unfinished batch; zeros for removed objects.
    waiting: Vec<u16>,
    /// The id of the first object in `waiting`.
    first: u64,
    /// Whether the file is a whole one that takes the place of another, with its parts.
    is_whole: bool,
}

impl PermutationWriter {
    /// Starts the file of a maker's space.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(path: &Path, maker: &PermutationMaker) -> Result<Self, PermutationError> {
        // The target of a link is replaced, not the link.
        let whole = real_path(path);
        Self::new(&whole, whole.clone(), maker, layout::FORMAT.whole, None)
    }

    /// Starts the permutations of a compacted store, which replace others.
    pub(super) fn replacing(
        permutations: &Permutations,
        path: &Path,
        maker: &PermutationMaker,
    ) -> Result<Self, PermutationError> {
        let whole = real_path(path);
        let next = next_path(&whole);
        if next.symlink_metadata().is_ok() {
            return Err(PermutationError::InTheWay { path: next, permutations: whole });
        }
        let replaces = (layout::REPLACES_KEY, permutations.fingerprint.clone());
        let mut writer = Self::new(&whole, next, maker, layout::FORMAT.whole, Some(replaces))?;
        writer.is_whole = false;
        Ok(writer)
    }

    /// Starts the file that follows permutations, which cover the first objects of their space.
    pub(super) fn following(permutations: &Permutations) -> Result<Self, PermutationError> {
        let path = next_part(&permutations.path, &permutations.last, layout::FORMAT);
        let follows = (layout::FOLLOWS_KEY, permutations.last.fingerprint.clone());
        let (whole, maker) = (&permutations.path, &permutations.maker);
        let mut writer = Self::new(whole, path, maker, layout::FORMAT.part, Some(follows))?;
        (writer.first, writer.is_whole) = (permutations.len, false);
        Ok(writer)
    }

    fn new(
        whole: &Path,
        path: PathBuf,
        maker: &PermutationMaker,
        format: &str,
        link: Option<(&'static str, String)>,
    ) -> Result<Self, PermutationError> {
        let (space, length) = (maker.space(), maker.length());
        let pivots = serde_json::json!(maker.pivots()).to_string();
        let head = [
            (layout::FORMAT_KEY, format.to_owned()),
            (layout::VERSION_KEY, layout::VERSION.to_owned()),
            (layout::STORE_KEY, space.store().fingerprint().to_owned()),
            (layout::MEASURE_KEY, space.measure()),
            (layout::PIVOTS_KEY, pivots),
            (layout::CREATOR_KEY, layout::CREATOR.to_owned()),
        ];
        let head = head.into_iter().chain(link);
        let metadata = Metadata::from_iter(head.map(|(key, value)| (key.to_owned(), value)));
        let file = PackedWriter::create(whole, &path, &layout::schema(length, metadata))?;
        let waiting = Vec::with_capacity(layout::ROWS * length);
        Ok(Self { path, file, store: Arc::clone(space.store()), length, waiting, first: 0, is_whole: true })
    }

    /// The smallest id that the next object may have: all before it are written.
    pub fn len(&self) -> u64 {
        self.first + (self.waiting.len() / self.length) as u64
    }

    /// Whether no object has come yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the lists of the next objects of the store, in order. Skips ids of removed objects.
    ///
    /// # Errors
    /// When the file cannot be written.
    ///
    /// # Panics
    /// When these are not whole lists.
    pub fn push(&mut self, lists: &[u16]) -> Result<(), PermutationError> {
        assert!(lists.len().is_multiple_of(self.length), "whole lists");
        for list in lists.chunks_exact(self.length) {
            self.pass_over_removed()?;
            self.waiting.extend_from_slice(list);
            self.write_full_batch()?;
        }
        Ok(())
    }

    /// Appends a batch of a whole file. Skips ids of removed objects before it.
    ///
    /// # Errors
    /// When the file cannot be written.
    ///
    /// # Panics
    /// When the batch does not continue the file.
    pub fn push_batch(&mut self, batch: PermutationBatch) -> Result<(), PermutationError> {
        while self.len() < batch.first && !self.store.has(self.len()) {
            self.push_zeros()?;
        }
        let continues = self.len() == batch.first && self.waiting.is_empty();
        assert!(continues && batch.columns.len() == self.length, "a batch continues the file");
        let rows = batch.columns[0].len();
        self.file.write(batch.columns)?;
        self.first += rows as u64;
        Ok(())
    }

    /// Puts the file on disk under its name and returns the number of its ids.
    ///
    /// # Errors
    /// When not all objects of the store have come, or the file cannot be written.
    pub fn finish(mut self) -> Result<u64, PermutationError> {
        self.pass_over_removed()?;
        self.write_batch()?;
        let (found, objects) = (self.first, self.store.ids_count());
        if found != objects {
            return Err(PermutationError::Incomplete { path: self.path, found, objects });
        }
        // Lists of a file that is being truncated must not outlive the run.
        self.store.confirm()?;
        self.file.finish([])?;
        if self.is_whole {
            remove_parts(&self.path, layout::FORMAT);
        }
        Ok(found)
    }

    fn pass_over_removed(&mut self) -> Result<(), PermutationError> {
        while self.len() < self.store.ids_count() && !self.store.has(self.len()) {
            self.push_zeros()?;
        }
        Ok(())
    }

    /// Appends the row of a removed object.
    fn push_zeros(&mut self) -> Result<(), PermutationError> {
        self.waiting.resize(self.waiting.len() + self.length, 0);
        self.write_full_batch()
    }

    fn write_full_batch(&mut self) -> Result<(), PermutationError> {
        if self.waiting.len() == layout::ROWS * self.length { self.write_batch() } else { Ok(()) }
    }

    fn write_batch(&mut self) -> Result<(), PermutationError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let rows = self.waiting.len() / self.length;
        self.file.write(columns([&self.waiting[..]], rows, self.length))?;
        self.first += rows as u64;
        self.waiting.clear();
        Ok(())
    }
}
