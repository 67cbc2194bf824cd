//! The layout of a `*.pivots.arrow` file.
//!
//! ```text
//! head    magic, schema message: what was indexed, the pivots, their simplex
//! batch   256 rows: a column `d0`, `d1`, ... each pivot, then a column `a0`, ... each coordinate of an apex
//! tail    end of stream, footer: the extremes, all checksums; footer length, magic
//! ```
//!
//! When a store grows, files `NAME.part-1`, `NAME.part-2`, ... with equal columns follow, for the new objects. Each
//! names by fingerprint the file that it follows and the store for which it was written; its extremes cover all objects
//! so far. A number is skipped if a foreign file has that name. `NAME.next` is the index of a store during its
//! compaction; it names the index that it replaces.
//!
//! If the distance is no Hilbert distance there are no apexes. All distances and coordinates are multiples of the unit
//! in the head, or of 1 if the head gives none.
//!
//! A row is an object, in the order of the store, or zeros if it was removed. The checksums are those of `arrow_file`:
//! one for the head, one per batch, one for the tail.

use std::fmt::Write;

use arrow_schema::{DataType, Field, Metadata, Schema};

pub(super) use super::super::arrow_file::{
    ALIGNMENT_MIN_BYTES, DIGITS, END_OF_STREAM_BYTES, MAGIC, MARKER, TRAILER_BYTES, read_header,
    tail_checksum, tail_digits,
};

/// The version of the layout; other versions are refused.
pub(super) const VERSION: &str = "1";
/// The value of [`FORMAT_KEY`].
pub(super) const FORMAT: &str = "pivots";
/// The value of [`FORMAT_KEY`] in a file that follows an index.
pub(super) const PART_FORMAT: &str = "pivots.part";
/// The key of the file's format, in the schema's metadata.
pub(super) const FORMAT_KEY: &str = "boxwork.format";
/// The key of the layout's version.
pub(super) const VERSION_KEY: &str = "boxwork.version";
/// The key of the store's fingerprint.
pub(super) const STORE_KEY: &str = "boxwork.store";
/// The key of the fingerprint of the file that a part follows.
pub(super) const FOLLOWS_KEY: &str = "boxwork.follows";
/// The key of the fingerprint of the index that a compacted store's index replaces.
pub(super) const REPLACES_KEY: &str = "boxwork.replaces";
/// The key of the measure with its constants.
pub(super) const MEASURE_KEY: &str = "boxwork.measure";
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
/// The key of the program that wrote the file.
pub(super) const CREATOR_KEY: &str = "boxwork.created_by";
/// The program that writes files.
pub(super) const CREATOR: &str = concat!("boxwork ", env!("CARGO_PKG_VERSION"));
/// The key in the footer's metadata of the extremes: distance, spread, sigma, length, a list in JSON.
pub(super) const EXTREMES_KEY: &str = "boxwork.extremes";
/// The key of the checksums, in the footer's metadata.
pub(super) const CHECKSUMS_KEY: &str = "boxwork.checksums";

/// The columns of an index.
pub(super) fn schema(pivots: usize, apex_columns: usize, metadata: Metadata) -> Schema {
    let field = |name: String| Field::new(name, DataType::Float32, false);
    let distances = (0..pivots).map(|pivot| field(format!("d{pivot}")));
    let apexes = (0..apex_columns).map(|number| field(format!("a{number}")));
    Schema::new(distances.chain(apexes).collect::<Vec<_>>()).with_metadata(metadata)
}

/// The text of all checksums, with zeros for the tail's own; for each batch also its rows.
pub(super) fn write_checksums(head: u32, batches: &[(usize, u32)]) -> String {
    let mut text = format!("{MARKER}{:0DIGITS$x};head={head:08x}", 0);
    for (rows, checksum) in batches {
        write!(text, ";{rows},{checksum:08x}").expect("a string takes any text");
    }
    text
}

/// Reads the text of [`write_checksums`]; `None` for any other text.
pub(super) fn read_checksums(text: &str) -> Option<(u32, Vec<(usize, u32)>)> {
    let mut parts = text.split(';').skip(1);
    let head = u32::from_str_radix(parts.next()?.strip_prefix("head=")?, 16).ok()?;
    let entry = |part: &str| {
        let (rows, checksum) = part.split_once(',')?;
        Some((rows.parse().ok()?, u32::from_str_radix(checksum, 16).ok()?))
    };
    Some((head, parts.map(entry).collect::<Option<_>>()?))
}
