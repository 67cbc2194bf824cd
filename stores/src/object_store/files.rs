//! The files of a store: one file, or the parts that a record of changes names, with objects of any kind.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::manifest::{Manifest, PartKind};
use super::map::Access;
use super::part::Part;
use super::removed::{self, Removed};
use super::temporary::real_path;
use super::{StoreError, StoreInfo};
use crate::limits::allow_many_files;

/// The opened files of a store, as of one moment. Objects read from another program's file have no files here.
pub struct Files {
    pub(super) path: PathBuf,
    /// The file; or for a changed store the base and the additions, in the order of the ids.
    pub(super) parts: Vec<Arc<Part>>,
    pub(super) removed: Removed,
    /// The fingerprints of the store, from the base's to the present one, each with the number of ids.
    pub(super) history: Vec<(String, u64)>,
    pub(super) access: Access,
    /// That of the first part; a changed store has it in all parts.
    pub(super) info: StoreInfo,
}

impl Files {
    /// Opens the files: checks the head and the tail of each. The rest is mapped, or read on demand.
    ///
    /// # Errors
    /// When a file cannot be read, is no store, is cut short, damaged, or of another version.
    pub(crate) fn open(path: &Path, access: Access) -> Result<Self, StoreError> {
        let mut before: Option<Manifest> = None;
        loop {
            let io = |source| StoreError::Io { path: path.to_owned(), action: "open", source };
            let file = File::open(path).map_err(io)?;
            if !file.metadata().map_err(io)?.is_file() {
                let reason = "it is no regular file".to_owned();
                return Err(StoreError::NotAStore { path: path.to_owned(), reason, is_foreign: false });
            }
            let Some(manifest) = Manifest::of_file(path, &file)? else {
                let part = Part::of_file(path, file, access)?;
                let history = vec![(part.fingerprint.clone(), part.len)];
                let info = part.info.clone();
                let (path, parts, removed) = (path.to_owned(), vec![Arc::new(part)], Removed::default());
                return Ok(Self { path, parts, removed, history, access, info });
            };
            match Self::of_manifest(path, &manifest, &[], access) {
                // A part may be missing because the store was compacted just now: then open its new state.
                Err(error) if before.as_ref() == Some(&manifest) => return Err(error),
                Err(_) => before = Some(manifest),
                opened => return opened,
            }
        }
    }

    /// The files that a record of changes describes, whether it is in effect or not. Parts that are `open` already,
    /// each in its place, are shared: an open part may hold a map and a file.
    pub(super) fn of_manifest(
        path: &Path,
        manifest: &Manifest,
        open: &[Arc<Part>],
        access: Access,
    ) -> Result<Self, StoreError> {
        /// With so few parts, a store stays within any usual limit of open files.
        const PARTS_FEW: usize = 256;
        let (mut parts, mut removed): (Vec<Arc<Part>>, _) = (Vec::new(), Removed::default());
        let mut rows = 0;
        if manifest.lines().len() > PARTS_FEW {
            allow_many_files();
        }
        // Parts lie beside the store, not beside a link to it.
        let beside = real_path(path);
        for line in manifest.lines() {
            let file = beside.with_file_name(&line.file);
            let (fingerprint, count) = match line.kind {
                PartKind::Removed => {
                    let (fingerprint, ids) = removed::read(&file)?;
                    let count = ids.len() as u64;
                    if !removed.add(ids, rows) {
                        return Err(StoreError::Damaged {
                            path: file,
                            place: "its numbers".to_owned(),
                            reason: "they are not ids of objects in the store".to_owned(),
                        });
                    }
                    (fingerprint, count)
                }
                PartKind::Base | PartKind::Added => {
                    let open = open.get(parts.len()).filter(|part| part.fingerprint == line.fingerprint);
                    let part = match open {
                        Some(part) => Arc::clone(part),
                        None => Arc::new(Part::open(&file, access)?),
                    };
                    let found = (part.fingerprint.clone(), part.len);
                    rows += part.len;
                    parts.push(part);
                    found
                }
            };
            if (fingerprint.as_str(), count) != (line.fingerprint.as_str(), line.count) {
                return Err(StoreError::OtherPart { path: file, store: path.to_owned() });
            }
        }
        if removed.len() == rows {
            return Err(StoreError::Damaged {
                path: path.to_owned(),
                place: "its record of changes".to_owned(),
                reason: "no object is left".to_owned(),
            });
        }
        let info = parts.first().map(|part| part.info.clone()).unwrap_or_default();
        Ok(Self { path: path.to_owned(), parts, removed, history: manifest.history(), access, info })
    }

    /// The name of the objects' kind, from the files' metadata.
    pub(crate) fn kind(&self) -> &str {
        self.parts.first().map_or("", |part| &part.kind)
    }

    /// Whether the files are unchanged since they were opened. Once false, it remains false.
    pub(super) fn are_whole(&self) -> bool {
        self.parts.iter().all(|part| part.map.is_whole())
    }

    /// The fingerprint of the objects as they are now.
    pub(super) fn fingerprint(&self) -> &str {
        &self.history[self.history.len() - 1].0
    }
}
