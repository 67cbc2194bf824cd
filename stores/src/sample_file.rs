//! Files of samples: rows of numbers, some of which are inputs and one the target. CSV (RFC 4180, with a header), Arrow IPC, `.npy`.
//!
//! A [`SampleFile`] reads rows block by block, in constant memory. Invariants: a fault names the file, the line or row, the column
//! and the fix; no row is lost silently; numbers are f64 and finite.

mod table;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use thiserror::Error;

use crate::foreign_arrow::{ForeignBatches, is_parquet};
use crate::vector_file::{VectorFile, VectorFileError};
use table::{Columns, number_of};

/// Inputs of a sample at most.
pub const INPUTS_MAX: usize = 4096;

/// Which columns to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleColumns {
    /// The columns of the inputs, in their order.
    pub inputs: Vec<String>,
    /// The column of the target; without one the targets are NaN.
    pub target: Option<String>,
    /// The column of the samples' names; by default the lines or rows name them.
    pub names: Option<String>,
    /// Whether rows with a number that is missing, NaN or infinite are left out; else they are a fault.
    pub drops_missing: bool,
}

/// A file of samples cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SampleError {
    /// The system refused.
    #[error("cannot read `{}`: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file as a whole does not fit.
    #[error("`{}`: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault and the fix.
        reason: String,
    },
    /// A row does not fit.
    #[error("`{}`, {place}: {reason}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The line of a CSV file, from 1, or the row of another, from 0.
        place: String,
        /// The fault and the fix.
        reason: String,
    },
    /// A `.npy` file does not fit.
    #[error(transparent)]
    Vectors(#[from] VectorFileError),
}

/// Consecutive samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampleRows {
    /// A name for each sample.
    pub names: Vec<String>,
    /// The inputs, sample after sample.
    pub inputs: Vec<f64>,
    /// The targets; NaN if there is no target.
    pub targets: Vec<f64>,
}

impl SampleRows {
    /// The number of samples.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

enum Reader {
    Csv { reader: Box<csv::Reader<BufReader<File>>>, columns: Columns, record: csv::StringRecord },
    Arrow { batches: ForeignBatches, columns: Columns, row: u64 },
    Npy { file: VectorFile, columns: Columns, row: u64 },
}

/// An open file of samples.
pub struct SampleFile {
    path: PathBuf,
    drops_missing: bool,
    reader: Reader,
    dropped: u64,
}

impl SampleFile {
    /// Opens a file, and finds its columns. The ending `.csv` or `.txt` says CSV, `.npy` NumPy, whose columns are numbered from 0, and
    /// any other Arrow IPC.
    ///
    /// # Errors
    /// When the file cannot be read, or has no such column.
    pub fn open(path: &Path, asked: &SampleColumns) -> Result<Self, SampleError> {
        let fault = |reason: String| SampleError::File { path: path.to_owned(), reason };
        if asked.inputs.is_empty() {
            return Err(fault(
                "no inputs are named: give the columns of the inputs, `inputs: [x1, x2]`".into(),
            ));
        }
        if asked.inputs.len() > INPUTS_MAX {
            return Err(fault(format!("{} inputs are named; {INPUTS_MAX} are allowed", asked.inputs.len())));
        }
        let io = |source| SampleError::Io { path: path.to_owned(), source };
        let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
        let reader = match ending.as_deref() {
            Some("csv" | "txt") => {
                let file = BufReader::new(File::open(path).map_err(io)?);
                let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(file);
                let header = reader.headers().map_err(|error| csv_fault(path, &error))?;
                let known: Vec<String> = header.iter().map(str::to_owned).collect();
                let columns = Columns::find(&known, asked).map_err(fault)?;
                Reader::Csv { reader: Box::new(reader), columns, record: csv::StringRecord::new() }
            }
            Some("npy") => {
                let file = VectorFile::open(path, None)?;
                let known: Vec<String> = (0..file.dimensions()).map(|at| at.to_string()).collect();
                let columns = Columns::find(&known, asked).map_err(fault)?;
                if columns.names.is_some() {
                    return Err(fault("a file of numbers has no column of names: leave out `names`".into()));
                }
                Reader::Npy { file, columns, row: 0 }
            }
            _ => {
                let mut file = File::open(path).map_err(io)?;
                let batches = match is_parquet(&mut file).map_err(io)? {
                    true => ForeignBatches::of_parquet(file).map_err(fault)?,
                    false => ForeignBatches::of_file(file).map_err(|error| {
                        fault(format!("it is no Arrow IPC file ({error}): name a CSV file `.csv`"))
                    })?,
                };
                let schema = arrow_array::RecordBatchReader::schema(&batches);
                let known: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
                let columns = Columns::find(&known, asked).map_err(fault)?;
                Reader::Arrow { batches, columns, row: 0 }
            }
        };
        Ok(Self { path: path.to_owned(), drops_missing: asked.drops_missing, reader, dropped: 0 })
    }

    /// Rows that were left out so far.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The next samples: at least `rows` of them, or fewer at the end of the file; nothing after it.
    ///
    /// # Errors
    /// When a row does not fit.
    pub fn next(&mut self, rows: usize) -> Result<Option<SampleRows>, SampleError> {
        let Self { path, drops_missing, reader, dropped } = self;
        let mut taken = Taken { path, drops_missing: *drops_missing, dropped, rows: SampleRows::default() };
        while taken.rows.len() < rows {
            let more = match reader {
                Reader::Csv { reader, columns, record } => next_of_csv(reader, record, columns, &mut taken)?,
                Reader::Arrow { batches, columns, row } => next_of_arrow(batches, columns, row, &mut taken)?,
                Reader::Npy { file, columns, row } => next_of_npy(file, columns, row, rows, &mut taken)?,
            };
            if !more {
                break;
            }
        }
        let rows = taken.rows;
        Ok((!rows.is_empty()).then_some(rows))
    }
}

/// The samples taken so far, and what was left out.
struct Taken<'a> {
    path: &'a Path,
    drops_missing: bool,
    dropped: &'a mut u64,
    rows: SampleRows,
}

impl Taken<'_> {
    /// Takes a row whose numbers `number` gives, by their order in the samples and by their columns: the number, or what is wrong
    /// with it.
    fn take(
        &mut self,
        place: impl Fn() -> String,
        name: Option<String>,
        columns: &Columns,
        number: impl Fn(usize, usize) -> Result<Option<f64>, String>,
    ) -> Result<(), SampleError> {
        let row = |reason: String| SampleError::Row { path: self.path.to_owned(), place: place(), reason };
        let first = self.rows.inputs.len();
        let mut target = f64::NAN;
        for (nth, (column, called)) in columns.wanted().enumerate() {
            let found = number(nth, column).map_err(|reason| row(format!("column `{called}`: {reason}")))?;
            match found.filter(|found| found.is_finite()) {
                Some(found) if nth < columns.inputs.len() => self.rows.inputs.push(found),
                Some(found) => target = found,
                None if self.drops_missing => {
                    self.rows.inputs.truncate(first);
                    *self.dropped += 1;
                    return Ok(());
                }
                None => {
                    let what = found.map_or("has no number".to_owned(), |found| format!("is {found}"));
                    return Err(row(format!(
                        "column `{called}` {what}, and a sample needs finite numbers: correct it, or leave such rows out \
                         (`missing: drop`)"
                    )));
                }
            }
        }
        self.rows.names.push(name.unwrap_or_else(place));
        self.rows.targets.push(target);
        Ok(())
    }
}

fn csv_fault(path: &Path, error: &csv::Error) -> SampleError {
    let line = error.position().map_or(1, csv::Position::line);
    let place = format!("line {line}");
    let path = path.to_owned();
    match error.kind() {
        csv::ErrorKind::Io(source) => {
            SampleError::Io { path, source: std::io::Error::new(source.kind(), source.to_string()) }
        }
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            let reason =
                format!("it has {len} fields, and the header {expected_len}: give each column a field");
            SampleError::Row { path, place, reason }
        }
        csv::ErrorKind::Utf8 { .. } => {
            let reason = "it is no UTF-8: save the file as UTF-8".to_owned();
            SampleError::Row { path, place, reason }
        }
        _ => SampleError::Row { path, place, reason: error.to_string() },
    }
}

fn next_of_csv(
    reader: &mut csv::Reader<BufReader<File>>,
    record: &mut csv::StringRecord,
    columns: &Columns,
    taken: &mut Taken<'_>,
) -> Result<bool, SampleError> {
    if !reader.read_record(record).map_err(|error| csv_fault(taken.path, &error))? {
        return Ok(false);
    }
    let line = record.position().map_or(0, csv::Position::line);
    let field = |column: usize| record.get(column).unwrap_or("");
    let name = columns.names.map(|column| field(column).to_owned());
    taken.take(|| format!("line {line}"), name, columns, |_, column| number_of(field(column)))?;
    Ok(true)
}

fn next_of_arrow(
    batches: &mut ForeignBatches,
    columns: &Columns,
    row: &mut u64,
    taken: &mut Taken<'_>,
) -> Result<bool, SampleError> {
    let path = taken.path;
    let fault = |reason: String| SampleError::File { path: path.to_owned(), reason };
    let Some(batch) = batches.next() else { return Ok(false) };
    let batch = batch.map_err(|error| fault(format!("a batch cannot be read ({error})")))?;
    take_batch(&batch, columns, row, taken)?;
    Ok(true)
}

fn take_batch(
    batch: &RecordBatch,
    columns: &Columns,
    row: &mut u64,
    taken: &mut Taken<'_>,
) -> Result<(), SampleError> {
    let path = taken.path;
    let fault = |reason: String| SampleError::File { path: path.to_owned(), reason };
    let numbers = table::numbers(batch, columns).map_err(fault)?;
    let names = table::names(batch, columns).map_err(fault)?;
    (0..batch.num_rows()).try_for_each(|at| {
        let name = names.as_ref().map(|names| names(at));
        taken.take(|| format!("row {}", *row + at as u64), name, columns, |nth, _| Ok(numbers[nth][at]))
    })?;
    *row += batch.num_rows() as u64;
    Ok(())
}

/// The samples of a batch of a program, with how many rows were left out. `row` is the number of its first row, and becomes that of
/// the next batch's. Errors call the batches by the name `of`.
///
/// # Errors
/// When the batch has no such columns, or a row does not fit.
pub fn samples_of(
    batch: &RecordBatch,
    asked: &SampleColumns,
    of: &str,
    row: &mut u64,
) -> Result<(SampleRows, u64), SampleError> {
    let (path, mut dropped) = (Path::new(of), 0);
    let schema = batch.schema();
    let known: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let columns =
        Columns::find(&known, asked).map_err(|reason| SampleError::File { path: path.to_owned(), reason })?;
    let drops_missing = asked.drops_missing;
    let mut taken = Taken { path, drops_missing, dropped: &mut dropped, rows: SampleRows::default() };
    take_batch(batch, &columns, row, &mut taken)?;
    let rows = taken.rows;
    Ok((rows, dropped))
}

fn next_of_npy(
    file: &mut VectorFile,
    columns: &Columns,
    row: &mut u64,
    rows: usize,
    taken: &mut Taken<'_>,
) -> Result<bool, SampleError> {
    let count = (rows as u64).min(file.len() - *row) as usize;
    if count == 0 {
        return Ok(false);
    }
    let numbers = file.read_f64(*row, count)?;
    for (at, numbers) in numbers.chunks_exact(file.dimensions()).enumerate() {
        let place = || format!("row {}", *row + at as u64);
        taken.take(place, None, columns, |_, column| Ok(Some(numbers[column])))?;
    }
    *row += count as u64;
    Ok(true)
}

#[cfg(test)]
mod tests;
