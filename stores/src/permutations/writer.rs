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
            self.waiting.resize(self.waiting.len() + self.length, 0);
            self.write_full_batch()?;
        }
        Ok(())
    }

    fn write_full_batch(&mut self) -> Result<(), PermutationError> {
        if self.waiting.len() == layout::ROWS * self.length { self.write_batch() } else { Ok(()) }
    }

    fn write_batch(&mut self) -> Result<(), PermutationError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let column = |place: usize| -> ArrayRef {
            Arc::new(UInt16Array::from_iter_values(
                self.waiting.iter().skip(place).step_by(self.length).copied(),
            ))
        };
        self.file.write((0..self.length).map(column).collect())?;
        self.first += (self.waiting.len() / self.length) as u64;
        self.waiting.clear();
        Ok(())
    }
}
