//! Files of vectors that other programs write: `.fvecs` and its kin, `.fbin` and its kin, `.npy`, and bare numbers.
//!
//! A [`VectorFile`] checks its head against the file's length before anything is allocated, and reads rows block by block.
//! Invariants: a fault names the file and the byte or the row; no header makes a reader allocate more than the file
//! holds; numbers that are infinite or NaN are refused by row.
//!
//! | format | layout, little endian |
//! |---|---|
//! | `.fvecs`, `.bvecs`, `.ivecs` | for each row an i32, its number of dimensions, then the numbers: f32, u8 or i32 |
//! | `.fbin`, `.f16bin`, `.u8bin`, `.i8bin`, `.ibin` | u32 rows, u32 dimensions, then all numbers |
//! | `.npy` | versions 1.0 to 3.0 of NumPy's format, one or two axes in C order: f2, f4, f8, u1, i1, i4, i8 |
//! | any other | all numbers and nothing else, if a [`Bare`] form or the name (`base_1000x128.u8`, `truth_1000x10.i32`) says what they are |

mod npy;
mod rows;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use boxwork_kernels::vector::NumberType;
use thiserror::Error;

pub use rows::VectorRows;

pub use crate::kinds::DIMENSIONS_MAX;

/// The endings of files whose form their content says.
pub const ENDINGS: [&str; 9] = ["fvecs", "bvecs", "ivecs", "fbin", "f16bin", "u8bin", "i8bin", "ibin", "npy"];
/// Bytes of the number of dimensions before a row of a `.fvecs` file.
const ROW_HEAD_BYTES: u64 = 4;
/// Bytes of the head of a `.fbin` file.
const BIN_HEAD_BYTES: u64 = 8;

/// The form of a file that consists of nothing but numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bare {
    /// The type of the numbers.
    pub numbers: NumberType,
    /// Numbers of a vector.
    pub dimensions: usize,
}

impl Bare {
    /// The form that a name such as `base_1000x128.u8` gives, and the number of rows that it says: rows x dimensions at the end
    /// of the stem, and one of the endings `.f32`, `.f16`, `.u8` and `.i8`.
    fn of_name(path: &Path) -> Option<(Self, u64)> {
        let numbers = ending(path)?.parse().ok()?;
        let (rows, dimensions) = shape_of_name(path)?;
        Some((Self { numbers, dimensions }, rows))
    }
}

/// Rows and dimensions at the end of a name such as `base_1000x128.u8`.
fn shape_of_name(path: &Path) -> Option<(u64, usize)> {
    let (before, dimensions) = path.file_stem()?.to_str()?.rsplit_once('x')?;
    let rows = before.rsplit(|letter: char| !letter.is_ascii_digit()).next()?;
    Some((rows.parse().ok()?, dimensions.parse().ok()?))
}

/// A file of vectors cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VectorFileError {
    /// The system refused.
    #[error("cannot read `{}`: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The ending says no form, and no form was given.
    #[error(
        "`{}` has none of the endings {}: for a file of nothing but numbers say their type and the dimensions of a \
         vector (`--type u8 --dimensions 128`), or give it a name that says them (`base_1000x128.u8`)",
        path.display(),
        ENDINGS.join(", ")
    )]
    NoForm {
        /// The file.
        path: PathBuf,
    },
    /// A form was given for a file that says its own.
    #[error("`{}` says its type and dimensions itself: leave them out", path.display())]
    OwnForm {
        /// The file.
        path: PathBuf,
    },
    /// The bytes do not fit the form.
    #[error("`{}`, byte {offset}: {reason}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
        /// The fault and the fix.
        reason: String,
    },
    /// A row is no vector.
    #[error("`{}`, row {row} (byte {offset}): {reason}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The row, from 0.
        row: u64,
        /// Where the row begins.
        offset: u64,
        /// The fault and the fix.
        reason: String,
    },
}

/// Numbers as they lie in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    /// Kept as they are.
    As(NumberType),
    /// 32-bit integers, kept as f32 as long as that has no error.
    I32,
    /// 64-bit integers, kept as those of 32 bits are.
    I64,
    /// 64 bits of floating point, rounded to f32.
    F64,
}

impl Stored {
    fn bytes(self) -> usize {
        match self {
            Self::As(numbers) => numbers.bytes(),
            Self::I32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    /// The type in which they are kept.
    fn kept(self) -> NumberType {
        match self {
            Self::As(numbers) => numbers,
            Self::I32 | Self::I64 | Self::F64 => NumberType::F32,
        }
    }
}

/// Where the numbers lie.
#[derive(Clone, Copy, Debug)]
struct Form {
    stored: Stored,
    rows: u64,
    dimensions: usize,
    /// Where the first row begins.
    start: u64,
    /// Bytes before the numbers of each row, which say the dimensions.
    row_head: u64,
}

impl Form {
    fn row_bytes(&self) -> u64 {
        self.row_head + (self.dimensions * self.stored.bytes()) as u64
    }
}

/// An open file of vectors.
#[derive(Debug)]
pub struct VectorFile {
    path: PathBuf,
    file: File,
    form: Form,
}

impl VectorFile {
    /// Whether a file's name says that it holds vectors, and of what form: by its ending, or as `base_1000x128.u8` does.
    pub fn is_named(path: &Path) -> bool {
        let Some(ending) = ending(path) else { return false };
        let is_i32 = || ending == "i32" && shape_of_name(path).is_some();
        ENDINGS.contains(&ending.as_str()) || Bare::of_name(path).is_some() || is_i32()
    }

    /// Opens a file, and checks its head and its length. `bare` is for a file that says nothing of itself.
    ///
    /// # Errors
    /// When the file cannot be read, or its length does not fit what it says.
    pub fn open(path: &Path, bare: Option<Bare>) -> Result<Self, VectorFileError> {
        let io = |source| VectorFileError::Io { path: path.to_owned(), source };
        let ending = ending(path).filter(|ending| ENDINGS.contains(&ending.as_str()));
        let mut file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(io(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")));
        }
        let head = Head { path, length: metadata.len() };
        let form = match (ending.as_deref(), bare) {
            (Some(_), Some(_)) => return Err(VectorFileError::OwnForm { path: path.to_owned() }),
            (None, None) => head.named()?,
            (None, Some(bare)) => head.bare(bare)?,
            (Some("npy"), None) => npy::form(&head, &mut file)?,
            (Some(ending), None) => {
                let stored = match ending {
                    "fvecs" | "fbin" => Stored::As(NumberType::F32),
                    "f16bin" => Stored::As(NumberType::F16),
                    "bvecs" | "u8bin" => Stored::As(NumberType::U8),
                    "i8bin" => Stored::As(NumberType::I8),
                    _ => Stored::I32,
                };
                match ending.ends_with("vecs") {
                    true => head.vecs(&mut file, stored)?,
                    false => head.bin(&mut file, stored)?,
                }
            }
        };
        Ok(Self { path: path.to_owned(), file, form })
    }

    /// Number of vectors, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a file without vectors is refused")]
    pub fn len(&self) -> u64 {
        self.form.rows
    }

    /// Numbers of a vector.
    pub fn dimensions(&self) -> usize {
        self.form.dimensions
    }

    /// The type in which the numbers are kept: their own, or f32 for integers of 32 or 64 bits and floats of 64.
    pub fn number_type(&self) -> NumberType {
        self.form.stored.kept()
    }

    /// Reads consecutive rows.
    ///
    /// # Errors
    /// When the file was cut short, or a row is no vector.
    ///
    /// # Panics
    /// When there are no such rows.
    pub fn read(&mut self, first: u64, count: usize) -> Result<VectorRows, VectorFileError> {
        let (content, start) = self.content(first, count)?;
        rows::decode(&self.form, &content).map_err(self.row_fault(first, start))
    }

    /// Reads consecutive rows in f64, in which floats of 64 bits and integers stay as they are; numbers may be NaN or infinite.
    ///
    /// # Errors
    /// When the file was cut short.
    ///
    /// # Panics
    /// When there are no such rows.
    pub fn read_f64(&mut self, first: u64, count: usize) -> Result<Vec<f64>, VectorFileError> {
        let (content, start) = self.content(first, count)?;
        rows::decode_f64(&self.form, &content).map_err(self.row_fault(first, start))
    }

    /// The ids in a row of a file of neighbours, such as `.ivecs` and `.ibin`, up to the first that is -1: other programs write
    /// it where a query has no further neighbour.
    ///
    /// # Errors
    /// When the file was cut short, holds other numbers than whole ones, or a number is no id.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn ids(&mut self, row: u64) -> Result<Vec<u64>, VectorFileError> {
        let (content, start) = self.content(row, 1)?;
        rows::decode_ids(&self.form, &content).map_err(self.row_fault(row, start))
    }

    fn row_fault(&self, first: u64, start: u64) -> impl FnOnce((usize, String)) -> VectorFileError {
        let (path, row_bytes) = (self.path.clone(), self.form.row_bytes());
        move |(row, reason)| VectorFileError::Row {
            path,
            row: first + row as u64,
            offset: start + row as u64 * row_bytes,
            reason,
        }
    }

    /// The bytes of consecutive rows, and where they begin.
    fn content(&mut self, first: u64, count: usize) -> Result<(Vec<u8>, u64), VectorFileError> {
        assert!(first + count as u64 <= self.form.rows, "rows from {first} on of {}", self.form.rows);
        let (form, path) = (self.form, &self.path);
        let io = |source| VectorFileError::Io { path: path.clone(), source };
        let start = form.start + first * form.row_bytes();
        let bytes = count as u64 * form.row_bytes();
        self.file.seek(SeekFrom::Start(start)).map_err(io)?;
        let mut content = Vec::new();
        content.try_reserve_exact(bytes as usize).map_err(|refused| io(refused.into()))?;
        (&self.file).take(bytes).read_to_end(&mut content).map_err(io)?;
        if content.len() as u64 != bytes {
            let (path, offset) = (self.path.clone(), start + content.len() as u64);
            let reason = "the file was cut short while it was read".to_owned();
            return Err(VectorFileError::Form { path, offset, reason });
        }
        Ok((content, start))
    }
}

fn ending(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}

/// A file whose head is read.
struct Head<'a> {
    path: &'a Path,
    length: u64,
}

impl Head<'_> {
    fn fault(&self, offset: u64, reason: impl Into<String>) -> VectorFileError {
        VectorFileError::Form { path: self.path.to_owned(), offset, reason: reason.into() }
    }

    /// The first bytes of the file.
    fn bytes<const N: usize>(&self, file: &mut File) -> Result<[u8; N], VectorFileError> {
        let mut bytes = [0; N];
        match file.read_exact(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.fault(self.length, format!("the file ends within its head of {N} bytes")))
            }
            Err(source) => Err(VectorFileError::Io { path: self.path.to_owned(), source }),
        }
    }

    fn dimensions(&self, offset: u64, dimensions: i64) -> Result<usize, VectorFileError> {
        match usize::try_from(dimensions) {
            Ok(dimensions @ 1..=DIMENSIONS_MAX) => Ok(dimensions),
            _ => {
                let reason =
                    format!("vectors of {dimensions} dimensions: there may be 1 to {DIMENSIONS_MAX}");
                Err(self.fault(offset, reason))
            }
        }
    }

    fn vecs(&self, file: &mut File, stored: Stored) -> Result<Form, VectorFileError> {
        let dimensions = i32::from_le_bytes(self.bytes(file)?);
        let dimensions = self.dimensions(0, i64::from(dimensions))?;
        let mut form = Form { stored, rows: 0, dimensions, start: 0, row_head: ROW_HEAD_BYTES };
        form.rows = self.length / form.row_bytes();
        let rest = self.length % form.row_bytes();
        if rest > 0 {
            return Err(self.fault(
                self.length - rest,
                format!(
                    "the file ends {rest} bytes into a row of {} bytes ({dimensions} dimensions)",
                    form.row_bytes()
                ),
            ));
        }
        Ok(form)
    }

    fn bin(&self, file: &mut File, stored: Stored) -> Result<Form, VectorFileError> {
        let head: [u8; BIN_HEAD_BYTES as usize] = self.bytes(file)?;
        let [rows, dimensions] = [0, 4].map(|at| u32::from_le_bytes([0, 1, 2, 3].map(|i| head[at + i])));
        let dimensions = self.dimensions(4, i64::from(dimensions))?;
        let form = Form { stored, rows: u64::from(rows), dimensions, start: BIN_HEAD_BYTES, row_head: 0 };
        self.whole(form)
    }

    fn bare(&self, bare: Bare) -> Result<Form, VectorFileError> {
        let dimensions = self.dimensions(0, bare.dimensions as i64)?;
        let mut form = Form { stored: Stored::As(bare.numbers), rows: 0, dimensions, start: 0, row_head: 0 };
        form.rows = self.length / form.row_bytes();
        self.whole(form)
    }

    /// The form that the file's name says, with its number of rows.
    fn named(&self) -> Result<Form, VectorFileError> {
        let is_i32 = ending(self.path).is_some_and(|ending| ending == "i32");
        let (stored, rows, dimensions) = match (Bare::of_name(self.path), shape_of_name(self.path)) {
            (Some((bare, rows)), _) => (Stored::As(bare.numbers), rows, bare.dimensions),
            (None, Some((rows, dimensions))) if is_i32 => (Stored::I32, rows, dimensions),
            _ => return Err(VectorFileError::NoForm { path: self.path.to_owned() }),
        };
        let dimensions = self.dimensions(0, dimensions as i64)?;
        self.whole(Form { stored, rows, dimensions, start: 0, row_head: 0 })
    }

    /// Checks that rows and nothing else fill the file after its head.
    fn whole(&self, form: Form) -> Result<Form, VectorFileError> {
        if form.rows == 0 {
            return Err(self.fault(form.start.min(self.length), "the file holds no vectors"));
        }
        let wanted = u128::from(form.start) + u128::from(form.rows) * u128::from(form.row_bytes());
        if wanted == u128::from(self.length) {
            return Ok(form);
        }
        let Form { rows, dimensions, stored, .. } = form;
        let bytes = stored.bytes();
        let fits = self.length.saturating_sub(form.start) / form.row_bytes();
        Err(self.fault(
            self.length.min(u64::try_from(wanted).unwrap_or(u64::MAX)),
            format!(
                "{rows} vectors of {dimensions} numbers of {bytes} bytes end at byte {wanted}, and the file at byte {}: \
                 {fits} whole vectors are there",
                self.length
            ),
        ))
    }
}

#[cfg(test)]
mod tests;
