//! The permutations of a store: for each object the numbers of the nearest pivots, in order
//! (`boxwork_kernels::permutation`).
//!
//! It is the content of `*.permutations.arrow` (`packed_file`). All of it is in memory, two bytes a place, so a request keeps its
//! snapshot whatever happens to the file. Several files with other pivots may serve one store.
//!
//! When the store grows, further files have the lists of the objects that were added, by the same pivots (`packed_file`); a pivot that
//! was removed from the store remains one until the store is compacted.
//!
//! A search scans the lists, or reads the objects of the query's pivots ([`Layout`]). The file is the same for both: lists are inverted
//! when they are read.
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
pub use writer::{PermutationBatch, PermutationWriter};

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::interrupt::{Interrupt, never};
use boxwork_kernels::permutation::{Comparison, Inverted, Lists};

use super::packed_file::{self, Last, PackedBatch};
use super::space::{Prepared, Space};
use super::spaces::DistanceOptions;
use crate::new_number;
use crate::pivot_table::{SideBySide, each_side_by_side};

/// How lists lie in memory. Candidates are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The one that is expected to be searched faster on this machine.
    Auto,
    /// A search compares the lists of all objects.
    Scan,
    /// A search reads the objects of the query's pivots.
    Inverted,
}

impl Layout {
    /// Their names.
    pub const NAMES: &'static [&'static str] = &["auto", "scan", "inverted"];
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "auto" => Ok(Self::Auto),
            "scan" => Ok(Self::Scan),
            "inverted" => Ok(Self::Inverted),
            other => {
                Err(format!("there is no layout of permutations `{other}`: take auto, scan or inverted"))
            }
        }
    }
}

/// Lists in one of the layouts.
#[derive(Debug)]
enum Held {
    Scan(Lists),
    Inverted(Inverted),
}

/// The permutations of all objects of a store.
#[derive(Debug)]
pub struct Permutations {
    path: PathBuf,
    maker: PermutationMaker,
    held: Held,
    number: u64,
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
    /// All lists of all objects, for this layout.
    All(Layout),
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
        layout: Layout,
        interrupt: Interrupt<'_>,
    ) -> Result<Self, PermutationError> {
        Self::read(path.as_ref(), space, Depth::All(layout), interrupt)
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
        if let Depth::All(_) = depth {
            if len < store.ids_count() {
                let (store, objects) = (store.path().to_owned(), store.ids_count());
                return Err(PermutationError::Behind { path: path.to_owned(), store, found: len, objects });
            }
            for file in files {
                file.each_batch(layout::ROWS, &mut |batch| append(&mut lists, &batch))?;
            }
        }
        let is_inverted = match depth {
            Depth::All(Layout::Auto) => Inverted::is_faster(CodePath::detect(), pivots.len(), length),
            Depth::All(layout) => layout == Layout::Inverted,
            Depth::Ends => false,
        };
        let held = if is_inverted { Held::Inverted(Inverted::of(&lists)) } else { Held::Scan(lists) };
        let maker = PermutationMaker::of(space, pivots, length, interrupt)?;
        let number = new_number();
        Ok(Self { path: name, maker, held, number, len, fingerprint, last })
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

    /// The layout of the lists: not [`Layout::Auto`].
    pub fn layout(&self) -> Layout {
        match &self.held {
            Held::Scan(_) => Layout::Scan,
            Held::Inverted(_) => Layout::Inverted,
        }
    }

    /// The lists of all objects, if they are in the layout of a scan.
    pub fn lists(&self) -> Option<&Lists> {
        match &self.held {
            Held::Scan(lists) => Some(lists),
            Held::Inverted(_) => None,
        }
    }

    /// A number unique to these permutations within the process.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The list of an object; that of a removed one means nothing. Takes long if lists are inverted.
    ///
    /// # Panics
    /// When there is no such id.
    pub fn list(&self, id: u64) -> Vec<u16> {
        match &self.held {
            Held::Scan(lists) => lists.list(id as usize),
            Held::Inverted(lists) => lists.list(id as usize),
        }
    }

    /// The `count` objects whose permutations are most similar to a query's, in this order; equal ones by id. Nothing proves that the
    /// nearest objects are among them.
    ///
    /// # Errors
    /// When a distance of the query to a pivot cannot be computed, or the caller interrupts.
    pub fn candidates(
        &self,
        query: &dyn Prepared,
        comparison: Comparison,
        count: usize,
        interrupt: Interrupt<'_>,
    ) -> Result<Vec<u64>, PermutationError> {
        Ok(self.candidates_of(&self.maker.list(query, interrupt)?, comparison, count))
    }

    /// As [`Permutations::candidates`], for the list of a query.
    pub fn candidates_of(&self, list: &[u16], comparison: Comparison, count: usize) -> Vec<u64> {
        let (path, store) = (CodePath::detect(), self.maker.space().store());
        let has = |id: usize| store.has(id as u64);
        let found = match &self.held {
            Held::Scan(lists) => lists.candidates(path, comparison, list, count, has),
            Held::Inverted(lists) => lists.candidates(path, comparison, list, count, has),
        };
        found.into_iter().map(u64::from).collect()
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
