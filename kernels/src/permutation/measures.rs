//! Measures of all lists on a device: constants, sizes and tables for `measures.cl`.
//!
//! Invariant: measures are whole numbers below 2^24, which f32 holds, so they are those of the processor. Lists whose measures may be
//! larger are for slots.

use super::lists::{BLOCK, Lists, Numbers};
use super::tables::{Tables, largest};
use super::{Comparison, Measure};
use crate::selection;

/// The source of the kernels.
pub const TEXT: &str = include_str!("measures.cl");

/// Work items of a group.
pub const ITEMS: usize = selection::ITEMS;
/// Objects of an item: as many as a byte has bits.
const HELD: usize = 8;
const _: () = assert!(BLOCK.is_multiple_of(HELD));
/// Bins of the histogram of measures of a query.
pub const BINS: usize = 2048;
const _: () = assert!(BINS.is_multiple_of(ITEMS));
/// f32 holds the whole numbers below this.
const EXACT_MAX: u64 = 1 << 24;
/// Bytes of tables in local memory: NVIDIA's OpenCL gives 48 KiB, of which the bins take some.
const TABLES_BYTES: usize = 32 << 10;
const _: () = assert!(TABLES_BYTES + 4 * BINS <= 48 << 10);
const _: () = assert!(super::PIVOTS_MAX * size_of::<u32>() <= TABLES_BYTES);

/// The type of the numbers of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    /// With the length added to each; sums wrap around at 16 bits.
    Bytes,
    /// Sums wrap around at 16 bits.
    Words,
    Wide,
}

impl Entry {
    fn bytes(self) -> usize {
        match self {
            Self::Bytes => 1,
            Self::Words => 2,
            Self::Wide => 4,
        }
    }
}

/// The sizes of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pivots: usize,
    length: usize,
    is_words: bool,
    entry: Entry,
    largest: u64,
}

/// The numbers of all lists, by block of 256 objects, place and object.
#[derive(Clone, Copy, Debug)]
pub enum ListNumbers<'a> {
    /// A byte each.
    Bytes(&'a [u8]),
    /// Two bytes each.
    Words(&'a [u16]),
}

impl Shape {
    /// The program that compares such lists; `None` if slots must do it.
    pub fn new(lists: &Lists, comparison: Comparison) -> Option<Self> {
        let (pivots, length) = (lists.pivots(), lists.length());
        let largest = largest(comparison.measure, length);
        let entry = match comparison.measure {
            // The numbers of a table are from minus the length to the length.
            Measure::Footrule if 2 * length <= usize::from(u8::MAX) => Entry::Bytes,
            _ if largest <= u64::from(u16::MAX) => Entry::Words,
            _ => Entry::Wide,
        };
        let is_words = matches!(lists.numbers(), Numbers::Words(_));
        (largest < EXACT_MAX).then_some(Self { pivots, length, is_words, entry, largest })
    }

    /// Work groups for each query of so many objects.
    pub fn groups(objects: usize) -> usize {
        objects.div_ceil(ITEMS * HELD)
    }

    /// Measures of a query in memory: those of all objects of all groups.
    pub fn stride(objects: usize) -> usize {
        Self::groups(objects) * ITEMS * HELD
    }

    /// The constants to compile the source with.
    pub fn constants(self) -> Vec<(&'static str, String)> {
        let step = (TABLES_BYTES / (self.pivots * self.entry.bytes())).clamp(1, self.length);
        let bits = self.largest.max(1).ilog2() as usize + 1;
        let sizes = [
            ("ITEMS", ITEMS),
            ("HELD", HELD),
            ("BLOCK", BLOCK),
            ("PIVOTS", self.pivots),
            ("LENGTH", self.length),
            ("STEP", step),
            ("BINS", BINS),
            ("SHIFT", bits.saturating_sub(BINS.ilog2() as usize)),
        ];
        let mut constants: Vec<_> = sizes.map(|(name, size)| (name, size.to_string())).into();
        let entry = match self.entry {
            Entry::Bytes => "uchar",
            Entry::Words => "ushort",
            Entry::Wide => "uint",
        };
        constants.push(("ENTRY", entry.to_owned()));
        if self.entry != Entry::Wide {
            constants.push(("WRAPS", "1".to_owned()));
        }
        if self.is_words {
            constants.push(("WORDS", "1".to_owned()));
        }
        constants
    }

    /// Bytes of the tables of a query.
    pub fn table_bytes(self) -> usize {
        self.pivots * self.length * self.entry.bytes()
    }

    /// Appends the tables of a query's list, as bytes; returns the measure to which look-ups add.
    ///
    /// # Panics
    /// When the list has another length, or a pivot that there is not.
    pub fn append_tables(
        self,
        lists: &Lists,
        comparison: Comparison,
        query: &[u16],
        to: &mut Vec<u8>,
    ) -> u32 {
        assert_eq!(query.len(), self.length, "lists of one length");
        let Tables { absent, entries } = Tables::new(lists, comparison, query);
        match self.entry {
            Entry::Bytes => {
                let bias = self.length as u32;
                to.extend(entries.iter().map(|entry| entry.wrapping_add(bias) as u8));
                absent.wrapping_sub(bias * self.length as u32)
            }
            Entry::Words => {
                to.extend(entries.iter().flat_map(|entry| (*entry as u16).to_le_bytes()));
                absent
            }
            Entry::Wide => {
                to.extend(entries.iter().flat_map(|entry| entry.to_le_bytes()));
                absent
            }
        }
    }
}

/// A bit for each object, whether it is there: for all objects of all groups.
pub fn alive(objects: usize, has: impl Fn(usize) -> bool) -> Vec<u8> {
    let mut marks = vec![0; Shape::stride(objects) / HELD];
    for object in (0..objects).filter(|object| has(*object)) {
        marks[object / HELD] |= 1 << (object % HELD);
    }
    marks
}

impl Lists {
    /// The numbers of all lists as a device takes them.
    pub fn all_numbers(&self) -> ListNumbers<'_> {
        match self.numbers() {
            Numbers::Bytes(numbers) => ListNumbers::Bytes(numbers),
            Numbers::Words(numbers) => ListNumbers::Words(numbers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CodePath;
    use crate::chance::Random;

    /// The measures by the tables of a query, as `measures` sums them.
    fn measures(shape: Shape, lists: &Lists, comparison: Comparison, query: &[u16]) -> Vec<u32> {
        let mut bytes = Vec::new();
        let start = shape.append_tables(lists, comparison, query, &mut bytes);
        assert_eq!(bytes.len(), shape.table_bytes());
        let entry = |place: usize, pivot: u16| {
            let at = (place * shape.pivots + usize::from(pivot)) * shape.entry.bytes();
            let mut number = [0; 4];
            number[..shape.entry.bytes()].copy_from_slice(&bytes[at..at + shape.entry.bytes()]);
            u32::from_le_bytes(number)
        };
        let of_object = |object: usize| {
            let list = lists.list(object);
            let sum = list
                .iter()
                .enumerate()
                .fold(start, |sum, (place, pivot)| sum.wrapping_add(entry(place, *pivot)));
            if shape.entry == Entry::Wide { sum } else { sum & 0xffff }
        };
        (0..lists.objects()).map(of_object).collect()
    }

    #[test]
    fn tables_give_the_measures_of_the_scan() {
        let mut random = Random::new(4);
        for (pivots, length) in [(1, 1), (40, 11), (128, 32), (128, 128), (300, 20), (300, 250)] {
            let mut lists = Lists::new(pivots, length).unwrap();
            let list = |random: &mut Random| -> Vec<u16> {
                random.distinct(pivots as u64, length).into_iter().map(|pivot| pivot as u16).collect()
            };
            (0..300).for_each(|_| lists.push(&list(&mut random)));
            let query = list(&mut random);
            for measure in [Measure::Footrule, Measure::Rho] {
                for (query_pivots, max_shift) in [(usize::MAX, usize::MAX), (7, 3)] {
                    let comparison = Comparison { measure, query_pivots, max_shift };
                    let wanted = lists.measures(CodePath::Portable, comparison, &query);
                    let shape = Shape::new(&lists, comparison).expect("small measures");
                    assert_eq!(measures(shape, &lists, comparison, &query), wanted, "{shape:?}");
                    assert!(wanted.iter().all(|measure| u64::from(*measure) <= shape.largest));
                }
            }
        }
        let lists = Lists::new(1024, 1024).unwrap();
        assert!(Shape::new(&lists, Measure::Rho.into()).is_none(), "f32 does not hold all of these");
        assert!(Shape::new(&lists, Measure::Footrule.into()).is_some());
        assert_eq!(alive(10, |object| object != 3)[..2], [0b1111_0111, 0b11]);
    }
}
