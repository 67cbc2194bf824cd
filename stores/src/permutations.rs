//! The permutations of a store: for each object the numbers of the nearest pivots, in order
//! (`boxwork_kernels::permutation`).
//!
//! It is the content of `*.permutations.arrow` (`packed_file`). All of it is in memory, two bytes a place, so a request keeps its
//! snapshot whatever happens to the file. Several files with other pivots may serve one store.
//!
//! When the store grows, further files have the lists of the objects that were added, by the same pivots (`packed_file`); a pivot that
//! was removed from the store remains one until the store is compacted.
//!
//! Invariant: permutations belong to the store and the measure of their space, by their fingerprints; any other file is refused.

mod error;
mod layout;
mod maker;
mod writer;
mod compacted;
#[cfg(test)]
mod tests;

pub use error::PermutationError;
pub(crate) use layout::FORMAT;
pub use maker::PermutationMaker;
pub use writer::PermutationWriter;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::interrupt::{Interrupt, never};
use boxwork_kernels::permutation::{Lists, Measure};

use super::packed_file::{self, Last, PackedBatch};
use super::space::{Prepared, Space};
use super::spaces::DistanceOptions;
use crate::pivot_table::{SideBySide, each_side_by_side};

/// The permutations of all objects of a store.
#[derive(Debug)]
pub struct Permutations {
    path: PathBuf,
    maker: PermutationMaker,
    lists: Lists,
    /// Ids that have lists.
    len: u64,
    /// The fingerprint of the first file.
    fingerprint: String,
    last: Last,
}

/// Objects whose lists are made before they are written.
const OBJECTS_AT_ONCE: usize = 16_384;
/// Objects whose lists one piece of work makes.
const OBJECTS_PER_PIECE: usize = 256;

/// How much of the files is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    /// All lists of all objects.
    All,
    /// The ends only, for writing a further file: no lists, and perhaps of fewer objects.
    Ends,
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
        Self::read(path.as_ref(), space, Depth::All, interrupt)
    }

    fn read(
        path: &Path,
        space: &Arc<dyn Space>,
        depth: Depth,
        interrupt: Interrupt<'_>,
    ) -> Result<Self, PermutationError> {
        let store = space.store();
        let (file, name, ids) = packed_file::first(path, FORMAT, &**store)?;
        let Some(ids) = ids else {
            let store = store.path().to_owned();
            return Err(PermutationError::OtherStore { path: path.to_owned(), store });
        };
        let (found, wanted) = (file.said(layout::MEASURE_KEY), space.measure());
        if found != wanted {
            let found = found.to_owned();
            return Err(PermutationError::OtherMeasure { path: path.to_owned(), found, wanted });
        }
        let (pivots, length) = (file.counts(file.said(layout::PIVOTS_KEY))?, file.fields().len());
        if let Some(pivot) = pivots.iter().find(|pivot| **pivot >= ids) {
            let reason = format!("pivot {pivot} is no object of the store");
            return Err(file.damaged("its metadata", &reason).into());
        }
        layout::check(&file, length, ids)?;
        let mut lists = Lists::new(pivots.len(), length)
            .map_err(|error| file.damaged("its metadata", &error.to_string()))?;
        let fingerprint = file.fingerprint.clone();
        let (mut len, mut last) = (ids, Last { part: 0, fingerprint: fingerprint.clone() });
        let mut files = vec![file];
        while len < store.ids_count() {
            let next = packed_file::following(&name, FORMAT, &last, len, &**store)?;
            let Some((part, file, ids)) = next else { break };
            layout::check(&file, length, ids - len)?;
            last = Last { part, fingerprint: file.fingerprint.clone() };
            files.push(file);
            len = ids;
        }
        if depth == Depth::All {
            if len < store.ids_count() {
                let (store, objects) = (store.path().to_owned(), store.ids_count());
                return Err(PermutationError::Behind { path: path.to_owned(), store, found: len, objects });
            }
            for file in files {
                file.each_batch(layout::ROWS, &mut |batch| append(&mut lists, &batch))?;
            }
        }
        let maker = PermutationMaker::of(space, pivots, length, interrupt)?;
        Ok(Self { path: name, maker, lists, len, fingerprint, last })
    }

    /// The distance for which permutations were made.
    ///
    /// # Errors
    /// When the file cannot be read, has no permutations, or is of another version.
    pub(crate) fn measure_of(path: &Path) -> Result<DistanceOptions, PermutationError> {
        let file = FORMAT.open(path)?;
        let measure = DistanceOptions::parse(file.said(layout::MEASURE_KEY));
        Ok(measure.ok_or_else(|| file.not("it names no distance that this program knows"))?)
    }

    /// Brings permutations up to date with their space: makes the lists of the objects that were added since they were written, by
    /// the same pivots, and returns their number. Writes nothing if there are none.
    ///
    /// The store may be one that is not in effect yet. The caller holds its lock.
    ///
    /// # Errors
    /// As [`Permutations::open`], except that the store may have grown; and when a file cannot be written, or `side_by_side` was
    /// cancelled.
    pub(crate) fn append(
        path: &Path,
        space: &Arc<dyn Space>,
        side_by_side: &mut SideBySide<'_>,
    ) -> Result<u64, PermutationError> {
        let permutations = Self::read(path, space, Depth::Ends, &never)?;
        let store = space.store();
        if permutations.len == store.ids_count() {
            return Ok(0);
        }
        let writer = PermutationWriter::following(&permutations)?;
        let ids: Vec<u64> = store.among(permutations.len..store.ids_count()).collect();
        write_lists(&permutations.maker, &ids, writer, side_by_side)?;
        Ok(ids.len() as u64)
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

/// Makes the lists of objects with ascending ids, and writes them.
fn write_lists(
    maker: &PermutationMaker,
    ids: &[u64],
    mut writer: PermutationWriter,
    side_by_side: &mut SideBySide<'_>,
) -> Result<(), PermutationError> {
    for ids in ids.chunks(OBJECTS_AT_ONCE) {
        maker.space().store().bring_in(ids)?;
        let pieces: Vec<&[u64]> = ids.chunks(OBJECTS_PER_PIECE).collect();
        let made = each_side_by_side(side_by_side, pieces.len(), &|piece| {
            let mut lists = Vec::new();
            maker.append(pieces[piece], &mut lists, &never).map(|()| lists)
        });
        for lists in made.ok_or(PermutationError::Cancelled)? {
            writer.push(&lists?)?;
        }
    }
    writer.finish().map(drop)
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
