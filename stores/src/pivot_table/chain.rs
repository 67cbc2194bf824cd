//! The files of an index: which of them belong to a store, what follows, and what they become when it is compacted.
//!
//! A file counts by the fingerprints in it, never by its name alone: of the store that it was written for, which the
//! store that is searched must have been, and of the file that it follows. So an index is of a store before a change
//! and after it, whichever of the two is in force when a process is killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxwork_kernels::lower_bound::{PACKED_OBJECTS, PIVOTS_MAX, Simplex};
use boxwork_kernels::memory::filled;
use boxwork_kernels::similarity::Measure;

use super::super::signature_store::{SignatureStore, StoreError};
use super::super::sqfd_space::SqfdSpace;
use super::error::IndexError;
use super::file::BlockFile;
use super::reader::IndexFile;
use super::writer::{PivotTableWriter, head};
use super::{Last, PivotTable, layout};
use crate::new_number;

/// Objects whose distances are computed before they are written.
const OBJECTS_AT_ONCE: usize = 4096;
/// Objects that one piece of work computes the distances of.
const OBJECTS_PER_PIECE: usize = 16;

/// Computes pieces of a list of numbers side by side: `f` is given the place of each piece's first.
///
/// A caller with workers of its own gives them; [`in_threads`] starts threads.
pub type SideBySide<'a> = dyn FnMut(&mut [f64], usize, &Piece<'_>) + 'a;
/// Computes one piece: it is given the place of the piece's first number.
pub type Piece<'a> = dyn Fn(usize, &mut [f64]) + Sync + 'a;

/// Computes the pieces in this many threads.
pub fn in_threads(threads: usize) -> impl FnMut(&mut [f64], usize, &Piece<'_>) {
    move |numbers, piece, f| {
        let pieces_each = numbers.len().div_ceil(piece).div_ceil(threads.max(1)).max(1);
        std::thread::scope(|scope| {
            for (nth, part) in numbers.chunks_mut(pieces_each * piece).enumerate() {
                scope.spawn(move || {
                    for (idx, numbers) in part.chunks_mut(piece).enumerate() {
                        f((nth * pieces_each + idx) * piece, numbers);
                    }
                });
            }
        });
    }
}

/// How much of an index is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// What is searched by: all rows of all objects.
    All,
    /// What a further file is written by: no rows, and there may be fewer than objects.
    Ends,
}

/// Reads an index of a space: the file of that name, or the one that was made for a compacted store, and all that
/// follows.
pub(super) fn read(path: &Path, space: Arc<SqfdSpace>, depth: Depth) -> Result<PivotTable, IndexError> {
    let store = Arc::clone(space.store());
    let (mut file, mut name) = (IndexFile::open(path, layout::FORMAT), path.to_owned());
    let is_of = |file: &IndexFile| store.ids_at(file.said(layout::STORE_KEY)).is_some();
    if !file.as_ref().is_ok_and(is_of)
        && let Ok(next) = IndexFile::open(&next_path(path), layout::FORMAT)
        && is_of(&next)
    {
        (file, name) = (Ok(next), next_path(path));
    }
    let file = file?;
    // Before all else that the file says: an index of something else may well be sound.
    let Some(ids) = store.ids_at(file.said(layout::STORE_KEY)) else {
        let store = store.path().to_owned();
        return Err(IndexError::OtherStore { path: path.to_owned(), store });
    };
    let (found, wanted) = (file.said(layout::MEASURE_KEY), layout::measure_text(&space.measure()));
    if found != wanted {
        let found = found.to_owned();
        return Err(IndexError::OtherMeasure { path: path.to_owned(), found, wanted });
    }

    let pivots = file.counts(file.said(layout::PIVOTS_KEY))?;
    let kept = file.counts(file.said(layout::KEPT_KEY))?;
    let kept: Vec<usize> = kept.into_iter().map(|pivot| pivot as usize).collect();
    let between = file.numbers(file.said(layout::BETWEEN_KEY))?;
    let rows = file.numbers(file.said(layout::ROWS_KEY))?;
    let tau = file.numbers(file.said(layout::TAU_KEY))?;
    if !(1..=PIVOTS_MAX).contains(&pivots.len()) || pivots.iter().any(|pivot| *pivot >= ids) {
        return Err(file.unclear());
    }
    let tau = tau.first().copied().ok_or_else(|| file.unclear())?;
    let simplex = Simplex::from_parts(kept, rows, &between, pivots.len(), tau);
    let simplex = simplex.ok_or_else(|| file.unclear())?;
    if !file.has_columns(pivots.len(), simplex.dimensions()) {
        return Err(file.not("its columns are not those of its pivots"));
    }
    if file.rows()? != ids {
        return Err(file.not_blocks());
    }
    let (mut files, mut len, mut extremes) = (Vec::new(), ids, file.extremes()?);
    let mut last = Last { part: 0, fingerprint: file.fingerprint.clone() };
    files.push((0, file));
    while len < store.len() {
        let Some((file, ids)) = following(&name, &last, len, &store)? else { break };
        if !file.has_columns(pivots.len(), simplex.dimensions()) {
            return Err(file.not("its columns are not those of the index that it follows"));
        }
        if file.rows()? != ids - len {
            return Err(file.not_blocks());
        }
        extremes = file.extremes()?;
        last = Last { part: last.part + 1, fingerprint: file.fingerprint.clone() };
        files.push((len, file));
        len = ids;
    }
    let rows =
        if depth == Depth::All { len.div_ceil(PACKED_OBJECTS as u64) as usize * PACKED_OBJECTS } else { 0 };
    if depth == Depth::All && len < store.len() {
        let (store, objects) = (store.path().to_owned(), store.len());
        return Err(IndexError::Behind { path: path.to_owned(), store, found: len, objects });
    }
    let what = || format!("the index `{}` of {rows} rows and {} pivots", path.display(), pivots.len());
    let advice = "make an index of fewer pivots, or free memory";
    let zeros = |columns: usize| filled(rows.saturating_mul(columns), 0.0, what, advice);
    let mut table = PivotTable {
        path: name,
        number: new_number(),
        distances: zeros(pivots.len())?,
        apexes: zeros(simplex.dimensions())?,
        space,
        pivots,
        between,
        simplex,
        extremes,
        len,
        last,
    };
    if depth == Depth::All {
        for (first, file) in files {
            file.fill(&mut table, first)?;
        }
    }
    Ok(table)
}

/// The file that follows, and the ids that the store had when it was written; nothing where there is none that does.
fn following(
    name: &Path,
    last: &Last,
    len: u64,
    store: &SignatureStore,
) -> Result<Option<(IndexFile, u64)>, IndexError> {
    let path = part_path(name, last.part + 1);
    if !path.exists() {
        return Ok(None);
    }
    let file = IndexFile::open(&path, layout::PART_FORMAT)?;
    // Of another index of that name, or of a change that never came into force, or that came after what was opened.
    let ids = store.ids_at(file.said(layout::STORE_KEY));
    let ids = ids.filter(|ids| file.said(layout::FOLLOWS_KEY) == last.fingerprint && *ids > len);
    Ok(ids.map(|ids| (file, ids)))
}

impl PivotTable {
    /// The measure that an index was made for.
    ///
    /// # Errors
    /// When the file cannot be read, is no index, or is of another version.
    pub fn measure_of(path: &Path) -> Result<Measure, IndexError> {
        let file = IndexFile::open(path, layout::FORMAT)?;
        let measure = layout::read_measure(file.said(layout::MEASURE_KEY));
        measure.ok_or_else(|| file.not("it does not say a measure that this program knows"))
    }

    /// Brings an index up to its space, by the distances of the objects that were added since it was written, and
    /// gives their number. Nothing is written when there are none.
    ///
    /// The store may be one that is not in force yet. Its lock is the caller's.
    ///
    /// # Errors
    /// As [`PivotTable::open`], but when the store has grown; and when a file cannot be written.
    pub fn append(
        path: &Path,
        space: &Arc<SqfdSpace>,
        side_by_side: &mut SideBySide<'_>,
    ) -> Result<u64, IndexError> {
        let table = read(path, Arc::clone(space), Depth::Ends)?;
        let store = space.store();
        if table.len == store.len() {
            return Ok(0);
        }
        let mut writer = PivotTableWriter::following(&table)?;
        let pivots = &table.pivots;
        let sigmas: Result<Vec<f64>, _> = store.read(|objects| {
            pivots.iter().map(|pivot| space.sigma_self(objects, *pivot)).collect::<Result<_, StoreError>>()
        });
        let sigmas = sigmas?;
        let ids: Vec<u64> = store.among(table.len..store.len()).collect();
        for ids in ids.chunks(OBJECTS_AT_ONCE) {
            store.bring_in(ids.iter().chain(pivots).copied())?;
            let mut distances = vec![0.0; ids.len() * pivots.len()];
            side_by_side(&mut distances, OBJECTS_PER_PIECE * pivots.len(), &|first, distances| {
                let first = first / pivots.len();
                for (id, distances) in ids[first..].iter().zip(distances.chunks_mut(pivots.len())) {
                    for ((distance, pivot), sigma) in distances.iter_mut().zip(pivots).zip(&sigmas) {
                        let found = store
                            .read(|objects| space.exact(objects, objects.signature(*pivot)?, *sigma, *id));
                        // The writer refuses what is not a distance.
                        *distance = found.unwrap_or(f64::NAN);
                    }
                }
            });
            distances.chunks(pivots.len()).try_for_each(|distances| writer.push(distances))?;
        }
        writer.finish()?;
        Ok(ids.len() as u64)
    }

    /// Writes the index that this one is when all objects that were removed are left out of the store, which has this
    /// fingerprint then; [`settle`] gives it its name. Says whether it could: not so when a pivot was removed.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn write_compacted(&self, path: &Path, fingerprint: &str) -> Result<bool, IndexError> {
        let store = self.space.store();
        if !self.pivots.iter().all(|pivot| store.has(*pivot)) {
            return Ok(false);
        }
        let pivots: Vec<u64> = self.pivots.iter().map(|pivot| store.rank(*pivot)).collect();
        let head = head(fingerprint, &self.space, &pivots, &self.between, &self.simplex);
        let dimensions = self.simplex.dimensions();
        let mut file = BlockFile::create(&next_path(path), &layout::schema(pivots.len(), dimensions, head))?;
        let kept: Vec<u64> = store.among(0..store.len()).collect();
        for ids in kept.chunks(PACKED_OBJECTS) {
            let column = |table: &[f32], of_block: usize, column: usize| -> Vec<f32> {
                let place = |id: u64| {
                    let (block, row) = (id as usize / PACKED_OBJECTS, id as usize % PACKED_OBJECTS);
                    (block * of_block + column) * PACKED_OBJECTS + row
                };
                ids.iter().map(|id| table[place(*id)]).collect()
            };
            let distances = (0..pivots.len()).map(|idx| column(&self.distances, pivots.len(), idx));
            let apexes = (0..dimensions).map(|idx| column(&self.apexes, dimensions, idx));
            file.write(distances.chain(apexes).collect())?;
        }
        file.finish(&self.extremes)?;
        Ok(true)
    }
}

/// Gives the index of a compacted store its name, where there is one and it is the store's; otherwise it is removed.
/// Whoever calls holds the lock of the store.
pub(crate) fn settle(path: &Path, store: &SignatureStore) -> Result<(), IndexError> {
    let next = next_path(path);
    if !next.exists() {
        return Ok(());
    }
    let is_of = |path: &Path| {
        let file = IndexFile::open(path, layout::FORMAT);
        file.is_ok_and(|file| store.ids_at(file.said(layout::STORE_KEY)).is_some())
    };
    let io = |source| IndexError::Io { path: path.to_owned(), action: "write", source };
    if is_of(path) || !is_of(&next) {
        return fs::remove_file(&next).map_err(io);
    }
    fs::rename(&next, path).map_err(io)?;
    remove_parts(path);
    Ok(())
}

/// Removes what followed an index that was replaced.
pub(super) fn remove_parts(path: &Path) {
    let mut part = 1;
    while fs::remove_file(part_path(path, part)).is_ok() {
        part += 1;
    }
}

/// The file of a number that follows an index.
pub(super) fn part_path(index: &Path, part: u64) -> PathBuf {
    let mut path = index.as_os_str().to_owned();
    path.push(format!(".part-{part}"));
    path.into()
}

fn next_path(index: &Path) -> PathBuf {
    let mut path = index.as_os_str().to_owned();
    path.push(".next");
    path.into()
}
