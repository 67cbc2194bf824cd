//! The layout of a `*.pivots.arrow` file.
//!
//! ```text
//! head    magic, schema message: what was indexed, the pivots, their simplex
//! batch   256 rows: a column `d0`, `d1`, ... each pivot, then a column `a0`, ... each coordinate of an apex
//! tail    end of stream, footer: the extremes, all checksums; footer length, magic
//! ```
//!
//! When a store grows, files with equal columns follow, whose extremes cover all objects so far (`packed_file`).
//!
//! If the distance is no Hilbert distance there are no apexes. All distances and coordinates are multiples of the unit
//! in the head, or of 1 if the head gives none.
//!
//! A row is an object, in the order of the store, or zeros if it was removed.

use arrow_schema::{DataType, Field, Metadata, Schema};

#[cfg(test)]
pub(super) use super::super::arrow_file::{END_OF_STREAM_BYTES, TRAILER_BYTES, tail_checksum, tail_digits};
pub(super) use super::super::packed_file::{
    CREATOR, CREATOR_KEY, FOLLOWS_KEY, FORMAT_KEY, Format, MEASURE_KEY, REPLACES_KEY, STORE_KEY, VERSION,
    VERSION_KEY,
};

/// The values of [`FORMAT_KEY`].
pub(super) const FORMAT: Format = Format { whole: "pivots", part: "pivots.part", versions: &[VERSION] };
/// The key of the unit, unless it is 1.
pub(super) const UNIT_KEY: &str = "boxwork.unit";
/// The key of the pivots' ids, a list in JSON.
pub(super) const PIVOTS_KEY: &str = "boxwork.pivots";
/// The key of the pivots' distances among themselves, row by row, a list in JSON.
pub(super) const BETWEEN_KEY: &str = "boxwork.between";
/// The key of the pivots that, with the first, span the simplex, a list in JSON.
pub(super) const KEPT_KEY: &str = "boxwork.simplex.kept";
/// The key of the simplex's triangular matrix, row by row, a list in JSON.
pub(super) const ROWS_KEY: &str = "boxwork.simplex.rows";
/// The key of the height below which a pivot is not used.
pub(super) const TAU_KEY: &str = "boxwork.simplex.tau";
/// The key in the footer's metadata of the extremes: distance, spread, sigma, length, a list in JSON.
pub(super) const EXTREMES_KEY: &str = "boxwork.extremes";

/// The columns of an index.
pub(super) fn schema(pivots: usize, apex_columns: usize, metadata: Metadata) -> Schema {
    let field = |name: String| Field::new(name, DataType::Float32, false);
    let distances = (0..pivots).map(|pivot| field(format!("d{pivot}")));
    let apexes = (0..apex_columns).map(|number| field(format!("a{number}")));
    Schema::new(distances.chain(apexes).collect::<Vec<_>>()).with_metadata(metadata)
}
