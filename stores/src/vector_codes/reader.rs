//! Reads the files of codes, and keeps them in step with their store (`packed_file` says which files these are).

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxwork_kernels::codes::{Codes, Encoder, Levels};
use boxwork_kernels::vector::VectorMeasure;

use super::super::packed_file::{self, Last, MEASURE_KEY, PackedFile, numbers_of};
use super::error::{command, of};
use super::{
    CENTRE_KEY, CODEBOOK_KEY, CodesError, CodesWriter, FORMAT, LEVELS_KEY, PRINCIPAL_KEY, ROWS, schema,
    vectors_of, words_of,
};
use crate::kinds::{Kind, Vectors};
use crate::object_store::ObjectStore;
use crate::pivot_table::{SideBySide, each_side_by_side};
use crate::space::Space;
use crate::spaces::DistanceOptions;
use crate::store::Store;

/// Batches whose words are in memory before they are written.
const BATCHES_AT_ONCE: usize = 16;

/// The files of a chain that belong to a store, before their rows are read.
struct Chain {
    /// The first file's name.
    name: PathBuf,
    /// Each with its first id.
    files: Vec<(u64, PackedFile)>,
    encoder: Encoder,
    /// Ids that they cover.
    len: u64,
    fingerprint: String,
    last: Last,
}

/// Reads the codes of a space.
///
/// # Errors
/// When the file cannot be read, is no file of codes, is damaged, or of another store or measure, or lacks vectors.
pub fn open(path: &Path, space: &dyn Space) -> Result<Codes, CodesError> {
    let (store, chain) = (space.store(), whole_chain(path, space)?);
    let words = chain.encoder.words();
    let mut codes = Codes::new(chain.encoder.clone(), chain.len as usize);
    for (_, file) in chain.files {
        file.each_batch(ROWS, &mut |batch| {
            let columns = batch.columns(words, size_of::<u32>())?;
            let columns: Vec<&[[u8; 4]]> = columns.iter().map(|column| column.as_chunks::<4>().0).collect();
            for row in 0..batch.rows {
                codes.push(columns.iter().map(|column| u32::from_le_bytes(column[row])));
            }
            Some(())
        })
        .map_err(|error| of(error, &**store, path, &chain.encoder))?;
    }
    Ok(codes)
}

/// The levels of codes that fit a space, of which only heads and tails are read.
///
/// # Errors
/// As [`open`], except that rows may be damaged.
pub(super) fn fitting(path: &Path, space: &dyn Space) -> Result<Levels, CodesError> {
    Ok(whole_chain(path, space)?.encoder.levels())
}

/// The files of a chain that has all vectors of its store.
fn whole_chain(path: &Path, space: &dyn Space) -> Result<Chain, CodesError> {
    let (store, chain) = (space.store(), chain(path, space)?);
    if chain.len < store.ids_count() {
        let (path, store_path) = (path.to_owned(), store.path().to_owned());
        let (found, objects) = (chain.len, store.ids_count());
        return Err(CodesError::Behind { path, store: store_path, found, objects });
    }
    Ok(chain)
}

/// The distance for which codes were made.
///
/// # Errors
/// When the file cannot be read, is no file of codes, or is of another version.
pub(crate) fn measure_of(path: &Path, store: &dyn Store) -> Result<DistanceOptions, CodesError> {
    let any = Encoder::new(VectorMeasure::L2, Levels::Planes, Vec::new());
    let of = |error| of(error, store, path, &any);
    let file = FORMAT.open(path).map_err(of)?;
    let measure = DistanceOptions::parse(file.said(MEASURE_KEY));
    measure.ok_or_else(|| of(file.not("it names no measure that this program knows")))
}

fn chain(path: &Path, space: &dyn Space) -> Result<Chain, CodesError> {
    let (vectors, measure) = vectors_of(space)?;
    let (store, dimensions) = (space.store(), vectors.kind().dimensions());
    let any = Encoder::new(measure, Levels::Planes, Vec::new());
    let of = |error| of(error, &**store, path, &any);
    let (file, name, ids) = packed_file::first(path, FORMAT, &**store).map_err(of)?;
    let refused = |fault: String| {
        let command = command(&**store, path, &any);
        CodesError::File { path: path.to_owned(), fault, command }
    };
    let Some(ids) = ids else {
        let store = store.path().display();
        return Err(refused(format!("has the codes of another store, or `{store}` was made again since")));
    };
    if file.said(MEASURE_KEY) != space.measure() {
        let (found, wanted) = (file.said(MEASURE_KEY), space.measure());
        return Err(refused(format!("has codes for {found}, and the distance here is {wanted}")));
    }
    let levels: Levels =
        file.said(LEVELS_KEY).parse().map_err(|reason| refused(format!("is damaged: {reason}")))?;
    let finite = |key: &str| numbers_of(file.noted(key)).filter(|all| all.iter().all(|x| x.is_finite()));
    let centre = finite(CENTRE_KEY).filter(|centre| centre.len() == dimensions);
    let centre = centre.ok_or_else(|| refused("is damaged: its centre does not fit the store".to_owned()))?;
    let encoder = match levels.parts(dimensions) {
        None if levels == Levels::Pca => {
            finite(PRINCIPAL_KEY).and_then(|numbers| Encoder::of_principal(measure, centre, numbers))
        }
        None => Some(Encoder::new(measure, levels, centre)),
        Some(_) => {
            finite(CODEBOOK_KEY).and_then(|codebook| Encoder::of_codebook(measure, levels, centre, codebook))
        }
    };
    let damaged = || refused("is damaged: its codebook or its directions do not fit the store".to_owned());
    let encoder = encoder.ok_or_else(damaged)?;
    let check = |file: &PackedFile, rows: u64| match *file.fields() == *schema(&encoder).fields() {
        true if file.rows(ROWS)? == rows => Ok(()),
        _ => Err(file.damaged("its columns", "they do not fit the store")),
    };
    check(&file, ids).map_err(of)?;
    let (mut len, fingerprint) = (ids, file.fingerprint.clone());
    let mut last = Last { part: 0, fingerprint: fingerprint.clone() };
    let mut files = vec![(0, file)];
    while len < store.ids_count() {
        let Some((part, file, ids)) =
            packed_file::following(&name, FORMAT, &last, len, &**store).map_err(of)?
        else {
            break;
        };
        check(&file, ids - len).map_err(of)?;
        last = Last { part, fingerprint: file.fingerprint.clone() };
        files.push((len, file));
        len = ids;
    }
    Ok(Chain { name, files, encoder, len, fingerprint, last })
}

/// Brings codes up to date with their space: codes the vectors added since they were written, and returns their number. Writes
/// nothing if there are none.
///
/// The store may be one that is not in effect yet. The caller holds its lock.
///
/// # Errors
/// As [`open`], except that the store may have grown; and when a file cannot be written, or `side_by_side` was cancelled.
pub(crate) fn append(
    path: &Path,
    space: &Arc<dyn Space>,
    side_by_side: &mut SideBySide<'_>,
) -> Result<u64, CodesError> {
    let (chain, store) = (chain(path, &**space)?, space.store());
    let (vectors, _) = vectors_of(&**space)?;
    let ids = chain.len..store.ids_count();
    if ids.is_empty() {
        return Ok(0);
    }
    let writer = CodesWriter::following(&chain.name, &chain.last, &**space, chain.encoder.clone())?;
    write(writer, &vectors, &chain.encoder, ids.clone(), side_by_side)?;
    Ok(store.count(ids))
}

/// Writes the codes of a compacted store, in the space `after`: the same words, of fewer vectors.
///
/// # Errors
/// As [`append`], and when a foreign file has the name of the new one.
pub(crate) fn write_compacted(
    path: &Path,
    before: &dyn Space,
    after: &dyn Space,
    side_by_side: &mut SideBySide<'_>,
) -> Result<(), CodesError> {
    let Chain { fingerprint, encoder, .. } = chain(path, before)?;
    let (vectors, _) = vectors_of(after)?;
    let writer = CodesWriter::replacing(path, &fingerprint, after, encoder.clone())?;
    write(writer, &vectors, &encoder, 0..after.store().ids_count(), side_by_side)
}

/// Codes the vectors of a range of ids, some batches at a time.
fn write(
    mut writer: CodesWriter,
    vectors: &ObjectStore<Vectors>,
    encoder: &Encoder,
    ids: Range<u64>,
    side_by_side: &mut SideBySide<'_>,
) -> Result<(), CodesError> {
    let firsts: Vec<u64> = ids.clone().step_by(ROWS).collect();
    for firsts in firsts.chunks(BATCHES_AT_ONCE) {
        let words = each_side_by_side(side_by_side, firsts.len(), &|place| {
            words_of(vectors, encoder, firsts[place]..ids.end.min(firsts[place] + ROWS as u64))
        });
        for words in words.ok_or(CodesError::Cancelled)? {
            writer.push(&words?)?;
        }
    }
    writer.finish()
}
