//! Objects from another program's file: a column of an Arrow IPC file, of a Parquet file or of JSON lines, read into memory as a whole.
//!
//! Invariant: every object has passed the check of its kind, so that any two have a distance. An invalid object is
//! refused by file and row.

use std::fmt::Display;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType};
use boxwork_runtime::operator::BoxError;
use serde_json::{Map, Value};

use super::any_kind::{self, AnyKind, AnyRows, KINDS, of_another_form};
use super::foreign_arrow::{self, ForeignBatches};
use super::json_lines;
use super::kinds::OBJECT;
use super::store::Store;

/// Reads a column of a file: JSON lines if the name ends in `.jsonl`, `.ndjson` or `.json`, else Arrow IPC or Parquet. The column
/// `name` gives the objects' names; by default texts are their own names, other objects are named by row. `kind` is
/// needed only if another kind has this form: in JSON, sets look like vectors.
///
/// # Errors
/// When the file cannot be read, has no such column, or holds an invalid object.
pub fn open(
    path: &Path,
    column: Option<&str>,
    name: &str,
    kind: Option<&'static dyn AnyKind>,
) -> Result<Arc<dyn Store>, BoxError> {
    let mut objects = Incoming::new(column, name, kind);
    let read = match is_json(path) {
        true => lines(path, &mut objects),
        false => arrow(path, &mut objects),
    };
    read.map_err(|reason| BoxError::new(format!("`{}`: {reason}", path.display())))?;
    let none = || BoxError::new(format!("`{}` holds no objects", path.display()));
    let alpha = objects.alpha();
    objects.rows.ok_or_else(none)?.finish(path, alpha)
}

/// Whether a file's ending is that of JSON lines.
pub fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ["jsonl", "ndjson", "json"].iter().any(|known| ending == *known))
}

/// Objects that come from another program one after the other. All are of one kind: the named kind, or else the kind of
/// the first object.
pub struct Incoming {
    column: Option<String>,
    name: String,
    kind: Option<&'static dyn AnyKind>,
    /// Members that each object in JSON gets, in place of its own.
    members: Map<String, Value>,
    rows: Option<Box<dyn AnyRows>>,
    count: u64,
    /// The alpha that the first line of signatures says for all.
    alpha: Option<f64>,
}

/// The columns of a batch that hold objects and their names.
pub struct Columns {
    objects: Vec<ArrayRef>,
    column: String,
    names: Option<ArrayRef>,
}

impl Incoming {
    /// Starts without an object. Each object is under the key or in the column `column`, and its name in `name`; for
    /// the defaults see [`open`].
    pub fn new(column: Option<&str>, name: &str, kind: Option<&'static dyn AnyKind>) -> Self {
        let (column, name) = (column.map(str::to_owned), name.to_owned());
        Self { column, name, kind, members: Map::new(), rows: None, count: 0, alpha: None }
    }

    /// Gives each object in JSON this member, in place of its own.
    #[must_use]
    pub fn with_member(mut self, key: &str, value: Value) -> Self {
        self.members.insert(key.to_owned(), value);
        self
    }

    /// The objects that have come and that the caller has not taken; `None` before the first object.
    pub fn rows(&mut self) -> Option<&mut dyn AnyRows> {
        self.rows.as_mut().map(|rows| &mut **rows as &mut dyn AnyRows)
    }

    /// The alpha of searches that the file says.
    pub fn alpha(&self) -> Option<f64> {
        self.alpha
    }

    /// Takes the object in a line of JSON, and returns its name.
    ///
    /// # Errors
    /// When the line is no JSON object, has no object, or one that is not sound or of another kind.
    pub fn push_line(&mut self, line: &str) -> Result<String, String> {
        let (named, mut value) = self.named_value(json_lines::members(line)?)?;
        if let Value::Object(members) = &mut value {
            self.read_alpha(members)?;
            members.extend(self.members.clone());
        }
        let rows = match &mut self.rows {
            Some(rows) => rows,
            None => self.rows.insert(rows_like(&value, self.kind)?),
        };
        self.kind = self.kind.or_else(|| any_kind::named(rows.kind()).ok());
        let name = named.unwrap_or_else(|| self.count.to_string());
        rows.push_json(&name, &value)?;
        self.count += 1;
        Ok(name)
    }

    /// Reads the alpha of a line: the first line says it for all objects.
    fn read_alpha(&mut self, members: &Map<String, Value>) -> Result<(), String> {
        let Some(alpha) = json_lines::alpha(members)? else { return Ok(()) };
        if self.count > 0 && self.alpha != Some(alpha) {
            let first = self.alpha.map_or_else(|| "none".to_owned(), |first| first.to_string());
            return Err(format!("`alpha` is {alpha}, and the first object has {first}: it is for all"));
        }
        self.alpha = Some(alpha);
        Ok(())
    }

    /// The name of the object in a line, if it has one, and the object.
    fn named_value(&self, mut members: Map<String, Value>) -> Result<(Option<String>, Value), String> {
        if self.column.is_none() && self.is_filled(&members) {
            let missing = || format!("`{}` is missing: it must be text", self.name);
            let name = members.remove(&self.name).ok_or_else(missing)?;
            return Ok((Some(self.text_of(&name)?.to_owned()), Value::Object(members)));
        }
        let key = self.column.as_deref().unwrap_or(OBJECT);
        let missing = || format!("`{key}` is missing: it must be text or a list of numbers");
        let value = members.remove(key).ok_or_else(missing)?;
        let named = match members.get(&self.name) {
            None | Some(Value::Null) => value.as_str(),
            Some(name) => Some(self.text_of(name)?),
        };
        Ok((named.map(str::to_owned), value))
    }

    /// Whether a line is the object itself.
    fn is_filled(&self, members: &Map<String, Value>) -> bool {
        match self.kind {
            Some(kind) => kind.fills_line(),
            None if members.contains_key(OBJECT) => false,
            None => {
                let mut members = members.clone();
                members.remove(&self.name);
                let value = Value::Object(members);
                let is_one = |kind: &&dyn AnyKind| matches!(kind.rows_of_json(&value), Some(Ok(_)));
                KINDS.iter().any(|kind| kind.fills_line() && is_one(kind))
            }
        }
    }

    fn text_of<'v>(&self, name: &'v Value) -> Result<&'v str, String> {
        name.as_str()
            .ok_or_else(|| format!("`{}` must be text, and it is {name}: put it in quotes", self.name))
    }

    /// The columns of a batch that hold objects and their names.
    ///
    /// # Errors
    /// When there is no such column, or it is of another type.
    pub fn columns(&mut self, batch: &RecordBatch) -> Result<Columns, String> {
        let of_kind = |kind: &'static dyn AnyKind| kind.column_names()[0];
        let column = self.column.clone();
        let column = column.unwrap_or_else(|| self.kind.map_or(OBJECT, of_kind).to_owned());
        let objects = batch.column_by_name(&column).ok_or_else(|| {
            let schema = batch.schema();
            let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            format!("has no column `{column}`; it has {}: name one of them as the column", columns.join(", "))
        })?;
        if self.rows.is_none() && !objects.is_empty() {
            let rows = self.rows.insert(rows_of(objects, &column, self.kind)?);
            self.kind = any_kind::named(rows.kind()).ok();
        }
        // The columns beside the objects, such as sizes of images, as far as the file has them.
        let beside = self.kind.map_or(&[][..], |kind| &kind.column_names()[1..]);
        let beside = beside.iter().map_while(|name| batch.column_by_name(name));
        let objects = std::iter::once(objects).chain(beside).map(Arc::clone).collect();
        let names = batch.column_by_name(&self.name).filter(|_| self.name != column).map(Arc::clone);
        match names.as_ref().map(|names| names.data_type()) {
            None | Some(DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => {
                Ok(Columns { objects, column, names })
            }
            Some(other) => {
                let name = &self.name;
                Err(format!(
                    "the column `{name}` is {other}, and names are texts (Utf8): cast it, or name another"
                ))
            }
        }
    }

    /// Takes the object in a row.
    ///
    /// # Errors
    /// When it is null, not sound, or of another kind.
    pub fn push_row(&mut self, columns: &Columns, row: usize) -> Result<(), String> {
        let Columns { objects, column, names } = columns;
        let place = self.count;
        let at = |reason: String| format!("row {place} of `{column}`: {reason}");
        if objects[0].is_null(row) {
            return Err(format!("row {place} of `{column}` is null: fill it, or leave it out"));
        }
        let rows = self.rows.as_mut().ok_or_else(|| at("it has no kind".to_owned()))?;
        let number = place.to_string();
        let named = names.as_ref().and_then(|names| text_at(names, row));
        let named = named.or_else(|| text_at(&objects[0], row)).unwrap_or(&number);
        rows.push_row(named, objects, row).map_err(at)?;
        self.count += 1;
        Ok(())
    }
}

impl Columns {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.objects[0].len()
    }
}

/// The text in a row of a column of texts, if there is one.
fn text_at(column: &ArrayRef, row: usize) -> Option<&str> {
    if column.is_null(row) {
        return None;
    }
    match column.data_type() {
        DataType::Utf8 => Some(column.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Some(column.as_string::<i64>().value(row)),
        DataType::Utf8View => Some(column.as_string_view().value(row)),
        _ => None,
    }
}

/// An empty list of objects like a value in JSON, of a kind or of the first that takes it.
fn rows_like(value: &Value, kind: Option<&'static dyn AnyKind>) -> Result<Box<dyn AnyRows>, String> {
    let rows = match kind {
        Some(kind) => kind.rows_of_json(value),
        None => KINDS.iter().find_map(|kind| kind.rows_of_json(value)),
    };
    rows.unwrap_or_else(|| Err(of_another_form(value, kind.map(AnyKind::name))))
}

/// An empty list for objects like those of an Arrow column.
fn rows_of(
    objects: &ArrayRef,
    column: &str,
    kind: Option<&'static dyn AnyKind>,
) -> Result<Box<dyn AnyRows>, String> {
    let of_kind = |kind: &&'static dyn AnyKind| kind.rows_of_array(objects);
    let found = match kind {
        Some(kind) => of_kind(&kind),
        None => KINDS.iter().find_map(of_kind),
    };
    found.ok_or_else(|| {
        let is = format!("the column `{column}` is {}", objects.data_type());
        match (KINDS.iter().find(|kind| of_kind(kind).is_some()), kind) {
            (Some(found), Some(kind)) => {
                let (found, wanted) = (found.name(), kind.name());
                format!("{is}: it holds {found}, where {wanted} are wanted; say that the file holds {found}")
            }
            (_, Some(kind)) => {
                format!("{is}: {} are {}; cast it, or name another column", kind.name(), kind.arrow_types())
            }
            _ => {
                let types = KINDS.iter().map(|kind| format!("{} ({})", kind.arrow_types(), kind.name()));
                let types = types.collect::<Vec<_>>().join(", ");
                format!("{is}: objects are {types}; cast it, or name another column")
            }
        }
    })
}

fn arrow(path: &Path, objects: &mut Incoming) -> Result<(), String> {
    let mut file = File::open(path).map_err(|error| format!("cannot be opened: {error}"))?;
    let none = |error: &dyn Display| {
        format!("is no Arrow IPC file ({error}); files of JSON lines end in .jsonl, .ndjson or .json")
    };
    let is_parquet = foreign_arrow::is_parquet(&mut file).map_err(|error| none(&error))?;
    let of_file = |file| ForeignBatches::of_file(file).map_err(|error| none(&error));
    for batch in if is_parquet { ForeignBatches::of_parquet(file)? } else { of_file(file)? } {
        let columns = objects.columns(&batch.map_err(|error| unreadable(&error))?)?;
        for row in 0..columns.rows() {
            objects.push_row(&columns, row)?;
            objects.rows().map_or(Ok(()), |rows| rows.keep())?;
        }
    }
    Ok(())
}

/// Why a batch of an Arrow file cannot be read, and the fix.
fn unreadable(error: &ArrowError) -> String {
    match error {
        ArrowError::MemoryError(error) => format!(
            "a batch says that it takes more memory than the system gives ({error}): write it anew in smaller \
             batches, or free memory"
        ),
        error => format!("cannot be read: {error}"),
    }
}

fn lines(path: &Path, objects: &mut Incoming) -> Result<(), String> {
    let file = File::open(path).map_err(|error| format!("cannot be opened: {error}"))?;
    let (mut reader, mut text) = (BufReader::new(file), String::new());
    for line in 1.. {
        let at = |reason: String| format!("line {line}: {reason}");
        text.clear();
        if json_lines::next_line(&mut reader, &mut text).map_err(|error| at(error.to_string()))? == 0 {
            break;
        }
        if !text.trim().is_empty() {
            objects.push_line(&text).map_err(at)?;
            objects.rows().map_or(Ok(()), |rows| rows.keep()).map_err(at)?;
        }
    }
    Ok(())
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
        let open = |column: &str| open(&path, Some(column), "label", None);
        let vectors = open("vector").unwrap();
        assert_eq!((vectors.ids_count(), vectors.kind()), (6, "vectors"));
        assert_eq!(ObjectStore::<Vectors>::of(&vectors).unwrap().kind().dimensions(), 2);
        check::<Vectors>(&vectors, 4, |vector| assert_eq!(vector.widened(), [1.0, 0.5]));
        assert_eq!((vectors.name(4).unwrap(), vectors.find("y").unwrap()), ("y".to_owned(), Some(1)));
        check::<Sets>(&open("set").unwrap(), 1, |set| assert_eq!(set, [1, 9]));
        check::<Texts>(&open("word").unwrap(), 0, |text| assert_eq!(text, ['n', 'a', 'ï', 'v', 'e']));
        let words = super::open(&path, Some("word"), "name", None).unwrap();
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
            open(&path, None, "name", None).unwrap_err().to_string()
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
        assert!(error.contains("its batch should take 1152921504606847"), "{error}");
        // No length is below zero.
        batch[end - 400 + body..][..8].copy_from_slice(&(-8_i64).to_le_bytes());
        let error = open(&batch);
        assert!(error.contains("its batch should take"), "{error}");
        assert!(open(&sound[..9]).contains("is no Arrow IPC file"));
    }

    #[test]
    fn the_first_line_says_the_alpha_of_all_signatures() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("signatures.jsonl");
        let line = |name: &str, more: &str| {
            format!("{{\"name\": \"{name}\", {more}\"centroids\": [[1]], \"weights\": [1]}}\n")
        };
        let open = |first: &str, second: &str, kind: Option<&str>| {
            fs::write(&path, line("a", first) + &line("b", second)).unwrap();
            open(&path, None, "name", kind.map(|kind| named(kind).unwrap()))
        };
        assert_eq!(open("", "", None).unwrap().alpha(), None);
        for kind in [None, Some("signatures")] {
            assert_eq!(open("\"alpha\": 1.28, ", "", kind).unwrap().alpha(), Some(1.28));
            assert_eq!(open("\"alpha\": 3, ", "\"alpha\": 3.0, ", kind).unwrap().alpha(), Some(3.0));
        }
        for (first, second, reason) in [
            ("\"alpha\": 0, ", "", "line 1: `alpha` is 0, which is not a number above zero"),
            ("\"alpha\": \"1\", ", "", "line 1: `alpha` is \"1\""),
            ("\"alpha\": 1, ", "\"alpha\": 2, ", "line 2: `alpha` is 2, and the first object has 1"),
            ("", "\"alpha\": 2, ", "line 2: `alpha` is 2, and the first object has none"),
        ] {
            let error = open(first, second, Some("signatures")).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn lines_of_json_are_read_and_what_is_wrong_is_named_by_its_line() {
        crate::testing::use_small_limits();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("objects.jsonl");
        let open = |text: &str, kind: Option<&str>| {
            fs::write(&path, text).unwrap();
            open(&path, None, "name", kind.map(|kind| named(kind).unwrap()))
        };
        let sound = "{\"name\": \"a\", \"object\": [1, 2.5]}\n\n{\"object\": [3, 4]}\n";
        let column = open(sound, None).unwrap();
        check::<Vectors>(&column, 0, |vector| assert_eq!(vector.widened(), [1.0, 2.5]));
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
