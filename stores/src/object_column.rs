//! Objects from another program's file: a column of an Arrow IPC file or of JSON lines, read into memory as a whole.
//!
//! Invariant: every object has passed the check of its kind, so that any two have a distance. An invalid object is
//! refused by file and row.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::reader::{FileReader, read_footer_length};
use arrow_schema::ArrowError;
use boxwork_runtime::operator::BoxError;
use serde_json::Value;

use super::any_kind::{AnyKind, AnyRows, KINDS};
use super::json_lines::next_line;
use super::store::Store;

/// Reads a column of a file: JSON lines if the name ends in `.jsonl`, `.ndjson` or `.json`, else Arrow IPC. The column
/// `name` gives the objects' names; by default texts are their own names, other objects are named by row. `kind` is
/// needed only if another kind has this form: in JSON, sets look like vectors.
///
/// # Errors
/// When the file cannot be read, has no such column, or holds an invalid object.
pub fn open(
    path: &Path,
    column: &str,
    name: &str,
    kind: Option<&'static dyn AnyKind>,
) -> Result<Arc<dyn Store>, BoxError> {
    let mut reading = Reading { kind, rows: None };
    let read = match is_json(path) {
        true => reading.lines(path, column, name),
        false => reading.arrow(path, column, name),
    };
    read.map_err(|reason| BoxError::new(format!("`{}`: {reason}", path.display())))?;
    let none = || BoxError::new(format!("`{}` holds no objects", path.display()));
    reading.rows.ok_or_else(none)?.finish(path)
}

/// Whether a file's ending is that of JSON lines.
pub fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ["jsonl", "ndjson", "json"].iter().any(|known| ending == *known))
}

/// Reads an object from a line of JSON: its name, if it has one, and the object.
///
/// # Errors
/// When the line is not a JSON object, or has no such column.
pub fn object_of_line(line: &str, column: &str, name: &str) -> Result<(Option<String>, Value), String> {
    let mut object: Value =
        serde_json::from_str(line).map_err(|error| format!("not a JSON object: {error}"))?;
    let value = object.get_mut(column).map(Value::take);
    let value =
        value.ok_or_else(|| format!("`{column}` is missing: it must be text or a list of numbers"))?;
    let named = if name == column { None } else { object.get(name).and_then(Value::as_str) };
    let named = named.or(value.as_str()).map(str::to_owned);
    Ok((named, value))
}

/// An empty list for objects like this one, of the given kind or of the first that accepts it.
///
/// # Errors
/// When no kind accepts it.
pub fn rows_like(value: &Value, kind: Option<&'static dyn AnyKind>) -> Result<Box<dyn AnyRows>, String> {
    let rows = match kind {
        Some(kind) => kind.rows_of_json(value),
        None => KINDS.iter().find_map(|kind| kind.rows_of_json(value)),
    };
    let is_one_of = |kind: &&&dyn AnyKind| kind.rows_of_json(value).is_some();
    rows.ok_or_else(|| match (KINDS.iter().find(is_one_of), kind) {
        (Some(found), Some(kind)) => {
            format!("it is one of {}, and the column holds {}", found.name(), kind.name())
        }
        _ => format!("{value} is neither text nor a list of numbers"),
    })
}

/// A column being read.
struct Reading {
    kind: Option<&'static dyn AnyKind>,
    rows: Option<Box<dyn AnyRows>>,
}

impl Reading {
    fn arrow(&mut self, path: &Path, column: &str, name: &str) -> Result<(), String> {
        let mut file = File::open(path).map_err(|error| format!("cannot be opened: {error}"))?;
        let none = |error: &dyn Display| {
            format!("is no Arrow IPC file ({error}); files of JSON lines end in .jsonl, .ndjson or .json")
        };
        footer_fits(&mut file).map_err(|error| none(&error))?;
        let reader = FileReader::try_new(BufReader::new(file), None).map_err(|error| none(&error))?;
        for batch in reader {
            let batch = batch.map_err(|error| match error {
                ArrowError::MemoryError(error) => format!(
                    "a batch claims more memory than the system gives ({error}): write it anew in smaller \
                     batches, or free memory"
                ),
                error => format!("cannot be read: {error}"),
            })?;
            self.batch(&batch, column, name)?;
        }
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, column: &str, name: &str) -> Result<(), String> {
        let schema = batch.schema();
        let columns =
            || schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ");
        let objects = batch
            .column_by_name(column)
            .ok_or_else(|| format!("has no column `{column}`; it has {}", columns()))?;
        let first = self.rows.as_ref().map_or(0, |rows| rows.len());
        if let Some(row) = (0..objects.len()).find(|row| objects.is_null(*row)) {
            return Err(format!("row {} of `{column}` is null: fill it or leave it out", first + row as u64));
        }
        if objects.is_empty() {
            return Ok(());
        }
        let rows = match &mut self.rows {
            Some(rows) => rows,
            None => self.rows.insert(rows_of(objects, column, self.kind)?),
        };
        let names = batch.column_by_name(name).and_then(|names| names.as_string_opt::<i32>());
        let texts = objects.as_string_opt::<i32>();
        for row in 0..objects.len() {
            let named = names.filter(|names| !names.is_null(row)).or(texts);
            let place = first + row as u64;
            let number = place.to_string();
            let named = named.map_or(number.as_str(), |names| names.value(row));
            let pushed = rows.push_row(named, std::slice::from_ref(objects), row);
            pushed
                .and_then(|()| rows.keep())
                .map_err(|reason| format!("row {place} of `{column}`: {reason}"))?;
        }
        Ok(())
    }

    fn lines(&mut self, path: &Path, column: &str, name: &str) -> Result<(), String> {
        let file = File::open(path).map_err(|error| format!("cannot be opened: {error}"))?;
        let (mut reader, mut text) = (BufReader::new(file), String::new());
        for line in 1.. {
            let at = |reason: String| format!("line {line}: {reason}");
            text.clear();
            if next_line(&mut reader, &mut text).map_err(|error| at(error.to_string()))? == 0 {
                break;
            }
            if !text.trim().is_empty() {
                self.line(&text, column, name).map_err(at)?;
            }
        }
        Ok(())
    }

    fn line(&mut self, text: &str, column: &str, name: &str) -> Result<(), String> {
        let (named, value) = object_of_line(text, column, name)?;
        let rows = match &mut self.rows {
            Some(rows) => rows,
            None => self.rows.insert(rows_like(&value, self.kind)?),
        };
        let named = named.unwrap_or_else(|| rows.len().to_string());
        rows.push_json(&named, &value)?;
        rows.keep()
    }
}

/// An empty list for objects like those of an Arrow column.
fn rows_of(
    objects: &ArrayRef,
    column: &str,
    kind: Option<&'static dyn AnyKind>,
) -> Result<Box<dyn AnyRows>, String> {
    let read = || KINDS.iter().filter(|kind| !kind.arrow_types().is_empty());
    let found = match kind {
        Some(kind) => kind.rows_of_array(objects),
        None => read().find_map(|kind| kind.rows_of_array(objects)),
    };
    found.ok_or_else(|| match (read().find(|found| found.rows_of_array(objects).is_some()), kind) {
        (Some(found), Some(kind)) => {
            format!(
                "row 0 of `{column}`: it is one of {}, and the column holds {}",
                found.name(),
                kind.name()
            )
        }
        _ => {
            let types = read().map(|kind| format!("{} ({})", kind.arrow_types(), kind.name()));
            format!(
                "the column `{column}` is {}: objects are {}",
                objects.data_type(),
                types.collect::<Vec<_>>().join(", ")
            )
        }
    })
}

/// Checks that the file is long enough for the footer whose length its end claims: a reader allocates memory for it
/// first.
pub fn footer_fits(file: &mut File) -> Result<(), ArrowError> {
    const TRAILER_BYTES: usize = 10;
    let mut trailer = [0; TRAILER_BYTES];
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(TRAILER_BYTES as u64)))?;
    file.read_exact(&mut trailer)?;
    let footer_bytes = read_footer_length(trailer)?;
    file.seek(SeekFrom::Start(0))?;
    match (footer_bytes + TRAILER_BYTES) as u64 <= length {
        true => Ok(()),
        false => Err(ArrowError::ParseError(format!(
            "its footer should take {footer_bytes} bytes of a file of {length}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use arrow_array::builder::{FixedSizeListBuilder, Float32Builder, ListBuilder, UInt32Builder};
    use arrow_array::{ArrayRef, Float64Array, StringArray};
    use arrow_ipc::writer::FileWriter;
    use arrow_schema::{Field, Schema};

    use std::sync::Arc;

    use super::*;
    use crate::any_kind::named;
    use crate::kinds::{Kind, Sets, Texts, Vectors};
    use crate::object_store::ObjectStore;

    fn written(folder: &Path, columns: Vec<(&str, ArrayRef)>) -> PathBuf {
        let path = folder.join("objects.arrow");
        let fields: Vec<Field> =
            columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).unwrap();
        let mut writer = FileWriter::try_new(File::create(&path).unwrap(), &schema).unwrap();
        writer.write(&batch).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        path
    }

    fn check<K: Kind>(store: &Arc<dyn Store>, id: u64, f: impl FnOnce(K::Item<'_>)) {
        let store = ObjectStore::<K>::of(store).unwrap();
        let read = store.read::<_, crate::store_error::StoreError>(|objects| {
            f(objects.item(id)?);
            Ok(())
        });
        read.unwrap();
    }

    #[test]
    fn columns_of_every_type_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut fixed = FixedSizeListBuilder::new(Float32Builder::new(), 2);
        let mut sets = ListBuilder::new(UInt32Builder::new());
        for row in 0..3 {
            fixed.values().append_slice(&[row as f32, 0.5]);
            fixed.append(true);
            sets.values().append_slice(&[9, row, row]);
            sets.append(true);
        }
        let path = written(
            folder.path(),
            vec![
                ("vector", Arc::new(fixed.finish())),
                ("set", Arc::new(sets.finish())),
                ("word", Arc::new(StringArray::from(vec!["naïve", "b", "c"]))),
                ("label", Arc::new(StringArray::from(vec!["x", "y", "z"]))),
                ("number", Arc::new(Float64Array::from(vec![1.0; 3]))),
                ("holes", Arc::new(StringArray::from(vec![Some("a"), None, Some("b")]))),
            ],
        );
        let open = |column: &str| open(&path, column, "label", None);
        let vectors = open("vector").unwrap();
        assert_eq!((vectors.ids_count(), vectors.kind()), (6, "vectors"));
        assert_eq!(ObjectStore::<Vectors>::of(&vectors).unwrap().kind().dimensions(), 2);
        check::<Vectors>(&vectors, 4, |vector| assert_eq!(vector, [1.0, 0.5]));
        assert_eq!((vectors.name(4).unwrap(), vectors.find("y").unwrap()), ("y".to_owned(), Some(1)));
        check::<Sets>(&open("set").unwrap(), 1, |set| assert_eq!(set, [1, 9]));
        check::<Texts>(&open("word").unwrap(), 0, |text| assert_eq!(text, ['n', 'a', 'ï', 'v', 'e']));
        let words = super::open(&path, "word", "name", None).unwrap();
        assert_eq!((words.name(0).unwrap(), words.find("c").unwrap()), ("naïve".to_owned(), Some(2)));
        for (column, reason) in
            [("number", "objects are"), ("holes", "row 1"), ("nothing", "it has vector, set")]
        {
            let error = open(column).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("objects.arrow"), "{error}");
        }
    }

    #[test]
    fn what_a_file_claims_is_refused_where_it_cannot_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path(), vec![("object", Arc::new(StringArray::from(vec!["a", "b"])))]);
        let sound = fs::read(&path).unwrap();
        let end = sound.len() - 10;
        let open = |content: &[u8]| {
            fs::write(&path, content).unwrap();
            open(&path, "object", "name", None).unwrap_err().to_string()
        };
        let mut footer = sound.clone();
        footer[end..end + 4].copy_from_slice(&i32::MAX.to_le_bytes());
        let error = open(&footer);
        assert!(error.contains("its footer should take 2147483647 bytes of a file of"), "{error}");
        // The body of the second batch, the last in the footer: more than any machine has.
        let body = sound[end - 400..end].windows(8).rposition(|word| word == 128_i64.to_le_bytes()).unwrap();
        let mut batch = sound.clone();
        batch[end - 400 + body..][..8].copy_from_slice(&(1_i64 << 60).to_le_bytes());
        let error = open(&batch);
        assert!(error.contains("claims more memory than the system gives"), "{error}");
        assert!(open(&sound[..9]).contains("is no Arrow IPC file"));
    }

    #[test]
    fn lines_of_json_are_read_and_what_is_wrong_is_named_by_its_line() {
        crate::testing::use_small_limits();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("objects.jsonl");
        let open = |text: &str, kind: Option<&str>| {
            fs::write(&path, text).unwrap();
            open(&path, "object", "name", kind.map(|kind| named(kind).unwrap()))
        };
        let sound = "{\"name\": \"a\", \"object\": [1, 2.5]}\n\n{\"object\": [3, 4]}\n";
        let column = open(sound, None).unwrap();
        check::<Vectors>(&column, 0, |vector| assert_eq!(vector, [1.0, 2.5]));
        assert_eq!(column.name(1).unwrap(), "1");
        let column = open("{\"object\": [3, 1, 3]}\n{\"object\": []}", Some("sets")).unwrap();
        check::<Sets>(&column, 0, |set| assert_eq!(set, [1, 3]));
        check::<Sets>(&column, 1, |set| assert!(set.is_empty()));
        let wrong = [
            (
                "{\"object\": [1]}\n{\"object\": [1, 2]}",
                None,
                "line 2: the vector has 2 numbers where the first has 1",
            ),
            ("{\"object\": [1e39]}", None, "line 1: number 0"),
            ("{\"object\": [1]}\n{\"object\": \"a\"}", None, "line 2: it is one of texts"),
            ("{\"object\": [1.5]}", Some("sets"), "element 0 is 1.5"),
            ("{\"thing\": 1}", None, "`object` is missing"),
            ("{\"object\": [[1]]}", None, "number 0 is [1]"),
            ("{\"object\": []}", None, "at least one"),
            ("[1, 2", None, "line 1: not a JSON object"),
            ("\n", None, "holds no objects"),
            (&"é".repeat(600_000), None, "line 1: the line is longer than 1 MiB"),
        ];
        for (text, kind, reason) in wrong {
            let error = open(text, kind).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("objects.jsonl"), "{error}");
        }
    }
}
