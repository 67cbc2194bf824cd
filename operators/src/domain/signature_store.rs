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
mod writer;
#[cfg(not(miri))]
mod bus_error;
mod map;
mod batch;
mod objects;
mod resource;

pub use batch::StoreBatch;
pub use error::StoreError;
pub(crate) use error::way_out;
pub use objects::Objects;
pub use resource::SIGNATURE_STORE;
pub(crate) use temporary::TemporaryFile;
pub use writer::{StoreInfo, StoreWriter};

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow_array::{Array, RecordBatch, StringArray};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{RecordBatchDecoder, read_footer_length};
use arrow_ipc::{Block, MetadataVersion};
use arrow_schema::SchemaRef;
use boxwork_runtime::topology::Topology;

use super::signature::coordinate_names;
use layout::BatchEntry;
use map::Map;

/// The objects of a file, by id and by name.
pub struct SignatureStore {
    path: PathBuf,
    map: Arc<Map>,
    schema: SchemaRef,
    coordinates: Vec<String>,
    info: StoreInfo,
    fingerprint: String,
    number: u64,
    batches: Vec<Batch>,
    len: u64,
    by_name: OnceLock<Vec<(u64, u64)>>,
    /// The machine that batches are copied to the nodes of.
    machine: Option<Topology>,
}

/// Numbers the stores that this process opens.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// A batch in the file, and what has been checked of it.
struct Batch {
    block: Block,
    entry: BatchEntry,
    first: u64,
    names: OnceLock<StringArray>,
    whole: OnceLock<StoreBatch>,
}

impl SignatureStore {
    /// Opens a store: checks its head and tail, and maps the rest.
    ///
    /// # Errors
    /// When the file cannot be read, is no store, is cut short, damaged, or of another version.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let io = |source| StoreError::Io { path: path.to_owned(), action: "open", source };
        let not = |reason: &str| StoreError::NotAStore { path: path.to_owned(), reason: reason.to_owned() };
        let file = File::open(path).map_err(io)?;
        if !file.metadata().map_err(io)?.is_file() {
            return Err(not("it is no regular file"));
        }
        let map = Arc::new(Map::new(file).map_err(io)?);
        let store = Self::read_ends(path, Arc::clone(&map));
        match map.is_whole() {
            true => store,
            false => Err(StoreError::Changed { path: path.to_owned() }),
        }
    }

    /// Checks the head and the tail.
    fn read_ends(path: &Path, map: Arc<Map>) -> Result<Self, StoreError> {
        let not = |reason: &str| StoreError::NotAStore { path: path.to_owned(), reason: reason.to_owned() };
        let damaged = |place: &str, reason: String| StoreError::Damaged {
            path: path.to_owned(),
            place: place.to_owned(),
            reason,
        };
        let bytes = map.bytes();
        if !bytes.starts_with(layout::MAGIC) {
            return Err(not("it does not begin as an Arrow file"));
        }
        let truncated = || StoreError::Truncated { path: path.to_owned() };
        let trailer = bytes.last_chunk::<{ layout::TRAILER_BYTES }>().ok_or_else(truncated)?;
        if !trailer.ends_with(layout::MAGIC) {
            return Err(truncated());
        }
        let footer_bytes =
            read_footer_length(*trailer).map_err(|error| damaged("its tail", error.to_string()))?;
        let footer_end = bytes.len() - layout::TRAILER_BYTES;
        let tail_start = footer_end
            .checked_sub(footer_bytes)
            .and_then(|footer_start| footer_start.checked_sub(layout::END_OF_STREAM_BYTES))
            .ok_or_else(|| damaged("its tail", "the footer is longer than the file".to_owned()))?;

        // Copied, since the footer is parsed by what stands in it: it must not change when it has been judged.
        let tail = bytes[tail_start..].to_vec();
        let digits = layout::tail_digits(&tail).ok_or_else(|| not("it carries no checksum of Boxwork's"))?;
        let checksum = layout::tail_checksum(&tail, &digits);
        if tail[digits] != *checksum.as_bytes() {
            return Err(damaged("its tail", CHECKSUM_DIFFERS.to_owned()));
        }
        let footer = arrow_ipc::root_as_footer(&tail[layout::END_OF_STREAM_BYTES..][..footer_bytes])
            .map_err(|error| damaged("its footer", error.to_string()))?;
        let schema = footer.schema().ok_or_else(|| not("it has no schema"))?;
        let schema = try_fb_to_schema(schema).map_err(|error| damaged("its schema", error.to_string()))?;
        let said = |key: &str| schema.metadata().get(key).cloned();
        if said(layout::FORMAT_KEY).as_deref() != Some(layout::FORMAT) {
            return Err(not("its metadata does not say `boxwork.format = signatures`"));
        }
        match said(layout::VERSION_KEY).unwrap_or_default() {
            version if version == layout::VERSION => {}
            found => return Err(StoreError::Version { path: path.to_owned(), found }),
        }
        let coordinates =
            schema.field_with_name("signature").ok().and_then(|f| coordinate_names(f.data_type()));
        let coordinates = coordinates.ok_or_else(|| not("it has no column of signatures"))?;
        if schema.fields() != layout::schema(&coordinates, Default::default()).fields() {
            return Err(not("its columns are not id, name, signature, width and height"));
        }

        let checksums = footer.custom_metadata().and_then(|metadata| {
            (0..metadata.len())
                .map(|idx| metadata.get(idx))
                .find(|entry| entry.key() == Some(layout::CHECKSUMS_KEY))
                .and_then(|entry| entry.value())
        });
        let (head, entries) = checksums
            .and_then(layout::read_checksums)
            .ok_or_else(|| damaged("its footer", "the checksums cannot be read".to_owned()))?;
        let blocks: Vec<Block> = footer.recordBatches().into_iter().flatten().copied().collect();
        let (batches, head_end, len) = lay_out(&blocks, &entries, tail_start)
            .ok_or_else(|| damaged("its footer", "the batches do not fill the file".to_owned()))?;
        if crc32fast::hash(&bytes[..head_end]) != head {
            return Err(damaged("its head", CHECKSUM_DIFFERS.to_owned()));
        }
        let info = StoreInfo {
            parameters: said(layout::PARAMETERS_KEY),
            source: said(layout::SOURCE_KEY).map(PathBuf::from),
        };
        Ok(Self {
            path: path.to_owned(),
            schema: SchemaRef::new(schema),
            coordinates,
            info,
            // The tail holds all other checksums.
            fingerprint: format!("{:x}-{checksum}", bytes.len()),
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            map,
            batches,
            len,
            by_name: OnceLock::new(),
            machine: None,
        })
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

    /// Number of objects, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a store is never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Number of coordinates of a centroid.
    pub fn dimensions(&self) -> usize {
        self.coordinates.len()
    }

    /// Names of the coordinates, in their order.
    pub fn coordinates(&self) -> &[String] {
        &self.coordinates
    }

    /// The parameters of the extraction, as JSON, where they are known.
    pub fn parameters(&self) -> Option<&str> {
        self.info.parameters.as_deref()
    }

    /// The folder that the names are paths in, where there are images.
    pub fn source(&self) -> Option<&Path> {
        self.info.source.as_deref()
    }

    /// A text that another content does not have: an index keeps it to know its store again.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Refuses signatures of other coordinates than the store's.
    ///
    /// # Errors
    /// Names both.
    pub fn check_coordinates<S: AsRef<str>>(&self, wanted: &[S]) -> Result<(), StoreError> {
        if self.coordinates.iter().map(String::as_str).eq(wanted.iter().map(AsRef::as_ref)) {
            return Ok(());
        }
        Err(StoreError::Coordinates {
            path: self.path.clone(),
            found: self.coordinates.clone(),
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
        batch.first..batch.first + batch.entry.rows as u64
    }

    /// How many bytes a batch has in the file.
    ///
    /// # Panics
    /// When there is no such batch.
    pub fn batch_bytes(&self, batch: usize) -> usize {
        block_bytes(&self.batches[batch].block)
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
        self.map.is_whole()
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
                    let mut hashes = Vec::with_capacity(self.len as usize);
                    for batch in 0..self.batches() {
                        hashes.extend(objects.names(batch)?.map(hash).zip(self.ids(batch)));
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
        /// The columns id and name.
        const FRONT: [usize; 2] = [0, 1];
        let (batch, block) = (&self.batches[idx], self.block(idx));
        let table = self.decode(&block, &self.check_front(&block, idx)?, idx, Some(&FRONT))?;
        let damaged = |reason| self.damaged(idx, reason);
        batch::check_ids(&table, batch.first).map_err(damaged)?;
        let names = batch::typed(&table, "name").and_then(batch::own_names).map_err(damaged)?;
        if names.len() != batch.entry.rows {
            return Err(self.damaged(idx, "it has another number of rows than the footer says".to_owned()));
        }
        Ok(batch.names.get_or_init(|| names))
    }

    // Apart from `batch`, which every distance passes through. Two threads may both check; one result is kept.
    #[cold]
    fn check_whole(&self, idx: usize) -> Result<&StoreBatch, StoreError> {
        let (batch, block) = (&self.batches[idx], self.placed(idx)?);
        let header = self.check_front(&block, idx)?;
        if crc32fast::hash(&block[batch.entry.front_bytes..]) != batch.entry.rest {
            return Err(self.damaged(idx, CHECKSUM_DIFFERS.to_owned()));
        }
        let table = self.decode(&block, &header, idx, None)?;
        if table.num_rows() != batch.entry.rows {
            return Err(self.damaged(idx, "it has another number of rows than the footer says".to_owned()));
        }
        let whole = StoreBatch::new(&table, batch.first).map_err(|reason| self.damaged(idx, reason))?;
        Ok(batch.whole.get_or_init(|| whole))
    }

    /// Checks what comes before the centroids, and gives the header: a copy, since the batch is read by what stands
    /// in it, and it must not change when it has been judged.
    fn check_front(&self, block: &Buffer, idx: usize) -> Result<Vec<u8>, StoreError> {
        let batch = &self.batches[idx];
        let header = block[..batch.block.metaDataLength() as usize].to_vec();
        let mut front = crc32fast::Hasher::new();
        front.update(&header);
        front.update(&block[header.len()..batch.entry.front_bytes]);
        if front.finalize() != batch.entry.front {
            return Err(self.damaged(idx, CHECKSUM_DIFFERS.to_owned()));
        }
        if layout::front_bytes(&header, block.len() - header.len()) != Some(batch.entry.front_bytes) {
            return Err(self.damaged(idx, "its header is not that of a batch of signatures".to_owned()));
        }
        Ok(header)
    }

    fn decode(
        &self,
        block: &Buffer,
        header: &[u8],
        idx: usize,
        columns: Option<&[usize]>,
    ) -> Result<RecordBatch, StoreError> {
        let body = block.slice(header.len());
        let batch = layout::read_header(header)
            .ok_or_else(|| self.damaged(idx, "its header is not that of a batch".to_owned()))?;
        let (schema, no_dictionaries) = (SchemaRef::clone(&self.schema), HashMap::new());
        RecordBatchDecoder::try_new(&body, batch, schema, &no_dictionaries, &MetadataVersion::V5)
            .and_then(|decoder| {
                decoder.with_projection(columns).with_require_alignment(true).read_record_batch()
            })
            .map_err(|error| self.damaged(idx, error.to_string()))
    }

    fn block(&self, idx: usize) -> Buffer {
        let block = &self.batches[idx].block;
        self.map.bytes().slice_with_length(block.offset() as usize, block_bytes(block))
    }

    /// A batch's bytes where they are to be used: copied to its node, or mapped.
    fn placed(&self, idx: usize) -> Result<Buffer, StoreError> {
        let block = self.block(idx);
        let (Some(machine), Some(node)) = (&self.machine, self.node(idx)) else { return Ok(block) };
        let copied = machine.copy_to(node, &block);
        let io = |source| StoreError::Io { path: self.path.clone(), action: "copy into memory", source };
        copied.map(map::of_node).map_err(io)
    }

    fn damaged(&self, idx: usize, reason: String) -> StoreError {
        let place = format!("batch {} of {}", idx + 1, self.batches());
        StoreError::Damaged { path: self.path.clone(), place, reason }
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

const CHECKSUM_DIFFERS: &str = "the checksum differs from the one written";

/// The batches, where the first begins, and the number of objects; nothing unless the blocks fill the file from the
/// head to the tail without a gap and each has its entry.
fn lay_out(blocks: &[Block], entries: &[BatchEntry], tail_start: usize) -> Option<(Vec<Batch>, usize, u64)> {
    if blocks.is_empty() || blocks.len() != entries.len() {
        return None;
    }
    let head_end = usize::try_from(blocks[0].offset()).ok()?;
    let (mut end, mut first) = (head_end, 0u64);
    let mut batches = Vec::with_capacity(blocks.len());
    for (block, entry) in blocks.iter().zip(entries) {
        let header_bytes = usize::try_from(block.metaDataLength()).ok()?;
        let body_bytes = usize::try_from(block.bodyLength()).ok()?;
        let bytes = header_bytes.checked_add(body_bytes)?;
        // Eight bytes precede the header's own table.
        if usize::try_from(block.offset()).ok()? != end
            || header_bytes <= 8
            || !end.is_multiple_of(layout::ALIGNMENT_MIN_BYTES)
            || !(header_bytes..=bytes).contains(&entry.front_bytes)
            || entry.rows == 0
            // Memory is asked for by their number: each has an id of eight bytes in the file.
            || entry.rows > body_bytes / size_of::<u64>()
        {
            return None;
        }
        batches.push(Batch {
            block: *block,
            entry: *entry,
            first,
            names: OnceLock::new(),
            whole: OnceLock::new(),
        });
        end = end.checked_add(bytes)?;
        first = first.checked_add(entry.rows as u64)?;
    }
    (end == tail_start).then_some((batches, head_end, first))
}

fn block_bytes(block: &Block) -> usize {
    block.metaDataLength() as usize + block.bodyLength() as usize
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
