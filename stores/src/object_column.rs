//! Objects of any kind: a column of an Arrow IPC file or of JSON lines, read into memory whole.
//!
//! Invariants: every object has passed the check of its kind, so that a distance of any two exists: vectors of one
//! dimension and of finite numbers, texts, sets in ascending order. What is not sound is refused by file and row.

mod as_store;

use std::collections::HashMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, UInt32Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::reader::{FileReader, read_footer_length};
use arrow_schema::{ArrowError, DataType};
use boxwork_kernels::distance::{Distance, Levenshtein, Lp};
use boxwork_kernels::memory::more;
use boxwork_runtime::operator::BoxError;
use serde_json::Value;

use super::json_lines::next_line;
use super::new_number;

/// What the objects of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Numbers, as many for each object.
    Vectors,
    /// Unicode text.
    Texts,
    /// Whole numbers from 0 to 2^32 - 1, each once.
    Sets,
}

impl ObjectKind {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vectors => "vectors",
            Self::Texts => "texts",
            Self::Sets => "sets",
        }
    }
}

/// One object, borrowed from its column or from a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item<'a> {
    /// Its numbers.
    Vector(&'a [f32]),
    /// Its letters.
    Text(&'a [char]),
    /// Its elements, ascending.
    Set(&'a [u32]),
}

/// Objects of one kind, with their names.
#[derive(Debug)]
pub struct ObjectColumn {
    path: PathBuf,
    names: Vec<String>,
    by_name: HashMap<String, u64>,
    items: Items,
    number: u64,
    fingerprint: OnceLock<String>,
}

#[derive(Debug)]
enum Items {
    Vectors(List<f32>),
    Texts(List<char>),
    Sets(List<u32>),
}

/// Slices, one after the other.
#[derive(Debug)]
struct List<T> {
    numbers: Vec<T>,
    ends: Vec<usize>,
}

impl<T> List<T> {
    fn new() -> Self {
        Self { numbers: Vec::new(), ends: Vec::new() }
    }

    /// Asks for room first: the column of a large file may be more than there is memory for.
    fn push(&mut self, item: &[T]) -> Result<(), String>
    where
        T: Copy,
    {
        let what = || "holding the objects up to here".to_owned();
        let advice = "read fewer, or free memory";
        let room = more(&mut self.numbers, item.len(), what, advice);
        room.and_then(|()| more(&mut self.ends, 1, what, advice)).map_err(|error| error.to_string())?;
        self.numbers.extend_from_slice(item);
        self.ends.push(self.numbers.len());
        Ok(())
    }

    fn at(&self, place: usize) -> &[T] {
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.numbers[start..self.ends[place]]
    }
}

impl ObjectColumn {
    /// Reads a column of a file: JSON lines by the endings `.jsonl`, `.ndjson` and `.json`, else Arrow IPC. Objects are
    /// called what the column `name` says, or else by their rows; texts by themselves. `kind` may be left to the file
    /// but for sets in JSON, which look like vectors.
    ///
    /// # Errors
    /// When the file cannot be read, has no such column, or holds an object that is none.
    pub fn open(path: &Path, column: &str, name: &str, kind: Option<ObjectKind>) -> Result<Self, BoxError> {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let mut reading = Reading { kind, names: Vec::new(), items: None };
        let read = match ending {
            "jsonl" | "ndjson" | "json" => reading.lines(path, column, name),
            _ => reading.arrow(path, column, name),
        };
        read.map_err(|reason| BoxError::new(format!("`{}`: {reason}", path.display())))?;
        let Some(items) = reading.items.filter(|_| !reading.names.is_empty()) else {
            return Err(BoxError::new(format!("`{}` holds no objects", path.display())));
        };
        let mut by_name = HashMap::with_capacity(reading.names.len());
        for (id, name) in reading.names.iter().enumerate() {
            by_name.entry(name.clone()).or_insert(id as u64);
        }
        let (names, number, fingerprint) = (reading.names, new_number(), OnceLock::new());
        Ok(Self { path: path.to_owned(), names, by_name, items, number, fingerprint })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many objects there are, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a column is never empty")]
    pub fn len(&self) -> u64 {
        self.names.len() as u64
    }

    /// What the objects are.
    pub fn kind(&self) -> ObjectKind {
        match self.items {
            Items::Vectors(_) => ObjectKind::Vectors,
            Items::Texts(_) => ObjectKind::Texts,
            Items::Sets(_) => ObjectKind::Sets,
        }
    }

    /// Numbers of a vector; 0 for other kinds.
    pub fn dimensions(&self) -> usize {
        match &self.items {
            Items::Vectors(vectors) => vectors.at(0).len(),
            _ => 0,
        }
    }

    /// The name of an object.
    pub fn name(&self, id: u64) -> Option<&str> {
        self.names.get(usize::try_from(id).ok()?).map(String::as_str)
    }

    /// All names, in the order of the objects.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The first object of a name.
    pub fn find(&self, name: &str) -> Option<u64> {
        self.by_name.get(name).copied()
    }

    /// An object.
    ///
    /// # Panics
    /// When there is none of this number.
    #[inline]
    pub fn item(&self, id: u64) -> Item<'_> {
        let place = id as usize;
        match &self.items {
            Items::Vectors(vectors) => Item::Vector(vectors.at(place)),
            Items::Texts(texts) => Item::Text(texts.at(place)),
            Items::Sets(sets) => Item::Set(sets.at(place)),
        }
    }
}

/// A column under way.
struct Reading {
    kind: Option<ObjectKind>,
    names: Vec<String>,
    items: Option<Items>,
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
                    "a batch says that it takes more memory than the system gives ({error}): write it anew in smaller \
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
        let names = batch.column_by_name(name);
        let first = self.names.len();
        if let Some(row) = (0..objects.len()).find(|row| objects.is_null(*row)) {
            return Err(format!("row {} of `{column}` is null: fill it or leave it out", first + row));
        }
        let refused = || {
            format!(
                "the column `{column}` is {}: objects are FixedSizeList or List of Float32 (vectors), Utf8 (texts) or \
                 List of UInt32 (sets)",
                objects.data_type()
            )
        };
        for row in 0..objects.len() {
            let at = |reason: String| format!("row {} of `{column}`: {reason}", first + row);
            let list = match objects.data_type() {
                DataType::FixedSizeList(..) => Some(objects.as_fixed_size_list().value(row)),
                DataType::List(_) => Some(objects.as_list::<i32>().value(row)),
                _ => None,
            };
            if list.as_ref().is_some_and(|list| list.null_count() > 0) {
                return Err(at("it holds a null".to_owned()));
            }
            let text = match (objects.data_type(), &list) {
                (DataType::Utf8, _) => {
                    let text = objects.as_string::<i32>().value(row);
                    self.push(Given::Text(text)).map_err(at)?;
                    Some(text.to_owned())
                }
                (_, Some(list)) if *list.data_type() == DataType::Float32 => {
                    self.push(Given::Vector(list.as_primitive::<Float32Type>().values())).map_err(at)?;
                    None
                }
                (_, Some(list)) if *list.data_type() == DataType::UInt32 => {
                    self.push(Given::Set(list.as_primitive::<UInt32Type>().values().to_vec())).map_err(at)?;
                    None
                }
                _ => return Err(refused()),
            };
            let named = names.and_then(|names| names.as_string_opt::<i32>());
            let named = named.filter(|names| !names.is_null(row)).map(|names| names.value(row).to_owned());
            self.names.push(named.or(text).unwrap_or_else(|| (first + row).to_string()));
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
            if text.trim().is_empty() {
                continue;
            }
            let object: Value =
                serde_json::from_str(&text).map_err(|error| at(format!("not a JSON object: {error}")))?;
            let value = object
                .get(column)
                .ok_or_else(|| at(format!("`{column}` is missing: it must be text or a list of numbers")))?;
            let row = self.names.len();
            self.push_json(value).map_err(at)?;
            let named = object.get(name).and_then(Value::as_str).or(value.as_str());
            self.names.push(named.map_or_else(|| row.to_string(), str::to_owned));
        }
        Ok(())
    }

    fn push_json(&mut self, value: &Value) -> Result<(), String> {
        match OwnedItem::of_json(value, self.kind)? {
            OwnedItem::Vector(vector) => self.push(Given::Vector(&vector)),
            OwnedItem::Text(text) => self.push(Given::Text(&text.into_iter().collect::<String>())),
            OwnedItem::Set(set) => self.push(Given::Set(set)),
        }
    }

    fn push(&mut self, given: Given<'_>) -> Result<(), String> {
        let kind = given.kind();
        if let Some(wanted) = self.kind.filter(|wanted| *wanted != kind) {
            return Err(format!("it is one of {}, and the column holds {}", kind.name(), wanted.name()));
        }
        self.kind = Some(kind);
        let items = self.items.get_or_insert_with(|| match kind {
            ObjectKind::Vectors => Items::Vectors(List::new()),
            ObjectKind::Texts => Items::Texts(List::new()),
            ObjectKind::Sets => Items::Sets(List::new()),
        });
        match (items, given) {
            (Items::Vectors(vectors), Given::Vector(vector)) => {
                Lp::L2.check(vector).map_err(|error| error.to_string())?;
                let dimensions = if vectors.ends.is_empty() { vector.len() } else { vectors.at(0).len() };
                if vector.len() != dimensions || dimensions == 0 {
                    return Err(format!(
                        "the vector has {} numbers where the first has {dimensions}: all have the same, at least one",
                        vector.len()
                    ));
                }
                vectors.push(vector)?;
            }
            (Items::Texts(texts), Given::Text(text)) => {
                let letters: Vec<char> = text.chars().collect();
                Levenshtein.check(&letters).map_err(|error| error.to_string())?;
                texts.push(&letters)?;
            }
            (Items::Sets(sets), Given::Set(mut set)) => {
                set.sort_unstable();
                set.dedup();
                sets.push(&set)?;
            }
            // The kinds were compared above.
            _ => return Err(format!("it is one of {}", kind.name())),
        }
        Ok(())
    }
}

enum Given<'a> {
    Vector(&'a [f32]),
    Text(&'a str),
    Set(Vec<u32>),
}

impl Given<'_> {
    fn kind(&self) -> ObjectKind {
        match self {
            Self::Vector(_) => ObjectKind::Vectors,
            Self::Text(_) => ObjectKind::Texts,
            Self::Set(_) => ObjectKind::Sets,
        }
    }
}

/// Whether a file is as long as the footer that its end tells of: whoever reads that makes room for it before.
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

/// One object that stands alone.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnedItem {
    /// Its numbers.
    Vector(Vec<f32>),
    /// Its letters.
    Text(Vec<char>),
    /// Its elements, ascending.
    Set(Vec<u32>),
}

impl OwnedItem {
    /// The object that a JSON value is; a list of numbers is a vector, unless sets are wanted.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of_json(value: &Value, kind: Option<ObjectKind>) -> Result<Self, String> {
        let list = match value {
            Value::String(text) => return Ok(Self::Text(text.chars().collect())),
            Value::Array(list) => list.iter().enumerate(),
            other => return Err(format!("{other} is neither text nor a list of numbers")),
        };
        if kind == Some(ObjectKind::Sets) {
            let element = |(place, value): (usize, &Value)| {
                let element = value.as_u64().and_then(|element| u32::try_from(element).ok());
                element.ok_or_else(|| {
                    format!("element {place} is {value}: elements are whole numbers below 2^32")
                })
            };
            let mut set = list.map(element).collect::<Result<Vec<u32>, _>>()?;
            set.sort_unstable();
            set.dedup();
            return Ok(Self::Set(set));
        }
        let number = |(place, value): (usize, &Value)| {
            let number = value.as_f64().map(|number| number as f32).filter(|number| number.is_finite());
            number.ok_or_else(|| format!("number {place} is {value}: numbers are finite, within 32 bits"))
        };
        list.map(number).collect::<Result<_, _>>().map(Self::Vector)
    }

    /// The object in a row of an Arrow array; nothing where the array is not of objects of a column.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn of_array(objects: &ArrayRef, row: usize) -> Option<Self> {
        let list = match objects.data_type() {
            DataType::Utf8 => {
                return Some(Self::Text(objects.as_string::<i32>().value(row).chars().collect()));
            }
            DataType::FixedSizeList(..) => objects.as_fixed_size_list().value(row),
            DataType::List(_) => objects.as_list::<i32>().value(row),
            _ => return None,
        };
        match list.data_type() {
            DataType::Float32 => Some(Self::Vector(list.as_primitive::<Float32Type>().values().to_vec())),
            DataType::UInt32 => Some(Self::Set(list.as_primitive::<UInt32Type>().values().to_vec())),
            _ => None,
        }
    }

    /// What it is.
    pub fn kind(&self) -> ObjectKind {
        match self {
            Self::Vector(_) => ObjectKind::Vectors,
            Self::Text(_) => ObjectKind::Texts,
            Self::Set(_) => ObjectKind::Sets,
        }
    }

    /// The same, borrowed.
    pub fn item(&self) -> Item<'_> {
        match self {
            Self::Vector(vector) => Item::Vector(vector),
            Self::Text(text) => Item::Text(text),
            Self::Set(set) => Item::Set(set),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use arrow_array::builder::{FixedSizeListBuilder, Float32Builder, ListBuilder, UInt32Builder};
    use arrow_array::{ArrayRef, Float64Array, StringArray};
    use arrow_ipc::writer::FileWriter;
    use arrow_schema::{Field, Schema};

    use std::sync::Arc;

    use super::*;

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
        let open = |column: &str| ObjectColumn::open(&path, column, "label", None);
        let vectors = open("vector").unwrap();
        assert_eq!((vectors.len(), vectors.kind(), vectors.dimensions()), (6, ObjectKind::Vectors, 2));
        assert_eq!(vectors.item(4), Item::Vector(&[1.0, 0.5]));
        assert_eq!((vectors.name(4), vectors.find("y")), (Some("y"), Some(1)));
        assert_eq!(open("set").unwrap().item(1), Item::Set(&[1, 9]));
        assert_eq!(open("word").unwrap().item(0), Item::Text(&['n', 'a', 'ï', 'v', 'e']));
        let words = ObjectColumn::open(&path, "word", "name", None).unwrap();
        assert_eq!((words.name(0), words.find("c")), (Some("naïve"), Some(2)));
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
            ObjectColumn::open(&path, "object", "name", None).unwrap_err().to_string()
        };
        let mut footer = sound.clone();
        footer[end..end + 4].copy_from_slice(&i32::MAX.to_le_bytes());
        let error = open(&footer);
        assert!(error.contains("its footer should take 2147483647 bytes of a file of"), "{error}");
        // The body of the second batch, the last that the footer tells of: more than any machine has.
        let body = sound[end - 400..end].windows(8).rposition(|word| word == 128_i64.to_le_bytes()).unwrap();
        let mut batch = sound.clone();
        batch[end - 400 + body..][..8].copy_from_slice(&(1_i64 << 60).to_le_bytes());
        let error = open(&batch);
        assert!(error.contains("takes more memory than the system gives"), "{error}");
        assert!(open(&sound[..9]).contains("is no Arrow IPC file"));
    }

    #[test]
    fn lines_of_json_are_read_and_what_is_wrong_is_named_by_its_line() {
        crate::testing::use_small_limits();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("objects.jsonl");
        let open = |text: &str, kind: Option<ObjectKind>| {
            fs::write(&path, text).unwrap();
            ObjectColumn::open(&path, "object", "name", kind)
        };
        let sound = "{\"name\": \"a\", \"object\": [1, 2.5]}\n\n{\"object\": [3, 4]}\n";
        let column = open(sound, None).unwrap();
        assert_eq!((column.item(0), column.name(1)), (Item::Vector(&[1.0, 2.5]), Some("1")));
        let column = open("{\"object\": [3, 1, 3]}\n{\"object\": []}", Some(ObjectKind::Sets)).unwrap();
        assert_eq!((column.item(0), column.item(1)), (Item::Set(&[1, 3]), Item::Set(&[])));
        let wrong = [
            (
                "{\"object\": [1]}\n{\"object\": [1, 2]}",
                None,
                "line 2: the vector has 2 numbers where the first has 1",
            ),
            ("{\"object\": [1e39]}", None, "line 1: number 0"),
            ("{\"object\": [1]}\n{\"object\": \"a\"}", None, "line 2: it is one of texts"),
            ("{\"object\": [1.5]}", Some(ObjectKind::Sets), "element 0 is 1.5"),
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
