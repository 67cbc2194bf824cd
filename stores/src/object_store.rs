//! The signature store: an Arrow IPC file of objects, mapped into memory.
//!
//! An object's id is its row. Opening checks the head and the tail; every batch is checked by its checksums before
//! its first use, names apart from centroids, so that finding an object by its name reads no centroids. Centroids and
//! names are not copied: a store costs page cache, a few words for each batch, and 8 bytes an object that was used.
//!
//! A file may be cut short or overwritten under an open store. So what is mapped is lent to a closure alone, by
//! [`SignatureStore::read`], which asks whether the file is still the one that was opened *before* it gives the
//! closure's result; nothing that the map holds can be kept beyond it. A store whose file was changed answers no more.

mod error;
mod layout;
mod temporary;
mod manifest;
mod removed;
mod orphans;
mod lock;
mod writer;
#[cfg(not(miri))]
mod bus_error;
mod map;
mod batch;
mod part;
mod objects;
mod change;
mod compact;

pub use batch::StoreBatch;
pub use change::{PendingChange, StoreChange};
pub use compact::{Compaction, copy};
pub use error::StoreError;
pub use error::way_out;
pub(crate) use lock::StoreLock;
pub use objects::Objects;
pub use temporary::TemporaryFile;
pub(crate) use temporary::{real_path, remove_leftovers};
pub use writer::{StoreInfo, StoreWriter};

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow_array::StringArray;
use arrow_buffer::Buffer;
use boxwork_kernels::memory::room;
use boxwork_runtime::topology::Topology;

use manifest::{Manifest, PartKind};
use part::Part;
use removed::Removed;

use super::limits::allow_many_files;
use super::new_number;

/// The objects of a store, by id and by name.
pub struct SignatureStore {
    path: PathBuf,
    /// The file, or where it was changed the base and what was added to it, in the order of the ids.
    parts: Vec<Arc<Part>>,
    batches: Vec<Batch>,
    len: u64,
    removed: Removed,
    /// The fingerprints that the store had, from the base's to its own, and the ids that there were.
    history: Vec<(String, u64)>,
    number: u64,
    by_name: OnceLock<Vec<(u64, u64)>>,
    /// The machine that batches are copied to the nodes of.
    machine: Option<Topology>,
}

/// A batch of a part, and what has been checked of it.
struct Batch {
    part: usize,
    /// Its place in the part.
    idx: usize,
    first: u64,
    rows: u64,
    names: OnceLock<StringArray>,
    whole: OnceLock<StoreBatch>,
}

impl SignatureStore {
    /// Opens a store: checks its head and tail, and maps the rest. One that was changed is opened with all its parts,
    /// as it is at one moment.
    ///
    /// # Errors
    /// When the file cannot be read, is no store, is cut short, damaged, or of another version.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let mut before: Option<Manifest> = None;
        loop {
            let io = |source| StoreError::Io { path: path.to_owned(), action: "open", source };
            let file = File::open(path).map_err(io)?;
            if !file.metadata().map_err(io)?.is_file() {
                let reason = "it is no regular file".to_owned();
                return Err(StoreError::NotAStore { path: path.to_owned(), reason, is_foreign: false });
            }
            let Some(manifest) = Manifest::of_file(path, &file)? else {
                let part = Part::of_file(path, file)?;
                let history = vec![(part.fingerprint.clone(), part.len)];
                return Ok(Self::of_parts(path, vec![Arc::new(part)], Removed::default(), history));
            };
            match Self::of_manifest(path, &manifest, &[]) {
                // A part may be missing since the store was compacted at this moment: what it is now is read then.
                Err(error) if before.as_ref() == Some(&manifest) => return Err(error),
                Err(_) => before = Some(manifest),
                opened => return opened,
            }
        }
    }

    /// The store that a record of changes describes, whether it is in force or not. Parts that are `open` already, each
    /// in its place, are shared: an open part may take a map and a file.
    fn of_manifest(path: &Path, manifest: &Manifest, open: &[Arc<Part>]) -> Result<Self, StoreError> {
        /// Parts of a store that no usual limit of open files stands in the way of.
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
                            reason: "they are not those of objects that were there".to_owned(),
                        });
                    }
                    (fingerprint, count)
                }
                PartKind::Base | PartKind::Added => {
                    let open = open.get(parts.len()).filter(|part| part.fingerprint == line.fingerprint);
                    let part = match open {
                        Some(part) => Arc::clone(part),
                        None => Arc::new(Part::open(&file)?),
                    };
                    if let Some(first) = parts.first()
                        && first.coordinates != part.coordinates
                    {
                        let (found, wanted) = (part.coordinates.clone(), first.coordinates.clone());
                        return Err(StoreError::Coordinates { path: file, found, wanted });
                    }
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
        Ok(Self::of_parts(path, parts, removed, manifest.history()))
    }

    fn of_parts(path: &Path, parts: Vec<Arc<Part>>, removed: Removed, history: Vec<(String, u64)>) -> Self {
        let (mut batches, mut first) = (Vec::new(), 0);
        for (part, opened) in parts.iter().enumerate() {
            for (idx, batch) in opened.batches.iter().enumerate() {
                let rows = batch.entry.rows as u64;
                let (names, whole) = (OnceLock::new(), OnceLock::new());
                batches.push(Batch { part, idx, first, rows, names, whole });
                first += rows;
            }
        }
        Self {
            path: path.to_owned(),
            parts,
            batches,
            len: first,
            removed,
            history,
            number: new_number(),
            by_name: OnceLock::new(),
            machine: None,
        }
    }

    /// The same with each batch copied, when it is first used, to a node of a machine: the first batches to the first
    /// node, and as many to each. What is mapped lies wherever the system has cached the file.
    #[must_use]
    pub fn copied_to(mut self, machine: Topology) -> Self {
        self.machine = Some(machine);
        self
    }

    /// Nodes that the batches are copied to; 0 where they stay mapped.
    pub fn nodes(&self) -> usize {
        self.machine.as_ref().map_or(0, |machine| machine.nodes().len())
    }

    /// The node that a batch lies on, where batches are copied.
    pub fn node(&self, batch: usize) -> Option<usize> {
        self.machine.as_ref().map(|machine| batch * machine.nodes().len() / self.batches())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of ids, at least 1: objects are numbered below it. As many objects as that only where none was removed:
    /// see [`SignatureStore::objects`].
    #[expect(clippy::len_without_is_empty, reason = "a store is never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Number of objects, at least 1.
    pub fn objects(&self) -> u64 {
        self.len - self.removed.len()
    }

    /// Whether there is an object of an id: not so when it was removed.
    #[inline]
    pub fn has(&self, id: u64) -> bool {
        id < self.len && !self.removed.contains(id)
    }

    /// The id of the `nth` object, counted from 0 without those that were removed.
    ///
    /// # Panics
    /// When there are no more than `nth` objects.
    pub fn nth(&self, nth: u64) -> u64 {
        assert!(nth < self.objects(), "object {nth} of {}", self.objects());
        self.removed.nth_kept(nth)
    }

    /// How many objects come before an id: what [`SignatureStore::nth`] is given for it.
    pub fn rank(&self, id: u64) -> u64 {
        id - self.removed.before(id)
    }

    /// The ids of a range that there are objects of.
    pub fn among(&self, ids: Range<u64>) -> impl Iterator<Item = u64> + Clone + '_ {
        let has_all = self.removed.is_empty();
        ids.filter(move |id| has_all || !self.removed.contains(*id))
    }

    /// How many objects of a range of ids there are.
    pub fn count(&self, ids: Range<u64>) -> u64 {
        self.rank(ids.end) - self.rank(ids.start)
    }

    /// Number of coordinates of a centroid.
    pub fn dimensions(&self) -> usize {
        self.coordinates().len()
    }

    /// Names of the coordinates, in their order.
    pub fn coordinates(&self) -> &[String] {
        &self.parts[0].coordinates
    }

    /// The parameters of the extraction, as JSON, where they are known.
    pub fn parameters(&self) -> Option<&str> {
        self.parts[0].info.parameters.as_deref()
    }

    /// The folder that the names are paths in, where there are images.
    pub fn source(&self) -> Option<&Path> {
        self.parts[0].info.source.as_deref()
    }

    /// A text that another content does not have: an index keeps it to know its store again.
    pub fn fingerprint(&self) -> &str {
        &self.history[self.history.len() - 1].0
    }

    /// How many ids the store had when its fingerprint was this one; nothing when it never was, as far as the store
    /// knows: what came before it was compacted is forgotten.
    pub fn ids_at(&self, fingerprint: &str) -> Option<u64> {
        // The latest first: that is what is asked for.
        self.history.iter().rev().find(|(known, _)| known == fingerprint).map(|(_, ids)| *ids)
    }

    /// Whether objects were added or removed since the store was made or compacted.
    pub fn is_changed(&self) -> bool {
        self.history.len() > 1
    }

    /// Refuses signatures of other coordinates than the store's.
    ///
    /// # Errors
    /// Names both.
    pub fn check_coordinates<S: AsRef<str>>(&self, wanted: &[S]) -> Result<(), StoreError> {
        if self.coordinates().iter().map(String::as_str).eq(wanted.iter().map(AsRef::as_ref)) {
            return Ok(());
        }
        Err(StoreError::Coordinates {
            path: self.path.clone(),
            found: self.coordinates().to_vec(),
            wanted: wanted.iter().map(|name| name.as_ref().to_owned()).collect(),
        })
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

    /// How many bytes a batch has in the file.
    ///
    /// # Panics
    /// When there is no such batch.
    pub fn batch_bytes(&self, batch: usize) -> usize {
        let batch = &self.batches[batch];
        part::block_bytes(&self.parts[batch.part].batches[batch.idx].block)
    }

    /// A number that no other open store of this process has, or had.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The batch of an object, and its row there.
    ///
    /// # Errors
    /// When there is no such object.
    pub fn locate(&self, id: u64) -> Result<(usize, usize), StoreError> {
        if id >= self.len {
            return Err(StoreError::NoObject { path: self.path.clone(), id, count: self.len });
        }
        let batch = self.batches.partition_point(|batch| batch.first <= id) - 1;
        Ok((batch, (id - self.batches[batch].first) as usize))
    }

    /// Runs a closure on what the file holds, and gives its result if the file is still the one that was opened.
    ///
    /// Costs a system call: one read for many objects is better than one for each.
    ///
    /// # Errors
    /// The closure's; and when the file was cut short or overwritten since it was opened, whatever the closure found.
    pub fn read<R, E: From<StoreError>>(
        &self,
        f: impl for<'a> FnOnce(Objects<'a>) -> Result<R, E>,
    ) -> Result<R, E> {
        let result = f(Objects::new(self));
        match self.is_whole() {
            true => result,
            false => Err(StoreError::Changed { path: self.path.clone() }.into()),
        }
    }

    /// Whether the file is still the one that was opened. Once false, it stays so.
    pub fn is_whole(&self) -> bool {
        self.parts.iter().all(|part| part.map.is_whole())
    }

    /// Whether a batch was used already, so that a further use blocks on nothing.
    ///
    /// # Panics
    /// When there is no such batch.
    pub fn is_checked(&self, batch: usize) -> bool {
        self.batches[batch].whole.get().is_some()
    }

    /// Reads and checks the batches of these objects; blocks on the disk, so boxes call it `detached`.
    ///
    /// # Errors
    /// When a batch is damaged or there is no such object, and as [`SignatureStore::read`].
    pub fn bring_in(&self, ids: impl IntoIterator<Item = u64>) -> Result<(), StoreError> {
        self.read(|objects| ids.into_iter().try_for_each(|id| objects.batch(self.locate(id)?.0).map(drop)))
    }

    /// Whether [`SignatureStore::bring_in`] has nothing to do for these objects.
    pub fn is_in(&self, ids: impl IntoIterator<Item = u64>) -> bool {
        ids.into_iter().all(|id| self.locate(id).is_ok_and(|(batch, _)| self.is_checked(batch)))
    }

    /// Checks every batch.
    ///
    /// # Errors
    /// When one is damaged, and as [`SignatureStore::read`].
    pub fn verify(&self) -> Result<(), StoreError> {
        self.read(|objects| (0..self.batches()).try_for_each(|batch| objects.batch(batch).map(drop)))
    }

    /// The name of an object.
    ///
    /// # Errors
    /// When there is no such object, its batch is damaged, and as [`SignatureStore::read`].
    pub fn name(&self, id: u64) -> Result<String, StoreError> {
        self.read(|objects| objects.name(id).map(str::to_owned))
    }

    /// The object of a name; the first search reads all names.
    ///
    /// # Errors
    /// When a batch is damaged, and as [`SignatureStore::read`].
    pub fn find(&self, name: &str) -> Result<Option<u64>, StoreError> {
        self.read(|objects| {
            let by_name = match self.by_name.get() {
                Some(by_name) => by_name,
                None => {
                    let mut hashes = room(
                        self.len as usize,
                        || format!("finding one of {} objects by its name", self.len),
                        "search by images, or free memory",
                    )?;
                    for batch in 0..self.batches() {
                        let named = objects.names(batch)?.map(hash).zip(self.ids(batch));
                        hashes.extend(named.filter(|(_, id)| self.has(*id)));
                    }
                    hashes.sort_unstable();
                    self.by_name.get_or_init(|| hashes)
                }
            };
            let wanted = hash(name);
            let from = by_name.partition_point(|(hash, _)| *hash < wanted);
            for (_, id) in by_name[from..].iter().take_while(|(hash, _)| *hash == wanted) {
                if objects.name(*id)? == name {
                    return Ok(Some(*id));
                }
            }
            Ok(None)
        })
    }

    #[inline]
    fn batch(&self, batch: usize) -> Result<&StoreBatch, StoreError> {
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
        let names = self.parts[batch.part].names(batch.idx)?;
        Ok(batch.names.get_or_init(|| names))
    }

    // Apart from `batch`, which every distance passes through. Two threads may both check; one result is kept.
    #[cold]
    fn check_whole(&self, idx: usize) -> Result<&StoreBatch, StoreError> {
        let batch = &self.batches[idx];
        let whole = self.parts[batch.part].whole(batch.idx, &self.placed(idx)?)?;
        Ok(batch.whole.get_or_init(|| whole))
    }

    /// A batch's bytes where they are to be used: copied to its node, or mapped.
    fn placed(&self, idx: usize) -> Result<Buffer, StoreError> {
        let batch = &self.batches[idx];
        let block = self.parts[batch.part].block(batch.idx);
        let (Some(machine), Some(node)) = (&self.machine, self.node(idx)) else { return Ok(block) };
        let copied = machine.copy_to(node, &block);
        let io = |source| StoreError::Io { path: self.path.clone(), action: "copy into memory", source };
        copied.map(map::of_node).map_err(io)
    }

    fn damaged(&self, idx: usize, reason: String) -> StoreError {
        let batch = &self.batches[idx];
        self.parts[batch.part].damaged(batch.idx, reason)
    }
}

impl std::fmt::Debug for SignatureStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignatureStore")
            .field("path", &self.path)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
