//! `write_files`: files below a folder.
//!
//! Invariants: a file is there whole or not at all; nothing is written outside the folder, nor into a folder that is read.

use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::signature_store::{TemporaryFile, way_out};

use crate::columns;

const FILES: In = In::stream(0, "files", columns::named_bytes, "names and contents of files");

/// Writes files below a folder, which it makes.
///
/// # Inputs
/// `files`: names, with `/` between folders, and contents.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `out`: the folder. `not_in`: folders and files that are read; the folder must not lie in one of them. `exists`: what happens
/// if a file is there already: `fail`, `skip` it with a note, or `replace` it.
pub static WRITE_FILES: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "out",
            ParameterType::Path,
            Default::Required,
            "the folder, which is made if it is missing",
        ),
        Parameter::new(
            "not_in",
            ParameterType::List(&ParameterType::Path),
            Default::EmptyList,
            "folders that are read: `out` must not lie in them",
        ),
        Parameter::new(
            "exists",
            ParameterType::Choice(&["fail", "skip", "replace"]),
            Default::Text("fail"),
            "what happens if a file is there already",
        ),
    ],
    inputs: &[FILES],
    example: "files: {kind: write_files, out: clean, exists: skip}",
    ..OperatorSpec::new("write_files", "Writes files below a folder.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let out = bind.path("out");
    if out.exists() && !out.is_dir() {
        return Err(BoxError::new(format!("`{}` is no folder: name a folder for the files", out.display())));
    }
    let real = real_path(&out);
    for read in bind.paths("not_in") {
        if read.canonicalize().is_ok_and(|read| real.starts_with(read)) {
            return Err(BoxError::new(format!(
                "`{}` lies in `{}`, which is read: the next run would read what this one writes; name a folder beside it",
                out.display(),
                read.display()
            )));
        }
    }
    Ok(Box::new(WriteFiles { out, exists: bind.text("exists").to_owned(), written: 0, skipped: 0 }))
}

/// The real path of a file or folder that may not exist yet.
fn real_path(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let known = absolute.ancestors().find_map(|known| Some((known, known.canonicalize().ok()?)));
    match known {
        Some((known, real)) => real.join(absolute.strip_prefix(known).unwrap_or(Path::new(""))),
        None => absolute,
    }
}

struct WriteFiles {
    out: PathBuf,
    exists: String,
    written: u64,
    skipped: u64,
}

impl Operator for WriteFiles {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(FILES) {
            let (names, contents) = (envelope.texts("name")?, envelope.binaries("bytes")?);
            for row in 0..envelope.rows() {
                let outcome = cx.detached("disk", || self.write(names.value(row), contents.value(row)))?;
                match outcome? {
                    true => self.written += 1,
                    false => self.skipped += 1,
                }
            }
            cx.progress(self.written + self.skipped, 0);
        }
        if !cx.is_ended(FILES) {
            return Ok(Flow::Wait);
        }
        cx.progress(self.written + self.skipped, self.written + self.skipped);
        if self.skipped > 0 {
            cx.note(format!(
                "{} files were there already and stay: `exists: replace` replaces them",
                self.skipped
            ));
        }
        Ok(Flow::Done)
    }
}

impl WriteFiles {
    /// Writes a file; false if there is one that stays.
    fn write(&self, name: &str, content: &[u8]) -> Result<bool, BoxError> {
        let below = Path::new(name);
        if name.is_empty() || !below.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(BoxError::new(format!(
                "`{name}` is no name of a file below `{}`: leave out `..` and the first `/`",
                self.out.display()
            )));
        }
        let path = self.out.join(below);
        if path.exists() {
            match self.exists.as_str() {
                "skip" => return Ok(false),
                "replace" => {}
                _ => {
                    return Err(BoxError::new(format!(
                        "`{}` is there already: name another folder, or choose `exists: skip` or `exists: replace`",
                        path.display()
                    )));
                }
            }
        }
        let failed = |error: io::Error| {
            BoxError::new(format!("`{}` cannot be written: {error}{}", path.display(), way_out(&error)))
        };
        std::fs::create_dir_all(path.parent().unwrap_or(&self.out)).map_err(failed)?;
        let mut file = TemporaryFile::create(&path).map_err(failed)?;
        file.write_all(content).map_err(failed)?;
        file.keep().map_err(failed)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BinaryArray, StringArray};
    use boxwork_runtime::envelope::Envelope;
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::parameter::Value;

    use super::*;

    fn text(path: &Path) -> Value {
        Value::Text(path.to_str().unwrap().into())
    }

    fn run(out: &Path, exists: &str, name: &str) -> Result<Vec<String>, String> {
        let settings = [("out", text(out)), ("exists", Value::Text(exists.into()))];
        let mut harness = Harness::new(&WRITE_FILES, settings).map_err(|error| error.to_string())?;
        let columns: [(&str, ArrayRef); 2] = [
            ("name", Arc::new(StringArray::from(vec![name]))),
            ("bytes", Arc::new(BinaryArray::from_iter_values([exists.as_bytes()]))),
        ];
        harness.give(FILES, Envelope::from_columns(columns).unwrap());
        harness.end(FILES);
        harness.run().map_err(|error| error.to_string())?;
        assert!(harness.is_done());
        Ok(harness.notes().to_vec())
    }

    #[test]
    fn files_are_written_skipped_or_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("clean");
        run(&out, "fail", "cats/1.png").unwrap();
        let read = || fs::read_to_string(out.join("cats/1.png")).unwrap();
        assert_eq!(read(), "fail");
        let message = run(&out, "fail", "cats/1.png").unwrap_err();
        assert!(message.contains("cats/1.png") && message.contains("exists: skip"), "{message}");
        assert!(run(&out, "skip", "cats/1.png").unwrap()[0].contains("1 files were there"));
        assert_eq!(read(), "fail");
        run(&out, "replace", "cats/1.png").unwrap();
        assert_eq!(read(), "replace");
        let names: Vec<_> =
            fs::read_dir(out.join("cats")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["1.png"], "no temporary file stays");
    }

    #[test]
    fn names_outside_and_folders_that_are_read_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["../a", "/a", "b/../../a", ""] {
            let message = run(&folder.path().join("x"), "fail", name).unwrap_err();
            assert!(message.contains("leave out"), "{message}");
        }
        let read = folder.path().join("photos");
        fs::create_dir(&read).unwrap();
        let within = read.join("deep/clean");
        let settings = [("out", text(&within)), ("not_in", Value::List(vec![text(&read)]))];
        let message = Harness::new(&WRITE_FILES, settings).err().unwrap().to_string();
        assert!(message.contains("deep/clean") && message.contains("beside it"), "{message}");
        let beside =
            [("out", text(&folder.path().join("photos2"))), ("not_in", Value::List(vec![text(&read)]))];
        assert!(Harness::new(&WRITE_FILES, beside).is_ok());
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(run(&folder.path().join("file"), "fail", "a").unwrap_err().contains("no folder"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_named() {
        let message = run(Path::new("/proc/clean"), "fail", "a.png").unwrap_err();
        assert!(message.contains("/proc/clean/a.png") && message.contains("cannot be written"), "{message}");
    }
}
