//! The launch of a kernel: the range that it runs over, and the arguments other than buffers.

use super::plain::{Plain, bytes_of};

/// The largest struct that a kernel takes by value here; OpenCL guarantees room for 1,024 bytes of all arguments.
const VALUE_BYTES_MAX: usize = 128;

/// A kernel's argument other than a buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value(pub(super) Kind);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// Bytes of a plain value, and their number.
    Plain([u8; VALUE_BYTES_MAX], usize),
    /// Local memory of this many bytes.
    Local(usize),
}

impl Value {
    /// A number, or a struct of numbers. Its type must be that of the kernel's argument.
    pub fn of<T: Plain>(value: T) -> Self {
        const { assert!(size_of::<T>() <= VALUE_BYTES_MAX, "too large to be passed by value") };
        let (mut bytes, value) = ([0; VALUE_BYTES_MAX], bytes_of(&value));
        bytes[..value.len()].copy_from_slice(value);
        Self(Kind::Plain(bytes, value.len()))
    }

    /// Local memory of this many bytes.
    pub fn local(bytes: usize) -> Self {
        Self(Kind::Local(bytes))
    }

    /// The bytes that a kernel gets; none of local memory.
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Kind::Plain(bytes, len) => &bytes[..*len],
            Kind::Local(_) => &[],
        }
    }

    /// The bytes of local memory; nothing for a value.
    pub fn local_bytes(&self) -> Option<usize> {
        match self.0 {
            Kind::Plain(..) => None,
            Kind::Local(bytes) => Some(bytes),
        }
    }
}

/// The work items that a kernel runs over: groups of them in one to three dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    dimensions: usize,
    groups: [usize; 3],
    group: [usize; 3],
}

impl Grid {
    /// A number of groups, each of a number of work items, by dimension.
    ///
    /// # Panics
    /// When a group has no work items.
    pub fn of<const D: usize>(groups: [usize; D], group: [usize; D]) -> Self {
        const { assert!(D >= 1 && D <= 3, "a range has one to three dimensions") };
        assert!(!group.contains(&0), "a group has at least one work item in each dimension");
        let wide = |given: [usize; D]| {
            let mut all = [1; 3];
            all[..D].copy_from_slice(&given);
            all
        };
        Self { dimensions: D, groups: wide(groups), group: wide(group) }
    }

    /// The groups that cover these work items, by dimension. The last groups may reach beyond them.
    ///
    /// # Panics
    /// When a group has no work items.
    pub fn covering<const D: usize>(items: [usize; D], group: [usize; D]) -> Self {
        let mut groups = items;
        groups.iter_mut().zip(group).for_each(|(items, group)| *items = items.div_ceil(group.max(1)));
        let grid = Self::of(groups, group);
        debug_assert!(
            grid.items().iter().zip(items).all(|(all, wanted)| *all >= wanted),
            "a range leaves work items out"
        );
        grid
    }

    /// Work items in a group.
    pub fn group_items(&self) -> usize {
        self.group.iter().product()
    }

    /// Whether there are no work items.
    pub fn is_empty(&self) -> bool {
        self.groups.contains(&0)
    }

    /// All work items, by dimension.
    pub(super) fn items(&self) -> [usize; 3] {
        debug_assert!(
            (0..3).all(|idx| self.groups[idx].checked_mul(self.group[idx]).is_some()),
            "a range has more work items than can be counted"
        );
        std::array::from_fn(|idx| self.groups[idx] * self.group[idx])
    }

    /// Work items in a group, by dimension.
    pub(super) fn group(&self) -> [usize; 3] {
        self.group
    }

    pub(super) fn dimensions(&self) -> usize {
        debug_assert!(
            self.groups[self.dimensions..]
                .iter()
                .chain(&self.group[self.dimensions..])
                .all(|count| *count == 1),
            "a range reaches into a dimension that it does not have"
        );
        self.dimensions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_covers_its_items() {
        let grid = Grid::covering([100, 7], [16, 4]);
        assert_eq!((grid.items(), grid.group(), grid.dimensions()), ([112, 8, 1], [16, 4, 1], 2));
        assert_eq!((grid.group_items(), grid.is_empty()), (64, false));
        assert!(Grid::covering([5, 0, 5], [1, 1, 1]).is_empty());
        assert_eq!(Grid::of([3], [32]).items(), [96, 1, 1]);
    }

    #[test]
    fn a_value_is_its_bytes() {
        let Value(Kind::Plain(bytes, len)) = Value::of(0.2f64) else { panic!("it is plain") };
        assert_eq!(bytes[..len], 0.2f64.to_ne_bytes());
        assert_eq!(Value::local(12), Value(Kind::Local(12)));
    }
}
