//! Permutations of pivots: the pivots nearest to an object, in order, and measures of how much two such orders differ.
//!
//! Objects that are near each other see the pivots in nearly one order (E. Chávez, K. Figueroa, G. Navarro, "Effective proximity
//! retrieval by ordering permutations", IEEE TPAMI 30(9), 2008; lists of the first pivots only: G. Amato, P. Savino, "Approximate
//! similarity search in metric spaces using inverted files", InfoScale 2008). So the objects with the most similar orders are
//! candidates for the nearest ones; nothing proves that all of these are among them.
//!
//! A list has the numbers of the first pivots, by (distance, number). A pivot's position is its place in the list, from 0; pivots that
//! are not in it have the list's length. [`Measure::Footrule`] is the sum over all pivots of the differences of positions,
//! [`Measure::Rho`] that of their squares.
//!
//! Invariant: lists, measures and candidates have the same bits on every path: distances are compared as f64 numbers, all else
//! is whole numbers.

use std::str::FromStr;

use crate::CodePath;
use crate::lanes::{Lanes, Work, run};

/// The most pivots.
pub const PIVOTS_MAX: usize = 4096;
/// The longest list: with it a sum of squares is below 2^32.
pub const LENGTH_MAX: usize = 1024;
// At most all pivots of both lists are apart by the length.
const _: () = assert!(2 * LENGTH_MAX as u64 * (LENGTH_MAX as u64 * LENGTH_MAX as u64) < 1 << 32);

/// Objects whose lists lie together: all first pivots, then all second ones.
const BLOCK: usize = 256;

/// How lists are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Spearman's footrule: absolute differences of positions.
    Footrule,
    /// Spearman's rho: their squares.
    Rho,
}

impl Measure {
    /// Their names.
    pub const NAMES: &'static [&'static str] = &["footrule", "rho"];

    fn of(self, difference: usize) -> u64 {
        let difference = difference as u64;
        match self {
            Self::Footrule => difference,
            Self::Rho => difference * difference,
        }
    }
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "footrule" => Ok(Self::Footrule),
            "rho" => Ok(Self::Rho),
            other => Err(format!("there is no measure of permutations `{other}`: take footrule or rho")),
        }
    }
}

/// The first pivots by (distance, number), as many as `list` is long. Only some of the distances are sorted: the nearest so far are
/// kept in a buffer of twice the length, which is cut whenever it is full.
///
/// # Panics
/// When there are fewer distances than `list` is long, or more than [`PIVOTS_MAX`].
pub fn nearest_pivots(distances: &[f64], list: &mut [u16]) {
    let length = list.len();
    assert!(length <= distances.len() && distances.len() <= PIVOTS_MAX, "a list of {length} pivots");
    if length == 0 {
        return;
    }
    let order = |a: &(f64, u16), b: &(f64, u16)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    let mut kept: Vec<(f64, u16)> = Vec::with_capacity(2 * length);
    let mut limit = f64::INFINITY;
    for (distance, pivot) in distances.iter().zip(0..) {
        // A later pivot at the limit has a larger number than those kept. Infinity is total_cmp's largest but a NaN.
        if *distance >= limit {
            continue;
        }
        kept.push((*distance, pivot));
        if kept.len() == 2 * length {
            kept.select_nth_unstable_by(length - 1, order);
            kept.truncate(length);
            limit = kept[length - 1].0;
        }
    }
    if kept.len() < length {
        // Infinite distances, or ones that are no numbers.
        kept = distances.iter().copied().zip(0..).collect();
    }
    kept.sort_unstable_by(order);
    for (place, (_, pivot)) in list.iter_mut().zip(kept) {
        *place = pivot;
    }
}

/// A measure by its definition: over all pivots, from the positions in both lists.
///
/// # Panics
/// When the lists differ in length, or have a pivot that is not below `pivots`.
pub fn reference(measure: Measure, pivots: usize, a: &[u16], b: &[u16]) -> u64 {
    assert_eq!(a.len(), b.len(), "lists of one length");
    let positions = |list: &[u16]| {
        let mut positions = vec![list.len(); pivots];
        for (place, pivot) in list.iter().enumerate() {
            positions[usize::from(*pivot)] = place;
        }
        positions
    };
    positions(a).iter().zip(positions(b)).map(|(a, b)| measure.of(a.abs_diff(b))).sum()
}

/// The lists of many objects, in the order in which a scan reads them.
#[derive(Clone, Debug)]
pub struct Lists {
    pivots: usize,
    length: usize,
    objects: usize,
    /// By block of [`BLOCK`] objects, then by place, then by object.
    numbers: Vec<u16>,
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
        Ok(Self { pivots, length, objects: 0, numbers: Vec::new() })
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

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.numbers.len() * size_of::<u16>()
    }

    /// Appends the list of the next object.
    ///
    /// # Panics
    /// When it has another length.
    pub fn push(&mut self, list: &[u16]) {
        assert_eq!(list.len(), self.length, "a list has the length of all others");
        if self.objects.is_multiple_of(BLOCK) {
            self.numbers.resize(self.numbers.len() + BLOCK * self.length, 0);
        }
        let first = self.objects / BLOCK * BLOCK * self.length + self.objects % BLOCK;
        for (place, pivot) in list.iter().enumerate() {
            self.numbers[first + place * BLOCK] = *pivot;
        }
        self.objects += 1;
    }

    /// The list of an object.
    ///
    /// # Panics
    /// When there is no such object.
    pub fn list(&self, object: usize) -> Vec<u16> {
        assert!(object < self.objects, "object {object} of {}", self.objects);
        let first = object / BLOCK * BLOCK * self.length + object % BLOCK;
        (0..self.length).map(|place| self.numbers[first + place * BLOCK]).collect()
    }

    /// The measure between a query's list and those of all objects.
    ///
    /// # Panics
    /// When the query's list has another length.
    pub fn measures(&self, path: CodePath, measure: Measure, query: &[u16]) -> Vec<u32> {
        assert_eq!(query.len(), self.length, "lists of one length");
        let mut found = run(path, Scan { lists: self, measure, query });
        found.truncate(self.objects);
        found
    }
}

/// The `count` first objects by (measure, number), in this order, among those that `has` names.
pub fn candidates(measures: &[u32], count: usize, has: impl Fn(usize) -> bool) -> Vec<u32> {
    let mut found: Vec<(u32, u32)> =
        measures.iter().copied().zip(0..).filter(|found| has(found.1 as usize)).collect();
    if count < found.len() && count > 0 {
        found.select_nth_unstable(count - 1);
    }
    found.truncate(count);
    found.sort_unstable();
    found.into_iter().map(|(_, object)| object).collect()
}

/// The measure is a sum over the pivots that the query's list has (as if the object's had none), and over the object's list
/// the differences from that: one look-up for each number of the object's list.
struct Scan<'a> {
    lists: &'a Lists,
    measure: Measure,
    query: &'a [u16],
}

impl Work for Scan<'_> {
    type Done = Vec<u32>;

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> Vec<u32> {
        let Self { lists, measure, query } = self;
        let length = lists.length;
        let mut positions = vec![length; lists.pivots];
        for (place, pivot) in query.iter().enumerate() {
            positions[usize::from(*pivot)] = place;
        }
        let absent: u64 = positions.iter().map(|position| measure.of(length - position)).sum();
        // By place, then by pivot. The sum wraps around; only the end counts.
        let mut table = vec![0_u32; length * lists.pivots];
        for (place, row) in table.chunks_exact_mut(lists.pivots).enumerate() {
            for (entry, position) in row.iter_mut().zip(&positions) {
                let (with, without) = (measure.of(position.abs_diff(place)), measure.of(length - position));
                *entry = (with as u32).wrapping_sub(without as u32);
            }
        }
        let mut found = vec![absent as u32; lists.objects.next_multiple_of(BLOCK)];
        for (found, block) in
            found.as_chunks_mut::<BLOCK>().0.iter_mut().zip(lists.numbers.chunks_exact(BLOCK * length))
        {
            for (row, numbers) in table.chunks_exact(lists.pivots).zip(block.as_chunks::<BLOCK>().0) {
                for (found, number) in found.iter_mut().zip(numbers) {
                    *found = found.wrapping_add(row[usize::from(*number)]);
                }
            }
        }
        found
    }
}

/// Why there are no such lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListsError {
    /// A list has a length that it cannot have.
    #[error("a list of {length} of {pivots} pivots: take a length from 1 to {pivots}")]
    Length {
        /// Pivots of a list.
        length: usize,
        /// All pivots.
        pivots: usize,
    },
    /// There are too many pivots.
    #[error(
        "lists of {length} of {pivots} pivots: take at most {PIVOTS_MAX} pivots and lists of at most {LENGTH_MAX}"
    )]
    TooMany {
        /// Pivots of a list.
        length: usize,
        /// All pivots.
        pivots: usize,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chance::Random;

    fn sorted(distances: &[f64]) -> Vec<u16> {
        let mut all: Vec<u16> = (0..distances.len() as u16).collect();
        all.sort_by(|a, b| distances[usize::from(*a)].total_cmp(&distances[usize::from(*b)]));
        all
    }

    /// Distances of few values, so that many pivots tie.
    fn distances(random: &mut Random, pivots: usize, values: u64) -> Vec<f64> {
        (0..pivots).map(|_| random.below(values) as f64 / 4.0).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn lists_are_those_of_a_sort_and_measures_those_of_the_definition(
            seed in any::<u64>(),
            pivots in 1usize..200,
            length in 1usize..200,
            objects in 0usize..600,
            values in 1u64..400,
        ) {
            let (mut random, length) = (Random::new(seed), length.min(pivots));
            let mut lists = Lists::new(pivots, length).unwrap();
            let mut all = Vec::new();
            for _ in 0..objects {
                let distances = distances(&mut random, pivots, values);
                let mut list = vec![0; length];
                nearest_pivots(&distances, &mut list);
                assert_eq!(list, sorted(&distances)[..length]);
                lists.push(&list);
                all.push(list);
            }
            assert_eq!(lists.objects(), objects);
            let mut query = vec![0; length];
            nearest_pivots(&distances(&mut random, pivots, values), &mut query);
            for measure in [Measure::Footrule, Measure::Rho] {
                let expected: Vec<u32> =
                    all.iter().map(|list| reference(measure, pivots, &query, list) as u32).collect();
                for path in CodePath::available() {
                    assert_eq!(lists.measures(path, measure, &query), expected, "{path}");
                }
                let mut order: Vec<u32> = (0..objects as u32).filter(|object| object % 7 != 3).collect();
                order.sort_by_key(|object| expected[*object as usize]);
                order.truncate(50);
                assert_eq!(candidates(&expected, 50, |object| object % 7 != 3), order);
            }
            for (object, list) in all.iter().enumerate() {
                assert_eq!(&lists.list(object), list);
            }
        }
    }

    #[test]
    fn odd_distances_and_the_largest_lists() {
        for distances in [[f64::INFINITY; 9], [f64::NAN; 9]] {
            let mut list = [9; 9];
            nearest_pivots(&distances, &mut list);
            assert_eq!(list, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        }
        let mut lists = Lists::new(PIVOTS_MAX, LENGTH_MAX).unwrap();
        let (first, last): (Vec<u16>, Vec<u16>) =
            ((0..LENGTH_MAX as u16).collect(), (0..LENGTH_MAX as u16).map(|pivot| 4095 - pivot).collect());
        lists.push(&last);
        for measure in [Measure::Footrule, Measure::Rho] {
            let expected = reference(measure, PIVOTS_MAX, &first, &last);
            assert_eq!(u64::from(lists.measures(CodePath::Portable, measure, &first)[0]), expected);
        }
        // The largest footrule of whole permutations is half of the square.
        let whole: Vec<u16> = (0..7).collect();
        let turned: Vec<u16> = whole.iter().rev().copied().collect();
        assert_eq!(reference(Measure::Footrule, 7, &whole, &turned), 7 * 7 / 2);
        assert!(Lists::new(4, 5).unwrap_err().to_string().contains("from 1 to 4"));
        assert!(Lists::new(4, 0).is_err() && Lists::new(PIVOTS_MAX + 1, 5).is_err());
        assert!("spearman".parse::<Measure>().unwrap_err().contains("rho"));
    }
}
