//! A change of a store: objects added and removed, all at once or not at all.
//!
//! Additions and removals go to their own files, the parts, which no record names yet. [`StoreChange::write`] puts them
//! on disk under free names, and [`PendingChange::commit`] replaces the record by one that names them: this renaming is
//! the change. A reader that opened the store before keeps its version. The next change removes leftovers of a killed
//! process. A change costs its additions and removals, and a pass over all names of the store.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::ArrayRef;

use super::lock::StoreLock;
use super::manifest::{CHANGES_MAX, Line, Manifest, PartKind, is_beside};
use super::temporary::{TemporaryFile, folder_of};
use super::{Access, Files, ObjectStore, StoreError, StoreWriter, orphans, removed};
use crate::kinds::Kind;
use crate::steps::step;
use crate::store::Store;

/// An unfinished change; it holds the store's lock.
pub struct StoreChange<K: Kind> {
    /// The name that the user gave, for messages.
    given: PathBuf,
    // Before the lock: dropped first.
    parts: NewParts,
    store: Arc<ObjectStore<K>>,
    manifest: Manifest,
    /// The place for the store file once a record has its name.
    base: Option<PathBuf>,
    writer: Option<StoreWriter<K>>,
    removed: BTreeSet<u64>,
    lock: StoreLock,
}

/// The parts of a change; they are removed unless the change takes effect.
struct NewParts {
    /// The store's file, links resolved.
    path: PathBuf,
    lines: Vec<Line>,
    is_kept: bool,
}

impl Drop for NewParts {
    fn drop(&mut self) {
        if !self.is_kept {
            // Parts that the record names stay: it may be in place even if the system reported an error afterwards.
            orphans::remove(folder_of(&self.path), &self.lines);
        }
    }
}

impl<K: Kind> StoreChange<K> {
    /// Starts a change of a store, which is mapped.
    ///
    /// # Errors
    /// When another process changes the store, it was changed too often, and as [`ObjectStore::open`].
    pub fn begin(given: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::begin_by(given, Access::Map)
    }

    /// As [`StoreChange::begin`], but the store is mapped or read as `access` says.
    ///
    /// # Errors
    /// As [`StoreChange::begin`].
    pub fn begin_by(given: impl AsRef<Path>, access: Access) -> Result<Self, StoreError> {
        let given = given.as_ref();
        let io = |action| move |source| StoreError::Io { path: given.to_owned(), action, source };
        // The target of a link is changed, not the link.
        let path = fs::canonicalize(given).map_err(io("open"))?;
        if !path.file_name().and_then(OsStr::to_str).is_some_and(is_beside) {
            let reason = "its name is not one line of UTF-8, which a record of changes must hold".to_owned();
            return Err(StoreError::Metadata { path: given.to_owned(), reason });
        }
        let lock = StoreLock::take(&path, given)?;
        let store = ObjectStore::open_by(given, access)?;
        let file = File::open(&path).map_err(io("open"))?;
        let (manifest, base) = match Manifest::of_file(&path, &file)? {
            Some(manifest) => (manifest, None),
            None => {
                let (base, name) = free_part(&path, 0, &[]);
                (Manifest::new(store.len(), store.fingerprint(), name), Some(base))
            }
        };
        Ok(Self {
            given: given.to_owned(),
            parts: NewParts { path, lines: Vec::new(), is_kept: false },
            store: Arc::new(store),
            manifest,
            base,
            writer: None,
            removed: BTreeSet::new(),
            lock,
        })
    }

    /// The store as it is before the change.
    pub fn store(&self) -> &Arc<ObjectStore<K>> {
        &self.store
    }

    /// Adds an object. It may have the name of an object that this change removes.
    ///
    /// # Errors
    /// When the object is invalid, its name is taken, or the file cannot be written.
    ///
    /// # Panics
    /// When a signature has another number of coordinates than the store.
    pub fn push_item(&mut self, name: &str, item: K::Item<'_>) -> Result<(), StoreError> {
        self.writer_for(name)?.push_item(name, item)
    }

    /// Adds the object in a row of [columns](Kind::columns); otherwise as [`StoreChange::push_item`].
    pub(crate) fn push_row(
        &mut self,
        name: &str,
        columns: &[ArrayRef],
        row: usize,
    ) -> Result<(), StoreError> {
        self.writer_for(name)?.push_row(name, columns, row)
    }

    /// The writer for additions, if an object of that name may be added.
    fn writer_for(&mut self, name: &str) -> Result<&mut StoreWriter<K>, StoreError> {
        if self.store.find(name)?.is_some_and(|id| !self.removed.contains(&id)) {
            return Err(StoreError::AlreadyThere { path: self.given.clone(), name: name.to_owned() });
        }
        if self.writer.is_none() {
            let (path, kind, info) = (&self.parts.path, self.store.kind(), self.store.info());
            self.writer = Some(StoreWriter::of_part(&self.given, path, kind, info)?);
        }
        Ok(self.writer.as_mut().expect("it was just made"))
    }

    /// Whether the store has an object of this name, which this change does not remove, that equals the one in a row of
    /// [columns](Kind::columns) to the bit.
    pub(crate) fn has_equal(&self, name: &str, columns: &[ArrayRef], row: usize) -> Result<bool, StoreError> {
        let Some(id) = self.store.find(name)?.filter(|id| !self.removed.contains(id)) else {
            return Ok(false);
        };
        let kind = self.store.kind();
        // A builder makes of an object what a store keeps of it.
        let mut builder = kind.builder();
        let pushed = K::push_row(&mut builder, columns, row);
        // An invalid object is refused where it is added.
        let Ok(came) = pushed.and_then(|()| kind.batch(&K::finish(&mut builder))) else { return Ok(false) };
        let kept = self.store.read(|objects| objects.item(id).map(|item| text(kind, item)))?;
        Ok(kept == text(kind, K::item(&came, 0)))
    }

    /// Number of objects added so far.
    pub fn added(&self) -> u64 {
        self.writer.as_ref().map_or(0, StoreWriter::len)
    }

    /// Removes an object. Returns false if this change has removed it already.
    ///
    /// # Errors
    /// When there is no such object.
    pub fn remove(&mut self, id: u64) -> Result<bool, StoreError> {
        if !self.store.has(id) {
            let count = self.store.len();
            return Err(StoreError::NoObject { path: self.given.clone(), id, count });
        }
        Ok(self.removed.insert(id))
    }

    /// Removes the object of a name. Returns false if there is none, or if this change has removed it already.
    ///
    /// # Errors
    /// As [`ObjectStore::find`].
    pub fn remove_named(&mut self, name: &str) -> Result<bool, StoreError> {
        Ok(self.store.find(name)?.is_some_and(|id| self.removed.insert(id)))
    }

    /// Puts the parts on disk; the store is still unchanged.
    ///
    /// # Errors
    /// When there is nothing to change, no object would be left, or a file cannot be written.
    pub fn write(mut self) -> Result<PendingChange, StoreError> {
        let (added, removed) = (self.added(), self.removed.len() as u64);
        if added + removed == 0 {
            return Err(StoreError::NoChange { path: self.given });
        }
        if self.store.objects() + added == removed {
            return Err(StoreError::NoneLeft { path: self.given });
        }
        let lines = self.manifest.lines().len() + usize::from(added > 0) + usize::from(removed > 0);
        if lines > CHANGES_MAX + 1 {
            return Err(StoreError::TooManyChanges { path: self.given });
        }
        let known_lines = if self.base.is_some() { 0 } else { self.manifest.lines().len() };
        // Removals come first, so that their names are free for additions.
        let removed_ids = (removed > 0).then(|| {
            let ids: Vec<u64> = self.removed.iter().copied().collect();
            let (bytes, fingerprint) = removed::text(&ids);
            (self.name_part(PartKind::Removed, removed, fingerprint), bytes)
        });
        let added_objects = match self.writer.take() {
            Some(writer) => {
                let (file, count, fingerprint) = writer.finish_file()?;
                Some((self.name_part(PartKind::Added, count, fingerprint), file))
            }
            None => None,
        };
        let given = self.given.clone();
        let io = |source| StoreError::Io { path: given.clone(), action: "write", source };
        self.parts.lines = self.manifest.lines()[known_lines..].to_vec();
        self.lock.note(&self.parts.lines).map_err(io)?;
        if let Some((path, bytes)) = removed_ids {
            let mut file = TemporaryFile::create(&self.parts.path).map_err(io)?;
            file.write_all(&bytes).map_err(io)?;
            step("removed ids written");
            file.keep_as(&path).map_err(io)?;
            step("removed ids kept");
        }
        if let Some((path, file)) = added_objects {
            file.keep_as(&path).map_err(io)?;
            step("added objects kept");
        }
        if let Some(base) = &self.base {
            link(&self.parts.path, base).map_err(io)?;
            step("base linked");
        }
        let (open, access) = (&self.store.files.parts, self.store.access());
        let files = Files::of_manifest(&self.given, &self.manifest, open, access)?;
        let store = ObjectStore::<K>::of_files(files)?;
        let Self { given, parts, manifest, lock, .. } = self;
        Ok(PendingChange { given, parts, store: Arc::new(store), manifest, added, removed, lock })
    }

    /// Adds the line of a part to the record, and returns the path for the part.
    fn name_part(&mut self, kind: PartKind, count: u64, fingerprint: String) -> PathBuf {
        let lines = self.manifest.lines();
        let (path, file) = free_part(&self.parts.path, lines.len(), lines);
        self.manifest.push(Line { kind, count, fingerprint, file });
        path
    }
}

/// An object as text, equal for equal objects only.
fn text<K: Kind>(kind: &K, item: K::Item<'_>) -> String {
    let mut text = String::new();
    kind.write_json(item, false, &mut text);
    text
}

/// A change whose parts are on disk, but which is not in effect. Dropping it leaves the store unchanged.
pub struct PendingChange {
    given: PathBuf,
    parts: NewParts,
    store: Arc<dyn Store>,
    manifest: Manifest,
    added: u64,
    removed: u64,
    lock: StoreLock,
}

impl PendingChange {
    /// The store after the change.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Puts the change into effect, and returns the numbers of added and removed objects.
    ///
    /// # Errors
    /// When the record cannot be written: the store is unchanged.
    pub fn commit(mut self) -> Result<(u64, u64), StoreError> {
        let text = self.manifest.text();
        let written = TemporaryFile::create(&self.parts.path).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            step("record written");
            file.keep()
        });
        let given = self.given;
        written.map_err(|source| StoreError::Io { path: given, action: "write", source })?;
        step("record kept");
        self.parts.is_kept = true;
        drop(self.lock);
        Ok((self.added, self.removed))
    }
}

/// Gives a store's file a second name, or copies it if the file system knows no hard links.
fn link(store: &Path, base: &Path) -> io::Result<()> {
    if fs::hard_link(store, base).is_ok() {
        return File::open(folder_of(base))?.sync_all();
    }
    let mut file = TemporaryFile::create(store)?;
    io::copy(&mut File::open(store)?, &mut file)?;
    file.keep_as(base)
}

/// A free path and name beside a store, which no file has and no line names; existing files may be foreign.
fn free_part(store: &Path, first: usize, lines: &[Line]) -> (PathBuf, String) {
    let name = store.file_name().unwrap_or_default().to_string_lossy();
    let mut number = first;
    loop {
        let file = format!("{name}.part-{number}");
        let path = store.with_file_name(&file);
        if lines.iter().all(|line| line.file != file) && path.symlink_metadata().is_err() {
            return (path, file);
        }
        number += 1;
    }
}
