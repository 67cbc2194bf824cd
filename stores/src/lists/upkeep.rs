//! Lists that are kept in step with their store: added objects get lists by the same quantizers.

use std::path::Path;
use std::sync::Arc;

use super::super::object_store::{Access, real_path};
use super::super::packed_file::{next_part, next_path};
use super::chain::Chain;
use super::writer::Target;
use super::{Assigned, Lists, ListsError, Quantizers, layout, measure, vectors_for};
use crate::pivot_table::{SideBySide, each_side_by_side};
use crate::space::Space;

/// Objects that one piece of work assigns, and pieces at a time.
const OBJECTS_PER_PIECE: usize = 768;
const PIECES_AT_ONCE: usize = 64;

/// Brings lists up to date with their space: puts the objects added since they were written into lists, and returns their number.
/// Writes nothing if there are none.
///
/// The store may be one that is not in effect yet. The caller holds its lock.
///
/// # Errors
/// As [`Lists::open`], except that the store may have grown; and when a file cannot be written, or `side_by_side` was cancelled.
pub(crate) fn append(
    path: &Path,
    space: &Arc<dyn Space>,
    side_by_side: &mut SideBySide<'_>,
) -> Result<u64, ListsError> {
    let (chain, store) = (Chain::open(path, &**space)?, space.store());
    let ids: Vec<u64> = store.among(chain.len..store.ids_count()).collect();
    if ids.is_empty() {
        return Ok(0);
    }
    let assigned = assign(&**space, &chain.quantizers, ids, side_by_side)?;
    let link = Some((layout::FOLLOWS_KEY, chain.last.fingerprint.clone()));
    let path = next_part(&chain.name, &chain.last, layout::FORMAT);
    let file = Target { whole: &chain.name, path, format: layout::FORMAT.part, link, panels: chain.panels() };
    file.write((&**space, chain.len), &chain.quantizers, &assigned, &|| false)
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
