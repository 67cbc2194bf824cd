//! Arrow IPC files and streams, and Parquet files, of other programs, batch by batch.
//!
//! Invariant: no content of a file ends the thread. The reader refuses sizes that the file cannot hold before it
//! allocates memory for them, and turns a panic of Arrow's reader, which expects sound files, into an error.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_ipc::reader::{FileReader, StreamReader, read_footer_length};
use arrow_schema::{ArrowError, SchemaRef};

use crate::arrow_file::TRAILER_BYTES;

/// The bytes with which a Parquet file begins and ends.
const PARQUET_MAGIC: &[u8] = b"PAR1";
/// Rows of a batch of a Parquet file.
#[cfg(feature = "parquet")]
const PARQUET_ROWS: usize = 1024;

/// Whether a file begins as Parquet files do. Leaves the file at its beginning.
///
/// # Errors
/// When it cannot be read.
pub fn is_parquet(file: &mut File) -> std::io::Result<bool> {
    let mut magic = Vec::new();
    file.by_ref().take(PARQUET_MAGIC.len() as u64).read_to_end(&mut magic)?;
    file.rewind()?;
    Ok(magic == PARQUET_MAGIC)
}

/// The batches of a file or stream, up to its first error.
pub struct ForeignBatches {
    schema: SchemaRef,
    /// `None` after an error.
    reader: Option<Box<dyn RecordBatchReader + Send>>,
}

impl ForeignBatches {
    /// The batches of a file.
    ///
    /// # Errors
    /// When it is no Arrow IPC file.
    pub fn of_file(mut file: File) -> Result<Self, ArrowError> {
        check_sizes(&mut file)?;
        Self::new(|| Ok(Box::new(FileReader::try_new(BufReader::new(file), None)?)))
    }

    /// The batches of a stream.
    ///
    /// # Errors
    /// When it is no Arrow IPC stream.
    pub fn of_stream(stream: impl Read + Send + 'static) -> Result<Self, ArrowError> {
        Self::new(|| Ok(Box::new(StreamReader::try_new(BufReader::new(stream), None)?)))
    }

    /// The batches of a Parquet file, with snappy, zstd or no compression.
    ///
    /// # Errors
    /// When it is no such file, or this program was built without the feature `parquet`.
    #[cfg(feature = "parquet")]
    pub fn of_parquet(file: File) -> Result<Self, String> {
        use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
        let open = || {
            let reader =
                ParquetRecordBatchReaderBuilder::try_new(file)?.with_batch_size(PARQUET_ROWS).build()?;
            Ok::<Box<dyn RecordBatchReader + Send>, ArrowError>(Box::new(reader))
        };
        Self::new(open).map_err(|error| format!("is no Parquet file that can be read: {error}"))
    }

    /// The batches of a Parquet file, with snappy, zstd or no compression.
    ///
    /// # Errors
    /// This program was built without the feature `parquet`.
    #[cfg(not(feature = "parquet"))]
    pub fn of_parquet(_: File) -> Result<Self, String> {
        Err("is a Parquet file, which this program was built without: build it with `--features parquet`, or write \
             an Arrow IPC file"
            .to_owned())
    }

    fn new(
        open: impl FnOnce() -> Result<Box<dyn RecordBatchReader + Send>, ArrowError>,
    ) -> Result<Self, ArrowError> {
        let reader = guarded(open)?;
        Ok(Self { schema: reader.schema(), reader: Some(reader) })
    }
}

impl Iterator for ForeignBatches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut reader = self.reader.take()?;
        let next = guarded(|| reader.next().transpose());
        if let Ok(Some(_)) = &next {
            self.reader = Some(reader);
        }
        next.transpose()
    }
}

impl RecordBatchReader for ForeignBatches {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

impl std::fmt::Debug for ForeignBatches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForeignBatches").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// Runs a part of Arrow's reader, which panics if some numbers of bytes and rows contradict each other.
fn guarded<T>(read: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    let damaged = || ArrowError::ParseError("its numbers of bytes and rows do not go together".to_owned());
    // Nothing uses a reader after its panic.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(damaged()))
}

/// Refuses a file that is shorter than its footer, or its footer's batches, claim: Arrow's reader makes room for them
/// before it reads them.
fn check_sizes(file: &mut File) -> Result<(), ArrowError> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(TRAILER_BYTES as u64)))?;
    let mut trailer = [0; TRAILER_BYTES];
    file.read_exact(&mut trailer)?;
    let footer_bytes = read_footer_length(trailer)?;
    let refused = |part: &str, bytes: i128| {
        let message = format!("its {part} should take {bytes} bytes of a file of {length}");
        Err(ArrowError::ParseError(message))
    };
    let Some(start) = length.checked_sub((footer_bytes + TRAILER_BYTES) as u64) else {
        return refused("footer", footer_bytes as i128);
    };
    file.seek(SeekFrom::Start(start))?;
    let mut footer = vec![0; footer_bytes];
    file.read_exact(&mut footer)?;
    file.rewind()?;
    let footer = arrow_ipc::root_as_footer(&footer)
        .map_err(|error| ArrowError::ParseError(format!("its footer cannot be read: {error}")))?;
    let blocks = [footer.recordBatches(), footer.dictionaries()];
    for block in blocks.into_iter().flatten().flatten() {
        let (header, body) = (i128::from(block.metaDataLength()), i128::from(block.bodyLength()));
        let end = i128::from(block.offset()) + header + body;
        if block.offset() < 0 || header < 0 || body < 0 || end > i128::from(start) {
            return refused("batch", header + body);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float32Array};
    use arrow_ipc::writer::{FileWriter, StreamWriter};

    use super::*;

    fn batch() -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0]));
        RecordBatch::try_from_iter([("number", numbers)]).unwrap()
    }

    /// The bytes of two batches as a file and as a stream.
    fn sound() -> [Vec<u8>; 2] {
        let batch = batch();
        let mut file = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        for _ in 0..2 {
            file.write(&batch).unwrap();
            stream.write(&batch).unwrap();
        }
        [file.into_inner().unwrap(), stream.into_inner().unwrap()]
    }

    /// Whether reading all batches ends in an error.
    fn is_refused(path: &Path, bytes: &[u8], is_file: bool) -> bool {
        fs::write(path, bytes).unwrap();
        let file = File::open(path).unwrap();
        let read = if is_file { ForeignBatches::of_file(file) } else { ForeignBatches::of_stream(file) };
        let Ok(mut batches) = read else { return true };
        let is_refused = batches.by_ref().any(|batch| batch.is_err());
        assert!(batches.next().is_none(), "a reader is used after its end");
        is_refused
    }

    /// The number of places in a file and a stream at which a change is an error.
    fn refused(change: impl Fn(u8) -> u8) -> usize {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("foreign.arrow");
        let mut count = 0;
        for (sound, is_file) in sound().iter().zip([true, false]) {
            for place in 0..sound.len() {
                let mut bytes = sound.clone();
                bytes[place] = change(bytes[place]);
                count += usize::from(is_refused(&path, &bytes, is_file));
            }
        }
        count
    }

    #[test]
    fn no_damage_of_a_file_or_stream_panics() {
        assert_eq!(refused(|byte| byte), 0);
        assert!(refused(|byte| !byte) > 100);
        assert!(refused(|byte| byte.wrapping_add(4)) > 100);
    }

    #[test]
    #[cfg(not(feature = "parquet"))]
    fn a_parquet_file_is_refused_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.parquet");
        for (bytes, is_one) in [(&b"PAR1 and more"[..], true), (b"PAR", false), (b"ARROW1", false)] {
            fs::write(&path, bytes).unwrap();
            assert_eq!(is_parquet(&mut File::open(&path).unwrap()).unwrap(), is_one);
        }
        let refused = ForeignBatches::of_parquet(File::open(&path).unwrap()).unwrap_err();
        assert!(refused.contains("--features parquet"), "{refused}");
    }

    /// Rows of vectors with names, as Parquet.
    #[cfg(feature = "parquet")]
    fn parquet(compression: parquet::basic::Compression, rows: usize, is_fixed: bool) -> Vec<u8> {
        use arrow_array::types::Float32Type;
        use arrow_array::{FixedSizeListArray, ListArray, StringArray};
        use parquet::arrow::ArrowWriter;
        use parquet::file::properties::WriterProperties;

        let vectors = (0..rows).map(|row| Some((0..3).map(move |j| Some((row * 3 + j) as f32))));
        let vectors: ArrayRef = match is_fixed {
            true => Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(vectors, 3)),
            false => Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(vectors)),
        };
        let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("v{row}"))));
        let batch = RecordBatch::try_from_iter([("name", names), ("embedding", vectors)]).unwrap();
        let properties = WriterProperties::builder().set_compression(compression).build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    }

    #[test]
    #[cfg(feature = "parquet")]
    fn vectors_of_parquet_files_are_objects() {
        use crate::object_column;
        use parquet::basic::Compression;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.parquet");
        let zstd = Compression::ZSTD(Default::default());
        for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, zstd] {
            for (rows, is_fixed) in [(1, true), (3000, true), (3000, false)] {
                fs::write(&path, parquet(compression, rows, is_fixed)).unwrap();
                let store = object_column::open(&path, Some("embedding"), "name", None).unwrap();
                assert_eq!((store.objects_count(), store.kind()), (rows as u64, "vectors"));
                let last = rows as u64 - 1;
                assert_eq!(store.name(last).unwrap(), format!("v{last}"));
                let numbers = crate::lists::vectors(&*store, &[last]).unwrap();
                assert_eq!(numbers, [0, 1, 2].map(|j| (last * 3 + j) as f32));
            }
        }
        let other = object_column::open(&path, Some("vector"), "name", None).unwrap_err().to_string();
        assert!(other.contains("name, embedding") && other.contains("some.parquet"), "{other}");
    }

    #[test]
    #[cfg(feature = "parquet")]
    fn no_damage_of_a_parquet_file_panics() {
        use parquet::basic::Compression;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.parquet");
        let mut refused = 0;
        for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY] {
            let sound = parquet(compression, 20, true);
            let mut check = |bytes: &[u8]| {
                fs::write(&path, bytes).unwrap();
                let read = ForeignBatches::of_parquet(File::open(&path).unwrap());
                refused += usize::from(read.map_or(true, |mut batches| batches.any(|batch| batch.is_err())));
            };
            (0..sound.len()).for_each(|length| check(&sound[..length]));
            for place in 0..sound.len() {
                for change in [1, 0x80, 0xff] {
                    let mut bytes = sound.clone();
                    bytes[place] ^= change;
                    check(&bytes);
                }
            }
        }
        assert!(refused > 1000, "{refused}");
    }
}
