//! Parts that no longer belong to any store, and their removal.
//!
//! Invariant: a file is removed only if a record of changes or a journal named it as a part, its fingerprint shows that
//! it still is this part, and no record in its folder names it now. So foreign files stay, whatever their names, and a
//! store that was renamed or copied keeps the parts that its record names.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::manifest::{self, BYTES_MAX, Line, PartKind};
use super::removed;
use crate::arrow_file;
use crate::steps::step;

/// The parts that a store's record names; none if the store was never changed, or is missing.
pub(super) fn parts_of(store: &Path) -> Vec<Line> {
    let record = if store.is_file() { read_record(store).ok().flatten() } else { None };
    record.map_or_else(Vec::new, |record| manifest::lines_in(&record))
}

/// Removes the given parts of a folder, except those that a record there names.
pub(super) fn remove(folder: &Path, parts: &[Line]) {
    let mut parts: Vec<&Line> = parts.iter().filter(|part| folder.join(&part.file).exists()).collect();
    if parts.is_empty() {
        return;
    }
    // If a record cannot be read, its parts are unknown: everything stays.
    let Ok(named) = names_in_records(folder) else { return };
    parts.retain(|part| !named.contains(&part.file));
    for part in parts {
        let path = folder.join(&part.file);
        if fingerprint(part.kind, &path).as_ref() == Some(&part.fingerprint) {
            let _ = fs::remove_file(&path);
            step("part removed");
        }
    }
}

fn fingerprint(kind: PartKind, path: &Path) -> Option<String> {
    match kind {
        PartKind::Removed => removed::read(path).ok().map(|(fingerprint, _)| fingerprint),
        PartKind::Base | PartKind::Added => arrow_file::fingerprint(&mut File::open(path).ok()?).ok()?,
    }
}

/// All files that records in the folder name.
fn names_in_records(folder: &Path) -> io::Result<HashSet<String>> {
    let mut named = HashSet::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // If the store is a link's target, its parts lie beside the target, not beside the link.
        let is_small_file = |metadata: fs::Metadata| metadata.is_file() && metadata.len() <= BYTES_MAX;
        if !entry.metadata().is_ok_and(is_small_file) {
            continue;
        }
        match read_record(&entry.path()) {
            Ok(Some(record)) => {
                let names = manifest::names_in(&record).ok_or(io::ErrorKind::InvalidData)?;
                named.extend(names.map(str::to_owned));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(named)
}

/// The text of a record of changes, damaged or not; `None` for any other file.
fn read_record(path: &Path) -> io::Result<Option<String>> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    (&mut file).take(manifest::MAGIC.len() as u64).read_to_end(&mut bytes)?;
    if bytes != manifest::MAGIC.as_bytes() {
        return Ok(None);
    }
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
