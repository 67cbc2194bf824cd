//! Lists that are kept in step with their store: added objects get lists by the same quantizers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::object_store::{Access, real_path};
use super::super::packed_file::{next_part, next_path};
use super::chain::{Chain, measure_of};
use super::error::command;
use super::writer::Target;
use super::{Assigned, Lists, ListsError, Quantizers, layout, measure, quantizers_of, vectors, vectors_for};
use crate::pivot_table::{SideBySide, each_side_by_side};
use crate::space::Space;
use crate::store::Store;

/// Objects that one piece of work assigns, and pieces at a time.
const OBJECTS_PER_PIECE: usize = 768;
const PIECES_AT_ONCE: usize = 64;

/// Brings lists up to date with their space: puts the objects added since they were written into lists, and returns their number.
/// Writes nothing if there are none. Objects that one of `sources` has, by name and to the bit, take their lists and codes from it, if it has
/// the same quantizers: its lists are joined to those of the file.
///
/// The store may be one that is not in effect yet. The caller holds its lock.
///
/// # Errors
/// As [`Lists::open`], except that the store may have grown; and when a file cannot be written, or `side_by_side` was cancelled.
pub(crate) fn append(
    path: &Path,
    space: &Arc<dyn Space>,
    sources: &[Lists],
    side_by_side: &mut SideBySide<'_>,
) -> Result<u64, ListsError> {
    let (chain, store) = (Chain::open(path, &**space)?, space.store());
    let ids: Vec<u64> = store.among(chain.len..store.ids_count()).collect();
    if ids.is_empty() {
        return Ok(0);
    }
    let fits =
        |source: &&Lists| source.measure() == chain.measure && *source.quantizers() == chain.quantizers;
    let assigned = match sources.iter().find(fits) {
        None => assign(&**space, &chain.quantizers, ids, side_by_side)?,
        Some(source) => {
            let (taken, left) = take(&**space, source, &ids)?;
            merged(taken, assign(&**space, &chain.quantizers, left, side_by_side)?, &chain.quantizers)
        }
    };
    let link = Some((layout::FOLLOWS_KEY, chain.last.fingerprint.clone()));
    let path = next_part(&chain.name, &chain.last, layout::FORMAT);
    let file = Target { whole: &chain.name, path, format: layout::FORMAT.part, link, panels: chain.panels() };
    file.write((&**space, chain.len), &chain.quantizers, &assigned, &|| false)
}

/// Refuses lists to merge that have other quantizers than all of these.
///
/// # Errors
/// Names the first, and the command that makes it anew.
pub(crate) fn check_sources(
    sources: &[Lists],
    into: &[PathBuf],
    store: &dyn Store,
) -> Result<(), ListsError> {
    for source in sources {
        let measure = source.measure();
        let fits = |path: &&PathBuf| -> Result<bool, ListsError> {
            Ok(measure_of(path, store)?.distance == measure.name()
                && quantizers_of(path)? == *source.quantizers())
        };
        let mut found = Ok(false);
        for path in into {
            found = fits(&path);
            if !matches!(found, Ok(false)) {
                break;
            }
        }
        if !found? {
            let like = into.first().map_or_else(|| Path::new("LISTS"), PathBuf::as_path);
            let of = source.space().store().path();
            let command = command(measure, of, source.path());
            let command = format!("{command} --like {}", like.display());
            return Err(ListsError::OtherQuantizers {
                path: source.path().to_owned(),
                into: into.to_vec(),
                command,
            });
        }
    }
    Ok(())
}

/// The lists and codes that other lists have of some objects, which have the same names and numbers there; and the objects that
/// these lists lack.
fn take(space: &dyn Space, source: &Lists, ids: &[u64]) -> Result<(Assigned, Vec<u64>), ListsError> {
    let (store, of_source) = (space.store(), source.space().store());
    let every: Vec<u32> = (0..source.count() as u32).collect();
    source.bring_in(&every, &|| false)?;
    let all = source.assigned();
    source.confirm()?;
    let (size, mut taken, mut left) = (source.quantizers().code_bytes(), Assigned::default(), Vec::new());
    for ids in ids.chunks(OBJECTS_PER_PIECE * PIECES_AT_ONCE) {
        let mut names = Vec::with_capacity(ids.len());
        store.names(&mut ids.iter().copied(), &mut |name| names.push(name.to_owned()))?;
        let mut pairs = Vec::with_capacity(ids.len());
        for (id, name) in ids.iter().zip(names) {
            let other = of_source.find(&name)?;
            let place = other.and_then(|other| all.ids.binary_search(&other).ok());
            match place {
                Some(place) => pairs.push((*id, place)),
                None => left.push(*id),
            }
        }
        let both: (Vec<u64>, Vec<u64>) = pairs.iter().map(|(id, place)| (*id, all.ids[*place])).unzip();
        if pairs.is_empty() {
            continue;
        }
        store.bring_in(&both.0)?;
        of_source.bring_in(&both.1)?;
        let both = (vectors(&**store, &both.0)?, vectors(&**of_source, &both.1)?);
        let dimensions = source.quantizers().dimensions();
        let each = both.0.chunks_exact(dimensions).zip(both.1.chunks_exact(dimensions));
        for ((id, place), (a, b)) in pairs.into_iter().zip(each) {
            if a != b {
                left.push(id);
                continue;
            }
            taken.ids.push(id);
            taken.lists.push(all.lists[place]);
            taken.codes.extend_from_slice(&all.codes[place * size..][..size]);
        }
    }
    // Those that differ have come behind those that are missing.
    left.sort_unstable();
    of_source.confirm()?;
    Ok((taken, left))
}

/// Objects of both, by id.
fn merged(a: Assigned, b: Assigned, quantizers: &Quantizers) -> Assigned {
    if b.ids.is_empty() {
        return a;
    }
    let (size, mut all) = (quantizers.code_bytes(), Assigned::default());
    let mut places: Vec<(u64, &Assigned, usize)> = [&a, &b]
        .into_iter()
        .flat_map(|of| of.ids.iter().enumerate().map(move |(place, id)| (*id, of, place)))
        .collect();
    places.sort_unstable_by_key(|(id, ..)| *id);
    for (id, of, place) in places {
        all.ids.push(id);
        all.lists.push(of.lists[place]);
        all.codes.extend_from_slice(&of.codes[place * size..][..size]);
    }
    all
}

/// The lists and codes of some objects.
fn assign(
    space: &dyn Space,
    quantizers: &Quantizers,
    ids: Vec<u64>,
    side_by_side: &mut SideBySide<'_>,
) -> Result<Assigned, ListsError> {
    let (measure, store) = (measure(space)?, space.store());
    let (mut lists, mut codes) = (Vec::with_capacity(ids.len()), Vec::new());
    for ids in ids.chunks(OBJECTS_PER_PIECE * PIECES_AT_ONCE) {
        store.bring_in(ids)?;
        let pieces: Vec<&[u64]> = ids.chunks(OBJECTS_PER_PIECE).collect();
        let found = each_side_by_side(side_by_side, pieces.len(), &|piece| {
            let vectors = vectors_for(measure, &**store, pieces[piece], quantizers.dimensions())?;
            Ok::<_, ListsError>(quantizers.assign(&vectors))
        });
        for found in found.ok_or(ListsError::Cancelled)? {
            let (of_lists, of_codes) = found?;
            lists.extend(of_lists);
            codes.extend(of_codes);
        }
    }
    Ok(Assigned { ids, lists, codes })
}

/// Writes the lists of a compacted store, in the space `after`: the same lists of fewer objects, which have new ids. `access` says
/// how the lists that it reads come into memory.
///
/// # Errors
/// When the lists are not in step with the space `before`, the file cannot be written, a foreign file has its name, or the
/// caller cancels it.
pub(crate) fn write_compacted(
    path: &Path,
    before: &Arc<dyn Space>,
    after: &dyn Space,
    access: Access,
    cancelled: &dyn Fn() -> bool,
) -> Result<(), ListsError> {
    let (fingerprint, whole) = (Chain::open(path, &**before)?.fingerprint, real_path(path));
    let lists = Lists::open_by(path, before, access)?;
    let next = next_path(&whole);
    if next.symlink_metadata().is_ok() {
        return Err(ListsError::InTheWay { path: next, lists: whole });
    }
    let every: Vec<u32> = (0..lists.count() as u32).collect();
    lists.bring_in(&every, cancelled)?;
    let mut assigned = lists.assigned();
    lists.confirm()?;
    assigned.ids.iter_mut().for_each(|id| *id = before.store().rank(*id));
    let link = Some((layout::REPLACES_KEY, fingerprint));
    let file = Target { whole: &whole, path: next, format: layout::FORMAT.whole, link, panels: 0 };
    file.write((after, 0), lists.quantizers(), &assigned, cancelled).map(drop)
}
