//! A change of a store: objects added and removed, in force all at once or not at all.
//!
//! What is added and removed goes to files of its own, whose names nobody knows yet. [`StoreChange::write`] puts
//! them on disk, and [`PendingChange::commit`] the record that names them in the place of the one before: that
//! renaming is the change. Whoever opened the store before keeps what it opened. What a killed process left is
//! removed by the next change. Costs what is added and removed, and the names of the store to look in.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxwork_kernels::sqfd::SignatureRef;

use super::lock::StoreLock;
use super::manifest::{CHANGES_MAX, Line, Manifest, PartKind, is_beside};
use super::temporary::{TemporaryFile, folder_of};
use super::{SignatureStore, StoreError, StoreInfo, StoreWriter, removed};
use crate::steps::step;

/// A change under way; it holds the store's lock.
pub struct StoreChange {
    /// The name that the user gave, for messages.
    given: PathBuf,
    // Before the lock: dropped first.
    parts: NewParts,
    store: Arc<SignatureStore>,
    manifest: Manifest,
    /// Where the store file must be found once a record stands under its name.
    base: Option<PathBuf>,
    writer: Option<StoreWriter>,
    removed: BTreeSet<u64>,
    lock: StoreLock,
}

/// Files of a change; removed unless it is in force.
struct NewParts {
    /// The store's file.
    path: PathBuf,
    written: Vec<PathBuf>,
    is_kept: bool,
}

impl Drop for NewParts {
    fn drop(&mut self) {
        if !self.is_kept {
            for path in &self.written {
                let _ = fs::remove_file(path);
            }
        }
    }
}

impl StoreChange {
    /// Starts a change of a store.
    ///
    /// # Errors
    /// When another process changes the store, it was changed too often, and as [`SignatureStore::open`].
    pub fn begin(given: impl AsRef<Path>) -> Result<Self, StoreError> {
        let given = given.as_ref();
        let io = |action| move |source| StoreError::Io { path: given.to_owned(), action, source };
        // A link stays one, to a store that is changed.
        let path = fs::canonicalize(given).map_err(io("open"))?;
        let lock = StoreLock::take(&path, given)?;
        // Opened by the file's own name, but known by the one given.
        let store = SignatureStore::open(given)?;
        let file = File::open(&path).map_err(io("open"))?;
        let (manifest, base) = match Manifest::of_file(&path, &file)? {
            Some(manifest) => (manifest, None),
            None => {
                let base = part_path(&path, 0);
                let name = base.file_name().and_then(|name| name.to_str()).filter(|name| is_beside(name));
                let name = name.ok_or_else(|| StoreError::Metadata {
                    path: given.to_owned(),
                    reason: "its name is not one line of UTF-8, which a record of changes must hold"
                        .to_owned(),
                })?;
                (Manifest::new(store.len(), store.fingerprint(), name.to_owned()), Some(base))
            }
        };
        if base.is_some() {
            remove_parts(&path, None);
        } else {
            remove_parts(&path, Some(&manifest));
        }
        Ok(Self {
            given: given.to_owned(),
            parts: NewParts { path, written: Vec::new(), is_kept: false },
            store: Arc::new(store),
            manifest,
            base,
            writer: None,
            removed: BTreeSet::new(),
            lock,
        })
    }

    /// The store as it is before the change.
    pub fn store(&self) -> &Arc<SignatureStore> {
        &self.store
    }

    /// Adds an object. It may have the name of one that is removed by the same change.
    ///
    /// # Errors
    /// When the signature is not sound, an object of that name is there, or the file cannot be written.
    ///
    /// # Panics
    /// When the signature has another number of coordinates than the store.
    pub fn push(
        &mut self,
        name: &str,
        signature: SignatureRef<'_>,
        width: u32,
        height: u32,
    ) -> Result<(), StoreError> {
        if self.store.find(name)?.is_some_and(|id| !self.removed.contains(&id)) {
            return Err(StoreError::AlreadyThere { path: self.given.clone(), name: name.to_owned() });
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let file = self.parts.next(&self.manifest, 0);
                let info = StoreInfo {
                    parameters: self.store.parameters().map(str::to_owned),
                    source: self.store.source().map(Path::to_owned),
                };
                let coordinates = self.store.coordinates();
                self.writer.insert(StoreWriter::create_part(&self.given, &file, coordinates, &info)?)
            }
        };
        writer.push(name, signature, width, height)
    }

    /// Number of objects added so far.
    pub fn added(&self) -> u64 {
        self.writer.as_ref().map_or(0, StoreWriter::len)
    }

    /// Removes an object; says whether it was not removed by this change already.
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

    /// Removes the object of a name; says whether there was one, and it was not removed by this change already.
    ///
    /// # Errors
    /// As [`SignatureStore::find`].
    pub fn remove_named(&mut self, name: &str) -> Result<bool, StoreError> {
        Ok(self.store.find(name)?.is_some_and(|id| self.removed.insert(id)))
    }

    /// Puts the parts on disk; the store is still as it was.
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
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| StoreError::Io { path, action: "write", source }
        };
        let mut lines = Vec::new();
        // What was removed comes first, so that a name is free for what is added.
        if removed > 0 {
            let ids: Vec<u64> = self.removed.iter().copied().collect();
            let path = self.parts.next(&self.manifest, usize::from(added > 0));
            let (bytes, fingerprint) = removed::text(&ids);
            let written = TemporaryFile::create(&path).and_then(|mut file| {
                file.write_all(&bytes)?;
                step("removed ids written");
                file.keep()
            });
            written.map_err(io(&path))?;
            step("removed ids kept");
            lines.push(self.parts.line(PartKind::Removed, removed, fingerprint, path));
        }
        if let Some(writer) = self.writer.take() {
            let path = self.parts.next(&self.manifest, 0);
            let (file, count, fingerprint) = writer.finish_file()?;
            file.keep().map_err(io(&path))?;
            step("added objects kept");
            lines.push(self.parts.line(PartKind::Added, count, fingerprint, path));
        }
        lines.into_iter().for_each(|line| self.manifest.push(line));
        if let Some(base) = &self.base {
            link(&self.parts.path, base).map_err(io(base))?;
            self.parts.written.push(base.clone());
            step("base linked");
        }
        let mut store = SignatureStore::of_manifest(&self.parts.path, &self.manifest)?;
        store.path.clone_from(&self.given);
        let Self { given, parts, manifest, lock, .. } = self;
        Ok(PendingChange { given, parts, store: Arc::new(store), manifest, added, removed, lock })
    }
}

/// A change whose parts are on disk, and which is not in force yet; dropped, it leaves the store as it was.
pub struct PendingChange {
    given: PathBuf,
    parts: NewParts,
    store: Arc<SignatureStore>,
    manifest: Manifest,
    added: u64,
    removed: u64,
    lock: StoreLock,
}

impl PendingChange {
    /// The store as it will be.
    pub fn store(&self) -> &Arc<SignatureStore> {
        &self.store
    }

    /// Puts the change in force, and gives the numbers of objects that were added and removed.
    ///
    /// # Errors
    /// When the record cannot be written: the store stays as it was.
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

impl NewParts {
    /// The file of the part that comes next, but for some.
    fn next(&self, manifest: &Manifest, later: usize) -> PathBuf {
        let numbers = manifest.lines().iter().filter_map(|line| number_of(&self.path, line.file.as_ref()));
        // A store that was given another name has parts of another.
        let last = numbers.max().unwrap_or(0);
        part_path(&self.path, last + 1 + later as u64)
    }

    /// The line of a part that is on disk.
    fn line(&mut self, kind: PartKind, count: u64, fingerprint: String, path: PathBuf) -> Line {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.written.push(path);
        Line { kind, count, fingerprint, file: name }
    }
}

/// A second name for a store file; a copy where files have one name only.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    if fs::hard_link(from, to).is_ok() {
        return File::open(folder_of(to))?.sync_all();
    }
    let mut file = TemporaryFile::create(to)?;
    io::copy(&mut File::open(from)?, &mut file)?;
    file.keep()
}

fn part_path(store: &Path, number: u64) -> PathBuf {
    let mut name = store.file_name().unwrap_or_default().to_owned();
    name.push(format!(".part-{number}"));
    store.with_file_name(name)
}

/// The number of a store's part, where a file's name is that of one.
fn number_of(store: &Path, file: &Path) -> Option<u64> {
    let rest = file.file_name()?.as_encoded_bytes().strip_prefix(store.file_name()?.as_encoded_bytes())?;
    let digits = std::str::from_utf8(rest.strip_prefix(b".part-")?).ok()?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// Removes the parts of a store that its record does not name, or all where it has none. The caller holds the lock.
pub(super) fn remove_parts(store: &Path, manifest: Option<&Manifest>) {
    let Ok(entries) = fs::read_dir(folder_of(store)) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let is_used = || {
            let mut lines = manifest.into_iter().flat_map(Manifest::lines);
            lines.any(|line| name == *line.file)
        };
        if number_of(store, name.as_ref()).is_some() && !is_used() {
            let _ = fs::remove_file(entry.path());
            step("part removed");
        }
    }
}
