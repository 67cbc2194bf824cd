//! The layout of a `*.lists.arrow` file: a packed file (`packed_file`).
//!
//! ```text
//! head    magic, schema message: dimensions, what is held, its parts, panels of a batch
//! batch   a row for each panel of 32 vectors of one list, the lists in order:
//!         list, the number of the list; count, its vectors; ids, 32 of 8 bytes; held, the vectors or their codes; beside vectors,
//!         halves; beside codes of directions, squares and scales
//! tail    end of stream, footer: the centroids, the codebook, a rotation, the length of the longest vector, all checksums;
//!         footer length, magic
//! ```
//!
//! Numbers are little-endian. Vectors of a panel have the numbers that the head says, f32 if it says none: number `j` of vector `r` is
//! number `j * 32 + r` of the panel. Those of normalised vectors are always f32. Codes are those of
//! `boxwork_kernels::product`, or those of directions. Halves are half the squared norms of vectors for l2, and 0 for ip and cosine;
//! infinite where there is no vector. Squares are 0 for ip. What else no vector fills is 0. A column begins at a multiple of 64 bytes, so a
//! scan reads it where it lies in a map of the file. In files of version 1, halves are missing, and squares and scales lie behind the codes
//! of each panel. Centroids, codebook and rotation are f32 numbers by their bits, eight
//! hexadecimal digits each. A file that follows another has the objects that were added, in the same lists, and no quantizers.

use std::path::Path;

use arrow_schema::{DataType, Field, Metadata, Schema};
use boxwork_kernels::panels::PANEL;
use boxwork_kernels::product::{GROUP, group_bytes};
use boxwork_kernels::vector::{NumberType, VectorMeasure};

pub(super) use super::super::packed_file::{
    CREATOR, CREATOR_KEY, FOLLOWS_KEY, FORMAT_KEY, Format, MEASURE_KEY, REPLACES_KEY, STORE_KEY, VERSION,
    VERSION_KEY,
};
use super::super::packed_file::{PackedError, PackedFile, digits, numbers_of};
use super::quantizers::FACTORS_BYTES;
use super::{Coding, ListsError, Quantizers, dimensions, measure};
use crate::space::Space;

const _: () = assert!(PANEL == GROUP);

/// The values of [`FORMAT_KEY`].
pub(crate) const FORMAT: Format =
    Format { whole: "lists", part: "lists.part", versions: &[VERSION, VERSION_BESIDE] };
/// The version of files with columns beside what is held.
pub(super) const VERSION_BESIDE: &str = "2";
/// The key of the numbers of a vector.
pub(super) const DIMENSIONS_KEY: &str = "boxwork.lists.dimensions";
/// The key of what lists hold.
pub(super) const CODING_KEY: &str = "boxwork.lists.codes";
/// The key of the parts of a code.
pub(super) const PARTS_KEY: &str = "boxwork.lists.parts";
/// The key of the type of the vectors' numbers; files of earlier programs, which have f32, lack it.
pub(super) const NUMBERS_KEY: &str = "boxwork.lists.numbers";
/// The key of the number of objects.
pub(super) const OBJECTS_KEY: &str = "boxwork.lists.objects";
/// The keys in the footer's metadata.
const CENTROIDS_KEY: &str = "boxwork.lists.centroids";
const CODEBOOK_KEY: &str = "boxwork.lists.codebook";
const ROTATION_KEY: &str = "boxwork.lists.rotation";
/// The key of the length of the longest vector, if lists hold vectors.
const NORM_KEY: &str = "boxwork.lists.norm";
/// The key of the checksum of the lists and the counts of all panels, which are read before the rest.
const PLACES_KEY: &str = "boxwork.lists.places";

/// Bytes of the ids of a panel.
pub(super) const IDS_BYTES: usize = PANEL * 8;

/// Bytes of a column beside: an f32 for each vector of a panel.
pub(super) const BESIDE_BYTES: usize = PANEL * size_of::<f32>();

/// Panels of lists at most: the places of their vectors are numbers of 32 bits.
#[cfg(not(test))]
const PANELS_MAX: u64 = 1 << 27;
#[cfg(not(test))]
const _: () = assert!(PANELS_MAX * PANEL as u64 == 1 << 32);
/// As many as a test can make.
#[cfg(test)]
const PANELS_MAX: u64 = 1024;

/// Bytes of a batch, about.
const BATCH_BYTES: usize = 4 << 20;

/// The columns of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    /// Bytes that a panel holds of its vectors or their codes.
    pub(super) held_bytes: usize,
    /// The columns of numbers beside, an f32 for each vector. Files of the first version have none.
    beside: &'static [&'static str],
}

impl Columns {
    /// The columns of a version, for vectors whose numbers are of this type unless they are codes.
    pub(super) fn new(quantizers: &Quantizers, numbers: NumberType, version: &str) -> Self {
        let (dimensions, coding, parts) = (quantizers.dimensions(), quantizers.coding(), quantizers.parts());
        let held_bytes = match coding.bits() {
            None => dimensions * PANEL * numbers.bytes(),
            Some(bits) => group_bytes(parts, bits),
        };
        match (coding, version) {
            (Coding::Rows, VERSION_BESIDE) => Self { held_bytes, beside: &["halves"] },
            (Coding::Rabitq, VERSION_BESIDE) => Self { held_bytes, beside: &["squares", "scales"] },
            (Coding::Rabitq, _) => Self { held_bytes: held_bytes + PANEL * FACTORS_BYTES, beside: &[] },
            _ => Self { held_bytes, beside: &[] },
        }
    }

    /// The version of the files that this program writes. Those of product codes are as they have always been.
    pub(super) fn version(coding: Coding) -> &'static str {
        match coding {
            Coding::Rows | Coding::Rabitq => VERSION_BESIDE,
            Coding::Product | Coding::Fast => VERSION,
        }
    }

    /// Columns beside what is held.
    pub(super) fn beside(&self) -> usize {
        self.beside.len()
    }

    /// The bytes of a panel in each column.
    pub(super) fn widths(&self) -> Vec<usize> {
        let beside = std::iter::repeat_n(BESIDE_BYTES, self.beside.len());
        [4, 4, IDS_BYTES, self.held_bytes].into_iter().chain(beside).collect()
    }

    /// Panels of a batch.
    pub(super) fn panels_of_batch(&self) -> usize {
        (BATCH_BYTES / (self.held_bytes + IDS_BYTES + self.beside.len() * BESIDE_BYTES)).max(1)
    }

    /// The columns with their metadata.
    pub(super) fn schema(&self, metadata: Metadata) -> Schema {
        let binary =
            |name: &str, bytes: usize| Field::new(name, DataType::FixedSizeBinary(bytes as i32), false);
        let mut fields = vec![
            Field::new("list", DataType::UInt32, false),
            Field::new("count", DataType::UInt32, false),
            binary("ids", IDS_BYTES),
            binary("held", self.held_bytes),
        ];
        fields.extend(self.beside.iter().map(|name| binary(name, BESIDE_BYTES)));
        Schema::new(fields).with_metadata(metadata)
    }
}

/// Refuses more panels than there are places for.
pub(super) fn check_panels(panels: u64, path: &Path) -> Result<(), ListsError> {
    match panels {
        0..=PANELS_MAX => Ok(()),
        _ => Err(ListsError::TooMany { path: path.to_owned(), places: panels.saturating_mul(PANEL as u64) }),
    }
}

/// The notes of the quantizers.
pub(super) fn notes(quantizers: &Quantizers) -> Vec<(&'static str, String)> {
    let codebook = quantizers.codebook().map_or(&[][..], |codebook| codebook.numbers());
    let rotation = quantizers.rotation().map(|rotation| (ROTATION_KEY, digits(rotation.numbers())));
    let notes = [(CENTROIDS_KEY, digits(quantizers.centroids())), (CODEBOOK_KEY, digits(codebook))];
    notes.into_iter().chain(rotation).collect()
}

/// The type of the numbers of a file's vectors.
pub(super) fn number_type(file: &PackedFile) -> Result<NumberType, PackedError> {
    match file.said(NUMBERS_KEY) {
        "" => Ok(NumberType::F32),
        name => {
            name.parse().map_err(|_| file.not("its head names no type of numbers that this program knows"))
        }
    }
}

/// Makes of the halves of a panel with so many vectors what a scan takes: inner products have none, and where no vector is they are
/// infinite, as no infinite score is within a limit.
pub(super) fn beside_of(measure: VectorMeasure, count: usize, halves: &mut [f32]) {
    if measure != VectorMeasure::L2 {
        halves.fill(0.0);
    }
    halves[count..].fill(f32::INFINITY);
}

/// The note of the checksum of the lists and the counts of all panels.
pub(super) fn places_note(checksum: u32) -> (&'static str, String) {
    (PLACES_KEY, format!("{checksum:08x}"))
}

/// The checksum that a file notes of the lists and the counts of its panels; files of earlier programs note none.
pub(super) fn places(file: &PackedFile) -> Result<Option<u32>, PackedError> {
    match file.noted(PLACES_KEY) {
        "" => Ok(None),
        text => match u32::from_str_radix(text, 16) {
            Ok(checksum) => Ok(Some(checksum)),
            Err(_) => Err(file.damaged("its footer", "it notes no checksum of its lists")),
        },
    }
}

/// The note of the length of the longest vector.
pub(super) fn norm_note(norm: f64) -> (&'static str, String) {
    (NORM_KEY, format!("{norm:?}"))
}

/// The length of the longest vector that a file notes; files of earlier programs note none.
pub(super) fn norm(file: &PackedFile) -> Result<Option<f64>, PackedError> {
    match file.noted(NORM_KEY) {
        "" => Ok(None),
        text => match text.parse() {
            Ok(norm) if norm >= 0.0 && f64::is_finite(norm) => Ok(Some(norm)),
            _ => Err(file.damaged("its footer", "it notes no length of its longest vector")),
        },
    }
}

/// The centroids and the codebook of a file, of whatever store it is.
///
/// # Errors
/// When the file cannot be read, holds no lists, is of another version, or its tail is damaged.
pub fn quantizers_of(path: &Path) -> Result<Quantizers, ListsError> {
    let of = |error| ListsError::of(error, VectorMeasure::L2, Path::new("STORE"), path);
    let file = FORMAT.open(path).map_err(of)?;
    let dimensions =
        file.said(DIMENSIONS_KEY).parse().map_err(|_| of(file.not("its head says no dimensions")))?;
    quantizers(&file, dimensions).map_err(of)
}

/// As [`quantizers_of`], for other vectors: lists of these by the same centroids and codebook can be merged with those of the file.
///
/// # Errors
/// As [`quantizers_of`], and when the file has lists for another distance or other dimensions.
pub fn quantizers_like(path: &Path, space: &dyn Space) -> Result<Quantizers, ListsError> {
    let (measure, wanted) = (measure(space)?, dimensions(space)?);
    let of = |error| ListsError::of(error, measure, Path::new("STORE"), path);
    let file = FORMAT.open(path).map_err(of)?;
    let (distance, found) = (file.said(MEASURE_KEY), file.said(DIMENSIONS_KEY));
    if (distance, found) != (measure.name(), &wanted.to_string()) {
        return Err(ListsError::Options(format!(
            "`{}` has lists for {distance} of {found} numbers, and here are vectors of {wanted} for {}: name lists like these",
            path.display(),
            measure.name()
        )));
    }
    quantizers(&file, wanted).map_err(of)
}

/// The quantizers that a file notes.
pub(super) fn quantizers(file: &PackedFile, dimensions: usize) -> Result<Quantizers, PackedError> {
    let numbers = |key: &str| numbers_of(file.noted(key));
    let of_notes = || {
        let coding = Coding::named(file.said(CODING_KEY))?;
        let parts = file.said(PARTS_KEY).parse().ok()?;
        let (centroids, codebook, rotation) =
            (numbers(CENTROIDS_KEY)?, numbers(CODEBOOK_KEY)?, numbers(ROTATION_KEY)?);
        Quantizers::of_parts(dimensions, centroids, coding, parts, codebook, rotation)
    };
    of_notes().ok_or_else(|| file.damaged("its footer", "its centroids and codebook do not fit its vectors"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float32Array, ListArray, StringArray};
    use arrow_buffer::OffsetBuffer;

    use super::super::{Assigned, Lists, write};
    use super::*;
    use crate::kinds::Vectors;
    use crate::object_store::Rows;
    use crate::space::Space;
    use crate::spaces::{self, DistanceOptions};
    use crate::store::Store;

    #[test]
    fn lists_of_more_places_than_there_are_numbers_for_are_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.lists.arrow");
        let (most, count) = (PANELS_MAX as u32, PANELS_MAX as u32 + 1);
        let mut rows = Rows::new(Vectors::new(1));
        let numbers = Arc::new(Float32Array::from_iter_values((0..count).map(|row| row as f32)));
        let item = Arc::new(Field::new("item", DataType::Float32, false));
        let offsets = OffsetBuffer::from_repeated_length(1, count as usize);
        let objects: ArrayRef = Arc::new(ListArray::new(item, offsets, numbers, None));
        let names = StringArray::from_iter_values((0..count).map(|row| row.to_string()));
        rows.append(names, &[objects]).unwrap();
        let store: Arc<dyn Store> = Arc::new(rows.finish_without(vec![], Path::new("rows"), None).unwrap());
        let space: Arc<dyn Space> = spaces::open(&DistanceOptions::named("l2"), store).unwrap();
        let centroids = (0..count).map(|row| row as f32).collect();
        let none = Vec::new;
        let quantizers = Quantizers::of_parts(1, centroids, Coding::Rows, 0, none(), none()).unwrap();
        // A panel for each vector, but for one that shares the first.
        let mut assigned =
            Assigned { ids: (0..count.into()).collect(), lists: (0..count).collect(), codes: vec![] };
        assigned.lists[most as usize] = 0;
        write(&path, &space, &quantizers, &assigned, &|| false).unwrap();
        assert_eq!(Lists::open(&path, &space).unwrap().objects(), u64::from(count));
        assigned.lists[most as usize] = most;
        let refused = write(&path, &space, &quantizers, &assigned, &|| false).unwrap_err().to_string();
        let places = u64::from(count) * PANEL as u64;
        assert!(refused.contains(&format!("v.lists.arrow` takes {places} places")), "{refused}");
        assert!(refused.contains("make fewer lists"), "{refused}");
    }
}
