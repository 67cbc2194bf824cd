//! The layout of a `*.lists.arrow` file: a packed file (`packed_file`).
//!
//! ```text
//! head    magic, schema message: dimensions, what is held, its parts, panels of a batch
//! batch   a row for each panel of 32 vectors of one list, the lists in order:
//!         list, the number of the list; count, its vectors; ids, 32 of 8 bytes; held, the vectors or their codes
//! tail    end of stream, footer: the centroids, the codebook, a rotation, the length of the longest vector, all checksums;
//!         footer length, magic
//! ```
//!
//! Numbers are little-endian. Vectors of a panel have the numbers that the head says, f32 if it says none: number `j` of vector `r` is
//! number `j * 32 + r` of the panel. Those of normalised vectors are always f32. Codes are those of
//! `boxwork_kernels::product`, or those of directions, behind which the squares and then the scales of 32 vectors lie. What no vector fills is 0. Centroids, codebook and rotation are f32 numbers by their bits, eight
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
use super::{Coding, ListsError, Quantizers};

const _: () = assert!(PANEL == GROUP);

/// The values of [`FORMAT_KEY`].
pub(crate) const FORMAT: Format = Format { whole: "lists", part: "lists.part", versions: &[VERSION] };
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

/// Bytes of the ids of a panel.
pub(super) const IDS_BYTES: usize = PANEL * 8;

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

/// Bytes that a panel holds of its vectors, whose numbers are of this type unless they are codes.
pub(super) fn held_bytes(quantizers: &Quantizers, numbers: NumberType) -> usize {
    let (dimensions, coding, parts) = (quantizers.dimensions(), quantizers.coding(), quantizers.parts());
    match coding.bits() {
        None => dimensions * PANEL * numbers.bytes(),
        Some(bits) if coding == Coding::Rabitq => group_bytes(parts, bits) + PANEL * FACTORS_BYTES,
        Some(bits) => group_bytes(parts, bits),
    }
}

/// Panels of a batch.
pub(super) fn panels_of_batch(held_bytes: usize) -> usize {
    (BATCH_BYTES / (held_bytes + IDS_BYTES)).max(1)
}

/// Refuses more panels than there are places for.
pub(super) fn check_panels(panels: u64, path: &Path) -> Result<(), ListsError> {
    match panels {
        0..=PANELS_MAX => Ok(()),
        _ => Err(ListsError::TooMany { path: path.to_owned(), places: panels.saturating_mul(PANEL as u64) }),
    }
}

/// The bytes of a panel in each column.
pub(super) fn widths(held_bytes: usize) -> [usize; 4] {
    [4, 4, IDS_BYTES, held_bytes]
}

/// The columns of lists.
pub(super) fn schema(held_bytes: usize, metadata: Metadata) -> Schema {
    let fields = vec![
        Field::new("list", DataType::UInt32, false),
        Field::new("count", DataType::UInt32, false),
        Field::new("ids", DataType::FixedSizeBinary(IDS_BYTES as i32), false),
        Field::new("held", DataType::FixedSizeBinary(held_bytes as i32), false),
    ];
    Schema::new(fields).with_metadata(metadata)
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
