//! Tiles of rows and queries whose products a work group computes: the sizes for `tile.cl`, which comes before the text of
//! kernels that multiply such tiles.

/// Work items of a group.
pub const ITEMS: usize = SIDE * SIDE;
/// Rows and queries of a work group.
pub const GROUP: usize = 4 * QUADS * SIDE;
/// Rows and queries of an item, in quadruples.
const QUADS: usize = 2;
/// Items of a group that share a row, and those that share a query.
const SIDE: usize = 16;
/// Numbers of each vector that lie in local memory.
const DEPTH: usize = 16;

/// The constants to compile such kernels with.
pub(crate) fn constants() -> Vec<(&'static str, String)> {
    let sizes = [("GROUP", GROUP), ("QUADS", QUADS), ("SIDE", SIDE), ("DEPTH", DEPTH)];
    sizes.map(|(name, size)| (name, size.to_string())).into()
}
