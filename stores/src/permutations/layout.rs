//! The layout of a `*.permutations.arrow` file: a packed file (`packed_file`).
//!
//! ```text
//! head    magic, schema message: the store, the distance, and the pivots as ids in JSON
//! batch   4,096 rows: columns `p0`, `p1`, ... of UInt16: the numbers of the nearest pivots, a column for each place
//! tail    end of stream, footer: all checksums; footer length, magic
//! ```
//!
//! A row is an object, in the order of the store, or zeros if it was removed. A file that follows another has the rows of objects that
//! were added, by the same pivots.

use arrow_schema::{DataType, Field, Metadata, Schema};

pub(super) use super::super::packed_file::{
    CREATOR, CREATOR_KEY, FOLLOWS_KEY, FORMAT_KEY, Format, MEASURE_KEY, REPLACES_KEY, STORE_KEY, VERSION,
    VERSION_KEY,
};
use super::super::packed_file::{PackedError, PackedFile};

/// The values of [`FORMAT_KEY`].
pub(crate) const FORMAT: Format =
    Format { whole: "permutations", part: "permutations.part", versions: &[VERSION] };
/// Rows of a batch.
pub(super) const ROWS: usize = 4096;
/// The key of the pivots.
pub(super) const PIVOTS_KEY: &str = "boxwork.permutations.pivots";

/// The columns of lists of this length.
pub(super) fn schema(length: usize, metadata: Metadata) -> Schema {
    let field = |place: usize| Field::new(format!("p{place}"), DataType::UInt16, false);
    Schema::new((0..length).map(field).collect::<Vec<_>>()).with_metadata(metadata)
}

/// Checks the columns of a file and its number of rows.
pub(super) fn check(file: &PackedFile, length: usize, rows: u64) -> Result<(), PackedError> {
    if *file.fields() != *schema(length, Metadata::default()).fields() {
        return Err(file.not("its columns are not those of permutations"));
    }
    if file.rows(ROWS)? != rows {
        return Err(file.not_blocks());
    }
    Ok(())
}
