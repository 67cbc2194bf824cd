//! Selection of candidates on a device, by bounds of their distances: constants and sizes for `selection.cl`.
//!
//! Each work group keeps the least few upper bounds of its objects. The bounds kept belong to different objects, so the k-th
//! least of them is at least the k-th least of all, and seldom much larger. It is therefore a range that holds the k nearest
//! objects. Objects that may be within that range come back, and the host finds the k-th least upper bound itself.

/// The source of the kernels.
pub const TEXT: &str = include_str!("selection.cl");

/// Work items of a group.
pub const ITEMS: usize = 256;

/// Objects per work item of `winnow` and of `straddle`.
const HELD: usize = 8;

/// At least this many upper bounds are kept per wanted object, so that few of the k nearest share a group.
const KEPT_PER_WANTED: usize = 4;

/// At least this many upper bounds are kept, if there are as many objects.
const KEPT_MIN: usize = 1024;

/// Numbers of an entry: the object's index, the bits of its lower bound, and the bits of its upper bound or its similarity.
pub const ENTRY: usize = 3;

/// The kind of bounds that the source is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounded {
    /// Bounds of distances, in the buffers `lowers` and `uppers`. Entries have both.
    Distances,
    /// Bounds of squared distances, computed from the similarities in the buffer `sums`. Entries have the lower bound and
    /// the similarity.
    Similarities,
    /// Whole numbers in the buffer `lowers`. Entries have these and 0.
    Measures,
}

/// The constants to compile the source with.
pub fn constants(bounded: Bounded) -> Vec<(&'static str, String)> {
    let mut constants = vec![("ITEMS", ITEMS.to_string()), ("HELD", HELD.to_string())];
    match bounded {
        Bounded::Distances => constants.push(("PAYLOAD", "uppers".to_owned())),
        Bounded::Measures => {}
        Bounded::Similarities => {
            constants.push(("PAYLOAD", "sums".to_owned()));
            constants.push(("SIMILARITIES", "1".to_owned()));
        }
    }
    constants
}

/// Work groups of `winnow` and of `straddle` for this many objects.
pub fn groups(objects: usize) -> usize {
    objects.div_ceil(ITEMS * HELD)
}

/// The number of smallest upper bounds that each of `groups` work groups keeps for `wanted` objects: a power of two, at
/// most [`ITEMS`].
pub fn kept(groups: usize, wanted: usize) -> usize {
    let least = (KEPT_PER_WANTED * wanted).max(KEPT_MIN);
    least.div_ceil(groups.max(1)).next_power_of_two().min(ITEMS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_keep_few_where_there_are_many() {
        // 17.5 million objects in groups of 512.
        assert_eq!(kept(34_180, 10), 1);
        assert_eq!(kept(34_180, 10_000), 2);
        assert_eq!(kept(100, 10), 16);
        assert_eq!(kept(1, 10), ITEMS);
        assert_eq!(kept(0, 0), ITEMS);
        assert_eq!([0, 1, 2048, 2049].map(groups), [0, 1, 1, 2]);
    }
}
