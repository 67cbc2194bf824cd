//! `*.gp.arrow`: a Gaussian process fitted to samples.
//!
//! An Arrow IPC file of batches of [`ROWS`] samples under checksums, with the columns `name`, `x`, `y`, `alpha` (the weight) and `row` (the
//! sample's row of the Cholesky factor up to its pivot; empty if the factor was not kept). The head's metadata has the covariance as text,
//! noise, jitter, scaling, likelihood and condition as JSON. A file is written under a temporary name. The same columns travel on the edges
//! between boxes.
//!
//! Invariant: what is read is what was written, or an error that names the file and the place.

mod rows;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use boxwork_kernels::gaussian_process::Regression;
use thiserror::Error;

use super::packed_file::{
    CREATOR, CREATOR_KEY, FORMAT_KEY, Format, PackedError, PackedWriter, VERSION, VERSION_KEY,
};
pub use rows::{ROWS, columns};

/// The format of the file.
const FORMAT: Format = Format { whole: "gp", part: "gp.part", versions: &[VERSION] };
/// The key of the model's numbers, in the head's metadata.
const MODEL_KEY: &str = "boxwork.model";

/// A model as it is kept: with the names of its samples and columns.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedModel {
    /// The model.
    pub regression: Regression,
    /// The names of the samples.
    pub names: Vec<String>,
    /// The columns of the inputs.
    pub inputs: Vec<String>,
    /// The column of the target.
    pub target: String,
}

/// A model cannot be read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The system refused.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The action that failed.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is something else.
    #[error("`{}` is no model of a Gaussian process: {reason}; `boxwork gp fit` makes one", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// The file is of another version.
    #[error("`{}` is a model of version {found}, and this program reads version {VERSION}: fit it again", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: String,
    },
    /// The bytes differ from those that were written.
    #[error("`{}` is damaged: {place}: {reason}; fit it again, or take a copy", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The part.
        place: String,
        /// The fault.
        reason: String,
    },
}

impl From<PackedError> for ModelError {
    fn from(error: PackedError) -> Self {
        match error {
            PackedError::Io { path, action, source } => Self::Io { path, action, source },
            PackedError::Foreign { path, reason } => Self::Foreign { path, reason },
            PackedError::Version { path, found } => Self::Version { path, found },
            PackedError::Damaged { path, place, reason } => Self::Damaged { path, place, reason },
        }
    }
}

impl SavedModel {
    /// Reads a model, and checks every byte.
    ///
    /// # Errors
    /// When the file cannot be read, is none of this version, or is damaged.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let file = FORMAT.open(path)?;
        let (schema, head) = (file.schema().clone(), file.said(MODEL_KEY).to_owned());
        let damaged = |place: &str, reason: String| ModelError::Damaged {
            path: path.to_owned(),
            place: place.to_owned(),
            reason,
        };
        if schema.fields() != &columns().into() {
            let reason = "it has other columns".to_owned();
            return Err(ModelError::Foreign { path: path.to_owned(), reason });
        }
        let batches = file.into_batches(ROWS)?;
        let plain = Schema::new(columns());
        let read = (0..batches.len()).map(|idx| batches.batch(idx, |batch| batch.decoded(&plain)));
        let read = read.collect::<Result<Vec<RecordBatch>, _>>()?;
        Self::of_batches(&head, &read).map_err(|reason| damaged("its content", reason))
    }

    /// Writes a model, with its factor or without; without one it predicts means alone, and takes no samples.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path, keeps_factor: bool) -> Result<(), ModelError> {
        let texts = [
            (FORMAT_KEY, FORMAT.whole.to_owned()),
            (VERSION_KEY, VERSION.to_owned()),
            (CREATOR_KEY, CREATOR.to_owned()),
            (MODEL_KEY, self.head()),
        ];
        let metadata: HashMap<String, String> =
            texts.into_iter().map(|(key, text)| (key.to_owned(), text)).collect();
        let schema = Schema::new_with_metadata(columns(), metadata);
        let mut writer = PackedWriter::create(path, path, &schema)?;
        for batch in self.batches(keeps_factor) {
            writer.write(batch.columns().to_vec())?;
        }
        Ok(writer.finish([])?)
    }
}

#[cfg(test)]
mod tests;
