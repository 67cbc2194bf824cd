//! Reads the files of an index, and brings an index up to its store (`packed_file` says which files these are).

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use boxwork_kernels::lower_bound::PACKED_OBJECTS;
use boxwork_kernels::memory::filled;

use super::super::packed_file::{self, Last, PackedFile};
use super::error::IndexError;
use super::writer::PivotTableWriter;
use super::{PivotTable, Pivots, layout};
use crate::new_number;
use crate::space::{Prepared, Space, SpaceError};
use crate::spaces::DistanceOptions;
use crate::store::Store;

/// Objects whose distances are computed before they are written.
const OBJECTS_AT_ONCE: usize = 4096;
/// Objects whose distances one piece of work computes.
const OBJECTS_PER_PIECE: usize = 16;

/// Computes pieces of a list of numbers side by side: `f` gets the index of each piece's first number.
///
/// A caller may use its own workers; [`in_threads`] starts threads. Returns false if it was cancelled; then some of the
/// numbers are not computed.
pub type SideBySide<'a> = dyn FnMut(&mut [f64], usize, &Piece<'_>) -> bool + 'a;
/// Computes one piece, given the index of its first number.
pub type Piece<'a> = dyn Fn(usize, &mut [f64]) + Sync + 'a;

/// Computes the pieces in this many threads.
pub fn in_threads(threads: usize) -> impl FnMut(&mut [f64], usize, &Piece<'_>) -> bool {
    in_threads_until(threads, &|| false)
}

/// Computes the pieces in this many threads; each piece first checks `cancelled`.
pub fn in_threads_until(
    threads: usize,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> impl FnMut(&mut [f64], usize, &Piece<'_>) -> bool {
    move |numbers, piece, f| {
        let pieces_each = numbers.len().div_ceil(piece).div_ceil(threads.max(1)).max(1);
        std::thread::scope(|scope| {
            for (nth, part) in numbers.chunks_mut(pieces_each * piece).enumerate() {
                scope.spawn(move || {
                    for (idx, numbers) in part.chunks_mut(piece).enumerate() {
                        if cancelled() {
                            return;
                        }
                        f((nth * pieces_each + idx) * piece, numbers);
                    }
                });
            }
        });
        !cancelled()
    }
}

/// What `f` gives for each number below `count`, computed side by side; `None` if it was cancelled.
pub(crate) fn each_side_by_side<T: Send + Sync>(
    side_by_side: &mut SideBySide<'_>,
    count: usize,
    f: &(dyn Fn(usize) -> T + Sync),
) -> Option<Vec<T>> {
    let given: Vec<OnceLock<T>> = (0..count).map(|_| OnceLock::new()).collect();
    side_by_side(&mut vec![0.0; count], 1, &|place, _| {
        given[place].get_or_init(|| f(place));
    });
    given.into_iter().map(OnceLock::into_inner).collect()
}

/// How much of an index is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// All rows of all objects, for a search.
    All,
    /// The ends only, for writing a further file: no rows, and perhaps fewer than objects.
    Ends,
}

/// Opens the first file of an index of a space. Returns it with its name and the number of ids that it covers.
fn first(path: &Path, space: &dyn Space) -> Result<(PackedFile, PathBuf, u64), IndexError> {
    let store = space.store();
    let (file, name, ids) = packed_file::first(path, layout::FORMAT, &**store)?;
    // Before anything else in the file: an index of another store may be sound.
    let Some(ids) = ids else {
        let store = store.path().to_owned();
        return Err(IndexError::OtherStore { path: path.to_owned(), store });
    };
    let (found, wanted) = (file.said(layout::MEASURE_KEY), space.measure());
    if found != wanted {
        let fix = measure_fix(path, &file, &**store, &wanted)?;
        return Err(IndexError::OtherMeasure { path: path.to_owned(), found: found.to_owned(), wanted, fix });
    }
    Ok((file, name, ids))
}

/// The options of a search by an index of another measure, and the command that makes the index of the wanted one, with as
/// many pivots, as the store may have no more objects.
fn measure_fix(
    path: &Path,
    file: &PackedFile,
    store: &dyn Store,
    wanted: &str,
) -> Result<String, IndexError> {
    let flags = |measure: &str| {
        DistanceOptions::parse(measure).map(|options| options.flags(store)).unwrap_or_default()
    };
    let (found, wanted) = (flags(file.said(layout::MEASURE_KEY)), flags(wanted));
    let pivots = file.counts(file.said(layout::PIVOTS_KEY))?.len();
    Ok(format!(
        "search with `{}`, or make the index for this search: `boxwork index --store {}{wanted} --pivots {pivots} --out \
         {} --force`",
        found.trim_start(),
        store.path().display(),
        path.display()
    ))
}

/// Reads an index of a space: its first file (see [`first`]) and all files that follow.
pub(super) fn read(path: &Path, space: Arc<dyn Space>, depth: Depth) -> Result<PivotTable, IndexError> {
    let store = Arc::clone(space.store());
    let (file, name, ids) = first(path, &*space)?;
    let pivots = Pivots::of_file(&file, ids)?;
    let apex_columns = if space.properties().hilbert { pivots.simplex.dimensions() } else { 0 };
    if !file.has_columns(pivots.count(), apex_columns) {
        return Err(file.not("its columns do not fit its pivots").into());
    }
    if file.rows(PACKED_OBJECTS)? != ids {
        return Err(file.not_blocks().into());
    }
    let (mut files, mut len, mut extremes) = (Vec::new(), ids, file.extremes()?);
    let fingerprint = file.fingerprint.clone();
    let mut last = Last { part: 0, fingerprint: fingerprint.clone() };
    files.push((0, file));
    while len < store.ids_count() {
        let Some((part, file, ids)) = packed_file::following(&name, layout::FORMAT, &last, len, &*store)?
        else {
            break;
        };
        if !file.has_columns(pivots.count(), apex_columns) {
            return Err(file.not("its columns differ from those of the index that it follows").into());
        }
        if file.rows(PACKED_OBJECTS)? != ids - len {
            return Err(file.not_blocks().into());
        }
        extremes = file.extremes()?;
        last = Last { part, fingerprint: file.fingerprint.clone() };
        files.push((len, file));
        len = ids;
    }
    let rows =
        if depth == Depth::All { len.div_ceil(PACKED_OBJECTS as u64) as usize * PACKED_OBJECTS } else { 0 };
    if depth == Depth::All && len < store.ids_count() {
        let (store, objects) = (store.path().to_owned(), store.ids_count());
        return Err(IndexError::Behind { path: path.to_owned(), store, found: len, objects });
    }
    let what = || format!("the index `{}` of {rows} rows and {} pivots", path.display(), pivots.count());
    let advice = "make an index of fewer pivots, or free memory";
    let zeros = |columns: usize| filled(rows.saturating_mul(columns), 0.0, what, advice);
    let mut table = PivotTable {
        path: name,
        number: new_number(),
        distances: zeros(pivots.count())?,
        apexes: zeros(apex_columns)?,
        space,
        pivots,
        apex_columns,
        extremes,
        len,
        fingerprint,
        last,
    };
    if depth == Depth::All {
        for (first, file) in files {
            file.fill(&mut table, first)?;
        }
    }
    Ok(table)
}

impl PivotTable {
    /// The distance for which an index was made.
    ///
    /// # Errors
    /// When the file cannot be read, is no index, or is of another version.
    pub fn measure_of(path: &Path) -> Result<DistanceOptions, IndexError> {
        let file = layout::FORMAT.open(path)?;
        let measure = DistanceOptions::parse(file.said(layout::MEASURE_KEY));
        measure.ok_or_else(|| file.not("it names no measure that this program knows").into())
    }

    /// Brings an index up to date with its space: computes the distances of the objects added since it was written, and
    /// returns their number. Writes nothing if there are none.
    ///
    /// The store may be one that is not in effect yet. The caller holds its lock.
    ///
    /// # Errors
    /// As [`PivotTable::open`], except that the store may have grown; and when a file cannot be written, or
    /// `side_by_side` was cancelled.
    pub fn append(
        path: &Path,
        space: &Arc<dyn Space>,
        side_by_side: &mut SideBySide<'_>,
    ) -> Result<u64, IndexError> {
        let table = read(path, Arc::clone(space), Depth::Ends)?;
        let store = space.store();
        if table.len == store.ids_count() {
            return Ok(0);
        }
        let mut writer = PivotTableWriter::following(&table)?;
        let ids: Vec<u64> = store.among(table.len..store.ids_count()).collect();
        measure(space, &table.pivots.ids, &ids, side_by_side, &mut |distances| writer.push(distances))?;
        writer.finish()?;
        Ok(ids.len() as u64)
    }
}

/// Computes the distances of objects to pivots, and passes those of each object to `f`, in the order of `ids`.
pub(crate) fn measure<E: From<IndexError>>(
    space: &Arc<dyn Space>,
    pivots: &[u64],
    ids: &[u64],
    side_by_side: &mut SideBySide<'_>,
    f: &mut dyn FnMut(&[f64]) -> Result<(), E>,
) -> Result<(), E> {
    let failed = |error: SpaceError| E::from(error.into());
    let store = space.store();
    let objects = store.objects(pivots).map_err(IndexError::from)?;
    let queries = (0..pivots.len()).map(|row| Arc::clone(space).prepare(&objects, row));
    let queries: Vec<Arc<dyn Prepared>> = queries.collect::<Result<_, _>>().map_err(failed)?;
    for ids in ids.chunks(OBJECTS_AT_ONCE) {
        store.bring_in(ids).map_err(IndexError::from)?;
        let mut distances = vec![0.0; ids.len() * pivots.len()];
        let is_done = side_by_side(&mut distances, OBJECTS_PER_PIECE * pivots.len(), &|first, distances| {
            let ids = &ids[first / pivots.len()..][..distances.len() / pivots.len()];
            let mut found = vec![f64::NAN; ids.len()];
            for (column, query) in queries.iter().enumerate() {
                if query.exact(ids, &mut found).is_err() {
                    // No simplex and no writer takes NaN.
                    found.fill(f64::NAN);
                }
                for (row, distance) in found.iter().enumerate() {
                    distances[row * pivots.len() + column] = *distance;
                }
            }
        });
        if !is_done {
            return Err(IndexError::Cancelled.into());
        }
        distances.chunks(pivots.len()).try_for_each(&mut *f)?;
    }
    Ok(())
}
