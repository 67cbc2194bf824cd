//! Writes a sketch, or a file that follows one, batch by batch.
//!
//! Nothing exists under the sketch's name until [`SketchWriter::finish`] has put all of it on disk; a dropped writer leaves
//! nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Float16Type;
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_schema::Metadata;
use boxwork_kernels::sketch::{COORDINATES, coordinate};
use half::f16;

use super::super::object_store::real_path;
use super::super::packed_file::{PackedWriter, next_part, next_path, remove_parts};
use super::{Sketch, SketchError, SketchMaker, layout};
use crate::store::Store;

/// An unfinished sketch.
pub struct SketchWriter {
    path: PathBuf,
    file: PackedWriter,
    maker: Arc<SketchMaker>,
    norm_max: f64,
    /// Sketches of the unfinished batch; zeros for removed objects.
    waiting: Vec<u16>,
    /// The id of the first object in `waiting`.
    first: u64,
    /// Whether the file is a whole one that takes the place of another, with its parts.
    is_whole: bool,
    /// Whether the file has the directions, if there are any.
    has_basis: bool,
}

impl SketchWriter {
    /// Starts the sketch of a space.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(path: &Path, maker: Arc<SketchMaker>) -> Result<Self, SketchError> {
        // The target of a link is replaced, not the link.
        let whole = real_path(path);
        Self::new(&whole, whole.clone(), maker, layout::FORMAT.whole, None)
    }

    /// Starts the sketch of a compacted store, which replaces this one.
    pub(super) fn replacing(
        sketch: &Sketch,
        path: &Path,
        maker: Arc<SketchMaker>,
    ) -> Result<Self, SketchError> {
        let whole = real_path(path);
        let next = next_path(&whole);
        if next.symlink_metadata().is_ok() {
            return Err(SketchError::InTheWay { path: next, sketch: whole });
        }
        let replaces = (layout::REPLACES_KEY, sketch.fingerprint.clone());
        let mut writer = Self::new(&whole, next, maker, layout::FORMAT.whole, Some(replaces))?;
        writer.is_whole = false;
        Ok(writer)
    }

    /// Starts the file that follows a sketch; the sketch covers the first objects of its space.
    pub(super) fn following(sketch: &Sketch) -> Result<Self, SketchError> {
        let path = next_part(&sketch.path, &sketch.last, layout::FORMAT);
        let follows = (layout::FOLLOWS_KEY, sketch.last.fingerprint.clone());
        let maker = Arc::clone(&sketch.maker);
        let mut writer = Self::new(&sketch.path, path, maker, layout::FORMAT.part, Some(follows))?;
        (writer.first, writer.norm_max) = (sketch.len, sketch.norm_max);
        (writer.is_whole, writer.has_basis) = (false, false);
        Ok(writer)
    }

    fn new(
        whole: &Path,
        path: PathBuf,
        maker: Arc<SketchMaker>,
        format: &str,
        link: Option<(&'static str, String)>,
    ) -> Result<Self, SketchError> {
        let space = maker.space();
        let head = [
            (layout::FORMAT_KEY, format.to_owned()),
            (layout::STORE_KEY, space.store().fingerprint().to_owned()),
            (layout::MEASURE_KEY, space.measure()),
            (layout::CREATOR_KEY, layout::CREATOR.to_owned()),
        ];
        let head = head.into_iter().chain(maker.head()).chain(link);
        let metadata = Metadata::from_iter(head.map(|(key, value)| (key.to_owned(), value)));
        let file = PackedWriter::create(whole, &path, &layout::schema(metadata))?;
        let waiting = Vec::with_capacity(layout::ROWS * COORDINATES);
        Ok(Self { path, file, maker, norm_max: 0.0, waiting, first: 0, is_whole: true, has_basis: true })
    }

    fn store(&self) -> &Arc<dyn Store> {
        self.maker.space().store()
    }

    /// The smallest id that the next object may have: all before it are written.
    pub fn len(&self) -> u64 {
        self.first + (self.waiting.len() / COORDINATES) as u64
    }

    /// Whether no object has come yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the sketches of the next objects of the store, in order. Skips ids of removed objects.
    ///
    /// # Errors
    /// When the file cannot be written, or there are more sketches than objects.
    ///
    /// # Panics
    /// When these are not whole sketches.
    pub fn push(&mut self, sketches: &[u16]) -> Result<(), SketchError> {
        let (sketches, rest) = sketches.as_chunks::<COORDINATES>();
        assert!(rest.is_empty(), "whole sketches");
        for sketch in sketches {
            self.pass_over_removed()?;
            let norm = sketch.iter().map(|bits| f64::from(coordinate(*bits)).powi(2)).sum::<f64>().sqrt();
            self.norm_max = self.norm_max.max(norm);
            self.waiting.extend_from_slice(sketch);
            self.write_full_batch()?;
        }
        Ok(())
    }

    /// Puts the sketch on disk under its name and returns the number of its ids.
    ///
    /// # Errors
    /// When not all objects of the store have come, or the file cannot be written.
    pub fn finish(mut self) -> Result<u64, SketchError> {
        self.pass_over_removed()?;
        self.write_batch()?;
        let (written, store) = (self.first, self.store());
        if written != store.ids_count() {
            let (found, objects) = (store.count(0..written.min(store.ids_count())), store.objects_count());
            return Err(SketchError::Incomplete { path: self.path, found, objects });
        }
        // Sketches of a file that is being truncated must not outlive the run.
        store.confirm()?;
        let basis = self.maker.basis().filter(|_| self.has_basis).map(layout::basis_note);
        self.file.finish([layout::norm_note(self.norm_max)].into_iter().chain(basis))?;
        if self.is_whole {
            remove_parts(&self.path, layout::FORMAT);
        }
        Ok(written)
    }

    fn pass_over_removed(&mut self) -> Result<(), SketchError> {
        while self.len() < self.store().ids_count() && !self.store().has(self.len()) {
            self.waiting.resize(self.waiting.len() + COORDINATES, 0);
            self.write_full_batch()?;
        }
        Ok(())
    }

    fn write_full_batch(&mut self) -> Result<(), SketchError> {
        if self.waiting.len() == layout::ROWS * COORDINATES { self.write_batch() } else { Ok(()) }
    }

    fn write_batch(&mut self) -> Result<(), SketchError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let column = |number: usize| -> ArrayRef {
            let column = self.waiting.iter().skip(number).step_by(COORDINATES);
            Arc::new(PrimitiveArray::<Float16Type>::from_iter_values(
                column.map(|bits| f16::from_bits(*bits)),
            ))
        };
        self.file.write((0..COORDINATES).map(column).collect())?;
        self.first += (self.waiting.len() / COORDINATES) as u64;
        self.waiting.clear();
        Ok(())
    }
}
