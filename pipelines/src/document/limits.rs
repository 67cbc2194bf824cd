//! How much one pipeline may hold.
//!
//! People write tens of boxes. The limits keep every later step quick and small whatever a text says: some of them
//! look at each pair of names, and a parameter's value stands again wherever it is used.

/// Parameters, resources or boxes, each.
pub(super) const ENTRIES_COUNT_MAX: usize = 1000;
/// Edges or hints, each; a chain counts as many as it has arrows.
pub(super) const EDGES_COUNT_MAX: usize = 4000;
/// Places where a parameter's value is put in.
pub(super) const REFERENCES_COUNT_MAX: usize = 1000;
/// Bytes of a parameter's default, a list's items taken together.
pub(super) const DEFAULT_BYTES_MAX: usize = 64 << 10;
/// Characters of a name.
pub(super) const NAME_CHARS_MAX: usize = 64;
