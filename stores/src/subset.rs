//! The objects of a store that a search may find: those of a class, those that a file names, or both.
//!
//! Invariant: a subset has ids of objects only, so removed ones are in none.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::ops::Range;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch, RecordBatchReader};
use arrow_schema::DataType;

use super::arrow_file::MAGIC;
use super::foreign_arrow::ForeignBatches;
use super::json_lines::next_line;
use super::store::Store;
use super::store_error::{StoreError, way_out};

/// The column of ids in a file.
const ID: &str = "id";

/// A subset cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubsetError {
    /// The system refused.
    #[error("cannot read `{}`: {source}{}", path.display(), way_out(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file does not name objects of the store.
    #[error("`{}` names no subset: {fault}; it is an Arrow file with a column of true and false, a row for each id of the store, or with a column `id`, or a text with a name on each line", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault.
        fault: String,
    },
    /// An id is none of the store's objects.
    #[error("`{store}` has no object with the id {id}")]
    Id {
        /// The store's file.
        store: PathBuf,
        /// The id.
        id: i64,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Some objects of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subset {
    /// A bit for each id.
    bits: Vec<u64>,
    count: u64,
}

impl Subset {
    /// The objects of a store for whose ids `has` returns true.
    pub fn of(store: &dyn Store, has: impl Fn(u64) -> bool) -> Self {
        let mut subset = Self::none(store);
        store.among(0..store.ids_count()).filter(|id| has(*id)).for_each(|id| subset.add(id));
        subset
    }

    /// The objects with these ids.
    ///
    /// # Errors
    /// When the store has no object with an id.
    pub fn of_ids(store: &dyn Store, ids: &[i64]) -> Result<Self, SubsetError> {
        let mut subset = Self::none(store);
        for id in ids {
            match u64::try_from(*id).ok().filter(|id| store.has(*id)) {
                Some(id) => subset.add(id),
                None => return Err(SubsetError::Id { store: store.path().to_owned(), id: *id }),
            }
        }
        Ok(subset)
    }

    fn none(store: &dyn Store) -> Self {
        Self { bits: vec![0; store.ids_count().div_ceil(64) as usize], count: 0 }
    }

    /// The objects of a [class](is_of_class). Blocks on the disk.
    ///
    /// # Errors
    /// When a batch is damaged.
    pub fn of_class(store: &dyn Store, class: &str) -> Result<Self, SubsetError> {
        Self::of_names(store, &|name| is_of_class(name, class))
    }

    fn of_names(store: &dyn Store, has: &dyn Fn(&str) -> bool) -> Result<Self, SubsetError> {
        let mut subset = Self::none(store);
        for batch in 0..store.batches() {
            store.each_name(batch, &mut |id, name| {
                if has(name) && store.has(id) {
                    subset.add(id);
                }
            })?;
        }
        Ok(subset)
    }

    /// The objects that a file names: an Arrow file with one column of true and false, a row for each id, or with a column
    /// `id`; or a text with a name on each line. Blocks on the disk.
    ///
    /// # Errors
    /// When the file cannot be read, has another form, or names an id or a name that the store does not have.
    pub fn of_file(store: &dyn Store, path: &Path) -> Result<Self, SubsetError> {
        let io = |source| SubsetError::Io { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(io)?;
        let mut head = [0; MAGIC.len()];
        let is_arrow = file.read_exact(&mut head).is_ok() && head == *MAGIC;
        file.rewind().map_err(io)?;
        let fault = |fault: String| SubsetError::File { path: path.to_owned(), fault };
        if is_arrow {
            return Self::of_arrow(store, file).map_err(fault);
        }
        let (mut names, mut lines) = (HashSet::new(), BufReader::new(file));
        let mut line = String::new();
        while next_line(&mut lines as &mut dyn BufRead, &mut line).map_err(io)? > 0 {
            let name = line.strip_suffix('\n').unwrap_or(&line);
            let name = name.strip_suffix('\r').unwrap_or(name);
            if !name.is_empty() {
                names.insert(name.to_owned());
            }
            line.clear();
        }
        let mut found = HashSet::new();
        for batch in 0..store.batches() {
            store.each_name(batch, &mut |id, name| {
                if store.has(id)
                    && let Some(name) = names.get(name)
                {
                    found.insert(name.clone());
                }
            })?;
        }
        if let Some(unknown) = names.iter().filter(|name| !found.contains(*name)).min() {
            let store = store.path().display();
            return Err(fault(format!("`{store}` has no object `{unknown}`")));
        }
        Self::of_names(store, &|name| names.contains(name))
    }

    fn of_arrow(store: &dyn Store, file: File) -> Result<Self, String> {
        let batches = ForeignBatches::of_file(file).map_err(|error| error.to_string())?;
        let schema = batches.schema();
        let booleans: Vec<usize> = (0..schema.fields().len())
            .filter(|column| *schema.field(*column).data_type() == DataType::Boolean)
            .collect();
        let column = match booleans.as_slice() {
            [column] => *column,
            [] => schema.index_of(ID).map_err(|_| "it has neither of the columns".to_owned())?,
            more => return Err(format!("it has {} columns of true and false", more.len())),
        };
        let (mut subset, mut first, ids) = (Self::none(store), 0, store.ids_count());
        for batch in batches {
            let batch = batch.map_err(|error| error.to_string())?;
            if booleans.is_empty() {
                for id in ids_of(&batch, column)? {
                    match store.has(id) {
                        true => subset.add(id),
                        false => return Err(format!("the store has no object with the id {id}")),
                    }
                }
                continue;
            }
            let rows = batch.column(column).as_boolean();
            let kept = (first..).zip(rows).filter(|(id, keep)| *keep == Some(true) && store.has(*id));
            kept.for_each(|(id, _)| subset.add(id));
            first += rows.len() as u64;
        }
        if !booleans.is_empty() && first != ids {
            return Err(format!("it has {first} rows, and the store {ids} ids"));
        }
        Ok(subset)
    }

    fn add(&mut self, id: u64) {
        let (word, bit) = (&mut self.bits[(id / 64) as usize], 1 << (id % 64));
        self.count += u64::from(*word & bit == 0);
        *word |= bit;
    }

    /// The objects that are in both.
    pub fn and(mut self, other: &Self) -> Self {
        self.bits.iter_mut().zip(&other.bits).for_each(|(bits, other)| *bits &= other);
        self.count = self.bits.iter().map(|bits| u64::from(bits.count_ones())).sum();
        self
    }

    /// Whether an object is in it.
    #[inline]
    pub fn has(&self, id: u64) -> bool {
        self.bits.get((id / 64) as usize).is_some_and(|bits| bits >> (id % 64) & 1 != 0)
    }

    /// Number of its objects with ids in a range.
    pub fn count_in(&self, ids: Range<u64>) -> u64 {
        let upto = ids.end.min(64 * self.bits.len() as u64);
        let (mut id, mut count) = (ids.start, 0);
        while id < upto {
            let (word, first) = ((id / 64) as usize, id % 64);
            let bits = (upto - id).min(64 - first);
            count += u64::from((self.bits[word] >> first & (u64::MAX >> (64 - bits))).count_ones());
            id += bits;
        }
        count
    }

    /// Number of its objects.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Its ids, ascending.
    pub fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        let each = |(word, bits): (usize, &u64)| {
            let (first, mut bits) = (word as u64 * 64, *bits);
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| u64::from(bits.trailing_zeros()))?;
                bits &= bits - 1;
                Some(first + bit)
            })
        };
        self.bits.iter().enumerate().flat_map(each)
    }
}

/// The ids of a column of integers.
fn ids_of(batch: &RecordBatch, column: usize) -> Result<Vec<u64>, String> {
    let column = batch.column(column);
    let wanted = || "its ids are not all whole numbers from 0 on".to_owned();
    if column.null_count() > 0 {
        return Err(wanted());
    }
    match column.data_type() {
        DataType::UInt64 => Ok(column.as_primitive::<UInt64Type>().values().to_vec()),
        DataType::UInt32 => {
            Ok(column.as_primitive::<UInt32Type>().values().iter().copied().map(u64::from).collect())
        }
        DataType::Int64 => {
            let ids = column.as_primitive::<Int64Type>().values().iter();
            ids.map(|id| u64::try_from(*id)).collect::<Result<_, _>>().map_err(|_| wanted())
        }
        DataType::Int32 => {
            let ids = column.as_primitive::<Int32Type>().values().iter();
            ids.map(|id| u64::try_from(*id)).collect::<Result<_, _>>().map_err(|_| wanted())
        }
        _ => Err(wanted()),
    }
}

/// The class of an object: the last folder in its name.
pub fn class_of(name: &str) -> Option<&str> {
    let (folders, _) = name.rsplit_once('/')?;
    folders.rsplit('/').next().filter(|class| !class.is_empty())
}

/// Whether the last folder of a name is this class, or the name begins with it if it ends in `/`.
pub fn is_of_class(name: &str, class: &str) -> bool {
    if class.ends_with('/') { name.starts_with(class) } else { class_of(name) == Some(class) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BooleanArray, Int32Array, StringArray, UInt64Array};
    use arrow_ipc::writer::FileWriter;

    use super::*;
    use crate::signature_store::{SignatureStore, StoreChange, StoreInfo};
    use crate::testing;

    const NAMES: [(&str, u64); 4] = [("x/cats/1", 1), ("x/dogs/2", 2), ("y/cats/3", 3), ("cats", 4)];

    fn store(folder: &Path) -> Arc<SignatureStore> {
        let store = testing::store_of(folder, &NAMES, &StoreInfo::default());
        let mut change = StoreChange::begin(store.path()).unwrap();
        assert!(change.remove(1).unwrap());
        change.write().unwrap().commit().unwrap();
        Arc::new(SignatureStore::open(store.path()).unwrap())
    }

    fn ids(subset: &Subset) -> Vec<u64> {
        let ids: Vec<u64> = subset.ids().collect();
        assert_eq!(ids.len() as u64, subset.count());
        assert!(ids.iter().all(|id| subset.has(*id)));
        ids
    }

    #[test]
    fn objects_of_ranges_are_counted() {
        let has = |id: u64| id.is_multiple_of(3) || (64..128).contains(&id);
        let mut subset = Subset { bits: vec![0; 4], count: 0 };
        (0..200).filter(|id| has(*id)).for_each(|id| subset.add(id));
        for (first, upto) in (0..210).flat_map(|first| (first..260).map(move |upto| (first, upto))) {
            let wanted = (first..upto.min(200)).filter(|id| has(*id)).count() as u64;
            assert_eq!(subset.count_in(first..upto), wanted, "{first}..{upto}");
        }
        assert_eq!(subset.count_in(0..u64::MAX), subset.count());
        assert_eq!(subset.count_in(300..400), 0);
    }

    #[test]
    fn classes_are_folders_or_prefixes_without_removed_objects() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        for (class, wanted) in
            [("cats", &[0, 2][..]), ("x/", &[0]), ("x/dogs/", &[]), ("x", &[]), ("y/", &[2])]
        {
            assert_eq!(ids(&Subset::of_class(&*store, class).unwrap()), wanted, "{class}");
        }
        let both = Subset::of_class(&*store, "cats").unwrap().and(&Subset::of(&*store, |id| id > 0));
        assert_eq!(ids(&both), [2]);
        assert_eq!(ids(&Subset::of(&*store, |_| true)), [0, 2, 3]);
        assert_eq!(ids(&Subset::of_ids(&*store, &[3, 0, 3]).unwrap()), [0, 3]);
        for id in [1, 4, -1] {
            let error = Subset::of_ids(&*store, &[0, id]).unwrap_err().to_string();
            assert!(error.contains(&format!("no object with the id {id}")), "{error}");
        }
        assert!(!both.has(1 << 40));
    }

    #[test]
    fn files_name_rows_ids_or_names() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let path = folder.path().join("some");
        let read = || Subset::of_file(&*store, &path);
        let write = |columns: Vec<(&str, ArrayRef)>| {
            let batch = RecordBatch::try_from_iter(columns).unwrap();
            let mut file = FileWriter::try_new(File::create(&path).unwrap(), &batch.schema()).unwrap();
            file.write(&batch).unwrap();
            file.finish().unwrap();
        };
        let refused = |fault: &str| {
            let error = read().unwrap_err().to_string();
            assert!(error.contains(fault) && error.contains("some"), "{error}");
        };
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a"; 4]));
        let keep: ArrayRef = Arc::new(BooleanArray::from(vec![None, Some(true), Some(false), Some(true)]));
        write(vec![("name", Arc::clone(&texts)), ("keep", Arc::clone(&keep))]);
        assert_eq!(ids(&read().unwrap()), [3]);
        write(vec![("keep", Arc::clone(&keep)), ("other", keep)]);
        refused("2 columns");
        write(vec![("keep", Arc::new(BooleanArray::from(vec![true; 5])))]);
        refused("5 rows, and the store 4 ids");
        write(vec![("name", texts)]);
        refused("neither");
        write(vec![("id", Arc::new(UInt64Array::from(vec![3, 0, 3])))]);
        assert_eq!(ids(&read().unwrap()), [0, 3]);
        for id in [1, 4] {
            write(vec![("id", Arc::new(UInt64Array::from(vec![id])))]);
            refused("no object with the id");
        }
        write(vec![("id", Arc::new(Int32Array::from(vec![2])))]);
        assert_eq!(ids(&read().unwrap()), [2]);
        write(vec![("id", Arc::new(Int32Array::from(vec![-2])))]);
        refused("whole numbers");
        fs::write(&path, "cats\r\n\nx/cats/1").unwrap();
        assert_eq!(ids(&read().unwrap()), [0, 3]);
        fs::write(&path, "").unwrap();
        assert!(ids(&read().unwrap()).is_empty());
        for (text, fault) in [("x/dogs/2\n", "no object `x/dogs/2`"), ("ARROW1 and more", "names no subset")]
        {
            fs::write(&path, text).unwrap();
            refused(fault);
        }
        fs::remove_file(&path).unwrap();
        refused("cannot read");
    }
}
