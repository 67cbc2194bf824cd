//! The lists of many objects, in the order in which a scan reads them.

use super::{LENGTH_MAX, ListsError, PIVOTS_MAX};

/// Objects whose lists lie together: all first pivots, then all second ones.
pub(super) const BLOCK: usize = 256;
/// So many pivots have numbers of one byte.
pub(super) const BYTES_MAX: usize = 256;

/// The lists of many objects: a byte for each place if there are at most 256 pivots, else two.
#[derive(Clone, Debug)]
pub struct Lists {
    pivots: usize,
    length: usize,
    objects: usize,
    numbers: Numbers,
}

/// Numbers of pivots by block of [`BLOCK`] objects, then by place, then by object.
#[derive(Clone, Debug)]
pub(super) enum Numbers {
    Bytes(Vec<u8>),
    Words(Vec<u16>),
}

impl Lists {
    /// No lists of `length` of `pivots` pivots.
    ///
    /// # Errors
    /// When a list is to be empty, or longer than there are pivots, or there are too many pivots.
    pub fn new(pivots: usize, length: usize) -> Result<Self, ListsError> {
        if length == 0 || length > pivots {
            return Err(ListsError::Length { length, pivots });
        }
        if pivots > PIVOTS_MAX || length > LENGTH_MAX {
            return Err(ListsError::TooMany { length, pivots });
        }
        let numbers =
            if pivots <= BYTES_MAX { Numbers::Bytes(Vec::new()) } else { Numbers::Words(Vec::new()) };
        Ok(Self { pivots, length, objects: 0, numbers })
    }

    /// Number of pivots.
    pub fn pivots(&self) -> usize {
        self.pivots
    }

    /// Pivots of a list.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Number of objects.
    pub fn objects(&self) -> usize {
        self.objects
    }

    pub(super) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Blocks of 256 objects, the last of which may have fewer.
    pub fn blocks(&self) -> usize {
        self.objects.div_ceil(BLOCK)
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        match &self.numbers {
            Numbers::Bytes(numbers) => numbers.len(),
            Numbers::Words(numbers) => size_of_val(&**numbers),
        }
    }

    /// Appends the list of the next object.
    ///
    /// # Panics
    /// When it has another length, or a number that no pivot has.
    pub fn push(&mut self, list: &[u16]) {
        assert_eq!(list.len(), self.length, "a list has the length of all others");
        // Look-ups in vector instructions rely on it.
        assert!(list.iter().all(|pivot| usize::from(*pivot) < self.pivots), "pivots of the lists");
        let (nth, size) = (self.objects % BLOCK, BLOCK * self.length);
        let first = self.objects / BLOCK * size + nth;
        match &mut self.numbers {
            Numbers::Bytes(numbers) => {
                if nth == 0 {
                    numbers.resize(numbers.len() + size, 0);
                }
                let to = numbers[first..].iter_mut().step_by(BLOCK);
                to.zip(list).for_each(|(to, pivot)| *to = *pivot as u8);
            }
            Numbers::Words(numbers) => {
                if nth == 0 {
                    numbers.resize(numbers.len() + size, 0);
                }
                numbers[first..].iter_mut().step_by(BLOCK).zip(list).for_each(|(to, pivot)| *to = *pivot);
            }
        }
        self.objects += 1;
    }

    /// The list of an object.
    ///
    /// # Panics
    /// When there is no such object.
    pub fn list(&self, object: usize) -> Vec<u16> {
        let mut list = Vec::with_capacity(self.length);
        self.extend_with(object, &mut list);
        list
    }

    /// Appends the list of an object.
    pub(super) fn extend_with(&self, object: usize, to: &mut Vec<u16>) {
        assert!(object < self.objects, "object {object} of {}", self.objects);
        let first = object / BLOCK * BLOCK * self.length + object % BLOCK;
        let places = (0..self.length).map(|place| first + place * BLOCK);
        match &self.numbers {
            Numbers::Bytes(numbers) => to.extend(places.map(|at| u16::from(numbers[at]))),
            Numbers::Words(numbers) => to.extend(places.map(|at| numbers[at])),
        }
    }
}
