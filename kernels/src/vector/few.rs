//! Search for a few queries on a device, at the rate at which it reads the rows: constants and sizes for `few.cl`.
//!
//! Values are as those of `device.cl`, whose `shorten` and `hand_over` take the lists from here. A slice of rows is one sequence of
//! commands: values and the least of each group, the k-th least of these (`k_select.cl`), and the rows that it does not exclude.
//! For one or two queries, two launches do all of it in a slice of many rows.

use super::device::{ITEMS, Products};
use crate::numbers::NumberType;

/// The source of the kernels.
pub const TEXT: &str = include_str!("few.cl");

/// The most queries that are searched for in this way.
pub const QUERIES_MAX: usize = 8;
/// Rows whose values are in memory at a time.
pub const SLICE_ROWS: usize = 1 << 20;

/// Items that share a row.
const TEAM: usize = 8;
/// Up to so many queries, an item has many rows, and one launch ends the search. More of them would need more local memory than every
/// device has.
const FEWER: usize = 2;
/// Numbers of each query that lie in local memory: what a team loads at a time, at least.
const DEPTH_MIN: usize = 16 * TEAM;
const DEPTH_MAX: usize = 512;
/// Values that an item of `winnow` looks at.
const WINNOWED: usize = 8;
/// Up to this many rows, the k-th least is found among all values.
const ALL_MAX: usize = 1 << 14;

/// The search for some queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Few {
    products: Products,
    /// Numbers of a row in memory, with those that fill it up.
    dimensions: usize,
    /// A power of two, at least the number of queries.
    queries: usize,
}

impl Few {
    /// The search for `queries` queries among rows of `dimensions` numbers in memory.
    ///
    /// # Panics
    /// If there are none, or more than [`QUERIES_MAX`].
    pub fn new(products: Products, dimensions: usize, queries: usize) -> Self {
        assert!((1..=QUERIES_MAX).contains(&queries), "1 to {QUERIES_MAX} queries, not {queries}");
        Self { products, dimensions, queries: queries.next_power_of_two() }
    }

    /// Rows of an item: fewer where each has many sums.
    fn held(self) -> usize {
        match self.queries {
            ..=FEWER => 8,
            3 | 4 => 4,
            _ => 2,
        }
    }

    /// Numbers that an item loads at a time: 16 bytes if each row begins at a multiple of these, or four, or one number.
    fn loaded(self) -> usize {
        let bytes = match self.products {
            Products::Halves => 2,
            Products::Single(numbers) => numbers.bytes(),
        };
        let fits = |size: &usize| (self.dimensions * bytes).is_multiple_of(*size) && *size >= bytes;
        [16, 4].into_iter().find(fits).map_or(1, |size| size / bytes)
    }

    /// The constants to compile the source with.
    pub fn constants(self) -> Vec<(&'static str, String)> {
        // Few different ones, so that most stores share a program.
        let depth = self.dimensions.next_power_of_two().clamp(DEPTH_MIN, DEPTH_MAX);
        let sizes = [
            ("ITEMS", ITEMS),
            ("TEAM", TEAM),
            ("HELD", self.held()),
            ("QUERIES", self.queries),
            ("LOADED", self.loaded()),
            ("DEPTH", depth),
            ("WINNOWED", WINNOWED),
        ];
        let mut constants: Vec<_> = sizes.map(|(name, size)| (name, size.to_string())).into();
        if self.has_conclusion() {
            constants.push(("MINIMA", self.groups(SLICE_ROWS).to_string()));
        }
        let of_numbers: &[(&str, &str)] = match self.products {
            Products::Halves | Products::Single(NumberType::F16) => &[("HALVES", "1")],
            Products::Single(NumberType::F32) => &[("NUMBER", "float")],
            Products::Single(NumberType::U8) => &[("NUMBER", "uchar"), ("BYTES", "as_uchar4")],
            Products::Single(NumberType::I8) => &[("NUMBER", "char"), ("BYTES", "as_char4")],
        };
        constants.extend(of_numbers.iter().map(|(name, value)| (*name, (*value).to_owned())));
        constants
    }

    /// Work groups of `few` for some rows, each of which gives its least value.
    pub fn groups(self, rows: usize) -> usize {
        rows.div_ceil(ITEMS / TEAM * self.held())
    }

    /// Work groups of `winnow` for each query.
    pub fn winnow_groups(rows: usize) -> usize {
        rows.div_ceil(ITEMS * WINNOWED)
    }

    /// Whether the k-th least is found among the least of groups, of so many rows, of which some are searched: if many groups have
    /// one, few of the k nearest share one.
    pub fn by_groups(self, (rows, searched): (usize, usize), k: usize) -> bool {
        rows > ALL_MAX && 2 * (searched as u64 * self.groups(rows) as u64 / rows as u64) >= 3 * k as u64
    }

    /// Whether the source has `conclude`.
    pub fn has_conclusion(self) -> bool {
        self.queries <= FEWER
    }

    /// Whether one launch of `conclude` ends the search of so many rows, if it is by the least of groups.
    pub fn concludes(self, rows: usize) -> bool {
        rows <= SLICE_ROWS && self.has_conclusion()
    }
}

const _: () = assert!(DEPTH_MIN.is_power_of_two() && DEPTH_MAX.is_power_of_two() && SLICE_ROWS > ALL_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_as_wide_as_rows_allow() {
        let loaded = |products, dimensions| Few::new(products, dimensions, 1).loaded();
        let single = Products::Single;
        assert_eq!([1, 3, 128].map(|d| loaded(single(NumberType::F32), d)), [1, 1, 4]);
        assert_eq!([1, 2, 10, 128].map(|d| loaded(single(NumberType::F16), d)), [1, 2, 2, 8]);
        assert_eq!([3, 100, 128].map(|d| loaded(single(NumberType::U8), d)), [1, 4, 16]);
        assert_eq!(loaded(Products::Halves, 32), 8);
    }

    #[test]
    fn groups_hold_every_row() {
        for (queries, of_group) in [(1, 256), (2, 256), (3, 128), (8, 64)] {
            let few = Few::new(Products::Halves, 128, queries);
            assert_eq!([0, 1, of_group, of_group + 1].map(|rows| few.groups(rows)), [0, 1, 1, 2]);
        }
        let one = Few::new(Products::Halves, 128, 1);
        let all = |rows| (rows, rows);
        assert!(one.by_groups(all(1_000_000), 2048) && !one.by_groups(all(100_000), 2048));
        assert!(!one.by_groups(all(10_000), 1) && !one.by_groups((1_000_000, 10_000), 2048));
        assert!(one.concludes(SLICE_ROWS) && !one.concludes(SLICE_ROWS + 1));
        assert!(one.groups(SLICE_ROWS).is_multiple_of(ITEMS));
    }
}
