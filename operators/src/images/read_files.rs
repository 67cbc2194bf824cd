//! `read_files`: reads the content of files, for the boxes that decode it.
//!
//! Invariant: rows keep the order of the files; an envelope ends with the file that fills it, so that at most one file
//! exceeds `ENVELOPE_BYTES`.

use std::fs::{self, File};
use std::io::Read;
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, StringArray};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};

use crate::columns;

/// An envelope with this many bytes takes no further file.
const ENVELOPE_BYTES: usize = 1 << 20;

/// The largest file that is read: no image that [`decode`](crate::images::decode::DECODE) accepts is longer.
const FILE_BYTES_MAX: u64 = 512 << 20;

const FILES: In = In::stream(0, "files", columns::files, "the files to read");
const BYTES: Out = Out::new(0, "bytes", columns::bytes, "their content, in the order of the input");

/// Reads files.
///
/// A file that cannot be read is reported and skipped.
///
/// # Inputs
/// `files`: paths and names.
///
/// # Outputs
/// `bytes`: path, name and content, about a megabyte per envelope.
///
/// # Parameters
/// None.
pub static READ_FILES: OperatorSpec = OperatorSpec {
    inputs: &[FILES],
    outputs: &[BYTES],
    blocking: Some("disk"),
    example: "read: {kind: read_files, copies: auto}",
    ..OperatorSpec::new("read_files", "Reads files whole.", Kind::Ordered, make)
};

fn make(_: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(ReadFiles { rest: None }))
}

struct ReadFiles {
    /// The current envelope, and the first of its files not read yet.
    rest: Option<(Envelope, usize)>,
}

impl Operator for ReadFiles {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some((files, start)) = self.rest.take().or_else(|| cx.take(FILES).map(|files| (files, 0))) else {
            return Ok(if cx.is_ended(FILES) { Flow::Done } else { Flow::Wait });
        };
        let mut at = start;
        while at < files.rows() {
            if !cx.has_room(BYTES) {
                self.rest = Some((files, at));
                return Ok(Flow::Wait);
            }
            let (paths, names) = (files.texts("path")?, files.texts("name")?);
            let mut read = Group::default();
            at = cx.detached("disk", || {
                let mut idx = at;
                while idx < files.rows() && read.bytes < ENVELOPE_BYTES {
                    read.file(paths.value(idx), names.value(idx));
                    idx += 1;
                }
                idx
            })?;
            for (path, message) in std::mem::take(&mut read.problems) {
                cx.report(path, message);
            }
            if !read.names.is_empty() && cx.push(BYTES, read.envelope()?)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }
}

/// The files of one envelope.
#[derive(Default)]
struct Group<'a> {
    paths: Vec<&'a str>,
    names: Vec<&'a str>,
    contents: Vec<Vec<u8>>,
    bytes: usize,
    problems: Vec<(&'a str, String)>,
}

impl<'a> Group<'a> {
    fn file(&mut self, path: &'a str, name: &'a str) {
        match read(path, FILE_BYTES_MAX) {
            Ok(content) => {
                self.bytes += content.len();
                self.paths.push(path);
                self.names.push(name);
                self.contents.push(content);
            }
            Err(message) => self.problems.push((path, message)),
        }
    }

    fn envelope(self) -> Result<Envelope, BoxError> {
        let columns: [(&str, ArrayRef); 3] = [
            ("path", Arc::new(StringArray::from(self.paths))),
            ("name", Arc::new(StringArray::from(self.names))),
            ("bytes", Arc::new(BinaryArray::from_iter_values(self.contents))),
        ];
        Ok(Envelope::from_columns(columns)?)
    }
}

/// Reads a file whole, if it is not too long; call it within `detached`.
pub(crate) fn read_whole(path: &str) -> Result<Vec<u8>, String> {
    read(path, FILE_BYTES_MAX)
}

fn read(path: &str, limit: u64) -> Result<Vec<u8>, String> {
    let unreadable = |error: std::io::Error| format!("the file cannot be read: {error}");
    // Checked before the file is opened: opening a named pipe would wait for its writer.
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut content = Vec::new();
    let bytes = metadata.len().min(limit);
    content.try_reserve_exact(bytes as usize).map_err(|_| {
        format!("the file takes {} MiB of memory, which the system refuses: free memory", bytes >> 20)
    })?;
    // The limit also holds for a file that grows while it is read.
    let file = File::open(path).map_err(unreadable)?;
    file.take(limit + 1).read_to_end(&mut content).map_err(unreadable)?;
    if content.len() as u64 > limit {
        return Err(format!("the file is longer than {} MiB: make it smaller", limit >> 20));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::harness::Harness;

    use super::*;

    fn files(folder: &std::path::Path, names: &[&str]) -> Envelope {
        let paths: Vec<String> =
            names.iter().map(|name| folder.join(name).to_str().unwrap().to_owned()).collect();
        let columns: [(&str, ArrayRef); 2] = [
            ("path", Arc::new(StringArray::from(paths))),
            ("name", Arc::new(StringArray::from(names.to_vec()))),
        ];
        Envelope::from_columns(columns).unwrap()
    }

    #[test]
    fn splits_at_a_megabyte_and_keeps_the_order() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["a", "b", "c", "d"];
        for (idx, name) in names.iter().enumerate() {
            fs::write(folder.path().join(name), vec![idx as u8; 600_000]).unwrap();
        }
        let mut harness = Harness::new(&READ_FILES, []).unwrap();
        harness.room(1);
        harness.give(FILES, files(folder.path(), &names));
        harness.end(FILES);
        let mut found = Vec::new();
        while !harness.is_done() {
            harness.run().unwrap();
            let envelopes = harness.taken(BYTES);
            assert!(envelopes.len() <= 1);
            for envelope in envelopes {
                assert!(envelope.bytes() < 2 << 20);
                let bytes = envelope.binaries("bytes").unwrap();
                found.extend((0..envelope.rows()).map(|row| (bytes.value(row)[0], bytes.value(row).len())));
            }
        }
        assert_eq!(found, [(0, 600_000), (1, 600_000), (2, 600_000), (3, 600_000)]);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_reported_and_the_rest_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b"), b"b").unwrap();
        fs::create_dir(folder.path().join("c")).unwrap();
        let mut harness = Harness::new(&READ_FILES, []).unwrap();
        harness.give(FILES, files(folder.path(), &["a", "b", "c"]));
        harness.end(FILES);
        harness.run().unwrap();
        assert!(harness.is_done());
        let envelopes = harness.taken(BYTES);
        assert_eq!(envelopes.iter().map(Envelope::rows).sum::<usize>(), 1);
        let problems = harness.problems();
        assert_eq!(problems.len(), 2);
        assert!(problems[0].subject.ends_with("/a") && problems[0].message.contains("cannot be read"));
        assert!(problems[1].message.contains("not a file"));
    }

    #[test]
    fn a_file_beyond_the_limit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, vec![0; (1 << 20) + 1]).unwrap();
        let error = read(path.to_str().unwrap(), 1 << 20).unwrap_err();
        assert!(error.contains("longer than 1 MiB"), "{error}");
        assert_eq!(read(path.to_str().unwrap(), 2 << 20).unwrap().len(), (1 << 20) + 1);
    }
}
