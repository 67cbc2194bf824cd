//! The permutations of a store: for each object the numbers of the nearest pivots, in order
//! (`boxwork_kernels::permutation`).
//!
//! It is the content of `*.permutations.arrow` (`packed_file`). All of it is in memory, two bytes a place, so a request keeps its
//! snapshot whatever happens to the file. Several files with other pivots may serve one store.
//!
//! Invariant: permutations belong to the store and the measure of their space, by their fingerprints; any other file is refused.

mod error;
mod layout;
mod maker;
mod writer;
#[cfg(test)]
mod tests;

pub use error::PermutationError;
pub use maker::PermutationMaker;
pub use writer::PermutationWriter;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::interrupt::Interrupt;
use boxwork_kernels::permutation::{Lists, Measure};

use super::packed_file::PackedBatch;
use super::space::{Prepared, Space};

/// The permutations of all objects of a store.
#[derive(Debug)]
pub struct Permutations {
    path: PathBuf,
    maker: PermutationMaker,
    lists: Lists,
}

impl Permutations {
    /// Reads the permutations of a space. Blocks on the disk.
    ///
    /// # Errors
    /// When the file cannot be read, has no permutations, is cut short, damaged, of another version, of another store or of
    /// another measure, and when the caller interrupts.
    pub fn open(
        path: impl AsRef<Path>,
        space: &Arc<dyn Space>,
        interrupt: Interrupt<'_>,
    ) -> Result<Self, PermutationError> {
        let (path, store) = (path.as_ref(), space.store());
        let file = layout::FORMAT.open(path)?;
        let ids = store.ids_count();
        if store.ids_at(file.said(layout::STORE_KEY)) != Some(ids) {
            return Err(PermutationError::OtherStore {
                path: path.to_owned(),
                store: store.path().to_owned(),
            });
        }
        let (found, wanted) = (file.said(layout::MEASURE_KEY), space.measure());
        if found != wanted {
            let found = found.to_owned();
            return Err(PermutationError::OtherMeasure { path: path.to_owned(), found, wanted });
        }
        let (pivots, length) = (file.counts(file.said(layout::PIVOTS_KEY))?, file.fields().len());
        if let Some(pivot) = pivots.iter().find(|pivot| **pivot >= ids || !store.has(**pivot)) {
            return Err(file
                .damaged("its metadata", &format!("pivot {pivot} is no object of the store"))
                .into());
        }
        if *file.fields() != *layout::schema(length, Default::default()).fields() {
            return Err(file.not("its columns are not those of permutations").into());
        }
        if file.rows(layout::ROWS)? != ids {
            return Err(file.not_blocks().into());
        }
        let mut lists = Lists::new(pivots.len(), length)
            .map_err(|error| file.damaged("its metadata", &error.to_string()))?;
        file.each_batch(layout::ROWS, &mut |batch| append(&mut lists, &batch))?;
        let maker = PermutationMaker::of(space, pivots, length, interrupt)?;
        Ok(Self { path: path.to_owned(), maker, lists })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the list of a query.
    pub fn maker(&self) -> &PermutationMaker {
        &self.maker
    }

    /// The lists, by id; those of removed objects mean nothing.
    pub fn lists(&self) -> &Lists {
        &self.lists
    }

    /// The `count` objects whose permutations are most similar to a query's, in this order; equal ones by id. Nothing proves that the
    /// nearest objects are among them.
    ///
    /// # Errors
    /// When a distance of the query to a pivot cannot be computed, or the caller interrupts.
    pub fn candidates(
        &self,
        query: &dyn Prepared,
        measure: Measure,
        count: usize,
        interrupt: Interrupt<'_>,
    ) -> Result<Vec<u64>, PermutationError> {
        let list = self.maker.list(query, interrupt)?;
        let (path, store) = (CodePath::detect(), self.maker.space().store());
        let found = self.lists.candidates(path, measure, &list, count, |id| store.has(id as u64));
        Ok(found.into_iter().map(u64::from).collect())
    }
}

/// Appends the lists of a batch; `None` if they have a pivot that there is not.
fn append(lists: &mut Lists, batch: &PackedBatch<'_>) -> Option<()> {
    let columns = batch.columns(lists.length(), size_of::<u16>())?;
    let mut list = vec![0; lists.length()];
    for row in 0..batch.rows {
        for (place, column) in list.iter_mut().zip(&columns) {
            *place = u16::from_le_bytes([column[2 * row], column[2 * row + 1]]);
        }
        if list.iter().any(|pivot| usize::from(*pivot) >= lists.pivots()) {
            return None;
        }
        lists.push(&list);
    }
    Some(())
}
