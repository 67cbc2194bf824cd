//! What is left of many objects by bounds of their distances, on a device: constants and counts for `selection.cl`.
//!
//! A device first keeps the least few upper bounds of each group of objects. The k-th least of those is no less than
//! the k-th least of all, as they are those of different objects, and hardly more: so it is a range that holds the k
//! nearest. What may lie within it comes back, and the host finds the k-th least upper bound itself.

/// The kernels' text.
pub const TEXT: &str = include_str!("selection.cl");

/// Work items of a group.
pub const ITEMS: usize = 256;

/// Objects that a work item of `winnow` and of `straddle` looks at.
const HELD: usize = 8;

/// For each of the k objects wanted, so many upper bounds are kept at least: then few of the k nearest share a group.
const KEPT_PER_WANTED: usize = 4;

/// Upper bounds that are kept at least, where there are as many objects.
const KEPT_MIN: usize = 1024;

/// Numbers of an entry: the object's place, the bits of its lower bound and of its upper one, or of its similarity.
pub const ENTRY: usize = 3;

/// What the text is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounded {
    /// Distances, whose bounds lie in the buffers `lowers` and `uppers`: entries have both.
    Distances,
    /// Squared distances, whose bounds are made of similarities in the buffer `sums`: entries have the lower bound and
    /// the similarity.
    Similarities,
}

/// The constants that the text is compiled with.
pub fn constants(bounded: Bounded) -> Vec<(&'static str, String)> {
    let mut constants = vec![("ITEMS", ITEMS.to_string()), ("HELD", HELD.to_string())];
    match bounded {
        Bounded::Distances => constants.push(("PAYLOAD", "uppers".to_owned())),
        Bounded::Similarities => {
            constants.push(("PAYLOAD", "sums".to_owned()));
            constants.push(("SIMILARITIES", "1".to_owned()));
        }
    }
    constants
}

/// Groups of `winnow` and of `straddle` for so many objects.
pub fn groups(objects: usize) -> usize {
    objects.div_ceil(ITEMS * HELD)
}

/// How many of its least upper bounds each of so many groups keeps: a power of two, [`ITEMS`] at most.
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
