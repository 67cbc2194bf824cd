//! Which of the files belong to a store, and which files follow.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::object_store::{real_path, remove_leftovers};
use super::names::{next_path, part_path, remove_parts};
use super::reader::PackedFile;
use super::{Format, Last, PackedError, layout};
use crate::steps::step;
use crate::store::Store;

/// Opens the first file: the file of that name, or the file made for a compacted store. Returns it with its name and the
/// number of ids that it covers, if it is of this store.
pub(crate) fn first(
    path: &Path,
    format: Format,
    store: &dyn Store,
) -> Result<(PackedFile, PathBuf, Option<u64>), PackedError> {
    // All files of a chain lie beside the first, not beside a link to it.
    let (mut file, mut name) = (format.open(path), real_path(path));
    let is_of = |file: &PackedFile| store.ids_at(file.said(layout::STORE_KEY)).is_some();
    if !file.as_ref().is_ok_and(is_of)
        && let Ok(next) = format.open(&next_path(&name))
        && is_of(&next)
    {
        (file, name) = (Ok(next), next_path(&name));
    }
    let file = file?;
    let ids = store.ids_at(file.said(layout::STORE_KEY));
    Ok((file, name, ids))
}

/// The following file: its number, and the ids that the store had when it was written; `None` at the end.
pub(crate) fn following(
    name: &Path,
    format: Format,
    last: &Last,
    len: u64,
    store: &dyn Store,
) -> Result<Option<(u64, PackedFile, u64)>, PackedError> {
    for part in last.part + 1.. {
        let path = part_path(name, part);
        if !path.exists() {
            break;
        }
        let file = match format.open_part(&path) {
            Err(PackedError::Foreign { .. }) => continue,
            file => file?,
        };
        // Other files belong to another chain of that name, to a change that never took effect, or to a later change.
        let ids = store.ids_at(file.said(layout::STORE_KEY));
        if let Some(ids) = ids.filter(|ids| file.said(layout::FOLLOWS_KEY) == last.fingerprint && *ids > len)
        {
            return Ok(Some((part, file, ids)));
        }
    }
    Ok(None)
}

/// Gives the file of a compacted store its final name, if it exists and fits the store; otherwise removes it. The caller
/// holds the lock of the store.
pub(crate) fn settle(path: &Path, format: Format, store: &dyn Store) -> Result<(), PackedError> {
    let path = &real_path(path);
    remove_leftovers(path);
    let next_path = next_path(path);
    let is_of = |file: &PackedFile| store.ids_at(file.said(layout::STORE_KEY)).is_some();
    let Ok(next) = format.open(&next_path) else { return Ok(()) };
    if next.said(layout::REPLACES_KEY).is_empty() {
        // An independent file that happens to have this name.
        return Ok(());
    }
    let io = |source| PackedError::Io { path: path.to_owned(), action: "write", source };
    if format.open(path).is_ok_and(|file| is_of(&file)) || !is_of(&next) {
        return fs::remove_file(&next_path).map_err(io);
    }
    fs::rename(&next_path, path).map_err(io)?;
    step("index renamed");
    remove_parts(path, format);
    Ok(())
}
