//! The files of lists that belong to a store (`packed_file` says which these are).

use std::ops::Range;
use std::path::{Path, PathBuf};

use boxwork_kernels::vector::{NumberType, VectorMeasure};

use super::super::packed_file::{self, Last, PackedError, PackedFile};
use super::error::command;
use super::{ListsError, Quantizers, dimensions, layout, measure};
use crate::space::Space;
use crate::spaces::DistanceOptions;
use crate::store::Store;

/// The files of lists, before their panels are read.
pub(super) struct Chain {
    /// The first file's name.
    pub(super) name: PathBuf,
    pub(super) fingerprint: String,
    pub(super) measure: VectorMeasure,
    pub(super) quantizers: Quantizers,
    /// Each with the ids that it may have.
    pub(super) files: Vec<(Range<u64>, ListsFile)>,
    /// Ids that they cover.
    pub(super) len: u64,
    pub(super) last: Last,
}

/// A file and the number of its panels.
pub(super) struct ListsFile {
    pub(super) file: PackedFile,
    pub(super) panels: u64,
    /// The type of its vectors' numbers.
    pub(super) numbers: NumberType,
    pub(super) columns: layout::Columns,
}

impl Chain {
    /// Opens the files of lists that belong to the store of a space, which may have grown since.
    pub(super) fn open(path: &Path, space: &dyn Space) -> Result<Self, ListsError> {
        let (store, measure, dimensions) = (space.store(), measure(space)?, dimensions(space)?);
        let of = |error: PackedError| ListsError::of(error, measure, store.path(), path);
        let (file, name, ids) = packed_file::first(path, layout::FORMAT, &**store).map_err(of)?;
        let Some(ids) = ids else {
            let command = command(measure, store.path(), path);
            let (path, store) = (path.to_owned(), store.path().to_owned());
            return Err(ListsError::OtherStore { path, store, command });
        };
        let found = file.said(layout::MEASURE_KEY).to_owned();
        if found != measure.name() {
            let fault = format!("has lists for {found}, and the distance here is {}", measure.name());
            let command = command(measure, store.path(), path);
            return Err(ListsError::File { path: path.to_owned(), fault, command });
        }
        if file.said(layout::DIMENSIONS_KEY) != dimensions.to_string() {
            return Err(of(file.not("its head does not fit its store")));
        }
        let quantizers = layout::quantizers(&file, dimensions).map_err(of)?;
        let counted = |file: PackedFile| {
            let numbers = layout::number_type(&file)?;
            let columns = layout::Columns::new(&quantizers, numbers, file.said(layout::VERSION_KEY));
            if *file.fields() != *columns.schema(Default::default()).fields() {
                return Err(file.not("its columns are not those of lists"));
            }
            let panels = file.rows(columns.panels_of_batch())?;
            Ok(ListsFile { file, panels, numbers, columns })
        };
        let fingerprint = file.fingerprint.clone();
        let mut last = Last { part: 0, fingerprint: fingerprint.clone() };
        let (mut len, mut files) = (ids, vec![(0..ids, counted(file).map_err(of)?)]);
        while len < store.ids_count() {
            let next = packed_file::following(&name, layout::FORMAT, &last, len, &**store).map_err(of)?;
            let Some((part, file, ids)) = next else { break };
            last = Last { part, fingerprint: file.fingerprint.clone() };
            files.push((len..ids, counted(file).map_err(of)?));
            len = ids;
        }
        let chain = Self { name, fingerprint, measure, quantizers, files, len, last };
        layout::check_panels(chain.panels(), path)?;
        Ok(chain)
    }

    /// Panels of all files.
    pub(super) fn panels(&self) -> u64 {
        self.files.iter().map(|(_, file)| file.panels).sum()
    }
}

/// The distance for which lists were made.
///
/// # Errors
/// When the file cannot be read, holds no lists, or is of another version.
pub(crate) fn measure_of(path: &Path, store: &dyn Store) -> Result<DistanceOptions, ListsError> {
    let of = |error: PackedError| ListsError::of(error, VectorMeasure::L2, store.path(), path);
    let file = layout::FORMAT.open(path).map_err(of)?;
    let measure = DistanceOptions::parse(file.said(layout::MEASURE_KEY));
    measure.ok_or_else(|| of(file.not("it names no measure that this program knows")))
}
