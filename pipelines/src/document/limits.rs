//! The limits of one pipeline.
//!
//! Users write tens of boxes. The limits keep every later step fast and small for any text: some steps compare each
//! pair of names, and a parameter's value is repeated at each use.

/// Parameters, resources or boxes, each.
pub(super) const ENTRIES_COUNT_MAX: usize = 1000;
/// Edges or hints, each; a chain counts as many as it has arrows.
pub(super) const EDGES_COUNT_MAX: usize = 4000;
/// Places where a parameter is used.
pub(super) const REFERENCES_COUNT_MAX: usize = 1000;
/// Bytes of a parameter's default; for a list, of all items together.
pub(super) const DEFAULT_BYTES_MAX: usize = 64 << 10;
/// Characters of a name.
pub(super) const NAME_CHARS_MAX: usize = 64;
