//! The store of objects of any kind: an Arrow IPC file, mapped into memory or read batch by batch ([`Access`]).
//!
//! An object's id is its row. Opening checks the head and the tail; each batch is checked by its checksums before its
//! first use, names separately from the objects' numbers, so that a search by name reads no numbers. Numbers and names
//! of a map are not copied: the store costs page cache, a few words per batch, and 8 bytes per used object. Only texts
//! are decoded into memory.
//!
//! A file may be truncated or overwritten under an open store. So mapped bytes are lent only to a closure, by
//! [`ObjectStore::read`], which checks that the file is unchanged *before* it returns the closure's result; nothing
//! that borrows the map outlives the closure. A store whose file was changed refuses all further reads.
//!
//! Objects from another program's file are in memory ([`Rows`]), and otherwise form a store like any other.

mod layout;
mod temporary;
mod columns;
mod manifest;
mod removed;
mod orphans;
mod lock;
mod writer;
#[cfg(not(miri))]
mod bus_error;
mod map;
mod part;
mod files;
mod objects;
mod by_name;
mod as_store;
mod rows;
mod change;
mod compact;

use by_name::ByName;
pub use change::{PendingChange, StoreChange};
pub use compact::Compaction;
pub(crate) use compact::copied;
pub use files::Files;
pub(crate) use lock::StoreLock;
pub use map::Access;
pub(crate) use map::{Map, read_at};
pub use objects::Objects;
pub(crate) use part::MAPPED_BYTES_MIN;
pub use rows::Rows;
pub use temporary::TemporaryFile;
pub(crate) use temporary::{real_path, remove_leftovers};
pub use writer::{StoreInfo, StoreWriter};

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow_array::StringArray;
use arrow_buffer::Buffer;
use boxwork_kernels::interrupt::{Interrupt, ask, never};
use boxwork_runtime::topology::Topology;

use super::kinds::Kind;
use super::new_number;
use super::store::Store;
use super::store_error::StoreError;

/// The objects of a store, by id and by name.
pub struct ObjectStore<K: Kind> {
    files: Files,
    kind: K,
    batches: Vec<Batch<K>>,
    len: u64,
    number: u64,
    by_name: OnceLock<ByName>,
    /// The machine whose nodes take copies of the batches.
    machine: Option<Topology>,
}

/// A batch of a part, and its checked contents.
struct Batch<K: Kind> {
    part: usize,
    /// Its index in the part.
    idx: usize,
    first: u64,
    rows: u64,
    /// Its bytes in the file, or in memory if it is in no file.
    bytes: usize,
    names: OnceLock<StringArray>,
    whole: OnceLock<K::Batch>,
}

impl<K: Kind> ObjectStore<K> {
    /// Opens a store: checks its head and tail, and maps the rest. A changed store is opened with all its parts, as of
    /// one moment.
    ///
    /// # Errors
    /// When the file cannot be read, is no store of this kind, is cut short, damaged, or of another version.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_by(path, Access::Map)
    }

    /// As [`ObjectStore::open`], but `access` decides whether the rest is mapped or read.
    ///
    /// # Errors
    /// As [`ObjectStore::open`].
    pub fn open_by(path: impl AsRef<Path>, access: Access) -> Result<Self, StoreError> {
        Self::of_files(Files::open(path.as_ref(), access)?)
    }

    /// The store as a store of objects of kind `K`, if its objects are of that kind.
    pub fn of(store: &Arc<dyn Store>) -> Option<Arc<Self>> {
        let any: Arc<dyn std::any::Any + Send + Sync> = Arc::<dyn Store>::clone(store);
        any.downcast().ok()
    }

    /// The store in these files.
    ///
    /// # Errors
    /// When they hold objects of another kind, or of different dimensions or coordinates.
    pub(crate) fn of_files(files: Files) -> Result<Self, StoreError> {
        let mut kind: Option<K> = None;
        for part in &files.parts {
            let of_part = Self::kind_of(part)?;
            match &kind {
                Some(first) if *first != of_part => {
                    let (path, found, wanted) = (part.path.clone(), of_part.shape(), first.shape());
                    return Err(StoreError::OtherShape { path, kind: K::NAME, found, wanted });
                }
                _ => kind = Some(of_part),
            }
        }
        let path = &files.path;
        let kind = kind.ok_or_else(|| StoreError::Empty { path: path.clone() })?;
        let (mut batches, mut first) = (Vec::new(), 0);
        for (part, opened) in files.parts.iter().enumerate() {
            for (idx, batch) in opened.batches.iter().enumerate() {
                let rows = batch.entry.rows as u64;
                let (names, whole) = (OnceLock::new(), OnceLock::new());
                let bytes = part::block_bytes(&batch.block);
                batches.push(Batch { part, idx, first, rows, bytes, names, whole });
                first += rows;
            }
        }
        let (number, by_name) = (new_number(), OnceLock::new());
        Ok(Self { files, kind, batches, len: first, number, by_name, machine: None })
    }

    fn kind_of(part: &part::Part) -> Result<K, StoreError> {
        let path = &part.path;
        if part.kind != K::NAME {
            let (path, found, wanted) = (path.clone(), part.kind.clone(), K::NAME);
            return Err(StoreError::OtherKind { path, found, wanted });
        }
        let kind = K::of_schema(&part.schema);
        let kind =
            kind.filter(|kind| part.schema.fields() == layout::schema(kind, Default::default()).fields());
        kind.ok_or_else(|| StoreError::NotAStore {
            path: path.clone(),
            reason: format!("its columns do not fit {}", K::NAME),
            is_foreign: false,
        })
    }

    /// Whether the bytes of its files are mapped or read.
    pub fn access(&self) -> Access {
        self.files.access
    }

    /// This store, with each batch copied to a node of `machine` at its first use: the first batches to the first node,
    /// and equally many to each. Mapped bytes lie wherever the system has cached the file.
    #[must_use]
    pub fn copied_to(mut self, machine: Topology) -> Self {
        self.machine = Some(machine);
        self
    }

    /// Nodes to which batches are copied; 0 if they stay mapped.
    pub fn nodes(&self) -> usize {
        self.machine.as_ref().map_or(0, |machine| machine.nodes().len())
    }

    /// The node of a batch, if batches are copied.
    pub fn node(&self, batch: usize) -> Option<usize> {
        self.machine.as_ref().map(|machine| batch * machine.nodes().len() / self.batches())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.files.path
    }

    /// Number of ids, at least 1: all ids are below it. Removed objects count too, unlike in [`ObjectStore::objects`].
    #[expect(clippy::len_without_is_empty, reason = "a store is never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Number of objects, at least 1.
    pub fn objects(&self) -> u64 {
        self.len - self.files.removed.len()
    }

    /// Whether an id has an object; false if it was removed.
    #[inline]
    pub fn has(&self, id: u64) -> bool {
        id < self.len && !self.files.removed.contains(id)
    }

    /// The id of the `nth` object, counted from 0 without removed ones.
    ///
    /// # Panics
    /// When there are no more than `nth` objects.
    pub fn nth(&self, nth: u64) -> u64 {
        assert!(nth < self.objects(), "object {nth} of {}", self.objects());
        self.files.removed.nth_kept(nth)
    }

    /// The number of objects before an id: the inverse of [`ObjectStore::nth`].
    pub fn rank(&self, id: u64) -> u64 {
        id - self.files.removed.before(id)
    }

    /// The ids of a range that have objects.
    pub fn among(&self, ids: Range<u64>) -> impl Iterator<Item = u64> + Clone + '_ {
        let has_all = self.files.removed.is_empty();
        ids.filter(move |id| has_all || !self.files.removed.contains(*id))
    }

    /// The number of objects in a range of ids.
    pub fn count(&self, ids: Range<u64>) -> u64 {
        self.rank(ids.end) - self.rank(ids.start)
    }

    /// The common properties of all objects.
    pub fn kind(&self) -> &K {
        &self.kind
    }

    /// Refuses objects whose dimension or coordinates differ from the store's.
    ///
    /// # Errors
    /// Names both.
    pub fn check_kind(&self, wanted: &K) -> Result<(), StoreError> {
        if self.kind == *wanted {
            return Ok(());
        }
        let (path, found, wanted) = (self.files.path.clone(), self.kind.shape(), wanted.shape());
        Err(StoreError::OtherShape { path, kind: K::NAME, found, wanted })
    }

    /// The parameters of the extraction, as JSON, if they are known.
    pub fn parameters(&self) -> Option<&str> {
        self.info().parameters.as_deref()
    }

    /// The folder that contains the images, if there are images; names are paths in it.
    pub fn source(&self) -> Option<&Path> {
        self.info().source.as_deref()
    }

    /// The alpha of searches that name none, if the store keeps one.
    pub fn alpha(&self) -> Option<f64> {
        self.info().alpha
    }

    /// The metadata, which a change and a copy keep.
    fn info(&self) -> &StoreInfo {
        &self.files.info
    }

    /// A text unique to this content, by which an index recognises its store.
    pub fn fingerprint(&self) -> &str {
        self.files.fingerprint()
    }

    /// The number of ids that the store had when it had this fingerprint; `None` if it never had it. A compaction
    /// forgets earlier fingerprints.
    pub fn ids_at(&self, fingerprint: &str) -> Option<u64> {
        // The latest first: callers usually ask for it.
        self.files.history.iter().rev().find(|(known, _)| known == fingerprint).map(|(_, ids)| *ids)
    }

    /// Whether objects were added or removed since the store was made or compacted.
    pub fn is_changed(&self) -> bool {
        self.files.history.len() > 1
    }

    /// Number of batches.
    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    /// The ids of a batch's objects.
    ///
    /// # Panics
    /// When there is no such batch.
    pub fn ids(&self, batch: usize) -> Range<u64> {
        let batch = &self.batches[batch];
        batch.first..batch.first + batch.rows
    }

    /// The bytes of a batch in the file; 0 if the objects come from no store file.
    ///
    /// # Panics
    /// When there is no such batch.
    pub fn batch_bytes(&self, batch: usize) -> usize {
        self.batches[batch].bytes
    }

    /// A number that no other store of this process has or had.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The batch of an object, and its row there.
    ///
    /// # Errors
    /// When there is no such object.
    pub fn locate(&self, id: u64) -> Result<(usize, usize), StoreError> {
        if id >= self.len {
            return Err(StoreError::NoObject { path: self.files.path.clone(), id, count: self.len });
        }
        // Most stores have batches of one size; a search would mispredict each of its steps.
        let of_batch = self.batches.get(1).map_or(self.len, |second| second.first).max(1);
        let guess = (id / of_batch) as usize;
        let is_right = self.batches.get(guess).is_some_and(|batch| batch.first <= id)
            && self.batches.get(guess + 1).is_none_or(|next| id < next.first);
        let batch =
            if is_right { guess } else { self.batches.partition_point(|batch| batch.first <= id) - 1 };
        Ok((batch, (id - self.batches[batch].first) as usize))
    }

    /// Runs a closure on the file's content, and returns its result if the file is unchanged since it was opened.
    ///
    /// Costs a system call: one read for many objects is better than one for each.
    ///
    /// # Errors
    /// The closure's; and, whatever the closure returned, when the file was truncated or overwritten since it was
    /// opened.
    pub fn read<R, E: From<StoreError>>(
        &self,
        f: impl for<'a> FnOnce(Objects<'a, K>) -> Result<R, E>,
    ) -> Result<R, E> {
        let result = f(Objects::new(self));
        match self.is_whole() {
            true => result,
            false => Err(StoreError::Changed { path: self.files.path.clone() }.into()),
        }
    }

    /// Whether the file is unchanged since it was opened. Once false, it remains false.
    pub fn is_whole(&self) -> bool {
        self.files.are_whole()
    }

    /// Whether a batch was used before, so that further use does not block.
    ///
    /// # Panics
    /// When there is no such batch.
    pub fn is_checked(&self, batch: usize) -> bool {
        self.batches[batch].whole.get().is_some()
    }

    /// Reads and checks the batches of these objects; blocks on the disk, so boxes call it `detached`.
    ///
    /// # Errors
    /// When a batch is damaged or there is no such object, and as [`ObjectStore::read`].
    pub fn bring_in(&self, ids: impl IntoIterator<Item = u64>) -> Result<(), StoreError> {
        self.bring_in_until(ids, &never)
    }

    /// As [`ObjectStore::bring_in`], but the caller may interrupt it between two batches.
    ///
    /// # Errors
    /// As [`ObjectStore::bring_in`], and when the caller interrupts.
    pub fn bring_in_until(
        &self,
        ids: impl IntoIterator<Item = u64>,
        interrupt: Interrupt<'_>,
    ) -> Result<(), StoreError> {
        self.read(|objects| {
            ids.into_iter().try_for_each(|id| {
                let (batch, _) = self.locate(id)?;
                if !self.is_checked(batch) {
                    ask(interrupt)?;
                    objects.batch(batch)?;
                }
                Ok(())
            })
        })
    }

    /// Whether [`ObjectStore::bring_in`] has nothing to do for these objects.
    pub fn is_in(&self, ids: impl IntoIterator<Item = u64>) -> bool {
        ids.into_iter().all(|id| self.locate(id).is_ok_and(|(batch, _)| self.is_checked(batch)))
    }

    /// Checks every batch.
    ///
    /// # Errors
    /// When one is damaged, and as [`ObjectStore::read`].
    pub fn verify(&self) -> Result<(), StoreError> {
        self.read(|objects| (0..self.batches()).try_for_each(|batch| objects.batch(batch).map(drop)))
    }

    /// The name of an object.
    ///
    /// # Errors
    /// When there is no such object, its batch is damaged, and as [`ObjectStore::read`].
    pub fn name(&self, id: u64) -> Result<String, StoreError> {
        self.read(|objects| objects.name(id).map(str::to_owned))
    }

    /// The object of a name; the first search reads all names.
    ///
    /// # Errors
    /// When a batch is damaged, and as [`ObjectStore::read`].
    pub fn find(&self, name: &str) -> Result<Option<u64>, StoreError> {
        self.find_until(name, &never)
    }

    /// As [`ObjectStore::find`], but the caller may interrupt it while it reads all names.
    ///
    /// # Errors
    /// As [`ObjectStore::find`], and when the caller interrupts.
    pub fn find_until(&self, name: &str, interrupt: Interrupt<'_>) -> Result<Option<u64>, StoreError> {
        self.read(|objects| {
            let by_name = match self.by_name.get() {
                Some(by_name) => by_name,
                None => {
                    let mut by_name = ByName::new(self.len);
                    for batch in 0..self.batches() {
                        ask(interrupt)?;
                        let named = objects.names(batch)?.zip(self.ids(batch));
                        let mut named = named.filter(|(_, id)| self.has(*id));
                        named.try_for_each(|(name, id)| by_name.add(name, id))?;
                    }
                    by_name.sort(interrupt)?;
                    self.by_name.get_or_init(|| by_name)
                }
            };
            for id in by_name.candidates(name) {
                if objects.name(id)? == name {
                    return Ok(Some(id));
                }
            }
            Ok(None)
        })
    }

    #[inline]
    fn batch(&self, batch: usize) -> Result<&K::Batch, StoreError> {
        match self.batches[batch].whole.get() {
            Some(whole) => Ok(whole),
            None => self.check_whole(batch),
        }
    }

    fn names(&self, batch: usize) -> Result<&StringArray, StoreError> {
        match self.batches[batch].names.get() {
            Some(names) => Ok(names),
            None => self.check_names(batch),
        }
    }

    fn check_names(&self, idx: usize) -> Result<&StringArray, StoreError> {
        let batch = &self.batches[idx];
        let names = self.files.parts[batch.part].names(batch.idx)?;
        Ok(batch.names.get_or_init(|| names))
    }

    // Outlined from `batch`, which every distance calls. Two threads may both check; one result is kept.
    #[cold]
    fn check_whole(&self, idx: usize) -> Result<&K::Batch, StoreError> {
        let batch = &self.batches[idx];
        let whole = self.files.parts[batch.part].whole(&self.kind, batch.idx, &self.placed(idx)?)?;
        Ok(batch.whole.get_or_init(|| whole))
    }

    /// A batch's bytes in their final place: copied to its node, or mapped.
    fn placed(&self, idx: usize) -> Result<Buffer, StoreError> {
        let batch = &self.batches[idx];
        let block = self.files.parts[batch.part].block(batch.idx)?;
        let (Some(machine), Some(node)) = (&self.machine, self.node(idx)) else { return Ok(block) };
        let copied = machine.copy_to(node, &block);
        let io =
            |source| StoreError::Io { path: self.files.path.clone(), action: "copy into memory", source };
        copied.map(map::of_node).map_err(io)
    }
}

impl<K: Kind> std::fmt::Debug for ObjectStore<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectStore")
            .field("path", &self.files.path)
            .field("kind", &self.kind)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
