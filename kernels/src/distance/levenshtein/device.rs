//! Edit distances of many pairs of texts on a device: constants and sizes for `device.cl`, and queries as it takes them.
//!
//! Distances are whole numbers, so those of a device are those of the processor or wrong.

use super::pair_planes::PairPlanes;
use super::planes::TextPlanes;
pub use super::planes::{ITEMS, NEVER};
use super::sliced::LETTERS_MAX;

/// The source of the kernels.
pub const TEXT: &str = include_str!("device.cl");
/// The kernel that compares texts with queries.
pub const TO_QUERIES: &str = "to_queries";
/// The kernel that compares pairs of texts.
pub const PAIRS: &str = "pairs";

/// The most letters of a text and of a query.
pub const QUERY_LETTERS_MAX: usize = LETTERS_MAX;
/// Bits of the distance in an entry; the others are those of the text's position.
pub const DISTANCE_BITS: usize = 11;
const _: () = assert!(LETTERS_MAX < 1 << DISTANCE_BITS);
/// The most positions whose entries have room for them.
pub const POSITIONS_MAX: usize = 1 << (u32::BITS as usize - DISTANCE_BITS);

/// The bits of a letter that one table tells apart.
const PART: usize = 3;
/// Columns whose differences lie in local memory: more would leave room for too few groups.
const COLUMNS_LOCAL: usize = 64;
/// Bytes of the differences of a column, for each item.
const COLUMN_BYTES: usize = size_of::<[u32; 2]>();
// Local memory of a group: NVIDIA's OpenCL gives 48 KiB.
const _: () = assert!(COLUMNS_LOCAL * COLUMN_BYTES * ITEMS <= 32 << 10);
/// Bytes of the differences in global memory, at most: some groups share them and take several jobs each.
const COLUMNS_BYTES_MAX: usize = 1 << 28;

/// The sizes of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    rows: usize,
    planes: usize,
    /// Bits of a distance.
    digits: usize,
    columns: Columns,
    /// Bundles times queries, or bundles of pairs.
    jobs: usize,
    kind: Kind,
}

/// The texts that a kernel compares, and the distances that come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Texts with queries: all distances.
    All,
    /// Texts with queries: the distances up to limits.
    Listed,
    /// Pairs of texts, in whole strips or not.
    Pairs { is_padded: bool },
}

/// The place of the differences of columns between two strips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Columns {
    /// There is one strip.
    None,
    Local,
    /// Global memory: columns of a group.
    Global(usize),
}

impl Columns {
    fn of(longest_query: usize, longest_text: usize, rows: usize) -> Self {
        match longest_text {
            _ if longest_query <= rows => Self::None,
            ..=COLUMNS_LOCAL => Self::Local,
            _ => Self::Global(longest_text),
        }
    }
}

/// Bits of the distances of texts of so many letters; few different ones, so that most stores share a program.
fn digits(longest: usize) -> usize {
    match longest {
        ..64 => 6,
        64..256 => 8,
        _ => DISTANCE_BITS,
    }
}

/// The rows that items keep in registers: those that take the least work for queries of such lengths.
fn rows_of(lengths: &[usize], parts: usize) -> usize {
    // The work of a column beyond that of its rows, in rows: tables of letters, loads and stores.
    let beyond = 1 + 3 * parts;
    let work = |rows: usize| -> usize {
        lengths.iter().map(|length| length.div_ceil(rows).max(1) * (rows + beyond)).sum()
    };
    // Each row takes two registers, and one for each part of its letter.
    let most = if parts == 1 { 32 } else { 16 };
    [32, 16, 8].into_iter().filter(|rows| *rows <= most).min_by_key(|rows| work(*rows)).unwrap_or(most)
}

impl Shape {
    /// The program that compares texts with queries of these lengths; with `is_listed`, only distances up to limits come back.
    ///
    /// # Panics
    /// When a query has more than [`QUERY_LETTERS_MAX`] letters.
    pub fn of_queries(texts: &TextPlanes, lengths: &[usize], is_listed: bool) -> Self {
        let longest = lengths.iter().copied().max().unwrap_or(0);
        assert!(longest <= QUERY_LETTERS_MAX, "a query of {longest} letters");
        let rows = rows_of(lengths, texts.planes().div_ceil(PART));
        Self {
            rows,
            planes: texts.planes(),
            digits: digits(longest.max(texts.longest())),
            columns: Columns::of(longest, texts.longest(), rows),
            jobs: texts.bundles() * lengths.len(),
            kind: if is_listed { Kind::Listed } else { Kind::All },
        }
    }

    /// The program that compares pairs.
    pub fn of_pairs(pairs: &PairPlanes) -> Self {
        let [first, second] = pairs.longest();
        // The bits of the first texts are in registers.
        let rows = match pairs.planes() {
            ..=2 => 16,
            3..=5 => 8,
            _ => 4,
        };
        Self {
            rows,
            planes: pairs.planes(),
            digits: digits(first.max(second)),
            columns: Columns::of(first, second, rows),
            jobs: pairs.bundles(),
            kind: Kind::Pairs { is_padded: !pairs.fills(rows) },
        }
    }

    /// Work groups.
    pub fn groups(self) -> usize {
        match self.columns {
            Columns::Global(columns) => {
                self.jobs.min((COLUMNS_BYTES_MAX / (columns * ITEMS * COLUMN_BYTES)).max(1))
            }
            _ => self.jobs,
        }
    }

    /// Columns of a group in global memory, of [`ITEMS`] pairs of numbers each.
    pub fn columns_of_group(self) -> usize {
        match self.columns {
            Columns::Global(columns) => columns,
            _ => 0,
        }
    }

    /// Bytes of a distance that comes back.
    pub fn distance_bytes(self) -> usize {
        if self.digits <= 8 { 1 } else { 2 }
    }

    /// The largest limit that a kernel takes: no distance is above it.
    pub fn limit_max(self) -> i32 {
        (1 << self.digits) - 1
    }

    /// Whether only distances up to limits come back.
    pub fn is_listed(self) -> bool {
        self.kind == Kind::Listed
    }

    /// Whether pairs are compared.
    pub fn is_paired(self) -> bool {
        matches!(self.kind, Kind::Pairs { .. })
    }

    /// The constants to compile the source with.
    pub fn constants(self) -> Vec<(&'static str, String)> {
        let sizes = [("ITEMS", ITEMS), ("ROWS", self.rows), ("PLANES", self.planes), ("DIGITS", self.digits)];
        let mut constants: Vec<_> = sizes.map(|(name, size)| (name, size.to_string())).into();
        match self.columns {
            Columns::None => constants.push(("COLUMNS", "1".to_owned())),
            Columns::Local => constants.push(("COLUMNS", COLUMNS_LOCAL.to_string())),
            Columns::Global(_) => {}
        }
        let mut define = |name, value: usize| constants.push((name, value.to_string()));
        match self.kind {
            Kind::All => {}
            Kind::Listed => {
                define("LISTED", 1);
                define("DISTANCE_BITS", DISTANCE_BITS);
            }
            Kind::Pairs { is_padded } => {
                define("PAIRED", 1);
                if is_padded {
                    define("PADDED", 1);
                }
            }
        }
        constants
    }
}

/// Queries in the codes of some texts.
#[derive(Clone, Debug, Default)]
pub struct CodedQueries {
    /// All letters, one query after the other.
    pub letters: Vec<u16>,
    /// The first letter of each query, and the number of its letters.
    pub queries: Vec<[u32; 2]>,
}

impl CodedQueries {
    /// The queries in the codes of the texts.
    pub fn new<'a>(texts: &TextPlanes, queries: impl IntoIterator<Item = &'a [char]>) -> Self {
        let mut coded = Self::default();
        for query in queries {
            coded.queries.push([coded.letters.len() as u32, query.len() as u32]);
            coded.letters.extend(texts.codes(query));
        }
        coded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Random;
    use crate::distance::{Distance, Levenshtein};
    use crate::pieces::one_by_one;

    /// The distances of a bundle's texts from a query, as `to_queries` computes them: a word of pairs at a time, strip by strip.
    fn to_query(planes: &TextPlanes, query: &[u16], rows: usize, bundle: usize) -> Vec<u32> {
        let mut words = vec![0; planes.words()];
        planes.copy_to(&mut words);
        let [first, places, full, _] = planes.descriptors()[bundle].map(|number| number as usize);
        let lead = query.len().div_ceil(rows).max(1) * rows - query.len();
        let mut found = Vec::new();
        for item in 0..ITEMS {
            let word = |row: usize| words[(first + row) * ITEMS + item];
            let mut columns = vec![[u32::MAX, 0]; places];
            for row in 0..lead + query.len() {
                let letter = if row < lead { NEVER } else { query[row - lead] };
                let mut vertical = [if row < lead { 0 } else { u32::MAX }, 0];
                for (place, column) in columns.iter_mut().enumerate() {
                    let differs = |plane: usize| {
                        word(place * planes.planes() + plane)
                            ^ (u32::from(letter >> plane & 1)).wrapping_neg()
                    };
                    let differ = match letter {
                        NEVER => u32::MAX,
                        _ => (0..planes.planes()).fold(0, |all, plane| all | differs(plane)),
                    };
                    let ([rise, fall], [right, back]) = (vertical, *column);
                    let costly = differ & !(fall | back);
                    *column = [fall | (costly & !rise), rise & !costly];
                    vertical = [back | (costly & !right), right & !costly];
                }
            }
            let mut numbers = [query.len() as i32; 32];
            for (place, [right, back]) in columns.iter().enumerate() {
                let longer =
                    if place < full { u32::MAX } else { word(places * planes.planes() + place - full) };
                for (nth, number) in numbers.iter_mut().enumerate() {
                    let bit = |word: u32| (word & longer) >> super::super::planes::lane(nth) & 1;
                    *number += bit(*right) as i32 - bit(*back) as i32;
                }
            }
            found.extend(numbers.map(|number| number as u32));
        }
        found
    }

    fn texts(random: &mut Random, count: usize, longest: usize, alphabet: &[char]) -> Vec<Vec<char>> {
        let mut text = || {
            let length = random.idx(longest + 1);
            (0..length).map(|_| alphabet[random.idx(alphabet.len())]).collect()
        };
        (0..count).map(|_| text()).collect()
    }

    #[test]
    fn planes_have_the_distances_of_the_definition() {
        let mut random = Random::new(7);
        for (letters, longest, count) in [(1, 5, 40), (4, 33, 1100), (26, 20, 70), (300, 12, 90)] {
            let alphabet: Vec<char> = ('a'..).take(letters).collect();
            let mut all = texts(&mut random, count, longest, &alphabet);
            all.push(vec!['a'; LETTERS_MAX + 1]);
            let all: Vec<&[char]> = all.iter().map(Vec::as_slice).collect();
            let planes = TextPlanes::new(&all, &mut one_by_one()).unwrap();
            assert_eq!((planes.rest(), planes.order().len()), (&[count as u32][..], count));
            for query in texts(&mut random, 3, longest, &alphabet).iter().chain([&"ab!".chars().collect()]) {
                let codes: Vec<u16> = planes.codes(query).collect();
                let found: Vec<u32> =
                    (0..planes.bundles()).flat_map(|bundle| to_query(&planes, &codes, 8, bundle)).collect();
                assert_eq!(found.len(), planes.positions());
                for (text, found) in planes.order().iter().zip(found) {
                    let wanted = Levenshtein.reference(query, all[*text as usize]) as u32;
                    assert_eq!(found, wanted, "{query:?} and {:?}", all[*text as usize]);
                }
            }
        }
    }

    #[test]
    fn too_many_letters_have_no_planes() {
        let many: Vec<char> = ('\u{100}'..).take(513).collect();
        assert!(TextPlanes::new(&[&many[..512]], &mut one_by_one()).is_some());
        assert!(TextPlanes::new(&[&many], &mut one_by_one()).is_none());
        assert!(TextPlanes::new(&[], &mut one_by_one()).is_some_and(|planes| planes.positions() == 0));
    }

    #[test]
    fn strips_fit_the_queries() {
        assert_eq!(
            [1, 8, 9, 16, 20, 32, 64, 1000].map(|length| rows_of(&[length], 1)),
            [8, 8, 16, 16, 32, 32, 32, 32]
        );
        assert_eq!([8, 32].map(|length| rows_of(&[length], 2)), [8, 16]);
        assert_eq!([0, 63, 64, 255, 256, 1024].map(digits), [6, 6, 8, 8, 11, 11]);
    }
}
